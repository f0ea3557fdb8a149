"""Where runs might have been cut: the law of the caps, so that simulated corpora are cut alike.

The cap of a cut run is its length; of the others it is known only not to be below theirs. The law
of the caps is the product-limit estimate with the roles of cut and ended runs exchanged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.sequences import CENSORED, StateSequences

__all__ = ["CapLaw", "cap_law", "cut_after"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class CapLaw(NamedTuple):
    """What is known of the cap of each run.

    Attributes
    ----------
    known : ndarray of shape (n_runs,)
        Length of each cut run; -1 where it ended by itself.
    length : ndarray of shape (n_runs,)
        Length of every run: its cap is not below.
    at : ndarray of shape (n_caps,)
        Lengths at which runs were cut, ascending.
    survival : ndarray of shape (n_caps,)
        P(cap > at).
    """

    known: Ints
    length: Ints
    at: Ints
    survival: Floats

    def draw(self, endless: int, rng: np.random.Generator) -> Ints:
        """Draw the cap of every run, given what is known of it; `endless` stands for none."""
        at_least = np.append(1.0, self.survival)[np.searchsorted(self.at, self.length)]
        level = rng.random(self.length.size) * at_least
        # The cap is the first one at which the survival falls to the level or below it.
        place = np.searchsorted(-self.survival, -level, side="left")
        drawn = np.append(self.at, endless)[place]
        return np.where(self.known >= 0, self.known, drawn)


def cap_law(sequences: StateSequences) -> CapLaw | None:
    """Return the product-limit law of the caps; None where no run was cut."""
    cut, lengths = sequences.event == CENSORED, sequences.lengths
    if not cut.any():
        return None
    at, n_cut = np.unique(lengths[cut], return_counts=True)
    beyond = sequences.n_runs - np.searchsorted(np.sort(lengths), at, side="right")
    survival: Floats = np.cumprod(1.0 - n_cut / (n_cut + beyond)).astype(np.float64)
    return CapLaw(np.where(cut, lengths, -1), lengths, at, survival)


def cut_after(sequences: StateSequences, caps: Ints) -> StateSequences:
    """Cut every run that goes on after its cap."""
    lengths = np.minimum(sequences.lengths, caps)
    cut = sequences.lengths > caps
    if not cut.any():
        return sequences
    last = np.repeat(sequences.offsets[:-1] + lengths, sequences.lengths)
    return StateSequences(
        states=sequences.states[np.arange(sequences.states.size) < last],
        offsets=np.concatenate(([0], np.cumsum(lengths))),
        event=np.where(cut, CENSORED, sequences.event),
        task=sequences.task,
        unit=sequences.unit,
        state_names=sequences.state_names,
    )
