"""Worlds of any kind: decoders, samplers, proposals, the cross-entropy method, SampleRank."""

from __future__ import annotations

import numpy as np
from tests.golden.golden import golden
from tests.golden.inference_calls import fields
from tests.worlds.small_worlds import GainOnly, Line, ListedLine, matching

from intarsia import SampleRank
from intarsia.worlds import (
    AdaptiveMoves,
    CategoricalProposal,
    CEMDecode,
    GaussianProposal,
    HillClimbing,
    MetropolisHastings,
    PermutationProposal,
    cem_optimize,
    decode,
    effective_sample_size,
    sample_world,
    state_key,
)

WEIGHTS = np.array([1.0, -0.5])


def decoding(found):
    return fields(found, "state", "score", "n_proposals", "n_accepted", "scores") | {"is": found.status.name}


@golden(of=["hill_climbing", "annealing", "metropolis_hastings", "cem"])
def decoder(method):
    settings = {"n_proposals": 30.0}
    result = decoding(decode(matching(6, 1, noise=1.0), WEIGHTS, method, n_chains=2, random_state=3, **settings))
    other = decode(matching(5, 2, kind=GainOnly, noise=1.0), WEIGHTS, method, random_state=3, **settings)
    return result | {f"changes.{key}": value for key, value in decoding(other).items()}


@golden(of=["patient", "cold", "no_agglomeration", "kicks", "listed"])
def decoder_settings(case):
    decoder = {
        "patient": HillClimbing(n_proposals=20.0, patience=50.0),
        "cold": MetropolisHastings(n_proposals=20.0, hot=1.0, cold=0.5, n_checks=5),
        "no_agglomeration": HillClimbing(n_proposals=10.0, agglomerate=False), "listed": HillClimbing(n_proposals=20.0),
        "kicks": CEMDecode(n_proposals=20.0, n_kicks=2, kick_size=2,
        proposer=AdaptiveMoves(n_candidates=10, n_samples=5)),
    }[case]  # fmt: skip
    if case == "listed":
        return decoding(decode(ListedLine(5), [0.5], decoder, random_state=0))
    return decoding(decode(matching(6, 1, noise=1.0), WEIGHTS, decoder, random_state=0))


@golden(of=["line", "listed", "matching", "decoded_start"])
def samples(case):
    world = {"line": Line(4), "listed": ListedLine(4)}.get(case, matching(4, 1))
    weights = [0.5] if world.n_weights == 1 else WEIGHTS
    statistics = {"place": lambda world: np.eye(world.n_sites)[world.state]}
    start = "hill_climbing" if case == "decoded_start" else None
    found = sample_world(world, weights, statistics, n_samples=60, burn_in=5.0, start=start, random_state=1)
    return {
        "means": found.means["place"], "errors": found.standard_errors["place"], "best": np.asarray(found.best_state),
        "ess": found.effective_sample_sizes["place"], "numbers": [found.acceptance_rate, found.best_score],
    }  # fmt: skip


@golden(of=["categorical", "permutation", "gaussian"])
def cross_entropy(case):
    rng = np.random.default_rng(0)
    cost, edges = rng.random((5, 5)), rng.integers(0, 6, (9, 2))
    proposal, objective = {
        "categorical": (CategoricalProposal([2] * 6), lambda side: (side[edges[:, 0]] != side[edges[:, 1]]).sum()),
        "permutation": (PermutationProposal(5), lambda task: -cost[np.arange(5), task].sum()),
        "gaussian": (GaussianProposal([0.0, 0.0], 3.0), lambda x: -((x - [1.0, 2.0]) ** 2).sum()),
    }[case]
    found = cem_optimize(proposal, objective, n_samples=40, max_iter=8, random_state=2)
    result = {"best": np.asarray(found.best), "is": found.status.name}
    return result | fields(found, "value", "parameters", "n_iter", "n_samples")


@golden(of=["mira", "perceptron", "truth"])
def sample_rank(case):
    settings = {"perceptron": {"update": "perceptron", "average": False}, "truth": {"walk": "truth", "margin": 2.0}}
    learner = SampleRank(max_iter=3, n_proposals=20.0, random_state=0, **settings.get(case, {}))
    found = learner.fit_worlds([matching(5, seed) for seed in range(3)])
    return {"point": found.point, "is": found.status.name, "updates": found.history["updates"]}


@golden()
def keys_and_sample_sizes():
    draws = np.random.default_rng(0).normal(size=(50, 2)).cumsum(axis=0)
    keys = [state_key({"tags": [0, 1], "place": np.arange(2)}), state_key({"place": (0, 1), "tags": [0, 1]})]
    return {"ess": effective_sample_size(draws), "equal": keys[0] == keys[1], "key": sorted(map(str, keys[0]))}
