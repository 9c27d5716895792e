import gc

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.losses.labelled_models import (
    FEASIBLE,
    SOME,
    SORTS,
    as_sets,
    check_slopes,
    learning_model,
    some_labels,
    unshared,
    weighted,
)
from tests.oracles.enumeration import enumerate_model
from tests.oracles.likelihoods import conditional_negative_log_likelihood, negative_log_likelihood
from tests.random_models import random_models

from intarsia import chain_graph, grid_graph
from intarsia.exceptions import InvalidInputError
from intarsia.losses import PatchPseudoLikelihood, PseudoLikelihood, training_labels
from intarsia.losses.pseudo_likelihood import _CONDITIONED


def lists_of(patch_of):
    return [np.flatnonzero(patch_of == p).tolist() for p in range(int(patch_of.max(initial=-1)) + 1)]


@pytest.mark.parametrize("sort", SORTS)
def test_pseudo_likelihood_is_the_sum_of_conditionals(sort):
    for k, name in enumerate(FEASIBLE):
        graph, theta = learning_model(name)
        labels = some_labels(name, sort, seed=k)
        allowed = as_sets(graph, labels)
        singles = [[v] for v in range(graph.n_variables)]
        value, gradient = PseudoLikelihood().value_and_gradient_theta(graph, theta, labels)
        expected = conditional_negative_log_likelihood(graph, theta, allowed, singles)
        assert value == pytest.approx(expected, rel=1e-10, abs=1e-10), name
        check_slopes(
            lambda t, g=graph, a=allowed, p=singles: conditional_negative_log_likelihood(g, t, a, p),
            theta, gradient, n_directions=1, tol=1e-6,
        )  # fmt: skip


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("name", SOME)
def test_patches_are_conditionals_too(name, sort):
    graph, theta = learning_model(name)
    labels = some_labels(name, sort, seed=8)
    allowed = as_sets(graph, labels)
    patch_of = np.random.default_rng(len(name)).integers(0, 3, graph.n_variables)
    loss = PatchPseudoLikelihood(patch=7 - 2 * patch_of)  # any patch numbers are valid
    patches = lists_of(loss.patches(graph))
    value, gradient = loss.value_and_gradient_theta(graph, theta, labels)
    expected = conditional_negative_log_likelihood(graph, theta, allowed, patches)
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-9)
    check_slopes(
        lambda t: conditional_negative_log_likelihood(graph, t, allowed, patches),
        theta, gradient, n_directions=1, tol=1e-6,
    )  # fmt: skip


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("name", SOME)
def test_between_pseudo_likelihood_and_likelihood(name, sort):
    graph, theta = learning_model(name)
    labels = some_labels(name, sort, seed=9)
    whole = PatchPseudoLikelihood(patch=np.zeros(graph.n_variables, dtype=int))
    exact = negative_log_likelihood(graph, theta, as_sets(graph, labels))
    assert whole.value_and_gradient_theta(graph, theta, labels)[0] == pytest.approx(exact, rel=1e-9, abs=1e-9)
    singles = PatchPseudoLikelihood(patch=np.arange(graph.n_variables))
    value, gradient = singles.value_and_gradient_theta(graph, theta, labels)
    other, slope = PseudoLikelihood().value_and_gradient_theta(graph, theta, labels)
    assert value == pytest.approx(other, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(gradient, slope, atol=1e-9)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(random_models(max_assignments=300), st.data())
def test_any_model_any_patches(model, data):
    graph, theta = unshared(*model)
    possible = enumerate_model(graph, theta).labellings
    assume(len(possible))
    allowed = np.zeros(int(graph.variable_ptr[-1]), dtype=bool)
    allowed[graph.variable_ptr[:-1] + possible[data.draw(st.integers(0, len(possible) - 1))]] = True
    allowed |= np.array(data.draw(st.lists(st.booleans(), min_size=allowed.size, max_size=allowed.size)), dtype=bool)
    labels = training_labels(graph, allowed)
    n = graph.n_variables
    patch_of = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    loss = PatchPseudoLikelihood(patch=patch_of, inference="brute_force")
    value, _ = loss.value_and_gradient_theta(graph, theta, labels)
    sets = as_sets(graph, labels)
    expected = conditional_negative_log_likelihood(graph, theta, sets, lists_of(loss.patches(graph)))
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-9)
    single, _ = PseudoLikelihood().value_and_gradient_theta(graph, theta, labels)
    expected = conditional_negative_log_likelihood(graph, theta, sets, [[v] for v in range(n)])
    assert single == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_tiles_of_a_grid():
    graph = grid_graph(3, 5, 2)
    tiles = PatchPseudoLikelihood(patch=(2, 3)).patches(graph).reshape(3, 5)
    assert tiles.tolist() == [[0, 0, 0, 1, 1], [0, 0, 0, 1, 1], [2, 2, 2, 3, 3]]
    square = PatchPseudoLikelihood(patch=2).patches(graph)
    np.testing.assert_array_equal(square, PatchPseudoLikelihood(patch=(2, 2)).patches(graph))
    theta = np.random.default_rng(0).standard_normal(graph.n_theta)
    labels = training_labels(graph, np.random.default_rng(1).integers(0, 2, 15))
    value, _ = PatchPseudoLikelihood(patch=2).value_and_gradient_theta(graph, theta, labels)
    expected = conditional_negative_log_likelihood(graph, theta, as_sets(graph, labels), lists_of(square))
    assert value == pytest.approx(expected)


