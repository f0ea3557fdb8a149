"""Clustering is claimed only where order matters at all: the two never contradict each other."""

from __future__ import annotations

import pytest

from sojourn.assess.session_claims import Doubts, domain_claims
from sojourn.estimates import Verdict
from sojourn.session import Dependence
from sojourn.task_sequences import TaskSequences


@pytest.mark.parametrize(
    ("p_order", "p_beyond", "verdict", "words"),
    [
        (0.01, 0.01, Verdict.ACCEPTED, "failures cluster"),
        (0.056, 0.009, Verdict.INCONCLUSIVE, "test of order as such does not reject"),
        (0.01, 0.3, Verdict.INCONCLUSIVE, "a drift over the session"),
        (0.3, 0.3, Verdict.INCONCLUSIVE, "none seen"),
    ],
)
def test_clusters_need_order_to_matter(
    p_order: float, p_beyond: float, verdict: Verdict, words: str
) -> None:
    gate = Dependence(
        p_order=p_order,
        p_beyond_trend=p_beyond,
        p_session_effect=0.5,
        method="strata",
        direction="clustering",
        z=(2.0,),
        decays=(0.5,),
        n_draws=999,
    )
    sequences = TaskSequences.from_sessions([([0] * 40, [1, 0] * 20)], ["all"])
    none = Doubts(figures=(), fresh=(), long_run=(), independent=())
    claims = {claim.claim: claim for claim in domain_claims(sequences, gate, none)}
    assert claims["clustering"].verdict is verdict
    assert words in claims["clustering"].reasons[0]
    assert (claims["order_matters"].verdict is Verdict.ACCEPTED) or not gate.clusters()
