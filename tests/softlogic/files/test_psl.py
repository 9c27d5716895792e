"""Reading of PSL programs and data files; errors name file and line."""

from __future__ import annotations

import gzip
import json
import sys

import pytest

from intarsia.exceptions import (
    FileFormatError,
    IntarsiaError,
    InvalidInputError,
    MissingDependencyError,
    NotSupportedError,
    TooLargeError,
)
from intarsia.softlogic import ground, read_psl
from intarsia.softlogic.files.atoms import read_atom_file
from intarsia.softlogic.files.documents import read_lenient_json
from intarsia.softlogic.files.psl import write_learned
from intarsia.softlogic.grounding.tables import ConstantTable

MODEL = """{
    // a comment, and one /* inside */ "another"
    "options": {"runtime.log.level": "INFO"},
    "rules": [
        "1.0: KNOWS(A, B) & Prior('0') -> TRUSTS(A, B) ^2", /* and
        one over lines */
        "0.5 : !Trusts(A, B) ^2"
    ],
    "predicates": {
        "Trusts/2": {
            "evaluations": ["AUCEvaluator", {"evaluator": "org.linqs.psl.DiscreteEvaluator", "options": {"x": 1}}],
            "targets": {"learn": ["data/learn.txt"], "infer": ["data//infer.txt"]},
            "truth": {"infer": ["data/truth.txt"], "learn": ["data/truth.txt"]}
        },
        "Knows/2": {"observations": ["data/knows.txt"]},
        "Prior/1": {"observations": [["0", "0.7"]], "types": ["UniqueStringID"]}
    },
    "learn": {"options": {}, "rules": ["2: !Trusts(A, B)"]}
}"""


@pytest.fixture
def model(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "learn.txt").write_text("a\tb\n")
    (tmp_path / "data" / "infer.txt").write_text("b\ta\n\nc\ta\n")
    (tmp_path / "data" / "truth.txt").write_text("b\ta\t1.0\n")
    (tmp_path / "data" / "knows.txt").write_bytes(gzip.compress(b"a\tb\r\nb\ta\t0.5\r\n"))
    path = tmp_path / "model.json"
    path.write_text(MODEL)
    return path


def test_a_program_with_comments_phases_and_inline_data(model):
    program = read_psl(model)
    assert [rule.weight for rule in program.rules] == [1.0, 0.5]
    assert program.n_atoms("target") == 2
    assert program.options == {"runtime.log.level": "INFO"}
    assert [(e.predicate, e.evaluator, e.options) for e in program.evaluations] == [
        ("Trusts", "AUCEvaluator", {}),
        ("Trusts", "DiscreteEvaluator", {"x": 1}),
    ]
    assert ["'x' of DiscreteEvaluator is not used" in note for note in program.notes] == [True, False]
    assert "PSL would first learn the weights from the data under 'learn'" in program.notes[1]
    found = ground(program, missing="zero")
    # Knows(b, a) = 0.5 and Prior = 0.7 pull Trusts(b, a) towards 0.2.
    assert found.mrf.terms.const[0] == pytest.approx(0.2)
    assert found.atoms.truth[0] == 1.0


def test_data_of_the_learning_phase(model):
    program = read_psl(model, phase="learn")
    assert [rule.weight for rule in program.rules] == [1.0, 0.5, 2.0]
    assert program.n_atoms("target") == 1
    with pytest.raises(InvalidInputError, match="phase='evaluate' is not known"):
        read_psl(model, phase="evaluate")


def test_data_folder_replaces_paths(model, tmp_path):
    other = tmp_path / "other"
    (tmp_path / "data").rename(other)
    with pytest.raises(InvalidInputError, match=r"Trusts/2, targets: the data file .*infer.txt does not exist.*--data"):
        read_psl(model)
    assert read_psl(model, data=other).n_atoms("target") == 2
    for file in other.iterdir():
        file.rename(tmp_path / file.name)
    with pytest.raises(InvalidInputError, match=r"infer.txt does not exist"):
        read_psl(model)  # without the folder the file does not exist


