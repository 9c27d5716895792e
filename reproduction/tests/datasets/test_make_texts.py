"""Scripts that convert texts and relations of the published layout, tested by reading their output with our loaders."""

from __future__ import annotations

import gzip
import json

import pytest

from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.datasets import (
    load_cora_ie,
    load_epinions,
    load_linked_documents,
    load_litbank,
    load_umass_citations,
)
from intarsia_reproduction.datasets.make.copies import make_copies
from intarsia_reproduction.datasets.make.cora_ie import make_cora_ie
from intarsia_reproduction.datasets.make.litbank import make_litbank
from intarsia_reproduction.datasets.make.umass_citation import make_umass_citation


def text_of(path):
    return gzip.decompress(path.read_bytes()).decode("utf-8")


def test_umass_citation(tmp_path):
    first = "<authors> <person> <person-last> Doe , </person-last> </person> and </authors> <title> On x </title> 7 \n"
    second = "<venue> <thesis> B.A. </thesis><institution> MIT </institution> <date> 1999 </venue> see"
    (tmp_path / "training.docs").write_text(first + second)
    (tmp_path / "dev.docs.gz").write_bytes(gzip.compress(first.encode()))
    (tmp_path / "testing.docs").write_text(second + "\n")
    make_umass_citation(tmp_path, tmp_path / "ours")
    references = load_umass_citations(tmp_path / "ours")
    assert references.train.words == [["Doe", ",", "and", "On", "x", "7"], ["B.A.", "MIT", "1999", "see"]]
    assert references.train.tags[0] == ["B-person-last", "I-person-last", "B-authors", "B-title", "I-title", "O"]
    assert references.dev.paths[0][:3] == ["authors/person/person-last"] * 2 + ["authors"]
    assert references.test.paths == [["venue/thesis", "venue/institution", "venue/date", "O"]]
    assert text_of(tmp_path / "ours/umass_citation/training.docs.gz") == first + second
    (tmp_path / "testing.docs").write_text("no fields\n")
    with pytest.raises(InvalidInputError, match=r"testing\.docs has no reference with fields"):
        make_umass_citation(tmp_path, tmp_path / "ours")
    (tmp_path / "testing.docs").unlink()
    with pytest.raises(InvalidInputError, match=r"testing\.docs is missing"):
        make_umass_citation(tmp_path, tmp_path / "ours")


def test_published_umass_citation_gives_our_tables(data, tmp_path):
    make_umass_citation(data / "umass_citation", tmp_path)
    for part in ("training", "dev", "testing"):
        name = f"umass_citation/{part}.tsv.gz"
        assert text_of(tmp_path / name) == text_of(data / name)


def test_cora_ie(tmp_path):
    original = tmp_path / "tagged_references.txt"
    references = "<ref><author> A. Cau. </author> <title> On x. </title>\n</ref>\n<ref><pages> 3-4 </pages> .\n</ref>\n"
    original.write_text(f'<?xml version="1.0"?>\n<data>\n{references}</data>')
    make_cora_ie(original, tmp_path / "ours")
    sequences = load_cora_ie(tmp_path / "ours")
    assert sequences.words == [["A.", "Cau.", "On", "x."], ["3-4", "."]]
    assert sequences.tags == [["B-author", "I-author", "B-title", "I-title"], ["B-pages", "O"]]
    original.write_text("<data>\n</data>")
    with pytest.raises(InvalidInputError, match="has no reference <ref>"):
        make_cora_ie(original, tmp_path / "ours")


def test_published_cora_ie_gives_our_table(data, tmp_path):
    make_cora_ie(data / "cora_ie" / "tagged_references.txt", tmp_path)
    assert text_of(tmp_path / "cora_ie/cora_ie.tsv.gz") == text_of(data / "cora_ie/cora_ie.tsv.gz")


def write_book(folder, name, sentences, mentions):
    """Write a book in the two formats of LitBank; mentions have the format of our file."""
    marks = {}
    for first, start, last, end, entity, *_ in mentions:
        if (first, start) == (last, end):
            marks.setdefault((first, start), []).append(f"({entity})")
        else:
            marks.setdefault((first, start), []).append(f"({entity}")
            marks.setdefault((last, end), []).append(f"{entity})")
    lines = [f"#begin document ({name}); part 0"]
    for i, words in enumerate(sentences):
        for j, word in enumerate(words):
            lines.append("\t".join([name, "0", str(j), word, *"________", "|".join(marks.get((i, j), []))]))
        lines.append("")
    for part in ("conll", "tsv"):
        (folder / part).mkdir(exist_ok=True)
    (folder / "conll" / f"{name}.conll").write_text("\n".join([*lines, "#end document", ""]), encoding="utf-8")
    rows = [
        ["MENTION", f"T{k}", *map(str, mention[:4]), "text", mention[6], mention[5]]
        for k, mention in enumerate(reversed(mentions))
    ]
    rows.append(["COREF", "T0", "MARY_LENNOX-0"])
    text = "".join("\t".join(row) + "\n" for row in rows)
    (folder / "tsv" / f"{name}.ann").write_text(text, encoding="utf-8")


