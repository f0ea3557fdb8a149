"""OpenTelemetry spans: trees from ids, whatever their order, and memory that a file cannot fill."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from readers.figures import traces
from sojourn.readers import _span_log, load_reader, otel, read_traces
from sojourn.readers._spans import Kind, Span, forest, nanoseconds, steps_of
from sojourn.readers.base import ReadOptions
from sojourn.readers.finding import find_sources
from sojourn.readers.outcomes import join_outcomes, read_outcomes
from sojourn.records import End, Outcome, Skipped, StepKind, Trace

SAMPLE = DATA / "otel" / "spans.jsonl"


class TestConformance(ReaderConformance):
    format = "otel"
    sample = "otel/spans.jsonl"
    n_runs = 3


def rows(run: str, *spans: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Return flat spans of one run: id, parent, what it was, and more of its attributes."""
    return [
        {
            "trace_id": run,
            "span_id": name,
            "parent_span_id": parent,
            "name": name,
            "start_time": start,
            "attributes": {"gen_ai.operation.name": kind, **(more[0] if more else {})},
        }
        for start, (name, parent, kind, *more) in enumerate(spans, start=1)
    ]


def read(folder: Path, items: list[Any], **options: Any) -> list[Any]:
    path = folder / "spans.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return read_all(load_reader("otel"), path, ReadOptions(**options))


def notes(records: list[Any]) -> dict[str, int]:
    return {record.reason: record.count for record in records if isinstance(record, Skipped)}


def runs(records: list[Any]) -> list[Trace]:
    return [record for record in records if isinstance(record, Trace)]


@pytest.mark.parametrize("form", ["line", "item"])
def test_the_key_that_tells_may_stand_behind_a_long_one(tmp_path: Path, form: str) -> None:
    exports = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    wanted = traces_of(SAMPLE)
    assert len(exports) > 1
    if form == "line":
        behind: list[Any] = [{"note": "x" * 9000, **export} for export in exports]
        path = tmp_path / "late.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in behind))
    else:
        behind = [
            {"schemaUrl": "x" * 9000, **part} for line in exports for part in line["resourceSpans"]
        ]
        path = tmp_path / "late.json"
        path.write_text(json.dumps({"resourceSpans": behind}))
    found = traces_of(path)
    assert [(t.task_id, t.outcome, t.steps) for t in found] == [
        (t.task_id, t.outcome, t.steps) for t in wanted
    ]


@pytest.mark.parametrize("word", ["resourceSpans", "scopeSpans", "resource"])
def test_a_span_that_speaks_of_such_a_key_is_a_span(tmp_path: Path, word: str) -> None:
    spans = rows("r", ("1", "", "invoke_agent"), ("2", "1", "chat", {word: [word]}))
    spans[1] = {"note": word, "more": {word: 1}, **spans[1]}
    (run,) = runs(read(tmp_path, spans))
    assert len(run.steps) == 1


def test_the_sample_is_what_it_was_written_to_be() -> None:
    first, broken, second = traces_of(SAMPLE)
    assert (first.task_id, first.agent, first.model) == ("a1" * 16, "clerk", "model-a")
    assert (first.outcome, first.end) == (Outcome.SUCCESS, End.UNKNOWN)
    assert (first.session_id, first.position) == ("c-1", 0)
    assert [(s.name, s.kind, s.ok, s.n_calls) for s in first.steps] == [
        ("find", StepKind.TOOL, True, 1),
        ("ls", StepKind.TOOL, False, 1),
        ("respond", StepKind.MODEL, None, 0),
    ]
    assert (second.agent, second.model, second.outcome) == ("desk", "model-b", Outcome.FAILURE)
    assert [step.name for step in second.steps] == ["sell"]
    assert (broken.outcome, broken.end) == (Outcome.UNSCORED, End.INFRA_ERROR)
    assert [step.name for step in broken.steps] == ["find"]
    assert notes(read_all(load_reader("otel"), SAMPLE)) == {
        "spans whose parent is not in the log; they count as roots": 1,
        "traces without a call of a model, tool or agent: they are no runs": 1,
    }


def test_an_attribute_may_name_the_task_and_the_verdict() -> None:
    first, broken, second = traces_of(SAMPLE, columns={"task_id": "task.name"})
    assert (first.task_id, second.task_id) == ("refund", "refund")
    assert broken.task_id == "c3" * 16


