"""Scores with scikit-learn's signature `*_score(y_true, y_pred)`, and scorers for `scoring=`.

Scores of labels take `sample_weight`, a weight for each sequence or image. Scores of segments and of clusterings do
not: segments are counted as by conlleval, which has no weights, and a clustering is a single example whose pairs and
clusters belong to several records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import make_scorer

from intarsia._core.error_context import errors_from
from intarsia.metrics.clusterings import clustering_scores
from intarsia.metrics.labelling import labelling_scores
from intarsia.metrics.segments import scheme_of_tags, segment_scores


@errors_from("token_accuracy_score")
def token_accuracy_score(y_true: Sequence[Any], y_pred: Sequence[Any], *, sample_weight: Any = None) -> float:
    """Compute the fraction of the tokens whose label is correct, over all sequences; hidden true labels are ignored.

    `sample_weight` holds a weight for each sequence, by default 1.

    Examples
    --------
    >>> token_accuracy_score([["a", "b"], ["b", None]], [["a", "a"], ["b", "a"]]) == 2 / 3
    True
    """
    return labelling_scores(y_true, y_pred, sample_weight=sample_weight).accuracy


@errors_from("token_f1_score")
def token_f1_score(y_true: Sequence[Any], y_pred: Sequence[Any], *, sample_weight: Any = None) -> float:
    """Compute the mean over the labels of the F1 of their tokens (macro average); hidden true labels are ignored.

    `sample_weight` holds a weight for each sequence, by default 1.

    Examples
    --------
    >>> token_f1_score([["a", "b"], ["b", None]], [["a", "b"], ["b", "a"]])
    1.0
    """
    return labelling_scores(y_true, y_pred, sample_weight=sample_weight).macro_f1


@errors_from("sequence_accuracy_score")
def sequence_accuracy_score(y_true: Sequence[Any], y_pred: Sequence[Any], *, sample_weight: Any = None) -> float:
    """Compute the fraction of the sequences in which every label is correct; hidden true labels are ignored.

    `sample_weight` holds a weight for each sequence, by default 1.

    Examples
    --------
    >>> sequence_accuracy_score([["a", "b"], ["b", None]], [["a", "a"], ["b", "a"]])
    0.5
    """
    return labelling_scores(y_true, y_pred, sample_weight=sample_weight).sequence_accuracy


@errors_from("segment_f1_score")
def segment_f1_score(
    y_true: Sequence[Any], y_pred: Sequence[Any], *, scheme: str | None = None, outside: Any = "O"
) -> float:
    """Compute the F1 of predicted segments as conlleval does; `scheme` and `outside` as in `segment_scores`.

    By default `scheme` is "conll" if a true tag has a prefix such as B-, otherwise "runs".

    Examples
    --------
    >>> segment_f1_score([["B-NP", "I-NP", "B-VP", "I-VP"]], [["B-NP", "I-NP", "B-VP", "O"]])
    0.5
    """
    if scheme is None:
        scheme = scheme_of_tags(y_true, y_pred, outside)
    return segment_scores(y_true, y_pred, scheme, outside).f1


@errors_from("pixel_accuracy_score")
def pixel_accuracy_score(y_true: Sequence[Any], y_pred: Sequence[Any], *, sample_weight: Any = None) -> float:
    """Compute the fraction of the pixels whose label is correct, over all images; pixels with label -1 are ignored.

    `sample_weight` holds a weight for each image, by default 1.

    Examples
    --------
    >>> import numpy as np
    >>> pixel_accuracy_score([np.array([[0, 1], [1, -1]])], [np.array([[0, 1], [0, 0]])]) == 2 / 3
    True
    """
    return labelling_scores(y_true, y_pred, sample_weight=sample_weight).accuracy


@errors_from("mean_iou_score")
def mean_iou_score(y_true: Sequence[Any], y_pred: Sequence[Any], *, sample_weight: Any = None) -> float:
    """Compute the mean over the classes of intersection over union, counted over all images.

    Pixels whose true label is hidden are ignored. Classes are the labels that occur among the true or predicted labels
    of the other pixels. `sample_weight` holds a weight for each image, by default 1.

    Examples
    --------
    The union of class 0 has two pixels and the intersection one; for class 1 these are three and two.

    >>> import numpy as np
    >>> mean_iou_score([np.array([[0, 0, 1, 1]])], [np.array([[0, 1, 1, 1]])]) == (1 / 2 + 2 / 3) / 2
    True
    """
    counts = labelling_scores(y_true, y_pred, sample_weight=sample_weight).by_label.values()
    unions = [label.n_true + label.n_pred - label.n_correct for label in counts]
    ratios = [label.n_correct / union if union else 0.0 for label, union in zip(counts, unions, strict=True)]
    return float(np.mean(ratios)) if ratios else 0.0


@errors_from("pairwise_f1_score")
def pairwise_f1_score(y_true: Any, y_pred: Any) -> float:
    """Compute the F1 of the pairs of records in the same cluster; records without a true entity are ignored.

    Examples
    --------
    >>> pairwise_f1_score(["a", "a", "a", "b", "b"], [0, 0, 1, 2, 2]) == 2 / 3
    True
    """
    return clustering_scores(y_true, y_pred).pairwise.f1


@errors_from("b_cubed_f1_score")
def b_cubed_f1_score(y_true: Any, y_pred: Any) -> float:
    """Compute the B-cubed F1 of a clustering of records; records without a true entity are ignored.

    Examples
    --------
    >>> b_cubed_f1_score(["a", "a", "b"], [0, 0, 1])
    1.0
    """
    return clustering_scores(y_true, y_pred).b_cubed.f1


@errors_from("conll_f1_score")
def conll_f1_score(y_true: Any, y_pred: Any) -> float:
    """Compute the mean F1 of MUC, B-cubed and CEAF-e; records without a true entity are ignored.

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