def test_variables_next_to_hidden_ones_are_excluded():
    graph = chain_graph(4, 2)
    theta = np.random.default_rng(0).standard_normal(graph.n_theta)
    _, gradient = PseudoLikelihood().value_and_gradient_theta(graph, theta, training_labels(graph, [0, -1, 1, 0]))
    # Only the last variable has no hidden neighbour; it changes its scores and those of its factor.
    assert not gradient[:6].any()
    assert gradient[6:8].any()
    assert [bool(graph.table(gradient, c).any()) for c in range(3)] == [False, False, True]


@pytest.mark.parametrize("name", ["grid", "unequal_state_counts", "three_way_factor", "hard_zeros"])
def test_weights_count_terms(name):
    graph, theta = learning_model(name)
    for k, sort in enumerate(SORTS):
        labels = weighted(graph, some_labels(name, sort, seed=k), seed=k)
        sets, singles = as_sets(graph, labels), [[v] for v in range(graph.n_variables)]
        patches = PatchPseudoLikelihood(patch=np.arange(graph.n_variables) // 2)
        for loss, parts in ((PseudoLikelihood(), singles), (patches, lists_of(patches.patches(graph)))):
            value, gradient = loss.value_and_gradient_theta(graph, theta, labels)
            expected = conditional_negative_log_likelihood(graph, theta, sets, parts, labels.weights)
            assert value == pytest.approx(expected, rel=1e-9, abs=1e-9)
            check_slopes(
                lambda t, s=sets, p=parts, w=labels.weights: conditional_negative_log_likelihood(graph, t, s, p, w),
                theta, gradient, n_directions=1, tol=1e-6,
            )  # fmt: skip


def test_huge_potentials_do_not_underflow():
    graph, theta = learning_model("huge_potentials")
    labels = training_labels(graph, [0, 1, 0, 1, 1, 0])
    value, gradient = PseudoLikelihood().value_and_gradient_theta(graph, theta, labels)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_cache_entries_are_deleted_with_the_labels():
    graph = chain_graph(3, 2)
    labels = training_labels(graph, [0, 1, 0])
    by_pairs = PatchPseudoLikelihood(patch=[0, 0, 1]).value_and_gradient_theta(graph, graph.zeros(), labels)
    assert labels in _CONDITIONED
    # Other patches of the same labels have another cache entry.
    theta = graph.pack(tables=np.ones((2, 2, 2)).cumsum().reshape(2, 2, 2))
    for patch in ([0, 1, 1], [0, 0, 1]):
        loss = PatchPseudoLikelihood(patch=patch)
        value, _ = loss.value_and_gradient_theta(graph, theta, labels)
        patches = lists_of(loss.patches(graph))
        expected = conditional_negative_log_likelihood(graph, theta, as_sets(graph, labels), patches)
        assert value == pytest.approx(expected)
    assert by_pairs[0] == pytest.approx(3 * np.log(2))
    before = len(_CONDITIONED)
    del labels
    gc.collect()
    assert len(_CONDITIONED) < before


@pytest.mark.parametrize("patch", [0, -1, 1.5, "big", (2, 0), (1, 2, 3), None])
def test_bad_patches_are_refused(patch):
    graph = grid_graph(2, 2, 2)
    with pytest.raises(InvalidInputError, match="PatchPseudoLikelihood: patch"):
        PatchPseudoLikelihood(patch=patch).value_and_gradient_theta(
            graph, graph.zeros(), training_labels(graph, [0] * 4)
        )


def test_patches_of_another_graph_are_refused():
    graph = chain_graph(4, 2)
    labels = training_labels(graph, [0] * 4)
    with pytest.raises(InvalidInputError, match=r"patch=2 means tiles of a grid, but the graph has no grid_shape"):
        PatchPseudoLikelihood(patch=2).value_and_gradient_theta(graph, graph.zeros(), labels)
    with pytest.raises(InvalidInputError, match=r"patch has shape \(3,\), but the graph has 4 variables"):
        PatchPseudoLikelihood(patch=[0, 0, 1]).value_and_gradient_theta(graph, graph.zeros(), labels)


@pytest.mark.parametrize("loss", [PseudoLikelihood(), PatchPseudoLikelihood(patch=[0, 0, 1])], ids=["single", "patch"])
def test_impossible_labels_are_refused(loss):
    graph = chain_graph(3, 2)
    theta = graph.pack(tables=np.tile([[0.0, 0.0], [-np.inf, 0.0]], (2, 1, 1)))
    with pytest.raises(InvalidInputError, match="theta gives the labels a score of -inf"):
        loss.value_and_gradient_theta(graph, theta, training_labels(graph, [0, 1, 0]))
