"""Files full of hostile labels, and a browser that tells what a page does."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from hostile.logs import hostile_runs, write_rows
from hostile.payloads import PAYLOADS


@pytest.fixture(scope="session")
def grouped_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file in which every payload names a group, its tasks, steps and keys."""
    texts = list(PAYLOADS.values())
    return write_rows(tmp_path_factory.mktemp("groups") / "runs.jsonl", hostile_runs(texts))


_LAUNCHES = 3
# What a browser asks for of itself, whatever page it shows.
_OF_ITSELF = re.compile(r"\A\w+ (?:https?://)?[\w.-]*\b(?:google|googleapis|gvt1|gstatic)\.com[:/]")


@dataclass
class Visit:
    """What a browser made of a page: its DOM, what it wrote to its console, what it loaded."""

    dom: str
    console: str
    loads: list[str]


class _Listener:
    """A proxy that answers nothing and notes who was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            with connection:
                connection.settimeout(2)
                with suppress(OSError):  # one that says nothing asks for nothing
                    self.asked.append(connection.recv(4096).split(b"\r\n")[0].decode("latin-1"))

    def close(self) -> None:
        self._socket.close()


class Browser:
    """Opens a page in a real browser, all of whose ways out are watched.

    On a busy machine a browser may die, or leave before it has the page or has passed its console
    on. Then it is launched anew; what any launch wrote or asked for is kept, so that launching
    again can hide nothing.
    """

    def __init__(self, program: str, listener: _Listener, profiles: Callable[[], Path]) -> None:
        self._program = program
        self._listener = listener
        self._profiles = profiles

    def __call__(self, page: Path, *, tells: bool = False) -> Visit:
        """Visit a page; with `tells`, one of which the console is known to have a line."""
        self._listener.asked.clear()
        dom, lines = "", []
        for launch in range(_LAUNCHES):
            try:
                shown = self._launch(page)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                if launch + 1 == _LAUNCHES:
                    raise
                continue
            dom = shown.stdout.decode("utf-8", "replace")
            console = shown.stderr.decode("utf-8", "replace")
            lines += [line for line in console.splitlines() if "CONSOLE" in line]
            if "</body>" in dom and (lines or not tells):
                break
        loads = [ask for ask in self._listener.asked if not _OF_ITSELF.search(ask)]
        return Visit(dom, "\n".join(lines), loads)

    def _launch(self, page: Path) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [
                *(self._program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
                *("--disable-background-networking", "--disable-component-update"),
                *("--disable-sync", "--disable-default-apps", "--disable-extensions"),
                f"--proxy-server=127.0.0.1:{self._listener.port}",
                f"--user-data-dir={self._profiles()}",
                *("--enable-logging=stderr", "--virtual-time-budget=4000", "--dump-dom"),
                page.as_uri(),
            ],
            capture_output=True,
            timeout=110,
            check=True,
        )


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Give the browser of this machine."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no browser on this machine")
    listener = _Listener()
    yield Browser(program, listener, lambda: tmp_path_factory.mktemp("profile"))
    listener.close()
