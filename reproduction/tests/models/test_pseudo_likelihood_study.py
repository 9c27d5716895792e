"""The study of pseudo-likelihood returns every figure it names, and the fits that it stops have a higher risk."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from intarsia_reproduction.models.image_fits import Pictures
from intarsia_reproduction.models.pseudo_likelihood_study import (
    N_DRAWS,
    STUDIES,
    join_pictures,
    study_pseudo_likelihood,
)


@pytest.fixture(scope="module")
def pictures():
    rng = np.random.default_rng(0)
    labels = [np.repeat(rng.integers(0, 2, size=(6, 2)), 4, axis=1) for _ in range(8)]
    return Pictures([np.stack([np.ones(y.shape), y + rng.normal(size=y.shape)], axis=-1) for y in labels], labels)


@pytest.mark.parametrize("study", list(STUDIES))
def test_figures_of_every_study(study, pictures):
    finding = study_pseudo_likelihood(study, pictures.take(range(5)), pictures.take([5, 6, 7]), n_train=4)
    assert tuple(finding.values) == STUDIES[study]
    assert all(0.0 <= error <= 0.5 for error in finding.values.values())
    risks = finding.settings["risk"]
    assert len(risks) == {"decoding": 1, "draws": N_DRAWS}.get(study, len(finding.values))
    if study == "iterations":
        assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(risks))
    if study == "draws":
        assert finding.values["lowest"] <= finding.values["mean"] <= finding.values["highest"]


def test_joined_pictures_keep_their_order(pictures):
    joined = join_pictures(pictures.take([0]), pictures.take([3, 1]))
    assert [labels is pictures.labels[i] for labels, i in zip(joined.labels, (0, 3, 1), strict=True)] == [True] * 3
