"""Methods of a fitted chain model that say how certain a prediction is, and why it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.error_context import entry_point
from intarsia._core.transaction import transaction
from intarsia._core.validation import check_choice
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.models.labelling import observed_states
from intarsia.sequences.chain_data import ChainScores, make_truth, read_chain_labels
from intarsia.sequences.chain_prediction import log_probabilities
from intarsia.sequences.chain_tagger import ChainTagger

if TYPE_CHECKING:
    from typing import Self

    from intarsia.metrics.calibration import ReliabilityCurve
    from intarsia.sequences.confidence.segments import Segment


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
    ) -> list[list[Segment]]:
        """Return the segments of the predicted labels of each sequence, with their exact probabilities.

        The probability of a segment is that of all labellings with exactly this segment: the same first and last
        position and the same label, not longer and not shorter. It is computed by a sum over all other positions
        (forward-backward), and is not the product of the marginals of its positions, which ignores that neighbouring
        labels depend on each other. With energies, probabilities are those of the model under the energies.

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
        allowed, edge_features : optional
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
        segments = data.spread(self._run(PredictedSegments(joins, decoder), data, allowed), [])
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
        edge_features : list of arrays, optional
            Features of steps, as in `fit`.

        Returns
        -------
        self : ChainCRF
            The model with calibrated weights.

        Raises
        ------
        InvalidInputError
            If no position is labelled, a label is not in `classes_`, or labels are impossible under the constraints.
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
        if not any((observed_states(row, self.classes_) >= 0).any() for row in labels):
            raise InvalidInputError("all labels are hidden. Pass labels of at least one position.")
        possible = make_truth(labels, self.classes_, np.ones(len(labels))).possible(self.classes_.size)
        scores = ChainScores(data, self.layout_, self.constraints_)

        def log_likelihood(temperature: float) -> float:
            return float(log_probabilities(scores, self.weights_ / temperature, possible, self.n_jobs).sum())

        temperature = best_temperature(log_likelihood)
        self.weights_ = self.weights_ / temperature
        self.temperature_ = self.temperature_ * temperature
        return self
