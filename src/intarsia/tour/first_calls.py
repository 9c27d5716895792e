"""Small calls of every common feature, which `intarsia compile` runs to have their kernels compiled and stored."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from intarsia._files.atomic_file import temporary_folder
from intarsia.exceptions import CompatibilityWarning, ConvergenceWarning
from intarsia.graph import chain_graph, grid_graph, read_uai, write_uai
from intarsia.inference import infer


def factor_graphs() -> None:
    """Run inference on small grids with two and three states, tables and Potts factors, and on a UAI file."""
    rng = np.random.default_rng(0)
    marginal_methods = ["tree_reweighted", "belief_propagation", "mean_field", "junction_tree", "gibbs"]
    map_methods = [*marginal_methods[:2], "junction_tree", "icm", "dual_decomposition", "lp_relaxation"]
    for n_states, kind in [(2, "table"), (2, "potts"), (3, "table"), (3, "potts")]:
        graph = grid_graph(4, 4, n_states=n_states, kind=kind)
        theta = rng.normal(size=graph.n_theta)
        for method in ["auto", *marginal_methods]:
            infer(graph, theta, method)
        for method in ["auto", *map_methods]:
            infer(graph, theta, method, task="map")
        shared = grid_graph(20, 20, n_states=n_states, kind=kind, shared=True)
        infer(shared, rng.normal(size=shared.n_theta))
    chain = chain_graph(5, 3)
    theta = rng.normal(size=chain.n_theta)
    infer(chain, theta, "tree", n_samples=2, random_state=0)
    infer(chain, theta, "tree", task="map", n_best=2)
    attractive = grid_graph(3, 3, n_states=2, kind="potts")
    theta = np.concatenate([rng.normal(size=18), np.ones(attractive.n_theta - 18)])
    infer(attractive, theta, "graph_cut", task="map")
    with temporary_folder() as folder:
        path = Path(folder, "model.uai")
        write_uai(path, attractive, theta)
        graph, theta = read_uai(path)
        infer(graph, theta, evidence={0: 1})


def sequences() -> None:
    """Train and use `ChainCRF` on features as strings and as arrays, with and without an energy."""
    from intarsia.energies import at_most_one
    from intarsia.sequences import ChainCRF

    words = [[["Dr"], ["Ada"], ["Byron"]], [["Alan"], ["Turing"]], [["Dr"], ["Alan"], ["Byron"]]] * 4
    labels = [["TITLE", "FIRST", "LAST"], ["FIRST", "LAST"], ["TITLE", "FIRST", "LAST"]] * 4
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(len(sequence), 4)) for sequence in words]
    for X in (words, arrays):
        for settings in ({}, {"learner": "averaged_perceptron"}, {"energies": [at_most_one("TITLE")]}):
            tagger = ChainCRF(**settings).fit(X, labels)
            tagger.predict(X)
            tagger.predict_marginals(X)
            tagger.score(X, labels)
        plain = ChainCRF(scheme=None).fit(X, labels)
        plain.predict_kbest(X, 2)
        plain.sample(X, 2, random_state=0)
        plain.sequence_log_probability(X, labels)


def images() -> None:
    """Train and use `GridCRF` on images with two and three classes, and `GraphCRF` on small graphs."""
    from intarsia.crf import GraphCRF, GridCRF

    rng = np.random.default_rng(0)
    for n_classes in (2, 3):
        y = [rng.integers(0, n_classes, (5, 6)) for _ in range(3)]
        X = [np.stack([np.ones(labels.shape), labels + rng.normal(size=labels.shape)], axis=-1) for labels in y]
        crf = GridCRF().fit(X, y)
        crf.predict_marginals(X)
        crf.score(X, y)
        edges = np.array([[0, 1], [1, 2], [2, 0]])
        nodes = [rng.normal(size=(3, 2)) for _ in range(4)]
        node_labels = [np.arange(3) % n_classes for _ in nodes]
        GraphCRF().fit([(features, edges) for features in nodes], node_labels).predict([(nodes[0], edges)])


def rules() -> None:
    """Infer a small program of probabilistic soft logic, and learn the weights of its rules."""
    from intarsia.softlogic import Program, SoftLogic

    program = (
        Program()
        .predicate("Likes", 2)
        .predicate("Knows", 2)
        .rule("2: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2")
        .rule("1: !Knows(A, B) ^2")
        .rule("1: Knows(A, B) -> Knows(B, A)")
        .observe("Likes", [("ann", "chess"), ("bob", "chess")])
        .target("Knows", [("ann", "bob"), ("bob", "ann")])
    )
    SoftLogic(program).infer().explain("Knows", "ann", "bob")
    program.rule("Knows(A, B) <= 0.5 .")
    SoftLogic(program).infer()
    program.truth("Knows", [("ann", "bob", 0.5), ("bob", "ann", 0.0)])
    SoftLogic(program).fit().infer()


def records() -> None:
    """Train and use the clusterers of records, and compute the scores of a clustering."""
    from intarsia.clusters import EntityClusterer, ThresholdClusterer
    from intarsia.datasets import make_customers

    labelled, new = make_customers(30, random_state=1), make_customers(20, random_state=2)
    comparisons = {"first_name": "exact", "last_name": "token_overlap", "birth_date": "date"}
    for estimator in (EntityClusterer(comparisons), ThresholdClusterer(comparisons)):
        estimator.fit(labelled.columns, labelled.entity)
        estimator.predict(new.columns)
        estimator.score(new.columns, new.entity)
    EntityClusterer(comparisons).fit(labelled.columns, labelled.entity).predict_pairs(new.columns)


def tour() -> None:
    """Run the stops of `intarsia tour`."""
    from intarsia.tour.tour import run_tour

    for _ in run_tour(0, None):
        pass


CALLS: dict[str, Callable[[], None]] = {
    "records": records,
    "factor graphs": factor_graphs,
    "images": images,
    "sequences": sequences,
    "rules": rules,
    "tour": tour,
}

if __name__ == "__main__":
    with warnings.catch_warnings():
        for category in (CompatibilityWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        CALLS[sys.argv[1]]()
