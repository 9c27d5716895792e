"""Resolve customer records into people, where connected components of matching pairs would merge different people.

Every person has up to eight records with typos and missing values. Connected components of matching pairs merge two
people as soon as one pair is wrong. `EntityClusterer` scores whole clusters instead. The picture shows the records of
the component with the most people: black where two records are predicted to be the same person. See
docs/start/records.md and docs/guide/entities.md.

    python examples/resolve_customers.py [picture.png]
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from intarsia import EntityClusterer
from intarsia.clusters import ThresholdClusterer
from intarsia.datasets import make_customers
from intarsia.metrics import clustering_scores

COMPARISONS = {
    "first_name": "jaro_winkler",
    "last_name": "jaro_winkler",
    "street": "token_overlap",
    "birth_date": "date",
}


def main(picture: str = "customers.png") -> float:
    train, test = (make_customers(150, 8, typos=3.0, missing=0.3, random_state=seed) for seed in (0, 1))
    linked = ThresholdClusterer(COMPARISONS).fit(train.columns, train.entity).predict(test.columns)
    clusterer = EntityClusterer(COMPARISONS).fit(train.columns, train.entity)
    entities = clusterer.predict(test.columns)
    pairs = clusterer.predict_pairs(test.columns, n_samples=50)

    n_persons = [len({int(e) for e in test.entity[linked == c]}) for c in range(linked.max() + 1)]
    rows = np.flatnonzero(linked == int(np.argmax(n_persons)))
    rows = rows[np.argsort(test.entity[rows], kind="stable")]
    position = {int(row): k for k, row in enumerate(rows)}
    likely = np.eye(len(rows))
    for a, b, probability in zip(pairs["id1"], pairs["id2"], pairs["probability"], strict=True):
        if a in position and b in position:
            likely[position[a], position[b]] = likely[position[b], position[a]] = probability

    scores = [clustering_scores(test.entity, labels).b_cubed.f1 for labels in (linked, entities)]
    panels = {
        "truth": np.equal.outer(test.entity[rows], test.entity[rows]),
        f"connected components\nB-cubed F1 {scores[0]:.3f}": np.equal.outer(linked[rows], linked[rows]),
        f"EntityClusterer\nB-cubed F1 {scores[1]:.3f}": np.equal.outer(entities[rows], entities[rows]),
        "probability of pairs": likely,
    }
    figure, grid = plt.subplots(1, 4, figsize=(9, 3), layout="constrained")
    for axes, (title, matrix) in zip(grid, panels.items(), strict=True):
        axes.imshow(matrix, cmap="Greys", vmin=0, vmax=1)
        axes.set_title(title, fontsize=9)
        axes.set(xticks=[], yticks=[])
    figure.supxlabel(f"{len(rows)} records of {max(n_persons)} people, sorted by person", fontsize=9)
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    print(f"B-cubed F1 {scores[1]:.3f}, connected components {scores[0]:.3f}; see {picture}")
    return float(scores[1])


if __name__ == "__main__":
    main(*sys.argv[1:2])
