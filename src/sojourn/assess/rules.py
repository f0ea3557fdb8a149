"""Rules of a gate: how they are written, and how an interval answers them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum

from sojourn.errors import RuleError
from sojourn.estimates import Estimate, Status

__all__ = ["GateAnswer", "Rule"]

_FIGURES = {
    "success_rate": 0,
    "pass^": 1,
    "pass@": 1,
    "success_within": 1,
    "failure_within": 1,
    "mean_steps": 0,
    "median_steps": 0,
    "next_task": 0,
    "fresh_session": 0,
    "long_run": 0,
    "success_run": 1,
}
_RULE = re.compile(
    r"\s*(?P<name>[a-z_]{1,20})(?:(?P<power>[\^@])(?P<k>\d{1,7})|\((?P<argument>\d{1,7})\))?"
    r"\s*(?P<sign>>=|<=|>|<)\s*(?P<bound>\d{1,9}(?:\.\d{1,9})?|\.\d{1,9})(?P<percent>%?)\s*"
)


class GateAnswer(StrEnum):
    """Answer of a gate."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What is asked of a figure.

    Attributes
    ----------
    name : str
        ``success_rate``, ``pass^``, ``pass@``, ``success_within``, ``failure_within``,
        ``mean_steps``, ``median_steps``; of sessions ``next_task``, ``fresh_session``,
        ``long_run``, ``success_run``.
    argument : int or None
        k, d or n, where the figure takes one.
    sign : str
        ``>=``, ``>``, ``<=`` or ``<``. A strict sign differs from the other only where a bound of
        the interval equals the threshold, as where no run succeeds and the threshold is 0.
    bound : float
        The threshold.
    """

    name: str
    argument: int | None
    sign: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Read a rule such as ``pass^4 >= 0.5``, ``success_within(20) >= 70%``.

        Raises
        ------
        RuleError
            If the text is no rule; the message says how one looks.
        """
        found = _RULE.fullmatch(text)
        if found is None:
            raise RuleError(
                f"{text!r} is no rule; write a figure, >= or <= and a number, as in "
                "'pass^4 >= 0.5' or 'success_within(20) >= 70%'"
            )
        name = found["name"] + (found["power"] or "")
        argument = found["k"] or found["argument"]
        if name not in _FIGURES:
            raise RuleError(f"no figure is called {name!r}; there are {', '.join(_shown())}")
        if (argument is not None) != bool(_FIGURES[name]):
            raise RuleError(f"{text!r}: write the figure as {_form(name)}")
        if argument is not None and int(argument) < 1:
            raise RuleError(f"{text!r}: {_form(name)} takes a number of at least 1")
        bound = float(found["bound"]) / (100 if found["percent"] else 1)
        if not name.endswith("_steps") and bound > 1:
            raise RuleError(f"{text!r}: a probability is not over 1; write 70% or 0.7")
        return cls(
            name=name,
            argument=None if argument is None else int(argument),
            sign=found["sign"],
            bound=bound,
        )

    @property
    def of_sessions(self) -> bool:
        """Whether the figure is one of sessions."""
        return self.name in ("next_task", "fresh_session", "long_run", "success_run")

    @property
    def upwards(self) -> bool:
        """Whether the figure should be large."""
        return self.sign[0] == ">"

    @property
    def strict(self) -> bool:
        """Whether the threshold itself does not do."""
        return len(self.sign) == 1

    @property
    def of_shares(self) -> bool:
        """Whether the figure is a probability."""
        return not self.name.endswith("_steps")

    @property
    def room(self) -> float:
        """How far a figure can be on the wrong side of the threshold."""
        if self.upwards:
            return self.bound
        return 1.0 - self.bound if self.of_shares else math.inf

    @property
    def empty(self) -> str | None:
        """Why no data could change the answer, or None."""
        if not self.of_shares:
            return None
        worst, best = (0.0, 1.0) if self.upwards else (1.0, 0.0)
        if self.bound == worst and not self.strict:
            return f"a share is never {'below 0' if self.upwards else 'above 1'}: this always holds"
        if self.bound == best:
            return f"no number of runs shows a share of {best:.0f}: this can never pass"
        return None

    @property
    def figure(self) -> str:
        """The figure with its argument."""
        if self.argument is None:
            return self.name
        if self.name[-1] in "^@":
            return f"{self.name}{self.argument}"
        return f"{self.name}({self.argument})"

    def __str__(self) -> str:
        return f"{self.figure} {self.sign} {self.bound:g}"

    def answer(self, estimate: Estimate) -> GateAnswer:
        """Return the answer that an estimate gives by the bound of its interval."""
        interval = estimate.interval
        if interval is None or estimate.status is not Status.SUPPORTED:
            return GateAnswer.INCONCLUSIVE
        low, high = interval.low, interval.high
        bound = self.bound
        if not self.upwards:
            low, high, bound = -high, -low, -bound
        if low > bound or (low == bound and not self.strict):
            return GateAnswer.PASS
        return GateAnswer.FAIL if high < bound else GateAnswer.INCONCLUSIVE


def _shown() -> list[str]:
    return [_form(name) for name in _FIGURES]


def _form(name: str) -> str:
    if not _FIGURES[name]:
        return name
    return f"{name}K" if name[-1] in "^@" else f"{name}(N)"
