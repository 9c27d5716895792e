"""Jumps, bounds and wrong clusters on synthetic texts; features are compared with a manual calculation."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.diagnostics import ranking_bound, separable_ranking_bound
from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.datasets import CoreferenceText, Mention
from intarsia_reproduction.experiment import load_experiment, run_tasks
from intarsia_reproduction.experiments import samplerank as module
from intarsia_reproduction.experiments import wrong_cluster as second
from intarsia_reproduction.models.mention_clusters import CANDIDATES, make_world
from intarsia_reproduction.models.mention_features import (
    NAMES,
    Passage,
    cut_passage,
    cut_passages,
    mention_columns,
    mention_features,
)

NAMED, CALLED = ("Anna", "Boris", "Clara", "Dmitri"), ("she", "he", "her", "him")


def book(name, seed, n_sentences=40):
    """Return a synthetic text whose names and pronouns identify the entities."""
    rng = np.random.default_rng(seed)
    sentences, mentions = [], []
    for s in range(n_sentences):
        who, whom = rng.choice(4, size=2, replace=False)
        words = []
        for person in (int(who), int(whom)):
            kind, text = ("PROP", NAMED[person]) if rng.random() < 0.6 else ("PRON", CALLED[person])
            mentions.append(Mention(s, len(words), len(words), person, kind, "PER"))
            words += [text, "saw"]
        sentences.append(words)
    return CoreferenceText(name, sentences, mentions)


@pytest.fixture(scope="module")
def texts():
    return [book(f"book {k}", k) for k in range(14)]


@pytest.fixture
def small(texts, monkeypatch):
    """Run the experiments on synthetic books, with few samples."""
    monkeypatch.setattr("intarsia_reproduction.datasets.load_litbank", lambda data=None: texts)
    for experiment_module in (module, second):
        monkeypatch.setattr(experiment_module, "_QUICK_PASSAGES", 3)
        monkeypatch.setattr(experiment_module, "_QUICK_MOST", 26)


def features_of(text):
    pairs = mention_features(text)
    return {
        tuple(pair): {name for name, value in zip(pairs.names, values, strict=True) if value}
        for pair, values in zip(pairs.pairs.tolist(), pairs.values, strict=True)
    }


def test_features_by_hand():
    lines = ("Mrs. Hill saw the old man of the sea .", "The man told her that they slept .")
    sentences = [line.split() for line in lines]
    mentions = [
        Mention(0, 0, 1, 0, "PROP", "PER"),  # Mrs. Hill
        Mention(0, 3, 8, 1, "NOM", "PER"),  # the old man of the sea
        Mention(0, 7, 8, 2, "NOM", "LOC"),  # the sea
        Mention(1, 0, 1, 1, "NOM", "PER"),  # The man
        Mention(1, 3, 3, 0, "PRON", "PER"),  # her
        Mention(1, 5, 5, 3, "PRON", "PER"),  # they
    ]
    features = features_of(CoreferenceText("a", sentences, mentions))
    assert features[1, 3] >= {"same head", "shared words", "log sentences apart", "next agreeing mention"}
    assert "same words" not in features[1, 3]
    assert features[0, 4] >= {"pronoun agrees with words"}
    assert features[3, 4] >= {"pronoun disagrees with words", "same sentence"}
    assert features[1, 2] >= {"categories differ", "one within the other", "descriptions of other heads"}
    assert features[4, 5] >= {"pronouns disagree", "numbers differ"}
    assert features[0, 1] >= {"name and description of other heads"}
    assert "numbers differ" not in features[0, 4]
    names = set().union(*features.values())
    assert names <= set(NAMES)


def test_two_names_and_two_first_persons():
    sentences = [["I", "am", "Tom", "Brown", "I", "say", "Tom"]]
    spans = ((0, 0, "PRON"), (2, 3, "PROP"), (4, 4, "PRON"), (6, 6, "PROP"))
    mentions = [Mention(0, start, end, 0, kind, "PER") for start, end, kind in spans]
    features = features_of(CoreferenceText("a", sentences, mentions))
    assert features[0, 2] >= {"pronouns agree", "first persons"}
    assert features[1, 3] >= {"names share a word", "shared words"}
    assert "names share no word" not in features[1, 3]


def test_passages_are_consecutive_and_of_the_right_size(texts):
    for seed in range(20):
        passage = cut_passage(texts[0], np.random.default_rng(seed), min_mentions=5, max_mentions=9)
        assert 5 <= len(passage.mentions) <= 9
        first = next(k for k in range(40) if texts[0].sentences[k] is passage.sentences[0])
        assert texts[0].sentences[first : first + len(passage.sentences)] == passage.sentences
        expected = [m._replace(sentence=m.sentence - first) for m in texts[0].mentions
                    if first <= m.sentence < first + len(passage.sentences)]  # fmt: skip
        assert passage.mentions == expected
    with pytest.raises(InvalidInputError, match="no consecutive sentences have 200"):
        cut_passage(texts[0], np.random.default_rng(0), min_mentions=200, max_mentions=200)


def test_each_book_has_at_most_one_passage(texts):
    chosen, others = cut_passages(texts, 5, random_state=3)
    again, _ = cut_passages(texts, 5, random_state=3)
    names = [passage.name for passage in chosen + others]
    assert len(set(names)) == 10
    assert [passage.name for passage in again] == names[:5]
    assert all(20 <= len(passage.entity) <= 115 for passage in chosen)


def test_errors_of_the_perceptron_are_below_both_bounds(texts):
    passages = [module.add_truth_feature(passage) for passage in cut_passages(texts, 3, max_mentions=26)[0]]
    proposer = module._proposer(False, 5).set_params(max_iter=2)
    walk = module.walk_passages(passages, proposer, 0, "pair_accuracy")
    assert 0 < walk.errors[-1] <= ranking_bound(walk.differences) <= separable_ranking_bound(walk.differences)
    assert len(walk.errors) == len(walk.differences)
    assert (np.diff(walk.errors) >= 0).all()
    # The errors equal those of a perceptron over the recorded differences.
    weights, errors = np.zeros(walk.differences.shape[1]), 0
    for row in walk.differences:
        if weights @ row <= 0.0:
            weights, errors = weights + row, errors + 1
    assert errors == walk.errors[-1]


def test_no_passages():
    with pytest.raises(InvalidInputError, match="no passages"):
        module.walk_passages([], module._proposer(True, 5), 0)


def test_rows_and_curves(small, monkeypatch, tmp_path):
    monkeypatch.setitem(module._BUDGET, "max_iter", 4)
    experiment = load_experiment("samplerank", quick=True)
    findings = run_tasks(experiment.tasks, tmp_path)
    rows = {row["label"]: row["ours"] for row in experiment.rows(findings)}
    assert all(value is not None for value in rows.values())
    adaptive, uniform = (findings[f"jumps5-{key}"] for key in ("top2", "uniform"))
    saved = 1.0 - adaptive.arrays["jumps"].mean(axis=1) / uniform.arrays["jumps"].mean(axis=1)
    label = "5 samples, adaptive, top 2% (1 of 50)"
    assert rows[f"{label}, fewer than uniform"] == pytest.approx(saved.mean())
    assert rows[f"{label}, jumps"] == pytest.approx(adaptive.arrays["jumps"].mean())
    assert adaptive.arrays["jumps"].shape == (2, 3)  # seeds, passages
    assert adaptive.settings["elite_fraction"] == 0.02
    assert findings["jumps5-top10"].settings["elite_fraction"] == 0.1
    for key in ("top2", "uniform", "split-merge"):
        curve = findings[f"jumps5-{key}"].arrays["curve"]
        assert curve[0] < 0.5
        assert curve[-1] >= 0.95
    for key in ("adaptive", "uniform"):
        assert rows[f"first pass, {key}, errors"] <= rows[f"first pass, {key}, Theorem 2"]
    assert rows["first pass, uniform, made separable, errors"] <= rows["first pass, uniform, made separable, Theorem 1"]
    assert rows["weights after 3 passes, other books, pairwise F1"] > 0.5
    chosen = findings["cluster-features"].settings
    assert chosen["chosen"] == max(chosen["cross-validation"], key=chosen["cross-validation"].get)
    assert set(chosen["cross-validation"]) == set(CANDIDATES)
    gain = rows["features of clusters, 3 passes, other books, B-cubed F1"]
    gain -= rows["baseline: logistic regression and best antecedent, other books, B-cubed F1"]
    assert rows["gain with features of clusters over the baseline, B-cubed F1"] == pytest.approx(gain)
    figures = experiment.figures(findings)
    assert [len(figure.axes) for figure in figures.values()] == [2, 3]
    assert experiment.figures({}) == {}


def test_features_of_clusters_of_mentions():
    """Merging a name with its pronoun leaves one entity without a name and none of pronouns only."""
    mentions = [Mention(0, k, k, entity, kind, "PER") for k, (entity, kind) in enumerate(
        [(0, "PROP"), (0, "PRON"), (1, "NOM")]
    )]  # fmt: skip
    text = CoreferenceText("a", [["Ann", "she", "king"]], mentions)
    passage = Passage("a", mention_features(text), text.entity, mention_columns(text))
    world = make_world(passage, "all")

    def values():
        return dict(zip(world.feature_names, world.features().tolist(), strict=True))

    assert [values()[name] for name in ("size >= 1", "unknown name", "unknown word")] == [3.0, 2.0, 1.0]
    world.apply(world.merge(0, 1))
    assert [values()[name] for name in ("size >= 1", "size >= 2", "unknown name", "unknown word")] == [
        2.0,
        1.0,
        1.0,
        0.0,
    ]
    world.apply(world.merge(0, 2))
    assert [values()[name] for name in ("distinct gender", "distinct name", "unknown name")] == [1.0, 0.0, 0.0]


def test_a_comparison_without_its_baselines_raises(small, tmp_path):
    tasks = [task for task in load_experiment("samplerank", quick=True).tasks if task.key == "jumps5-top2"]
    with pytest.raises(InvalidInputError, match="jumps5-uniform has not been run"):
        run_tasks(tasks, tmp_path)


def test_walks_continue_after_the_last_finished_seed(small, monkeypatch, tmp_path):
    monkeypatch.setitem(module._BUDGET, "max_iter", 2)
    tasks = [task for task in load_experiment("samplerank", quick=True).tasks if task.key == "jumps5-uniform"]
    whole = run_tasks(tasks, tmp_path)["jumps5-uniform"]
    (tmp_path / "again").mkdir()
    checkpoint = tmp_path / "again" / "jumps5-uniform.checkpoint.npz"
    jumps = whole.arrays["jumps"][:1]
    np.savez(checkpoint, jumps=jumps, curves=whole.arrays["curve"][None], seconds=[1.0])
    resumed = run_tasks(tasks, tmp_path / "again")["jumps5-uniform"]
    np.testing.assert_array_equal(resumed.arrays["jumps"], whole.arrays["jumps"])


def test_the_wrong_cluster_is_chosen_more_often(small, tmp_path):
    experiment = load_experiment("wrong-cluster", quick=True)
    findings = run_tasks(experiment.tasks, tmp_path)
    values = findings["truth-sequential"].values
    assert values["adaptive"] > 2.0 * values["uniform"]  # the uniform probability is 1/2 or 1/3
    assert len(experiment.figures(findings)["wrong-cluster-chances"].axes) == 3
    assert experiment.figures({}) == {}


def test_joined_entities_and_uniform_chance():
    entity = np.array([0, 0, 1, 1, 2, 2, 3])
    joined = second.merge_two_entities(entity, np.random.default_rng(1))
    assert len(np.unique(joined)) == 3
    passage = Passage("a", mention_features(book("a", 0, 3)), np.array([0, 0, 1, 1, 2, 2]))
    proposer = module.AdaptiveSplitMerge(beta=1.0, n_samples=10, max_iter=1, adapt=False)
    chance, uniform = second.probability_of_wrong(
        passage, np.zeros(len(NAMES)), proposer, np.random.default_rng(0), True
    )
    assert chance == pytest.approx(uniform) == pytest.approx(0.5)  # two of three pairs are merged


@pytest.mark.data
def test_passages_of_the_books(data):
    from intarsia_reproduction.datasets import load_litbank

    chosen, others = cut_passages(load_litbank(data), 30, random_state=0)
    assert len({passage.name for passage in chosen + others}) == 60
    assert all(20 <= len(passage.entity) <= 115 for passage in chosen)
    assert all(np.isfinite(passage.pairs.values).all() for passage in chosen)
