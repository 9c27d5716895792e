"""Random rules and small chains, and the enumeration of all their labellings."""

from __future__ import annotations

import itertools

import numpy as np

from intarsia.sequences import (
    count,
    each_side,
    exactly_once,
    fixed,
    in_order,
    needs,
    not_together,
    once,
    one_of,
    when,
)

CLASSES = [
    ["a"],
    ["a", "b"],
    ["a", "b", "c"],
    ["B-a", "I-a", "b", "c"],
    ["B-a", "I-a", "B-b", "I-b", "O"],
    ["B-a", "I-a", "E-a", "S-a", "b"],
]
LONGEST = {1: 5, 2: 6, 3: 5, 4: 4, 5: 4}
WORDS = ["new", "york", "il"]


def random_rule(rng: np.random.Generator, depth: int = 0):
    """Draw a rule for the fields a, b and c."""
    first, second, third = rng.permutation(["a", "b", "c"]).tolist()
    kind = int(rng.integers(10 if depth < 2 else 8))
    if kind == 0:
        return once(first)
    if kind == 1:
        return exactly_once(first)
    if kind == 2:
        low = int(rng.integers(3))
        return count(first, low, None if rng.random() < 0.3 else low + int(rng.integers(2)))
    if kind == 3:
        return in_order(first, second) if rng.random() < 0.5 else in_order(first, second, third)
    if kind == 4:
        return needs(first, second)
    if kind == 5:
        return not_together(first, second)
    if kind == 6:
        return one_of(first, ["new york", "il", "york"] if rng.random() < 0.7 else ["new"])
    if kind == 7:
        return once(first) if depth else fixed({int(rng.integers(-3, 4)): first})
    inner = random_rule(rng, depth + 1)
    if kind == 8 and not _is_fixed(inner):
        return each_side(inner, second)
    return when(second, inner)


def _is_fixed(rule) -> bool:
    return type(rule).__name__ == "FixedRule" or (hasattr(rule, "rule") and _is_fixed(rule.rule))


class Enumeration:
    """All labellings of short sequences, and the rules that they satisfy; results are stored for later calls."""

    def __init__(self) -> None:
        self._labellings, self._accepted, self._violations = {}, {}, {}

    def labellings(self, k: int, length: int) -> np.ndarray:
        """Return all labellings (k**length, length)."""
        if (k, length) not in self._labellings:
            self._labellings[k, length] = np.array(list(itertools.product(range(k), repeat=length))).reshape(-1, length)
        return self._labellings[k, length]

    def accepted(self, rule, classes, tokens) -> np.ndarray:
        """Return which labellings satisfy a rule, by its `check`."""
        key = repr(rule), tuple(classes), tuple(tokens)
        if key not in self._accepted:
            rows = self.labellings(len(classes), len(tokens)).tolist()
            self._accepted[key] = np.array([rule.check([classes[y] for y in row], tokens) for row in rows], dtype=bool)
        return self._accepted[key]

    def violations(self, rule, classes, tokens) -> np.ndarray:
        """Return how much each labelling violates a rule."""
        key = repr(rule), tuple(classes), tuple(tokens)
        if key not in self._violations:
            rows = self.labellings(len(classes), len(tokens)).tolist()
            self._violations[key] = np.array([rule.violation([classes[y] for y in row], tokens) for row in rows])
        return self._violations[key]

    def scores(self, nodes, table) -> np.ndarray:
        """Return the score of each labelling."""
        length, k = nodes.shape
        y = self.labellings(k, length)
        return nodes[np.arange(length), y].sum(axis=1) + table[y[:, :-1], y[:, 1:]].sum(axis=1)


def random_chain(rng: np.random.Generator):
    """Draw classes, tokens, scores of positions and transitions; some scores are -inf."""
    classes = CLASSES[int(rng.integers(len(CLASSES)))]
    k = len(classes)
    length = int(rng.integers(1, LONGEST[k] + 1))
    tokens = [WORDS[i] for i in rng.integers(len(WORDS), size=length)] if rng.random() < 0.3 else WORDS * 2
    nodes, table = rng.normal(size=(length, k)), rng.normal(size=(k, k))
    if rng.random() < 0.3:
        nodes[rng.random(nodes.shape) < 0.2] = -np.inf
        table[rng.random(table.shape) < 0.2] = -np.inf
    return classes, tokens[:length], nodes, table


def planted_problem(seed: int, length: int, n_labels: int = 40, n_rules: int = 30):
    """Draw scores, and mixed rules that a hidden labelling satisfies; half of the labels are rare or absent in it."""
    rng = np.random.default_rng(seed)
    classes = [f"f{i}" for i in range(n_labels)]
    shuffled = rng.permutation(classes).tolist()
    rare, common = shuffled[: n_labels // 2], shuffled[n_labels // 2 :]
    truth = np.repeat(rng.choice(common, size=length), rng.integers(1, 8, size=length))[:length]
    truth[rng.choice(length, size=len(rare) // 2, replace=False)] = rare[: len(rare) // 2]
    labels, rules = truth.tolist(), []
    while len(rules) < n_rules:
        a, b = (str(rng.choice(rare if rng.random() < 0.8 else common)) for _ in range(2))
        n = sum(name == a for name, _ in itertools.groupby(labels))
        positions = rng.integers(length, size=2).tolist()
        if a == b:
            continue
        rule = [
            lambda a=a: once(a),
            lambda a=a: exactly_once(a),
            lambda a=a, n=n: count(a, max(0, n - 2), n + 1),
            lambda a=a, b=b: in_order(a, b),
            lambda a=a, b=b: needs(a, b),
            lambda a=a, b=b: not_together(a, b),
            lambda a=a, b=b: when(b, once(a)),
            lambda positions=positions: fixed({t: labels[t] for t in positions}),
        ][int(rng.integers(8))]()
        if rule.check(labels):
            rules.append(rule)
    return rng.normal(size=(length, n_labels)), rng.normal(size=(n_labels, n_labels)), rules, classes
