"""Tables of our own: CSV, TSV and Parquet, with a run a row or a step a row.

Columns go by our names or their synonyms; ``--map task_id=question`` names the rest. A table with
the columns ``step`` and ``name`` has a step a row, every other one a run a row. Texts are taken as
they stand, so that the task ``007`` stays apart from ``7``. pyarrow does the reading, in batches.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._limits import CSV_BLOCK_BYTES
from sojourn.corpus import TraceBatch
from sojourn.corpus.parquet import is_canonical
from sojourn.errors import EmptySourceError, ReaderError
from sojourn.readers._columns import (
    OUTCOME_NAMES,
    RUN_FIELDS,
    STEP_FIELDS,
    TASK_NAMES,
    column_of,
    hint,
    holds_sessions,
    quoted,
    shown,
)
from sojourn.readers._json import HEAD_BYTES, read_head
from sojourn.readers._rows import (
    BAD_SCORE,
    Complaints,
    Rows,
    Texts,
    decode_texts,
    require_verdicts,
    run_batch,
    understand,
)
from sojourn.readers._step_rows import StepRows
from sojourn.readers.base import ReadOptions, Record
from sojourn.readers.inspect_scout import is_scout
from sojourn.tables.escape import csv_text

__all__ = ["Frame", "TableReader", "column_names", "note_unused", "open_table"]

_MAGIC = b"PAR1"
_DELIMITERS = (",", "\t", ";", "|")
_PARQUET_ROWS = 1 << 16
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_MAX_UNUSED = 50


class TableReader:
    """Reads CSV, TSV and Parquet tables."""

    name = "table"
    description = "CSV, TSV or Parquet: a run a row, or a step a row (--map FIELD=COLUMN)"
    carries = "outcome, steps, attempts"
    heeds = frozenset({"columns"})

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the file is Parquet of another hand, or has a table's name or header."""
        if head.startswith(_MAGIC):
            names = column_names(source, head)
            return not (is_canonical(source) or holds_sessions(names) or is_scout(names))
        text = head.lstrip()
        if not text or text[:1] in b"[{":
            return False
        names = column_names(source, head)
        if source.suffix.lower() in (".csv", ".tsv"):
            return not holds_sessions(names)
        if b"\0" in head:
            return False
        return bool(names & TASK_NAMES) and bool(names & OUTCOME_NAMES)

    def accepts_unjudged(self, source: Path, head: bytes) -> bool:
        """Return whether the text is a table with a task a row, if without a verdict."""
        text = head.lstrip()
        if not text or text[:1] in b"[{" or b"\0" in head:
            return False
        return bool(column_names(source, head) & TASK_NAMES)

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a table stands alone."""
        return ()

    def columns(self, source: Path) -> tuple[str, ...]:
        """Return the columns that stand there."""
        return tuple(open_table(source).names)

    def fields(self, source: Path, options: ReadOptions) -> dict[str, str]:
        """Return the column of each of our fields that has one."""
        names = open_table(source).names
        mapping = options.without_optional(names, folded=True)
        columns = column_of(names, mapping, source=source.name, folded=True)
        return {name: names[place] for name, place in columns.items()}

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield batches of runs."""
        table = open_table(source)
        mapping = options.without_optional(table.names, folded=True)
        columns = column_of(table.names, mapping, source=source.name, folded=True)
        _check_columns(table.names, columns, source, needs_verdict=not options.verdicts_elsewhere)
        by_step = {"step", "name"} <= columns.keys()
        if not by_step:
            for name in STEP_FIELDS:
                columns.pop(name, None)
        complaints = Complaints(str(source))
        note_unused(table.names, columns, complaints)
        if by_step:
            yield from _read_steps(table, columns, complaints, source)
        else:
            yield from _read_runs(table, columns, complaints, source)
        yield from complaints.items()


def column_names(source: Path, head: bytes) -> frozenset[str]:
    """Return the columns of a table in lower case, without outer blanks; none if it is damaged."""
    if head.startswith(_MAGIC):
        try:
            names = _ParquetTable(source).names
        except ReaderError:
            names = []
    else:
        names = _header(head).names
    return frozenset(name.strip().casefold() for name in names)


