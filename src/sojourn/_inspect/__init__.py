"""What Sojourn adds to Inspect: metrics with intervals and a reducer of epochs.

This module is an entry point of the group ``inspect_ai``: Inspect loads it when a name that begins
with ``sojourn/`` is asked for. It needs inspect_ai; of Sojourn, only `sojourn.inspect_ai` imports
it. The hook that writes summaries has an entry point of its own, see `sojourn._inspect.hooks`.
"""

from __future__ import annotations

from sojourn._inspect.metrics import pass_at, pass_hat, success_rate
from sojourn._inspect.reducers import pass_hat as pass_hat_reducer

__all__ = ["pass_at", "pass_hat", "pass_hat_reducer", "success_rate"]
