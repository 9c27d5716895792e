"""Complete programs run by PSL and by this library: compare values, scores and errors.

Skipped where PSL's environment is not set up (`reproduction/setup_peers.py psl`, Java).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from intarsia.exceptions import IntarsiaError
from intarsia.softlogic import ConsensusADMM, Evaluation, SoftLogic, ground, read_psl
from intarsia.softlogic.evaluation import evaluate
from intarsia_reproduction.benchmarks.peers import Peer, checkout

pytestmark = pytest.mark.slow
PYTHON = checkout() / ".venv-peers" / "psl" / "bin" / "python"
PRECISE = '"admmreasoner.epsilonabs": 1e-9, "admmreasoner.epsilonrel": 1e-9, "random.seed": 4'


@pytest.fixture(scope="module")
def psl():
    if not PYTHON.exists():
        pytest.skip("needs PSL in an environment of its own: reproduction/setup_peers.py psl")
    with Peer("psl", PYTHON, Path(__file__).parents[1] / "oracles" / "psl_peer.py") as peer:
        yield peer


def values(answer):
    assert "failed" not in answer, answer
    return {(a["predicate"], *a["arguments"]): a["value"] for a in answer["atoms"] if not a["observed"]}


def our_values(program):
    found = SoftLogic(program, inference=ConsensusADMM(tol=1e-8)).infer()
    atoms = found.grounding.atoms
    return {
        (name.upper(), *arguments): value
        for name in found.predicates
        for *arguments, value in zip(*atoms.columns(name), found.x[atoms.variables(name)].tolist(), strict=True)
    }, found


def assert_same(psl, path, **settings):
    theirs = values(psl.ask("run", program=str(path)))
    ours, found = our_values(read_psl(path, **settings))
    assert ours.keys() == theirs.keys()
    for atom, value in theirs.items():
        assert ours[atom] == pytest.approx(value, abs=2e-3), atom
    return found


# ---------------------------------------------------------------- file formats of programs


LENIENT = """{
    # comments of YAML, // of Java, /* of C */
    'options': {OPTIONS, "inference.relax": false},
    "rules": [
        '2: Likes(A, \\'chess\\') & Likes(B, "chess") & (A != B) -> Knows(A, B) ^2', // a comment
        "1: !Knows(A, B) ^2",
    ],
    "predicates": {
        "Likes": {"arity": +02, "observations": ["likes.txt", ['dan', "chess", 00.5],]},
        'Knows': {"types": ["UniqueStringID", 'UniqueStringID'], "targets": ["pairs.txt"]}, /* both end in commas */
    },
}"""

YAML = """
options: {admmreasoner.epsilonabs: 1e-9, admmreasoner.epsilonrel: 1e-9}
rules:
  - "2: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2"   # rules need quotes
  - '1: !Knows(A, B) ^2'
predicates:
  Likes/2:
    observations: [likes.txt, [dan, chess, 0.5]]
  Knows:
    arity: 2
    targets:
      infer:
        - pairs.txt
      validation: [[x, y]]
      learn: []
"""

BY_FILE = """{
    "options": {OPTIONS},
    "rules": "model.psl",
    "predicates": {
        "Likes/2": {"observations": ["likes.txt", ["dan", "chess", 0.5]]},
        "Knows/2": {"targets": {"infer": ["pairs.txt"], "validation": []}}
    },
    "infer": {"rules": ["0.5: Likes(A, X) & Likes(B, X) -> Knows(A, B)"]}
}"""

RULES = """
// the rules of a file, over several lines
2: Likes(A, X) & Likes(B, X) & (A != B)
   -> Knows(A, B) ^2      # with a comment
