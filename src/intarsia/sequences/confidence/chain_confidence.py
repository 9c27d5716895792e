"""Methods of a fitted chain model that say how certain a prediction is, and why it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.error_context import entry_point
from intarsia._core.transaction import transaction
from intarsia._core.validation import check_choice, check_number
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.models.labelling import observed_states
from intarsia.sequences.chain_data import ChainScores, make_truth, read_chain_labels
from intarsia.sequences.chain_prediction import for_each_sequence, log_probabilities
from intarsia.sequences.chain_tagger import ChainTagger

if TYPE_CHECKING:
    from typing import Self

    from intarsia.metrics.calibration import ReliabilityCurve
    from intarsia.sequences.confidence.explanation import TagExplanation
    from intarsia.sequences.confidence.segments import Segment
    from intarsia.sequences.confidence.tagged_text import TaggedText


class ConfidentTagger(ChainTagger):
    """Base class of `ChainCRF` with probabilities of segments, calibration and explanations."""

    scheme: str | None
    temperature_: float = 1.0

    @entry_point
    def predict_segments(
        self,
        X: Any,
        *,
        labels: Any = None,
        scheme: str | None = None,
        outside: Any = "O",
        allowed: Any = None,
        edge_features: Any = None,
        tokens: Any = None,
    ) -> list[list[Segment]]:
        """Return the segments of the predicted labels of each sequence, with their exact probabilities.

        The probability of a segment is that of all labellings with exactly this segment: the same first and last
        position and the same label, not longer and not shorter. It is computed by a sum over all other positions
        (forward-backward), and is not the product of the marginals of its positions, which ignores that neighbouring
        labels depend on each other. With energies, probabilities are those of the model under the energies; with rules
        (`require`), they are those among the labellings that satisfy the rules.

        Parameters
        ----------
        X : list of sequences
            Sequences in a format that `fit` accepts.
        labels : list of lists, optional
            Labels of every position whose segments are wanted, such as corrected ones; by default `predict(X)`.
        scheme : {"conll", "runs", "tokens"}, optional
            How labels are read as segments: see `intarsia.metrics.find_segments`. By default "conll" for labels with
            the prefixes of BIO or BIOES, and "runs" (equal neighbours) for other labels.
        outside : str or int
            Label of positions that belong to no segment.
        allowed, edge_features, tokens : optional
            As in `predict`.

        Returns
        -------
        segments : list of lists of Segment
            `Segment(start, end, label, probability)`, in the order of their positions; `end` is exclusive.

        Raises
        ------
        InvalidInputError
            If labels do not follow the scheme, or `labels` has a hidden or unknown label.

        Examples
        --------
        >>> from intarsia import ChainCRF
        >>> X = [[["sun"], ["rain"], ["rain"]], [["rain"], ["sun"]]]
        >>> crf = ChainCRF(l2=0.2).fit(X, [["good", "bad", "bad"], ["bad", "good"]])
        >>> for segment in crf.predict_segments(X)[0]:
        ...     print(segment.start, segment.end, segment.label, round(segment.probability, 2))
        0 1 good 0.81
        1 3 bad 0.67
        """
        from intarsia.sequences.confidence.segments import FixedStates, PredictedSegments, joins_of_classes

        decoder = self._decoder()
        data = self._read(X, edge_features)
        scheme = "conll" if scheme is None and self.scheme is not None else scheme
        joins = joins_of_classes(self.classes_, scheme, outside)
        if self.decode == "penalized_map":
            decoder = FixedStates(self._run(decoder, data, allowed, tokens))
        if labels is not None:
            states = [observed_states(row, self.classes_) for row in read_chain_labels(labels, data, "labels")]
            for i, row in zip(data.source_index.tolist(), states, strict=True):
                is_invalid = (row < 0) | (row >= self.classes_.size)
                if is_invalid.any():
                    raise InvalidInputError(
                        f"labels[{i}][{int(np.argmax(is_invalid))}] is hidden or not one of the {self.classes_.size} "
                        f"labels of the model. Pass a label of `classes_` for every position."
                    )
            decoder = FixedStates(states)
        required = self._required(data, tokens)
        if required is not None and labels is None:
            decoder = FixedStates(self._run(decoder, data, allowed, tokens))
        work = PredictedSegments(joins, decoder, required)
        scores = ChainScores(data, self.layout_, self.constraints_)
        mask = None if allowed is None else self._mask(allowed, data)
        results = for_each_sequence(scores, self.weights_, work, mask, self.n_jobs, self._tilt(data))
        segments = data.spread(results, [])
        return [list(of_sequence) for of_sequence in segments]

    @entry_point
    def reliability_curve(self, X: Any, y: Any, *, unit: str = "tokens", n_bins: int = 10) -> ReliabilityCurve:
        """Return the accuracy of the predictions for X in bins of their probability.

        Use sequences that were not in the training set. `intarsia.report.plot_reliability` draws the curve.

        Parameters
        ----------
        X, y : lists of sequences
            Sequences and their labels.
        unit : {"tokens", "segments", "sequences"}
            Predictions that are counted: the label of each position with its marginal probability, each segment with
            the probability of `predict_segments`, or the complete labelling with its probability.
        n_bins : int
            Number of bins of equal width.

        Examples
        --------
        >>> from intarsia import ChainCRF
        >>> X = [[["sun"], ["rain"], ["rain"]], [["rain"], ["sun"]]]
        >>> y = [["good", "bad", "bad"], ["bad", "good"]]
        >>> curve = ChainCRF(l2=0.2).fit(X, y).reliability_curve(X, y, n_bins=1)
        >>> curve.accuracy, curve.confidence.round(2)
        (array([1.]), array([0.87]))
        """
        from intarsia.metrics.calibration import reliability_curve
        from intarsia.sequences.confidence.calibration import UNITS, correct_and_confidence

        self._check_usable()
        check_choice(unit, UNITS, "unit")
        X = list(X)
        return reliability_curve(*correct_and_confidence(self, X, y, unit), n_bins=n_bins)  # type: ignore[arg-type]

    @entry_point
    @transaction
    def calibrate(self, X: Any, y: Any, *, edge_features: Any = None) -> Self:
        """Divide all scores by the temperature that maximises the likelihood of held-out sequences.

        Regularized models are often too cautious and overfitted models too certain. The temperature changes the
        probabilities, but not the most probable labelling. It is applied to the weights, so that saved files, exported
        models and every method have the calibrated probabilities. `temperature_` is the product of all temperatures
        since `fit`.

        Parameters
        ----------
        X, y : lists of sequences
            Sequences that were not in the training set, and their labels; a few dozen are enough for one number.
            Sequences with a label that is not in `classes_` are left out.
        edge_features : list of arrays, optional
            Features of steps, as in `fit`.

        Returns
        -------
        self : ChainCRF
            The model with calibrated weights.

        Raises
        ------
        InvalidInputError
            If no sequence can be used, or labels are impossible under the constraints.
        NotSupportedError
            With energies, because scores and energies would not keep their proportion.

        References
        ----------
        Guo2017 for temperature scaling.

        Examples
        --------
        >>> from intarsia import ChainCRF
        >>> X = [[["sun"], ["rain"], ["rain"]], [["rain"], ["sun"]], [["sun"], ["sun"]]]
        >>> y = [["good", "bad", "bad"], ["bad", "good"], ["bad", "good"]]
        >>> crf = ChainCRF(l2=0.01).fit(X[:2], y[:2]).calibrate(X, y)
        >>> crf.temperature_ > 1        # the training set did not have the label "bad" for sun
        True
        """
        from intarsia.sequences.confidence.calibration import best_temperature

        data = self._read(X, edge_features)
        if self.energies_ is not None:
            raise NotSupportedError(
                "a model with energies cannot be calibrated, because scores and energies would not keep their "
                "proportion. Use a model without energies, then fit the energies with freeze_weights=True."
            )
        labels = read_chain_labels(y, data)
        k = self.classes_.size
        possible = np.ones((int(data.ptr[-1]), k), dtype=bool)
        is_used = False
        for s, row in enumerate(labels):
            states = observed_states(row, self.classes_)
            if (states < k).all():
                is_used |= bool((states >= 0).any())
                positions = slice(int(data.ptr[s]), int(data.ptr[s + 1]))
                possible[positions] = make_truth([row], self.classes_, np.ones(1)).possible(k)
        if not is_used:
            raise InvalidInputError(
                "all labels are hidden, or not in `classes_`. Pass at least one sequence with labels of the model."
            )
        scores = ChainScores(data, self.layout_, self.constraints_)

        def log_likelihood(temperature: float) -> float:
            return float(log_probabilities(scores, self.weights_ / temperature, possible, self.n_jobs).sum())

        temperature = best_temperature(log_likelihood)
        self.weights_ = self.weights_ / temperature
        self.temperature_ = self.temperature_ * temperature
        return self

    @entry_point
    def explain(
        self,
        x: Any,
        position: int,
        *,
        label: Any = None,
        other: Any = None,
        odds: str = "marginals",
        edge_features: Any = None,
        tokens: Any = None,
    ) -> TagExplanation:
        """Return why a position has its label: contributions that add up to the log odds against another label.

        With `odds="marginals"`, the log odds are log P(label) - log P(other) of the posterior marginals. They are the
        sum of: a term for each feature of the position (its value times the difference of its weights for the two
        labels), a term for all positions before and one for all positions after it (differences of the logarithms of
        the forward and backward messages, which sum over the labels of the neighbours), the scores of first and last
        labels, and the energies. With `odds="neighbours"`, the log odds are those of the two labels if all other
        positions have their labels in the most probable labelling; the terms of the neighbours are then scores of two
        transitions. Rules (`require`) have no terms: the log odds are those of the model without the rules, so that a
        label that a rule enforces can have negative log odds.

        Parameters
        ----------
        x : sequence
            One sequence, as in `predict_single`.
        position : int
            Position in the sequence; negative positions count from the end.
        label, other : optional
            Labels that are compared; by default the predicted label, and the most probable other label.
        odds : {"marginals", "neighbours"}
            Which log odds are explained.
        edge_features : array, optional
            Features of steps; their effect is a part of the terms of the neighbours.
        tokens : list of str, optional
            Tokens of the sequence, for rules that read them.

        Returns
        -------
        explanation : TagExplanation
            Contributions, the largest first; `print` and notebooks show them as a table.

        Examples
        --------
        >>> from intarsia import ChainCRF
        >>> X = [[["sun"], ["rain"], ["rain"]], [["rain"], ["sun"]]]
        >>> crf = ChainCRF(l2=0.2).fit(X, [["good", "bad", "bad"], ["bad", "good"]])
        >>> explanation = crf.explain(X[0], 1)
        >>> explanation.label, explanation.other, [term.name for term in explanation.contributions]
        ('bad', 'good', ['rain', 'positions before', 'positions after'])
        >>> abs(sum(term.value for term in explanation.contributions) - explanation.log_odds) < 1e-12
        True
        """
        from intarsia.sequences.confidence.explanation import ODDS, TagExplanation, explain_position, feature_terms

        check_choice(odds, ODDS, "odds")
        data = self._read([x], None if edge_features is None else [edge_features])
        n = int(data.ptr[-1])
        if n == 0:
            raise InvalidInputError("x has no positions. Pass a sequence with at least one position.")
        check_number(position, "position", low=-n, high=n - 1, integer=True)
        t = int(position) % n
        scores = ChainScores(data, self.layout_, self.constraints_)
        plain = scores.batch(self.weights_, 0, 1)
        (batch,) = for_each_sequence(scores, self.weights_, lambda chain, _: [chain], None, None, self._tilt(data))
        if label is None:
            states = int(self._run(self._decoder(), data, None, None if tokens is None else [tokens])[0][t])
        else:
            states = self._state(label, "label")
        other_state = None if other is None else self._state(other, "other")
        if other_state == states:
            raise InvalidInputError(f"other={other!r} is the label that is explained. Pass another label.")
        pair, terms, log_probability = explain_position(
            batch, plain if self.energies_ is not None else batch, t, (states, other_state), odds,
            self.classes_.tolist(),
        )  # fmt: skip
        names = self.vocabulary_
        terms += feature_terms(data, t, self.layout_, self.weights_, names, pair)
        terms.sort(key=lambda term: -abs(term.value))
        values = np.exp(log_probability[pair])
        if odds == "neighbours" and values.sum() > 0.0:
            values = values / values.sum()
        a, b = (self.classes_.tolist()[state] for state in pair)
        log_odds = float(sum(term.value for term in terms))
        return TagExplanation(t, a, b, log_odds, float(values[0]), float(values[1]), odds, terms)

    def _state(self, label: Any, name: str) -> int:
        classes = self.classes_.tolist()
        if label not in classes:
            raise InvalidInputError(f"{name}={label!r} is not a label of the model. Use one of `classes_`.")
        return classes.index(label)

    @entry_point
    def top_features(self, label: Any, n: int = 20) -> list[tuple[str, float]]:
        """Return the features with the largest absolute weights for a label, in descending order of weight.

        Parameters
        ----------
        label : str or int
            A label of `classes_`.
        n : int
            Maximum number of features; features with weight 0 are left out.

        Examples
        --------
        >>> from intarsia import ChainCRF
        >>> X = [[["sun"], ["rain"], ["rain"]], [["rain"], ["sun"]]]
        >>> crf = ChainCRF(l2=0.2).fit(X, [["good", "bad", "bad"], ["bad", "good"]])
        >>> [name for name, weight in crf.top_features("good") if weight > 0]
        ['sun']
        """
        self._check_usable()
        check_number(n, "n", low=1, integer=True)
        weights = self.state_weights_[:, self._state(label, "label")]
        order = np.argsort(-np.abs(weights), kind="stable")[: int(n)]
        order = order[weights[order] != 0.0]
        order = order[np.argsort(-weights[order], kind="stable")]
        names = self.vocabulary_
        return [(f"feature {f}" if names is None else names[f], float(weights[f])) for f in order.tolist()]

    @entry_point
    def tagged_text(self, x: Any, words: Any = None, **options: Any) -> TaggedText:
        """Return the predicted segments of one sequence as a picture for notebooks, terminals and plain text.

        Parameters
        ----------
        x : sequence
            One sequence, as in `predict_single`.
        words : list of str, optional
            Words of the sequence; by default the numbers of the positions.
        **options
            As in `predict_segments`, such as `outside`.

        Examples
        --------
        >>> from intarsia import ChainCRF
        >>> X = [[["sun"], ["rain"], ["rain"]], [["rain"], ["sun"]]]
        >>> crf = ChainCRF(l2=0.2).fit(X, [["good", "bad", "bad"], ["bad", "good"]])
        >>> print(crf.tagged_text(X[0], ["Sun", "then", "rain"]))
        [Sun | good 0.81] [then rain | bad 0.67]
        """
        from intarsia.sequences.confidence.tagged_text import TaggedText, as_words

        (segments,) = self.predict_segments([x], **options)
        n = int(self._read([x], None).ptr[-1])
        tokens = as_words(words, n)
        if len(tokens) != n:
            raise InvalidInputError(f"words has {len(tokens)} words, but x has {n} positions. Pass one per position.")
        return TaggedText(tokens, segments)
