"""`ChainCRF`, its learners, rules, energies and confidence; tag schemes; `RecordParser`; taggers for serving."""

from __future__ import annotations

import numpy as np
from tests.golden.golden import golden

from intarsia import ChainCRF, RecordParser
from intarsia import sequences as seq
from intarsia.energies import Count, MeasuredEnergy, Squared, at_most_one, before, implies, segment_preferences
from intarsia.learning import LBFGS, SGD, Adam, DoubleLoop, DoublyStochastic
from intarsia.learning.expectations import label_count, label_given, label_proportion
from intarsia.metrics import find_segments, scheme_names

LABELS = ["O", "B-x", "I-x", "B-y", "I-y"]
SMALL = LBFGS(max_iter=25)
# The sums of these fits stay within 1e-12 if a kernel is compiled for another processor; those of others grow by
# optimization, so they are compared by hash.
CHAIN_REORDERED = {
    "adam", "auto_l2", "class_weight", "edges", "elastic", "forbidden", "held_out", "l1", "no_ends", "observed",
    "partial", "sets", "warm_start",
}  # fmt: skip
ENERGY_REORDERED = {
    "development", "doubly_stochastic", "frozen", "mean_map", "mirror_descent", "penalized_map", "together",
}  # fmt: skip


def sentences(n=12, seed=0):
    """Return words and BIO labels: the label follows from the word, with some noise."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        words, labels = [], []
        for _ in range(int(rng.integers(1, 4))):
            kind = str(rng.choice(["x", "y", "O"]))
            part = ["O"] if kind == "O" else [f"B-{kind}", f"I-{kind}"][: int(rng.integers(1, 3))]
            labels += part
            words += [f"{label[-1]}{rng.integers(2)}" if rng.random() < 0.8 else "the" for label in part]
        X.append([[f"w={word}", f"c={word[0]}"] for word in words])
        y.append(labels)
    return X, y


X, Y = sentences()
NEW, NEW_Y = sentences(6, seed=1)
RULES = {
    "count": seq.count("x", 0, 1), "each_side": seq.each_side(seq.once("x"), "y"),
    "exactly_once": seq.exactly_once("x"),
    "fixed": seq.fixed({0: "O", -1: "B-y"}), "in_order": seq.in_order("x", "y"), "needs": seq.needs("x", "y"),
    "not_together": seq.not_together("x", "y"), "once": seq.once("y"), "one_of": seq.one_of("x", ["x0", "x1"]),
    "when": seq.when("x", seq.exactly_once("y")),
    "together": [seq.once("x"), seq.in_order("y", "x"), seq.needs("y", "x")],
}  # fmt: skip


def arrays(n=8, seed=0):
    rng = np.random.default_rng(seed)
    y = [rng.integers(0, 3, int(rng.integers(1, 6))) for _ in range(n)]
    return [np.eye(3)[labels] + 0.5 * rng.normal(size=(labels.size, 3)) for labels in y], y


def quick(**settings):
    settings.setdefault("learner", seq.MaximumLikelihood(l2=0.3, optimizer=SMALL))
    return ChainCRF(**settings)


def predictions(crf, X=NEW, prefix=""):
    return {
        f"{prefix}weights": crf.weights_, f"{prefix}labels": [labels.tolist() for labels in crf.predict(X)],
        f"{prefix}marginals": np.concatenate(crf.predict_marginals(X)),
    }  # fmt: skip


@golden(each=seq.CHAIN_LEARNERS.names, reordered=True)
def chain_learner(name):
    """Fit, two partial fits, predictions, scores and the history of every learner."""
    settings = {"optimizer": SMALL} if name == "maximum_likelihood" else {"max_iter": 4}
    learner = seq.CHAIN_LEARNERS.get(name)(**settings)
    crf = ChainCRF(learner=learner).fit(X, Y)
    result = predictions(crf) | {"score": crf.score(NEW, NEW_Y), "risk": crf.risk_, "n_iter": crf.n_iter_}
    step = learner if name != "maximum_likelihood" else seq.MaximumLikelihood(optimizer=SGD())
    crf = ChainCRF(learner=step, classes=sorted(LABELS))
    for part in (slice(0, 6), slice(6, 12)):
        crf.partial_fit(X[part], Y[part])
    return result | {"partial.weights": crf.weights_}


@golden(each=["dense", "partial", "sets", "sample_weight", "class_weight", "balanced", "bio", "bioes", "forbidden",
              "no_ends", "min_count", "l1", "elastic", "adam", "held_out", "warm_start", "edges", "observed",
              "auto_l2"], reordered=CHAIN_REORDERED)  # fmt: skip
def chain_crf(case):
    """Kinds of data, labels and settings."""
    data, y, options = X, Y, {}
    crf = quick()
    if case == "dense":
        data, y = arrays()
    elif case == "partial":
        y = [[None if k % 3 == 1 else label for k, label in enumerate(labels)] for labels in Y]
    elif case == "sets":
        y = [[frozenset({label, "O"}) for label in labels] for labels in Y]
    elif case == "sample_weight":
        options = {"sample_weight": np.linspace(0.0, 2.0, len(X))}
    elif case == "class_weight":
        crf.set_params(class_weight={"B-x": 3.0})
    elif case == "balanced":
        crf.set_params(class_weight="balanced")
    elif case == "bio":
        crf.set_params(scheme="bio")
    elif case == "bioes":
        crf.set_params(scheme="bioes")
        y = [[label.replace("B-", "S-") if k % 2 else "O" for k, label in enumerate(labels)] for labels in Y]
        y = [[label if label[0] == "S" else "O" for label in labels] for labels in y]
    elif case == "forbidden":
        crf.set_params(forbidden=[("O", "I-x"), ("O", "I-y"), (None, "I-x"), ("B-x", None)])
        y = [labels if labels[-1] != "B-x" else [*labels[:-1], "O"] for labels in Y]
    elif case == "no_ends":
        crf.set_params(ends=False)
    elif case == "min_count":
        crf.set_params(min_count=3)
    elif case in ("l1", "elastic"):
        crf = ChainCRF(l1=0.3, l2=0.0 if case == "l1" else 0.2, learner=seq.MaximumLikelihood(optimizer=SMALL))
    elif case == "adam":
        crf = ChainCRF(learner=seq.MaximumLikelihood(optimizer=Adam(max_iter=5)))
    elif case == "held_out":
        learner = seq.MaximumLikelihood(optimizer=Adam(max_iter=6), validation_fraction=0.3, patience=2)
        crf = ChainCRF(learner=learner)
    elif case == "warm_start":
        crf.set_params(warm_start=True).fit(X[:6], Y[:6])
        data, y = X[:6], [labels[::-1] for labels in Y[:6]]
    elif case == "edges":
        options = {"edge_features": [np.ones((len(x) - 1, 2)) * [0.5, k] for k, x in enumerate(X)]}
    elif case == "observed":
        crf.set_params(weights="all")
    elif case == "auto_l2":
        crf = ChainCRF(l2="auto", learner=seq.MaximumLikelihood(optimizer=LBFGS(max_iter=8)))
    crf.fit(data, y, **options)
    if case == "edges":
        return {"weights": crf.weights_, "labels": [row.tolist() for row in crf.predict(data, **options)]}
    result = predictions(crf, data[:5]) | {"risk": crf.risk_, "is": crf.status_.name}
    return result | ({"l2": crf.l2_, "path": crf.l2_path_.scores} if case == "auto_l2" else {})


@golden()
def chain_predictions():
    """Everything that a fitted model answers."""
    crf = quick(scheme="bio").fit(X, Y)
    allowed = [[None] * len(x) for x in NEW]
    allowed[0][0] = "B-y"
    best = crf.predict_kbest(NEW[:3], 3)
    tables = (crf.state_weights_, crf.transitions_, crf.start_, crf.end_)
    return {
        "single": list(crf.predict_single(NEW[0])),
        "allowed": [row.tolist() for row in crf.predict(NEW, allowed=allowed)],
        "best": [[labels.tolist() for labels, _ in rows] for rows in best],
        "best_values": [value for rows in best for _, value in rows],
        "samples": [[row.tolist() for row in rows] for rows in crf.sample(NEW[:3], 4, random_state=0)],
        "log_probability": crf.sequence_log_probability(NEW[:4], [row.tolist() for row in crf.predict(NEW[:4])]),
        "score": crf.score(NEW, NEW_Y), "weighted": crf.score(NEW, NEW_Y, np.arange(6.0) + 1),
        "tables": [float(np.nansum(table)) for table in tables], "vocabulary": crf.vocabulary_,
        "classes": crf.classes_.tolist(), "repr": repr(crf),
    }  # fmt: skip


@golden(of=["marginals", "map"])
def chain_decode(decode):
    crf = quick(decode=decode).fit(X, Y)
    return {"labels": [labels.tolist() for labels in crf.predict(NEW)], "score": crf.score(NEW, NEW_Y)}


@golden()
def confidence():
    """Segments with probabilities, reliability, calibration, explanations, features, tagged text."""
    crf = quick(scheme="bio").fit(X, Y)
    words = [feature[0][2:] for feature in NEW[0]]
    curves = [crf.reliability_curve(NEW, NEW_Y, unit=unit, n_bins=4) for unit in ("tokens", "segments")]
    explained = crf.explain(NEW[0], 0)
    segments = [list(segment) for row in crf.predict_segments(NEW) for segment in row]
    text = str(crf.tagged_text(NEW[0], words))
    calibrated = crf.calibrate(NEW, NEW_Y).temperature_
    return {
        "segments": segments, "curves": [[c.confidence.tolist(), c.accuracy.tolist(),
        c.count.tolist()] for c in curves],
        "temperature": calibrated, "tagged": text.splitlines(), "after": np.concatenate(crf.predict_marginals(NEW[:2])),
        "explained": [[explained.label, explained.other, explained.log_odds, explained.probability]]
        + [[c.kind, c.name, c.value] for c in explained.contributions],
        "top": [list(pair) for pair in crf.top_features("B-x", 4)],
    }  # fmt: skip


@golden(each=RULES, reordered=True)
def rule(name):
    """A rule at prediction: labels, marginals, the best few, samples and probabilities under it."""
    crf = quick().fit(X, Y)
    crf.set_params(require=RULES[name])
    data = [x for x in NEW if len(x) > 1][:4]
    tokens = {"tokens": [[features[0][2:] for features in x] for x in data]} if name == "one_of" else {}
    result = {"repr": repr(RULES[name]), "labels": [labels.tolist() for labels in crf.predict(data, **tokens)]}
    if name == "one_of":
        return result
    return result | {
        "marginals": np.concatenate(crf.predict_marginals(data)),
        "samples": [[row.tolist() for row in rows] for rows in crf.sample(data, 2, random_state=0)],
        "best": [[[labels.tolist(), value] for labels, value in rows] for rows in crf.predict_kbest(data, 2)],
    }


@golden()
def rules_in_fit():
    y = [labels for labels in Y if labels.count("B-x") <= 1]
    data = [x for x, labels in zip(X, Y, strict=True) if labels.count("B-x") <= 1]
    return predictions(quick(require=seq.once("x")).fit(data, y), data[:3])


@golden(of=RULES)
def constrain(name):
    """Rules on scores of other models."""
    rng = np.random.default_rng(5)
    tokens = ["the", "x0", "y1", "x1", "the"]
    options = {"tokens": tokens} if name == "one_of" else {}
    found = seq.constrain(
        2 * rng.normal(size=(5, 5)), rng.normal(size=(5, 5)), require=RULES[name], classes=LABELS, n_best=1, **options
    )
    return {"labels": found.labels, "numbers": [found.score, found.bound], "is": found.status.name,
            "violated": [str(item) for item in found.violated],
            "clash": [str(item) for item in found.clash]}  # fmt: skip


ENERGIES = {
    "at_most_one": at_most_one("x"), "two": [at_most_one("x"), before("x", "y")],
    "fixed": at_most_one("x", strength=2.0), "squared": MeasuredEnergy(Count("B-x"), Squared(1.0)),
    "soft_rules": [rule.energy() for rule in (seq.once("x", soft=True), seq.needs("x", "y", soft=True, strength=0.5))],
    "segments": segment_preferences(LABELS, include=["at_most_one", "implies"]), "implies": implies("x", "y", psi=0.5),
}  # fmt: skip


@golden(each=ENERGIES)
def chain_energies(name):
    """Learned strengths of energies, and predictions under them."""
    learner = DoubleLoop(max_iter=3)
    crf = quick(energies=ENERGIES[name], energy_learner=learner, scheme="bio").fit(X, Y)
    rows = [[row.name, row.strength, row.note] for row in crf.strengths_]
    return predictions(crf, NEW[:3]) | {"rows": rows, "strengths": crf.strengths(NEW[:3])}


@golden(each=["doubly_stochastic", "double_loop", "linear", "mean_map", "mirror_descent", "frozen", "together",
              "penalized_map", "development"], reordered=ENERGY_REORDERED)  # fmt: skip
def energy_learner(case):
    """Learners of energies, psi that depends on the input, and ways to learn weights with them."""
    settings = {
        "doubly_stochastic": {"energy_learner": DoublyStochastic(max_iter=3)},
        "double_loop": {"energy_learner": DoubleLoop(max_iter=3, l1=0.01)},
        "linear": {"psi": "linear", "energy_learner": DoublyStochastic(max_iter=2)},
        "mean_map": {"psi": "mean_map", "energy_learner": DoublyStochastic(max_iter=2)},
        "mirror_descent": {"projection": "bethe_mirror_descent", "energy_learner": DoubleLoop(max_iter=2)},
    }.get(case, {"energy_learner": DoubleLoop(max_iter=2)})
    data, y = arrays(10) if case == "linear" else (X, Y)
    energy = at_most_one("x", psi=0.5) if case != "linear" else MeasuredEnergy(Count(0), Squared(1.0), psi=0.5)
    crf = quick(energies=energy, decode="penalized_map" if case == "penalized_map" else "map", **settings)
    options = {"together": {"freeze_weights": False}, "development": {"development": (NEW, NEW_Y)}}.get(case, {})
    crf.fit(data, y, **options)
    if case == "frozen":
        crf.fit(NEW, NEW_Y, freeze_weights=True)
    rows = [[row.name, row.strength, row.note] for row in crf.strengths_]
    history = {key: np.asarray(values) for key, values in crf.energy_history_.items()}
    return predictions(crf, data[:3]) | {"rows": rows, "strengths": crf.strengths(data[:3])} | history


@golden(each=["proportion", "given", "count", "some_labels"], reordered=True)
def generalized_expectation(case):
    expectations = {
        "proportion": label_proportion({"O": 0.4, "B-x": 0.2}), "given": label_given("w=x0", {"B-x": 0.6, "I-x": 0.4}),
        "count": label_count("B-x", at_least=1),
    }.get(case, [label_given("w=x0", {"B-x": 0.5}), label_proportion({"O": 0.5})])  # fmt: skip
    y = [labels if k < 2 else None for k, labels in enumerate(Y)] if case == "some_labels" else None
    crf = ChainCRF(l2=0.5, classes=sorted(LABELS), learner=seq.MaximumLikelihood(optimizer=LBFGS(max_iter=8)))
    crf.fit(X, y, expectations=expectations)
    rows = [str(row).rpartition("strength")[0] for row in crf.expectations_]
    return predictions(crf, NEW[:3]) | {"rows": rows}


@golden(reordered=True)
def l2_path():
    learner = seq.MaximumLikelihood(optimizer=LBFGS(max_iter=6))
    path = seq.choose_l2(ChainCRF(learner=learner), X, Y, l2_values=[0.1, 1.0, 10.0], cv=3)
    return {"l2": path.l2, "values": path.values, "scores": path.scores}


@golden(reordered=True)
def conformal_parses():
    crf = quick().fit(X, Y)
    data, y = sentences(30, seed=2)
    parses = seq.ConformalParses(crf, alpha=0.3).conformalize(data, y)
    sets = [[[list(labels), value] for labels, value in rows] for rows in parses.predict_set(NEW[:2])]
    return {"sets": sets, "coverage": parses.coverage(NEW, NEW_Y)}


@golden(of=scheme_names())
def scheme(name):
    """Segments under a tag scheme, of valid and of invalid tags."""
    tags = ["B-x", "I-x", "O", "I-y", "B-y", "I-x", "E-x", "S-y", "L-y", "U-x", "M-x", "B-y"]
    try:
        return {"segments": [list(segment) for segment in find_segments(tags, name)]}
    except ValueError as error:
        good = [tag for tag in tags if tag[0] in "BIO"]
        return {"error": str(error), "segments": [list(segment) for segment in find_segments(good, name)]}


@golden()
def tagger(folder):
    """The tagger without the weight of the library answers as the model does."""
    crf = quick(scheme="bio").fit(X, Y)
    crf.save(folder / "m.npz")
    light = seq.load_tagger(folder / "m.npz")
    scores = light.scores(NEW[0])
    return {
        "labels": [row.tolist() for row in light.predict(NEW)],
        "marginals": np.concatenate(light.predict_marginals(NEW)),
        "best": [[[row.tolist(), value] for row, value in rows] for rows in light.predict_kbest(NEW[:2], 2)],
        "log_probability": light.sequence_log_probability(NEW[:3], NEW_Y[:3]), "nodes": scores.nodes,
        "transitions": scores.transitions,
    }  # fmt: skip


@golden()
def chain_model_file(folder):
    """A loaded model predicts and continues as the one that was saved, with rules and energies."""
    crf = quick(scheme="bio", energies=at_most_one("x", strength=1.0), warm_start=True).fit(X, Y)
    crf.save(folder / "m.npz")
    loaded = ChainCRF.load(folder / "m.npz")
    return predictions(loaded) | {"repr": repr(loaded), "again": loaded.fit(X[:5], Y[:5]).weights_}


STREETS, CITIES = ["Oak Rd", "Elm St", "Bay St", "High St"], ["Rome", "Oslo", "Bern", "Lima"]
ADDRESSES = [
    seq.LabelledText(
        f"{n} {street}, {city}",
        [(0, len(str(n)), "number"), (len(str(n)) + 1, len(str(n)) + 1 + len(street), "street"),
         (len(str(n)) + 3 + len(street), len(str(n)) + 3 + len(street) + len(city), "city")],
    )
    for n, street, city in zip(range(7, 15), STREETS * 2, CITIES[::-1] * 2, strict=True)
]  # fmt: skip


def parsed(parse):
    rows = [[span.field, span.start, span.end, span.text, span.probability] for span in parse.spans]
    return [parse.text, parse.probability, rows, list(parse.violations)]


@golden(
    each=["plain", "rules", "gazetteers", "no_bio", "usaddress", "features", "callable"],
    reordered={"features", "usaddress"},
)
def record_parser(case, folder):
    """Parses with probabilities and alternatives, tags, scores, and a saved parser."""
    settings = {
        "rules": {"rules": [seq.once("city"), seq.in_order("number", "city")]},
        "gazetteers": {"gazetteers": {"city": ["Rome", "Paris"], "street": ["Park St"]}}, "no_bio": {"bio": False},
        "usaddress": {"tokenizer": "usaddress"}, "features": {"features": seq.TokenFeatures(window=0, bigrams=False)},
        "callable": {"features": lambda words: [[word.lower(), word[:1]] for word in words]},
    }.get(case, {})  # fmt: skip
    parser = RecordParser(l2=0.1, **settings).fit(ADDRESSES)
    if case != "callable":
        parser.save(folder / "m.npz")
        parser = RecordParser.load(folder / "m.npz")
    new = ["77 Park St, Paris", "Oslo", "12 Oak Rd Oslo Bern"]
    parse = parser.parse(new[0])
    scores = parser.evaluate(ADDRESSES)
    return {
        "parses": [parsed(item) for item in parser.parse_many(new)],
        "others": [parsed(item) for item in parse.alternatives],
        "tag": dict(parser.tag(new[0])), "predict": [[list(span) for span in spans] for spans in parser.predict(new)],
        "scores": [scores.f1, scores.exact, scores.accuracy, parser.score(ADDRESSES)],
        "repr": "" if case == "callable" else repr(parser)[:300],
    }  # fmt: skip


@golden()
def tokens_and_features():
    text = "12 St. John's Rd, #4 (rear) Élan-9"
    result = {
        name: [list(token) for token in seq.tokenize(text, name)]
        for name in ("words", "usaddress", "whitespace", "characters")
    }
    features = seq.TokenFeatures(window=1)
    return result | {"features": [sorted(map(str, row)) for row in features.of("12 Main St.")]}
