"""Scores of labels, segments, clusterings and rankings; calibration and conformal sets; data sets; diagnostics."""

from __future__ import annotations

import dataclasses

import numpy as np
from tests.golden.golden import golden

from intarsia import GraphCRF, datasets, diagnose
from intarsia import diagnostics as d
from intarsia import metrics as m
from intarsia.learning import LBFGS, RiskMinimizer

TRUE = [["B-x", "I-x", "O", "B-y"], ["O", "B-y", "I-y"], ["B-x"]]
PREDICTED = [["B-x", "O", "O", "B-y"], ["B-x", "B-y", "I-y"], ["B-y"]]
ENTITIES, FOUND = ["a", "a", "b", "b", "b", "c", "d"], [1, 1, 1, 2, 2, 3, 3]


def plain(value):
    """Return a public result as dicts and lists."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
        extra = [name for name in ("precision", "recall", "f1") if hasattr(type(value), name)]
        return {name: plain(getattr(value, name)) for name in [*names, *extra]}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


@golden(of=["segment_scores", "overlap_scores", "labelling_scores", "tagging_report"])
def tag_scores(name):
    return {"scores": plain(getattr(m, name)(TRUE, PREDICTED))}


FLAT = [name for name in dir(m) if name.endswith("_score")]


@golden()
def single_scores():
    masks = [np.array([[0, 1], [1, 1]]), np.array([[0, 0, 1]])], [np.array([[0, 1], [0, 1]]), np.array([[0, 1, 1]])]
    result = {}
    for name in FLAT:
        if name in ("mean_iou_score", "pixel_accuracy_score"):
            values = [getattr(m, name)(*masks), getattr(m, name)(*masks, sample_weight=[1.0, 3.0])]
        elif name == "segment_f1_score":
            values = [getattr(m, name)(TRUE, PREDICTED, scheme=scheme) for scheme in (None, "tokens")]
        elif name in ("b_cubed_f1_score", "pairwise_f1_score"):
            values = [getattr(m, name)(ENTITIES, FOUND)]
        elif name == "conll_f1_score":
            continue
        else:
            values = [
                getattr(m, name)(TRUE, PREDICTED),
                getattr(m, name)(TRUE, PREDICTED, sample_weight=[1.0, 2.0, 0.5]),
            ]
        result[name] = np.array(values, dtype=float)
    return result


@golden()
def cluster_scores():
    intervals = m.clustering_intervals(ENTITIES, FOUND, n_bootstrap=50, random_state=0)
    return {"scores": plain(m.clustering_scores(ENTITIES, FOUND)), "intervals": plain(intervals)}


@golden()
def cluster_estimates():
    predicted = dict(enumerate(FOUND * 4))
    found = m.estimate_scores(predicted, [[0, 1], [2, 3, 4], [5], [6, 7]])
    return {"scores": plain(found), "ask": [list(row) for row in m.records_to_label(predicted, 4, random_state=0)]}


@golden()
def ranking_and_calibration():
    rng = np.random.default_rng(0)
    confidence = rng.random(40)
    correct = rng.random(40) < confidence
    curve = m.reliability_curve(correct, confidence, n_bins=4, strategy="quantile")
    return {
        "ranking": plain(m.ranking_scores(correct, confidence)), "curve": plain(curve),
        "error": m.calibration_error(correct, confidence), "quantile": m.conformal_quantile(confidence, 0.1),
        "p_values": m.conformal_p_values(confidence[:20], confidence[20:]),
        "exchangeable": plain(m.check_exchangeability(confidence[:20], confidence[20:])),
    }  # fmt: skip


@golden()
def conformal_labels():
    from tests.golden.sequence_calls import NEW, X, Y, quick, sentences

    crf = quick().fit(X, Y)
    data, y = sentences(30, seed=2)
    sets = m.ConformalLabels(crf, alpha=0.2).conformalize(data, y)
    return {"sets": [[sorted(map(str, labels)) for labels in row] for row in sets.predict_set(NEW[:3])]}


@golden()
def data_sets():
    made = datasets.make_customers(6, random_state=1)
    image = datasets.load_noisy_image(3, 4)
    return {
        "customers": made.columns, "entity": made.entity, "ids": made.ids, "edges": datasets.load_karate_club().edges,
        "faction": datasets.load_karate_club().faction, "noisy": image.noisy, "clean": image.clean,
        "theta": image.theta,
        "inputs": datasets.noisy_inputs([np.array([0, 1, 1])], 1.5, random_state=0),
    }  # fmt: skip


def graphs():
    from tests.golden.crf_calls import people

    X, y = people(4)
    return X, y


@golden(each=["structured_perceptron", "risk_minimizer", "structured_svm"])
def diagnosis(learner):
    X, y = graphs()
    inference = "tree_reweighted" if learner == "risk_minimizer" else "lp_relaxation"
    found = diagnose(GraphCRF(learner=learner, inference=inference), X, y, n_passes=3)
    checks = [[check.name, check.verdict] for check in found.checks]
    return {"verdict": found.verdict, "checks": checks, "names": [found.learner, found.inference]}


@golden(each=["separable", "algorithmically_separable", "mistake_bound", "pac_bayes_bound", "weight_grid_search"])
def bound(name):
    X, y = graphs()
    settings = {"mistake_bound": {"max_iter": 50}, "weight_grid_search": {"n_steps": 2}}.get(name, {})
    crf = GraphCRF(learner=RiskMinimizer(optimizer=LBFGS(max_iter=3))).fit(X, y)
    try:
        found = getattr(d, name)(X, y, crf, **settings)
    except ValueError as error:
        return {"error": str(error)}
    if name in ("separable", "algorithmically_separable"):
        return {
            "is": [found.separable, found.over, found.gamma_is],
            "numbers": [found.radius, found.gamma_at_least or 0.0],
        }
    result = plain(found)
    result.pop("separability", None)
    return {"found": result}


@golden()
def compatibility():
    rows = [
        [pair.learner, pair.inference, pair.model, str(pair.judgement).partition(":")[0][:12]]
        for pair in d.compatibility()
    ]
    return {"pairs": rows}
