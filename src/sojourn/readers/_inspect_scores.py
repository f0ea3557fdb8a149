"""Which score of an Inspect sample is its verdict, and what its value means.

A sample may carry several scores, and a score several values. They are laid out flat under names
(``match``; ``quality.style`` for one value of a table), one name is chosen for a whole log, and its
value is read as Inspect itself reads it: C is 1, P is 1/2, I and N are 0, yes/true and no/false are
1 and 0, numbers are themselves. Success is a value within 1e-6 of one and nothing less; a NaN is
Inspect's own mark of a sample that could not be scored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sojourn.errors import ReaderError
from sojourn.records import Outcome

__all__ = ["ScoreChooser", "Verdict", "flatten", "listing", "printable", "verdict"]

TOLERANCE = 1e-6
_WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_ANSWERS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_MAX_NAME = 80
_MAX_LISTED = 5


class Verdict(NamedTuple):
    """An outcome and its number; `odd` says why a value that was there says nothing."""

    outcome: Outcome
    score: float | None = None
    odd: str | None = None


UNSCORED = Verdict(Outcome.UNSCORED)


def verdict(value: Any) -> Verdict:
    """Return what a score's value says."""
    if value is None:
        return UNSCORED
    if isinstance(value, str):
        number = _number_of_word(value)
        if number is None:
            return Verdict(Outcome.UNSCORED, odd="the score is a word that names no verdict")
    elif isinstance(value, bool | int | float):
        number = _as_float(value)
    else:
        return Verdict(Outcome.UNSCORED, odd="the score holds no single value")
    if not math.isfinite(number):
        return UNSCORED
    success = abs(number - 1.0) <= TOLERANCE
    return Verdict(Outcome.SUCCESS if success else Outcome.FAILURE, number)


def _number_of_word(word: str) -> float | None:
    number = _WORDS.get(word, _ANSWERS.get(word.lower()))
    if number is None and len(word) <= _MAX_NAME:
        try:
            return float(word)
        except ValueError:
            return None
    return number


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf


def flatten(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sample's score values by name, those of tables and lists under dotted names."""
    flat: dict[str, Any] = {}
    for name, value in scores.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": inner for key, inner in value.items()}
        elif isinstance(value, list):
            flat |= {f"{name}.{place}": inner for place, inner in enumerate(value)}
        else:
            flat[name] = value
    return flat


def printable(name: str) -> str:
    """Return a name from a log in a form that is safe and short in a message."""
    return name if name.isprintable() and len(name) <= _MAX_NAME else "(a name not printable)"


class ScoreChooser:
    """Chooses, once for a log, the score that counts.

    In this order: the one asked for; the one that the log declares as its headline; the only one;
    the first listed. The last is a guess and is told in `note`.

    Parameters
    ----------
    asked : str, optional
        A scorer's name, or ``scorer.key`` for one value of a table.
    headline : sequence of str
        Names under which the log's headline may stand.
    listed : sequence of str
        Names under which the first score of the log's results may stand.
    declared : sequence of str
        Names of all scores that the log declares, whether or not a sample carries them.

    Attributes
    ----------
    chosen : str or None
        The name that counts; None until a sample with scores was seen.
    note : str or None
        What must be told about the choice.
    """

    def __init__(
        self,
        asked: str | None,
        headline: Sequence[str],
        listed: Sequence[str],
        declared: Sequence[str] = (),
    ) -> None:
        self._declared = declared
        self._asked = asked
        self._headline = headline
        self._listed = listed
        self.chosen: str | None = None
        self.note: str | None = None

    def pick(self, values: Mapping[str, Any]) -> Verdict:
        """Return the verdict of a sample's score values, as `flatten` lays them out.

        Raises
        ------
        ReaderError
            If neither the first sample nor the log has a score of the name that is asked for.
        """
        if not values:
            return UNSCORED
        if self.chosen is None:
            self._choose(list(values))
        if self.chosen is None or self.chosen not in values:
            return Verdict(Outcome.UNSCORED, odd="the score that counts is missing")
        return verdict(values[self.chosen])

    def _choose(self, names: list[str]) -> None:
        if self._asked is not None:
            self._choose_asked(self._asked, names)
            return
        for name in self._headline:
            if name in names:
                self.chosen = name
                return
        self.chosen = next((name for name in self._listed if name in names), names[0])
        if len(names) > 1:
            self.note = self._tell(names, "the first listed; the log declares no headline score")

    def _choose_asked(self, asked: str, names: list[str]) -> None:
        inner = [name for name in names if name.startswith(f"{asked}.")]
        self.chosen = asked if asked in names or not inner else inner[0]
        if self.chosen not in names and asked not in self._declared:
            known = list(dict.fromkeys((*names, *self._declared)))
            raise ReaderError(f"no scorer is called {asked}; there are: {listing(known)}")
        if self.chosen != asked and len(inner) > 1:
            self.note = self._tell(inner, f"the first value of {asked!r}")

    def _tell(self, names: list[str], why: str) -> str:
        others = [name for name in names if name != self.chosen]
        return (
            f"several scores: {printable(self.chosen or '')} counts ({why}), "
            f"{listing(others)} not; choose one with --scorer"
        )


def listing(names: Sequence[str]) -> str:
    """Return the first names of a log in a form that is safe and short in a message."""
    shown = ", ".join(printable(name) for name in names[:_MAX_LISTED])
    return shown if len(names) <= _MAX_LISTED else f"{shown} and {len(names) - _MAX_LISTED} more"
