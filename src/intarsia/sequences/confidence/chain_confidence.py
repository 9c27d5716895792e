"""Methods of a fitted chain model that say how certain a prediction is, and why it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.error_context import entry_point
from intarsia.exceptions import InvalidInputError
from intarsia.models.labelling import observed_states
from intarsia.sequences.chain_data import read_chain_labels
from intarsia.sequences.chain_tagger import ChainTagger

if TYPE_CHECKING:
    from intarsia.sequences.confidence.segments import Segment


class ConfidentTagger(ChainTagger):
    """Base class of `ChainCRF` with probabilities of segments, calibration and explanations."""

    scheme: str | None

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
