"""One contract of all estimators: predictions change nothing, equal settings change nothing, None is no energy."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from tests.contracts.saved_models import KINDS, QUICK, WORDS, make, plain, predictions

from intarsia import BetheMirrorDescent, ChainCRF, GraphCRF, GridCRF
from intarsia._core.settings import Settings
from intarsia.energies import Count, MeasuredEnergy, Squared, at_most_one
from intarsia.exceptions import InvalidInputError

TAGS = [["a", "b", "a"], ["b", "a", "b"]]
GRAPHS = [(np.eye(3), [[0, 1], [1, 2]]), (np.eye(3)[::-1], [[0, 1], [0, 2]])]
DATA: dict[str, tuple[Any, Any]] = {"ChainCRF": (WORDS, TAGS), "GraphCRF": (GRAPHS, TAGS)}
MAKE: dict[str, Any] = {"ChainCRF": ChainCRF, "GraphCRF": lambda **more: GraphCRF(learner=QUICK, **more)}
ENERGY = MeasuredEnergy(Count("a"), Squared(0.0), psi=3.0)
CLOSE = BetheMirrorDescent(tol=1e-9)
with_energies = pytest.mark.parametrize("kind", DATA)


def snapshot(value: Any, depth: int = 6) -> Any:
    """Return the content of a value: arrays with their bytes and whether they are writable."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.dtype.str, value.shape, value.tobytes(), value.flags.writeable
    if sparse.issparse(value):
        return snapshot([value.data, value.indices, value.indptr])
    if isinstance(value, dict):
        return {str(key): snapshot(item, depth - 1) for key, item in value.items()} if depth else None
    if isinstance(value, (list, tuple, np.ndarray)):
        return [snapshot(item, depth - 1) for item in value] if depth else None
    if hasattr(value, "__dict__") and not callable(value):
        public = {key: item for key, item in vars(value).items() if not key.startswith("_")}
        return type(value).__name__, snapshot(public, depth - 1) if depth else None
    return repr(value) if isinstance(value, (str, int, float, bool, type(None))) else type(value).__name__


def public_attributes(model: Any) -> dict[str, Any]:
    """Return a snapshot of all public attributes of a model: settings, learned attributes, properties."""
    names = [name for name in dir(model) if not name.startswith("_")]
    values = {name: getattr(model, name) for name in names if hasattr(model, name)}
    return {name: snapshot(value) for name, value in values.items() if not callable(value)}


def equal_values(value: Any) -> list[Any]:
    """Return other values of a setting that mean the same."""
    others = [copy.deepcopy(value)]
    if isinstance(value, list):
        others.append(tuple(value))
    return others


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_change_no_public_attribute(kind):
    model = make(kind)
    before = public_attributes(model)
    assert any(name.endswith("_") for name in before)
    first = predictions(model)
    assert public_attributes(model) == before
    assert predictions(model) == first


@pytest.mark.parametrize("kind", KINDS)
def test_equal_settings_change_nothing(kind):
    model = make(kind)
    expected, attributes = predictions(model), public_attributes(model)
    for name, value in model.get_params(deep=False).items():
        for other in equal_values(value):
            assert predictions(model.set_params(**{name: other})) == expected, name
            model.set_params(**{name: value})
    for name, registry in getattr(model, "_parts", {}).items():
        value = getattr(model, name)
        if isinstance(value, str) and value in registry.names:  # an object with default settings for its name
            assert predictions(model.set_params(**{name: registry.resolve(value)})) == expected, name
            model.set_params(**{name: value})
    assert public_attributes(model) == attributes


@with_energies
def test_no_energies_are_none_or_an_empty_list(kind):
    X, y = DATA[kind]
    expected = MAKE[kind](energies=None).fit(X, y)
    for empty in ([], ()):
        model = MAKE[kind](energies=empty).fit(X, y)
        assert model.energies_ is None
        np.testing.assert_array_equal(model.weights_, expected.weights_)
        for first in (None, [], ()):
            for then in (None, [], ()):
                model = MAKE[kind](energies=first).fit(X, y).set_params(energies=then)
                assert plain(model.predict_marginals(X)) == plain(expected.predict_marginals(X))


