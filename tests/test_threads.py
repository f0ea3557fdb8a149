"""Threads end with the context they are in; BLAS is held to one thread only inside."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from sojourn._threads import Workers, plain_blas


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


def test_an_interrupt_waits_for_the_piece_under_way_alone() -> None:
    begun, go_on = threading.Event(), threading.Event()
    done: list[int] = []

    def piece(number: int) -> None:
        begun.set()
        assert go_on.wait(60)
        done.append(number)

    def interrupted() -> None:
        with Workers(1) as threads:
            for number in range(20):
                threads.submit(piece, number)
            assert begun.wait(60)
            threading.Timer(0.05, go_on.set).start()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == [0]


def test_without_one_every_piece_is_done() -> None:
    done: list[int] = []
    with Workers(2) as threads:
        for number in range(20):
            threads.submit(done.append, number)
    assert sorted(done) == list(range(20))
