"""Inference and learning with `SoftLogic`: conformance data, results by hand, tables, files, explanations."""

from __future__ import annotations

import datetime
import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score, root_mean_squared_error
from tests.oracles.paired_objective import exact_objective

from intarsia.exceptions import ConvergenceWarning, InvalidInputError, TooLargeError
from intarsia.softlogic import (
    ConsensusADMM,
    EntropyPair,
    HingePerceptron,
    PairedDual,
    PairedProblem,
    PrimalSubgradient,
    Program,
    SoftLogic,
    explain,
    ground,
    read_psl,
)
from intarsia.softlogic.evaluation import evaluate, evaluator_names
from intarsia.softlogic.program import Evaluation


def likes_and_knows():
    return (
        Program()
        .predicate("Likes", 2)
        .predicate("Knows", 2)
        .rule("2: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2")
        .rule("1: !Knows(A, B) ^2")
        .rule("Knows(A, B) = Knows(B, A) .")
    )


@pytest.mark.data
def test_simple_acquaintances_has_the_optimum_of_an_independent_solver(data, conformance):
    expected = json.loads((conformance / "softlogic" / "simple_acquaintances.json").read_text())
    folder = data / "simple_acquaintances"
    program = read_psl(folder / "model.json", data=folder)
    found = SoftLogic(program).infer()
    assert found.result.converged
    assert found.result.objective == pytest.approx(expected["objective"], rel=1e-5)
    scores = found.evaluate([*program.evaluations, Evaluation("Knows", "ContinuousEvaluator")])["Knows"]
    assert scores["DiscreteEvaluator"]["accuracy"] == pytest.approx(expected["accuracy_at_0.5"], abs=1e-4)
    assert scores["ContinuousEvaluator"]["mae"] == pytest.approx(expected["mean_absolute_error"], abs=1e-3)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_output_tables_have_the_type_of_input_tables(frame):
    program = likes_and_knows()
    program.observe("Likes", frame({"who": ["ann", "bob"], "what": ["chess", "chess"], "how": [1.0, 0.5]}))
    program.target("Knows", frame({"a": ["ann", "bob"], "b": ["bob", "ann"]}))
    table = SoftLogic(program, inference=ConsensusADMM(tol=1e-8)).predict(predicate="Knows")
    assert isinstance(table, frame)
    assert list(table.columns) == ["a", "b", "value"]
    assert list(table["a"]) == ["ann", "bob"]
    # 2 (1/2 - x)^2 + x^2 for both directions, which are equal: x = 1/3.
    np.testing.assert_allclose(table["value"].to_numpy(), 1 / 3, atol=1e-4)


def test_output_is_a_dict_of_columns_without_data_frames():
    program = likes_and_knows().observe("Likes", [("ann", "go"), ("bob", "go")])
    program.target("Knows", [("ann", "bob"), ("bob", "ann")])
    tables = SoftLogic(program).predict()
    assert list(tables) == ["Knows"]
    assert tables["Knows"]["argument2"] == ["bob", "ann"]


@pytest.mark.filterwarnings("ignore:.*has no groundings:UserWarning")
def test_a_program_without_targets_has_empty_results():
    found = SoftLogic(likes_and_knows().observe("Likes", [("ann", "go")])).infer()
    assert found.tables() == {}
    assert found.x.size == 0


def test_nested_settings_follow_scikit_learn():
    model = SoftLogic(likes_and_knows(), inference=ConsensusADMM(tol=1e-3))
    assert clone(model).set_params(inference__tol=1e-4).inference.tol == 1e-4
    with pytest.raises(InvalidInputError, match="program must be a Program, got str"):
        SoftLogic("model.json").infer()


def test_written_files_have_the_format_of_psl(tmp_path):
    program = likes_and_knows().observe("Likes", [("ann", "go"), ("bob", "go")])
    program.target("Knows", [("ann", "bob"), ("bob", "ann")])
    found = SoftLogic(program).infer()
    (path,) = found.write(tmp_path / "out" / "here")
    assert path.name == "KNOWS.txt"
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    assert [line[:2] for line in lines] == [["ann", "bob"], ["bob", "ann"]]
    assert [float(line[2]) for line in lines] == found.x.tolist()
    assert [file.name for file in path.parent.iterdir()] == ["KNOWS.txt"]


