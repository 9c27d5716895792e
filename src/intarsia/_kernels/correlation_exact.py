"""Correlation clustering of small components: the best partition of up to 16 nodes by dynamic programming over sets."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel


@kernel
def _share_source(a, b, source_ptr, source):
    """Return whether two nodes have records of the same source."""
    for p in range(source_ptr[a], source_ptr[a + 1]):
        for q in range(source_ptr[b], source_ptr[b + 1]):
            if source[p] == source[q]:
                return True
    return False


@kernel
def cluster_small_components(chosen_components, component_ptr, graph, labels, scores):
    """Find the best clustering of each component in `chosen_components`; labels are the smallest node of each cluster.

    Node numbers of one component are consecutive. The value of a set of nodes is the sum of the weights of its pairs;
    the best clustering of a set is the best choice of the cluster of its lowest node plus the best clustering of the
    remaining nodes, for all sets in ascending order of their bit masks.
    """
    for c in chosen_components:
        first, n = component_ptr[c], component_ptr[c + 1] - component_ptr[c]
        pair = np.empty((n, n))
        for i in range(n):
            for j in range(n):
                pair[i, j] = graph.absent * graph.size[first + i] * graph.size[first + j]
                if (
                    graph.source.shape[0]
                    and i != j
                    and _share_source(first + i, first + j, graph.source_ptr, graph.source)
                ):
                    pair[i, j] = -np.inf
        for i in range(n):
            for k in range(graph.ptr[first + i], graph.ptr[first + i + 1]):
                pair[i, graph.node[k] - first] += graph.weight[graph.edge[k]]
        n_sets = 1 << n
        value, members = np.zeros(n_sets), np.zeros(n_sets, dtype=np.int64)
        best, choice = np.zeros(n_sets), np.zeros(n_sets, dtype=np.int64)
        for s in range(1, n_sets):
            low = 0
            while not (s >> low) & 1:
                low += 1
            rest = s & (s - 1)
            members[s] = members[rest] + graph.size[first + low]
            value[s] = value[rest]
            for j in range(low + 1, n):
                if (s >> j) & 1:
                    value[s] += pair[low, j]
            if members[s] > graph.max_size and rest:
                value[s] = -np.inf
            best[s] = -np.inf
            # Subsets of `rest`, from all of it to none; the cluster of the lowest node is the subset and the node.
            subset = rest
            while True:
                total = value[subset | (1 << low)] + best[rest & ~subset]
                if total >= best[s]:  # of equally good clusters, the smallest one
                    best[s], choice[s] = total, subset | (1 << low)
                if subset == 0:
                    break
                subset = (subset - 1) & rest
        s = n_sets - 1
        while s:
            low = 0
            while not (s >> low) & 1:
                low += 1
            for j in range(low, n):
                if (choice[s] >> j) & 1:
                    labels[first + j] = first + low
            s &= ~choice[s]
        scores[c] = best[n_sets - 1]