def test_unknown_keys_are_noted(model):
    document = {"rules": [], "predicates": {"P/1": {"color": "red"}}, "author": "me"}
    model.write_text(json.dumps(document))
    notes = read_psl(model).notes
    assert any("'author' is not used" in note for note in notes)
    assert any("P/1: 'color' is not used" in note for note in notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"rules": [}', "model.json, line 1, column 12: invalid JSON"),
        ('{\n// x\n"rules": ["a",,]}', "model.json, line 3, column 15: invalid JSON"),
        ("[]", "model.json: expected an object, got list"),
        ('{"rules": "A"}', "model.json: rules: the rule file .*A does not exist"),
        ('{"rules": 3}', "model.json: rules: expected a list, got int"),
        ('{"rules": [{"1.0": "P(A)"}]}', "rules, number 1: expected a string, got an object .* Put the rule in quotes"),
        ('{"rules": [3]}', "rules, number 1: expected a string, got int 3"),
        ('{"predicates": {"Knows": {}}}', "expected a name and its number of arguments, such as Knows/2, got 'Knows'"),
        ('{"predicates": {"Knows/2": {"arity": 3}}}', "the name has 2, 'arity' has 3. Make them agree"),
        ('{"predicates": {"Knows": {"arity": 2, "types": ["String"]}}}', "'arity' has 2, 'types' has 1"),
        ('{"predicates": {"Knows/2": {"types": ["String"]}}}', "the name has 2, 'types' has 1"),
        ('{"predicates": {"Knows/1/2": {}}}', "must be an integer of at least 1, got '1/2'"),
        ('{"predicates": {"P/1": {"types": ["Text"]}}}', "='Text' is not known"),
        ('{"predicates": {"P/1": {"type": "Predicat"}}}', "type 'Predicat' is not known. Expected 'StandardPredicate'"),
        ('{"predicates": {"P/1": {"targets": [["a", "b", "c"]]}}}', "P/1, targets, row 1: 3 fields; expected 1"),
        (
            '{"options": {"runtime.db.intids": true}, "predicates": {"P/1": {"targets": [["a"]]}}}',
            "'a' is not an integer",
        ),
        ('{"options": {"inference.relax": "maybe"}}', "inference.relax must be true or false, got 'maybe'"),
        ('{"options": {"inference.relax": true, "inference.relax.multiplier": "x"}}', "must be a number of at least 0"),
        ('{"predicates": {"x\\"; drop table/2": {}}}', "a name must consist of letters, digits"),
        ('{"predicates": {"P/1": []}}', "predicates, P/1: expected an object, got list"),
        ('{"predicates": {"P/1": {"observations": {"train": []}}}}', "='train' is not known"),
        ('{"predicates": {"P/1": {"observations": [["a", "2"]]}}}', "the value 2 is outside"),
        ('{"predicates": {"P/1": {"evaluations": [{}]}}}', "evaluator: expected a string, got NoneType"),
        ('{"rules": ["1: P(A"], "predicates": {"P/1": {}}}', "model.json: rules, number 1, line 1, column 7: expected"),
        ('{"rules": ["1: !Pp(A)"], "predicates": {"P/1": {}}}', "rules, number 1 .*'Pp' is not known"),
        ("[" * 100_000, "brackets are nested too deeply"),
    ],
)
def test_malformed_programs_raise(tmp_path, text, message):
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=message):
        read_psl(path)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"type": "DeepPredicate", "options": {"model-path": "net.py"}}, "its values come from a neural network"),
        ({"type": "org.linqs.psl.model.predicate.DeepPredicate"}, "Run the network first and pass its outputs"),
        ({"model": "Tensorflow"}, "its values come from a neural network"),
        ({"function": "edu.example.Jaccard"}, r"an external function \(edu.example.Jaccard\), which is not supported"),
    ],
)
def test_neural_and_functional_predicates_raise(tmp_path, entry, message):
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"rules": ["1: !P(A)"], "predicates": {"P/1": {**entry, "targets": [["a"]]}}}))
    with pytest.raises(NotSupportedError, match=f"model.json: predicates, P/1: .*{message}"):
        read_psl(path)


