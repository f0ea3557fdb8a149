"""Nothing here runs without Inspect; with it, it runs evaluations that need no network."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

collect_ignore_glob = ["test_*"] if find_spec("inspect_ai") is None else []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the libraries below Inspect warn; what Sojourn warns of stays an error."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:::(?!sojourn)"))


@pytest.fixture(scope="session", autouse=True)
def _collect_in_time() -> Iterator[None]:
    """Collect the streams that Inspect leaves unclosed while their warning is still forgiven."""
    yield
    gc.collect()


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Any]:
    """Give `scripted_inspect.evaluate` with logs in a folder of the test's own."""
    from scripted_inspect import evaluate

    return partial(evaluate, folder=tmp_path / "logs")
