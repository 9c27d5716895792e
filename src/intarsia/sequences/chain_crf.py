"""Linear-chain conditional random field for sequence labelling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from intarsia._core.error_context import entry_point
from intarsia._core.html import ShownEstimator
from intarsia._core.registry import NamedParts, Parts
from intarsia._core.settings import Settings
from intarsia._core.status import Status
from intarsia._core.transaction import SettingsOfFit, transaction
from intarsia._core.validation import FloatArray, as_seed, check_choice, check_n_jobs, frozen
from intarsia._files.saved_model import Arrays, Content, SavedModel
from intarsia.energies import Energy, Psi
from intarsia.energies.binding.batch_energies import has_energies
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
from intarsia.sequences.chain_file import chain_crf_from_file, chain_crf_to_file
from intarsia.sequences.chain_learner import (
    CHAIN_LEARNERS,
    ChainLearner,
    Prepared,
    check_start,
    hold_out_folds,
    prepare_fit,
    prepare_validation,
)
from intarsia.sequences.chain_tagger import DECODERS
from intarsia.sequences.confidence.chain_confidence import ConfidentTagger
from intarsia.sequences.constraints.rule import RULES, Rule
from intarsia.sequences.energy_fit import EnergyFit, bind_energies, resolve_energies

if TYPE_CHECKING:
    from sklearn.utils import Tags

_FORWARDED_SETTINGS = ("l1", "l2", "n_jobs", "random_state", "verbose")


class ChainCRF(NamedParts, SavedModel, ShownEstimator, ConfidentTagger, Settings):
    r"""Linear-chain conditional random field (CRF) for sequence labelling.

    Use it for named entity recognition, part-of-speech tagging, chunking and other tasks with one label per position.
    The score of labels y is

    .. math:: u(y_1) + \sum_t f_t \cdot W_{y_t} + \sum_t T_{y_{t-1} y_t} + v(y_n),

    and their probability is proportional to its exponential. Inference is exact: the partition function and posterior
    marginals by forward-backward, the best labelling by Viterbi, in time linear in the number of positions and
    quadratic in the number of labels. For other graphs, and losses of marginals, see `GraphCRF`. No constant feature is
    added.

    X is a list of sequences: arrays (T, n_features), CSR matrices, lists of feature dicts or lists of lists of strings
    (as in CRFsuite; see `SequenceVectorizer`). Features that are not in the training set are ignored, with a warning if
    no feature of X is in it. Labels are strings (None if hidden), integers (-1 if hidden), frozensets of allowed
    labels, or boolean arrays (T, n_classes). A sequence may be empty.

    Parameters
    ----------
    learner : str or ChainLearner
        Learning algorithm: "maximum_likelihood", "averaged_perceptron", "passive_aggressive", "arow", or an object with
        hyperparameters, such as `MaximumLikelihood(l2=0.2, optimizer=Adam())`.
    l1, l2 : float, optional
        Regularization `l1 |w|_1 + l2/2 |w|^2`, added to the loss summed over positions; overrides the settings of the
        learner. CRFsuite's c1 is l1, its c2 is l2 / 2. With `l2="auto"`, `fit` chooses l2 by five-fold
        cross-validation of the log-likelihood; `choose_l2` has more options.
    classes : array, optional
        All labels; by default the sorted labels in y.
    class_weight : None, "balanced" or dict, optional
        Weights of labels: the weight of a sequence is multiplied by the mean weight of its labels.
    forbidden : list of pairs, optional
        (a, b): label b must not follow a. None is the boundary of a sequence: with (None, b), b must not be the first
        label; with (a, None), a must not be the last label.
    scheme : {"bio", "bioes"}, optional
        Forbid transitions, first and last labels that are invalid in BIO or BIOES tags.
    weights : {"auto", "all", "observed"}
        Pairs of feature and label with a weight: all pairs, or those in the training set, which needs less time and
        memory if there are many features. "auto": all pairs for dense arrays and with `partial_fit`.
    ends : bool
        Whether first and last labels have additional scores u and v.
    min_count : int
        Minimum number of tokens with a named feature; rarer features are ignored.
    require : Rule or list of Rule, optional
        Rules that every prediction satisfies, such as ``[once("ZipCode"), in_order("City", "ZipCode")]``; see `once`,
        `count`, `in_order`, `needs` and the other rules of `intarsia.sequences`. The best labelling, the k best,
        marginals, samples and probabilities are those of the labellings that satisfy the rules, and
        `MaximumLikelihood` maximizes the likelihood among them. Rules may be changed after `fit`.
    decode : {"map", "marginals", "penalized_map"}
        Predict the most probable labelling, the most probable label of each position (then forbidden transitions
        are possible), or, with energies, the labelling of highest score minus the penalties of the energies on the
        labelling itself (Vilnis2015 Eq. 19).
    energies : Energy or list of Energy, optional
        Global constraints and preferences, such as `at_most_one("title")`. Predictions are then those of the chain
        under these energies (Vilnis2015, Proposition 1). The weights psi of the energies are learned on held-out
        sequences, and are 0 for energies that do not help there; `at_most_one("title", strength=100)` fixes psi.
    psi : str or Psi
        How psi depends on the input: "constant", "linear" or "mean_map", or an object. The initial values are the psi
        of the energies.
    projection : str or InferenceMethod, optional
        Inference method for marginals under the energies: "bethe_rda" or "bethe_mirror_descent", or an object with
        settings; by default `BetheRDA(max_iter=40)`.
    energy_learner : str, EnergyLearner or None
        Learning algorithm for psi: "double_loop", "doubly_stochastic", or an object with hyperparameters such as the
        rate `l1` of the prior of psi. None: every psi keeps the value of its energy.
    warm_start : bool
        Whether `fit` starts from the weights of the previous fit, with its features and labels.
    random_state : int or Generator, optional
        Seed that overrides the setting of the learner. It also determines the held-out sequences (None: seed 0).
    n_jobs, verbose : optional
        Override the settings of the learner; `n_jobs` also applies to predictions. Results do not depend on `n_jobs`.

    Attributes
    ----------
    classes_ : array (k,)
        Labels.
    state_weights_ : array (n_features, k)
        W, with 0 for pairs without weight; `vocabulary_` has the names of its rows.
    transitions_ : array (k, k)
        T, without the -inf of forbidden transitions.
    start_, end_ : arrays (k,), or None
        Scores u and v of the first and last label.
    edge_weights_ : array (n_edge_features, k, k), or None
        Weights of features of steps.
    vocabulary_ : list of str, or None
        Names of the features; None if X are arrays.
    weights_ : float array
        All weights in one vector.
    temperature_ : float
        Temperature by which `calibrate` divided the weights since `fit`; 1 without calibration.
    l2_, l2_path_ : float or None, L2Path or None
        L2 regularization of the fit, and the cross-validation that chose it with `l2="auto"`.
    strengths_ : StrengthTable
        A row for each energy: name, strength (its psi), held-out sequences that violate it before and after, gain of
        held-out log-likelihood, and a note such as "learned" or the reason why the strength is 0.
    energies_ : FittedEnergies, or None
        Energies with the learned weights of psi; `strengths(X)` returns the values of psi.
    energy_history_ : dict
        "risk", the surrogate risk per labelled position after each pass or round of learning energies, and
        "best_risk", the risk by which the best point is chosen, at the start and after each pass or round.
    expectations_ : ExpectationTable, or None
        Target and value of each expectation of the fit.
    risk_, history_, n_iter_, status_
        Objective per labelled position, its history, the number of iterations and the final status. For online
        learners, the risk is the fraction of wrong labels in the last pass.

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

    An energy that does not help on held-out sequences has strength 0:

    >>> from intarsia.energies import at_most_one
    >>> ChainCRF(l2=0.2, energies=[at_most_one("good")]).fit(X * 5, y * 5).strengths_[0].strength
    0.0
    """

    _parts: ClassVar[Parts] = {
        "learner": CHAIN_LEARNERS,
        "energies": ENERGY_PARTS,
        "require": RULES,
        "psi": PSIS,
        "projection": METHODS,
        "energy_learner": ENERGY_LEARNERS,
    }

    def __init__(
        self,
        *,
        learner: str | ChainLearner = "maximum_likelihood",
        l1: float | None = None,
        l2: float | str | None = None,
        classes: Any = None,
        class_weight: Any = None,
        forbidden: Any = None,
        scheme: str | None = None,
        weights: str = "auto",
        ends: bool = True,
        min_count: int = 1,
        require: Rule | list[Rule] | None = None,
        decode: str = "map",
        energies: Energy | list[Energy] | None = None,
        psi: str | Psi = "constant",
        projection: str | InferenceMethod | None = None,
        energy_learner: str | EnergyLearner | None = "double_loop",
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
        self.require = require
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
        y: Any = None,
        *,
        edge_features: Any = None,
        sample_weight: Any = None,
        validation: tuple[Any, ...] | None = None,
        start: Any = None,
        freeze_weights: bool | None = None,
        development: tuple[Any, ...] | None = None,
        tokens: Any = None,
        expectations: Any = None,
    ) -> ChainCRF:
        """Fit the weights, and then the weights psi of the energies, if there are any.

        Parameters
        ----------
        X : list of sequences
            Arrays, CSR matrices, lists of dicts or of lists of strings.
        y : list of lists
            A label for each position. With `expectations`, sequences without labels are None, and so may y be.
        edge_features : list of (T - 1, n_edge_features) arrays, optional
            Features of each step from one position to the next, in addition to the transitions.
        sample_weight : (n_sequences,) array, optional
            Weight of each sequence.
        validation : (X, y) or (X, y, edge_features), optional
            Sequences for early stopping.
        start : float array, optional
            Initial weights, in the layout of `weights_`; by default 0.
        freeze_weights : bool, optional
            Whether the CRF weights are constant while psi is learned. By default they are, after they were fitted to X
            and y without the energies. True: weights of a previous fit are not fitted again, and psi is learned on X
            and y, which should not be the sequences of that fit. False: after that, weights and psi are learned
            together, for as many rounds as decrease the held-out risk; if none does, a warning is issued.
        development : (X, y) or (X, y, edge_features), optional
            Sequences on which psi is learned. By default, parts of X and y are held out: the weights are fitted without
            a fifth of the sequences, whose scores are then used, until 500 sequences, or all, were held out. The result
            has weights of all sequences.
        tokens : list of lists of str, optional
            Tokens of each sequence, which the rule `one_of` of `require` reads.
        expectations : Expectation or list of Expectation, optional
            Known proportions and counts of labels, from which hidden labels are learned, such as
            `label_given("word=smith", {"NAME": 0.9})`; see `intarsia.learning.expectations`.

        Raises
        ------
        InvalidInputError
            If data or settings are invalid; the message names the first invalid sequence and position.
        """
        if expectations is not None:
            from intarsia.sequences.expectation_fit import fit_expectations

            unused = {"validation": validation, "freeze_weights": freeze_weights, "development": development}
            fit_expectations(self, X, y, expectations, edge_features, sample_weight, start, unused)
            return self
        learner = self._resolve_learner()
        parts = resolve_energies(self)
        check_strengths_alone(freeze_weights, development, parts is not None, joint=True)
        previous = self if (self.warm_start or freeze_weights) and hasattr(self, "weights_") else None
        inputs = prepare_fit(self, X, y, edge_features, sample_weight, self.classes, previous, tokens=tokens)
        examples = inputs.examples
        learner.check_examples(examples)
        held_out = None if validation is None else prepare_validation(self, validation, inputs)
        if start is not None:
            weights = check_start(start, examples.layout)
        else:
            weights = np.zeros(examples.layout.n_weights) if previous is None else self.weights_.copy()
        fit_data, energies = examples, None
        if parts is not None:  # before the weights are fitted, so that errors in energies are reported at once
            energies = bind_energies(self, inputs.classes, int(examples.data.lengths.max()))
            if development is not None:
                fit_data = prepare_validation(self, development, inputs, "development")
        minimum: Minimum | None = None
        path = getattr(self, "l2_path_", None) if previous is not None else None
        if getattr(learner, "l2", None) == "auto":
            if previous is None or not freeze_weights:
                from intarsia.sequences.regularization_path import path_of_fit

                path = path_of_fit(self, learner, inputs, previous is not None)
            learner = CHAIN_LEARNERS.resolve(learner, {"l2": self.l2_ if path is None else path.l2})
        if previous is None or not freeze_weights:
            minimum = learner.minimize(examples, weights, validation=held_out, title="ChainCRF")
            weights = minimum.point
        fitted, history = None, dict[str, FloatArray]()
        if parts is not None and energies is not None:
            folds = [(np.arange(len(fit_data)), weights)]
            is_learned = parts.learner is not None and not energies.fixed.all()
            if minimum is not None and development is None and is_learned:
                seed = 0 if self.random_state is None else as_seed(self.random_state)
                folds = hold_out_folds(learner, examples, held_out, seed)
            energy_fit = EnergyFit(self, parts, energies, fit_data, folds, learner.get_params(deep=False))
            fitted, history = energy_fit.learn(self.energies_ if self.warm_start and previous is not None else None)
            if freeze_weights is False and parts.learner is not None:
                weights, fitted, history = energy_fit.learn_together(fitted, weights, examples)
        # Attributes are stored last, so that a failed fit does not change the estimator.
        self._store(inputs)
        self.weights_, self.energies_, self.energy_history_ = weights, fitted, history
        self.l2_, self.l2_path_ = getattr(learner, "l2", None), path
        if minimum is not None:
            self.history_, self.n_iter_ = minimum.history, minimum.n_iter
            self.risk_, self.status_ = minimum.value, minimum.status
        self._step_state = None
        return self

    @entry_point
    @transaction
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, *, edge_features: Any = None, sample_weight: Any = None
    ) -> ChainCRF:
        """Update the weights by one pass over these sequences.

        It needs an online learner, or `MaximumLikelihood` with a mini-batch optimizer. The first call needs all
        classes, as an argument or as a setting, and determines the features.
        """
        if has_energies(self.energies):
            raise NotSupportedError(
                "energies cannot be learned with partial_fit, because they need all data. Use fit, or remove energies."
            )
        learner = self._resolve_learner()
        previous = self if hasattr(self, "weights_") else None
        all_classes = self.classes if classes is None else classes
        if previous is None and all_classes is None:
            raise InvalidInputError(
                "the first call needs all classes, because later calls may have other labels. Pass classes=."
            )
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            raise InvalidInputError(
                "class_weight='balanced' needs the whole data set and cannot be used with partial_fit. Pass a dict "
                "label -> weight."
            )
        inputs = prepare_fit(self, X, y, edge_features, sample_weight, all_classes, previous, every_pair=True)
        examples = inputs.examples
        learner.check_examples(examples)
        start = np.zeros(examples.layout.n_weights) if previous is None else self.weights_.copy()
        weights, state, risk = learner.step(examples, start, getattr(self, "_step_state", None))
        self._store(inputs)
        self.weights_, self._step_state, self.risk_, self.status_ = weights, state, risk, Status.MAX_ITER
        self.n_iter_ = getattr(self, "n_iter_", 0) + 1
        self.history_ = {"risk": np.append(getattr(self, "history_", {}).get("risk", np.empty(0)), risk)}
        return self

    def __sklearn_tags__(self) -> Tags:
        """Return the scikit-learn tags: X is a list of sequences, y a list of labels for each sequence."""
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, False
        tags.target_tags.required = True
        tags.target_tags.multi_output, tags.target_tags.single_output = True, False
        return tags

    def _store(self, inputs: Prepared) -> None:
        self.vectorizer_, self.classes_ = inputs.vectorizer, inputs.classes
        self.layout_, self.constraints_ = inputs.examples.layout, inputs.examples.constraints
        self._prepared_decoder, self._bound_rules, self.temperature_, self.expectations_ = None, None, 1.0, None
        self._note_settings()

    @property
    def weights_(self) -> FloatArray:
        """All weights in one vector; read-only, because predictions prepare it: assign a new array to change it."""
        try:
            vars(self)["weights_"] = weights = frozen(vars(self)["weights_"])  # that of a pickle is writable
        except KeyError:
            raise AttributeError("weights_ is set by fit.") from None
        return weights

    @weights_.setter
    def weights_(self, weights: FloatArray) -> None:
        vars(self)["weights_"] = frozen(weights, weights)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to pickle, without the decoder and the bound rules, which are derived from them."""
        return {**vars(self), "_prepared_decoder": None, "_bound_rules": None}

    def _note_settings(self) -> None:
        """Store the settings that belong to the model, and those that can be changed for predictions."""
        self._model_settings = SettingsOfFit(self, ("energies", "psi", "forbidden", "scheme"))
        self._projection_of_fit = SettingsOfFit(self, ("projection",))

    # ---------------------------------------------------------------- files

    def _to_file(self) -> Content:
        return chain_crf_to_file(self)

    def _from_file(self, values: dict[str, Any], arrays: Arrays) -> None:
        chain_crf_from_file(self, values, arrays)
        self._note_settings()

    # ---------------------------------------------------------------- settings

    def _resolve_learner(self) -> ChainLearner:
        """Return the learner with the settings that the estimator overrides."""
        check_choice(self.decode, DECODERS, "decode")
        check_n_jobs(self.n_jobs, "n_jobs")
        learner = CHAIN_LEARNERS.resolve(self.learner)
        learner_settings = learner.get_params(deep=False)
        overrides = {name: getattr(self, name) for name in _FORWARDED_SETTINGS if getattr(self, name) is not None}
        for name in ("l1", "l2"):
            if name in overrides and name not in learner_settings:
                raise NotSupportedError(
                    f"{name}={overrides[name]} cannot be used with {type(learner).__name__}, which has no "
                    f"regularization. Use learner='maximum_likelihood', or remove {name}."
                )
        valid = {key: value for key, value in overrides.items() if key in learner_settings}
        return CHAIN_LEARNERS.resolve(learner, valid)