def test_lists_of_targets_open_a_predicate_even_if_their_file_is_empty(tmp_path):
    (tmp_path / "none.txt").write_text("")
    path = tmp_path / "model.json"
    model = '{"rules": ["1: Q(A) -> P(A)"], "predicates": {"Q/1": {"observations": [["a"]]}, "P/1": ENTRY}}'
    path.write_text(model.replace("ENTRY", "{}"))
    assert ground(read_psl(path)).mrf.n_terms == 0
    for entry in ('{"targets": ["none.txt"]}', '{"force-open": true}'):
        path.write_text(model.replace("ENTRY", entry))
        with pytest.raises(InvalidInputError, match=r"neither observed nor targets: P\('a'\)"):
            ground(read_psl(path))


def test_validation_has_its_own_data_and_the_rules_of_learning(model):
    text = MODEL.replace(
        '"targets": {"learn": ["data/learn.txt"],', '"targets": {"validation": [["a", "c"], ["c", "b"]],'
    )
    model.write_text(text[:-1] + ', "validation": {"rules": ["7: !Trusts(A, B)"]}}')
    program = read_psl(model, phase="validation")
    assert program.n_atoms("target") == 2
    assert [rule.weight for rule in program.rules] == [1.0, 0.5, 2.0]
    assert any("validation, rules are not used, as in PSL" in note for note in program.notes)
    assert [rule.weight for rule in read_psl(model).rules] == [1.0, 0.5]


def test_rules_in_a_separate_file(model):
    folder = model.parent
    (folder / "rules.psl").write_text("// two\n1: KNOWS(A, B)\n   -> TRUSTS(A, B) ^2\n0.5: !Trusts(A, B) ^2 # end")
    head, _, tail = MODEL.partition('"rules": [')
    model.write_text(head + '"rules": "rules.psl"' + tail.partition("    ],")[2].replace("\n", ",\n", 1))
    assert [rule.weight for rule in read_psl(model).rules] == [1.0, 0.5]
    learned = [f"3: !Trusts(A, '{constant}')" for constant in "abc"]
    write_learned(model, learned, folder / "learned.json")
    assert [rule.weight for rule in read_psl(folder / "learned.json").rules] == [3.0, 3.0]
    assert len(read_psl(folder / "learned.json", phase="learn").rules) == 3
    (folder / "rules.psl").write_text("1: KNOWS(A, B)\n  -> TRUSTS(A B)")
    with pytest.raises(InvalidInputError, match=r"rules.psl, line 2, column"):
        read_psl(model)


def test_options_that_change_a_result_in_psl_are_used_or_noted(tmp_path):
    path = tmp_path / "model.json"
    path.write_text(
        json.dumps(
            {
                "options": {
                    "runtime.log.level": "DEBUG",
                    "runtime.learn.method": "org.linqs.psl.GridSearch",
                    "runtime.inference.method": "SGDInference",
                    "inference.skip": False,
                    "pam.throw": "false",
                    "admmreasoner.stepsize": 2,
                    "sgd.learningrate": 2,
                    "gridsearch.weights": "1:2",
                    "eval.includeobs": True,
                    "discreteevaluator.representative": "F1",
                    "some.thing": 1,
                },
                "infer": {"options": {"discreteevaluator.threshold": 0.7}, "rules": ["2: P(A) = 1"]},
                "rules": ["1: !P(A)"],
                "predicates": {
                    "P/1": {"evaluations": [{"evaluator": "DiscreteEvaluator", "options": {"eval.includeobs": False}}]}
                },
            }
        )
    )
    program = read_psl(path)
    noted = "\n".join(program.notes)
    for key in ("runtime.learn.method", "runtime.inference.method", "pam.throw", "gridsearch.weights", "some.thing",
                "admmreasoner.stepsize, sgd.learningrate", "representative"):  # fmt: skip
        assert key in noted
    assert len(program.notes) == 7
    assert "SGDInference" in noted
    assert program.options["discreteevaluator.threshold"] == 0.7
    evaluation = program.evaluations[0]
    assert (evaluation.options["eval.includeobs"], evaluation.options["discreteevaluator.threshold"]) == (False, 0.7)


