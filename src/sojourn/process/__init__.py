"""Processes of single runs: their algebra, their fit, and what the fit may be believed for."""

from __future__ import annotations

from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.base import RefittableProcess, TraceProcess
from sojourn.process.candidates import CANDIDATES
from sojourn.process.changes import Cap, ChangedRow, Remove, Reroute
from sojourn.process.chapman_kolmogorov import ChapmanKolmogorov, chapman_kolmogorov
from sojourn.process.choice import ProcessChoice, choose_process
from sojourn.process.counting import TransitionCounts, count_batches, count_transitions
from sojourn.process.exchange import test_exchange
from sojourn.process.export import export_process
from sojourn.process.fit_test import test_fit
from sojourn.process.forecast import Monitor, forecast_tables
from sojourn.process.homogeneous import HomogeneousFit, fit_homogeneous
from sojourn.process.intervals import ChainIntervals, chain_intervals
from sojourn.process.lumpability import BlockLumpability, LumpabilityTest, test_lumpability
from sojourn.process.mixture import MixtureFit, TaskClasses, TaskKind, fit_mixture
from sojourn.process.order_k import OrderFit, fit_order
from sojourn.process.phases import PhaseFit, fit_phases
from sojourn.process.process_bound import bound_process
from sojourn.process.progress import ProgressFit, fit_progress, homogeneity_statistic
from sojourn.process.semi_markov import SemiMarkovFit, fit_semi_markov
from sojourn.process.simulate import PRESETS, preset, simulate_runs, simulate_tasks
from sojourn.process.skill import forecast_skill
from sojourn.process.smooth import SmoothIncidence, fit_smooth_incidence
from sojourn.process.stopping import stop_rule
from sojourn.process.whatif import most_valuable_fixes, sensitivities, what_if

__all__ = [
    "CANDIDATES",
    "PRESETS",
    "AbsorbingChain",
    "BlockLumpability",
    "Cap",
    "ChainIntervals",
    "ChangedRow",
    "ChapmanKolmogorov",
    "HomogeneousFit",
    "LumpabilityTest",
    "MixtureFit",
    "Monitor",
    "OrderFit",
    "PhaseFit",
    "ProcessChoice",
    "ProgressFit",
    "RefittableProcess",
    "Remove",
    "Reroute",
    "SemiMarkovFit",
    "SmoothIncidence",
    "TaskClasses",
    "TaskKind",
    "TraceProcess",
    "TransitionCounts",
    "bound_process",
    "chain_intervals",
    "chapman_kolmogorov",
    "choose_process",
    "count_batches",
    "count_transitions",
    "export_process",
    "fit_homogeneous",
    "fit_mixture",
    "fit_order",
    "fit_phases",
    "fit_progress",
    "fit_semi_markov",
    "fit_smooth_incidence",
    "forecast_skill",
    "forecast_tables",
    "homogeneity_statistic",
    "most_valuable_fixes",
    "preset",
    "sensitivities",
    "simulate_runs",
    "simulate_tasks",
    "stop_rule",
    "test_exchange",
    "test_fit",
    "test_lumpability",
    "what_if",
]