def test_constants_with_tabs_cannot_be_written(tmp_path):
    found = SoftLogic(Program().predicate("P", 1).target("P", ["a\tb"])).infer()
    with pytest.raises(InvalidInputError, match="contains a tab or a line break"):
        found.write(tmp_path)
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- explanations


def pulled():
    program = (
        Program().predicate("P", 1).predicate("Q", 1).target("P", ["a", "b"]).observe("Q", [("a", 0.7), ("b", 1.0)])
    )
    program.rule("3: Q(X) -> P(X)").rule("1: P(X) & P(Y) & (X != Y) -> Q('none') ^2").rule("0.5: !P(X) ^2")
    return ground(program.rule("P(X) <= 0.9 ."))


def test_forces_are_minus_the_derivatives_of_the_objective():
    grounding = pulled()
    rng = np.random.default_rng(0)
    for _ in range(5):
        x = rng.random(2)
        for variable in range(2):
            step = np.zeros(2)
            step[variable] = 1e-6
            slope = (grounding.mrf.objective(x + step) - grounding.mrf.objective(x - step)) / 2e-6
            found = explain(grounding, x, variable)
            assert sum(rule.force for rule in found.rules) == pytest.approx(-slope, abs=1e-5)


def test_text_of_an_explanation():
    found = explain(pulled(), [0.2, 0.9], 0)
    assert (found.atom, found.value) == ("P('a')", 0.2)
    first, second, third = found.rules
    # Q('a') = 0.7: force of the full weight; P('a') + P('b') - 1 = 0.1 twice, squared; P('a'): 2 x 0.5 x 0.2.
    assert (first.rule, first.force, first.terms[0].text) == ("3: Q(X) -> P(X)", 3.0, "0.7 - P('a')")
    assert second.force == pytest.approx(-0.4)
    assert (second.n_terms, second.n_active, second.terms[0].text) == (2, 2, "-1 + P('a') + P('b')")
    assert third.force == pytest.approx(-0.2)
    assert [c.text for c in found.constraints] == ["-0.9 + P('a') <= 0"]
    assert json.dumps(found.as_dict())


def test_linear_hinge_at_its_corner_has_a_reserve_force():
    found = explain(pulled(), [0.7, 0.0], 0)
    rule = next(rule for rule in found.rules if rule.rule.startswith("3"))
    assert (rule.force, rule.reserve, rule.n_active) == (0.0, 3.0, 0)


def test_forces_of_rules_balance_at_the_optimum():
    program = likes_and_knows().observe("Likes", [("ann", "go"), ("bob", "go")])
    program.target("Knows", [("ann", "bob"), ("bob", "ann")])
    found = SoftLogic(program, inference=ConsensusADMM(tol=1e-10)).infer()
    assert sum(rule.force for rule in found.explain("Knows", "ann", "bob").rules) == pytest.approx(0.0, abs=1e-3)
    with pytest.raises(InvalidInputError, match="neither a target nor latent"):
        found.explain("Knows", "ann", "ann")


def random_program(seed):
    rng = np.random.default_rng(seed)
    names = [f"n{i}" for i in range(10)]
    program = Program().predicate("F", 2).predicate("P", 1).predicate("S", 1).target("P", names)
    program.observe("F", [(a, b, float(rng.random())) for a in names for b in names if a != b and rng.random() < 0.3])
    program.observe("S", [(name, float(rng.random())) for name in names[:6]])
    for rule in ("2: F(A, B) & P(A) -> P(B) ^2", "1.5: F(A, B) & P(A) -> P(B)", "1: !P(A) ^2", "3: S(A) -> P(A)",
                 "2: P(+A) + S(+B) = 3", "P(+A) <= 4 .", "F(A, B) & P(A) -> P(B) .", "0.5: P(A) >= 0.2 ^2",
                 "F(A, +B) + P(A) >= 0.3 . {B: S(B)}", "0.1: P(A) = P(B)"):  # fmt: skip
        program.rule(rule)
    return program, names


