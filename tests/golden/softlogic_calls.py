"""Soft logic: programs, grounding, ADMM and its settings, weight learners, surrogates, evaluation, files."""

from __future__ import annotations

import numpy as np
from tests.contracts.saved_models import program
from tests.golden.golden import golden
from tests.golden.inference_calls import fields
from tests.softlogic.random_hinges import random_mrf

from intarsia import Program, SoftLogic
from intarsia import softlogic as s
from intarsia.softlogic import ConsensusADMM, EntropyPair, ProjectedSubgradient

STEPS = ProjectedSubgradient(max_iter=6)


def solved(result):
    return fields(result, "x", "objective", "lower_bound", "max_violation", "n_iter") | {"is": result.status.name}


def inferred(found):
    tables = {name: {key: list(values) for key, values in table.items()} for name, table in found.tables().items()}
    return {"tables": tables} | solved(found.result)


ADMM = {
    "default": {}, "short": {"max_iter": 40}, "precise": {"tol": 1e-9}, "step_size": {"step_size": 3.0},
    "plain": {"adaptive_step": False, "over_relaxation": 1.0}, "anchored": {"anchored": True},
    "checks": {"check_every": 7},
    "jobs": {"n_jobs": 2},
}  # fmt: skip


@golden(of=ADMM)
def admm(case):
    return solved(ConsensusADMM(**({"tol": 1e-5} | ADMM[case])).solve(random_mrf(3)))


@golden(of=range(6))
def random_hinges(seed):
    return solved(ConsensusADMM(tol=1e-7).solve(random_mrf(seed)))


@golden()
def mrf():
    """Values, gradients and conditioning of a hinge-loss field."""
    model = random_mrf(1)
    x = np.random.default_rng(0).random(model.n_variables)
    part = s.condition(model, np.where(np.arange(x.size) % 2, x, np.nan))
    return {
        "values": model.terms.values(x), "features": model.features(x), "energy": model.objective(x), "free": part.free,
        "energy_of_part": part.model.objective(x[part.free]), "repr": repr(model),
    }  # fmt: skip


@golden()
def grounding():
    found = s.ground(program())
    names = ("n_groundings", "n_terms", "n_constraints", "n_constant", "n_violated", "n_missing")
    rows = [[report.rule, *(getattr(report, name) for name in names)] for report in found.reports]
    terms = found.mrf.terms
    return {"reports": rows, "ptr": terms.ptr, "idx": terms.idx, "coef": terms.coef, "const": terms.const}


RULES = ["2: P(A) & Q(A, B) -> P(B) ^2", "1.5: P(A) + 0.5 * P(B) <= 1 ^2", "P(+A) = 1 .", "3: !P(A)",
"1: P(A) >> Q(A, A)",
         "0.5: Q(A, B) & (A != B) -> !P(A) | P(B)", "10: P(A) = 1"]  # fmt: skip


@golden(of=range(len(RULES)))
def rule(k):
    """A rule as read, and its groundings over three constants."""
    text = RULES[k]
    built = Program(dialect="psl" if ">>" in text else "plain").predicate("P", 1).predicate("Q", 2)
    try:
        built.rule(text)
    except ValueError as error:
        return {"error": str(error)}
    built.observe("Q", [("a", "b", 0.7), ("b", "c"), ("a", "a", 0.2), ("b", "b"), ("c", "c")]).target(
        "P", ["a", "b", "c"]
    )
    found = SoftLogic(built).infer()
    return inferred(found) | {
        "rule": str(s.read_rule(text, dialect=built.dialect)),
        "reports": [r.n_terms for r in found.grounding.reports],
    }


LEARNERS = {
    "paired_dual": s.PairedDual(optimizer=STEPS), "primal_subgradient": s.PrimalSubgradient(optimizer=STEPS),
    "em": s.PointEM(optimizer=STEPS, n_inner_iter=3), "latent_svm": s.LatentSVM(optimizer=STEPS, n_inner_iter=3),
    "pseudo_likelihood": s.HingePseudoLikelihood(max_iter=30), "perceptron": s.HingePerceptron(optimizer=STEPS),
    "warm_up": s.PairedDual(optimizer=STEPS, warm_up=2, n_inner_iter=3),
    "quadratic": s.PairedDual(optimizer=STEPS, surrogate=s.QuadraticPrior(weight=0.3)),
    "label_loss": s.PairedDual(optimizer=STEPS, surrogate=s.LabelLoss(weight=0.5)),
    "by_role": s.PairedDual(optimizer=STEPS, surrogate=s.SurrogateByRole(latent=EntropyPair(weight=0.1))),
    "adagrad": s.PairedDual(optimizer=ProjectedSubgradient(max_iter=6, adagrad=True, average=False)),
    "evaluated": s.PrimalSubgradient(optimizer=STEPS, evaluate=True),
    "at_labels": s.PairedDual(optimizer=STEPS, l2=0.5),
}  # fmt: skip


