"""Entity resolution: `resolve`, estimators, blocking, comparisons, cluster features, worlds of clusters, answers."""

from __future__ import annotations

import json

import numpy as np
from tests.golden.golden import golden
from tests.golden.inference_calls import fields

from intarsia import EntityClusterer, SampleRank
from intarsia import clusters as c
from intarsia.datasets import make_customers
from intarsia.worlds import HillClimbing

EDGES = {
    "id1": ["a", "a", "b", "c", "d", "d", "e", "b", "g"],
    "id2": ["b", "c", "c", "d", "e", "f", "f", "d", "h"],
    "log_odds": [3.0, 2.0, 4.0, 1.0, 3.0, 3.0, 3.0, -4.0, -0.5],
}
NAMES = {
    "name": ["Ann Lee", "Anne Lee", "Bob Ray", "Bob Rays", "Eve Fox", "Eva Fox", "Tom Poe", None],
    "town": ["Rye", "Rye", "Ayr", "Ayr", "Ely", "Ely", "Rye", "Ayr"],
    "born": ["1990-01-02", "1990-02-01", "1985-05-05", "1985-05-05", None, "1970-07-07", "1970-07-07", "1999-09-09"],
    "age": [30, 31, 40, 40, 55, 54, None, 20],
}
ENTITIES = ["a", "a", "b", "b", "e", "e", "t", "u"]
COMPARISONS = {"name": c.JaroWinkler(levels=[0.8, 0.95]), "town": "exact"}


def random_edges(n=14, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, n)
    i, j = np.triu_indices(n, 1)
    keep = rng.random(i.size) < 0.6
    i, j = i[keep], j[keep]
    odds = np.where(truth[i] == truth[j], 2.0, -1.5) + 2.0 * rng.normal(size=i.size)
    return {"id1": i, "id2": j, "log_odds": odds}, truth


def resolution(found):
    texts = {
        "table": found.table,
        "components": found.components,
        "is": found.status.name,
        "method": found.calibration.method,
    }
    return texts | fields(found, "score", "bound", "gap", "n_entities", "n_pairs", "labels", "log_odds")


CASES = {
    "plain": {}, "auto": {"calibrate": "auto", "absent": "auto"}, "must_link": {"must_link": [("a", "d")]},
    "cannot_link": {"cannot_link": [("a", "b"), ("d", "f")]}, "max_size": {"max_size": 2}, "absent": {"absent": -2.0},
    "sources": {"source": dict(zip("abcdefgh", [1, 2, 1, 2, 1, 2, 1, 2], strict=True))},
    "ids": {"ids": list("hgfedcbaz")},
}  # fmt: skip


@golden(of=CASES)
def resolve(case):
    return resolution(c.resolve(EDGES, **({"calibrate": None, "absent": -0.1} | CASES[case])))


@golden(
    each=[
        "probability",
        "match_weight",
        "repeated",
        "splink",
        "competition",
        "frustrated",
        "frustrated_auto",
        "labelled",
    ]
)
def resolve_scores(case):
    """Other scales and columns, and a problem with cycles that disagree."""
    edges, options = {key: list(values) for key, values in EDGES.items()}, {"calibrate": None, "absent": 0.0}
    odds = np.array(edges.pop("log_odds"))
    if case == "probability":
        edges["match_probability"] = 1 / (1 + np.exp(-odds))
    elif case == "match_weight":
        edges["match_weight"] = odds / np.log(2)
    elif case == "repeated":
        edges = {key: values * 2 for key, values in edges.items()} | {"log_odds": np.append(odds, odds[::-1])}
        options["repeated"] = "max"
    elif case == "splink":
        edges = {"unique_id_l": edges["id1"], "unique_id_r": edges["id2"], "match_weight": odds}
    elif case == "competition":
        edges["match_probability"] = 1 / (1 + np.exp(-odds))
        options |= {"calibrate": "competition", "source": {name: k % 3 for k, name in enumerate("abcdefgh")}}
    else:
        edges, truth = random_edges()
        options = options if case == "frustrated" else {"calibrate": "auto", "absent": "auto"}
        if case == "labelled":
            pairs = {name: edges[name][::2] for name in ("id1", "id2")}
            options = {"calibrate": pairs | {"match": truth[pairs["id1"]] == truth[pairs["id2"]]}}
    try:
        return resolution(c.resolve(edges, **options))
    except ValueError as error:
        return {"error": str(error)}


