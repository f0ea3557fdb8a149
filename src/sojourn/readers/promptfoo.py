"""promptfoo results (JSON or JSON lines): verdicts of tests, regrouped into attempts.

With ``--repeat`` every repeat is a row of its own with a new index of its test. What makes two rows
attempts at one task is the group that newer versions give them (``repeatGroupId``), else the test
itself: its variables, description and assertions, of which the task's name is a digest. The
provider is the model; where several prompts are compared, the prompt is the agent, by its number in
order of appearance. ``failureReason`` tells an assertion that failed (1) from an error (2), which
is a fault, not a failure. A row that an evaluation wrote again for the same test and prompt, as a
retry does, replaces the earlier one. Answers that came from the cache are counted: they are no
attempts of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from sojourn.errors import ReaderError
from sojourn.readers._json import (
    BadRecordError,
    Buffer,
    array_items,
    decode,
    is_closed,
    json_lines,
    object_fields,
    open_buffer,
    read_head,
    sniff,
)
from sojourn.readers._steps import action_digest
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, Outcome, Skipped, Trace

__all__ = ["PromptfooReader"]

_NOTHING = msgspec.Raw(b"null")
_ERROR = 2
_MARKS = (frozenset({"evalId", "results"}), frozenset({"results", "config", "shareableUrl"}))
_ROW_MARKS = (frozenset({"promptIdx", "testIdx"}), frozenset({"promptIdx", "testCase"}))


class _Test(msgspec.Struct):
    vars: Any = None
    description: str | None = None
    asserts: Any = msgspec.field(default=None, name="assert")


class _Provider(msgspec.Struct):
    id: str | None = None
    label: str | None = None


class _Response(msgspec.Struct):
    cached: bool | None = None


class _Prompt(msgspec.Struct):
    label: str | None = None


class _GradingMetadata(msgspec.Struct, rename="camel"):
    cached_response: bool | None = None


class _Grading(msgspec.Struct):
    metadata: _GradingMetadata | None = None


class _Row(msgspec.Struct, rename="camel"):
    eval_id: str | None = None
    success: bool | None = None
    score: float | None = None
    failure_reason: int | None = None
    error: Any = None
    grading_result: msgspec.Raw = _NOTHING
    test_idx: int | None = None
    prompt_idx: int | None = None
    prompt_id: str | None = None
    prompt: _Prompt | str | None = None
    repeat_index: int | None = None
    repeat_group_id: str | None = None
    provider: _Provider | str | None = None
    response: _Response | str | None = None
    vars: Any = None
    test_case: _Test | None = None


class _Run(NamedTuple):
    place: tuple[str, int, int] | None
    eval_id: str
    task_id: str
    repeat: int | None
    prompt: str
    model: str
    outcome: Outcome
    end: End
    score: float | None
    is_cached: bool


class PromptfooReader:
    """Reads the results of promptfoo."""

    name = "promptfoo"
    description = "promptfoo results (JSON or JSON lines)"
    carries = "outcome, attempts"
    heeds: frozenset[str] = frozenset()

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the file holds an evaluation's results, whole or a result a line."""
        found = sniff(head)
        if found.kind == "object" and any(found.keys >= marks for marks in _MARKS):
            return True
        return _is_row(head)

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a file stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield a trace a result, then what is to be told of them.

        Raises
        ------
        ReaderError
            If there is no list of results.
        """
        if _is_row(read_head(source)):
            eval_id = ""
            rows: Iterable[tuple[str, Buffer | Skipped]] = (
                (f"line {line.number}", line.text) for line in json_lines(source)
            )
        else:
            fields, results = _document(source)
            eval_id = _text(fields, "evalId")
            items = enumerate(array_items(results, source=str(source)), start=1)
            rows = ((f"result {number}", item) for number, item in items)
            if not is_closed(open_buffer(source)):
                yield Skipped(source=str(source), reason="the document is cut off", what="bytes")
        runs: list[_Run] = []
        for place, item in rows:
            if isinstance(item, Skipped):
                yield item
                continue
            try:
                runs.append(_run(decode(item, _Row), eval_id))
            except BadRecordError as error:
                yield Skipped(source=f"{source}, {place}", reason=str(error))
        yield from _traces(runs, source)


def _is_row(head: bytes) -> bool:
    found = sniff(head)
    return found.kind in ("object", "lines") and any(found.keys >= marks for marks in _ROW_MARKS)


def _document(source: Path) -> tuple[dict[str, Buffer], Buffer]:
    """Return the fields of a document and its list of results."""
    fields = object_fields(open_buffer(source), source=str(source))
    results = fields.get("results", b"null")
    if bytes(memoryview(results)[:1]) != b"[":  # of old, the list itself
        results = object_fields(results, source=f"{source}, results").get("results", b"null")
    if bytes(memoryview(results)[:1]) != b"[":
        raise ReaderError(f"{source}: no list of results in it; is the file complete?")
    return fields, results


def _text(fields: dict[str, Buffer], key: str) -> str:
    try:
        return decode(fields.get(key, b"null"), str | None) or ""  # type: ignore[arg-type]
    except BadRecordError:
        return ""


def _run(row: _Row, eval_id: str) -> _Run:
    provider = row.provider
    if isinstance(provider, _Provider):
        provider = provider.label or provider.id
    outcome, end = _verdict(row)
    eval_id = row.eval_id or eval_id
    label = row.prompt.label if isinstance(row.prompt, _Prompt) else None
    placed = row.test_idx is not None and row.prompt_idx is not None
    return _Run(
        place=(eval_id, row.test_idx or 0, row.prompt_idx or 0) if placed else None,
        eval_id=eval_id,
        task_id=_task_id(row),
        repeat=row.repeat_index if row.repeat_group_id else None,
        # The id is a digest of the prompt as it was rendered, so that each test has its own.
        prompt=label or row.prompt_id or str(row.prompt_idx),
        model=provider or "",
        outcome=outcome,
        end=end,
        score=row.score,
        is_cached=_is_cached(row),
    )


def _is_cached(row: _Row) -> bool:
    if isinstance(row.response, _Response) and row.response.cached:
        return True
    try:
        grading = decode(row.grading_result, _Grading | None)  # type: ignore[arg-type]
    except BadRecordError:
        return False
    metadata = grading.metadata if grading is not None else None
    return metadata is not None and bool(metadata.cached_response)


def _verdict(row: _Row) -> tuple[Outcome, End]:
    failed = row.failure_reason == _ERROR
    if row.failure_reason is None:  # older files tell it by what is missing
        failed = bool(row.error) and not row.success and row.grading_result == _NOTHING
    if failed:
        return Outcome.UNSCORED, End.INFRA_ERROR
    if row.success is None:
        return Outcome.UNSCORED, End.UNKNOWN
    return (Outcome.SUCCESS if row.success else Outcome.FAILURE), End.FINISHED


def _task_id(row: _Row) -> str:
    """Return a name that all repeats of a test have, and no other test."""
    if row.repeat_group_id and row.repeat_group_id.strip():
        return row.repeat_group_id
    test = row.test_case or _Test()
    parts = (test.vars if test.vars is not None else row.vars, test.description, test.asserts)
    if not any(parts):
        return f"test {row.test_idx}"
    text = msgspec.json.encode(parts, order="sorted").decode()
    return f"{action_digest(text):016x}"


def _traces(runs: list[_Run], source: Path) -> Iterator[Record]:
    latest = {run.place: run for run in runs if run.place is not None}
    kept = [run for run in runs if run.place is None or latest[run.place] is run]
    prompts = list(dict.fromkeys(run.prompt for run in kept))
    names = {prompt: f"prompt {n}" if len(prompts) > 1 else "" for n, prompt in enumerate(prompts)}
    attempts: Counter[tuple[str, str, str, str]] = Counter()
    for run in kept:
        key = (run.eval_id, run.task_id, run.prompt, run.model)
        yield Trace(
            task_id=run.task_id,
            task_repeat=attempts[key] if run.repeat is None else max(run.repeat, 0),
            agent=names[run.prompt],
            model=run.model,
            outcome=run.outcome,
            score=run.score,
            end=run.end,
            job_id=run.eval_id,
            source_type=PromptfooReader.name,
            source_uri=str(source),
        )
        attempts[key] += 1
    counts = {
        "answers from the cache: they are kept, but are no attempts of their own": sum(
            run.is_cached for run in kept
        ),
        "results that a later one of the same test and prompt replaced": len(runs) - len(kept),
    }
    for reason, count in counts.items():
        if count:
            yield Skipped(source=str(source), reason=reason, count=count, what="key")
