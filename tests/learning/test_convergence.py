"""CONVERGED means close to the minimum, however weak the regularization; compared with SciPy's L-BFGS-B."""

from __future__ import annotations

import gzip
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from intarsia import RiskMinimizer
from intarsia.graph import chain_graph
from intarsia.inference import Status
from intarsia.learning import LBFGS, ProximalLBFGS, example
from intarsia.models import LinearScores
from intarsia.sequences import ChainCRF, MaximumLikelihood
from intarsia.sequences.chain_learner import prepare_fit
from intarsia_reproduction.datasets import load_ocr_letters, load_umass_citations

# LBFGS guarantees a distance of at most 100 tol.
TOL, CLOSE = 1e-5, 1e-3
TO_THE_END = {"maxiter": 20_000, "maxfun": 50_000, "ftol": 0.0, "gtol": 1e-9, "maxcor": 40}


@pytest.fixture(autouse=True)
def _one_thread():
    with threadpool_limits(1):  # weight vectors are too short for several threads
        yield


def lowest(objective, n_weights):
    return float(minimize(objective, np.zeros(n_weights), jac=True, method="L-BFGS-B", options=TO_THE_END).fun)


def lowest_with_l1(objective, n_weights, l1):
    """Minimum with an L1 penalty: w = p - q with p, q >= 0, where the penalty is smooth."""

    def both(halves):
        value, gradient = objective(halves[:n_weights] - halves[n_weights:])
        return value + l1 * halves.sum(), np.concatenate([gradient + l1, l1 - gradient])

    bounds = [(0.0, None)] * (2 * n_weights)
    start = np.zeros(2 * n_weights)
    return float(minimize(both, start, jac=True, method="L-BFGS-B", bounds=bounds, options=TO_THE_END).fun)


def features_of(words):
    padded = ["^", *words, "$"]
    return [
        [f"w={w}", f"end={w[-3:]}", f"begin={w[:2]}", f"before={padded[i]}", f"after={padded[i + 2]}", "bias"]
        for i, w in enumerate(words)
    ]


def synthetic(n=100):
    """Words with features of very different frequency, and a few wrong labels."""
    rng = np.random.default_rng(0)
    y = [rng.integers(4, size=rng.integers(2, 12)) for _ in range(n)]
    words = [[f"{label + 4 * int(rng.zipf(1.3)) % 10**9}" for label in labels] for labels in y]
    noisy = [np.where(rng.random(labels.size) < 0.02, rng.integers(4, size=labels.size), labels) for labels in y]
    return [features_of(one) for one in words], [labels.tolist() for labels in noisy]


def addresses(data):
    with gzip.open(data / "usaddress" / "labeled.xml.gz") as file:
        records = list(ElementTree.parse(file).getroot())[:80]
    words = [[part.text or "" for part in record] for record in records]
    return [features_of(one) for one in words], [[part.tag for part in record] for record in records]


def citations(data):
    train = load_umass_citations(data).train
    return [features_of(words) for words in train.words[:40]], train.tags[:40]


def letters(data):
    words = load_ocr_letters(data)
    return [pixels.astype(float) for pixels in words.pixels[:60]], words.letters[:60]


REAL = {"addresses": addresses, "citations": citations, "letters": letters}


def chain_risk(X, y, l2):
    examples = prepare_fit(ChainCRF(), X, y, None, None, None, None).examples
    return MaximumLikelihood(l2=l2).risk(examples), examples.layout.n_weights


def check_near_minimum(result, best):
    """Check the distance from the minimum; return that of a search which stops by the gradient alone."""
    assert result.status is Status.CONVERGED
    assert result.gradient_norm <= TOL
    assert (result.value - best) / best <= CLOSE
    first = int(np.argmax(result.history["gradient_norm"] <= TOL))
    return (result.history["risk"][first] - best) / best


@pytest.mark.parametrize("name", ["synthetic", *REAL])
def test_lbfgs_on_chains(name, request):
    X, y = synthetic() if name == "synthetic" else REAL[name](request.getfixturevalue("data"))
    by_gradient = []
    for l2 in (20.0, 2.0, 0.2, 0.02, 0.002):
        risk, n_weights = chain_risk(X, y, l2)
        result = LBFGS(tol=TOL).minimize(risk, np.zeros(n_weights))
        by_gradient.append(check_near_minimum(result, lowest(risk, n_weights)))
    assert max(by_gradient) > CLOSE  # the gradient alone is not a sufficient criterion


