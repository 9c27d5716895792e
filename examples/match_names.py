"""Match two lists of names with learned costs, as a world of your own: bipartite matching.

Each name of the left list has one misspelled partner in the right list. A state is an assignment, and a move swaps two
partners. SampleRank learns the weights of three similarities from solved lists, and annealing matches new lists. The
Hungarian algorithm of SciPy, with the learned costs, shows that the search finds the best matching. See
docs/guide/worlds.md.

    python examples/match_names.py [picture.png]
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment

from intarsia import SampleRank
from intarsia.testing import check_world
from intarsia.worlds import World, decode

FIRST = ["anna", "jon", "mary", "peter", "lucy", "paul", "emma", "karl"]
LAST = ["smith", "meyer", "lopez", "brown", "novak", "rossi", "larsen", "kelly"]


class Matching(World):
    """Assignment of the left names to the right names; a move swaps the partners of two left names."""

    n_weights = 3

    def __init__(self, left: list[str], right: list[str], truth: np.ndarray | None = None) -> None:
        self.left, self.right, self.truth, self.n_sites = left, right, truth, len(left)
        self.similarity = np.array([[similarities(a, b) for b in right] for a in left])
        self.state, self.swaps = np.arange(len(left)), []

    def propose(self, rng: np.random.Generator, weights: np.ndarray) -> tuple[int, int]:
        first, second = rng.choice(self.n_sites, size=2, replace=False)
        return int(first), int(second)

    def features(self) -> np.ndarray:
        return self.similarity[np.arange(self.n_sites), self.state].sum(axis=0)

    def feature_change(self, move: tuple[int, int]) -> np.ndarray:
        i, j = move
        a, b, table = self.state[i], self.state[j], self.similarity
        return table[i, b] + table[j, a] - table[i, a] - table[j, b]

    def apply(self, move: tuple[int, int]) -> None:
        i, j = move
        self.state[[i, j]] = self.state[[j, i]]
        self.swaps.append(move)

    def undo(self) -> None:
        i, j = self.swaps.pop()
        self.state[[i, j]] = self.state[[j, i]]

    def performance(self) -> float:
        return float((self.state == self.truth).mean())


def similarities(first: str, second: str) -> list[float]:
    """Return three similarities of two names: shared pairs of letters, equal initials, and similar length."""
    pairs = [{name[k : k + 2] for k in range(len(name) - 1)} for name in (first, second)]
    initials = np.mean([a[:1] == b[:1] for a, b in zip(first.split(), second.split(), strict=False)])
    return [len(pairs[0] & pairs[1]) / len(pairs[0] | pairs[1]), float(initials), -abs(len(first) - len(second)) / 5]


def lists(seed: int, n: int = 15) -> Matching:
    """Return names, misspelled copies in random order, and the true matching."""
    rng = np.random.default_rng(seed)
    people = rng.choice(len(FIRST) * len(LAST), n, replace=False)
    left = [f"{FIRST[person % len(FIRST)]} {LAST[person // len(FIRST)]}" for person in people]
    truth = rng.permutation(n)
    right = [""] * n
    for i, name in enumerate(left):
        letters = list(name)
        for _ in range(3):
            letters[int(rng.integers(len(letters)))] = str(rng.choice(list("aeiourstln")))
        right[truth[i]] = "".join(letters)
    return Matching(left, right, truth)


def main(picture: str = "matching.png") -> float:
    check_world(lists(0, n=4))  # the contract tests of a world, in one line
    weights = SampleRank(max_iter=5).rank([lists(seed) for seed in range(10)])
    print("learned weights:", *weights.round(1))

    accuracy, is_best = [], []
    for seed in range(100, 110):
        world = lists(seed)
        result = decode(world, weights, "annealing")
        scores = world.similarity @ weights
        rows, columns = linear_sum_assignment(scores, maximize=True)
        is_best.append(abs(scores[rows, columns].sum() - result.score) < 1e-9)
        accuracy.append(world.performance())
    print(f"matched rightly: {np.mean(accuracy):.2f}; as good as the Hungarian algorithm: {sum(is_best)} of 10")

    figure, axes = plt.subplots(figsize=(6.5, 5.5))
    image = axes.imshow(scores, cmap="cividis")
    figure.colorbar(image, label="learned score of a pair")
    axes.scatter(result.state, np.arange(world.n_sites), s=90, facecolors="none", edgecolors="tab:red", linewidths=2)
    axes.set_yticks(range(world.n_sites), world.left, fontsize=7)
    axes.set_xticks(range(world.n_sites), world.right, fontsize=7, rotation=90)
    axes.set_title("Names, misspelled names and their matching")
    figure.savefig(picture, dpi=110, bbox_inches="tight")
    return float(np.mean(accuracy))


if __name__ == "__main__":
    main(*sys.argv[1:])