def test_any_order_and_any_split_into_lines_gives_the_same_runs(tmp_path: Path) -> None:
    exports = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
    spans = [
        span for export in exports for span in export["resourceSpans"][0]["scopeSpans"][0]["spans"]
    ]
    expected = [(t.task_id, t.steps, t.outcome, t.session_id) for t in traces_of(SAMPLE)]
    for seed in range(5):
        random.Random(seed).shuffle(spans)
        lines = [{"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]} for span in spans]
        found = runs(read(tmp_path, lines))
        assert [(t.task_id, t.steps, t.outcome, t.session_id) for t in found] == expected


def test_one_document_over_several_lines_is_read_too(tmp_path: Path) -> None:
    exports = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
    whole = {"resourceSpans": [part for export in exports for part in export["resourceSpans"]]}
    path = tmp_path / "spans.json"
    path.write_text(json.dumps(whole, indent=1))
    assert [t.steps for t in traces_of(path)] == [t.steps for t in traces_of(SAMPLE)]


def test_two_layouts_of_one_run_have_the_same_steps(tmp_path: Path) -> None:
    siblings = rows(
        "x",
        ("r", None, "invoke_agent"),
        ("m1", "r", "chat"),
        ("t1", "r", "execute_tool"),
        ("t2", "r", "execute_tool"),
        ("m2", "r", "chat"),
    )
    nested = rows(
        "x",
        ("r", None, "invoke_agent"),
        ("m1", "r", "chat"),
        ("t1", "m1", "execute_tool"),
        ("t2", "m1", "execute_tool"),
        ("m2", "r", "chat"),
    )
    nodes = rows(
        "x",
        ("r", None, "chain"),
        ("n1", "r", "chain"),
        ("m1", "n1", "chat"),
        ("n2", "r", "chain"),
        ("t1", "n2", "execute_tool"),
        ("t2", "n2", "execute_tool"),
        ("n3", "r", "chain"),
        ("m2", "n3", "chat"),
    )
    for layout in (siblings, nested, nodes):
        (run,) = runs(read(tmp_path, layout))
        assert [(s.name, s.n_calls) for s in run.steps] == [("t1", 2), ("respond", 0)]


def test_parallel_agents_keep_their_own_tools(tmp_path: Path) -> None:
    spans = rows(
        "x",
        ("r", None, "invoke_agent"),
        ("a", "r", "invoke_agent"),
        ("b", "r", "invoke_agent"),
        ("ma", "a", "chat"),
        ("mb", "b", "chat"),
        ("ta", "a", "execute_tool"),
        ("tb", "b", "execute_tool"),
    )
    (run,) = runs(read(tmp_path, spans))
    assert [s.name for s in run.steps] == ["ta", "tb"]


def test_what_two_instruments_log_is_one_step(tmp_path: Path) -> None:
    spans = rows(
        "x",
        ("m", None, "chat"),
        ("inner", "m", "chat"),
        ("t", "inner", "execute_tool"),
        ("t", "m", "execute_tool"),
    )
    records = read(tmp_path, spans)
    assert [(s.name, s.n_calls) for s in runs(records)[0].steps] == [("t", 1)]
    assert notes(records) == {"spans with an id that their trace has twice; the first counts": 1}


def test_a_type_of_error_is_a_failed_step(tmp_path: Path) -> None:
    spans = rows("x", ("r", None, "invoke_agent"), ("t", "r", "execute_tool", {"error.type": "e"}))
    (run,) = runs(read(tmp_path, spans))
    assert [step.ok for step in run.steps] == [False]


def test_objects_of_the_console_exporter_are_read(tmp_path: Path) -> None:
    spans = [
        {
            "name": name,
            "context": {"trace_id": "0x1", "span_id": f"0x{name}", "trace_state": "[]"},
            "parent_id": parent,
            "start_time": f"2024-01-01T00:00:0{second}.000000Z",
            "status": {"status_code": status},
            "attributes": {"gen_ai.operation.name": kind},
        }
        for second, (name, parent, kind, status) in enumerate(
            [
                ("a", None, "invoke_agent", "UNSET"),
                ("b", "0xa", "chat", "UNSET"),
                ("c", "0xa", "execute_tool", "ERROR"),
            ]
        )
    ]
    path = tmp_path / "spans.txt"
    for shown in (spans, spans[:2]):
        text = "\n".join(json.dumps(span, indent=4) for span in shown)
        path.write_text(text)
        (trace,) = traces_of(path)
        assert (trace.task_id, trace.agent, trace.n_steps) == ("0x1", "a", 1)
        assert trace.steps[0].ok is (False if shown is spans else None)
        path.write_text(text[:-5])
        assert notes(read_all(load_reader("otel"), path))


def test_spans_of_mlflow_are_told_by_their_type(tmp_path: Path) -> None:
    kinds = [("AGENT", "robo"), ("CHAT_MODEL", "chat"), ("TOOL", "find"), ("CHAIN", "x")]
    spans = [
        {
            "traceId": "t",
            "spanId": str(n),
            "parentSpanId": "1" if n > 1 else "",
            "name": name,
            "startTimeUnixNano": str(n),
            "attributes": [{"key": "mlflow.spanType", "value": {"stringValue": f'"{kind}"'}}],
        }
        for n, (kind, name) in enumerate(kinds, start=1)
    ]
    export = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    (trace,) = read(tmp_path, [export])
    assert (trace.agent, [step.name for step in trace.steps]) == ("robo", ["find"])
    (source,) = find_sources(tmp_path / "spans.jsonl")
    assert source.reader.name == "otel"  # type: ignore[union-attr]


def test_a_document_on_one_line_is_no_span(tmp_path: Path) -> None:
    path = tmp_path / "spans.json"
    path.write_text(json.dumps({"final_output": "x", "spans": rows("x", ("m", None, "chat"))}))
    assert [trace.n_steps for trace in traces_of(path)] == [1]


@pytest.mark.parametrize("loop", [["a"], ["a", "b"], ["a", "b", "c", "d"]])
def test_circles_of_parents_end(tmp_path: Path, loop: list[str]) -> None:
    spans = rows("x", *((n, loop[i - 1], "execute_tool") for i, n in enumerate(loop)))
    records = read(tmp_path, spans)
    # One of them stands above the others: a tool inside a tool is part of it.
    assert [step.name for step in runs(records)[0].steps] == ["a"]
    expected = {} if loop == ["a"] else {"circles of parents; each was cut open": 1}
    assert notes(records) == expected


IDS = st.integers(0, 7).map(str)
SPANS = st.lists(
    st.builds(Span, IDS, IDS, st.integers(0, 3), st.sampled_from(Kind), name=st.just("")),
    max_size=12,
)


@given(SPANS)
def test_any_tangle_of_spans_is_a_forest(spans: list[Span]) -> None:
    tree = forest(spans)
    assert len({span.span_id for span in tree.spans}) == len(tree.spans)
    assert len(tree.roots) == tree.n_orphans + tree.n_circles + sum(
        not span.parent_id for span in tree.roots
    )
    steps = steps_of(tree)
    n_of = Counter(span.kind for span in tree.spans)
    assert sum(step.n_calls for step in steps) <= n_of[Kind.TOOL]
    assert len(steps) <= n_of[Kind.MODEL] + n_of[Kind.TOOL]
    assert bool(steps) == bool(n_of[Kind.MODEL] + n_of[Kind.TOOL])


@given(SPANS, st.randoms())
def test_the_order_of_spans_is_of_no_matter(spans: list[Span], shuffler: random.Random) -> None:
    unique = list({span.span_id: span for span in spans}.values())
    before = steps_of(forest(unique))
    shuffler.shuffle(unique)
    assert steps_of(forest(unique)) == before


def test_a_chain_of_parents_may_be_long() -> None:
    spans = [Span(str(i), str(i - 1), 100_000 - i, Kind.OTHER) for i in range(100_000)]
    tree = forest([*spans, Span("t", "99999", 200_000, Kind.TOOL, "t")])
    assert [step.name for step in steps_of(tree)] == ["t"]
    assert (len(tree.roots), tree.n_orphans) == (1, 1)


def forty_runs() -> Iterator[dict[str, Any]]:
    for run in range(40):
        yield from rows(f"x{run:02}", ("m", "r", "chat"), ("r", None, "invoke_agent"))


def test_a_long_file_is_told_as_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_span_log, "OPEN_SPANS", 10)
    records = read(tmp_path, [*forty_runs(), *rows("x00", ("late", "r", "chat"))])
    assert [t.task_id for t in runs(records)] == [f"x{run:02}" for run in range(40)]
    assert [t.n_steps for t in runs(records)] == [1] * 40
    assert notes(records) == {"spans that came after their trace was closed": 1}


def test_traces_without_a_root_cannot_fill_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_span_log, "OPEN_SPANS", 10)
    items = [row for run in range(40) for row in rows(f"x{run:02}", ("m", "gone", "chat"))]
    assert len(runs(read(tmp_path, items))) == 40
    log = _span_log.SpanLog(tmp_path, "otel", ReadOptions())
    held = [log._n_spans for _ in log.records(otel._spans(tmp_path / "spans.jsonl", frozenset()))]
    assert max(held) <= 10


