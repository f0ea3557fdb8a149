"""The climb of the progress-dependent chain's posterior: its slopes, its refits, hard corpora."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import logsumexp

from oracles.runs import runs
from sojourn.process import _progress_climb as climbing
from sojourn.process import _progress_maximum as maximum
from sojourn.process import _progress_posterior as posterior
from sojourn.process.progress import ProgressFit, fit_progress
from sojourn.process.simulate import preset, simulate_tasks
from sojourn.sequences import CENSORED, StateSequences

Floats = npt.NDArray[np.float64]


def random_runs(
    seed: int, n_runs: int = 30, *, cut: float = 0.3, once: bool = False
) -> StateSequences:
    """Draw runs of three states; with `once` the last is seen in a single step."""
    rng = np.random.default_rng(seed)
    m = 2 if once else 3
    paths = [rng.integers(0, m, size=rng.integers(1, 13)).tolist() for _ in range(n_runs)]
    if once:
        paths[0][0] = 2
    events = np.where(rng.random(n_runs) < cut, CENSORED, rng.integers(1, 3, size=n_runs))
    return runs(paths, events.tolist(), n_states=3)


def parts(fit: ProgressFit) -> tuple[Any, ...]:
    at = posterior.Coefficients(fit.intercept, fit.spline, fit.state_spline)
    data = posterior.data_of(fit.cells, fit.starts, fit.basis, fit.prior)
    design = posterior.design_of(fit.basis, fit.by_state)
    return at, data, design, posterior.Penalty(*fit.penalty.tolist())


def steepness(fit: ProgressFit) -> float:
    """Largest slope of the log posterior at a fit, in steps; zero at the top."""
    now = posterior.curvature(*parts(fit), exact=True)
    steepest = max(np.abs(now.local_gradient).max(), np.abs(now.common_gradient).max(initial=0.0))
    return float(steepest / (1.0 + fit.cells.sum()))


def value_by_cells(fit: ProgressFit, at: Any, penalty: Any) -> float:
    """Log posterior, one cell after the other, in logs throughout."""
    data = parts(fit)[1]
    c = at.spline[None] + (at.state_spline if at.state_spline.size else 0.0)
    eta = at.intercept + np.einsum("gq,ijq->gij", fit.basis, np.broadcast_to(c, data.moments.shape))
    m = eta.shape[1]
    log_p = eta - logsumexp(eta, axis=2, keepdims=True)
    seen = np.swapaxes(fit.cells[:, :, : m + 2], 0, 1)
    total = np.sum(seen[seen > 0.0] * log_p[seen > 0.0])
    cut = data.went_on.T
    total += np.sum(cut[cut > 0.0] * logsumexp(log_p[:, :, :m], axis=2)[cut > 0.0])
    rows = at.intercept - logsumexp(at.intercept, axis=1, keepdims=True)
    total += np.sum(data.prior[data.active] * rows[data.active])
    off = at.spline - at.spline[:m].mean(axis=0)
    total -= 0.5 * penalty.move * np.sum(off[:m] ** 2) + 0.5 * penalty.end * np.sum(off[m:] ** 2)
    total -= 0.5 * np.sum(at.spline.sum(axis=0) ** 2)
    if at.state_spline.size:
        total -= 0.5 * penalty.state * np.sum(at.state_spline**2)
    return float(total)


@pytest.mark.parametrize("by_state", [False, True])
@pytest.mark.parametrize(("spread", "cut"), [(0.5, 0.3), (400.0, 0.0), (400.0, 0.3)])
def test_slopes_are_those_of_the_plain_sums(
    by_state: bool, spread: float, cut: float, rng: np.random.Generator
) -> None:
    """With a wide spread odds under- and overflow, and the careful path is taken."""
    fit = fit_progress(
        random_runs(1, cut=cut), penalty=(0.7, 2.0), by_state=by_state, state_penalty=3.0
    )
    at, data, design, penalty = parts(fit)
    noise = [np.where(np.isfinite(x), rng.normal(0.0, spread, x.shape), 0.0) for x in at]
    at = posterior.Coefficients(*(x + y for x, y in zip(at, noise, strict=True)))
    x, problem = maximum._packed(at), maximum._problem(at, data, design, penalty)
    found, plain = np.empty_like(x), np.empty_like(x)
    value, _ = climbing.slope(x, problem, found)
    assert value == pytest.approx(value_by_cells(fit, at, penalty), rel=1e-11)
    uncompiled = climbing.slope.py_func  # type: ignore[attr-defined]
    assert uncompiled(x, problem, plain)[0] == pytest.approx(value, rel=1e-12)
    size = 1.0 + np.abs(found).max()
    np.testing.assert_allclose(plain, found, atol=1e-12 * size)
    if spread > 1.0 and cut > 0.0:
        return  # the plain sums lose moves whose probability underflows
    now = posterior.curvature(at, data, design, penalty)
    local = now.local_gradient.reshape(*at.intercept.shape, -1)
    own = np.concatenate((local[:, :, 0].ravel(), local[:, :, 1:].ravel()))
    expected = np.concatenate((own, now.common_gradient))
    np.testing.assert_allclose(found, expected, atol=1e-11 * size)


@pytest.mark.parametrize("by_state", [False, True])
def test_the_shared_curvature_inverts_the_curvature(
    by_state: bool, rng: np.random.Generator
) -> None:
    fit = fit_progress(random_runs(2), penalty=(0.7, 2.0), by_state=by_state, state_penalty=3.0)
    at, data, design, penalty = parts(fit)
    shared = maximum._shared_at(at, data, design, penalty, 0)
    x, problem = maximum._packed(at), maximum._problem(at, data, design, penalty)
    m, width = at.intercept.shape
    lower = np.empty((m, width, width))
    climbing._own_curvature(x, problem, 1e-8, lower)
    now = posterior.curvature(at, data, design, penalty, exact=True)
    local = rng.normal(size=(m, width, now.local.shape[1] // width))
    common = rng.normal(size=now.common.shape[0])
    flat = local.reshape(m, -1)
    image = np.einsum("mlk,mk->ml", now.local, flat) + now.cross @ common
    below = now.common @ common + np.einsum("mlc,ml->c", now.cross, flat)
    image = image.reshape(local.shape)
    packed = np.concatenate((image[:, :, 0].ravel(), image[:, :, 1:].ravel(), below))
    step = np.zeros_like(packed)
    climbing._precondition(packed, lower, shared, step)
    expected = np.concatenate((local[:, :, 0].ravel(), local[:, :, 1:].ravel(), common))
    np.testing.assert_allclose(step, expected, atol=1e-5)


@pytest.mark.parametrize("by_state", [False, True])
@pytest.mark.parametrize("cut", [0.0, 0.5])
def test_refits_from_an_anchor_are_fits_from_scratch(by_state: bool, cut: float) -> None:
    sequences = random_runs(3, 60, cut=cut)
    fit = fit_progress(sequences, penalty=(0.7, 2.0), by_state=by_state, state_penalty=3.0)
    source = np.random.default_rng(1)
    for _ in range(5):
        weights = source.multinomial(60, np.full(60, 1 / 60)).astype(float)
        again = fit.refit(sequences, weights=weights)
        at, data, design, penalty = parts(again)
        zero = at._replace(
            intercept=np.where(data.active, 0.0, -np.inf),
            spline=np.zeros_like(at.spline),
            state_spline=np.zeros_like(at.state_spline),
        )
        scratch = maximum.maximise(zero, data, design, penalty)
        rows = posterior.row_probabilities(scratch, fit.basis)
        np.testing.assert_allclose(again.rows, rows, atol=1e-6)
        assert steepness(again) < 1e-7


def test_a_bootstrap_needs_few_slopes_and_no_curvature(monkeypatch: pytest.MonkeyPatch) -> None:
    sequences = simulate_tasks(preset("react"), 50, 4, rng=1)
    fit = fit_progress(sequences)
    weights = np.random.default_rng(2).multinomial(50, np.full(50, 0.02), size=20)
    expected = fit.bootstrap_curves(sequences, weights, 20)

    def none(*_: Any, **__: Any) -> None:
        raise AssertionError("a curvature was taken")

    monkeypatch.setattr(maximum, "curvature", none)
    monkeypatch.setattr(maximum, "_MAX_GRADIENTS", 40)
    np.testing.assert_array_equal(fit.bootstrap_curves(sequences, weights, 20), expected)


def test_threads_that_share_an_anchor_give_the_same_curves() -> None:
    sequences = simulate_tasks(preset("react"), 30, 4, rng=3)
    weights = np.random.default_rng(2).multinomial(30, np.full(30, 1 / 30), size=24)
    alone = fit_progress(sequences).bootstrap_curves(sequences, weights, 20)
    fit = fit_progress(sequences)
    with ThreadPoolExecutor(4) as threads:
        pieces = threads.map(
            lambda part: fit.bootstrap_curves(sequences, part, 20), np.array_split(weights, 8)
        )
        np.testing.assert_array_equal(np.concatenate(list(pieces)), alone)


def test_one_corpus_as_it_is_needs_no_counts_by_unit() -> None:
    sequences = random_runs(4)
    fit = fit_progress(sequences)
    n = np.unique(sequences.unit).size
    once, twice = np.ones((1, n)), np.ones((2, n))
    np.testing.assert_array_equal(
        fit.bootstrap_curves(sequences, once, 9)[0], fit.bootstrap_curves(sequences, twice, 9)[1]
    )


@pytest.mark.parametrize("state_penalty", ["laplace", 0.01])
@pytest.mark.parametrize("smoothing", ["shrinkage", "none"])
def test_weights_of_any_size_settle_at_the_top(state_penalty: Any, smoothing: str) -> None:
    """A state seen once, and runs that count 6e-20 to 5e3 times: flat here, steep there."""
    for seed in range(8):
        sequences = random_runs(seed, 20, cut=0.0, once=True)
        fit = fit_progress(
            sequences,
            penalty=1e4,
            by_state=True,
            state_penalty=state_penalty,
            smoothing=smoothing,
        )
        source = np.random.default_rng(seed)
        weights = np.exp(source.uniform(np.log(6e-20), np.log(5e3), size=20))
        again = fit.refit(sequences, weights=weights)
        assert steepness(again) < 1e-6
        curves = np.stack([again.success_within(40), again.failure_within(40)])
        assert np.all(np.isfinite(curves))
        assert curves.sum(axis=0).max() <= 1.0 + 1e-9


@pytest.mark.parametrize("smoothing", ["shrinkage", "none"])
@pytest.mark.parametrize("by_state", [False, True])
@pytest.mark.parametrize("penalty", [0.01, (0.01, 1e4), (np.inf, 1.0)])
def test_corpora_of_cut_runs_settle_at_the_top(
    penalty: Any, by_state: bool, smoothing: str
) -> None:
    for seed in range(4):
        sequences = random_runs(seed, cut=0.9)
        fit = fit_progress(
            sequences, penalty=penalty, by_state=by_state, state_penalty=0.01, smoothing=smoothing
        )
        assert steepness(fit) < 1e-6
        source = np.random.default_rng(seed)
        for weights in (
            np.exp(source.normal(0.0, 3.0, size=30)),
            np.where(source.random(30) < 0.3, 1e3, 1e-12),
        ):
            assert steepness(fit.refit(sequences, weights=weights)) < 1e-6


def test_what_cannot_settle_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maximum, "_MAX_ANCHORS", 1)
    monkeypatch.setattr(maximum, "_PER_ANCHOR", 2)
    with pytest.raises(ArithmeticError, match="did not settle"):
        fit_progress(random_runs(5))
