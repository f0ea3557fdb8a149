"""Kernels of the certificate: counting, the fitted curves, the two samplers and the statistics.

They stand in one file because they call each other. Step targets are coded 0 .. m-1 for the
states, m for success, m+1 for failure and m+2 for a run that was cut. Every draw has its own
64-bit seed and its own SplitMix64 stream, so that a draw does not depend on its neighbours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._numba import kernel

__all__ = [
    "Chain",
    "Design",
    "Drawn",
    "Reference",
    "accumulate_tables",
    "count_corpus",
    "draw_corpus",
    "draw_statistics",
    "fitted_curves",
    "hub_of",
    "incidence_curves",
    "replicate_curves",
    "simulate_corpus",
    "statistics_of",
    "tabulate",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
States = npt.NDArray[np.int32]
Events = npt.NDArray[np.int8]
Flags = npt.NDArray[np.bool_]
Seeds = npt.NDArray[np.uint64]


class Design(NamedTuple):
    """A corpus as stacks of edges: what the uniform sampler keeps (runs sorted by stratum)."""

    n_states: int
    strata: Ints  # (n_strata + 1,): runs of stratum s
    offsets: Ints  # (n_runs + 1,): steps of a run, in the corpus as it was observed
    starts: Ints  # (n_runs,): first states
    edge_offsets: Ints  # (n_strata * n_states + 1,): edges out of a state of a stratum
    edges: Ints  # (n_steps,): where each step goes next
    direct: Flags  # (n_strata,): drawn by the uniform sampler, else by tail swaps


class Chain(NamedTuple):
    """A corpus as linked runs: what tail swaps rearrange. Node r < n_runs is the start of run r."""

    successor: Ints  # (n_nodes,): next node or -1
    run: Ints  # (n_nodes,)
    position: Ints  # (n_nodes,): steps of the run up to and with this node; 0 for a start
    state: Ints  # (n_nodes,)
    length: Ints  # (n_runs,)
    event: Events  # (n_runs,)
    cap: Ints  # (n_runs,)
    stratum: Ints  # (n_runs,)
    members: Ints  # nodes that may swap, grouped by (stratum, state)
    low: Ints  # (n_members,): where the group of a member starts
    high: Ints  # (n_members,): and ends
    n_swaps: int


class Reference(NamedTuple):
    """What the statistics are measured against; fixed by the counts or by all corpora alike."""

    log_triple: Floats  # ((m + 1) * m, m + 2): log P(next | previous, state)
    log_move: Floats  # (m * m, m): log P(next | previous, state) among steps between states
    log_bucket: Floats  # (n_buckets * m, m + 2): log P(next | bucket, state)
    curves: Floats  # (2, horizon + 1): expected incidence of success and failure
    bucket: Ints  # (n,): bucket of a step by its index in the run, the last one for later steps
    log_int: Floats  # (n_steps + 1,): logarithms of whole numbers


class Drawn(NamedTuple):
    """Places for drawn corpora: one for each draw, so that none is drawn twice, or a single one."""

    states: npt.NDArray[np.int32]  # (n_places, n_steps)
    offsets: Ints  # (n_places, n_runs + 1)
    event: Events  # (n_places, n_runs)
    filled: Flags  # (1,): whether every place holds the corpus of its seed


@kernel
def _uniform(stream: Seeds) -> float:
    stream[0] += np.uint64(0x9E3779B97F4A7C15)
    z = stream[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * 1.1102230246251565e-16


@kernel
def _below(stream: Seeds, n: int) -> int:
    return int(_uniform(stream) * n)


@kernel
def _shuffle(stream: Seeds, values: Ints, low: int, high: int) -> None:
    for last in range(high - 1, low, -1):
        other = low + _below(stream, last - low + 1)
        held = values[last]
        values[last] = values[other]
        values[other] = held


@kernel
def count_corpus(
    states: States, offsets: Ints, event: Events, n_states: int
) -> tuple[Floats, Floats]:
    """Count starts (m,) and steps (m, m+2) of the runs; a cut run has no last step."""
    starts = np.zeros(n_states)
    counts = np.zeros((n_states, n_states + 2))
    for run in range(event.size):
        low, high = offsets[run], offsets[run + 1]
        if low == high:
            continue
        starts[states[low]] += 1.0
        for t in range(low, high - 1):
            counts[states[t], states[t + 1]] += 1.0
        if event[run] > 0:
            counts[states[high - 1], n_states - 1 + event[run]] += 1.0
    return starts, counts


@kernel
def fitted_curves(starts: Floats, counts: Floats, curves: Floats) -> float:
    """Fill the incidence curves of the maximum likelihood chain; return what is still going.

    ``curves[k, d] = pi0' sum_{t<d} Q^t R_k`` by the forward recursion; ``curves[:, 0]`` must hold
    the runs that end before their first step, ``starts`` the shares of the others.
    """
    m = starts.size
    now = starts.copy()
    then = np.empty(m)
    row = np.empty(m)
    for i in range(m):
        row[i] = counts[i].sum()
    for d in range(1, curves.shape[1]):
        curves[0, d] = curves[0, d - 1]
        curves[1, d] = curves[1, d - 1]
        then[:] = 0.0
        for i in range(m):
            if now[i] == 0.0:
                continue
            if row[i] == 0.0:  # never seen to leave: the mass stays, and never exits
                then[i] += now[i]
                continue
            share = now[i] / row[i]
            for j in range(m):
                then[j] += share * counts[i, j]
            curves[0, d] += share * counts[i, m]
            curves[1, d] += share * counts[i, m + 1]
        now[:] = then
    return float(now.sum())


@kernel
def incidence_curves(endings: Floats, curves: Floats) -> None:
    """Aalen-Johansen curves (2, H+1) from the endings (3, >= H+1) by event and number of steps.

    A run cut after c steps is at risk at steps <= c.
    """
    at_risk = endings.sum()
    going = 1.0
    success = 0.0
    failure = 0.0
    for d in range(curves.shape[1]):
        if at_risk > 0.0:
            success += going * endings[1, d] / at_risk
            failure += going * endings[2, d] / at_risk
            going *= 1.0 - (endings[1, d] + endings[2, d]) / at_risk
        at_risk -= endings[0, d] + endings[1, d] + endings[2, d]
        if at_risk < 0.5:  # counts are whole; what is left is rounding
            at_risk = 0.0
        curves[0, d] = success
        curves[1, d] = failure


@kernel
def replicate_curves(
    starts: Floats, counts: Floats, endings: Floats, fitted: Floats, observed: Floats
) -> None:
    """Fill fitted and Aalen-Johansen curves (B, 2, H+1) of B weighted corpora."""
    for b in range(starts.shape[0]):
        n_runs = endings[b].sum()
        if n_runs == 0.0:
            continue
        fitted[b, 0, 0] = endings[b, 1, 0] / n_runs
        fitted[b, 1, 0] = endings[b, 2, 0] / n_runs
        fitted_curves(starts[b] / n_runs, counts[b], fitted[b])
        incidence_curves(endings[b], observed[b])


@kernel
def tabulate(
    states: States,
    offsets: Ints,
    event: Events,
    bucket_of: Ints,
    triple: Ints,
    bucket: Ints,
    squares: Ints,
    endings: Floats,
) -> int:
    """Fill the tables of one corpus; return the sum of squared lengths.

    ``triple`` counts (previous or start, state, next), ``bucket`` (step bucket, state, next),
    ``squares`` sums the squared lengths of the stays in each state, ``endings`` the runs by event
    and number of steps (longer than the horizon: the last column).
    """
    m = squares.size
    last_bucket = bucket_of.size - 1
    last_length = endings.shape[1] - 1
    triple[:] = 0
    bucket[:] = 0
    squares[:] = 0
    endings[:] = 0.0
    total = 0
    for run in range(event.size):
        low, high = offsets[run], offsets[run + 1]
        length = high - low
        total += length * length
        endings[event[run], min(length, last_length)] += 1.0
        previous = 0
        stay = 0
        for t in range(low, high):
            i = states[t]
            if t + 1 < high:
                j = np.int64(states[t + 1])
            elif event[run] > 0:
                j = np.int64(m - 1 + event[run])
            else:
                j = np.int64(-1)
            if j >= 0:
                triple[previous * m + i, j] += 1
                bucket[bucket_of[min(t - low, last_bucket)] * m + i, j] += 1
            stay += 1
            if j != i:
                squares[i] += stay * stay
                stay = 0
            previous = i + 1
    return total


@kernel
def _divergence(table: Ints, log_prob: Floats, log_int: Floats) -> float:
    """G2 of the rows of a table against given conditional laws: 2 sum n log(n / (n_row P))."""
    total = 0.0
    for r in range(table.shape[0]):
        row = 0
        for c in range(table.shape[1]):
            n = table[r, c]
            if n > 0:
                row += n
                total += n * (log_int[n] - log_prob[r, c])
        if row > 0:
            total -= row * log_int[row]
    return 2.0 * total


@kernel
def statistics_of(
    states: States, offsets: Ints, event: Events, n_states: int, reference: Reference, out: Floats
) -> None:
    """Fill the statistics of one corpus, 6 + m cells.

    G2 of order 2, step-index G2, sup success, sup failure, sum of squared lengths, G2 of order 2
    among steps from state to state (no starts, no ends), and the sum of squared stays in each
    state.
    """
    m = n_states
    horizon = reference.curves.shape[1] - 1
    triple = np.empty(reference.log_triple.shape, dtype=np.int64)
    bucket = np.empty(reference.log_bucket.shape, dtype=np.int64)
    squares = np.empty(m, dtype=np.int64)
    endings = np.empty((3, horizon + 2))
    curves = np.empty((2, horizon + 1))
    total = tabulate(states, offsets, event, reference.bucket, triple, bucket, squares, endings)
    incidence_curves(endings, curves)
    out[0] = _divergence(triple, reference.log_triple, reference.log_int)
    out[1] = _divergence(bucket, reference.log_bucket, reference.log_int)
    out[2] = 0.0
    out[3] = 0.0
    for d in range(horizon + 1):
        out[2] = max(out[2], abs(curves[0, d] - reference.curves[0, d]))
        out[3] = max(out[3], abs(curves[1, d] - reference.curves[1, d]))
    out[4] = total
    out[5] = _divergence(triple[m:, :m], reference.log_move, reference.log_int)
    for i in range(m):
        out[6 + i] = squares[i]


@kernel
def _last_exits(stratum: int, design: Design, stream: Seeds, last: Ints, known: Flags) -> None:
    """Draw the tree of last exits by loop-erased walks that step with the full counts.

    An edge is drawn uniformly among all edges out of a state, so a last exit out of the runs has
    success or failure in proportion to its counts (Wilson's algorithm on the weighted graph).
    """
    m = design.n_states
    base = stratum * m
    known[:] = False
    for i in range(m):
        if known[i] or design.edge_offsets[base + i] == design.edge_offsets[base + i + 1]:
            continue
        u = i
        while u < m and not known[u]:
            low = design.edge_offsets[base + u]
            last[u] = low + _below(stream, design.edge_offsets[base + u + 1] - low)
            u = design.edges[last[u]]
        u = i
        while u < m and not known[u]:
            known[u] = True
            u = design.edges[last[u]]


@kernel
def _draw_stratum(
    stratum: int, design: Design, stream: Seeds, states: States, offsets: Ints, event: Events
) -> None:
    """Draw the runs of one stratum uniformly among all with its starts and counts.

    Shuffled stacks whose last edges form a tree into the end are exactly the ordered corpora
    (de Bruijn, van Aardenne-Ehrenfest, Smith and Tutte), so every stack is used up.
    """
    m = design.n_states
    base = stratum * m
    first_run, end_run = design.strata[stratum], design.strata[stratum + 1]
    first_edge = design.edge_offsets[base]
    last = np.empty(m, dtype=np.int64)
    known = np.empty(m, dtype=np.bool_)
    cursor = np.empty(m, dtype=np.int64)
    _last_exits(stratum, design, stream, last, known)
    stack = design.edges[first_edge : design.edge_offsets[base + m]].copy()
    for i in range(m):
        low = design.edge_offsets[base + i] - first_edge
        high = design.edge_offsets[base + i + 1] - first_edge
        cursor[i] = low
        if high > low:
            chosen = last[i] - first_edge
            held = stack[high - 1]
            stack[high - 1] = stack[chosen]
            stack[chosen] = held
            _shuffle(stream, stack, low, high - 1)
    starts = design.starts[first_run:end_run].copy()
    _shuffle(stream, starts, 0, starts.size)
    t = design.offsets[first_run]
    for run in range(first_run, end_run):
        u = starts[run - first_run]
        while u < m:
            states[t] = u
            t += 1
            taken = cursor[u]
            cursor[u] += 1
            u = stack[taken]
        event[run] = (u - m + 1) % 3
        offsets[run + 1] = t


@kernel
def _changes_runs(chain: Chain, successor: Ints, u: int, v: int, a: int, b: int) -> bool:
    """Whether swapping the tails after u (run a) and v (run b) changes the multiset of runs."""
    x, y = a, b
    while x != u and y != v and chain.state[x] == chain.state[y]:
        x, y = successor[x], successor[y]
    if x == u and y == v:
        return False
    x, y = successor[u], successor[v]
    while x >= 0 and y >= 0 and chain.state[x] == chain.state[y]:
        x, y = successor[x], successor[y]
    return bool(x >= 0 or y >= 0)


@kernel
def _swap_tails(
    chain: Chain,
    stream: Seeds,
    successor: Ints,
    run: Ints,
    position: Ints,
    length: Ints,
    event: Events,
    moved: Flags,
) -> None:
    """Rearrange the runs by tail swaps that respect the caps; an invalid swap is a stay.

    Two visits of one state are drawn and the runs exchange what follows. The proposal is
    symmetric, so the uniform law on the capped family is stationary.
    """
    for _ in range(chain.n_swaps):
        k = _below(stream, chain.members.size)
        other = chain.low[k] + _below(stream, chain.high[k] - chain.low[k])
        u, v = chain.members[k], chain.members[other]
        a, b = run[u], run[v]
        if a == b:
            continue
        length_a = position[u] + length[b] - position[v]
        length_b = position[v] + length[a] - position[u]
        if length_a > chain.cap[a] or length_b > chain.cap[b]:
            continue
        if length_a == 0 or length_b == 0:
            continue
        if event[b] == 0 and length_a != chain.cap[a]:
            continue
        if event[a] == 0 and length_b != chain.cap[b]:
            continue
        s = chain.stratum[a]
        if not moved[s]:
            moved[s] = event[a] != event[b] or _changes_runs(chain, successor, u, v, a, b)
        held = successor[u]
        successor[u] = successor[v]
        successor[v] = held
        event_a = event[a]
        event[a] = event[b]
        event[b] = event_a
        length[a] = length_a
        length[b] = length_b
        node, at = successor[u], position[u]
        while node >= 0:
            at += 1
            run[node] = a
            position[node] = at
            node = successor[node]
        node, at = successor[v], position[v]
        while node >= 0:
            at += 1
            run[node] = b
            position[node] = at
            node = successor[node]


@kernel
def hub_of(chain: Chain, seed: int, moved: Flags) -> Chain:
    """Run the tail swaps once: the hub from which every draw starts (Besag and Clifford 1989)."""
    stream = np.empty(1, dtype=np.uint64)
    stream[0] = seed
    successor, run, position = chain.successor.copy(), chain.run.copy(), chain.position.copy()
    length, event = chain.length.copy(), chain.event.copy()
    if chain.members.size > 0:
        _swap_tails(chain, stream, successor, run, position, length, event, moved)
    return Chain(
        successor,
        run,
        position,
        chain.state,
        length,
        event,
        chain.cap,
        chain.stratum,
        chain.members,
        chain.low,
        chain.high,
        chain.n_swaps,
    )


@kernel
def draw_corpus(
    seed: int,
    design: Design,
    hub: Chain,
    states: States,
    offsets: Ints,
    event: Events,
    moved: Flags,
) -> None:
    """Draw one corpus into ``states``, ``offsets`` and ``event``."""
    stream = np.empty(1, dtype=np.uint64)
    stream[0] = seed
    successor, run, position = hub.successor, hub.run, hub.position
    length, ending = hub.length, hub.event
    if hub.members.size > 0:
        successor, run, position = successor.copy(), run.copy(), position.copy()
        length, ending = length.copy(), ending.copy()
        _swap_tails(hub, stream, successor, run, position, length, ending, moved)
    offsets[0] = 0
    for s in range(design.direct.size):
        if design.direct[s]:
            _draw_stratum(s, design, stream, states, offsets, event)
            continue
        t = design.offsets[design.strata[s]]
        for r in range(design.strata[s], design.strata[s + 1]):
            node = successor[r]
            while node >= 0:
                states[t] = hub.state[node]
                t += 1
                node = successor[node]
            event[r] = ending[r]
            offsets[r + 1] = t


@kernel
def draw_statistics(
    seeds: Seeds,
    design: Design,
    hub: Chain,
    reference: Reference,
    out: Floats,
    moved: Flags,
    drawn: Drawn,
) -> None:
    """Draw one corpus a seed and fill its row of statistics (n_draws, 6 + m).

    Where there is a place for every draw, `accumulate_tables` has left them there.
    """
    kept = drawn.states.shape[0] == seeds.size and drawn.filled[0]
    for b in range(seeds.size):
        k = b if kept else 0
        states, offsets, event = drawn.states[k], drawn.offsets[k], drawn.event[k]
        if not kept:
            draw_corpus(seeds[b], design, hub, states, offsets, event, moved)
        statistics_of(states, offsets, event, design.n_states, reference, out[b])


@kernel
def accumulate_tables(
    seeds: Seeds,
    design: Design,
    hub: Chain,
    reference: Reference,
    triple_sum: Ints,
    bucket_sum: Ints,
    curve_sum: Floats,
    moved: Flags,
    drawn: Drawn,
) -> None:
    """Draw one corpus a seed and add up its tables and curves; keep it if there is a place."""
    m = design.n_states
    horizon = curve_sum.shape[1] - 1
    triple = np.empty(triple_sum.shape, dtype=np.int64)
    bucket = np.empty(bucket_sum.shape, dtype=np.int64)
    squares = np.empty(m, dtype=np.int64)
    endings = np.empty((3, horizon + 2))
    curves = np.empty((2, horizon + 1))
    for b in range(seeds.size):
        k = b % drawn.states.shape[0]
        states, offsets, event = drawn.states[k], drawn.offsets[k], drawn.event[k]
        draw_corpus(seeds[b], design, hub, states, offsets, event, moved)
        tabulate(states, offsets, event, reference.bucket, triple, bucket, squares, endings)
        incidence_curves(endings, curves)
        triple_sum += triple
        bucket_sum += bucket
        curve_sum += curves
    drawn.filled[0] = drawn.states.shape[0] == seeds.size


@kernel
def _move(stream: Seeds, row: Floats, low: int, high: int, banned: int) -> int:
    """Draw a target in low .. high-1 in proportion to ``row``, never the banned one; -1 if none."""
    total = 0.0
    for j in range(low, high):
        if j != banned:
            total += row[j]
    if total <= 0.0:
        return -1
    u = _uniform(stream) * total
    chosen = -1
    for j in range(low, high):
        if j != banned and row[j] > 0.0:
            chosen = j
            u -= row[j]
            if u < 0.0:
                break
    return chosen


@kernel
def simulate_corpus(
    seed: int,
    start: Floats,
    P: Floats,
    cap: Ints,
    memory: float,
    early: float,
    early_steps: int,
    spread: float,
    slowness: Floats,
) -> tuple[States, Ints, Events]:
    """Simulate runs of a chain (rows of ``P``: states, success, failure) with a departure.

    With probability ``memory`` a step goes back to the state before. In the first
    ``early_steps`` steps exits are ``early`` times as likely and moves make up for it. Every
    stay has its odds of going on multiplied by exp(+spread) or exp(-spread), half and half. A run
    stays where it is with probability 1 - 1 / slowness at every step. A run that is still going
    after its cap is cut.
    """
    m = start.size
    stream = np.empty(1, dtype=np.uint64)
    stream[0] = seed
    states = np.empty(16 * cap.size, dtype=np.int32)
    offsets = np.zeros(cap.size + 1, dtype=np.int64)
    event = np.zeros(cap.size, dtype=np.int8)
    size = 0
    for run in range(cap.size):
        before = -1
        i = _move(stream, start, 0, m, -1)
        t = 0
        longer = 1.0
        while True:
            if size == states.size:
                grown = np.empty(2 * states.size, dtype=np.int32)
                grown[:size] = states
                states = grown
            states[size] = i
            size += 1
            if before != i:
                longer = np.exp(spread if _uniform(stream) < 0.5 else -spread)
            j = i
            if slowness[run] <= 1.0 or _uniform(stream) >= 1.0 - 1.0 / slowness[run]:
                if before >= 0 and memory > 0.0 and _uniform(stream) < memory:
                    j = before
                elif spread > 0.0 and P[i, i] > 0.0:
                    odds = P[i, i] * longer
                    if _uniform(stream) * (1.0 - P[i, i] + odds) >= odds:
                        j = _move(stream, P[i], 0, m + 2, i)
                else:
                    j = _move(stream, P[i], 0, m + 2, -1)
                    if j >= m and t < early_steps and _uniform(stream) >= early:
                        other = _move(stream, P[i], 0, m, -1)
                        j = other if other >= 0 else j
            t += 1
            if j >= m:
                event[run] = j - m + 1
                break
            if j < 0 or t >= cap[run]:
                break
            before = i
            i = j
        offsets[run + 1] = size
    return states[:size].copy(), offsets, event