@pytest.mark.parametrize("seed", range(4))
def test_all_forces_on_an_atom_balance_at_the_optimum(seed):
    program, names = random_program(seed)
    found = SoftLogic(program, inference=ConsensusADMM(tol=1e-8)).infer()
    at_bound = held = 0
    for name in names:
        why = found.explain("P", name)
        at_bound += bool(why.bound)
        held += any(abs(c.force) > 1e-3 for c in why.constraints)
        total = sum(rule.force for rule in why.rules) + sum(c.force for c in why.constraints) + why.bound
        assert total == pytest.approx(why.imbalance, abs=1e-12)
        assert why.imbalance == pytest.approx(0.0, abs=1e-4)
        assert why.bound >= 0.0 if why.value < 0.5 else why.bound <= 0.0
        if 1e-3 < why.value < 1 - 1e-3:
            assert why.bound == 0.0
        for c in why.constraints:  # an inactive inequality has no force
            assert c.text.endswith(" = 0") or c.value > -1e-3 or c.force == 0.0
    assert at_bound + held > 0


@pytest.mark.parametrize("seed", range(2))
def test_bindings_and_facts_reproduce_every_term(seed):
    """The rule with bound variables and the values of facts must equal the linear function of the term."""
    program, names = random_program(seed)
    found = SoftLogic(program).infer()
    truth = {f"{p}({', '.join(map(repr, c))})": v for p in ("F", "S") for *c, v in
             zip(*columns_of(found.grounding.atoms, p), strict=True)}  # fmt: skip
    for name in names[:4]:
        why = found.explain("P", name, n_terms=1000)
        assert sum(len(rule.terms) for rule in why.rules) == sum(rule.n_terms for rule in why.rules)
        for term in [term for rule in why.rules for term in rule.terms] + list(why.constraints):
            assert dict(term.facts).items() <= truth.items()
            body = term.rule.partition(":")[2] if term.rule[0].isdigit() else term.rule
            assert set(term.bindings) == set(re.findall(r"(?<![+\w{])[AB]\b", body.partition("{")[0])), term
            if "->" in body and "F(" in body:
                a, b = term.bindings["A"], term.bindings["B"]
                assert term.facts == ((f"F('{a}', '{b}')", truth[f"F('{a}', '{b}')"]),)
                x = {n: found.value("P", n) for n in names}
                assert term.value == pytest.approx(term.facts[0][1] + x[a] - x[b] - 1)
            elif "S(+B)" in body:
                assert len(term.facts) == 6
            elif "S(B)" in term.rule:
                a = term.bindings["A"]
                assert {f for f, _ in term.facts} == {
                    f for f in truth if f.startswith(f"F('{a}'") and f[-4:-2] in names[:6]
                }


def columns_of(atoms, predicate):
    p = atoms.predicate_index(predicate)
    names = atoms.constants.names
    return [
        *([names[n] for n in column] for column in atoms.observed[p].arguments.T),
        atoms.observed[p].values.tolist(),
    ]


def test_missing_atoms_are_facts_with_value_0_and_changed_programs_have_no_facts():
    program = Program().predicate("Q", 1).predicate("P", 1).rule("1: P(X) -> Q(X)").target("P", ["a"])
    found = SoftLogic(program.observe("Q", ["b"])).infer()
    term = found.explain("P", "a").rules[0].terms[0]
    assert (term.bindings, term.facts) == ({"X": "a"}, (("Q('a')", 0.0),))
    program.target("P", ["0"])
    assert found.explain("P", "a").rules[0].terms[0].bindings == {}


def test_forces_of_constraints_need_multipliers():
    grounding = pulled()
    why = explain(grounding, [0.9, 0.0], 0)
    assert np.isnan([why.constraints[0].force, why.imbalance]).all()
    n_rows = grounding.mrf.n_terms + grounding.mrf.n_constraints
    held = explain(grounding, [0.9, 0.0], 0, multipliers=np.ones(n_rows))
    assert (held.constraints[0].force, held.constraints[0].rule) == (-1.0, "P(X) <= 0.9 .")
    with pytest.raises(InvalidInputError, match=rf"multipliers has shape \(1,\), expected \({n_rows},\)"):
        explain(grounding, [0.9, 0.0], 0, multipliers=[1.0])


