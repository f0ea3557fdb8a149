"""Processes of single runs: their algebra, their fit, and what the fit may be believed for."""

from __future__ import annotations

from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.base import TraceProcess
from sojourn.process.counting import TransitionCounts, count_batches, count_transitions
from sojourn.process.homogeneous import HomogeneousFit, fit_homogeneous
from sojourn.process.intervals import ChainIntervals, chain_intervals
from sojourn.process.simulate import PRESETS, preset, simulate_runs, simulate_tasks

__all__ = [
    "PRESETS",
    "AbsorbingChain",
    "ChainIntervals",
    "HomogeneousFit",
    "TraceProcess",
    "TransitionCounts",
    "chain_intervals",
    "count_batches",
    "count_transitions",
    "fit_homogeneous",
    "preset",
    "simulate_runs",
    "simulate_tasks",
]
