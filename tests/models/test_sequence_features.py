"""Sequences of tokens as matrices, against scikit-learn's DictVectorizer and dense sums made by hand."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer

from intarsia.exceptions import InvalidInputError
from intarsia.models import SequenceVectorizer

BOUNDED = settings(max_examples=30, deadline=None, derandomize=True)
NAME = st.sampled_from("abcd")
VALUE = st.one_of(
    st.sampled_from(["u", "v", ""]),
    st.booleans(),
    st.integers(-2, 2),
    st.floats(-3, 3, allow_subnormal=False),
    st.lists(st.sampled_from("uvw"), max_size=3, unique=True),
)
SEQUENCES = st.lists(st.lists(st.dictionaries(NAME, VALUE, max_size=3), max_size=4), max_size=4)


def dense(matrices, n_columns):
    return np.concatenate([np.zeros((0, n_columns)), *(m.toarray() for m in matrices)])


@BOUNDED
@given(SEQUENCES, SEQUENCES)
def test_dicts_as_scikit_learn_reads_them(train, test):
    vectorizer = SequenceVectorizer()
    ours_train = vectorizer.fit_transform(train)
    ours_test = vectorizer.transform(test)
    names, n = vectorizer.vocabulary_, vectorizer.n_features_
    assert names == sorted(set(names))
    assert [m.shape[0] for m in ours_test] == [len(sequence) for sequence in test]
    peer = DictVectorizer(sparse=False)
    for ours, sequences in ((ours_train, train), (ours_test, test)):
        tokens = [token for sequence in sequences for token in sequence]
        theirs = peer.fit_transform([*tokens, {}])[:-1]
        column = {name: k for k, name in enumerate(peer.get_feature_names_out())}
        expected = np.array([[row[column[name]] if name in column else 0 for name in names] for row in theirs])
        np.testing.assert_array_equal(dense(ours, n), expected.reshape(len(tokens), n))
        if ours is ours_train:  # features that are left out are zero everywhere
            assert not theirs[:, [k for name, k in column.items() if name not in names]].any()


@BOUNDED
@given(SEQUENCES, st.integers(1, 4))
def test_rare_features_are_left_out(train, least):
    everything, kept = SequenceVectorizer().fit(train), SequenceVectorizer(min_count=least)
    frequent = kept.fit_transform_stacked(train)[0].toarray()
    matrix = everything.transform_stacked(train)[0].toarray()
    often = (matrix != 0).sum(axis=0) >= least
    assert kept.vocabulary_ == [name for name, keep in zip(everything.vocabulary_, often, strict=True) if keep]
    np.testing.assert_array_equal(frequent, matrix[:, often])


@BOUNDED
@given(SEQUENCES)
def test_transform_repeats_fit_transform(train):
    vectorizer = SequenceVectorizer()
    fitted, fitted_ptr = vectorizer.fit_transform_stacked(iter(train))
    again, ptr = vectorizer.transform_stacked(iter(train))
    np.testing.assert_array_equal(fitted.toarray(), again.toarray())
    np.testing.assert_array_equal(fitted_ptr, ptr)
    np.testing.assert_array_equal(ptr, np.cumsum([0, *map(len, train)]))
    assert fitted.has_canonical_format
    assert fitted.indices.dtype == np.int32
    other = SequenceVectorizer.from_vocabulary(vectorizer.vocabulary_).transform_stacked(train)[0]
    np.testing.assert_array_equal(other.toarray(), fitted.toarray())
    assert SequenceVectorizer().fit(train[::-1]).vocabulary_ == vectorizer.vocabulary_


def test_lists_of_strings():
    X = [[["b", "a"], ["b", "b"], []], [], [("c",), {"c", "a"}, "b"]]
    vectorizer = SequenceVectorizer()
    matrix, ptr = vectorizer.fit_transform_stacked(X)
    assert vectorizer.vocabulary_ == ["a", "b", "c"]
    np.testing.assert_array_equal(ptr, [0, 3, 3, 6])
    expected = [[1, 1, 0], [0, 2, 0], [0, 0, 0], [0, 0, 1], [1, 0, 1], [0, 1, 0]]  # named twice counts twice
    np.testing.assert_array_equal(matrix.toarray(), expected)
    assert [m.shape for m in vectorizer.transform(X)] == [(3, 3), (0, 3), (3, 3)]
    np.testing.assert_array_equal(vectorizer.transform([[["z", "a"]]])[0].toarray(), [[1, 0, 0]])


def test_one_token_in_several_ways():
    """A token as a dict, as indicators, nested, and with NumPy types has the same features."""
    ways = [
        {"w": "x", "n": 2.0, "t": True, "f": False, "z": 0},
        {"w": ["x"], "n": np.float32(2), "t": np.True_, "f": np.False_},
        {"w": {"x"}, "n": np.int8(2), "t": 1},
        {"w": np.str_("x"), "n": 2, "t": 1.0},
        {"w=x": 1, "n": 2, "t": True},
    ]
    vectorizer = SequenceVectorizer().fit([ways])
    assert vectorizer.vocabulary_ == ["n", "t", "w=x"]
    np.testing.assert_array_equal(vectorizer.transform([ways])[0].toarray(), [[2, 1, 1]] * len(ways))
    nested = SequenceVectorizer().fit([[{"out": {"in": "x", "deep": {"n": 2}}}]])
    assert nested.vocabulary_ == ["out:deep:n", "out:in=x"]


def test_unknown_features_are_ignored_with_their_values():
    vectorizer = SequenceVectorizer.from_vocabulary(["b", "a"])
    np.testing.assert_array_equal(vectorizer.transform([[{"a": 2, "new": 5, "b": 3}]])[0].toarray(), [[3, 2]])


@pytest.mark.parametrize("shape", ["arrays", "lists", "csr", "mixed", "stacked"])
def test_arrays_pass_through(shape):
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 3, size=(n, 3)).astype(float) for n in (4, 0, 1)]
    if shape == "stacked":
        arrays = [rng.random((2, 3)) for _ in range(3)]
    given = {
        "arrays": arrays,
        "lists": [arrays[0].tolist(), arrays[1], arrays[2].tolist()],
        "csr": [sparse.csr_matrix(a) for a in arrays],
        "mixed": [arrays[0], sparse.coo_array(arrays[1]), arrays[2]],
        "stacked": np.stack(arrays) if shape == "stacked" else None,
    }[shape]
    vectorizer = SequenceVectorizer()
    matrix, ptr = vectorizer.fit_transform_stacked(given)
    assert vectorizer.vocabulary_ is None
    assert vectorizer.n_features_ == 3
    assert sparse.issparse(matrix) == (shape in ("csr", "mixed"))
    full = matrix.toarray() if sparse.issparse(matrix) else matrix
    np.testing.assert_array_equal(full, np.concatenate(arrays))
    np.testing.assert_array_equal(np.diff(ptr), [len(a) for a in arrays])
    for part, array in zip(vectorizer.transform(given), arrays, strict=True):
        np.testing.assert_array_equal(part.toarray() if sparse.issparse(part) else part, array)


def test_an_empty_list_among_arrays_is_an_empty_sequence():
    vectorizer = SequenceVectorizer()
    matrix, ptr = vectorizer.fit_transform_stacked([[], np.ones((2, 3)), []])
    assert (matrix.shape, ptr.tolist()) == ((2, 3), [0, 0, 2, 2])
    assert vectorizer.transform([[]])[0].shape == (0, 3)


def test_single_precision():
    vectorizer = SequenceVectorizer(dtype="float32")
    assert vectorizer.fit_transform([[["a"]]])[0].dtype == np.float32
    assert vectorizer.transform([[["a"]]])[0].dtype == np.float32
    assert SequenceVectorizer().fit_transform([np.ones((2, 1), np.float32)])[0].dtype == np.float32


def test_nothing_at_all():
    for X in ([], [[]], [[{}], [[]]]):
        vectorizer = SequenceVectorizer().fit(X)
        assert vectorizer.vocabulary_ == []
        assert vectorizer.transform_stacked(X)[0].shape == (sum(map(len, X)), 0)


def test_settings_clone_and_pickle():
    vectorizer = SequenceVectorizer(min_count=2).fit([[["a"], ["a", "b"]]])
    assert clone(vectorizer).get_params() == {"min_count": 2, "dtype": "float64"}
    copy = pickle.loads(pickle.dumps(vectorizer))
    assert copy.transform([[["a"]]])[0].toarray().tolist() == [[1.0]]
    vectorizer.fit([np.ones((1, 4))])  # a second fit replaces the first
    assert (vectorizer.vocabulary_, vectorizer.n_features_) == (None, 4)
    with pytest.raises(NotFittedError):
        SequenceVectorizer().transform([])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[{"a": 1}], [{}, {"a": float("nan")}]], r"X\[1\]\[1\]: feature 'a' is nan"),
        ([[{"a": 1e308, "b": 1e308, "c": float("-inf")}]], r"X\[0\]\[0\]: feature 'c' is -inf"),
        ([[{"a": 10**400}]], r"X\[0\]\[0\]: feature 'a' .* too large"),
        ([[{"a": None}]], r"X\[0\]\[0\]: feature 'a' is None"),
        ([[{"a": b"x"}]], r"feature 'a' is b'x', of type bytes"),
        ([[{"a": [1, 2]}]], "a list of features contains 1, of type int"),
        ([[{1: "x"}]], r"X\[0\]\[0\]: the name of a feature is 1"),
        ([[["a", 1]]], r"X\[0\]\[0\]: a list of features contains 1"),
        ([[["a"], 3]], r"X\[0\]\[1\]: expected the features of a token"),
        (["abc"], r"X\[0\] is 'abc'"),
        ([{"a": 1}], r"X\[0\] is \{'a': 1\}"),
        ([3], r"X\[0\] is 3"),
        ("abc", "X is of type str, but a list of sequences is expected"),
        (None, "X is of type NoneType, but a list of sequences is expected"),
        ([[["a"]], np.ones((2, 2))], r"X\[1\] holds numbers, but X\[0\] holds named features"),
        ([[], np.ones((2, 2)), [{"a": 1}]], r"X\[2\] holds named features, but X\[1\] holds numbers"),
        ([np.ones((2, 2)), np.ones((1, 3))], r"X\[1\] has 3 columns, but X\[0\] has 2"),
        ([np.ones((2, 2)), np.array([[1, np.nan]])], r"X\[1\]\[0\] contains nan"),
        ([[1.0, 2.0]], r"X\[0\] has shape \(2,\)"),
    ],
)
def test_bad_input(X, message):
    with pytest.raises(InvalidInputError, match=message):
        SequenceVectorizer().fit(X)


def test_bad_input_later():
    named, numbers = SequenceVectorizer().fit([[["a"]]]), SequenceVectorizer().fit([np.ones((1, 2))])
    with pytest.raises(InvalidInputError, match=r"X\[0\] holds numbers, but the training set holds named"):
        named.transform([np.ones((1, 1))])
    with pytest.raises(InvalidInputError, match=r"X\[0\] holds named features, but the training set holds numbers"):
        numbers.transform([[["a"]]])
    with pytest.raises(InvalidInputError, match=r"X\[0\] has 3 columns, but the training set had 2"):
        numbers.transform([np.ones((1, 3))])
    with pytest.raises(InvalidInputError, match="'a' twice"):
        SequenceVectorizer.from_vocabulary(["a", "b", "a"])
    with pytest.raises(InvalidInputError, match="min_count must be an integer"):
        SequenceVectorizer(min_count=0).fit([])
    with pytest.raises(InvalidInputError, match="dtype='int8' is not known"):
        SequenceVectorizer(dtype="int8").fit([])
    assert (
        named.transform([[{"a": 1e308}], [{"a": 1e308, "b": 1e308}]])[0].toarray() == 1e308
    )  # large but finite values are kept
