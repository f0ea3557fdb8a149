"""Our own JSON lines: one run a line, only ``task_id`` and ``outcome`` required.

``{"task_id": "a", "outcome": "success", "end": "finished", "steps": ["search"]}``;
``outcome`` may be true, false, null, 1, 0 or a usual word, and a step a name or ``{name, kind,
actor, ok}``. Keys go by our names or their synonyms; unknown ones are ignored and counted. A JSON
array of such objects is read as well, and lines with a step a line (keys ``step`` and ``name``).

Every JSON text of rows of ours belongs here, nested or flat: `table` takes CSV and Parquet only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from sojourn.corpus import StepTypes, TraceBatch
from sojourn.corpus.columns import ACTORS, STEP_KINDS, Interner
from sojourn.errors import ReaderError
from sojourn.readers._columns import OUTCOME_NAMES, TASK_NAMES, check_mapping
from sojourn.readers._json import HEAD_BYTES, read_head, sniff
from sojourn.readers._json_rows import (
    FIELDS,
    JsonRow,
    Plan,
    Plans,
    json_rows,
    repaired,
    token_text,
)
from sojourn.readers._rows import (
    BAD_SCORE,
    NESTED,
    NO_VERDICT,
    WRONG_COUNT,
    Complaints,
    Rows,
    Texts,
    blame,
    require_verdicts,
    run_batch,
    understand,
)
from sojourn.readers._step_rows import StepRows, default_step
from sojourn.readers.base import ReadOptions, Record

__all__ = ["SojournJsonlReader"]

_CHUNK_ROWS = 1 << 15
_CHUNK_STEPS = 1 << 20
_CHUNK_BYTES = 1 << 26
_KIND: dict[str | None, int] = {None: -1, **{str(k): code for code, k in enumerate(STEP_KINDS)}}
_ACTOR: dict[str | None, int] = {None: -1, **{str(a): code for code, a in enumerate(ACTORS)}}

_NO_OUTCOME = (
    "no object says how its run went; name the key with --map outcome=KEY, "
    "or join the verdicts with --outcomes FILE"
)
_OUTCOME = FIELDS.index("outcome")
_BAD_STEPS = "steps are not all names or objects {name, kind, actor, ok}"


class _Step(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    kind: Literal["tool", "model", "user", "env", "handoff"] | None = None
    actor: Literal["agent", "user", "environment"] | None = None
    ok: bool | Literal[0, 1] | None = None
    n_calls: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | None = None


_decode_row = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_split_steps = msgspec.json.Decoder(list[msgspec.Raw] | None).decode
_decode_step = msgspec.json.Decoder(Annotated[str, msgspec.Meta(min_length=1)] | _Step).decode


class SojournJsonlReader:
    """Reads our own JSON lines."""

    name = "sojourn-jsonl"
    description = "Sojourn's own JSON lines: a run a line, only task_id and outcome required"
    carries = "outcome, steps, attempts"
    heeds = frozenset({"columns"})

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the first object has a task and an outcome."""
        found = sniff(head)
        if found.keys & TASK_NAMES and found.keys & OUTCOME_NAMES:
            return True
        # Long steps may push the one or the other out of sight.
        is_cut = len(head) >= HEAD_BYTES - 3 and found.kind in ("object", "array")
        return is_cut and "steps" in found.keys and bool(found.keys & {"task_id", "outcome"})

    def accepts_unjudged(self, source: Path, head: bytes) -> bool:
        """Return whether the first object has a task, if without an outcome."""
        return bool(sniff(head).keys & TASK_NAMES)

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a file stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield batches of runs."""
        check_mapping(options.columns)
        is_array = read_head(source).lstrip()[:1] == b"["
        complaints = Complaints(str(source), unit="item" if is_array else "line")
        plans = Plans(source.name, options.columns, optional=options.optional)
        rows = json_rows(source, complaints, is_array=is_array)
        chunks = _chunks(
            rows, plans, complaints, source=source, needed=not options.verdicts_elsewhere
        )
        yield from _batches(chunks, source, complaints)
        plans.complain(complaints)
        yield from complaints.items()


class _Chunk:
    """Some objects as tokens, before any of them is understood."""

    def __init__(self, form: _Form, complaints: Complaints) -> None:
        self.form = form
        self._complaints = complaints
        self._tokens: list[dict[bytes, int]] = [{} for _ in FIELDS]
        self._rows: list[list[int]] = []
        self._places: list[int] = []
        self._step_tokens: dict[bytes, int] = {}
        self._types: Interner[tuple[str, int, int, int, int]] = Interner()
        self._steps: list[int] = []
        self._lengths: list[int] = []
        self._n_bytes = 0

    @property
    def n_rows(self) -> int:
        """The number of objects so far."""
        return len(self._rows)

    @property
    def is_full(self) -> bool:
        """Whether it is time to understand what is here."""
        return (
            len(self._rows) >= _CHUNK_ROWS
            or len(self._steps) >= _CHUNK_STEPS
            or self._n_bytes >= _CHUNK_BYTES
        )

    def add(self, row: JsonRow, plan: Plan, *, has_verdict: bool) -> None:
        """Add an object; its steps, if any, are decoded at once."""
        length = -1
        if "steps" in row.fields:
            try:
                length = self._add_steps(bytes(row.fields["steps"]))
            except ValueError:
                self._complaints.add(_BAD_STEPS, place=row.place)
                return
        codes = [-1] * len(FIELDS)
        for index, key in plan.columns:
            if index == _OUTCOME and not has_verdict:
                continue  # a score among verdicts is none
            tokens = self._tokens[index]
            codes[index] = tokens.setdefault(bytes(row.fields[key]), len(tokens))
        self._rows.append(codes)
        self._places.append(row.place)
        self._lengths.append(length)
        self._n_bytes += row.n_bytes

    def _add_steps(self, token: bytes) -> int:
        steps = _split_steps(token)
        if steps is None:
            return -1
        known = self._step_tokens
        tokens = [bytes(step) for step in steps]
        codes = [known.get(token, -1) for token in tokens]
        if -1 in codes:
            codes = [self._step_code(token) for token in tokens]
        self._steps += codes
        return len(codes)

    def _step_code(self, token: bytes) -> int:
        """Return the code of a step, decoded when its token is first met in the chunk."""
        code = self._step_tokens.get(token)
        if code is None:
            try:
                step = _decode_step(token)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                step = _decode_step(repaired(token, self._complaints))
            code = self._step_tokens[token] = self._types.code(_step_key(step))
        return code

    def understood(self) -> tuple[Rows, npt.NDArray[np.int64]]:
        """Return the rows with their meaning, and their places in the file."""
        codes: npt.NDArray[np.int32] = np.array(self._rows, np.int32).reshape(-1, len(FIELDS))
        texts = {}
        nested = np.zeros(len(codes), bool)
        for index, name in enumerate(FIELDS):
            tokens = list(self._tokens[index])
            if not tokens:
                continue
            column = codes[:, index]
            texts[name] = Texts(column, [token_text(token, self._complaints) for token in tokens])
            if name not in ("score", "outcome"):
                bad = [code for code, token in enumerate(tokens) if token[:1] in b"[{"]
                nested |= np.isin(column, bad)
        rows = understand(texts, len(codes))
        blame(rows, nested, NESTED)
        return rows, np.array(self._places, np.int64)

    def steps(
        self, rows: Rows
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], StepTypes] | None:
        """Return the steps of the sound rows, and settle `n_steps` by them."""
        lengths: npt.NDArray[np.int64] = np.array(self._lengths, np.int64)
        given = lengths >= 0
        if not given.any():
            return None
        stated = rows.numbers.get("n_steps", np.full(lengths.size, -1))
        blame(rows, given & (stated >= 0) & (stated != lengths), WRONG_COUNT)
        rows.numbers["n_steps"] = np.where(given, lengths, stated)
        lengths = np.maximum(lengths, 0)
        keep = rows.reason == 0
        steps: npt.NDArray[np.int32] = np.array(self._steps, np.int32)
        offsets = np.concatenate(([0], np.cumsum(lengths[keep])))
        return offsets, steps[np.repeat(keep, lengths)], StepTypes.from_keys(self._types.values)


def _step_key(step: str | _Step) -> tuple[str, int, int, int, int]:
    if isinstance(step, str):
        return default_step(step)
    return default_step(
        step.name,
        _KIND[step.kind],
        _ACTOR[step.actor],
        -1 if step.ok is None else int(step.ok),
        -1 if step.n_calls is None else step.n_calls,
    )


class _Form(NamedTuple):
    """How a file's lines are meant, as its first line shows."""

    by_step: bool
    from_score: bool
    verdict: str


