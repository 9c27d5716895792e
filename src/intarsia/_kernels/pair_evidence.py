"""Evidence for pairs of records from the other pairs of the two records."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel


@kernel
def sum_evidence(adjacency, log_odds, groups, size, absent):
    """Sum, for each pair, the log odds of each record with the group of the other, without the pair itself.

    Parameters
    ----------
    adjacency : tuple of int arrays (ptr, others, pair_of)
        Records compared with each record, and the pairs.
    log_odds : float array (n_pairs,)
        Log odds of the pairs.
    groups, size : int arrays
        Group of each record, and number of records of each group.
    absent : float
        Log odds of two records that were not compared.

    Returns
    -------
    evidence, n_others : float arrays (n_pairs,)
        Sums, and the numbers of other pairs that they consist of.
    n_inside, n_outside : int
        Numbers of compared pairs within groups, counted from both records; and of pairs without a score of a record
        and a member of another group with which it was compared.
    """
    ptr, others, pair_of = adjacency
    evidence, n_others = np.zeros(log_odds.shape[0]), np.zeros(log_odds.shape[0])
    total, count = np.zeros(size.shape[0]), np.zeros(size.shape[0], dtype=np.int64)
    n_inside, n_outside = 0, 0
    for record in range(ptr.shape[0] - 1):
        group_of_record = groups[record]
        for slot in range(ptr[record], ptr[record + 1]):
            group = groups[others[slot]]
            total[group] += log_odds[pair_of[slot]] - absent
            count[group] += 1
        for slot in range(ptr[record], ptr[record + 1]):
            pair, group = pair_of[slot], groups[others[slot]]
            if count[group] > 1:
                n_members = size[group] - 1 - (group_of_record == group)
                evidence[pair] += total[group] - (log_odds[pair] - absent) + absent * n_members
                n_others[pair] += count[group] - 1
        for slot in range(ptr[record], ptr[record + 1]):
            group = groups[others[slot]]
            if count[group] > 0:
                if group == group_of_record:
                    n_inside += count[group]
                else:
                    n_outside += size[group] - count[group]
            total[group], count[group] = 0.0, 0
    return evidence, n_others, n_inside, n_outside