def test_litbank(tmp_path):
    sentences = [["Her", "uncle", "'s", "house", "."], ["She", "saw", "“", "Mary", "Lennox"]]
    mentions = [
        [0, 0, 0, 3, 7, "NOM", "FAC"],
        [0, 0, 0, 1, 5, "NOM", "PER"],
        [0, 0, 0, 0, 2, "PRON", "PER"],
        [1, 0, 1, 0, 2, "PRON", "PER"],
        [1, 3, 1, 4, 12, "PROP", "PER"],
    ]
    write_book(tmp_path, "113_garden_brat", sentences, mentions)
    make_litbank(tmp_path, tmp_path / "ours")
    (text,) = load_litbank(tmp_path / "ours")
    assert text.sentences == sentences
    assert [(m.sentence, m.start, m.end, m.entity, m.kind) for m in text.mentions] == [
        (first, start, end, entity, kind) for first, start, _, end, entity, kind, _ in mentions
    ]
    assert text.words(text.mentions[-1]) == ["Mary", "Lennox"]
    annotations = tmp_path / "tsv" / "113_garden_brat.ann"
    annotations.write_text("".join(annotations.read_text(encoding="utf-8").splitlines(keepends=True)[1:]))
    with pytest.raises(InvalidInputError, match=r"the mention \(1, 3, 1, 4\) is missing from 113_garden_brat\.ann"):
        make_litbank(tmp_path, tmp_path / "ours")
    conll = tmp_path / "conll" / "113_garden_brat.conll"
    conll.write_text(conll.read_text(encoding="utf-8").replace("(12", ""), encoding="utf-8")
    with pytest.raises(InvalidInputError, match="a mention of entity 12 ends but never starts"):
        make_litbank(tmp_path, tmp_path / "ours")


def test_published_litbank_gives_our_file(data, tmp_path):
    stored = text_of(data / "litbank/litbank_coref.jsonl.gz").splitlines()[:5]
    for line in stored:
        book = json.loads(line)
        write_book(tmp_path, book["doc"], book["sentences"], book["mentions"])
    make_litbank(tmp_path, tmp_path)
    assert text_of(tmp_path / "litbank/litbank_coref.jsonl.gz").splitlines() == stored


def test_trust_and_topics(tmp_path):
    for folder in ("epinions", "cora", "citeseer"):
        (tmp_path / folder).mkdir()
    (tmp_path / "epinions/trusts.txt").write_text("1\t3\t1\n2\t1\t0\n")
    (tmp_path / "epinions/knows.txt").write_text("1\t3\t1\n2\t1\t1\n")
    for name in ("cora", "citeseer"):
        (tmp_path / name / "labels.txt").write_text("1\tTheory\n2\tNeural_Networks")
        files = {
            "ids": "100\t2\n200\t1\n",
            "labels": "1\t2\n2\t1\n",
            "links": "1\t2\n",
            "words": "1\t2:1 3:1 \n2\t1:1 \n",
        }
        for end, text in files.items():
            (tmp_path / name / f"{name}.{end}").write_text(text)
    make_copies(tmp_path, tmp_path / "ours")
    network = load_epinions(tmp_path / "ours")
    assert (network.pairs.tolist(), network.trust.tolist()) == ([[0, 2], [1, 0]], [True, False])
    for name in ("cora", "citeseer"):
        copied = tmp_path / "ours/psl_uai13" / name
        assert (copied / "labels.txt").read_text() == "1\tTheory\n2\tNeural_Networks"
        assert text_of(copied / f"{name}.links.gz") == "1\t2\n"
        papers = load_linked_documents(name, tmp_path / "ours")
        assert papers.words.toarray().tolist() == [[0, 1, 1], [1, 0, 0]]
        assert papers.links.tolist() == [[0, 1]]
        assert [papers.topic_names[k] for k in papers.topic] == ["Neural_Networks", "Theory"]
        assert papers.ids == ["200", "100"]


@pytest.mark.parametrize("damage", [lambda packed: packed[:-9], lambda packed: packed[:12] + b"\xff" * 9 + packed[21:]])
def test_damaged_file_is_named_in_the_error(tmp_path, damage):
    packed = gzip.compress(b"word B-NP\n" * 1000)
    (tmp_path / "train.txt.gz").write_bytes(damage(packed))
    with pytest.raises(InvalidInputError, match=r"train\.txt\.gz is a damaged gzip file"):
        make_copies(tmp_path, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
