"""How many labels are right: of tokens, of whole sequences, of each label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from intarsia._core.error_context import errors_from
from intarsia._core.html import ShownResult
from intarsia.exceptions import InvalidInputError
from intarsia.metrics.counts import PrecisionRecall, count_by_label, is_hidden, paired_sequences


@dataclass(frozen=True)
class LabellingScores(ShownResult):
    """How well labels were predicted; tokens whose true label is hidden are left out.

    Attributes
    ----------
    accuracy : float
        Share of the tokens that are right; 0 where there is none.
    sequence_accuracy : float
        Share of the sequences in which every token is right; 0 where there is none.
    by_label : dict of PrecisionRecall
        Counts for each label.
    n, n_tokens : int
        Sequences and tokens with a known label; sequences without any are not counted.

    Examples
    --------
    See `labelling_scores`, which makes it.

    >>> LabellingScores(1.0, 1.0, {"a": PrecisionRecall(3, 3, 3)}, n=1, n_tokens=3).macro_f1
    1.0
    """

    accuracy: float
    sequence_accuracy: float
    by_label: dict[Hashable, PrecisionRecall]
    n: int
    n_tokens: int

    @property
    def macro_f1(self) -> float:
        """Mean of F1 over the labels; 0 where there is none."""
        return sum(counts.f1 for counts in self.by_label.values()) / len(self.by_label) if self.by_label else 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON: `accuracy`, `sequence_accuracy`, `macro_f1`, `by_label` and `n`, the number of sequences."""
        return {
            "accuracy": self.accuracy,
            "sequence_accuracy": self.sequence_accuracy,
            "macro_f1": self.macro_f1,
            "by_label": {str(label): counts.as_dict() for label, counts in self.by_label.items()},
            "n": self.n,
        }


@errors_from("labelling_scores")
def labelling_scores(y_true: Sequence[Any], y_pred: Sequence[Any]) -> LabellingScores:
    """Share of right labels, over tokens and over whole sequences, and precision and recall of each label.

    Parameters
    ----------
    y_true, y_pred : lists of sequences or arrays
        One label for each token; images are read row by row. In `y_true`, None (and -1 among whole numbers) hides a
        label.

    Raises
    ------
    InvalidInputError
        Lengths differ, or a true label is a set of labels.

    Examples
    --------
    >>> scores = labelling_scores([["a", "b"], ["b", None]], [["a", "a"], ["b", "a"]])
    >>> scores.accuracy == 2 / 3, scores.sequence_accuracy, scores.by_label["b"].recall
    (True, 0.5, 0.5)
    """
    pairs: Counter[tuple[Any, Any]] = Counter()
    n = n_whole = 0
    for k, (true, pred) in enumerate(paired_sequences(y_true, y_pred)):
        try:
            here = Counter((a, b) for a, b in zip(true, pred, strict=True) if not is_hidden(a))
        except TypeError:
            raise InvalidInputError(
                f"y_true[{k}] or y_pred[{k}] holds lists; expected one label for each token."
            ) from None
        if any(isinstance(a, frozenset) for a, _ in here):
            raise InvalidInputError(
                f"y_true[{k}] holds a set of labels. Scores need the true label; use None where it is not known."
            )
        n += bool(here)
        n_whole += bool(here) and all(a == b for a, b in here)
        pairs.update(here)
    n_true: Counter[Hashable] = Counter()
    n_pred: Counter[Hashable] = Counter()
    n_correct: Counter[Hashable] = Counter()
    for (true_label, pred_label), count in pairs.items():
        n_true[true_label] += count
        n_pred[pred_label] += count
        n_correct[true_label] += count * (true_label == pred_label)
    n_tokens = pairs.total()
    return LabellingScores(
        n_correct.total() / n_tokens if n_tokens else 0.0,
        n_whole / n if n else 0.0,
        count_by_label(n_true, n_pred, n_correct),
        n,
        n_tokens,
    )