@with_energies
def test_a_single_energy_is_a_list_of_one(kind):
    X, y = DATA[kind]
    model = MAKE[kind](energies=ENERGY, energy_learner=None).fit(X, y)
    expected = plain(model.predict_marginals(X))
    assert plain(model.set_params(energies=[ENERGY]).predict_marginals(X)) == expected
    for changed in (None, [], [ENERGY, ENERGY], at_most_one("a")):
        with pytest.raises(InvalidInputError, match="energies was changed after fit"):
            model.set_params(energies=changed).predict(X)


@with_energies
@pytest.mark.parametrize("freeze", [None, False])
def test_without_a_learner_psi_keeps_its_value(kind, freeze, tmp_path):
    """A large psi leaves no mass on the label that the energy charges; the file keeps it."""
    X, y = DATA[kind]

    def fitted(psi, **more):
        energy = MeasuredEnergy(Count("a"), Squared(0.0), psi=psi)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return MAKE[kind](energies=[energy], projection=CLOSE, **more).fit(X, y, freeze_weights=freeze)

    without = MAKE[kind]().fit(X, y)
    counts = [marginals[:, 0].sum() for marginals in without.predict_marginals(X)]
    at_zero, strong = fitted(0.0, energy_learner=None), fitted(1000.0, energy_learner=None)
    np.testing.assert_array_equal(strong.weights_, without.weights_)
    assert [m[:, 0].sum() for m in at_zero.predict_marginals(X)] == pytest.approx(counts, abs=1e-6)
    assert max(m[:, 0].sum() for m in strong.predict_marginals(X)) < 0.1 < min(counts)
    strong.save(tmp_path / "model")
    loaded = MAKE[kind]().load(tmp_path / "model")
    assert plain(loaded.predict_marginals(X)) == plain(strong.predict_marginals(X))


@pytest.mark.parametrize("model", [ChainCRF(), GraphCRF(learner=QUICK), GridCRF(learner=QUICK)])
def test_assigned_weights_are_used_and_belong_to_the_user(model):
    kind = type(model).__name__
    X, y = DATA.get(kind, ([np.eye(3)[..., None]], [np.eye(3, dtype=int)]))
    model.fit(X, y)
    expected = plain(model.predict_marginals(X))
    mine = np.array(model.weights_)
    model.weights_ = mine
    assert plain(model.predict_marginals(X)) == expected
    model.predict(X)
    assert mine.flags.writeable
    other = copy.deepcopy(model)
    other.weights_ = -mine
    swapped = plain(other.predict(X))
    restored = pickle.loads(pickle.dumps(model))
    assert plain(restored.predict(X)) == plain(model.predict(X))
    try:
        restored.weights_[:] = -mine
    except ValueError:  # weights that cannot be changed in place cannot be out of date
        assert kind == "ChainCRF"
    else:
        assert plain(restored.predict(X)) == swapped


def test_settings_are_compared_by_meaning():
    class Model(Settings):
        def __init__(self, *, rules=None):
            self.rules = rules

    from intarsia._core.transaction import SettingsOfFit

    for first, then, is_equal in [
        (None, [], True),
        ((), None, True),
        ([1], 1, True),
        (["a"], "a", True),
        (None, [None], True),
        ([1, 2], (1, 2), True),
        (None, [0], False),
        ([1, 2], [2, 1], False),
        ("", None, False),
        (0, None, False),
        (False, None, False),
    ]:
        model = Model(rules=first)
        fitted = SettingsOfFit(model, ("rules",))
        assert (fitted.changed(model.set_params(rules=then)) is None) == is_equal, (first, then)
