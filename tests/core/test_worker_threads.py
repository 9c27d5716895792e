import os
import pickle
import threading

import pytest
from joblib import parallel_config

from intarsia._core import worker_threads
from intarsia._core.worker_threads import cut_in_parts, run_by_workers, run_in_threads


def test_results_keep_their_order_and_threads_run_in_parallel(monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 2)
    meeting = threading.Barrier(2, timeout=30)

    def call(i):
        meeting.wait()  # raises unless two calls run at the same time
        return i

    assert run_in_threads([lambda i=i: call(i) for i in range(4)], n_jobs=2) == [0, 1, 2, 3]


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
def test_errors_of_calls_are_raised(n_jobs):
    def fail():
        raise KeyError("here")

    with pytest.raises(KeyError, match="here"):
        run_in_threads([lambda: 1, fail], n_jobs)


def test_one_worker_starts_no_thread():
    assert run_in_threads([threading.get_ident, threading.get_ident], 1) == [threading.get_ident()] * 2
    assert run_in_threads([], 2) == []


@pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)  # xdist workers are multi-threaded too
def test_joblib_backend_decides_between_threads_and_processes():
    assert run_by_workers([os.getpid] * 2, 2) == [os.getpid()] * 2
    with parallel_config("threading"):
        assert run_by_workers([os.getpid] * 2, 2) == [os.getpid()] * 2
    with parallel_config("multiprocessing"):
        assert os.getpid() not in run_by_workers([os.getpid] * 2, 2)


class PickledCalls:
    """Replacement for remote workers: calls are pickled and run on the copy."""

    def __init__(self, monkeypatch):
        self.bytes = []
        monkeypatch.setattr(worker_threads, "workers_are_apart", lambda: True)
        monkeypatch.setattr("joblib.Parallel", lambda n_jobs: self.run)

    def run(self, tasks):
        packed = [pickle.dumps(task) for task in tasks]
        self.bytes.append(sum(map(len, packed)))
        return [function(*values, **named) for function, values, named in map(pickle.loads, packed)]


def test_parts_have_about_equal_size_and_do_not_depend_on_workers():
    assert cut_in_parts(0) == [[]]
    parts = cut_in_parts(150)
    assert [i for part in parts for i in part] == list(range(150))
    assert {len(part) for part in parts} == {2, 3}
    assert len(parts) == 64
