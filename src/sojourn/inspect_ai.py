"""Metrics for evaluations with Inspect: ``from sojourn.inspect_ai import pass_hat``.

`pass_hat`, `pass_at` and `success_rate` go into the ``metrics`` of a task or scorer; they see every
epoch, and each comes with an interval that treats tasks as the sample. `pass_hat_reducer` is the
function behind ``Epochs(4, "sojourn/pass_hat_4")``. All need inspect_ai, which the extra
``sojourn[inspect]`` brings.
"""

from __future__ import annotations

try:
    import inspect_ai as _inspect_ai  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "inspect_ai":
        raise
    raise ModuleNotFoundError(
        'sojourn.inspect_ai needs Inspect: pip install "sojourn[inspect]"', name="inspect_ai"
    ) from error

from sojourn._inspect import pass_at, pass_hat, pass_hat_reducer, success_rate

__all__ = ["pass_at", "pass_hat", "pass_hat_reducer", "success_rate"]
