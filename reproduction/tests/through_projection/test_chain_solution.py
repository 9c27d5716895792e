"""Gradients through the projections of many sequences against those through each sequence alone."""

from __future__ import annotations

import numpy as np
import pytest
from tests.energies.energy_models import BIO, ENERGIES

from intarsia.energies.binding.batch_energies import ChainEnergies
from intarsia.gradients.projection import projection_pullback
from intarsia.graph import chain_graph
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.bethe_chains import project_chains
from intarsia.inference.projection.bethe_mirror_descent import BetheMirrorDescent
from intarsia_reproduction.through_projection.chain_solution import ChainSolution, ChainVector

LENGTHS = [1, 2, 2, 4, 5]


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("name", ["squared", "huber", "segments", "smoothed_hinge", "words"])
def test_gradients_of_sequences_are_those_of_each_graph(name, per_step):
    rng, k = np.random.default_rng(0), 3
    ptr = np.concatenate([[0], np.cumsum(LENGTHS)])
    n_steps = int(ptr[-1]) - len(LENGTHS)
    shape = (n_steps, k, k) if per_step else (k, k)
    batch = ChainBatch(rng.standard_normal((ptr[-1], k)), ptr, rng.standard_normal(shape))
    energies = ChainEnergies(ENERGIES[name], BIO, 5)
    psi = np.tile(energies.psi, (len(LENGTHS), 1)) * rng.uniform(0.5, 1.5, (len(LENGTHS), energies.n_psi))
    method = BetheMirrorDescent(tol=1e-12, max_iter=2000)
    solution = ChainSolution(project_chains(batch, energies, psi, method))
    loss = ChainVector(rng.standard_normal((ptr[-1], k)), rng.standard_normal((n_steps, k, k)))
    gradients = solution.pull(loss)
    for s, length in enumerate(LENGTHS):
        positions, steps = slice(ptr[s], ptr[s + 1]), slice(ptr[s] - s, ptr[s + 1] - s - 1)
        graph = chain_graph(length, k)
        tables = batch.transitions[steps] if per_step else np.repeat(batch.transitions[None], length - 1, axis=0)
        theta = np.concatenate([batch.nodes[positions].ravel(), tables.ravel()])
        bound = ENERGIES[name].bind(graph, BIO).with_psi(psi[s])
        weight = np.concatenate([loss.nodes[positions].ravel(), loss.steps[steps].ravel()])
        grad_theta, grad_psi = projection_pullback(method, graph, theta, bound).pull(weight)
        found = np.concatenate([gradients.scores.nodes[positions].ravel(), gradients.scores.steps[steps].ravel()])
        np.testing.assert_allclose(found, grad_theta, atol=1e-8)
        np.testing.assert_allclose(gradients.psi[s], grad_psi, atol=1e-8)
