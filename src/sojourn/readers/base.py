"""The readers' protocol, their table, and what a user may tell them.

A reader is one file behind two questions and one job: does it claim a source, which siblings does
it consume, and what records stand in it. A source is a file, or a folder for formats that are
folders. No reader is imported until a source looks like it might be asked about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from sojourn.corpus import TaskBatch, TraceBatch
from sojourn.errors import UnknownFormatError
from sojourn.records import Skipped, TaskResult, Trace

__all__ = [
    "READERS",
    "ROWS",
    "Builder",
    "ReadOptions",
    "Reader",
    "Record",
    "Source",
    "as_runs",
    "kind_of",
    "load_reader",
    "reader_names",
    "unheeded",
]

Record = Trace | TraceBatch | TaskResult | TaskBatch | Skipped

# Name of a format -> where its reader stands; alphabetical, imported when first asked.
READERS: dict[str, str] = {
    "agbenchmark": "sojourn.readers.agbenchmark:AgbenchmarkReader",
    "atif": "sojourn.readers.atif:AtifReader",
    "claude-code": "sojourn.readers.claude_code:ClaudeCodeReader",
    "dynamic-cheatsheet": "sojourn.readers.dynamic_cheatsheet:DynamicCheatsheetReader",
    "every-eval-ever": "sojourn.readers.every_eval_ever:EveryEvalEverReader",
    "harbor": "sojourn.readers.harbor:HarborReader",
    "inspect": "sojourn.readers.inspect_ai:InspectReader",
    "inspect-scout": "sojourn.readers.inspect_scout:InspectScoutReader",
    "langfuse": "sojourn.readers.langfuse:LangfuseReader",
    "langsmith": "sojourn.readers.langsmith:LangSmithReader",
    "lm-eval": "sojourn.readers.lm_eval:LmEvalReader",
    "metr-runs": "sojourn.readers.metr_runs:MetrRunsReader",
    "mini-swe-agent": "sojourn.readers.mini_swe_agent:MiniSweAgentReader",
    "mint": "sojourn.readers.mint:MintReader",
    "mlflow": "sojourn.readers.mlflow:MlflowReader",
    "openai-agents": "sojourn.readers.openai_agents:OpenAIAgentsReader",
    "openhands": "sojourn.readers.openhands:OpenHandsReader",
    "otel": "sojourn.readers.otel:OtelReader",
    "promptfoo": "sojourn.readers.promptfoo:PromptfooReader",
    "reflexion": "sojourn.readers.reflexion:ReflexionReader",
    "session-table": "sojourn.readers.session_table:SessionTableReader",
    "sojourn-jsonl": "sojourn.readers.sojourn_jsonl:SojournJsonlReader",
    "sojourn-parquet": "sojourn.readers.sojourn_parquet:SojournParquetReader",
    "swe-agent": "sojourn.readers.swe_agent:SweAgentReader",
    "swe-bench-report": "sojourn.readers.swe_bench_report:SweBenchReportReader",
    "table": "sojourn.readers.table:TableReader",
    "tau-bench": "sojourn.readers.tau_bench:TauBenchReader",
    "tau2-bench": "sojourn.readers.tau2_bench:Tau2BenchReader",
}
# Sessions whose tasks are attempts as well, and their readers of runs: for ``--as traces``.
_AS_RUNS: dict[str, str] = {
    "agbenchmark": "sojourn.readers.agbenchmark_runs:AgbenchmarkRunsReader",
}
# Rows of few words, which may be all that is known of a run: those of a tool may hold them too, and
# two runs may well have equal ones.
ROWS = frozenset({"session-table", "sojourn-jsonl", "table"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a user may tell the readers.

    Attributes
    ----------
    columns : mapping of str to str
        For tables: our field -> the column that holds it (``--map``).
    scorer : str or None
        For logs with several verdicts a run: which one counts.
    verdicts_elsewhere : bool
        Whether rows without a verdict are runs, since a second file holds the verdicts.
    optional : frozenset of str
        Fields of `columns` whose column need not be there, since a second file has it.
    """

    def without_optional(self, names: Iterable[str], *, folded: bool = False) -> dict[str, str]:
        """Return `columns` but for optional ones that are not among `names`."""
        there = set(names)
        plain = {name.strip().casefold() for name in there} if folded else there
        return {
            ours: theirs
            for ours, theirs in self.columns.items()
            if ours not in self.optional
            or theirs in there
            or (folded and theirs.strip().casefold() in plain)
        }

    columns: Mapping[str, str] = field(default_factory=dict)
    scorer: str | None = None
    verdicts_elsewhere: bool = False
    optional: frozenset[str] = frozenset()


