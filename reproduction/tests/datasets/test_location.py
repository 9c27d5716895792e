import re
import sys
from pathlib import Path

import pytest

from intarsia.exceptions import IntarsiaError, InvalidInputError, MissingDataError
from intarsia_reproduction.datasets import (
    cache_folder,
    data_folders,
    find_set,
    load_backgrounds,
    load_conll2000,
    load_cora_citations,
    load_cora_ie,
    load_denoising,
    load_epinions,
    load_febrl,
    load_horses,
    load_linked_documents,
    load_litbank,
    load_ocr_letters,
    load_olivetti_faces,
    load_simple_acquaintances,
    load_snakes,
    load_umass_citations,
    load_woodcock,
    locate,
    require,
    set_names,
)

LOADERS = {
    "denoising": load_denoising,
    "horses": load_horses,
    "horses_32": lambda data=None: load_horses(32, data),
    "backgrounds": load_backgrounds,
    "ocr_letters": load_ocr_letters,
    "olivetti_faces": load_olivetti_faces,
    "snakes": load_snakes,
    "umass_citation": load_umass_citations,
    "cora_ie": load_cora_ie,
    "conll2000": load_conll2000,
    "epinions": load_epinions,
    "cora_topics": lambda data=None: load_linked_documents("cora", data),
    "citeseer_topics": lambda data=None: load_linked_documents("citeseer", data),
    "simple_acquaintances": load_simple_acquaintances,
    "litbank": load_litbank,
    "cora_citations": load_cora_citations,
    "febrl": lambda data=None: load_febrl(1, data),
    "woodcock": load_woodcock,
}


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Return three empty folders: for the argument, the environment variable and the cache."""
    argument, environment, home = (tmp_path / name for name in ("argument", "environment", "home"))
    cache = home / "intarsia"
    for folder in (argument, environment, cache):
        folder.mkdir(parents=True)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.setenv("INTARSIA_DATA", str(environment))
    return argument, environment, cache


def put(folder, *files):
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()


# ---------------------------------------------------------------- order of the folders


def test_argument_then_environment_then_cache(places):
    argument, environment, cache = places
    assert locate("snakes") is None
    put(cache, "snakes.npz")
    assert locate("snakes", argument) == cache
    assert locate("snakes") == cache
    put(environment, "snakes.npz")
    assert locate("snakes") == environment
    assert locate("snakes", argument) == cache  # the argument replaces the environment variable
    put(argument, "snakes.npz")
    assert locate("snakes", str(argument)) == argument
    assert require("snakes", argument) == [argument / "snakes.npz"]


def test_without_environment_only_the_cache(places, monkeypatch):
    monkeypatch.delenv("INTARSIA_DATA")
    assert data_folders() == [places[2]]
    monkeypatch.setenv("INTARSIA_DATA", "")
    assert data_folders() == [places[2]]


def test_all_files_must_be_in_one_folder(places):
    argument, _, cache = places
    put(argument, "conll2000/train.txt.gz")
    put(cache, "conll2000/test.txt.gz")
    assert locate("conll2000", argument) is None
    with pytest.raises(MissingDataError, match=re.escape(f"no conll2000/test.txt.gz in {argument}")):
        require("conll2000", argument)
    put(cache, "conll2000/train.txt.gz")
    assert locate("conll2000", argument) == cache


def test_folder_with_the_name_of_a_file_is_ignored(places):
    (places[0] / "snakes.npz").mkdir()
    assert locate("snakes", places[0]) is None


def test_home_is_expanded(places, monkeypatch):
    monkeypatch.setenv("HOME", str(places[0].parent))
    assert data_folders("~/argument")[0] == places[0]


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/intarsia"),
        ("linux", {"XDG_CACHE_HOME": ""}, "/h/.cache/intarsia"),
        ("darwin", {"XDG_CACHE_HOME": "/x"}, "/h/Library/Caches/intarsia"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/intarsia"),
        ("win32", {"LOCALAPPDATA": ""}, "/h/AppData/Local/intarsia"),
    ],
)
def test_cache_of_each_system(monkeypatch, platform, variables, expected):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("/h"))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("name", sorted(LOADERS))
def test_error_of_a_missing_set_names_source_and_folders(places, name):
    argument, _, cache = places
    with pytest.raises(MissingDataError) as caught:
        LOADERS[name](data=argument)
    message, entry = str(caught.value), find_set(name)
    for text in (name, entry.description, entry.publisher, entry.home, entry.files[0], str(argument), str(cache)):
        assert text in message
    assert "\n" not in message
    assert isinstance(caught.value, IntarsiaError)
    assert isinstance(caught.value, FileNotFoundError)


def test_missing_folder_raises(places, monkeypatch):
    with pytest.raises(InvalidInputError, match=r"data='.*nowhere' is not a folder"):
        load_snakes(places[0] / "nowhere")
    monkeypatch.setenv("INTARSIA_DATA", "/nowhere/at/all")
    with pytest.raises(InvalidInputError, match=r"\$INTARSIA_DATA='/nowhere/at/all' is not a folder"):
        load_snakes()


def test_unknown_name():
    with pytest.raises(InvalidInputError, match="Did you mean 'horses'"):
        find_set("horse")


# ---------------------------------------------------------------- catalogue


def test_catalogue_and_loaders_agree():
    assert {name for name in set_names() if find_set(name).loader} == set(LOADERS)
    import intarsia_reproduction.datasets

    for name in LOADERS:
        assert callable(getattr(intarsia_reproduction.datasets, find_set(name).loader))


def test_entries_are_complete_and_files_belong_to_one_set():
    files = [file for name in set_names() for file in find_set(name).files]
    assert len(files) == len(set(files))
    for name in set_names():
        entry = find_set(name)
        assert entry.name == name
        assert entry.files
        assert entry.description
        assert entry.publisher
        assert re.fullmatch(r"https?://[^\s]+", entry.home)


@pytest.mark.data
def test_every_set_is_in_the_data_folder(data):
    assert [name for name in set_names() if locate(name, data) != data] == []
