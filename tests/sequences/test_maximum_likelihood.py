from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from threadpoolctl import threadpool_info

from intarsia.exceptions import InvalidInputError
from intarsia.learning.lbfgs import LBFGS
from intarsia.learning.staged_fit import StagedFit
from intarsia.sequences import ChainCRF
from intarsia.sequences.maximum_likelihood import MaximumLikelihood

X, Y = [np.eye(2)], [[0, 1]]


@pytest.mark.parametrize("learner", ["maximum_likelihood", "averaged_perceptron"])
def test_no_worker_at_all_is_refused(learner):
    with pytest.raises(InvalidInputError, match=r"^ChainCRF.fit: n_jobs is 0, but work needs a worker"):
        ChainCRF(learner=learner, n_jobs=0).fit(X, Y)
    with pytest.raises(InvalidInputError, match="n_jobs must be an integer"):
        ChainCRF(learner=learner, n_jobs=1.5).fit(X, Y)
    fitted = ChainCRF(learner=learner).fit(X, Y).set_params(n_jobs=0)
    for method in (fitted.predict, fitted.predict_marginals, lambda x: fitted.sequence_log_probability(x, Y)):
        with pytest.raises(InvalidInputError, match="n_jobs is 0"):
            method(X)


def test_zero_workers_of_the_learner_are_refused():
    with pytest.raises(InvalidInputError, match=r"^ChainCRF.fit: MaximumLikelihood: n_jobs is 0"):
        ChainCRF(learner=MaximumLikelihood(n_jobs=0)).fit(X, Y)


def test_linear_algebra_has_one_thread_while_fitting(monkeypatch):
    def threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    seen = []
    run = StagedFit._run
    monkeypatch.setattr(StagedFit, "_run", lambda self, start: seen.append(threads()) or run(self, start))
    before = threads()
    ChainCRF().fit(X, Y)
    assert seen == [[1] * len(before)]
    assert threads() == before


@pytest.mark.parametrize("where", ["learner", "estimator"])
@pytest.mark.parametrize("l2", [0.3, 1.0, 5.0])
def test_l2_is_half_the_squared_norm(l2, where):
    """SciPy minimizes the sum of -log p + l2/2 |w|^2, with log Z from all labellings."""
    rng = np.random.default_rng(0)
    features = [rng.normal(size=(n, 2)) for n in (3, 2, 4, 1, 3)]
    labels = [rng.integers(2, size=len(one)) for one in features]
    learner = MaximumLikelihood(optimizer=LBFGS(tol=1e-9), **({"l2": l2} if where == "learner" else {}))
    crf = ChainCRF(learner=learner, l2=None if where == "learner" else l2, ends=False, classes=[0, 1])
    crf.fit(features, labels)

    def score(nodes, table, path):
        return nodes[np.arange(len(path)), path].sum() + table[path[:-1], path[1:]].sum()

    def objective(point):
        weights, table = point[:4].reshape(2, 2), point[4:].reshape(2, 2)
        total = 0.5 * l2 * point @ point
        for x, y in zip(features, labels, strict=True):
            nodes = x @ weights
            paths = [np.array(path) for path in product(range(2), repeat=len(x))]
            total += logsumexp([score(nodes, table, path) for path in paths]) - score(nodes, table, y)
        return total

    best = minimize(objective, np.zeros(8), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(crf.state_weights_.ravel(), best.x[:4], atol=1e-5)
    np.testing.assert_allclose(crf.transitions_.ravel(), best.x[4:], atol=1e-5)
    assert crf.risk_ * sum(map(len, labels)) == pytest.approx(best.fun, rel=1e-9)
