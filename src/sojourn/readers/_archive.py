"""Members of a ZIP archive from a stranger: one at a time, in memory, within stated bounds.

The directory is parsed here and not by `zipfile`, which refuses Zstandard members (method 93)
before Python 3.14 and builds an object for every entry before anything can be counted. A member's
name is a label and never a path, nothing is written to disk, and no size that the archive states
is believed: bytes are counted while they are inflated, against a bound for one member, a ratio to
its packed size, and a budget for the whole archive (so members that share their packed bytes gain
nothing). A member that breaks a bound is refused by itself and the others are still read.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO, NamedTuple, Self, cast

from sojourn._limits import (
    ARCHIVE_BYTES,
    ARCHIVE_DIRECTORY_BYTES,
    ARCHIVE_FREE_BYTES,
    ARCHIVE_MEMBER_BYTES,
    ARCHIVE_MEMBERS,
    ARCHIVE_RATIO,
    ARCHIVE_WINDOW_BYTES,
)
from sojourn.errors import ReaderError

__all__ = ["Archive", "ArchiveLimits", "BudgetError", "Member", "MemberError", "is_zip"]

STORED, DEFLATED, ZSTANDARD = 0, 8, 93
_OLD_ZSTANDARD = 20
_PIECE = 1 << 20
_ENCRYPTED = 0x2041  # bit 0, strong encryption (6), masked headers (13)
_DIRECTORY_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_MAX_COMMENT = 0xFFFF


class ArchiveLimits(NamedTuple):
    """The bounds within which an archive is read.

    Attributes
    ----------
    member : int
        Bytes that one member may inflate to.
    total : int
        Bytes that all members read may inflate to.
    n_members : int
        Entries in the directory.
    directory : int
        Bytes of the directory.
    ratio : int
        Inflated to packed bytes, of one member, and of the whole archive beyond one full member.
    free : int
        Bytes of a member below which its ratio does not matter: a short run of blanks is no bomb.
    window : int
        Bytes of history that a Zstandard frame may ask for.
    """

    member: int = ARCHIVE_MEMBER_BYTES
    total: int = ARCHIVE_BYTES
    n_members: int = ARCHIVE_MEMBERS
    directory: int = ARCHIVE_DIRECTORY_BYTES
    ratio: int = ARCHIVE_RATIO
    free: int = ARCHIVE_FREE_BYTES
    window: int = ARCHIVE_WINDOW_BYTES


class MemberError(ValueError):
    """One member cannot be read, or may not be; the message says why and quotes no content."""


class BudgetError(MemberError):
    """The whole archive has inflated to more than it may; no further member will be read."""


class Member(NamedTuple):
    """What the directory says of a member; `size` and `packed` are claims."""

    method: int
    flags: int
    checksum: int
    packed: int
    size: int
    offset: int


def is_zip(head: bytes) -> bool:
    """Return whether a file's first bytes are those of a ZIP archive, be it an empty one."""
    return head[:4] in (b"PK\x03\x04", b"PK\x05\x06")


class Archive:
    """An open ZIP archive.

    Parameters
    ----------
    path : Path
        The file.
    limits : ArchiveLimits
        The bounds.

    Attributes
    ----------
    members : dict of str to Member
        By name, in the directory's order; of a repeated name the last entry, as ZIP tools do.
    n_repeated : int
        Number of entries whose name stood there before.

    Raises
    ------
    ReaderError
        If there is no directory, it is damaged, or it is larger than the bounds.
    """

    def __init__(self, path: Path, limits: ArchiveLimits | None = None) -> None:
        limits = ArchiveLimits() if limits is None else limits
        self._limits = limits
        self._file: BinaryIO = path.open("rb")
        try:
            self._length = os.fstat(self._file.fileno()).st_size
            self.members: dict[str, Member] = {}
            self.n_repeated = 0
            for name, member in _directory(self._file, self._length, limits, path):
                self.n_repeated += name in self.members
                self.members[name] = member
        except BaseException:
            self._file.close()
            raise
        self._budget = min(limits.total, max(limits.member, limits.ratio * self._length))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def read(self, name: str) -> bytearray:
        """Return a member's bytes.

        Raises
        ------
        MemberError
            If it is encrypted, damaged, packed in an unknown way, or breaks a bound.
        """
        member = self.members[name]
        limits = self._limits
        source = self._packed(member)
        ceiling = min(limits.member, max(limits.free, limits.ratio * member.packed))
        data = bytearray()
        checksum = 0
        for piece in _inflate(source, member.method, limits.window):
            if len(data) + len(piece) > ceiling:
                raise MemberError(
                    f"inflates to more than {limits.member} bytes"
                    if ceiling == limits.member
                    else f"inflates to more than {limits.ratio} times its packed size"
                )
            self._budget -= len(piece)
            if self._budget < 0:
                raise BudgetError(
                    f"the archive inflates to more than {limits.ratio} times its size or "
                    f"{limits.total} bytes; the rest was left unread"
                )
            checksum = zlib.crc32(piece, checksum)
            data += piece
        if len(data) != member.size or checksum != member.checksum:
            raise MemberError("damaged: its size or checksum is not the one the archive states")
        return data

    def _packed(self, member: Member) -> _Packed:
        """Return a source of the member's packed bytes, after a look at its own header."""
        if member.flags & _ENCRYPTED:
            raise MemberError("encrypted")
        self._file.seek(min(member.offset, self._length))
        head = self._file.read(_LOCAL_HEADER.size)
        if len(head) < _LOCAL_HEADER.size or head[:4] != b"PK\x03\x04":
            raise MemberError("damaged: it is not where the archive's directory says")
        *_, n_name, n_extra = _LOCAL_HEADER.unpack(head)
        start = member.offset + _LOCAL_HEADER.size + n_name + n_extra
        if start + member.packed > self._length:
            raise MemberError("cut off: it runs past the end of the file")
        self._file.seek(start)
        return _Packed(self._file, member.packed)


