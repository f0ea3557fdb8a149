"""BLAS is held to one thread only inside, and whatever happens there."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from sojourn._threads import plain_blas


def threads() -> set[int]:
    np.eye(2) @ np.eye(2)
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@plain_blas()
def failing() -> None:
    raise ValueError(f"{threads() <= {1}} inside")


def test_one_thread_inside_and_as_before_after() -> None:
    before = threads()
    with pytest.raises(ValueError, match="True inside"):
        failing()
    assert threads() == before
