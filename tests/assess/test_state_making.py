"""States as a user asks for them: by words, by features, by score; and tests on other tasks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sojourn.assess import assess_traces, state_making
from sojourn.assess import certified as certified_module
from sojourn.assess.chain import ChainSettings
from sojourn.assess.cross_fit import CrossFit, cross_fit, held_to
from sojourn.assess.state_making import StateSettings
from sojourn.cli.main import main
from sojourn.corpus import CorpusBuilder, TraceCorpus, resolve, write_jsonl
from sojourn.corpus.simulated import corpus_of_sequences
from sojourn.errors import NothingUsableError
from sojourn.estimates import Claim, Verdict
from sojourn.process.exact import test_exact as exact_test
from sojourn.process.simulate import preset, simulate_tasks
from sojourn.readers import ReadOptions, read_traces
from sojourn.records import Outcome, Step, Trace
from sojourn.report.html import html_text
from sojourn.states import HISTORY_FEATURES
from sojourn.states.model import StateModel, fit_states

pytestmark = pytest.mark.thorough


def stumbling(n_tasks: int = 40, seed: int = 1) -> TraceCorpus:
    """Runs whose errors in a row decide how they end; their names say nothing."""
    rng = np.random.default_rng(seed)
    builder = CorpusBuilder()
    for task in range(n_tasks):
        for repeat in range(2):
            bad = bool(rng.random() < 0.5)
            length = int(rng.integers(4, 9))
            ok = [True, *(bool(x) for x in rng.random(length - 1) > (0.9 if bad else 0.1))]
            names = rng.choice(["look", "do"], length)
            builder.add(
                Trace(
                    task_id=f"t{task}",
                    task_repeat=repeat,
                    outcome=Outcome.FAILURE if bad else Outcome.SUCCESS,
                    steps=tuple(
                        Step(name=str(n), ok=fine) for n, fine in zip(names, ok, strict=True)
                    ),
                )
            )
    return builder.build()


@pytest.fixture(scope="module")
def corpus() -> TraceCorpus:
    return stumbling()


def test_words_become_the_arguments_of_states(corpus: TraceCorpus) -> None:
    runs = resolve(corpus)
    made = StateSettings(features=("history", "ok"), n_states=4).make(corpus, runs)
    plain = fit_states(
        corpus, mode="clusters", n_states=4, fields=("ok",), history=HISTORY_FEATURES
    )
    assert made.choice is None
    assert made.model.state_names == plain.state_names
    np.testing.assert_array_equal(
        made.model.transform(corpus).states, plain.transform(corpus).states
    )
    # Of the run so far alone: the step's own fields stay.
    only = StateSettings(features=("error_streak",), n_states=3).make(corpus, runs).model
    assert only.clusters is not None
    assert only.clusters.description.fields == ("actor", "kind", "name", "ok")
    alike = StateSettings(features=("similar_names",), n_states=2).make(corpus, runs).model
    assert alike.clusters is not None
    assert alike.clusters.description.embedder is not None
    assert alike.order_free


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mode": "magic"}, "mode must be one of"),
        ({"features": ("colour",)}, "features must be one of"),
        ({"n_states": 0}, "n_states"),
        ({"n_states": 10**6}, "n_states must be at most"),
        ({"mode": "names", "features": ("ok",)}, "describe clusters"),
        ({"table": {"*": "a"}, "n_states": 3}, "describe clusters"),
        ({"table": {"*": "a"}, "mode": "names"}, "names the states itself"),
    ],
)
def test_wishes_that_contradict_each_other_are_refused(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        StateSettings(**given)  # type: ignore[arg-type]


def test_candidates_are_the_step_the_run_so_far_and_both() -> None:
    specs = StateSettings(mode="best-for-curves", n_states=3).specs()
    assert [spec.label for spec in specs] == [
        "one state",
        "names",
        "3 clusters",
        "3 clusters by the step and the run so far",
        "3 clusters by the run so far",
    ]
    assert specs[3].settings["history"] == specs[4].settings["history"] == HISTORY_FEATURES
    assert specs[4].settings["fields"] == ()
    some = StateSettings(mode="best-for-curves", features=("error_streak",), n_states=3).specs()
    assert some[3].settings["history"] == ("error_streak",)
    assert len(StateSettings(mode="best-for-curves", features=("name",), n_states=3).specs()) == 3


def test_states_that_carry_information_are_found(corpus: TraceCorpus) -> None:
    made = StateSettings(mode="best-for-forecasts").make(corpus, resolve(corpus), rng=1)
    assert made.choice is not None
    rows = {row.label: row for row in made.choice.table}
    chosen = next(row for row in made.choice.table if row.chosen)
    assert rows["one state"].score < chosen.score - 0.5
    assert made.note is not None
    assert "the simplest of 20 candidates" in made.note
    assert "success of held-out runs" in made.note
    assert not made.model.order_free


def test_with_too_few_tasks_to_choose_on_it_is_said() -> None:
    corpus = stumbling(n_tasks=1)
    made = StateSettings(mode="best-for-curves").make(corpus, resolve(corpus), rng=1)
    assert made.model.mode == "names"
    assert made.note is not None
    assert made.note.startswith("states could not be chosen: 1 unit")


def test_of_very_many_runs_some_tasks_choose_and_all_make_the_states(
    corpus: TraceCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_making, "MAX_RUNS", 50)
    wish = StateSettings(mode="best-for-curves", n_states=3)
    made = wish.make(corpus, resolve(corpus), rng=1)
    assert made.choice is not None
    assert made.choice.n_tasks == 25
    assert made.note is not None
    assert made.note.endswith("; chosen on the 50 runs of 25 tasks or clusters drawn at random")
    whole = made.choice.spec.fit(corpus, resolve(corpus))
    np.testing.assert_array_equal(
        made.model.transform(corpus).states, whole.transform(corpus).states
    )
    assert not made.model.order_free


def test_p_values_on_other_tasks_are_those_of_each_half() -> None:
    runs = simulate_tasks(preset("react"), 30, 3, rng=5)
    corpus = corpus_of_sequences(runs, model="react")
    resolved = resolve(corpus)
    seen: list[np.ndarray] = []

    def make(some: TraceCorpus, part: object, rng: np.random.Generator) -> StateModel:
        seen.append(np.unique(part.task))  # type: ignore[attr-defined]
        return states

    states = fit_states(corpus)
    whole = states.transform(corpus)
    found = cross_fit(corpus, resolved, make, n_draws=99, rng=np.random.default_rng(3))
    assert isinstance(found, CrossFit)
    assert found.exact
    assert found.n_runs == 90
    one, two = seen
    assert np.intersect1d(one, two).size == 0
    assert one.size + two.size == 30
    # The same by hand: each half is tested with the states of the other, twice the smaller.
    _, *parts = np.random.default_rng(3).spawn(3)
    p = []
    for mine, source in zip((two, one), parts, strict=True):
        _, _, for_pooled, *_ = source.spawn(6)
        part = whole.select(np.flatnonzero(np.isin(whole.task, mine)))
        p.append(exact_test(part, n_draws=99, rng=for_pooled).p_order)
    assert found.pooled == pytest.approx(min(1.0, 2 * min(p)))


def test_halves_of_which_no_states_can_be_made_are_named(corpus: TraceCorpus) -> None:
    def make(*given: object) -> StateModel:
        raise NothingUsableError("too few")

    found = cross_fit(corpus, resolve(corpus), make, n_draws=19, rng=np.random.default_rng(0))
    assert found == "states could not be made of one half of the tasks alone: too few"


@pytest.mark.parametrize(
    ("verdict", "p", "expected"),
    [
        (Verdict.ACCEPTED, 0.4, Verdict.ACCEPTED),
        (Verdict.ACCEPTED, 0.01, Verdict.INCONCLUSIVE),
        (Verdict.REJECTED, 0.01, Verdict.REJECTED),
        (Verdict.REJECTED, 0.4, Verdict.INCONCLUSIVE),
        (Verdict.INCONCLUSIVE, 0.4, Verdict.INCONCLUSIVE),
        (Verdict.ACCEPTED, None, Verdict.ACCEPTED),
    ],
)
def test_a_claim_is_held_to_what_other_tasks_show(
    verdict: Verdict, p: float | None, expected: Verdict
) -> None:
    found = CrossFit(
        pooled=0.9,
        within=p,
        timing=None,
        exchange_pooled=p,
        exchange_within=None,
        exact=True,
        n_runs=10,
    )
    if p is None:
        found = CrossFit(
            pooled=None, within=None, timing=None, exchange_pooled=None, exchange_within=None,
            exact=True, n_runs=10,
        )  # fmt: skip
    claim = Claim(claim="order", verdict=verdict)
    for process in ("homogeneous", "progress"):
        held = held_to(claim, process, found, 0.05)
        assert held.verdict is expected
        assert "the p-value is approximate" in held.reasons[0]
    timing = Claim(claim="timing", verdict=verdict)
    assert held_to(timing, "homogeneous", found, 0.05) is timing


def test_an_assessment_with_states_of_the_run_so_far_is_approximate_and_checked(
    corpus: TraceCorpus,
) -> None:
    wish = StateSettings(features=("error_streak",), n_states=4)
    settings = ChainSettings(states=wish, n_draws=99, process="progress", n_forecast=19)
    result = assess_traces(corpus, chain=settings, n_resamples=99, rng=0)
    assert result.chain is not None
    assert result.chain.certificate.pooled is not None
    assert result.chain.certificate.pooled.exactness == "approximate"
    assert result.chain.cross_fit is not None
    assert not result.chain.cross_fit.exact
    assert "approximate still" in result.chain.certificate.notes[-1]
    page, text = html_text(result), str(result)
    assert "order: approximate test, p" in text
    assert "memory given state and step, within tasks, approximate p" in text
    assert "pooled: approximate p = " in str(result.chain.richer.pooled)
    assert "exact test" not in text
    assert "Approximate conditional test" in page
    assert "statistics of the approximate test" in page
    assert "The p-values are approximate and rest on this:" in page
    assert "approximate test of the first-order chain" in str(result.chain.certificate.pooled)
    document = json.loads(json.dumps(result.to_dict()))
    assert document["states"]["cross_fit"]["n_runs"] == 80
    assert document["states"]["choice"] is None
    named = assess_traces(
        corpus, chain=ChainSettings(n_draws=99, quick=True), n_resamples=99, rng=0
    )
    assert named.chain is not None
    assert named.chain.cross_fit is None
    page = html_text(named)
    assert "order: exact test, p" in str(named)
    assert "Exact conditional test" in page
    assert "The p-values are exact if:" in page


def test_forecasts_of_very_many_runs_rest_on_some_tasks_and_it_is_said(
    corpus: TraceCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certified_module, "MAX_RUNS", 60)
    settings = ChainSettings(n_draws=99, process="homogeneous", n_forecast=19)
    result = assess_traces(corpus, chain=settings, n_resamples=99, rng=0)
    assert result.chain is not None
    found = result.chain.forecast
    assert found is not None
    assert found.skill is not None
    assert found.skill.n_runs <= 60
    note = (
        "the measure of forecasts looks at the 60 runs of 30 tasks or clusters drawn at random "
        "out of 40"
    )
    assert found.notes == (note,)
    assert note in found.claim.reasons
    assert found.tables.n_units == 30
    again = assess_traces(corpus, chain=settings, n_resamples=99, rng=0)
    assert again.chain is not None
    assert again.chain.forecast is not None
    assert again.chain.forecast.forecast_dict() == found.forecast_dict()


def test_the_command_takes_words_for_states(
    corpus: TraceCorpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.jsonl"
    write_jsonl(corpus, path)
    common = ["assess", str(path), "--json", "-", "--resamples", "99", "--draws", "99", "-q"]
    chosen = ["--states", "best-for-forecasts", "--n-states", "3", "--quick"]
    assert main([*common, *chosen]) == 0
    states = json.loads(capsys.readouterr().out)["states"]
    assert states["choice"]["by"] == "success"
    assert states["order_free"] is False
    assert states["cross_fit"]["pooled"] is not None
    features = ["--features", "ok,error-streak", "--n-states", "3", "--quick"]
    assert main([*common, *features]) == 0
    assert json.loads(capsys.readouterr().out)["states"]["n_states"] == 3
    assert main([*common, "--features", "magic"]) == 2
    assert "'magic' is none of actor, kind, name, ok, error-streak" in capsys.readouterr().err
    assert main([*common, "--states", "nowhere"]) == 2
    assert "neither a file nor one of auto, names" in capsys.readouterr().err


def test_text_of_steps_becomes_states_where_it_is_mapped_to_their_names(tmp_path: Path) -> None:
    texts = ["book a flight to Rome", "book the flight to Paris", "sorry, no refund is possible"]
    path = tmp_path / "steps.jsonl"
    rows = [
        {"task_id": f"t{k}", "outcome": k % 2 == 0, "step": step, "name": "respond", "text": text}
        for k in range(6)
        for step, text in enumerate(texts)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = read_traces(path, options=ReadOptions(columns={"name": "text"}))
    wish = StateSettings(features=("similar_names",), n_states=2)
    states = wish.make(corpus, resolve(corpus)).model.transform(corpus).states[:3]
    assert states[0] == states[1] != states[2]
