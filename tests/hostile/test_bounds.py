"""Each bound trips with a clear error or a counted skip, and size alone makes nothing slow."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hostile.logs import run, write_rows
from readers.inspect_logs import Entry, raw_zip
from sojourn import _limits
from sojourn.assess.state_file import state_model_from_dict
from sojourn.errors import ReaderError
from sojourn.readers import inspect_ai, mini_swe_agent, read_profile, read_traces
from sojourn.readers._archive import Archive, MemberError
from sojourn.readers._json import BadRecordError, decode
from sojourn.readers._spans import Kind, Span, forest, steps_of
from sojourn.readers._steps import command_name, tool_step
from sojourn.readers.state_table import read_state_table
from sojourn.tables import clean

pytestmark = pytest.mark.thorough

TESTS = Path(__file__).resolve().parent.parent


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail where the processor worked for longer."""
    start = time.process_time()
    yield
    spent = time.process_time() - start
    assert spent < seconds, f"{spent:.1f} s"


def test_every_bound_is_named_in_a_test() -> None:
    texts = "\n".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    aliases = {
        "ARCHIVE_BYTES": "total=",
        "ARCHIVE_MEMBER_BYTES": "member=",
        "ARCHIVE_MEMBERS": "n_members=",
        "ARCHIVE_DIRECTORY_BYTES": "directory=",
        "ARCHIVE_RATIO": "ratio=",
        "ARCHIVE_FREE_BYTES": "free=",
        "ARCHIVE_WINDOW_BYTES": "a_window_that_asks_for_too_much",
    }
    missing = [name for name in _limits.__all__ if aliases.get(name, name) not in texts]
    assert missing == []


@pytest.mark.parametrize(
    ("name", "read"),
    [("STATE_TABLE_BYTES", read_state_table), ("PROFILE_BYTES", read_profile)],
)
def test_small_files_of_the_user_have_a_largest_size(tmp_path: Path, name: str, read: Any) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes(b"a,b\n" * (getattr(_limits, name) // 4 + 1))
    with pytest.raises(ReaderError, match=r"not that large|longer than"):
        read(path)


def test_a_file_of_settings_has_a_largest_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sojourn.toml").write_bytes(b"#" * (_limits.SETTINGS_BYTES + 1))
    monkeypatch.chdir(tmp_path)
    assert run("formats") == 2
    assert "larger than a file of settings" in capsys.readouterr().err


def test_levels_and_digits_of_json() -> None:
    depth, digits = _limits.JSON_DEPTH, _limits.JSON_INTEGER_DIGITS
    odd = b'{"x": NaN, "deep": %s}'  # NaN sends it the patient way, which counts
    decode(odd % (b"[" * (depth - 1) + b"]" * (depth - 1)), dict[str, Any])
    with pytest.raises(BadRecordError, match=f"deeper than {depth} levels"):
        decode(odd % (b"[" * depth + b"]" * depth), dict[str, Any])
    exact, near = b"9" * digits, b"9" * (digits + 1)
    found = decode(b'{"a": %s, "b": %s, "c": NaN}' % (exact, near), dict[str, Any])
    assert found["a"] == int(exact)
    assert found["b"] == float(near)


def test_sets_of_keys_are_forgotten_but_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sojourn.readers._json_rows.JSON_KEY_SETS", 10)
    rows: list[dict[str, object]] = [
        {"task_id": f"t{k}", "outcome": k % 2, f"key {k}": 1} for k in range(200)
    ]
    corpus = read_traces(write_rows(tmp_path / "a.jsonl", rows))
    assert len(corpus) == 200
    unused = [item for item in corpus.skipped if "not used" in item.reason]
    assert len(unused) == 51
    assert sum(item.count for item in unused) == 200


def test_names_of_steps_commands_and_labels_are_cut() -> None:
    n = _limits.STEP_NAME_LETTERS
    assert tool_step([("x" * 1000, "")]).name == "x" * n
    far = " " * _limits.COMMAND_LETTERS + "ls"
    assert command_name(far) == "shell"
    assert len(clean("x" * 1000)) == _limits.SHOWN_LETTERS


def span(span_id: str, parent: str, **more: object) -> dict[str, object]:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", **more}
    return {
        "trace_id": "a" * 32,
        "span_id": span_id,
        "parent_span_id": parent,
        "name": "t",
        "start_time": "2026-01-01T00:00:00Z",
        "attributes": attributes,
    }


def test_attributes_ids_and_verdicts_of_spans_are_cut(tmp_path: Path) -> None:
    long = "x" * 5000
    rows = [span(long, ""), span("b", "", **{"gen_ai.tool.name": long})]
    rows += [
        span(f"{k}", long, **{"gen_ai.evaluation.name": "e", "gen_ai.evaluation.score.label": "x"})
        for k in range(_limits.EVALUATIONS + 50)
    ]
    corpus = read_traces(write_rows(tmp_path / "spans.jsonl", rows), format="otel")
    names = corpus.step_types.names
    assert max(map(len, names)) <= max(_limits.ATTRIBUTE_LETTERS, _limits.STEP_NAME_LETTERS)
    assert len(names) == 2
    # The parent's id was cut at ID_LETTERS as the child's reference was: they still meet.
    assert not any("parent is not in the log" in item.reason for item in corpus.skipped)
    assert _limits.ID_LETTERS < 5000


def test_an_object_over_too_many_lines_is_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "spans.json"
    path.write_text("\n".join(json.dumps(span(name, ""), indent=1) for name in "ab"))
    assert len(read_traces(path, format="otel")) == 1
    monkeypatch.setattr("sojourn.readers.otel.DOCUMENT_LINES", 3)
    with pytest.raises(ReaderError, match="not valid JSON"):
        read_traces(path, format="otel")


def test_suites_inside_suites_have_a_depth(tmp_path: Path) -> None:
    tests: dict[str, Any] = {"t": {"metrics": {"success": True}}}
    for level in range(_limits.SUITE_DEPTH + 2):
        tests = {f"s{level}": {"tests": tests}}
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"command": "agbenchmark start", "tests": tests}))
    with pytest.raises(ReaderError, match=f"deeper than {_limits.SUITE_DEPTH} levels"):
        read_traces(path, format="agbenchmark")


