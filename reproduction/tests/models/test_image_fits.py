"""Errors are counted at full resolution if the model labels blocks of pixels."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.crf import GridCRF
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.inference.messages.tree_reweighted import TreeReweighted
from intarsia.learning import LBFGS, RiskMinimizer
from intarsia.metrics.pixels import error_rate, interpolate
from intarsia_reproduction.models.image_fits import (
    FEATURE_CHOICES,
    Pictures,
    block_labels,
    block_means,
    choose_features,
    error_of_blocks,
    fit_or_diverge,
)


def test_error_rate_pools_all_labelled_pixels():
    rng = np.random.default_rng(0)
    truth = [rng.integers(-1, 3, size=shape) for shape in ((4, 5), (2, 3))]
    marginals = [rng.dirichlet(np.ones(3), size=labels.shape) for labels in truth]
    wrong = total = 0
    for beliefs, labels in zip(marginals, truth, strict=True):
        for pixel in np.ndindex(labels.shape):
            if labels[pixel] >= 0:
                total += 1
                wrong += max(range(3), key=lambda state: beliefs[pixel][state]) != labels[pixel]
    assert error_rate(marginals, truth) == wrong / total
    assert error_rate([np.eye(3)[np.maximum(labels, 0)] for labels in truth], truth) == 0.0


def test_interpolation_is_exact_for_a_ramp():
    """Interpolation between the centres of 2 x 2 blocks of a linear ramp restores the ramp, except at the border."""
    rows, columns = np.mgrid[:6, :8]
    ramp = 0.1 * rows + 0.01 * columns
    blocks = block_means(ramp, 2)
    for r, c in np.ndindex(3, 4):
        assert blocks[r, c] == pytest.approx(np.mean([ramp[2 * r + i, 2 * c + j] for i in (0, 1) for j in (0, 1)]))
    restored = interpolate(blocks[:, :, None], (6, 8))[:, :, 0]
    np.testing.assert_allclose(restored[1:-1, 1:-1], ramp[1:-1, 1:-1], atol=1e-12)


def test_incomplete_blocks_repeat_the_border():
    picture = np.arange(15.0).reshape(3, 5, 1)
    blocks = block_means(picture, 2)
    assert blocks.shape == (2, 3, 1)
    assert blocks[1, 2, 0] == 14.0  # four copies of the corner
    assert interpolate(blocks, (3, 5)).shape == (3, 5, 1)
    assert interpolate(picture, (3, 5)) is picture


def test_errors_are_counted_on_the_truth_at_full_size():
    small, full = np.zeros((1, 1), np.int64), np.ones((2, 2), np.int64)
    pictures = Pictures([None, None], [small, small], None, [full, full])
    assert pictures.counted[0] is full
    assert pictures.take([1]).counted[0] is full
    assert Pictures([None], [small]).take([0]).counted[0] is small


def small_pictures(n=6):
    rng = np.random.default_rng(0)
    labels = [np.repeat(rng.integers(0, 2, size=(4, 2)), 3, axis=1) for _ in range(n)]
    return Pictures([np.stack([np.ones(y.shape), y + rng.normal(size=y.shape)], axis=-1) for y in labels], labels)


@pytest.mark.parametrize(("sweeps", "diverges"), [(0, True), (20, False)])
def test_a_likelihood_without_sweeps_diverges(sweeps, diverges):
    """After zero sweeps the truncated likelihood has no bound (Domke2013, section 7.3); after 20 it converges."""
    pictures = small_pictures()
    learner = RiskMinimizer(
        loss="likelihood", gradient=TruncatedGradient(n_iter=sweeps), optimizer=LBFGS(tol=1e-4, max_iter=300), l2=0.1
    )
    crf = GridCRF(inference=TreeReweighted(), learner=learner, classes=np.arange(2))
    finding = fit_or_diverge(crf, pictures, pictures, start=("zeros", np.zeros(12)))
    assert finding.settings["note"].startswith("diverged: risk -" if diverges else "CONVERGED")
    assert (finding.settings["risk"] < 0.0) == diverges
    assert learner.optimizer.max_iter <= 300


def test_labels_of_blocks():
    labels = np.array([[0, 0, 2, -1], [0, 1, 2, -1], [-1, -1, 1, 1], [-1, 2, 1, 0]])
    assert block_labels(labels, 2, 3).tolist() == [[0, 2], [-1, 1]]
    assert block_labels(labels, 1, 3).tolist() == labels.tolist()


def test_choice_of_features_by_cross_validation():
    """Each choice is loaded once, and the finding names the one with the lowest validation error."""
    loaded = []

    def load(cell, scale):
        loaded.append((cell, scale))
        pictures = small_pictures()
        useful = (cell, scale) == (12.0, 1.0)
        truth = [np.stack([np.ones(y.shape), y * useful * 1.0], axis=-1) for y in pictures.labels]
        return Pictures(truth, pictures.labels)

    finding = choose_features(load, n_folds=2, n_classes=2, sweeps=2, ridge=1e-3, optimizer=LBFGS(max_iter=10))
    assert loaded == list(FEATURE_CHOICES.values())
    assert tuple(finding.values) == tuple(FEATURE_CHOICES)
    assert finding.settings["chosen"] == "cells of 12, sinusoids of scale 1"
    assert finding.values["cells of 12, sinusoids of scale 1"] == 0.0


def test_blocks_lose_what_is_smaller_than_a_block():
    truth = np.zeros((4, 4), np.int64)
    truth[0, 0] = 1  # one of four pixels of its block
    truth[2:, 2:] = 1
    blocks = Pictures([None], [block_labels(truth, 2, 2)], None, [truth])
    exact = Pictures([None], [truth], None, [truth])
    finding = error_of_blocks(blocks, exact, 2)
    assert finding.values["test error"] == 0.0
    assert finding.values["train error"] >= 1 / 16
