"""The mix of domains: what their figures mean together under the operational profile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.assess.cautions import Caution
from sojourn.assess.session_claims import Doubts
from sojourn.assess.session_density import posterior_density
from sojourn.assess.session_figures import Density, EnvelopeRow, SystemRow
from sojourn.assess.session_reliability import run_lengths, summary, too_long
from sojourn.assess.session_results import DomainAssessment
from sojourn.session import system_success_run
from sojourn.tables import clean

__all__ = ["Assessed", "system_density", "system_envelope", "system_rows"]

FloatArray = npt.NDArray[np.float64]

_CONVENTIONS = ("domain_once", "domain_per_task")


class Assessed(NamedTuple):
    """A domain's result, and the draws that the system's figures are made of."""

    result: DomainAssessment
    cautions: tuple[Caution, ...]
    run: FloatArray  # (n_draws, n_max)
    independent_run: FloatArray
    doubt: Doubts


def system_rows(
    found: Sequence[Assessed], weights: dict[str, float], *, n_max: int, ci_prob: float
) -> tuple[SystemRow, ...]:
    """Return R(n) of the mix of domains under both conventions.

    Domains are independent a posteriori, so that draws of different domains pair at will.
    """
    return tuple(_rows(found, weights, n_max, ci_prob))


def _rows(
    found: Sequence[Assessed], weights: dict[str, float], n_max: int, ci_prob: float
) -> Iterator[SystemRow]:
    used = [item for item in found if weights[item.result.name] > 0]
    share = np.array([weights[item.result.name] for item in used])
    share = share / share.sum()
    size = min(item.run.shape[0] for item in used)
    runs = [_thinned(item.run, size) for item in used]
    alone = [_thinned(item.independent_run, size) for item in used]
    reasons = _named(used, [item.doubt.figures for item in used])
    reasons_alone = _named(used, [item.doubt.independent for item in used])
    longest = min(item.result.longest_session for item in used)
    figures = [item.result.reliability for item in used]
    for convention in _CONVENTIONS:
        model = system_success_run(runs, share, convention=convention)
        independent = system_success_run(alone, share, convention=convention)
        # Domains are independent a posteriori and each enters linearly: means combine exactly.
        mean = system_success_run([f.curve.value for f in figures], share, convention=convention)
        mean_alone = system_success_run(
            [f.independent_curve.value for f in figures], share, convention=convention
        )
        for n in run_lengths(n_max):
            far = too_long(n, longest)
            yield SystemRow(
                convention=convention,
                n=n,
                estimate=summary(model[:, n - 1], [*reasons, *far], ci_prob, mean[n - 1]),
                independent=summary(
                    independent[:, n - 1],
                    [*reasons_alone, *far],
                    ci_prob,
                    mean_alone[n - 1],
                ),
            )


def system_density(found: Sequence[Assessed], weights: dict[str, float]) -> Density:
    """Return the posterior of the next task's success for the whole mix."""
    size = min(item.run.shape[0] for item in found)
    draws = np.zeros(size)
    for item in found:
        draws += weights[item.result.name] * _thinned(item.run[:, 0], size)
    return posterior_density(draws, label="system", level="system")


def system_envelope(
    found: Sequence[Assessed], weights: dict[str, float]
) -> tuple[EnvelopeRow, ...] | None:
    """Sum the domains' bounds: each domain's prior moves in its own box, apart from the others."""
    parts = []
    for item in found:
        rows = item.result.reliability.envelope
        if rows is None:
            return None
        if weights[item.result.name] > 0:
            parts.append((weights[item.result.name], rows))
    return tuple(
        EnvelopeRow(
            n=rows[0].n,
            low=sum(w * row.low for (w, _), row in zip(parts, rows, strict=True)),
            high=sum(w * row.high for (w, _), row in zip(parts, rows, strict=True)),
        )
        for rows in zip(*(rows for _, rows in parts), strict=True)
    )


def _thinned(draws: FloatArray, size: int) -> FloatArray:
    keep = np.linspace(0, draws.shape[0] - 1, size).round().astype(int)
    return np.asarray(draws[keep])


def _named(used: Sequence[Assessed], reasons: Sequence[Sequence[str]]) -> list[str]:
    if len(used) == 1:
        return list(reasons[0])
    return [
        f"{clean(item.result.name)}: {reason}"
        for item, given in zip(used, reasons, strict=True)
        for reason in given
    ]
