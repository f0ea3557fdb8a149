"""Logs that vanish, shrink, are locked or go round in circles: said in a line, and read past."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faults.conftest import write_log
from faults.nursery import Nursery
from sojourn.errors import ReaderError
from sojourn.readers import _json, finding, read_traces, reading
from sojourn.readers.base import Source, load_reader, reader_names

pytestmark = pytest.mark.thorough

DATA = Path(__file__).resolve().parents[1] / "data"
SAMPLES = sorted(path for path in DATA.iterdir() if path.is_dir())


def reasons(path: Path) -> dict[str, int]:
    return {item.reason: item.count for item in read_traces(path).skipped}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
@pytest.mark.parametrize("change", ["removed", "emptied", "halved"])
def test_a_file_that_changes_between_its_finding_and_its_reading_is_told(
    sample: Path, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file in turn, of every format: the others are read, and nothing crashes."""
    whole = finding.find_sources
    names = [path.relative_to(sample) for path in sorted(sample.rglob("*")) if path.is_file()]
    for number, name in enumerate(names):
        folder = tmp_path / str(number)
        shutil.copytree(sample, folder)
        write_log(folder / "zz.jsonl")
        target = folder / name

        def then_change(*args: object, target: Path = target, **more: object) -> Iterator[object]:
            yield from list(whole(*args, **more))  # type: ignore[arg-type]
            if change == "removed":
                target.unlink(missing_ok=True)
            else:
                kept = target.stat().st_size // 2 if change == "halved" else 0
                os.truncate(target, kept)

        monkeypatch.setattr(finding, "find_sources", then_change)
        corpus = read_traces(folder)
        assert len(corpus) >= 24, "the sound log beside it was not read"


def test_a_file_that_its_writer_cuts_while_it_is_decoded_does_not_end_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "results.json"
    run = json.loads((DATA / "tau-bench" / "results.json").read_text())[0]
    source.write_text(json.dumps([run | {"task_id": number} for number in range(300)]))
    opened = _json.open_buffer

    def then_cut(path: Path) -> object:
        found = opened(path)
        os.truncate(path, 100)
        return found

    monkeypatch.setattr("sojourn.readers.tau_bench.open_buffer", then_cut)
    child = os.fork()
    if child == 0:  # a mapped file would end this process by a bus error
        code = 1
        try:
            code = 0 if len(read_traces(source)) == 300 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_log_that_goes_after_it_was_read_keeps_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = json.loads((DATA / "tau-bench" / "results.json").read_text())[0]
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps([run | {"task_id": name}]))
    read = reading.read_source

    def then_remove(source: Source, *rest: object, **more: object) -> None:
        read(source, *rest, **more)  # type: ignore[arg-type]
        source.path.unlink()

    monkeypatch.setattr(reading, "read_source", then_remove)
    assert len(read_traces(tmp_path)) == 2


@pytest.mark.parametrize("name", [*reader_names()])
def test_a_claim_that_meets_a_lost_file_costs_that_file_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for letter in "abc":
        write_log(tmp_path / f"{letter}.jsonl", shift=ord(letter))
    kind = type(load_reader(name))
    claims: Callable[..., bool] = kind.claims

    def lose(self: object, source: Path, head: bytes) -> bool:
        if source.name == "b.jsonl":
            raise FileNotFoundError(2, "No such file or directory", str(source))
        return claims(self, source, head)

    monkeypatch.setattr(kind, "claims", lose)
    assert len(read_traces(tmp_path)) == 48
    assert reasons(tmp_path) == {"No such file or directory": 1}


def test_locked_files_and_folders_are_counted_and_the_rest_is_read(
    nursery: Nursery, tmp_path: Path
) -> None:
    write_log(tmp_path / "a.jsonl")
    write_log(tmp_path / "b.jsonl", shift=1).chmod(0)
    inner = tmp_path / "inner"
    inner.mkdir()
    write_log(inner / "c.jsonl", shift=2)
    inner.chmod(0)
    try:
        done = nursery.run("convert", tmp_path, "-o", "out.jsonl", powerless=True)
        assert done.code == 0, done
        assert "24 runs" in done.out
        assert "2 items were skipped" in done.err
        strict = nursery.run(
            "convert", tmp_path, "-o", "out.jsonl", "--strict", "-q", powerless=True
        )
        assert strict.code == 3
        assert "Permission denied (--strict)" in strict.err
        alone = nursery.run("convert", tmp_path / "b.jsonl", "-o", "x.jsonl", powerless=True)
        assert alone.code == 3
        assert alone.err == f"sojourn: {tmp_path / 'b.jsonl'}: Permission denied\n"
    finally:
        inner.chmod(0o755)


def test_links_are_counted_wherever_they_lead(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "logs"
    outside.mkdir()
    folder.mkdir()
    write_log(outside / "secret.jsonl")
    write_log(folder / "a.jsonl", shift=1)
    (folder / "out").symlink_to(outside)
    (folder / "file").symlink_to(outside / "secret.jsonl")
    (folder / "round").symlink_to(folder)
    (folder / "self").symlink_to(folder / "self")
    (folder / "lost").symlink_to(tmp_path / "nowhere")
    assert len(read_traces(folder)) == 24
    assert reasons(folder) == {"links are not followed": 5}


@pytest.mark.parametrize("name", ["self", "lost"])
def test_a_link_to_nothing_is_one_line(name: str, tmp_path: Path, nursery: Nursery) -> None:
    (tmp_path / "self").symlink_to(tmp_path / "self")
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ReaderError, match="no such file"):
        read_traces(tmp_path / name)
    for command in ("assess", "convert", "gate", "compare", "fit", "plan", "validate"):
        more = {"convert": ["-o", "x.jsonl"], "fit": ["-o", "x"], "compare": [tmp_path / name]}
        rule = ["success_rate >= 0.1"] if command in ("gate", "plan") else []
        done = nursery.run(command, tmp_path / name, *more.get(command, rule))
        assert done.code == 3, done
        assert done.err.count("\n") == 1 or command == "validate"
        assert "no such file" in done.err + done.out


def test_a_pipe_or_device_among_logs_is_passed_by(tmp_path: Path) -> None:
    write_log(tmp_path / "a.jsonl")
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert len(read_traces(tmp_path)) == 24
