"""Areas under ROC and precision-recall curves, compared with scikit-learn and with values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import auc, precision_recall_curve, roc_auc_score

from intarsia.exceptions import InvalidInputError
from intarsia.metrics import ranking_scores


@pytest.mark.parametrize("n_values", [3, 10, 10**6], ids=["many ties", "ties", "no ties"])
@pytest.mark.parametrize("seed", range(3))
def test_areas_equal_scikit_learn(n_values, seed):
    rng = np.random.default_rng(seed)
    truth = rng.random(60) < 0.3
    scores = rng.integers(0, n_values, 60) / n_values + 0.2 * truth
    found = ranking_scores(truth, scores)
    precision, recall, _ = precision_recall_curve(truth, scores)
    assert found.auroc == pytest.approx(roc_auc_score(truth, scores))
    assert found.auprc == pytest.approx(auc(recall, precision))
    precision, recall, _ = precision_recall_curve(~truth, -scores)
    assert found.auprc_negative == pytest.approx(auc(recall, precision))


def test_areas_computed_by_hand():
    perfect = ranking_scores([True, True, False], [3, 2, 1])
    assert (perfect.auroc, perfect.auprc, perfect.auprc_negative, perfect.n) == (1.0, 1.0, 1.0, 3)
    # All tied: half of the pairs, and one step from precision 1 to 1/4.
    tied = ranking_scores([True, False, False, False], [1, 1, 1, 1])
    assert (tied.auroc, tied.auprc) == (0.5, 0.625)


def test_areas_are_nan_for_one_class():
    found = ranking_scores([True, True], [0.1, 0.2])
    assert np.isnan([found.auroc, found.auprc, found.auprc_negative]).all()
    assert found.as_dict()["n"] == 2


def test_invalid_input():
    with pytest.raises(InvalidInputError, match=r"ranking_scores: y_true has shape .* Pass one score per item"):
        ranking_scores([True, False], [0.5])
    with pytest.raises(InvalidInputError, match=r"scores\[1\] is NaN"):
        ranking_scores([True, False], [0.5, np.nan])
