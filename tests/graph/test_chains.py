import numpy as np
import pytest

from intarsia.exceptions import InvalidInputError
from intarsia.graph.chains import ChainBatch

NODES, TABLE = np.zeros((3, 2)), np.zeros((2, 2))


def test_sizes():
    batch = ChainBatch(NODES, [0, 2, 3], TABLE)
    assert (batch.n_sequences, batch.n_positions, batch.n_labels, batch.n_steps) == (2, 3, 2, 1)
    assert not batch.has_table_per_step
    assert repr(ChainBatch(NODES, [0, 2, 3], np.zeros((1, 2, 2)))).endswith("2 labels, a table per step)")


def test_arrays_cannot_be_written_to_and_are_not_copied():
    nodes = NODES.copy()
    batch = ChainBatch(nodes, [0, 3], TABLE, start=np.zeros(2))
    assert np.shares_memory(batch.nodes, nodes)
    for array in (batch.nodes, batch.ptr, batch.transitions, batch.start):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    nodes[0, 0] = 1.0  # the caller's array remains writable


def test_parts_have_the_tables_of_their_steps():
    tables = np.arange(16.0).reshape(4, 2, 2)
    batch = ChainBatch(np.arange(14.0).reshape(7, 2), [0, 3, 4, 7], tables, end=[1.0, 2.0])
    part = batch.part(1, 3)
    np.testing.assert_array_equal(part.ptr, [0, 1, 4])
    np.testing.assert_array_equal(part.nodes, batch.nodes[3:])
    np.testing.assert_array_equal(part.transitions, tables[2:])
    np.testing.assert_array_equal(part.end, [1.0, 2.0])
    assert batch.part(3, 3).n_sequences == 0
    with pytest.raises(InvalidInputError, match=r"no sequences 2 \.\. 3\. Pass a range within 0 \.\. 2"):
        batch.part(2, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nodes": np.zeros(3)}, r"nodes has shape \(3,\)\. Pass one row per position"),
        ({"nodes": np.zeros((3, 0))}, r"nodes has shape \(3, 0\)"),
        ({"ptr": [0, 2]}, r"ptr has shape \(2,\) from 0 to 2, but must increase from 0 to 3"),
        ({"ptr": []}, r"ptr has shape \(0,\), but must increase"),
        ({"ptr": [0, 3, 3]}, r"sequence 1 has 0 positions, but needs at least 1\. Leave empty"),
        ({"ptr": [0, 4, 3]}, r"sequence 1 has -1 positions"),
        ({"ptr": [0, 1.5, 3]}, "ptr: expected integers"),
        ({"transitions": np.zeros((3, 3))}, r"transitions has shape \(3, 3\)\. Pass \(2, 2\) .* or \(1, 2, 2\)"),
        ({"transitions": np.zeros((2, 2, 2))}, r"transitions has shape \(2, 2, 2\)"),
        ({"start": np.zeros(3)}, r"start has shape \(3,\)\. Pass shape \(2,\)"),
        ({"end": [0.0, np.inf]}, r"end\[1\] is inf\. Pass finite scores"),
        ({"nodes": [[0, 0], [0, np.nan], [0, 0]]}, r"nodes\[1, 1\] is nan"),
        ({"transitions": [[0, 0], [-1e250, -np.inf]]}, r"transitions\[1, 0\] is -1e\+250"),
        ({"nodes": [["a", "b"]] * 3}, "nodes: expected numbers"),
    ],
)
def test_invalid_arguments(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        ChainBatch(**{"nodes": NODES, "ptr": [0, 2, 3], "transitions": TABLE, **arguments})


@pytest.mark.parametrize("allowed", [np.ones((3, 2)), np.ones((2, 3), dtype=bool)])
def test_a_mask_of_another_shape_or_type_raises(allowed):
    with pytest.raises(InvalidInputError, match=r"expected a bool array of shape \(3, 2\), got"):
        ChainBatch(NODES, [0, 2, 3], TABLE).restricted(allowed)
