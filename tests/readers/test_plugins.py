"""Readers of other packages, found by their entry point; and that each of ours is under test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sojourn.cli.main import main
from sojourn.errors import UnknownFormatError
from sojourn.readers import load_reader, read_traces, reader_names
from sojourn.readers.base import READERS
from sojourn.readers.finding import find_sources

HERE = Path(__file__).resolve().parent
MODULE = """
from sojourn.records import Outcome, Trace


class AbacusReader:
    name = "abacus"
    description = "Lines of an abacus"
    carries = "outcome"

    def claims(self, source, head):
        return head.startswith(b"ABACUS")

    def siblings(self, source):
        return ()

    def read(self, source, options):
        for line in source.read_text().splitlines()[1:]:
            task, _, verdict = line.partition(" ")
            yield Trace(
                task_id=task,
                outcome=Outcome(verdict),
                source_type=self.name,
                source_uri=str(source),
            )


class GreedyReader(AbacusReader):
    name = "greedy"

    def claims(self, source, head):
        return bool(head)


class Nothing:
    pass
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Install a package with a reader, as pip leaves one behind."""
    site = tmp_path / "site"
    info = site / "sojourn_abacus-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "sojourn_abacus.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sojourn-abacus\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(site))
    return monkeypatch


def offer(tmp_path: Path, **readers: str) -> None:
    lines = [f"{name} = sojourn_abacus:{reader}" for name, reader in readers.items()]
    info = tmp_path / "site" / "sojourn_abacus-1.0.dist-info"
    (info / "entry_points.txt").write_text("\n".join(["[sojourn.readers]", *lines]) + "\n")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.abacus"
    path.write_text("ABACUS\na success\nb failure\n")
    return path


@pytest.mark.usefixtures("install")
def test_a_package_brings_a_reader(
    tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UnknownFormatError):
        read_traces(log)
    offer(tmp_path, abacus="AbacusReader")
    assert "abacus" in reader_names()
    (source,) = find_sources(log)
    assert source.reader.name == "abacus"  # type: ignore[union-attr]
    corpus = read_traces(log)
    assert [corpus.trace(run).outcome.value for run in range(2)] == ["success", "failure"]
    assert main(["formats"]) == 0
    assert re.search(r"abacus +outcome +Lines of an abacus", capsys.readouterr().out)


@pytest.mark.usefixtures("install")
def test_a_reader_that_claims_the_file_of_another_is_told(tmp_path: Path, log: Path) -> None:
    offer(tmp_path, abacus="AbacusReader", greedy="GreedyReader")
    with pytest.raises(UnknownFormatError, match="claimed by abacus and greedy"):
        read_traces(log)
    assert len(read_traces(log, format="abacus")) == 2


@pytest.mark.usefixtures("install")
def test_a_plug_in_that_is_no_reader_is_named(tmp_path: Path) -> None:
    offer(tmp_path, abacus="Nothing")
    with pytest.raises(TypeError, match="plug-in for 'abacus'"):
        load_reader("abacus")


@pytest.mark.parametrize("name", sorted(READERS))
def test_each_of_our_readers_is_under_the_conformance_suite(name: str) -> None:
    texts = (path.read_text() for path in HERE.glob("test_*.py"))
    assert any(f'format = "{name}"' in text for text in texts)


@pytest.mark.parametrize("name", sorted(READERS))
def test_each_of_our_readers_is_documented(name: str) -> None:
    assert f"`{name}`" in (HERE.parents[1] / "docs" / "formats.md").read_text()


@pytest.mark.parametrize("name", sorted(READERS))
def test_each_of_our_readers_says_what_it_carries(name: str) -> None:
    words = re.split(r"[,;] ", load_reader(name).carries)
    known = ("outcome", "steps", "attempts", "families", "what was skipped", "tasks", "task")
    assert all(word.startswith(known) for word in words), words
