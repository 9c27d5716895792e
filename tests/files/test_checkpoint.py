"""Checkpoints: a resumed fit equals an uninterrupted one; files of other fits raise and stay unchanged."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.learning.training_sets import noisy_grids

from intarsia._files.checkpoint import Checkpoint
from intarsia.exceptions import ConvergenceWarning, FileFormatError, InvalidInputError
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.graph import from_edges
from intarsia.inference import Status
from intarsia.learning import LBFGS, Adam, Incremental, RiskMinimizer, example
from intarsia.learning.risk import Risk
from intarsia.models import LinearScores

SETTINGS = {
    "lbfgs": {"optimizer": LBFGS(tol=1e-7)},
    "adam": {"optimizer": Adam(batch_size=2, max_iter=12, tol=1e-9)},
    "incremental": {"schedule": Incremental(n_start=2, max_iter=8), "optimizer": LBFGS(tol=1e-4)},
    "validation": {"validation_fraction": 0.3, "patience": 3, "schedule": Incremental(n_start=2, max_iter=12)},
}


def learner(name="lbfgs", path=None, **others):
    settings = {"l2": 0.7, "gradient": TruncatedGradient(n_iter=3), "checkpoint": path} | SETTINGS[name] | others
    return RiskMinimizer(**settings)


def fit(one, examples=None, start=None):
    return one.minimize(examples or noisy_grids(), "tree_reweighted", start)


class Calls:
    """Count evaluations, and raise at a given one as Ctrl-C would."""

    def __init__(self, monkeypatch, stop=None, error=KeyboardInterrupt):
        whole, self.n = Risk.__call__, 0

        def counted(risk, weights):
            self.n += 1
            if self.n == stop:
                raise error
            return whole(risk, weights)

        monkeypatch.setattr(Risk, "__call__", counted)


@pytest.mark.filterwarnings("ignore::intarsia.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("stop", [3, 9, 17])
@pytest.mark.parametrize("name", SETTINGS)
def test_resumed_fit_equals_uninterrupted_fit(name, stop, tmp_path, monkeypatch):
    start = np.linspace(-0.1, 0.1, 8)
    whole = fit(learner(name), start=start)
    with monkeypatch.context() as patch:
        Calls(patch, stop)
        broken = fit(learner(name, tmp_path / "fit"), start=start)
    assert broken.status is Status.INTERRUPTED
    with monkeypatch.context() as patch:
        again = Calls(patch)
        found = fit(learner(name, tmp_path / "fit"))
    np.testing.assert_array_equal(found.point, whole.point)
    for one in (whole, broken, found):
        np.testing.assert_array_equal(one.start, start)
    assert (found.value, found.status, found.n_iter) == (whole.value, whole.status, whole.n_iter)
    for column in whole.history:
        if column != "seconds":
            np.testing.assert_array_equal(found.history[column], whole.history[column])
    assert (np.diff(found.history["seconds"]) >= 0.0).all()
    if name == "lbfgs":  # only the interrupted iteration is evaluated again
        kept = broken.history["evaluations"][-1]
        assert again.n == whole.history["evaluations"][-1] - kept
        assert stop - kept <= 20


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_fit_resumes_after_a_kill(tmp_path):
    """The process is killed in the middle of an iteration or while the file is written."""
    path, log = tmp_path / "fit", tmp_path / "log"
    program = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.files.test_checkpoint import fit, learner
from intarsia._files.checkpoint import Checkpoint
write = Checkpoint.write
def slow(self, arrays):
    write(self, arrays)
    with open({str(log)!r}, "a") as file:
        file.write(str(int(arrays["search_n_iter"])) + "\\n")
    time.sleep(0.05)
Checkpoint.write = slow
fit(learner("lbfgs", {str(path)!r}))
"""
    process = subprocess.Popen([sys.executable, "-c", program])
    deadline = time.monotonic() + 300.0
    while time.monotonic() < deadline and process.poll() is None:
        if log.exists() and log.read_text().count("\n") >= 6:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.01)
    assert process.wait() == -signal.SIGKILL
    written = int(log.read_text().splitlines()[-1])
    with np.load(path) as file:
        kept = int(file["search_n_iter"])
    whole = fit(learner())
    assert written <= kept < whole.n_iter  # the iterations before the kill are in the file
    found = fit(learner(path=path))
    np.testing.assert_array_equal(found.point, whole.point)
    assert (found.n_iter, found.value, found.status) == (whole.n_iter, whole.value, Status.CONVERGED)


def test_finished_fits_are_read_and_limited_fits_continued(tmp_path, monkeypatch):
    path = tmp_path / "fit"
    with pytest.warns(ConvergenceWarning):
        fit(learner(path=path, optimizer=LBFGS(tol=1e-7, max_iter=4)))
    longer = fit(learner(path=path))
    np.testing.assert_array_equal(longer.point, fit(learner()).point)
    calls = Calls(monkeypatch)
    again = fit(learner(path=path, n_jobs=2))
    assert calls.n == 0
    np.testing.assert_array_equal(again.point, longer.point)
    assert again.status is Status.CONVERGED
    assert [p.name for p in tmp_path.iterdir()] == ["fit"]


@pytest.mark.filterwarnings("ignore::intarsia.exceptions.ConvergenceWarning")
def test_longer_schedule_continues_the_last_stage(tmp_path):
    schedules = [Incremental(n_start=6, max_iter=n) for n in (3, 9)]  # all six examples are in the first stage
    whole = fit(learner("incremental", schedule=schedules[1]))
    short = fit(learner("incremental", tmp_path / "fit", schedule=schedules[0]))
    longer = fit(learner("incremental", tmp_path / "fit", schedule=schedules[1]))
    assert short.n_iter == 3
    assert longer.n_iter == whole.n_iter
    np.testing.assert_array_equal(longer.point, whole.point)


