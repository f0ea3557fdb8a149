"""What a run counts as: one table of rules, explicit, printed, first match wins.

=============================================  ==============================  =================
run                                            for curves and processes        for rates, pass^k
=============================================  ==============================  =================
infra_error or cancelled, even if scored;      excluded, counted               excluded, counted
unscored, unless a limit or the agent's error
ended it (``faults="failure"``: a failure)
success, however it ended                      success at its last step        success
limit, with a failure verdict or none          censored at its last step       failure
(``limits="failure"``: failure there)
failure, or agent_error without a verdict      failure at its last step        failure
=============================================  ==============================  =================

Where no run of a corpus has a verdict, those that a limit or an error ended have none either.
Every rate is also given as the bracket of [all doubtful runs fail, all succeed]; doubtful are the
runs of the first row and those that a limit cut before they succeeded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, frozen_array
from sojourn.corpus.traces import ENDS, OUTCOMES, TraceCorpus
from sojourn.records import End, Outcome
from sojourn.sequences import CENSORED, FAILURE, SUCCESS

__all__ = ["Policy", "ResolvedRuns", "resolve"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How limits and faults are counted.

    Attributes
    ----------
    limits : {"censor", "failure"}
        Whether a run that a limit cut without success is censored there, or failed there, in
        curves and processes. Rates count it as a failure either way.
    faults : {"exclude", "failure"}
        Whether runs without a verdict of their own (infrastructure errors, cancelled, unscored)
        are left out or counted as failures.
    """

    limits: str = "censor"
    faults: str = "exclude"

    def __post_init__(self) -> None:
        check_choice(self.limits, ("censor", "failure"), name="limits")
        check_choice(self.faults, ("exclude", "failure"), name="faults")

    def to_dict(self) -> dict[str, str]:
        """Return the policy's switches."""
        return {"limits": self.limits, "faults": self.faults}

    def __str__(self) -> str:
        limits = {
            "censor": "runs cut by a limit: failures in rates, censored in curves",
            "failure": "runs cut by a limit: failures",
        }
        faults = {
            "exclude": "faults and unscored runs: excluded and counted",
            "failure": "faults and unscored runs: failures",
        }
        return f"{limits[self.limits]}; {faults[self.faults]}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResolvedRuns:
    """The runs that count, as arrays, under one policy.

    Attributes
    ----------
    index : ndarray of shape (n_runs,), intp
        The corpus row of each.
    success : ndarray of shape (n_runs,), bool
        What it counts as for rates.
    event : ndarray of shape (n_runs,), int8
        ``SUCCESS``, ``FAILURE`` or ``CENSORED`` for curves and processes.
    duration : ndarray of shape (n_runs,), int32
        Number of steps, -1 where it is unknown.
    step_limit : ndarray of shape (n_runs,), int32
        The declared budget in steps, -1 where none is.
    task, unit : ndarray of shape (n_runs,), int32
        Task and unit of resampling, numbered 0, 1, ... without gaps.
    task_row : ndarray of shape (n_tasks,), int32
        Row of each task in the corpus's table of tasks.
    n_clusters : int
        Number of units that are clusters above the task; 0 when tasks are the units.
    excluded : tuple of (str, int)
        Reason and number of the runs that do not count.
    n_cut : int
        Runs in `index` that a limit cut before they succeeded.
    n_faults : int
        Runs without a verdict of their own, whether they are excluded or counted as failures.
    """

    index: npt.NDArray[np.intp]
    success: npt.NDArray[np.bool_]
    event: npt.NDArray[np.int8]
    duration: npt.NDArray[np.int32]
    step_limit: npt.NDArray[np.int32]
    task: npt.NDArray[np.int32]
    unit: npt.NDArray[np.int32]
    task_row: npt.NDArray[np.int32]
    n_clusters: int
    excluded: tuple[tuple[str, int], ...]
    n_cut: int
    n_faults: int
    policy: Policy

    def __post_init__(self) -> None:
        for name in ("index", "success", "event", "duration", "step_limit", "task", "unit"):
            array = getattr(self, name)
            object.__setattr__(self, name, frozen_array(array, array.dtype, name=name))

    @property
    def n_runs(self) -> int:
        """Number of runs that count."""
        return int(self.index.size)

    @property
    def n_excluded(self) -> int:
        """Number of runs that do not count."""
        return sum(count for _, count in self.excluded)

    @property
    def bracket(self) -> tuple[float, float]:
        """Success rate when all doubtful runs fail, and when all succeed; (0, 1) without runs.

        The same whatever the switches: they say how doubtful runs count, not which are doubtful.
        """
        n_all = self.n_runs + self.n_excluded
        if not n_all:
            return 0.0, 1.0
        n_success = int(self.success.sum())
        return n_success / n_all, (n_success + self.n_cut + self.n_faults) / n_all


