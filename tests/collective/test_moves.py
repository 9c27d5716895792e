"""Possible moves between cells, their features and tables."""

import numpy as np
import pytest
from scipy import sparse

from intarsia.collective import all_moves, make_moves, move_tables, moves_within
from intarsia.exceptions import InvalidInputError


def test_moves_within_a_radius_by_hand():
    grid = np.stack(np.divmod(np.arange(6), 3), axis=1)  # 2 x 3 cells
    moves = moves_within(grid, 1.0, ["stay", "distance", "squared_distance", "axis_0", "axis_1"])
    at = slice(moves.ptr[1], moves.ptr[2])  # the middle of the first row
    assert moves.idx[at].tolist() == [0, 1, 2, 4]
    assert moves.features[at].tolist() == [[0, 1, 1, 0, -1], [1, 0, 0, 0, 0], [0, 1, 1, 0, 1], [0, 1, 1, 1, 0]]


def test_make_moves_reads_features_at_possible_moves():
    possible = np.array([[1, 0, 2], [0, 3, 0], [1, 1, 0]])
    values = np.arange(9.0).reshape(3, 3)
    dense = make_moves(possible, {"a": values})
    thin = make_moves(sparse.coo_array(possible), {"a": sparse.csr_array(values)})
    for moves in (dense, thin):
        assert moves.idx.tolist() == [0, 2, 1, 0, 1]
        assert moves.features.ravel().tolist() == [0, 2, 4, 6, 7]
    np.testing.assert_array_equal(dense.matrix(np.ones(5)).toarray(), possible > 0)


def test_log_softmax_normalises_the_moves_of_each_cell():
    moves = make_moves([[1, 1, 0], [0, 1, 0], [1, 1, 1]])
    logs = moves.log_softmax(np.array([1000.0, 1000.0, -5.0, 0.0, np.log(2.0), 0.0]))
    np.testing.assert_allclose(np.exp(logs), [0.5, 0.5, 1.0, 0.25, 0.5, 0.25])


def test_storage_depends_on_the_pattern_of_moves():
    line = moves_within(np.arange(60.0)[:, None], 2.0)
    shuffled = moves_within(np.random.default_rng(0).permutation(60).astype(float)[:, None], 2.0)
    ones = [moves.matrix(np.ones(moves.idx.size)) for moves in (line, shuffled, all_moves(5))]
    made = [move_tables(one, 3) for one in ones]
    assert [(one.dense, one.reach) for one in made] == [(False, 2), (False, None), (True, None)]


def test_tables_of_steps_share_the_union_of_moves():
    first, second = (
        sparse.coo_array(([1.0], ([0], [1])), shape=(9, 9)),
        sparse.coo_array(([2.0], ([1], [0])), shape=(9, 9)),
    )
    tables = move_tables([first, second], 3)
    assert tables.theta.tolist() == [[1.0, -np.inf], [-np.inf, 2.0]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_moves([[1, 0], [0, 0]]), "no move starts in cell 1"),
        (lambda: make_moves(np.ones((2, 3))), "square"),
        (lambda: make_moves(np.eye(2), {"a": np.ones(3)}), "feature 'a' must have shape"),
        (lambda: make_moves(np.eye(2), {"a": np.full((2, 2), np.nan)}), "feature 'a' of move 0"),
        (lambda: moves_within([[0.0, np.nan]], 1.0), "positions must be finite"),
        (lambda: moves_within([[0.0]], 0.0), "radius"),
        (lambda: moves_within([[0.0]], 1.0, ["axis_1"]), "feature='axis_1' is not known"),
        (lambda: move_tables([], 3), "no table"),
        (lambda: move_tables(sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(9, 9)), 2), "twice"),
    ],
)
def test_invalid_input(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
