"""Files full of hostile labels, and a browser that tells what a page does."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
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


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """Give a function that opens a page in a real browser, all of whose ways out are watched."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no browser on this machine")
    listener = _Listener()

    def visit(page: Path) -> Visit:
        listener.asked.clear()
        shown = subprocess.run(
            [
                *(program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
                *("--disable-background-networking", "--disable-component-update"),
                *("--disable-sync", "--disable-default-apps", "--disable-extensions"),
                f"--proxy-server=127.0.0.1:{listener.port}",
                f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
                *("--enable-logging=stderr", "--virtual-time-budget=4000", "--dump-dom"),
                page.as_uri(),
            ],
            capture_output=True,
            timeout=110,
            check=True,
        )
        console = shown.stderr.decode("utf-8", "replace")
        lines = [line for line in console.splitlines() if "CONSOLE" in line]
        loads = [ask for ask in listener.asked if not _OF_ITSELF.search(ask)]
        return Visit(shown.stdout.decode("utf-8", "replace"), "\n".join(lines), loads)

    yield visit
    listener.close()
