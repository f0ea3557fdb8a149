"""Leave-future-out, leave-one-out and evidence against enumeration and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.hmm import enumerated_posterior, paths_of
from sojourn.session import fit_hierarchical
from sojourn.session.cross_validation import (
    _Draws,
    _marginal_terms,
    leave_future_out,
    leave_one_out,
    log_evidence,
)
from sojourn.session.hmm import HMMSpec
from sojourn.session.sampler import SamplerSettings, sample
from sojourn.task_sequences import TaskSequences

Y = [1, 1, 0, 1, 1, 1, 0, 0]
LABELS = [0, 0, 0, 0, 1, 1, 1, 1]
PRIOR = (2.0, 2.0, 2.0, 0.5)
LAM = ((1.0, 1.0), (1.0, 1.0))
SPEC = HMMSpec(
    n_states=2, mean_prior=PRIOR[:2], concentration_prior=PRIOR[2:], transition_prior=LAM
)
LONG = SamplerSettings(warmup=300, draws=4000, max_draws=4000)


def tiny(success=Y) -> TaskSequences:
    return TaskSequences.from_sessions([(LABELS[: len(success)], list(success))], ["a", "b"])


def evidence(success) -> float:
    return enumerated_posterior(LABELS[: len(success)], success, 2, LAM, PRIOR, (0.5, 0.5), n=40)[0]


def test_leave_future_out_is_the_ratio_of_enumerated_evidences():
    found = leave_future_out(tiny(), SPEC, first=3, refit_every=3, settings=LONG, rng=1)
    exact = np.diff([evidence(Y[:t]) for t in range(3, len(Y) + 1)])
    assert found.index.tolist() == [3, 4, 5, 6, 7]
    assert found.refits == (3, 6)
    # sd of a term over seeds is .012 at 4000 draws kept of a chain's 16000
    assert found.pointwise == pytest.approx(exact, abs=0.05)
    assert found.elpd == pytest.approx(exact.sum(), abs=0.08)


def test_log_evidence_is_the_enumerated_one():
    found = log_evidence(tiny(), SPEC, refit_every=3, settings=LONG, rng=2)
    assert found == pytest.approx(evidence(Y), abs=0.1)


def test_leave_one_out_is_the_ratio_of_enumerated_evidences():
    posterior = sample(tiny(), SPEC, settings=LONG, rng=3)
    found = leave_one_out(posterior, tiny())
    whole = evidence(Y)
    exact = []
    for t, y in enumerate(Y):
        other = evidence([*Y[:t], 1 - y, *Y[t + 1 :]])
        exact.append(whole - np.logaddexp(whole, other))
    assert found.n_unreliable == 0
    assert found.pointwise == pytest.approx(exact, abs=0.05)


def test_marginal_term_of_a_draw_sums_over_all_paths(rng):
    theta, A = rng.random((2, 3)), rng.dirichlet(np.ones(3), 3)
    delta = rng.dirichlet(np.ones(3))
    labels, success = [0, 1, -1, 0, 1], [1, 0, 1, -1, 1]
    shares = np.array([0.3, 0.7])
    draws = _Draws(theta[None], A[None], delta[None], shares, True)
    sequences = TaskSequences.from_sessions([(labels, success)], ["a", "b"])
    terms = _marginal_terms(draws, sequences, 0, 5)[:, 0]

    def likelihood(outcomes):
        return paths_of(labels, outcomes, theta, A, delta, shares)[1].sum()

    for t, y in enumerate(success):
        if y < 0:
            assert terms[t] == pytest.approx(0.0, abs=1e-12)
            continue
        both = [likelihood([*success[:t], v, *success[t + 1 :]]) for v in (0, 1)]
        assert terms[t] == pytest.approx(np.log(both[y] / sum(both)), rel=1e-10)


@pytest.mark.parametrize("horizon", [1, 3])
def test_one_state_gives_the_closed_form_over_sessions_and_gaps(horizon, rng):
    sessions = [
        (rng.integers(0, 2, n), np.where(rng.random(n) < 0.1, -1, rng.random(n) < 0.7))
        for n in (25, 15)
    ]
    sequences = TaskSequences.from_sessions(sessions, ["a", "b"])
    found = leave_future_out(
        sequences, HMMSpec(n_states=1), first=20, refit_every=10, horizon=horizon, rng=4
    )
    for t, term in zip(found.index, found.pointwise, strict=True):
        seen = np.clip(t - sequences.offsets[:-1], 0, sequences.lengths)
        end = 25 if t < 25 else 40
        ahead = slice(t, min(t + horizon, end))
        exact, _ = fit_hierarchical(sequences.head(seen)).log_score(
            sequences.subdomain[ahead], sequences.success[ahead]
        )
        # At 4000 draws the error of a term is about sd(p) / p / sqrt(4000), .003, and more ahead
        assert term == pytest.approx(exact, abs=0.02 * horizon)
    assert (sequences.success[found.index] >= 0).all()
    assert found.index.size == (sequences.success[20:] >= 0).sum()


def test_uneven_weights_bring_the_refit_forward(rng):
    # Successes, then failures: a fit to the first is soon contradicted.
    sequences = TaskSequences.from_sessions([([0] * 80, [1] * 40 + [0] * 40)], ["a"])
    found = leave_future_out(sequences, HMMSpec(n_states=1), first=40, refit_every=40, rng=5)
    assert len(found.refits) > 1
    assert found.pareto_k.max() <= 0.7


def test_nothing_left_to_score_is_an_error():
    with pytest.raises(ValueError, match="no task is left"):
        leave_future_out(tiny(), SPEC, first=len(Y))
