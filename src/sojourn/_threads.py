"""Threads of our own, and one thread for the linear algebra under them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType

__all__ = ["Workers", "plain_blas"]


class Workers(ThreadPoolExecutor):
    """Threads that drop what has not begun when their context is left by an exception.

    Who interrupts a long computation then waits for the pieces under way, and not for all.
    """

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shutdown(wait=True, cancel_futures=kind is not None)


@contextmanager
def plain_blas() -> Iterator[None]:
    """Let BLAS use one thread inside this context.

    Our matrices are small and our work is spread over threads already; threads of BLAS beneath
    them spin for one another and cost ten times the work. It also keeps sums in one order.
    """
    import scipy.linalg  # noqa: F401 - it brings a BLAS of its own, which must be there to be held
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield
