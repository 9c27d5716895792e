"""A tagger without Numba predicts as `ChainCRF` does, from the same file."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from intarsia import ChainCRF
from intarsia.energies import at_most_one
from intarsia.exceptions import FileFormatError, InvalidInputError, NotSupportedError
from intarsia.sequences import Tagger, load_tagger
from intarsia.sequences.chain_learner import CHAIN_LEARNERS

TAGS = ["B-x", "I-x", "O", "B-y", "I-y"]
HEAVY = ("numba", "llvmlite", "scipy", "sklearn", "joblib", "matplotlib", "duckdb", "narwhals", "rich", "typer")


def _sequences(n: int, seed: int, kind: str = "lists"):
    """Sequences with repeated and unknown features, and valid BIO tags."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        tags, state = [], 2
        for _ in range(int(rng.integers(1, 9))):
            state = int(rng.choice([k for k in range(5) if k not in (1, 4) or state in (k, k - 1)]))
            tags.append(TAGS[state])
        names = [
            [f"f{k}" for k in rng.integers(0, 40 + 30 * (seed % 2), int(rng.integers(0, 8)))]
            + ([f"t{tag}"] if rng.random() < 0.6 else [])
            for tag in tags
        ]
        if kind == "dicts":
            X.append([dict.fromkeys(token, 0.7) | {"w": "a", "n": float(rng.normal())} for token in names])
        elif kind == "arrays":
            X.append(rng.normal(size=(len(tags), 6)))
        elif kind == "csr":
            X.append(sparse.random_array((len(tags), 6), density=0.5, rng=rng, format="csr"))
        else:
            X.append(names)
        y.append(tags)
    return X, y


def _saved(crf: ChainCRF, folder) -> Tagger:
    crf.save(folder / "model.npz")
    return load_tagger(folder / "model.npz")


