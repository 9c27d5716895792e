"""One small fitted model of every estimator, and its predictions, for tests of files and of representations."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from intarsia import (
    ChainCRF,
    CollectiveChain,
    EntityClusterer,
    GraphCRF,
    GridCRF,
    Program,
    RecordParser,
    RiskMinimizer,
    SampleRank,
    SoftLogic,
)
from intarsia.clusters import ClusterModel, HillClimbing, SplitMerge, ThresholdClusterer, TokenOverlap
from intarsia.collective import GaussianNoise, make_moves
from intarsia.crf import Factors, GraphInstance
from intarsia.exceptions import ConvergenceWarning
from intarsia.gradients import TruncatedGradient
from intarsia.sequences import LabelledText, once
from intarsia.softlogic import ConsensusADMM, EntropyPair, PairedDual, ProjectedSubgradient

RNG = np.random.default_rng(0)
IMAGES = [RNG.normal(size=(3, 4, 2)), RNG.normal(size=(2, 2, 2))]
QUICK = RiskMinimizer(l2=1.0, gradient=TruncatedGradient(n_iter=2))
WORDS = [[["a"], ["b"], ["c", "a"]], [["c"], ["a"], ["b"]]]
ADDRESSES = [
    LabelledText(
        f"{n} {street}, {city}",
        [(0, 1, "number"), (2, 2 + len(street), "street"), (4 + len(street), 8 + len(street), "city")],
    )
    for n, street, city in zip(range(2, 8), 2 * ["Oak Rd", "Elm St", "Bay St"], 3 * ["Rome", "Oslo"], strict=True)
]
COUNTS = np.array([np.roll([90.0, 5, 3, 2], t) for t in range(4)])
GRAPHS = [
    GraphInstance(
        {"word": np.eye(3), "topic": np.ones((1, 1))},
        factors={
            "about": Factors([[0, 0], [2, 0]], types=("word", "topic")),
            "follows": Factors([[0, 1], [1, 2]], types="word"),
        },
    )
]
RECORDS = {
    "name": ["Ann Lee", "Anne Lee", "Bob Ray", "Bob Rays", "Eve Fox", "Eva Fox"],
    "learner": ["Rye", "Rye", "Ayr", "Ayr", "Ely", "Ely"],  # a column with the name of a setting
}
ENTITIES = ["a", "a", "b", "b", "e", "e"]
OTHER_RECORDS = {"name": ["Tom Poe", "Tim Orr", "Tom Po"], "learner": ["Rye", "Ayr", "Rye"]}
COMPARISONS = {"name": TokenOverlap(ngram=2, levels=[0.5, 0.75]), "learner": "exact"}


def program() -> Program:
    pairs = [("ann", "bob"), ("bob", "ann"), ("ann", "eve")]
    return (
        Program()
        .predicate("Likes", 2)
        .predicate("Knows", 2)
        .predicate("Kind", 1)
        .rule("2: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2")
        .rule("1: Knows(A, B) -> Kind(B)")
        .rule("1: !Knows(A, B) ^2")
        .rule("Knows(A, B) <= 1 .")
        .observe("Likes", [("ann", "chess"), ("bob", "chess", 0.8), ("eve", "go")])
        .target("Knows", pairs)
        .latent("Kind", ["bob", "ann", "eve"])
        .truth("Knows", [(*pair, value) for pair, value in zip(pairs, (1.0, 1.0, 0.0), strict=True)])
    )


def _soft_logic() -> SoftLogic:
    learner = PairedDual(
        surrogate=EntropyPair(weight=0.2),
        optimizer=ProjectedSubgradient(max_iter=5),
        inference=ConsensusADMM(max_iter=500),
    )
    return SoftLogic(program(), learner=learner, inference=ConsensusADMM(tol=1e-6)).fit()


def _walkers() -> CollectiveChain:
    moves = make_moves(np.ones((4, 4)), {"right": np.roll(np.eye(4), 1, axis=1)})
    return CollectiveChain(moves, noise=GaussianNoise(2.0), seasons=["a", "a", "b"]).fit(COUNTS)


def _entities() -> EntityClusterer:
    model = ClusterModel(within=("match", "pair"), mean=("match",))
    decoder = HillClimbing(n_proposals=20.0, proposer=SplitMerge())
    learner = SampleRank(max_iter=1, random_state=0)
    clusterer = EntityClusterer(COMPARISONS, ["all_pairs"], learner, model=model, decoder=decoder)
    return clusterer.fit(RECORDS, ENTITIES)


_MAKE = {
    "ChainCRF": lambda: ChainCRF(scheme="bio", learner="arow").fit(WORDS, [["B-x", "I-x", "O"], ["O", "B-x", "I-x"]]),
    "RecordParser": lambda: RecordParser(l2=0.1, rules=[once("city")], gazetteers={"city": ["Rome"]}).fit(ADDRESSES),
    "GridCRF": lambda: GridCRF(learner=QUICK, class_weight={0: 2.0}).fit(
        IMAGES, [(image[..., 0] > 0).astype(int) for image in IMAGES]
    ),
    "GraphCRF": lambda: GraphCRF(
        learner=QUICK, classes={"word": ["a", "b"], "topic": [0, 1]}, symmetric=["follows"]
    ).fit(GRAPHS, [{"word": ["a", "b", "a"], "topic": [1]}]),
    "CollectiveChain": _walkers,
    "EntityClusterer": _entities,
    "ThresholdClusterer": lambda: ThresholdClusterer(COMPARISONS, "all_pairs").fit(RECORDS, ENTITIES),
    "SoftLogic": _soft_logic,
}  # fmt: skip
KINDS = tuple(_MAKE)
CLASSES: dict[str, Any] = {
    estimator.__name__: estimator
    for estimator in (
        ChainCRF,
        RecordParser,
        GridCRF,
        GraphCRF,
        CollectiveChain,
        EntityClusterer,
        ThresholdClusterer,
        SoftLogic,
    )
}


def make(kind: str) -> Any:
    """Return a fitted model of a kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return _MAKE[kind]()


def predictions(model: Any) -> Any:
    """Return predictions of a model for training data and for new data, as JSON types."""
    kind = type(model).__name__
    if kind == "ChainCRF":
        return plain([model.predict(WORDS), model.predict_marginals([[["c"], ["new"]]])])
    if kind == "RecordParser":
        texts = [example.text for example in ADDRESSES]
        return plain([model.predict(texts), [model.parse("7 Oak Rd, Rome").probability]])
    if kind == "GridCRF":
        return plain([model.predict(IMAGES), model.predict_marginals(IMAGES[::-1])])
    if kind == "GraphCRF":
        return plain([model.predict(GRAPHS), model.predict_marginals(GRAPHS)])
    if kind == "CollectiveChain":
        return plain([model.predict(COUNTS), model.predict(COUNTS[::-1]), model.flows(1, COUNTS)])
    if kind == "SoftLogic":
        others = model.program.without_data().observe("Likes", [("tom", "go"), ("kim", "go")])
        others.target("Knows", [("tom", "kim"), ("kim", "tom")]).latent("Kind", ["kim", "tom"])
        return plain([model.predict(), model.predict(others, predicate="Knows"), list(model.rules_)])
    return plain([model.predict(RECORDS), model.predict(OTHER_RECORDS)])


def plain(value: Any) -> Any:
    """Convert arrays, and containers of arrays, to lists."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value
