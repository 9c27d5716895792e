"""Every command with `--json`: exit code, document (without times) and the files that it writes.

Left out because of their time: `tour` (its five systems are calls of other families) and `compile`.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sys

from tests.golden.cluster_calls import EDGES, customers
from tests.golden.file_calls import UAI
from tests.golden.golden import golden
from tests.golden.sequence_calls import ADDRESSES, NEW, NEW_Y, X, Y
from tests.golden.softlogic_calls import psl_files

from intarsia.cli import main
from intarsia.sequences import write_conll, write_labelled

# Words of the document that hold files, times or versions.
DROPPED = ("file", "atoms_file", "version")


def command(*arguments, stdin=""):
    """Return the exit code, the document and what stands on stderr."""
    out, err, before = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main([*map(str, arguments), "--json"])
    except SystemExit as stopped:
        code = stopped.code
    finally:
        sys.stdin = before
    text = out.getvalue()
    document = json.loads(text) if text.strip() else {}
    if isinstance(document, dict):
        document = {key: value for key, value in document.items() if key not in DROPPED}
    return {"code": code, "document": document, "err": err.getvalue()}


def rows(path):
    """Return the cells of a table without columns of times, numbers as floats."""
    with open(path, newline="", encoding="utf-8") as file:
        cells = list(csv.reader(file, delimiter="\t" if path.suffix == ".txt" else ","))
    keep = [k for k, name in enumerate(cells[0]) if "seconds" not in name]
    return [[number(row[k]) for k in keep] for row in cells]


def number(cell):
    try:
        return float(cell)
    except ValueError:
        return cell


INFER = {
    "mar": [], "pr": ["--task", "pr"], "map": ["--task", "map", "--n-best", 3],
    "gibbs": ["--method", "gibbs", "--seed", 1],
    "evidence": ["--evidence", "m.evid"],
    "settings": ["--method", "mean_field", "--max-iter", 3, "--set", "trace=true"],
    "compare": ["--compare", "mean_field,tree,tree_reweighted,gibbs", "--seed", 1], "output": ["--output", "m.sol"],
    "unknown": ["--method", "meanfield"], "bad_setting": ["--set", "dampng=1"], "missing": ["--evidence", "no.evid"],
    "samples": ["--method", "brute_force", "--n-samples", 3, "--seed", 1], "time_limit": ["--time-limit", 100],
}  # fmt: skip


@golden(each=INFER)
def infer(case, folder):
    (folder / "m.uai").write_text(UAI)
    (folder / "m.evid").write_text("1 0 1")
    arguments = [folder / a if str(a).startswith(("m.", "no.")) else a for a in INFER[case]]
    result = command("infer", folder / "m.uai", *arguments)
    return result | ({"written": (folder / "m.sol").read_text()[:12]} if case == "output" else {})


@golden()
def methods():
    return command("methods")


@golden(each=["diamond", "triangle", "graphs", "unknown"])
def diagnose(case, folder):
    (folder / "g.json").write_text(json.dumps([
        {"node_features": [[1, 0.5], [0, 1]], "edges": [[0, 1]], "labels": [0, 1]},
        {"node_features": [[1, 0]], "labels": [None]},
        {"node_features": [[0, 2], [1, 1]], "edges": [[1, 0]], "labels": [1, 0]},
    ]))  # fmt: skip
    data = {"graphs": folder / "g.json", "unknown": "diamon"}.get(case, case)
    return command("diagnose", data, "--n-passes", 3)


def tag_files(folder):
    for name, data, y in (("train", X, Y), ("test", NEW, NEW_Y)):
        words = [[features[0][2:] for features in x] for x in data]
        write_conll(folder / f"{name}.txt", zip(words, y, strict=True))
    return folder / "train.txt"


@golden(each=["train", "perceptron", "predict", "evaluate", "bad_file"])
def tag(case, folder):
    train, model = tag_files(folder), folder / "m.npz"
    options = (
        ["--learner", "averaged_perceptron", "--max-iter", 3]
        if case == "perceptron"
        else ["--max-iter", 20, "--l2", 0.3]
    )
    result = command("tag", "train", train, "--model", model, "--scheme", "bio", *options)
    if case == "predict":
        result = command("tag", "predict", folder / "test.txt", "--model", model, "--output", folder / "out.txt")
        result["written"] = (folder / "out.txt").read_text()
    if case in ("evaluate", "perceptron"):
        result = command("tag", "evaluate", folder / "test.txt", "--model", model)
    if case == "bad_file":
        (folder / "bad.txt").write_text("a b c\nd\n")
        result = command("tag", "train", folder / "bad.txt", "--model", model)
    return result


@golden(each=["train", "predict", "evaluate", "label"], reordered={"predict"})
def parse(case, folder):
    write_labelled(folder / "train.jsonl", ADDRESSES)
    (folder / "new.txt").write_text("7 Oak Rd, Rome\nOslo\n")
    model = folder / "m.npz"
    result = command("parse", "train", folder / "train.jsonl", "--model", model, "--l2", 0.1, "--rule", "once(city)")
    if case == "predict":
        result = command("parse", "predict", folder / "new.txt", "--model", model, "--output", folder / "out.csv")
        result["written"] = rows(folder / "out.csv")
    if case == "evaluate":
        result = command("parse", "evaluate", folder / "train.jsonl", "--model", model)
    if case == "label":
        arguments = ["parse", "label", folder / "new.txt", "--output", folder / "answers.jsonl", "--field", "number"]
        result = command(*arguments, "--model", model, stdin="\n\n")
    return result


def record_files(folder):
    columns, entity = customers()
    for name, part in (("train", slice(0, None)), ("test", slice(0, 14))):
        cells = {**{key: values[part] for key, values in columns.items()}, "person": [f"p{k}" for k in entity[part]]}
        with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(cells)
            writer.writerows(
                zip(*(["" if cell is None else cell for cell in values] for values in cells.values()), strict=True)
            )
    return folder / "train.csv"


@golden(each=["train", "unlabelled", "predict", "evaluate", "unknown_column"])
def cluster(case, folder):
    train, model = record_files(folder), folder / "m.npz"
    compared = ["--compare", "last_name=jaro_winkler", "--compare", "email=exact"]
    labels = [] if case == "unlabelled" else ["--entity", "person"]
    result = command("cluster", "train", train, "-m", model, *labels, *compared)
    test = folder / "test.csv"
    if case == "predict":
        result = command(
            "cluster", "predict", test, "-m", model, "-o", folder / "out.csv", "--pairs", folder / "pairs.csv"
        )
        result |= {"written": [row[-1] for row in rows(folder / "out.csv")], "pairs": rows(folder / "pairs.csv")[:8]}
    if case == "evaluate":
        result = command("cluster", "evaluate", test, "-m", model, "--entity", "person")
    if case == "unknown_column":
        result = command("cluster", "train", train, "-m", model, "--entity", "persn")
    return result


@golden(each=["as_given", "calibrated", "cannot_link", "bad_file"])
def cluster_resolve(case, folder):
    with open(folder / "pairs.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([list(EDGES), *zip(*EDGES.values(), strict=True)])
    (folder / "links.csv").write_text("id1,id2\na,b\n")
    options = {"calibrated": ["--calibrate", "auto"], "cannot_link": ["--cannot-link", folder / "links.csv"]}.get(
        case, []
    )
    path = folder / ("links.csv" if case == "bad_file" else "pairs.csv")
    result = command("cluster", "resolve", path, "-o", folder / "out.csv", *options, "--components", folder / "c.csv")
    return result | {name: rows(folder / f"{name}.csv") for name in ("out", "c") if (folder / f"{name}.csv").exists()}


@golden(each=["infer", "learn", "explain", "missing_file"])
def softlogic(case, folder):
    model = psl_files(folder)
    if case == "learn":
        result = command(
            "softlogic", "learn", model, "--output", folder / "learned.json", "--set", "optimizer__max_iter=4"
        )
        return (
            result | {"written": json.loads((folder / "learned.json").read_text()).get("rules", [])}
            if result["code"] == 0
            else result
        )
    if case == "explain":
        return command("softlogic", "explain", model, "Knows(ann, bob)", "--terms", 1, "--set", "tol=1e-8")
    if case == "missing_file":
        (folder / "likes.txt").unlink()
    result = command("softlogic", "infer", model, "--output", folder / "found", "--set", "tol=1e-8")
    path = folder / "found"
    files = sorted(path.iterdir()) if path.is_dir() else [path] * path.exists()
    return result | {"written": [row for file in files for row in rows(file.rename(file.with_suffix(".txt")))]}