@pytest.mark.parametrize(
    ("marks", "options", "outcome"),
    [
        ({"gen_ai.evaluation.score.label": "fail"}, {}, Outcome.FAILURE),
        ({"gen_ai.evaluation.score.value": 1}, {}, Outcome.SUCCESS),
        ({"gen_ai.evaluation.score.value": 0.4}, {}, Outcome.UNSCORED),
        ({"gen_ai.evaluation.score.label": "good"}, {}, Outcome.UNSCORED),
        ({"gen_ai.evaluation.score.label": "good", "gen_ai.evaluation.score.value": 1}, {},
         Outcome.SUCCESS),
        ({"gen_ai.evaluation.name": "a", "gen_ai.evaluation.score.value": 1}, {"scorer": "b"},
         Outcome.UNSCORED),
        ({"my.verdict": "passed"}, {"columns": {"outcome": "my.verdict"}}, Outcome.SUCCESS),
        ({"my.verdict": False}, {"columns": {"outcome": "my.verdict"}}, Outcome.FAILURE),
    ],
)  # fmt: skip
def test_verdicts(
    tmp_path: Path, marks: dict[str, Any], options: dict[str, Any], outcome: Outcome
) -> None:
    (run,) = runs(read(tmp_path, rows("x", ("r", None, "chat", marks)), **options))
    assert run.outcome is outcome