@golden()
def resolve_again():
    """New pairs are added to an earlier result."""
    first = c.resolve(EDGES, calibrate=None, absent=0.0)
    more = {"id1": ["g", "g", "a"], "id2": ["x", "h", "b"], "log_odds": [2.0, 3.0, -6.0]}
    found = c.resolve(more, previous=first, calibrate=None, absent=0.0)
    return resolution(found) | {"changes": str(found.changes)}


@golden(each=["small", "sampled"])
def resolution_confidence(case):
    edges = EDGES if case == "small" else random_edges()[0]
    found = c.resolve(edges, calibrate=None, absent=0.0).confidence(n_samples=40, random_state=0)
    return {"records": found.records, "pairs": found.pairs, "n": found.n_samples}


@golden()
def resolution_explained():
    found = c.resolve(EDGES, calibrate=None, absent=0.0)
    pair, entity = found.explain("a", "b"), found.explain("a")
    return {"pair": pair.as_dict(), "entity": entity.as_dict(), "titles": [pair.title, entity.title], "text": str(pair)}


@golden()
def resolve_by_component():
    labelled = c.label_components(EDGES)
    rows = [k for k, value in enumerate(labelled["component"]) if value == labelled["component"][0]]
    part = {key: [values[k] for k in rows] for key, values in labelled.items()}
    return {"labelled": labelled, "part": c.resolve_component(part)}


@golden(of=["exact", "jaro_winkler", "token_overlap", "numeric", "date", "embedding"])
def comparison(name):
    """The features of a comparison, through the pairs of a fitted clusterer."""
    column = {"numeric": "age", "date": "born", "embedding": "vector"}.get(name, "name")
    records = NAMES | {"vector": [[np.cos(k), np.sin(k)] for k in range(8)]}
    clusterer = EntityClusterer({column: name, "town": "exact"}, "all_pairs").fit(records, ENTITIES)
    pairs = clusterer.predict_pairs(records)
    return {"pairs": {key: list(values) for key, values in pairs.items()}, "features": repr(clusterer.comparisons_)}


@golden(each=["all_pairs", "shared_tokens", "shared_values", "sorted_neighbourhood", "several", "prefix", "ngram"])
def blocking(name):
    """The pairs that a rule proposes."""
    rules = {
        "shared_tokens": c.SharedTokens("name"), "shared_values": c.SharedValues("town"), "all_pairs": c.AllPairs(),
        "sorted_neighbourhood": c.SortedNeighbourhood("name", window=2), "prefix": c.SharedValues(["name"], prefix=2),
        "several": ["shared_values", c.SortedNeighbourhood("name", window=1)], "ngram": c.SharedTokens("name", ngram=3),
    }  # fmt: skip
    if name == "several":
        rules["several"][0] = c.SharedValues("town")
    clusterer = EntityClusterer(COMPARISONS, rules[name]).fit(NAMES, ENTITIES)
    pairs = clusterer.predict_pairs(NAMES)
    return {"pairs": {key: list(values) for key, values in pairs.items()}, "repr": repr(rules[name])}


def customers(n=20, seed=0):
    made = make_customers(n, max_copies=2, random_state=seed)
    return made.columns, made.entity


@golden(each=["default", "labels", "columns", "two_tables", "edges", "partial_labels", "one_to_one", "matches"])
def entity_clusterer(case, folder):
    """Fit with and without labels, predict through a saved model, pairs, score."""
    columns, entity = customers()
    left, right = ({name: values[k::2] for name, values in columns.items()} for k in (0, 1))
    clusterer = EntityClusterer(random_state=0)
    if case == "labels":
        clusterer.fit(columns, entity)
    elif case == "columns":
        clusterer.set_params(comparisons={"last_name": "jaro_winkler", "email": "exact"}).fit(columns, entity)
    elif case == "partial_labels":
        clusterer.fit(columns, [None if k % 3 == 0 else value for k, value in enumerate(entity)])
    elif case == "edges":
        clusterer.fit(list(range(14)), random_edges()[1], edges=random_edges()[0])
        found = clusterer.predict(list(range(14)), edges=random_edges()[0])
        return {
            "entities": np.asarray(found),
            "score": clusterer.score(list(range(14)), random_edges()[1], edges=random_edges()[0]),
        }
    elif case in ("two_tables", "one_to_one", "matches"):
        clusterer.set_params(one_to_one=case != "two_tables")
        clusterer.fit(left, right=right)
        return {"entities": np.asarray(clusterer.predict(left, right)), "repr": repr(clusterer)}
    else:
        clusterer.fit(columns)
    clusterer.save(folder / "m.npz")
    clusterer = EntityClusterer.load(folder / "m.npz")
    pairs = clusterer.predict_pairs(columns)
    return {
        "entities": np.asarray(clusterer.predict(columns)), "score": clusterer.score(columns, entity),
        "pairs": [list(pairs)[:3], np.asarray(pairs["probability"])[:60].tolist()],
    }  # fmt: skip


