"""`infer`, which warns, and `run_inference`, its core without the warning."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests.zoo import ZOO

import intarsia
from intarsia.exceptions import ConvergenceWarning
from intarsia.inference.infer import run_inference


def test_the_quiet_one_gives_the_same_without_a_warning():
    graph, theta = ZOO["grid"]()
    with pytest.warns(ConvergenceWarning, match=r"max_iter \(now 2\) or damping") as told:
        loud = intarsia.infer(graph, theta, "tree_reweighted", max_iter=2)
    assert [one.filename for one in told] == [__file__]  # where the user's call is
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet = run_inference(graph, theta, "tree_reweighted", settings={"max_iter": 2})
    assert quiet.status is loud.status
    np.testing.assert_array_equal(quiet.mu, loud.mu)
