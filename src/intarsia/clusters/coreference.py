"""How probable it is that two records are together, from a Markov chain over clusterings."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array, triu

from intarsia._validation import as_generator, check_number
from intarsia.clusters.decoding import CHUNK, DECODERS, Decoder
from intarsia.clusters.proposers import SplitMerge
from intarsia.clusters.world import ClusterWorld, check_cluster_world


def sample_coreference(
    world: ClusterWorld,
    weights: ArrayLike,
    *,
    n_samples: int = 200,
    thinning: float = 5.0,
    burn_in: float = 50.0,
    temperature: float = 1.0,
    start: str | Decoder | None = "agglomeration",
    proposer: SplitMerge | None = None,
    random_state: int | np.random.Generator = 0,
) -> csr_array:
    r"""Posterior probability that two records are in one cluster, for all pairs that ever were, by sampling.

    Clusterings are drawn by Metropolis-Hastings from :math:`P(Y) \propto \exp(\Theta \cdot \phi(Y) / T)`; the
    probability of a pair is the share of samples in which it is together. The error falls with the root of the number
    of *independent* samples: consecutive ones are alike, more so with little thinning.

    Parameters
    ----------
    world : ClusterWorld
        Records and features; left at the last sample.
    weights : float array
        Weights of the features. Weights of SampleRank rank clusterings but have no scale of their own: choose
        `temperature` by calibration.
    n_samples : int
        Samples kept.
    thinning, burn_in : float
        Proposals for each record between samples, on average, and before the first.
    temperature : float
        Divides the score.
    start : str, Decoder or None
        How the chain finds its first clustering; None begins at the world's start.
    proposer : SplitMerge, optional
        By default a fifth even splits, two fifths sequential ones and two fifths single records.
    random_state : int or Generator
        Seed.

    Returns
    -------
    csr_array (n_records, n_records)
        Probabilities above the diagonal; pairs that were never together are not stored.

    Examples
    --------
    Two records whose union scores 0: together half of the time.

    >>> from intarsia.clusters import ClusterModel, ClusterWorld, pair_features
    >>> world = ClusterWorld(pair_features(2, [[0, 1]], [0.0]), ClusterModel(absent=False))
    >>> bool(abs(sample_coreference(world, [1.0], n_samples=1000)[0, 1] - 0.5) < 0.1)
    True
    """
    here = "sample_coreference"
    check_cluster_world(world, here)
    check_number(n_samples, f"{here}: n_samples", low=1, integer=True)
    for name, value in (("thinning", thinning), ("burn_in", burn_in)):
        check_number(value, f"{here}: {name}", low=0.0, high=np.inf, open_high=True)
    check_number(temperature, f"{here}: temperature", low=0.0, high=np.inf, open_low=True, open_high=True)
    theta, rng, n = world.check_weights(weights), as_generator(random_state), world.n_sites
    world.reset()
    if start is not None:
        DECODERS.resolve(start).run(world, theta, rng)
    chosen = SplitMerge(random=1.0, sequential=2.0, move_one=2.0) if proposer is None else proposer
    total = csr_array((n, n))
    with world.proposing(chosen):
        for k in range(int(n_samples)):
            left = int(np.ceil(float(burn_in) * n)) if k == 0 else 0
            # a random number of proposals: where all are taken, as between two records, even numbers lead back
            left += 1 + int(rng.integers(0, 2 * int(np.ceil(float(thinning) * n)) + 1))
            while left > 0:
                world.search(theta, min(left, CHUNK), rng, float(temperature))
                left -= CHUNK
            labels = world.labels
            member = csr_array(coo_array((np.ones(n), (np.arange(n), labels))))
            total = total + triu(member @ member.T, k=1, format="csr")
    return csr_array(total / float(n_samples))
