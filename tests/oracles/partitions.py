"""Features of a clustering by definition, all set partitions, and proposals by enumeration; slow and plain."""

from __future__ import annotations

import itertools

import numpy as np


def all_partitions(n):
    """All partitions of n records, as canonical label tuples."""
    found = [(0,)]
    for _ in range(n - 1):
        found = [(*labels, new) for labels in found for new in range(max(labels) + 2)]
    return found


def clusters_of(labels):
    """Lists of members."""
    return [np.flatnonzero(np.asarray(labels) == c).tolist() for c in np.unique(labels)]


def pair_table(pairs):
    """Features of every pair by a dictionary; absent ones are missing."""
    return {tuple(pair): row for pair, row in zip(pairs.pairs.tolist(), pairs.values, strict=True)}


def slow_features(pairs, model, labels, attributes):
    """Feature vector of a clustering, from the definitions in the docstring of ClusterModel."""
    listed, names, d = pair_table(pairs), list(pairs.names), pairs.n_features
    zero = np.zeros(d)

    def columns(given, known):
        return [] if given is None else list(range(len(known))) if given == "all" else [known.index(k) for k in given]

    def levels(given):
        given = {} if given is None else given if isinstance(given, dict) else dict.fromkeys(names, given)
        return [(names.index(name), at) for name, at in given.items()]

    groups = clusters_of(labels)
    inside = [[listed.get(pair, zero) for pair in itertools.combinations(group, 2)] for group in groups]
    absent = sum(pair not in listed for group in groups for pair in itertools.combinations(group, 2))
    across = [row for (i, j), row in listed.items() if labels[i] != labels[j]]
    found = [sum(row[k] for rows in inside for row in rows) for k in columns(model.within, names)]
    found += [sum(row[k] for row in across) for k in columns(model.between, names)]
    found += [absent] if model.absent else []
    for setting, function in (("mean", np.mean), ("minimum", min), ("maximum", max)):
        found += [
            sum(function([row[k] for row in rows]) for rows in inside if rows)
            for k in columns(getattr(model, setting), names)
        ]
    for setting, function in (("exists", any), ("for_all", all)):
        found += [
            sum(function(row[k] > at for row in rows) for rows in inside if rows)
            for k, at in levels(getattr(model, setting))
        ]
    found += [sum(len(group) >= size for group in groups) for size in model.sizes]
    found += [sum(np.log(len(group)) for group in groups)] if model.log_size else []
    for setting in ("agreement", "all_equal"):
        for k in columns(getattr(model, setting), list(attributes)):
            codes, total = np.asarray(list(attributes.values())[k]), 0.0
            for group in groups:
                known = [codes[r] for r in group if codes[r] >= 0]
                same = [a == b for a, b in itertools.combinations(known, 2)]
                if same:
                    total += np.mean(same) if setting == "agreement" else all(same)
            found.append(total)
    return np.array(found, dtype=float)


def slow_performance(metric, truth, labels):
    """Pairwise F1, B-cubed F1 or accuracy of pairs among records with a known truth."""
    known = [i for i in range(len(truth)) if truth[i] >= 0]
    both = list(itertools.combinations(known, 2))
    together = [labels[i] == labels[j] for i, j in both]
    right = [truth[i] == truth[j] for i, j in both]
    if metric == "pairwise_f1":
        good = sum(a and b for a, b in zip(together, right, strict=True))
        return 2 * good / (sum(together) + sum(right)) if sum(together) + sum(right) else 1.0
    if metric == "pair_accuracy":
        return float(np.mean([a == b for a, b in zip(together, right, strict=True)])) if both else 1.0
    if not known:
        return 1.0
    precision, recall = [], []
    for i in known:
        mine = {j for j in known if labels[j] == labels[i]}
        true = {j for j in known if truth[j] == truth[i]}
        precision.append(len(mine & true) / len(mine))
        recall.append(len(mine & true) / len(true))
    p, r = np.mean(precision), np.mean(recall)
    return float(2 * p * r / (p + r))


def canonical(labels):
    """Labels numbered by first occurrence."""
    seen: dict[int, int] = {}
    return tuple(seen.setdefault(int(c), len(seen)) for c in labels)


def proposal_matrix(n, listed, along, kind):
    """Probabilities of proposing each partition from each: even splits ("random") or single records ("move_one")."""
    states = all_partitions(n)
    number = {labels: k for k, labels in enumerate(states)}
    found = np.zeros((len(states), len(states)))
    chance = {}
    for i, j in itertools.permutations(range(n), 2):
        chance[i, j] = (1 - along) / (n * (n - 1))
        if along and tuple(sorted((i, j))) in listed:
            chance[i, j] += along / (2 * len(listed))
    for labels in states:
        here = number[labels]
        for (i, j), p in chance.items():
            if kind == "move_one":
                new = list(labels)
                new[i] = n if labels[i] == labels[j] else labels[j]
                found[here, number[canonical(new)]] += p
            elif labels[i] != labels[j]:
                new = [labels[i] if c == labels[j] else c for c in labels]
                found[here, number[canonical(new)]] += p
            else:
                others = [r for r in range(n) if labels[r] == labels[i] and r not in (i, j)]
                for sides in itertools.product((0, 1), repeat=len(others)):
                    new = list(labels)
                    new[j] = n
                    for r, side in zip(others, sides, strict=True):
                        new[r] = n if side else labels[r]
                    found[here, number[canonical(new)]] += p / 2 ** len(others)
    return states, found
