"""``fit``, ``forecast``, ``whatif`` and ``export``: what they print, write and exit with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sojourn.assess import model as model_module
from sojourn.assess.model_file import FittedModel, write_model
from sojourn.cli.main import main
from sojourn.corpus import write_corpus
from sojourn.corpus.simulated import corpus_of_sequences
from sojourn.process.progress import fit_progress
from sojourn.process.simulate import preset, simulate_tasks
from sojourn.readers import read_traces
from sojourn.states import fit_states

HOSTILE = 'evil" ]; \x1b[31m<script>\u202e'


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "runs.parquet"
    runs = simulate_tasks(preset("react"), 25, 3, rng=5, max_steps=30)
    write_corpus(corpus_of_sequences(runs, model="react"), path)
    return path


@pytest.fixture(scope="module")
def model(log: Path) -> Path:
    path = log.with_name("model.json")
    arguments = ["fit", str(log), "-o", str(path), "--draws", "29", "--no-certificate"]
    assert main([*arguments, "--process", "homogeneous", "--quiet"]) == 0
    return path


@pytest.fixture
def partial(tmp_path: Path) -> Path:
    runs = [
        {"task_id": "going", "outcome": None, "steps": ["plan", "tool", "observe"]},
        {"task_id": "odd", "task_repeat": 2, "outcome": None, "steps": ["plan", HOSTILE]},
        {"task_id": "done", "outcome": "success", "steps": ["plan", "answer"]},
        {"task_id": "cut", "outcome": "failure", "end": "limit", "steps": ["plan"]},
    ]
    path = tmp_path / "partial.jsonl"
    path.write_text("".join(json.dumps(run) + "\n" for run in runs))
    return path


def test_fit_says_what_it_fitted(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.json"
    arguments = ["fit", str(log), "-o", str(path), "--draws", "29", "--process", "order-2"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("order-2 process, 5 states, fitted to 75 runs of 25 tasks")
    assert captured.err == f"wrote {path}\n"
    first = path.read_bytes()
    assert main([*arguments, "--quiet"]) == 0
    assert path.read_bytes() == first
    assert capsys.readouterr().err == ""


def test_a_long_note_is_printed_whole(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    note = "a process that was tried as well, and " * 6 + "what became of it"
    real = model_module.fit_model

    def noted(*args: object, **settings: object) -> FittedModel:
        made = real(*args, **settings)
        return replace(made, trained_on={**made.trained_on, "notes": [note]})

    monkeypatch.setattr(model_module, "fit_model", noted)
    arguments = ["fit", str(log), "-o", str(tmp_path / "m.json"), "--draws", "19", "-q"]
    assert main([*arguments, "--process", "homogeneous", "--no-certificate"]) == 0
    out = capsys.readouterr().out
    assert note in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 102


def test_fit_wants_one_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"task_id": f"t{k % 9}", "task_repeat": k, "model": "ab"[k % 2], "outcome": k % 3 == 0}
        | {"steps": ["look", "do"][: 1 + k % 2]}
        for k in range(36)
    ]
    runs = tmp_path / "runs.jsonl"
    runs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    fit = ["fit", str(runs), "-o", str(tmp_path / "m.json"), "--draws", "19", "--no-certificate"]
    assert main(fit) == 2
    said = capsys.readouterr().err
    assert "there are 2" in said
    assert "as with --where model=a," in said
    assert "--pool" in said
    assert not (tmp_path / "m.json").exists()
    assert main([*fit, "--where", "model=c"]) == 2
    assert main([*fit, "--where", "model=b"]) == 0
    assert "18 runs" in capsys.readouterr().out
    assert main([*fit, "--pool"]) == 0
    assert "36 runs" in capsys.readouterr().out


def test_fit_leaves_out_groups_of_which_nothing_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"task_id": f"t{k}", "model": "a", "outcome": k % 3 == 0, "steps": ["look", "do"]}
        for k in range(12)
    ]
    rows += [{"task_id": "x", "model": "b", "outcome": None, "steps": ["look"]}]
    rows += [{"task_id": "y", "model": "c", "outcome": True, "n_steps": 3}]
    runs = tmp_path / "runs.jsonl"
    runs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    fit = ["fit", str(runs), "-o", str(tmp_path / "m.json"), "--draws", "19", "--no-certificate"]
    assert main(fit) == 0
    assert "12 runs" in capsys.readouterr().out
    assert main([*fit, "--where", "model=b"]) == 4
    assert "no run that counts has a step" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--process", "hmm"], 2),
        (["--states", "nowhere.json"], 2),
        (["--states", "names", "--features", "history"], 2),
        (["--features", "colour"], 2),
        (["--encoder", "nowhere"], 2),
        (["--process", "order"], 2),
        (["--where", "model"], 2),
        (["-o", "nowhere/model.json"], 2),
        (["-o", "."], 2),
    ],
)
def test_fit_refuses(arguments: list[str], code: int, log: Path, tmp_path: Path) -> None:
    output = [] if "-o" in arguments else ["-o", str(tmp_path / "m.json")]
    assert main(["fit", str(log), *arguments, *output]) == code


def test_forecast_prints_a_line_a_run(
    model: Path, partial: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["forecast", str(model), str(partial), "--cost", "0.05"]) == 0
    out = capsys.readouterr().out
    lines = {line.split()[0]: line for line in out.splitlines() if line.startswith("  ")}
    assert "at a cost of 0.05" in out
    assert (
        "P(success) counts that the last step may be the end; stop takes it that it was not" in out
    )
    assert "rest on the claim forecast, which is not decided" in out
    assert "over: success" in lines["done"]
    assert "observe" in lines["going"]
    assert "not seen in the fit" in lines["odd"]
    assert "#2" in lines["odd"]
    # A run that a limit cut is not over for the forecast: it would have gone on.
    assert "over" not in lines["cut"]
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_forecast_of_runs_that_do_not_speak_of_an_outcome(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "going.jsonl"
    path.write_text('{"task_id": "going", "steps": ["plan", "tool"]}\n')
    assert main(["forecast", str(model), str(path), "--json", "-"]) == 0
    run = json.loads(capsys.readouterr().out)["runs"][0]
    assert (run["task_id"], run["forecasts"][0]["step"]) == ("going", 2)


def test_forecast_as_json(
    model: Path, partial: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["forecast", str(model), str(partial), "--every", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    going, odd, done, _ = document["runs"]
    assert [f["step"] for f in going["forecasts"]] == [0, 1, 2, 3]
    assert [f["state"] for f in going["forecasts"]] == [None, "plan", "tool", "observe"]
    last = going["forecasts"][-1]["success"]
    assert last["interval"][0] < last["value"] < last["interval"][1]
    # The model carries no certificate, so that nothing made of it is more than inconclusive.
    assert last["status"] == "inconclusive"
    assert last["reasons"] == ["the claim forecast is not decided"]
    assert going["forecasts"][-1]["blind"]["status"] == "inconclusive"
    assert odd["forecasts"][-1]["known"] is False
    assert done["forecasts"][-1]["success"]["value"] == 1.0
    target = tmp_path / "f.json"
    assert main(["forecast", str(model), str(partial), "--json", str(target)]) == 0
    assert len(json.loads(target.read_text())["runs"][0]["forecasts"]) == 1


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["export", "MODEL", "--to", "dot", "-o", "MODEL"], "--output"),
        (["export", "LABELS", "--to", "tra", "-o", "OUT"], "--output"),
        (["forecast", "MODEL", "RUNS", "--json", "MODEL"], "--json"),
        (["forecast", "MODEL", "RUNS", "--json", "RUNS"], "--json"),
        (["whatif", "MODEL", "--top", "--json", "MODEL"], "--json"),
    ],
)
def test_a_model_and_the_runs_are_not_written_over(
    words: list[str],
    option: str,
    model: Path,
    partial: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own, labels = tmp_path / "model.json", tmp_path / "out.lab"
    for copy in (own, labels):
        copy.write_bytes(model.read_bytes())
    names = {"MODEL": own, "LABELS": labels, "RUNS": partial, "OUT": tmp_path / "out.tra"}
    before = partial.read_bytes()
    assert main([str(names.get(word, word)) for word in words]) == 2
    assert option in capsys.readouterr().err
    assert own.read_bytes() == labels.read_bytes() == model.read_bytes()
    assert partial.read_bytes() == before


def test_whatif_prints_before_and_after(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fixes = ["--fix", "answer=0.5", "--fix", "tool=0.2:observe", "--remove", "reflect"]
    assert main(["whatif", str(model), *fixes, "--cap", "60", "--top"]) == 0
    out = capsys.readouterr().out
    assert "0.5 of the failures in 'answer' become 'success'" in out
    assert "runs may take 60 steps" in out
    assert "rest on the claim order, which is not decided" in out
    assert "failures in" in out
    assert out.count("structural, not causal") == 2
    assert main(["whatif", str(model), "--remove", "reflect=answer", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)["whatif"]
    difference = found["success_ever"]["difference"]["value"]
    before, after = (found["success_ever"][name]["value"] for name in ("before", "after"))
    assert difference == pytest.approx(after - before)
    assert main(["whatif", str(model), "--cap", "3"]) == 0
    shown = capsys.readouterr().out
    assert "-> 3 steps)" in shown
    assert "ever" not in shown  # a cap changes nothing of runs that are not cut


def test_what_rests_on_a_claim_that_is_not_accepted_is_inconclusive(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["whatif", str(model), "--fix", "answer=0.5", "--top", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    effect = found["whatif"]["success_within"]
    assert effect["before"]["status"] == "inconclusive"
    assert effect["before"]["reasons"][-1] == "the claim timing is not decided"
    for name in ("after", "difference"):
        assert effect[name]["status"] == "inconclusive"
        assert effect[name]["reasons"][-1] == "the claim order is not decided"
    assert {row["gain"]["status"] for row in found["fixes"]} == {"supported"}
    assert {row["gain_if_continued"]["status"] for row in found["fixes"]} == {"inconclusive"}


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--fix", "answer"],
        ["--fix", "answer=2"],
        ["--fix", "answer=half"],
        ["--fix", "nowhere=0.5"],
        ["--fix", "answer=0.5:nowhere"],
        ["--remove", "nowhere"],
        ["--remove", "reflect=reflect"],
        ["--cap", "0"],
        ["--cap", "100001"],
        ["--top", "--ci", "1"],
        ["--top", "--json", "nowhere/f.json"],
    ],
)
def test_whatif_refuses(arguments: list[str], model: Path) -> None:
    assert main(["whatif", str(model), *arguments]) == 2


def test_names_of_states_may_hold_the_signs(tmp_path: Path) -> None:
    rows = [
        {"task_id": f"t{k % 9}", "task_repeat": k, "outcome": k % 3 == 0, "steps": steps}
        for k, steps in enumerate([["a=b"], ["a=b", "a"], ["a", "a=b:c"]] * 9)
    ]
    runs, path = tmp_path / "runs.jsonl", str(tmp_path / "m.json")
    runs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["fit", str(runs), "-o", path, "--draws", "19", "--no-certificate"]) == 0
    assert main(["whatif", path, "--fix", "a=b=0.5", "--fix", "a=0.5:a=b:c"]) == 0
    assert main(["whatif", path, "--remove", "a=b:c=a=b"]) == 0


def test_export_writes_what_was_asked_for(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(model), "--to", "prism"]) == 0
    assert capsys.readouterr().out.startswith("// An absorbing chain")
    target = tmp_path / "m.tra"
    assert main(["export", str(model), "--to", "tra", "-o", str(target)]) == 0
    assert target.read_text().startswith("8 ")
    assert target.with_suffix(".lab").read_text().startswith('0="init"')
    assert capsys.readouterr().out == ""
    assert main(["export", str(model), "--to", "yaml"]) == 2
    assert main(["export", str(model), "--to", "tra", "-o", str(tmp_path / "m.lab")]) == 2


def test_a_process_that_looks_at_the_step_is_drawn(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = read_traces(log)
    states = fit_states(corpus)
    process = fit_progress(states.transform(corpus))
    path = str(tmp_path / "m.json")
    counted = {"n_runs": 75, "n_tasks": 25, "n_units": 25}
    write_model(FittedModel(process=process, states=states, horizon=30, trained_on=counted), path)
    assert main(["export", path, "--to", "mermaid", "--steps", "2-4"]) == 0
    assert 'n0(["steps 2 to 4"])' in capsys.readouterr().out
    assert main(["export", path, "--to", "dot"]) == 0
    assert 'label="what follows steps 1 to ' in capsys.readouterr().out
    for wrong in ("x", "0", "4-2", "1-", "-3", "31", "5-31"):
        assert main(["export", path, "--to", "dot", f"--steps={wrong}"]) == 2
    assert main(["export", path, "--to", "drn", "--steps", "2"]) == 2


def test_a_file_that_is_no_model_exits_with_3(
    model: Path, partial: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "model.json"
    broken.write_text(model.read_text().replace("react", "other"))
    for command in (["forecast", str(broken), str(partial)], ["whatif", str(broken), "--top"]):
        assert main(command) == 3
        assert "does not fit what it holds" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "none.json"), "--to", "dot"]) == 3
    assert main(["forecast", str(model), str(tmp_path / "none.jsonl")]) == 3
