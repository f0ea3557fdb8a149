"""What ``assess`` writes for pipelines: Markdown, and JUnit XML with a case a claim."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from builders import corpus_of
from sojourn.assess import GroupedAssessment, GroupedSessionAssessment, assess_session_groups
from sojourn.assess.assess_text import junit, markdown
from sojourn.assess.traces import assess_groups
from sojourn.cli.main import main
from sojourn.corpus import Group
from sojourn.estimates import Claim, Verdict
from sojourn.readers import read_sessions

HOSTILE = 'm|[x](http://a.b)<script>]]>"&'
WORDS = ["sss", "ssf", "sff", "fff"] * 6
CLAIMS = (
    Claim(claim="rate", verdict=Verdict.ACCEPTED, reasons=("counted",)),
    Claim(claim="order", verdict=Verdict.REJECTED, reasons=("memory | more",), next="look <back>"),
    Claim(claim="timing", verdict=Verdict.INCONCLUSIVE, reasons=("too few",)),
)


@pytest.fixture(scope="module")
def assessed() -> GroupedAssessment:
    found = assess_groups(corpus_of(WORDS, model=HOSTILE), chain=None, n_resamples=99, rng=0)
    other = Group((("model", "none"),))
    return GroupedAssessment(
        groups=(replace(found.groups[0], claims=CLAIMS),), unusable=((other, "nothing ran"),)
    )


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> GroupedSessionAssessment:
    path = tmp_path_factory.mktemp("log") / "sessions.csv"
    lines = [
        f"s{s},{p},{'ab'[p % 2]},{int((s * 7 + p * 3) % 5 > 0)}"
        for s in range(6)
        for p in range(10)
    ]
    path.write_text("session_id,position,domain,outcome\n" + "\n".join(lines) + "\n")
    return assess_session_groups(read_sessions(path), n_max=5, n_states=(1,), rng=0)


def _cases(text: str) -> dict[str, ElementTree.Element]:
    root = ElementTree.fromstring(text)
    return {case.get("name", ""): case for case in root.findall("./testsuite/testcase")}


def test_a_claim_passes_fails_or_is_skipped_by_its_verdict(assessed: GroupedAssessment) -> None:
    text = junit(assessed)
    cases = _cases(text)
    assert [child.tag for child in cases["rate"]] == ["system-out"]
    assert cases["rate"][0].text == "counted"
    assert [child.tag for child in cases["order"]] == ["failure"]
    assert cases["order"][0].get("message") == "rejected: memory | more; next: look <back>"
    assert [child.tag for child in cases["timing"]] == ["skipped"]
    assert cases["timing"][0].get("message") == "inconclusive: too few"
    assert cases["order"].get("classname") == str(assessed.groups[0].group)


def test_counts_of_suites_are_those_of_their_cases(assessed: GroupedAssessment) -> None:
    root = ElementTree.fromstring(junit(assessed))
    suites = root.findall("testsuite")
    assert [suite.get("tests") for suite in suites] == ["3", "1"]
    for place in (root, *suites):
        cases = list(place.iter("testcase"))
        kinds = [case[0].tag for case in cases]
        assert place.get("tests") == str(len(cases))
        assert place.get("failures") == str(kinds.count("failure"))
        assert place.get("skipped") == str(kinds.count("skipped"))
        assert place.get("errors") == "0"


def test_a_group_of_which_nothing_counts_is_told(assessed: GroupedAssessment) -> None:
    case = _cases(junit(assessed))["a run counts"]
    assert case[0].get("message") == "inconclusive: nothing ran"
    assert "none: nothing ran" in markdown(assessed)


def test_markdown_holds_the_figures_and_claims_that_are_printed(
    assessed: GroupedAssessment,
) -> None:
    text = markdown(assessed).replace("\\", "")
    group = assessed.groups[0]
    row = group.pass_row(3)
    assert row is not None
    assert row.all_succeed.interval is not None
    value, low = row.all_succeed.value, row.all_succeed.interval.low
    assert f"| pass^3 | {value:.3f} [{low:.3f}, " in text
    assert f"{group.corpus.n_counted} of 72 runs count, 24 tasks" in text
    assert "| order | rejected | memory | more; next: look <back> |" in text
    for caution in group.cautions:
        assert caution.code in text


def test_labels_and_reasons_do_nothing_in_markdown(assessed: GroupedAssessment) -> None:
    text = re.sub(r"\\[!-/:-@\[-`{-~]", "", markdown(assessed))  # without what is escaped
    for mark in ("<script", "[x](", "http://", "<back>", "memory | more"):
        assert mark not in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in tables} == {3, 4}


def test_domains_of_sessions_are_told_apart(sessions: GroupedSessionAssessment) -> None:
    domains = sessions.groups[0].domains
    assert len(domains) == 2
    root = ElementTree.fromstring(junit(sessions))
    cases = list(root.iter("testcase"))
    assert len(cases) == sum(len(domain.claims) for domain in domains)
    ends = {case.get("classname", "").rsplit(": ")[-1] for case in cases}
    assert ends == {"a", "b"}
    text = markdown(sessions).replace("\\", "")
    next_task = domains[1].reliability.next_task.value
    assert next_task is not None
    assert f"| next task | {next_task:.3f} [" in text
    assert "| next 5 tasks all succeed | " in text
    assert "the whole mix" in text
    assert "60 tasks in 6 sessions, 60 outcomes known" in text


def test_the_command_writes_both_and_adds_to_the_summary_of_a_build(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, summary = tmp_path / "runs.jsonl", tmp_path / "summary.md"
    runs = [{"task_id": f"t{i}", "outcome": i % 3 > 0, "n_steps": 2 + i % 4} for i in range(24)]
    log.write_text("".join(json.dumps(run) + "\n" for run in runs))
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    files = ("--markdown", str(tmp_path / "a.md"), "--junit", str(tmp_path / "a.xml"))
    assert main(["assess", str(log), "--resamples", "99", "--no-chain", *files]) == 0
    shown = capsys.readouterr()
    assert "wrote" in shown.err
    assert "wrote" not in shown.out
    text = (tmp_path / "a.md").read_text()
    assert text.startswith("## Sojourn assessment\n")
    assert summary.read_text() == "before\n" + text
    assert "rate" in _cases((tmp_path / "a.xml").read_text())


@pytest.mark.parametrize("option", ["--markdown", "--junit"])
def test_what_cannot_be_written_is_refused_before_any_work(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["assess", str(tmp_path), option, str(tmp_path / "no" / "file")]) == 2
    assert option in capsys.readouterr().err
    assert main(["assess", str(tmp_path), option, str(tmp_path)]) == 2
