"""A hook of Inspect that writes Sojourn's summary beside each log, where it is asked for.

It is asked for by the environment variable ``SOJOURN_INSPECT``: ``json``, ``html`` or
``html,json``. Without it the hook is not even registered, since Inspect would announce it at every
evaluation. It never stops an evaluation: what goes wrong is logged as a warning.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Lock

from anyio import to_thread
from inspect_ai.hooks import Hooks, RunStart, TaskEnd, hooks

from sojourn._inspect.summary import local_path, parse_kinds, write_summary
from sojourn.errors import SojournError

__all__ = ["VARIABLE", "Summary", "register"]

VARIABLE = "SOJOURN_INSPECT"
_LOG = logging.getLogger(__name__)
# Tasks may end together; threads of BLAS and the drawing of figures are the process's own.
_ONE_AT_A_TIME = Lock()


class Summary(Hooks):
    """Writes the summary of each task's log when the task is finished."""

    def enabled(self) -> bool:
        """Tell whether summaries are asked for."""
        return bool(os.environ.get(VARIABLE))

    async def on_run_start(self, data: RunStart) -> None:
        """Warn of a setting that names nothing, before the evaluation and not after it."""
        try:
            parse_kinds(os.environ[VARIABLE])
        except ValueError as error:
            _LOG.warning("%s: %s; no summary will be written", VARIABLE, error)

    async def on_task_end(self, data: TaskEnd) -> None:
        """Write the summary in a thread of its own, so that other tasks run on."""
        try:
            kinds = parse_kinds(os.environ[VARIABLE])
            log = local_path(data.log.location)
            written = await to_thread.run_sync(partial(_write, log, kinds))
        except (SojournError, ValueError, OSError) as error:
            _LOG.warning("no Sojourn summary of this log: %s", error)
        except Exception:
            _LOG.warning("no Sojourn summary of this log: a fault in Sojourn", exc_info=True)
        else:
            _LOG.info("Sojourn wrote %s", ", ".join(map(str, written)))


def _write(log: Path, kinds: Sequence[str]) -> list[Path]:
    with _ONE_AT_A_TIME:
        return write_summary(log, kinds)


def register() -> None:
    """Register the hook where summaries are asked for."""
    if os.environ.get(VARIABLE):
        about = f"summary by Sojourn beside each log ({VARIABLE})"
        hooks(name="summary", description=about)(Summary)


register()
