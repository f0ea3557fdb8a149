"""Hostile labels in every place where labels are written: nothing runs, loads, breaks or lies."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import unicodedata
from contextlib import redirect_stderr, redirect_stdout
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from hostile.conftest import Browser
from hostile.logs import hostile_runs, hostile_tasks, run, write_rows
from hostile.payloads import HOST, MARK, PAYLOADS
from sojourn.readers import read_sessions, read_traces

pytestmark = pytest.mark.thorough

TEXTS = list(PAYLOADS.values())
BATCHES = [TEXTS[k : k + 8] for k in range(0, len(TEXTS), 8)]
FAST = ("--resamples", 99, "--no-chain")
# What a page of ours is made of, and nothing else.
TAGS = frozenset(
    [
        *("html", "head", "meta", "title", "style", "body", "a", "header", "p", "h1", "h2", "h3"),
        *("main", "section", "div", "table", "thead", "tbody", "tr", "th", "td", "code", "ul"),
        *("li", "strong", "figure", "figcaption", "dl", "dt", "dd", "footer", "pre", "article"),
        *(
            "svg",
            "g",
            "path",
            "defs",
            "use",
            "clippath",
            "rect",
            "text",
            "span",
            "details",
            "summary",
        ),
    ]
)
_LOADS = {"src", "srcset", "action", "formaction", "poster", "data", "background", "ping"}


class _Page(HTMLParser):
    """Notes what is on a page that must not be."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.n_tags = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.n_tags += 1
        if tag not in TAGS:
            self.faults.append(f"<{tag}>")
        for name, value in attrs:
            value = value or ""
            if name.startswith("on") or name in _LOADS:
                self.faults.append(f"{tag} {name}={value[:80]}")
            if name.endswith("href") and not value.startswith("#"):
                self.faults.append(f"{tag} {name}={value[:80]}")
            if name == "http-equiv" and value.lower() != "content-security-policy":
                self.faults.append(f"{tag} {name}={value[:80]}")
            if name == "style" and "url(" in value and "url(#" not in value:
                self.faults.append(f"{tag} {name}={value[:80]}")


def faults_of(page: str) -> list[str]:
    """Return what stands on a page and must not."""
    parser = _Page()
    parser.feed(page)
    parser.close()
    assert parser.n_tags >= 3
    faults = parser.faults
    for style in re.findall(r"<style[^>]*>(.*?)</style>", page, re.DOTALL):
        faults += re.findall(r"@import|url\([^#)]", style)
    return faults + harmful_letters(page)


def harmful_letters(text: str) -> list[str]:
    """Return the letters that steer a terminal or turn the direction of a text."""
    found = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    return sorted(f"U+{ord(c):04X}" for c in found - {"\n"})


