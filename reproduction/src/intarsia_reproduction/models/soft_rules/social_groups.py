"""Generated social networks of two groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import IntArray


@dataclass(frozen=True, eq=False)
class SocialGroups:
    """Users of a social network with their hashtags and interactions.

    Attributes
    ----------
    camp : int array (n_users,)
        True group of each user, 0 or 1, which the models do not observe.
    tags : bool array (n_users, n_tags)
        Which hashtags each user used.
    top : bool array (n_users, n_top)
        With which top users each user interacted.
    links : int array (n_links, 2)
        Pairs of users who interacted with each other, each pair once.
    """

    camp: IntArray
    tags: NDArray[np.bool_]
    top: NDArray[np.bool_]
    links: IntArray


def make_social_groups(
    n_users: int = 300, n_tags: int = 30, n_top: int = 20, *, loyalty: float = 0.9, random_state: int = 0
) -> SocialGroups:
    """Draw a random network of two groups (camps).

    A third of the hashtags is neutral. Each of the other hashtags and each top user belongs to one camp.

    Parameters
    ----------
    n_users, n_tags, n_top : int
        Numbers of users, hashtags and top users.
    loyalty : float
        Probability that a hashtag, a link or an interaction is within the user's camp.
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
    fame = 1.0 / np.sqrt(np.arange(1, n_top // 2 + 2))  # some top users are more popular than others
    pairs = set()
    for u in range(n_users):
        for _ in range(1 + rng.poisson(2.0)):
            side = camp[u] if rng.random() < loyalty else 1 - camp[u]
            kind = 2 if rng.random() < 0.3 else side
            tags[u, rng.choice(np.flatnonzero(leaning == kind))] = True
        for _ in range(1 + rng.poisson(0.3 * n_top)):
            side = camp[u] if rng.random() < loyalty else 1 - camp[u]
            same_side = np.arange(side, n_top, 2)
            chances = fame[: same_side.size] / fame[: same_side.size].sum()
            top[u, rng.choice(same_side, p=chances)] = True
        for _ in range(1 + rng.poisson(1.0)):
            side = camp[u] if rng.random() < loyalty else 1 - camp[u]
            v = int(rng.choice(np.flatnonzero(camp == side)))
            if v != u:
                pairs.add((min(u, v), max(u, v)))
    return SocialGroups(camp, tags, top, np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2))
