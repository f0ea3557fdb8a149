"""Processes of single runs: their algebra, their fit, and what the fit may be believed for."""

from __future__ import annotations

from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.base import TraceProcess

__all__ = ["AbsorbingChain", "TraceProcess"]
