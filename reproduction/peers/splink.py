"""Score pairs of records with Splink 5 and cluster them, in a separate environment, controlled by JSON lines.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P splink.py`. Each line on stdin is a JSON request with
a key "do", each line on stdout is the JSON answer:

    {"do": "load", "file": F}                  npz with the name of a model below as "model" and columns of strings; an
                                               empty string is a missing value. Trains the model without labels, scores
                                               the candidate pairs and returns processor seconds
    {"do": "pairs", "file": F}                 write an npz with the rows of each scored pair
    {"do": "match_weight", "file": F}          write an npz with the match weight of each scored pair
    {"do": "components", "threshold": T}       Splink's connected components at a match probability
    {"do": "single_best_links", "threshold": T}  Splink's single best links; tables are duplicate-free
    {"do": "labels", "file": F}                write an npz with the cluster of each record

Candidate pairs are those of the blocking rules with a match weight of at least -20, so that evidence against a match
is part of the scores.
"""

import contextlib
import json
import logging
import sys
import time
from importlib.metadata import version

import numpy as np
import pandas as pd
import splink.comparison_level_library as cll
import splink.comparison_library as cl
from splink import DuckDBAPI, Linker, SettingsCreator, block_on

SMALLEST_WEIGHT = -20


def persons():
    comparisons = [
        cl.JaroWinklerAtThresholds("given_name", [0.9, 0.8]),
        cl.JaroWinklerAtThresholds("surname", [0.9, 0.8]),
        cl.LevenshteinAtThresholds("date_of_birth", [1, 2]),
        cl.LevenshteinAtThresholds("soc_sec_id", [1, 2]),
        cl.ExactMatch("street_number"),
        cl.JaroWinklerAtThresholds("address_1", [0.9, 0.8]),
        cl.ExactMatch("postcode"),
    ]
    rules = [("given_name",), ("surname",), ("date_of_birth",), ("soc_sec_id",), ("postcode", "street_number")]
    return comparisons, rules, [("soc_sec_id",), ("given_name", "surname")]


def citations():
    comparisons = [
        cl.JaroWinklerAtThresholds("title", [0.95, 0.88, 0.8, 0.7]),
        cl.JaroWinklerAtThresholds("authors", [0.95, 0.88, 0.75]),
        cl.ExactMatch("year"),
        cl.JaroWinklerAtThresholds("venue", [0.9, 0.75]),
        cl.JaroWinklerAtThresholds("pages", [0.9]),
    ]
    rules = [("title_start",), ("first_author",), ("year", "title_end"), ("pages",)]
    return comparisons, rules, [("first_author",), ("title_start",)]


def historical():
    comparisons = [
        cl.NameComparison("first_name"),
        cl.NameComparison("surname"),
        cl.DateOfBirthComparison("dob", input_is_string=True),
        cl.PostcodeComparison("postcode_fake"),
        cl.ExactMatch("birth_place").configure(term_frequency_adjustments=True),
        cl.ExactMatch("occupation").configure(term_frequency_adjustments=True),
    ]
    rules = [
        ("substr(first_name,1,3)", "substr(surname,1,4)"),
        ("surname", "dob"),
        ("first_name", "dob"),
        ("postcode_fake", "first_name"),
        ("postcode_fake", "surname"),
        ("dob", "birth_place"),
        ("substr(postcode_fake,1,3)", "dob"),
        ("substr(postcode_fake,1,3)", "first_name"),
    ]
    return comparisons, rules, [("first_name", "surname"), ("dob",)]


def sites():
    comparisons = [
        cl.JaroWinklerAtThresholds("name", [0.95, 0.88, 0.75]),
        cl.JaroWinklerAtThresholds("address", [0.95, 0.88, 0.8]),
        cl.ExactMatch("phone"),
        cl.ExactMatch("zip"),
    ]
    rules = [("address_start",), ("phone",), ("name_start",), ("house", "zip")]
    return comparisons, rules, [("address_start",), ("phone",)]


def fake():
    comparisons = [
        cl.NameComparison("first_name"),
        cl.NameComparison("surname"),
        cl.DateOfBirthComparison("dob", input_is_string=True),
        cl.ExactMatch("city").configure(term_frequency_adjustments=True),
        cl.EmailComparison("email"),
    ]
    rules = [("first_name",), ("surname",), ("dob",), ("email",), ("city", "substr(surname,1,1)")]
    return comparisons, rules, [("first_name", "surname"), ("dob",)]


