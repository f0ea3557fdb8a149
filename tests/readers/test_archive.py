from __future__ import annotations

import contextlib
import io
import json
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import zstandard

from readers.inspect_logs import DEFLATED, STORED, ZSTANDARD, Entry, pack, raw_zip
from sojourn.errors import ReaderError
from sojourn.readers._archive import Archive, ArchiveLimits, BudgetError, MemberError, is_zip

TEXT = json.dumps({"words": [f"word {n}" for n in range(20_000)]}).encode()
SMALL = ArchiveLimits(free=1 << 16)


def opened(folder: Path, data: bytes, limits: ArchiveLimits | None = None) -> Archive:
    path = folder / "a.zip"
    path.write_bytes(data)
    return Archive(path, limits)


@pytest.mark.parametrize("method", [STORED, DEFLATED, ZSTANDARD, 20])
def test_reads_each_method(tmp_path: Path, method: int) -> None:
    with opened(tmp_path, raw_zip([Entry("a", TEXT, method), Entry("b", b"", method)])) as archive:
        assert archive.read("a") == TEXT
        assert archive.read("b") == b""


def check_against_the_standard_library(folder: Path, method: int, n_members: int) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as out:
        for number in range(n_members):
            out.writestr(f"{number}", f"text {number}")
        with out.open("wide", "w", force_zip64=True) as member:
            member.write(TEXT)
        out.comment = b"a remark PK\x01\x02"
    with opened(folder, file.getvalue()) as archive, zipfile.ZipFile(file) as other:
        assert list(archive.members) == other.namelist()
        for name in ("0", "9", "wide"):
            assert archive.read(name) == other.read(name)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_reads_what_the_standard_library_writes(tmp_path: Path, method: int) -> None:
    check_against_the_standard_library(tmp_path, method, 10)


@pytest.mark.slow
def test_reads_more_members_than_fit_the_old_directory(tmp_path: Path) -> None:
    check_against_the_standard_library(tmp_path, zipfile.ZIP_STORED, 70_000)


def test_reads_several_frames_and_sizes_unknown_in_advance(tmp_path: Path) -> None:
    engine = zstandard.ZstdCompressor(write_content_size=False)
    frames = engine.compress(TEXT[:1000]) + engine.compress(TEXT[1000:])
    with opened(tmp_path, raw_zip([Entry("a", TEXT, ZSTANDARD, packed=frames)])) as archive:
        assert archive.read("a") == TEXT


def test_reads_sizes_and_directory_in_zip64_form(tmp_path: Path) -> None:
    data = raw_zip([Entry("a", TEXT, zip64=True), Entry("b", b"x")], zip64=True)
    with opened(tmp_path, data) as archive:
        assert archive.read("a") == TEXT
        assert archive.read("b") == b"x"


@pytest.mark.parametrize("method", [DEFLATED, ZSTANDARD])
def test_a_bomb_stops_at_the_ratio_and_in_little_memory(tmp_path: Path, method: int) -> None:
    bomb = Entry("bomb", b"", method, packed=pack(bytes(40 << 20), method), size=40 << 20)
    with opened(tmp_path, raw_zip([bomb, Entry("a", TEXT)])) as archive:
        tracemalloc.start()
        with pytest.raises(MemberError, match="more than 200 times"):
            archive.read("bomb")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 32 << 20
        assert archive.read("a") == TEXT  # the others are still read


def test_a_stated_size_is_not_believed(tmp_path: Path) -> None:
    bomb = Entry("bomb", b"", DEFLATED, packed=pack(bytes(1 << 20), DEFLATED), size=10)
    honest = Entry("short", TEXT, size=10)
    with opened(tmp_path, raw_zip([bomb, honest]), SMALL) as archive:
        with pytest.raises(MemberError, match="200 times"):
            archive.read("bomb")
        with pytest.raises(MemberError, match="damaged"):
            archive.read("short")


def test_bounds_of_a_member_of_the_archive_and_of_their_number(tmp_path: Path) -> None:
    data = raw_zip([Entry(name, TEXT, STORED) for name in "abc"])
    with (
        opened(tmp_path, data, ArchiveLimits(member=1000)) as archive,
        pytest.raises(MemberError, match="more than 1000 bytes"),
    ):
        archive.read("a")
    with opened(tmp_path, data, ArchiveLimits(total=2 * len(TEXT))) as archive:
        archive.read("a")
        archive.read("b")
        with pytest.raises(BudgetError, match="rest was left unread"):
            archive.read("c")
    with pytest.raises(ReaderError, match="more than 2 members"):
        opened(tmp_path, data, ArchiveLimits(n_members=2))
    with pytest.raises(ReaderError, match="members"):
        opened(tmp_path, data, ArchiveLimits(directory=100))


