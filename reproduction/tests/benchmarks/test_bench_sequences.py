"""The rows of the benchmark on sequences small enough for a test; what they time is not asserted."""

from itertools import pairwise, product

import numpy as np
import pytest
from reproduction.tests.benchmarks.bench_contract import check

from intarsia.exceptions import MissingDataError
from intarsia.graph.chains import ChainBatch
from intarsia_reproduction.benchmarks import bench_sequences as bench
from intarsia_reproduction.benchmarks import chunk_quality
from intarsia_reproduction.benchmarks import sequence_training as training
from intarsia_reproduction.benchmarks.peers import find_peer


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(bench, "_AT_LEAST", 0.0)
    monkeypatch.setattr(bench, "_WORDS", 12)
    monkeypatch.setattr(bench, "_BATCH", 20)
    monkeypatch.setattr(bench, "_CHAIN", 30)
    monkeypatch.setattr(bench, "_PREFERENCE_CHAIN", 6)
    monkeypatch.setattr(training, "_STEPS", 3)


@pytest.fixture
def chunks(monkeypatch):
    """Replace CoNLL-2000 by a few sentences."""
    words, pos = ["the", "cat", "sat", "down"], ["D", "N", "V", "R"]
    features = [training.token_features(words[:n], pos[:n]) for n in (4, 1, 3)]
    examples = training._examples(features, [list("abca"), ["a"], list("bbc")], "observed")
    task = training.TrainingTask("sentences", examples, 2.0, 2.0)
    monkeypatch.setattr(bench, "chunking_task", lambda n: task)
    monkeypatch.setattr(bench, "chunk_sentences", few_sentences)
    return task


def few_sentences():
    """Return sentences of noun phrases and verbs, whose tags follow from the words."""
    fields = []
    for texts in (["the cat sat", "a cat the dog", "the dog sat"], ["the cat the dog", "the dog sat"]):
        words = [text.split() for text in texts]
        tags = [
            ["B-VP" if w == "sat" else "I-NP" if w in ("cat", "dog") else "B-NP" for w in sentence]
            for sentence in words
        ]
        fields += [[chunk_quality.chunk_features(sentence, sentence) for sentence in words], tags]
    return chunk_quality.Sentences(*fields)


def random_batch(rng, lengths, k, per_step):
    n = sum(lengths)
    shape = (n - len(lengths), k, k) if per_step else (k, k)
    return ChainBatch(rng.standard_normal((n, k)), np.cumsum([0, *lengths]), rng.standard_normal(shape))


@pytest.mark.parametrize("per_step", [False, True])
def test_reference_marginals_equal_enumeration(per_step):
    batch = random_batch(np.random.default_rng(0), [3, 1, 4], 3, per_step)
    marginals = bench.reference_marginals(batch)
    for s in range(3):
        a, b = batch.ptr[s], batch.ptr[s + 1]
        expected = np.zeros((b - a, 3))
        for labels in product(range(3), repeat=int(b - a)):
            score = sum(batch.nodes[a + t, y] for t, y in enumerate(labels))
            for t in range(1, b - a):
                table = batch.transitions[a + t - 1 - s] if per_step else batch.transitions
                score += table[labels[t - 1], labels[t]]
            expected[np.arange(b - a), labels] += np.exp(score)
        np.testing.assert_allclose(marginals[a:b], expected / expected[0].sum(), atol=1e-12)


def test_objective_equals_enumeration(chunks):
    examples, rng = chunks.examples, np.random.default_rng(1)
    states = rng.standard_normal((examples.layout.n_features, 3))
    table = rng.standard_normal((3, 3))
    scores, expected = examples.data.matrix @ states, (states**2).sum() + (table**2).sum()
    for a, b in pairwise(examples.data.ptr):

        def score(labels, a=a):
            steps = sum(table[x, y] for x, y in pairwise(labels))
            return sum(scores[a + t, y] for t, y in enumerate(labels)) + steps

        all_scores = [score(labels) for labels in product(range(3), repeat=int(b - a))]
        expected += np.log(np.exp(all_scores).sum()) - score(examples.truth.states[a:b])
    assert chunks.objective(states, table) == pytest.approx(expected, rel=1e-12)
    expected += 3.0 * (np.abs(states).sum() + np.abs(table).sum()) - (states**2).sum() - (table**2).sum()
    assert chunks.objective(states, table, c1=3.0, c2=0.0) == pytest.approx(expected, rel=1e-12)


