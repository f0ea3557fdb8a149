"""The session log: order, gaps, repeated places, and what the mathematics sees of it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from sojourn.corpus import (
    Categorical,
    CorpusBuilder,
    Policy,
    SessionLog,
    SessionLogBuilder,
    TaskBatch,
    resolve,
)
from sojourn.records import End, OperationalProfile, Outcome, Skipped, TaskResult, Trace

FAILURE = Policy(faults="failure")
OUTCOME = {1: Outcome.SUCCESS, 0: Outcome.FAILURE, None: Outcome.UNSCORED}


def task(session: str, position: int, y: int | None = 1, **more: object) -> TaskResult:
    return TaskResult(session_id=session, position=position, outcome=OUTCOME[y], **more)  # type: ignore[arg-type]


def build(*tasks: TaskResult) -> SessionLog:
    builder = SessionLogBuilder()
    for item in tasks:
        builder.add(item)
    return builder.build()


def records(log: SessionLog) -> list[TaskResult]:
    return [log.task(row) for row in range(len(log))]


def told(log: SessionLog) -> list[tuple[str, str, int]]:
    return [(item.source, item.reason.split(";")[0], item.count) for item in log.skipped]


class TestBuilder:
    def test_records_come_back(self) -> None:
        full = task("s", 3, 0, end=End.LIMIT, domain="d", subdomain="x", item="i", agent="a",
                    model="m", tokens=7, started=12.5, source_type="t", source_uri="u")  # fmt: skip
        assert records(build(full)) == [full]
        bare = task("s", 0, None)
        got = records(build(bare))[0]
        assert got.domain == "all"
        assert (got.subdomain, got.item, got.tokens, got.started) == (None, None, None, None)

    def test_tasks_are_put_in_order_and_counted(self, rng: np.random.Generator) -> None:
        places = [(s, p) for s in "abc" for p in range(50)]
        shuffled = [places[k] for k in rng.permutation(len(places))]
        log = build(*(task(s, p) for s, p in shuffled))
        sessions = list(dict.fromkeys(s for s, _ in shuffled))
        assert log.sessions.name == tuple(sessions)
        assert [(t.session_id, t.position) for t in records(log)] == [
            (s, p) for s in sessions for p in range(50)
        ]
        late = sum(
            any(q > p for t, q in shuffled[:k] if t == s) for k, (s, p) in enumerate(shuffled)
        )
        assert log.n_unsorted == late > 100

    def test_a_task_that_stands_twice_is_not_counted_as_out_of_order(self) -> None:
        log = build(*(task("s", p) for p in (0, 1, 2, 0)))
        assert (log.n_unsorted, log.skipped[0].count) == (0, 1)
        assert build(*(task("s", p) for p in (0, 1, 3, 0, 2))).n_unsorted == 1

    def test_sorted_tasks_are_not_counted_as_unsorted(self) -> None:
        log = build(*(task(s, p, domain=d) for p in range(3) for s in "ba" for d in "xy"))
        assert (log.n_unsorted, log.skipped) == (0, ())

    def test_domains_that_count_for_themselves_are_sorted(self) -> None:
        log = build(*(task("s", p, domain=d) for d in "xy" for p in range(3)))
        assert (log.n_unsorted, log.position.tolist()) == (0, [0, 0, 1, 1, 2, 2])

    def test_batches_and_records_are_one(self) -> None:
        batch = TaskBatch(
            n_tasks=2,
            numbers={"outcome": np.array([0, 1]), "position": np.array([5, 4])},
            labels={"session_id": Categorical(codes=np.array([0, 0]), values=("s",))},
        )
        builder = SessionLogBuilder()
        builder.add(task("s", 6))
        builder.add_batch(batch)
        builder.add(task("t", 0, domain="all"))
        assert len(builder) == 4
        log = builder.build()
        assert log.position.tolist() == [4, 5, 6, 0]
        assert log.success().tolist() == [0, 1, 1, 1]
        assert log.domains == ("all",)
        assert records(builder.build()) == records(log)  # building does not use the builder up

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"numbers": {"outcome": np.zeros(1)}}, "lacks position"),
            ({"n_tasks": 2}, "has 1 rows in a batch of 2"),
            ({"labels": {"session_id": Categorical.missing(1)}}, "has no session_id"),
            ({"numbers": {"outcome": np.zeros(1), "position": -np.ones(1)}}, "has no position"),
            ({"labels": {"colour": Categorical.constant("x", 1)}}, "unknown columns .* colour"),
        ],
    )
    def test_a_bad_batch_is_refused(self, change: dict[str, object], message: str) -> None:
        good = {
            "n_tasks": 1,
            "numbers": {"outcome": np.zeros(1), "position": np.zeros(1)},
            "labels": {"session_id": Categorical.constant("s", 1)},
        }
        with pytest.raises(ValueError, match=message):
            SessionLogBuilder().add_batch(TaskBatch(**{**good, **change}))  # type: ignore[arg-type]

    def test_nothing_makes_an_empty_log(self) -> None:
        log = SessionLogBuilder().build()
        assert (len(log), log.n_sessions, log.domains, log.groups()) == (0, 0, (), [])
        with pytest.raises(ValueError, match="there is none"):
            log.task_sequences()

    def test_more_tasks_than_a_chunk(self) -> None:
        builder = SessionLogBuilder()
        n = (1 << 16) + 5
        for p in range(n):
            builder.add(task("s", p, p % 2))
        assert builder.build().success().sum() == n // 2

    def test_skips_add_up(self) -> None:
        builder = SessionLogBuilder()
        for _ in range(2):
            builder.skip(Skipped(source="f", reason="r"))
        assert builder.build().skipped == (Skipped(source="f", reason="r", count=2),)


class TestRepetition:
    def test_equal_tasks_are_kept_once(self) -> None:
        log = build(*(task("s", p, source_uri="f") for p in (0, 1, 1, 1)))
        assert len(log) == 2
        assert told(log) == [("f", "the same task stands there twice", 2)]

    def test_of_two_that_differ_the_first_is_kept(self) -> None:
        said = [(1, None), (0, None), (1, None), (1, "i")]
        log = build(*(task("s", 0, y, item=item, source_uri="f") for y, item in said))
        assert (len(log), log.success().tolist()) == (1, [1])
        assert told(log) == [
            ("f", "the same task stands there twice", 1),
            ("f", "two different tasks claim one position of a session", 2),
        ]

    def test_one_file_does_not_contradict_itself_into_two_sessions(self) -> None:
        log = build(task("s", 0, 1, source_uri="f"), task("s", 0, 0, source_uri="f"),
                    task("t", 0, source_uri="g"))  # fmt: skip
        assert log.sessions.name == ("s", "t")

    def test_two_domains_may_share_a_position(self) -> None:
        log = build(task("s", 0, domain="a"), task("s", 0, domain="b"))
        assert (len(log), log.skipped) == (2, ())

    def test_a_session_goes_on_in_another_file(self) -> None:
        log = build(task("s", 0, source_uri="f"), task("s", 1, source_uri="g"))
        assert (log.n_sessions, log.skipped) == (1, ())

    def test_a_copied_file_adds_nothing(self) -> None:
        log = build(*(task("s", p, p, source_uri=f) for f in "fg" for p in (0, 1)))
        assert (len(log), log.n_sessions) == (2, 1)
        assert told(log) == [("g", "the same task stands there twice", 2)]

    def test_files_that_contradict_each_other_hold_two_sessions(self) -> None:
        said = [("f", 0, 1), ("f", 1, 1), ("g", 0, 1), ("g", 1, 0)]
        log = build(*(task("s", p, y, source_uri=f) for f, p, y in said), task("t", 0))
        assert log.sessions.name == ("s (f)", "s (g)", "t")
        assert log.success().tolist() == [1, 1, 1, 0, 1]
        reason = "files contradict each other about a session of one name"
        assert sorted(told(log)) == [("f", reason, 1), ("g", reason, 1)]
        assert {item.what for item in log.skipped} == {"key"}

    @pytest.mark.parametrize("field", ["agent", "model"])
    def test_agents_and_models_have_sessions_of_their_own(self, field: str) -> None:
        log = build(*(task("s", 0, 1, **{field: name}) for name in "xy"))
        assert (log.n_sessions, log.skipped) == (2, ())
        assert [(str(group), rows.tolist()) for group, rows in log.groups()] == [
            ("x", [0]),
            ("y", [1]),
        ]
        assert [rows.tolist() for _, rows in log.groups(())] == [[0, 1]]

    def test_sessions_stand_in_the_order_of_their_beginning_if_all_tell_it(self) -> None:
        tasks = [task("late", 0, started=9.0), task("early", 0, started=1.0)]
        assert build(*tasks).sessions.name == ("early", "late")
        assert build(*tasks, task("unknown", 0)).sessions.name == ("late", "early", "unknown")


class TestSuccess:
    def test_it_follows_the_policy_of_runs(self) -> None:
        """Every end with every outcome: the same verdict as the runs' policy gives for rates."""
        pairs = [(outcome, end) for outcome in Outcome for end in End]
        traces = CorpusBuilder()
        for place, (outcome, end) in enumerate(pairs):
            traces.add(Trace(task_id="t", outcome=outcome, end=end, session_id="s", position=place))
        corpus = traces.build()
        log = SessionLog.from_traces(corpus)
        for policy in (Policy(), FAILURE, Policy(limits="failure")):
            resolved = resolve(corpus, policy)
            want = np.full(len(pairs), -1)
            want[resolved.index] = resolved.success
            assert log.success(policy).tolist() == want.tolist()

    def test_counts_and_outages(self) -> None:
        log = build(task("a", 0, 0), task("a", 1, None), task("b", 0, 1, domain="d"),
                    task("b", 1, 0), task("c", 0, None))  # fmt: skip
        counts = log.session_counts()
        assert [c.tolist() for c in counts] == [[2, 2, 1], [1, 2, 0], [0, 1, 0]]
        assert counts.is_outage.tolist() == [True, False, False]
        assert log.session_counts(policy=FAILURE).n_observed.tolist() == [2, 2, 1]
        assert log.session_counts(policy=FAILURE).is_outage.tolist() == [True, False, True]
        assert log.session_counts("d").n_tasks.tolist() == [0, 1, 0]


