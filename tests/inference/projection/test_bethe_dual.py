"""Dual method: exact at kinks, hard constraints, a valid duality gap."""

from __future__ import annotations

import numpy as np
import pytest
from tests.energies.energy_models import BIO, ENERGIES, chain
from tests.inference.bethe_checks import KINKED, ask, kinked_optimum, solve

from intarsia import Status
from intarsia.energies import Absolute, Count, Hinge, MeasuredEnergy, SoftInterval, segment_preferences


@pytest.mark.parametrize("name", KINKED)
def test_eight_digits_at_kinks(name):
    least, mu = kinked_optimum(name)
    result = solve(name, "bethe_dual")
    assert result.converged
    assert result.history["gap"][-1] <= 1e-8
    terms = ENERGIES[name].bind(result.graph, BIO)
    assert np.abs(terms.measurements @ result.mu - terms.functions.shift).min() < 1e-8  # the optimum is at a kink
    assert -result.log_partition == pytest.approx(least, abs=1e-8)
    np.testing.assert_allclose(result.mu, mu, atol=1e-4)  # accuracy of SLSQP


@pytest.mark.parametrize("judgement", [Hinge(0.5), Absolute(0.7), SoftInterval(0.2, 0.4)])
def test_hard_constraints_hold_and_are_the_limit_of_large_weights(judgement):
    graph, theta = chain()
    hard = ask(graph, theta, "bethe_dual", energy=MeasuredEnergy(Count(1), judgement, psi=np.inf))
    strong = ask(graph, theta, "bethe_dual", energy=MeasuredEnergy(Count(1), judgement, psi=1e3))
    assert hard.converged
    measured = hard.mu[:9].reshape(3, 3)[:, 1].sum()
    assert judgement(measured) <= 1e-8
    np.testing.assert_allclose(hard.mu, strong.mu, atol=1e-6)
    assert hard.log_partition == pytest.approx(strong.log_partition, abs=1e-6)


def test_hard_constraint_agrees_with_an_independent_solver():
    graph, theta = chain()
    least, mu = kinked_optimum("hinge", psi=np.inf)
    hard = MeasuredEnergy(Count("B-x"), Hinge(0.2), psi=np.inf)
    result = ask(graph, theta, "bethe_dual", energy=hard, names=BIO)
    assert -result.log_partition == pytest.approx(least, abs=1e-7)
    np.testing.assert_allclose(result.mu, mu, atol=1e-4)


def test_note_reports_unsatisfiable_constraints():
    graph, theta = chain()
    result = ask(graph, theta, "bethe_dual", energy=MeasuredEnergy(Count(1), Absolute(7.0), psi=np.inf))
    assert result.status is Status.STALLED
    assert "hard constraints" in result.note
    assert not np.isnan(result.mu).any()


def test_many_energies_with_kinks():
    graph, theta = chain()
    energy = segment_preferences(["O", "B-x", "B-y"], psi=0.7, width=0.0)
    result = ask(graph, theta, "bethe_dual", energy=energy, names=BIO, max_iter=3000)
    assert result.history["gap"][-1] < 1e-6
    averaged = ask(graph, theta, "bethe_rda", energy=energy, names=BIO, max_iter=2000, tol=1e-3)
    assert averaged.log_partition <= result.upper_bound + 1e-9
    assert averaged.log_partition == pytest.approx(result.log_partition, abs=5e-3)


def test_gap_is_nonnegative_and_bounds_the_error():
    least = kinked_optimum("absolute")[0]
    result = solve("absolute", "bethe_dual")
    values, gaps = result.history["log_partition"], result.history["gap"]
    assert (gaps >= 0).all()
    assert (-values.max() - least) <= gaps[-1] + 1e-8


def test_poisson_counts():
    from tests.inference.bethe_checks import smooth_optimum

    least = smooth_optimum("poisson")[0]
    result = solve("poisson", "bethe_dual")
    assert -result.log_partition == pytest.approx(least, abs=1e-6)
    bound = ENERGIES["poisson"].bind(result.graph, BIO)
    assert bound.value(result.mu) > 0
