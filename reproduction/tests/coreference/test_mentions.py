"""Properties of mentions that are computed from the words."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia_reproduction.coreference import Document, Mention, load_tales
from intarsia_reproduction.coreference import words as lexicon
from intarsia_reproduction.coreference.mentions import NOM, PRON, PROP, mention_table
from intarsia_reproduction.coreference.pair_features import NEW_FEATURES, PAIR_FEATURES, antecedent_pairs


def table_of(sentence: str, start: int, end: int, category: str | None = None):
    return mention_table(Document("a", [sentence.split()], [Mention(0, start, end, None, category)]))


@pytest.mark.parametrize(
    ("sentence", "start", "end", "kind", "number", "gender", "head"),
    [
        ("he saw Mrs. Hill", 2, 3, PROP, lexicon.SINGULAR, lexicon.FEMALE, "hill"),
        ("there the old captain stood", 1, 3, NOM, lexicon.SINGULAR, lexicon.MALE, "captain"),
        ("so they left", 1, 1, PRON, lexicon.PLURAL, 0, "they"),
        ("and the sisters of Ann left", 1, 4, NOM, lexicon.PLURAL, 0, "sisters"),
        ("there Tom and Ann went", 1, 3, PROP, lexicon.PLURAL, lexicon.FEMALE, "ann"),
        ("so his wife came", 1, 2, NOM, lexicon.SINGULAR, lexicon.FEMALE, "wife"),
        ("her father 's house burned", 0, 3, NOM, lexicon.SINGULAR, lexicon.MALE, "house"),
        ("a crowd came", 0, 1, NOM, 0, 0, "crowd"),
    ],
)
def test_agreement_and_kind(sentence, start, end, kind, number, gender, head):
    table = table_of(sentence, start, end)
    assert (table.kind[0], table.number[0], table.gender[0], table.heads[0]) == (kind, number, gender, head)


def test_category_other_than_person_is_a_thing():
    assert table_of("he saw King Hill", 2, 3, "LOC").gender[0] == lexicon.THING


def test_first_word_of_a_sentence_is_a_name_only_if_it_is_one_elsewhere():
    sentences = [["Tom", "left"], ["Rain", "fell", "on", "Tom"]]
    table = mention_table(Document("a", sentences, [Mention(0, 0, 0), Mention(1, 0, 0)]))
    assert table.kind.tolist() == [PROP, NOM]


def test_quotations_and_speakers():
    quoted = '" I am late , " said Tom , " and you know it . "'
    sentences = [quoted.split(" "), ["Ann", "smiled", "."]]
    mentions = [Mention(0, 1, 1), Mention(0, 7, 7), Mention(0, 11, 11), Mention(1, 0, 0)]
    table = mention_table(Document("a", sentences, mentions))
    assert (table.quotation >= 0).tolist() == [True, False, True, False]
    assert table.quotation_speaker.tolist() == [1, -1, 1, -1]


def test_a_quotation_that_never_closes_ends():
    sentences = [['"', "I", "left", "."], *[["She", "slept", "."]] * 15]
    table = mention_table(Document("a", sentences, [Mention(k, 1 - (k > 0), 1 - (k > 0)) for k in range(16)]))
    assert table.quotation[0] == 0
    assert (table.quotation[1:] == -1).all()


def test_annotated_speakers_are_features():
    text = Document("a", [["I", "know", "you"], ["I", "do"]], [Mention(0, 0, 0), Mention(0, 2, 2), Mention(1, 0, 0)],
                    speakers=[["A"] * 3, ["B"] * 2])  # fmt: skip
    pairs = antecedent_pairs(text, 10)
    active = {
        (int(a), int(m)): {PAIR_FEATURES[k] for k in pairs.features[[row]].indices}
        for row, (a, m) in enumerate(zip(pairs.antecedent, pairs.mention, strict=True))
    }
    assert "I and you, same annotated speaker" in active[0, 1]
    assert "first persons, other annotated speaker" in active[0, 2]
    assert "I and you, other annotated speaker" in active[1, 2]


def test_features_do_not_depend_on_later_text():
    tale = load_tales()[0]
    whole = antecedent_pairs(tale, 10)
    n = sum(mention.sentence < 4 for mention in tale.mentions)
    start = antecedent_pairs(Document("a", tale.sentences[:4], tale.mentions[:n]), 10)
    n_pairs = start.mention.size
    # The number of uses of a head counts the whole document, and speakers can follow their quotations.
    names = np.array(
        [not name.startswith(("uses of", "speaker", "first persons", "I and you")) for name in PAIR_FEATURES]
    )
    difference = abs(whole.features[:n_pairs] - start.features).toarray()[:, names]
    assert difference.max() == 0.0


def test_each_pair_has_one_distance_and_one_kind_of_each():
    pairs = antecedent_pairs(load_tales()[1], 50)
    dense = pairs.features.toarray()
    assert dense.shape[1] == len(PAIR_FEATURES) == len(set(PAIR_FEATURES))
    assert pairs.new_features.shape[1] == len(NEW_FEATURES) == len(set(NEW_FEATURES))
    n_base = len(PAIR_FEATURES) // 10
    for prefix in ("sentences apart", "mentions apart"):
        columns = [k for k, name in enumerate(PAIR_FEATURES[:n_base]) if name.startswith(prefix)]
        assert (dense[:, columns].sum(axis=1) == 1).all()
    np.testing.assert_array_equal(dense[:, :n_base], dense[:, n_base:].reshape(len(dense), 9, n_base).sum(axis=1))
