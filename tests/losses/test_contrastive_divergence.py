import numpy as np
import pytest
from tests.losses.labelled_models import FEASIBLE, learning_model, some_labels
from tests.oracles.enumeration import enumerate_model

from intarsia import chain_graph
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.losses import ContrastiveDivergence, training_labels


def test_a_sample_against_the_labels():
    for name in FEASIBLE:
        graph, theta = learning_model(name)
        labels = some_labels(name, "observed")
        value, gradient = ContrastiveDivergence(random_state=1).value_and_gradient_theta(graph, theta, labels)
        sample = gradient + graph.statistics(labels.y)
        assert np.isin(sample, (0.0, 1.0)).all()
        finite = np.isfinite(theta)
        assert not sample[~finite].any()
        assert value == pytest.approx(float(theta[finite] @ gradient[finite]), abs=1e-9)


@pytest.mark.parametrize("block", ["auto", "single"])
def test_long_chains_give_the_likelihoods_gradient(block):
    graph, theta = learning_model("grid")
    labels = some_labels("grid", "observed")
    loss = ContrastiveDivergence(n_steps=30, n_chains=2000, block=block, random_state=0)
    _, gradient = loss.value_and_gradient_theta(graph, theta, labels)
    expected = enumerate_model(graph, theta).mu - graph.statistics(labels.y)
    # 2000 draws: a standard error of at most 0.0112; the largest of 66 entries stays within 4.5 of them.
    assert np.abs(gradient - expected).max() < 0.05


def test_the_first_step_is_the_conditional():
    """One sweep over two variables from (0, 0): x_0 given x_1 = 0, then x_1 given the sampled x_0."""
    graph = chain_graph(2, 2)
    theta = graph.pack(tables=[[[1.0, 0.0], [0.0, 1.0]]])
    loss = ContrastiveDivergence(n_chains=20000, block="single", random_state=0)
    _, gradient = loss.value_and_gradient_theta(graph, theta, training_labels(graph, [0, 0]))
    stay = np.e / (1 + np.e)
    assert gradient[1] == pytest.approx(1 - stay, abs=0.02)
    assert gradient[3] == pytest.approx(2 * stay * (1 - stay), abs=0.02)


def test_seeds():
    graph, theta = learning_model("grid")
    labels = some_labels("grid", "observed")

    def gradient(setting=None, **call):
        return (
            ContrastiveDivergence(n_steps=3, random_state=setting)
            .value_and_gradient_theta(graph, theta, labels, **call)[1]
            .tolist()
        )

    assert gradient(3) == gradient(3) == gradient(random_state=3) == gradient(5, random_state=3)
    assert any(gradient(3) != gradient(seed) for seed in range(4, 9))
    rng = np.random.default_rng(0)
    assert len({tuple(gradient(random_state=rng)) for _ in range(10)}) > 1


def test_hidden_labels_are_refused_and_alternatives_listed():
    graph = chain_graph(3, 2)
    labels = training_labels(graph, [0, -1, 1])
    message = r"variable 1 has a hidden label or a label set\. Use one of: .*likelihood, surrogate_em"
    with pytest.raises(NotSupportedError, match=message):
        ContrastiveDivergence().value_and_gradient_theta(graph, graph.zeros(), labels)


@pytest.mark.parametrize("settings", [{"n_steps": 0}, {"n_chains": 0}, {"n_steps": 1.5}, {"block": "big"}])
def test_bad_settings_are_refused(settings):
    graph = chain_graph(2, 2)
    with pytest.raises(InvalidInputError, match="ContrastiveDivergence: "):
        ContrastiveDivergence(**settings).value_and_gradient_theta(graph, graph.zeros(), training_labels(graph, [0, 0]))


def test_impossible_labels_are_refused():
    graph = chain_graph(2, 2)
    theta = graph.pack(tables=[[[0.0, 0.0], [-np.inf, 0.0]]])
    with pytest.raises(InvalidInputError, match="theta gives the labels a score of -inf"):
        ContrastiveDivergence().value_and_gradient_theta(graph, theta, training_labels(graph, [1, 0]))
