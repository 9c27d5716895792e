"""Feature templates: each setting adds its features and no others."""

from __future__ import annotations

import pytest

from intarsia._files.settings_json import settings_from_json, settings_to_json
from intarsia.exceptions import InvalidInputError
from intarsia.sequences.parsing import TokenFeatures
from intarsia.sequences.parsing.token_features import FEATURES

NOTHING = {
    "word": False,
    "lower": False,
    "prefixes": (),
    "suffixes": (),
    "length": False,
    "shape": False,
    "digits": False,
    "punctuation": False,
    "window": 0,
    "bigrams": False,
    "position": 0,
}


@pytest.mark.parametrize(
    ("settings", "text", "token", "features"),
    [
        ({}, "Main", 0, []),
        ({"word": True}, "Main", 0, ["word=Main"]),
        ({"lower": True}, "Main", 0, ["lower=main"]),
        ({"prefixes": (1, 4)}, "Main", 0, ["prefix=m"]),
        ({"suffixes": (2,)}, "Main", 0, ["suffix=in"]),
        ({"shape": True}, "McKay12", 0, ["shape=XxXxd"]),
        ({"digits": True}, "60601", 0, ["digits=5"]),
        ({"digits": True, "word": True, "suffixes": (1,)}, "60601", 0, ["digits=5"]),
        ({"word": True}, "60601", 0, ["word=60601"]),
        ({"length": True}, "Main", 0, ["length=4"]),
        ({"digits": True}, "5th", 0, ["some_digits"]),
        ({"punctuation": True}, ",", 0, ["punctuation"]),
        ({"position": 2}, "a b c d e", 0, ["start=0", "end=2"]),
        ({"position": 2}, "a b c d e", 4, ["start=2", "end=0"]),
        ({"bigrams": True}, "A b C", 1, ["-1|0=a|b", "0|1=b|c"]),
        ({"lower": True, "window": 1}, "a b c d", 1, ["lower=b", "-1:lower=a", "1:lower=c"]),
        ({"lower": True, "window": 2}, "a b c d", 0, ["lower=a", "1:lower=b", "2:lower=c"]),
    ],
)
def test_each_setting_adds_its_features(settings, text, token, features):
    assert TokenFeatures(**{**NOTHING, **settings}).of(text)[token] == ["bias", *features]


def test_punctuation_after_a_word_is_a_feature_of_its_own():
    features = TokenFeatures(**{**NOTHING, "punctuation": True})
    assert features.of("St.,", "usaddress")[0] == ["bias", "ends_in=,"]
    assert TokenFeatures(**{**NOTHING, "lower": True}).of("St.,", "usaddress")[0] == ["bias", "lower=st"]


def test_word_lists_match_phrases_and_the_longest_wins():
    lists = {"city": ["York", "New York", "new york city"], "state": ["New York"]}
    features = TokenFeatures(**NOTHING).of("in New York, York", gazetteers=lists)
    assert [row[1:] for row in features] == [
        [],
        ["list=B-city", "list=B-state"],
        ["list=I-city", "list=I-state"],
        [],
        ["list=B-city"],
    ]
    with_punctuation = TokenFeatures(**NOTHING).of("New York, NY", "usaddress", {"city": ["New York"]})
    assert [row[1:] for row in with_punctuation] == [["list=B-city"], ["list=I-city"], []]


def test_features_of_word_lists_in_the_window():
    features = TokenFeatures(**{**NOTHING, "window": 1}).of("in Rome", gazetteers={"city": ["rome"]})
    assert features[0] == ["bias", "1:list=B-city"]


def test_no_tokens_no_features():
    assert TokenFeatures().of("") == []


def test_settings_survive_json():
    features = TokenFeatures(window=1, prefixes=(2,))
    back = settings_from_json(settings_to_json({"features": features}), {"features": FEATURES})["features"]
    assert back.of("12 Main St.") == features.of("12 Main St.")


@pytest.mark.parametrize(
    ("settings", "gazetteers", "message"),
    [
        ({"window": -1}, None, "window must be"),
        ({"prefixes": (0,)}, None, "prefixes must be"),
        ({}, ["a"], "gazetteers must be a dict"),
        ({}, {"a": "Rome"}, r"gazetteers\['a'\] must be a list of strings"),
        ({}, {"a": [1]}, r"gazetteers\['a'\] must contain strings, got 1"),
    ],
)
def test_invalid_settings(settings, gazetteers, message):
    with pytest.raises(InvalidInputError, match=message):
        TokenFeatures(**settings).of("a", gazetteers=gazetteers)