def test_of_several_evaluations_one_is_chosen(tmp_path: Path) -> None:
    marks = (
        {"gen_ai.evaluation.name": n, "gen_ai.evaluation.score.value": v}
        for n, v in (("a", 1), ("b", 0))
    )
    items = rows("x", *((f"s{i}", None, "chat", mark) for i, mark in enumerate(marks)))
    records = read(tmp_path, items)
    assert runs(records)[0].outcome is Outcome.UNSCORED
    assert notes(records) == {"runs with several evaluations; choose one with --scorer NAME": 1}
    assert runs(read(tmp_path, items, scorer="b"))[0].outcome is Outcome.FAILURE


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("1700000000000000000", 1_700_000_000_000_000_000),
        ("2024-01-01T00:00:00.5Z", 1_704_067_200_500_000_000),
        ("2024-01-01T00:00:00", 1_704_067_200_000_000_000),
        ("9" * 5000, 0),
        ("yesterday", 0),
        ("-5", 0),
    ],
)
def test_times(text: str, time: int) -> None:
    assert nanoseconds(text) == time


@pytest.mark.parametrize(
    "item",
    [7, None, [], {}, {"resourceSpans": 3}, {"resourceSpans": [{"scopeSpans": [{"spans": [1]}]}]},
     {"trace_id": "", "span_id": "a"}, {"trace_id": "a", "span_id": None},
     {"trace_id": "a", "span_id": "b", "attributes": [1]}],
)  # fmt: skip
def test_what_is_no_span_is_counted(tmp_path: Path, item: Any) -> None:
    records = read(tmp_path, [*rows("x", ("m", None, "chat")), item])
    assert len(runs(records)) == 1
    assert len(records) == 2


def test_verdicts_are_joined_by_the_id_of_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.json"
    path.write_text(json.dumps({"b2" * 16: True, "c3" * 16: False}))
    corpus = read_traces(SAMPLE, options=ReadOptions(verdicts_elsewhere=True))
    joined = join_outcomes(corpus, read_outcomes(path))
    assert {trace.task_id[:2]: trace.outcome for trace in traces(joined)} == {
        "a1": Outcome.SUCCESS,
        "b2": Outcome.SUCCESS,
        "c3": Outcome.FAILURE,
    }


N_SPANS = [7, 6, 7, 8, 17, 19, 5, 7]
N_STEPS = [4, 3, 3, 4, 8, 5, 2, 2]


def test_real_spans(real_logs: Path) -> None:
    files = sorted((real_logs / "otel-spans").glob("*.json"))
    found = [list(otel._spans(path, frozenset())) for path in files]
    assert [len(spans) for spans in found] == N_SPANS
    corpus = read_traces(real_logs / "otel-spans")
    # A step is a call of a model that is not inside another: 4, 3, 3, ... in these files.
    models = [sum(f.span.kind is Kind.MODEL for f, _ in spans) for spans in found]  # type: ignore[misc]
    assert [trace.n_steps for trace in traces(corpus)] == models == N_STEPS
    assert {trace.outcome for trace in traces(corpus)} == {Outcome.UNSCORED}
    assert all(trace.agent and trace.model for trace in traces(corpus))
