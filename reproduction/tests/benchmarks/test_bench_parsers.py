"""Rows of the comparison with usaddress and probablepeople on few strings; the measured seconds are not checked."""

from __future__ import annotations

import pytest
from reproduction.tests.benchmarks.bench_contract import check

from intarsia.exceptions import MissingDataError
from intarsia.sequences import LabelledText
from intarsia_reproduction.benchmarks import bench_parsers as bench

STREETS, CITIES = ["Oak Rd", "Elm St", "Bay St"], ["Rome", "Oslo"]


@pytest.fixture
def small(monkeypatch):
    examples = [
        LabelledText(
            f"{n} {street}, {city}",
            [(0, 2, "AddressNumber"), (3, 9, "StreetName"), (11, 15, "PlaceName")],
        )
        for n, street, city in zip(range(10, 40), 10 * STREETS, 15 * CITIES, strict=True)
    ]
    monkeypatch.setattr(bench, "read_task", lambda file: (examples[6:], examples[:6]))
    monkeypatch.setattr(bench, "_TASKS", (bench._Task("addresses", "usaddress", "none", ("PlaceName",)),))
    monkeypatch.setattr(bench, "_BOOTSTRAPS", 20)


class FakePeer:
    """Peer that labels every token as a street name."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def ask(self, do, **arguments):
        texts = arguments.get("texts", [])
        answers = {
            "load": {"version": "usaddress 0.0"},
            "features": {
                "tokens": [text.split() for text in texts],
                "features": [[[f"word={word}"] for word in text.split()] for text in texts],
            },
            "train": {"seconds": 1.0, "bytes": 10},
            "parse": {"labels": [["StreetName"] * len(text.split()) for text in texts]},
            "seconds": {"seconds": 0.5},
            "repeats": {"n": 2},
            "start": {"seconds": 0.1, "bytes": 1000},
        }
        return answers[do]


@pytest.mark.parametrize("is_installed", [True, False])
def test_rows(small, monkeypatch, is_installed):
    monkeypatch.setattr(bench, "find_peer", lambda name: FakePeer() if is_installed else None)
    rows = bench.bench_parsers(1)
    check(rows)
    assert len(rows) == (6 if is_installed else 5)
    trained = [row for row in rows if "training" in row["workload"]]
    assert all(row["ours_quality"] == 1.0 for row in trained)
    assert [row["peer_quality"] for row in trained] == ([0.0, 0.0] if is_installed else [None])
    ruled = rows[-1]
    assert ruled["n_repeated"] == 0
    assert ruled["n_errors_of_peer"] == (2 if is_installed else None)


def test_files_of_the_task_are_split(data):
    train, test = bench.read_task("usaddress/labeled.xml.gz")
    assert (len(train), len(test)) == (1210, 303)
    with pytest.raises(MissingDataError, match=r"nothing.xml is missing. Download"):
        bench.read_task("usaddress/nothing.xml")
