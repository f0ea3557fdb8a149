"""Random runs for the tests of the corpus: any field may take any value that it may have."""

from __future__ import annotations

from hypothesis import strategies as st

from sojourn.records import Actor, End, LimitKind, Outcome, Step, StepKind, Trace

TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
NUMBER = st.one_of(st.none(), st.integers(0, 2**31 - 1))
STEP = st.builds(
    Step,
    name=st.sampled_from(["a", "b", "é", "respond"]) | st.text(min_size=1, max_size=3),
    kind=st.sampled_from(StepKind),
    actor=st.sampled_from(Actor),
    ok=st.sampled_from([None, True, False]),
    n_calls=st.integers(0, 3) | st.just(2**31 - 1),
    digest=st.one_of(st.just(0), st.integers(0, 2**64 - 1)),
)


@st.composite
def one_trace(draw: st.DrawFn, number: int) -> Trace:
    """Draw a run; its job is its own, so that no two runs are the same attempt."""
    end = draw(st.sampled_from(End))
    steps = tuple(draw(st.lists(STEP, max_size=4)))
    return Trace(
        task_id=draw(st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)),
        task_set=draw(TEXT),
        task_repeat=draw(NUMBER),
        agent=draw(TEXT),
        model=draw(TEXT),
        outcome=draw(st.sampled_from(Outcome)),
        end=end,
        limit_kind=draw(st.none() | st.sampled_from(LimitKind)) if end is End.LIMIT else None,
        score=draw(st.none() | st.floats(allow_nan=False, allow_infinity=False)),
        cluster=draw(st.none() | st.text(min_size=1, max_size=3)),
        session_id=draw(st.none() | st.text(min_size=1, max_size=3)),
        position=draw(NUMBER),
        step_limit=draw(NUMBER),
        n_steps=None if steps else draw(NUMBER),
        steps=steps,
        job_id=f"job {number}",
        source_type=draw(TEXT),
        source_uri=draw(TEXT),
    )


TRACES = st.integers(0, 6).flatmap(lambda n: st.tuples(*(one_trace(i) for i in range(n)))).map(list)
