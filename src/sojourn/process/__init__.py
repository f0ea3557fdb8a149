"""Processes of single runs: their algebra, their fit, and what the fit may be believed for."""

from __future__ import annotations

from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.base import RefittableProcess, TraceProcess
from sojourn.process.chapman_kolmogorov import ChapmanKolmogorov, chapman_kolmogorov
from sojourn.process.counting import TransitionCounts, count_batches, count_transitions
from sojourn.process.homogeneous import HomogeneousFit, fit_homogeneous
from sojourn.process.intervals import ChainIntervals, chain_intervals
from sojourn.process.lumpability import BlockLumpability, LumpabilityTest, test_lumpability
from sojourn.process.mixture import MixtureFit, TaskClasses, TaskKind, fit_mixture
from sojourn.process.order_k import OrderFit, fit_order
from sojourn.process.phases import PhaseFit, fit_phases
from sojourn.process.progress import ProgressFit, fit_progress, homogeneity_statistic
from sojourn.process.semi_markov import SemiMarkovFit, fit_semi_markov
from sojourn.process.simulate import PRESETS, preset, simulate_runs, simulate_tasks
from sojourn.process.smooth import SmoothIncidence, fit_smooth_incidence

__all__ = [
    "PRESETS",
    "AbsorbingChain",
    "BlockLumpability",
    "ChainIntervals",
    "ChapmanKolmogorov",
    "HomogeneousFit",
    "LumpabilityTest",
    "MixtureFit",
    "OrderFit",
    "PhaseFit",
    "ProgressFit",
    "RefittableProcess",
    "SemiMarkovFit",
    "SmoothIncidence",
    "TaskClasses",
    "TaskKind",
    "TraceProcess",
    "TransitionCounts",
    "chain_intervals",
    "chapman_kolmogorov",
    "count_batches",
    "count_transitions",
    "fit_homogeneous",
    "fit_mixture",
    "fit_order",
    "fit_phases",
    "fit_progress",
    "fit_semi_markov",
    "fit_smooth_incidence",
    "homogeneity_statistic",
    "preset",
    "simulate_runs",
    "simulate_tasks",
    "test_lumpability",
]
