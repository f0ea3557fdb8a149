"""Sessions: reliability over ordered tasks whose outcomes may depend on one another.

`assess_dependence` asks whether order matters at all; `select_n_states` chooses between the
independent model (`fit_hierarchical`) and hidden states (`sample`); a posterior's ``success_run``
is R(n), the probability that the next n tasks all succeed. `sojourn.session.reliability` holds the
figures as functions of draws.
"""

from __future__ import annotations

from sojourn.session.base import STARTS, DrawSummary, SessionModel, summarise
from sojourn.session.beta_binomial import BetaBinomialFit, fit_beta_binomial
from sojourn.session.cross_validation import (
    LeaveFutureOut,
    LeaveOneOut,
    leave_future_out,
    leave_one_out,
    log_evidence,
)
from sojourn.session.dependence import Dependence, assess_dependence
from sojourn.session.folds import Fold, default_folds, is_block_ordered
from sojourn.session.hierarchical import (
    Envelope,
    HierarchicalFit,
    PriorBox,
    envelope,
    fit_hierarchical,
)
from sojourn.session.hmm import (
    FilteredStates,
    HMMSpec,
    PriorPredictive,
    filter_states,
    log_likelihood,
    prior_predictive,
)
from sojourn.session.posterior import HMMPosterior, StateSummary
from sojourn.session.prior_envelope import PriorBound, PriorEnvelope, prior_envelope
from sojourn.session.reliability import independent_system_run, system_success_run
from sojourn.session.sampler import PUBLISHED, SamplerSettings, sample
from sojourn.session.selection import (
    SCORING,
    Baseline,
    Candidate,
    PredictiveScore,
    Selection,
    bootstrap_gain,
    predictive_score,
    select_n_states,
    stacking_weights,
)
from sojourn.session.simulate import SimulatedSessions, sample_prior, simulate_sessions

__all__ = [
    "PUBLISHED",
    "SCORING",
    "STARTS",
    "Baseline",
    "BetaBinomialFit",
    "Candidate",
    "Dependence",
    "DrawSummary",
    "Envelope",
    "FilteredStates",
    "Fold",
    "HMMPosterior",
    "HMMSpec",
    "HierarchicalFit",
    "LeaveFutureOut",
    "LeaveOneOut",
    "PredictiveScore",
    "PriorBound",
    "PriorBox",
    "PriorEnvelope",
    "PriorPredictive",
    "SamplerSettings",
    "Selection",
    "SessionModel",
    "SimulatedSessions",
    "StateSummary",
    "assess_dependence",
    "bootstrap_gain",
    "default_folds",
    "envelope",
    "filter_states",
    "fit_beta_binomial",
    "fit_hierarchical",
    "independent_system_run",
    "is_block_ordered",
    "leave_future_out",
    "leave_one_out",
    "log_evidence",
    "log_likelihood",
    "predictive_score",
    "prior_envelope",
    "prior_predictive",
    "sample",
    "sample_prior",
    "select_n_states",
    "simulate_sessions",
    "stacking_weights",
    "summarise",
    "system_success_run",
]
