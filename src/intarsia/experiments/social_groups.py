"""A network of users in two hidden camps, of the kind in which Bach2015 detects groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia._validation import IntArray


@dataclass(frozen=True, eq=False)
class SocialGroups:
    """Users, what they wrote and with whom they dealt.

    Attributes
    ----------
    camp : int array (n_users,)
        The hidden truth, 0 or 1.
    tags : bool array (n_users, n_tags)
        Hashtags that each used.
    top : bool array (n_users, n_top)
        Top users with whom each interacted.
    links : int array (n_links, 2)
        Users who interacted with each other, each pair once.
    """

    camp: IntArray
    tags: NDArray[np.bool_]
    top: NDArray[np.bool_]
    links: IntArray


def make_social_groups(
    n_users: int = 300, n_tags: int = 30, n_top: int = 20, *, loyalty: float = 0.9, random_state: int = 0
) -> SocialGroups:
    """Draw a network: a third of the tags is neutral, the others and the top users belong to a camp each.

    Parameters
    ----------
    n_users, n_tags, n_top : int
        Sizes.
    loyalty : float
        Chance that a tag, a link or an interaction stays within the user's camp.
    random_state : int
        Seed.

    Examples
    --------
    >>> network = make_social_groups(50)
    >>> network.tags.shape, network.top.shape, bool((network.links[:, 0] < network.links[:, 1]).all())
    ((50, 30), (50, 20), True)
    """
    rng = np.random.default_rng(random_state)
    camp = rng.integers(0, 2, n_users)
    leaning = np.arange(n_tags) % 3  # 2 is neutral
    tags = np.zeros((n_users, n_tags), dtype=bool)
    top = np.zeros((n_users, n_top), dtype=bool)
    fame = 1.0 / np.sqrt(np.arange(1, n_top // 2 + 2))  # some top users are better known than others
    pairs = set()
    for u in range(n_users):
        for _ in range(1 + rng.poisson(2.0)):
            side = camp[u] if rng.random() < loyalty else 1 - camp[u]
            kind = 2 if rng.random() < 0.3 else side
            tags[u, rng.choice(np.flatnonzero(leaning == kind))] = True
        for _ in range(1 + rng.poisson(0.3 * n_top)):
            side = camp[u] if rng.random() < loyalty else 1 - camp[u]
            known = np.arange(side, n_top, 2)
            top[u, rng.choice(known, p=fame[: known.size] / fame[: known.size].sum())] = True
        for _ in range(1 + rng.poisson(1.0)):
            side = camp[u] if rng.random() < loyalty else 1 - camp[u]
            v = int(rng.choice(np.flatnonzero(camp == side)))
            if v != u:
                pairs.add((min(u, v), max(u, v)))
    return SocialGroups(camp, tags, top, np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2))
