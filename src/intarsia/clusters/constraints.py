"""Must-link and cannot-link constraints on a clustering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from intarsia._core.error_context import errors_from
from intarsia._core.validation import IntArray, as_int_array, check_number, frozen
from intarsia.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False)
class Constraints:
    """Hard constraints on a partition, built by `link_constraints`.

    Attributes
    ----------
    n_records : int
        Number of records.
    atom : int array (n_records,)
        Atom of each record: the group of records that must stay together, numbered by first occurrence.
    atom_ptr, atom_idx : int arrays
        Records of atom g: `atom_idx[atom_ptr[g]:atom_ptr[g + 1]]`.
    cannot_ptr, cannot_idx : int arrays
        Records that must not be in a cluster with record i: `cannot_idx[cannot_ptr[i]:cannot_ptr[i + 1]]`.
    source : int array
        Source of each record, -1 for none; empty without sources. No cluster has two records of the same source.

    Examples
    --------
    Records 0 and 2 form one atom; record 1 must not be in a cluster with either of them:

    >>> links = link_constraints(4, must_link=[[0, 2]], cannot_link=[[0, 1]])
    >>> links.atom.tolist(), links.atom_idx[links.atom_ptr[0] : links.atom_ptr[1]].tolist()
    ([0, 1, 0, 2], [0, 2])
    >>> links.check(np.array([0, 1, 0, 1]))
    >>> links.check(np.array([0, 0, 0, 1]))
    Traceback (most recent call last):
        ...
    intarsia.exceptions.InvalidInputError: records 0 and 1 are together but must not be. Separate them, or drop the \
cannot-link.
    """

    n_records: int
    atom: IntArray
    atom_ptr: IntArray = field(repr=False)
    atom_idx: IntArray = field(repr=False)
    cannot_ptr: IntArray = field(repr=False)
    cannot_idx: IntArray = field(repr=False)
    source: IntArray = field(repr=False)

    def check_different_atoms(self, i: int, j: int) -> None:
        """Raise unless i and j are two records that no must-link joins."""
        for name, record in (("i", i), ("j", j)):
            check_number(record, name, low=0, high=self.n_records - 1, integer=True)
        if self.atom[i] == self.atom[j]:
            reason = "are the same record" if i == j else "are joined by must-links"
            raise InvalidInputError(f"records {i} and {j} {reason}. Pass two records that can be separated.")

    def check(self, labels: IntArray) -> None:
        """Raise if a partition violates the constraints."""
        first = self.atom_idx[self.atom_ptr[:-1]][self.atom]
        separated = np.flatnonzero(labels != labels[first])
        if separated.size:
            raise InvalidInputError(
                f"records {int(first[separated[0]])} and {int(separated[0])} must be together but are apart. Put "
                f"them in one cluster, or drop the must-link."
            )
        owner = np.repeat(np.arange(self.n_records), np.diff(self.cannot_ptr))
        violations = np.flatnonzero(labels[owner] == labels[self.cannot_idx])
        if violations.size:
            raise InvalidInputError(
                f"records {int(owner[violations[0]])} and {int(self.cannot_idx[violations[0]])} are together but "
                f"must not be. Separate them, or drop the cannot-link."
            )
        pair = _same_source(labels, self.source)
        if pair is not None:
            raise InvalidInputError(
                f"records {pair[0]} and {pair[1]} are together but come from the same source. Separate them, or "
                f"pass no sources."
            )


@errors_from("link_constraints")
def link_constraints(
    n_records: int,
    must_link: Sequence[Sequence[int]] | ArrayLike = (),
    cannot_link: Sequence[Sequence[int]] | ArrayLike = (),
    source: ArrayLike | None = None,
) -> Constraints:
    """Build constraints from pairs of records and from the sources of the records.

    Parameters
    ----------
    n_records : int
        Number of records.
    must_link, cannot_link : int arrays (n_pairs, 2)
        Pairs that must, and must not, be in one cluster; must-links are transitive.
    source : int array (n_records,), optional
        Source of each record, -1 for none: a cluster has at most one record of each source, as in the linkage of lists
        without duplicates.

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
    must = _check_pairs(must_link, n_records, "must_link")
    cannot = _check_pairs(cannot_link, n_records, "cannot_link")
    edge_weights = np.ones(must.shape[0])
    graph = coo_array((edge_weights, (must[:, 0], must[:, 1])), shape=(n_records, n_records))
    atom = connected_components(graph, directed=False)[1].astype(np.int64)
    contradictions = np.flatnonzero(atom[cannot[:, 0]] == atom[cannot[:, 1]])
    if contradictions.size:
        i, j = cannot[contradictions[0]].tolist()
        raise InvalidInputError(
            f"records {i} and {j} cannot be together, but must-links join them. Drop one of the links."
        )
    sources = np.empty(0, dtype=np.int64)
    if source is not None:
        sources = as_int_array(source, "source")
        if sources.shape != (n_records,):
            raise InvalidInputError(
                f"source has shape {sources.shape}, but there are {n_records} records. Pass one source per "
                f"record, -1 for none."
            )
        has_source = sources >= 0
        sources = sources.copy()
        sources[has_source] = np.unique(sources[has_source], return_inverse=True)[1]
        sources[~has_source] = -1
        pair = _same_source(atom, sources)
        if pair is not None:
            raise InvalidInputError(
                f"records {pair[0]} and {pair[1]} come from the same source, but must-links join them. Drop "
                f"a link, or pass different sources."
            )
    order = np.argsort(atom, kind="stable")
    atom_ptr = np.concatenate([[0], np.cumsum(np.bincount(atom))]).astype(np.int64)
    directed_cannot = np.concatenate([cannot, cannot[:, ::-1]])
    directed_cannot = directed_cannot[np.argsort(directed_cannot[:, 0], kind="stable")]
    cannot_ptr = np.concatenate([[0], np.cumsum(np.bincount(directed_cannot[:, 0], minlength=n_records))]).astype(
        np.int64
    )
    arrays = (atom, atom_ptr, order, cannot_ptr, np.ascontiguousarray(directed_cannot[:, 1]), sources)
    return Constraints(int(n_records), *(frozen(array) for array in arrays))


def _check_pairs(values: Sequence[Sequence[int]] | ArrayLike, n_records: int, name: str) -> IntArray:
    """Return pairs of records as an array (n_pairs, 2); raise if a pair is invalid."""
    pairs = as_int_array(np.asarray(values), name)
    pairs = pairs.reshape(0, 2) if pairs.size == 0 else pairs
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InvalidInputError(f"{name} has shape {pairs.shape}, expected (n_pairs, 2). Pass pairs of records.")
    bad = np.flatnonzero(((pairs < 0) | (pairs >= n_records)).any(axis=1) | (pairs[:, 0] == pairs[:, 1]))
    if bad.size:
        raise InvalidInputError(
            f"{name}: pair {int(bad[0])} is {pairs[bad[0]].tolist()}, expected two different records of "
            f"{n_records} (0..{n_records - 1}). Correct the pair."
        )
    return pairs


def _same_source(labels: IntArray, source: IntArray) -> tuple[int, int] | None:
    """Return the first two records with the same cluster and the same source, or None."""
    sourced = np.flatnonzero(source >= 0)
    if sourced.size == 0:
        return None
    order = sourced[np.lexsort((sourced, source[sourced], labels[sourced]))]
    repeated = np.flatnonzero((labels[order][1:] == labels[order][:-1]) & (source[order][1:] == source[order][:-1]))
    return (int(order[repeated[0]]), int(order[repeated[0] + 1])) if repeated.size else None
