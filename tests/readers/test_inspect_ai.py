from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readers.conformance import ReaderConformance
from readers.inspect_logs import (
    DEFLATED,
    STORED,
    ZSTANDARD,
    Entry,
    call,
    conversation,
    entries_of,
    header,
    raw_zip,
    read,
    said,
    sample,
    write_eval,
    write_json,
)
from sojourn.errors import EmptySourceError, ReaderError
from sojourn.readers.inspect_ai import InspectReader
from sojourn.readers.reading import read_traces
from sojourn.records import End, LimitKind, Outcome, StepKind, Trace

SUCCESS, FAILURE, UNSCORED = Outcome.SUCCESS, Outcome.FAILURE, Outcome.UNSCORED


class TestDocument(ReaderConformance):
    format = "inspect"
    sample = "inspect/sums.json"
    n_runs = 4


class TestArchive(ReaderConformance):
    format = "inspect"
    sample = "inspect/sums.eval"
    n_runs = 4
    binary = True


def one(folder: Path, item: dict[str, Any], **spec: Any) -> Trace:
    (trace,), skipped = read(write_json(folder / "a.json", [item], **spec))
    assert not skipped
    return trace


# Containers


@pytest.mark.parametrize("method", [STORED, DEFLATED, ZSTANDARD])
def test_both_containers_give_the_same_runs(tmp_path: Path, method: int) -> None:
    samples = [sample(id, value, epoch) for id in (1, "b") for epoch in (1, 2) for value in "CI"]
    samples = [*samples[::2], sample(3, None)]
    archive = read(write_eval(tmp_path / "a.eval", samples, method))[0]
    document = read(write_json(tmp_path / "a.json", samples))[0]
    assert [(t.task_id, t.task_repeat) for t in archive] == [
        ("1", 1), ("1", 2), ("b", 1), ("b", 2), ("3", 1),
    ]  # fmt: skip
    for left, right in zip(archive, document, strict=True):
        same = {name: getattr(left, name) for name in Trace.__slots__ if name != "source_uri"}
        assert same == {name: getattr(right, name) for name in same}


def test_the_same_log_in_both_forms_counts_once(tmp_path: Path) -> None:
    samples = [sample(1), sample(2, "I")]
    write_eval(tmp_path / "a.eval", samples)
    write_json(tmp_path / "a.json", samples)
    corpus = read_traces(tmp_path)
    assert len(corpus) == 2
    (note,) = corpus.skipped
    assert note.count == 2
    assert "stands there twice" in note.reason


def test_identity_comes_from_the_header(tmp_path: Path) -> None:
    trace = one(tmp_path, sample("007", epoch=3), solver="react")
    assert (trace.task_id, trace.task_set, trace.task_repeat) == ("007", "sums", 3)
    assert (trace.job_id, trace.model, trace.agent) == ("E", "m/x", "react")
    assert one(tmp_path, sample(), eval_id="").job_id == "R:T"


def test_an_id_of_many_digits_loses_none(tmp_path: Path) -> None:
    digits = "1" * 40
    path = write_json(tmp_path / "a.json", [sample(0), sample(0)])
    text = path.read_text()
    text = text.replace('"id": 0', f'"id": {digits}1', 1).replace('"id": 0', f'"id": {digits}2', 1)
    for oddity in (text, text.replace('"answer": "4"', '"answer": NaN')):
        path.write_text(oddity)
        assert [trace.task_id for trace in read(path)[0]] == [digits + "1", digits + "2"]


def test_a_log_without_header_falls_back_to_its_journal(tmp_path: Path) -> None:
    members = [entry for entry in entries_of([sample(1)]) if entry.name != "header.json"]
    path = tmp_path / "a.eval"
    path.write_bytes(raw_zip(members))
    (trace,), (note,) = read(path)
    assert (trace.task_set, trace.model, trace.outcome) == ("sums", "m/x", SUCCESS)
    assert "no header.json" in note.reason
    assert note.what == "key"
    damaged = [*members, Entry("header.json", b"{}", checksum=1)]
    path.write_bytes(raw_zip(damaged))
    (trace,), (note,) = read(path)
    assert trace.task_set == "sums"
    assert "could not be read" in note.reason


