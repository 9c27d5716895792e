"""Errors and warnings of calls with wrong input: their types and texts, by family."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.golden.golden import FOLDER
from tests.learning.training_sets import noisy_grids
from tests.zoo import ZOO

import intarsia
from intarsia import ChainCRF, EntityClusterer, GraphCRF, GridCRF, Program, RecordParser, SoftLogic, collective, metrics
from intarsia import clusters as c
from intarsia import datasets as data
from intarsia import energies as e
from intarsia import graph as g
from intarsia import losses as lo
from intarsia import sequences as seq
from intarsia import softlogic as s
from intarsia import worlds as w
from intarsia.crf import Factors, GraphInstance
from intarsia.exceptions import IntarsiaError
from intarsia.gradients import GRADIENTS
from intarsia.inference import method_class, method_names
from intarsia.learning import LEARNERS, OPTIMIZERS, RiskMinimizer, SampleRank, example
from intarsia.models import LinearScores

NAME = "messages"
FILE = FOLDER / "messages.json"
X, Y = [[["sun"], ["rain"], ["rain"]], [["rain"], ["sun"]]], [["good", "bad", "bad"], ["bad", "good"]]
WRONG = (-1, "nonsense")


@functools.cache
def chain():
    return ChainCRF(l2=0.2).fit(X, Y)


def grid():
    return ZOO["grid"]()


def ask(method="belief_propagation", **options):
    return intarsia.infer(*grid(), method, **options)


def judge(penalty):
    return ask("bethe_rda", energy=e.MeasuredEnergy(e.Count(1), penalty))


def infer_messages():
    graph, theta = grid()
    yield lambda: ask("beleif_propagation")
    yield lambda: ask(3)
    yield lambda: ask(task="margnals")
    yield lambda: ask(task="map", temperature=0.5)
    yield lambda: ask(max_itr=3)
    yield lambda: intarsia.infer(graph, theta[:-1])
    yield lambda: intarsia.infer(graph, theta.reshape(2, -1))
    yield lambda: intarsia.infer(graph, np.where(np.arange(theta.size) == 3, np.nan, theta))
    yield lambda: intarsia.infer(graph, np.where(np.arange(theta.size) == 3, np.inf, theta))
    yield lambda: intarsia.infer("graph", theta)
    yield lambda: ask(evidence={99: 0})
    yield lambda: ask(evidence={0: 7})
    yield lambda: ask(evidence={"sky": 0})
    yield lambda: ask(evidence=[0, 1])
    yield lambda: ask(n_samples=5)
    yield lambda: ask(n_best=5)
    yield lambda: ask(n_samples=-1)
    yield lambda: ask(warm_start="x")
    yield lambda: ask("brute_force", warm_start=ask("mean_field"))
    yield lambda: ask(warm_start=intarsia.infer(*ZOO["chain"](), "belief_propagation"))
    yield lambda: ask(time_limit=-1)
    yield lambda: ask(random_state="seed")
    yield lambda: ask("tree")
    yield lambda: ask("brute_force", max_assignments=10)
    yield lambda: ask("junction_tree", max_memory=10)
    yield lambda: ask("graph_cut", task="map", temperature=2.0)
    yield lambda: intarsia.infer(*ZOO["complete"](), "graph_cut", "map")
    yield lambda: intarsia.infer(*ZOO["grid_three_states"](), "graph_cut", "map")
    yield lambda: ask(max_iter=1)
    yield lambda: ask("mean_field", max_iter=1)
    yield lambda: ask("tree_reweighted", max_iter=1)
    yield lambda: ask("dual_decomposition", task="map", max_iter=1)
    yield lambda: intarsia.infer(*ZOO["infeasible"]()).marginals(0)
    yield lambda: ask("icm").marginals(99)
    yield lambda: ask("belief_propagation").factor_marginals(99)
    yield lambda: ask("bethe_rda", energy="at most one")
    yield lambda: ask("bethe_rda", energy=e.at_most_one("x"))
    yield lambda: ask("bethe_dual", energy=e.MeasuredEnergy(e.Count(7), e.Squared()))


def method_settings():
    for name in method_names():
        yield from settings_of(method_class(name), lambda method: intarsia.infer(*ZOO["chain"](), method))


def settings_of(cls, use, **base):
    """Yield a call for each setting with each wrong value; `use` runs the object."""
    for parameter in inspect.signature(cls.__init__).parameters.values():
        if parameter.name not in ("self", "random_state", "names", "n_jobs", *base) and not isinstance(
            parameter.default, bool
        ):
            for value in WRONG:
                yield functools.partial(_with_setting, cls, use, base | {parameter.name: value})


def _with_setting(cls, use, settings):
    return use(cls(**settings))


def learning_messages():
    examples = noisy_grids(1, shape=(2, 2))
    for name in LEARNERS.names:
        yield from settings_of(LEARNERS.get(name), lambda learner: learner.minimize(examples, "lp_relaxation"))
    for name in OPTIMIZERS.names:
        yield from settings_of(OPTIMIZERS.get(name), lambda o: o.minimize(lambda x: (float(x @ x), 2 * x), np.ones(2)))
    for name in GRADIENTS.names:
        labels = lo.training_labels(*[grid()[0], np.zeros(9, int)])
        yield from settings_of(
            GRADIENTS.get(name),
            lambda rule, labels=labels: rule.value_and_gradient(
                *grid(), labels, lo.UnivariateLogistic(), "belief_propagation"
            ),
        )
    graph, _ = grid()
    scores = LinearScores(graph, np.ones((9, 1)))
    yield lambda: LinearScores(graph, np.ones((8, 1)))
    yield lambda: LinearScores(graph, np.full((9, 1), np.nan))
    yield lambda: example(scores, np.zeros(8, int))
    yield lambda: example(scores, np.full(9, 5))
    yield lambda: example(scores, np.zeros(9, int), weight=-1.0)
    yield lambda: lo.training_labels(graph, np.zeros((9, 2), bool))
    yield lambda: RiskMinimizer().minimize([], "tree_reweighted")
    yield lambda: RiskMinimizer().minimize(examples, "lp_relaxation")
    yield lambda: RiskMinimizer(loss="hinge").minimize(examples, "tree_reweighted")
    yield lambda: RiskMinimizer().minimize(examples, "tree_reweighted", np.ones(3))
    yield lambda: LEARNERS.get("structured_svm")().minimize(examples, "tree_reweighted", np.ones(6))
    yield lambda: SampleRank().fit_worlds([])
    yield lambda: lo.PiecewiseLikelihood().value_and_gradient_theta(*grid(), lo.training_labels(graph, np.full(9, -1)))


def chain_messages():
    crf = chain()
    yield lambda: ChainCRF().predict(X)
    yield lambda: ChainCRF().fit(X)
    yield lambda: ChainCRF().fit(X, Y[:1])
    yield lambda: ChainCRF().fit(X, [["good"], ["bad", "good"]])
    yield lambda: ChainCRF().fit([], [])
    yield lambda: ChainCRF().fit([[1, 2]], [["a", "b"]])
    yield lambda: ChainCRF(classes=["good"]).fit(X, Y)
    yield lambda: ChainCRF(learner="crf").fit(X, Y)
    yield lambda: ChainCRF(scheme="iob").fit(X, Y)
    yield lambda: ChainCRF(scheme="bio").fit(X, Y)
    yield lambda: ChainCRF(decode="best").fit(X, Y).predict(X)
    yield lambda: ChainCRF(decode="penalized_map").fit(X, Y).predict(X)
    yield lambda: ChainCRF(forbidden=[("good", "ugly")]).fit(X, Y)
    yield lambda: ChainCRF(forbidden=[("good", "bad")]).fit(X, Y)
    yield lambda: ChainCRF(class_weight={"ugly": 1.0}).fit(X, Y)
    yield lambda: ChainCRF(energies="few").fit(X, Y)
    yield lambda: ChainCRF(require="once").fit(X, Y)
    yield lambda: ChainCRF(require=seq.once("good", soft=True)).fit(X, Y)
    yield lambda: ChainCRF(require=seq.once("ugly")).fit(X, Y)
    yield lambda: ChainCRF(weights="some").fit(X, Y)
    yield lambda: ChainCRF(learner="arow", l2=1.0).fit(X, Y)
    yield lambda: ChainCRF(lerner="arow")
    yield lambda: ChainCRF().set_params(lerner="arow")
    yield lambda: ChainCRF().set_params(learner__tool=1)
    yield lambda: ChainCRF().fit(X, Y, sample_weight=[1.0])
    yield lambda: ChainCRF().fit(X, Y, sample_weight=[-1.0, 1.0])
    yield lambda: ChainCRF().fit(X, Y, edge_features=[np.ones((1, 1))] * 2)
    yield lambda: ChainCRF().fit(X, Y, development=(X, Y))
    yield lambda: ChainCRF().partial_fit(X, Y)
    yield lambda: ChainCRF().partial_fit(X, Y, classes=["good", "bad"])
    yield lambda: ChainCRF().fit([np.ones((2, 2)), np.ones((2, 3))], [[0, 1], [1, 0]])
    yield lambda: ChainCRF().fit([np.full((2, 2), np.nan)], [[0, 1]])
    yield lambda: crf.predict([[["fog"]]])
    yield lambda: crf.predict([np.ones((2, 1))])
    yield lambda: crf.predict(X, allowed=[["good"]])
    yield lambda: crf.predict(X, allowed=[["ugly", None, None], [None, None]])
    yield lambda: crf.predict_kbest(X, 0)
    yield lambda: crf.sample(X, -1)
    yield lambda: crf.explain(X[0], 9)
    yield lambda: crf.explain(X[0], 1, label="ugly")
    yield lambda: crf.top_features("ugly")
    yield lambda: crf.reliability_curve(X, Y, unit="words")
    yield lambda: crf.sequence_log_probability(X, Y[:1])
    yield lambda: crf.strengths(X)
    yield lambda: seq.choose_l2(ChainCRF(), X, Y, cv=9)
    yield lambda: seq.choose_l2(ChainCRF(), X, Y, cv=2, l2_values=[-1.0])
    yield lambda: seq.constrain(np.zeros(3), require=[seq.once("x")])
    yield lambda: seq.constrain(np.zeros((2, 2)), require=[seq.once("x")], classes=["a"])
    yield lambda: seq.constrain(np.zeros((2, 2)), require=[seq.once("x", soft=True)], classes=["x", "y"])
    yield lambda: seq.constrain(
        np.zeros((2, 2)), require=[seq.fixed({0: "x"}), seq.fixed({0: "y"})], classes=["x", "y"]
    )
    yield lambda: seq.count("x", 3, 1)
    yield lambda: seq.count("x", -1)
    yield lambda: seq.in_order("x")
    yield lambda: seq.fixed({})
    yield lambda: seq.one_of("x", [])
    yield lambda: seq.once("x", strength=1.0)
    yield lambda: RecordParser().fit([])
    yield lambda: RecordParser().fit(["12 Main"])
    yield lambda: RecordParser().parse("12 Main")
    yield lambda: RecordParser(tokenizer="letters").fit([seq.LabelledText("12", [(0, 2, "n")])])
    yield lambda: seq.LabelledText("12 Main", [(0, 20, "n")])
    yield lambda: seq.LabelledText("12 Main", [(0, 2, "n"), (1, 4, "m")])
    yield lambda: seq.tokenize("a", "letters")
    yield lambda: metrics.find_segments(["B-x"], "iob9")
    yield lambda: seq.load_tagger("missing.npz")
    for name in seq.CHAIN_LEARNERS.names:
        yield from settings_of(seq.CHAIN_LEARNERS.get(name), lambda learner: ChainCRF(learner=learner).fit(X, Y))


def crf_messages():
    images, masks = [np.ones((2, 3, 1))], [np.zeros((2, 3), int)]
    nodes = (np.ones((3, 1)), [[0, 1]])
    yield lambda: GridCRF().predict(images)
    yield lambda: GridCRF().fit(images, [np.zeros((3, 2), int)])
    yield lambda: GridCRF().fit(images, [])
    yield lambda: GridCRF().fit([np.ones((2, 3))], masks)
    yield lambda: GridCRF().fit([np.full((2, 3, 1), np.nan)], masks)
    yield lambda: GridCRF(connectivity=5).fit(images, masks)
    yield lambda: GridCRF(inference="tree").fit(images, masks)
    yield lambda: GridCRF(inference="bp").fit(images, masks)
    yield lambda: GridCRF(learner="svm").fit(images, masks)
    yield lambda: GridCRF(decode="best").fit(images, masks)
    yield lambda: GridCRF(classes=[1, 2]).fit(images, masks)
    yield lambda: GridCRF(class_weight={7: 1.0}).fit(images, masks)
    yield lambda: GridCRF().fit(images, masks, sample_weight=[1.0, 2.0])
    yield lambda: GridCRF().fit(images, masks, edge_features=[np.ones((2, 1))])
    yield lambda: GridCRF().partial_fit(images, masks)
    yield lambda: GraphCRF().fit([nodes], [[0, 1]])
    yield lambda: GraphCRF().fit([(np.ones((3, 1)), [[0, 9]])], [[0, 1, 0]])
    yield lambda: GraphCRF().fit([(np.ones((3, 1)), [[0, 0]])], [[0, 1, 0]])
    yield lambda: GraphCRF().fit([np.ones((3, 1)), np.ones((3, 2))], [[0, 1, 0], [0, 1, 0]])
    yield lambda: GraphCRF(symmetric=["friend"]).fit([nodes], [[0, 1, 0]])
    yield lambda: GraphCRF(energies="few").fit([nodes], [[0, 1, 0]])
    yield lambda: GraphCRF(psi="quadratic", energies=e.MeasuredEnergy(e.Count(1), e.Squared())).fit(
        [nodes], [[0, 1, 0]]
    )
    yield lambda: GraphInstance({"a": np.ones((2, 1))}, factors={"f": Factors([[0, 5]], types="a")})
    yield lambda: GraphInstance({"a": np.ones((2, 1))}, edges=[[0, 1]])
    yield lambda: Factors([[0, 1], [2]])


def graph_messages():
    graph, theta = grid()
    yield lambda: g.chain_graph(0, 2)
    yield lambda: g.chain_graph(3, -1)
    yield lambda: g.grid_graph(2, 3, 2, connectivity=6)
    yield lambda: g.grid_graph(2, 3, 2, kind="pots")
    yield lambda: g.grid_graph(2, 3, 2, kind="truncated_linear", truncation=-1.0)
    yield lambda: g.from_edges(2, [[0, 0]])
    yield lambda: g.from_edges(2, [[0, 1, 2]])
    yield lambda: g.from_edges([2, 2], [[0, 5]])
    yield lambda: g.tree_graph([0, 1], 2)
    yield lambda: g.tree_graph([-1, 5], 2)
    yield lambda: g.FactorGraph([2, 2], [0, 3], [0, 1])
    yield lambda: g.FactorGraph([2, 0], [0, 2], [0, 1])
    yield lambda: g.FactorGraph([2, 2], [0, 2], [0, 0])
    yield lambda: graph.pack(np.zeros((8, 2)))
    yield lambda: graph.pack(tables=np.zeros((3, 2, 2)))
    yield lambda: graph.score(theta, np.zeros(8, int))
    yield lambda: graph.score(theta, np.full(9, 2))
    yield lambda: graph.variable(theta, 99)
    yield lambda: graph.variable(theta, "sky")
    yield lambda: graph.factor_table(theta, 99)
    yield lambda: g.is_valid_appearance(graph, [0.5])
    yield lambda: g.batch_graphs([])
    yield lambda: g.reduce_graph(graph, {0: 9})
    yield lambda: g.GraphBuilder().factor(["a"], [1.0])
    yield lambda: g.GraphBuilder().variable("a", 0)
    yield lambda: g.GraphBuilder().constraint(["a"], "all")
    yield lambda: judge(e.Hinge(side="left"))
    yield lambda: judge(e.Huber(width=-1.0))
    yield lambda: judge(e.SoftInterval(2.0, 1.0))
    yield lambda: judge("hinge")
    yield lambda: ask("bethe_rda", energy=e.MeasuredEnergy("count", e.Hinge()))
    yield lambda: ask("bethe_rda", energy=e.MeasuredEnergy(e.Count(1), e.Hinge(), psi=-1.0))
    yield lambda: ask("bethe_rda", energy=e.MeasuredEnergy(e.Count(1), e.Hinge(), strength=-1.0))
    yield lambda: ask("bethe_rda", energy=e.PoissonCounts([[-1.0]]))
    yield lambda: ask("bethe_rda", energy=e.DistanceToSet([]))
    yield lambda: ask("bethe_rda", energy=e.CrossCliqueEnergy([]))
    yield lambda: e.segment_preferences(["O"], include=["most"])


def cluster_messages():
    records, entities = {"name": ["Ann", "Anne", "Bob"]}, ["a", "a", "b"]
    edges = {"id1": ["a"], "id2": ["b"], "log_odds": [1.0]}
    pairs = c.pair_features(3, [[0, 1]], [1.0])
    yield lambda: EntityClusterer().predict(records)
    yield lambda: EntityClusterer({"nam": "exact"}, "all_pairs").fit(records, entities)
    yield lambda: EntityClusterer({"name": "exakt"}, "all_pairs").fit(records, entities)
    yield lambda: EntityClusterer({"name": "exact"}, "everything").fit(records, entities)
    yield lambda: EntityClusterer({"name": "exact"}, "all_pairs").fit(records, entities[:2])
    yield lambda: EntityClusterer({"name": "exact"}, "all_pairs").fit(records, ["a", "b", "c"])
    yield lambda: EntityClusterer({"name": "exact"}, "all_pairs").fit({"name": []}, [])
    yield lambda: EntityClusterer({"name": "numeric"}, "all_pairs").fit(records, entities)
    yield lambda: EntityClusterer({"name": "exact"}, "all_pairs", metric="f2").fit(records, entities)
    yield lambda: EntityClusterer(engine="spark").fit(records)
    yield lambda: EntityClusterer().fit(records)
    yield lambda: EntityClusterer().fit("records.csv")
    yield lambda: c.ThresholdClusterer({"name": "exact"}, "all_pairs", metric="f2").fit(records, entities)
    yield lambda: c.ThresholdClusterer().predict(records)
    yield lambda: c.resolve({"id1": ["a"], "id2": ["b"]})
    yield lambda: c.resolve({"id1": ["a"], "log_odds": [1.0]})
    yield lambda: c.resolve({"id1": ["a"], "id2": ["a"], "log_odds": [1.0]})
    yield lambda: c.resolve({"id1": ["a"], "id2": ["b"], "log_odds": [float("nan")]})
    yield lambda: c.resolve({"id1": ["a"], "id2": ["b"], "match_probability": [1.5]})
    yield lambda: c.resolve({"id1": ["a"], "id2": [None], "log_odds": [1.0]})
    yield lambda: c.resolve([("a", "b", 1.0)])
    yield lambda: c.resolve(edges, ids=["a"])
    yield lambda: c.resolve(edges, scale="odds")
    yield lambda: c.resolve(edges, repeated="sum")
    yield lambda: c.resolve(edges, absent=1.0)
    yield lambda: c.resolve(edges, max_size=0)
    yield lambda: c.resolve(edges, time_limit=-1)
    yield lambda: c.resolve(edges, calibrate="platt")
    yield lambda: c.resolve(edges, calibrate={"id1": ["a"], "id2": ["b"], "match": [1]})
    yield lambda: c.resolve(edges, must_link=[("a", "z")])
    yield lambda: c.resolve(edges, must_link=[("a", "b")], cannot_link=[("a", "b")])
    yield lambda: c.resolve(edges, previous="x")
    yield lambda: c.resolve(edges).explain("z")
    yield lambda: c.resolve(edges).confidence(n_samples=3)
    yield lambda: c.pair_features(2, [[0, 5]], [1.0])
    yield lambda: c.pair_features(2, [[0, 0]], [1.0])
    yield lambda: c.pair_features(3, [[0, 1], [1, 0]], [1.0, 2.0])
    yield lambda: c.pair_features(3, [[0, 1]], [float("nan")])
    yield lambda: c.dense_pair_features([[0, 1], [2, 0]])
    yield lambda: c.ClusterWorld(pairs, truth=[0, 0])
    yield lambda: c.ClusterWorld(pairs, c.ClusterModel(mean=["age"]))
    yield lambda: c.ClusterWorld(pairs, metric="f2", truth=[0, 0, 1]).performance()
    yield lambda: c.ClusterWorld(pairs).performance()
    yield lambda: c.link_constraints(3, [[0, 1]], [[0, 1]])
    yield lambda: c.link_constraints(3, [[0, 9]])
    yield lambda: c.Partition([[0, 1]])
    yield lambda: c.Partition([0, 1]).merge(0, 0)
    yield lambda: c.decode(c.ClusterWorld(pairs), [1.0, 2.0, 3.0, 4.0])
    yield lambda: c.decode(c.ClusterWorld(pairs), np.ones(2), "climbing")
    yield lambda: c.connected_components(3, [[0, 7]])
    yield lambda: c.best_threshold(3, [[0, 1]], [1.0], [0, 0, 1], "f2")
    yield lambda: c.read_answers("missing.jsonl")
    yield from settings_of(
        c.SplitMerge, lambda proposer: c.decode(c.ClusterWorld(pairs, proposer=proposer), np.ones(2))
    )
    for cls in (c.SharedTokens, c.SharedValues, c.SortedNeighbourhood, c.AllPairs):
        base = {} if cls is c.AllPairs else {"columns": "name"}
        yield from settings_of(
            cls, lambda rule: EntityClusterer({"name": "exact"}, rule).fit(records, entities), **base
        )


def world_messages():
    from tests.worlds.small_worlds import matching

    for cls in (w.HillClimbing, w.MetropolisHastings, w.CEMDecode):
        yield from settings_of(cls, lambda decoder: w.decode(matching(3), np.ones(2), decoder), proposer=None)
    yield lambda: w.decode(matching(3), np.ones(3))
    yield lambda: w.decode(matching(3), np.ones(2), n_chains=0)
    yield lambda: w.decode("world", np.ones(2))
    yield lambda: w.sample_world(matching(3), np.ones(2), n_samples=0)
    yield lambda: w.cem_optimize(w.PermutationProposal(3), len, n_samples=0)
    yield lambda: w.cem_optimize(w.PermutationProposal(3), lambda task: float("nan"))
    yield lambda: w.CategoricalProposal([0])
    yield lambda: w.PermutationProposal(-1)
    yield lambda: w.GaussianProposal([0.0], -1.0)
    yield lambda: w.effective_sample_size(["a"])


def collective_messages():
    counts = np.array([[6.0, 4.0], [4.0, 6.0]])
    yield lambda: collective.infer_flows(np.zeros((3, 3)), counts)
    yield lambda: collective.infer_flows(np.full((2, 2), np.nan), counts)
    yield lambda: collective.infer_flows(np.zeros((2, 2)), -counts)
    yield lambda: collective.infer_flows(np.zeros((2, 2)), counts, -5)
    yield lambda: collective.infer_flows(np.zeros((2, 2)), counts, noise="binomial")
    yield lambda: collective.infer_flows(np.zeros((2, 2)), counts, method="primal")
    yield lambda: collective.infer_flows(np.zeros((2, 2)), counts, method="mirror_descent", noise="exact")
    yield lambda: collective.infer_flows(np.zeros((2, 2)), [[6, 4], [4, 5]], noise="exact")
    yield lambda: collective.infer_flows(np.zeros((2, 2)), counts, parents=[0, 1])
    yield lambda: collective.infer_flows(np.zeros((2, 2)), counts, model_weight=-1)
    yield lambda: collective.infer_flows(np.zeros((2, 2)), counts).flows(9)
    yield lambda: collective.CollectiveChain().fit(counts[0])
    yield lambda: collective.CollectiveChain().fit([[1.0, np.inf]])
    yield lambda: collective.CollectiveChain(seasons=["a", "b"]).fit(counts)
    yield lambda: collective.CollectiveChain(learn="all").fit(counts)
    yield lambda: collective.CollectiveChain(learn_noise=True).fit(counts)
    yield lambda: collective.CollectiveChain().predict(counts)
    yield lambda: collective.CollectiveChain(max_iter=1).fit(counts)
    yield lambda: collective.make_moves(np.zeros((2, 2)))
    yield lambda: collective.make_moves(np.ones((2, 2)), {"x": np.ones((3, 3))})
    yield lambda: collective.moves_within([[0.0]], -1.0)
    yield from settings_of(
        collective.PoissonNoise, lambda noise: collective.infer_flows(np.zeros((2, 2)), counts, noise=noise)
    )
    yield from settings_of(
        collective.GaussianNoise, lambda noise: collective.infer_flows(np.zeros((2, 2)), counts, noise=noise)
    )
    yield from settings_of(
        collective.CollectiveChain, lambda model: model.fit(counts), warm_start=False, parents=None, seasons=None
    )


def program(rule="1: !P(X) ^2"):
    return Program().predicate("P", 1).rule(rule).target("P", ["a"]).truth("P", [("a", 1)])


def softlogic_messages():
    mrf = s.HingeLossMRF(1, s.LinearRows([0, 1], [0], [-1.0], [1.0]), 1.0, 2)
    for text in ("", "P(X)", "1: P(X", "1: Q(X)", "1: P(X, Y)", "-1: P(X)", "1: P(X) ->", "1: P(X) ^3", "P(X) <= 1",
                 "1: P(x)", "1: P(+X) = 1 ^2", "1: P(X) & P(Y) = 1", "1: !Q(X) .", "1: P(X) @ 2"):  # fmt: skip
        yield functools.partial(_inferred, text)
    yield lambda: Program().predicate("P", 0)
    yield lambda: Program().predicate("P", 1).predicate("P", 2)
    yield lambda: Program().observe("P", ["a"])
    yield lambda: program().observe("P", [("a", 2.0)])
    yield lambda: program().observe("P", [("a", "b", "c")])
    yield lambda: program().target("P", ["a"]).target("P", ["a"])
    yield lambda: program().observe("P", ["a"])
    yield lambda: SoftLogic(program().observe("P", ["a"])).infer()
    yield lambda: SoftLogic(program(), learner="pdl").fit()
    yield lambda: SoftLogic(program(), inference="simplex").infer()
    yield lambda: SoftLogic(program(), missing="drop").infer()
    yield lambda: SoftLogic("program").infer()
    yield lambda: SoftLogic(Program().predicate("P", 1).rule("1: P(X)").target("P", ["a"])).fit()
    yield lambda: SoftLogic(program("1: P(X) & P(Y) & (X != Y) -> P(X)")).infer()
    yield lambda: SoftLogic(program()).infer().value("P", "z")
    yield lambda: SoftLogic(program()).infer().value("Q", "a")
    yield lambda: SoftLogic(program()).infer().explain("P", "z")
    yield lambda: SoftLogic(program()).infer().evaluate([s.Evaluation("P", "Accuracy")])
    yield lambda: SoftLogic(
        Program().predicate("P", 1).rule("P(X) >= 0.6 .").rule("P(X) <= 0.4 .").target("P", ["a"])
    ).infer()
    yield lambda: s.ConsensusADMM(max_iter=1).solve(mrf)
    yield lambda: s.HingeLossMRF(1, s.LinearRows([0, 1], [3], [-1.0], [1.0]), 1.0, 2)
    yield lambda: s.HingeLossMRF(1, s.LinearRows([0, 1], [0], [-1.0], [1.0]), -1.0, 2)
    yield lambda: s.HingeLossMRF(1, s.LinearRows([0, 1], [0], [-1.0], [1.0]), 1.0, 3)
    yield lambda: s.PairedDual().fit(mrf, [2.0])
    yield lambda: s.PairedDual().fit(mrf, [1.0, 0.0])
    yield lambda: s.condition(mrf, [2.0])
    yield lambda: s.read_psl("missing.json")
    yield from settings_of(s.ConsensusADMM, lambda method: method.solve(mrf))
    yield from settings_of(
        s.ProjectedSubgradient, lambda optimizer: s.HingePerceptron(optimizer=optimizer).fit(mrf, [1.0])
    )
    yield from settings_of(s.PairedDual, lambda learner: learner.fit(mrf, [1.0]), time_limit=0.1)
    yield from settings_of(s.HingePseudoLikelihood, lambda learner: learner.fit(mrf, [1.0]))


def _inferred(text):
    return SoftLogic(program(text)).infer()


FILES = {
    "m.uai": ["", "MARKOW 1 2 0", "MARKOV 1 2 1 1 5 2 1 1", "MARKOV 2 2 2 1 2 0 1 3 1 1 1", "MARKOV 1 2 1 1 0 2 1 -1",
    "MARKOV 1"],
    "m.evid": ["", "2 0 1 5", "1 0 x"],
    "m.sol": ["", "PR\nx", "MAR\n1 2 0.5"],
    "c.txt": ["a b c\nd e\n", "a\x00 b\n"],
    "c.crfsuite": ["B\tw:x:y\n", "@weight:x\tB\tw\n"],
    "l.xml": ["<a><b>", "<a/>"],
    "l.jsonl": ["{", '{"text": 1}', '{"text": "a", "spans": [[0, 9, "x"]]}'],
    "m.json": ["{", "[]", '{"rules": ["1: P(X"], "predicates": {"P/1": {}}}',
    '{"rules": [], "predicates": {"P/x": {}}}',
               '{"rules": ["1: !P(X)"], "predicates": {"P/1": {"targets": ["missing.txt"]}}}'],
    "m.npz": ["not an archive"],
}  # fmt: skip


def file_messages():
    readers = {
        "m.uai": intarsia.read_uai, "m.evid": intarsia.read_uai_evidence, "m.sol": g.read_uai_solution,
        "c.txt": lambda path: list(seq.read_conll(path)), "c.crfsuite": lambda path: list(seq.read_crfsuite(path)),
        "l.xml": seq.read_labelled, "l.jsonl": seq.read_labelled, "m.json": s.read_psl, "m.npz": intarsia.load,
    }  # fmt: skip
    for name, read in readers.items():
        yield functools.partial(_read, name, None, read)
        for text in FILES[name]:
            yield functools.partial(_read, name, text, read)
    for cls in (ChainCRF, GridCRF, EntityClusterer, RecordParser, SoftLogic):
        yield functools.partial(_read, "m.npz", "not an archive", cls.load)
    yield lambda: ChainCRF().save("m.npz")
    yield functools.partial(_wrong_class)


def _read(name, text, read):
    path = Path(name)
    path.unlink(missing_ok=True)
    if text is not None:
        path.write_text(text)
    return read(path)


def _wrong_class():
    chain().save("m.npz")
    return GridCRF.load("m.npz")


def metric_messages():
    yield lambda: metrics.segment_scores([["B-x"]], [["B-x", "O"]])
    yield lambda: metrics.segment_scores([["B-x"]], [])
    yield lambda: metrics.segment_scores([["B-x"]], [["B-x"]], scheme="iob9")
    yield lambda: metrics.labelling_scores([], [])
    yield lambda: metrics.clustering_scores(["a"], ["a", "b"])
    yield lambda: metrics.clustering_intervals(["a", "b"], ["a", "b"], level=2.0)
    yield lambda: metrics.ranking_scores([0, 1], [0.5])
    yield lambda: metrics.ranking_scores([1, 1], [0.5, 0.6])
    yield lambda: metrics.calibration_error([1], [2.0])
    yield lambda: metrics.reliability_curve([1], [0.5], n_bins=0)
    yield lambda: metrics.reliability_curve([1], [0.5], strategy="equal")
    yield lambda: metrics.conformal_quantile([0.5], 2.0)
    yield lambda: metrics.conformal_p_values([], [0.5])
    yield lambda: metrics.ConformalLabels().conformalize(X, Y)
    yield lambda: metrics.mean_iou_score([np.zeros((2, 2))], [np.zeros((2, 3))])
    yield lambda: data.make_customers(0)
    yield lambda: data.make_customers(5, missing=2.0)
    yield lambda: data.load_noisy_image(0, 3)
    yield lambda: data.noisy_inputs([[0.5]], 1.0)
    yield lambda: intarsia.diagnose("model", [], [])
    yield lambda: intarsia.diagnose(ChainCRF(), X, Y)


FAMILIES: dict[str, Callable[[], Any]] = {
    "chains": chain_messages, "clusters": cluster_messages, "collective": collective_messages, "crf": crf_messages,
    "files": file_messages, "graph": graph_messages, "inference": infer_messages, "learning": learning_messages,
    "methods": method_settings, "metrics": metric_messages, "softlogic": softlogic_messages, "worlds": world_messages,
}  # fmt: skip


def texts(family: str) -> dict[str, str]:
    """Return the message of each wrong call, by the source of the call."""
    result = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for call in FAMILIES[family]():
            name = _name(call)
            while name in result:
                name += " again"
            result[name] = _message(call)
    return {name: message for name, message in result.items() if message}


def _name(call: Callable[[], Any]) -> str:
    if isinstance(call, functools.partial):
        return (
            " ".join(
                getattr(part, "__qualname__", None) or repr(part)
                for part in call.args
                if not callable(part) or inspect.isclass(part)
            )
            or call.func.__name__
        )
    return inspect.getsource(call).strip().removeprefix("yield lambda: ")


def _message(call: Callable[[], Any]) -> str:
    """Return type and text of the error, or of the package's warnings; empty if the call is accepted."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
        except Exception as error:
            kind = "" if isinstance(error, IntarsiaError) else "not an IntarsiaError: "
            return f"{kind}{type(error).__name__}: {error}"
    found = [f"{w.category.__name__}: {w.message}" for w in caught if w.category.__module__ == "intarsia.exceptions"]
    return "\n".join(found)


def recorded() -> dict[str, dict[str, str]]:
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def changes() -> list[str]:
    """Return a line for each message that differs from the recorded one."""
    old, lines = recorded(), []
    for family in FAMILIES:
        new, before = texts(family), old.get(family, {})
        changed = [name for name in sorted({*new, *before}) if new.get(name) != before.get(name)]
        lines += [f"message of {name}:\n    {before.get(name)}\n    {new.get(name)}" for name in changed if before]
    return lines


def write() -> None:
    document = {family: texts(family) for family in sorted(FAMILIES)}
    FILE.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
