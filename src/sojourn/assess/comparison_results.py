"""What a comparison of two sets of runs returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import sojourn
from sojourn.assess.exported import SCHEMA_VERSION, Exported
from sojourn.estimates import Estimate, number
from sojourn.process.difference import CurveDifference, TransitionChange

__all__ = ["Answer", "ComparedRow", "Comparison", "ComparisonFamily", "Flip"]


class Answer(StrEnum):
    """What may be said of B against A."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRow:
    """One figure of both sets, and their difference.

    Attributes
    ----------
    name : str
        ``success rate``, ``pass^2``, ``pass@2``, ``success within 20``, ``mean steps``.
    a, b : float or None
        The figure of each set.
    population : Estimate
        B minus A for tasks like these.
    same_tasks : Estimate or None
        B minus A for these tasks run again; None where the figure has no such interval.
    """

    name: str
    a: float | None
    b: float | None
    population: Estimate
    same_tasks: Estimate | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return {
            "name": self.name,
            "a": number(self.a),
            "b": number(self.b),
            "difference": self.population.to_dict(),
            "same_tasks": None if self.same_tasks is None else self.same_tasks.to_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A task at which the two do not do equally well.

    Attributes
    ----------
    task : str
        Its id, with its set where there are several.
    successes_a, attempts_a, successes_b, attempts_b : int
        What was counted.
    """

    task: str
    successes_a: int
    attempts_a: int
    successes_b: int
    attempts_b: int

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Comparison(Exported):
    """How B differs from A.

    Attributes
    ----------
    name_a, name_b : str
        What the two are called.
    answer : Answer
        On the success rate, by the interval of `estimand`, against `margin`.
    estimand : str
        Which interval decides: ``same_tasks`` where attempts allow it, else ``population``.
    margin : float
        Differences of the success rate under it are of no matter.
    paired : bool
        Whether tasks are shared and each is its own control.
    n_shared, n_only_a, n_only_b : int
        Tasks that both have, and that only one has; where pairs are made the latter are left out.
    n_runs_a, n_runs_b : int
        Runs that count.
    rows : tuple of ComparedRow
        The figures; the first is the success rate.
    p_value : float
        Of no difference at any task: exact over the attempts of shared tasks, else by exchanging
        units.
    adjusted_p : float
        The same by Holm over the family of comparisons it belongs to.
    test : str
        Which test that is.
    chance_better : float
        Posterior probability that B succeeds more often at tasks like these.
    smallest_visible : float or None
        The smallest true difference that would have been seen in 80 % of cases.
    flips : tuple of Flip
        Shared tasks at which they differ, the largest gain of B first.
    curves : CurveDifference or None
        Differences of success and failure within d steps; None without step counts.
    transitions : tuple of TransitionChange
        Transitions that differ, those least likely by chance first.
    notes : tuple of str
        What a reader must know.
    seed : int or None
        Entropy of the random draws.
    ci_prob : float
        Probability of the intervals.
    """

    name_a: str
    name_b: str
    answer: Answer
    estimand: str
    margin: float
    paired: bool
    n_shared: int
    n_only_a: int
    n_only_b: int
    n_runs_a: int
    n_runs_b: int
    rows: tuple[ComparedRow, ...]
    p_value: float
    adjusted_p: float
    test: str
    chance_better: float
    smallest_visible: float | None
    flips: tuple[Flip, ...] = field(repr=False)
    curves: CurveDifference | None = field(repr=False)
    transitions: tuple[TransitionChange, ...] = field(repr=False)
    notes: tuple[str, ...]
    seed: int | None
    ci_prob: float

    @property
    def decided_by(self) -> Estimate:
        """The difference of the success rate that decides."""
        row = self.rows[0]
        if self.estimand == "same_tasks" and row.same_tasks is not None:
            return row.same_tasks
        return row.population

    def row(self, name: str) -> ComparedRow | None:
        """Return the row of a figure, or None where it was not computed."""
        return next((row for row in self.rows if row.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values."""
        return {
            "schema_version": SCHEMA_VERSION,
            "sojourn_version": sojourn.__version__,
            "kind": "comparison",
            "a": {"name": self.name_a, "n_runs": self.n_runs_a},
            "b": {"name": self.name_b, "n_runs": self.n_runs_b},
            "answer": str(self.answer),
            "estimand": self.estimand,
            "margin": self.margin,
            "paired": self.paired,
            "tasks": {
                "shared": self.n_shared,
                "only_a": self.n_only_a,
                "only_b": self.n_only_b,
            },
            "rows": [row.to_dict() for row in self.rows],
            "p_value": number(self.p_value),
            "adjusted_p_value": number(self.adjusted_p),
            "test": self.test,
            "chance_better": number(self.chance_better),
            "smallest_visible": number(self.smallest_visible),
            "flips": [flip.to_dict() for flip in self.flips],
            "transitions": [
                {
                    "from": change.origin,
                    "to": change.target,
                    "a": change.a,
                    "b": change.b,
                    "difference": change.difference.to_dict(),
                    "adjusted_p_value": number(change.p_value),
                }
                for change in self.transitions
            ],
            "notes": list(self.notes),
            "seed": self.seed,
        }

    def __str__(self) -> str:
        from sojourn.assess.comparison_text import describe

        return describe(self)

    def __repr__(self) -> str:
        return f"<Comparison of {self.name_b} with {self.name_a}: {self.answer}>"

    def _repr_html_(self) -> str:
        from sojourn.assess.notebook import notebook_html

        return notebook_html(ComparisonFamily(comparisons=(self,)))


@dataclass(frozen=True, slots=True)
class ComparisonFamily(Exported):
    """Several sets against one baseline, p-values adjusted by Holm.

    Attributes
    ----------
    comparisons : tuple of Comparison
        At least one; all have the same A.
    """

    comparisons: tuple[Comparison, ...]

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)

    def __len__(self) -> int:
        return len(self.comparisons)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison itself where there is one, else the list of them."""
        if len(self.comparisons) == 1:
            return self.comparisons[0].to_dict()
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": "comparisons",
            "comparisons": [comparison.to_dict() for comparison in self.comparisons],
        }

    def _repr_html_(self) -> str:
        from sojourn.assess.notebook import notebook_html

        return notebook_html(self)

    def __str__(self) -> str:
        from sojourn.assess.comparison_text import describe_family

        return describe_family(self)
