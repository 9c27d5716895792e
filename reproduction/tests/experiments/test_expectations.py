"""Experiment on expectations: a tiny version runs, and the stored figures support the sentences on the page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from intarsia_reproduction.experiment import load_experiment
from intarsia_reproduction.experiments.weak_labels import expectations as module
from intarsia_reproduction.models.hidden_markov import HiddenMarkovModel

STORED = Path(__file__).parents[3] / "docs" / "results" / "expectations"


def tiny_split():
    """Return a made-up split: short references of names, titles and years."""
    rng = np.random.default_rng(0)
    words, labels = [], []
    for _ in range(24):
        name, year = rng.choice(["Smith", "Jones", "Mann"]), str(rng.integers(1990, 1993))
        title = rng.choice(["learning", "graphs", "chains", "of"], 3).tolist()
        words.append([name, *title, year])
        labels.append(["author", "title", "title", "title", "date"])
    X = [module.token_features(sequence) for sequence in words]
    return module.Split(words[:16], X[:16], labels[:16], words[16:], X[16:], labels[16:], 0)


@pytest.mark.parametrize(
    ("group", "key"), [(group, key) for group, labels in module._METHODS.items() for key in labels]
)
def test_every_method_predicts_the_tiny_split(group, key):
    split = tiny_split()
    predictions = module.predict(group, key, split)
    assert [len(path) for path in predictions] == [5] * 8
    if key not in ("hmm", "dictionary", "majority"):
        assert module.accuracy(split.truth, predictions) > 90.0


def test_labelled_words_are_pure_and_frequent():
    words = module.labelled_words(tiny_split())
    assert {words[name] for name in ("smith", "jones", "mann")} == {"author"}
    assert words["of"] == "title"


def test_em_of_the_hidden_markov_model_is_monotone():
    model = HiddenMarkovModel(3, n_iter=15, smoothing=1e-9).fit(tiny_split().words)
    assert (np.diff(model.log_likelihood_) > -1e-6).all()


@pytest.mark.parametrize("key", [task.key for task in load_experiment("expectations").tasks if not task.separate])
def test_stored_results_have_intervals(key):
    values = json.loads((STORED / f"{key}.json").read_text(encoding="utf-8"))["values"]
    assert 0.0 < values["from"] <= values["accuracy"] <= values["to"] < 100.0


def test_stored_results_support_the_page():
    def scores(key):
        with np.load(STORED / f"{key}.npz") as archive:
            return archive["accuracy"]

    assert (scores("proportions-generalized") > scores("proportions-few")).all()
    for group in ("words", "both"):
        low, high = ttest_1samp(scores(f"{group}-generalized") - scores(f"{group}-em"), 0.0).confidence_interval()
        assert low < 0.0 < high  # no difference
    # A row of the history: the method has left the package.
    assert (np.abs(scores("words-posterior") - scores("words-generalized")) < 1.0).all()
    assert (scores("proportions-words") > scores("words-generalized") + 3.0).all()


def test_stored_differences_are_those_of_the_stored_rows():
    values = json.loads((STORED / "differences.json").read_text(encoding="utf-8"))["values"]
    for name in [name for name in values if not name.endswith((", low", ", high"))]:
        key, base = name.split(": minus ")
        with np.load(STORED / f"{key}.npz") as ours, np.load(STORED / f"{base}.npz") as theirs:
            interval = ttest_1samp(ours["accuracy"] - theirs["accuracy"], 0.0).confidence_interval()
        assert (values[f"{name}, low"], values[f"{name}, high"]) == pytest.approx(tuple(interval))
