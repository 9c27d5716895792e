"""Features of a clustering by definition, all set partitions, and proposals by enumeration."""

from __future__ import annotations

import itertools

import numpy as np


def all_partitions(n):
    """Return all partitions of n records as canonical label tuples."""
    result = [(0,)]
    for _ in range(n - 1):
        result = [(*labels, new) for labels in result for new in range(max(labels) + 2)]
    return result


def clusters_of(labels):
    """Return the clusters as lists of members."""
    return [np.flatnonzero(np.asarray(labels) == c).tolist() for c in np.unique(labels)]


def pair_table(pairs):
    """Return the features of every pair as a dictionary; absent pairs are missing."""
    return {tuple(pair): row for pair, row in zip(pairs.pairs.tolist(), pairs.values, strict=True)}


def slow_features(pairs, model, labels, attributes, numbers=None):
    """Return the feature vector of a clustering by the definitions in the docstring of ClusterModel."""
    listed, names, d = pair_table(pairs), list(pairs.names), pairs.n_features
    zero = np.zeros(d)

    def columns(selection, available):
        if selection is None:
            return []
        return list(range(len(available))) if selection == "all" else [available.index(k) for k in selection]

    def levels(value):
        if value is None:
            return []
        level_of_name = value if isinstance(value, dict) else dict.fromkeys(names, value)
        return [(names.index(name), level) for name, level in level_of_name.items()]

    groups = clusters_of(labels)
    inside = [[listed.get(pair, zero) for pair in itertools.combinations(group, 2)] for group in groups]
    absent = sum(pair not in listed for group in groups for pair in itertools.combinations(group, 2))
    linked = {}
    for (i, j), row in listed.items():
        if labels[i] != labels[j]:
            linked.setdefault(frozenset((int(labels[i]), int(labels[j]))), []).append(row)
    result = [sum(row[k] for rows in inside for row in rows) for k in columns(model.within, names)]
    for setting, function in (("between", max), ("between_mean", np.mean)):
        result += [
            sum(function([row[k] for row in rows]) for rows in linked.values())
            for k in columns(getattr(model, setting), names)
        ]
    result += [
        sum(any(row[k] > at for row in rows) for rows in linked.values()) for k, at in levels(model.between_exists)
    ]
    result += [absent] if model.absent else []
    for setting, function in (("mean", np.mean), ("minimum", min), ("maximum", max)):
        result += [
            sum(function([row[k] for row in rows]) for rows in inside if rows)
            for k in columns(getattr(model, setting), names)
        ]
    for setting, function in (("exists", any), ("for_all", all)):
        result += [
            sum(function(row[k] > at for row in rows) for rows in inside if rows)
            for k, at in levels(getattr(model, setting))
        ]
    result += [sum(len(group) >= size for group in groups) for size in model.sizes]
    result += [sum(np.log(len(group)) for group in groups)] if model.log_size else []
    for setting in ("agreement", "all_equal"):
        for k in columns(getattr(model, setting), list(attributes)):
            codes, total = np.asarray(list(attributes.values())[k]), 0.0
            for group in groups:
                present_codes = [codes[r] for r in group if codes[r] >= 0]
                same = [a == b for a, b in itertools.combinations(present_codes, 2)]
                if same:
                    total += np.mean(same) if setting == "agreement" else all(same)
            result.append(total)
    for k in columns(model.distinct, list(attributes)):
        codes = np.asarray(list(attributes.values())[k])
        result.append(sum(max(len({codes[r] for r in group if codes[r] >= 0}) - 1, 0) for group in groups))
    for k in columns(model.unknown, list(attributes)):
        codes = np.asarray(list(attributes.values())[k])
        result.append(sum(all(codes[r] < 0 for r in group) for group in groups))
    for k in columns(model.span, list(numbers or {})):
        values = np.asarray(list(numbers.values())[k])
        present = [[values[r] for r in group if not np.isnan(values[r])] for group in groups]
        result.append(sum(max(group) - min(group) for group in present if group))
    degree = np.bincount(np.asarray(pairs.pairs).ravel(), minlength=len(labels))
    for k in columns(model.representative, names):
        total = 0.0
        for group in groups:
            best = min(group, key=lambda r: (-degree[r], r))
            others = [listed.get((min(r, best), max(r, best)), zero)[k] for r in group if r != best]
            total += np.mean(others) if others else 0.0
        result.append(total)
    return np.array(result, dtype=float)


def slow_performance(metric, truth, labels):
    """Return pairwise F1, B-cubed F1 or accuracy of pairs among labelled records."""
    labelled = [i for i in range(len(truth)) if truth[i] >= 0]
    pairs = list(itertools.combinations(labelled, 2))
    together = [labels[i] == labels[j] for i, j in pairs]
    right = [truth[i] == truth[j] for i, j in pairs]
    if metric == "pairwise_f1":
        good = sum(a and b for a, b in zip(together, right, strict=True))
        return 2 * good / (sum(together) + sum(right)) if sum(together) + sum(right) else 1.0
    if metric == "pair_accuracy":
        return float(np.mean([a == b for a, b in zip(together, right, strict=True)])) if pairs else 1.0
    if not labelled:
        return 1.0
    precision, recall = [], []
    for i in labelled:
        own_cluster = {j for j in labelled if labels[j] == labels[i]}
        true_cluster = {j for j in labelled if truth[j] == truth[i]}
        precision.append(len(own_cluster & true_cluster) / len(own_cluster))
        recall.append(len(own_cluster & true_cluster) / len(true_cluster))
    p, r = np.mean(precision), np.mean(recall)
    return float(2 * p * r / (p + r))


def canonical(labels):
    """Return labels renumbered by first occurrence."""
    number_of: dict[int, int] = {}
    return tuple(number_of.setdefault(int(c), len(number_of)) for c in labels)


def proposal_matrix(n, listed, along, kind):
    """Return the proposal probabilities between partitions: even splits ("random") or single records ("move_one")."""
    states = all_partitions(n)
    number = {labels: k for k, labels in enumerate(states)}
    result = np.zeros((len(states), len(states)))
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
                result[here, number[canonical(new)]] += p
            elif labels[i] != labels[j]:
                new = [labels[i] if c == labels[j] else c for c in labels]
                result[here, number[canonical(new)]] += p
            else:
                others = [r for r in range(n) if labels[r] == labels[i] and r not in (i, j)]
                for sides in itertools.product((0, 1), repeat=len(others)):
                    new = list(labels)
                    new[j] = n
                    for r, side in zip(others, sides, strict=True):
                        new[r] = n if side else labels[r]
                    result[here, number[canonical(new)]] += p / 2 ** len(others)
    return states, result
