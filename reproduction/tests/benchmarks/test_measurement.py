import os
import sys

import pytest

from intarsia.exceptions import IntarsiaError
from intarsia_reproduction.benchmarks.measurement import PEAK_BYTES, fastest_in_turns, in_fresh_process, one_processor


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not pin processes")
def test_one_processor_pins_and_restores():
    before = os.sched_getaffinity(0)
    with one_processor():
        assert len(os.sched_getaffinity(0)) == 1
        assert in_fresh_process("import json, os; print(json.dumps({'n': len(os.sched_getaffinity(0))}))") == {"n": 1}
    assert os.sched_getaffinity(0) == before


def test_programs_take_turns():
    calls = []

    def timer(name):
        return lambda: calls.append(name) or float(len(calls))

    assert fastest_in_turns({"a": timer("a"), "b": timer("b")}, repeats=2) == {"a": 3.0, "b": 4.0}
    assert calls == ["a", "b"] * 3  # one warm-up each, then turns


@pytest.mark.skipif(sys.platform != "linux", reason="other systems may include the peak of the parent process")
def test_peak_of_a_fresh_process_excludes_the_parent():
    memory = b"x" * 400_000_000
    assert 0 < in_fresh_process(f"import json; print(json.dumps({PEAK_BYTES}))") < len(memory)


def test_a_process_that_fails_says_why():
    with pytest.raises(IntarsiaError, match="no luck"):
        in_fresh_process("raise SystemExit('no luck')")


def test_short_runs_are_repeated_at_most_ten_times_as_often():
    turns = []
    fastest_in_turns({"a": lambda: turns.append(1) or 1.0}, repeats=2, at_least=1000.0)
    assert len(turns) == 1 + 10 * 2