@runtime_checkable
class Reader(Protocol):
    """What a format's reader offers.

    Attributes
    ----------
    name : str
        The format's name, as ``--format`` takes it.
    description : str
        One line for ``sojourn formats``.
    carries : str
        What one file holds, for ``sojourn formats``: outcome, steps, attempts.

    Notes
    -----
    A reader of sessions says so by an attribute ``kind = "sessions"`` and yields tasks; without
    it, or with ``"traces"``, the records are runs. One that has no use for some of what a user may
    tell names what it heeds by an attribute ``heeds``, of ``columns`` and ``scorer``; without it,
    both are taken to be heeded.
    """

    name: str
    description: str
    carries: str

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether `source` is of this format.

        `head` holds a file's first bytes without a byte order mark; it is empty for a folder.
        """
        ...

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return other files that `read` consumes, so that they are not reported as unknown."""
        ...

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield the records of a source.

        Raises
        ------
        ReaderError
            If nothing can be read at all; single bad records become `Skipped`.
        """
        ...


class Builder(Protocol):
    """What collects the records of readers: a `CorpusBuilder` or a `SessionLogBuilder`."""

    def add(self, record: Any, /) -> None:
        """Add one record."""

    def add_batch(self, batch: Any, /) -> None:
        """Add a batch of columns."""

    def skip(self, item: Skipped, /) -> None:
        """Count something that was left out."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file or folder and the reader that claims it."""

    path: Path
    reader: Reader

    @property
    def kind(self) -> str:
        """What is in it: ``traces`` or ``sessions``."""
        return kind_of(self.reader)


_SWITCHES = {"columns": "--map", "scorer": "--scorer"}


def unheeded(reader: Reader, options: ReadOptions) -> list[str]:
    """Say which of the things that a user told are of no account to a reader."""
    told = {
        "columns": bool(options.columns.keys() - options.optional),
        "scorer": options.scorer is not None,
    }
    heeds: frozenset[str] = getattr(reader, "heeds", frozenset(told))
    return [
        f"{_SWITCHES[name]} is of no account to logs of {reader.name}, and was not used"
        for name, is_told in told.items()
        if is_told and name not in heeds
    ]


def kind_of(reader: Reader) -> str:
    """Return what a reader yields by default: ``traces`` or ``sessions``."""
    kind: str = getattr(reader, "kind", "traces")
    return kind


def reader_names() -> list[str]:
    """Return the names of all formats, those of installed plug-ins included."""
    return sorted({*READERS, *(point.name for point in entry_points(group="sojourn.readers"))})


def load_reader(name: str) -> Reader:
    """Return the reader of a format by its name.

    Raises
    ------
    UnknownFormatError
        If no reader has that name.
    """
    if name in READERS:
        reader = _made(READERS[name])
    else:
        points = entry_points(group="sojourn.readers", name=name)
        if not points:
            raise UnknownFormatError(
                f"no format is called {name!r}; there are {', '.join(reader_names())}"
            )
        reader = next(iter(points)).load()()
    if not isinstance(reader, Reader):
        raise TypeError(f"the plug-in for {name!r} does not follow the readers' protocol")
    return reader


def _made(place: str) -> Any:
    """Return a reader by its module and class."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)()


def as_runs(reader: Reader) -> Reader | None:
    """Return the reader of runs for sessions whose tasks are attempts as well, if there is one."""
    place = _AS_RUNS.get(reader.name)
    made: Reader | None = None if place is None else _made(place)
    return made
