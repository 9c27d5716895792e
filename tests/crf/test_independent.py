"""The independent model at the start of a fit: it resumes after an interrupt, and its checkpoint is removed."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
from tests.crf.test_crf import as_graphs, interrupt, pictures, quick

from intarsia import GraphCRF, GridCRF
from intarsia.exceptions import IntarsiaError
from intarsia.inference import Status
from intarsia.learning import risk_minimizer
from intarsia.losses import Likelihood


@pytest.mark.parametrize("phase", ["independent", "between", "proper"])
def test_an_interrupted_independent_fit_resumes(phase, tmp_path, monkeypatch):
    X, y = pictures(n=2, sizes=((3, 4),))
    path = tmp_path / "fit"
    with monkeypatch.context() as patch:
        calls = interrupt(patch, None)
        whole = GridCRF(learner=quick()).fit(X, y)
    n_start = len(calls) - int(whole.history_["evaluations"][-1])
    assert n_start > 4
    stop = {"independent": 4, "between": n_start + 1, "proper": n_start + 3}[phase]
    with monkeypatch.context() as patch:
        interrupt(patch, stop)
        broken = GridCRF(learner=quick(checkpoint=path)).fit(X, y)
    assert broken.status_ is Status.INTERRUPTED
    assert [p.name for p in tmp_path.iterdir()] == ["fit" if phase == "proper" else "fit.start"]
    with monkeypatch.context() as patch:
        again = interrupt(patch, None)
        result = GridCRF(learner=quick(checkpoint=path)).fit(X, y)
    np.testing.assert_array_equal(result.weights_, whole.weights_)
    np.testing.assert_array_equal(result.initial_weights_, whole.initial_weights_)
    # Only the interrupted iteration is evaluated again.
    assert len(calls) - (stop - 1) <= len(again) <= len(calls) - (stop - 1) + 2
    assert [p.name for p in tmp_path.iterdir()] == ["fit"]


def test_a_checkpoint_left_by_a_killed_process_is_removed(tmp_path):
    """A process that was killed in the main fit could not remove the checkpoint of the independent fit."""
    X, y = pictures(n=2, sizes=((3, 4),))
    crf = GridCRF(learner=quick(checkpoint=tmp_path / "fit")).fit(X, y)
    (tmp_path / "fit.start").write_bytes(b"left behind")
    np.testing.assert_array_equal(GridCRF(learner=crf.learner).fit(X, y).weights_, crf.weights_)
    assert [p.name for p in tmp_path.iterdir()] == ["fit"]


UNFIT = {
    "no log Z": ("gibbs", {"loss": "likelihood", "gradient": "auto"}, "needs log Z and its marginals, which Gibbs"),
    "no labelling": ("gibbs", {"loss": "saddle_point", "gradient": "auto"}, "needs the best labelling, which Gibbs"),
    "no grid": ("tree_reweighted", {"loss": "patch_pseudo_likelihood", "gradient": "auto"}, "graph has no grid_shape"),
    "of its own": (
        "tree_reweighted",
        {"loss": Likelihood(inference="junction_tree")},
        "TruncatedGradient cannot differentiate JunctionTree",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_incompatible_settings_raise_before_any_work(name, monkeypatch):
    X, y = pictures(n=2, sizes=((2, 3),))
    inference, settings, message = UNFIT[name]
    calls = interrupt(monkeypatch, None)
    with pytest.raises(IntarsiaError, match=message):
        GraphCRF(inference=inference, learner=quick(**settings)).fit(as_graphs(X), [labels.ravel() for labels in y])
    assert not calls


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_impossible_early_stopping_raises_before_any_work(share, monkeypatch):
    X, y = pictures(n=2, sizes=((2, 3),))
    calls = interrupt(monkeypatch, None)
    learner = quick(loss="contrastive_divergence", gradient="auto", optimizer="adam", validation_fraction=share)
    with pytest.raises(IntarsiaError, match="early stopping needs a loss whose lower values are better"):
        GridCRF(learner=learner).fit(X, y, validation=None if share else (X, y))
    assert not calls


@pytest.mark.parametrize("verbose", [False, True])
def test_the_start_shows_its_progress_too(verbose, monkeypatch):
    titles = []

    @contextmanager
    def progress(title, verbose):
        titles.append((title, verbose))
        yield None

    monkeypatch.setattr(risk_minimizer, "fit_progress", progress)
    X, y = pictures(n=2, sizes=((2, 3),))
    GridCRF(learner=quick(), verbose=verbose).fit(X, y)
    assert titles == [("GridCRF, single variables", verbose), ("GridCRF", verbose)]