def resolve(corpus: TraceCorpus, policy: Policy | None = None) -> ResolvedRuns:
    """Apply the policy's table to every run of a corpus.

    Parameters
    ----------
    corpus : TraceCorpus
        The runs.
    policy : Policy, optional
        The switches; by default limits are censored and faults excluded.

    Returns
    -------
    ResolvedRuns
        Possibly of no runs at all, when every run is excluded.
    """
    policy = Policy() if policy is None else policy
    ended_by = {end: corpus.end == ENDS.index(end) for end in ENDS}
    unscored = corpus.outcome == OUTCOMES.index(Outcome.UNSCORED)
    succeeded = corpus.outcome == OUTCOMES.index(Outcome.SUCCESS)
    has_own_end = ended_by[End.LIMIT] | ended_by[End.AGENT_ERROR]
    if unscored.all():
        # Without any verdict a cut run is no failure: it lacks its verdict as all others do.
        has_own_end = np.zeros_like(unscored)
    faults = {
        "infrastructure error": ended_by[End.INFRA_ERROR],
        "cancelled": ended_by[End.CANCELLED],
        "no verdict": unscored & ~has_own_end,
    }
    fault = np.zeros(len(corpus), bool)
    excluded = []
    for reason, mask in faults.items():
        count = int((mask & ~fault).sum())
        fault |= mask
        if count and policy.faults == "exclude":
            excluded.append((reason, count))
    success = succeeded & ~fault
    cut = ended_by[End.LIMIT] & ~success & ~fault
    event = np.where(success, SUCCESS, FAILURE).astype(np.int8)
    if policy.limits == "censor":
        event[cut] = CENSORED
    index = np.flatnonzero(~fault) if policy.faults == "exclude" else np.arange(len(corpus))
    task_row, task = np.unique(corpus.task[index], return_inverse=True)
    unit, n_clusters = _units(corpus.cluster.codes[index], task)
    return ResolvedRuns(
        index=index,
        success=success[index],
        event=event[index],
        duration=corpus.n_steps[index],
        step_limit=corpus.step_limit[index],
        task=task.astype(np.int32),
        unit=unit,
        task_row=task_row.astype(np.int32),
        n_clusters=n_clusters,
        excluded=tuple(excluded),
        n_cut=int(cut[index].sum()),
        n_faults=int(fault.sum()),
        policy=policy,
    )


def _units(
    cluster: npt.NDArray[np.int32], task: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.int32], int]:
    """Assign numbers to the units of resampling: the cluster where a run has one, else its task."""
    has_cluster = cluster >= 0
    if not has_cluster.any():
        return task.astype(np.int32), 0
    n_labels = int(cluster.max()) + 1
    label = np.where(has_cluster, cluster, n_labels + task)
    # A task whose runs name several clusters would straddle them: its first cluster holds it.
    _, first = np.unique(task, return_index=True)
    label = label[first][task]
    _, unit = np.unique(label, return_inverse=True)
    return unit.astype(np.int32), int(np.unique(label[label < n_labels]).size)