def test_an_archive_with_neither_header_nor_journal_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    path.write_bytes(raw_zip([Entry("samples/1_epoch_1.json", json.dumps(sample(1)).encode())]))
    with pytest.raises(ReaderError, match=r"neither header.json nor _journal/start.json"):
        read_traces(path)


def test_samples_that_were_planned_and_not_run_are_no_runs(tmp_path: Path) -> None:
    path = write_json(
        tmp_path / "a.json",
        [sample(1), sample(2, "I")],
        status="cancelled",
        dataset={"sample_ids": [1, 2, 3]},
        config={"epochs": 2},
    )
    traces, (note,) = read(path)
    assert [trace.outcome for trace in traces] == [SUCCESS, FAILURE]
    assert (note.count, note.what) == (4, "key")
    assert "cancelled" in note.reason


@pytest.mark.parametrize("samples", [[], None])
def test_a_log_without_samples_is_an_error(tmp_path: Path, samples: list[Any] | None) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**header(status="started"), "samples": samples}))
    with pytest.raises(EmptySourceError, match="no samples"):
        read_traces(path)
    with pytest.raises(EmptySourceError, match="no samples"):
        read_traces(write_eval(tmp_path / "b.eval", []))


def test_samples_in_chunks_are_read_through_their_references(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "go", "source": "input"},
        {"role": "assistant", "content": "dropped by a compaction"},
        {"role": "assistant", "content": "a"},
        {"role": "assistant", "content": "b"},
    ]
    shell = {**sample(1), "message_refs": [[0, 1], [2, 4]]}
    del shell["messages"]
    chunks = {0: messages[:1], 1: messages[1:3], 3: messages[3:]}
    extra = [Entry("samples/1_epoch_1/sample.json", json.dumps(shell).encode())]
    extra += [
        Entry(f"samples/1_epoch_1/messages/{start}.json", json.dumps(chunk).encode(), ZSTANDARD)
        for start, chunk in chunks.items()
    ]
    extra += [Entry("samples/1_epoch_1/events/0.json", b"[]")]
    (trace,), skipped = read(write_eval(tmp_path / "a.eval", [], extra=extra))
    assert not skipped
    assert trace.n_steps == 2
    for refs in ([[0, 9]], [[-1, 2]], [[2, 1]], [[0, 4]] * 300_000):
        shell["message_refs"] = refs
        extra[0] = Entry("samples/1_epoch_1/sample.json", json.dumps(shell).encode(), STORED)
        traces, (note,) = read(write_eval(tmp_path / "b.eval", [], extra=extra))
        assert not traces
        assert "messages" in note.reason


# Verdicts


@pytest.mark.parametrize(
    ("value", "outcome", "score"),
    [
        ("C", SUCCESS, 1.0),
        ("I", FAILURE, 0.0),
        ("P", FAILURE, 0.5),
        ("N", FAILURE, 0.0),
        (True, SUCCESS, 1.0),
        (False, FAILURE, 0.0),
        (1, SUCCESS, 1.0),
        (0, FAILURE, 0.0),
        (1.0 - 1e-7, SUCCESS, 1.0 - 1e-7),
        (0.99, FAILURE, 0.99),
        (2, FAILURE, 2.0),
        ("yes", SUCCESS, 1.0),
        ("False", FAILURE, 0.0),
        ("0.25", FAILURE, 0.25),
        (float("nan"), UNSCORED, None),
        (float("inf"), UNSCORED, None),
        ("NaN", UNSCORED, None),
        (10**400, UNSCORED, None),
        ({"only": "C"}, SUCCESS, 1.0),
        ([0], FAILURE, 0.0),
        ({}, UNSCORED, None),
    ],
)
def test_what_a_score_means(tmp_path: Path, value: Any, outcome: Outcome, score: Any) -> None:
    trace = one(tmp_path, sample(1, value))
    assert (trace.outcome, trace.score, trace.end) == (outcome, score, End.FINISHED)


@pytest.mark.parametrize("value", ["excellent", [[1]], {"a": {"b": 1}}])
def test_a_score_that_says_nothing_is_told(tmp_path: Path, value: Any) -> None:
    (trace,), (note,) = read(write_json(tmp_path / "a.json", [sample(1, value)]))
    assert trace.outcome is UNSCORED
    assert note.what == "key"
    assert "excellent" not in note.reason