def test_explain_raises_on_points_of_the_wrong_shape():
    with pytest.raises(InvalidInputError, match=r"x has shape \(3,\), expected \(2,\)"):
        explain(pulled(), [0.0, 0.0, 0.0], 0)


# ---------------------------------------------------------------- evaluation


def labelled():
    rng = np.random.default_rng(4)
    names = [(f"u{i}", label) for i in range(15) for label in "abc"]
    truth = [(*name, float(rng.random() < 0.4)) for name in names]
    program = Program().predicate("Is", 2).target("Is", [*names, ("nobody knows", "a")]).truth("Is", truth)
    x = np.append(rng.random(45), 0.0)
    return ground(program).atoms, x, np.array([t[2] for t in truth]) > 0.5


def test_evaluators_agree_with_scikit_learn():
    atoms, x, truth = labelled()
    scores = evaluate([Evaluation("IS", name) for name in evaluator_names()], atoms, x)["Is"]
    predicted = x[:45] >= 0.5
    assert scores["DiscreteEvaluator"]["accuracy"] == pytest.approx(accuracy_score(truth, predicted))
    assert scores["DiscreteEvaluator"]["f1"] == pytest.approx(f1_score(truth, predicted))
    assert scores["ContinuousEvaluator"]["mse"] == pytest.approx(((x[:45] - truth) ** 2).mean())
    assert scores["AUCEvaluator"] == scores["RankingEvaluator"]
    assert scores["DiscreteEvaluator"]["precision_negative"] == pytest.approx(precision_score(~truth, ~predicted))
    assert scores["DiscreteEvaluator"]["recall_negative"] == pytest.approx(recall_score(~truth, ~predicted))
    assert scores["DiscreteEvaluator"]["f1_negative"] == pytest.approx(f1_score(~truth, ~predicted))
    assert scores["ContinuousEvaluator"]["rmse"] == pytest.approx(root_mean_squared_error(truth, x[:45]))
    right = [bool(truth[3 * i + np.argmax(x[3 * i : 3 * i + 3])]) for i in range(15)]
    categorical = scores.pop("CategoricalEvaluator")
    assert categorical == {"accuracy": pytest.approx(sum(right) / truth.sum()), "n": truth.sum()}
    assert {value["n"] for value in scores.values()} == {45}


def test_categorical_evaluator_uses_all_targets():
    """The truth lists only true atoms; a true atom that is not a target is wrong; observed atoms are optional."""
    program = (
        Program().predicate("Is", 2).truth("Is", [("a", "x"), ("b", "x"), ("c", "x"), ("d", "x"), ("d", "y", 0.9)])
    )
    program.target("Is", [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]).observe(
        "Is", [("c", "x", 0.3), ("c", "y", 0.2)]
    )
    atoms, x = ground(program).atoms, np.array([0.9, 0.1, 0.3, 0.8])

    def accuracy(**options):
        options = {key.replace("_", "."): value for key, value in options.items()}
        return evaluate([Evaluation("Is", "CategoricalEvaluator", options)], atoms, x)["Is"]["CategoricalEvaluator"]

    assert accuracy() == {"accuracy": 0.25, "n": 4}
    assert accuracy(eval_includeobs="true")["accuracy"] == 0.5
    # Categories by the first argument: a is best for x, b is best for y.
    assert accuracy(categoricalevaluator_categoryindexes=0)["accuracy"] == 0.25
    assert accuracy(categoryindexes="0:-1")["accuracy"] == 0.25
    for bad in ("2", "x", "", "-3"):
        with pytest.raises(InvalidInputError, match="categoryindexes must be argument positions from -2 to 1"):
            accuracy(categoryindexes=bad)


