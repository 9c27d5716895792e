"""MarginalLayer with every inference: against enumeration, gradcheck, the compatibility table, and its errors."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles.enumeration import enumerate_model

import intarsia
from intarsia.diagnostics import compatibility
from intarsia.energies import Count, MeasuredEnergy, Squared
from intarsia.exceptions import IntarsiaError, InvalidInputError, NotSupportedError
from intarsia.gradients import ImplicitGradient, PerturbationGradient, TruncatedGradient
from intarsia.inference import method_names
from intarsia.inference.registry import METHODS

torch = pytest.importorskip("torch")
layers = pytest.importorskip("intarsia.torch")
MarginalLayer, check_layer, gradcheck = layers.MarginalLayer, layers.check_layer, torch.autograd.gradcheck

GRAPHS = {
    "chain": intarsia.chain_graph(3, 2),
    "shared tables": intarsia.chain_graph(3, 3, shared=True),
    "grid": intarsia.grid_graph(2, 3, 2),
    "potts": intarsia.grid_graph(2, 2, 3, kind="potts"),
    "single states": intarsia.from_edges([2, 1, 3], [[0, 1], [1, 2], [0, 2]]),
}
WAYS = {
    "exact": ("junction_tree", None),
    "auto": ("auto", None),
    "truncated": ("tree_reweighted", TruncatedGradient(n_iter=4)),
    "implicit": ("tree_reweighted", ImplicitGradient()),
    "perturbation": ("belief_propagation", PerturbationGradient(sides=4)),
    "back_propagation": ("belief_propagation", "back_propagation"),
    "mean field": ("mean_field", "truncated"),
}


def scores(graph, n=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 0.5 * torch.randn(n, graph.n_theta, dtype=torch.float64, generator=generator)


CASES = [
    *((name, way) for name in GRAPHS for way in ("exact", "truncated")),
    *(("chain", way) for way in WAYS if way not in ("exact", "truncated")),
    ("shared tables", "back_propagation"),
]


@pytest.mark.parametrize(("name", "way"), CASES)
def test_contract_and_gradients(name, way):
    graph, (inference, gradient) = GRAPHS[name], WAYS[way]
    layer = MarginalLayer(graph, inference, gradient=gradient)
    theta = scores(graph)
    check_layer(layer, theta)
    labels = torch.zeros(2, graph.n_variables, dtype=torch.long)
    labels[1, 0] = -1
    theta.requires_grad_()
    for loss in ("likelihood", "univariate_logistic", "clique_logistic", "pseudo_likelihood"):
        assert gradcheck(lambda x, loss=loss: layer.loss(x, labels, loss=loss), theta), loss
    assert gradcheck(layer.log_partition, theta)


@pytest.mark.parametrize("name", GRAPHS)
def test_exact_against_enumeration(name):
    graph = GRAPHS[name]
    layer, theta = MarginalLayer(graph, "junction_tree"), scores(graph, 3)
    mu, log_z = layer(theta), layer.log_partition(theta)
    labels = torch.zeros(3, graph.n_variables, dtype=torch.long)
    total = 0.0
    for k in range(3):
        answer = enumerate_model(graph, theta[k].numpy())
        assert mu[k].numpy() == pytest.approx(answer.mu, abs=1e-10)
        assert log_z[k].item() == pytest.approx(answer.log_partition)
        total += answer.log_partition - graph.score(theta[k].numpy(), labels[k].numpy())
    assert layer.loss(theta, labels, loss="likelihood", reduction="sum").item() == pytest.approx(total)
    samples = layer.sample(theta, 4000, random_state=0)
    first = int(graph.n_states[0])
    frequency = torch.stack([(samples[:, 0, 0] == state).double().mean() for state in range(first)])
    assert frequency.numpy() == pytest.approx(mu[0, :first].numpy(), abs=0.04)
    best = layer.decode(theta, "brute_force")
    assert best.tolist() == [
        intarsia.infer(graph, row.numpy(), "brute_force", "map").assignment.tolist() for row in theta
    ]


@pytest.mark.parametrize("method", method_names())
@pytest.mark.parametrize("model", ["no loops", "loops"])
def test_compatibility_table_says_which_layers_can_be_built(method, model):
    graph = GRAPHS["chain" if model == "no loops" else "grid"]
    pair = next(p for p in compatibility("torch_layer", method) if p.model == model)
    is_projection = method.startswith("bethe_")
    energies = MeasuredEnergy(Count(1), Squared(1.0), psi=0.5) if is_projection else None

    def run():
        arguments = ("junction_tree", method, energies) if is_projection else (method,)
        layer, theta = MarginalLayer(graph, *arguments), scores(graph).requires_grad_()
        (layer(theta) ** 2).sum().backward()
        return theta.grad

    if pair.judgement.level == "refused":
        with pytest.raises(IntarsiaError):
            run()
    else:
        assert torch.isfinite(run()).all()


@pytest.mark.parametrize("projection", ["bethe_mirror_descent", "bethe_dual"])
def test_projections_train_scores_and_weights(projection):
    graph = GRAPHS["chain"]
    method = METHODS.resolve(projection, {"tol": 1e-11})
    layer = MarginalLayer(graph, "tree", method, MeasuredEnergy(Count(1), Squared(1.0), psi=2.0), learn_psi=True)
    check_layer(layer, scores(graph))
    with pytest.raises(NotSupportedError, match="no gradient in the weights psi"):
        layer.loss(scores(graph), torch.zeros(2, 3, dtype=torch.long))


def test_losses_and_log_partition_under_energies():
    graph = GRAPHS["chain"]
    method = METHODS.resolve("bethe_dual", {"tol": 1e-12})
    layer = MarginalLayer(graph, "tree", method, [MeasuredEnergy(Count(1), Squared(1.0), psi=2.0)])
    theta, labels = scores(graph).requires_grad_(), torch.tensor([[0, 1, -1], [1, 1, 0]])
    for loss in ("univariate_logistic", "clique_logistic"):
        assert gradcheck(lambda x, loss=loss: layer.loss(x, labels, loss=loss), theta)
    assert gradcheck(layer.log_partition, theta)
    with pytest.raises(NotSupportedError, match="Likelihood is not a loss of marginals"):
        layer.loss(theta, labels, loss="likelihood")
    with pytest.raises(NotSupportedError, match="does not support energies"):
        layer.sample(theta)


def test_hard_zeros():
    graph = GRAPHS["grid"]
    theta = scores(graph)
    theta[0, 3] = -np.inf
    for way in ("exact", "truncated"):
        inference, gradient = WAYS[way]
        layer = MarginalLayer(graph, inference, gradient=gradient)
        inputs = theta.clone().requires_grad_()
        mu = layer(inputs)
        (mu**2).sum().backward()
        assert mu[0, 3] == 0
        assert torch.isfinite(inputs.grad).all()
        assert inputs.grad[0, 3] == 0
        theta_without = theta.clone()
        theta_without[1, :2] = -np.inf
        with pytest.raises(InvalidInputError, match=r"allows? no labelling"):
            layer(theta_without)


def test_batch_does_not_change_the_appearance_probabilities():
    """A union of grids has no grid shape, but its members keep rho = 1/2."""
    graph = intarsia.grid_graph(4, 4, 2)
    layer, theta = MarginalLayer(graph, "tree_reweighted", gradient=TruncatedGradient(n_iter=3)), scores(graph, 5)
    alone = [TruncatedGradient(n_iter=3).marginals(graph, row.numpy(), "tree_reweighted") for row in theta]
    assert layer(theta).numpy() == pytest.approx(np.array(alone), abs=1e-14)


def test_pack_and_variables():
    layer = MarginalLayer(GRAPHS["grid"])
    unary, tables = torch.randn(3, 6, 2), torch.randn(28)
    theta = layer.pack(unary, tables)
    assert theta.shape == (3, 40)
    assert torch.equal(layer.variables(theta), unary)
    assert torch.equal(theta[:, 12:], tables.expand(3, -1))
    assert torch.equal(layer.pack(unary)[:, 12:], torch.zeros(3, 28))
    assert torch.equal(layer.pack(unary, tables.expand(3, -1)), theta)
    ragged = MarginalLayer(GRAPHS["single states"])
    assert ragged.variables(torch.zeros(2, ragged.graph.n_theta)).shape == (2, 6)


GRID = GRAPHS["grid"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MarginalLayer("grid"), "graph must be a FactorGraph, got str"),
        (lambda: MarginalLayer(GRID, "lp_relaxation"), "LPRelaxation computes no marginals. Use 'tree'"),
        (lambda: MarginalLayer(GRID, "gibbs"), "TruncatedGradient cannot differentiate Gibbs"),
        (lambda: MarginalLayer(GRID, "junction_tree", gradient="implicit"), "is exact, and its gradient needs no rule"),
        (lambda: MarginalLayer(GRID, projection="tree_reweighted"), "projection must be a Bethe projection"),
        (lambda: MarginalLayer(GRID, projection="bethe_dual"), "projection needs energies"),
        (lambda: MarginalLayer(GRID, learn_psi=True), "learn_psi needs energies"),
        (lambda: MarginalLayer(GRID)(torch.zeros(40)), r"MarginalLayer.forward: theta has shape \(40,\), expected"),
        (lambda: MarginalLayer(GRID)(torch.full((1, 40), float("nan"))), r"theta\[0, 0\] is nan"),
        (lambda: MarginalLayer(GRID).pack(torch.zeros(2, 5, 2)), r"variables \(flattened\) has shape \(2, 10\)"),
        (lambda: MarginalLayer(GRID).pack(torch.zeros(2, 6, 2), torch.zeros(3)), r"tables has shape \(3,\)"),
        (lambda: MarginalLayer(GRID).loss(torch.zeros(1, 40), torch.full((1, 6), 5)), r"y\[0\] is 5"),
        (lambda: MarginalLayer(GRID).loss(torch.zeros(1, 40), torch.zeros(1, 6)), "labels has dtype torch.float32"),
        (lambda: MarginalLayer(GRID).loss(torch.zeros(1, 40), torch.zeros(1, 6).long(), loss="x"), "is not known"),
    ],
)
def test_errors_say_what_to_do(call, message):
    with pytest.raises(IntarsiaError, match=message):
        call()


def test_empty_batch_has_no_loss():
    for inference in ("junction_tree", "tree_reweighted"):
        layer = MarginalLayer(GRID, inference)
        loss = layer.loss(torch.zeros(0, 40, requires_grad=True), torch.zeros(0, 6, dtype=torch.long))
        loss.backward()
        assert loss == 0
        assert layer.sample(torch.zeros(0, 40), 2).shape == (2, 0, 6)
        assert layer.decode(torch.zeros(0, 40)).shape == (0, 6)