def test_members_that_share_their_bytes_use_up_one_budget(tmp_path: Path) -> None:
    # 100:1 is allowed to each, but the archive as a whole may not inflate more than 200:1.
    data = (b"%06d" % 7) * 50_000
    first = Entry("0", data, DEFLATED)
    others = [Entry(str(n), data, DEFLATED, offset=0) for n in range(1, 400)]
    limits = ArchiveLimits(free=len(data), member=len(data), ratio=200)
    with opened(tmp_path, raw_zip([first, *others]), limits) as archive:
        n_allowed = 200 * (tmp_path / "a.zip").stat().st_size // len(data)
        for number in range(n_allowed):
            archive.read(str(number))
        with pytest.raises(BudgetError):
            archive.read(str(n_allowed))


def test_a_window_that_asks_for_too_much_memory_is_refused(tmp_path: Path) -> None:
    wide = zstandard.ZstdCompressionParameters(window_log=28, write_content_size=0)
    engine = zstandard.ZstdCompressor(compression_params=wide)
    compressor = engine.compressobj()
    packed = compressor.compress(TEXT) + compressor.flush()
    with (
        opened(tmp_path, raw_zip([Entry("a", TEXT, ZSTANDARD, packed=packed)])) as archive,
        pytest.raises(MemberError, match="window"),
    ):
        archive.read("a")


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (Entry("a", TEXT, flags=1), "encrypted"),
        (Entry("a", TEXT, flags=1 | 64), "encrypted"),
        (Entry("a", TEXT, method=9, packed=b"x"), "method 9"),
        (Entry("a", TEXT, checksum=7), "damaged"),
        (Entry("a", TEXT, packed=b"\xff" * 50), "damaged"),
        (Entry("a", TEXT, packed=pack(TEXT, DEFLATED)[:-9]), "damaged"),
        (Entry("a", TEXT, ZSTANDARD, packed=b"nonsense"), "broken"),
        (Entry("a", TEXT, ZSTANDARD, packed=pack(TEXT, ZSTANDARD)[:-9]), "damaged"),
        (Entry("a", TEXT, packed_size=1 << 20), "past the end"),
        (Entry("a", TEXT, packed_size=1 << 50, zip64=True), "past the end"),
        (Entry("a", TEXT, offset=5), "not where"),
        (Entry("a", TEXT, offset=1 << 40, zip64=True), "not where"),
        (Entry("a", TEXT, offset=(1 << 64) - 1, zip64=True), "not where"),
    ],
)
def test_a_bad_member_says_why(tmp_path: Path, entry: Entry, reason: str) -> None:
    with opened(tmp_path, raw_zip([Entry("b", b"fine", STORED), entry])) as archive:
        with pytest.raises(MemberError, match=reason):
            archive.read("a")
        assert archive.read("b") == b"fine"


def test_of_a_repeated_name_the_last_entry_counts(tmp_path: Path) -> None:
    with opened(tmp_path, raw_zip([Entry("a", b"old"), Entry("a", b"new")])) as archive:
        assert archive.n_repeated == 1
        assert archive.read("a") == b"new"


@pytest.mark.parametrize("end", [0, 1, 3, 21, 22, 40, 100])
def test_an_archive_that_is_cut_off_is_an_error(tmp_path: Path, end: int) -> None:
    data = raw_zip([Entry("a", TEXT), Entry("b", TEXT)], zip64=True)
    data = data[:-end] if end else data[: len(data) // 2]
    with pytest.raises(ReaderError, match="directory"):
        opened(tmp_path, data)


@pytest.mark.parametrize("field", [10, 12, 16])
def test_an_end_record_that_lies_is_an_error(tmp_path: Path, field: int) -> None:
    data = bytearray(raw_zip([Entry("a", TEXT)]))
    place = len(data) - 22 + field
    data[place : place + 2] = b"\xfe\xfe"
    with pytest.raises(ReaderError, match=r"directory|members"):
        opened(tmp_path, bytes(data)).read("a")


def test_a_zip64_field_that_is_too_short_is_an_error(tmp_path: Path) -> None:
    data = raw_zip([Entry("a", TEXT, zip64=True)])
    broken = data.replace(b"\x01\x00\x18\x00", b"\x01\x00\x07\x00")
    assert broken != data
    with pytest.raises(ReaderError, match="ZIP64"):
        opened(tmp_path, broken)


def test_random_damage_never_crashes(tmp_path: Path, rng: np.random.Generator) -> None:
    data = raw_zip([Entry("a", TEXT[:2000]), Entry("b", TEXT[:2000], ZSTANDARD, zip64=True)])
    for _ in range(300):
        broken = bytearray(data)
        for place in rng.integers(len(data), size=4).tolist():
            broken[place] = int(rng.integers(256))
        with contextlib.suppress(ReaderError), opened(tmp_path, bytes(broken)) as archive:
            for name, member in archive.members.items():
                with contextlib.suppress(MemberError):
                    assert zlib.crc32(archive.read(name)) == member.checksum


def test_nothing_is_written_and_names_are_labels(tmp_path: Path) -> None:
    name = "../../evil"
    with opened(tmp_path, raw_zip([Entry(name, b"x")])) as archive:
        assert archive.read(name) == b"x"
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_the_mark_of_an_archive() -> None:
    assert is_zip(raw_zip([Entry("a", b"")]))
    assert is_zip(raw_zip([]))
    assert not is_zip(b'{"a": 1}')