def test_options_include_observed_atoms_and_targets_without_truth():
    program = Program().predicate("P", 1).target("P", ["a", "b"]).observe("P", [("c", 0.25), ("d", 1.0)])
    atoms, x = ground(program.truth("P", [("a", 1.0), ("c", 0.75), ("e", 1.0)])).atoms, np.array([0.5, 0.125])

    def mae(**options):
        evaluation = Evaluation("P", "ContinuousEvaluator", {f"eval.{key}": value for key, value in options.items()})
        return evaluate([evaluation], atoms, x)["P"]["ContinuousEvaluator"]["mae"]

    assert mae() == 0.5
    assert mae(includeobs=True) == (0.5 + 0.5) / 2
    assert mae(closetruth=True) == (0.5 + 0.125) / 2
    assert mae(closetruth=True, includeobs=True) == (0.5 + 0.125 + 0.5) / 3
    with pytest.raises(InvalidInputError, match=r"eval.includeobs must be true or false, got 'yes'"):
        mae(includeobs="yes")


def test_one_evaluator_with_two_thresholds():
    atoms, x, _ = labelled()
    scores = evaluate([Evaluation("Is", "DiscreteEvaluator", {"threshold": t}) for t in (0.2, 0.8)], atoms, x)["Is"]
    assert list(scores) == ["DiscreteEvaluator", "DiscreteEvaluator 2"]
    assert scores["DiscreteEvaluator"]["recall"] > scores["DiscreteEvaluator 2"]["recall"]


def test_thresholds_are_options():
    atoms, x, truth = labelled()
    given = Evaluation("Is", "DiscreteEvaluator", {"discreteevaluator.threshold": "0.9"})
    found = evaluate([given], atoms, x)["Is"]["DiscreteEvaluator"]
    assert found["accuracy"] == pytest.approx(accuracy_score(truth, x[:45] >= 0.9))
    with pytest.raises(InvalidInputError, match="threshold must be a number, got 'high'"):
        evaluate([Evaluation("Is", "DiscreteEvaluator", {"threshold": "high"})], atoms, x)


def test_unknown_evaluators_and_no_truth():
    atoms, x, _ = labelled()
    with pytest.raises(InvalidInputError, match=r"'DiscretEvaluator' is not known.*Did you mean 'DiscreteEvaluator'"):
        evaluate([Evaluation("Is", "DiscretEvaluator")], atoms, x)
    bare = ground(Program().predicate("P", 1).target("P", ["a"])).atoms
    assert evaluate([Evaluation("P", "AUCEvaluator")], bare, np.zeros(1)) == {"P": {"AUCEvaluator": {"n": 0}}}


# ---------------------------------------------------------------- learning


def friends(truth=1.0):
    """Ann and Bob like chess; Carl does not. Those who like the same know each other, says `truth`."""
    pairs = [(a, b) for a in ("ann", "bob", "carl") for b in ("ann", "bob", "carl") if a != b]
    program = Program().predicate("Likes", 2).predicate("Knows", 2).predicate("Grumpy", 1)
    program.rule("1: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2").rule("1: !Knows(A, B) ^2")
    program.rule("Knows(A, B) = Knows(B, A) .").rule("1: Grumpy(A) & Likes(A, X) -> Knows(A, X) ^2")
    program.observe("Likes", [("ann", "chess"), ("bob", "chess")]).target("Knows", pairs)
    return program.truth("Knows", [(a, b, truth if {a, b} == {"ann", "bob"} else 0.0) for a, b in pairs])


@pytest.mark.parametrize("learner", ["paired_dual", "pseudo_likelihood", HingePerceptron()], ids=str)
@pytest.mark.filterwarnings("ignore:.*has no groundings:UserWarning")
def test_fit_changes_the_weights_that_inference_uses(learner):
    program = friends()
    if learner == "pseudo_likelihood":  # the symmetry constraint fixes each atom given the other
        program = Program().predicate("Likes", 1).predicate("Nice", 1).rule("1: Likes(A) -> Nice(A) ^2")
        program.rule("1: !Nice(A) ^2").observe("Likes", ["ann", "bob"]).target("Nice", ["ann", "bob"])
        program.truth("Nice", ["ann", "bob"])
    model = SoftLogic(program, learner=learner)
    before = model.infer()
    weights = [rule.weight for rule in program.rules]
    assert model.fit() is model
    after = model.infer()
    assert model.weights_[0] > 1.0 > model.weights_[1]
    atom = ("Nice", "ann") if learner == "pseudo_likelihood" else ("Knows", "ann", "bob")
    assert after.value(*atom) > before.value(*atom)
    assert [rule.weight for rule in program.rules] == weights  # fit does not change the program
    assert len(model.rules_) == len(program.rules)
    assert {"weights", "admm_iterations"} <= set(model.history_)