def test_a_number_beyond_all_floats_is_unscored(tmp_path: Path) -> None:
    path = write_json(tmp_path / "a.json", [sample(1, 77), sample(2)])
    path.write_text(path.read_text().replace("77", "1e999"))
    assert [trace.outcome for trace in read(path)[0]] == [UNSCORED, SUCCESS]


def scored(id: int, **values: Any) -> dict[str, Any]:
    return {**sample(id), "scores": {name: {"value": value} for name, value in values.items()}}


def test_of_several_scores_the_first_counts_and_it_is_told(tmp_path: Path) -> None:
    path = write_json(tmp_path / "a.json", [scored(1, judge="I", match="C"), scored(2, match="C")])
    traces, notes = read(path)
    assert [trace.outcome for trace in traces] == [FAILURE, UNSCORED]  # chosen once for the log
    reasons = {note.reason: note.count for note in notes}
    assert reasons["the score that counts is missing"] == 1
    (choice,) = (reason for reason in reasons if reason.startswith("several scores"))
    assert "judge counts" in choice
    assert "match not" in choice


def test_the_score_asked_for_counts(tmp_path: Path) -> None:
    path = write_json(tmp_path / "a.json", [scored(1, judge="I", match={"x": 1, "y": 0})])
    assert read(path, "judge") == ([one_of(path, "judge", FAILURE)], [])
    assert read(path, "match.y")[0][0].outcome is FAILURE
    (trace,), (note,) = read(path, "match")
    assert trace.outcome is SUCCESS
    assert "match.x counts" in note.reason
    traces, (note,) = read(path, "absent")
    assert (traces, note.what) == ([], "file")
    assert note.reason.startswith("no scorer is called absent; there are: judge, match.x, match.y")


def one_of(path: Path, scorer: str, outcome: Outcome) -> Trace:
    (trace,) = read(path, scorer)[0]
    assert trace.outcome is outcome
    return trace


@pytest.mark.parametrize(
    ("headline", "results", "outcome"),
    [
        ({"scorer": "match"}, [], SUCCESS),
        ({"scorer": "match"}, ["judge judge mean", "match match mean"], SUCCESS),
        ({"metric": "accuracy"}, ["judge judge mean", "match match accuracy"], SUCCESS),
        ({"scorer": "table", "score": "y"}, ["table x mean", "table y mean"], SUCCESS),
        ({"scorer": "table", "score": "x"}, ["table x mean", "table y mean"], FAILURE),
    ],
)
def test_the_headline_of_the_log_counts(
    tmp_path: Path, headline: dict[str, str], results: list[str], outcome: Outcome
) -> None:
    rows = [result.split() for result in results]
    top = {"scores": [{"scorer": s, "name": n, "metrics": {m: {}}} for s, n, m in rows]}
    item = scored(1, judge="I", match="C", table={"x": 0, "y": 1})
    trace = one(tmp_path, item, headline_metric=headline, results=top if rows else None)
    assert trace.outcome is outcome


def test_without_a_headline_the_first_result_counts_and_it_is_told(tmp_path: Path) -> None:
    results = {"scores": [{"scorer": "match", "name": "match", "metrics": {}}]}
    path = write_json(tmp_path / "a.json", [scored(1, judge="I", match="C")], results=results)
    (trace,), (note,) = read(path)
    assert trace.outcome is SUCCESS
    assert "match counts" in note.reason


def test_names_of_scores_are_told_safely(tmp_path: Path) -> None:
    item = scored(1, **{"\x1b[31mred": "C", "b" * 500: "I"})
    (_,), (note,) = read(write_json(tmp_path / "a.json", [item]))
    assert note.reason.isprintable()
    assert len(note.reason) < 300


# Ends


