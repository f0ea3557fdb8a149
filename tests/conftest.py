"""Fixtures shared by all tests: a seeded generator, the real logs where they are there."""

from __future__ import annotations

import signal
from pathlib import Path

import hypothesis
import numpy as np
import pytest

# A shared machine makes single examples slow at random; no deadline says anything about the code.
hypothesis.settings.register_profile("sojourn", deadline=None, derandomize=True)
hypothesis.settings.load_profile("sojourn")

ROOT = Path(__file__).resolve().parent.parent
SHARED_DATA = ROOT.parent / "shared" / "data"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-slow", action="store_true", help="run slow and statistical tests too")
    parser.addoption(
        "--thorough",
        action="store_true",
        help="run hostile logs, faults and real logs too",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = set()
    if not config.getoption("--run-slow"):
        left_out |= {"slow", "statistical"}
        if not config.getoption("--thorough"):
            left_out.add("thorough")
    for item in items:
        for mark in left_out.intersection(item.keywords):
            option = "--thorough" if mark == "thorough" else "--run-slow"
            item.add_marker(pytest.mark.skip(reason=f"needs {option}"))


# A job in the background ignores an interrupt, and so would every command that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    seed = 20260417
    print(f"rng seed {seed}")
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def real_logs() -> Path:
    if not SHARED_DATA.is_dir():
        pytest.skip("the real logs are not on this machine")
    return SHARED_DATA
