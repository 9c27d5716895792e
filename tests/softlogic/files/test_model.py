"""Saved models: content of the file, and inference with a loaded model on other data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import intarsia
from intarsia import Program, SoftLogic
from intarsia._files.tables import table_kind
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic import HingePseudoLikelihood, ground, read_rule

RULE = "2: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2"
PRIOR = "1: !Knows(A, B) ^2"


def bare(rules=(RULE, PRIOR)):
    program = Program().predicate("Likes", 2, closed=True).predicate("Knows", 2)
    for rule in rules:
        program.rule(rule)
    return program


def with_data(program, first="ann", second="bob"):
    program.observe("Likes", {"who": [first, second], "what": ["chess", "chess"]})
    return program.target("Knows", [(first, second), (second, first)])


def saved(model, folder):
    model.save(folder / "m.npz")
    return intarsia.load(folder / "m.npz")


def test_model_without_fit_uses_the_written_weights(tmp_path):
    """The minimum of 2 (1 - x)^2 + x^2 is at 2/3."""
    back = saved(SoftLogic(with_data(bare())), tmp_path)
    assert not hasattr(back, "weights_")
    assert back.infer().value("Knows", "ann", "bob") == pytest.approx(2 / 3, abs=1e-3)
    assert back.program.find_predicate("Likes").closed is True
    assert back.program.find_predicate("Knows").closed is None


def test_inference_on_other_data_uses_the_weights_of_the_model(tmp_path):
    model = saved(SoftLogic(with_data(bare()), missing="zero"), tmp_path)
    # The weights of the passed program are ignored: with 7 instead of 2 the value would be 7/8.
    others = with_data(bare([RULE.replace("2:", "7:"), PRIOR]), "tom", "kim")
    assert model.infer(others).value("Knows", "tom", "kim") == pytest.approx(2 / 3, abs=1e-3)
    table = model.predict(others, predicate="Knows")
    assert table["argument1"] == ["tom", "kim"]
    with pytest.raises(InvalidInputError, match=r"SoftLogic.infer: the rules of X differ from those"):
        model.infer(with_data(bare([PRIOR, RULE])))
    with pytest.raises(InvalidInputError, match=r"SoftLogic\.predict: X must be a Program, got str"):
        model.predict("rules")


def test_data_passed_to_fit_are_not_saved(tmp_path):
    data = with_data(bare()).truth("Knows", [("ann", "bob"), ("bob", "ann")])
    learner = HingePseudoLikelihood(max_iter=20)
    model = SoftLogic(data.without_data(), learner=learner).fit(data)
    back = saved(model, tmp_path)
    np.testing.assert_array_equal(back.weights_, model.weights_)
    assert back.rules_ == model.rules_
    assert back.learning_result_.status is model.learning_result_.status
    assert (tmp_path / "m.npz").read_bytes().find(b"chess") == -1
    assert back.program.n_atoms("observed") == 0
    others = with_data(back.program.without_data(), "tom", "kim")
    expected = with_data(model.program.without_data(), "tom", "kim")
    assert back.predict(others)["Knows"]["value"] == pytest.approx(model.predict(expected)["Knows"]["value"], abs=0.0)


def test_constants_backend_options_and_evaluations_are_restored(tmp_path):
    frames = pytest.importorskip("pandas")
    strange = 'it\'s "7" \n\t\U0001f600 \ud800'
    program = with_data(bare(), strange, "7")
    program.observe("Likes", frames.DataFrame({"a": [3], "b": ["chess"]}))
    program.target("Knows", [(3, "7"), ("7", 3), (3, strange), (strange, 3)])
    program.options, program.notes = {"runtime.log": "x"}, ["a note"]
    program.evaluations.append(intarsia.softlogic.Evaluation("Knows", "DiscreteEvaluator", {"threshold": 0.5}))
    back = saved(SoftLogic(program), tmp_path).program
    assert back.constants.names == program.constants.names
    assert (back.options, back.notes, back.evaluations) == (program.options, program.notes, program.evaluations)
    assert back.rules == program.rules
    assert repr(back) == repr(program)
    program.backend = frames_of = table_kind(frames.DataFrame({"a": [1]}))
    assert saved(SoftLogic(program), tmp_path).program.backend == frames_of
    plain = with_data(bare())
    plain.backend = frames_of
    assert isinstance(saved(SoftLogic(plain), tmp_path).predict(predicate="Knows"), frames.DataFrame)


def test_rules_with_another_weight_than_their_text(tmp_path):
    program = with_data(bare([replace(read_rule(RULE), weight=3.0), PRIOR]))
    back = saved(SoftLogic(program), tmp_path)
    assert back.program.rules[0].weight == 3.0
    assert back.infer().value("Knows", "ann", "bob") == pytest.approx(3 / 4, abs=1e-3)
    odd = replace(read_rule(RULE), squared=False)
    with pytest.raises(InvalidInputError, match=r"SoftLogic.save: the rule .* differs from its text"):
        SoftLogic(with_data(bare([odd]))).save(tmp_path / "odd.npz")
    program.options = {"x": object()}
    with pytest.raises(InvalidInputError, match=r"SoftLogic.save: options of the program cannot be written as JSON"):
        SoftLogic(program).save(tmp_path / "odd.npz")
    with pytest.raises(InvalidInputError, match="program must be a Program, got int"):
        SoftLogic(3).save(tmp_path / "odd.npz")
    assert not (tmp_path / "odd.npz").exists()


def test_dialect_types_and_split_rules_are_saved(tmp_path):
    program = Program(dialect="psl").predicate("P", 1, types=["UniqueIntID"]).predicate("C", 1)
    program.target("P", ["2", "10"]).observe("C", ["2", "10"])
    program.rule("1: 1 + 2 * P(X) >= 1").rule("1: P(+X) >= 1 {X: C(X) | (X % '9')}")
    SoftLogic(program).save(tmp_path / "model.npz")
    loaded = SoftLogic.load(tmp_path / "model.npz").program
    assert loaded.dialect == "psl"
    assert loaded.predicates == program.predicates
    assert loaded.rules == program.rules
    assert len(loaded.rules) == 3
    np.testing.assert_array_equal(ground(loaded).mrf.terms.coef, ground(program).mrf.terms.coef)


def test_a_program_of_another_dialect_raises():
    model = SoftLogic(Program().predicate("P", 1).rule("1: !P(X)").target("P", ["a"]))
    other = Program(dialect="psl").predicate("P", 1).rule("1: !P(X)").target("P", ["a"])
    with pytest.raises(InvalidInputError, match="are read with dialect='psl', those of the model with dialect='plain'"):
        model.infer(other)
