"""A log of sessions that was written is read back as it was, whatever the form of the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sojourn.corpus import Policy, SessionLog, SessionLogBuilder, write_sessions
from sojourn.corpus.session_files import SESSION_SUFFIXES
from sojourn.corpus.simulated import log_of_sequences
from sojourn.readers import read_sessions
from sojourn.records import End, Outcome, TaskResult
from sojourn.session.simulate import simulate_sessions


def awkward_log() -> SessionLog:
    """Every way of having no verdict, two agents under one id, hostile names, a hole."""
    builder = SessionLogBuilder()
    ends = [
        (Outcome.SUCCESS, End.FINISHED),
        (Outcome.FAILURE, End.FINISHED),
        (Outcome.UNSCORED, End.FINISHED),
        (Outcome.SUCCESS, End.INFRA_ERROR),
        (Outcome.UNSCORED, End.LIMIT),
        (Outcome.FAILURE, End.CANCELLED),
        (Outcome.UNSCORED, End.AGENT_ERROR),
    ]
    for agent in ("one", 'two,"\n=x()'):
        for place, (outcome, end) in enumerate(ends):
            builder.add(
                TaskResult(
                    session_id="s, é\n1",
                    position=place if place < 5 else place + 3,
                    outcome=outcome,
                    end=end,
                    domain="d",
                    subdomain=None if place == 2 else f"kind {place % 2}",
                    item=f"item {place}",
                    agent=agent,
                    tokens=place or None,
                )
            )
    return builder.build()


@pytest.mark.parametrize("suffix", SESSION_SUFFIXES)
def test_what_is_written_is_read_back(suffix: str, tmp_path: Path) -> None:
    log = awkward_log()
    write_sessions(log, tmp_path / f"log{suffix}")
    back = read_sessions(tmp_path / f"log{suffix}")
    for policy in (Policy(), Policy(faults="failure")):
        for (group, rows), (back_group, back_rows) in zip(log.groups(), back.groups(), strict=True):
            assert group == back_group
            whole = log.select(rows).task_sequences(policy=policy)
            again = back.select(back_rows).task_sequences(policy=policy)
            np.testing.assert_array_equal(whole.success, again.success)
            np.testing.assert_array_equal(whole.subdomain, again.subdomain)
            np.testing.assert_array_equal(whole.offsets, again.offsets)
            np.testing.assert_array_equal(whole.item, again.item)
            assert whole.subdomain_names == again.subdomain_names
    assert back.sessions.name == log.sessions.name
    np.testing.assert_array_equal(back.tokens, log.tokens)


def test_another_suffix_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.parquet, \.csv, \.jsonl"):
        write_sessions(awkward_log(), tmp_path / "log.xlsx")
    assert list(tmp_path.iterdir()) == []


def test_simulated_sessions_become_the_log_they_are() -> None:
    drawn = simulate_sessions(
        [5, 1, 40],
        transition=[[0.9, 0.1], [0.2, 0.8]],
        success_prob=[[0.9, 0.3], [0.7, 0.2]],
        missing_outcomes=0.2,
        missing_labels=0.2,
        rng=3,
    ).sequences
    again = log_of_sequences(drawn, domain="d").task_sequences()
    order = [drawn.subdomain_names.index(name) for name in again.subdomain_names]
    label = np.append(order, -1)[again.subdomain]
    np.testing.assert_array_equal(label, drawn.subdomain)
    np.testing.assert_array_equal(again.success, drawn.success)
    np.testing.assert_array_equal(again.offsets, drawn.offsets)
