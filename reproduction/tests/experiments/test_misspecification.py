"""Figures 1 and 2 with few short chains: the model against enumeration, the fits against the truth."""

import itertools

import numpy as np
import pytest

from intarsia.learning.risk import Risk
from intarsia_reproduction.experiments import misspecification as module

TINY = module.Settings(length=6, n_distributions=2, n_train=(20, 400), n_test=400)


def enumerated(chain):
    """All (x, y) and their probabilities, from the definition of the scores."""
    both = np.array(list(itertools.product((0, 1), repeat=2 * chain.length)))
    x, y = both[:, : chain.length], both[:, chain.length :]
    signs = lambda a, b: np.where(a == b, 1.0, -1.0)  # noqa: E731
    score = chain.single[np.arange(chain.length), x].sum(axis=1)
    score += signs(x[:, 1:], x[:, :-1]) @ chain.along_x + signs(y[:, 1:], y[:, :-1]) @ chain.along_y
    score += signs(x, y) @ chain.across
    p = np.exp(score)
    return x, y, p / p.sum()


def test_marginals_given_inputs_are_the_enumerated_ones():
    chain = module.RandomChain(4, seed=2)
    x, y, p = enumerated(chain)
    for given in ([0, 0, 1, 0], [1, 1, 1, 0]):
        same = (y == given).all(axis=1)
        true = p[same] @ x[same] / p[same].sum()
        np.testing.assert_allclose(chain.marginals(np.array([given]))[0], true, atol=1e-12)


def test_draws_have_the_enumerated_means():
    chain = module.RandomChain(3, seed=1)
    x, y, p = enumerated(chain)
    drawn_x, drawn_y = chain.draw(4000)
    assert np.abs(drawn_x.mean(axis=0) - p @ x).max() < 0.035  # more than four standard errors
    assert np.abs((drawn_x == drawn_y).mean(axis=0) - p @ (x == y)).max() < 0.035


@pytest.mark.parametrize("loss", list(module.LOSSES.values()))
def test_much_data_of_the_right_model_give_its_marginals(loss):
    chain = module.RandomChain(5, seed=0)
    x, y = chain.draw(4000)
    found = module.predict_chains(module.fit_chains(x, y, loss, ridge=1e-5), y[:200])
    assert np.abs(found - chain.marginals(y[:200])).max() < 0.08


def test_likelihood_fits_the_expected_statistics():
    chain = module.RandomChain(4, seed=3)
    x, y = np.roll(chain.draw(300)[0], 1, axis=1), chain.draw(300)[1]
    found = module.predict_chains(module.fit_chains(x, y, "likelihood", ridge=1e-9), y)
    # At the maximum the model's mean of every place, for either input there, is that of the data.
    for value in (0, 1):
        there = y == value
        np.testing.assert_allclose((found * there).sum(axis=0), (x * there).sum(axis=0), atol=0.05)


def test_run_gives_rows_and_figures():
    experiment = module.misspecification(quick=True)
    findings = {f"shift_{shift}": module._run(shift, TINY) for shift in (0, 1)}
    still, shifted = findings.values()
    assert still.values["true model"] == shifted.values["true model"]
    for finding in findings.values():
        assert set(finding.values) == set(experiment.tasks[0].paper)
        assert all(finding.values["true model"] - 0.03 < error < 0.5 for error in finding.values.values())
        assert finding.arrays["errors"].shape == (3, 2, 2)
    spread = np.ptp([still.values[name] for name in module.LOSSES])
    assert spread < 0.03  # the right model: all losses do alike
    assert min(shifted.values[name] for name in module.LOSSES) > still.values["true model"]
    figures = experiment.figures(findings)
    assert [len(figure.axes) for figure in figures.values()] == [2, 2]
    assert experiment.figures({}) == {}


def test_ctrl_c_ends_the_run(monkeypatch):
    """A learner keeps its best and gives it back; that must not become a row."""
    calls, whole = [], Risk.__call__

    def broken_off(risk, weights):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return whole(risk, weights)

    monkeypatch.setattr(Risk, "__call__", broken_off)
    x, y = module.RandomChain(4, seed=0).draw(50)
    with pytest.raises(KeyboardInterrupt):
        module.fit_chains(x, y, "univariate_logistic", ridge=1e-3)
