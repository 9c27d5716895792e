"""Label mentions and cluster them into entities at the same time: a joint world of your own.

A state has a tag (person, place) and an entity for each mention of a document. Mentions of one entity have one tag, so
that tags help to cluster and clusters help to tag. A move changes a tag, or moves a mention to another entity.
SampleRank learns all weights together; without the joint feature, tags and clusters are decided separately. The data
are synthetic, with noise levels chosen so that the joint feature helps both decisions. See
docs/guide/worlds.md.

    python examples/tag_and_cluster.py [picture.png]
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from intarsia import SampleRank
from intarsia.testing import check_world
from intarsia.worlds import World, decode, sample_world

TAGS = ("person", "place")


class Mentions(World):
    """Tag and entity of each mention; the features are sums over mentions and over pairs inside entities.

    Features: evidence for the tag; likeness of pairs inside entities, their number; and the joint feature, pairs inside
    entities whose tags differ. A move is (mention, "tag", new tag) or (mention, "entity", new entity).
    """

    n_weights = 4

    def __init__(self, evidence: np.ndarray, likeness: np.ndarray, truth: dict[str, np.ndarray], joint: bool) -> None:
        self.evidence, self.likeness, self.truth, self.joint = evidence, likeness, truth, joint
        self.n_sites = len(evidence)
        self.state = {"tag": np.zeros(self.n_sites, dtype=int), "entity": np.arange(self.n_sites)}
        self.changes: list[tuple[int, str, int]] = []

    def options(self, mention: int) -> list[int]:
        """Return the entities to which a mention can move: those of others, and a new one if it is not alone."""
        entity = self.state["entity"]
        others = sorted(set(entity.tolist()) - {int(entity[mention])})
        if (entity == entity[mention]).sum() > 1:
            others.append(min(set(range(self.n_sites)) - set(entity.tolist())))
        return others

    def propose(self, rng: np.random.Generator, weights: np.ndarray) -> tuple[int, str, int] | None:
        mention = int(rng.integers(self.n_sites))
        if rng.random() < 0.5:
            return mention, "tag", 1 - int(self.state["tag"][mention])
        options = self.options(mention)
        return (mention, "entity", int(rng.choice(options))) if options else None

    def log_ratio(self, move: tuple[int, str, int]) -> float:
        """Return 0 for tags; the numbers of options before and after the move differ for entities."""
        if move[1] == "tag":
            return 0.0
        before = len(self.options(move[0]))
        self.apply(move)
        after = len(self.options(move[0]))
        self.undo()
        return float(np.log(before / after))

    def features(self) -> np.ndarray:
        tag, entity = self.state["tag"], self.state["entity"]
        inside = np.triu(entity[:, None] == entity, 1)
        conflicts = (inside & (tag[:, None] != tag)).sum() * self.joint
        signs = 2 * tag - 1
        return np.array([self.evidence @ signs, self.likeness[inside].sum(), inside.sum(), conflicts], dtype=float)

    def feature_change(self, move: tuple[int, str, int]) -> np.ndarray:
        mention, kind, value = move
        tag, entity = self.state["tag"], self.state["entity"]
        group = entity == entity[mention]
        group[mention] = False
        if kind == "tag":
            conflicts = (tag[group] != value).sum() - (tag[group] != tag[mention]).sum()
            return np.array([2 * (value - tag[mention]) * self.evidence[mention], 0, 0, conflicts * self.joint], float)
        target_group, row, differs = entity == value, self.likeness[mention], tag != tag[mention]
        conflicts = (differs[target_group].sum() - differs[group].sum()) * self.joint
        return np.array(
            [0, row[target_group].sum() - row[group].sum(), target_group.sum() - group.sum(), conflicts], dtype=float
        )

    def apply(self, move: tuple[int, str, int]) -> None:
        mention, kind, value = move
        self.changes.append((mention, kind, int(self.state[kind][mention])))
        self.state[kind][mention] = value

    def undo(self) -> None:
        mention, kind, value = self.changes.pop()
        self.state[kind][mention] = value

    def performance(self) -> float:
        return float(np.mean([self.tag_accuracy(), self.pair_accuracy()]))

    def tag_accuracy(self) -> float:
        return float((self.state["tag"] == self.truth["tag"]).mean())

    def pair_accuracy(self) -> float:
        upper = np.triu_indices(self.n_sites, 1)
        are_together = [(labels[:, None] == labels)[upper] for labels in (self.state["entity"], self.truth["entity"])]
        return float((are_together[0] == are_together[1]).mean())


def document(seed: int, n: int = 14, joint: bool = True) -> Mentions:
    """Return a document with noisy evidence for tags, and noisy likeness of mentions of one entity."""
    rng = np.random.default_rng(seed)
    entity = rng.integers(0, 4, n)
    tag = entity % 2
    evidence = (2 * tag - 1) + rng.normal(size=n)
    noise = rng.normal(size=(n, n))
    likeness = np.where(entity[:, None] == entity, 1.0, -1.0) + 1.5 * (noise + noise.T) / np.sqrt(2)
    return Mentions(evidence, likeness, {"tag": tag, "entity": entity}, joint)


def evaluate(joint: bool) -> tuple[float, float, Mentions, np.ndarray]:
    """Return the accuracies of tags and of pairs on new documents, the last document, and the weights."""
    weights = SampleRank(max_iter=5).rank([document(seed, joint=joint) for seed in range(20)])
    accuracies = []
    for seed in range(100, 115):
        world = document(seed, joint=joint)
        decode(world, weights, "annealing", n_proposals=100)
        accuracies.append((world.tag_accuracy(), world.pair_accuracy()))
    tags, pairs = np.mean(accuracies, axis=0)
    return float(tags), float(pairs), world, weights


def main(picture: str = "mentions.png") -> float:
    check_world(document(0, n=4), n_draws=1000)
    rows = {"separate": evaluate(joint=False)[:2]}
    tags, pairs, world, weights = evaluate(joint=True)
    rows["joint"] = (tags, pairs)
    for name, (tag_accuracy, pair_accuracy) in rows.items():
        print(f"{name:9} tags {tag_accuracy:.2f}, pairs {pair_accuracy:.2f}")
    together = {"same entity": lambda w: w.state["entity"][:, None] == w.state["entity"]}
    samples = sample_world(world, weights, together, n_samples=400, thinning=5.0, temperature=1.5, start="annealing")
    print(f"smallest effective sample size: {samples.effective_sample_sizes['same entity'].min():.0f} of 400")

    order = np.argsort(world.truth["entity"], kind="stable")
    figure, axes = plt.subplots(figsize=(5.5, 4.8))
    image = axes.imshow(samples.means["same entity"][np.ix_(order, order)], cmap="cividis", vmin=0, vmax=1)
    figure.colorbar(image, label="probability of one entity")
    names = [f"{TAGS[world.truth['tag'][k]]} {world.truth['entity'][k]}" for k in order]
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_title("Marginals of the joint world")
    figure.savefig(picture, dpi=110, bbox_inches="tight")
    return tags


if __name__ == "__main__":
    main(*sys.argv[1:])