def _chunks(
    rows: Iterator[JsonRow], plans: Plans, complaints: Complaints, *, source: Path, needed: bool
) -> Iterator[_Chunk]:
    """Yield the objects of a file in chunks of bounded size.

    Raises
    ------
    ReaderError
        If no object has a verdict, and one is `needed`.
    """
    chunk: _Chunk | None = None
    is_checked = False
    n_judged = 0
    for row in rows:
        plan = plans.of(tuple(row.fields))
        if chunk is None:
            by_step = plan.has("step") and plan.has("name") and "steps" not in row.fields
            form = _Form(by_step, plan.from_score, plan.key("outcome"))
            chunk = _Chunk(form, complaints)
        if plan.fault:
            complaints.add(plan.fault, place=row.place)
        else:
            has_verdict = plan.has("outcome") and plan.from_score <= chunk.form.from_score
            n_judged += has_verdict
            if needed and not has_verdict and not chunk.form.by_step:
                complaints.add(NO_VERDICT, what="verdict", place=row.place)
            chunk.add(row, plan, has_verdict=has_verdict)
        if chunk.is_full:
            plans.check_mapped()
            is_checked = True
            yield chunk
            chunk = _Chunk(chunk.form, complaints)
    if chunk is not None:
        if not is_checked:
            plans.check_mapped()
        if needed and not n_judged and chunk.n_rows:
            raise ReaderError(f"{source.name}: {_NO_OUTCOME}")
        yield chunk


def _batches(
    chunks: Iterator[_Chunk], source: Path, complaints: Complaints
) -> Iterator[TraceBatch]:
    held = []
    step_rows: StepRows | None = None
    for chunk in chunks:
        rows, places = chunk.understood()
        form = chunk.form
        require_verdicts(rows, form.verdict, source=source.name, from_score=form.from_score)
        complaints.add_verdicts(rows, places)
        if rows.n_bad_scores:
            complaints.add(BAD_SCORE, count=rows.n_bad_scores, what="key")
        if chunk.form.by_step:
            step_rows = StepRows(complaints) if step_rows is None else step_rows
            step_rows.add(rows, places)
            continue
        steps = chunk.steps(rows)
        complaints.add_rows(rows.reason, places)
        if not (rows.reason == 0).any():
            continue
        batch = run_batch(
            rows,
            rows.reason == 0,
            source_type=SojournJsonlReader.name,
            source_uri=str(source),
            steps=steps,
        )
        # Numbers are verdicts only if all of the file says so: nothing is given out before.
        held.append(batch)
    yield from held
    if step_rows is not None:
        whole = step_rows.batch(source_type=SojournJsonlReader.name, source_uri=str(source))
        if whole is not None:
            yield whole
