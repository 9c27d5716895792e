"""Energies, and Bethe projections under them: graphs, chains of a batch, evidence, warm start, penalties and psi."""

from __future__ import annotations

import numpy as np
from tests.energies.energy_models import BIO, ENERGIES, chain
from tests.golden.golden import golden
from tests.golden.inference_calls import summary
from tests.zoo import ZOO, random_theta

import intarsia
from intarsia import energies as e
from intarsia.exceptions import IntarsiaError
from intarsia.graph import chain_graph

PROJECTIONS = ["bethe_rda", "bethe_mirror_descent", "bethe_accelerated", "bethe_dual"]
# Few iterations: the path to the optimum is recorded as well.
SHORT = {"max_iter": 60, "tol": 1e-4}
PENALTIES = {
    "absolute": e.Absolute(0.5), "hinge": e.Hinge(0.4), "hinge_below": e.Hinge(0.4, side="below"),
    "huber": e.Huber(0.3, width=0.5), "poisson": e.Poisson(2.0, rate=1.5, background=0.1),
    "smoothed_hinge": e.SmoothedHinge(0.5, width=0.4), "soft_interval": e.SoftInterval(0.2, 0.6, width=0.1),
    "squared": e.Squared(0.7),
}  # fmt: skip
FACTORIES = {
    "at_most_one": e.at_most_one("x"), "balanced": e.balanced("x", "y"), "before": e.before("x", "y"),
    "exactly_one": e.exactly_one("x"), "forbidden_together": e.forbidden_together("x", "y"),
    "implies": e.implies("x", "y"),
}  # fmt: skip


def project(method, energy, graph=None, theta=None, **options):
    if graph is None:
        graph, theta = chain()
        options = {"names": BIO} | options
    return intarsia.infer(graph, theta, method, energy=energy, **(SHORT | options))


def allowed(method, energy, prefix="", **options):
    """Return the numbers of a projection, or the error of a method that refuses the energy."""
    try:
        return summary(project(method, energy, **options), "tilted_theta", prefix=prefix)
    except IntarsiaError as error:
        return {f"{prefix}error": str(error)}


@golden(each=ENERGIES)
def energy(name):
    """Every energy under every projection."""
    result = {}
    for method in PROJECTIONS:
        found = allowed(method, ENERGIES[name], prefix=f"{method}.")
        keep = ("is", "error", "mu", "log_partition", "n_iter", "residual")
        result |= {key: value for key, value in found.items() if key.partition(".")[2] in keep}
    return result


@golden(of=PENALTIES)
def penalty(name):
    energy = e.MeasuredEnergy(e.Count("B-x"), PENALTIES[name], psi=1.5)
    return allowed("bethe_rda", energy) | allowed("bethe_dual", energy, prefix="dual.")


@golden(of=FACTORIES)
def segment_energy(name):
    result = allowed("bethe_dual", FACTORIES[name])
    return result | {"title": str(FACTORIES[name].title), "repr": repr(FACTORIES[name])}


@golden(of=PROJECTIONS)
def projection_map(method):
    return allowed(method, ENERGIES["squared"], task="map")


@golden(each=PROJECTIONS)
def projection_evidence(method):
    return allowed(method, ENERGIES["smoothed_hinge"], evidence={1: 2})


@golden(each=PROJECTIONS)
def projection_warm_start(method):
    first = project(method, ENERGIES["squared"], max_iter=5)
    return allowed(method, ENERGIES["smoothed_hinge"], warm_start=first)


@golden(of=PROJECTIONS)
def projection_shared_chain(method):
    graph, theta = chain(shared=True, length=5)
    return allowed(method, ENERGIES["squared"], graph=graph, theta=theta, names=BIO)


@golden(each=PROJECTIONS)
def projection_grid(method):
    """A loopy graph through exact and through tree-reweighted marginals."""
    graph, theta = ZOO["grid"]()
    energy = e.MeasuredEnergy(e.Count(1), e.Squared(3.0), psi=0.8)
    options = {"graph": graph, "theta": theta, "max_iter": 30}
    result = allowed(method, energy, prefix="exact.", **options)
    return result | allowed(method, energy, prefix="loopy.", oracle="tree_reweighted", **options)


@golden(of=PROJECTIONS)
def projection_temperature(method):
    return allowed(method, ENERGIES["squared"], temperature=0.5)


@golden(of=["bethe_rda", "bethe_dual"])
def projection_samples(method):
    result = project(method, ENERGIES["squared"], n_samples=10, n_best=4, random_state=0)
    return {"samples": result.samples, "best": result.best, "scores": result.best_scores}


@golden()
def hard_energy():
    """Infinite weight: the count is kept exactly."""
    graph = chain_graph(4, 2)
    energy = e.MeasuredEnergy(e.Count(1), e.SoftInterval(1.0, 1.5), psi=np.inf)
    return summary(intarsia.infer(graph, random_theta(graph, 3), "bethe_dual", energy=energy))


@golden()
def step_sizes():
    result = {}
    for method, size in (("bethe_mirror_descent", 0.1), ("bethe_mirror_descent", 1.0)):
        result |= allowed(method, ENERGIES["squared"], prefix=f"{size}.", step_size=size, max_iter=20)
    return result


@golden()
def energy_algebra():
    """Sums, multiples and differences of measurements and energies, as written."""
    counts = 2.0 * e.Count("O") - e.Transitions("O", "B-x") + e.SegmentStarts("y")
    total = 2.0 * e.MeasuredEnergy(counts, e.Squared(1.0)) + e.at_most_one("x")
    return {"repr": repr(total), "counts": repr(counts)} | allowed("bethe_dual", total)


@golden()
def measured_energies():
    parts = [e.MeasuredEnergy(e.Count(k), e.SmoothedHinge(0.5, width=0.5)) for k in BIO]
    together = e.MeasuredEnergies(parts, psi=[0.5, 1.0, 2.0])
    return allowed("bethe_rda", together)
