"""Max-margin learners and likelihood training on synthetic words and snakes."""

import numpy as np
import pytest

from intarsia_reproduction.datasets.letters import LetterWords
from intarsia_reproduction.datasets.snakes import SnakeImages
from intarsia_reproduction.experiments import margin as module


@pytest.fixture(scope="module")
def words():
    """Return words of alternating letters, each with its own pixel, which every learner can learn."""
    rng = np.random.default_rng(0)
    letters = [((np.arange(n) + first) % 3).astype(np.int8) for n, first in rng.integers([2, 0], [6, 3], size=(30, 2))]
    pixels = [(np.eye(128)[y] > 0.5).astype(np.int8) for y in letters]
    return LetterWords(pixels, letters, np.arange(30) % 10)


@pytest.mark.parametrize("key", list(module._WORDS))
def test_every_learner_learns_words(words, key):
    _, learner = module._WORDS[key]
    finding = module._quietly(lambda: module._run_words(learner, False, lambda: words, folds=(0, 1)))(None)
    assert finding.values[module.TRAIN] == 0.0
    assert finding.values[module.TEST] < 0.1
    assert finding.n == sum(
        len(y) for y, fold in zip(words.letters, words.fold, strict=True) for k in (0, 1) if fold != k
    )


def test_snakes_are_learned():
    colours = np.array([[0, 0, 255], [0, 255, 0], [255, 0, 0]], np.uint8)
    labels = [np.array([[0, 1], [1, 2]], np.int8), np.array([[2, 1], [0, 0]], np.int8)]
    rgb = [colours[y] for y in labels]
    snakes = SnakeImages(rgb, labels, rgb, labels)
    for key in ("likelihood", "perceptron"):
        _, inference, learner = module._SNAKES[key]
        finding = module._quietly(lambda i=inference, k=learner: module._run_snakes(i, k, 2, 2, lambda: snakes))(None)
        assert finding.values == dict.fromkeys(module.FIGURES, 0.0)
        assert finding.n == 8


def test_baselines_are_scored_as_the_learners(words):
    finding = module._run_word_baseline("logistic", 1, False, lambda: words)
    assert finding.values[module.TEST] == 0.0  # every letter has its own pixel
    assert finding.n == sum(len(y) for y, fold in zip(words.letters, words.fold, strict=True) if fold != 0)
    colours = np.array([[0, 0, 255], [0, 255, 0], [255, 0, 0]], np.uint8)
    labels = [np.tile(np.array([[0, 1, 2], [1, 2, 0]], np.int8), (10, 10))]
    snakes = SnakeImages([colours[y] for y in labels], labels, [colours[labels[0][:4]]], [labels[0][:4]])
    for classifier in ("logistic", "boosting"):
        finding = module._run_snake_baseline(classifier, 1, 1, 1, lambda: snakes)
        assert finding.values == dict.fromkeys(module.FIGURES, 0.0)
        assert finding.n == 4 * 30


def test_edge_features_read_the_direction_of_the_snake():
    """A label that depends on the colour of the cell above needs edge features if the cell's own colour is the same."""
    rng = np.random.default_rng(0)
    colours = np.array([[0, 0, 255], [0, 255, 0]], np.uint8)
    top = [rng.integers(0, 2, size=(1, 4)) for _ in range(12)]
    labels = [np.concatenate([y, y]).astype(np.int8) for y in top]
    rgb = [colours[np.concatenate([y, np.zeros_like(y)])] for y in top]
    finding = module._run_snakes_with_edges(8, 4, lambda: SnakeImages(rgb[:8], labels[:8], rgb[8:], labels[8:]))
    assert finding.values[module.TEST] == 0.0
    features = module.snake_edges(rgb[0])
    assert features.shape == (2 * 3 + 4, 22)
    assert (features[:6, 11:] == 0.0).all()
    assert (features[6:, :11] == 0.0).all()
    assert (features[6:, 11] == 1.0).all()


def test_windows_contain_the_neighbours():
    windows = module._word_windows(np.array([[1.0], [2.0], [3.0]]), 1)
    assert windows.tolist() == [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 0.0]]
    picture = np.zeros((2, 2, 3), np.uint8)
    picture[1, 1] = [255, 255, 0]
    wide = module.snake_features(picture, 3)
    assert wide.shape == (2, 2, 49 * 5 + 1)
    assert wide[0, 0].nonzero()[0].tolist() == [5 * (7 * 4 + 4) + 4, 49 * 5]  # a cell below and to the right


def test_errors_are_counted_over_labels_and_resampled_over_examples():
    rates = module._rates(np.array([1.0, 0.0]), np.array([1.0, 3.0]))
    assert rates == {module.TEST: 0.25, module.LOW: 0.0, module.HIGH: 1.0}


def test_long_tasks_are_not_required():
    tasks = module.margin().tasks
    assert {task.key for task in tasks if not task.required} == {
        *(f"words-ten-{key}" for key in module._WORDS),
        *(f"snakes-200-{key}" for key in module._SNAKES),
    }
