"""Contract of every registered inference method, checked on every model of the zoo against plain enumeration.

A method may raise for models that it does not support, such as loops for a method for forests, with a reason.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from tests.contracts.asking import (
    FEASIBLE,
    METHODS,
    SEED,
    TAKES,
    all_numbers,
    ask,
    check_log_partition,
    every_method,
    every_task,
    on,
    plain_model,
    slack,
    solve,
    truth_of,
)
from tests.zoo import INFEASIBLE, ZOO

import intarsia
from intarsia import Status
from intarsia.exceptions import NotSupportedError
from intarsia.inference import method_class

ABILITIES = {
    "gives_marginals": {"task": "marginals"},
    "gives_map": {"task": "map"},
    "gives_samples": {"n_samples": 3},
    "gives_best": {"n_best": 3},
}

# ---------------------------------------------------------------- abilities


@every_method
def test_class_attributes_are_filled_in(method):
    kind = method_class(method)
    assert kind.name == method
    assert kind.summary
    assert kind.cost
    assert kind.log_partition_is in (None, "exact", "upper bound", "lower bound", "estimate")
    assert kind.exact == (kind.log_partition_is == "exact")
    assert kind.gives_marginals or kind.gives_map


@every_method
@pytest.mark.parametrize("ability", ABILITIES)
def test_declared_abilities_are_true(method, ability):
    graph, theta = ZOO[plain_model(method)]()
    options = dict(ABILITIES[ability])
    kind = method_class(method)
    if "task" not in options:
        options["task"] = "marginals" if kind.gives_marginals else "map"
    if getattr(kind, ability):
        result = intarsia.infer(graph, theta, method, random_state=SEED, **options)
        field_of = {
            "gives_marginals": "mu",
            "gives_map": "assignment",
            "gives_samples": "samples",
            "gives_best": "best",
        }
        assert getattr(result, field_of[ability]) is not None
        return
    capable = [name for name in METHODS if getattr(method_class(name), ability)]
    with pytest.raises(NotSupportedError) as caught:
        intarsia.infer(graph, theta, method, **options)
    assert kind.__name__ in str(caught.value)
    assert "Use one of: " + ", ".join(capable) in str(caught.value)


@pytest.mark.parametrize(
    ("method", "model"), [(method, model) for method, taken in TAKES.items() for model in ZOO if model not in taken]
)
def test_error_for_unsupported_models_has_a_reason(method, model):
    with pytest.raises(NotSupportedError) as caught:
        ask(*ZOO[model](), method)
    message = str(caught.value)
    assert method_class(method).__name__ in message
    assert any(name in message or method_class(name).__name__ in message for name in METHODS if name != method)
    assert "\n" not in message


@pytest.mark.parametrize("model", FEASIBLE)
def test_each_model_has_two_exact_methods(model):
    exact = [name for name in METHODS if method_class(name).exact and model in TAKES.get(name, ZOO)]
    assert len(exact) >= 2
    for name in exact:
        assert solve(name, model).status is Status.EXACT


# ---------------------------------------------------------------- the answer itself


@on(ZOO)
@every_task
def test_never_nan(method, model, task):
    result = solve(method, model, task)
    for field, numbers in all_numbers(result):
        assert not np.isnan(numbers).any(), field


@on(ZOO)
@every_task
def test_fields_are_well_formed(method, model, task):
    result = solve(method, model, task)
    graph, theta = ZOO[model]()
    assert isinstance(result.status, Status)
    assert result.status.message
    assert result.converged == (result.status in (Status.EXACT, Status.CONVERGED))
    assert isinstance(result.n_iter, int)
    assert result.n_iter >= 0
    assert result.seconds >= 0
    assert result.residual >= 0
    if np.isfinite([result.lower_bound, result.upper_bound]).all():
        assert result.lower_bound <= result.upper_bound + 1e-9 * max(1.0, abs(result.upper_bound))
    else:
        assert result.lower_bound <= result.upper_bound
    if result.n_iter:
        residuals = result.history["residual"]
        assert residuals[-1] == result.residual
        # One value per sweep, or per round of sweeps for sampling.
        assert residuals.size == result.n_iter or (result.mu_error is not None and residuals.size < result.n_iter)
    for name, values in result.history.items():
        assert values.shape == result.history["residual"].shape, name
    if result.status is Status.INFEASIBLE:
        assert result.mu is None
        assert result.assignment is None
        assert result.score == -np.inf
        return
    assert result.mu.shape == (graph.n_theta,)
    assert result.assignment.shape == (graph.n_variables,)
    assert result.score == pytest.approx(graph.score(theta, result.assignment))
    assert (result.log_partition is None) == (result.log_partition_is is None)
    if result.task == "map":
        assert result.log_partition is None
        if result.integral:
            np.testing.assert_array_equal(result.mu, graph.statistics(result.assignment))
        else:  # the optimum of a relaxation has the value of the bound
            finite = np.isfinite(theta)
            assert result.mu[~finite].max(initial=0.0) == 0.0
            assert theta[finite] @ result.mu[finite] == pytest.approx(result.upper_bound, rel=1e-6, abs=1e-6)
    else:
        assert result.integral is None
    assert type(result.method).__name__ in repr(result)


@on(ZOO)
@every_task
def test_arrays_are_read_only(method, model, task):
    result = solve(method, model, task)
    for field, numbers in all_numbers(result):
        assert numbers.ndim == 0 or not numbers.flags.writeable, field


def test_histories_are_read_only():
    traced = [name for name in METHODS if "trace" in method_class(name)().get_params()]
    assert "mean_field" in traced
    for method in traced:
        history = ask(*ZOO["grid"](), method, trace=True).history
        assert len(history) > len(solve(method, "grid").history)
        for field, numbers in history.items():
            assert not numbers.flags.writeable, (method, field)


@on(ZOO)
@every_task
def test_results_survive_pickle(method, model, task):
    result = solve(method, model, task)
    again = pickle.loads(pickle.dumps(result))
    for (field, before), (_, after) in zip(all_numbers(result), all_numbers(again), strict=True):
        np.testing.assert_array_equal(before, after, err_msg=field)
    assert again.status is result.status
    assert repr(again) == repr(result)
    if result.mu is not None and result.graph.n_factors and result.mu_error is None:
        np.testing.assert_allclose(again.factor_marginals(0), result.factor_marginals(0), atol=1e-12)


@on(FEASIBLE)
def test_assignment_is_the_most_probable_state_of_each_variable(method, model):
    result = solve(method, model)
    if result.task != "marginals":
        return
    expected = [int(np.argmax(result.marginals(v))) for v in range(result.graph.n_variables)]
    assert result.assignment.tolist() == expected


@on(FEASIBLE)
def test_feasible_models_are_never_reported_infeasible(method, model):
    for task in ("marginals", "map"):
        assert solve(method, model, task).status is not Status.INFEASIBLE


@on(sorted(INFEASIBLE))
@every_task
def test_infeasible_models(method, model, task):
    result = solve(method, model, task)
    if result.status is Status.INFEASIBLE:
        assert result.lower_bound == result.upper_bound == -np.inf
        assert result.log_partition == (-np.inf if result.task == "marginals" else None)
        return
    # Local consistency does not detect every contradiction, but no finite value may be called exact or a lower bound.
    assert not method_class(method).exact
    assert model != "infeasible_variable"
    assert result.score == -np.inf
    assert result.lower_bound == -np.inf
    if result.log_partition_is in ("exact", "lower bound"):
        assert result.log_partition == -np.inf


@on(FEASIBLE)
def test_variable_marginals_are_distributions(method, model):
    result = solve(method, model)
    for v in range(result.graph.n_variables):
        belief = result.marginals(v)
        assert belief.min() >= 0
        assert belief.sum() == pytest.approx(1.0, abs=1e-9)


@on(FEASIBLE)
def test_factor_marginals_are_distributions_and_agree_with_variables(method, model):
    result = solve(method, model)
    for c in range(result.graph.n_factors):
        joint = result.factor_marginals(c)
        assert joint.shape == result.graph.factor_shape(c)
        assert joint.min() >= 0
        assert joint.sum() == pytest.approx(1.0, abs=1e-9)
        if not result.converged:
            continue
        scope = result.graph.scope(c)
        for axis, v in enumerate(scope):
            others = tuple(a for a in range(scope.size) if a != axis)
            np.testing.assert_allclose(joint.sum(axis=others), result.marginals(int(v)), atol=slack(result))


@on(FEASIBLE)
def test_mu_is_the_sum_of_the_factors_that_share_a_table(method, model):
    result = solve(method, model)
    graph = result.graph
    if not result.converged:
        return
    expected = np.zeros(graph.n_theta)
    expected[: graph.variable_ptr[-1]] = result.mu[: graph.variable_ptr[-1]]
    for c in range(graph.n_factors):
        table = int(graph.table_of_factor[c])
        block = expected[graph.table_ptr[table] : graph.table_ptr[table + 1]]
        joint = result.factor_marginals(c)
        if graph.table_kind[table] == 0:
            block += joint.reshape(-1)
        else:
            unit = np.zeros(graph.n_theta)
            unit[graph.table_ptr[table]] = 1.0
            block += (joint * graph.factor_table(unit, c)).sum()
    np.testing.assert_allclose(result.mu, expected, atol=max(10 * slack(result), 1e-9))


def test_mean_field_factorises():
    for model in FEASIBLE:
        result = solve("mean_field", model)
        for c in range(result.graph.n_factors):
            product = np.ones(())
            for v in result.graph.scope(c):
                product = np.multiply.outer(product, result.marginals(int(v)))
            np.testing.assert_allclose(result.factor_marginals(c), product, atol=1e-6)


# ---------------------------------------------------------------- log Z and MAP beside enumeration


@on(ZOO)
def test_log_partition_satisfies_its_guarantee(method, model):
    result = solve(method, model)
    if result.task == "marginals":
        check_log_partition(result, truth_of(model))


@on(ZOO)
@pytest.mark.parametrize("max_iter", [1, 3])
def test_bounds_hold_when_stopped_early(method, model, max_iter):
    defaults = method_class(method)().get_params()
    if "max_iter" not in defaults or "burn_in" in defaults or not method_class(method).gives_marginals:
        return
    result = ask(*ZOO[model](), method, max_iter=max_iter)
    assert result.n_iter <= max_iter
    check_log_partition(result, truth_of(model))
    if not result.converged and result.status is not Status.INFEASIBLE:
        assert result.log_partition_is in ("lower bound", "estimate")


@on(FEASIBLE)
def test_exact_methods_equal_enumeration(method, model):
    if not method_class(method).exact:
        return
    result = solve(method, model)
    truth = truth_of(model)
    assert result.status is Status.EXACT
    np.testing.assert_allclose(result.mu, truth.mu, atol=1e-9)
    for c in range(result.graph.n_factors):
        np.testing.assert_allclose(result.factor_marginals(c), truth.factor_marginals[c], atol=1e-9)


@on(FEASIBLE)
def test_map_agrees_with_enumeration(method, model):
    result = solve(method, model, "map")
    if result.task != "map":
        return
    best = truth_of(model).best_score
    tiny = 1e-9 * max(1.0, abs(best))
    assert result.score <= best + tiny
    assert result.lower_bound <= best + tiny
    assert result.upper_bound >= best - tiny
    if method_class(method).exact or method_class(method).proves_map:
        assert result.status is Status.EXACT
    if result.status is Status.EXACT:
        assert result.score == pytest.approx(best, abs=tiny)
        assert result.upper_bound == pytest.approx(best, abs=tiny)


@on(["chain", "tree", "hard_implications", "unary_factors_twice", "one_state_variables"])
def test_samples_follow_the_model(method, model):
    if not method_class(method).gives_samples:
        return
    graph, theta = ZOO[model]()
    result = ask(graph, theta, method, n_samples=2000)
    assert result.samples.shape == (2000, graph.n_variables)
    assert np.isfinite(graph.score(theta, result.samples)).all()
    frequency = graph.statistics(result.samples) / 2000
    # 0.045 is four standard deviations of a frequency over 2000 independent samples; chains have larger errors.
    np.testing.assert_allclose(frequency, truth_of(model).mu, atol=0.045 if method_class(method).exact else 0.1)


@on(["chain", "tree", "ties", "hard_zeros_three_way", "one_node", "potts"])
def test_best_labellings_in_descending_order(method, model):
    if not method_class(method).gives_best:
        return
    graph, theta = ZOO[model]()
    result = ask(graph, theta, method, n_best=6)
    expected = np.sort(truth_of(model).scores)[::-1][:6]
    np.testing.assert_allclose(result.best_scores, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(graph.score(theta, result.best), expected, rtol=1e-9, atol=1e-9)
    assert len(np.unique(result.best, axis=0)) == len(expected)