@pytest.mark.parametrize(
    ("kind", "end", "limit"),
    [
        ("context", End.LIMIT, LimitKind.CONTEXT),
        ("time", End.LIMIT, LimitKind.TIME),
        ("working", End.LIMIT, LimitKind.TIME),
        ("message", End.LIMIT, LimitKind.MESSAGES),
        ("token", End.LIMIT, LimitKind.TOKENS),
        ("turn", End.LIMIT, LimitKind.TURNS),
        ("cost", End.LIMIT, LimitKind.COST),
        ("custom", End.LIMIT, LimitKind.CUSTOM),
        ("new in a later version", End.LIMIT, LimitKind.CUSTOM),
        ("operator", End.CANCELLED, None),
    ],
)
def test_a_limit_keeps_the_score(
    tmp_path: Path, kind: str, end: End, limit: LimitKind | None
) -> None:
    trace = one(tmp_path, sample(1, "C", limit={"type": kind, "limit": 30}))
    assert (trace.end, trace.limit_kind, trace.outcome) == (end, limit, SUCCESS)


def test_only_a_limit_of_turns_is_a_limit_of_steps(tmp_path: Path) -> None:
    assert one(tmp_path, sample(), config={"message_limit": 9, "token_limit": 9}).step_limit is None
    assert one(tmp_path, sample(), config={"turn_limit": 9}).step_limit == 9
    cut = sample(limit={"type": "turn", "limit": 5.0})
    assert one(tmp_path, cut, config={"turn_limit": 9}).step_limit == 5
    unknown = sample(limit={"type": "turn", "limit": -1})
    assert one(tmp_path, unknown).step_limit is None


def test_an_error_is_a_fault_of_the_harness(tmp_path: Path) -> None:
    fault = {"message": "ConnectionError()", "traceback": "..."}
    trace = one(tmp_path, sample(1, None, error=fault))
    assert (trace.outcome, trace.end) == (UNSCORED, End.INFRA_ERROR)
    trace = one(tmp_path, sample(1, "C", error=fault, limit={"type": "time", "limit": 1}))
    assert (trace.outcome, trace.end, trace.limit_kind) == (SUCCESS, End.INFRA_ERROR, None)
    trace = one(tmp_path, sample(1, None, error={"message": "CancelledError()"}))
    assert trace.end is End.CANCELLED


def test_an_invalidated_sample_has_no_verdict_and_is_told(tmp_path: Path) -> None:
    void = {"author": "a", "reason": "b"}
    items = [
        sample(1, "C", invalidation=void),
        sample(2, "I", invalidation=void, limit={"type": "time", "limit": 1}),
    ]
    traces, (note,) = read(write_json(tmp_path / "a.json", items))
    assert [(t.outcome, t.score) for t in traces] == [(UNSCORED, None)] * 2
    assert [t.end for t in traces] == [End.FINISHED, End.UNKNOWN]  # none counts as a failure
    assert note.count == 2
    assert "invalidated" in note.reason


# Steps


def answer(**more: Any) -> dict[str, Any]:
    return {"role": "tool", "content": "x", "tool_call_id": "c", **more}


def test_steps_are_the_agents_own_messages(tmp_path: Path) -> None:
    item = conversation(
        {"role": "system", "content": "be good"},
        {"role": "assistant", "content": "an example", "source": "input"},
        said(call("search", q="a"), call("search", q="b")),
        answer(),
        answer(error={"type": "timeout", "message": "late"}),
        said(call("bash", cmd="cd /repo && git diff | head"), source="generate"),
        answer(),
        said(call("text_editor", command="view", path="/a")),
        answer(tool_error="no such file"),
        said(call("python", code="1/0"), source="generate"),
        said({**call("search"), "parse_error": "no JSON"}),
        {"role": "user", "content": "go on"},
        said(),
    )
    steps = one(tmp_path, item).steps
    assert [(s.name, s.n_calls, s.ok) for s in steps] == [
        ("search", 2, False),
        ("git", 1, True),
        ("text_editor view", 1, False),
        ("python", 1, None),
        ("search", 1, False),
        ("respond", 0, None),
    ]
    assert [s.kind for s in steps[-2:]] == [StepKind.TOOL, StepKind.MODEL]
    assert len({s.digest for s in steps}) == 6


def test_the_order_of_arguments_does_not_matter_to_a_digest(tmp_path: Path) -> None:
    item = conversation(said(call("f", a=1, b=[2])), said(call("f", b=[2], a=1)), said(call("f")))
    digests = [step.digest for step in one(tmp_path, item).steps]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    ("more", "n_steps"),
    [
        ({}, 0),
        ({"output": {"choices": [{"message": {"role": "assistant", "content": "x"}}]}}, None),
        ({"turn_count": 7}, 7),
    ],
)
def test_steps_that_no_message_shows(tmp_path: Path, more: Any, n_steps: int | None) -> None:
    assert one(tmp_path, {**sample(), "messages": [], **more}).n_steps == n_steps


