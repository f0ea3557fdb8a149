"""The one place where numba's options are chosen.

No ``fastmath``: it compiles ``isnan`` away. Kernels that call each other must stand in one file,
since numba's cache on disk does not notice a change in a callee of another file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

__all__ = ["kernel"]

P = ParamSpec("P")
R = TypeVar("R")

if TYPE_CHECKING:

    def kernel(function: Callable[P, R]) -> Callable[P, R]:
        """Type a kernel as the identity, so that the checker sees through it."""
        return function

else:
    from numba import njit

    _OPTIONS = {"nogil": True, "error_model": "numpy"}

    def kernel(function):
        """Compile a kernel when it is first called, and keep it on disk where that is possible."""
        try:
            return njit(cache=True, **_OPTIONS)(function)
        except RuntimeError:
            # Neither the package's folder nor a home can be written to: compile in each process.
            return njit(**_OPTIONS)(function)