def test_relaxed_and_cleared_rules(tmp_path):
    path = tmp_path / "model.json"
    model = {
        "options": {"inference.relax": "true"},
        "rules": ["2: !P(A)", "P(A) = 1 ."],
        "predicates": {"P/1": {}},
        "infer": {"rules": ["1: !P(A) ^2"]},
    }
    path.write_text(json.dumps(model))
    assert [rule.text for rule in read_psl(path).rules] == ["2: !P(A)", "200: P(A) = 1 ^2", "1: !P(A) ^2"]
    assert [rule.weight for rule in read_psl(path, phase="learn").rules] == [2.0, None]
    assert "hard rules stay hard" in read_psl(path, phase="learn").notes[0]
    model["options"] = {"runtime.inference.clearrules": True}
    path.write_text(json.dumps(model))
    assert [rule.weight for rule in read_psl(path).rules] == [1.0]


# ---------------------------------------------------------------- JSON with the extensions of PSL


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("{'a': 'it\\'s \"x\"', \"b\": \"it\\'s\"}", {"a": 'it\'s "x"', "b": "it's"}),
        ("[1, [2,], {'a': 3 , /* c */ }, ] // end", [1, [2], {"a": 3}]),
        ("# begin\n[00, +1, -01, 007.50, 1e5, 0]", [0, 1, -1, 7.5, 100000.0, 0]),
        ("['# no', \"// no\", '/* no */', ',]']", ["# no", "// no", "/* no */", ",]"]),
        ("[]", []),
        ('["\\u00e9\\n"]', ["é\n"]),
    ],
)
def test_json_extensions_of_psl(text, document):
    assert read_lenient_json(text, "model.json") == document


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("[1,,]", 1, 4),
        ("[,]", 1, 2),
        ("{,}", 1, 2),
        ("{a: 1}", 1, 2),
        ("['it\\'s',\n 'say \"x\"', +01, oops]", 2, 18),
        ("['a\nb']", 1, 4),
        ("[1] /* open", 1, 5),
        ("['open]", 1, 2),
        ("{'a' 1}", 1, 6),
        ("[1 2]", 1, 4),
    ],
)
def test_errors_name_line_and_column(text, line, column):
    with pytest.raises(FileFormatError, match=f"model.json, line {line}, column {column}: invalid JSON"):
        read_lenient_json(text, "model.json")


# ---------------------------------------------------------------- YAML, and PSL 2


def test_yaml_scalars_stay_strings(tmp_path):
    pytest.importorskip("yaml")
    path = tmp_path / "model.yaml"
    path.write_text(
        "options:\n  runtime.db.intids: false\nrules:\n  - '1.5: !P(A, B) ^2'\npredicates:\n  P:\n    arity: 2\n"
        "    targets: [[no, 01], [2020-01-01, 1.0], [~, 'true']]\n    force-open: true\n"
    )
    atoms = ground(read_psl(path)).atoms
    assert atoms.columns("P") == [["no", "2020-01-01", "~"], ["01", "1.0", "true"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules: [", "model.yaml, line 1, column 9: malformed YAML"),
        ("rules:\n  - 1.0: P(A) -> Q(A)\n", "rules, number 1: expected a string, got an object"),
        ("- a\n", "model.yaml: expected an object, got list"),
        ("a: b: c\n", "model.yaml, line 1, column 5: malformed YAML"),
        ("a: \x00", "model.yaml: malformed YAML"),
        ("[" * 5000, "model.yaml: too many brackets"),
    ],
)
def test_malformed_yaml_programs_raise(tmp_path, text, message):
    pytest.importorskip("yaml")
    path = tmp_path / "model.yaml"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=message):
        read_psl(path)


