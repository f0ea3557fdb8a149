"""Columns of category codes, and the interning that makes them.

A label such as an agent's name is stored once; a run holds its 4-byte code. The same holds for
steps: a corpus keeps one table of the *distinct* steps (name, actor, kind, ok, number of calls)
and one code a step, so that 10^8 steps take 400 MB and features are computed per distinct step.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from sojourn._limits import REASON_LETTERS, SKIP_REASONS
from sojourn._redaction import redacted, screened, writable
from sojourn._validation import frozen_array
from sojourn.records import Actor, Skipped, Step, StepKind

__all__ = ["ACTORS", "STEP_KINDS", "Categorical", "Interner", "StepTypes", "combinations"]

ACTORS: tuple[Actor, ...] = tuple(Actor)
STEP_KINDS: tuple[StepKind, ...] = tuple(StepKind)

T = TypeVar("T", bound=Hashable)


class Interner(Generic[T]):
    """Numbers distinct values 0, 1, 2, ... in the order in which they are first seen."""

    def __init__(self) -> None:
        self._codes: dict[T, int] = {}

    def __len__(self) -> int:
        return len(self._codes)

    def code(self, value: T) -> int:
        """Return the number of `value`, a new one if it is new."""
        return self._codes.setdefault(value, len(self._codes))

    def translate(self, values: Sequence[T]) -> npt.NDArray[np.int32]:
        """Return the numbers of many values, shape (n_values,)."""
        return np.fromiter((self.code(value) for value in values), np.int32, len(values))

    @property
    def values(self) -> tuple[T, ...]:
        """The values in the order of their numbers."""
        return tuple(self._codes)


class ScreenedInterner(Interner[T]):
    """Numbers labels of a log, each made fit to keep when it is first seen.

    Parameters
    ----------
    screen : callable
        Returns the value that is kept for a value; see `sojourn._redaction.screened`.
    """

    def __init__(self, screen: Callable[[T], T]) -> None:
        super().__init__()
        self._screen = screen
        self.n_altered = 0

    def code(self, value: T) -> int:
        """Return the number of `value` as it is kept, a new one if it is new."""
        code = self._codes.get(value)
        if code is None:
            kept = self._screen(value)
            self.n_altered += kept != value
            code = self._codes.setdefault(kept, len(self._codes))
        return code


# Labels that are random by design, and those that are paths of the user's own files.
_IDS = frozenset({"task_id", "session_id", "job_id", "cluster", "item"})
_PLACES = frozenset({"source_type", "source_uri"})


def label_interner(name: str) -> ScreenedInterner[str]:
    """Return an interner for the labels of one column, such as ``agent``."""
    if name in _PLACES:
        return ScreenedInterner(writable)
    return ScreenedInterner(lambda label: screened(label, is_id=name in _IDS))


def note_altered(interners: Iterable[ScreenedInterner[Any]], source: str) -> Iterator[Skipped]:
    """Yield what is to be told of labels that were altered before they were kept."""
    count = sum(interner.n_altered for interner in interners)
    if count:
        yield Skipped(source=source, reason=ALTERED, count=count, what="key")


def count_skipped(counts: dict[tuple[str, str, str], int], item: Skipped) -> None:
    """Add to the counts of what was skipped, by (source, reason, what).

    A secret in the reason is hidden. Past `SKIP_REASONS` different ones, what differs in its place
    or its reason alone is added up.
    """
    key = (writable(item.source), redacted(item.reason[:REASON_LETTERS]), item.what)
    if key not in counts and len(counts) >= SKIP_REASONS:
        key = ("", f"more of other reasons or places than {SKIP_REASONS:,}", item.what)
    counts[key] = counts.get(key, 0) + item.count


ALTERED = "labels that held what looks like a secret, or were far too long, were altered"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Categorical:
    """A column of labels: codes into a table of distinct values, -1 where there is none.

    Attributes
    ----------
    codes : ndarray of shape (n_runs,), int32
        Index into `values`, or -1.
    values : tuple of str
        The distinct labels; some may be unused after a selection.
    """

    codes: npt.NDArray[np.int32]
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", frozen_array(self.codes, np.int32, name="codes"))
        if self.codes.size and not -1 <= self.codes.min() <= self.codes.max() < len(self.values):
            raise ValueError(f"codes must lie in -1 .. {len(self.values) - 1}")

    @classmethod
    def constant(cls, value: str, n: int) -> Categorical:
        """Return a column of `n` equal labels."""
        return cls(codes=np.zeros(n, np.int32), values=(value,))

    @classmethod
    def missing(cls, n: int) -> Categorical:
        """Return a column of `n` missing labels."""
        return cls(codes=np.full(n, -1, np.int32), values=())

    def __len__(self) -> int:
        return int(self.codes.size)

    def __getitem__(self, run: int) -> str | None:
        code = int(self.codes[run])
        return None if code < 0 else self.values[code]

    def select(self, index: npt.NDArray[Any]) -> Categorical:
        """Return the rows at `index`; the table of values stays whole."""
        return Categorical(codes=self.codes[index], values=self.values)

    def used(self) -> tuple[str, ...]:
        """Return the labels that occur, in the order of their codes."""
        return tuple(self.values[code] for code in np.unique(self.codes) if code >= 0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepTypes:
    """The distinct steps of a corpus, one row each.

    Attributes
    ----------
    names : tuple of str
        Distinct step names.
    name : ndarray of shape (n_types,), int32
        Index into `names`.
    actor, kind : ndarray of shape (n_types,), int8
        Index into `ACTORS` and `STEP_KINDS`.
    ok : ndarray of shape (n_types,), int8
        1 for a step without error, 0 with one, -1 where the log does not tell.
    n_calls : ndarray of shape (n_types,), int32
        Tools called in the step.
    """

    names: tuple[str, ...]
    name: npt.NDArray[np.int32]
    actor: npt.NDArray[np.int8]
    kind: npt.NDArray[np.int8]
    ok: npt.NDArray[np.int8]
    n_calls: npt.NDArray[np.int32]

    def __post_init__(self) -> None:
        for field, dtype in (
            ("name", np.int32),
            ("actor", np.int8),
            ("kind", np.int8),
            ("ok", np.int8),
            ("n_calls", np.int32),
        ):
            array = frozen_array(getattr(self, field), dtype, name=field)
            object.__setattr__(self, field, array)
            if array.shape != self.name.shape:
                raise ValueError(f"{field} has {array.size} rows, name has {self.name.size}")

    def __len__(self) -> int:
        return int(self.name.size)

    @classmethod
    def from_keys(cls, keys: Sequence[tuple[str, int, int, int, int]]) -> StepTypes:
        """Build the table of rows (name, actor, kind, ok, n_calls)."""
        names: Interner[str] = Interner()
        name = names.translate([key[0] for key in keys])
        numbers: npt.NDArray[Any] = np.array([key[1:] for key in keys], np.int32).reshape(-1, 4)
        return cls(
            names=names.values,
            name=name,
            actor=numbers[:, 0],
            kind=numbers[:, 1],
            ok=numbers[:, 2],
            n_calls=numbers[:, 3],
        )

    def keys(self) -> list[tuple[str, int, int, int, int]]:
        """Return the rows as (name, actor, kind, ok, n_calls)."""
        return [
            (self.names[name], actor, kind, ok, n_calls)
            for name, actor, kind, ok, n_calls in zip(
                self.name.tolist(),
                self.actor.tolist(),
                self.kind.tolist(),
                self.ok.tolist(),
                self.n_calls.tolist(),
                strict=True,
            )
        ]

    def step(self, code: int, digest: int = 0) -> Step:
        """Return the step of one row."""
        ok = int(self.ok[code])
        return Step(
            name=self.names[self.name[code]],
            actor=ACTORS[self.actor[code]],
            kind=STEP_KINDS[self.kind[code]],
            ok=None if ok < 0 else bool(ok),
            n_calls=int(self.n_calls[code]),
            digest=digest,
        )


_ACTOR_CODE = {actor: code for code, actor in enumerate(ACTORS)}
_KIND_CODE = {kind: code for code, kind in enumerate(STEP_KINDS)}


def step_key(step: Step) -> tuple[str, int, int, int, int]:
    """Return the row of `StepTypes` that a step belongs to."""
    ok = -1 if step.ok is None else int(step.ok)
    return (step.name, _ACTOR_CODE[step.actor], _KIND_CODE[step.kind], ok, step.n_calls)


def combinations(
    columns: Sequence[npt.NDArray[Any]],
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int32]]:
    """Find the distinct combinations of columns of codes, in order of first sight.

    Hashed, and so an order of magnitude faster than ``np.unique`` where combinations are few.

    Parameters
    ----------
    columns : sequence of ndarray of shape (n_rows,)
        Whole numbers of at least -1.

    Returns
    -------
    first : ndarray of shape (n_combinations,)
        The first row of each combination.
    code : ndarray of shape (n_rows,)
        The combination of each row.
    """
    import pyarrow as pa

    n_rows = columns[0].size
    code = np.zeros(n_rows, np.int32)
    n_codes = min(n_rows, 1)
    for column in columns:
        if not n_rows or (low := int(column.min())) == (high := int(column.max())):
            continue
        mixed = code.astype(np.int64)
        mixed *= high - low + 1
        mixed += column
        mixed -= low
        # Not by pa.array and to_numpy, which import pandas wherever it is installed.
        numbers = pa.Array.from_buffers(pa.int64(), n_rows, [None, pa.py_buffer(mixed)])
        encoded = numbers.dictionary_encode()
        code = np.asarray(np.from_dlpack(encoded.indices), np.int32)
        n_codes = len(encoded.dictionary)
    first = np.zeros(n_codes, np.intp)
    # Written backwards, so that the first row of each combination is written last.
    first[code[::-1]] = np.arange(n_rows - 1, -1, -1)
    return first, code
