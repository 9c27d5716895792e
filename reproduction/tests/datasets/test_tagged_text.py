"""Loaders of tagged texts, tested on small files and on the published data sets."""

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
    data_set = load_conll2000(tmp_path)
    assert data_set.train.words == [["#", "London"], ["."]]
    assert data_set.train.pos == [["#", "JJ"], ["."]]
    assert data_set.train.tags == [["O", "B-NP"], ["O"]]
    assert (data_set.test.words, data_set.dev, data_set.train.paths, len(data_set.train)) == (
        [["shares"]],
        None,
        None,
        2,
    )


def test_citations(tmp_path):
    parts = {"training": "A", "dev": "B", "testing": "C"}
    files = {f"umass_citation/{part}.tsv.gz": f"{word} x\tB-title\ttitle\n" for part, word in parts.items()}
    put(tmp_path, files | {f"umass_citation/{part}.docs.gz": "" for part in parts})
    data_set = load_umass_citations(tmp_path)
    assert [part.words for part in (data_set.train, data_set.dev, data_set.test)] == [[["A x"]], [["B x"]], [["C x"]]]
    assert (data_set.test.tags, data_set.test.paths, data_set.test.pos) == ([["B-title"]], [["title"]], None)


def test_references(tmp_path):
    put(tmp_path, {"cora_ie/cora_ie.tsv.gz": "A.\tB-author\n", "cora_ie/tagged_references.txt.gz": ""})
    references = load_cora_ie(tmp_path)
    assert (references.words, references.tags, references.pos) == ([["A."]], [["B-author"]], None)


def test_missing_and_damaged(tmp_path):
    with pytest.raises(MissingDataError, match="CoNLL-2000"):
        load_conll2000(tmp_path)
    put(tmp_path, {"conll2000/train.txt.gz": "a A\n", "conll2000/test.txt.gz": "a A O\n"})
    with pytest.raises(FileFormatError, match=r"train.txt.gz: 2 columns, expected 3 \(words, pos, tags\)"):
        load_conll2000(tmp_path)


@pytest.mark.data
def test_conll2000_facts(data):
    data_set, facts = load_conll2000(data), find_set("conll2000").facts
    assert (len(data_set.train), len(data_set.test)) == (facts["train"], facts["test"]) == (8936, 2012)
    # Numbers of tokens and chunks that the shared task states.
    assert (sum(map(len, data_set.train.words)), sum(map(len, data_set.test.words))) == (211727, 47377)
    assert sum(len(find_segments(tags)) for tags in data_set.train.tags) == 106978
    assert sum(len(find_segments(tags)) for tags in data_set.test.tags) == 23852
    assert data_set.train.words[0][:3] == ["Confidence", "in", "the"]
    for part in (data_set.train, data_set.test):
        assert [*map(len, part.words)] == [*map(len, part.tags)] == [*map(len, part.pos)]
    perfect = segment_scores(data_set.test.tags, data_set.test.tags)
    assert (perfect.f1, perfect.accuracy, len(perfect.by_label)) == (1, 1, 10)


@pytest.mark.data
def test_umass_citation_facts(data):
    data_set, facts = load_umass_citations(data), find_set("umass_citation").facts
    parts = {"training": data_set.train, "dev": data_set.dev, "testing": data_set.test}
    for name, part in parts.items():
        assert len(part) == facts[name]
        # The nested format without its tags has the same words.
        with gzip.open(data / "umass_citation" / f"{name}.docs.gz", "rt", encoding="utf-8") as file:
            nested = [re.sub(r"</?[a-z_-]+>", " ", line).split() for line in file if line.strip()]
        assert part.words == nested
    tags = {tag for part in parts.values() for tags in part.tags for tag in tags}
    assert len({tag.partition("-")[2] for tag in tags - {"O"}}) == facts["labels"] == 37
    for tags, paths in zip(data_set.train.tags, data_set.train.paths, strict=True):
        for tag, path in zip(tags, paths, strict=True):
            assert tag == "O" or path.rpartition("/")[2] == tag[2:]


@pytest.mark.data
def test_cora_ie_facts(data):
    references, facts = load_cora_ie(data), find_set("cora_ie").facts
    assert (len(references), sum(map(len, references.words))) == (facts["references"], facts["tokens"]) == (500, 11609)
    labels = {label for tags in references.tags for _, _, label in find_segments(tags)}
    assert len(labels) == facts["fields"] == 13


@pytest.mark.data
def test_words_to_matrix(data):
    part = load_umass_citations(data).test
    vectorizer = SequenceVectorizer(min_count=2)
    matrix, ptr = vectorizer.fit_transform_stacked(token_features(words) for words in part.words[:50])
    assert matrix.shape == (sum(map(len, part.words[:50])), len(vectorizer.vocabulary_))
    assert ptr[-1] == matrix.shape[0]
    assert set(matrix.data) == {1.0}
