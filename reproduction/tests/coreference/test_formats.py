"""Readers and writers of CoNLL-2012 and LitBank."""

from __future__ import annotations

import io

import pytest

import intarsia
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia_reproduction.coreference import (
    Document,
    Mention,
    load_tales,
    read_conll2012,
    read_litbank,
    score_documents,
    write_conll2012,
)

# A sample in the columns of CoNLL-2012, with predicate arguments, two parts and nested mentions of one entity.
SAMPLE = """#begin document (bc/show/00/show_0000); part 000
bc/show/00/show_0000   0   0   Ann    NNP  (TOP(S(NP*   -    -   -   Speaker#1   (PERSON)   (ARG0*   *   (4|(4)
bc/show/00/show_0000   0   1   's     POS            *)   -    -   -   Speaker#1   *   *)   *   -
bc/show/00/show_0000   0   2   son    NN             *)   -    -   -   Speaker#1   *   *    *   4)
bc/show/00/show_0000   0   3   .      .             *))   -    -   -   Speaker#1   *   *    *   -

bc/show/00/show_0000   0   0   I      PRP  (TOP(S(NP*)   -    -   -   Speaker#2   *   *   *   (7)
bc/show/00/show_0000   0   1   left   VBD        (VP*)   leave    01   1   Speaker#2   *   (V*)   *   -

#end document
#begin document (bc/show/00/show_0000); part 001
bc/show/00/show_0000   1   0   He     PRP  (TOP(S(NP*)   -    -   -   -   *   *   *   (0)

#end document
"""


def test_columns_of_conll_2012_are_read():
    first, second = read_conll2012(io.StringIO(SAMPLE))
    assert (first.name, first.part_number, second.part_number) == ("bc/show/00/show_0000", 0, 1)
    assert first.sentences == [["Ann", "'s", "son", "."], ["I", "left"]]
    assert [(m[:3], e) for m, e in zip(first.mentions, first.entities, strict=True)] == [
        ((0, 0, 2), 4), ((0, 0, 0), 4), ((1, 0, 0), 7),
    ]  # fmt: skip
    assert first.speakers[1] == ["Speaker#2"] * 2
    assert second.speakers is None


def test_columns_of_litbank_are_read():
    lines = ["#begin document (a_brat); part 0"]
    lines += ["\t".join(["a_brat", "0", str(k), word, *"_____", "_", "_", "_", mark])
              for k, (word, mark) in enumerate([("Miss", "(0"), ("Hill", "0)"), ("left", "_")])]  # fmt: skip
    (document,) = read_conll2012(io.StringIO("\n".join([*lines, "", "#end document"])))
    assert document.mentions == [Mention(0, 0, 1)]
    assert document.speakers is None


@pytest.mark.parametrize("suffix", [".conll", ".conll.gz"])
def test_documents_are_read_as_they_were_written(tmp_path, suffix):
    documents = [*load_tales(), *read_conll2012(io.StringIO(SAMPLE))]
    write_conll2012(tmp_path / f"all{suffix}", documents)
    again = read_conll2012(tmp_path / f"all{suffix}")
    assert len(again) == len(documents)
    for document, copy in zip(documents, again, strict=True):
        assert [list(words) for words in document.sentences] == copy.sentences
        assert [m[:3] for m in document.mentions] == [m[:3] for m in copy.mentions]
        assert copy.part_number == document.part_number
        if document.speakers is not None:
            assert document.speakers == copy.speakers
    assert score_documents(documents, again).conll == 1.0


def test_singletons_can_be_left_out():
    file = io.StringIO()
    text = Document("a", [["Ann", "saw", "her", "cat"]], [Mention(0, 0, 0), Mention(0, 2, 2), Mention(0, 2, 3)])
    write_conll2012(file, [text], [[3, 3, 1]], singletons=False)
    column = [line.split()[-1] for line in file.getvalue().splitlines()[1:5]]
    assert column == ["(0)", "-", "(0)", "-"]