def _assert_equal(tagger: Tagger, crf: ChainCRF, X) -> None:
    for a, b, x in zip(tagger.predict(X), crf.predict(X), X, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(tagger.predict_single(x), b)
    for a, b in zip(tagger.predict_marginals(X), crf.predict_marginals(X), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    for a, b in zip(tagger.predict_kbest(X, 4), crf.predict_kbest(X, 4), strict=True):
        assert len(a) == len(b)
        for (path, value), (expected_path, expected_value) in zip(a, b, strict=True):
            np.testing.assert_array_equal(path, expected_path)
            assert value == pytest.approx(expected_value, abs=1e-11)


@pytest.mark.parametrize("kind", ["lists", "dicts", "arrays", "csr"])
@pytest.mark.parametrize("weights", ["all", "observed"])
@pytest.mark.parametrize("scheme", [None, "bio"])
@pytest.mark.parametrize("ends", [False, True])
def test_predictions_are_those_of_the_model(tmp_path, kind, weights, scheme, ends):
    X, y = _sequences(40, 0, kind)
    crf = ChainCRF(l2=1.0, weights=weights, scheme=scheme, ends=ends).fit(X, y)
    tagger = _saved(crf, tmp_path)
    X_test, y_test = _sequences(30, 1, kind)
    _assert_equal(tagger, crf, X_test)
    _assert_equal(Tagger.from_model(crf), crf, X_test[:3])
    np.testing.assert_allclose(
        tagger.sequence_log_probability(X_test, y_test), crf.sequence_log_probability(X_test, y_test), atol=1e-11
    )


@pytest.mark.parametrize("name", CHAIN_LEARNERS.names)
def test_predictions_of_every_learner(tmp_path, name):
    X, y = _sequences(40, 0)
    crf = ChainCRF(learner=name, scheme="bio", random_state=0).fit(X, y)
    _assert_equal(_saved(crf, tmp_path), crf, _sequences(30, 1)[0])


def test_every_probability_is_that_of_enumeration():
    X, y = _sequences(40, 0)
    crf = ChainCRF(l2=1.0, scheme="bio").fit(X, y)
    tagger, k = Tagger.from_model(crf), crf.classes_.size
    for x in [x for x in _sequences(30, 1)[0] if 2 <= len(x) <= 4]:
        nodes, transitions, start, end = tagger.scores(x)
        paths = list(itertools.product(range(k), repeat=len(x)))
        steps = [sum(transitions[a, b] for a, b in itertools.pairwise(p)) for p in paths]
        ends = [start[p[0]] + end[p[-1]] for p in paths]
        scores = np.array([nodes[np.arange(len(x)), p].sum() for p in paths]) + steps + ends
        weights = np.exp(scores - scores.max())
        probabilities = weights / weights.sum()
        marginals = np.zeros((len(x), k))
        for p, probability in zip(paths, probabilities, strict=True):
            marginals[np.arange(len(x)), p] += probability
        np.testing.assert_allclose(tagger.predict_marginals([x])[0], marginals, atol=1e-12)
        order = np.argsort(-scores)[:5]
        for (labels, value), r in zip(tagger.predict_kbest([x], 5)[0], order, strict=True):
            assert value == pytest.approx(np.log(probabilities[r]), abs=1e-10)
            np.testing.assert_array_equal(labels, crf.classes_[list(paths[r])])


def test_ties_are_broken_as_by_the_model():
    X = [[["a"], ["b"]], [["b"], ["a"]], [["c"], ["c"]]]
    y = [["p", "q"], ["q", "p"], ["p", "q"]]
    crf = ChainCRF(l2=1.0).fit(X, y)
    for weights in (np.zeros_like(crf.weights_), np.round(crf.weights_)):
        crf.weights_ = weights
        x = [[["u"]] * 5, [["a", "b"], ["c"], ["u"], ["a"]]]
        _assert_equal(Tagger.from_model(crf), crf, x)


def test_forbidden_everything_is_ignored_and_allowed_is_obeyed():
    X, y = [[["a"], ["b"]], [["a"], ["a"]]], [["p", "q"], ["p", "q"]]
    crf = ChainCRF(l2=1.0, forbidden=[("p", "p"), ("q", "p"), ("q", "q"), (None, "q"), ("p", None)]).fit(X, y)
    tagger = Tagger.from_model(crf)
    _assert_equal(tagger, crf, [[["a"]], [["a"], ["b"], ["b"]], [["a"], ["b"]]])
    with pytest.raises(InvalidInputError, match=r"Tagger\.predict: allowed\[1\] excludes every labelling of X\[1\]"):
        tagger.predict([X[0], X[0]], allowed=[None, ["q", None]])
    X, y = _sequences(40, 0)
    crf = ChainCRF(l2=1.0).fit(X, y)
    tagger = Tagger.from_model(crf)
    allowed = [[["O", None, frozenset({"B-x", "B-y"})][t % 3] for t in range(len(x))] for x in X]
    for a, b in zip(tagger.predict(X, allowed=allowed), crf.predict(X, allowed=allowed), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(
        tagger.predict_single(X[0], allowed=allowed[0]), crf.predict_single(X[0], allowed=allowed[0])
    )
    with pytest.raises(InvalidInputError, match="X has 40 sequences, but allowed has 39"):
        tagger.predict(X, allowed=allowed[1:])


def test_decode_is_a_setting_of_the_file(tmp_path):
    X, y = _sequences(40, 0)
    crf = ChainCRF(l2=1.0, decode="marginals").fit(X, y)
    tagger = _saved(crf, tmp_path)
    assert tagger.decode == "marginals"
    for a, b in zip(tagger.predict(X), crf.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_empty_and_unknown_input():
    X, y = _sequences(40, 0)
    crf = ChainCRF(l2=1.0).fit(X, y)
    tagger = Tagger.from_model(crf)
    assert tagger.predict([]) == []
    assert tagger.predict_single([]).size == 0
    assert [labels.size for labels in tagger.predict([X[0], [], [[]]])] == [len(X[0]), 0, 1]
    assert tagger.predict_marginals([[]])[0].shape == (0, crf.classes_.size)
    assert tagger.predict_kbest([[]], 2)[0][0][1] == 0.0
    _assert_equal(tagger, crf, [[["never seen"], []], [[]], [["f1", "never", "f1", "f1"]]])
    with pytest.raises(InvalidInputError, match=r"Tagger\.scores: the sequence is empty"):
        tagger.scores([])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ("abc", r"^Tagger\.predict_single: X\[0\] is 'abc'"),
        ([["a", 3]], r"X\[0\]\[0\]: a list of features contains 3"),
        (["f1"], r"X\[0\]\[0\] is the string 'f1', but tokens in fit were lists"),
        ([{"f1": np.nan}], "features must be finite"),
        ([{"f1": 1e300}], "has scores beyond"),
        (np.zeros((2, 3)), r"X\[0\] holds numbers, but the training set holds named features"),
        (5, r"X\[0\] is 5"),
    ],
)
def test_invalid_sequences_raise(x, message):
    X, y = _sequences(40, 0)
    tagger = Tagger.from_model(ChainCRF(l2=1.0).fit(X, y))
    with pytest.raises(InvalidInputError, match=message):
        tagger.predict_single(x)


def test_arrays_of_another_width_raise():
    X, y = _sequences(40, 0, "arrays")
    tagger = Tagger.from_model(ChainCRF(l2=1.0).fit(X, y))
    with pytest.raises(InvalidInputError, match=r"X\[1\] has 5 columns, but the training set had 6"):
        tagger.predict([X[0], X[1][:, :5]])
    with pytest.raises(InvalidInputError, match="must be finite"):
        tagger.predict_single(np.full((2, 6), np.inf))


def test_models_that_need_the_library_are_refused(tmp_path):
    X, y = _sequences(20, 0)
    crf = ChainCRF(l2=1.0, energies=at_most_one("x")).fit(X, y)
    crf.save(tmp_path / "a.npz")
    with pytest.raises(NotSupportedError, match=r"load_tagger: .*a\.npz: the model has energies.*intarsia\.load"):
        load_tagger(tmp_path / "a.npz")
    steps = [np.ones((len(x) - 1, 2)) for x in X]
    ChainCRF(l2=1.0).fit(X, y, edge_features=steps).save(tmp_path / "b.npz")
    with pytest.raises(NotSupportedError, match="features of steps"):
        load_tagger(tmp_path / "b.npz")


def test_damaged_files_are_reported(tmp_path):
    X, y = _sequences(20, 0)
    path = tmp_path / "model.npz"
    ChainCRF(l2=1.0).fit(X, y).save(path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    n_refused = 0
    for _ in range(200):
        changed = bytearray(content)
        for position in rng.integers(0, len(content), 3):
            changed[position] = int(rng.integers(256))
        path.write_bytes(bytes(changed))
        try:
            load_tagger(path).predict(X)
        except FileFormatError:
            n_refused += 1
    assert n_refused > 100
    for part in (b"", content[: len(content) // 2], b"text"):
        path.write_bytes(part)
        with pytest.raises(FileFormatError, match="damaged"):
            load_tagger(path)
    with pytest.raises(FileNotFoundError):
        load_tagger(tmp_path / "missing.npz")


def test_a_serving_process_imports_none_of_the_heavy_libraries(tmp_path):
    X, y = _sequences(40, 0)
    ChainCRF(l2=1.0, scheme="bio").fit(X, y).save(tmp_path / "model.npz")
    script = f"""
import json, sys, time
from intarsia.sequences import load_tagger
tagger = load_tagger({str(tmp_path / "model.npz")!r})
x = {X[0]!r}
tagger.predict_single(x), tagger.predict([x], allowed=[None]), tagger.predict_marginals([x])
tagger.predict_kbest([x], 3), tagger.sequence_log_probability([x], [{y[0]!r}])
status = open("/proc/self/status").read() if sys.platform == "linux" else "VmHWM: 0"
megabytes = int(status.split("VmHWM:")[1].split()[0]) / 1024
print(json.dumps([time.process_time(), megabytes, sorted(sys.modules)]))
"""
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert not {name.partition(".")[0] for name in runs[0][2]} & set(HEAVY)
    assert min(seconds for seconds, _, _ in runs) < 0.3
    assert runs[0][1] < 60
