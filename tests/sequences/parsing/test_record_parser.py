"""`RecordParser`: fields of strings, probabilities against enumeration, files, scikit-learn's tools, bad input."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from tests.sequences.parsing.generated import addresses

import intarsia
from intarsia import RecordParser
from intarsia.exceptions import InvalidInputError
from intarsia.sequences import (
    LabelledText,
    TokenFeatures,
    count,
    exactly_once,
    in_order,
    needs,
    once,
    one_of,
)

TRAIN, TEST = addresses(120), addresses(60, seed=1)


@pytest.fixture(scope="module")
def parser():
    return RecordParser(l2=0.1).fit(TRAIN)


def test_fields_of_new_strings(parser):
    scores = parser.evaluate(TEST)
    assert scores.f1 > 0.97
    assert scores.exact > 0.9
    assert scores.n == len(TEST)
    assert parser.score(TEST) == scores.f1
    assert parser.fields_ == ["city", "number", "street", "unit", "zip"]


def test_texts_and_spans_are_the_same_as_labelled_texts(parser):
    texts, spans = [e.text for e in TRAIN], [list(e.spans) for e in TRAIN]
    other = RecordParser(l2=0.1).fit(texts, spans)
    assert np.array_equal(other.crf_.weights_, parser.crf_.weights_)


def test_spans_point_into_the_text(parser):
    for example in TEST[:20]:
        parse = parser.parse(example.text)
        assert parse.text == example.text
        for span in parse.spans:
            assert example.text[span.start : span.end] == span.text
            assert 0.0 < span.probability <= 1.0
        assert [(s.start, s.end, s.field) for s in parse.spans] == parser.predict([example.text])[0]


@pytest.mark.parametrize("bio", [True, False])
def test_probabilities_are_those_of_all_parses(bio):
    """All parses of a short string are enumerated: they sum to 1, and a span has the sum of those that contain it."""
    small = RecordParser(l2=1.0, bio=bio, features=TokenFeatures(window=0, prefixes=(), suffixes=())).fit(TRAIN[:15])
    n_labels = len(small.crf_.classes_)
    for text in ["Rome", "7 Oslo", "12 Main St"]:
        n = len(text.split())
        parses = small.parse(text, n_alternatives=min(n_labels**n, 9_999))
        every = [parses, *parses.alternatives]
        assert len({tuple((s.start, s.end, s.field) for s in p.spans) for p in every}) == len(every)
        assert sum(p.probability for p in every) == pytest.approx(1.0, abs=1e-9)
        for span in parses.spans:
            total = sum(
                p.probability
                for p in every
                if any((s.start, s.end, s.field) == (span.start, span.end, span.field) for s in p.spans)
            )
            assert span.probability == pytest.approx(total, abs=1e-9)


def test_alternatives_are_the_next_best(parser):
    parse = parser.parse("5 Main St Rome 12345", n_alternatives=5)
    probabilities = [parse.probability, *(other.probability for other in parse.alternatives)]
    assert probabilities == sorted(probabilities, reverse=True)
    assert len(parse.alternatives) == 5
    assert parser.parse("5 Main St", n_alternatives=0).alternatives == ()


def test_many_texts_at_once_are_the_single_parses(parser):
    texts = [e.text for e in TEST[:5]] + [""]
    for one, many in zip(map(parser.parse, texts), parser.parse_many(texts, 3), strict=True):
        assert one.spans == pytest.approx(many.spans) or [s.field for s in one.spans] == [s.field for s in many.spans]
        assert one.probability == pytest.approx(many.probability)


def test_tag_gives_a_dict_as_usaddress(parser):
    assert parser.tag("12 Oak Ave, Oslo 12345") == {"number": "12", "street": "Oak Ave", "city": "Oslo", "zip": "12345"}
    assert parser.tag("12 Oak Ave, Oslo 12345").repeated == ()


def test_repeated_fields_are_joined_and_named():
    examples = [
        LabelledText(f"{a} and {b}", [(0, 3, "name"), (8, 11, "name")]) for a in ("Ann", "Bob") for b in ("Eve", "Tom")
    ]
    tagged = RecordParser(l2=0.01).fit(examples).tag("Ann and Tom")
    assert tagged == {"name": "Ann Tom"}
    assert tagged.repeated == ("name",)


def test_neighbouring_spans_of_a_field_need_bio():
    examples = [
        LabelledText(f"{a} {b}", [(0, 3, "name"), (4, 7, "name")]) for a in ("Ann", "Bob") for b in ("Eve", "Tom")
    ]
    assert len(RecordParser(l2=0.01).fit(examples).parse("Ann Tom").spans) == 2
    assert len(RecordParser(l2=0.01, bio=False).fit(examples).parse("Ann Tom").spans) == 1


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\u200b"])
def test_a_string_without_tokens_has_an_empty_parse(parser, text):
    parse = parser.parse(text)
    assert (parse.spans, parse.probability, parse.alternatives) == ((), 1.0, ())
    assert parser.tag(text) == {}
    assert parser.predict([text]) == [[]]


def test_a_string_of_many_tokens(parser):
    text = "12 Main St, Rome 12345 " * 16_700
    parse = parser.parse(text, n_alternatives=1)
    assert len(parse.spans) > 10_000
    assert 0.0 <= parse.probability <= 1.0
    assert parser.tag(text).repeated


def test_long_strings_with_rules_and_from_a_file(parser, tmp_path):
    text = "12 Main St, Rome 12345 " * 400
    ruled = RecordParser(l2=0.1, rules=[once("zip")]).fit(TRAIN)
    parse = ruled.parse(text, n_alternatives=1)
    assert sum(span.field == "zip" for span in parse.spans) <= 1
    assert all(0.0 <= span.probability <= 1.0 for span in parse.spans)
    parser.save(tmp_path / "m.npz")
    loaded = intarsia.load(tmp_path / "m.npz").parse(text, n_alternatives=0)
    expected = parser.parse(text, n_alternatives=0)
    assert [s.field for s in loaded.spans] == [s.field for s in expected.spans]


def test_odd_strings_never_raise(parser):
    for text in ["\x00\x01", "😀" * 50, "é" * 3000, "," * 100, "a\u0301" * 30, "١٢ شارع", "O", "B-street"]:
        assert math.isfinite(parser.parse(text).probability)


@pytest.mark.parametrize("text", [None, 3, b"12 Main", ["12 Main"], "x\ud800"])
def test_invalid_texts(parser, text):
    with pytest.raises(InvalidInputError, match=r"RecordParser.parse: text (must be a string|contains)"):
        parser.parse(text)


def test_one_string_for_a_list_of_strings(parser):
    with pytest.raises(InvalidInputError, match=r"RecordParser.predict: X must be a list of strings, got a single"):
        parser.predict("12 Main St")
    with pytest.raises(InvalidInputError, match=r"RecordParser.fit: X must be a list of LabelledText"):
        RecordParser().fit("12 Main St")


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([], None, "the training set is empty"),
        ([LabelledText("a b")], None, "no string of the training set has a field"),
        ([LabelledText(" ", [(0, 1, "x")])], None, "no field covers a token"),
        (["a b"], None, r"X\[0\] is str 'a b', but y is missing"),
        (["a b"], [[(0, 5, "x")]], r"y\[0\]: span \(0, 5, 'x'\) is not inside"),
        (["a b"], [[(0, 2, "x"), (1, 3, "y")]], r"y\[0\]: .*overlap"),
        (["a b"], [[(0, 1, float("nan"))]], r"y\[0\]: the field of span"),
        (["a b"], [[(0, 1, None)]], r"y\[0\]: the field of span"),
        (["a b"], [[(0, 1, "O")]], r"y\[0\]: the field of span"),
        (["a b"], [], "y must have one list of spans for each of the 1 strings"),
    ],
)
def test_invalid_training_sets(X, y, message):
    with pytest.raises(InvalidInputError, match=f"RecordParser.fit: {message}"):
        RecordParser().fit(X, y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tokenizer": "word"}, "tokenizer='word' is not known"),
        ({"features": "words"}, "features='words' is not known"),
        ({"l2": -1.0}, "l2 must be"),
        ({"l2": "best"}, "l2 must be"),
        ({"bio": 1}, "bio must be True or False"),
        ({"rules": ["once"]}, r"rules\[0\] must be a rule"),
        ({"rules": "once"}, r"rules must be a list of rules .* got str 'once'"),
        ({"gazetteers": {"city": "Rome"}}, r"gazetteers\['city'\] must be a list"),
        ({"features": lambda words: []}, "features.. must return the features of each token, got 0"),
    ],
)
def test_invalid_settings(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        RecordParser(**settings).fit(TRAIN[:5])


def test_a_rule_with_an_unknown_field_warns():
    with pytest.warns(
        UserWarning, match=r"RecordParser.fit: once\('ZipCode'\) names the field 'ZipCode', which does not"
    ):
        RecordParser(l2=0.1, rules=[once("ZipCode")]).fit(TRAIN[:10])


def test_spans_inside_tokens_warn():
    with pytest.warns(UserWarning, match=r"1 spans begin or end inside a token .* 'x' 'Ma' in '12 Main'"):
        RecordParser(l2=0.1).fit([LabelledText("12 Main", [(0, 2, "n"), (3, 5, "x")])])


def test_word_lists_help_on_new_words():
    lists = {"city": ["Turin", "Cork", "Lyon"], "town": ["Rome", "Oslo"]}
    train = [LabelledText(f"in {city} now", [(3, 3 + len(city), "city")]) for city in ("Turin", "Cork")]
    train += [LabelledText(f"in {word} now") for word in ("Spring", "May", "June")]
    features = TokenFeatures(word=False, lower=False, prefixes=(), suffixes=(), window=0, bigrams=False)
    assert RecordParser(l2=0.1, gazetteers=lists, features=features).fit(train).tag("in Lyon now") == {"city": "Lyon"}


def test_own_feature_functions():
    parser = RecordParser(l2=0.1, features=lambda words: [{"word": word, "n": len(words)} for word in words])
    parser.fit(TRAIN)
    assert parser.tag(TRAIN[0].text) == TRAIN[0].fields()
    with pytest.raises(InvalidInputError, match="features is a function, which cannot be saved"):
        parser.save("never.npz")


def test_automatic_regularization_has_the_lowest_held_out_loss():
    parser = RecordParser(random_state=0).fit(TRAIN)
    path = parser.l2_path_
    assert parser.l2_ == path.l2 == path.values[path.mean.argmax()]
    few = RecordParser().fit(TRAIN[:5])
    assert (few.l2_, few.l2_path_) == (0.1, None)


def test_changed_settings_are_refused(parser):
    changed = pickle.loads(pickle.dumps(parser)).set_params(tokenizer="whitespace")
    with pytest.raises(InvalidInputError, match="tokenizer was changed after fit"):
        changed.parse("12 Main St")


def test_not_fitted():
    with pytest.raises(ValueError, match="not fitted"):
        RecordParser().parse("12 Main St")


# ---------------------------------------------------------------- files


def test_one_file_without_pickle(tmp_path):
    path = tmp_path / "addresses.npz"
    lists = {"city": ["Rome", "New York"]}
    features = TokenFeatures(window=1)
    parser = RecordParser(features=features, gazetteers=lists, tokenizer="usaddress").fit(TRAIN)
    parser.save(path, notes={"source": "generated"})
    back = intarsia.load(path)
    assert type(back) is RecordParser
    assert back.notes_ == {"source": "generated"}
    assert (back.fields_, back.l2_, str(back.l2_path_)) == (parser.fields_, parser.l2_, str(parser.l2_path_))
    for example in TEST[:10]:
        first, second = parser.parse(example.text), back.parse(example.text)
        assert [(s.field, s.start, s.end) for s in first.spans] == [(s.field, s.start, s.end) for s in second.spans]
        assert first.probability == pytest.approx(second.probability, abs=1e-12)
    with np.load(path, allow_pickle=False) as arrays:
        assert "model.json" in arrays.files or len(arrays.files) > 0
    assert [p.name for p in tmp_path.iterdir()] == ["addresses.npz"]


def test_load_in_another_process(parser, tmp_path):
    path = tmp_path / "addresses.npz"
    parser.save(path)
    code = f"import intarsia; print(intarsia.load({str(path)!r}).tag('12 Oak Ave, Oslo 12345'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(parser.tag("12 Oak Ave, Oslo 12345"))


# ---------------------------------------------------------------- scikit-learn


def test_tools_of_scikit_learn():
    texts, spans = [e.text for e in TRAIN[:60]], [list(e.spans) for e in TRAIN[:60]]
    estimator = RecordParser(l2=0.1, rules=(), features=TokenFeatures(window=1))
    assert clone(estimator).get_params()["features__window"] == 1
    scores = cross_val_score(estimator, texts, spans, cv=KFold(2), error_score="raise")
    assert (scores > 0.8).all()
    assert len(cross_val_predict(estimator, texts, spans, cv=KFold(2))) == len(texts)
    search = GridSearchCV(estimator, {"l2": [0.1, 30.0], "features__window": [0, 1]}, cv=KFold(2)).fit(texts, spans)
    assert search.best_params_["l2"] == 0.1


def test_a_failed_fit_changes_nothing(parser):
    weights = parser.crf_.weights_
    with pytest.raises(InvalidInputError):
        parser.fit([])
    assert parser.crf_.weights_ is weights
    assert parser.tag("12 Oak Ave, Oslo 12345")["city"] == "Oslo"


def test_a_process_that_parses_imports_no_numba(parser, tmp_path):
    path = tmp_path / "addresses.npz"
    parser.save(path)
    code = (
        f"import sys, intarsia; parser = intarsia.load({str(path)!r}); parser.parse('12 Oak Ave, Oslo 12345')\n"
        "print(sorted({'numba', 'scipy', 'sklearn', 'matplotlib', 'duckdb'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("bio", [True, False])
def test_a_loaded_parser_has_the_same_answers(bio, tmp_path):
    parser = RecordParser(l2=0.5, bio=bio).fit(TRAIN)
    parser.save(tmp_path / "m.npz")
    loaded = intarsia.load(tmp_path / "m.npz")
    for example in TEST[:15]:
        for first, second in zip(_flat(parser.parse(example.text)), _flat(loaded.parse(example.text)), strict=True):
            assert [(s.field, s.start, s.end) for s in first.spans] == [(s.field, s.start, s.end) for s in second.spans]
            assert first.probability == pytest.approx(second.probability, abs=1e-12)
            for a, b in zip(first.spans, second.spans, strict=True):
                assert a.probability == pytest.approx(b.probability, abs=1e-10)
    assert loaded.evaluate(TEST).f1 == parser.evaluate(TEST).f1
    assert np.array_equal(loaded.crf_.weights_, parser.crf_.weights_)


def _flat(parse):
    return [parse, *parse.alternatives]


# ---------------------------------------------------------------- rules


@pytest.mark.parametrize("bio", [True, False])
def test_probabilities_under_hard_rules_are_those_of_all_valid_parses(bio):
    """All valid parses of short strings are enumerated from the parser without rules, and renormalized."""
    features = TokenFeatures(window=0, prefixes=(), suffixes=())
    rules = [once("street"), in_order("number", "street"), needs("zip", "city")]
    plain = RecordParser(l2=1.0, bio=bio, features=features).fit(TRAIN[:15])
    ruled = RecordParser(l2=1.0, bio=bio, features=features, rules=rules).fit(TRAIN[:15])
    for text in ["Rome", "7 Oslo 12345", "Main St"]:
        every = _flat(plain.parse(text, n_alternatives=9_999))
        valid = [p for p in every if _satisfies(p)]
        total = sum(p.probability for p in valid)
        parse = ruled.parse(text, n_alternatives=len(valid) - 1)
        assert [p.probability for p in _flat(parse)] == pytest.approx([p.probability / total for p in valid], rel=1e-6)
        assert not any(p.violations for p in _flat(parse))
        assert [s.field for s in parse.spans] == [s.field for s in valid[0].spans]
        for span in parse.spans:
            expected = sum(p.probability for p in valid if any(_key(s) == _key(span) for s in p.spans)) / total
            assert span.probability == pytest.approx(expected, rel=1e-6)


def _key(span):
    return span.start, span.end, span.field


def _satisfies(parse):
    fields = [span.field for span in parse.spans]
    last_number = max((i for i, field in enumerate(fields) if field == "number"), default=-1)
    first_street = fields.index("street") if "street" in fields else len(fields)
    return (
        fields.count("street") <= 1
        and (last_number < first_street or "number" not in fields or "street" not in fields)
        and ("zip" not in fields or "city" in fields)
    )


def test_no_parse_repeats_a_field_that_may_occur_once(tmp_path):
    rules = [once(field) for field in ("number", "street", "city", "zip")]
    texts = [f"{a.text} {b.text}" for a, b in zip(TEST[:15], TEST[15:30], strict=True)]
    free, ruled = RecordParser(l2=0.1).fit(TRAIN), RecordParser(l2=0.1, rules=rules).fit(TRAIN)
    assert any(free.tag(text).repeated for text in texts)
    assert not any(set(ruled.tag(text).repeated) - {"unit"} for text in texts)
    ruled.save(tmp_path / "m.npz")
    loaded = intarsia.load(tmp_path / "m.npz")
    assert loaded.rules == rules
    assert [loaded.tag(text) for text in texts] == [ruled.tag(text) for text in texts]
    assert not any(parse.violations for parse in ruled.parse_many(texts, 2))


def test_contradictory_rules_are_named():
    with pytest.raises(InvalidInputError, match=r"can satisfy exactly_once\('zip'\) and count\('zip', maximum=0\)"):
        RecordParser(l2=0.1, rules=[once("city"), exactly_once("zip"), count("zip", maximum=0)]).fit(TRAIN)


def test_a_string_for_which_no_parse_is_valid_is_parsed_with_the_least_violation():
    parser = RecordParser(l2=0.1, rules=[exactly_once("number"), exactly_once("city")]).fit(TRAIN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse = parser.parse("Rome")
        assert len(parser.tag("Rome")) == 1
    assert len(parse.violations) == 1
    assert 0.0 < parse.probability < 1.0
    assert parser.parse("").violations == ()


def test_soft_rules_are_learned_and_reported():
    parser = RecordParser(l2=0.1, rules=[once("zip", soft=True)]).fit(TRAIN)
    assert parser.evaluate(TEST).f1 > 0.97
    assert parser.crf_.energies_ is not None
    assert parser.parse("12 Oak Ave, Oslo 12345").violations == ()


@pytest.mark.parametrize("tokenizer", ["words", "usaddress"])
def test_phrases_of_a_rule_are_split_as_texts(tokenizer):
    rule = one_of("city", ["Rome", "New York", "St. Louis"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parser = RecordParser(l2=0.1, rules=[rule], tokenizer=tokenizer).fit(TRAIN)
    assert parser.tag("12 Main St, new york, 12345")["city"] == "new york"
    assert parser.tag("5 Oak Rd, St. Louis").get("city") in ("St. Louis", None)
    assert parser.tag("12 Main St, Oslo 12345").get("city") is None


def test_rules_are_shown():
    rules = [once("zip"), in_order("number", "street")]
    assert repr(RecordParser(rules=rules)) == "RecordParser(rules=[once('zip'), in_order('number', 'street')])"
