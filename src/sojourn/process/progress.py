"""The progress-dependent chain: what a run does next depends on its state and on its step.

Real successful runs are concentrated in time, and a homogeneous chain over categories of steps is
near geometric whatever its order. Here *every* next-event probability moves with progress. For a
run in state i after step t,

    P(j | i, t) = exp(a_ij + f_j(t)) / sum_k exp(a_ik + f_k(t)),   f_j(t) = sum_b c_jb B_b(t),

over next states, success and failure, with B a cubic B-spline, constant beyond the last knot, and
the differences of its coefficients penalised. With f = 0 the fit *is* the homogeneous fit, under
the same prior of its rows. The penalties are chosen by the Laplace approximation of the marginal
likelihood (deterministic; held when the fit is repeated in a bootstrap).

The likelihood needs counts by step, state and event alone, so a fit takes as long for a million
runs as for ten thousand, once they are counted.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, check_positive_int
from sojourn.process._progress_cells import count_cells, count_starts, make_basis, provenance
from sojourn.process._progress_posterior import (
    Coefficients,
    Data,
    Penalty,
    data_of,
    design_of,
    log_posterior,
)
from sojourn.process._progress_result import ProgressFit
from sojourn.process.homogeneous import fit_homogeneous
from sojourn.sequences import StateSequences

__all__ = ["ProgressFit", "fit_progress", "homogeneity_statistic"]

Mask = npt.NDArray[np.bool_]


def fit_progress(
    sequences: StateSequences,
    *,
    penalty: float | tuple[float, float] | str = "laplace",
    by_state: bool = False,
    state_penalty: float | str = "laplace",
    n_knots: int = 5,
    smoothing: str = "shrinkage",
    kappa: float | str = 1.0,
    alpha: float = 1.0,
    allowed: Mask | None = None,
    start: str | int = "empirical",
    cut_step: str = "survived",
) -> ProgressFit:
    """Fit the progress-dependent chain.

    Parameters
    ----------
    sequences : StateSequences
        Runs; a cut run gives its transitions, and that it had not ended when it was cut.
    penalty : "laplace", float or pair of float
        Precision of the spline coefficients: of the moves about their mean, and of the two ends
        about that mean; one number for both, or a pair. Infinity holds them at zero: with both
        infinite this is the homogeneous chain. ``laplace`` chooses both by the approximate
        marginal likelihood.
    by_state : bool
        Whether each state has splines of its own, shrunk to the common ones.
    state_penalty : "laplace" or float
        Precision of the splines by state.
    n_knots : int
        Inner knots at quantiles of the end times, besides those at steps 2 and 3; the last knot
        is at their .95 quantile.
    smoothing, kappa, alpha, allowed, start, cut_step
        As in `fit_homogeneous`.

    Returns
    -------
    ProgressFit

    Raises
    ------
    ValueError
        If there is no run, or a setting is out of range.

    Notes
    -----
    A run that was cut after step t in state i counts there by log P(not ended | i, t).
    """
    from sojourn.process._progress_maximum import choose_penalty

    check_positive_int(n_knots, name="n_knots")
    prior = fit_homogeneous(
        sequences,
        smoothing=smoothing,
        kappa=kappa,
        alpha=alpha,
        allowed=allowed,
        start=start,
        cut_step=cut_step,
    ).prior
    basis = make_basis(sequences, n_knots)
    cells = count_cells(sequences, basis.values.shape[0])
    starts = count_starts(sequences)
    data = data_of(cells, starts, basis.values, prior)
    first, fixed = _penalty_of(penalty, state_penalty if by_state else np.inf)
    flat = _homogeneous(data, basis.values.shape[1], by_state)
    chosen = choose_penalty(flat, data, design_of(basis.values, by_state), first, fixed)
    return ProgressFit(
        state_names=sequences.state_names,
        **chosen.coefficients._asdict(),
        basis=basis.values,
        knots=basis.knots,
        penalty=np.array(chosen.penalty),
        prior=prior,
        start=start,
        freedom=chosen.freedom,
        **provenance(sequences, None, cells, starts, start),
    )


def homogeneity_statistic(fit: ProgressFit) -> float:
    """Likelihood-ratio statistic of progress against none, under the penalties of the fit.

    Twice the gain in log posterior over the same chain without splines: never negative, and zero
    where the splines are held at zero. Its null distribution is to be had by drawing from the
    homogeneous fit and refitting with the penalties held.
    """
    from sojourn.process._progress_maximum import maximise

    data = data_of(fit.cells, fit.starts, fit.basis, fit.prior)
    none = Penalty(np.inf, np.inf, np.inf)
    flat = maximise(
        _homogeneous(data, fit.basis.shape[1], False), data, design_of(fit.basis, False), none
    )
    at = Coefficients(fit.intercept, fit.spline, fit.state_spline)
    penalty = Penalty(*fit.penalty.tolist())
    # Without splines the penalties add nothing, so both are values of one function.
    fitted = log_posterior(at, data, design_of(fit.basis, fit.by_state), penalty)
    return max(0.0, 2.0 * (fitted - log_posterior(flat, data, design_of(fit.basis, False), none)))


def _homogeneous(data: Data, n_functions: int, by_state: bool) -> Coefficients:
    """Start at the homogeneous fit, which but for cut runs is its own maximum."""
    m, width = data.active.shape
    rows = data.masses / data.masses.sum(axis=1, keepdims=True)
    intercept = np.full(rows.shape, -np.inf)
    return Coefficients(
        intercept=np.log(rows, out=intercept, where=data.active),
        spline=np.zeros((width, n_functions)),
        state_spline=np.zeros((m, width, n_functions if by_state else 0)),
    )


def _penalty_of(
    penalty: float | tuple[float, float] | str, state_penalty: float | str
) -> tuple[Penalty, tuple[bool, bool, bool]]:
    pair = penalty if isinstance(penalty, tuple) else (penalty, penalty)
    values, fixed = [], []
    for value in (*pair, state_penalty):
        if isinstance(value, str):
            check_choice(value, ("laplace",), name="penalty")
        elif not value > 0.0:
            raise ValueError(f"a penalty must be positive; got {value!r}")
        fixed.append(not isinstance(value, str))
        values.append(10.0 if isinstance(value, str) else float(value))
    return Penalty(*values), (fixed[0], fixed[1], fixed[2])
