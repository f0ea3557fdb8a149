from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sojourn.corpus import CorpusBuilder, Policy, ResolvedRuns, TraceCorpus, resolve
from sojourn.records import End, Outcome, Trace
from sojourn.sequences import CENSORED, FAILURE, SUCCESS

# The table of rules as a person reads it: (outcome, end) -> what the run is, before any switch.
TABLE = {
    (Outcome.SUCCESS, End.FINISHED): "success",
    (Outcome.SUCCESS, End.LIMIT): "success",
    (Outcome.SUCCESS, End.AGENT_ERROR): "success",
    (Outcome.SUCCESS, End.UNKNOWN): "success",
    (Outcome.SUCCESS, End.INFRA_ERROR): "fault",
    (Outcome.SUCCESS, End.CANCELLED): "fault",
    (Outcome.FAILURE, End.FINISHED): "failure",
    (Outcome.FAILURE, End.LIMIT): "cut",
    (Outcome.FAILURE, End.AGENT_ERROR): "failure",
    (Outcome.FAILURE, End.UNKNOWN): "failure",
    (Outcome.FAILURE, End.INFRA_ERROR): "fault",
    (Outcome.FAILURE, End.CANCELLED): "fault",
    (Outcome.UNSCORED, End.FINISHED): "fault",
    (Outcome.UNSCORED, End.LIMIT): "cut",
    (Outcome.UNSCORED, End.AGENT_ERROR): "failure",
    (Outcome.UNSCORED, End.UNKNOWN): "fault",
    (Outcome.UNSCORED, End.INFRA_ERROR): "fault",
    (Outcome.UNSCORED, End.CANCELLED): "fault",
}
POLICIES = [
    Policy(limits=a, faults=b) for a in ("censor", "failure") for b in ("exclude", "failure")
]


def corpus_of(*runs: tuple[Outcome, End], **fields: object) -> TraceCorpus:
    builder = CorpusBuilder()
    for number, (outcome, end) in enumerate(runs):
        builder.add(
            Trace(task_id=f"t{number}", outcome=outcome, end=end, n_steps=number, **fields)  # type: ignore[arg-type]
        )
    return builder.build()


def test_without_any_verdict_a_cut_run_is_no_failure() -> None:
    runs = [(Outcome.UNSCORED, end) for end in (End.LIMIT, End.AGENT_ERROR, End.FINISHED)]
    resolved = resolve(corpus_of(*runs))
    assert resolved.n_runs == 0
    assert resolved.excluded == (("no verdict", 3),)
    mixed = resolve(corpus_of(*runs, (Outcome.SUCCESS, End.FINISHED)))
    assert mixed.n_runs == 3
    assert mixed.excluded == (("no verdict", 1),)


def test_the_table_is_complete() -> None:
    assert TABLE.keys() == set(product(Outcome, End))


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("run", TABLE, ids=lambda run: f"{run[0]}-{run[1]}")
def test_every_row_under_every_switch(run: tuple[Outcome, End], policy: Policy) -> None:
    kind = TABLE[run]
    corpus = corpus_of(run)
    if run[0] is Outcome.UNSCORED and kind != "fault":
        # The row holds where other runs have verdicts: see the next test.
        with_verdict = corpus_of(run, (Outcome.FAILURE, End.FINISHED))
        whole = resolve(with_verdict, policy)
        assert (whole.n_runs, whole.excluded) == (2, ())
        assert whole.event[0] == (
            CENSORED if kind == "cut" and policy.limits == "censor" else FAILURE
        )
        assert whole.n_cut == (kind == "cut")
        assert whole.bracket == (0.0, 0.5 if kind == "cut" else 0.0)
        return
    resolved = resolve(corpus, policy)
    if kind == "fault" and policy.faults == "exclude":
        assert resolved.n_runs == 0
        assert resolved.n_excluded == 1
        assert resolved.bracket == (0.0, 1.0)
        return
    assert resolved.n_runs == 1
    assert resolved.excluded == ()
    assert bool(resolved.success[0]) == (kind == "success")
    censored = kind == "cut" and policy.limits == "censor"
    assert resolved.event[0] == (
        SUCCESS if kind == "success" else CENSORED if censored else FAILURE
    )
    assert resolved.n_cut == (kind == "cut")
    assert (
        resolved.bracket
        == {
            "success": (1.0, 1.0),
            "failure": (0.0, 0.0),
            "cut": (0.0, 1.0),
            "fault": (0.0, 1.0),
        }[kind]
    )


