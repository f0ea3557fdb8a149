"""lm-evaluation-harness samples (``samples_<task>_<date>.jsonl``): one answer a line, no steps.

There is a line for each document and filter; one filter counts, the first, or the one that
``--scorer METRIC,FILTER`` names. The verdict is the first of the line's metrics, or the one named:
1 is a success and 0 a failure, anything between is no verdict. Where a document was sampled several
times, the filter has picked or joined the answers before the metric saw them, so a line is one run
still; that is counted. The model's name stands in ``results_<date>.json`` beside the file, else in
the folder's name. Files in one folder with different dates are attempts at the same tasks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from sojourn.errors import ReaderError
from sojourn.readers._inspect_scores import listing, printable
from sojourn.readers._json import (
    BadRecordError,
    decode,
    json_lines,
    object_fields,
    open_buffer,
    sniff,
)
from sojourn.readers._steps import respond
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, Outcome, Skipped, Trace

__all__ = ["LmEvalReader"]

_NAME = re.compile(r"samples_(.{1,200}?)_?(\d{4}-\d\d-\d\dT[\d.:-]{1,40})?\.jsonl")
_KEYS = frozenset({"doc_id", "resps", "filtered_resps"})
# What is no metric in files of before 0.4.3, which do not list theirs.
_OWN = _KEYS | {"doc", "target", "arguments", "filter", "metrics"}
_OWN |= {"doc_hash", "prompt_hash", "target_hash"}
_NOTHING = msgspec.Raw(b"null")


@dataclass(slots=True)
class _File:
    """What holds for a whole file, and what is to be told at its end."""

    source: Path
    task_set: str
    model: str
    metric: str = ""
    filter: str | None = None
    filters: dict[str, None] = field(default_factory=dict)
    notes: Counter[tuple[str, str]] = field(default_factory=Counter)


class LmEvalReader:
    """Reads the samples of lm-evaluation-harness."""

    name = "lm-eval"
    description = "lm-evaluation-harness samples (samples_TASK_DATE.jsonl)"
    carries = "outcome"
    heeds = frozenset({"scorer"})

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the first line is a sample with responses."""
        found = sniff(head)
        if found.kind not in ("object", "lines"):
            return False
        # Few-shot prompts may push the responses out of sight.
        is_named = source.name.startswith("samples_") and {"doc_id", "doc"} <= found.keys
        return found.keys >= _KEYS or is_named

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return the results of the same evaluation, which name the model."""
        named = _NAME.fullmatch(source.name)
        date = named.group(2) if named is not None else None
        path = source.with_name(f"results_{date}.json")
        return [path] if date and path.is_file() else []

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield a trace a document, then what was left out or chosen."""
        named = _NAME.fullmatch(source.name)
        model = ""
        for path in self.siblings(source):
            try:
                model = _model(path)
            except (BadRecordError, ReaderError, OSError) as error:
                yield Skipped(source=str(path), reason=f"the results: {error}", what="key")
        metric, _, filter_ = (options.scorer or "").partition(",")
        log = _File(
            source=source,
            task_set=named.group(1) if named is not None else source.stem,
            model=model or source.absolute().parent.name,
            metric=metric,
            filter=filter_ or None,
        )
        for line in json_lines(source):
            try:
                trace = _trace(decode(line.text, dict[str, msgspec.Raw]), log)
            except ValueError as error:
                whole = line.text.endswith(b"\n")
                reason = str(error) if whole else f"the last line is incomplete: {error}"
                yield Skipped(source=f"{source}, line {line.number}", reason=reason, what="line")
                continue
            if trace is not None:
                yield trace
        if log.filters and log.filter not in log.filters:
            known = listing(list(log.filters))
            raise ReaderError(
                f"{source}: no filter is called {printable(log.filter or '')}; there are: {known}"
            )
        for (reason, what), count in log.notes.items():
            yield Skipped(source=str(source), reason=reason, what=what, count=count)


def _model(path: Path) -> str:
    fields = object_fields(open_buffer(path), source=path.name)
    return decode(fields.get("model_name", b"null"), str | None) or ""  # type: ignore[arg-type]


def _trace(fields: Mapping[str, msgspec.Raw], log: _File) -> Trace | None:
    """Return the run of a line, None for a line of another filter."""
    filter_ = decode(fields.get("filter", _NOTHING), str | None) or ""  # type: ignore[arg-type]
    if log.filter is None:
        log.filter = filter_
    log.filters[filter_] = None
    if filter_ != log.filter:
        log.notes["lines of another filter (--scorer METRIC,FILTER chooses)", "key"] += 1
        return None
    task_id = decode(fields.get("doc_id", _NOTHING), str | int)  # type: ignore[arg-type]
    outcome, score = _verdict(fields, log)
    answers = _answers(fields.get("resps", _NOTHING))
    if len(answers) > 1:
        log.notes["documents sampled several times: what the filter made of them is one run",
                  "key"] += 1  # fmt: skip
    return Trace(
        task_id=str(task_id),
        task_set=log.task_set,
        model=log.model,
        outcome=outcome,
        score=score,
        end=End.FINISHED,
        n_steps=1,
        steps=(respond(answers[0]),) if len(answers) == 1 else (),
        source_type=LmEvalReader.name,
        source_uri=str(log.source),
    )


def _verdict(fields: Mapping[str, msgspec.Raw], log: _File) -> tuple[Outcome, float | None]:
    name = log.metric or _first_metric(fields, log)
    if name not in fields:
        reason = "lines without the metric that counts"
        if log.metric:
            known = listing(_metrics(fields))
            reason = f"no metric is called {printable(log.metric)}; there are: {known}"
        log.notes[reason, "verdict"] += 1
        return Outcome.UNSCORED, None
    try:
        value: Any = decode(fields[name], float | bool | None)  # type: ignore[arg-type]
    except BadRecordError:
        value = None
    if value not in (0, 1):
        log.notes["the metric is neither 0 nor 1: no verdict", "verdict"] += 1
        return Outcome.UNSCORED, None if value is None else float(value)
    return Outcome.SUCCESS if value else Outcome.FAILURE, float(value)


def _metrics(fields: Mapping[str, msgspec.Raw]) -> list[str]:
    names = decode(fields.get("metrics", _NOTHING), list[str] | None)  # type: ignore[arg-type]
    return names or [name for name in fields if name not in _OWN]


def _first_metric(fields: Mapping[str, msgspec.Raw], log: _File) -> str:
    names = _metrics(fields)
    if len(names) > 1:
        log.notes["several metrics a line; the first counts (--scorer METRIC chooses)", "key"] += 1
    return names[0] if names else ""


def _answers(raw: msgspec.Raw) -> list[str]:
    """Return the texts that were sampled; none where answers were ranked by likelihood."""
    try:
        requests = decode(raw, list[list[str]])
    except BadRecordError:
        return []
    return requests[0] if len(requests) == 1 else []
