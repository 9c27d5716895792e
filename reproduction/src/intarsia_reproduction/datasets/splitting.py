"""Random splits that keep two copies of the same picture on one side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intarsia._core.validation import IntArray


def draw_parts(
    names: Sequence[str], sizes: Sequence[int], pairs: Sequence[tuple[str, str]], rng: np.random.Generator
) -> IntArray:
    """Part of each item: a random split into parts of given sizes in which both items of a pair are in the same part.

    A pair that the permutation has torn apart is mended by an exchange: its second item changes places with a random
    item that belongs to no pair, so sizes stay as they are.

    Parameters
    ----------
    names : list of str
        One per item.
    sizes : list of int
        Sizes of the parts, of sum `len(names)`; each above the number of items in pairs.
    pairs : list of pairs of str
        Names that belong together, each in one pair at most; those not in `names` are left out.
    rng : Generator
        Source of the permutation.

    Returns
    -------
    (n_items,) int array
        0 to `len(sizes) - 1`.

    Examples
    --------
    >>> part = draw_parts(list("abcdefg"), [3, 4], [("a", "b")], np.random.default_rng(0))
    >>> np.bincount(part), bool(part[0] == part[1])
    (array([3, 4]), True)
    """
    part = rng.permutation(np.repeat(np.arange(len(sizes), dtype=np.int64), sizes))
    position = {name: k for k, name in enumerate(names)}
    known = [(position[a], position[b]) for a, b in pairs if a in position and b in position]
    single = np.ones(len(part), dtype=bool)
    single[[k for pair in known for k in pair]] = False
    for a, b in known:
        if part[a] != part[b]:
            other = rng.choice(np.flatnonzero(single & (part == part[a])))
            part[b], part[other] = part[other], part[b]
    return part