class TestSequences:
    def test_sessions_of_unequal_length(self) -> None:
        log = build(*(task("a", p, p % 2, subdomain="xy"[p % 2]) for p in range(3)), task("b", 9))
        sequences = log.task_sequences()
        assert sequences.offsets.tolist() == [0, 3, 4]
        assert sequences.success.tolist() == [0, 1, 0, 1]
        assert sequences.subdomain.tolist() == [0, 1, 0, -1]
        assert sequences.subdomain_names == ("x", "y")
        assert sequences.item is None

    def test_missing_outcomes_and_labels_keep_their_place(self) -> None:
        log = build(task("a", 0, 1, subdomain="x"), task("a", 1, None, subdomain="x"),
                    task("a", 2, 0), task("a", 3, 1, subdomain="y"))  # fmt: skip
        sequences = log.task_sequences()
        assert sequences.success.tolist() == [1, -1, 0, 1]
        assert sequences.subdomain.tolist() == [0, 0, -1, 1]
        assert log.task_sequences(policy=FAILURE).success.tolist() == [1, 0, 0, 1]

    def test_a_domain_without_labels_is_one_subdomain(self) -> None:
        log = build(task("a", 0), task("a", 2, 0), task("a", 3))
        sequences = log.task_sequences()
        assert sequences.subdomain_names == ("all",)
        assert sequences.subdomain.tolist() == [0, -1, 0, 0]

    def test_holes_are_tasks_of_which_nothing_is_known(self) -> None:
        log = build(*(task("a", p, 1, item=f"i{p}") for p in (4, 5, 8)), task("b", 7, 0, item="i4"))
        sequences = log.task_sequences()
        assert sequences.success.tolist() == [1, 1, -1, -1, 1, 0]
        assert sequences.offsets.tolist() == [0, 5, 6]
        assert log.gaps() == (1, 2, 0, 0)
        assert log.task_sequences(gaps="ignore").success.tolist() == [1, 1, 1, 0]
        # The shared item has one number, and each unknown task its own.
        assert sequences.item is not None
        item = sequences.item.tolist()
        assert item[0] == item[5]
        assert len(set(item)) == 5
        with pytest.raises(ValueError, match="gaps must be one of unseen, ignore"):
            log.task_sequences(gaps="fill")

    def test_positions_that_are_times_only_order(self) -> None:
        log = build(*(task("a", p) for p in (1_700_000_000, 1_700_000_060, 1_700_000_700)),
                    *(task("b", p) for p in (0, 1, 3)))  # fmt: skip
        assert log.task_sequences().success.tolist() == [1, 1, 1, 1, 1, -1, 1]
        assert log.gaps() == (1, 1, 1, 0)
        assert build(task("a", 0), task("a", 3)).gaps() == (1, 2, 0, 0)
        assert build(task("a", 0), task("a", 4)).gaps() == (0, 0, 1, 0)

    def test_other_domains_fill_no_holes_of_a_common_numbering(self) -> None:
        places = {0: "x", 1: "x", 2: "y", 3: "x", 5: "x", 6: "y", 8: "x", 9: "x"}
        log = build(*(task("s", p, 1, domain=d) for p, d in places.items()))
        # Between 3 and 5 one of x is unseen; 7 lies between the domains and belongs to neither.
        assert log.task_sequences("x").success.tolist() == [1, 1, 1, -1, 1, 1, 1]
        assert log.task_sequences("y").success.tolist() == [1, 1]
        assert (log.gaps("x"), log.gaps("y")) == ((1, 1, 0, 1), (0, 0, 0, 0))

    def test_domains_may_count_for_themselves(self) -> None:
        log = build(*(task("s", p, 1, domain="x") for p in (0, 1, 3)),
                    *(task("s", p, 0, domain="y") for p in (0, 2, 3)))  # fmt: skip
        assert log.task_sequences("x").success.tolist() == [1, 1, -1, 1]
        assert log.task_sequences("y").success.tolist() == [0, -1, 0, 0]

    def test_only_sessions_with_a_task_in_the_domain(self) -> None:
        log = build(task("a", 0, domain="x"), task("b", 0, domain="y"), task("c", 0, domain="x"))
        assert log.task_sequences("x").n_sessions == 2

    @pytest.mark.parametrize(("domain", "message"), [(None, "name one of .* x, y"), ("z", "x, y")])
    def test_which_domain_must_be_said(self, domain: str | None, message: str) -> None:
        log = build(task("a", 0, domain="x"), task("a", 1, domain="y"))
        with pytest.raises(ValueError, match=message):
            log.task_sequences(domain)

    def test_against_a_slow_version(self, rng: np.random.Generator) -> None:
        """Random sessions of two domains, walked task by task."""
        tasks = []
        for s in range(6):
            for p in np.flatnonzero(rng.random(40) < 0.7).tolist():
                y = [0, 1, None][rng.choice(3, p=[0.3, 0.6, 0.1])]
                label = [None, "u", "v"][rng.integers(3)]
                tasks.append(task(str(s), p, y, subdomain=label, domain="xy"[rng.integers(2)]))
        log = build(*(tasks[k] for k in rng.permutation(len(tasks))))
        for domain in "xy":
            got = log.task_sequences(domain)
            names = (*got.subdomain_names, None)
            for place, session in enumerate(log.sessions.name):
                part = slice(got.offsets[place], got.offsets[place + 1])
                want = slow_sequence([t for t in tasks if t.session_id == session], domain)
                labels = [names[code] for code in got.subdomain[part]]
                assert list(zip(labels, got.success[part].tolist(), strict=True)) == want


