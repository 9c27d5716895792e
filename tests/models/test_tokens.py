"""Features of words, by hand and by definition."""

import pytest

from intarsia.exceptions import InvalidInputError
from intarsia.models import SequenceVectorizer, token_features, word_shape

PLAIN = {"affixes": 0, "pairs": False, "looks": False, "position": False}


@pytest.mark.parametrize(
    ("word", "shape"),
    [("Ab1", "Xxd"), ("", ""), ("É.é", "X.x"), ("10-12", "dd-dd"), ("日本", "xx"), ("a b", "x x")],
)
def test_shape(word, shape):
    assert word_shape(word) == shape


@pytest.mark.parametrize("window", [0, 1, 2, 5])
def test_window(window):
    words = list("abcd")
    for t, features in enumerate(token_features(words, window=window, **PLAIN)):
        around = {f"word[{k - t}]={words[k]}" for k in range(4) if abs(k - t) <= window}
        assert set(features) == around | ({"first"} if t == 0 else set()) | ({"last"} if t == 3 else set())


def test_parts_of_speech_are_those_of_the_chunking_tutorial():
    """With a window of two there are five single tags, four pairs and three triples."""
    pos = list("ABCDE")
    features = token_features(["w"] * 5, pos, **PLAIN)[2]
    expected = {f"pos[{d}]={pos[2 + d]}" for d in range(-2, 3)}
    expected |= {f"pos[{d}]|pos[{d + 1}]={pos[2 + d]}|{pos[3 + d]}" for d in range(-2, 2)}
    expected |= {f"pos[{d}]|pos[{d + 1}]|pos[{d + 2}]={pos[2 + d]}|{pos[3 + d]}|{pos[4 + d]}" for d in range(-2, 1)}
    assert {name for name in features if name.startswith("pos")} == expected
    alone = token_features(["w"], ["A"], **PLAIN)[0]
    assert [name for name in alone if name.startswith("pos")] == ["pos[0]=A"]
    assert "pos[0]|pos[1]=A|B" not in token_features(["w"] * 5, pos, window=0, **PLAIN)[0]


def test_pairs():
    rows = token_features(list("abc"), **{**PLAIN, "pairs": True})
    assert [[name for name in row if "|" in name] for row in rows] == [
        ["word[0]|word[1]=a|b"],
        ["word[-1]|word[0]=a|b", "word[0]|word[1]=b|c"],
        ["word[-1]|word[0]=b|c"],
    ]


def test_looks():
    rows = token_features(["(Smith,", "1999", "--", "x"], window=0, affixes=2, pairs=False, position=False)
    assert rows[0] == [
        "word[0]=(Smith,", "prefix=(", "suffix=,", "prefix=(S", "suffix=h,", "lower=(smith,", "shape=(Xxxxx,",
        "kind[0]=(Xx,", "kind[1]=d", "punctuation=some", "ends=,", "first",
    ]  # fmt: skip
    assert "digits=all" in rows[1]
    assert {"kind[-1]=(Xx,", "kind[1]=-"} <= set(rows[1])
    assert {"punctuation=all", "ends=-"} <= set(rows[2])
    assert {"prefix=x", "suffix=x"} <= set(rows[3])
    assert not [name for name in rows[3] if name.startswith(("digits", "punctuation", "ends"))]


def test_position():
    tenths = [row[-1] for row in token_features(["w"] * 22, **{**PLAIN, "window": 0, "position": True})[1:-1]]
    assert tenths == [f"tenth={10 * t // 22}" for t in range(1, 21)]


def test_short_sequences_and_their_matrix():
    assert token_features([]) == []
    matrix = SequenceVectorizer().fit_transform([token_features(["a", "b"]), token_features(["a"])])
    assert [m.shape[0] for m in matrix] == [2, 1]
    assert set(matrix[0].data) == {1.0}  # no feature occurs twice


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"words": "a b"}, "expected a list of words"),
        ({"words": ["a", 3]}, r"words\[1\] is 3"),
        ({"words": ["a"], "pos": ["A", "B"]}, "pos has 2 entries, but words has 1"),
        ({"words": ["a"], "pos": [None]}, r"pos\[0\] is None"),
        ({"words": ["a"], "window": -1}, "window must be an integer"),
        ({"words": ["a"], "affixes": 1.5}, "affixes must be an integer"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        token_features(**arguments)
