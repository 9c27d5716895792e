"""The coreference experiment: baselines by hand, the bootstrap, and a quick run on generated texts."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.coreference import load_tales
from intarsia_reproduction.coreference.mentions import mention_table
from intarsia_reproduction.coreference.pair_features import antecedent_pairs
from intarsia_reproduction.coreference.resolver import contradictions
from intarsia_reproduction.datasets import CoreferenceText, Mention
from intarsia_reproduction.experiment import load_experiment, run_tasks
from intarsia_reproduction.experiments.linkage import coreference as module
from intarsia_reproduction.models.cluster_costs import COSTS, make_world

TALES = load_tales()


def as_text(tale) -> CoreferenceText:
    """Return a tale in the format of LitBank."""
    code = {entity: k for k, entity in enumerate(dict.fromkeys(tale.entities))}
    mentions = [
        Mention(m.sentence, m.start, m.end, code[entity], "NOM", "PER")
        for m, entity in zip(tale.mentions, tale.entities, strict=True)
    ]
    return CoreferenceText(tale.name, [list(words) for words in tale.sentences], mentions)


def test_texts_become_documents():
    document = module.as_document(as_text(TALES[0]))
    assert document.n_mentions == TALES[0].n_mentions
    assert document.mentions[0].kind == "NOM"


def test_best_antecedents_by_hand():
    pairs = antecedent_pairs(TALES[0], 50)
    weights = np.zeros(pairs.features.shape[1])
    assert (module.best_antecedents(pairs, weights) == np.arange(pairs.table.n_mentions)).all()  # none exceeds 1/2
    assert (module.best_antecedents(pairs, weights, 0.4) == 0).all()  # all join the mention before them


def test_logistic_regression_equals_the_optimum():
    pairs = [antecedent_pairs(tale, 10) for tale in TALES[:4]]
    entities = [
        np.unique(np.array(t.entities)[p.table.order], return_inverse=True)[1]
        for t, p in zip(TALES[:4], pairs, strict=True)
    ]
    weights = module.fit_logistic(pairs, entities)
    gradient = weights.copy()
    for p, entity in zip(pairs, entities, strict=True):
        is_match = entity[p.antecedent] == entity[p.mention]
        gradient += p.features.T @ (1.0 / (1.0 + np.exp(-(p.features @ weights))) - is_match)
    n_pairs = sum(p.mention.size for p in pairs)
    assert np.abs(gradient).max() / n_pairs < 2e-3


def test_bootstrap_interval_contains_the_mean():
    differences = np.random.default_rng(0).normal(1.0, 1.0, 400)
    low, high = module.bootstrap_interval(differences)
    assert low < differences.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * differences.std() / 20, rel=0.1)


def test_worlds_of_costs_have_the_objective_of_correlation_clustering():
    table = mention_table(TALES[0])
    n = table.n_mentions
    probabilities = np.random.default_rng(0).random((n, n))
    probabilities = (probabilities + probabilities.T) / 2.0
    labels = np.arange(n) % 3
    world = make_world(table, probabilities, labels, 0.3, 0.2)
    features = dict(zip(world.feature_names, world.features().tolist(), strict=True))
    first, second = np.triu_indices(n, 1)
    inside = labels[first] == labels[second]
    gains = probabilities - 0.3 - 0.2 * contradictions(table)
    assert features["within gain"] == pytest.approx(gains[first, second][inside].sum())
    genders = [set(table.gender[(labels == k) & (table.gender > 0)].tolist()) for k in range(3)]
    assert features["distinct gender"] == sum(max(len(codes) - 1, 0) for codes in genders)
    assert set(COSTS) < set(features)


def test_quick_run_on_tales(monkeypatch, tmp_path):
    texts = [as_text(tale) for tale in TALES]
    monkeypatch.setattr("intarsia_reproduction.datasets.load_litbank", lambda data: texts)
    monkeypatch.setattr(module, "cut_texts", lambda texts, n: texts[:n])
    experiment = load_experiment("coreference", quick=True)
    mean = next(task for task in experiment.tasks if task.key == "books-resolver")
    with pytest.raises(InvalidInputError, match="books-fold0 has not been run"):
        run_tasks([mean], tmp_path)
    findings = run_tasks(experiment.tasks, tmp_path)
    rows = experiment.rows(findings)
    assert all(row["ours"] is not None for row in rows)
    gain = findings["books-gain-logistic"].values
    difference = findings["books-resolver"].values["CoNLL score"] - findings["books-logistic"].values["CoNLL score"]
    assert gain["CoNLL score"] == pytest.approx(difference)
    assert gain["CoNLL score, low"] <= gain["CoNLL score"] <= gain["CoNLL score, high"]
