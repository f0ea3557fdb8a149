"""From states to a certified process: the steps that an assessment and a model share.

A model that is kept in a file must be the very process that an assessment of the same runs with
the same seed speaks of. Both therefore take their settings, their sources of chance, the
certificate of the homogeneous chain and the look beyond it from here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from sojourn._validation import check_choice
from sojourn.assess.certify import (
    MAX_RUNS,
    Certificate,
    certificate_under_way,
    certify_as_published,
    part_of,
)
from sojourn.assess.climb import Climb, ProcessFindings, climb
from sojourn.assess.cross_fit import CrossFit, cross_fit, held_to
from sojourn.assess.state_making import StateSettings
from sojourn.corpus import ResolvedRuns, TraceCorpus
from sojourn.estimates import Claim, Verdict
from sojourn.process.candidates import CANDIDATES, check_candidate
from sojourn.process.homogeneous import HomogeneousFit
from sojourn.sequences import StateSequences
from sojourn.states.model import StateModel
from sojourn.tables import n_of

__all__ = ["Certified", "ChainSettings", "ChainStreams", "certified", "part_to_forecast"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainSettings:
    """How the chain is made and certified.

    Attributes
    ----------
    states : StateSettings
        How states are made.
    smoothing : {"shrinkage", "published", "none"}
        The prior of the rows.
    method : {"exact", "published"}
        The certificate.
    alpha, margin : float
        Size of the tests; the error of a curve that is of no matter.
    n_draws : int
        Corpora drawn by the exact test.
    power : bool
        Whether to find what the test could have seen.
    process : str or None
        The process to certify beside the homogeneous chain; None to choose one where the
        chain's timing is not accepted.
    quick : bool
        Look at the homogeneous chain alone.
    full : bool
        Repeat the choice of the process in every corpus of its test of fit (minutes).
    candidates : tuple of str
        What the choice is made among.
    n_simulated, n_refits : int
        Simulated corpora of the test of fit, and replicates of the bound, of a chosen process.
    n_forecast : int
        Refits behind the intervals of forecasts and fixes; 0 leaves forecasts out.
    """

    states: StateSettings = field(default_factory=StateSettings)
    smoothing: str = "shrinkage"
    method: str = "exact"
    alpha: float = 0.05
    margin: float = 0.10
    n_draws: int = 999
    power: bool = False
    process: str | None = None
    quick: bool = False
    full: bool = False
    candidates: tuple[str, ...] = CANDIDATES
    n_simulated: int = 499
    n_refits: int = 199
    n_forecast: int = 99

    def __post_init__(self) -> None:
        if self.process is not None:
            check_candidate(self.process)
        check_choice(self.method, ("exact", "published"), name="method")
        check_choice(self.smoothing, ("shrinkage", "published", "none"), name="smoothing")


class ChainStreams(NamedTuple):
    """Sources of chance of what is done to a chain, each its own."""

    intervals: np.random.Generator
    certificate: np.random.Generator
    climb: np.random.Generator
    forecast: np.random.Generator
    states: np.random.Generator
    halves: np.random.Generator
    part: np.random.Generator

    @classmethod
    def of(cls, rng: np.random.Generator) -> Self:
        """Spawn them."""
        return cls(*rng.spawn(7))


class Certified(NamedTuple):
    """The certificate of the homogeneous chain, and what was looked at beyond it."""

    certificate: Certificate
    climb: Climb | None
    cross_fit: CrossFit | None

    @property
    def found(self) -> ProcessFindings | None:
        """The richer process, where there is one."""
        return None if self.climb is None else self.climb.found

    @property
    def order(self) -> Claim:
        """Whether the memory of the chosen process is enough."""
        claims = self.certificate.claims if self.found is None else self.found.claims
        return next(claim for claim in claims if claim.claim == "order")

    @property
    def timing(self) -> Claim:
        """The claim on the curves, of the same process."""
        claims = self.certificate.claims if self.found is None else self.found.claims
        return next(claim for claim in claims if claim.claim == "timing")


def certified(
    corpus: TraceCorpus,
    resolved: ResolvedRuns,
    states: StateModel,
    sequences: StateSequences,
    fit: HomogeneousFit,
    *,
    settings: ChainSettings,
    note: str | None = None,
    icc: float | None = None,
    ci_prob: float = 0.95,
    streams: ChainStreams,
) -> Certified:
    """Certify the homogeneous chain, and look for a richer process where the settings let it.

    Where the states have seen other steps, or were chosen by a score, the tests of memory are
    made again with states made of other tasks. `note` says how the states were chosen.
    """
    if settings.method != "exact":
        certificate = certify_as_published(
            corpus,
            resolved,
            table=settings.states.table,
            alpha=settings.alpha,
            rng=streams.certificate,
        )
        return Certified(_told(certificate, note), None, None)
    looked = None
    with certificate_under_way(
        sequences,
        alpha=settings.alpha,
        margin=settings.margin,
        n_draws=settings.n_draws,
        approximate=not states.order_free,
        power=settings.power,
        rng=streams.certificate,
    ) as under_way:
        if _climbs(settings, fit, under_way.timing):
            looked = climb(
                sequences,
                name=settings.process,
                candidates=settings.candidates,
                alpha=settings.alpha,
                margin=settings.margin,
                n_draws=settings.n_simulated,
                n_refits=settings.n_refits,
                n_exchanges=settings.n_draws,
                icc=icc,
                approximate=not states.order_free,
                full=settings.full,
                chain_rejected=under_way.timing is Verdict.REJECTED,
                ci_prob=ci_prob,
                rng=streams.climb,
            )
        certificate = under_way.result()
    certificate = _told(certificate, note)
    if states.order_free:
        return Certified(certificate, looked, None)
    again = cross_fit(
        corpus,
        resolved,
        lambda some, runs, rng: settings.states.make(some, runs, rng=rng).model,
        n_draws=settings.n_draws,
        alpha=settings.alpha,
        rng=streams.halves,
    )
    certificate = replace(
        certificate,
        claims=tuple(held_to(c, fit.name, again, settings.alpha) for c in certificate.claims),
        notes=(*certificate.notes, again if isinstance(again, str) else again.note),
    )
    if looked is not None and (found := looked.found) is not None:
        claims = tuple(held_to(c, found.name, again, settings.alpha) for c in found.claims)
        looked = replace(looked, found=replace(found, claims=claims))
    return Certified(certificate, looked, None if isinstance(again, str) else again)


def _told(certificate: Certificate, note: str | None) -> Certificate:
    """Say how the states were chosen, where they were."""
    return certificate if note is None else replace(certificate, notes=(note, *certificate.notes))


def part_to_forecast(
    sequences: StateSequences, found: ProcessFindings | None, rng: np.random.Generator
) -> tuple[StateSequences, tuple[str, ...]]:
    """Return the runs that forecasts are measured on, and say so where they are not all.

    A richer process was fitted to the runs that its choice looked at; these are they.
    """
    if sequences.n_runs <= MAX_RUNS:
        return sequences, ()
    if found is not None:
        part = found.runs
        n_units = (np.unique(part.unit).size, np.unique(sequences.unit).size)
        note = (
            f"what forecasts are worth is measured on the {n_of(part.n_runs, 'run')} of "
            f"{n_units[0]} tasks or clusters out of {n_units[1]} that the process was fitted to"
        )
        return part, (note,)
    return part_of(sequences, MAX_RUNS, np.inf, "the measure of forecasts", rng)


def _climbs(settings: ChainSettings, fit: HomogeneousFit, timing: Verdict) -> bool:
    """Tell whether to look beyond the homogeneous chain."""
    if settings.process is not None:
        return settings.process != fit.name
    if settings.quick or fit.horizon <= 1:
        return False
    return timing is not Verdict.ACCEPTED