@pytest.fixture(scope="module")
def written(grouped_runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Assess the groups once: a page and the JSON."""
    out = tmp_path_factory.mktemp("out")
    files = ("--html", out / "a.html", "--json", out / "a.json")
    shown = io.StringIO()
    with redirect_stdout(shown), redirect_stderr(shown):
        assert run("assess", grouped_runs, *FAST, *files) == 0
    (out / "shown.txt").write_text(shown.getvalue(), encoding="utf-8")
    return out


@pytest.fixture(scope="module")
def chain_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Assess one group, whose states and tasks are payloads, with its figures."""
    out = tmp_path_factory.mktemp("chain")
    rows = [{**row, "task_set": "s", "agent": TEXTS[0], "model": TEXTS[2]}
            for row in hostile_runs(TEXTS[:8])]  # fmt: skip
    logs = write_rows(out / "runs.jsonl", rows)
    words = ("assess", logs, "--quick", "--resamples", 99, "--draws", 99, "--html", out / "a.html")
    assert run(*words) == 0
    return out / "a.html"


@pytest.fixture(scope="module")
def session_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Assess sessions whose every label is a payload."""
    out = tmp_path_factory.mktemp("sessions")
    logs = write_rows(out / "log.jsonl", hostile_tasks(TEXTS[:16]))
    assert run("assess", logs, "--max-states", 1, "--html", out / "a.html") == 0
    return out / "a.html"


@pytest.fixture(scope="module")
def comparison_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compare runs of two models that are payloads, at tasks that are payloads."""
    out = tmp_path_factory.mktemp("comparison")
    rows = [
        {"task_id": text, "task_repeat": k, "outcome": (len(text) + k + shift) % 2, "model": model}
        for shift, model in enumerate(TEXTS[:2])
        for text in TEXTS
        for k in range(2)
    ]
    logs = write_rows(out / "runs.jsonl", rows)
    words = ("compare", logs, "--by", "model", "--resamples", 99, "--html", out / "a.html")
    assert run(*words) == 0
    return out / "a.html"


PAGES = ("grouped_page", "chain_page", "session_page", "comparison_page")


@pytest.fixture(scope="module")
def grouped_page(written: Path) -> Path:
    return written / "a.html"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_tag_or_attribute_of_a_log(request: pytest.FixtureRequest, name: str) -> None:
    page = request.getfixturevalue(name).read_text(encoding="utf-8")
    assert faults_of(page) == []
    assert "document.title=" in page  # a label is there, and only shown


def test_the_check_of_pages_sees_what_it_looks_for() -> None:
    page = "<html><head></head><body><p>{}</p></body></html>"
    for name, text in list(PAYLOADS.items())[:16]:
        if name not in ("address of a script", "attribute", "attribute in apostrophes"):
            assert faults_of(page.format(text)), name
    assert faults_of('<html><p><a href="javascript:x">y</a></p></html>')
    assert faults_of(page.format(PAYLOADS["colour"])) == ["U+001B"]


@pytest.mark.parametrize(
    ("name", "guarded"), [(PAGES[0], True), *((name, False) for name in PAGES)]
)
def test_a_page_in_a_browser_runs_and_loads_nothing(
    request: pytest.FixtureRequest,
    browser: Browser,
    tmp_path: Path,
    name: str,
    guarded: bool,
) -> None:
    text = request.getfixturevalue(name).read_text(encoding="utf-8")
    if not guarded:  # then the escaping alone must hold
        text, n = re.subn(r"<meta http-equiv=[^>]*>", "", text)
        assert n == 1
    page = tmp_path / "page.html"
    page.write_text(text, encoding="utf-8")
    visit = browser(page)
    assert "</main>" in visit.dom
    assert f"<title>{MARK}</title>" not in visit.dom
    assert visit.loads == []
    assert visit.console == ""


@pytest.mark.parametrize("label", ["script", "image that fails", "svg that loads", "style sheet"])
def test_the_browser_would_have_told(browser: Browser, tmp_path: Path, label: str) -> None:
    page = tmp_path / "page.html"
    page.write_text(f"<!DOCTYPE html><title>x</title><main><p>{PAYLOADS[label]}</p></main>")
    visit = browser(page)
    assert f"<title>{MARK}</title>" in visit.dom or any(HOST in ask for ask in visit.loads)


@pytest.mark.slow
def test_the_policy_of_a_page_stops_what_an_escaper_would_miss(
    browser: Browser, tmp_path: Path, grouped_page: Path
) -> None:
    text = grouped_page.read_text(encoding="utf-8")
    for label in ("script", "image that fails", "style sheet", "frame"):
        text = text.replace("</main>", f"{PAYLOADS[label]}</main>", 1)
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    visit = browser(tmp_path / "page.html", tells=True)
    assert f"<title>{MARK}</title>" not in visit.dom
    assert visit.loads == []
    assert "Content Security Policy" in visit.console  # it told of each


def fake_browser(folder: Path, launches: list[str]) -> Browser:
    """Return a browser whose n-th launch is the n-th of these lines of shell, the last for ever."""
    cases = "".join(f"{k}) {line};;\n" for k, line in enumerate(launches[:-1]))
    program = folder / "browser"
    program.write_text(
        f"#!/bin/sh\nn=$(wc -l < {folder}/log)\necho >> {folder}/log\n"
        f"case $n in\n{cases}*) {launches[-1]};;\nesac\n"
    )
    program.chmod(0o755)
    (folder / "log").touch()

    class Nowhere:
        port = 9

        def __init__(self) -> None:
            self.asked = ["GET http://left.behind/ HTTP/1.1"]

    return Browser(str(program), Nowhere(), lambda: folder)  # type: ignore[arg-type]


WHOLE = "echo '<body></body>'"
TOLD = "echo '[1:CONSOLE] told' >&2"


def test_a_browser_that_dies_or_leaves_early_is_launched_again(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    visit = fake_browser(tmp_path, ["exit 3", "true", WHOLE, f"{WHOLE}; {TOLD}"])(page)
    assert (visit.dom, visit.console, visit.loads) == ("<body></body>\n", "", [])
    assert len((tmp_path / "log").read_text()) == 3
    (tmp_path / "log").unlink()
    visit = fake_browser(tmp_path, [TOLD, "exit 3", f"{WHOLE}; {TOLD}"])(page)
    assert visit.console.count("told") == 2  # what an earlier launch wrote is kept
    (tmp_path / "log").unlink()
    visit = fake_browser(tmp_path, [WHOLE, f"{WHOLE}; {TOLD}"])(page, tells=True)
    assert visit.console == "[1:CONSOLE] told"
    (tmp_path / "log").unlink()
    assert fake_browser(tmp_path, [WHOLE])(page, tells=True).console == ""
    with pytest.raises(subprocess.CalledProcessError):
        fake_browser(tmp_path, ["exit 3"])(page)


def test_a_notebook_shows_text_only(grouped_runs: Path) -> None:
    from sojourn.assess import assess_groups

    corpus = read_traces(grouped_runs)
    result = assess_groups(corpus.select(np.arange(32)), chain=None, n_resamples=99, rng=0)
    for group in result:
        assert faults_of(f"<html><body><p></p>{group._repr_html_()}</body></html>") == []


TERMINAL: dict[str, tuple[object, ...]] = {
    "validate": ("validate",),
    "dry run": ("assess", "--dry-run"),
    "gate": ("gate", "success_rate >= 0.5", "--per-task", 0.9, "--resamples", 99),
    "strict": ("validate", "--strict"),
    "no such column": ("assess", "--map", "task_id=nothing"),
}


@pytest.mark.parametrize("verb", TERMINAL)
def test_a_terminal_gets_no_control_character(
    grouped_runs: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    word, *options = TERMINAL[verb]
    assert run(word, grouped_runs, *options) in (0, 1, 3, 6)
    shown = capsys.readouterr()
    assert harmful_letters(shown.out) == []
    assert harmful_letters(shown.err) == []
    assert len(shown.out + shown.err) > 100


def test_words_that_are_no_verdicts_are_told_harmlessly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"task_id": f"t{k}", "outcome": text} for k, text in enumerate([*TEXTS, 1, 0])]
    logs = write_rows(tmp_path / "odd.jsonl", rows)
    assert run("assess", logs, *FAST, "--html", tmp_path / "a.html") == 0
    shown = capsys.readouterr()
    assert "no word that we know" in shown.out
    assert harmful_letters(shown.out + shown.err) == []
    assert faults_of((tmp_path / "a.html").read_text(encoding="utf-8")) == []


def test_the_text_of_an_assessment_has_no_control_character(written: Path) -> None:
    text = (written / "shown.txt").read_text(encoding="utf-8")
    assert harmful_letters(text) == []
    assert "<script>" in text


def test_names_of_files_may_be_hostile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a\x1b[31m\n::error::x"
    folder.mkdir()
    for name in (b"b\xff\x1b]0;x.jsonl", "c\u202e<script>.jsonl".encode()):
        path = folder / name.decode("utf-8", "surrogateescape")
        write_rows(path, [{"task_id": f"t{k}", "outcome": k % 2, "steps": ["a"]} for k in range(9)])
    (folder / "d\x1b.jsonl").write_text("{")
    out = tmp_path / "out"
    out.mkdir()
    words = ("--html", out / "a.html", "--json", out / "a.json", "--by", "source_uri")
    assert run("assess", folder, *words, *FAST) == 0
    for name in ("b.parquet", "b.jsonl"):
        assert run("convert", folder, "-o", out / name) == 0
        assert len(read_traces(out / name)) == 18
    assert run("validate", folder) == 0
    shown = capsys.readouterr()
    assert harmful_letters(shown.out + shown.err) == []
    assert faults_of((out / "a.html").read_text(encoding="utf-8")) == []
    json.loads((out / "a.json").read_text(encoding="utf-8"))


def test_json_is_exact_and_ascii(written: Path) -> None:
    text = (written / "a.json").read_text(encoding="ascii")
    document = json.loads(text)
    models = {group["group"]["model"] for group in document["groups"]}
    exact = {text for name, text in PAYLOADS.items() if name not in ("half a pair", "long")}
    assert exact - {text.strip() for text in exact} - models <= {"\t=1+1", "\r=1+1"}
    assert {text.strip() for text in exact} <= models | {text.strip() for text in models}


# The commands that write for a pipeline -> their words, their exit, the columns of their tables.
PIPELINE: dict[str, tuple[tuple[object, ...], int, set[int]]] = {
    "gate": (("success_rate >= 0.5", "--per-task", 0.9, "--resamples", 99), 1, {6}),
    "assess": (FAST, 0, {3, 4}),
}


@pytest.fixture(scope="module", params=PIPELINE)
def pipeline(
    request: pytest.FixtureRequest, grouped_runs: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """Write every form that a pipeline reads."""
    out = tmp_path_factory.mktemp(request.param)
    words, code, _ = PIPELINE[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GITHUB_STEP_SUMMARY", str(out / "summary.md"))
        files = ("--junit", out / "g.xml", "--markdown", out / "g.md", "--json", out / "g.json")
        assert run(request.param, grouped_runs, *words, *files) == code
    return request.param, out


def test_junit_is_xml_whose_names_are_the_labels(pipeline: tuple[str, Path]) -> None:
    root = ElementTree.parse(pipeline[1] / "g.xml").getroot()
    cases = root.findall("./testsuite/testcase")
    assert len(cases) == int(root.get("tests", "0")) >= len(TEXTS)
    known = {"failure", "error", "system-out", "skipped"}
    assert {child.tag for case in cases for child in case} <= known
    assert harmful_letters("".join(root.itertext())) == []
    names = " ".join(case.get("classname", "") for case in cases)
    assert "<script>" in names
    assert "]]>" in names


@pytest.mark.parametrize("name", ["g.md", "summary.md"])
def test_markdown_holds_no_markup_of_a_log(pipeline: tuple[str, Path], name: str) -> None:
    text = (pipeline[1] / name).read_text(encoding="utf-8")
    assert harmful_letters(text) == []
    bare = re.sub(r"\\[!-/:-@\[-`{-~]", "", text)  # without what is escaped
    rows = [line for line in bare.splitlines() if line.startswith("|")]
    assert len(rows) > len(TEXTS)
    assert {row.count("|") for row in rows} == PIPELINE[pipeline[0]][2]
    words = re.sub(r"^#{2,4} |\|---", "", bare, flags=re.MULTILINE)
    for mark in ("<", "[", "](", "![", "`", "*", "~", "@", "://", "www.", "$", "#"):
        assert mark not in words, f"{mark}: {words[words.index(mark) - 60 :][:120]}"


def test_markdown_becomes_text_by_a_reader_of_markdown(pipeline: tuple[str, Path]) -> None:
    markdown_it = pytest.importorskip("markdown_it")
    parser = markdown_it.MarkdownIt("gfm-like", {"html": True, "linkify": False})
    text = (pipeline[1] / "g.md").read_text(encoding="utf-8")
    page = re.sub("</?h[34]>", "", parser.render(text))
    assert faults_of(page) == []
    assert "<a " not in page
    assert page.count("<table>") == len(re.findall(r"^\|---", text, re.MULTILINE)) > 0


def test_markdown_of_a_comparison_holds_no_markup_of_a_log(tmp_path: Path) -> None:
    rows = [
        {"task_id": text, "task_repeat": k, "outcome": (len(text) + k + shift) % 2, "model": model}
        for shift, model in enumerate(TEXTS[16:24])
        for text in TEXTS[:25]
        for k in range(2)
    ]
    logs = write_rows(tmp_path / "runs.jsonl", rows)
    words = ("compare", logs, "--by", "model", "--resamples", 99, "--markdown", tmp_path / "c.md")
    assert run(*words) == 0
    text = (tmp_path / "c.md").read_text(encoding="utf-8")
    assert harmful_letters(text) == []
    bare = re.sub(r"\\[!-/:-@\[-`{-~]", "", text)
    assert {line.count("|") for line in bare.splitlines() if line.startswith("|")} == {6}
    words_alone = re.sub(r"^#{2,4} |\|---", "", bare, flags=re.MULTILINE)
    for mark in ("<", "[", "](", "![", "`", "*", "~", "@", "://", "www.", "$", "#"):
        assert mark not in words_alone, mark


def test_a_build_service_gets_our_commands_only(
    grouped_runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    words = ("gate", grouped_runs, "success_rate >= 0.5", "--per-task", 0.9, "--resamples", 99)
    assert run(*words) == 1
    lines = capsys.readouterr().err.splitlines()
    commands = [line for line in lines if "::" in line]
    assert len(commands) >= len(TEXTS)
    for line in commands:
        found = re.fullmatch(r"::(error|warning) title=([^:,]*)::(.*)", line)
        assert found, line
        assert not re.search(r"%(?!25|3A|2C)", found[2] + found[3]), line
        assert not found[2].startswith("pwned")


@pytest.mark.parametrize("batch", range(len(BATCHES)))
def test_drawings_and_model_checkers_get_quoted_names(tmp_path: Path, batch: int) -> None:
    rows = [
        {**row, "task_set": "s", "agent": "a", "model": "m", "steps": ["x", *row["steps"][:2]]}  # type: ignore[index]
        for row in hostile_runs(BATCHES[batch])
    ]
    logs, model = write_rows(tmp_path / "runs.jsonl", rows), tmp_path / "m.json"
    fit = ("fit", logs, "-o", model, "--no-certificate", "--draws", 19)
    assert run(*fit, "--process", "homogeneous") == 0
    json.loads(model.read_text(encoding="ascii"))
    for form in ("dot", "mermaid", "prism", "drn", "tra"):
        assert run("export", model, "--to", form, "-o", tmp_path / f"m.{form}") == 0
        text = (tmp_path / f"m.{form}").read_text(encoding="utf-8")
        assert not set(harmful_letters(text)) - {"U+0009"}, form
        for line in text.splitlines():
            check_line(form, line)
    assert run("whatif", model, "--top") == 0


_WORDS = r"[A-Za-z0-9 _.,\-]|#\d+;"
LINES = {
    "dot": r"digraph chain \{|  rankdir=LR;|\}|  n\d+ \[shape=(point|doublecircle|box)"
    r'(, label="([^"\\]|\\.)*")?\];|  n\d+ -> n\d+ \[label="[\d.]+"\];',
    "mermaid": rf'flowchart LR|  n0\(\( \)\)|  n\d+\["({_WORDS})*"\]|  n\d+\(\["\w+"\]\)'
    r'|  n\d+ -->\|"[\d.]+"\| n\d+',
    "tra": r"\d+ \d+( [\d.e-]+)?",
}


def check_line(form: str, line: str) -> None:
    """Raise where a line of a drawing or a model is none that we write."""
    if form in ("prism", "drn"):
        if line.startswith("//"):
            return
        assert "<" not in line.replace("F<=", "").replace("s<", "").replace("->", ""), line
        assert HOST not in line
        return
    assert re.fullmatch(LINES[form], line), line


def test_a_spreadsheet_computes_nothing_and_our_reader_gets_the_labels_back(
    tmp_path: Path,
) -> None:
    texts = [*TEXTS, "-5", "+1e3", "-.5", "''=x", "'plain", "007"]
    logs = write_rows(tmp_path / "log.jsonl", hostile_tasks(texts))
    assert run("convert", logs, "-o", tmp_path / "log.csv") == 0
    with (tmp_path / "log.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(read_sessions(logs)) > 600
    number = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e\d+)?")
    for row in rows:
        for cell in row.values():
            assert number.fullmatch(cell) or cell[:1] not in tuple("=+-@\t\r\n\uff1d"), cell
    before, after = read_sessions(logs), read_sessions(tmp_path / "log.csv")
    assert after.sessions.name == before.sessions.name
    for column in ("domain", "subdomain", "item"):
        old, new = getattr(before, column), getattr(after, column)
        assert [old[k] for k in range(len(before))] == [new[k] for k in range(len(after))]


@pytest.mark.parametrize("name", ["out.parquet", "out.jsonl"])
def test_files_of_ours_take_every_label_and_give_it_back(
    grouped_runs: Path, tmp_path: Path, name: str
) -> None:
    assert run("convert", grouped_runs, "-o", tmp_path / name) == 0
    before, after = read_traces(grouped_runs), read_traces(tmp_path / name)
    assert len(before) == len(after)
    for k in range(len(before)):
        old, new = before.trace(k), after.trace(k)
        assert (old.task_id, old.agent, old.model, old.cluster, [s.name for s in old.steps]) == (
            *(new.task_id, new.agent, new.model, new.cluster, [s.name for s in new.steps]),
        )