def labelled_program():
    """The small program; learners without latent variables get it without them."""
    return program()


@golden(each=LEARNERS)
def hinge_learner(case):
    """Learned weights, and the values inferred with them."""
    built = labelled_program()
    try:
        model = SoftLogic(built, learner=LEARNERS[case]).fit()
    except ValueError as error:
        return {"error": str(error)}
    return inferred(model.infer()) | {"weights": model.weights_, "repr": repr(model)[:500]}


@golden()
def learner_on_a_field():
    """A learner without a program, partly labelled."""
    model = random_mrf(2)
    labels = np.where(np.arange(model.n_variables) % 3 == 0, np.nan, np.arange(model.n_variables) % 2)
    found = s.PairedDual(optimizer=STEPS).fit(model, labels)
    return fields(found, "weights", "latent", "n_iter") | {"history": np.asarray(found.history["weights"])}


@golden()
def soft_logic_file(folder):
    model = SoftLogic(program(), learner=LEARNERS["paired_dual"]).fit()
    model.save(folder / "m.npz")
    loaded = SoftLogic.load(folder / "m.npz")
    others = loaded.program.without_data().observe("Likes", [("tom", "go"), ("kim", "go")])
    others.target("Knows", [("tom", "kim"), ("kim", "tom")]).latent("Kind", ["kim", "tom"])
    return inferred(loaded.infer(others)) | {"rules": list(map(str, loaded.rules_)), "weights": loaded.weights_}


@golden()
def explained():
    found = SoftLogic(program(), inference=ConsensusADMM(tol=1e-9)).infer()
    told = found.explain("Knows", "ann", "bob")
    rules = [[rule.rule, rule.force, rule.n_terms] for rule in told.rules]
    return {
        "rules": rules,
        "numbers": [told.value, told.bound, told.imbalance],
        "atom": told.atom,
        "text": str(told)[:400],
    }


@golden(of=s.evaluator_names())
def evaluator(name):
    built = Program().predicate("P", 1).rule("1: !P(X) ^2").target("P", ["a", "b", "c", "d"])
    built.truth("P", [("a", 1), ("b", 0), ("c", 1), ("d", 0)])
    scores = s.evaluate([s.Evaluation("P", name)], s.ground(built).atoms, np.array([0.9, 0.4, 0.3, 0.1]))
    return {"scores": scores}


PSL = """{
    "rules": [
        "2: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2",   // pulls up
        "1: !Knows(A, B) ^2",
        "Knows(A, B) = Knows(B, A) ."
    ],
    "predicates": {
        "Likes/2": {"observations": ["likes.txt"]},
        "Knows/2": {"targets": ["targets.txt"], "truth": ["truth.txt"], "evaluations": ["DiscreteEvaluator"]}
    }
}"""


def psl_files(folder):
    (folder / "likes.txt").write_text("ann\tchess\nbob\tchess\t0.8\neve\tgo\n")
    (folder / "targets.txt").write_text("ann\tbob\nbob\tann\nann\teve\neve\tann\n")
    (folder / "truth.txt").write_text("ann\tbob\t1\nbob\tann\t1\nann\teve\t0\neve\tann\t0\n")
    (folder / "model.json").write_text(PSL)
    return folder / "model.json"


@golden()
def psl_program(folder):
    """A program of PSL is read, run, evaluated, written; weights are learned from its truth."""
    built = s.read_psl(psl_files(folder))
    found = SoftLogic(built).infer()
    paths = found.write(folder / "out")
    lines = [line.split("\t") for path in paths for line in path.read_text().splitlines()]
    learned = SoftLogic(built, learner=LEARNERS["perceptron"]).fit()
    return inferred(found) | {
        "names": [path.name for path in paths], "atoms": [line[:-1] for line in lines],
        "values": [float(line[-1]) for line in lines],
        "scores": found.evaluate(), "weights": learned.weights_, "repr": repr(built),
    }  # fmt: skip