def open_table(source: Path) -> _Table:
    """Open a CSV or Parquet table."""
    with source.open("rb") as file:
        is_parquet = file.read(len(_MAGIC)) == _MAGIC
    return _ParquetTable(source) if is_parquet else _CsvTable(source)


def _check_columns(
    names: list[str], columns: Mapping[str, int], source: Path, *, needs_verdict: bool
) -> None:
    if "task_id" not in columns and {"session_id", "position"} <= columns.keys():
        raise ReaderError(
            f"{source.name}: this is a table of sessions (session_id and position, no task_id), "
            "not of runs; read it with --as sessions (read_sessions in Python)"
        )
    for name in ("task_id", "outcome") if needs_verdict else ("task_id",):
        if name not in columns:
            other = ", or join the verdicts with --outcomes FILE" if name == "outcome" else ""
            raise ReaderError(
                f"{source.name}: no column is {name}; the columns are {shown(names)}; "
                f"name it with --map {name}=COLUMN{other}"
            )


def note_unused(names: list[str], columns: Mapping[str, int], complaints: Complaints) -> None:
    """Tell which columns were not used."""
    unused = [names[i] for i in range(len(names)) if i not in set(columns.values())]
    missing = [name for name in RUN_FIELDS if name not in columns]
    for name in unused[:_MAX_UNUSED]:
        complaints.add(f"the column {quoted(name)} was not used{hint(name, missing)}", what="key")
    if len(unused) > _MAX_UNUSED:
        complaints.add("more columns were not used", count=len(unused) - _MAX_UNUSED, what="key")


def _read_runs(
    table: _Table, columns: dict[str, int], complaints: Complaints, source: Path
) -> Iterator[TraceBatch]:
    # Numbers are verdicts only if all of the column says so: nothing is given out before.
    held = []
    for frame in table.frames(columns, complaints):
        rows = _understood(frame, table.names, columns, source)
        complaints.add_rows(rows.reason, frame.places)
        complaints.add_verdicts(rows, frame.places)
        if rows.n_bad_scores:
            complaints.add(BAD_SCORE, count=rows.n_bad_scores, what="key")
        held.append(
            run_batch(rows, rows.reason == 0, source_type=TableReader.name, source_uri=str(source))
        )
    yield from held


def _understood(frame: Frame, names: list[str], columns: Mapping[str, int], source: Path) -> Rows:
    rows = understand(frame.texts, frame.n_rows)
    if "outcome" in columns:
        from_score = columns["outcome"] == columns.get("score")
        name = names[columns["outcome"]]
        require_verdicts(rows, name, source=source.name, from_score=from_score)
    return rows


def _read_steps(
    table: _Table, columns: dict[str, int], complaints: Complaints, source: Path
) -> Iterator[TraceBatch]:
    runs = StepRows(complaints)
    for frame in table.frames(columns, complaints):
        rows = _understood(frame, table.names, columns, source)
        complaints.add_verdicts(rows, frame.places)
        runs.add(rows, frame.places)
    batch = runs.batch(source_type=TableReader.name, source_uri=str(source))
    if batch is not None:
        yield batch


class Frame(NamedTuple):
    """Some rows of a table: field -> its texts, and the number of each row in the file."""

    texts: dict[str, Texts]
    n_rows: int
    places: npt.NDArray[np.int64]


class _Header(NamedTuple):
    """A CSV's names, its delimiter, and where the rows begin (after the byte order mark)."""

    names: list[str]
    delimiter: str
    length: int


def _header(head: bytes) -> _Header:
    """Return the first record of a CSV, split at the delimiter that gives most of our names."""
    start = len(head) - len(head.lstrip())
    end = _record_end(head, start)
    text = head[start:end].decode("utf-8", "backslashreplace")
    found = []
    for delimiter in _DELIMITERS:
        try:
            names = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
        except csv.Error:  # a field longer than the module allows is no name
            names = []
        plain = {name.strip().casefold() for name in names}
        ours = bool(plain & TASK_NAMES) + bool(plain & OUTCOME_NAMES)
        found.append((ours, len(names), _Header(names, delimiter, end)))
    return max(found, key=lambda item: item[:2])[2]