class _Packed:
    """A file's next `n_bytes` bytes, as a file; what reads it can never read on."""

    def __init__(self, file: BinaryIO, n_bytes: int) -> None:
        self._file = file
        self._left = n_bytes

    def read(self, n_bytes: int = -1) -> bytes:
        wanted = self._left if n_bytes < 0 else min(n_bytes, self._left)
        data = self._file.read(wanted)
        self._left -= len(data)
        return data


def _inflate(source: _Packed, method: int, window: int) -> Iterator[bytes]:
    """Yield the inflated bytes in pieces of at most `_PIECE`."""
    if method == STORED:
        while piece := source.read(_PIECE):
            yield piece
    elif method == DEFLATED:
        yield from _inflate_deflated(source)
    elif method in (ZSTANDARD, _OLD_ZSTANDARD):
        yield from _inflate_zstandard(source, window)
    else:
        raise MemberError(f"packed by method {method}, which is not read here")


def _inflate_deflated(source: _Packed) -> Iterator[bytes]:
    engine = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        while not engine.eof and (packed := source.read(_PIECE)):
            while packed and not engine.eof:
                yield engine.decompress(packed, _PIECE)
                packed = engine.unconsumed_tail
        yield engine.flush()
    except zlib.error:
        raise MemberError("damaged: its deflate stream is broken") from None


def _inflate_zstandard(source: _Packed, window: int) -> Iterator[bytes]:
    import zstandard

    engine = zstandard.ZstdDecompressor(max_window_size=window)
    file = cast("IO[bytes]", source)  # it is only read from
    try:
        # A writer may split one member into several frames.
        with engine.stream_reader(file, read_across_frames=True, closefd=False) as reader:
            while piece := reader.read(_PIECE):
                yield piece
    except zstandard.ZstdError:
        raise MemberError(
            f"its Zstandard stream is broken or asks for a window over {window} bytes"
        ) from None


def _directory(
    file: BinaryIO, length: int, limits: ArchiveLimits, path: Path
) -> Iterator[tuple[str, Member]]:
    """Yield the entries of the central directory."""
    count, size, offset = _find_directory(file, length, path)
    if count > limits.n_members or size > limits.directory:
        raise ReaderError(f"{path}: the archive has more than {limits.n_members} members")
    if offset + size > length:
        raise ReaderError(f"{path}: the archive's directory is damaged")
    file.seek(offset)
    data = file.read(size)
    position = 0
    for _ in range(count):
        if position + _DIRECTORY_ENTRY.size > len(data) or data[position : position + 4] != (
            b"PK\x01\x02"
        ):
            raise ReaderError(f"{path}: the archive's directory is damaged")
        (_, _, _, flags, method, _, _, checksum, packed, full, n_name, n_extra, n_comment,
         _, _, _, start) = _DIRECTORY_ENTRY.unpack_from(data, position)  # fmt: skip
        position += _DIRECTORY_ENTRY.size
        name = data[position : position + n_name].decode("utf-8", "replace")
        extra = data[position + n_name : position + n_name + n_extra]
        full, packed, start = _wide(extra, (full, packed, start), path)
        position += n_name + n_extra + n_comment
        yield name, Member(method, flags, checksum, packed, full, start)


def _find_directory(file: BinaryIO, length: int, path: Path) -> tuple[int, int, int]:
    """Return the directory's number of entries, size and offset from the record at the end."""
    tail_start = max(0, length - _MAX_COMMENT - _END.size - _LOCATOR.size)
    file.seek(tail_start)
    tail = file.read()
    position = tail.rfind(b"PK\x05\x06")
    if position < 0 or position + _END.size > len(tail):
        raise ReaderError(
            f"{path}: the archive has no directory at its end: it is cut off or no ZIP file; "
            "copy it again, or mend it with 'inspect log recover'"
        )
    _, _, _, _, count, size, offset, _ = _END.unpack_from(tail, position)
    if count == 0xFFFF or size == 0xFFFFFFFF or offset == 0xFFFFFFFF:
        place = position - _LOCATOR.size
        if place >= 0 and tail[place : place + 4] == b"PK\x06\x07":
            _, _, where, _ = _LOCATOR.unpack_from(tail, place)
            file.seek(min(where, length))
            record = file.read(_END_64.size)
            if len(record) < _END_64.size or record[:4] != b"PK\x06\x06":
                raise ReaderError(f"{path}: the archive's ZIP64 directory is damaged")
            *_, count, size, offset = _END_64.unpack(record)
    return count, size, offset


def _wide(extra: bytes, sizes: tuple[int, int, int], path: Path) -> tuple[int, int, int]:
    """Return size, packed size and offset, those that need it from the ZIP64 extra field."""
    if 0xFFFFFFFF not in sizes:
        return sizes
    position = 0
    while position + 4 <= len(extra):
        kind, n_bytes = struct.unpack_from("<2H", extra, position)
        field = extra[position + 4 : position + 4 + n_bytes]
        position += 4 + n_bytes
        if kind == 1 and len(field) >= 8 * sizes.count(0xFFFFFFFF):
            wide = (value for (value,) in struct.iter_unpack("<Q", field[: len(field) // 8 * 8]))
            full, packed, start = (next(wide) if size == 0xFFFFFFFF else size for size in sizes)
            return full, packed, start
    raise ReaderError(f"{path}: the archive's ZIP64 directory is damaged")