def test_risk_of_the_learner_equals_the_objective(chunks):
    layout = chunks.examples.layout
    risk = training.MaximumLikelihood(l2=2.0 * training.C2).risk(chunks.examples)
    weights = np.random.default_rng(2).standard_normal(layout.n_weights)
    objective = chunks.objective(layout.state_matrix(weights), layout.unpack(weights).transitions)
    assert objective == pytest.approx(risk(weights)[0] * chunks.examples.mass, rel=1e-12)


def test_without_peers_their_columns_are_none(small, chunks, monkeypatch):
    for module in (bench, training, chunk_quality):
        monkeypatch.setattr(module, "find_peer", lambda name: None)
    lines = []
    rows = bench.bench_sequences(repeats=7, report=lines.append)  # the fastest of seven: a busy machine is noisy
    check(rows)
    assert lines
    assert (
        len(rows) == 11
    )  # marginals of words and of a chain, preferences for both, two for each task, chunks, L1 training, workers
    assert rows[-3]["ours_quality"] == 100.0
    assert "L1 training" in rows[-2]["workload"]
    assert rows[-2]["ours_status"] == "CONVERGED"
    for row in rows:
        if row["peer"] != "a call of its oracle":
            assert row["peer_seconds"] is row["peer_quality"] is None
        if row.get("quality_is") == bench._ERROR_IS:
            assert row["ours_quality"] < 1e-12
    assert rows[2]["ours_quality"] == 21 / 20  # one call per iteration, and one at the start
    assert rows[3]["ratio"] <= 1.0
    assert rows[-1]["workload"].endswith("n_jobs=2")


def test_without_conll2000_its_rows_are_omitted(small, monkeypatch):
    def missing(n):
        raise MissingDataError("there is no conll2000")

    for module in (bench, training, chunk_quality):
        monkeypatch.setattr(module, "find_peer", lambda name: None)
    monkeypatch.setattr(bench, "chunking_task", missing)
    lines = []
    rows = bench.bench_sequences(repeats=1, report=lines.append)
    assert len(rows) == 7
    assert "omitted: there is no conll2000" in lines


def test_first_iteration_close_to_the_lowest_loss():
    assert training._arrival(np.array([3.0, 2.0, 1.0 + 2e-6, 1.0 + 5e-7, 1.0]), 1.0) == 3
    assert training._arrival(np.array([3.0, 2.0]), 1.0) == 1


@pytest.mark.slow
@pytest.mark.skipif(find_peer("crfsuite") is None, reason="CRFsuite is not installed; see reproduction/README.md")
def test_crfsuite_finds_the_same_minimum(small, chunks):
    for task in (chunks, training.letters_task(12)):
        iterations, end = training.train_rows(task, 1, lambda line: None)
        check([iterations, end])
        assert iterations["peer_evaluations"] >= 1.0
        assert end["peer_quality"] == pytest.approx(end["ours_quality"], rel=1e-6)  # an independent program
        assert max(end["ours_excess"], end["peer_excess"]) <= training.CLOSE


@pytest.mark.slow
@pytest.mark.skipif(find_peer("crfsuite") is None, reason="CRFsuite is not installed; see reproduction/README.md")
def test_crfsuite_tags_the_same_sentences():
    row = chunk_quality.chunk_row(few_sentences())
    check([row])
    assert row["peer_quality"] == row["ours_quality"] == 100.0


@pytest.mark.slow
@pytest.mark.skipif(find_peer("crfsuite") is None, reason="CRFsuite is not installed; see reproduction/README.md")
def test_crfsuite_has_the_marginals_of_its_table(small):
    rows = bench._one_chain(1)
    check(rows)
    assert len(rows) == 2
    assert rows[0]["peer_quality"] < 1e-5  # CRFsuite reports weights with six digits


@pytest.mark.slow
@pytest.mark.skipif(find_peer("pytorch_crf") is None, reason="pytorch-crf is not installed; see reproduction/README.md")
def test_pytorch_crf_has_the_same_marginals(small):
    row = bench._many_words(1)
    check([row])
    assert row["peer_quality"] < 1e-5  # single precision
