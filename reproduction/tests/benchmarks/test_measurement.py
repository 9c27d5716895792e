import os
import sys

import pytest

from intarsia.exceptions import IntarsiaError
from intarsia_reproduction.benchmarks.measurement import PEAK_BYTES, fastest_in_turns, in_fresh_process, one_processor


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not pin processes")
def test_one_processor_is_held_and_given_back():
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
    assert calls == ["a", "b"] * 3  # a warm-up each, then in turns


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the maximum may be handed on")
def test_a_fresh_process_is_not_charged_with_the_memory_of_this_one():
    held = b"x" * 400_000_000
    assert 0 < in_fresh_process(f"import json; print(json.dumps({PEAK_BYTES}))") < len(held)


def test_a_process_that_fails_says_why():
    with pytest.raises(IntarsiaError, match="no luck"):
        in_fresh_process("raise SystemExit('no luck')")


def test_short_runs_are_repeated_more_often_but_not_for_ever():
    turns = []
    fastest_in_turns({"a": lambda: turns.append(1) or 1.0}, repeats=2, at_least=1000.0)
    assert len(turns) == 1 + 10 * 2
