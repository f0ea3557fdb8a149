"""promptfoo results (``-o results.json``): verdicts of tests, regrouped into attempts.

With ``--repeat`` every repeat is a row of its own with a new index of its test. What makes two rows
attempts at one task is the test itself: its variables, description and assertions, of which the
task's name is a digest. The provider is the model; where several prompts are compared, the prompt
is the agent, by its number in order of appearance. ``failureReason`` tells an assertion that failed
(1) from an error (2), which is a fault, not a failure. Answers that came from the cache are
counted: they are no attempts of their own.
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
    object_fields,
    open_buffer,
    sniff,
)
from sojourn.readers._steps import action_digest
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, Outcome, Skipped, Trace

__all__ = ["PromptfooReader"]

_NOTHING = msgspec.Raw(b"null")
_ERROR = 2
_MARKS = (frozenset({"evalId", "results"}), frozenset({"results", "config", "shareableUrl"}))


class _Test(msgspec.Struct):
    vars: Any = None
    description: str | None = None
    asserts: Any = msgspec.field(default=None, name="assert")


class _Provider(msgspec.Struct):
    id: str | None = None
    label: str | None = None


class _Response(msgspec.Struct):
    cached: bool | None = None


class _Row(msgspec.Struct, rename="camel"):
    success: bool | None = None
    score: float | None = None
    failure_reason: int | None = None
    error: Any = None
    grading_result: msgspec.Raw = _NOTHING
    test_idx: int | None = None
    prompt_idx: int | None = None
    prompt_id: str | None = None
    provider: _Provider | str | None = None
    response: _Response | str | None = None
    vars: Any = None
    test_case: _Test | None = None


class _Run(NamedTuple):
    task_id: str
    prompt: str
    model: str
    outcome: Outcome
    end: End
    score: float | None
    is_cached: bool


class PromptfooReader:
    """Reads the results of promptfoo."""

    name = "promptfoo"
    description = "promptfoo results (JSON)"
    carries = "outcome, attempts"

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the file is an object with an evaluation's results."""
        found = sniff(head)
        return found.kind == "object" and any(found.keys >= marks for marks in _MARKS)

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
        data = open_buffer(source)
        fields = object_fields(data, source=str(source))
        results = fields.get("results", b"null")
        if bytes(memoryview(results)[:1]) != b"[":  # of old, the list itself
            results = object_fields(results, source=f"{source}, results").get("results", b"null")
        if bytes(memoryview(results)[:1]) != b"[":
            raise ReaderError(f"{source}: no list of results in it; is the file complete?")
        if not is_closed(data):
            yield Skipped(source=str(source), reason="the document is cut off", what="bytes")
        runs: list[_Run] = []
        for number, item in enumerate(array_items(results, source=str(source)), start=1):
            if isinstance(item, Skipped):
                yield item
                continue
            try:
                runs.append(_run(decode(item, _Row)))
            except BadRecordError as error:
                yield Skipped(source=f"{source}, result {number}", reason=str(error))
        yield from _traces(runs, _text(fields, "evalId"), source)


def _text(fields: dict[str, Buffer], key: str) -> str:
    try:
        return decode(fields.get(key, b"null"), str | None) or ""  # type: ignore[arg-type]
    except BadRecordError:
        return ""


def _run(row: _Row) -> _Run:
    provider = row.provider
    if isinstance(provider, _Provider):
        provider = provider.label or provider.id
    outcome, end = _verdict(row)
    return _Run(
        task_id=_task_id(row),
        prompt=row.prompt_id or str(row.prompt_idx),
        model=provider or "",
        outcome=outcome,
        end=end,
        score=row.score,
        is_cached=isinstance(row.response, _Response) and bool(row.response.cached),
    )


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
    test = row.test_case or _Test()
    parts = (test.vars if test.vars is not None else row.vars, test.description, test.asserts)
    if not any(parts):
        return f"test {row.test_idx}"
    text = msgspec.json.encode(parts, order="sorted").decode()
    return f"{action_digest(text):016x}"


def _traces(runs: list[_Run], eval_id: str, source: Path) -> Iterator[Record]:
    prompts = list(dict.fromkeys(run.prompt for run in runs))
    names = {prompt: f"prompt {n}" if len(prompts) > 1 else "" for n, prompt in enumerate(prompts)}
    attempts: Counter[tuple[str, str, str]] = Counter()
    for run in runs:
        key = (run.task_id, run.prompt, run.model)
        yield Trace(
            task_id=run.task_id,
            task_repeat=attempts[key],
            agent=names[run.prompt],
            model=run.model,
            outcome=run.outcome,
            score=run.score,
            end=run.end,
            job_id=eval_id,
            source_type=PromptfooReader.name,
            source_uri=str(source),
        )
        attempts[key] += 1
    if count := sum(run.is_cached for run in runs):
        reason = "answers from the cache: they are kept, but are no attempts of their own"
        yield Skipped(source=str(source), reason=reason, count=count, what="key")
