"""Figures 1 and 2 with few short chains: models are compared with enumeration, fits with the truth."""

import itertools

import numpy as np
import pytest

from intarsia.learning.risk import Risk
from intarsia_reproduction.experiments import misspecification as module

TINY = module.Settings(length=6, n_distributions=2, n_train=(20, 400), n_test=400)


def enumerated(chain):
    """Return all (x, y) and their probabilities, from the definition of the scores."""
    states = np.array(list(itertools.product((0, 1), repeat=2 * chain.length)))
    x, y = states[:, : chain.length], states[:, chain.length :]
    signs = lambda a, b: np.where(a == b, 1.0, -1.0)  # noqa: E731
    score = chain.single[np.arange(chain.length), x].sum(axis=1)
    score += signs(x[:, 1:], x[:, :-1]) @ chain.along_x + signs(y[:, 1:], y[:, :-1]) @ chain.along_y
    score += signs(x, y) @ chain.across
    p = np.exp(score)
    return x, y, p / p.sum()


def test_marginals_given_inputs_are_the_enumerated_ones():
    chain = module.RandomChain(4, seed=2)
    x, y, p = enumerated(chain)
    for inputs in ([0, 0, 1, 0], [1, 1, 1, 0]):
        rows = (y == inputs).all(axis=1)
        true = p[rows] @ x[rows] / p[rows].sum()
        np.testing.assert_allclose(chain.marginals(np.array([inputs]))[0], true, atol=1e-12)


def test_draws_have_the_enumerated_means():
    chain = module.RandomChain(3, seed=1)
    x, y, p = enumerated(chain)
    drawn_x, drawn_y = chain.draw(4000)
    assert np.abs(drawn_x.mean(axis=0) - p @ x).max() < 0.035  # more than four standard errors
    assert np.abs((drawn_x == drawn_y).mean(axis=0) - p @ (x == y)).max() < 0.035


@pytest.mark.parametrize("loss", list(module.LOSSES.values()))
def test_marginals_are_recovered_from_much_data(loss):
    chain = module.RandomChain(5, seed=0)
    x, y = chain.draw(4000)
    marginals = module.predict_chains(module.fit_chains(x, y, loss, ridge=1e-5), y[:200])
    assert np.abs(marginals - chain.marginals(y[:200])).max() < 0.08


def test_likelihood_fits_the_expected_statistics():
    chain = module.RandomChain(4, seed=3)
    x, y = np.roll(chain.draw(300)[0], 1, axis=1), chain.draw(300)[1]
    marginals = module.predict_chains(module.fit_chains(x, y, "likelihood", ridge=1e-9), y)
    # At the maximum, the model's mean at every position, for either input, equals that of the data.
    for value in (0, 1):
        mask = y == value
        np.testing.assert_allclose((marginals * mask).sum(axis=0), (x * mask).sum(axis=0), atol=0.05)


def test_run_gives_rows_and_figures():
    experiment = module.misspecification(quick=True)
    findings = {f"shift_{shift}": module._run(shift, TINY) for shift in (0, 1)}
    unshifted, shifted = findings.values()
    assert unshifted.values["true model"] == shifted.values["true model"]
    for finding in findings.values():
        assert set(finding.values) == set(experiment.tasks[0].paper)
        rates = [finding.values[name] for name in (*module.LOSSES, module.SAME_INPUT, module.ALL_INPUTS)]
        assert all(finding.values["true model"] - 0.03 < error < 0.5 for error in rates)
        assert finding.arrays["errors"].shape == (3, 2, 2)
        assert finding.arrays["baseline_errors"].shape == (2, 2, 2)
        gain = finding.values["likelihood"] - finding.values["univariate logistic"]
        assert finding.values[module.GAIN] == pytest.approx(gain)
        assert finding.values[module.GAIN_LOW] <= gain <= finding.values[module.GAIN_HIGH]
    spread = np.ptp([unshifted.values[name] for name in module.LOSSES])
    assert spread < 0.03  # all losses perform equally if the model is right
    assert min(shifted.values[name] for name in module.LOSSES) > unshifted.values["true model"]
    figures = experiment.figures(findings)
    assert [len(figure.axes) for figure in figures.values()] == [2, 2]
    assert experiment.figures({}) == {}


def test_logistic_regressions_of_positions_learn_the_conditional_means():
    rng = np.random.default_rng(0)
    y, new_y = rng.integers(0, 2, size=(500, 3)), rng.integers(0, 2, size=(50, 3))
    x = np.roll(y, 1, axis=1)  # each label copies the input to its left
    np.testing.assert_array_equal(module.predict_positions(x, y, new_y, all_inputs=True), np.roll(new_y, 1, axis=1))
    # The input of the position says nothing, so each position predicts its more frequent label, or nearly so.
    same = module.predict_positions(x, y, new_y, all_inputs=False)
    assert 0.3 < np.mean(same != np.roll(new_y, 1, axis=1)) < 0.7
    # A position with a single label in the training chains predicts it.
    x[:, 0] = 1
    assert (module.predict_positions(x, y, new_y, all_inputs=True)[:, 0] == 1).all()


def test_ctrl_c_ends_the_run(monkeypatch):
    """A learner returns its best weights when interrupted; they must not become a row."""
    calls, original = [], Risk.__call__

    def interrupt(risk, weights):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(risk, weights)

    monkeypatch.setattr(Risk, "__call__", interrupt)
    x, y = module.RandomChain(4, seed=0).draw(50)
    with pytest.raises(KeyboardInterrupt):
        module.fit_chains(x, y, "univariate_logistic", ridge=1e-3)
