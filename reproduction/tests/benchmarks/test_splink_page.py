"""The blocks for Splink 5 on the page for its users run in Splink's environment, and `resolve` reads their result."""

from __future__ import annotations

import csv
import os
import re
import subprocess
from pathlib import Path

import pytest

from intarsia.datasets import make_customers
from intarsia.metrics import clustering_scores
from intarsia_reproduction.benchmarks.peers import find_peer, peer_folders

PAGE = Path(__file__).parents[3] / "docs" / "coming_from" / "splink_dedupe.md"
BLOCKS = re.findall(r"^```py\n(# [^\n]*)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)


@pytest.mark.skipif(find_peer("splink") is None, reason="the environment of Splink does not exist")
def test_blocks_for_splink_users_run(tmp_path, monkeypatch):
    blocks = dict(BLOCKS)
    records = make_customers(300, 6, typos=2.0, random_state=1)
    with open(tmp_path / "customers.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["unique_id", *records.columns])
        rows = zip(*records.columns.values(), strict=True)
        writer.writerows([name, *(value or "" for value in row)] for name, row in zip(records.ids, rows, strict=True))
    pythons = [folder / "splink" / "bin" / "python" for folder in peer_folders()]
    python = next(path for path in pythons if path.exists())
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([python, "-c", blocks["# Splink 5"]], cwd=tmp_path, env=environment, check=True)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    exec(blocks["# Intarsia, after Splink"], namespace)
    entities, certificate = namespace["entities"], namespace["certificate"]
    assert max(certificate["gap"]) < 0.05
    truth = dict(zip(records.ids, records.entity.tolist(), strict=True))
    scores = clustering_scores([truth[name] for name in entities["id"]], entities["entity"])
    assert scores.b_cubed.f1 > 0.8
