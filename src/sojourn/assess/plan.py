"""Planning: how many tasks or attempts a rule, a width or a difference needs, by simulation.

The law of tasks is the beta-binomial at its posterior means, fitted to the runs at hand: what is
planned for is more data from the same source. Every simulated design is answered by the very
estimators and rules that will answer on the real data, so that a plan knows their faults too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import sojourn
from sojourn._threads import plain_blas
from sojourn._validation import check_fraction, check_positive_int
from sojourn.assess.exported import SCHEMA_VERSION
from sojourn.assess.gate import two_sided
from sojourn.assess.rules import GateAnswer, Rule
from sojourn.assess.traces import seeded, why_unusable
from sojourn.attempts import TaskCounts, fit_beta_binomial, pass_at, pass_hat, success_rate
from sojourn.attempts.differences import rate_difference
from sojourn.corpus import Policy, TraceCorpus, resolve
from sojourn.errors import NothingUsableError, RuleError
from sojourn.estimates import Estimate, number
from sojourn.sequences import CENSORED, SUCCESS

__all__ = ["Plan", "PlanRow", "TaskLaw", "fit_task_law", "look_confidence", "make_plan"]

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator | np.random.SeedSequence | int | None

_TASKS = (20, 30, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000)
_ATTEMPTS = (1, 2, 4, 8)
_MAX_RUNS = 20_000
_LOOK_DRAWS = 400_000
# A design whose power in the first fifth of its draws is this far from the target is not refined.
_SCREEN = 5
_FAR = 0.15
_MAX_ICC = 0.999


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLaw:
    """The law that tasks' chances of success are drawn from: a beta law, or a single chance.

    Attributes
    ----------
    mean : float
        Mean chance of success.
    icc : float
        Intraclass correlation; 0 where all tasks are alike.
    observed : float or None
        The rule's figure in the pilot itself, which no law may meet.
    """

    mean: float
    icc: float
    observed: float | None = None

    def draw(self, n_tasks: int, rng: np.random.Generator) -> Floats:
        """Draw the chances of tasks, shape (n_tasks,)."""
        if self.icc <= 1e-9 or not 0.0 < self.mean < 1.0:
            return np.full(n_tasks, self.mean)
        size = 1.0 / self.icc - 1.0
        return rng.beta(self.mean * size, (1.0 - self.mean) * size, n_tasks)

    def value(self, rule: Rule) -> float:
        """Return the true value of a rule's figure under this law."""
        k = (rule.argument or 1) if rule.name in ("pass^", "pass@") else 1
        p, q = self._rising(self.mean, k), self._rising(1.0 - self.mean, k)
        return 1.0 - q if rule.name == "pass@" else p

    def meeting(self, rule: Rule, observed: float) -> TaskLaw:
        """Return the law of this mean under which a rule's figure is the observed one.

        The correlation alone moves pass^k and pass@k; where none does that, it stays as it is.
        """
        low, high = 0.0, _MAX_ICC
        ends = [replace(self, icc=icc).value(rule) for icc in (low, high)]
        if not min(ends) < observed < max(ends):
            return self
        rises = ends[1] > ends[0]
        for _ in range(60):
            middle = (low + high) / 2
            if (replace(self, icc=middle).value(rule) < observed) == rises:
                low = middle
            else:
                high = middle
        return replace(self, icc=(low + high) / 2)

    def _rising(self, mean: float, k: int) -> float:
        """Return E p^k = prod_i (m (1 - r) + i r) / (1 - r + i r)."""
        r = self.icc
        return math.prod((mean * (1 - r) + i * r) / (1 - r + i * r) for i in range(k))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """What one design would give.

    Attributes
    ----------
    n_tasks, n_attempts : int
        The design.
    power : float
        Share of simulated data sets that give the wanted answer (pass; an interval narrow enough;
        a difference seen).
    opposite : float
        Share that give the opposite one (fail; a difference of the wrong sign); 0 for a width.
    width : float
        Median width of the interval.
    """

    n_tasks: int
    n_attempts: int
    power: float
    opposite: float
    width: float

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return {
            "n_tasks": self.n_tasks,
            "n_attempts": self.n_attempts,
            "n_runs": self.n_tasks * self.n_attempts,
            "power": number(self.power),
            "opposite": number(self.opposite),
            "width": number(self.width),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Designs, what each would give, and the smallest that is enough.

    Attributes
    ----------
    wanted : str
        The rule, width or difference that is planned for.
    law : TaskLaw
        The law of tasks that was simulated.
    value : float
        The true value of the figure under it.
    rows : tuple of PlanRow
        By attempts, then tasks; the tasks of a number of attempts stop where the power is enough.
    enough : tuple of PlanRow
        For each number of attempts the first row whose power reaches `target`.
    target : float
        The power that is asked for.
    confidence : float
        One-sided confidence of a pass (a look, where there are several); for widths and
        differences the two-sided probability is 2 x confidence - 1.
    n_looks : int
        Looks that share the error.
    n_draws : int
        Simulated data sets a row; the power is known to about 1 / (2 sqrt(n_draws)). Rows whose
        power is plainly too small rest on a fifth of them.
    reason : str or None
        Why no design is enough, where none is.
    seed : int or None
        Entropy of the draws.
    """

    wanted: str
    law: TaskLaw
    value: float
    rows: tuple[PlanRow, ...]
    enough: tuple[PlanRow, ...]
    target: float
    confidence: float
    n_looks: int
    n_draws: int
    reason: str | None
    seed: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return {
            "schema_version": SCHEMA_VERSION,
            "sojourn_version": sojourn.__version__,
            "kind": "plan",
            "wanted": self.wanted,
            "law": {
                "mean": number(self.law.mean),
                "icc": number(self.law.icc),
                "observed": number(self.law.observed),
            },
            "value": number(self.value),
            "rows": [row.to_dict() for row in self.rows],
            "enough": [row.to_dict() for row in self.enough],
            "target": self.target,
            "confidence": self.confidence,
            "n_looks": self.n_looks,
            "n_draws": self.n_draws,
            "reason": self.reason,
            "seed": self.seed,
        }

    def _seen(self) -> str:
        seen = self.law.observed
        if seen is None or abs(seen - self.value) < 5e-4:
            return ""
        return f" ({seen:.3f} in the pilot itself)"

    def __str__(self) -> str:
        from sojourn.tables import text_table, wrapped

        lines = [
            f"plan: {self.wanted}",
            f"  tasks like these succeed with {self.law.mean:.3f}, intraclass correlation "
            f"{self.law.icc:.3f}; the figure is then {self.value:.3f}{self._seen()}",
        ]
        if self.n_looks > 1:
            lines.append(
                f"  {self.n_looks} looks: each at confidence {self.confidence:.4f} "
                f"(sojourn gate --confidence {self.confidence:.4f})"
            )
        if self.reason is not None:
            lines.append(f"  {self.reason}")
        lines += [
            f"  {row.n_tasks} tasks x {row.n_attempts} = {row.n_tasks * row.n_attempts} runs give "
            f"it in {row.power:.0%} of cases"
            for row in self.enough
        ]
        table = text_table(
            ("tasks", "attempts", "runs", "power", "opposite", "width"),
            [
                (
                    row.n_tasks,
                    row.n_attempts,
                    row.n_tasks * row.n_attempts,
                    f"{row.power:.3f}",
                    f"{row.opposite:.3f}",
                    f"{row.width:.3f}",
                )
                for row in self.rows
            ],
            left=0,
        )
        note = (
            f"Power: share of {self.n_draws} simulated data sets (where the first fifth shows far "
            "too little, of that fifth) with the wanted answer, for tasks like these (--estimand "
            "population); the law is taken to be known, though it is estimated from the runs at "
            "hand."
        )
        return "\n".join([*wrapped(lines), "", *table, "", *wrapped([note])])


@plain_blas()
def fit_task_law(
    corpus: TraceCorpus, rule: Rule | None = None, *, policy: Policy | None = None
) -> TaskLaw:
    """Fit the law of tasks to runs, for the event that a rule is about.

    Parameters
    ----------
    corpus : TraceCorpus
        The runs.
    rule : Rule, optional
        For ``success_within(d)`` and ``failure_within(d)`` the event is that end within d steps;
        else it is success.
    policy : Policy, optional
        How limits and faults are counted.

    Raises
    ------
    NothingUsableError
        If no run counts, or steps are needed and unknown, or a run was cut before step d.
    RuleError
        If the rule is about steps or sessions, which are not planned for.
    """
    runs = resolve(corpus, policy)
    if not runs.n_runs:
        raise NothingUsableError(why_unusable(runs))
    event = runs.success
    if rule is not None and rule.name in ("success_within", "failure_within"):
        d = rule.argument or 0
        if (runs.duration < 0).any():
            raise NothingUsableError("some runs do not have their number of steps")
        if ((runs.event == CENSORED) & (runs.duration < d)).any():
            raise NothingUsableError(f"some runs were cut before step {d}: plan for an earlier one")
        ended = runs.duration <= d
        wanted = runs.event == SUCCESS if rule.name == "success_within" else ~runs.success
        event = ended & wanted & (runs.event != CENSORED)
    elif rule is not None and rule.name not in ("success_rate", "pass^", "pass@"):
        raise RuleError(f"{rule.figure} is not planned for; plan for a probability of runs")
    counts = TaskCounts.from_runs(event, runs.task, runs.unit)
    posterior = fit_beta_binomial(counts)
    rate, observed = counts.rate, _observed(counts, rule)
    certain = not 0.0 < rate < 1.0  # which is no guess at a law
    law = TaskLaw(
        mean=posterior.posterior_mean() if certain else rate,
        icc=posterior.posterior_icc(),
        observed=observed,
    )
    if certain:
        return law
    return law if rule is None or observed is None else law.meeting(rule, observed)


def _observed(counts: TaskCounts, rule: Rule | None) -> float | None:
    if rule is None or rule.name not in ("pass^", "pass@"):
        return counts.rate
    k = rule.argument or 1
    if k > counts.max_attempts:
        return None
    return (pass_hat if rule.name == "pass^" else pass_at)(counts, k, rng=0).value


@plain_blas()
def make_plan(
    law: TaskLaw,
    *,
    rule: Rule | None = None,
    width: float | None = None,
    gain: float | None = None,
    tasks: Sequence[int] = _TASKS,
    attempts: Sequence[int] = _ATTEMPTS,
    target: float = 0.80,
    confidence: float = 0.95,
    n_looks: int = 1,
    n_draws: int = 1000,
    rng: Rng = None,
) -> Plan:
    """Find designs that give a wanted answer often enough.

    Parameters
    ----------
    law : TaskLaw
        The law of tasks.
    rule : Rule, optional
        The rule that should pass; with `width` the figure whose interval is meant.
    width : float, optional
        The width that the interval should not exceed.
    gain : float, optional
        A difference of the success rate to be seen between two sets of runs at the same tasks.
    tasks, attempts : sequence of int
        The designs that are tried.
    target : float
        The share of cases in which the answer should be given.
    confidence : float
        One-sided confidence; of all looks together.
    n_looks : int
        Equally spaced looks at growing data that share the error.
    n_draws : int
        Simulated data sets a design.
    rng : Generator, SeedSequence, int or None
        Source of the draws.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        If not exactly one of a passing rule, a width or a gain is asked for.
    """
    asked = [width is not None, gain is not None, rule is not None and width is None]
    if sum(asked) != 1:
        raise ValueError("plan for one of: a rule that passes, a width, a gain")
    check_fraction(target, name="target")
    check_positive_int(n_draws, name="n_draws")
    generator, entropy = seeded(rng)
    level = look_confidence(confidence, n_looks)
    job = _Job(law, rule, width, gain, two_sided(level))
    rows: list[PlanRow] = []
    enough = []
    hopeless = job.hopeless()
    for n_attempts in sorted(set(attempts)):
        for t, n_tasks in enumerate(sorted(set(tasks))):
            if n_tasks * n_attempts > _MAX_RUNS or (
                rule is not None and _too_few(rule, n_attempts)
            ):
                continue
            row = job.row(n_tasks, n_attempts, n_draws, target, generator.spawn(1)[0])
            rows.append(row)
            if row.power >= target:
                enough.append(row)
                break
            if hopeless is not None and t >= 2:
                break
    reason = hopeless
    if not enough and reason is None:
        reason = "none of the designs is enough"
    return Plan(
        wanted=job.wanted,
        law=law,
        value=law.value(rule) if rule is not None else law.mean,
        rows=tuple(rows),
        enough=tuple(enough),
        target=target,
        confidence=level,
        n_looks=n_looks,
        n_draws=n_draws,
        reason=reason,
        seed=entropy,
    )


def _too_few(rule: Rule, n_attempts: int) -> bool:
    return rule.name in ("pass^", "pass@") and n_attempts < (rule.argument or 1)


@dataclass(frozen=True, slots=True)
class _Job:
    """One question, and how a simulated data set answers it."""

    law: TaskLaw
    rule: Rule | None
    width: float | None
    gain: float | None
    ci_prob: float

    @property
    def wanted(self) -> str:
        figure = "success rate" if self.rule is None else self.rule.figure
        if self.width is not None:
            return f"an interval of {figure} not wider than {self.width:g}"
        if self.gain is not None:
            return f"a gain of {self.gain:g} in the success rate seen, the tasks shared"
        return f"{self.rule} passes"

    def hopeless(self) -> str | None:
        """Tell whether no amount of data will do."""
        if self.rule is None or self.width is not None:
            return None
        value = self.law.value(self.rule)
        right = value >= self.rule.bound if self.rule.upwards else value <= self.rule.bound
        if right:
            return None
        return f"never: the figure is {value:.3f} under the fitted law, on the wrong side"

    def row(
        self, n_tasks: int, n_attempts: int, n_draws: int, target: float, rng: np.random.Generator
    ) -> PlanRow:
        """Simulate one design; one that is plainly too small with a fifth of the draws."""
        answers = [self._answer(n_tasks, n_attempts, rng) for _ in range(n_draws // _SCREEN)]
        # Of few draws a share is so far off by chance.
        far = max(_FAR, 3.0 * math.sqrt(target * (1.0 - target) / len(answers)))
        if sum(wanted for wanted, _, _ in answers) / len(answers) > target - far:
            more = n_draws - len(answers)
            answers += [self._answer(n_tasks, n_attempts, rng) for _ in range(more)]
        found = np.array(answers, dtype=float)
        return PlanRow(
            n_tasks=n_tasks,
            n_attempts=n_attempts,
            power=float(found[:, 0].mean()),
            opposite=float(found[:, 1].mean()),
            width=float(np.median(found[:, 2])),
        )

    def _answer(
        self, n_tasks: int, n_attempts: int, rng: np.random.Generator
    ) -> tuple[bool, bool, float]:
        chances = self.law.draw(n_tasks, rng)
        counts = _counts(rng.binomial(n_attempts, chances), n_attempts)
        if self.gain is not None:
            other = _counts(rng.binomial(n_attempts, _shifted(chances, self.gain)), n_attempts)
            estimate = rate_difference(
                counts, other, estimand="population", paired=True, ci_prob=self.ci_prob
            )
            low, high = _bounds(estimate)
            return low > 0.0, high < 0.0, high - low
        estimate = self._estimate(counts)
        low, high = _bounds(estimate)
        if self.width is not None:
            return high - low <= self.width, False, high - low
        answer = None if self.rule is None else self.rule.answer(estimate)
        return answer is GateAnswer.PASS, answer is GateAnswer.FAIL, high - low

    def _estimate(self, counts: TaskCounts) -> Estimate:
        if self.rule is None or self.rule.name not in ("pass^", "pass@"):
            return success_rate(counts, ci_prob=self.ci_prob)
        figure = pass_hat if self.rule.name == "pass^" else pass_at
        return figure(counts, self.rule.argument or 1, ci_prob=self.ci_prob, rng=0)


def _counts(successes: npt.NDArray[np.int64], n_attempts: int) -> TaskCounts:
    return TaskCounts(
        successes=successes,
        attempts=np.full(successes.size, n_attempts),
        unit=np.arange(successes.size, dtype=np.int32),
    )


def _shifted(chances: Floats, gain: float) -> Floats:
    """Return chances moved towards 1 (or 0) so that their mean moves by `gain`."""
    room = float(1.0 - chances.mean()) if gain > 0 else float(chances.mean())
    share = min(abs(gain) / room, 1.0) if room > 0 else 0.0
    return chances + share * ((1.0 if gain > 0 else 0.0) - chances)


def _bounds(estimate: Estimate) -> tuple[float, float]:
    if estimate.interval is None:
        return -math.inf, math.inf
    return estimate.interval.low, estimate.interval.high


def look_confidence(confidence: float, n_looks: int) -> float:
    """Return the confidence of each of several looks that together err as one look would.

    Parameters
    ----------
    confidence : float
        One-sided confidence of all looks together.
    n_looks : int
        Equally spaced looks at growing data.

    Returns
    -------
    float
        The same for every look (Pocock's boundary [1]_): the level at which the largest of the
        standardised sums after 1/n, 2/n, .. of the data exceeds its normal quantile with
        probability 1 - confidence; from 400,000 simulated sums with a fixed seed, known to .0003.

    References
    ----------
    .. [1] S. J. Pocock, "Group sequential methods in the design and analysis of clinical trials",
       Biometrika 64 (1977), 191-199.
    """
    from scipy.special import ndtr

    check_fraction(confidence, name="confidence")
    if check_positive_int(n_looks, name="n_looks") == 1:
        return confidence
    parts = _look_parts(n_looks)
    largest = np.maximum.reduce(list(parts))
    return float(ndtr(np.quantile(largest, confidence)))


def _look_parts(n_looks: int) -> Iterator[Floats]:
    rng = np.random.default_rng(20_260_417)
    total = np.zeros(_LOOK_DRAWS)
    for look in range(1, n_looks + 1):
        total = total + rng.standard_normal(_LOOK_DRAWS)
        yield total / math.sqrt(look)
