"""Random splits that keep both copies of a repeated image in the same subset."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intarsia._core.validation import IntArray


def draw_parts(
    names: Sequence[str], sizes: Sequence[int], pairs: Sequence[tuple[str, str]], rng: np.random.Generator
) -> IntArray:
    """Split items randomly into subsets of given sizes, with both items of each pair in the same subset.

    If the random permutation separates a pair, its second item is exchanged with a random item that belongs to no pair,
    which does not change the sizes.

    Parameters
    ----------
    names : list of str
        Name of each item.
    sizes : list of int
        Sizes of the subsets, with sum `len(names)`; each must exceed the number of items in pairs.
    pairs : list of pairs of str
        Names that belong together, each in at most one pair; pairs with a name that is not in `names` are ignored.
    rng : Generator
        Source of the permutation.

    Returns
    -------
    (n_items,) int array
        Subset of each item, 0 to `len(sizes) - 1`.

    Examples
    --------
    >>> subset = draw_parts(list("abcdefg"), [3, 4], [("a", "b")], np.random.default_rng(0))
    >>> np.bincount(subset), bool(subset[0] == subset[1])
    (array([3, 4]), True)
    """
    subset = rng.permutation(np.repeat(np.arange(len(sizes), dtype=np.int64), sizes))
    position = {name: k for k, name in enumerate(names)}
    index_pairs = [(position[a], position[b]) for a, b in pairs if a in position and b in position]
    single = np.ones(len(subset), dtype=bool)
    single[[k for pair in index_pairs for k in pair]] = False
    for a, b in index_pairs:
        if subset[a] != subset[b]:
            other = rng.choice(np.flatnonzero(single & (subset == subset[a])))
            subset[b], subset[other] = subset[other], subset[b]
    return subset
