"""A model is the process that an assessment of the same runs speaks of, and no other fit of it."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.assess import assess_traces
from sojourn.assess import certified as certified_module
from sojourn.assess import model as model_module
from sojourn.assess.chain import ChainSettings
from sojourn.assess.model import fit_model, monitor_of
from sojourn.assess.model_file import read_model, write_model
from sojourn.assess.state_making import StateSettings
from sojourn.corpus import TraceCorpus
from sojourn.corpus.simulated import corpus_of_sequences
from sojourn.errors import NothingUsableError
from sojourn.process import simulate
from sojourn.process.draws import RefittedDraws
from sojourn.process.homogeneous import HomogeneousFit
from sojourn.records import Step
from sojourn.sequences import StateSequences

pytestmark = pytest.mark.thorough

QUICK = ChainSettings(
    candidates=("homogeneous", "progress"), n_simulated=29, n_refits=49, n_draws=99, n_forecast=19
)


def delayed(n_tasks: int) -> TraceCorpus:
    """Four runs a task that hardly end before their seventh step."""
    runs = simulate.simulate_runs(
        simulate.preset("react"), 4 * n_tasks, rng=1, exit_factor=0.05, exit_steps=7
    )
    task = np.arange(runs.n_runs, dtype=np.int32) // 4
    return corpus_of_sequences(
        StateSequences(
            states=runs.states,
            offsets=runs.offsets,
            event=runs.event,
            task=task,
            unit=task,
            state_names=runs.state_names,
        ),
        model="react",
    )


@pytest.fixture(scope="module")
def corpus() -> TraceCorpus:
    return delayed(40)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a model be certified with as few draws as the assessment it is compared with."""

    def settings(**given: object) -> ChainSettings:
        same = {name: getattr(QUICK, name) for name in ("candidates", "n_simulated", "n_refits")}
        return ChainSettings(n_draws=99, **(same | given))  # type: ignore[arg-type]

    monkeypatch.setattr(model_module, "ChainSettings", settings)


@pytest.mark.usefixtures("quick")
def test_a_model_is_what_an_assessment_with_this_seed_speaks_of(
    corpus: TraceCorpus, tmp_path: object
) -> None:
    assessed = assess_traces(corpus, chain=QUICK, n_resamples=99, rng=5).chain
    assert assessed is not None
    assert assessed.richer is not None
    assert assessed.forecast is not None
    model = fit_model(corpus, n_draws=9, rng=5)
    assert model.process.name == assessed.chosen == "progress"
    for name, value in assessed.richer.process.parameters().items():
        np.testing.assert_array_equal(model.process.parameters()[name], value)
    claims = [*assessed.richer.claims, assessed.forecast.claim]
    assert model.certificate == [claim.to_dict() for claim in claims]


