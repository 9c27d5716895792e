"""List of all functions that read a text file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.fuzz.valid_files import (
    CONLL,
    CORA,
    CRFSUITE,
    CSV,
    FEBRL,
    GRAPHS,
    JSON_PIECES,
    LENIENT_PSL,
    LITBANK,
    NUMBERS,
    PSL,
    PSL_2,
    PSL_YAML,
    RULE_PIECES,
    RULES,
    TABLE,
    UAI,
    YAML_PIECES,
)

from intarsia.cli.cluster_files import read_table_file
from intarsia.cli.diagnose import load_examples
from intarsia.cli.running import parse_settings
from intarsia.cli.tag_files import read_tag_file
from intarsia.graph.uai import read_uai
from intarsia.graph.uai_evidence import read_uai_evidence
from intarsia.graph.uai_solution import read_uai_solution
from intarsia.sequences import read_conll, read_crfsuite
from intarsia.softlogic import read_psl, read_rule, read_rules
from intarsia.softlogic.files.atoms import read_atom_file
from intarsia.softlogic.grounding.tables import ConstantTable
from intarsia.softlogic.language.rules import read_ground_atom
from intarsia_reproduction.datasets import (
    load_conll2000,
    load_cora_citations,
    load_cora_ie,
    load_epinions,
    load_febrl,
    load_linked_documents,
    load_litbank,
    load_simple_acquaintances,
    load_umass_citations,
)


def text_of(path: Path) -> str:
    """Decode a file; bytes that are not UTF-8 become surrogates, as strings of other programs may contain."""
    return path.read_bytes().decode("utf-8", "surrogateescape")


class Reader(NamedTuple):
    """Reader function, name of its file, valid files, and words of the format."""

    read: Callable[[Path], Any]
    name: str
    valid: list[bytes]
    pieces: Sequence[bytes] = ()


def _psl_2(path):
    path.with_suffix(".psl").write_text("1: Likes(A, X) -> Knows(A, X)")
    return read_psl(path.with_suffix(".psl"), data=path)


def _list(read):
    return lambda path: list(read(path))


READERS = {
    "uai": Reader(read_uai, "m.uai", [UAI, UAI.replace(b"MARKOV", b"BAYES"), b"MARKOV 1 2 0"], NUMBERS),
    "uai evidence": Reader(read_uai_evidence, "m.evid", [b"2 0 1 5 0", b"1\n2 0 1 5 0\n", b""], NUMBERS),
    "uai pr": Reader(
        read_uai_solution, "m.PR", [b"PR\n-2.5\n", b"MAP\n3 0 1 2\n", b"MAR\n2 2 0.25 0.75 2 1 0"], NUMBERS
    ),
    "conll": Reader(_list(read_conll), "a.txt", [CONLL]),
    "conll by tabs": Reader(
        lambda path: list(read_conll(path, separator="\t", comment="#")), "a.txt", [CONLL.replace(b" ", b"\t")]
    ),
    "crfsuite": Reader(_list(read_crfsuite), "a.crfsuite", [CRFSUITE], [b"@weight:", b"O\t", b":", b"\\", b"\n"]),
    "tagged": Reader(lambda path: read_tag_file(path, "auto", None), "a.txt", [CONLL, CRFSUITE]),
    "rule": Reader(lambda path: read_rule(text_of(path)), "rule", RULES.splitlines(), RULE_PIECES),
    "rules": Reader(lambda path: read_rules(text_of(path)), "rules", [RULES], RULE_PIECES),
    "ground atom": Reader(
        lambda path: read_ground_atom(text_of(path)), "atom", [b"Knows(0, 'Ann \\'B.')"], RULE_PIECES
    ),
    "psl": Reader(read_psl, "model.json", [PSL, LENIENT_PSL], JSON_PIECES),
    "psl in yaml": Reader(read_psl, "model.yaml", [PSL_YAML], YAML_PIECES),
    "psl 2": Reader(_psl_2, "model.data", [PSL_2], YAML_PIECES),
    "atoms": Reader(
        lambda path: read_atom_file(path, 2, ConstantTable()),
        "likes.txt",
        [b"ann\tbob\t0.5\nbob\tann\n\neve\tann\t1\n", b"1\t2\n2\t1\n", b"1\t2\t0\n2\t1\t1\n"],
    ),
    "csv": Reader(read_table_file, "a.csv", [CSV]),
    "tsv": Reader(read_table_file, "a.tsv", [CSV.replace(b",", b"\t")]),
    "graphs": Reader(lambda path: load_examples(str(path)), "graphs.json", [GRAPHS], [*JSON_PIECES, b'"labels"']),
    "settings": Reader(
        lambda path: parse_settings(text_of(path).split("\n")),
        "settings",
        [b"schedule=parallel\ntol=1e-3", b"a={'b': [1, (2,)]}"],
    ),
}

# Path of the file of a data set in the data folder, and the files next to it.
LOADERS = {
    "litbank": Reader(load_litbank, "litbank/litbank_coref.jsonl.gz", [LITBANK]),
    "epinions": Reader(load_epinions, "psl_uai13/epinions/trusts.txt.gz", [TABLE]),
    "cora words": Reader(load_linked_documents, "psl_uai13/cora/cora.words.gz", [b"1\t1:1 2:1\n2\t2:1\n"]),
    "cora ids": Reader(load_linked_documents, "psl_uai13/cora/cora.ids", [b"a\t1\nb\t2\n"]),
    "cora labels": Reader(load_linked_documents, "psl_uai13/cora/cora.labels", [b"1\t1\n2\t2\n"]),
    "cora links": Reader(load_linked_documents, "psl_uai13/cora/cora.links.gz", [b"1\t2\n2\t1\n"]),
    "acquaintances": Reader(
        load_simple_acquaintances,
        "simple_acquaintances/model.json",
        [
            b'{"rules": ["1: Knows(A, B)"], "predicates": {"Knows/2": {"observations": ["d/knows_obs.txt"], '
            b'"targets": ["knows_targets.txt"]}}}'
        ],
        JSON_PIECES,
    ),
    "acquaintances atoms": Reader(
        load_simple_acquaintances, "simple_acquaintances/knows_obs.txt", [b"ann\tbob\t0.5\n"]
    ),
    "cora citations": Reader(load_cora_citations, "er_cora/cora_1295.csv.gz", [CORA]),
    "febrl": Reader(load_febrl, "febrl/dataset1.csv.gz", [FEBRL]),
    "conll2000": Reader(load_conll2000, "conll2000/train.txt.gz", [CONLL]),
    "umass": Reader(load_umass_citations, "umass_citation/dev.tsv.gz", [b"A.\tB-a\ta/b\n\nB.\tB-b\tc\n"]),
    "cora ie": Reader(load_cora_ie, "cora_ie/cora_ie.tsv.gz", [b"A.\tB-author\nB\tI-author\n"]),
}