def test_long_chains_and_circles_of_parents_take_linear_time() -> None:
    n = 100_000
    chain = [Span(f"{k}", f"{k - 1}" if k else "", k, Kind.TOOL, "t") for k in range(n)]
    circle = [Span(f"{k}", f"{(k + 1) % n}", k, Kind.TOOL, "t") for k in range(n)]
    own = [Span(f"{k}", f"{k}", k, Kind.MODEL) for k in range(n // 10)]
    for spans, n_circles in ((chain, 0), (circle, 1), (own, n // 10)):
        with within(6.0):
            tree = forest(spans)
            steps_of(tree)
        assert tree.n_circles == n_circles
        assert len(tree.roots) == max(n_circles, 1)
        assert len(tree.spans) == len(spans)


@pytest.mark.parametrize("n", [50_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("form", ["key", "value", "levels", "list"])
def test_wide_and_deep_rows_take_linear_time_and_memory(tmp_path: Path, form: str, n: int) -> None:
    odd = {
        "key": ", ".join(f'"k{k}": 1' for k in range(n)),
        "value": '"steps": [' + ", ".join(["0"] * n) + "]",
        "levels": '"x": ' + "[" * n + "]" * n,
        "list": '"x": [' + ", ".join(["{}"] * n) + "]",
    }[form]
    path = tmp_path / "a.jsonl"
    good = "".join(f'{{"task_id": "t{k}", "outcome": 1}}\n' for k in range(3))
    path.write_text(f'{good}{{"task_id": "odd", "outcome": 1, {odd}}}\n')
    tracemalloc.start()
    with within(6.0 + n / 20_000):
        corpus = read_traces(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(corpus) >= 3
    assert peak < 60 * path.stat().st_size + (64 << 20)


def test_many_tiny_files_are_walked_in_linear_time(tmp_path: Path) -> None:
    for k in range(1000):
        (tmp_path / f"{k}.json").write_bytes(b"{}" if k % 2 else b"\0")
    with within(10.0), pytest.raises(ReaderError):
        read_traces(tmp_path)


def test_messages_and_conversations_of_a_sample_have_a_number_and_a_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_ai, "MESSAGES", 2)
    with pytest.raises(BadRecordError, match="more than 2 messages"):
        list(inspect_ai._referred([(0, 1)] * 3, [object()]))  # type: ignore[list-item]
    monkeypatch.setattr(inspect_ai, "CONVERSATION_BYTES", 30)
    path = tmp_path / "a.zip"
    path.write_bytes(raw_zip([Entry(name, b'[{"role": "user"}]') for name in "ab"]))
    with Archive(path) as archive:
        assert len(inspect_ai._pool(archive, ["a"])) == 1
        with pytest.raises(MemberError, match="more than 30 bytes"):
            inspect_ai._pool(archive, ["a", "b"])


def test_trials_states_and_observations_have_a_largest_number(tmp_path: Path) -> None:
    (tmp_path / f"env_results_trial_{_limits.TRIALS}.json").write_text("[]")
    with pytest.raises(ReaderError, match=f"more than {_limits.TRIALS} trials"):
        read_traces(tmp_path, format="reflexion")
    names = [f"s{k}" for k in range(_limits.STATES + 1)]
    with pytest.raises(ValueError, match="names"):
        state_model_from_dict({"names": names})
    text = json.dumps({"role": "user", "content": "x" * (_limits.OBSERVATION_LETTERS + 9)})
    message = decode(text.encode(), mini_swe_agent._Message)
    assert len(mini_swe_agent._text(message)) == _limits.OBSERVATION_LETTERS
