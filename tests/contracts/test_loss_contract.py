"""What every loss of the registry promises: its declarations hold on every awkward model, with every sort of labels."""

import inspect
import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from tests.losses.labelled_models import FEASIBLE, SORTS, learning_model, some_labels

from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.graph import chain_graph
from intarsia.losses import LOSSES, DirectLoss, Loss, MarginalLoss, training_labels

SEED = 11


def evaluate(name, model, labels):
    """Value and gradient at the model's scores, or at marginals that need not agree with each other."""
    graph, theta = learning_model(model)
    loss = settings_of(name, graph)
    if isinstance(loss, MarginalLoss):
        mu = np.random.default_rng(SEED).random(graph.n_theta)
        return loss.value_and_gradient(graph, mu, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return loss.value_and_gradient_theta(graph, theta, labels, random_state=SEED)


def settings_of(name, graph):
    loss = LOSSES.get(name)()
    if name == "patch_pseudo_likelihood" and graph.grid_shape is None:
        loss.set_params(patch=np.arange(graph.n_variables) // 2)
    return loss


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("name", LOSSES.names)
def test_finite_and_repeatable(name, sort):
    for k, model in enumerate(FEASIBLE):
        labels = some_labels(model, sort, seed=k)
        if not LOSSES.get(name).handles_hidden and not labels.complete:
            with pytest.raises(NotSupportedError, match=r"has a hidden label .* Use one of: univariate_logistic"):
                evaluate(name, model, labels)
            continue
        value, gradient = evaluate(name, model, labels)
        assert isinstance(value, float)
        assert np.isfinite(value)
        assert gradient.shape == (learning_model(model)[0].n_theta,)
        assert gradient.dtype == np.float64
        assert np.isfinite(gradient).all()
        again, same = evaluate(name, model, labels)
        assert again == value
        np.testing.assert_array_equal(same, gradient)


@pytest.mark.parametrize("name", LOSSES.names)
def test_hidden_labels_say_nothing(name):
    if not LOSSES.get(name).handles_hidden or name == "surrogate_em":  # two methods need not agree
        return
    for model in FEASIBLE:
        value, gradient = evaluate(name, model, some_labels(model, "all_hidden"))
        assert abs(value) <= 1e-6
        assert np.abs(gradient).max(initial=0.0) <= 1e-5


@pytest.mark.parametrize("name", LOSSES.names)
def test_weights_are_taken_as_declared(name):
    graph, labels = learning_model("grid")[0], some_labels("grid", "observed")
    heavy = training_labels(graph, labels, np.full(9, 2.0))
    if not LOSSES.get(name).takes_weights:
        with pytest.raises(NotSupportedError, match=r"no weights of variables. Use one of: univariate_logistic"):
            evaluate(name, "grid", heavy)
        return
    value, gradient = evaluate(name, "grid", labels)
    twice, double = evaluate(name, "grid", heavy)
    assert twice == pytest.approx(2 * value)
    np.testing.assert_allclose(double, 2 * gradient, atol=1e-12)
    nothing, flat = evaluate(name, "grid", training_labels(graph, labels, np.zeros(9)))
    assert nothing == 0.0
    assert not flat.any()


@pytest.mark.parametrize("name", LOSSES.names)
def test_declarations(name):
    found = LOSSES.get(name)
    assert found.name == name
    assert found.__name__.lower() == name.replace("_", "")
    assert found.summary
    assert found.needs in ("marginals", "log_partition", "map", "labels only")
    assert issubclass(found, MarginalLoss) == (found.needs == "marginals")
    assert issubclass(found, (MarginalLoss, DirectLoss))
    assert found.gradient_is_of_value == (name != "contrastive_divergence")
    loss = found()
    assert clone(loss).get_params() == loss.get_params()
    if isinstance(loss, DirectLoss):
        for promise in (loss.bound_is, loss.bound_is_when_observed):
            assert promise in ("exact", "upper bound", "lower bound", "estimate")
    text = inspect.getdoc(found) or ""
    assert ">>> " in text
    for setting in found._get_param_names():
        assert re.search(rf"^(\w+, )*{setting}(, \w+)* : ", text, flags=re.M), setting


def refusal(call, *given, **settings):
    """What a call says no with; None if it does not."""
    try:
        call(*given, **settings)
    except (InvalidInputError, NotSupportedError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", [name for name in LOSSES.names if issubclass(LOSSES.get(name), DirectLoss)])
def test_what_does_not_fit_is_told_without_evaluating(name):
    """No grid, an inference without log Z, one without marginals: the refusals are those of an evaluation."""
    graph = chain_graph(2, 2)
    labels = training_labels(graph, [0, 1])
    refused = []
    for loss in (LOSSES.get(name)(), settings_of(name, graph)):
        for inference in ("tree", "gibbs", "icm"):
            told = refusal(loss.check_fits, graph, inference)
            assert told == refusal(
                loss.value_and_gradient_theta, graph, graph.zeros(), labels, inference=inference, random_state=SEED
            )
            refused.append(told)
    assert any(refused) == (name in ("likelihood", "saddle_point", "patch_pseudo_likelihood"))


@pytest.mark.parametrize("name", LOSSES.names)
def test_shared_tables_and_other_labels_are_refused(name):
    shared = chain_graph(3, 2, shared=True)
    alone = chain_graph(3, 2)
    loss = settings_of(name, alone)
    call = loss.value_and_gradient if isinstance(loss, MarginalLoss) else loss.value_and_gradient_theta
    with pytest.raises(InvalidInputError, match=r"full table for each factor.*learning_form"):
        call(shared, shared.zeros(), training_labels(shared, [0, 0, 0]))
    with pytest.raises(InvalidInputError, match=r"the labels are of 2 variables"):
        call(alone, alone.zeros(), training_labels(chain_graph(2, 2), [0, 0]))
    with pytest.raises(InvalidInputError, match=r"has shape \(1,\), but this graph needs \(14,\)"):
        call(alone, np.zeros(1), training_labels(alone, [0, 0, 0]))


def test_names_are_resolved():
    assert isinstance(LOSSES.resolve("clique_logistic"), Loss)
    loss = LOSSES.resolve("smoothed_classification_error", {"alpha": 2.0})
    assert loss.alpha == 2.0
    assert LOSSES.resolve(loss) is loss
    assert LOSSES.resolve(loss, {"alpha": 3.0}).alpha == 3.0
    assert loss.alpha == 2.0
    with pytest.raises(
        InvalidInputError, match=r"loss='clique_logistics' is not known.*Did you mean 'clique_logistic'"
    ):
        LOSSES.resolve("clique_logistics")
    with pytest.raises(InvalidInputError, match="SmoothedClassificationError: setting='beta' is not known"):
        LOSSES.resolve("smoothed_classification_error", {"beta": 2.0})
    with pytest.raises(InvalidInputError, match="SmoothedClassificationError: setting='beta' is not known"):
        LOSSES.resolve(loss, {"beta": 2.0})
    with pytest.raises(InvalidInputError, match=r"loss must be a name .* got int"):
        LOSSES.resolve(3)
