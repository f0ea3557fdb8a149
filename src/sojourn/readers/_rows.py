"""What a row of our own formats means: the values of its fields.

Own JSON lines, CSV and Parquet tables differ only in how a row's texts are found. From there all go
one way: a column is codes into its distinct texts, each distinct text is understood once, and the
rest is arithmetic on whole columns. No Python object is made for a row. A row that cannot be
understood carries the number of the reason; values are never guessed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._limits import LABEL_LETTERS
from sojourn._redaction import redacted
from sojourn.corpus import Categorical, StepTypes, TraceBatch
from sojourn.corpus.columns import ACTORS, STEP_KINDS
from sojourn.corpus.traces import ENDS, LIMIT_KINDS, OUTCOMES
from sojourn.errors import ReaderError
from sojourn.readers._columns import INTS, LABELS, RUN_FIELDS, quoted
from sojourn.records import End, Outcome, Skipped
from sojourn.tables import clean

__all__ = [
    "BAD_SCORE",
    "NESTED",
    "NO_VERDICT",
    "REASONS",
    "UNPLACED",
    "WRONG_COUNT",
    "Complaints",
    "Rows",
    "Texts",
    "blame",
    "decode_texts",
    "require_verdicts",
    "run_batch",
    "understand",
    "verdict_of_word",
    "verdicts",
    "whole_numbers",
]

NO_VERDICT = "no verdict stands there; the run was kept as unscored"
WRONG_COUNT = "n_steps is not the number of steps given"
_ALL_LABELS = ("task_id", *LABELS, "name", "domain", "subdomain", "item")
_NOTHING = frozenset({"", "nan", "null", "none", "na", "n/a"})
_TRUTH = {"true": 1, "false": 0}
_VERDICTS: dict[str, Outcome] = {
    **dict.fromkeys(
        [
            "success",
            "pass",
            "passed",
            "yes",
            "y",
            "true",
            "correct",
            "right",
            "resolved",
            "solved",
            "c",
        ],
        Outcome.SUCCESS,
    ),
    **dict.fromkeys(
        [
            "failure",
            "fail",
            "failed",
            "no",
            "n",
            "false",
            "incorrect",
            "wrong",
            "unresolved",
            "unsolved",
            "i",
        ],
        Outcome.FAILURE,
    ),
    **dict.fromkeys(("unscored", "error", "skipped"), Outcome.UNSCORED),
}
_MISSING = -1
_BAD = -2
_GRADED = -3  # a number that is neither 0 nor 1
_MAX_ODD = 3
_MAX_ODD_LETTERS = 20


class Texts(NamedTuple):
    """A column as codes into its distinct texts; the code is -1 where there is none."""

    codes: npt.NDArray[np.int32]
    values: Sequence[str | None]


def decode_texts(values: Sequence[bytes | None]) -> tuple[list[str | None], list[int]]:
    """Return distinct texts without outer blanks, and which of them were not UTF-8.

    A byte that is none is written as an escape, so that two such labels stay two labels.
    """
    texts: list[str | None] = []
    broken = []
    for position, value in enumerate(values):
        if value is None:
            texts.append(None)
            continue
        try:
            texts.append(value.decode("utf-8").strip())
        except UnicodeDecodeError:
            texts.append(value.decode("utf-8", "backslashreplace").strip())
            broken.append(position)
    return texts, broken


def verdict_of_word(text: str) -> Outcome | None:
    """Return the verdict that a word or a number is in any letter case, None where it is none."""
    code = _outcome(text.strip())
    if code == _MISSING:
        return Outcome.UNSCORED
    return Outcome(OUTCOMES[code]) if code >= 0 else None


def _outcome(text: str) -> int:
    plain = text.casefold()
    if plain in _NOTHING:
        return _MISSING
    if plain in _VERDICTS:
        return OUTCOMES.index(_VERDICTS[plain])
    number = _float(plain)
    if number is None:
        return _BAD
    if number not in (0.0, 1.0):
        return _GRADED
    return OUTCOMES.index(Outcome.SUCCESS if number else Outcome.FAILURE)


def _flag(text: str) -> int:
    plain = text.casefold()
    if plain in _NOTHING:
        return _MISSING
    if plain in _TRUTH:
        return _TRUTH[plain]
    number = _float(plain)
    return int(number) if number in (0.0, 1.0) else _BAD


def _float(text: str) -> float | None:
    """Return the number in a text, None where there is none; underscores are no numbers of ours."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _whole(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    if text.casefold() in _NOTHING:
        return _MISSING
    number = _float(text)
    if number is None or not 0 <= number < 2**31 or number != int(number):
        return _BAD
    return int(number)


