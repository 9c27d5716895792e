import numpy as np
import pytest
from threadpoolctl import threadpool_info

from intarsia.exceptions import InvalidInputError
from intarsia.learning.staged_fit import StagedFit
from intarsia.sequences import ChainCRF
from intarsia.sequences.maximum_likelihood import MaximumLikelihood

X, Y = [np.eye(2)], [[0, 1]]


@pytest.mark.parametrize("learner", ["maximum_likelihood", "averaged_perceptron"])
def test_no_worker_at_all_is_refused(learner):
    with pytest.raises(InvalidInputError, match=r"^ChainCRF.fit: n_jobs is 0, which is no worker at all"):
        ChainCRF(learner=learner, n_jobs=0).fit(X, Y)
    with pytest.raises(InvalidInputError, match="n_jobs must be a whole number"):
        ChainCRF(learner=learner, n_jobs=1.5).fit(X, Y)
    fitted = ChainCRF(learner=learner).fit(X, Y).set_params(n_jobs=0)
    for method in (fitted.predict, fitted.predict_marginals, lambda x: fitted.sequence_log_probability(x, Y)):
        with pytest.raises(InvalidInputError, match="n_jobs is 0"):
            method(X)


def test_the_learner_refuses_it_too():
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