@pytest.mark.filterwarnings("ignore:.*has no groundings:UserWarning")
def test_hard_rules_and_rules_without_groundings_keep_their_weights():
    model = SoftLogic(friends(), missing="zero").fit()
    assert np.isinf(model.weights_[2])
    assert model.weights_[3] == 1.0  # no grounding: nobody is grumpy
    assert model.rules_[2] == "Knows(A, B) = Knows(B, A) ."
    assert model.rules_[3].startswith("1: Grumpy")
    assert model.infer().result.max_violation < 1e-4


@pytest.mark.filterwarnings("ignore:.*has no groundings:UserWarning")
def test_learning_from_another_program_with_the_same_rules():
    model = SoftLogic(friends(), missing="zero").fit(friends(truth=0.0))
    assert model.weights_[0] < 1.0  # in that program people with the same taste do not know each other
    other = Program().predicate("Knows", 2).rule("1: !Knows(A, B) ^2").target("Knows", [("a", "b")])
    with pytest.raises(InvalidInputError, match="the rules of X differ from those of the model"):
        SoftLogic(friends()).fit(other)


KEPT = ("Tag(A, 'red') -> Red(A)", "Tag(A, 'blue') -> !Red(A)", "Red(A) -> Votes(A)", "!Red(A) -> !Votes(A)")
BROKEN = ("Red(A) -> !Votes(A)", "Tag(A, 'blue') & !Red(A) -> Votes(A)")


def voters(rules, weight):
    """Return a program in which votes follow tags; the votes of the last two people are unknown."""
    people = [f"p{k}" for k in range(10)]
    program = Program().predicate("Tag", 2).predicate("Red", 1).predicate("Votes", 1)
    for rule in rules:
        program.rule(f"{weight}: {rule} ^2")
    program.observe("Tag", [(p, "red" if k % 2 else "blue") for k, p in enumerate(people)])
    program.latent("Red", people).target("Votes", people)
    return program.truth("Votes", [(p, float(k % 2)) for k, p in enumerate(people[:8])])


@pytest.mark.parametrize("broken", [(), BROKEN], ids=["kept", "kept and broken"])
@pytest.mark.parametrize("learner", [PairedDual(), PrimalSubgradient()], ids=lambda one: one.name)
def test_targets_without_truth_are_latent(learner, broken):
    # The initial weights are below the optimum, which is near 1 for the last two satisfied rules.
    program = voters((*KEPT, *broken), 0.3)
    model = SoftLogic(program, learner=learner).fit()
    grounding = ground(program)
    assert np.isnan(grounding.atoms.truth).sum() == 10 + 2
    problem = PairedProblem.of(grounding.mrf, grounding.atoms.truth, EntropyPair())
    before, slope = exact_objective(problem, np.full(4 + len(broken), 0.3), learner.l2)
    # By an independent solver: larger weights of satisfied rules decrease the objective, or increase it less.
    assert slope[:4].mean() < (slope[4:].min() if broken else 0.0)
    assert (model.weights_[:4] > 0.3).all()
    assert (model.weights_[4:] < 0.1).all()
    after, _ = exact_objective(problem, model.weights_, learner.l2)
    assert 0.0 <= after < 0.75 * before
    found = model.infer()
    for voter, other in (("p1", "p2"), ("p9", "p8")):  # with and without a true value
        assert found.value("Votes", voter) > 0.8 > 0.2 > found.value("Votes", other)


def test_fit_without_true_values_raises():
    program = Program().predicate("Knows", 2).rule("1: !Knows(A, B) ^2").target("Knows", [("a", "b")])
    with pytest.raises(InvalidInputError, match=r"no target has a true value.*Program\.truth"):
        SoftLogic(program).fit()
    with pytest.raises(InvalidInputError, match=r"learner='paired' is not known.*'paired_dual'"):
        SoftLogic(program.truth("Knows", [("a", "b", 0.0)]), learner="paired").fit()