def _member(members: Sequence[str]) -> Callable[[str], int]:
    codes = {str(member): code for code, member in enumerate(members)}

    def parse(text: str) -> int:
        plain = text.casefold()
        return _MISSING if plain in _NOTHING else codes.get(plain, _BAD)

    return parse


def verdicts(texts: Texts) -> npt.NDArray[np.int32]:
    """Return the outcomes of a column: codes of `OUTCOMES`, -1 for none, -2 for what is none."""
    codes: npt.NDArray[np.int32] = _numbers(texts, _outcome, _MISSING, np.int32)
    return np.maximum(codes, _BAD).astype(np.int32)


def whole_numbers(texts: Texts) -> npt.NDArray[np.int32]:
    """Return the whole numbers of a column: -1 where there is none, -2 for what is none."""
    return np.asarray(_numbers(texts, _whole, _MISSING, np.int32))


_WHOLE = "is not a whole number from 0 to 2**31 - 1"
# Field -> how its text is understood, and what is said of a text that cannot be.
_PARSERS: dict[str, tuple[Callable[[str], int], str]] = {
    "end": (_member(ENDS), f"is none of {', '.join(ENDS)}"),
    "limit_kind": (_member(LIMIT_KINDS), f"is none of {', '.join(LIMIT_KINDS)}"),
    **dict.fromkeys(INTS, (_whole, _WHOLE)),
    "kind": (_member(STEP_KINDS), f"is none of {', '.join(STEP_KINDS)}"),
    "actor": (_member(ACTORS), f"is none of {', '.join(ACTORS)}"),
    "ok": (_flag, "is none of true, false, 1, 0"),
    "n_calls": (_whole, _WHOLE),
}
NESTED = "a list or an object stands where a plain value is needed"
BAD_SCORE = "score is no number and was left out"
_NO_TASK = "task_id is missing"
_NO_SESSION = "session_id is missing"
_NO_POSITION = "position is missing"
_NOT_LIMIT = "limit_kind is given, but end is not limit"
REASONS: tuple[str, ...] = (
    "",
    _NO_TASK,
    _NOT_LIMIT,
    NESTED,
    WRONG_COUNT,
    _NO_SESSION,
    _NO_POSITION,
    *(f"{name} {fault}" for name, (_, fault) in _PARSERS.items()),
)
_REASON = {reason: code for code, reason in enumerate(REASONS)}
# What a run is when its row does not say.
_UNSAID = {"outcome": OUTCOMES.index(Outcome.UNSCORED), "end": ENDS.index(End.UNKNOWN)}
# Without these nobody can say which run a row belongs to.
UNPLACED = (_REASON[_NO_TASK], _REASON[f"task_repeat {_WHOLE}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of a table, understood.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    reason : ndarray of shape (n_rows,), int8
        Index into `REASONS`; 0 for a row that is sound.
    numbers : dict of str to ndarray of shape (n_rows,)
        Codes and whole numbers, -1 where none is given; ``score`` and ``step``, NaN where none is.
    labels : dict of str to Categorical
        The labels; an empty text is none.
    n_bad_scores : int
        Scores that are no numbers and were left out.
    is_odd : ndarray of shape (n_rows,), bool, or None
        Where a word stands for the verdict that is none; the outcome is -1 there.
    odd : tuple of str
        Those words, safe to print and short, up to three of them.
    graded : str or None
        A number other than 0 and 1 that stands where a verdict should.
    """

    n_rows: int
    reason: npt.NDArray[np.int8]
    numbers: dict[str, npt.NDArray[Any]]
    labels: dict[str, Categorical]
    n_bad_scores: int = 0
    is_odd: npt.NDArray[np.bool_] | None = None
    odd: tuple[str, ...] = ()
    graded: str | None = None


def understand(texts: Mapping[str, Texts], n_rows: int, *, as_tasks: bool = False) -> Rows:
    """Give the texts of rows their meaning.

    Parameters
    ----------
    texts : mapping of str to Texts
        Field -> its column of `n_rows` texts; absent fields take their default.
    n_rows : int
        Number of rows.
    as_tasks : bool
        Whether a row is a task of a session, which needs a session and a position, or a run,
        which needs a task.
    """
    reason = np.zeros(n_rows, np.int8)
    numbers: dict[str, npt.NDArray[Any]] = {}
    labels = {name: _labels(texts[name]) for name in _ALL_LABELS if name in texts}
    key, fault = ("session_id", _NO_SESSION) if as_tasks else ("task_id", _NO_TASK)
    if key in labels:
        _blame(reason, labels[key].codes < 0, fault)
    else:
        reason[:] = _REASON[fault]
    for name, (parse, fault) in _PARSERS.items():
        if name in texts:
            numbers[name] = _numbers(texts[name], parse, _MISSING, np.int32)
            _blame(reason, numbers[name] == _BAD, f"{name} {fault}")
    outcome = _Outcomes() if "outcome" not in texts else _outcomes(texts["outcome"])
    if outcome.codes is not None:
        numbers["outcome"] = outcome.codes
    if as_tasks:
        _blame(reason, numbers.get("position", np.full(n_rows, _MISSING)) < 0, _NO_POSITION)
    n_bad_scores = 0
    for name in ("score", "step"):
        if name in texts:
            numbers[name] = _numbers(texts[name], _real, math.nan, np.float64)
            bad = np.isinf(numbers[name])
            n_bad_scores += int(bad.sum()) if name == "score" else 0
            numbers[name][bad] = np.nan
    if "limit_kind" in numbers:
        _settle_limits(reason, numbers, n_rows)
    return Rows(
        n_rows=n_rows,
        reason=reason,
        numbers=numbers,
        labels=labels,
        n_bad_scores=n_bad_scores,
        is_odd=outcome.is_odd,
        odd=outcome.odd,
        graded=outcome.graded,
    )


class _Outcomes(NamedTuple):
    """A column of verdicts: -1 for none, which ones are odd words, and a number that is graded."""

    codes: npt.NDArray[np.int32] | None = None
    is_odd: npt.NDArray[np.bool_] | None = None
    odd: tuple[str, ...] = ()
    graded: str | None = None


def _outcomes(texts: Texts) -> _Outcomes:
    codes: npt.NDArray[np.int32] = _numbers(texts, _outcome, _MISSING, np.int32)
    is_odd = codes == _BAD
    used = np.unique(texts.codes[is_odd]).tolist()
    odd = [texts.values[code] or "" for code in used[:_MAX_ODD]]
    graded = texts.codes[codes == _GRADED]
    number = texts.values[int(graded[0])] if graded.size else None
    return _Outcomes(
        np.maximum(codes, _MISSING),
        is_odd,
        tuple(map(_odd_word, odd)),
        number and _odd_word(number),
    )


def _odd_word(text: str) -> str:
    if text in ("[", "{"):  # all that is kept of a nested value
        return "a list or an object"
    return repr(clean(redacted(text[:LABEL_LETTERS]), limit=_MAX_ODD_LETTERS))


def require_verdicts(rows: Rows, column: str, *, source: str, from_score: bool) -> None:
    """Refuse a column whose numbers are grades; of a score, everything but 0 and 1.

    Raises
    ------
    ReaderError
        If there is such a number: which of them is a success is for the user to say.
    """
    value = rows.graded or (rows.odd[0] if from_score and rows.odd else None)
    if value is None:
        return
    where = "score is the only verdict, and" if from_score else f"the column {quoted(column)}"
    raise ReaderError(
        f"{source}: {where} holds values other than 0 and 1, such as {value}, which are no "
        "verdicts; make them 0 or 1, or name the column that says which runs succeeded with "
        "--map outcome=COLUMN"
    )


def _settle_limits(
    reason: npt.NDArray[np.int8], numbers: dict[str, npt.NDArray[Any]], n_rows: int
) -> None:
    """Take a kind of limit to say that a limit ended the run, unless `end` says otherwise."""
    end = numbers.get("end", np.full(n_rows, _MISSING, np.int32))
    limited = numbers["limit_kind"] >= 0
    numbers["end"] = np.where(limited & (end == _MISSING), ENDS.index(End.LIMIT), end)
    _blame(reason, limited & (numbers["end"] != ENDS.index(End.LIMIT)), _NOT_LIMIT)


def blame(rows: Rows, bad: npt.NDArray[np.bool_], reason: str) -> None:
    """Note one of `REASONS` for rows that had none so far."""
    _blame(rows.reason, bad, reason)


def _blame(reason: npt.NDArray[np.int8], bad: npt.NDArray[np.bool_], text: str) -> None:
    reason[bad & (reason == 0)] = _REASON[text]


def _numbers(
    texts: Texts, parse: Callable[[str], Any], missing: float, dtype: npt.DTypeLike
) -> npt.NDArray[Any]:
    understood = [missing if text is None else parse(text) for text in texts.values]
    table: npt.NDArray[Any] = np.array([*understood, missing], dtype)
    return table[texts.codes]


def _real(text: str) -> float:
    """Return a number, NaN for none; infinity stands for a text that is no number."""
    if text.casefold() in _NOTHING:
        return math.nan
    number = _float(text)
    if number is None:
        return math.inf
    return number if math.isfinite(number) else math.nan


def _labels(texts: Texts) -> Categorical:
    codes = [code if text else -1 for code, text in enumerate(texts.values)]
    table = np.array([*codes, -1], np.int32)
    return Categorical(codes=table[texts.codes], values=tuple(text or "" for text in texts.values))


@dataclass(slots=True)
class Complaints:
    """Counts what was left out, by reason, with the first place of each."""

    source: str
    unit: str = "row"
    _found: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    _odd: dict[str, None] = field(default_factory=dict)
    _n_odd: int = 0
    _odd_place: int = 0

    def add(self, reason: str, *, count: int = 1, what: str = "run", place: int = 0) -> None:
        """Count one kind of fault; `place` is the row or line of the first, 0 where it has none."""
        entry = self._found.setdefault((reason, what), [0, place])
        entry[0] += count

    def add_rows(self, reason: npt.NDArray[np.int8], places: npt.NDArray[np.int64]) -> None:
        """Count the rows that carry a reason."""
        for code in np.unique(reason[reason > 0]).tolist():
            rows = np.flatnonzero(reason == code)
            self.add(REASONS[code], count=rows.size, place=int(places[rows[0]]))

    def add_verdicts(self, rows: Rows, places: npt.NDArray[np.int64]) -> None:
        """Count the rows whose verdict is a word that is none, and keep a few of the words."""
        if rows.is_odd is None or not rows.is_odd.any():
            return
        self._odd_place = self._odd_place or int(places[np.argmax(rows.is_odd)])
        self._n_odd += int(rows.is_odd.sum())
        self._odd.update(dict.fromkeys(rows.odd))

    def items(self) -> Iterator[Skipped]:
        """Yield what was counted."""
        if self._n_odd:
            words = ", ".join(list(self._odd)[:_MAX_ODD])
            reason = f"the verdict is no word that we know ({words}); kept as unscored"
            entry = self._found.setdefault((reason, "verdict"), [0, self._odd_place])
            entry[0] += self._n_odd
            self._n_odd = 0
        for (reason, what), (count, place) in self._found.items():
            first = f" (the first in {self.unit} {place})" if place else ""
            yield Skipped(
                source=self.source, reason=f"{reason}{first}", count=int(count), what=what
            )


def run_batch(
    rows: Rows,
    keep: npt.NDArray[np.bool_],
    *,
    source_type: str,
    source_uri: str,
    steps: tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], StepTypes] | None = None,
) -> TraceBatch:
    """Return the runs of a table with a run a row.

    Parameters
    ----------
    rows : Rows
        The rows.
    keep : ndarray of shape (n_rows,), bool
        Which of them are runs.
    source_type, source_uri : str
        The format and the file.
    steps : tuple of (offsets, steps, step_types), optional
        The steps of the kept runs.
    """
    n_runs = int(keep.sum())
    numbers = {
        name: values[keep]
        for name, values in rows.numbers.items()
        if name in RUN_FIELDS and values.size
    }
    for name, default in _UNSAID.items():
        if name in numbers:
            numbers[name] = np.where(numbers[name] < 0, default, numbers[name])
        elif name == "outcome":
            numbers[name] = np.full(n_runs, default)
    labels = {
        name: column.select(np.flatnonzero(keep))
        for name, column in rows.labels.items()
        if name != "name"
    }
    labels["source_type"] = Categorical.constant(source_type, n_runs)
    labels["source_uri"] = Categorical.constant(source_uri, n_runs)
    offsets, codes, types = steps if steps is not None else (None, None, None)
    return TraceBatch(
        n_runs=n_runs,
        numbers=numbers,
        labels=labels,
        offsets=offsets,
        steps=codes,
        step_types=types,
    )
