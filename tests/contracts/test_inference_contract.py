"""What every inference method promises, on every model of the zoo. Joining the registry is joining these tests.

A promise is checked against plain enumeration by a tester that knows what kind of answer it looks at: EXACT, BOUND or
ESTIMATE, as the result itself says. A method may refuse a model (a forest method a loop) but then by name and reason.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from tests.oracles.enumeration import enumerate_model
from tests.zoo import FORESTS, INFEASIBLE, ZOO

import intarsia
from intarsia import Status, method_class, method_names
from intarsia.exceptions import ConvergenceWarning, IntarsiaError, NotSupportedError, TooLargeError


def _there(name):
    try:
        method_class(name)
    except ImportError:
        return False
    return True


METHODS = [n for n in method_names() if _there(n)]
FEASIBLE = [name for name in ZOO if name not in INFEASIBLE]
# Unshared tables and no ties: where an answer must move along with the model.
PLAIN = ["isolated_node", "chain", "tree", "grid", "three_way_factor", "unequal_state_counts", "hard_zeros"]
SEED = 7
ABILITIES = {
    "gives_marginals": {"task": "marginals"},
    "gives_map": {"task": "map"},
    "gives_samples": {"n_samples": 3},
    "gives_best": {"n_best": 3},
}


# ---------------------------------------------------------------- how a method is asked


class Refusal:
    def __init__(self, error: IntarsiaError) -> None:
        self.error = error


def ask(graph, theta, method, task="marginals", **options):
    """Result of `infer`, or the refusal; not having converged is said by the status, so the warning is dropped."""
    options.setdefault("random_state", SEED)
    if task == "marginals" and not method_class(method).gives_marginals:
        task = "map"
    if task == "map" and not method_class(method).gives_map:
        task = "marginals"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            return intarsia.infer(graph, theta, method, task, **options)
        except (NotSupportedError, TooLargeError) as error:
            return Refusal(error)


@functools.cache
def solve(method, model, task="marginals"):
    return ask(*ZOO[model](), method, task)


@functools.cache
def truth_of(model):
    return enumerate_model(*ZOO[model]())


def answer_or_end(method, model, task="marginals"):
    """The cached result; a refusal ends the test, since `test_refuses_only_with_reason` has checked it."""
    result = solve(method, model, task)
    if isinstance(result, Refusal):
        pytest.skip(f"refused: {result.error}")
    return result


def slack(result, at=None):
    """How far mu may be from what its own fixed point says: rounding, the tolerance, or Monte-Carlo error."""
    if result.mu_error is not None:
        error = result.mu_error if at is None else result.mu_error[at]
        return 6 * np.max(error, initial=0.0) + 0.02
    return 1e-9 if result.method.exact else 1e-4


def all_numbers(result):
    """Every number in a result, with the name of its field."""
    for name in ("mu", "assignment", "samples", "best", "best_scores", "mu_error", "messages"):
        value = getattr(result, name)
        if value is not None:
            yield name, np.asarray(value)
    for name in ("score", "log_partition", "lower_bound", "upper_bound", "residual", "seconds", "r_hat"):
        value = getattr(result, name)
        if value is not None:
            yield name, np.asarray(value)
    for name, value in result.history.items():
        yield f"history[{name!r}]", np.asarray(value)


every_method = pytest.mark.parametrize("method", METHODS)
every_model = pytest.mark.parametrize("model", ZOO)
every_task = pytest.mark.parametrize("task", ["marginals", "map"])


# ---------------------------------------------------------------- abilities


@every_method
def test_class_attributes_are_filled_in(method):
    found = method_class(method)
    assert found.name == method
    assert found.summary
    assert found.cost
    assert found.log_partition_is in (None, "exact", "upper bound", "lower bound", "estimate")
    assert found.exact == (found.log_partition_is == "exact")
    assert found.gives_marginals or found.gives_map


@every_method
@pytest.mark.parametrize("ability", ABILITIES)
def test_declared_abilities_are_true(method, ability):
    graph, theta = ZOO["chain"]()
    options = dict(ABILITIES[ability])
    found = method_class(method)
    if "task" not in options:
        options["task"] = "marginals" if found.gives_marginals else "map"
    if getattr(found, ability):
        result = intarsia.infer(graph, theta, method, random_state=SEED, **options)
        wanted = {"gives_marginals": "mu", "gives_map": "assignment", "gives_samples": "samples", "gives_best": "best"}
        assert getattr(result, wanted[ability]) is not None
        return
    able = [name for name in METHODS if getattr(method_class(name), ability)]
    with pytest.raises(NotSupportedError) as caught:
        intarsia.infer(graph, theta, method, **options)
    assert found.__name__ in str(caught.value)
    assert "These do: " + ", ".join(able) in str(caught.value)


@every_method
@every_model
def test_refuses_only_with_reason(method, model):
    result = solve(method, model)
    if not isinstance(result, Refusal):
        return
    message = str(result.error)
    assert method_class(method).__name__ in message
    assert any(name in message or method_class(name).__name__ in message for name in METHODS if name != method)
    widest = method_class(method).max_scope
    too_wide = widest is not None and ZOO[model]()[0].max_scope > widest
    assert model not in FORESTS or too_wide, "a model without loops and within max_scope is refused"


@pytest.mark.parametrize("model", FEASIBLE)
def test_each_model_has_two_exact_answers(model):
    exact = [name for name in METHODS if method_class(name).exact]
    assert sum(not isinstance(solve(name, model), Refusal) for name in exact) >= 2


# ---------------------------------------------------------------- the answer itself


@every_method
@every_model
@every_task
def test_never_nan(method, model, task):
    result = answer_or_end(method, model, task)
    for field, numbers in all_numbers(result):
        assert not np.isnan(numbers).any(), field


@every_method
@every_model
@every_task
def test_fields_are_well_formed(method, model, task):
    result = answer_or_end(method, model, task)
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
    for name, values in result.history.items():
        assert values.shape == (result.n_iter,), name
    if result.n_iter:
        assert "residual" in result.history
        assert result.history["residual"][-1] == result.residual
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
        np.testing.assert_array_equal(result.mu, graph.statistics(result.assignment))
    assert type(result.method).__name__ in repr(result)


@every_method
@every_model
@every_task
def test_arrays_are_read_only(method, model, task):
    result = answer_or_end(method, model, task)
    for field, numbers in all_numbers(result):
        assert numbers.ndim == 0 or not numbers.flags.writeable, field


@every_method
@pytest.mark.parametrize("model", FEASIBLE)
def test_feasible_models_are_never_called_infeasible(method, model):
    for task in ("marginals", "map"):
        assert answer_or_end(method, model, task).status is not Status.INFEASIBLE


@every_method
@pytest.mark.parametrize("model", sorted(INFEASIBLE))
@every_task
def test_infeasible_models(method, model, task):
    result = answer_or_end(method, model, task)
    if result.status is Status.INFEASIBLE:
        assert result.lower_bound == result.upper_bound == -np.inf
        assert result.log_partition == (-np.inf if result.task == "marginals" else None)
        return
    # Local consistency does not see every contradiction; but nothing finite may then be claimed as exact or below.
    assert not method_class(method).exact
    assert model != "infeasible_variable"
    assert result.score == -np.inf
    assert result.lower_bound == -np.inf
    if result.log_partition_is in ("exact", "lower bound"):
        assert result.log_partition == -np.inf


@every_method
@pytest.mark.parametrize("model", FEASIBLE)
def test_variable_marginals_are_distributions(method, model):
    result = answer_or_end(method, model)
    for v in range(result.graph.n_variables):
        belief = result.marginals(v)
        assert belief.min() >= 0
        assert belief.sum() == pytest.approx(1.0, abs=1e-9)


@every_method
@pytest.mark.parametrize("model", FEASIBLE)
def test_factor_marginals_are_distributions_and_fit_the_variables(method, model):
    result = answer_or_end(method, model)
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


@every_method
@pytest.mark.parametrize("model", FEASIBLE)
def test_mu_is_the_sum_of_the_factors_that_share_a_table(method, model):
    result = answer_or_end(method, model)
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


def check_log_partition(result, truth):
    """EXACT, BOUND or ESTIMATE: hold the result to what it says of itself."""
    value, exact = result.log_partition, truth.log_partition
    tiny = 1e-9 * max(1.0, abs(exact)) if np.isfinite(exact) else 0.0
    match result.log_partition_is:
        case None:
            assert value is None
        case "exact":
            assert value == pytest.approx(exact, abs=tiny)
        case "lower bound":
            assert value <= exact + tiny
        case "upper bound":
            assert value >= exact - tiny
        case "estimate":
            assert not np.isnan(value)
        case unknown:
            pytest.fail(f"log_partition_is={unknown!r} is none of the four words")
    assert result.lower_bound <= exact + tiny
    assert result.upper_bound >= exact - tiny
    promised = type(result.method).log_partition_is
    if result.converged and promised in ("exact", "lower bound", "upper bound"):
        assert result.log_partition_is in (promised, "exact")
    if promised == "lower bound":  # holds at every sweep, not only at convergence
        assert result.log_partition_is in ("lower bound", "exact")


@every_method
@every_model
def test_log_partition_is_what_it_says(method, model):
    result = answer_or_end(method, model)
    if result.task == "marginals":
        check_log_partition(result, truth_of(model))


@every_method
@pytest.mark.parametrize("model", FEASIBLE)
def test_exact_methods_equal_enumeration(method, model):
    if not method_class(method).exact:
        return
    result = answer_or_end(method, model)
    truth = truth_of(model)
    assert result.status is Status.EXACT
    np.testing.assert_allclose(result.mu, truth.mu, atol=1e-9)
    for c in range(result.graph.n_factors):
        np.testing.assert_allclose(result.factor_marginals(c), truth.factor_marginals[c], atol=1e-9)


@every_method
@pytest.mark.parametrize("model", FEASIBLE)
def test_map_beside_enumeration(method, model):
    result = answer_or_end(method, model, "map")
    if result.task != "map":
        return
    best = truth_of(model).best_score
    tiny = 1e-9 * max(1.0, abs(best))
    assert result.score <= best + tiny
    assert result.lower_bound <= best + tiny
    assert result.upper_bound >= best - tiny
    if method_class(method).exact:
        assert result.status is Status.EXACT
        assert result.score == pytest.approx(best, abs=tiny)
        assert result.upper_bound == pytest.approx(best, abs=tiny)


@every_method
@pytest.mark.parametrize("model", ["chain", "tree", "hard_implications", "unary_factors_twice", "one_state_variables"])
def test_samples_follow_the_model(method, model):
    if not method_class(method).gives_samples:
        return
    graph, theta = ZOO[model]()
    result = ask(graph, theta, method, n_samples=2000)
    assert result.samples.shape == (2000, graph.n_variables)
    assert np.isfinite(graph.score(theta, result.samples)).all()
    frequency = graph.statistics(result.samples) / 2000
    # 0.045 is four standard deviations of a frequency over 2000 independent draws; chains mix less well.
    np.testing.assert_allclose(frequency, truth_of(model).mu, atol=0.045 if method_class(method).exact else 0.1)


@every_method
@pytest.mark.parametrize("model", ["chain", "tree", "ties", "hard_zeros_three_way", "one_node", "potts"])
def test_best_labellings_in_falling_order(method, model):
    if not method_class(method).gives_best:
        return
    graph, theta = ZOO[model]()
    result = ask(graph, theta, method, n_best=6)
    if isinstance(result, Refusal):
        pytest.skip(f"refused: {result.error}")
    expected = np.sort(truth_of(model).scores)[::-1][:6]
    np.testing.assert_allclose(result.best_scores, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(graph.score(theta, result.best), expected, rtol=1e-9, atol=1e-9)
    assert len(np.unique(result.best, axis=0)) == len(expected)


# ---------------------------------------------------------------- answers move along with the model


def variables_of(result):
    return result.mu[: result.graph.variable_ptr[-1]]


@every_method
@pytest.mark.parametrize("model", [*PLAIN, "shared_chain", "one_state_variables"])
@pytest.mark.parametrize("where", ["variable", "table"])
def test_adding_a_constant_to_a_block(method, model, where):
    graph, theta = ZOO[model]()
    before = answer_or_end(method, model)
    shifted = theta.copy()
    if where == "variable":
        graph.variable(shifted, 1)[:] += 0.75
        gain = 0.75
    else:
        graph.table(shifted, 0)[...] += 0.75
        gain = 0.75 * int((graph.table_of_factor == 0).sum())
    after = ask(graph, shifted, method)
    if before.log_partition is not None and before.log_partition > -np.inf:
        loose = 1e-9 if method_class(method).exact else 1e-5
        assert after.log_partition == pytest.approx(before.log_partition + gain, abs=loose)
    assert after.score == pytest.approx(before.score + gain, abs=1e-9)
    np.testing.assert_allclose(after.mu, before.mu, atol=slack(before))


def relabelled(graph, theta, seed=5):
    """The same model with the states of every variable in another order, and that order."""
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(k) for k in graph.n_states]
    changed = theta.copy()
    for v in range(graph.n_variables):
        graph.variable(changed, v)[:] = graph.variable(theta, v)[orders[v]]
    for c in range(graph.n_factors):
        graph.table(changed, c)[...] = graph.table(theta, c)[np.ix_(*(orders[v] for v in graph.scope(c)))]
    return changed, orders


@every_method
@pytest.mark.parametrize("model", PLAIN)
def test_relabelling_states_permutes_marginals(method, model):
    graph, theta = ZOO[model]()
    before = answer_or_end(method, model)
    changed, orders = relabelled(graph, theta)
    after = ask(graph, changed, method)
    if not (before.converged and after.converged):
        return
    for v in range(graph.n_variables):
        np.testing.assert_allclose(after.marginals(v), before.marginals(v)[orders[v]], atol=slack(before))
    if before.log_partition is not None and before.mu_error is None:
        assert after.log_partition == pytest.approx(before.log_partition, abs=1e-5)


@every_method
def test_isolated_variables_are_softmax(method):
    graph, theta = ZOO["isolated_node"]()
    result = solve(method, "isolated_node")
    scores = graph.variable(theta, 2)
    if result.task == "map":
        assert result.assignment[2] == scores.argmax()
        return
    softmax = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    np.testing.assert_allclose(result.marginals(2), softmax, atol=slack(result))


@every_method
def test_one_state_variables_are_certain(method):
    result = solve(method, "one_state_variables")
    for v in (0, 2, 4):
        assert result.marginals(v).tolist() == [1.0]
        assert result.assignment[v] == 0


# ---------------------------------------------------------------- evidence and temperature


@every_method
@pytest.mark.parametrize("model", ["chain", "grid", "three_way_factor", "potts", "same_scope_twice", "hard_zeros"])
def test_evidence(method, model):
    graph, theta = ZOO[model]()
    evidence = {1: 1, graph.n_variables - 1: 0}
    truth = enumerate_model(graph, theta, evidence)
    result = ask(graph, theta, method, evidence=evidence)
    if isinstance(result, Refusal):
        assert model not in FORESTS
        return
    for v, state in evidence.items():
        assert result.marginals(v).tolist() == np.eye(graph.n_states[v])[state].tolist()
        assert result.assignment[v] == state
    if result.task == "marginals":
        check_log_partition(result, truth)
    if method_class(method).exact:
        np.testing.assert_allclose(result.mu, truth.mu, atol=1e-9)


@every_method
def test_everything_known(method):
    graph, theta = ZOO["grid"]()
    y = [0, 1, 0, 1, 1, 0, 0, 1, 1]
    result = ask(graph, theta, method, evidence=dict(enumerate(y)))
    assert result.assignment.tolist() == y
    np.testing.assert_array_equal(result.mu, graph.statistics(y))
    if result.task == "marginals":
        assert result.log_partition == pytest.approx(graph.score(theta, y))
        assert result.log_partition_is == "exact"


@every_method
def test_impossible_evidence_is_infeasible(method):
    graph, theta = ZOO["hard_implications"]()
    for evidence in ({0: 1, 1: 0}, {1: 1, 2: 0, 4: 1}):
        assert ask(graph, theta, method, evidence=evidence).status is Status.INFEASIBLE


@every_method
@pytest.mark.parametrize("model", ["chain", "grid", "three_way_tree", "potts", "hard_zeros", "one_state_variables"])
@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_temperature(method, model, temperature):
    if not method_class(method).gives_marginals:
        return
    graph, theta = ZOO[model]()
    result = ask(graph, theta, method, temperature=temperature)
    if isinstance(result, Refusal):
        assert model not in FORESTS
        return
    truth = enumerate_model(graph, theta, temperature=temperature)
    check_log_partition(result, truth)
    if method_class(method).exact:
        np.testing.assert_allclose(result.mu, truth.mu, atol=1e-9)


@every_method
@pytest.mark.parametrize("model", ["chain", "grid", "hard_implications"])
def test_temperature_zero_is_map(method, model):
    graph, theta = ZOO[model]()
    result = ask(graph, theta, method, temperature=0.0)
    if isinstance(result, Refusal):
        assert model not in FORESTS or not method_class(method).gives_map
        return
    best = truth_of(model).best_score
    assert result.score <= best + 1e-9
    if result.task == "marginals":
        assert result.lower_bound <= best + 1e-9 <= result.upper_bound + 2e-9
    if method_class(method).exact:
        assert result.score == pytest.approx(best)


# ---------------------------------------------------------------- settings, seeds, limits


@every_method
def test_settings_survive_clone_and_are_left_alone(method):
    found = method_class(method)
    settings = found()
    params = settings.get_params()
    assert params == clone(settings).get_params() == found(**params).get_params()
    assert "temperature" in params
    graph, theta = ZOO["chain"]()
    task = "marginals" if found.gives_marginals else "map"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = intarsia.infer(graph, theta, settings, task, temperature=0.9 if task == "marginals" else 0.0)
    assert settings.get_params() == params
    assert [key for key in vars(settings) if key not in params] == [], "a run must not store anything"
    assert type(result.method) is found


@every_method
@pytest.mark.parametrize("model", ["chain", "grid", "three_way_factor"])
@every_task
def test_same_seed_same_answer(method, model, task):
    first = answer_or_end(method, model, task)
    second = ask(*ZOO[model](), method, task)
    for (field, before), (_, after) in zip(all_numbers(first), all_numbers(second), strict=True):
        if field != "seconds":
            np.testing.assert_array_equal(before, after, err_msg=field)


@every_method
@pytest.mark.parametrize("model", ["chain", "grid", "three_way_factor", "hard_zeros", "potts", "isolated_node"])
@every_task
def test_warm_start_from_the_end_ends_at_once(method, model, task):
    earlier = answer_or_end(method, model, task)
    graph, theta = ZOO[model]()
    again = ask(graph, theta, method, task, warm_start=earlier)
    if earlier.mu_error is not None or not earlier.converged:
        return
    assert again.converged
    assert again.n_iter <= 2
    assert again.score == pytest.approx(earlier.score)
    np.testing.assert_allclose(again.mu, earlier.mu, atol=slack(earlier))


@every_method
def test_time_limit_is_kept(method):
    graph = intarsia.grid_graph(40, 40, 4)
    theta = 3 * np.random.default_rng(1).standard_normal(graph.n_theta)
    small = intarsia.chain_graph(3, 4)
    ask(small, small.zeros(), method)  # compile
    ask(graph, theta, method, time_limit=1e-9)
    start = time.perf_counter()
    result = ask(graph, theta, method, time_limit=1e-9)
    assert time.perf_counter() - start < 2.0
    if isinstance(result, Refusal):
        assert method_class(method).exact
        return
    assert result.status is Status.TIME_LIMIT
    assert result.mu is not None


# ---------------------------------------------------------------- with and without compilation

JIT_MODELS = ["isolated_node", "three_way_tree", "hard_implications", "unequal_state_counts", "potts"]
_WITHOUT_JIT = """
import json, sys
from tests.contracts.test_inference_contract import JIT_MODELS, jit_answers
json.dump(jit_answers(), sys.stdout)
"""


def jit_answers():
    """Numbers of every method on a few models, few sweeps, as plain lists."""
    answers = {}
    for method in METHODS:
        known = method_class(method)().get_params()
        settings = {key: value for key, value in (("max_iter", 5), ("n_chains", 2), ("burn_in", 5)) if key in known}
        for model in JIT_MODELS:
            for task in ("marginals", "map"):
                result = ask(*ZOO[model](), method, task, **settings)
                if not isinstance(result, Refusal):
                    answers[f"{method} {model} {task}"] = [
                        result.status.name, result.mu.tolist(), result.log_partition, result.assignment.tolist()
                    ]  # fmt: skip
    return answers


def test_jit_on_and_off_agree():
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_JIT],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    plain, compiled = json.loads(done.stdout), jit_answers()
    assert plain.keys() == compiled.keys()
    for key, (status, mu, log_partition, assignment) in compiled.items():
        assert plain[key][0] == status, key
        np.testing.assert_allclose(plain[key][1], mu, atol=1e-9, err_msg=key)
        assert plain[key][2] == (None if log_partition is None else pytest.approx(log_partition, abs=1e-9)), key
        assert plain[key][3] == assignment, key