def test_all_rows_at_once() -> None:
    corpus = corpus_of(*TABLE)
    kinds = list(TABLE.values())
    for policy in POLICIES:
        resolved = resolve(corpus, policy)
        kept = [i for i, k in enumerate(kinds) if k != "fault" or policy.faults == "failure"]
        assert resolved.index.tolist() == kept
        assert resolved.duration.tolist() == kept  # each run has as many steps as its number
        assert resolved.success.sum() == kinds.count("success")
        assert resolved.n_excluded == len(kinds) - len(kept)
        # Which runs are doubtful does not depend on how they are counted.
        low, high = resolved.bracket
        assert low == kinds.count("success") / len(kinds)
        assert high == 1 - kinds.count("failure") / len(kinds)


def test_reasons_are_counted_once_each_in_order_of_precedence() -> None:
    runs = [run for run, kind in TABLE.items() if kind == "fault"]
    resolved = resolve(corpus_of(*runs))
    assert resolved.excluded == (
        ("infrastructure error", 3),
        ("cancelled", 3),
        ("no verdict", 2),
    )


def test_no_runs_at_all() -> None:
    resolved = resolve(CorpusBuilder().build())
    assert (resolved.n_runs, resolved.n_excluded, resolved.n_clusters) == (0, 0, 0)
    assert resolved.bracket == (0.0, 1.0)


def test_unknown_switches_are_named() -> None:
    with pytest.raises(ValueError, match="limits must be one of censor, failure; got 'drop'"):
        Policy(limits="drop")
    with pytest.raises(ValueError, match="faults must be one of exclude, failure"):
        Policy(faults="censor")


def test_a_policy_says_what_it_does() -> None:
    assert Policy().to_dict() == {"limits": "censor", "faults": "exclude"}
    assert "censored in curves" in str(Policy())
    assert "censored" not in str(Policy(limits="failure"))


# Units of resampling


def units(*runs: tuple[str, str | None]) -> ResolvedRuns:
    builder = CorpusBuilder()
    for number, (task, cluster) in enumerate(runs):
        builder.add(
            Trace(task_id=task, cluster=cluster, task_repeat=number, outcome=Outcome.SUCCESS)
        )
    return resolve(builder.build())


def test_the_task_is_the_unit_without_clusters() -> None:
    resolved = units(("a", None), ("b", None), ("a", None))
    assert resolved.n_clusters == 0
    assert resolved.task.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(resolved.unit, resolved.task)


def test_a_cluster_holds_its_tasks_together() -> None:
    resolved = units(("a", "x"), ("b", "x"), ("c", "y"), ("a", "x"), ("d", None))
    assert resolved.unit[0] == resolved.unit[1] == resolved.unit[3]
    assert len(set(resolved.unit.tolist())) == 3
    assert sorted(set(resolved.unit.tolist())) == [0, 1, 2]
    assert resolved.n_clusters == 2


def test_attempts_at_one_task_never_straddle_units() -> None:
    resolved = units(("a", "x"), ("a", "y"), ("b", "y"), ("a", None))
    assert len({int(resolved.unit[i]) for i in (0, 1, 3)}) == 1
    assert resolved.n_clusters == 2


def test_tasks_of_excluded_runs_leave_no_gap() -> None:
    corpus = corpus_of(
        (Outcome.SUCCESS, End.FINISHED),
        (Outcome.SUCCESS, End.CANCELLED),
        (Outcome.FAILURE, End.FINISHED),
    )
    resolved = resolve(corpus)
    assert resolved.task.tolist() == [0, 1]
    assert [corpus.tasks.task_id[row] for row in resolved.task_row] == ["t0", "t2"]


def test_arrays_cannot_be_changed() -> None:
    resolved = resolve(corpus_of((Outcome.SUCCESS, End.FINISHED)))
    with pytest.raises(ValueError, match="read-only"):
        resolved.success[0] = False
