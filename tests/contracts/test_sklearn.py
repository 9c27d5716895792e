"""Estimators in scikit-learn's own tools: cross-validation, grid search, cloning, pickling, and its common checks."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from typing import Any

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.utils import estimator_checks, get_tags
from tests.contracts.saved_models import ADDRESSES, CLASSES, COUNTS, KINDS, QUICK, make, plain, predictions

from intarsia import ChainCRF, EntityClusterer, GraphCRF, GridCRF, RecordParser, metrics
from intarsia.clusters import HillClimbing, ThresholdClusterer
from intarsia.crf import Factors, GraphInstance
from intarsia.exceptions import ConvergenceWarning, InvalidInputError

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(3)
N = 6
LENGTHS = [3, 5, 2, 4, 6, 3]
TAGS = [[("B-x", "I-x", "O")[t % 3] for t in range(n)] for n in LENGTHS]
WORDS = [[[f"w{tag}", "all"] for tag in tags] for tags in TAGS]
LABELS = [np.tile([0, 1], (2 + k % 2, 2)) for k in range(N)]
IMAGES = [np.stack([np.ones(y.shape), y + 0.1 * RNG.normal(size=y.shape)], axis=-1) for y in LABELS]
STATES = [np.arange(n) % 2 for n in LENGTHS]
GRAPHS = [
    GraphInstance(np.eye(2)[y], factors={"next": Factors([[t, t + 1] for t in range(y.size - 1)])}) for y in STATES
]
NAMES = ["Ann Lee", "Bob Ray", "Eve Fox", "Tom Poe", "Kim Orr", "Joe Day"]
RECORDS = pd.DataFrame({"name": [f"{name}{end}" for name in NAMES for end in ("", "s")] * 2})
ENTITIES = np.array([k // 2 for k in range(2 * len(NAMES))] * 2)
COMPARISONS = {"name": "jaro_winkler"}

# Estimator that learns from many instances -> the estimator, X, y, scorers for its task, a grid of one setting.
CASES: dict[str, tuple[Any, Any, Any, list[str], dict[str, list[Any]]]] = {
    "ChainCRF": (
        ChainCRF(learner="averaged_perceptron", random_state=0), WORDS, TAGS,
        ["token_accuracy_scorer", "token_f1_scorer", "sequence_accuracy_scorer", "segment_f1_scorer"],
        {"min_count": [1, 100]},
    ),
    "RecordParser": (
        RecordParser(l2=0.1), [example.text for example in ADDRESSES], [list(example.spans) for example in ADDRESSES],
        [], {"min_count": [1, 100]},
    ),
    "GridCRF": (
        GridCRF(learner=QUICK), IMAGES, LABELS, ["pixel_accuracy_scorer", "mean_iou_scorer"], {"connectivity": [4, 8]},
    ),
    "GraphCRF": (GraphCRF(learner=QUICK), GRAPHS, STATES, ["token_accuracy_scorer"], {"symmetric": [(), ("next",)]}),
    "EntityClusterer": (
        EntityClusterer(COMPARISONS, "all_pairs", decoder=HillClimbing(n_proposals=5.0)), RECORDS, ENTITIES,
        ["b_cubed_f1_scorer", "pairwise_f1_scorer", "conll_f1_scorer"], {"l2": [0.1, 1.0]},
    ),
    "ThresholdClusterer": (
        ThresholdClusterer(COMPARISONS, "all_pairs"), RECORDS, ENTITIES,
        ["b_cubed_f1_scorer", "pairwise_f1_scorer", "conll_f1_scorer"], {"l2": [0.1, 1.0]},
    ),
}  # fmt: skip
# Estimators whose training data are a single instance, so that there are no folds: a series of counts, a program.
ONE_INSTANCE = {"CollectiveChain", "SoftLogic"}
FOLDS = KFold(3)
every_case = pytest.mark.parametrize("kind", CASES)
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def rows(data: Any, index: Any) -> Any:
    return data.iloc[index] if hasattr(data, "iloc") else [data[k] for k in index]


def test_every_estimator_is_here():
    assert set(CASES) | ONE_INSTANCE == set(KINDS)


# ---------------------------------------------------------------- model selection


@every_case
def test_cross_val_predict_gives_what_the_folds_predict(kind):
    estimator, X, y, _, _ = CASES[kind]
    together = cross_val_predict(estimator, X, y, cv=FOLDS)
    assert isinstance(together, np.ndarray)
    assert together.shape == (len(y),)
    for train, test in FOLDS.split(X):
        alone = clone(estimator).fit(rows(X, train), rows(y, train)).predict(rows(X, test))
        assert plain([together[k] for k in test]) == plain(list(alone))


@every_case
def test_scorers_agree_with_their_functions(kind):
    estimator, X, y, scorers, _ = CASES[kind]
    fitted = clone(estimator).fit(X, y)
    for name in scorers:
        scorer, function = getattr(metrics, name), getattr(metrics, name.removesuffix("r"))
        assert scorer(fitted, X, y) == function(y, fitted.predict(X))
        scores = cross_val_score(estimator, X, y, cv=FOLDS, scoring=scorer, error_score="raise")
        assert scores.shape == (3,)
        assert ((scores >= 0) & (scores <= 1)).all()


@every_case
def test_cross_val_score_without_a_scorer(kind):
    estimator, X, y, _, _ = CASES[kind]
    if not hasattr(estimator, "score"):
        pytest.skip("no score method; give scoring=")
    assert cross_val_score(estimator, X, y, cv=FOLDS, error_score="raise").shape == (3,)


@every_case
def test_grid_search(kind):
    estimator, X, y, scorers, grid = CASES[kind]
    # The parser of strings has no scorer: its `score` method compares spans.
    scoring = {name: getattr(metrics, name) for name in scorers} or None
    best = scorers[0] if scorers else True
    search = GridSearchCV(estimator, grid, cv=FOLDS, scoring=scoring, refit=best, error_score="raise").fit(X, y)
    (setting,) = grid
    assert search.best_params_[setting] in grid[setting]
    assert search.best_score_ == search.cv_results_[f"mean_test_{scorers[0] if scorers else 'score'}"].max()
    assert len(search.predict(X)) == len(y)


def test_nested_settings_in_a_grid():
    grid = {"learner__gradient__n_iter": [1, 3]}
    search = GridSearchCV(GridCRF(learner=QUICK), grid, cv=2, error_score="raise").fit(IMAGES, LABELS)
    assert search.best_estimator_.learner.gradient.n_iter == search.best_params_["learner__gradient__n_iter"]
    assert QUICK.gradient.n_iter == 2  # the search worked on copies


# ---------------------------------------------------------------- settings, copies, files


@every_kind
def test_settings_round_trip(kind):
    fitted = make(kind)
    copied = clone(fitted)
    assert type(copied) is CLASSES[kind]
    assert not [name for name in vars(copied) if name.endswith("_") and not name.startswith("_")]
    settings = fitted.get_params(deep=False)
    again = clone(fitted).set_params(**settings)
    assert all(again.get_params(deep=False)[name] is value for name, value in settings.items())
    with pytest.raises(ValueError, match="no_such_setting"):
        clone(fitted).set_params(no_such_setting=1)


@every_kind
def test_pickle_joblib_and_deepcopy(kind):
    fitted = make(kind)
    expected = predictions(fitted)
    buffer = io.BytesIO()
    joblib.dump(fitted, buffer)
    buffer.seek(0)
    for back in (pickle.loads(pickle.dumps(fitted)), joblib.load(buffer), copy.deepcopy(fitted)):
        assert predictions(back) == expected


@pytest.mark.parametrize("kind", [kind for kind in CASES if "random_state" in CLASSES[kind]().get_params()])
def test_random_state_takes_a_generator(kind):
    estimator, X, y, _, _ = CASES[kind]
    results = []
    for _ in range(2):
        fitted = clone(estimator).set_params(random_state=np.random.default_rng(7)).fit(X, y)
        results.append(plain(fitted.predict(X)))
    assert results[0] == results[1]


def test_metadata_routing():
    estimator, X, y, _, _ = CASES["GridCRF"]
    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(estimator).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        weights = {"sample_weight": np.ones(len(X))}
        scores = cross_val_score(routed, X, y, cv=FOLDS, params=weights, error_score="raise")
    np.testing.assert_allclose(scores, cross_val_score(estimator, X, y, cv=FOLDS))


@every_kind
def test_tags_are_true(kind):
    tags = get_tags(make(kind))
    assert tags.target_tags.required == (
        kind not in ONE_INSTANCE | {"RecordParser", "EntityClusterer"}
    )  # these need no y
    assert tags.requires_fit == (kind != "SoftLogic")  # rules come with weights
    assert tags.input_tags.two_d_array == tags.input_tags.allow_nan == (kind == "CollectiveChain")
    # Neither classifier nor regressor: scikit-learn would expect one number per row and stratify by it.
    assert tags.estimator_type is None


def test_required_labels_are_required():
    for estimator, X, _, _, _ in CASES.values():
        if isinstance(estimator, EntityClusterer):  # learns without labels too
            continue
        # `RecordParser.fit(X)` takes strings with their spans; plain strings need y. Expectations can replace y.
        optional = RecordParser | ChainCRF | GraphCRF
        expected = InvalidInputError if isinstance(estimator, optional) else TypeError
        with pytest.raises(expected, match=r"\by\b|clusters|entities"):
            clone(estimator).fit(X)
    assert clone(make("CollectiveChain")).fit(COUNTS).weights_ is not None


# ---------------------------------------------------------------- scikit-learn's common checks

# Checks that need no data of scikit-learn's making.
APPLICABLE = [
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
]
_NOT_A_MATRIX = (
    "it fits a random 2-D array with one number per row as target; X is a list of sequences, images or graphs, a table "
    "of records, a program, or a series of counts over cells that `moves` describes"
)
_WEIGHTS = f"as to sample_weight {_NOT_A_MATRIX}; test_metadata_routing and the tests of each estimator cover weights"
_FEATURES = f"as to the number of features {_NOT_A_MATRIX}; features are named, or counted per type of variable"
_REFUSALS = f"as to refused input {_NOT_A_MATRIX}; tests/errors covers messages about wrong input"
# Check that does not apply -> why, and which test covers the matter.
NOT_APPLICABLE = {
    "check_all_zero_sample_weights_error": _WEIGHTS,
    "check_array_api_input": "NumPy arrays are the only arrays taken",
    "check_complex_data": _REFUSALS,
    "check_dict_unchanged": f"{_NOT_A_MATRIX}; test_predict_changes_nothing covers it",
    "check_dont_overwrite_attributes": _NOT_A_MATRIX,
    "check_dont_overwrite_parameters": f"{_NOT_A_MATRIX}; test_fit_keeps_the_settings covers it",
    "check_dtype_object": _REFUSALS,
    "check_estimator_sparse_array": f"{_NOT_A_MATRIX}; a CSR matrix per sequence is taken by ChainCRF",
    "check_estimator_sparse_matrix": f"{_NOT_A_MATRIX}; a CSR matrix per sequence is taken by ChainCRF",
    "check_estimator_sparse_tag": _NOT_A_MATRIX,
    "check_estimators_dtypes": _NOT_A_MATRIX,
    "check_estimators_empty_data_messages": _REFUSALS,
    "check_estimators_fit_returns_self": f"{_NOT_A_MATRIX}; test_fit_keeps_the_settings covers it",
    "check_estimators_nan_inf": _REFUSALS,
    "check_estimators_overwrite_params": f"{_NOT_A_MATRIX}; test_fit_keeps_the_settings covers it",
    "check_estimators_pickle": f"{_NOT_A_MATRIX}; test_pickle_joblib_and_deepcopy covers it",
    "check_estimators_unfitted": f"{_NOT_A_MATRIX}; test_predict_before_fit covers it",
    "check_f_contiguous_array_estimator": _NOT_A_MATRIX,
    "check_fit1d": _REFUSALS,
    "check_fit2d_1feature": _NOT_A_MATRIX,
    "check_fit2d_1sample": _NOT_A_MATRIX,
    "check_fit2d_predict1d": _REFUSALS,
    "check_fit_check_is_fitted": f"{_NOT_A_MATRIX}; test_predict_before_fit covers it",
    "check_fit_idempotent": f"{_NOT_A_MATRIX}; test_cross_val_predict_gives_what_the_folds_predict covers it",
    "check_fit_score_takes_y": f"{_NOT_A_MATRIX}; tests/contracts/test_setting_names.py checks the signature of fit",
    "check_methods_sample_order_invariance": f"{_NOT_A_MATRIX}; records of one table are predicted together",
    "check_methods_subset_invariance": f"{_NOT_A_MATRIX}; records of one table are predicted together",
    "check_n_features_in": _FEATURES,
    "check_n_features_in_after_fitting": _FEATURES,
    "check_pipeline_consistency": _NOT_A_MATRIX,
    "check_positive_only_tag_during_fit": _NOT_A_MATRIX,
    "check_readonly_memmap_input": _NOT_A_MATRIX,
    "check_sample_weight_equivalence_on_dense_data": _WEIGHTS,
    "check_sample_weights_list": _WEIGHTS,
    "check_sample_weights_not_an_array": _WEIGHTS,
    "check_sample_weights_not_overwritten": _WEIGHTS,
    "check_sample_weights_pandas_series": _WEIGHTS,
    "check_sample_weights_shape": _WEIGHTS,
}


class _TakesMatrix(BaseEstimator):
    def fit(self, X, y=None, sample_weight=None):
        return self

    def predict(self, X):
        return X


def unfitted(kind: str) -> Any:
    return clone(CASES[kind][0]) if kind in CASES else clone(make(kind))


def test_every_common_check_is_run_or_excused():
    # scikit-learn offers nothing to an estimator that takes no matrix; this is the list for one that does.
    checks = estimator_checks.estimator_checks_generator(_TakesMatrix())
    offered = {getattr(check, "func", check).__name__ for _, check in checks}
    assert len(offered) > 30
    assert sorted(offered - set(APPLICABLE) - set(NOT_APPLICABLE)) == []
    assert not set(APPLICABLE) & set(NOT_APPLICABLE)


@every_kind
@pytest.mark.parametrize("name", APPLICABLE)
def test_common_check(kind, name):
    getattr(estimator_checks, name)(kind, unfitted(kind))


@every_case
def test_fit_keeps_the_settings(kind):
    estimator, X, y, _, _ = CASES[kind]
    estimator = clone(estimator)
    before = estimator.get_params()
    text = repr({name: value for name, value in before.items() if not isinstance(value, BaseEstimator)})
    assert estimator.fit(X, y) is estimator
    after = estimator.get_params()
    assert all(after[name] is value for name, value in before.items())
    assert repr({name: value for name, value in after.items() if not isinstance(value, BaseEstimator)}) == text


@every_kind
def test_predict_before_fit(kind):
    if kind == "SoftLogic":
        return
    with pytest.raises(NotFittedError):
        unfitted(kind).predict(CASES[kind][1] if kind in CASES else COUNTS)


@every_case
def test_predict_changes_nothing(kind):
    estimator, X, y, _, _ = CASES[kind]
    fitted = clone(estimator).fit(X, y)
    # The layout of chains computes an index at first use, and the decoder of short inputs is built then.
    caches = ("layout_", "_prepared_decoder")
    before = {name: joblib.hash(value) for name, value in vars(fitted).items() if name not in caches}
    fitted.predict(X)
    after = {name: joblib.hash(value) for name, value in vars(fitted).items() if name not in caches}
    assert after == before