def test_an_old_log_with_its_events_under_transcript(tmp_path: Path) -> None:
    old = sample(1, None, transcript={"events": [{"event": "model"}], "content": {}})
    del old["scores"]
    trace = one(tmp_path, {**old, "score": {"value": "I"}})
    assert (trace.outcome, trace.n_steps) == (FAILURE, 1)


# Real logs, and what is claimed


def test_claims_by_content() -> None:
    reader = InspectReader()
    assert reader.claims(Path("a.eval"), b"x")
    assert not reader.claims(Path("folder.eval"), b"")
    assert reader.claims(Path("renamed"), raw_zip(entries_of([])))
    assert not reader.claims(Path("book.xlsx"), raw_zip([Entry("xl/book.xml", b"")]))
    assert reader.claims(Path("a.json"), json.dumps(header()).encode())
    assert not reader.claims(Path("a.json"), b'{"results": [], "eval": 1}')
    assert not reader.claims(Path("a.json"), b'[{"status": 1, "eval": 2}]')


@pytest.fixture(scope="module")
def real(real_logs: Path) -> Path:
    return real_logs / "inspect"


@pytest.mark.parametrize(
    ("name", "model", "n_success"),
    [
        ("2025-09-15T15-02-26-04-00_popularity_L8g2GLGDDfsiXvdJ8LyZNJ.eval", "openai/gpt-5", 52),
        (
            "2025-09-15T15-02-26-04-00_popularity_LthYhadZHuQjsMYHHKRep2.eval",
            "anthropic/claude-sonnet-4-20250514",
            57,
        ),
        (
            "2025-09-15T15-02-26-04-00_popularity_eF3BogZE3jzpiWBjjDWbik.eval",
            "google/gemini-2.5-pro",
            66,
        ),
    ],
)
def test_one_hundred_questions(real: Path, name: str, model: str, n_success: int) -> None:
    traces, skipped = read(real / name)
    assert not skipped
    assert len({trace.task_id for trace in traces}) == len(traces) == 100
    assert sum(trace.outcome is SUCCESS for trace in traces) == n_success
    assert {trace.model for trace in traces} == {model}
    assert {trace.n_steps for trace in traces} == {1}
    assert {trace.end for trace in traces} == {End.FINISHED}


@pytest.mark.parametrize(
    ("name", "outcomes", "steps"),
    [
        ("2025-05-12T20-28-13-04-00_popularity.json", [1, 1, 0], [["respond"]] * 3),
        ("2025-05-12T20-28-26-04-00_security-guide.json", [1, 1, 1], [["respond"]] * 3),
        (
            "2025-05-12T20-27-36-04-00_browser.json",
            [1],
            [["web_browser_go", *["web_browser_click"] * 3, "respond"]],
        ),
        ("log_message_deduplication.eval", [0], [[*["ls"] * 5, "respond"]]),
        ("log_read_sample.eval", [1], [["respond"]]),
        ("mmlu-summary-choices.eval", [0], [["respond"]]),
    ],
)
def test_other_real_logs(
    real: Path, name: str, outcomes: list[int], steps: list[list[str]]
) -> None:
    traces, skipped = read(real / name)
    assert not skipped
    assert [int(trace.outcome is SUCCESS) for trace in traces] == outcomes
    assert [[step.name for step in trace.steps] for trace in traces] == steps


def test_the_whole_folder_is_accounted_for(real: Path) -> None:
    corpus = read_traces(real)
    runs = [corpus.trace(run) for run in range(len(corpus))]
    assert len(runs) == 10 + 1 + 3 + 3 + 300 + 1 + 1 + 1 + 1
    assert sum(run.outcome is UNSCORED for run in runs) == 10
    assert {(note.what, note.count) for note in corpus.skipped} == {("stranger", 1), ("run", 1)}
    (repeat,) = (note for note in corpus.skipped if note.what == "run")
    assert repeat.source.endswith("log_formats.json")