@pytest.mark.data
def test_slow_convergence_is_not_taken_for_the_minimum(data):
    """Every predicted decrease is small, but there are many of them: the last iterations together are not small."""
    with gzip.open(data / "probablepeople" / "person_labeled.xml.gz") as file:
        records = [record for record in ElementTree.parse(file).getroot() if len(record)][:300]
    X = [features_of([part.text or "" for part in record]) for record in records]
    risk, n_weights = chain_risk(X, [[part.tag for part in record] for record in records], 1e-5)
    settled = []
    result = LBFGS(tol=TOL).minimize(
        risk, np.zeros(n_weights), watch=lambda search: settled.append(search.is_near_minimum(TOL))
    )
    options = {"maxiter": 3000, "maxfun": 6000, "ftol": 0.0, "gtol": 1e-8, "maxcor": 20}
    best = float(minimize(risk, result.point, jac=True, method="L-BFGS-B", options=options).fun)
    check_near_minimum(result, best)
    by_prediction = result.history["risk"][int(np.argmax(settled))]
    assert (by_prediction - best) / best > CLOSE  # predictions alone are not a sufficient criterion


@pytest.mark.parametrize("name", ["synthetic", "addresses"])
def test_proximal_lbfgs_on_chains(name, request):
    X, y = synthetic(30) if name == "synthetic" else REAL[name](request.getfixturevalue("data"))
    by_gradient = []
    for l1 in (0.1, 0.003):
        risk, n_weights = chain_risk(X, y, 0.0)
        each = l1 / risk.mass
        result = ProximalLBFGS(l1=each, tol=TOL, max_iter=3000).minimize(risk, np.zeros(n_weights))
        by_gradient.append(check_near_minimum(result, lowest_with_l1(risk, n_weights, each)))
    assert max(by_gradient) > CLOSE


@pytest.mark.parametrize("ridge", [1e-1, 1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("precondition", [False, True])
def test_risk_minimizer(precondition, ridge):
    rng = np.random.default_rng(1)
    scale = np.array([1.0, 0.3, 0.1, 0.03, 0.01])
    examples = []
    for _ in range(6):
        labels = rng.integers(2, size=8)
        features = scale * (rng.normal(size=(8, 5)) + 0.8 * (2 * labels[:, None] - 1))
        examples.append(example(LinearScores(chain_graph(8, 2), features), labels))
    learner = RiskMinimizer(loss="likelihood", l2=48.0 * ridge, precondition=precondition, optimizer=LBFGS(tol=TOL))
    result = learner.minimize(examples, "tree")
    risk = learner.risk(examples, "tree")
    check_near_minimum(result, lowest(risk, risk.n_weights))


def test_a_search_that_starts_at_the_minimum_converges_at_once():
    X, y = synthetic()
    risk, n_weights = chain_risk(X, y, 1.0)
    result = LBFGS(tol=TOL).minimize(risk, np.zeros(n_weights))
    assert LBFGS(tol=TOL).minimize(risk, result.point).n_iter == 0  # by the convexity of the L2 penalty
    plain = LBFGS(tol=TOL).minimize(lambda w: risk(w), result.point)  # a function without known convexity
    assert plain.status is Status.CONVERGED
    assert 0 < plain.n_iter <= 10


def test_resumed_search_restores_the_count_of_small_predictions():
    X, y = synthetic()
    risk, n_weights = chain_risk(X, y, 0.01)
    whole = LBFGS(tol=TOL).minimize(risk, np.zeros(n_weights))
    states = []
    LBFGS(tol=TOL).minimize(risk, np.zeros(n_weights), watch=lambda search: states.append(search.arrays()))
    for at in (whole.n_iter - 1, whole.n_iter - 2):
        again = LBFGS(tol=TOL).minimize(risk, np.zeros(n_weights), resume=states[at])
        assert again.n_iter == whole.n_iter
        np.testing.assert_array_equal(again.point, whole.point)
