"""Scores as scikit-learn writes them, `*_score(y_true, y_pred)`, and scorers for `scoring=`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import make_scorer

from intarsia._core.error_context import errors_from
from intarsia.metrics.clusterings import clustering_scores
from intarsia.metrics.labelling import labelling_scores
from intarsia.metrics.segments import segment_scores


@errors_from("token_accuracy_score")
def token_accuracy_score(y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
    """Fraction of the tokens whose label is right, over all sequences; hidden true labels are left out.

    Examples
    --------
    >>> token_accuracy_score([["a", "b"], ["b", None]], [["a", "a"], ["b", "a"]]) == 2 / 3
    True
    """
    return labelling_scores(y_true, y_pred).accuracy


@errors_from("token_f1_score")
def token_f1_score(y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
    """Mean over the labels of the F1 of their tokens (macro average); hidden true labels are left out.

    Examples
    --------
    >>> token_f1_score([["a", "b"], ["b", None]], [["a", "b"], ["b", "a"]])
    1.0
    """
    return labelling_scores(y_true, y_pred).macro_f1


@errors_from("sequence_accuracy_score")
def sequence_accuracy_score(y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
    """Fraction of the sequences in which every label is right; hidden true labels are left out.

    Examples
    --------
    >>> sequence_accuracy_score([["a", "b"], ["b", None]], [["a", "a"], ["b", "a"]])
    0.5
    """
    return labelling_scores(y_true, y_pred).sequence_accuracy


@errors_from("segment_f1_score")
def segment_f1_score(
    y_true: Sequence[Any], y_pred: Sequence[Any], *, scheme: str = "conll", outside: Any = "O"
) -> float:
    """F1 of predicted segments, counted as conlleval counts; `scheme` and `outside` as in `segment_scores`.

    Examples
    --------
    >>> segment_f1_score([["B-NP", "I-NP", "B-VP", "I-VP"]], [["B-NP", "I-NP", "B-VP", "O"]])
    0.5
    """
    return segment_scores(y_true, y_pred, scheme, outside).f1


@errors_from("pixel_accuracy_score")
def pixel_accuracy_score(y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
    """Fraction of the labelled pixels whose label is right, over all images; pixels with label -1 are left out.

    Examples
    --------
    >>> import numpy as np
    >>> pixel_accuracy_score([np.array([[0, 1], [1, -1]])], [np.array([[0, 1], [0, 0]])]) == 2 / 3
    True
    """
    return labelling_scores(y_true, y_pred).accuracy


@errors_from("mean_iou_score")
def mean_iou_score(y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
    """Mean over the classes of intersection over union, counted over all images; hidden pixels are left out.

    Classes are the labels that occur in the truth or in the prediction at pixels with a true label.

    Examples
    --------
    Of class 0 the union has two pixels and the intersection one; of class 1 three and two.

    >>> import numpy as np
    >>> mean_iou_score([np.array([[0, 0, 1, 1]])], [np.array([[0, 1, 1, 1]])]) == (1 / 2 + 2 / 3) / 2
    True
    """
    counts = labelling_scores(y_true, y_pred).by_label.values()
    shares = [label.n_correct / (label.n_true + label.n_pred - label.n_correct) for label in counts]
    return float(np.mean(shares)) if shares else 0.0


@errors_from("pairwise_f1_score")
def pairwise_f1_score(y_true: Any, y_pred: Any) -> float:
    """F1 of the pairs of records that are put together; records without a true entity are left out.

    Examples
    --------
    >>> pairwise_f1_score(["a", "a", "a", "b", "b"], [0, 0, 1, 2, 2]) == 2 / 3
    True
    """
    return clustering_scores(y_true, y_pred).pairwise.f1


@errors_from("b_cubed_f1_score")
def b_cubed_f1_score(y_true: Any, y_pred: Any) -> float:
    """B-cubed F1 of a clustering of records; records without a true entity are left out.

    Examples
    --------
    >>> b_cubed_f1_score(["a", "a", "b"], [0, 0, 1])
    1.0
    """
    return clustering_scores(y_true, y_pred).b_cubed.f1


@errors_from("conll_f1_score")
def conll_f1_score(y_true: Any, y_pred: Any) -> float:
    """Mean F1 of MUC, B-cubed and CEAF-e; records without a true entity are left out.

    Examples
    --------
    >>> conll_f1_score(["a", "a", "b"], [0, 0, 1])
    1.0
    """
    return clustering_scores(y_true, y_pred).conll


token_accuracy_scorer = make_scorer(token_accuracy_score)
token_f1_scorer = make_scorer(token_f1_score)
sequence_accuracy_scorer = make_scorer(sequence_accuracy_score)
segment_f1_scorer = make_scorer(segment_f1_score)
pixel_accuracy_scorer = make_scorer(pixel_accuracy_score)
mean_iou_scorer = make_scorer(mean_iou_score)
pairwise_f1_scorer = make_scorer(pairwise_f1_score)
b_cubed_f1_scorer = make_scorer(b_cubed_f1_score)
conll_f1_scorer = make_scorer(conll_f1_score)
