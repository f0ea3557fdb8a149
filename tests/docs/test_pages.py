"""The pages say what is so: their examples run, what they show is printed, their links lead on."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import sojourn
from doc_pages import Block, PageRun, alike, blocks_of, commands_of, compare, run_command
from sojourn.cli.main import app
from sojourn.data import example_path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ALL = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
QUESTIONS = sorted((DOCS / "questions").glob("*.md"))
RUN = [
    *(DOCS / name for name in ("index.md", "start.md", "reading-the-report.md", "certificate.md")),
    *(DOCS / "faq.md", DOCS / "api" / "index.md", *QUESTIONS),
]


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    for name in [
        n for n, m in sys.modules.items() if str(tmp_path) in str(getattr(m, "__file__", ""))
    ]:
        del sys.modules[name]


@pytest.mark.thorough
@pytest.mark.parametrize("page", RUN, ids=named)
def test_examples_run_and_print_what_is_shown(page: Path, folder: Path) -> None:
    run = PageRun(folder=folder)
    for block in blocks_of(page.read_text(encoding="utf-8")):
        try:
            run.take(block)
        except Exception as error:
            raise AssertionError(f"{named(page)}, line {block.line}: {error}") from error
    assert run.n_run


@pytest.mark.parametrize("page", QUESTIONS, ids=named)
def test_a_question_is_answered_in_the_shell_and_in_python(page: Path) -> None:
    blocks = [b for b in blocks_of(page.read_text(encoding="utf-8")) if not b.skipped]
    assert {"sh", "python"} <= {block.language for block in blocks}


@pytest.mark.parametrize("page", ALL, ids=named)
def test_commands_have_the_options_that_pages_give_them(page: Path) -> None:
    verbs = typer.main.get_command(app).commands
    for block in blocks_of(page.read_text(encoding="utf-8")):
        for line in shell_lines(block):
            for words in split_at_joins(shlex.split(line, comments=True)):
                if len(words) < 2 or words[0] != "sojourn" or words[1].startswith("-"):
                    continue
                where = f"{named(page)}, line {block.line}: {line.strip()}"
                assert words[1] in verbs, where
                parameters = verbs[words[1]].params
                known = {name for p in parameters for name in (*p.opts, *p.secondary_opts)}
                given = {word.partition("=")[0] for word in words[2:] if re.match("--?[a-z]", word)}
                assert given <= known | {"--help", "-h"}, where


def shell_lines(block: Block) -> list[str]:
    """Return the commands of a shell block, or of the steps of a workflow."""
    if block.language == "sh":
        return list(commands_of(block.code))
    if block.language == "yaml":
        return re.findall(r"\bsojourn [^\n]*", re.sub(r"\n\s+--", " --", block.code))
    return []


def split_at_joins(words: list[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word in ("&&", "|", ";", "&", ">"):
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def anchors_of(text: str) -> set[str]:
    """Return the anchors of a page's headings, as the site builder and GitHub make them."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    plain = [re.sub(r"[^\w\s-]", "", title.strip().lower()) for title in titles]
    return {re.sub(r"[-\s]+", "-", title).strip("-") for title in plain}


@pytest.mark.parametrize("page", ALL, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{named(page)} links to {target}"
        if anchor and there.suffix == ".md":
            assert anchor in anchors_of(there.read_text(encoding="utf-8")), f"{page.name}: {target}"


def test_the_reader_of_the_page_is_found_by_its_entry_point(folder: Path) -> None:
    page = DOCS / "questions" / "my-format.md"
    files = {b.title: b.code + "\n" for b in blocks_of(page.read_text(encoding="utf-8")) if b.title}
    (folder / "our_logs.py").write_text(files["our_logs.py"])
    (folder / "logs").mkdir()
    (folder / "logs" / "today.log").write_text(files["today.log"])
    table = re.search(
        r'\[project\.entry-points\."sojourn\.readers"\]\n(.+)', files["package/pyproject.toml"]
    )
    assert table is not None
    name, _, place = table[1].partition(" = ")
    installed = folder / "our_logs-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: our-logs\nVersion: 1\n")
    (installed / "entry_points.txt").write_text(
        f"[sojourn.readers]\n{name} = {place.strip(chr(34))}\n"
    )
    assert len(sojourn.read_traces("logs")) == 2
    assert "our-logs" in run_command("sojourn assess logs --dry-run")
    assert "a run without a goal" in run_command("sojourn validate logs")


def test_the_written_example_is_the_one_that_ships(folder: Path) -> None:
    run_command("sojourn demo -o airline.jsonl")
    written, shipped = sojourn.read_traces("airline.jsonl"), sojourn.read_traces(example_path())
    ours, theirs = (
        [[(step.name, step.kind, step.ok) for step in corpus.trace(i).steps] for i in range(200)]
        for corpus in (written, shipped)
    )
    assert ours == theirs
    assert written.outcome.tolist() == shipped.outcome.tolist()
    run_command("sojourn demo --sessions -o sessions.csv")
    assert len(sojourn.read_sessions("sessions.csv")) == 2475
    run_command("sojourn demo -o airline.csv   # exit 2")
    run_command("sojourn demo -o nowhere/airline.jsonl   # exit 2")


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M))
    pages = {p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md")}
    assert listed == {p for p in pages if not p.startswith("studies/")} | {"studies/README.md"}


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a 0.12", "a   0.14"),
        ("...\nb", "a\nb"),
        ("a\n...", "a\nb"),
        ("a\n...\nc", "a\nb\nc"),
        ("1,000 runs", "1,000  runs"),
    ],
)
def test_what_counts_as_shown(shown: str, printed: str) -> None:
    compare(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a 0.12", "a 0.16"),
        ("a 12", "a 13"),
        ("b", "a\nb"),
        ("a", "a\nb"),
        ("a\nc", "a\nb\nc"),
        ("...\nc\nb\n...", "a\nb\nc"),
        ("a 0.12", "a 0.123"),
        ("a -0.12", "a 0.12"),
    ],
)
def test_what_does_not(shown: str, printed: str) -> None:
    with pytest.raises(AssertionError):
        compare(shown, printed)


def test_numbers_inside_names_are_words() -> None:
    assert not alike("gpt-4o", "gpt-5o")


@pytest.mark.parametrize("text", ["```sh\nx", "```sh fast\nx\n```", "  ```sh\n  x\n  ```"])
def test_fences_that_would_be_passed_over_are_errors(text: str) -> None:
    with pytest.raises(ValueError, match="line 1"):
        blocks_of(text)


def test_a_command_must_exit_as_the_page_says(folder: Path) -> None:
    with pytest.raises(AssertionError, match="exit 3"):
        run_command("sojourn validate nothing.jsonl")
    run_command("sojourn validate nothing.jsonl   # exit 3")
    with pytest.raises(AssertionError, match="no command"):
        run_command("rm -r /")
