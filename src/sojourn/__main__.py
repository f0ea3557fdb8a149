"""Let ``python -m sojourn`` be the command."""

from __future__ import annotations

from sojourn.cli.main import run

run()
