"""Methods of a fitted chain model: labels, posterior marginals, k best labellings, samples, learned attributes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import entry_point
from intarsia._core.predictions import PredictionList
from intarsia._core.settings import check_fitted
from intarsia._core.status import Status
from intarsia._core.transaction import SettingsOfFit
from intarsia._core.validation import (
    FloatArray,
    IntArray,
    as_generator,
    check_choice,
    check_n_jobs,
    check_number,
    check_sample_weight,
)
from intarsia.exceptions import InvalidInputError
from intarsia.learning.energy_risk import StrengthTable
from intarsia.models.chain_scores import ChainLayout
from intarsia.models.labelling import observed_states
from intarsia.models.sequence_features import SequenceVectorizer
from intarsia.sequences.chain_data import (
    ChainData,
    ChainScores,
    Constraints,
    make_data,
    make_truth,
    read_chain_labels,
    read_known,
    warn_if_unknown,
)
from intarsia.sequences.chain_decoder import ChainDecoder
from intarsia.sequences.chain_prediction import (
    Tilt,
    Work,
    best_labels,
    draws,
    for_each_sequence,
    label_probabilities,
    likely_labels,
    log_probabilities,
    several_best,
)
from intarsia.sequences.energy_fit import resolve_energies
from intarsia.sequences.fitted_energies import FittedEnergies

DECODERS = ("map", "marginals", "penalized_map")


class ChainTagger(ABC):
    """Base class of `ChainCRF` with the methods that need a fitted model and do not change it."""

    decode: str
    require: Any
    n_jobs: int | None
    classes_: NDArray[Any]
    vectorizer_: SequenceVectorizer
    layout_: ChainLayout
    constraints_: Constraints
    weights_: FloatArray
    history_: dict[str, FloatArray]
    n_iter_: int
    risk_: float
    status_: Status
    expectations_: Any
    l2_: float | None = None
    l2_path_: Any = None
    notes_: Any
    energies_: FittedEnergies | None = None
    energy_history_: dict[str, FloatArray]
    energies: Any
    projection: Any
    psi: Any
    energy_learner: Any
    _model_settings: SettingsOfFit | None = None
    _projection_of_fit: SettingsOfFit | None = None
    _prepared_decoder: ChainDecoder | None = None
    _bound_rules: Any = None

    @abstractmethod
    def fit(self, X: Any, y: Any) -> Any:
        """Fit the model to labelled sequences."""

    @entry_point
    def predict(
        self, X: Any, *, allowed: Any = None, edge_features: Any = None, tokens: Any = None
    ) -> list[NDArray[Any]]:
        """Return the labels of each sequence: the most probable labelling, or as `decode` says.

        The list converts to an array with one entry per sequence, so that `cross_val_predict` accepts it. Its method
        `tolist()` returns lists of lists of str, which other libraries such as seqeval expect.

        Parameters
        ----------
        X : list of sequences
            Sequences in a format that `fit` accepts.
        allowed : list, optional
            Known labels: for each sequence None, or labels as y in `fit` (labels, None or -1, frozensets).
        edge_features : list of arrays, optional
            Features of steps, as in `fit`.
        tokens : list of lists of str, optional
            Tokens of each sequence, which the rule `one_of` reads.

        Raises
        ------
        InvalidInputError
            If `allowed` excludes every labelling of a sequence. If `forbidden` alone does, it is ignored for that
            sequence.

        Warns
        -----
        UserWarning
            If no labelling of a sequence satisfies the rules of `require`; its result violates them least.
        """
        decoder = self._decoder()
        if allowed is not None or edge_features is not None or not self._decodes_directly():
            data = self._read(X, edge_features)
        else:
            rows, ptr = self.vectorizer_.transform_rows(X)
            warn_if_unknown(X, len(rows.columns), self.vectorizer_)
            best = self._direct_decoder().best_states(rows, ptr)
            if best is not None:
                labels = self.classes_[best[0]]
                predictions = [labels] if ptr.size == 2 else np.split(labels, ptr[1:-1])
                if self.require is not None:
                    for i, valid_states in self._valid_states(ptr, *best):
                        predictions[i] = self.classes_[valid_states]
                return PredictionList(predictions)
            data = make_data(self.vectorizer_.matrix_of_rows(rows), ptr, None)
        states = self._run(decoder, data, allowed, tokens)
        return PredictionList(data.spread([self.classes_[path] for path in states], self.classes_[:0]))

    @entry_point
    def predict_single(
        self, x: Any, *, allowed: Any = None, edge_features: Any = None, tokens: Any = None
    ) -> list[Any]:
        """Return the labels of one sequence, for programs that label sequences as they arrive.

        The result is `predict([x])[0]` as a list.

        Parameters
        ----------
        x : sequence
            One sequence: an array, a CSR matrix, a list of dicts or a list of lists of strings.
        allowed : optional
            Allowed labels of the sequence, as an entry of `allowed` in `predict`.
        edge_features : array, optional
            Features of the steps of the sequence.
        tokens : list of str, optional
            Tokens of the sequence.

        Returns
        -------
        labels : list of str, or of int
            A label for each position.

        Examples
        --------
        >>> from intarsia import ChainCRF
        >>> X = [[["sun"], ["rain"], ["rain"]], [["rain"], ["sun"]]]
        >>> crf = ChainCRF(l2=0.2).fit(X, [["good", "bad", "bad"], ["bad", "good"]])
        >>> crf.predict_single([["rain"], ["sun"]])
        ['bad', 'good']
        """
        labels = self.predict(
            [x],
            allowed=None if allowed is None else [allowed],
            edge_features=None if edge_features is None else [edge_features],
            tokens=None if tokens is None else [tokens],
        )[0]
        return labels.tolist()

    @entry_point
    def predict_marginals(
        self, X: Any, *, allowed: Any = None, edge_features: Any = None, tokens: Any = None
    ) -> list[FloatArray]:
        """Return the posterior marginals of each sequence, (T, n_classes) arrays; arguments as in `predict`."""
        data = self._read(X, edge_features)
        marginals = self._run(label_probabilities, data, allowed, tokens)
        return data.spread(marginals, np.zeros((0, self.classes_.size)))

    @entry_point
    def predict_kbest(
        self, X: Any, k: int, *, allowed: Any = None, edge_features: Any = None, tokens: Any = None
    ) -> list[list[tuple[NDArray[Any], float]]]:
        """Return the k best labellings of each sequence with their log-probabilities, the best first.

        A sequence with fewer than k possible labellings has fewer results. With energies, the labellings are those of
        the model under the energies. `decode` has no effect.
        """
        check_number(k, "k", low=1, high=2**31, integer=True)
        data = self._read(X, edge_features)
        ranked = self._run(several_best(int(k)), data, allowed, tokens)
        labellings = [[(self.classes_[path], value) for path, value in paths] for paths in ranked]
        return data.spread(labellings, [(self.classes_[:0], 0.0)])

    @entry_point
    def sample(
        self,
        X: Any,
        n_samples: int = 1,
        random_state: int | np.random.Generator | None = None,
        *,
        allowed: Any = None,
        edge_features: Any = None,
        tokens: Any = None,
    ) -> list[NDArray[Any]]:
        """Return labellings (n_samples, T) of each sequence, drawn independently from the posterior.

        With energies, the posterior is that of the model under the energies. `decode` has no effect.
        """
        check_number(n_samples, "n_samples", low=0, integer=True)
        seed = int(as_generator(random_state).integers(2**62))
        data = self._read(X, edge_features)
        samples = self._run(draws(int(n_samples), seed), data, allowed, tokens)
        empty = self.classes_[np.zeros((int(n_samples), 0), int)]
        return data.spread([self.classes_[states] for states in samples], empty)

    @entry_point
    def sequence_log_probability(self, X: Any, y: Any, *, edge_features: Any = None, tokens: Any = None) -> FloatArray:
        """Return the log-probability of the labels of each sequence; hidden labels and sets are summed over."""
        data = self._read(X, edge_features)
        truth = make_truth(read_chain_labels(y, data), self.classes_, np.ones(data.source_index.size))
        possible = truth.possible(self.classes_.size)
        result = np.zeros(data.n_inputs)
        scores = ChainScores(data, self.layout_, self.constraints_)
        tilt = self._tilt(data)
        required = self._required(data, tokens)
        if required is not None:
            from intarsia.sequences.constraints.chain_rules import log_probabilities_under_rules

            work = partial(log_probabilities_under_rules, required=required, allowed=possible, ptr=data.ptr)
            answers = for_each_sequence(scores, self.weights_, work, None, self.n_jobs, tilt)
            result[data.source_index] = [answer.value for answer in answers]
            return result
        result[data.source_index] = log_probabilities(scores, self.weights_, possible, self.n_jobs, tilt)
        return result

    @entry_point
    def strengths(self, X: Any, *, edge_features: Any = None) -> FloatArray:
        """Return the weights psi (n_sequences, n_psi) of the energies for each sequence; 0 for empty sequences."""
        data = self._read(X, edge_features)
        if self.energies_ is None:
            return np.zeros((data.n_inputs, 0))
        psi = np.zeros((data.n_inputs, self.energies_.energies.n_psi))
        psi[data.source_index] = self.energies_.strengths(data)
        return psi

    @entry_point
    def score(self, X: Any, y: Any, sample_weight: Any = None, *, edge_features: Any = None) -> float:
        """Return the accuracy on the labelled positions; a label that is not in `classes_` counts as an error."""
        decoder = self._decoder()
        data = self._read(X, edge_features)
        weight = check_sample_weight(sample_weight, data.n_inputs)[data.source_index]
        labels = read_chain_labels(y, data)
        truth = np.concatenate(
            [np.empty(0, np.int64), *(observed_states(sequence, self.classes_) for sequence in labels)]
        )
        is_labelled = truth >= 0
        position_weight = np.repeat(weight, data.lengths)[is_labelled]
        if position_weight.sum() == 0.0:
            raise InvalidInputError(
                "all labels are hidden, or belong to sequences with weight 0. Pass labels of at least one position."
            )
        states = np.concatenate(self._run(decoder, data, None))
        is_correct = states[is_labelled] == truth[is_labelled]
        return float(position_weight @ is_correct / position_weight.sum())

    def _decoder(self) -> Work:
        check_choice(self.decode, DECODERS, "decode")
        return likely_labels if self.decode == "marginals" else best_labels

    def _run(self, work: Work, data: ChainData, allowed: Any, tokens: Any = None) -> list[Any]:
        scores = ChainScores(data, self.layout_, self.constraints_)
        mask = None if allowed is None else self._mask(allowed, data)
        required, tilt = self._required(data, tokens), None
        if work is best_labels and self.decode == "penalized_map":
            from intarsia.sequences.constraints.penalized import penalized_labels

            rule_work = penalized_labels(self.energies_, data, required, self.classes_.tolist())
        elif required is None:
            return for_each_sequence(scores, self.weights_, work, mask, self.n_jobs, self._tilt(data))
        else:
            from intarsia.sequences.constraints.chain_rules import under_rules

            rule_work, tilt = under_rules(work, required), self._tilt(data)
        from intarsia.sequences.constraints.chain_rules import values_of

        answers = for_each_sequence(scores, self.weights_, rule_work, mask, self.n_jobs, tilt)
        return values_of(answers, data.source_index, work is best_labels)

    def _rules(self) -> Any:
        """Return the rules of `require` bound to the classes, or None; they may be changed after `fit`."""
        if self.require is None:
            return None
        bound = self._bound_rules
        if bound is None or not bound.is_for(self.require, self.classes_):
            from intarsia.sequences.constraints.rule_set import RuleSet, check_rules

            self._bound_rules = bound = RuleSet(check_rules(self.require), self.classes_)
        return bound if bound.rules else None

    def _required(self, data: ChainData, tokens: Any) -> Any:
        """Return the rules and the tokens of the sequences, or None if there are no rules."""
        rules = self._rules()
        if rules is None:
            return None
        from intarsia.sequences.constraints.chain_rules import SequenceRules, read_tokens

        return SequenceRules(rules, read_tokens(tokens, data.n_inputs, data.source_index, data.lengths))

    def _valid_states(self, ptr: IntArray, states: IntArray, nodes: FloatArray) -> list[tuple[int, IntArray]]:
        """Return the indices of the sequences whose labellings violate a rule, with their best valid labellings."""
        rules = self._bound_rules
        invalid = np.flatnonzero(rules.violated(ptr, states)) if rules.rules else np.empty(0, dtype=np.int64)
        if not invalid.size:
            return []
        from intarsia.sequences.constraints.chain_rules import SequenceRules, best_valid, values_of
        from intarsia.sequences.constraints.solver import Chain

        required, tables = SequenceRules(rules), self._direct_decoder().transitions
        answers = [best_valid(Chain(nodes[ptr[i] : ptr[i + 1]], tables), required, i) for i in invalid.tolist()]
        return list(zip(invalid.tolist(), values_of(answers, invalid, True), strict=True))

    def _tilt(self, data: ChainData) -> Tilt | None:
        """Return how the energies change the scores, with the present setting of `projection`."""
        if self.energies_ is None:
            return None
        fitted = self.energies_
        if self._projection_of_fit is not None and self._projection_of_fit.changed(self):
            parts = resolve_energies(self)
            fitted = fitted if parts is None else replace(fitted, method=parts.method)
        return fitted.tilt(data)

    def _mask(self, allowed: Any, data: ChainData) -> NDArray[np.bool_]:
        labels_by_sequence = allowed
        if (
            hasattr(allowed, "__len__")
            and len(allowed) == data.n_inputs
            and not isinstance(allowed, (str, bytes, dict))
        ):
            lengths = dict(zip(data.source_index.tolist(), data.lengths.tolist(), strict=True))
            labels_by_sequence = [
                [None] * lengths.get(i, 0) if labels is None else labels for i, labels in enumerate(allowed)
            ]
        labels = read_chain_labels(labels_by_sequence, data, "allowed")
        return make_truth(labels, self.classes_, np.ones(len(labels))).possible(self.classes_.size)

    def _decodes_directly(self) -> bool:
        """Return whether `predict` is Viterbi on named features without energies; raise if the model is not usable."""
        self._check_usable()
        rules = self._rules()
        return (
            self.decode == "map"
            and (self.energies_ is None or not self.energies_.active.any())
            and self.layout_.n_edge_features == 0
            and (rules is None or rules.is_stationary)
            and self.vectorizer_.vocabulary_ is not None
        )

    def _direct_decoder(self) -> ChainDecoder:
        """Return the decoder of short inputs, which is prepared again when the fitted model has changed."""
        decoder = self._prepared_decoder
        if decoder is None or not decoder.is_for(self.weights_, self.layout_, self.constraints_):
            decoder = ChainDecoder(self.weights_, self.layout_, self.constraints_)
            self._prepared_decoder = decoder
        return decoder

    def _scores_of_one(self, x: Any) -> tuple[FloatArray, FloatArray] | None:
        """Return the scores of labels, with those of first and last labels, and of transitions, for one sequence.

        The result is None if the sequence needs the general path: see `_decodes_directly` and `ChainDecoder`.
        """
        if not self._decodes_directly():
            return None
        rows, ptr = self.vectorizer_.transform_rows([x])
        warn_if_unknown([x], len(rows.columns), self.vectorizer_)
        decoder = self._direct_decoder()
        best = decoder.best_states(rows, ptr)
        return None if best is None else (best[1], decoder.transitions[0])

    def _check_usable(self) -> None:
        """Raise if the model is not fitted, or if settings do not fit it."""
        check_fitted(self, "weights_")
        if self._model_settings is not None:
            self._model_settings.check(self)
        check_n_jobs(self.n_jobs, "n_jobs")

    def _read(self, X: Any, edge_features: Any) -> ChainData:
        self._check_usable()
        return read_known(X, edge_features, self.vectorizer_, self.layout_)

    # ---------------------------------------------------------------- learned attributes

    @property
    def strengths_(self) -> StrengthTable:
        """Table with the strength of each energy, and its effect on held-out sequences."""
        check_fitted(self, "weights_")
        return StrengthTable([], 0) if self.energies_ is None else self.energies_.table

    @property
    def vocabulary_(self) -> list[str] | None:
        """Names of the features; None if X are arrays."""
        return self.vectorizer_.vocabulary_

    @property
    def state_weights_(self) -> FloatArray:
        """Weights (n_features, n_classes) of features with labels."""
        return self.layout_.state_matrix(self.weights_)

    @property
    def transitions_(self) -> FloatArray:
        """Scores (n_classes, n_classes) of a label (row) followed by another."""
        return self.layout_.unpack(self.weights_.copy()).transitions

    @property
    def start_(self) -> FloatArray | None:
        """Scores of the first label of a sequence."""
        return self.layout_.unpack(self.weights_.copy()).start

    @property
    def end_(self) -> FloatArray | None:
        """Scores of the last label of a sequence."""
        return self.layout_.unpack(self.weights_.copy()).end

    @property
    def edge_weights_(self) -> FloatArray | None:
        """Weights (n_edge_features, n_classes, n_classes) of features of steps."""
        return self.layout_.unpack(self.weights_.copy()).edges