def _record_end(data: bytes, start: int) -> int:
    """Return where the record that begins at `start` ends, its line end included."""
    quoted = False
    for position in range(start, len(data)):
        byte = data[position]
        if byte == 0x22:
            quoted = not quoted
        elif byte in b"\r\n" and not quoted:
            return position + 1 + (data[position : position + 2] == b"\r\n")
    return len(data)


class _CsvTable:
    """A CSV read by pyarrow in blocks, every wanted column as codes into its distinct bytes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        head = read_head(path)
        if head.startswith(_UTF16):
            raise ReaderError(f"{path.name}: the text is UTF-16; save it as UTF-8")
        if not head.strip():
            raise EmptySourceError(f"{path.name} is empty")
        self._header = _header(head)
        if self._header.length >= HEAD_BYTES - len(_BOM):
            raise ReaderError(f"{path.name}: the first line is too long for a header")
        self.names = self._header.names

    def frames(self, columns: Mapping[str, int], complaints: Complaints) -> Iterator[Frame]:
        import pyarrow as pa

        survey = _survey(self._path)
        ragged: list[int] = []
        n_rows = 0
        with self._path.open("rb") as file:
            bom = len(_BOM) if file.read(len(_BOM)) == _BOM else 0
            file.seek(bom + self._header.length)
            if not file.read(1 << 16).strip() and not file.read(1 << 16).strip():
                raise EmptySourceError(f"{self._path.name}: a header, but no row")
            file.seek(bom + self._header.length)
            try:
                for batch in self._open(file, columns, ragged, is_utf8=survey.is_utf8):
                    texts = {
                        name: _unguarded(
                            _texts(
                                batch.column(str(place)), complaints, is_recoded=not survey.is_utf8
                            )
                        )
                        for name, place in columns.items()
                    }
                    yield Frame(texts, batch.num_rows, _places(n_rows, batch.num_rows, ragged))
                    n_rows += batch.num_rows
            except pa.ArrowInvalid:
                if not n_rows:
                    raise ReaderError(
                        f"{self._path.name}: no CSV: a row or quoted field is longer than "
                        f"{CSV_BLOCK_BYTES >> 20} MB, or its quote is never closed"
                    ) from None
                complaints.add(
                    "a row or quoted field is too long or never ends; the rows after it are lost",
                    what="line",
                    place=n_rows + len(ragged) + 1,
                )
        if ragged:
            complaints.add(
                "the row has not as many fields as the header",
                count=len(ragged),
                what="line",
                place=ragged[0],
            )
        if survey.has_odd_quotes:
            _check_last_quote(self._path, self._header, complaints)

    def _open(
        self, file: Any, columns: Mapping[str, int], ragged: list[int], *, is_utf8: bool
    ) -> Any:
        import pyarrow as pa
        from pyarrow import csv as pa_csv

        def skip(row: Any) -> str:
            ragged.append(row.number or 0)
            return "skip"

        wanted = [str(i) for i in sorted(set(columns.values()))]
        texts = pa.dictionary(pa.int32(), pa.binary())
        return pa_csv.open_csv(
            file,
            read_options=pa_csv.ReadOptions(
                use_threads=False,
                # pyarrow decodes a ragged row to hand it over, and must be able to: broken UTF-8
                # goes through it as Latin-1, one letter a byte, and is taken back after.
                encoding="utf8" if is_utf8 else "latin-1",
                block_size=CSV_BLOCK_BYTES,
                column_names=[str(i) for i in range(len(self.names))],
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter=self._header.delimiter,
                newlines_in_values=True,
                invalid_row_handler=skip,
            ),
            convert_options=pa_csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, texts),
                strings_can_be_null=False,
            ),
        )


def _places(n_before: int, n_rows: int, left_out: list[int]) -> npt.NDArray[np.int64]:
    """Return the numbers of rows in the file, counted from 1, past those that were left out."""
    sound = np.arange(n_before + 1, n_before + n_rows + 1)
    return sound + np.searchsorted(np.array(left_out) - np.arange(len(left_out)), sound, "right")


def _texts(column: Any, complaints: Complaints, *, is_recoded: bool = False) -> Texts:
    """Return an Arrow column as codes into its distinct texts."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    values = column.dictionary
    if not pa.types.is_binary(values.type):
        # A string is not looked at before it is decoded, so that broken ones can be mended.
        if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
            values = values.cast(pa.string())
        values = values.cast(pa.large_binary())
    codes = column.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    if codes.size and not -1 <= codes.min() <= codes.max() < len(values):
        raise ValueError("a column's codes point beyond its texts")
    found = values.to_pylist()
    if is_recoded:
        found = [value and value.decode("utf-8").encode("latin-1") for value in found]
    texts, broken = decode_texts(found)
    if broken:
        complaints.add(
            "bytes that are not UTF-8 were replaced",
            count=int(np.isin(codes, broken).sum()),
            what="bytes",
        )
    return Texts(codes, texts)


