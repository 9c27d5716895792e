"""Tagged texts: loaders on small files made here, and the sets themselves against what is stated of them."""

import gzip
import re

import pytest

from intarsia.exceptions import FileFormatError, MissingDataError
from intarsia.metrics import find_segments, segment_scores
from intarsia.models import SequenceVectorizer, token_features
from intarsia_reproduction.datasets import find_set, load_conll2000, load_cora_ie, load_umass_citations


def put(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()))


def test_chunks(tmp_path):
    train, test = "# # O\nLondon JJ B-NP\n\n. . O\n", "shares NNS B-NP\n"
    put(tmp_path, {"conll2000/train.txt.gz": train, "conll2000/test.txt.gz": test})
    found = load_conll2000(tmp_path)
    assert found.train.words == [["#", "London"], ["."]]
    assert found.train.pos == [["#", "JJ"], ["."]]
    assert found.train.tags == [["O", "B-NP"], ["O"]]
    assert (found.test.words, found.dev, found.train.paths, len(found.train)) == ([["shares"]], None, None, 2)


def test_citations(tmp_path):
    parts = {"training": "A", "dev": "B", "testing": "C"}
    files = {f"umass_citation/{part}.tsv.gz": f"{word} x\tB-title\ttitle\n" for part, word in parts.items()}
    put(tmp_path, files | {f"umass_citation/{part}.docs.gz": "" for part in parts})
    found = load_umass_citations(tmp_path)
    assert [part.words for part in (found.train, found.dev, found.test)] == [[["A x"]], [["B x"]], [["C x"]]]
    assert (found.test.tags, found.test.paths, found.test.pos) == ([["B-title"]], [["title"]], None)


def test_references(tmp_path):
    put(tmp_path, {"cora_ie/cora_ie.tsv.gz": "A.\tB-author\n", "cora_ie/tagged_references.txt.gz": ""})
    found = load_cora_ie(tmp_path)
    assert (found.words, found.tags, found.pos) == ([["A."]], [["B-author"]], None)


def test_missing_and_damaged(tmp_path):
    with pytest.raises(MissingDataError, match="CoNLL-2000"):
        load_conll2000(tmp_path)
    put(tmp_path, {"conll2000/train.txt.gz": "a A\n", "conll2000/test.txt.gz": "a A O\n"})
    with pytest.raises(FileFormatError, match=r"train.txt.gz: 2 columns, expected 3 \(words, pos, tags\)"):
        load_conll2000(tmp_path)


@pytest.mark.data
def test_conll2000_facts(data):
    found, facts = load_conll2000(data), find_set("conll2000").facts
    assert (len(found.train), len(found.test)) == (facts["train"], facts["test"]) == (8936, 2012)
    # Tokens and chunks as the shared task states them.
    assert (sum(map(len, found.train.words)), sum(map(len, found.test.words))) == (211727, 47377)
    assert sum(len(find_segments(tags)) for tags in found.train.tags) == 106978
    assert sum(len(find_segments(tags)) for tags in found.test.tags) == 23852
    assert found.train.words[0][:3] == ["Confidence", "in", "the"]
    for part in (found.train, found.test):
        assert [*map(len, part.words)] == [*map(len, part.tags)] == [*map(len, part.pos)]
    perfect = segment_scores(found.test.tags, found.test.tags)
    assert (perfect.f1, perfect.accuracy, len(perfect.by_label)) == (1, 1, 10)


@pytest.mark.data
def test_umass_citation_facts(data):
    found, facts = load_umass_citations(data), find_set("umass_citation").facts
    parts = {"training": found.train, "dev": found.dev, "testing": found.test}
    for name, part in parts.items():
        assert len(part) == facts[name]
        # The nested form of the same set, tags taken out, is the same words.
        with gzip.open(data / "umass_citation" / f"{name}.docs.gz", "rt", encoding="utf-8") as file:
            nested = [re.sub(r"</?[a-z_-]+>", " ", line).split() for line in file if line.strip()]
        assert part.words == nested
    tags = {tag for part in parts.values() for tags in part.tags for tag in tags}
    assert len({tag.partition("-")[2] for tag in tags - {"O"}}) == facts["labels"] == 37
    for tags, paths in zip(found.train.tags, found.train.paths, strict=True):
        for tag, path in zip(tags, paths, strict=True):
            assert tag == "O" or path.rpartition("/")[2] == tag[2:]


@pytest.mark.data
def test_cora_ie_facts(data):
    found, facts = load_cora_ie(data), find_set("cora_ie").facts
    assert (len(found), sum(map(len, found.words))) == (facts["references"], facts["tokens"]) == (500, 11609)
    labels = {label for tags in found.tags for _, _, label in find_segments(tags)}
    assert len(labels) == facts["fields"] == 13


@pytest.mark.data
def test_words_to_matrix(data):
    part = load_umass_citations(data).test
    vectorizer = SequenceVectorizer(min_count=2)
    matrix, ptr = vectorizer.fit_transform_stacked(token_features(words) for words in part.words[:50])
    assert matrix.shape == (sum(map(len, part.words[:50])), len(vectorizer.vocabulary_))
    assert ptr[-1] == matrix.shape[0]
    assert set(matrix.data) == {1.0}