@golden(each=["plain", "model", "features", "hill_climbing", "cem", "adaptive", "perceptron", "metric"])
def learned_clusterer(case):
    """Models of whole clusters, learned by SampleRank."""
    learner = SampleRank(max_iter=1, n_proposals=20.0, random_state=0)
    settings = {
        "model": {"model": c.ClusterModel(within=("match", "pair"), mean=("match",), sizes=(1, 2), log_size=True)},
        "features": {"cluster_features": [c.AllEqual("town"), c.DistinctValues("name"), c.NoKnownValue("name"),
        c.Span("age"),
                                          c.PairAggregate("exists", level=1.0)]},
        "hill_climbing": {"decoder": HillClimbing(n_proposals=20.0,
        proposer=c.SplitMerge(sequential=1.0, move_one=1.0))},
        "cem": {"decoder": c.CEMDecode(n_proposals=20.0)}, "metric": {"metric": "pairwise_f1"},
        "adaptive": {"decoder": c.CEMDecode(n_proposals=10.0, proposer=c.AdaptiveSplitMerge(max_iter=2, n_samples=10))},
        "perceptron": {"learner": SampleRank(update="perceptron", max_iter=1, n_proposals=20.0)},
    }.get(case, {})  # fmt: skip
    clusterer = EntityClusterer(COMPARISONS, "all_pairs", **({"learner": learner} | settings)).fit(NAMES, ENTITIES)
    return {
        "entities": np.asarray(clusterer.predict(NAMES)), "weights": clusterer.weights_,
        "score": clusterer.score(NAMES, ENTITIES),
        "repr": repr(clusterer),
    }  # fmt: skip


@golden()
def entity_explained():
    clusterer = EntityClusterer(COMPARISONS, "all_pairs").fit(NAMES, ENTITIES)
    clusterer.predict(NAMES)
    pair, entity = clusterer.explain(0, 1), clusterer.explain(0)
    return {"pair": json.loads(json.dumps(pair.as_dict(), default=str)), "text": str(entity).splitlines()[0]}


@golden(each=["b_cubed", "pairwise"])
def threshold_clusterer(metric, folder):
    clusterer = c.ThresholdClusterer(COMPARISONS, "all_pairs", metric=metric).fit(NAMES, ENTITIES)
    clusterer.save(folder / "m.npz")
    clusterer = c.ThresholdClusterer.load(folder / "m.npz")
    entities = clusterer.predict(NAMES)
    return {"entities": entities, "threshold": clusterer.threshold_, "score": clusterer.score(NAMES, ENTITIES)}


@golden()
def components_and_thresholds():
    edges, truth = random_edges()
    pairs, scores = np.column_stack([edges["id1"], edges["id2"]]), edges["log_odds"]
    best = {metric: list(c.best_threshold(14, pairs, scores, truth, metric)) for metric in ("b_cubed", "pairwise")}
    return {"components": c.connected_components(14, pairs, scores, 2.5), "best": best}


MODELS = {
    "default": None, "between": c.ClusterModel(between="all", absent=False),
    "mean": c.ClusterModel(mean="all", minimum="all"),
    "levels": c.ClusterModel(exists={"s": 0.5}, for_all={"s": 0.0}, maximum="all"),
    "sizes": c.ClusterModel(sizes=(1, 2), log_size=True, between_mean="all"),
    "values": c.ClusterModel(agreement=["town"], all_equal=["town"], distinct=["town"], unknown=["town"], span=["age"]),
    "representative": c.ClusterModel(representative="all", between_exists={"s": 1.0}),
}  # fmt: skip


