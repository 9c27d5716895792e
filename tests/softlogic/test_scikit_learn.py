"""`SoftLogic` and its learners follow the conventions of scikit-learn."""

from __future__ import annotations

import pickle
from itertools import pairwise

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from intarsia import Program, SoftLogic
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic import (
    HINGE_LEARNERS,
    ConsensusADMM,
    PairedDual,
    PointEM,
    PrimalSubgradient,
    ProjectedSubgradient,
)

SHORT = ProjectedSubgradient(max_iter=3)


def rules() -> Program:
    """Return a program with latent sides and labelled claims; friends are on the same side."""
    return (
        Program()
        .predicate("Friends", 2)
        .predicate("Side", 1)
        .predicate("Claims", 1)
        .rule("1: Friends(A, B) & Side(A) -> Side(B) ^2")
        .rule("2: Side(A) -> Claims(A) ^2")
        .rule("1: !Claims(A) ^2")
    )


def with_people(program: Program, *people: str) -> Program:
    """Add data in which each person is a friend of the next, and the first person has a claim."""
    program.observe("Friends", list(pairwise(people)))
    program.latent("Side", list(people)).target("Claims", list(people))
    return program.truth("Claims", [(name, float(k == 0)) for k, name in enumerate(people)])


def plain(tables):
    """Convert tables, or a table, so that columns can be compared with ==."""
    return {key: plain(value) if isinstance(value, dict) else list(value) for key, value in tables.items()}


def model(**settings) -> SoftLogic:
    return SoftLogic(with_people(rules(), "ann", "bob", "eve"), **settings)


def fitted() -> SoftLogic:
    return model(learner=PairedDual(optimizer=SHORT, random_state=2)).fit()


@pytest.fixture(scope="module")
def learned() -> SoftLogic:
    return fitted()


def test_nested_settings_of_named_components():
    changed = model().set_params(learner__l2=0.3, learner__optimizer__step_size=0.2, inference__tol=1e-7)
    assert isinstance(changed.learner, PairedDual)
    assert (changed.learner.l2, changed.learner.optimizer.step_size, changed.inference.tol) == (0.3, 0.2, 1e-7)
    params = changed.get_params()
    assert (params["learner__optimizer__step_size"], params["inference__tol"]) == (0.2, 1e-7)
    assert model(learner="pseudo_likelihood").set_params(learner__max_iter=7).learner.max_iter == 7


def test_registry_names_equal_default_objects(learned):
    named = model(inference="consensus_admm").infer()
    np.testing.assert_array_equal(named.x, model(inference=ConsensusADMM()).infer().x)
    learner = PairedDual(optimizer="projected_subgradient", random_state=2).set_params(optimizer__max_iter=3)
    np.testing.assert_array_equal(model(learner=learner).fit().weights_, learned.weights_)
    with pytest.raises(InvalidInputError, match=r"SoftLogic\.infer: inference='simplex' is not known"):
        model(inference="simplex").infer()
    with pytest.raises(InvalidInputError, match="PairedDual: optimizer='adam' is not known"):
        model(learner=PairedDual(optimizer="adam")).fit()


def test_clones_copy_settings_but_no_fitted_attributes(learned):
    copy = clone(learned)
    assert not hasattr(copy, "weights_")
    assert copy.learner.get_params(deep=False).keys() == learned.learner.get_params(deep=False).keys()
    assert copy.learner is not learned.learner
    np.testing.assert_array_equal(copy.fit().weights_, learned.weights_)


def test_fit_does_not_change_settings():
    new = model(learner=PairedDual(optimizer=SHORT))
    before = {key: repr(value) for key, value in new.get_params().items()}
    assert new.fit(None, None) is new
    assert {key: repr(value) for key, value in new.get_params().items()} == before


def test_pickle_and_joblib(learned, tmp_path):
    joblib.dump(learned, tmp_path / "model.joblib")
    for again in (pickle.loads(pickle.dumps(learned)), joblib.load(tmp_path / "model.joblib")):
        np.testing.assert_array_equal(again.weights_, learned.weights_)
        assert again.rules_ == learned.rules_
        assert plain(again.predict()) == plain(learned.predict())
    assert plain(pickle.loads(pickle.dumps(model())).predict()) == plain(model().predict())


def test_predict_returns_the_tables_of_infer(learned):
    tables = plain(learned.predict())
    assert tables == plain(learned.infer().tables())
    assert list(tables) == ["Side", "Claims"]
    assert plain(learned.predict(predicate="claims")) == tables["Claims"]
    assert plain(model().predict()) != tables, "learned weights are used"
    others = with_people(rules(), "kim", "tom")
    tables = plain(learned.predict(others))
    assert tables == plain(learned.infer(others).tables())
    assert tables["Claims"]["argument1"] == ["kim", "tom"]
    assert plain(learned.predict(others, predicate="Side")) == tables["Side"]


def test_predict_raises_on_programs_with_other_rules(learned):
    with pytest.raises(InvalidInputError, match=r"SoftLogic.predict: X must be a Program, got str.*or omit X"):
        learned.predict("Claims")
    with pytest.raises(InvalidInputError, match=r"SoftLogic.fit: the rules of X differ from those of the model"):
        learned.fit(Program().predicate("P", 1).rule("1: !P(X)"))
    with pytest.raises(InvalidInputError, match=r"SoftLogic.predict: .*Claim.*Did you mean 'Claims'"):
        learned.predict(predicate="Claim")


@pytest.mark.parametrize("learner", [PairedDual, PrimalSubgradient, PointEM], ids=lambda cls: cls.__name__)
def test_random_state_may_be_a_generator(learner):
    def weights(random_state):
        return model(learner=learner(optimizer=SHORT, random_state=random_state)).fit().weights_

    generator = np.random.default_rng(3)
    np.testing.assert_array_equal(weights(generator), weights(3))
    assert not np.array_equal(weights(generator), weights(3)), "a generator continues its stream"
    assert np.isfinite(weights(None)).all()
    with pytest.raises(InvalidInputError, match="random_state must be"):
        weights("seed")


@pytest.mark.parametrize("name", HINGE_LEARNERS.names)
def test_learners_are_cloned_and_pickled(name):
    learner = HINGE_LEARNERS.get(name)(l2=0.25)
    for copy in (clone(learner), pickle.loads(pickle.dumps(learner))):
        assert type(copy) is type(learner)
        assert copy.get_params() == learner.get_params()
