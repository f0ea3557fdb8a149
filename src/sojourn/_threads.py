"""One thread for the linear algebra under threads of our own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["plain_blas"]


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
