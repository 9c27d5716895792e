import numpy as np
import pytest
from tests.zoo import factors

from intarsia import FactorGraph, chain_graph, grid_graph
from intarsia.exceptions import InvalidInputError
from intarsia.losses import TrainingLabels, UnivariateLogistic, training_labels

RAGGED = factors([2, 3, 1], [(0, 1), (1, 2)])


def test_integer_labels_with_hidden_ones():
    labels = training_labels(RAGGED, [-1, 2, 0])
    assert labels.allowed.tolist() == [True, True, False, False, True, True]
    assert labels.observed.tolist() == [False, True, True]
    assert labels.hidden.tolist() == [True, False, False]
    assert labels.y.tolist() == [-1, 2, 0]
    assert not labels.complete


def test_boolean_labels():
    labels = training_labels(RAGGED, np.array([True, False, True, True, False, True]))
    assert labels.observed.tolist() == [True, False, True]
    assert labels.hidden.tolist() == [False, False, False]
    assert labels.y.tolist() == [0, -1, 0]
    square = training_labels(chain_graph(2, 3), np.eye(3, dtype=bool)[[2, 0]])
    assert square.complete
    assert square.y.tolist() == [2, 0]


def test_a_single_state_is_observed_even_when_hidden():
    labels = training_labels(RAGGED, [-1, -1, -1])
    assert labels.observed.tolist() == [False, False, True]
    assert labels.y.tolist() == [-1, -1, 0]


def test_all_hidden_and_no_variables():
    assert training_labels(chain_graph(4, 2), np.full(4, -1)).hidden.all()
    empty = training_labels(factors(np.empty(0, dtype=int), []), [])
    assert empty.complete
    assert empty.y.size == 0


def test_labels_are_read_only_copies():
    given = np.ones(6, dtype=bool)
    labels = training_labels(RAGGED, given)
    given[0] = False
    assert labels.allowed.all()
    with pytest.raises(ValueError, match="read-only"):
        labels.allowed[0] = False
    assert training_labels(RAGGED, labels) is labels
    assert repr(labels) == "TrainingLabels(3 variables: 1 observed, 2 hidden, 0 with a set)"


def test_unsigned_labels_are_accepted():
    assert training_labels(chain_graph(2, 2), np.array([0, 1], dtype=np.uint8)).y.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 3, 0], r"y\[1\] is 3, but variable 1 has states 0\.\.2\. Pass .* use -1 for a hidden label"),
        ([0, -2, 0], r"y\[1\] is -2, but variable 1 has states 0\.\.2"),
        ([0, 1], r"y has shape \(2,\), but the graph has 3 variables\. Pass one label per variable, shape \(3,\)"),
        ([[0, 1, 0]], r"y has shape \(1, 3\)"),
        (0, r"y has shape \(\)"),
        ([0.0, 1.0, 0.0], "labels must be integers, got dtype float64. Pass integers; use -1"),
        ([0.5, 1.0, np.nan], "labels must be integers, got dtype float64"),
        (["a", "b", "c"], "labels must be integers, got dtype <U1"),
        ([0, None, 0], "labels must be integers, got dtype object"),
        ([[0], [1, 2], [0]], "y is a ragged list"),
        ([True, False, True], r"y is boolean, so it marks allowed states, and needs shape \(6,\); got \(3,\)"),
        (np.ones((3, 2), dtype=bool), r"needs shape \(6,\); got \(3, 2\)"),
        ([True, True, False, False, False, True], "variable 1 has no allowed state. Allow at least one"),
    ],
)
def test_invalid_labels_are_refused(y, message):
    with pytest.raises(InvalidInputError, match=message):
        training_labels(RAGGED, y)


def test_equal_state_counts_accept_a_matrix():
    with pytest.raises(InvalidInputError, match=r"needs shape \(4, 2\) or \(8,\); got \(2, 4\).*y\.astype\(int\)"):
        training_labels(grid_graph(2, 2, 2), np.ones((2, 4), dtype=bool))


def test_names_are_in_the_message():
    graph = FactorGraph([2, 2], [0, 2], [0, 1], names=("rain", "wet"))
    with pytest.raises(InvalidInputError, match=r"y\[1\] is 2, but variable 1 \('wet'\) has states 0\.\.1"):
        training_labels(graph, [0, 2])
    with pytest.raises(InvalidInputError, match=r"variable 0 \('rain'\) has no allowed state"):
        training_labels(graph, [[False, False], [True, True]])


def test_weights_of_variables():
    given = np.array([0.0, 2.0, 0.5])
    labels = training_labels(RAGGED, [-1, 2, 0], given)
    given[:] = 9.0
    assert labels.weights.tolist() == [0.0, 2.0, 0.5]
    with pytest.raises(ValueError, match="read-only"):
        labels.weights[0] = 1.0
    assert training_labels(RAGGED, labels) is labels
    again = training_labels(RAGGED, labels, [1, 1, 1])
    assert again.weights.tolist() == [1.0, 1.0, 1.0]
    assert again.y.tolist() == labels.y.tolist()
    sets = training_labels(RAGGED, [True, False, True, True, False, True], [1.0, 2.0, 3.0])
    assert sets.weights.tolist() == [1.0, 2.0, 3.0]
    assert training_labels(RAGGED, [-1, 2, 0]).weights is None


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 1.0], r"weights have shape \(2,\), but the graph has 3 variables\. Pass one weight per variable"),
        (1.0, r"weights have shape \(\)"),
        ([1.0, -1.0, 1.0], r"weights\[1\] of variable 1 is -1\.0\. Weights must be finite and at least 0"),
        ([np.nan, 1.0, 1.0], r"weights\[0\] of variable 0 is nan"),
        ([1.0, 1.0, np.inf], r"weights\[2\] of variable 2 is inf"),
        (["a", "b", "c"], "training_labels: weights: expected numbers"),
    ],
)
def test_invalid_weights_are_refused(weights, message):
    for y in ([0, 0, 0], training_labels(RAGGED, [0, 0, 0])):
        with pytest.raises(InvalidInputError, match=message):
            training_labels(RAGGED, y, weights)


def test_labels_of_another_graph_are_refused():
    labels = training_labels(chain_graph(3, 2), [0, 0, 0])
    with pytest.raises(InvalidInputError, match="these labels are of 3 variables"):
        training_labels(RAGGED, labels)
    with pytest.raises(InvalidInputError, match=r"UnivariateLogistic: the labels are of 3 variables"):
        UnivariateLogistic().value_and_gradient(RAGGED, RAGGED.zeros(), labels)
    with pytest.raises(InvalidInputError, match=r"must be TrainingLabels, got list. Use training_labels\(graph, y\)"):
        UnivariateLogistic().value_and_gradient(RAGGED, RAGGED.zeros(), [0, 0, 0])
    assert isinstance(labels, TrainingLabels)