def test_more_patience_continues_the_fit(tmp_path):
    examples = noisy_grids(noise=2.0)
    hasty, patient = (
        learner("validation", l2=0.0, schedule=None, optimizer=LBFGS(tol=1e-9, max_iter=40), patience=patience)
        for patience in (1, 6)
    )
    whole = fit(patient, examples)
    short = fit(hasty.set_params(checkpoint=tmp_path / "fit"), examples)
    assert short.n_iter < whole.n_iter
    longer = fit(patient.set_params(checkpoint=tmp_path / "fit"), examples)
    assert longer.n_iter == whole.n_iter
    np.testing.assert_array_equal(longer.point, whole.point)


OTHERS = {
    "l2": (lambda: learner(l2=0.8), {}, "l2 was 0.7, but now it is 0.8"),
    "sweeps": (lambda: learner(gradient=TruncatedGradient(n_iter=4)), {}, "gradient was .*n_iter=3.*n_iter=4"),
    "optimizer": (lambda: learner("adam"), {}, r"optimizer was LBFGS\(memory=10\), but now it is Adam"),
    "seed": (lambda: learner(random_state=1), {}, "random_state was 0, but now it is 1"),
    "fewer examples": (learner, {"n": 4}, "there were 6 examples, but now there are 4"),
    "features": (learner, {"noise": 1.01}, "example 0 has different features, labels or weights"),
    "weights": (learner, {"weight": 2.0}, "example 0 has different features, labels or weights"),
}


def test_permuted_data_belong_to_another_fit(tmp_path):
    """Permuted or negated features, other edges, and other weights with the same sum are different data."""
    U, y = np.arange(8.0).reshape(4, 2), [0, 1, 1, 0]

    def one(edges=((0, 1), (1, 2), (2, 3)), U=U, weights=(2.0, 1.0, 1.0, 1.0)):
        return [example(LinearScores(from_edges([2] * 4, edges), U), y, variable_weights=weights)]

    path = tmp_path / "fit"
    fit(learner(path=path, l2=0.4), one())
    star, heavy_end = ((0, 1), (0, 2), (0, 3)), (1.0, 1.0, 1.0, 2.0)
    for other in (one(U=U[::-1]), one(U=-U), one(edges=star), one(weights=heavy_end)):
        with pytest.raises(InvalidInputError, match="example 0 has different features, labels or weights"):
            fit(learner(path=path, l2=0.4), other)
    fit(learner(path=path, l2=0.4), one())


@pytest.mark.parametrize("name", OTHERS)
def test_checkpoint_of_another_fit_raises(name, tmp_path):
    path = tmp_path / "fit"
    fit(learner(path=path))
    before = path.read_bytes()
    make, data, message = OTHERS[name]
    with pytest.raises(InvalidInputError, match=f"checkpoint .* belongs to another fit: {message}"):
        fit(make().set_params(checkpoint=path), noisy_grids(**data))
    assert path.read_bytes() == before


@pytest.mark.parametrize("row", range(3))
@pytest.mark.parametrize("column", range(4))
def test_one_other_sum_of_one_example_belongs_to_another_fit(row, column, tmp_path):
    sums = np.arange(1.0, 13.0).reshape(3, 4)
    Checkpoint(tmp_path / "fit", {}, sums).write({"point": np.ones(2)})
    Checkpoint(tmp_path / "fit", {}, sums * (1.0 + 1e-9)).read()  # a rounding error
    sums[row, column] *= 1.001
    with pytest.raises(InvalidInputError, match=f"example {row} has different features, labels or weights"):
        Checkpoint(tmp_path / "fit", {}, sums).read()


def test_damaged_checkpoint_raises_and_stays_unchanged(tmp_path):
    path = tmp_path / "fit"
    fit(learner(path=path))
    good = path.read_bytes()
    np.savez(tmp_path / "other.npz", about=np.array('{"format": "something else"}'))
    with zipfile.ZipFile(tmp_path / "part.npz", "w") as file:
        file.writestr("about.npy", b"")
    spoilt = {
        "cut": good[: len(good) // 2],
        "empty": b"",
        "text": b"not a checkpoint",
        "other": (tmp_path / "other.npz").read_bytes(),
        "no array": (tmp_path / "part.npz").read_bytes(),
        "flipped": good[:60] + bytes([good[60] ^ 255]) + good[61:],
    }
    for content in spoilt.values():
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match="is damaged, or not a checkpoint"):
            fit(learner(path=path))
        assert path.read_bytes() == content
    with pytest.raises(InvalidInputError, match="there is no folder"):
        fit(learner(path=tmp_path / "none" / "fit"))
    with pytest.raises(InvalidInputError, match="is a folder"):
        fit(learner(path=tmp_path))


def test_every_flipped_byte_is_detected_or_harmless(tmp_path):
    """Flip every byte in turn: reading raises, or the byte carries no data (such as a time)."""
    arrays = {"counts": np.arange(3), "point": np.arange(4.0)}
    kept = Checkpoint(tmp_path / "fit", {"l2": "0.1"}, np.ones((1, 4)))
    kept.write(arrays)
    good = kept.path.read_bytes()
    n_refused = 0
    for i in range(len(good)):
        kept.path.write_bytes(good[:i] + bytes([good[i] ^ 255]) + good[i + 1 :])
        try:
            found = kept.read()
        except FileFormatError:
            n_refused += 1
            continue
        assert found is not None
        assert set(found) == set(arrays)
        for name in arrays:
            np.testing.assert_array_equal(found[name], arrays[name])
    assert n_refused > len(good) / 2
