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

    kernel = njit(cache=True, nogil=True, error_model="numpy")
