"""Put the records of each customer together, where links between pairs would run people together.

Every person is written down up to eight times, with slips and gaps. Connected components of the links between records
join two people for good as soon as one link is wrong. `EntityClusterer` looks at whole clusters instead. The picture
shows the records of the component with the most people in it: black where two records are held to be one person. See
docs/start/records.md and docs/guide/entities.md.

    pip install 'intarsia[records]'  # similarity of strings, by rapidfuzz
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
    known, fresh = (make_customers(150, 8, slips=3.0, missing=0.3, random_state=seed) for seed in (0, 1))
    linked = ThresholdClusterer(COMPARISONS).fit(known.columns, known.entity).predict(fresh.columns)
    clusterer = EntityClusterer(COMPARISONS).fit(known.columns, known.entity)
    found = clusterer.predict(fresh.columns)
    pairs = clusterer.predict_pairs(fresh.columns, n_samples=50)

    persons = [len({int(e) for e in fresh.entity[linked == c]}) for c in range(linked.max() + 1)]
    shown = np.flatnonzero(linked == int(np.argmax(persons)))
    shown = shown[np.argsort(fresh.entity[shown], kind="stable")]
    place = {int(row): k for k, row in enumerate(shown)}
    likely = np.eye(len(shown))
    for a, b, probability in zip(pairs["id1"], pairs["id2"], pairs["probability"], strict=True):
        if a in place and b in place:
            likely[place[a], place[b]] = likely[place[b], place[a]] = probability

    scores = [clustering_scores(fresh.entity, labels).b_cubed.f1 for labels in (linked, found)]
    panels = {
        "truth": np.equal.outer(fresh.entity[shown], fresh.entity[shown]),
        f"connected components\nB-cubed F1 {scores[0]:.3f}": np.equal.outer(linked[shown], linked[shown]),
        f"EntityClusterer\nB-cubed F1 {scores[1]:.3f}": np.equal.outer(found[shown], found[shown]),
        "probability of pairs": likely,
    }
    figure, grid = plt.subplots(1, 4, figsize=(9, 3), layout="constrained")
    for axes, (title, same) in zip(grid, panels.items(), strict=True):
        axes.imshow(same, cmap="Greys", vmin=0, vmax=1)
        axes.set_title(title, fontsize=9)
        axes.set(xticks=[], yticks=[])
    figure.supxlabel(f"{len(shown)} records of {max(persons)} people, by person", fontsize=9)
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    print(f"B-cubed F1 {scores[1]:.3f}, connected components {scores[0]:.3f}; see {picture}")
    return float(scores[1])


if __name__ == "__main__":
    main(*sys.argv[1:2])
