"""Errors and warnings begin with the name of the entry point."""

import ast
import inspect
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn import config_context
from sklearn.base import BaseEstimator

import intarsia
from intarsia import ChainCRF
from intarsia._core.error_context import current_place, entry_point, errors_from, errors_in, warn_caller
from intarsia._core.worker_threads import run_in_threads
from intarsia.exceptions import (
    ConvergenceWarning,
    FileFormatError,
    IntarsiaError,
    InvalidInputError,
    MissingDataError,
    MissingDependencyError,
    NotSupportedError,
    TimeLimitError,
    TooLargeError,
)


class Model(BaseEstimator):
    @entry_point
    def fit(self, X, y=None, *, sample_weight=None):
        """Fit."""
        if X is None:
            raise InvalidInputError("X is empty.")
        with errors_in("validation"):
            check_rows(X)
        return self

    @entry_point
    def score(self, X):
        return self.fit(X)

    @classmethod
    @entry_point
    def load(cls, path):
        raise FileFormatError(f"{path}: no model.")


class Special(Model):
    pass


def check_rows(rows):
    if len(rows) < 2:
        raise InvalidInputError(f"y[0] has {len(rows)} rows.")
    return len(rows)


@errors_from("count_rows")
def count_rows(rows, *, n_jobs: int = 1) -> int:
    """Count."""
    return check_rows(rows)


def message_of(call, *arguments):
    with pytest.raises(IntarsiaError) as caught:
        call(*arguments)
    return str(caught.value)


def test_names_of_classes_and_parts():
    assert message_of(Model().fit, None) == "Model.fit: X is empty."
    assert message_of(Special().fit, None) == "Special.fit: X is empty."
    assert message_of(Special().fit, [1]) == "Special.fit: validation: y[0] has 1 rows."
    assert message_of(Special.load, "a.npz") == "Special.load: a.npz: no model."
    assert message_of(count_rows, []) == "count_rows: y[0] has 0 rows."


def test_only_the_outermost_entry_point_is_named():
    assert message_of(Special().score, None) == "Special.score: X is empty."
    with pytest.raises(InvalidInputError, match=r"^outside: y\[0\] has 0 rows\.$"), errors_from("outside"):
        count_rows([])
    assert message_of(count_rows, []) == "count_rows: y[0] has 0 rows."  # and the prefix is removed afterwards
    assert current_place() == ""


def test_labels_nest_and_empty_labels_add_nothing():
    with pytest.raises(InvalidInputError, match=r"^a: b: wrong$"), errors_in("a"), errors_in(""), errors_in("b"):
        raise InvalidInputError("wrong")
    with errors_from("Model.fit"), errors_in("X[3]"), errors_from("inner"):
        assert current_place() == "Model.fit: X[3]: "
    assert current_place() == ""


@pytest.mark.parametrize(
    "kind",
    [
        IntarsiaError,
        InvalidInputError,
        FileFormatError,
        NotSupportedError,
        TooLargeError,
        TimeLimitError,
        MissingDataError,
        MissingDependencyError,
    ],
)
def test_every_error_class_keeps_object_traceback_and_arguments(kind):
    error = kind("no such thing.")
    with pytest.raises(kind) as caught, errors_from("load"):
        raise error
    assert caught.value is error
    assert str(error) == "load: no such thing."
    assert error.args == ("load: no such thing.",)
    assert caught.traceback[-1].name == "test_every_error_class_keeps_object_traceback_and_arguments"
    assert str(pickle.loads(pickle.dumps(error))) == "load: no such thing."


def test_other_arguments_and_other_errors_are_unchanged():
    with pytest.raises(InvalidInputError) as caught, errors_from("fit"):
        raise InvalidInputError("wrong", 3)
    assert caught.value.args == ("fit: wrong", 3)
    with pytest.raises(InvalidInputError) as empty, errors_from("fit"):
        raise InvalidInputError
    assert empty.value.args == ()
    with pytest.raises(ValueError, match=r"^plain$"), errors_from("fit"):
        raise ValueError("plain")


def test_errors_of_threads_and_processes_have_the_callers_name():
    expected = r"^fit: y\[0\] has 0 rows\.$"
    with pytest.raises(InvalidInputError, match=expected), errors_from("fit"), ThreadPoolExecutor(2) as pool:
        list(pool.map(check_rows, [[1, 2], []]))
    with pytest.raises(InvalidInputError, match=expected), errors_from("fit"):
        Parallel(n_jobs=2)(delayed(check_rows)(rows) for rows in ([1, 2], []))
    with errors_from("fit"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(current_place).result() == ""  # a thread of another pool has no prefix
    with errors_from("fit"):
        assert run_in_threads([current_place] * 4, n_jobs=2) == ["fit: "] * 4
    with pytest.raises(InvalidInputError, match=expected), errors_from("fit"):  # not "fit: count_rows: "
        run_in_threads([lambda: count_rows([]), lambda: count_rows([1, 2])], n_jobs=2)


def test_decorated_functions_keep_signature_and_docstring():
    assert str(inspect.signature(count_rows)) == "(rows, *, n_jobs: int = 1) -> int"
    assert count_rows.__doc__ == "Count."
    assert list(inspect.signature(Model.fit).parameters) == ["self", "X", "y", "sample_weight"]
    assert pickle.loads(pickle.dumps(count_rows)) is count_rows
    assert count_rows([1, 2]) == 2
    with config_context(enable_metadata_routing=True):
        asked = Model().set_fit_request(sample_weight=True).get_metadata_routing()
        assert asked.fit.requests == {"sample_weight": True}
        assert "sample_weight" in ChainCRF().get_metadata_routing().fit.requests


def test_warnings_point_outside_the_package_and_have_the_prefix():
    with pytest.warns(ConvergenceWarning, match=r"^infer_flows: ") as caught:
        intarsia.collective.infer_flows(np.zeros((2, 2)), [[3.0, 1.0], [1.0, 3.0]], max_iter=1, tol=1e-12)
    assert {Path(one.filename) for one in caught} == {Path(__file__)}
    with warnings.catch_warnings(record=True) as seen, errors_from("fit"), errors_in("part"):
        warnings.simplefilter("always")
        warn_caller("slow.", UserWarning)
    assert [(str(one.message), one.category, one.filename) for one in seen] == [
        ("fit: part: slow.", UserWarning, __file__)
    ]


@pytest.mark.parametrize(
    "model",
    [
        intarsia.ChainCRF(),
        intarsia.GridCRF(),
        intarsia.GraphCRF(),
        intarsia.CollectiveChain(),
        intarsia.EntityClusterer(),
        intarsia.SoftLogic(intarsia.Program()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_errors_of_estimators_begin_with_class_and_method(model):
    assert message_of(model.fit, 3, 3).startswith(f"{type(model).__name__}.fit: ")


def test_no_function_takes_the_name_of_its_caller():
    package = Path(intarsia.__file__).parent
    functions = [
        f"{file.relative_to(package)}: {node.name}"
        for file in package.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        for one in [*node.args.args, *node.args.kwonlyargs]
        if one.arg == "where" and one.annotation is not None and ast.unparse(one.annotation) == "str"
    ]
    assert functions == []
