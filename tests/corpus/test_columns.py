from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.corpus import Categorical, StepTypes
from sojourn.corpus.columns import Interner, combinations, step_key
from sojourn.records import Actor, Step, StepKind


def test_interner_numbers_in_order_of_first_sight() -> None:
    interner: Interner[str] = Interner()
    assert interner.translate(["b", "a", "b", "c"]).tolist() == [0, 1, 0, 2]
    assert interner.code("a") == 1
    assert interner.values == ("b", "a", "c")
    assert len(interner) == 3
    assert interner.translate([]).dtype == np.int32


def test_categorical_looks_up_and_selects() -> None:
    column = Categorical(codes=np.array([1, -1, 0, 1]), values=("a", "b", "unused"))
    assert [column[run] for run in range(4)] == ["b", None, "a", "b"]
    assert len(column) == 4
    assert column.used() == ("a", "b")
    picked = column.select(np.array([3, 1]))
    assert [picked[0], picked[1]] == ["b", None]
    assert Categorical.constant("x", 2)[1] == "x"
    assert Categorical.missing(2)[1] is None


@pytest.mark.parametrize("code", [-2, 2])
def test_categorical_refuses_codes_out_of_range(code: int) -> None:
    with pytest.raises(ValueError, match="codes must lie in"):
        Categorical(codes=np.array([0, code]), values=("a", "b"))


def test_categorical_copies_and_freezes() -> None:
    codes = np.zeros(2, np.int32)
    column = Categorical(codes=codes, values=("a",))
    codes[0] = -1
    assert column[0] == "a"
    with pytest.raises(ValueError, match="read-only"):
        column.codes[0] = -1


STEPS = st.builds(
    Step,
    name=st.text(max_size=3),
    kind=st.sampled_from(StepKind),
    actor=st.sampled_from(Actor),
    ok=st.sampled_from([None, True, False]),
    n_calls=st.integers(0, 2**31 - 1),
)


@given(st.lists(STEPS, unique=True))
@settings(deadline=None)
def test_step_types_give_back_their_steps(steps: list[Step]) -> None:
    types = StepTypes.from_keys([step_key(step) for step in steps])
    assert len(types) == len(steps)
    assert [types.step(code) for code in range(len(types))] == steps
    assert StepTypes.from_keys(types.keys()).keys() == types.keys()
    assert len(set(types.names)) == len(types.names)


def test_step_types_refuse_columns_of_different_length() -> None:
    with pytest.raises(ValueError, match="kind has 1 rows, name has 2"):
        StepTypes(names=("a",), name=[0, 0], actor=[0, 0], kind=[0], ok=[0, 0], n_calls=[1, 1])


COLUMNS = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.tuples(*[st.one_of(st.integers(-1, 3), st.just(2**31 - 1))] * width), max_size=30
    ).map(lambda rows: (width, rows))
)


@given(COLUMNS)
@settings(deadline=None)
def test_combinations_against_a_dictionary(drawn: tuple[int, list[tuple[int, ...]]]) -> None:
    width, rows = drawn
    columns = list(np.array(rows, np.int32).reshape(-1, width).T)
    first, code = combinations(columns)
    seen: dict[tuple[int, ...], int] = {}
    assert code.tolist() == [seen.setdefault(row, len(seen)) for row in rows]
    assert first.tolist() == [rows.index(row) for row in seen]