def test_contradictory_hard_rules_are_named_in_a_warning():
    program = Program().predicate("P", 1).rule("P(X) = 0 .").rule("P(X) = 1 .").target("P", ["a", "b"])
    with pytest.warns(ConvergenceWarning, match=r"no point satisfies.*'P\(X\) = 0 \.'.*'P\(X\) = 1 \.'"):
        SoftLogic(program).predict()


def test_a_rule_without_groundings_and_truth_of_atoms_that_are_no_targets_are_named():
    program = Program().predicate("P", 1).predicate("Q", 1).rule("1: !P(X) ^2").rule("1: Q(X) -> P(X)")
    program.target("P", ["a", "b"]).truth("P", [("a", 1.0), ("c", 1.0), ("d", 0.0)])
    truth = r"2 of the 3 true values of P belong to atoms that are no targets, such as P\('c'\)"
    with (
        pytest.warns(UserWarning, match=truth),
        pytest.warns(UserWarning, match=r"'1: Q\(X\) -> P\(X\)' has no groundings"),
    ):
        SoftLogic(program).infer()


def _frames():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    return [pandas.DataFrame, lambda columns: polars.DataFrame(columns, schema_overrides={"user": polars.Int32}), dict]


@pytest.mark.parametrize("k", range(3))
@pytest.mark.parametrize("saved", [False, True])
def test_predictions_keep_the_names_and_types_of_the_columns(tmp_path, k, saved):
    frame = _frames()[k]
    table = frame({"user": [7, 3], "item": ["x", "y"]})
    program = Program().predicate("Likes", 2).rule("1: Likes(U, I) = 1").target("Likes", table)
    model = SoftLogic(program)
    if saved:
        model.save(tmp_path / "model.npz")
        model = SoftLogic.load(tmp_path / "model.npz")
    predicted = model.predict(predicate="Likes")
    assert list(predicted if k == 2 else predicted.columns) == ["user", "item", "value"]
    assert [int(user) + 0 for user in predicted["user"]] == [7, 3]
    assert not any(isinstance(user, str) for user in predicted["user"])
    if k == 0:
        assert len(table.merge(predicted)) == 2
    if k == 1:
        assert len(table.join(predicted, on=["user", "item"])) == 2


def test_columns_with_integers_and_strings_are_strings():
    program = Program().predicate("P", 1).rule("1: P(X) = 1").target("P", {"value": [7]}).target("P", ["a"])
    assert SoftLogic(program).predict(predicate="P")["argument1"] == ["7", "a"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([("a", float("nan"))], "row 0: the value is missing. Remove the row"),
        ({"x": np.array(["2024-01-02"], dtype="M8[ns]")}, "2024-01-02.*Convert dates to strings"),
        ([datetime.date(2024, 1, 2)], "Convert dates to strings"),
    ],
)
def test_missing_values_and_dates_get_advice_of_their_own(table, message):
    with pytest.raises(InvalidInputError, match=message):
        Program().predicate("P", 1).observe("P", table)


def test_too_many_groundings_raise_before_the_join():
    program = Program().predicate("A", 1).predicate("B", 1).observe("A", range(300)).target("B", range(300))
    program.rule("1: A(X) & A(Y) & A(Z) & A(W) -> B(X)")
    with pytest.raises(TooLargeError, match=r"about 8.1e\+09 groundings.*max_groundings=1e\+09"):
        SoftLogic(program).infer()
    chain = Program().predicate("A", 2).observe("A", [(i, (i + 1) % 50) for i in range(50)])
    chain.predicate("B", 2).target("B", [(i, j) for i in range(50) for j in range(50)])
    chain.rule("1: A(X, Y) & A(Y, Z) & A(Z, W) -> B(X, W)")
    assert ground(chain, max_groundings=50).reports[0].n_groundings == 50
    with pytest.raises(TooLargeError, match="about 50 groundings"):
        ground(chain, max_groundings=49)
