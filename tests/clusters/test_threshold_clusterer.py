"""`ThresholdClusterer`, compared with every threshold separately."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.clusters.components import connected_components
from intarsia.clusters.threshold_clusterer import ThresholdClusterer
from intarsia.datasets import make_customers
from intarsia.exceptions import InvalidInputError
from intarsia.metrics import clustering_scores

COMPARED = {"last_name": "jaro_winkler", "street": "token_overlap", "email": "jaro_winkler"}


@pytest.mark.parametrize("metric", ["b_cubed", "pairwise"])
def test_threshold_is_the_best_on_the_training_records(metric):
    made = make_customers(40, typos=3.0, random_state=4)
    model = ThresholdClusterer(COMPARED, metric=metric).fit(made.columns, made.entity)
    found = model._pairs_of(made.columns)
    odds = model.matcher_.log_odds(found.values)

    def f1(threshold):
        parts = connected_components(found.n_records, found.pairs, odds, threshold)
        return getattr(clustering_scores(made.entity, parts), metric).f1

    reached = f1(model.threshold_)
    assert reached == pytest.approx(max(f1(t) for t in [np.inf, *odds]))
    np.testing.assert_array_equal(
        model.predict(made.columns), connected_components(found.n_records, found.pairs, odds, model.threshold_)
    )


def test_bad_input():
    with pytest.raises(InvalidInputError, match="2 records, but 1 clusters"):
        ThresholdClusterer({"name": "exact"}).fit({"name": ["a", "b"]}, [0])
    with pytest.raises(InvalidInputError, match="metric='muc' is not known"):
        ThresholdClusterer({"name": "exact"}, metric="muc").fit({"name": ["a", "b"]}, [0, 1])


def test_comparisons_cannot_change_after_fit_and_score_is_b_cubed():
    people = {"name": ["Ann Lee", "Anne Lee", "Bob Ray", "Bob Rays"]}
    fitted = ThresholdClusterer({"name": "jaro_winkler"}, "all_pairs").fit(X=people, y=[0, 0, 1, 1])
    assert fitted.score(people, [0, 0, 1, 1]) == 1.0
    assert fitted.score(people, [0, 0, 0, 0]) == pytest.approx(2 / 3)  # precision 1, recall 1/2
    with pytest.raises(InvalidInputError, match="comparisons was changed after fit"):
        fitted.set_params(comparisons={"name": "exact"}).predict(people)