def test_yaml_without_pyyaml_raises_with_the_install_command(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    path = tmp_path / "model.yaml"
    path.write_text("rules: []")
    with pytest.raises(MissingDependencyError, match=r"model.yaml: reading YAML needs PyYAML.*intarsia\[psl\]"):
        read_psl(path)


PSL_2 = """
predicates:
  Knows/2: closed
  Trusts:
    - open
    - types: [UniqueStringID, UniqueStringID]
    - block
observations:
  Knows: ../data/knows.txt
targets:
  TRUSTS: [../data/learn.txt, ../data/infer.txt]
truth:
  Trusts:
    - ../data/truth.txt
"""


def test_psl_2_programs(model):
    pytest.importorskip("yaml")
    folder = model.parent
    rules = folder / "trust.psl"
    rules.write_text("1: KNOWS(A, B) -> TRUSTS(A, B) ^2\n")
    (folder / "cli").mkdir()
    (folder / "cli" / "some.data").write_text(PSL_2)
    program = read_psl(rules, data=folder / "cli" / "some.data")
    assert (program.n_atoms("target"), program.n_atoms("observed"), program.n_atoms("truth")) == (3, 2, 1)
    assert [program.is_closed(p) for p in program.predicates] == [True, False]
    with pytest.raises(InvalidInputError, match=r"neither trust-eval.data nor trust.data is in their folder"):
        read_psl(rules)
    with pytest.raises(InvalidInputError, match=r"some.data is a data file without rules"):
        read_psl(folder / "cli" / "some.data")
    (folder / "trust.data").write_text(PSL_2.replace("../", ""))
    (folder / "trust-learn.data").write_text(PSL_2.replace("../", "").replace("data/learn.txt, ", ""))
    assert read_psl(rules).n_atoms("target") == 3
    assert read_psl(rules, phase="learn").n_atoms("target") == 2
    write_learned(rules, ["4: !Trusts(A, B)"], folder / "learned.json", folder / "cli" / "some.data")
    learned = read_psl(folder / "learned.json")
    assert (learned.rules[0].weight, learned.n_atoms("target")) == (4.0, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("closed", "shut"), "predicates, Knows/2: expected 'open' or 'closed', and optionally types, got 'shut'"),
        (("truth:", "labels:"), "'labels' is not known. Expected: predicates, observations, targets, truth"),
        (("TRUSTS", "Trust"), "targets: 'Trust' is not declared under 'predicates'"),
        (("    - open\n", ""), "Trusts: the declaration has neither 'open' nor 'closed'"),
        (("- block", "- implementation: edu.Jaccard"), "external function"),
        (("Knows: ../", "Knows: ../not/"), "Knows/2, observations: the data file .*knows.txt does not exist"),
        (("Trusts:\n    - open", "Trusts:\n    - closed"), "Trusts is closed, so it cannot have target atoms"),
    ],
)
def test_bad_data_files_of_psl_2(model, change, message):
    pytest.importorskip("yaml")
    rules = model.parent / "trust.psl"
    rules.write_text("1: KNOWS(A, B) -> TRUSTS(A, B) ^2\n")
    (model.parent / "data" / "trust.data").write_text(PSL_2.replace(*change))
    with pytest.raises(IntarsiaError, match=message):
        read_psl(rules, data=model.parent / "data" / "trust.data")


# ---------------------------------------------------------------- data files


def read(path, n_arguments=2):
    constants = ConstantTable()
    rows = read_atom_file(path, n_arguments, constants)
    return [tuple(constants.names[n] for n in row) for row in rows.arguments], rows.values.tolist()


