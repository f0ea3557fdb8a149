from __future__ import annotations

import os
from pathlib import Path

import pytest

from sojourn._files import replacing, write_text


def test_writes_with_unix_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "é\nb\n")
    assert path.read_bytes() == "é\nb\n".encode()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_interrupt_leaves_the_old_file_and_no_other(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write_half() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with replacing(path) as temporary:
        assert temporary.parent == tmp_path
        assert temporary != path
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"


def test_nothing_written_is_an_error_not_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(FileNotFoundError), replacing(path):
        pass
    assert path.read_text() == "old"


def test_two_writers_do_not_share_a_temporary_name(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with replacing(path) as one, replacing(path) as two:
        assert one != two
        one.write_text("one")
        two.write_text("two")
    assert path.read_text() == "one"


def test_a_folder_that_is_not_there_is_an_ordinary_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_text(tmp_path / "no" / "a.txt", "x")


def test_a_pipe_is_written_to_and_a_link_is_followed(tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    link.symlink_to(real)
    write_text(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_text(pipe, "through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