def customers():
    comparisons = [
        cl.NameComparison("first_name"),
        cl.NameComparison("last_name"),
        cl.JaroWinklerAtThresholds("street", [0.9, 0.8]),
        cl.ExactMatch("city"),
        cl.LevenshteinAtThresholds("birth_date", [1, 2]),
        cl.JaroWinklerAtThresholds("email", [0.95, 0.88]),
    ]
    rules = [("last_name",), ("birth_date",), ("email",), ("first_name", "city")]
    return comparisons, rules, [("last_name",), ("birth_date",)]


def products():
    comparisons = [
        cl.JaroWinklerAtThresholds("title", [0.95, 0.9, 0.8, 0.7]),
        cl.LevenshteinAtThresholds("code", [1, 2]),
        cl.ExactMatch("brand").configure(term_frequency_adjustments=True),
        cl.CustomComparison(
            output_column_name="price",
            comparison_levels=[
                cll.NullLevel("price"),
                cll.PercentageDifferenceLevel("price", 0.02),
                cll.PercentageDifferenceLevel("price", 0.1),
                cll.ElseLevel(),
            ],
        ),
    ]
    return comparisons, [("brand",), ("code",), ("kind", "colour")], [("brand", "kind"), ("code",)]


MODELS = {model.__name__: model for model in (persons, citations, historical, sites, fake, customers, products)}


class Session:
    """Requests about one set of records."""

    def load(self, file):
        start = time.process_time()
        with np.load(file) as data:
            model = str(data["model"])
            columns = {name: data[name] for name in data.files if name != "model"}
        comparisons, rules, training_rules = MODELS[model]()
        frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
        frame = frame.where(frame != "", None)
        if model == "products":
            frame["price"] = frame["price"].astype(float)
        self.n_records = len(frame)
        frame["unique_id"] = np.arange(self.n_records)
        database = DuckDBAPI()
        if "source_dataset" in frame:
            self.sources = sorted(frame["source_dataset"].unique())
            parts = [frame[frame["source_dataset"] == source] for source in self.sources]
            tables = [
                database.register(part.drop(columns="source_dataset"), dataset_display_name=source)
                for source, part in zip(self.sources, parts, strict=True)
            ]
        else:
            self.sources, tables = [], database.register(frame)
        settings = SettingsCreator(
            link_type="link_only" if self.sources else "dedupe_only",
            comparisons=comparisons,
            blocking_rules_to_generate_predictions=[block_on(*rule) for rule in rules],
        )
        self.linker = Linker(tables, settings)
        training = self.linker.training
        training.estimate_probability_two_random_records_match([block_on(*rule) for rule in rules[:2]], recall=0.8)
        training.estimate_u_using_random_sampling(max_pairs=5e6 if self.n_records > 10_000 else 2e6, seed=1)
        for rule in training_rules:
            training.estimate_parameters_using_expectation_maximisation(block_on(*rule))
        self.predictions = self.linker.inference.predict(threshold_match_weight=SMALLEST_WEIGHT)
        self.table = self.predictions.as_duckdbpyrelation().fetchnumpy()
        return {"version": version("splink"), "processor_seconds": time.process_time() - start}

    def pairs(self, file):
        ends = np.column_stack([np.asarray(self.table[f"unique_id_{side}"], dtype=np.int64) for side in "lr"])
        np.savez(file, pairs=np.sort(ends, axis=1))
        return {}

    def match_weight(self, file):
        np.savez(file, match_weight=np.asarray(self.table["match_weight"], dtype=np.float64))
        return {}

    def components(self, threshold):
        start = time.process_time()
        self.clusters = self.linker.clustering.cluster_pairwise_predictions_at_threshold(
            self.predictions, threshold_match_probability=threshold
        )
        return {"processor_seconds": time.process_time() - start}

    def single_best_links(self, threshold):
        start = time.process_time()
        self.clusters = self.linker.clustering.cluster_using_single_best_links(
            self.predictions, duplicate_free_datasets=self.sources, threshold_match_probability=threshold
        )
        return {"processor_seconds": time.process_time() - start}

    def labels(self, file):
        table = self.clusters.as_duckdbpyrelation().fetchnumpy()
        labels = np.empty(self.n_records, dtype=np.int64)
        names = np.unique(np.asarray(table["cluster_id"]).astype(str), return_inverse=True)[1]
        labels[np.asarray(table["unique_id"], dtype=np.int64)] = names
        np.savez(file, labels=labels)
        return {}


def main():
    logging.disable(logging.WARNING)
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        with contextlib.redirect_stdout(sys.stderr):
            answer = getattr(session, request.pop("do"))(**request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
