"""File formats: what is read from given text, and what is written for given values."""

from __future__ import annotations

import gzip

import numpy as np
from tests.golden.golden import golden
from tests.zoo import ZOO

import intarsia
from intarsia import graph as g
from intarsia import sequences as seq
from intarsia.clusters import resolve

UAI = "MARKOV\n3\n2 2 3\n3\n1 0\n2 0 1\n2 1 2\n\n2\n 0.436 0.564\n4\n 0.1 0.9 1e-400 0\n6\n 1 2 3 4 5 6\n"
BAYES = "BAYES\n2\n2 2\n2\n1 0\n2 0 1\n\n2\n 0.25 0.75\n4\n 0.5 0.5 0.125 0.875\n"
CONLL = "Confidence NN B-NP\nin IN B-PP\n\nthe DT B-NP\npound NN I-NP\n# NN O\n"
CRFSUITE = "B-NP\tw=the\tlength:3\nI-NP\tw=cat\\:\n\n@weight:2.5\tO\tw=.\n"
XML = "<all><x><number>12</number> <street>Main</street> <street>St</street></x><x><city>Rome</city></x></all>"


def put(path, text):
    if path.suffix == ".gz":
        with gzip.open(path, "wt") as file:
            file.write(text)
    else:
        path.write_text(text)
    return path


@golden(of=["plain", "gz", "bayes"])
def read_uai(case, folder):
    path = folder / ("m.uai.gz" if case == "gz" else "m.uai")
    graph, theta = intarsia.read_uai(put(path, BAYES if case == "bayes" else UAI))
    found = intarsia.infer(graph, theta)
    return {
        "theta": theta,
        "scopes": graph.scope_idx,
        "states": graph.n_states,
        "log_z": found.log_partition,
        "mu": found.mu,
    }


@golden(of=["chain", "three_way_factor", "hard_zeros", "potts", "evidence"])
def write_uai(case, folder):
    """The text up to its numbers, and the model that is read back."""
    graph, theta = ZOO["chain" if case == "evidence" else case]()
    theta = np.round(theta, 3)
    intarsia.write_uai(folder / "m.uai", graph, theta, **({"evidence": {0: 1}} if case == "evidence" else {}))
    back, read = intarsia.read_uai(folder / "m.uai")
    return {"head": (folder / "m.uai").read_text().splitlines()[:3], "theta": read, "scopes": back.scope_idx}


@golden()
def uai_evidence(folder):
    g.write_uai_evidence(folder / "m.evid", {3: 1, 0: 2})
    one, two = put(folder / "a.evid", "2 0 1 5 0"), put(folder / "b.evid", "1\n2 0 1 5 0\n")
    found = {name: sorted(g.read_uai_evidence(path).items()) for name, path in (("one", one), ("two", two))}
    return {"written": (folder / "m.evid").read_text(), **found}


@golden(of=["pr", "mar", "map"])
def uai_solution(task, folder):
    values = {"pr": 2.5, "mar": [[0.25, 0.75], [0.125, 0.5, 0.375]], "map": [1, 0, 2]}[task]
    g.write_uai_solution(folder / "m.sol", values, task)
    found = g.read_uai_solution(folder / "m.sol", task)
    return {
        "written": (folder / "m.sol").read_text(),
        "read": found if task == "pr" else [np.asarray(row) for row in found],
    }


@golden(of=["plain", "gz", "comment", "separator"])
def conll(case, folder):
    text = CONLL if case != "separator" else CONLL.replace(" ", "\t")
    path = put(folder / ("c.txt.gz" if case == "gz" else "c.txt"), text)
    options = {"comment": {"comment": "#"}, "separator": {"separator": "\t"}}.get(case, {})
    rows = [list(map(list, row)) for row in seq.read_conll(path, **options)]
    n = seq.write_conll(folder / "out.txt", rows, separator="\t")
    return {"rows": rows, "n": n, "written": (folder / "out.txt").read_text()}


@golden()
def crfsuite(folder):
    found = list(seq.read_crfsuite(put(folder / "c.txt", CRFSUITE)))
    n = seq.write_crfsuite(
        folder / "o.txt", [item.features for item in found], [item.labels for item in found], [1.0, 2.5]
    )
    rows = [[item.labels, item.features, item.weight] for item in found]
    return {"rows": rows, "n": n, "written": (folder / "o.txt").read_text()}


@golden()
def crfsuite_model(folder):
    """The binary model of CRFsuite: its size and first bytes."""
    from tests.golden.sequence_calls import X, Y, quick

    seq.write_crfsuite_model(folder / "m.crfsuite", quick(ends=False).fit(X, Y))
    data = (folder / "m.crfsuite").read_bytes()
    return {"size": len(data), "head": data[:48].hex()}


@golden(of=["xml", "jsonl", "json", "csv", "conll"])
def labelled_strings(case, folder):
    text = {
        "xml": XML, "jsonl": '{"text": "12 Main St", "spans": [[0, 2, "number"]]}\n',
        "csv": "number,street\n12,Main St\n",
        "json": '[{"text": "12 Main", "label": [{"start": 0, "end": 2, "labels": ["number"]}]}]',
        "conll": "12 number\nMain street\nSt street\n\nRome city\n",
    }[case]  # fmt: skip
    found = seq.read_labelled(put(folder / f"x.{'txt' if case == 'conll' else case}", text))
    return {"found": [[item.text, [list(span) for span in item.spans]] for item in found]}


@golden(of=["jsonl", "parserator", "conll"])
def write_labelled(case, folder):
    labelled = [seq.LabelledText("12 Main St, É", [(0, 2, "number"), (3, 10, "street")]), seq.LabelledText("Rome", [])]
    try:
        n = seq.write_labelled(folder / "out.txt", labelled, case)
    except ValueError as error:
        return {"error": str(error)}
    return {"n": n, "written": (folder / "out.txt").read_text(encoding="utf-8")}


EDGES = {"id1": ["a", "a", "b", "c"], "id2": ["b", "c", "c", "d"], "match_weight": [3.0, 2.0, 4.0, -1.0]}


@golden(of=["dict", "pandas", "polars", "arrow", "duckdb", "csv", "parquet"])
def tables(kind, folder):
    """Tables of every kind go in, and the same kind comes out."""
    import duckdb
    import pandas as pd
    import polars as pl

    pd_edges = pd.DataFrame(EDGES)
    with duckdb.connect() as connection:
        relation = connection.from_df(pd_edges)
        edges = {
            "dict": lambda: EDGES, "pandas": lambda: pd_edges,
            "polars": lambda: pl.DataFrame(EDGES), "arrow": lambda: pl.DataFrame(EDGES).to_arrow(),
            "duckdb": lambda: relation, "csv": lambda: folder / "e.csv", "parquet": lambda: folder / "e.parquet",
        }[kind]()  # fmt: skip
        pd_edges.to_csv(folder / "e.csv", index=False)
        relation.write_parquet(str(folder / "e.parquet"))
        found = resolve(edges, calibrate=None)
        table = found.table.df() if kind == "duckdb" else found.table
        columns = (
            table
            if isinstance(table, dict)
            else {name: list(map(str, np.asarray(table[name]))) for name in ("id", "entity")}
        )
        return {"type": type(found.table).__name__, "table": columns, "score": found.score}
