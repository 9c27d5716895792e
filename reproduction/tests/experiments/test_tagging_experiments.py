"""Tiny versions of the experiments with sequences, and the choice of energies on synthetic references."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.inference.projection.bethe_rda import BetheRDA
from intarsia.learning import SGD, DoublyStochastic
from intarsia.sequences import ChainCRF
from intarsia_reproduction.experiment import load_experiment, run_tasks
from intarsia_reproduction.experiments import chunking, citations
from intarsia_reproduction.models import citation_model


def make_references(n, n_places=2):
    """Return references a x b x ... c in which one x is the title: the first in one half, the last in the other."""
    words = ["a", "x", *["b", "x"] * (n_places - 1), "c"]
    labels = []
    for position in [1] * (n - n // 2) + [2 * n_places - 1] * (n // 2):
        sequence = ["O"] * (len(words) - 1) + ["B-year"]
        sequence[position] = "B-title"
        labels.append(sequence)
    return citation_model.References([[[word] for word in words]] * n, labels, labels)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(citation_model, "LEAST_COUNT", 5)
    optimizer = SGD(step_size=50.0, momentum=0.0, batch_size=10)
    learning = DoublyStochastic(max_iter=10, l1=0.0, select=False, optimizer=optimizer)
    monkeypatch.setattr(citation_model, "LEARNING", learning)


def test_violated_energies_are_chosen_and_learned(small):
    # With two possible positions the title has probability 1/2 at each, so with four the chain expects two titles.
    train, development = make_references(20), make_references(20, n_places=4)
    base = ChainCRF(l2=0.2).fit(train.features, train.labels)
    energies = citation_model.choose_preferences(base, train, development)
    kinds = [energy.measurement.get_params() for energy in energies]
    assert {"kind": "title"} in kinds
    fitted = citation_model.learn_strengths(base, energies, development)
    psi = citations.strengths(fitted)
    assert psi[kinds.index({"kind": "title"})] > 0.1
    assert (psi >= 0).all()
    np.testing.assert_array_equal(fitted.weights_, base.weights_)
    copied = citation_model.with_strengths(base, energies, psi, development)
    np.testing.assert_allclose(copied.predict_marginals(train.features)[0], fitted.predict_marginals(train.features)[0])
    n_steps, converged = citation_model.steps_to_converge(fitted, development, 1e-2)
    assert n_steps.shape == converged.shape == (20,)
    assert (n_steps >= 1).all()


def test_constraints_with_negative_weights_are_dropped_as_in_the_paper(small):
    """Every reference has a title and a year: the weight of "one excludes the other" is negative, without effect."""
    train, development = make_references(20), make_references(20, n_places=4)
    base = ChainCRF(l2=0.2).fit(train.features, train.labels)
    energies = citation_model.choose_preferences(base, train, development)
    words, labels = ["a", "x", "b", "x", "c"], ["O", "B-title", "O", "B-title", "B-year"]
    two_titles = citation_model.References([[[word] for word in words]] * 20, [labels] * 20, [labels] * 20)
    printed = citation_model.learn_as_printed(base, energies, two_titles + development)
    is_dropped = printed.energies_.weights[:, 0] < 0.0  # clipped weights would end at 0
    assert is_dropped.any()
    assert not is_dropped.all()
    np.testing.assert_array_equal(citations.strengths(printed) > 0.0, ~is_dropped)
    n_steps, converged = citation_model.steps_to_converge(printed, development, 1e-2)
    assert isinstance(printed.energies_.method, BetheRDA)  # Figure 2 counts the steps of Algorithm 1
    assert (n_steps[converged] <= citation_model.MOST_STEPS).all()


def test_satisfied_energies_are_not_chosen(small):
    labels = [["O", "B-title", "O", "O", "B-year"]] * 20
    features = [[["a"], ["first"], ["b"], ["x"], ["c"]]] * 20
    sure = citation_model.References(features, labels, labels)
    base = ChainCRF(l2=2e-4).fit(features, labels)
    kinds = [energy.measurement.get_params() for energy in citation_model.choose_preferences(base, sure, sure)]
    assert {"kind": "title"} not in kinds


def test_references_with_other_labels_are_omitted():
    references = make_references(3)
    assert len(references.with_labels({"O", "B-title"}).tags) == 0
    assert len((references + references).with_labels({"O", "B-title", "B-year"}).tags) == 6


def test_a_perceptron_learns_the_penalty_of_a_second_title(small):
    train, development = make_references(20), make_references(20, n_places=4)
    base = ChainCRF(l2=0.2).fit(train.features, train.labels)
    hinges = citation_model.choose_preferences(base, train, development, everything=True, width=0.0)
    kinds = [energy.measurement.get_params() for energy in hinges]
    psi = citation_model.learn_penalties(base, hinges, development, step_size=0.5, n_passes=2)
    assert (psi >= 0).all()
    expected, gaps = citation_model.predict_penalized(base, hinges, psi, development)
    assert gaps.max() < 1e-6
    crf = citation_model.with_strengths(base, hinges, psi, development).set_params(decode="penalized_map")
    assert citation_model.predict_tags(crf, development) == expected
    assert kinds.count({"kind": "title"}) == 1


@pytest.mark.data
def test_citations_tiny(data, tmp_path, monkeypatch):
    monkeypatch.setattr(citations, "QUICK", (40, 30, 20))
    learning = DoublyStochastic(max_iter=2, optimizer=SGD(step_size=50.0, momentum=0.0, batch_size=10))
    monkeypatch.setattr(citation_model, "LEARNING", learning)
    monkeypatch.setattr(citations, "_LIMITS", (1, 5))
    experiment = load_experiment("citations", quick=True, data=data)
    findings = run_tasks(experiment.tasks, tmp_path)
    steps = findings.pop("steps").values
    assert all(50.0 < finding.values["F1"] <= 100.0 for finding in findings.values())
    for key, algorithm in (("printed", "Algorithm 1"), ("energies", "Algorithm 4")):
        mean = findings[key].arrays["n_steps"][2].mean()
        assert steps[f"{algorithm}: mean steps, tolerance 0.0001"] == pytest.approx(mean)
    values = findings["energies"].arrays
    assert values["psi"].max() > 0
    assert values["n_steps"].max() <= citation_model.MOST_STEPS
    assert (np.diff(values["n_steps"].mean(axis=1)) >= 0).all()  # a smaller tolerance needs more steps
    for key in ("soft-dd", "penalized"):
        assert findings[key].values["processor s of prediction"] > 0
        assert findings[key].settings["proven optimal"] > 0.5
    assert set(experiment.figures(findings)) == {"citations_steps", "citations_converged"}


@pytest.mark.data
def test_chunking_tiny(data, tmp_path, monkeypatch):
    monkeypatch.setattr(chunking, "QUICK", (60, 30))
    experiment = load_experiment("chunking", quick=True, data=data)
    findings = run_tasks(experiment.tasks, tmp_path)
    differences = findings.pop("differences").values
    assert all(50.0 < finding.values["F1"] < 100.0 for finding in findings.values())
    assert differences["l2: minus logistic, low"] < differences["l2: minus logistic"]
    for finding in findings.values():
        correct, true, predicted = finding.arrays["counts"].sum(axis=0)
        assert finding.values["F1"] == pytest.approx(200.0 * correct / (true + predicted))
        assert finding.values["from"] < finding.values["F1"] < finding.values["to"]
    settings = {key: finding.settings for key, finding in findings.items()}
    assert settings["l1"]["weights above 0"] < settings["l2"]["weights above 0"]
    assert list(experiment.figures(findings)) == ["chunking"]