1: !Knows(A, B) ^2
"""

RELAXED = """{
    "options": {OPTIONS, "inference.relax": true, "inference.relax.multiplier": MULTIPLIER,
                "inference.relax.squared": SQUARED},
    "rules": ["2: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2", "1: !Knows(A, B) ^2",
              "Knows(A, +B) <= 0.7 .", "Knows(A, B) = Knows(B, A) ."],
    "predicates": {"Likes/2": {"observations": ["likes.txt"]}, "Knows/2": {"targets": ["pairs.txt"]}}
}"""


LIGHT = RELAXED.replace('"2:', '"0.2:').replace('"1:', '"0.1:')

INT_IDS = """{
    "options": {OPTIONS, "runtime.db.intids": true},
    "rules": ["1: P(A, B) -> Q(A, B) ^2", "1: !Q(A, B) ^2"],
    "predicates": {"P/2": {"observations": [["01", "+2", 0.5]]}, "Q/2": {"targets": [["1", "002"], [3, 4]]}}
}"""

TEXTS = """{
    "options": {OPTIONS},
    "rules": ["1: P(A, B) -> Q(A, B) ^2", "1: !Q(A, B) ^2"],
    "predicates": {"P/2": {"observations": [["01", 1.0]]}, "Q/2": {"targets": [["01", "1.0"], [true, 4]]}}
}"""

FROM_FILE = """{
    "options": {OPTIONS},
    "rules": "model.psl",
    "predicates": {"Likes/2": {"observations": ["likes.txt"]}, "Knows/2": {"targets": ["pairs.txt"]}}
}"""


@pytest.fixture
def folder(tmp_path):
    people = ["ann", "bob", "cy", "dan"]
    # Spaces at the ends of lines, empty lines, an extra tab, Windows line ends.
    (tmp_path / "likes.txt").write_bytes(b"  ann\tchess\t1.0 \n\r\nbob\tchess\t0.9\t\n\t\ncy\tchess\t 0.25\r\n")
    (tmp_path / "pairs.txt").write_text("".join(f"{a}\t{b}\n" for a in people for b in people))
    (tmp_path / "model.psl").write_text(RULES)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("model.json", LENIENT),
        ("model.yaml", YAML),
        ("file.json", BY_FILE),
        ("relaxed.json", RELAXED.replace("MULTIPLIER", "3").replace("SQUARED", "true")),
        ("relaxed.json", RELAXED.replace("MULTIPLIER", "0.3").replace("SQUARED", "true")),
        ("relaxed.json", RELAXED.replace("MULTIPLIER", "0.3").replace("SQUARED", '"false"')),
        ("relaxed.json", LIGHT.replace("MULTIPLIER", "3").replace("SQUARED", "true")),
        ("relaxed.json", LIGHT.replace("MULTIPLIER", "3").replace("SQUARED", 'true, "inference.normalize": false')),
        ("intids.json", INT_IDS),
        ("texts.json", TEXTS),
    ],
)
def test_optimum_equals_that_of_psl(psl, folder, name, text):
    if name.endswith("yaml"):
        pytest.importorskip("yaml")
    (folder / name).write_text(text.replace("OPTIONS", PRECISE))
    assert len(assert_same(psl, folder / name).x) >= 2


def test_psl_2_and_psl_3_formats_give_the_same_rules(psl, folder):
    pytest.importorskip("yaml")
    (folder / "three.json").write_text(FROM_FILE.replace("OPTIONS", PRECISE))
    (folder / "model-eval.data").write_text(
        "predicates:\n  Likes/2: closed\n  Knows/2: open\nobservations:\n  Likes: likes.txt\n"
        "targets:\n  Knows:\n    - pairs.txt\n"
    )
    theirs = values(psl.ask("run", program=str(folder / "three.json")))
    ours, _ = our_values(read_psl(folder / "model.psl"))
    assert ours == pytest.approx(theirs, abs=2e-3)


@pytest.mark.parametrize(
    "predicates",
    [
        '"Q/1": {"arity": 2, "targets": [["a"]]}',
        '"Q/1": {"types": ["UniqueStringID", "UniqueStringID"], "targets": [["a"]]}',
        '"Q": {"targets": [["a"]]}',
        '"Q/1": {"types": ["Text"], "targets": [["a"]]}',
        '"Q/1": {"type": "Predicat", "targets": [["a"]]}',
        '"Q/1": {"type": "DeepPredicate", "targets": [["a"]]}',
        '"Q/1": {"function": "org.nobody.Similarity"}',
        '"Q/1": {"targets": ["nowhere.txt"]}',
        '"Q/1": {"targets": [["a", "b", "c"]]}',
        '"Q/1": {"targets": {"train": [["a"]]}}',
        '"Q/1": {"targets": [["a"]], "observations": [["a", 0.5]]}',
        'Q: {"targets": [["a"]]}',
        '"Q/1": {"targets": [["a"],,]}',
    ],
)
def test_programs_that_psl_rejects_raise(psl, tmp_path, predicates):
    path = tmp_path / "model.json"
    model = '{"rules": ["1: !Q(A)"], "predicates": {PREDICATES}}'
    path.write_text(model.replace("PREDICATES", '"Q/1": {"targets": [["a"]]}'))
    assert_same(psl, path)  # without the faulty predicate the program is valid
    path.write_text(model.replace("PREDICATES", predicates))
    assert "failed" in psl.ask("run", program=str(path))
    with pytest.raises(IntarsiaError):
        ground(read_psl(path))


# ---------------------------------------------------------------- evaluators


OPTIONS = [
    {},
    {"eval.includeobs": True},
    {"eval.closetruth": True},
    {"eval.includeobs": "true", "eval.closetruth": "true"},
    {"discreteevaluator.threshold": 0.3, "aucevaluator.threshold": 0.3},
]
NAMES = {
    "Accuracy": "accuracy", "Categorical Accuracy": "accuracy", "F1": "f1", "Positive Class Precision": "precision",
    "Positive Class Recall": "recall", "Negative Class Precision": "precision_negative", "MAE": "mae", "MSE": "mse",
    "Negative Class Recall": "recall_negative", "RMSE": "rmse", "AUROC": "auroc", "Positive Class AUPRC": "auprc",
}  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("indexes", [None, "0", "1:2", "-1:0"])
def test_evaluators_agree_on_random_data(psl, tmp_path, seed, indexes):
    """All target values differ; some targets have no truth, some true atoms are no targets, some are observed."""
    rng = np.random.default_rng(seed)
    atoms = [(a, b, c) for a in "abcd" for b in "xyz" for c in "pqr"]
    roles = rng.choice(["target", "observed", "nothing"], size=len(atoms), p=[0.7, 0.2, 0.1])
    of_role = {
        role: [atom for atom, r in zip(atoms, roles, strict=True) if r == role] for role in ("target", "observed")
    }
    truth = [[*atom, float(t)] for atom, t in zip(atoms, rng.choice([0.0, 0.2, 1.0, 1.0], len(atoms)), strict=True)]
    chosen = [
        {**options, **({"categoricalevaluator.categoryindexes": indexes} if indexes else {})} for options in OPTIONS
    ]
    document = {
        "options": json.loads(f"{{{PRECISE}}}"),
        "rules": ["1: Prior(A, B, C) = Is(A, B, C) ^2"],
        "predicates": {
            "Prior/3": {"observations": [[*atom, float(rng.random())] for atom in atoms]},
            "Is/3": {
                "observations": [[*atom, float(rng.random())] for atom in of_role["observed"]],
                "targets": [list(atom) for atom in of_role["target"]],
                "truth": [row for row, has in zip(truth, rng.random(len(atoms)) < 0.8, strict=True) if has],
                "evaluations": [
                    {"evaluator": name, "options": options}
                    for name in ("CategoricalEvaluator", "DiscreteEvaluator", "ContinuousEvaluator", "AUCEvaluator")
                    for options in chosen
                ],
            },
        },
    }  # fmt: skip
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    answer = psl.ask("run", program=str(path))
    theirs = values(answer)
    program = read_psl(path)
    table = ground(program).atoms
    x = np.array([theirs["IS", *arguments] for arguments in zip(*table.columns("Is"), strict=True)])
    for line, evaluation in zip(answer["evaluations"], program.evaluations, strict=True):
        name = evaluation.evaluator
        assert f"Evaluator: {name}," in line
        scores = evaluate([Evaluation("Is", name, evaluation.options)], table, x)["Is"][name]
        labels = re.findall(r"([A-Z][A-Za-z1 ]*): ([\d.]+)", line.partition("Results -- ")[2])
        assert len(labels) == {"CategoricalEvaluator": 1, "DiscreteEvaluator": 6}.get(name, 3)
        for label, number in labels:
            if label != "Negative Class AUPRC":  # PSL ranks it in the opposite order; see docs/coming_from/psl.md
                assert scores[NAMES[label]] == pytest.approx(float(number), abs=2e-6), (label, evaluation)


def test_categorical_evaluator_on_the_example_of_psl(psl, tmp_path):
    """The truth lists only true atoms, and every target is a candidate for the best category."""
    path = tmp_path / "model.json"
    rows = [["a", "x", 0.9], ["a", "y", 0.1], ["b", "x", 0.3], ["b", "y", 0.8]]
    document = {
        "rules": ["1: Prior(A, B) = Is(A, B) ^2"],
        "predicates": {
            "Prior/2": {"observations": rows},
            "Is/2": {
                "targets": [row[:2] for row in rows],
                "truth": [["a", "x", 1], ["b", "x", 1]],
                "evaluations": ["CategoricalEvaluator"],
            },
        },
    }
    path.write_text(json.dumps(document))
    assert "Categorical Accuracy: 0.500000" in psl.ask("run", program=str(path))["evaluations"][0]
    _, found = our_values(read_psl(path))
    assert found.evaluate()["Is"]["CategoricalEvaluator"] == {"accuracy": 0.5, "n": 2}