def slow_sequence(tasks: list[TaskResult], domain: str) -> list[tuple[str | None, int]]:
    ordered = sorted(tasks, key=lambda t: t.position)
    holes = sum(
        b.position - a.position - 1 for a, b in pairwise(ordered) if a.domain == b.domain == domain
    )
    fill = holes <= sum(t.domain == domain for t in ordered)
    sequence: list[tuple[str | None, int]] = []
    last: TaskResult | None = None
    for t in ordered:
        if t.domain == domain:
            if fill and last is not None and last.domain == domain:
                sequence += [(None, -1)] * (t.position - last.position - 1)
            y = {Outcome.SUCCESS: 1, Outcome.FAILURE: 0, Outcome.UNSCORED: -1}[t.outcome]
            sequence.append((t.subdomain, y))
        last = t
    return sequence


class TestSelection:
    def test_of_sessions_and_of_tasks(self) -> None:
        log = build(*(task(s, p) for s in "abc" for p in range(2)))
        assert [t.session_id for t in records(log.select_sessions(np.array([2, 0])))] == list(
            "aacc"
        )
        assert len(log.select_sessions(np.array([False, True, False]))) == 2
        assert log.select(np.array([5, 0])).position.tolist() == [0, 1]
        assert log.select(log.position == 1).n_sessions == 3

    def test_columns_must_fit(self) -> None:
        log = build(task("a", 0), task("a", 1))
        with pytest.raises(ValueError, match="sorted by session and position"):
            log.replace(position=np.array([1, 0]))
        with pytest.raises(ValueError, match="item has another number of rows"):
            log.replace(item=Categorical.missing(1))
        with pytest.raises(ValueError, match=r"session must lie in 0 \.\. 0"):
            log.replace(session=np.array([0, 1]))
        with pytest.raises(ValueError, match="every task must have a domain"):
            log.replace(domain=Categorical.missing(2))
        with pytest.raises(ValueError, match="by must be one of agent, model"):
            log.groups(("task_set",))


