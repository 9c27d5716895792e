"""What must and what must not be together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from intarsia._core.error_context import errors_from
from intarsia._core.validation import IntArray, as_int_array, frozen
from intarsia.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False)
class Constraints:
    """Hard constraints on a partition; make them with `link_constraints`.

    Attributes
    ----------
    n_records : int
        Number of records.
    atom : int array (n_records,)
        Number of the group of records that must stay together, by first occurrence.
    atom_ptr, atom_idx : int arrays
        Records of group g: `atom_idx[atom_ptr[g]:atom_ptr[g + 1]]`.
    cannot_ptr, cannot_idx : int arrays
        Records that may not be with record i.
    source : int array
        Source of each record, -1 for none; empty without sources. No cluster has two records of one source.

    Examples
    --------
    Records 0 and 2 make one group; 1 may be with neither of them:

    >>> links = link_constraints(4, must_link=[[0, 2]], cannot_link=[[0, 1]])
    >>> links.atom.tolist(), links.atom_idx[links.atom_ptr[0] : links.atom_ptr[1]].tolist()
    ([0, 1, 0, 2], [0, 2])
    >>> links.check(np.array([0, 1, 0, 1]))
    >>> links.check(np.array([0, 0, 0, 1]))
    Traceback (most recent call last):
        ...
    intarsia.exceptions.InvalidInputError: records 0 and 1 are together but must not be. Part them, or drop the \
cannot-link.
    """

    n_records: int
    atom: IntArray
    atom_ptr: IntArray = field(repr=False)
    atom_idx: IntArray = field(repr=False)
    cannot_ptr: IntArray = field(repr=False)
    cannot_idx: IntArray = field(repr=False)
    source: IntArray = field(repr=False)

    def check(self, labels: IntArray) -> None:
        """Raise where a partition breaks them."""
        first = self.atom_idx[self.atom_ptr[:-1]][self.atom]
        apart = np.flatnonzero(labels != labels[first])
        if apart.size:
            raise InvalidInputError(
                f"records {int(first[apart[0]])} and {int(apart[0])} must be together but are apart. Put "
                f"them together, or drop the must-link."
            )
        owner = np.repeat(np.arange(self.n_records), np.diff(self.cannot_ptr))
        joined = np.flatnonzero(labels[owner] == labels[self.cannot_idx])
        if joined.size:
            raise InvalidInputError(
                f"records {int(owner[joined[0]])} and {int(self.cannot_idx[joined[0]])} are together but "
                f"must not be. Part them, or drop the cannot-link."
            )
        pair = _same_source(labels, self.source)
        if pair is not None:
            raise InvalidInputError(
                f"records {pair[0]} and {pair[1]} are together but come from the same source. Part them, or "
                f"give no sources."
            )


@errors_from("link_constraints")
def link_constraints(
    n_records: int,
    must_link: Sequence[Sequence[int]] | ArrayLike = (),
    cannot_link: Sequence[Sequence[int]] | ArrayLike = (),
    source: ArrayLike | None = None,
) -> Constraints:
    """Constraints from pairs of records and from the records' sources.

    Parameters
    ----------
    n_records : int
        Number of records.
    must_link, cannot_link : int arrays (n_pairs, 2)
        Pairs that must, and must not, be in one cluster; must-links are transitive.
    source : int array (n_records,), optional
        Where each record comes from, -1 for anywhere: a cluster has at most one record of each source, as in linkage of
        lists without duplicates.

    Examples
    --------
    >>> link_constraints(4, must_link=[[0, 1], [1, 3]]).atom.tolist()
    [0, 0, 1, 0]
    >>> link_constraints(3, must_link=[[0, 1], [1, 2]], cannot_link=[[0, 2]])
    Traceback (most recent call last):
        ...
    intarsia.exceptions.InvalidInputError: link_constraints: records 0 and 2 cannot be together, but must-links join \
them. Drop one of the links.
    """
    must = _pairs(must_link, n_records, "must_link")
    cannot = _pairs(cannot_link, n_records, "cannot_link")
    ones = np.ones(must.shape[0])
    graph = coo_array((ones, (must[:, 0], must[:, 1])), shape=(n_records, n_records))
    atom = connected_components(graph, directed=False)[1].astype(np.int64)
    clash = np.flatnonzero(atom[cannot[:, 0]] == atom[cannot[:, 1]])
    if clash.size:
        i, j = cannot[clash[0]].tolist()
        raise InvalidInputError(
            f"records {i} and {j} cannot be together, but must-links join them. Drop one of the links."
        )
    given = np.empty(0, dtype=np.int64)
    if source is not None:
        given = as_int_array(source, "source")
        if given.shape != (n_records,):
            raise InvalidInputError(
                f"source has shape {given.shape}, but there are {n_records} records. Give one source for "
                f"each, -1 for none."
            )
        known = given >= 0
        given = given.copy()
        given[known] = np.unique(given[known], return_inverse=True)[1]
        given[~known] = -1
        pair = _same_source(atom, given)
        if pair is not None:
            raise InvalidInputError(
                f"records {pair[0]} and {pair[1]} come from the same source, but must-links join them. Drop "
                f"a link, or give them different sources."
            )
    order = np.argsort(atom, kind="stable")
    atom_ptr = np.concatenate([[0], np.cumsum(np.bincount(atom))]).astype(np.int64)
    both = np.concatenate([cannot, cannot[:, ::-1]])
    both = both[np.argsort(both[:, 0], kind="stable")]
    cannot_ptr = np.concatenate([[0], np.cumsum(np.bincount(both[:, 0], minlength=n_records))]).astype(np.int64)
    parts = (atom, atom_ptr, order, cannot_ptr, np.ascontiguousarray(both[:, 1]), given)
    return Constraints(int(n_records), *(frozen(part) for part in parts))


def _pairs(given: Sequence[Sequence[int]] | ArrayLike, n_records: int, name: str) -> IntArray:
    pairs = as_int_array(np.asarray(given), name)
    pairs = pairs.reshape(0, 2) if pairs.size == 0 else pairs
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InvalidInputError(f"{name} has shape {pairs.shape}, expected (n_pairs, 2). Give pairs of records.")
    bad = np.flatnonzero(((pairs < 0) | (pairs >= n_records)).any(axis=1) | (pairs[:, 0] == pairs[:, 1]))
    if bad.size:
        raise InvalidInputError(
            f"{name}: pair {int(bad[0])} is {pairs[bad[0]].tolist()}, expected two different records of "
            f"{n_records} (0..{n_records - 1}). Correct it."
        )
    return pairs


def _same_source(labels: IntArray, source: IntArray) -> tuple[int, int] | None:
    """The first two records of one cluster and one source."""
    known = np.flatnonzero(source >= 0)
    if known.size == 0:
        return None
    order = known[np.lexsort((known, source[known], labels[known]))]
    same = np.flatnonzero((labels[order][1:] == labels[order][:-1]) & (source[order][1:] == source[order][:-1]))
    return (int(order[same[0]]), int(order[same[0] + 1])) if same.size else None