def test_lines_with_and_without_a_value(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\ufeffa\tb\n \nc d\tä\t0.25\n\ne\tf\t 1")
    assert read(path) == ([("a", "b"), ("c d", "ä"), ("e", "f")], [1.0, 0.25, 1.0])


def test_lines_are_stripped_as_in_psl(tmp_path):
    """Only the ends of lines are stripped: spaces beside a tab, and quotes, belong to the constant."""
    path = tmp_path / "a.txt"
    path.write_bytes(b'  a\tb \r\n\t \n"c" \t d\t0.5\t\t\n\x00e\tf\x1f\rg\th')
    assert read(path) == ([("a", "b"), ('"c" ', " d"), ("e", "f"), ("g", "h")], [1.0, 0.5, 1.0, 1.0])


def test_spellings_of_an_integer_are_the_same_constant(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("07\t07\n+7\t7\t0.5\n-0\tx")
    constants = ConstantTable()
    rows = read_atom_file(path, 2, constants, ["UniqueIntID", "UniqueStringID"])
    assert [[constants.names[n] for n in row] for row in rows.arguments] == [["7", "07"], ["7", "7"], ["0", "x"]]
    with pytest.raises(
        FileFormatError, match=r"a.txt, line 3: 'x' is not an integer, but the argument is of type Integer"
    ):
        read_atom_file(path, 2, ConstantTable(), ["String", "Integer"])


def test_files_of_many_blocks_are_read_completely(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"name{i}\tother{i % 7}\t{i % 5 / 4}\n" for i in range(150_000)))
    arguments, values = read(path)
    assert path.stat().st_size > 2 * 2**20
    assert arguments[123_456] == ("name123456", "other4")
    assert len(arguments) == 150_000
    assert values[3] == 0.75


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\tb\nc\n", "a.txt, line 2: 1 fields; expected 2 arguments and optionally a value in"),
        (b"a\tb\t1\tx\n", "a.txt, line 1: 4 fields"),
        (b"a b\n", "a.txt, line 1: 1 fields"),
        (b"a\tb\t1\nc\td\t1.5\n", r"a.txt, line 2: the value 1.5 is outside \[0, 1\]"),
        (b"a\tb\n\nc\td\tmany\n", "a.txt, line 3: expected a value"),
        (b"a\tb\nc\t\xff\n", "a.txt, line 2: byte 0xff is not valid UTF-8"),
        (gzip.compress(b"a\tb\n" * 1000, mtime=0)[:-20], "a.txt: damaged gzip file"),
    ],
)
def test_errors_on_malformed_lines_name_the_line(tmp_path, content, message):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=message):
        read(path)


def test_a_very_long_line_raises_before_it_is_read(tmp_path):
    """Create a sparse file of two gigabytes of zeros without a line end; only its first blocks are read."""
    path = tmp_path / "a.txt"
    with open(path, "wb") as file:
        file.write(b"a\tb\n")
        file.truncate(2_000_000_000)
    with pytest.raises(FileFormatError, match=r"a.txt, line 2: the line has more than 1000000 bytes"):
        read(path)


def test_an_empty_file_has_no_atoms(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("")
    assert read(path) == ([], [])


@pytest.mark.parametrize(
    ("option", "advice"),
    [("inference.initialvalue", "does not depend on the start"), ("runtime.inference.output.groundrules", "explain")],
)
def test_options_that_change_the_output_of_psl_are_noted(tmp_path, option, advice):
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"rules": ["1: !P(X)"], "predicates": {"P/1": {}}, "options": {option: "RANDOM"}}))
    notes = [note for note in read_psl(path).notes if option in note]
    assert len(notes) == 1
    assert advice in notes[0]


@pytest.mark.parametrize("name", ["model.json", "model.yaml", "model.psl"])
def test_a_program_that_does_not_exist_raises_with_its_path(tmp_path, name):
    with pytest.raises(InvalidInputError, match=f"there is no file .*{name}. Check the path"):
        read_psl(tmp_path / name)


def test_yaml_aliases_that_multiply_raise(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 9)]
    path = tmp_path / "model.yaml"
    path.write_text("\n".join([*lines, "rules: *a8", "predicates: {P/1: {}}"]))
    with pytest.raises(TooLargeError, match="aliases"):
        read_psl(path)
    path.write_text("a: &a [*a]\nrules: *a\n")
    with pytest.raises(FileFormatError, match="recursive"):
        read_psl(path)
