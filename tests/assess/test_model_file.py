"""A model file gives the same figures again, and anything else in its place is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sojourn.assess import model_file
from sojourn.assess.forecast import assess_forecast, forecast_claim, measured_skill
from sojourn.assess.model import StepReader, fit_model, model_tables, monitor_of
from sojourn.assess.model_file import FittedModel, ModelFileError, read_model, write_model
from sojourn.assess.state_file import state_model_from_dict, state_model_to_dict
from sojourn.assess.state_making import StateSettings
from sojourn.corpus import TraceCorpus
from sojourn.corpus.simulated import corpus_of_sequences
from sojourn.errors import NothingUsableError, ReaderError
from sojourn.estimates import Claim, Estimate, Interval, Status, Verdict
from sojourn.process.homogeneous import fit_homogeneous
from sojourn.process.phases import fit_phases
from sojourn.process.simulate import preset, simulate_tasks
from sojourn.records import Step
from sojourn.states.embedding import NgramEmbedder
from sojourn.states.model import fit_states

KINDS = ("homogeneous", "progress", "order-2", "semi-markov", "phases-2", "mixture-2")
RUNS = simulate_tasks(preset("react"), 30, 3, rng=5, odds_sd=0.8, max_steps=30)


@pytest.fixture(scope="module")
def corpus() -> TraceCorpus:
    return corpus_of_sequences(RUNS, model="react")


def fitted(corpus: TraceCorpus, process: str = "homogeneous") -> FittedModel:
    return fit_model(corpus, process=process, n_draws=19, certificate=False, rng=1)


@pytest.fixture(scope="module")
def written(corpus: TraceCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "model.json"
    write_model(fitted(corpus), path)
    return path


@pytest.mark.parametrize("process", KINDS)
def test_what_is_read_is_what_was_written(
    process: str, corpus: TraceCorpus, tmp_path: Path
) -> None:
    model = fitted(corpus, process)
    path = tmp_path / "model.json"
    write_model(model, path)
    again = read_model(path)
    for ours, theirs in zip(
        (model.process, *model.draws), (again.process, *again.draws), strict=True
    ):
        for curve in ("success_within", "failure_within"):
            np.testing.assert_array_equal(getattr(ours, curve)(50), getattr(theirs, curve)(50))
    assert len(again.draws) == 19
    tables, others = model_tables(model), model_tables(again)
    np.testing.assert_array_equal(tables.success, others.success)
    assert tables.at(0, 2)[0] == others.at(0, 2)[0]
    assert (again.horizon, again.n_units) == (model.horizon, 30)
    assert again.trained_on == model.trained_on
    assert str(again) == str(model)
    # Written again it is the same file.
    write_model(again, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_draws_are_those_of_refits(corpus: TraceCorpus, written: Path) -> None:
    draws = read_model(written).draws
    at_ten = [draw.success_within(10)[-1] for draw in draws]
    assert np.std(at_ten) > 0.0
    assert len(set(at_ten)) == len(at_ten)


def changed(path: Path, change: Callable[[dict[str, Any]], None], target: Path) -> Path:
    """Change a file as one would who knows the format: with a digest that fits."""
    document = json.loads(path.read_text())
    del document["digest"]
    change(document)
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    document["digest"] = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    target.write_text(json.dumps(document))
    return target


def test_a_changed_number_is_found(written: Path, tmp_path: Path) -> None:
    document = json.loads(written.read_text())
    document["parameters"]["table"]["data"][1] += 1
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ModelFileError, match=r"edited\.json: its digest does not fit"):
        read_model(path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_a_truncated_file_is_found(share: float, written: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_bytes(written.read_bytes()[: int(share * written.stat().st_size)])
    with pytest.raises(ModelFileError, match="cut short"):
        read_model(path)


def entry(document: dict[str, Any], **change: Any) -> None:
    document["parameters"]["table"] |= change


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "version": lambda d: d.update(sojourn_model=2),
    "version true": lambda d: d.update(sojourn_model=True),
    "version with a point": lambda d: d.update(sojourn_model=1.0),
    "version text": lambda d: d.update(sojourn_model="1"),
    "no parameters": lambda d: d.pop("parameters"),
    "parameters a list": lambda d: d.update(parameters=[]),
    "unknown process": lambda d: d.update(process="os.system"),
    "process of another name": lambda d: d.update(process="progress"),
    "process a number": lambda d: d.update(process=3),
    "negative shape": lambda d: entry(d, shape=[-1, -1]),
    "large shape": lambda d: entry(d, shape=[10**9, 10**9]),
    "wrong shape": lambda d: entry(d, shape=[3, 16]),
    "object dtype": lambda d: entry(d, dtype="object"),
    "text for numbers": lambda d: d["parameters"]["table"]["data"].__setitem__(0, "1"),
    "true for a number": lambda d: d["parameters"]["table"]["data"].__setitem__(0, True),
    "huge number": lambda d: d["parameters"]["table"]["data"].__setitem__(0, 10**40),
    "negative count": lambda d: d["parameters"]["table"]["data"].__setitem__(0, -50),
    "infinite": lambda d: d["parameters"]["kappa"]["data"].__setitem__(0, "inf"),
    "overflow": lambda d: d["parameters"]["kappa"].update(data=[10**400]),
    "bad code": lambda d: d["parameters"]["smoothing"].update(data=[77]),
    "missing parameter": lambda d: d["parameters"].pop("tail"),
    "extra key": lambda d: d["parameters"]["table"].update(more=1),
    "horizon": lambda d: d.update(horizon=10**12),
    "horizon text": lambda d: d.update(horizon="9"),
    "horizon true": lambda d: d.update(horizon=True),
    "units true": lambda d: d["trained_on"].update(n_units=True),
    "units": lambda d: d["trained_on"].update(n_units=-1),
    "other states": lambda d: d["states"].update(names=["a", "b", "c", "d", "e", "f"]),
    "equal states": lambda d: d["states"].update(names=["a"] * 5),
    "state out of range": lambda d: d["states"]["pooling"]["by_name"].update(plan=99),
    "mode": lambda d: d["states"].update(mode="pickle"),
    "features without clusters": lambda d: d["states"].update(features={}),
    "draws": lambda d: d["draws"].update(n=3),
    "lost draws": lambda d: d["draws"].update(n_lost=-1),
    "draw of another shape": lambda d: d["draws"]["parameters"][0]["table"].update(shape=[48]),
    "draw of negative counts": lambda d: d["draws"]["parameters"][0]["table"]["data"].__setitem__(
        0, -500.0
    ),
    "draw with more": lambda d: d["draws"]["parameters"][0].update(evil={}),
    "certificate": lambda d: d.update(certificate="accepted"),
    "names": lambda d: d.update(step_names=[1]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_no_fit_can_hold_is_refused(name: str, written: Path, tmp_path: Path) -> None:
    path = changed(written, CHANGES[name], tmp_path / "model.json")
    with pytest.raises(ModelFileError) as caught:
        read_model(path)
    message = str(caught.value)
    assert message.startswith("model.json: ")
    assert "\n" not in message
    assert len(message) < 400


@pytest.mark.parametrize(
    "text",
    ["[]", "null", '{"a": 1}', "[" * 100_000, '{"sojourn_model": NaN}', "\x00", '{"a": 1e999'],
)
def test_other_files_are_no_models(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ModelFileError, match=r"other\.json: "):
        read_model(path)
    assert issubclass(ModelFileError, ReaderError)


def test_a_huge_file_is_not_read(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_file, "_MAX_BYTES", 1000)
    with pytest.raises(ModelFileError, match="larger than"):
        read_model(written)


def test_a_file_is_written_whole_or_not_at_all(
    corpus: TraceCorpus, written: Path, tmp_path: Path
) -> None:
    path = tmp_path / "model.json"
    path.write_text("old")
    model = fitted(corpus)
    broken = FittedModel(
        process=model.process,
        states=model.states,
        horizon=5,
        trained_on=model.trained_on | {"rate": float("nan")},
    )
    with pytest.raises(ValueError, match="JSON compliant"):
        write_model(broken, path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]


@pytest.mark.parametrize("how", ["names", "table", "clusters", "history", "embedding"])
def test_rules_of_states_come_back(how: str, corpus: TraceCorpus) -> None:
    settings: dict[str, Any] = {
        "names": {"mode": "names", "min_share": 0.15},
        "table": {"table": {"plan": "think", "*": "do"}},
        "clusters": {"mode": "clusters", "n_states": 3, "repeats": True},
        "history": {"mode": "clusters", "n_states": 3, "history": ("repeats",)},
        "embedding": {"n_states": 3, "embedder": NgramEmbedder(n_dims=32)},
    }[how]
    states = fit_states(corpus, **settings)
    plain = json.loads(json.dumps(state_model_to_dict(states)))
    again = state_model_from_dict(plain)
    path = again.transform(corpus).states
    np.testing.assert_array_equal(path, states.transform(corpus).states)
    assert again.order_free == states.order_free
    # Step by step it is the same path as all at once.
    reader_path = []
    for run in range(20):
        reader = StepReader(again)
        for place in range(corpus.offsets[run], corpus.offsets[run + 1]):
            digest = 0 if corpus.digests is None else int(corpus.digests[place])
            reader_path.append(reader(corpus.step_types.step(corpus.steps[place], digest))[0])
    assert reader_path == path[: corpus.offsets[20]].tolist()


class Own:
    """An encoder that a model file cannot hold."""

    name = "own"

    def embed(self, texts: list[str]) -> np.ndarray:
        return np.array([[len(text), text.count("e")] for text in texts], dtype=np.float32)


def test_of_an_encoder_the_vectors_are_kept_that_it_has_made(corpus: TraceCorpus) -> None:
    states = fit_states(corpus, n_states=3, embedder=Own())
    plain = json.loads(json.dumps(state_model_to_dict(states)))
    again = state_model_from_dict(plain)
    np.testing.assert_array_equal(again.transform(corpus).states, states.transform(corpus).states)
    assert again.clusters is not None
    embedder = again.clusters.description.embedder
    assert embedder is not None
    assert embedder.name == "own"
    assert embedder.embed(["plan", "never seen"]).tolist() == [[4.0, 0.0], [0.0, 0.0]]
    reader = StepReader(again, frozenset(RUNS.state_names))
    state, known = reader(Step(name="never seen"))
    assert (state in range(3), known) == (True, False)
    for wrong in ({"texts": ["a"]}, {"vectors": [[1.0]]}, {"vectors": []}, {"name": 3}):
        features = plain["features"] | {"embedder": plain["features"]["embedder"] | wrong}
        with pytest.raises((ValueError, IndexError)):
            state_model_from_dict(plain | {"features": features})


def test_states_chosen_by_a_score_stay_so_in_the_file(corpus: TraceCorpus) -> None:
    chosen = replace(fit_states(corpus), order_free=False)
    plain = json.loads(json.dumps(state_model_to_dict(chosen)))
    assert not state_model_from_dict(plain).order_free
    seeing = fit_states(corpus, n_states=3, history=("repeats",))
    plain = state_model_to_dict(seeing) | {"order_free": True}
    assert not state_model_from_dict(plain).order_free


def test_steps_never_seen_are_flagged(corpus: TraceCorpus) -> None:
    model = fitted(corpus)
    monitor = monitor_of(model)
    known = monitor.feed(Step(name="plan"))
    assert (known.known, known.state) == (True, "plan")
    odd = monitor.feed(Step(name="never seen"))
    assert not odd.known
    assert odd.success.status is Status.INCONCLUSIVE
    # A table without '*' has no state for it: the forecast is that of the step alone.
    table = {name: name for name in RUNS.state_names}
    strict = fit_model(
        corpus,
        process="homogeneous",
        states=StateSettings(table=table),
        n_draws=19,
        certificate=False,
        rng=1,
    )
    blind = monitor_of(strict).feed(Step(name="never seen"))
    assert (blind.state, blind.known) == (None, False)
    assert blind.success.value == pytest.approx(model_tables(strict).blind_success[1])


def test_a_fit_says_what_it_may_be_believed_for(corpus: TraceCorpus) -> None:
    model = fit_model(corpus, process="homogeneous", n_draws=19, rng=1)
    assert model.certificate is not None
    assert [claim["claim"] for claim in model.certificate] == ["order", "timing", "forecast"]
    assert fitted(corpus).claim_lines()[0].startswith("not certified")
    with pytest.raises(NothingUsableError):
        fit_model(corpus.select(np.zeros(0, np.intp)), n_draws=19)


ACCEPTED = Claim(claim="order", verdict=Verdict.ACCEPTED)
REJECTED = Claim(claim="order", verdict=Verdict.REJECTED)


def test_forecasts_need_memory_and_skill() -> None:
    fit = fit_homogeneous(RUNS)
    skill, missing = measured_skill(RUNS, fit, rng=1)
    assert missing is None
    assert skill is not None
    assert forecast_claim(REJECTED, skill).verdict is Verdict.REJECTED
    assert forecast_claim(ACCEPTED, None, "few").verdict is Verdict.INCONCLUSIVE
    assert forecast_claim(ACCEPTED, skill).verdict in (skill.verdict, Verdict.INCONCLUSIVE)


def test_findings_withhold_what_a_rejected_claim_bears(corpus: TraceCorpus) -> None:
    states = fit_states(corpus)
    sequences = states.transform(corpus)
    fit = fit_homogeneous(sequences)
    found = assess_forecast(states, sequences, fit, REJECTED, 1, n_draws=19)
    assert found.claim.verdict is Verdict.REJECTED
    assert found.rows[0].state is None
    assert all(e.value is not None for e in found.rows[0].success)
    assert all(e.status is Status.WITHHELD for row in found.rows[1:] for e in row.success)
    fixes = found.sensitivities_dict()
    assert fixes is not None
    assert fixes[0]["gain"]["value"] > 0
    assert fixes[0]["gain_if_continued"]["status"] == "withheld"
    json.dumps([found.forecast_dict(), fixes], allow_nan=False)
    assert "structural, not causal" in str(found)
    assert "what comes of runs that went on is not given: the claim order is rejected" in str(found)
    good = assess_forecast(states, sequences, fit, ACCEPTED, 1, n_draws=19)
    if good.claim.verdict is not Verdict.REJECTED:
        assert all(e.value is not None for row in good.rows for e in row.success)


def test_fixes_of_states_where_no_run_fails_are_counted_not_listed(corpus: TraceCorpus) -> None:
    states = fit_states(corpus)
    sequences = states.transform(corpus)
    found = assess_forecast(states, sequences, fit_homogeneous(sequences), ACCEPTED, 1, n_draws=19)
    assert found.fixes is not None
    assert found.told_fixes == found.fixes
    assert found.fix_notes == ()
    none = Estimate(value=0.0, interval=Interval(low=0.0, high=0.0004, ci_prob=0.95, kind="x"))
    rest = tuple(replace(row, gain=none) for row in found.fixes[1:])
    few = replace(found, fixes=(found.fixes[0], *rest))
    assert few.told_fixes == found.fixes[:1]
    assert few.fix_notes == (f"in {len(rest)} other states hardly a run fails",)
    assert few.fix_notes[0] in str(few)
    table = str(few)[str(few).index("failures in") :]
    assert not [row.state for row in rest if f" {row.state} " in table]
    nobody = replace(found, fixes=rest)
    assert nobody.told_fixes == rest[:1]


def test_hidden_phases_have_forecasts_and_no_fixes(corpus: TraceCorpus) -> None:
    states = fit_states(corpus)
    sequences = states.transform(corpus)
    fit = fit_phases(sequences, n_phases=2, rng=0)
    found = assess_forecast(states, sequences, fit, ACCEPTED, 1, n_draws=3)
    assert found.sensitivities_dict() is None
    assert found.forecast_dict()["process"] == "phases-2"