def _unguarded(texts: Texts) -> Texts:
    """Return the texts of a CSV without the apostrophes that keep them from being formulas."""
    return Texts(texts.codes, [text and csv_text(text) for text in texts.values])


class _Survey(NamedTuple):
    """What a first look at all bytes of a CSV tells."""

    is_utf8: bool
    has_odd_quotes: bool


def _survey(path: Path) -> _Survey:
    decoder = codecs.getincrementaldecoder("utf-8")()
    is_utf8 = True
    n_quotes = 0
    with path.open("rb") as file:
        while block := file.read(CSV_BLOCK_BYTES):
            n_quotes += block.count(b'"')
            try:
                decoder.decode(block)
            except UnicodeDecodeError:
                is_utf8 = False
                decoder.reset()
    return _Survey(is_utf8 and not decoder.getstate()[0], n_quotes % 2 == 1)


def _check_last_quote(path: Path, header: _Header, complaints: Complaints) -> None:
    """Tell of a quoted field that is still open at the file's end: it swallowed all later rows."""
    row = 0  # the header's: what breaks after n records is row n
    with path.open(encoding="latin-1", newline="") as lines:
        try:
            for _ in csv.reader(lines, delimiter=header.delimiter, strict=True):
                row += 1
        except csv.Error as error:
            if "unexpected end" in str(error) or "limit" in str(error):
                complaints.add(
                    "a quoted field is never closed; the rows after it are lost",
                    what="line",
                    place=max(row, 1),
                )


class _ParquetTable:
    """A Parquet file of another hand, read a batch at a time."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._path = path
        try:
            self.names = list(pq.read_schema(path).names)
        except (OSError, pa.ArrowException, ValueError) as error:
            raise _damaged(path, error) from None

    def frames(self, columns: Mapping[str, int], complaints: Complaints) -> Iterator[Frame]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        places = sorted(set(columns.values()))
        names = [self.names[place] for place in places]
        self._check(names, columns)
        n_rows = 0
        try:
            with pq.ParquetFile(self._path, page_checksum_verification=True) as file:
                for batch in file.iter_batches(batch_size=_PARQUET_ROWS, columns=names):
                    texts = {
                        name: _texts(batch.column(self.names[place]), complaints)
                        for name, place in columns.items()
                    }
                    yield Frame(texts, batch.num_rows, _places(n_rows, batch.num_rows, []))
                    n_rows += batch.num_rows
        except (OSError, pa.ArrowException, LookupError, ValueError, OverflowError) as error:
            raise _damaged(self._path, error) from None
        if not n_rows:
            raise EmptySourceError(f"{self._path.name}: a schema, but no row")

    def _check(self, names: list[str], columns: Mapping[str, int]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pq.read_schema(self._path)
        for name, place in columns.items():
            kind = schema.field(place).type
            if self.names.count(self.names[place]) > 1:
                raise ReaderError(
                    f"{self._path.name}: several columns are called {quoted(self.names[place])}"
                )
            if pa.types.is_nested(kind):
                raise ReaderError(
                    f"{self._path.name}: the column {quoted(self.names[place])} for {name} holds "
                    f"{str(kind)[:40]}, where a plain value is needed"
                )


def _damaged(path: Path, error: Exception) -> ReaderError:
    return ReaderError(f"{path.name}: damaged or truncated Parquet file ({str(error)[:120]})")


_Table = _CsvTable | _ParquetTable