def test_nothing_is_written_after_an_error(tmp_path):
    text = Document("a", [["Ann", "two words"]], [Mention(0, 0, 0)], [1])
    with pytest.raises(InvalidInputError, match=r"write_conll2012: document 'a': the word 'two words' of sentence 0"):
        write_conll2012(tmp_path / "out.conll", [text])
    assert not list(tmp_path.iterdir())
    with pytest.raises(InvalidInputError, match="there are 1 documents, but clusters of 2"):
        write_conll2012(tmp_path / "out.conll", [text], [[0], [0]])
    with pytest.raises(InvalidInputError, match=r"has no entities\. Pass clusters"):
        write_conll2012(tmp_path / "out.conll", [text.with_entities(None)])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a 0 0 Ann - (4", "line 3: a mention of entity 4 begins with word 0 of the sentence, but does not end"),
        ("a 0 0 Ann - 4)", "line 2: a mention of entity 4 ends, but none is open"),
        ("a 0 0 Ann - 4", "line 2: the last column is '4'; expected marks"),
        ("a 0 0 Ann - (x)", r"line 2: the last column is '\(x\)'"),
        ("a 0 Ann", "line 2: 3 columns; expected at least 5"),
        ("#begin document (b); part 0", "line 2: the document of line 1 has no '#end document'"),
        ("#end document\nword", "line 3: this line is in no document"),
        ("#end document\n#end document", "line 3: no document is open"),
    ],
)
def test_malformed_columns_name_the_line(line, message):
    with pytest.raises(FileFormatError, match=f"read_conll2012: input, {message}"):
        read_conll2012(io.StringIO(f"#begin document (a); part 000\n{line}\n\n#end document\n"))


def test_files_without_documents_are_refused():
    for text, message in (("", "no document"), ("#begin document (a)\n", "line 1 has no '#end document'")):
        with pytest.raises(FileFormatError, match=message):
            read_conll2012(io.StringIO(text))


BRAT_TEXT = "When Mary Lennox came , her uncle slept .\nShe left him .\n"
BRAT = (
    "T1\tPROP_PER 5 16\tMary Lennox\nT2\tMARY-0 5 16\tMary Lennox\nT3\tNOM_PER 24 33\ther uncle\n"
    "T4\tUNCLE-1 24 33\ther uncle\nT5\tPRON_PER 24 27\ther\nT6\tMARY-0 24 27\ther\nT7\tMARY-0 42 45\tShe\n"
    "T8\tUNCLE-1 51 54\thim\nR1\tcop Arg1:T1 Arg2:T7\nT9\tNOM_PER 46 50\tleft\n"
)


def test_brat_files_of_litbank_are_read(tmp_path):
    (tmp_path / "b.txt").write_text(BRAT_TEXT, encoding="utf-8")
    (tmp_path / "b.ann").write_text(BRAT, encoding="utf-8")
    (document,) = read_litbank(tmp_path)
    assert document.sentences[1] == ["She", "left", "him", "."]
    assert document.mentions == [
        Mention(0, 1, 2, "PROP", "PER"), Mention(0, 5, 6, "NOM", "PER"), Mention(0, 5, 5, "PRON", "PER"),
        Mention(1, 0, 0), Mention(1, 2, 2),
    ]  # fmt: skip
    assert document.entities == ["MARY-0", "UNCLE-1", "MARY-0", "MARY-0", "UNCLE-1"]
    assert read_litbank(tmp_path / "b.ann")[0].name == "b"


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("T1\tPROP_PER 5\tMary\n", "b.ann, line 1: expected an identifier"),
        ("T1\tPROP_PER 5 9;12 14\tMary\n", "b.ann, line 1: expected an identifier"),
        ("T1\tA-0 50 90\tMary\n", "b.ann, line 1: characters 50 to 90 are not in b.txt"),
        ("T1\tA-0 34 44\tslept . She\n", "a mention of A-0 reaches from sentence 0 to 1"),
    ],
)
def test_malformed_brat_files_name_the_line(tmp_path, annotation, message):
    (tmp_path / "b.txt").write_text(BRAT_TEXT, encoding="utf-8")
    (tmp_path / "b.ann").write_text(annotation, encoding="utf-8")
    with pytest.raises(FileFormatError, match=message):
        read_litbank(tmp_path)


def test_missing_brat_files(tmp_path):
    with pytest.raises(FileFormatError, match=r"no file ends in \.ann"):
        read_litbank(tmp_path)
    (tmp_path / "b.ann").write_text(BRAT, encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"b.txt: expected a file NAME.ann with NAME.txt beside it"):
        read_litbank(tmp_path)


def test_documents_check_their_mentions():
    words = [["Ann", "left"]]
    for mentions, message in (
        ([Mention(0, 0, 2)], "mention 0 covers words 0 to 2 of sentence 0, which has 2 words"),
        ([Mention(3, 0, 0)], "sentence 3, which has 0 words"),
        ([Mention(0, 0, 0, "NAME")], "mention 0 has kind 'NAME'"),
        ([Mention(0, 0, 0), Mention(0, 0, 0, "PROP")], "two mentions cover words 0 to 0 of sentence 0"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            Document("a", words, mentions)
    with pytest.raises(InvalidInputError, match="1 mentions, but 2 entities"):
        Document("a", words, [Mention(0, 0, 0)], [1, 2])
    with pytest.raises(InvalidInputError, match="speakers do not match"):
        Document("a", words, [], speakers=[["A"]])
    assert issubclass(InvalidInputError, intarsia.exceptions.IntarsiaError)
