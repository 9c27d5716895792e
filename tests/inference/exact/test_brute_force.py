import numpy as np
import pytest
from tests.oracles.enumeration import enumerate_model
from tests.zoo import ZOO

import intarsia
from intarsia.exceptions import TooLargeError


@pytest.mark.parametrize("name", ZOO)
def test_agrees_with_plain_enumeration(name):
    graph, theta = ZOO[name]()
    truth = enumerate_model(graph, theta)
    result = intarsia.infer(graph, theta, "brute_force")
    if truth.log_partition == -np.inf:
        assert result.status is intarsia.Status.INFEASIBLE
        assert result.log_partition == -np.inf
        return
    assert result.log_partition == pytest.approx(truth.log_partition, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(result.mu, truth.mu, atol=1e-12)
    for c in range(graph.n_factors):
        np.testing.assert_allclose(result.factor_marginals(c), truth.factor_marginals[c], atol=1e-12)
    best = intarsia.infer(graph, theta, "brute_force", task="map", n_best=5)
    assert best.score == pytest.approx(truth.best_score)
    np.testing.assert_allclose(best.best_scores, np.sort(truth.scores)[::-1][:5], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["grid", "potts", "three_way_factor", "one_state_variables", "same_scope_twice"])
def test_evidence_and_temperature(name):
    graph, theta = ZOO[name]()
    evidence = {1: 1, 3 % graph.n_variables: 0}
    truth = enumerate_model(graph, theta, evidence, temperature=0.5)
    result = intarsia.infer(graph, theta, "brute_force", evidence=evidence, temperature=0.5)
    assert result.log_partition == pytest.approx(truth.log_partition, rel=1e-12)
    np.testing.assert_allclose(result.mu, truth.mu, atol=1e-12)
    for c in range(graph.n_factors):
        np.testing.assert_allclose(result.factor_marginals(c), truth.factor_marginals[c], atol=1e-12)


def test_too_many_assignments_raise():
    graph = intarsia.chain_graph(40, 2)
    with pytest.raises(TooLargeError, match=r"2\*\*40 assignments exceed max_assignments=1e\+07\. Use JunctionTree"):
        intarsia.infer(graph, graph.zeros(), "brute_force")
