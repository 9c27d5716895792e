"""Tiny versions of the experiments with taggers, and the choice of preferences on made-up references."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.learning import SGD, DoublyStochastic
from intarsia.sequences import ChainCRF
from intarsia_reproduction.experiment import load_experiment, run_tasks
from intarsia_reproduction.experiments import chunking, citations
from intarsia_reproduction.models import citation_model


def made_up(n, n_places=2):
    """References a x b x ... c, in which one x is the title: the first in half of them, the last in the others."""
    words = ["a", "x", *["b", "x"] * (n_places - 1), "c"]
    labels = []
    for place in [1] * (n - n // 2) + [2 * n_places - 1] * (n // 2):
        sequence = ["O"] * (len(words) - 1) + ["B-year"]
        sequence[place] = "B-title"
        labels.append(sequence)
    return citation_model.References([[[word] for word in words]] * n, labels, labels)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(citation_model, "LEAST_COUNT", 5)
    learning = DoublyStochastic(max_iter=10, optimizer=SGD(step_size=50.0, momentum=0.0, batch_size=10))
    monkeypatch.setattr(citation_model, "LEARNING", learning)


def test_what_the_chain_cannot_know_is_chosen_and_learned(small):
    # With two places for it a title is a toss-up at each; with four the chain then expects two titles, not one.
    train, development = made_up(20), made_up(20, n_places=4)
    base = ChainCRF(l2=0.2).fit(train.features, train.labels)
    chosen = citation_model.choose_preferences(base, train, development)
    kinds = [energy.measurement.get_params() for energy in chosen]
    assert {"kind": "title"} in kinds
    learned = citation_model.learn_strengths(base, chosen, development)
    psi = citations.strengths(learned)
    assert psi[kinds.index({"kind": "title"})] > 0.1
    assert (psi >= 0).all()
    np.testing.assert_array_equal(learned.weights_, base.weights_)
    again = citation_model.with_strengths(base, chosen, psi, development)
    np.testing.assert_allclose(again.predict_marginals(train.features)[0], learned.predict_marginals(train.features)[0])
    n_steps, converged = citation_model.steps_to_converge(learned, development)
    assert n_steps.shape == converged.shape == (20,)
    assert (n_steps >= 1).all()


def test_nothing_is_chosen_where_the_chain_is_sure(small):
    labels = [["O", "B-title", "O", "O", "B-year"]] * 20
    features = [[["a"], ["first"], ["b"], ["x"], ["c"]]] * 20
    sure = citation_model.References(features, labels, labels)
    base = ChainCRF(l2=2e-4).fit(features, labels)
    kinds = [energy.measurement.get_params() for energy in citation_model.choose_preferences(base, sure, sure)]
    assert {"kind": "title"} not in kinds


def test_unknown_labels_are_left_out():
    some = made_up(3)
    assert len(some.with_labels({"O", "B-title"}).tags) == 0
    assert len((some + some).with_labels({"O", "B-title", "B-year"}).tags) == 6


@pytest.mark.data
def test_citations_tiny(data, tmp_path, monkeypatch):
    monkeypatch.setattr(citations, "QUICK", (40, 30, 20))
    learning = DoublyStochastic(max_iter=2, optimizer=SGD(step_size=50.0, momentum=0.0, batch_size=10))
    monkeypatch.setattr(citation_model, "LEARNING", learning)
    monkeypatch.setattr(citations, "_LIMITS", (1, 5))
    experiment = load_experiment("citations", quick=True, data=data)
    found = run_tasks(experiment.tasks, tmp_path)
    assert all(50.0 < finding.values["F1"] <= 100.0 for finding in found.values())
    values = found["energies"].arrays
    assert values["psi"].max() > 0
    assert values["n_steps"].max() <= citation_model.MOST_STEPS
    assert set(experiment.figures(found)) == {"citations_steps", "citations_converged"}


@pytest.mark.data
def test_chunking_tiny(data, tmp_path, monkeypatch):
    monkeypatch.setattr(chunking, "QUICK", (60, 30))
    experiment = load_experiment("chunking", quick=True, data=data)
    found = run_tasks(experiment.tasks, tmp_path)
    assert all(50.0 < finding.values["F1"] < 100.0 for finding in found.values())
    settings = {key: finding.settings for key, finding in found.items()}
    assert settings["l1"]["weights above 0"] < settings["l2"]["weights above 0"]
    assert list(experiment.figures(found)) == ["chunking"]