def world_of(name, **options):
    rng = np.random.default_rng(1)
    i, j = np.triu_indices(6, 1)
    truth = np.array([0, 0, 0, 1, 1, 2])
    values = np.column_stack([np.where(truth[i] == truth[j], 1.0, -1.0) + rng.normal(size=15), rng.normal(size=15)])
    pairs = c.pair_features(6, np.column_stack([i, j])[::2], values[::2], ["s", "t"])
    options = {"attributes": {"town": [0, 0, 1, 1, -1, 2]}, "numbers": {"age": [1.0, 2, 5, np.nan, 7, 7]}} | options
    return c.ClusterWorld(pairs, MODELS[name], truth=truth, **options)


@golden(of=MODELS)
def cluster_model(name):
    """Feature changes along random moves, features at the end, and the change of performance."""
    world, rng = world_of(name), np.random.default_rng(0)
    weights, rows = np.linspace(-1, 1, world.n_weights), []
    for _ in range(12):
        move = world.propose(rng, weights)
        rows.append([*world.feature_change(move), world.performance_change(move), world.log_ratio(move)])
        world.apply(move)
    return {
        "rows": np.array(rows),
        "labels": world.labels,
        "features": world.features(),
        "names": list(world.feature_names),
    }


PROPOSERS = {
    "default": None, "random": c.SplitMerge(), "sequential": c.SplitMerge(random=0.0, sequential=1.0),
    "move_one": c.SplitMerge(random=0.5, move_one=1.0), "along_pairs": c.SplitMerge(along_pairs=0.7),
    "temperature": c.SplitMerge(sequential=1.0, temperature=0.5),
    "adaptive": c.AdaptiveSplitMerge(max_iter=2, n_samples=10),
    "learn_beta": c.AdaptiveSplitMerge(max_iter=2, n_samples=10, learn_beta=True, allocation="best"),
}  # fmt: skip


@golden(of=PROPOSERS)
def proposer(name):
    world = world_of("default", proposer=PROPOSERS[name])
    weights = np.linspace(1.0, -1.0, world.n_weights)
    try:
        found = c.decode(world, weights, "metropolis_hastings", n_proposals=30.0, random_state=0)
    except ValueError as error:
        return {"error": str(error)}
    return fields(found, "labels", "score", "n_proposals", "n_accepted", "scores")


@golden(of=["hill_climbing", "metropolis_hastings", "agglomeration", "cem_decode", "annealing"])
def cluster_decoder(method):
    settings = {} if method == "agglomeration" else {"n_proposals": 30.0}
    found = c.decode(
        world_of("mean"), np.linspace(1.0, -1.0, world_of("mean").n_weights), method, random_state=0, **settings
    )
    return fields(found, "labels", "score", "n_proposals", "n_accepted", "scores") | {"is": found.status.name}


@golden()
def sample_coreference():
    world = world_of("default")
    found = c.sample_coreference(world, np.linspace(1, -1, world.n_weights), n_samples=40, burn_in=5.0, random_state=0)
    return {"probabilities": found, "labels": world.labels}


@golden()
def constrained_world():
    links = c.link_constraints(6, [[0, 3]], [[0, 1], [2, 5]])
    world = world_of("default", constraints=links)
    found = c.decode(world, np.linspace(1, -1, world.n_weights), n_proposals=20.0, random_state=0)
    return {
        "labels": found.labels,
        "atom": links.atom,
        "cannot": [links.cannot_ptr, links.cannot_idx],
        "score": found.score,
    }


@golden()
def partition():
    state = c.Partition([0, 0, 1, 1, 2])
    steps = []
    for move in (c.Move(np.array([1]), state.cluster_of(4)), c.Move(np.array([2, 3]), state.cluster_of(0))):
        state.apply(move)
        steps.append(state.labels.tolist())
    state.undo()
    return {"steps": steps, "undone": state.labels, "sizes": np.asarray(state.sizes)}


@golden()
def choices():
    found = c.choices_of(world_of("default", start=[0, 0, 0, 1, 1, 2]))
    return fields(found, "splits", "merges", "split_features", "merge_features")


@golden()
def answers(folder):
    lines = ['{"id1": 1, "id2": 2, "answer": "same"}', '{"id1": 3, "id2": 2, "answer": "different"}']
    (folder / "a.jsonl").write_text("\n".join([*lines, '{"id1": 3, "id2": 1, "answer": "unsure"}']))
    found = c.read_answers(folder / "a.jsonl")
    return {"links": [found.must_link, found.cannot_link, found.unsure], "labels": found.labels}
