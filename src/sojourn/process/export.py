"""A fitted process for other tools: model checkers (PRISM, Storm) and drawings (DOT, Mermaid).

Model checkers take a chain with one first state, so the written chain has a state ``start`` from
which the first step is drawn; one step of it comes before the run's own. P(success within d steps)
is therefore ``P=? [ F<=d+1 "success" ]``, and the mean number of steps the expected reward
``steps`` until the run is over. A process that looks at the step is written out layer by layer, one
copy of its states a step, the last of which loops in itself as the process does beyond its last
knot: nothing is cut off. A drawing of it is of one step or of the mean over some steps, and says of
which. Contexts, ages, classes and phases are written as states of their own, and
a label ``state_1``, ``state_2``, .. stands for all copies of an observed state.

Names of states come from logs. They stand in comments and in quoted labels only, escaped for each
language; whatever is parsed is numbered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice
from sojourn.process.unrolled import UnrolledChain, unroll
from sojourn.tables import clean
from sojourn.tables.escape import dot_string, mermaid_string

__all__ = ["EXPORTS", "export_process"]

Floats = npt.NDArray[np.float64]
_MAX_TRANSITIONS = 2_000_000
_MAX_DRAWN = 100
_MAX_STEP = 100_000
_LEAST_DRAWN = 0.005


class _Explicit(NamedTuple):
    """The written chain: numbered states, their rows, and the observed state of each."""

    rows: list[list[tuple[int, float]]]
    owner: list[int | None]
    state_names: tuple[str, ...]
    success: int
    failure: int

    def labels(self, state: int) -> list[str]:
        """Return what is true in a state."""
        found = []
        if state == 0:
            found += ["init", "start"]
        if state == self.success:
            found.append("success")
        if state == self.failure:
            found.append("failure")
        owner = self.owner[state]
        if owner is not None:
            found.append(f"state_{owner + 1}")
        return found

    def label_names(self) -> list[str]:
        states = [f"state_{i + 1}" for i in range(len(self.state_names))]
        return ["init", "start", "success", "failure", *states]


def export_process(process: Any, to: str, *, steps: tuple[int, int] | None = None) -> str:
    """Write a process in the language of another tool.

    Parameters
    ----------
    process : a fitted process or chain
        What to write.
    to : {"prism", "tra", "lab", "drn", "dot", "mermaid"}
        ``prism``: PRISM's language. ``tra`` and ``lab``: its explicit transitions and labels.
        ``drn``: Storm's explicit format. ``dot`` and ``mermaid``: a drawing, without transitions
        under .005.
    steps : (int, int), optional
        First and last step of a drawing of a process that looks at the step: what follows these
        steps, averaged over the runs that have them. By default all steps up to its last table.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the process cannot be written so: it has no tables of next events, they are too large,
        or `steps` are given of what is no drawing or does not look at the step.

    Examples
    --------
    >>> from sojourn.process import preset
    >>> print(export_process(preset("react"), "lab").splitlines()[0][:30])
    0="init" 1="start" 2="success"
    """
    check_choice(to, EXPORTS, name="to")
    chain = unroll(process)
    if to in _DRAWINGS:
        return _DRAWINGS[to](*_drawable(chain, steps))
    if steps is not None:
        raise ValueError(f"{to} holds the whole process; steps are for {' and '.join(_DRAWINGS)}")
    return _WRITERS[to](chain)


def _explicit(chain: UnrolledChain) -> _Explicit:
    """Give numbers to the states that a run can get to: the start first, the two ends last."""
    n, layers = chain.n_inner, chain.n_layers
    if layers * np.count_nonzero(chain.rows[-1]) > _MAX_TRANSITIONS:
        raise ValueError(
            f"{layers} steps of {n} states have more than {_MAX_TRANSITIONS:,} transitions; "
            "export a homogeneous chain instead"
        )
    reached = _reached(chain)
    number = np.full((layers, n), -1)
    number[reached] = 1 + np.arange(np.count_nonzero(reached))
    success = 1 + int(np.count_nonzero(reached))
    ends = [success, success + 1]

    def row(probabilities: Floats, layer: int) -> list[tuple[int, float]]:
        targets = [*number[min(layer, layers - 1)].tolist(), *ends]
        pairs = zip(targets, probabilities.tolist(), strict=True)
        return [(target, p) for target, p in pairs if p > 0.0]

    rows = [row(chain.start, 0)]
    owner: list[int | None] = [None]
    for t, k in zip(*np.nonzero(reached), strict=True):
        rows.append(row(chain.rows[t, k], int(t) + 1))
        owner.append(int(chain.owner[k]))
    rows += [[(success, 1.0)], [(success + 1, 1.0)]]
    return _Explicit(rows, [*owner, None, None], chain.state_names, *ends)


def _reached(chain: UnrolledChain) -> npt.NDArray[np.bool_]:
    """Tell which copies of states a run can be in, shape (n_layers, n_inner)."""
    n = chain.n_inner
    reached = np.zeros((chain.n_layers, n), dtype=np.bool_)
    here = chain.start[:n] > 0.0
    for t in range(chain.n_layers):
        reached[t] = here
        here = np.asarray((chain.rows[t, here, :n] > 0.0).any(axis=0), dtype=np.bool_)
    while True:
        wider = reached[-1] | (chain.rows[-1, reached[-1], :n] > 0.0).any(axis=0)
        if np.array_equal(wider, reached[-1]):
            return reached
        reached[-1] = wider


def _prism(chain: UnrolledChain) -> str:
    made = _explicit(chain)
    last = len(made.rows) - 1
    lines = [
        "// An absorbing chain of runs; step d of a run is step d + 1 here.",
        '// Success within d steps: P=? [ F<=d+1 "success" ]',
        *_name_comments(made.state_names, "//"),
        "dtmc",
        "",
        "module run",
        f"  s : [0..{last}] init 0;",
    ]
    for state, row in enumerate(made.rows):
        events = " + ".join(f"{p!r}:(s'={target})" for target, p in row)
        lines.append(f"  [] s={state} -> {events};")
    lines += ["endmodule", ""]
    lines += [
        'label "start" = s=0;',
        f'label "success" = s={made.success};',
        f'label "failure" = s={made.failure};',
    ]
    members: dict[int, list[int]] = {i: [] for i in range(len(made.state_names))}
    for state, owner in enumerate(made.owner):
        if owner is not None:
            members[owner].append(state)
    for i, states in members.items():
        where = " | ".join(f"s={state}" for state in states) or "false"
        lines.append(f'label "state_{i + 1}" = {where};')
    # A run's steps are its states between the start and its end.
    lines += ["", 'rewards "steps"', f"  s>=1 & s<{made.success} : 1;", "endrewards"]
    return "\n".join([*lines, ""])


def _tra(chain: UnrolledChain) -> str:
    made = _explicit(chain)
    n_transitions = sum(len(row) for row in made.rows)
    lines = [f"{len(made.rows)} {n_transitions}"]
    for state, row in enumerate(made.rows):
        lines += [f"{state} {target} {p!r}" for target, p in sorted(row)]
    return "\n".join([*lines, ""])


def _lab(chain: UnrolledChain) -> str:
    made = _explicit(chain)
    names = made.label_names()
    place = {name: k for k, name in enumerate(names)}
    lines = [" ".join(f'{k}="{name}"' for k, name in enumerate(names))]
    for state in range(len(made.rows)):
        labels = " ".join(str(place[name]) for name in made.labels(state))
        if labels:
            lines.append(f"{state}: {labels}")
    return "\n".join([*lines, ""])


def _drn(chain: UnrolledChain) -> str:
    made = _explicit(chain)
    lines = [
        "// An absorbing chain of runs; step d of a run is step d + 1 here.",
        *_name_comments(made.state_names, "//"),
        "@type: DTMC",
        "@parameters",
        "",
        "@reward_models",
        "steps",
        "@nr_states",
        str(len(made.rows)),
        "@nr_choices",
        str(len(made.rows)),
        "@model",
    ]
    for state, row in enumerate(made.rows):
        reward = int(made.owner[state] is not None)
        lines.append(" ".join([f"state {state} [{reward}]", *made.labels(state)]))
        lines.append("\taction 0 [0]")
        lines += [f"\t\t{target} : {p!r}" for target, p in sorted(row)]
    return "\n".join([*lines, ""])


def _name_comments(names: tuple[str, ...], mark: str) -> list[str]:
    return [f"{mark} state_{i + 1}: {clean(name)}" for i, name in enumerate(names)]


class _Drawn(NamedTuple):
    """A chain to draw, and the steps that it is of; None where it does not look at the step."""

    made: _Explicit
    steps: str | None


def _drawable(chain: UnrolledChain, steps: tuple[int, int] | None) -> _Drawn:
    if chain.n_inner > _MAX_DRAWN:
        raise ValueError(f"{chain.n_inner} states make no drawing; {_MAX_DRAWN} are the most")
    if chain.n_layers == 1:
        if steps is not None:
            raise ValueError("this process does not look at the step: leave the steps out")
        return _Drawn(_explicit(chain), None)
    first, last = (1, chain.n_layers) if steps is None else steps
    if not 1 <= first <= last <= _MAX_STEP:
        raise ValueError(
            f"steps must be a first and a last one, from 1 to {_MAX_STEP}; got {first} to {last}"
        )
    words = f"step {first}" if first == last else f"steps {first} to {last}"
    return _Drawn(_explicit(_mean_of(chain, first, last)), words)


def _mean_of(chain: UnrolledChain, first: int, last: int) -> UnrolledChain:
    """Average the tables of some steps over the runs that have them; start at the first."""
    masses = chain.masses(last)[first - 1 :]
    there = float(masses[0].sum())
    if there <= 0.0:
        raise ValueError(f"no run of this process gets to step {first}")
    tables = chain.rows[np.minimum(np.arange(first - 1, last), chain.n_layers - 1)]
    total = masses.sum(axis=0)
    # A state that no run is in at these steps keeps what follows the last of them.
    rows = np.where(
        (total > 0.0)[:, None],
        np.einsum("ti,tij->ij", masses, tables) / np.where(total > 0.0, total, 1.0)[:, None],
        tables[-1],
    )
    rows /= rows.sum(axis=1, keepdims=True)
    start = chain.start if first == 1 else np.concatenate((masses[0] / there, [0.0, 0.0]))
    return chain.with_rows(rows[None], start)


def _dot(made: _Explicit, steps: str | None) -> str:
    lines = ["digraph chain {", "  rankdir=LR;"]
    if steps is None:
        lines.append("  n0 [shape=point];")
    else:
        lines += [f'  label="what follows {steps}"; labelloc=t;', f'  n0 [label="{steps}"];']
    for state, owner in enumerate(made.owner):
        if owner is not None:
            lines.append(f"  n{state} [shape=box, label={dot_string(made.state_names[owner])}];")
    lines += [
        f'  n{made.success} [shape=doublecircle, label="success"];',
        f'  n{made.failure} [shape=doublecircle, label="failure"];',
    ]
    lines += [f'  n{i} -> n{j} [label="{p:.2f}"];' for i, j, p in _edges(made)]
    return "\n".join([*lines, "}", ""])


def _mermaid(made: _Explicit, steps: str | None) -> str:
    lines = ["flowchart LR", "  n0(( ))" if steps is None else f'  n0(["{steps}"])']
    for state, owner in enumerate(made.owner):
        if owner is not None:
            lines.append(f"  n{state}[{mermaid_string(made.state_names[owner])}]")
    lines += [f'  n{made.success}(["success"])', f'  n{made.failure}(["failure"])']
    lines += [f'  n{i} -->|"{p:.2f}"| n{j}' for i, j, p in _edges(made)]
    return "\n".join([*lines, ""])


def _edges(made: _Explicit) -> list[tuple[int, int, float]]:
    """Return the transitions worth drawing, without the loops of the two ends."""
    return [
        (state, target, p)
        for state, row in enumerate(made.rows)
        for target, p in row
        if p >= _LEAST_DRAWN and state not in (made.success, made.failure)
    ]


_WRITERS: dict[str, Callable[[UnrolledChain], str]] = {
    "prism": _prism,
    "tra": _tra,
    "lab": _lab,
    "drn": _drn,
}
_DRAWINGS: dict[str, Callable[[_Explicit, str | None], str]] = {"dot": _dot, "mermaid": _mermaid}
EXPORTS = (*_WRITERS, *_DRAWINGS)
