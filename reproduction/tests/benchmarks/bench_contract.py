"""Checks that every row of every benchmark must pass."""

import pytest

from intarsia_reproduction.benchmarks.measurement import check_row

CONTRACT = {"workload", "ours_seconds", "peer", "peer_seconds", "ratio", "ours_quality", "peer_quality"}


def check(rows):
    for row in rows:
        assert row.keys() >= CONTRACT
        check_row(row)
        assert row["ours_seconds"] > 0
        if row["peer_seconds"] is None:
            assert row["ratio"] is None
        else:
            assert row["ratio"] == pytest.approx(row["peer_seconds"] / row["ours_seconds"])
