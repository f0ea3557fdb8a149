"""``watch``: a forecast a step while a log grows, whatever half of a line stands at its end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

import pytest

from sojourn.assess.model_file import FittedModel, read_model
from sojourn.cli.main import main
from sojourn.cli.watch import Follower
from sojourn.corpus import write_corpus
from sojourn.corpus.simulated import corpus_of_sequences
from sojourn.errors import EmptySourceError
from sojourn.process.simulate import preset, simulate_tasks
from sojourn.readers import ReadOptions, read_traces

SESSION = Path(__file__).parent / "data" / "claude-code" / "s-1.jsonl"
NAMES = ("plan", "tool", "observe", "plan", "answer")
STEPS = [{"task_id": "a", "step": i, "name": name} for i, name in enumerate(NAMES, 1)]
END = {"task_id": "a", "outcome": "success"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    runs = simulate_tasks(preset("react"), 25, 3, rng=5, max_steps=30)
    write_corpus(corpus_of_sequences(runs, model="react"), folder / "runs.parquet")
    fit = ["fit", str(folder / "runs.parquet"), "-o", str(folder / "model.json"), "--draws", "29"]
    assert main([*fit, "--process", "homogeneous", "--no-certificate", "--quiet"]) == 0
    return folder / "model.json"


@pytest.fixture(scope="module")
def fitted(model: Path) -> FittedModel:
    return read_model(model)


def lines_of(*rows: object) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture
def grows(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, Iterable[bytes]], list[float]]:
    """Make each wait append the next piece to a file; a wait too many is an interrupt."""

    def start(path: Path, pieces: Iterable[bytes]) -> list[float]:
        waits: list[float] = []
        left = iter(pieces)

        def sleep(seconds: float) -> None:
            waits.append(seconds)
            piece = next(left, None)
            if piece is None:
                raise KeyboardInterrupt
            with path.open("ab") as file:
                file.write(piece)

        monkeypatch.setattr(time, "sleep", sleep)
        return waits

    return start


def told(out: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith("a  ")]


def test_once_tells_what_forecast_says_of_every_step(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "run.jsonl"
    log.write_bytes(lines_of({"task_id": "a", "outcome": None, "steps": NAMES}))
    assert main(["forecast", str(model), str(log), "--every", "--json", "-"]) == 0
    forecasts = json.loads(capsys.readouterr().out)["runs"][0]["forecasts"][1:]
    log.write_bytes(lines_of(*STEPS))
    assert main(["watch", str(model), str(log), "--once"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    lines = told(shown.out)
    assert len(lines) == len(forecasts) == len(NAMES)
    for line, forecast in zip(lines, forecasts, strict=True):
        low, high = forecast["success"]["interval"]
        assert f"step {forecast['step']}  {forecast['state']}  P(success) " in line
        assert f"P(success) {forecast['success']['value']:.2f} [{low:.2f}, {high:.2f}]" in line
        assert f"by step alone {forecast['blind']['value']:.2f} [" in line
        assert f"steps left {forecast['steps_left']['value']:.1f} [" in line


def test_a_growing_log_is_told_step_by_step_until_the_outcome(
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    grows: Callable[[Path, Iterable[bytes]], list[float]],
) -> None:
    log = tmp_path / "run.jsonl"
    whole = lines_of(*STEPS, END)
    log.write_bytes(b"")
    waits = grows(log, [whole[:10], whole[10:70], b"", whole[70:200], whole[200:]])
    assert main(["watch", str(model), str(log), "--interval", "0.5"]) == 0
    shown = capsys.readouterr()
    assert "every 0.5 s" in shown.err
    assert waits == [0.5] * 5
    lines = told(shown.out)
    assert [line.split("  ")[1] for line in lines[:-1]] == [f"step {i}" for i in range(1, 6)]
    assert lines[-1] == "a  over after step 5: success"
    assert main(["watch", str(model), str(log), "--once"]) == 0
    assert told(capsys.readouterr().out) == lines


def test_wherever_a_log_is_cut_the_same_lines_come(fitted: FittedModel, tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    whole = lines_of(*STEPS[:3], END)
    follower, once = Follower(fitted), Follower(fitted)
    options = ReadOptions(verdicts_elsewhere=True)
    found: list[str] = []
    for cut in range(1, len(whole) + 1):
        log.write_bytes(whole[:cut])
        try:
            corpus = read_traces(log, format="sojourn-jsonl", options=options)
        except EmptySourceError:
            assert cut < len(lines_of(STEPS[0]))
            continue
        found += follower.lines(corpus)
        assert follower.is_over == (cut >= len(whole) - 1)
    assert found == list(once.lines(corpus))
    assert len(found) == 4


def test_a_run_whose_past_changes_is_told_from_there(fitted: FittedModel, tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    follower = Follower(fitted)

    def read(*names: object) -> list[str]:
        log.write_bytes(lines_of({"task_id": "a", "outcome": None, "steps": names}))
        return list(follower.lines(read_traces(log)))

    first = read("plan", "tool", "observe")
    assert [line.split("  ")[1] for line in first] == ["step 1", "step 2", "step 3"]
    again = read("plan", "answer", "tool")
    assert [line.split("  ")[1:3] for line in again] == [["step 2", "answer"], ["step 3", "tool"]]
    fresh = Follower(fitted)
    assert again == list(fresh.lines(read_traces(log)))[1:]
    assert read("plan", "answer", "tool") == []
    # What the tool answered changes the step, but not what is foretold of it.
    assert read("plan", "answer", {"name": "tool", "ok": True}) == []


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ({"outcome": "failure"}, "over after step 5: failure"),
        ({"outcome": "failure", "end": "limit"}, "over after step 5: cut by a limit"),
        ({"end": "finished"}, "over after step 5: no verdict"),
    ],
)
def test_a_run_ends_as_its_log_says(
    end: dict[str, str],
    words: str,
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    grows: Callable[[Path, Iterable[bytes]], list[float]],
) -> None:
    log = tmp_path / "run.jsonl"
    log.write_bytes(lines_of(*STEPS))
    grows(log, [lines_of({"task_id": "a", **end})])
    assert main(["watch", str(model), str(log), "--quiet"]) == 0
    shown = capsys.readouterr()
    assert told(shown.out)[-1] == f"a  {words}"
    assert shown.err == ""


def test_runs_side_by_side_are_followed_until_all_have_ended(
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    grows: Callable[[Path, Iterable[bytes]], list[float]],
) -> None:
    log = tmp_path / "run.jsonl"
    other = {"task_id": "b", "task_repeat": 2, "step": 1, "name": "plan"}
    log.write_bytes(lines_of(STEPS[0], other, END))
    waits = grows(log, [lines_of({"task_id": "b", "task_repeat": 2, "outcome": "failure"})])
    assert main(["watch", str(model), str(log)]) == 0
    assert len(waits) == 1
    assert "b #2  over after step 1: failure" in capsys.readouterr().out


def test_an_interrupt_ends_it_quietly(
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    grows: Callable[[Path, Iterable[bytes]], list[float]],
) -> None:
    log = tmp_path / "run.jsonl"
    log.write_bytes(lines_of(*STEPS))
    grows(log, [])
    assert main(["watch", str(model), str(log), "--quiet"]) == 130
    shown = capsys.readouterr()
    assert len(told(shown.out)) == 5
    assert shown.err == "sojourn: interrupted\n"


def test_a_log_that_cannot_be_read_yet_says_why_once(
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    grows: Callable[[Path, Iterable[bytes]], list[float]],
) -> None:
    log = tmp_path / "run.jsonl"
    log.write_bytes(lines_of(STEPS[0], STEPS[0]))
    grows(log, [b"\n", b"\n"])
    assert main(["watch", str(model), str(log)]) == 130
    err = capsys.readouterr().err
    assert err.count("nothing to follow yet") == 1
    assert "same step number" in err


def test_a_session_of_claude_code_is_followed_message_by_message(
    fitted: FittedModel, tmp_path: Path
) -> None:
    log = tmp_path / "s-1.jsonl"
    follower, once = Follower(fitted), Follower(fitted)
    found: list[str] = []
    rows = SESSION.read_bytes().splitlines(keepends=True)
    for n in range(1, len(rows) + 1):
        log.write_bytes(b"".join(rows[:n]))
        try:
            found += follower.lines(read_traces(log, format="claude-code"))
        except EmptySourceError:
            assert not found
    last = list(once.lines(read_traces(log, format="claude-code")))
    assert len(last) == 3
    assert found[-1] == last[-1]
    assert not any(one == two for one, two in pairwise(found))
    assert not follower.is_over


def test_names_of_a_log_cannot_write_to_the_terminal(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "run.jsonl"
    log.write_bytes(lines_of({"task_id": "a\x1b[31m", "step": 1, "name": "plan"}))
    assert main(["watch", str(model), str(log), "--once"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "a?[31m  step 1  plan" in shown


def test_what_cannot_be_followed_is_refused(
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    grows: Callable[[Path, Iterable[bytes]], list[float]],
) -> None:
    grows(tmp_path / "run.jsonl", [])
    spans = Path(__file__).parent / "data" / "otel" / "spans.jsonl"
    assert main(["watch", str(model), str(spans)]) == 2
    assert "'otel' are not followed" in capsys.readouterr().err.replace("\n", " ")
    log = tmp_path / "run.jsonl"
    log.write_bytes(lines_of(*STEPS))
    assert main(["watch", str(model), str(log), "--format", "otel"]) == 2
    assert main(["watch", str(model), str(log), "--ci", "1"]) == 2
    assert main(["watch", str(model), str(log), "--interval", "0"]) == 2
    assert main(["watch", str(model), str(tmp_path)]) == 2
    assert main(["watch", str(model), str(tmp_path / "none.jsonl")]) == 3
    log.write_bytes(b"")
    assert main(["watch", str(model), str(log), "--once"]) == 3
    log.write_bytes(lines_of(STEPS[0])[:-9])
    capsys.readouterr()
    assert main(["watch", str(model), str(log), "--once"]) == 3
    assert "incomplete" in capsys.readouterr().err
