"""`infer`, which issues a ConvergenceWarning, and `run_inference`, which does not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests.zoo import ZOO

import intarsia
from intarsia.exceptions import ConvergenceWarning
from intarsia.inference.infer import run_inference


def test_run_inference_returns_the_result_of_infer_without_a_warning():
    graph, theta = ZOO["grid"]()
    with pytest.warns(ConvergenceWarning, match=r"max_iter \(now 2\) or damping") as caught:
        warned = intarsia.infer(graph, theta, "tree_reweighted", max_iter=2)
    assert [warning.filename for warning in caught] == [__file__]  # the warning points to the call of the user
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet = run_inference(graph, theta, "tree_reweighted", settings={"max_iter": 2})
    assert quiet.status is warned.status
    np.testing.assert_array_equal(quiet.mu, warned.mu)
