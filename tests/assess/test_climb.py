"""From the homogeneous chain to a richer process: when, which, and what is then claimed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sojourn.assess import TraceAssessment, assess_traces, climb
from sojourn.assess.chain import ChainSettings
from sojourn.assess.process_text import candidate_cells
from sojourn.cli.main import main
from sojourn.corpus import CorpusBuilder, TraceCorpus, write_jsonl
from sojourn.estimates import Status, Verdict
from sojourn.process import simulate
from sojourn.process.choice import CandidateScore
from sojourn.process.exchange import test_exchange as exchange_futures
from sojourn.process.homogeneous import fit_homogeneous
from sojourn.process.progress import ProgressFit, fit_progress
from sojourn.records import Outcome, Step, Trace
from sojourn.sequences import SUCCESS, StateSequences

pytestmark = pytest.mark.thorough

TWO = ("homogeneous", "progress")


def delayed(n_tasks: int, seed: int = 1) -> StateSequences:
    """Four runs a task that hardly end before their seventh step."""
    runs = simulate.simulate_runs(
        simulate.preset("react"), 4 * n_tasks, rng=seed, exit_factor=0.05, exit_steps=7
    )
    task = np.arange(runs.n_runs, dtype=np.int32) // 4
    return StateSequences(
        states=runs.states,
        offsets=runs.offsets,
        event=runs.event,
        task=task,
        unit=task,
        state_names=runs.state_names,
    )


def as_corpus(runs: StateSequences) -> TraceCorpus:
    builder = CorpusBuilder()
    for r in range(runs.n_runs):
        path = runs.states[runs.offsets[r] : runs.offsets[r + 1]]
        builder.add(
            Trace(
                task_id=str(runs.task[r]),
                task_repeat=r % 4,
                outcome=Outcome.SUCCESS if runs.event[r] == SUCCESS else Outcome.FAILURE,
                n_steps=path.size,
                steps=tuple(Step(name=runs.state_names[s]) for s in path),
            )
        )
    return builder.build()


def look(runs: StateSequences, **settings: object) -> climb.Climb:
    given: dict[str, object] = {"candidates": TWO, "n_draws": 29, "n_refits": 49}
    return climb.climb(
        runs, rng=np.random.default_rng(0), **(given | {"n_exchanges": 99} | settings)
    )  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def assessed() -> TraceAssessment:
    settings = ChainSettings(candidates=TWO, n_simulated=29, n_refits=49, n_draws=99)
    return assess_traces(as_corpus(delayed(40)), chain=settings, n_resamples=99, rng=0)


def test_a_rejected_chain_gives_way_to_the_process_that_is_accepted() -> None:
    looked = look(delayed(40))
    assert looked.choice is not None
    assert looked.found is not None
    assert looked.choice.chosen == looked.found.name == "progress"
    claims = {claim.claim: claim for claim in looked.found.claims}
    assert set(claims) == {"order", "timing"}
    assert claims["timing"].verdict is Verdict.ACCEPTED
    assert claims["timing"].p_value == looked.found.fit_test.p_timing
    assert claims["order"].p_value == looked.found.within.p_value
    assert all(claim.reasons[0].startswith("progress: ") for claim in claims.values())


def test_curves_of_the_process_hold_between_the_claims() -> None:
    found = look(delayed(40)).found
    assert found is not None
    inside, beyond = (
        found.within_steps(8, "success"),
        found.within_steps(found.horizon + 1, "success"),
    )
    assert inside.status is Status.SUPPORTED
    assert inside.value == pytest.approx(found.process.success_within(8)[8])
    assert beyond.status is Status.INCONCLUSIVE
    assert "extrapolation" in beyond.reasons[0]
    assert found.within_steps(10 * found.horizon, "failure").value is None
    bound = replace(found.timing.bound, verdict=Verdict.REJECTED)
    rejected = replace(found, timing=replace(found.timing, bound=bound))
    assert rejected.within_steps(8, "success").value is None


def test_fewer_than_twenty_tasks_climb_nowhere() -> None:
    looked = look(delayed(19))
    assert looked.choice is None
    assert looked.found is None
    assert "fewer than 20" in looked.notes[0]


def test_a_named_process_is_certified_without_a_choice() -> None:
    looked = look(delayed(25), name="semi-markov")
    assert looked.found is not None
    assert not any("held as it was chosen" in r for r in looked.found.fit_test.reasons)
    assert looked.choice is None
    assert looked.found is not None
    assert looked.found.name == "semi-markov"
    order = looked.found.claims[0]
    assert order.p_value == looked.found.fit_test.p_order


def test_a_chain_that_is_good_enough_is_kept_unless_its_timing_is_rejected() -> None:
    runs = simulate.simulate_tasks(simulate.preset("react"), 30, 4, rng=3)
    kept = look(runs, chain_rejected=False)
    assert kept.choice is not None
    assert kept.choice.chosen == "homogeneous"
    assert kept.found is None


def test_what_was_tried_before_the_accepted_one_is_named() -> None:
    runs = delayed(40)
    fits = [fit_homogeneous(runs), fit_progress(runs)]
    rng = np.random.default_rng(0)
    with ThreadPoolExecutor(2) as threads:
        bounds = climb._bounds(fits, runs, 0.10, 49, 0.95, threads, rng)
        verdicts = [b if isinstance(b, str) else b.bound.verdict for b in bounds]
        assert verdicts == [Verdict.REJECTED, Verdict.ACCEPTED]
        # Once one is accepted no other is looked at.
        assert len(climb._bounds(fits[::-1], runs, 0.10, 49, 0.95, threads, rng)) == 1
        found, lost = climb._certify(
            fits, bounds, runs, alpha=0.05, n_draws=9, n_exchanges=49, icc=None,
            approximate=False, candidates=None, chosen=True, threads=threads, rng=rng,
        )  # fmt: skip
    assert lost == ()
    assert found is not None
    assert found.name == "progress"
    assert found.runs is runs
    assert [name for name, _ in found.tried] == ["homogeneous"]
    assert any("tried as well, not accepted: homogeneous" in note for note in found.notes)


def test_a_process_that_cannot_be_refitted_is_left_out_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bound_process = climb.bound_process

    def unsettled(process: object, *given: object, **more: object) -> object:
        if process.name == "progress":  # type: ignore[attr-defined]
            raise ArithmeticError("did not settle")
        return bound_process(process, *given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(climb, "bound_process", unsettled)
    looked = look(delayed(40))
    assert looked.found is None
    assert looked.notes == (
        "progress: could not be refitted to resampled tasks, left out: did not settle",
    )


def test_a_named_process_that_cannot_be_fitted_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unsettled(name: str, runs: StateSequences, **given: object) -> object:
        raise ArithmeticError("did not settle")

    monkeypatch.setattr(climb, "fit_candidate", unsettled)
    looked = look(delayed(25), name="progress")
    assert looked.found is None
    assert looked.notes == ("progress could not be fitted: did not settle",)


def test_a_process_whose_test_cannot_be_made_is_left_out_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(climb, "MAX_STEPS", 600)
    monkeypatch.setattr(ProgressFit, "refit", unable)
    looked = look(delayed(40))
    assert looked.found is None
    assert any(
        note.startswith("progress: could not be fitted to what its test looks at, left out: ")
        for note in looked.notes
    )


def unable(*given: object, **more: object) -> object:
    raise np.linalg.LinAlgError("Singular matrix")


def test_large_corpora_are_looked_at_in_part_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(climb, "MAX_RUNS", 100)
    monkeypatch.setattr(climb, "MAX_STEPS", 600)
    looked = look(delayed(40))
    assert looked.found is not None
    assert looked.found.bound.n_runs == 100
    assert looked.found.pooled.n_steps <= 600
    assert "the choice of a process looks at the 100 runs" in looked.notes[0]
    assert "the tests of the progress process look" in looked.found.notes[0].replace(
        "looks", "look"
    )


@pytest.mark.parametrize(
    ("pooled", "within", "expected"),
    [
        (Verdict.REJECTED, Verdict.REJECTED, Verdict.REJECTED),
        (Verdict.ACCEPTED, Verdict.REJECTED, Verdict.REJECTED),
        (Verdict.REJECTED, Verdict.ACCEPTED, Verdict.INCONCLUSIVE),
        (Verdict.REJECTED, Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE),
        (Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE),
        (Verdict.ACCEPTED, Verdict.ACCEPTED, Verdict.ACCEPTED),
    ],
)
def test_only_rejection_within_tasks_is_memory(
    pooled: Verdict, within: Verdict, expected: Verdict
) -> None:
    test = exchange_futures(delayed(5), n_draws=19, rng=0)
    verdict, why, advice = climb._by_exchange(
        replace(test, verdict=pooled), replace(test, verdict=within)
    )
    assert verdict is expected
    assert why
    assert (advice is None) == (expected is Verdict.ACCEPTED)


def test_json_says_which_process_is_chosen_and_what_each_claim_is_about(
    assessed: TraceAssessment,
) -> None:
    document = json.loads(json.dumps(assessed.to_dict()))
    process = document["process"]
    assert process["chosen"] == "progress"
    assert [row["name"] for row in process["candidates"]] == [*TWO, "smooth incidence"]
    assert [row["name"] for row in process["candidates"] if row["chosen"]] == ["progress"]
    about = {claim["claim"]: claim["process"] for claim in document["certificate"]["claims"]}
    assert about["order"] == about["timing"] == "progress"
    assert about["rate"] is None
    # The homogeneous chain's certificate stays as evidence.
    assert document["certificate"]["evidence"]["bound"]["verdict"] == "rejected"
    assert process["certificate"]["bound"]["verdict"] == "accepted"


def test_the_best_figure_of_a_step_is_the_process_where_it_is_accepted(
    assessed: TraceAssessment,
) -> None:
    row = assessed.to_dict()["estimates"]["success_within"][9]
    assert row["value"] == row["process"]["value"] != row["nonparametric"]["value"]
    assert row["chain"]["value"] is None
    low, high = row["worst_best"]
    assert low <= row["nonparametric"]["value"] <= high


def test_text_shows_candidates_curves_and_evidence(assessed: TraceAssessment) -> None:
    text = str(assessed)
    assert "success (progress)" in text
    assert "* progress" in text
    assert "memory given state and step, within tasks, p" in text
    assert "not claimed" not in text
    assert "mean steps up to step" in text
    assert max(len(line) for line in text.splitlines()) <= 100


def test_quick_looks_at_the_chain_alone() -> None:
    settings = ChainSettings(quick=True, n_draws=99)
    result = assess_traces(as_corpus(delayed(25)), chain=settings, n_resamples=99, rng=0)
    assert result.chain is not None
    assert result.chain.climb is None
    assert result.chain.chosen == "homogeneous"
    (row,) = result.to_dict()["process"]["candidates"]
    assert row["name"] == "homogeneous"
    assert result.chain.claims[0].reasons[0].startswith("homogeneous chain: ")


def test_an_unknown_process_is_refused_before_any_work() -> None:
    with pytest.raises(ValueError, match="no process is called 'nonsense'"):
        ChainSettings(process="nonsense")


def test_a_candidate_that_could_not_be_fitted_has_a_row() -> None:
    row = CandidateScore(
        name="progress", log_score=None, difference=None, se_difference=None, n_parameters=None
    )
    assert candidate_cells(row) == ("  progress", "-", "not fitted", "-")


def test_the_command_takes_a_process_or_the_chain_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.jsonl"
    write_jsonl(as_corpus(delayed(20)), path)
    common = ["assess", str(path), "--json", "-", "--resamples", "99", "--draws", "99", "--quiet"]
    assert main([*common, "--quick"]) == 0
    assert json.loads(capsys.readouterr().out)["process"]["chosen"] == "homogeneous"
    assert main([*common, "--process", "order-2"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["process"]["chosen"] == "order-2"
    assert document["process"]["choice"] is None
    assert main([*common, "--quick", "--process", "progress"]) == 2
    assert "exclude each other" in capsys.readouterr().err
    assert main([*common, "--process", "nonsense"]) == 2
    assert "no process is called" in capsys.readouterr().err
