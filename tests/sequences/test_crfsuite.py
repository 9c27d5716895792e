r"""CRFsuite feature files: examples written by hand, round trips, and errors with line numbers."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.models import SequenceVectorizer
from intarsia.sequences import CrfsuiteSequence, read_crfsuite, write_crfsuite


def read(text):
    return list(read_crfsuite(io.StringIO(text, newline="")))


@pytest.mark.parametrize(
    "text",
    [
        "A\tf\tg\nB\n\nC\tf:2\n\n",
        "A\tf\tg\nB\n\nC\tf:2",
        "\n\nA\tf\tg\r\nB\r\n\r\n\r\nC\tf:2\r\n",
        "A\tf\tg\t\nB\t\n\nC\t\tf:2.0\n",  # empty fields are no features
    ],
)
def test_by_hand(text):
    assert read(text) == [CrfsuiteSequence(["A", "B"], [["f", "g"], []]), CrfsuiteSequence(["C"], [{"f": 2.0}])]


@pytest.mark.parametrize(
    ("field", "features"),
    [
        (r"w=\:", ["w=:"]),
        (r"w=\:\:", ["w=::"]),
        (r"w=\\", ["w=\\"]),
        (r"w=\\:3", {"w=\\": 3.0}),  # an escaped backslash, then a value
        (r"w=\\\:3", ["w=\\:3"]),
        (r"w=\n", ["w=\\n"]),  # no escape
        ("w=\\", ["w=\\"]),
        (r"a\:b:1e-2", {"a:b": 0.01}),
        ("a:", ["a"]),
        ("a:-1", {"a": -1.0}),
        ("a b:1", {"a b": 1.0}),
        ("a:2\ta\tb", {"a": 3.0, "b": 1.0}),  # named twice counts twice
        ("a\ta", ["a", "a"]),
        ("#", ["#"]),
    ],
)
def test_escapes_and_values(field, features):
    assert read(f"O\t{field}\n") == [CrfsuiteSequence(["O"], [features])]


def test_labels_and_weights():
    text = "@weight:2.5\nA\\:\\\\\tf\n\nB\tf\n\n@weight:3\tC\tf\n@weight:4\nD\tf\n"
    assert [(s.labels, s.weight) for s in read(text)] == [(["A:\\"], 2.5), (["B"], 1.0), (["C", "D"], 4.0)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("O\ta:b:c", "'a:b:c': expected a finite number after the colon, got 'b:c'"),
        ("O\ta:nan", "finite number"),
        ("O\ta:inf", "finite number"),
        ("O\ta:1_0", "finite number"),
        ("O\t:2", "no name before the colon"),
        ("\tf", "expected a label"),
        ("a:b\tf", "label 'a:b' contains a colon"),
        ("@other:1", "declaration '@other:1' is unknown"),
        ("@weight", "expected a finite number"),
        ("@weight:-1", "a weight must be at least 0"),
    ],
)
def test_errors_name_the_line(tmp_path, line, message):
    path = tmp_path / "train.crfsuite"
    path.write_text(f"O\tf\n\n{line}\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match=f"train.crfsuite, line 3: .*{message}"):
        list(read_crfsuite(path))


NAME = st.text(st.sampled_from("ab:\\= #@\u00a0é"), min_size=1, max_size=4)
VALUE = st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: value != 0)
TOKEN = st.one_of(st.lists(NAME, max_size=3), st.dictionaries(NAME, VALUE, max_size=3))
LABEL = NAME.filter(lambda label: label.strip(" ") and not label.startswith("@"))
SEQUENCE = st.lists(st.tuples(TOKEN, LABEL), min_size=1, max_size=3)


def values(token):
    """Return the sum of the values of each name."""
    found = {}
    for name, value in token.items() if isinstance(token, dict) else ((name, 1.0) for name in token):
        found[name] = found.get(name, 0.0) + value
    return found


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(SEQUENCE, max_size=3), st.booleans())
def test_round_trip(sequences, weighted):
    X = [[token for token, _ in sequence] for sequence in sequences]
    y = [[label for _, label in sequence] for sequence in sequences]
    weights = [0.1 * k for k in range(len(X))] if weighted else None
    file = io.StringIO(newline="")
    assert write_crfsuite(file, iter(X), iter(y), weights) == len(X)
    found = read(file.getvalue())
    assert [sequence.labels for sequence in found] == y
    assert [sequence.weight for sequence in found] == (weights or [1.0] * len(X))
    assert [[values(token) for token in s.features] for s in found] == [[values(token) for token in x] for x in X]


def test_files_and_feature_matrix(tmp_path):
    X = [[{"word": "10:30", "length": 5, "first": True, "no": False}], [["word=a", "last"]]]
    path = tmp_path / "train.gz"
    write_crfsuite(path, X, [["O"], ["B-x"]])
    back = [sequence.features for sequence in read_crfsuite(path)]
    direct, read_back = SequenceVectorizer(), SequenceVectorizer()
    expected, _ = direct.fit_transform_stacked(X)
    matrix, _ = read_back.fit_transform_stacked(back)
    assert direct.vocabulary_ == read_back.vocabulary_ == ["first", "last", "length", "word=10:30", "word=a"]
    assert (matrix.toarray() == expected.toarray()).all()


@pytest.mark.parametrize(
    ("X", "y", "weights", "message"),
    [
        ([[["a"]]], [["A", "B"]], None, r"X\[0\] has 1 tokens and y\[0\] has 2 labels"),
        ([[]], [[]], None, "Remove empty sequences"),
        ([[["a"]]], [], None, "different lengths: the shortest has 0 sequences"),
        ([[["a"]]], [["A"], ["A"]], None, "different lengths: the shortest has 1 sequences"),
        ([[["a"]]], [["A"]], [], "X, y and weights have different lengths"),
        ([[["a"]]], [["A"]], [-1], r"weights\[0\] is -1"),
        ([[["a\tb"]]], [["A"]], None, r"X\[0\]\[0\]: 'a\\tb' cannot be written"),
        ([[["a"]]], [["A\n"]], None, "cannot be written"),
        ([[["a"]]], [[" "]], None, "label ' ' cannot be written"),
        ([[["a"]]], [["@a"]], None, "label '@a' cannot be written"),
        ([[["a"]]], [[None]], None, "label None cannot be written"),
        ([[{"a": float("nan")}]], [["A"]], None, r"X\[0\]\[0\]: feature 'a' is nan"),
    ],
)
def test_invalid_sequences_are_not_written(tmp_path, X, y, weights, message):
    with pytest.raises(InvalidInputError, match=message):
        write_crfsuite(tmp_path / "a.txt", X, y, weights)
    assert not list(tmp_path.iterdir())