@pytest.mark.usefixtures("quick")
def test_the_process_that_is_kept_is_the_one_that_was_certified(
    corpus: TraceCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []

    def looking(*given: object, **more: object) -> object:
        made = real(*given, **more)  # type: ignore[arg-type]
        found.append(made.found)
        return made

    real = certified_module.certified
    monkeypatch.setattr(model_module, "certified", looking)
    model = fit_model(corpus, process="semi-markov", n_draws=9, rng=5)
    (one,) = found
    assert one is not None
    assert model.process is one.process
    assert model.trained_on["n_runs"] == one.runs.n_runs == 160


def test_a_good_chain_is_kept_homogeneous() -> None:
    runs = simulate.simulate_tasks(simulate.preset("react"), 60, 4, rng=3)
    corpus = corpus_of_sequences(runs, model="react")
    settings = ChainSettings(n_draws=999)
    assessed = assess_traces(corpus, chain=settings, n_resamples=99, rng=2).chain
    assert assessed is not None
    model = fit_model(corpus, n_draws=9, rng=2)
    assert model.process.name == assessed.chosen == "homogeneous"
    assert model.certificate is not None
    chain = {c.claim: c.to_dict() for c in assessed.certificate.claims}
    assert {c["claim"]: c for c in model.certificate[:2]} == chain


def test_without_a_certificate_the_score_alone_chooses(corpus: TraceCorpus) -> None:
    model = fit_model(corpus, n_draws=9, certificate=False, rng=1)
    assert model.process.name == "progress"
    assert model.certificate is None
    few = fit_model(delayed(12), n_draws=9, certificate=False, rng=1)
    assert few.process.name == "homogeneous"


@pytest.mark.parametrize("certificate", [True, False])
def test_a_named_process_that_cannot_be_fitted_is_refused_in_words(
    certificate: bool, corpus: TraceCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsettled(*given: object, **more: object) -> object:
        raise ArithmeticError("did not settle")

    monkeypatch.setattr("sojourn.assess.climb.fit_candidate", unsettled)
    monkeypatch.setattr(model_module, "fit_candidate", unsettled)
    with pytest.raises(NothingUsableError, match=r"could not be fitted.*did not settle"):
        fit_model(corpus, process="progress", n_draws=9, certificate=certificate)
    with pytest.raises(ValueError, match="no process is called"):
        fit_model(corpus, process="nonsense", n_draws=9)


def test_refits_that_were_lost_stand_in_the_file(
    corpus: TraceCorpus, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    refit, asked = HomogeneousFit.refit, [0]

    def brittle(self: HomogeneousFit, runs: object, **more: object) -> object:
        asked[0] += 1
        if asked[0] % 4 == 0:
            raise np.linalg.LinAlgError("Singular matrix")
        return refit(self, runs, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(HomogeneousFit, "refit", brittle)
    model = fit_model(corpus, process="homogeneous", n_draws=20, certificate=False, rng=1)
    assert (len(model.draws), model.draws.n_lost) == (15, 5)
    note = "5 of 20 refits to resampled tasks could not be fitted (Singular matrix)"
    assert note in str(model)
    path = tmp_path / "m.json"  # type: ignore[operator]
    write_model(model, path)
    again = read_model(path)
    assert isinstance(again.draws, RefittedDraws)
    assert str(again) == str(model)
    assert "5 of 20 refits" in str(monitor_of(again).forecast.success.reasons)


def test_states_and_how_they_were_asked_for_are_kept(corpus: TraceCorpus) -> None:
    wish = StateSettings(features=("history",), n_states=3)
    model = fit_model(
        corpus, process="homogeneous", states=wish, n_draws=9, certificate=False, rng=1
    )
    assert model.states.n_states == 3
    assert model.trained_on["states"]["features"] == ["history"]


def test_a_monitor_takes_a_step_or_the_name_of_a_state(corpus: TraceCorpus) -> None:
    model = fit_model(corpus, process="progress", n_draws=9, certificate=False, rng=1)
    by_step, by_name = monitor_of(model), monitor_of(model)
    for name in ("plan", "tool"):
        told = by_name.feed(name)
        assert str(told) == str(by_step.feed(Step(name=name)))
    with pytest.raises(ValueError, match=r"'serch' is no state.*answer.*Step\(name="):
        by_name.feed("serch")
    with pytest.raises(TypeError, match="a Step or the name of a state; got int"):
        by_name.feed(3)
    assert by_name.forecast.step == 2  # what was refused is no step


def test_states_of_the_run_so_far_are_fed_by_steps_or_by_names_and_not_by_both(
    corpus: TraceCorpus,
) -> None:
    model = fit_model(
        corpus,
        process="homogeneous",
        states=StateSettings(features=("history",), n_states=3),
        n_draws=9,
        certificate=False,
        rng=1,
    )
    state = model.states.state_names[1]
    monitor = monitor_of(model)
    assert monitor.feed(state).state == state
    with pytest.raises(ValueError, match="not both"):
        monitor.feed(Step(name="plan"))
    monitor = monitor_of(model)
    monitor.feed(Step(name="plan"))
    with pytest.raises(ValueError, match="not both"):
        monitor.feed(state)
