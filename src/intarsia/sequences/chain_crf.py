"""Labelling of sequences: a linear-chain conditional random field."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from intarsia._core.error_context import entry_point
from intarsia._core.html import ShownEstimator
from intarsia._core.registry import NamedParts, Parts
from intarsia._core.status import Status
from intarsia._core.transaction import SettingsOfFit, transaction
from intarsia._core.validation import FloatArray, check_choice, check_n_jobs
from intarsia._files.saved_model import Arrays, Content, SavedModel
from intarsia.energies import Energy, Psi
from intarsia.energies.registry import ENERGY_PARTS, PSIS
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.inference.method import InferenceMethod
from intarsia.inference.registry import METHODS
from intarsia.learning.energy_learner import (
    ENERGY_LEARNERS,
    EnergyLearner,
    check_strengths_alone,
)
from intarsia.learning.minimum import Minimum
from intarsia.sequences.chain_data import Prepared, check_start, prepare_fit, prepare_validation
from intarsia.sequences.chain_file import chain_crf_from_file, chain_crf_to_file
from intarsia.sequences.chain_learner import CHAIN_LEARNERS, ChainLearner
from intarsia.sequences.chain_tagger import ChainTagger
from intarsia.sequences.energy_fit import bind_energies, fit_energies, resolve_energies

_OWN_SETTINGS = ("l1", "l2", "n_jobs", "random_state", "verbose")


class ChainCRF(NamedParts, SavedModel, ShownEstimator, ChainTagger, BaseEstimator):  # type: ignore[misc]
    r"""Labels of the positions of sequences, from their features and from which labels follow one another.

    The score of labels y is

    .. math:: u(y_1) + \sum_t f_t \cdot W_{y_t} + \sum_t T_{y_{t-1} y_t} + v(y_n),

    and their probability the exponential of it over the sum of all. Everything is exact: log Z and marginals by
    forward-backward, the best labels by Viterbi, in time linear in the positions and quadratic in the labels. For
    other shapes, and losses of marginals, see `GraphCRF`. No constant feature is added.

    X is a list of sequences: arrays (T, n_features), CSR matrices, lists of feature dicts or lists of lists of strings
    (CRFsuite's habits; see `SequenceVectorizer`). Features not seen in training are left out. Labels are strings (None
    where hidden), whole numbers (-1 where hidden), frozensets of allowed labels among either, or booleans
    (T, n_classes). A sequence may be empty.

    Parameters
    ----------
    learner : str or ChainLearner
        How weights are found: "maximum_likelihood", "averaged_perceptron", "passive_aggressive", "arow", or an object
        with settings, such as `MaximumLikelihood(l2=0.2, optimizer=Adam())`.
    l1, l2 : float, optional
        Where given, instead of those of the learner: `l1 |w|_1 + l2/2 |w|^2` beside the loss summed over positions.
        CRFsuite's c1 is l1, its c2 is l2 / 2.
    classes : array, optional
        All labels there are; by default those in y, sorted.
    class_weight : None, "balanced" or dict, optional
        How much labels count: the weight of a sequence is multiplied by the mean over its labels.
    forbidden : list of pairs, optional
        (a, b): label b must not follow a. None for the end of a sequence: (None, b) must not begin, (a, None) not end.
    scheme : {"bio", "bioes"}, optional
        Forbid what such tags exclude, at the ends too.
    weights : {"auto", "all", "observed"}
        Which pairs of feature and label have a weight: all, or those that occur in the training set, which takes a
        fraction of the time and memory where features are many. "auto": all for dense arrays and with `partial_fit`.
    ends : bool
        Whether first and last labels have scores of their own, u and v.
    min_count : int
        Named features that fewer tokens have are left out.
    decode : {"map", "marginals"}
        Predict the best labels as a whole, or the most probable label of each position (which may follow one another
        although forbidden).
    energies : Energy or list of Energy, optional
        Preferences about sequences as a whole, such as `at_most_one("title")`: predictions are then those of the chain
        tilted by them (Vilnis2015, Proposition 1), and their strengths are learned.
    psi : str or Psi
        How strengths depend on the input: "constant", "linear" or "mean_map", or an object. They begin with the
        energies' own.
    projection : str or InferenceMethod, optional
        How marginals under the energies are found: "bethe_rda" or "bethe_mirror_descent", or an object with settings;
        by default `BetheRDA(max_iter=40)`.
    energy_learner : str or EnergyLearner
        How strengths are learned: "doubly_stochastic", "double_loop", or an object with settings.
    warm_start : bool
        Whether `fit` goes on from the weights it finds, with the same features and labels.
    random_state : int or Generator, optional
        Where given, instead of that of the learner.
    n_jobs, verbose : optional
        Where given, instead of those of the learner; `n_jobs` also for predictions. Results do not depend on it.

    Attributes
    ----------
    classes_ : array (k,)
        Labels.
    state_weights_ : array (n_features, k)
        W, with 0 for pairs without weight; its rows are named by `vocabulary_`.
    transitions_ : array (k, k)
        T, without what is forbidden.
    start_, end_ : arrays (k,), or None
        u and v.
    edge_weights_ : array (n_edge_features, k, k), or None
        Weights of features of steps.
    vocabulary_ : list of str, or None
        Names of the features; None where X are arrays.
    weights_ : float array
        All weights in one vector.
    energies_ : FittedEnergies, or None
        Energies with the weights of their strengths; `strengths(X)` gives the strengths themselves.
    energy_history_ : dict
        "risk", the surrogate risk per labelled position after each pass or round of learning energies.
    risk_, history_, n_iter_, status_
        Objective per labelled position, its course, iterations and how they ended. Of the mistake-driven learners the
        risk is the share of wrong labels in the last pass.

    References
    ----------
    Lafferty2001; Vilnis2015 for energies.

    Examples
    --------
    >>> X = [[["sun"], ["rain"], ["rain"]], [["rain"], ["sun"]]]
    >>> y = [["good", "bad", "bad"], ["bad", "good"]]
    >>> crf = ChainCRF(l2=0.2).fit(X, y)
    >>> [labels.tolist() for labels in crf.predict(X)]
    [['good', 'bad', 'bad'], ['bad', 'good']]
    >>> crf.predict([[["sun"], ["fog"]]], allowed=[["bad", None]])[0].tolist()[0]
    'bad'
    >>> crf.predict_marginals(X)[0].round(2).sum(axis=1)
    array([1., 1., 1.])
    """

    _parts: ClassVar[Parts] = {
        "learner": CHAIN_LEARNERS,
        "energies": ENERGY_PARTS,
        "psi": PSIS,
        "projection": METHODS,
        "energy_learner": ENERGY_LEARNERS,
    }

    def __init__(
        self,
        *,
        learner: str | ChainLearner = "maximum_likelihood",
        l1: float | None = None,
        l2: float | None = None,
        classes: Any = None,
        class_weight: Any = None,
        forbidden: Any = None,
        scheme: str | None = None,
        weights: str = "auto",
        ends: bool = True,
        min_count: int = 1,
        decode: str = "map",
        energies: Energy | list[Energy] | None = None,
        psi: str | Psi = "constant",
        projection: str | InferenceMethod | None = None,
        energy_learner: str | EnergyLearner = "doubly_stochastic",
        warm_start: bool = False,
        random_state: int | np.random.Generator | None = None,
        n_jobs: int | None = None,
        verbose: bool | None = None,
    ) -> None:
        self.learner = learner
        self.l1 = l1
        self.l2 = l2
        self.classes = classes
        self.class_weight = class_weight
        self.forbidden = forbidden
        self.scheme = scheme
        self.weights = weights
        self.ends = ends
        self.min_count = min_count
        self.decode = decode
        self.energies = energies
        self.psi = psi
        self.projection = projection
        self.energy_learner = energy_learner
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ---------------------------------------------------------------- fitting

    @entry_point
    @transaction
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        edge_features: Any = None,
        sample_weight: Any = None,
        validation: tuple[Any, ...] | None = None,
        start: Any = None,
        freeze_weights: bool | None = None,
        development: tuple[Any, ...] | None = None,
    ) -> ChainCRF:
        """Fit the weights, and then the energies, if there are any.

        Parameters
        ----------
        X : list of sequences
            Arrays, CSR matrices, lists of dicts or of lists of strings.
        y : list of lists
            A label for each position.
        edge_features : list of (T - 1, n_edge_features) arrays, optional
            Features of each step from one position to the next, beside the transitions.
        sample_weight : (n_sequences,) array, optional
            How much each sequence counts.
        validation : (X, y) or (X, y, edge_features), optional
            Sequences on which the learner may stop early.
        start : float array, optional
            Weights to begin with, laid out as `weights_`; by default 0.
        freeze_weights : bool, optional
            Whether weights stay as they are while the strengths of energies are learned. By default they do, after they
            have been fitted to X and y without the energies. True: weights of an earlier fit, if there was one, are not
            fitted again. False: after the fit, weights and strengths are learned together, which may end worse than it
            began and then warns; the best point is kept.
        development : (X, y) or (X, y, edge_features), optional
            The sequences on which strengths are learned; by default X and y.

        Raises
        ------
        InvalidInputError
            What does not fit is told with its place; labels that `forbidden` or `scheme` exclude name the sequence.
        """
        learner = self._resolve_learner()
        parts = resolve_energies(self)
        check_strengths_alone(freeze_weights, development, parts is not None)
        known = self if (self.warm_start or freeze_weights) and hasattr(self, "weights_") else None
        prepared = prepare_fit(self, X, y, edge_features, sample_weight, self.classes, known)
        examples = prepared.examples
        learner.check_examples(examples)
        held_out = None if validation is None else prepare_validation(self, validation, prepared)
        if start is not None:
            first = check_start(start, examples.layout)
        else:
            first = np.zeros(examples.layout.n_weights) if known is None else self.weights_.copy()
        told, energies = examples, None
        if parts is not None:  # before the weights, so that what is wrong with energies is told at once
            energies = bind_energies(self, prepared.classes, int(examples.data.lengths.max()))
            if development is not None:
                told = prepare_validation(self, development, prepared, "development")
        found: Minimum | None = None
        if known is None or not freeze_weights:
            found = learner.minimize(examples, first, validation=held_out, title="ChainCRF")
            first = found.point
        fitted, history = None, dict[str, FloatArray]()
        if parts is not None and energies is not None:
            before = self.energies_ if self.warm_start and known is not None else None
            settings = learner.get_params(deep=False)
            first, fitted, history = fit_energies(
                self, parts, energies, told, first, settings, freeze_weights is not False, before
            )
        # Nothing is stored before everything has worked.
        self._store(prepared)
        self.weights_, self.energies_, self.energy_history_ = first, fitted, history
        if found is not None:
            self.history_, self.n_iter_ = found.history, found.n_iter
            self.risk_, self.status_ = found.value, found.status
        self._step_state = None
        return self

    @entry_point
    @transaction
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, *, edge_features: Any = None, sample_weight: Any = None
    ) -> ChainCRF:
        """Change the weights by one pass over these sequences.

        Needs a learner that can: one of the mistake-driven ones, or `MaximumLikelihood` with an optimiser of
        mini-batches. The first call needs all classes, here or as a setting, and decides which features there are.
        """
        if self.energies is not None:
            raise NotSupportedError("energies are learned from all data. Use fit, or leave energies out.")
        learner = self._resolve_learner()
        known = self if hasattr(self, "weights_") else None
        given = self.classes if classes is None else classes
        if known is None and given is None:
            raise InvalidInputError(
                "the first call must name all classes, since later labels may have more. Give classes=."
            )
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            raise InvalidInputError(
                "class_weight='balanced' is known only from all data, and here they come bit by bit. Give a "
                "dict of label -> weight."
            )
        prepared = prepare_fit(self, X, y, edge_features, sample_weight, given, known, every_pair=True)
        examples = prepared.examples
        learner.check_examples(examples)
        first = np.zeros(examples.layout.n_weights) if known is None else self.weights_.copy()
        weights, state, risk = learner.step(examples, first, getattr(self, "_step_state", None))
        self._store(prepared)
        self.weights_, self._step_state, self.risk_, self.status_ = weights, state, risk, Status.MAX_ITER
        self.n_iter_ = getattr(self, "n_iter_", 0) + 1
        self.history_ = {"risk": np.append(getattr(self, "history_", {}).get("risk", np.empty(0)), risk)}
        return self

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: X is a list of sequences, y a list of labels for each."""
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, False
        tags.target_tags.required = True
        tags.target_tags.multi_output, tags.target_tags.single_output = True, False
        return tags

    def _store(self, prepared: Prepared) -> None:
        self.vectorizer_, self.classes_ = prepared.vectorizer, prepared.classes
        self.layout_, self.constraints_ = prepared.examples.layout, prepared.examples.constraints
        self._prepared_decoder = None
        self._note_settings()

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to pickle, without the decoder, which is derived from them."""
        return {**super().__getstate__(), "_prepared_decoder": None}

    def _note_settings(self) -> None:
        """Remember the settings that are part of the model, and those that can be changed for predictions."""
        self._model_settings = SettingsOfFit(self, ("energies", "psi", "forbidden", "scheme"))
        self._projection_of_fit = SettingsOfFit(self, ("projection",))

    # ---------------------------------------------------------------- files

    def _to_file(self) -> Content:
        return chain_crf_to_file(self)

    def _from_file(self, about: dict[str, Any], arrays: Arrays) -> None:
        chain_crf_from_file(self, about, arrays)
        self._note_settings()

    # ---------------------------------------------------------------- settings

    def _resolve_learner(self) -> ChainLearner:
        """The learner with what is set on the estimator itself."""
        check_choice(self.decode, ("map", "marginals"), "decode")
        check_n_jobs(self.n_jobs, "n_jobs")
        learner = CHAIN_LEARNERS.resolve(self.learner)
        known = learner.get_params(deep=False)
        own = {name: getattr(self, name) for name in _OWN_SETTINGS if getattr(self, name) is not None}
        for name in ("l1", "l2"):
            if name in own and name not in known:
                raise NotSupportedError(
                    f"{name}={own[name]}, but {type(learner).__name__} has no such penalty. Use "
                    f"learner='maximum_likelihood', or leave {name} out."
                )
        return CHAIN_LEARNERS.resolve(learner, {key: value for key, value in own.items() if key in known})