class TestProfile:
    @pytest.fixture
    def log(self) -> SessionLog:
        return build(*(task("s", p, 1, domain="x", subdomain="ab"[p == 3]) for p in range(4)),
                     task("s", 4, domain="x"), task("s", 5, domain="y"))  # fmt: skip

    def test_shares_of_the_data(self, log: SessionLog) -> None:
        profile = log.profile()
        assert profile.domains == {"x": 5 / 6, "y": 1 / 6}  # the unlabelled task of x counts
        assert profile.subdomains == {"x": {"a": 0.75, "b": 0.25}, "y": {"y": 1.0}}
        shares = log.task_sequences("x").shares
        assert profile.subdomain_weights("x", log.subdomains("x")) == tuple(shares)

    def test_equal_weights(self, log: SessionLog) -> None:
        profile = log.profile(uniform=True)
        assert (profile.domains, profile.source) == ({"x": 0.5, "y": 0.5}, "uniform")
        assert profile.subdomains["x"] == {"a": 0.5, "b": 0.5}

    def test_what_is_stated_goes_first(self, log: SessionLog) -> None:
        stated = OperationalProfile(subdomains={"x": {"b": 1.0}})
        profile = log.profile(stated)
        assert (profile.domains, profile.source) == ({"x": 1.0}, "file")
        assert profile.subdomain_weights("x", log.subdomains("x")) == (0.0, 1.0)
        assert log.profile(OperationalProfile(domains={"y": 1.0})).subdomains == {"y": {"y": 1.0}}

    @pytest.mark.parametrize(
        ("stated", "message"),
        [
            ({"domains": {"z": 1.0}}, r"domains\.z: the data hold no 'z'; they hold x, y"),
            ({"subdomains": {"x": {"c": 1.0}}}, r"subdomains\.x\.c: the data hold no 'c'; .* a, b"),
            ({"subdomains": {"z": {"c": 1.0}}}, r"domains\.z: the data hold no 'z'"),
        ],
    )
    def test_unknown_names_are_errors(
        self, log: SessionLog, stated: dict[str, object], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            log.profile(OperationalProfile(**stated))  # type: ignore[arg-type]


class TestFromTraces:
    def test_runs_become_tasks(self) -> None:
        builder = CorpusBuilder()
        for place in (1, 0, 2):
            builder.add(
                Trace(task_id=f"t{place}", task_set="web", cluster="shop", session_id="s",
                      outcome=OUTCOME[place % 2], position=place, agent="a", model="m")
            )  # fmt: skip
        builder.add(Trace(task_id="loose", outcome=Outcome.SUCCESS))
        builder.add(Trace(task_id="half", outcome=Outcome.SUCCESS, session_id="s"))
        builder.skip(Skipped(source="f", reason="r"))
        corpus = builder.build()
        log = SessionLog.from_traces(corpus)
        assert [(t.item, t.outcome) for t in records(log)] == [
            ("web/t0", Outcome.FAILURE), ("web/t1", Outcome.SUCCESS), ("web/t2", Outcome.FAILURE)
        ]  # fmt: skip
        first = log.task(0)
        assert (first.domain, first.subdomain, first.agent, first.model) == (
            "web",
            "shop",
            "a",
            "m",
        )
        assert [s.count for s in log.skipped] == [1, 2]
        other = SessionLog.from_traces(corpus, domain="agent", subdomain="task_set")
        assert (other.domains, other.subdomains()) == (("a",), ("web",))

    def test_runs_of_no_session_are_an_error(self) -> None:
        builder = CorpusBuilder()
        builder.add(Trace(task_id="loose", outcome=Outcome.SUCCESS))
        with pytest.raises(ValueError, match="no run says which session"):
            SessionLog.from_traces(builder.build())
        with pytest.raises(ValueError, match="domain must be one of"):
            SessionLog.from_traces(builder.build(), domain="colour")


@pytest.mark.parametrize(
    ("change", "message"),
    [({"session_id": ""}, "session_id is empty"), ({"position": -1}, "position is -1"),
     ({"tokens": 2**31}, "tokens is"), ({"started": float("nan")}, "started is nan")],
)  # fmt: skip
def test_a_bad_record_cannot_exist(change: dict[str, object], message: str) -> None:
    good = {"session_id": "s", "position": 0, "outcome": Outcome.SUCCESS}
    with pytest.raises(ValueError, match=message):
        TaskResult(**{**good, **change})  # type: ignore[arg-type]
