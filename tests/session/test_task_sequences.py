"""Task sequences: shapes are checked, pieces keep their place, nothing is left out silently."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.task_sequences import MISSING, TaskSequences


def three() -> TaskSequences:
    return TaskSequences.from_sessions(
        [([0, 1, 1], [1, 0, MISSING]), ([], []), ([1, MISSING], [1, 1])], ["a", "b"]
    )


def test_counts_shares_and_sizes():
    seq = three()
    assert (seq.n_sessions, seq.n_tasks, seq.n_subdomains, seq.n_observed) == (3, 5, 2, 4)
    np.testing.assert_array_equal(seq.lengths, [3, 0, 2])
    np.testing.assert_array_equal(seq.session, [0, 0, 0, 2, 2])
    counts = seq.counts()
    np.testing.assert_array_equal(counts.success, [1, 1])
    np.testing.assert_array_equal(counts.failure, [0, 1])
    np.testing.assert_allclose(seq.shares, [0.25, 0.75])


def test_shares_without_labels_are_uniform():
    seq = TaskSequences.from_sessions([([MISSING], [1])], ["a", "b"])
    np.testing.assert_allclose(seq.shares, 0.5)


def test_head_and_select_cut_the_right_tasks():
    seq = three()
    head = seq.head([2, 0, 1])
    np.testing.assert_array_equal(head.subdomain, [0, 1, 1])
    np.testing.assert_array_equal(head.success, [1, 0, 1])
    np.testing.assert_array_equal(head.offsets, [0, 2, 2, 3])
    np.testing.assert_array_equal(seq.head(99).success, seq.success)
    turned = seq.select([2, 0])
    np.testing.assert_array_equal(turned.success, [1, 1, 1, 0, MISSING])
    np.testing.assert_array_equal(turned.offsets, [0, 2, 5])


def test_arrays_are_copied_and_read_only():
    y = np.array([1, 0], dtype=np.int8)
    seq = TaskSequences(subdomain=[0, 0], success=y, offsets=[0, 2], subdomain_names=("a",))
    y[0] = 0
    assert seq.success[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        seq.success[0] = 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"success": [1]}, "2 subdomains, but 1 outcomes"),
        ({"success": [1, 2]}, "success must be 1, 0 or -1"),
        ({"subdomain": [0, 1]}, "subdomain must lie in 0 .. 0"),
        ({"offsets": [0, 1]}, "offsets must start at 0 and end"),
        ({"offsets": [0, 2, 1, 2]}, "offsets must not decrease"),
        ({"subdomain_names": ()}, "at least one subdomain"),
        ({"item": [1]}, "2 subdomains, but 1 items"),
    ],
)
def test_bad_input_is_refused(change, message):
    good = {"subdomain": [0, 0], "success": [1, 0], "offsets": [0, 2], "subdomain_names": ("a",)}
    with pytest.raises(ValueError, match=message):
        TaskSequences(**{**good, **change})
