"""Measure the coverage of conformal sets and the calibration of chain models on five data sets, into a JSON file.

For each data set one model is fitted. The sequences that it has not seen are the pool: 50 times it is divided at random
into calibration and test sequences, and coverage is measured on the test sequences for three values of alpha.

python reproduction/conformal_coverage.py docs/results/conformal_coverage.json
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from scipy.stats import betabinom

import intarsia
from intarsia import ChainCRF
from intarsia.metrics import ConformalLabels, check_exchangeability, conformal_quantile
from intarsia.sequences import ConformalParses
from intarsia_reproduction.datasets.location import data_folders
from intarsia_reproduction.datasets.tagged_text import load_conll2000, load_cora_ie, load_umass_citations

ALPHAS = (0.05, 0.1, 0.2)
N_SPLITS = 50
L2 = 0.1
MAX_LABELLINGS = 256
Data = tuple[list[list[str]], list[list[str]]]


def features(words: list[str]) -> list[list[str]]:
    """Return the words, affixes and shapes of a window of one word to each side."""
    rows = []
    for t in range(len(words)):
        row = ["bias", f"place={min(t, 4)}", f"rest={min(len(words) - t, 4)}"]
        for d in (-1, 0, 1):
            if 0 <= t + d < len(words):
                word = words[t + d]
                shape = "".join("9" if c.isdigit() else "A" if c.isupper() else "a" if c.islower() else c for c in word)
                row += [f"{d}w={word.lower()}", f"{d}s={shape[:6]}", f"{d}e={word[-3:].lower()}"]
        rows.append(row)
    return rows


def read_labelled_xml(path: Path) -> Data:
    """Return tokens and labels of the strings of a parserator file: one element per token."""
    words, labels = [], []
    with gzip.open(path, "rb") as stream:
        for string in ElementTree.parse(stream).getroot():
            pairs = [(str(token.text).strip(), token.tag) for token in string if token.text and token.text.strip()]
            if pairs:
                words.append([word for word, _ in pairs])
                labels.append([label for _, label in pairs])
    return words, labels


def load(name: str) -> tuple[Data, int]:
    """Return words and labels of a data set, and the number of training sequences."""
    if name == "citations":
        parts = load_umass_citations()
        sequences = [parts.train, parts.dev, parts.test]
        words = [row for part in sequences if part is not None for row in part.words]
        return (words, [row for part in sequences if part is not None for row in part.tags]), 1000
    if name == "Cora references":
        references = load_cora_ie()
        return (references.words, references.tags), 200
    if name == "CoNLL-2000":
        sentences = load_conll2000().train
        return (sentences.words[:3000], sentences.tags[:3000]), 1000
    file = {"usaddress": "labeled.xml.gz", "probablepeople": "person_labeled.xml.gz"}[name]
    (path,) = [folder / name / file for folder in data_folders() if (folder / name / file).is_file()][:1]
    data = read_labelled_xml(path)
    return data, len(data[0]) // 3


def band(n: int, m: int, alpha: float, n_splits: int) -> dict[str, Any]:
    """Return the expected coverage, the 99 % band of the mean over splits, and the 95 % band of one split.

    The number of covered test instances is beta-binomial, because the threshold is the k-th of n exchangeable scores.
    """
    k = int(np.ceil((n + 1) * (1 - alpha) - 1e-9))
    law = betabinom(m, k, n + 1 - k)
    error = 2.576 * float(law.std()) / m / np.sqrt(n_splits)
    low, high = law.interval(0.95)
    return {"expected": k / (n + 1), "mean": [k / (n + 1) - error, k / (n + 1) + error], "split": [low / m, high / m]}


def measure(name: str, n_splits: int = N_SPLITS, max_pool: int = 2000, seed: int = 0) -> dict[str, Any]:
    """Fit one model and return coverages over random splits of the sequences that it has not seen."""
    started = time.perf_counter()
    (words, labels), n_train = load(name)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(words))
    X, y = [features(words[i]) for i in order], [labels[i] for i in order]
    crf = ChainCRF(l2=L2).fit(X[:n_train], y[:n_train])
    X, y = X[n_train : n_train + max_pool], y[n_train : n_train + max_pool]
    marginals = crf.predict_marginals(X)
    pool = ConformalLabels(alpha=0.5, classes=crf.classes_)
    parses = ConformalParses(crf, alpha=0.5, max_labellings=MAX_LABELLINGS, random_state=np.random.default_rng(seed))
    best = ConformalParses(crf, alpha=0.5, max_labellings=MAX_LABELLINGS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = {
            "all labels of a sequence": pool.conformalize(marginals, y).scores_,
            "labelling": parses.conformalize(X, y).scores_,
            "labelling, never empty": best.conformalize(X, y).scores_,
        }
    n = len(X) // 2
    m = len(X) - n
    rows = []
    for alpha in ALPHAS:
        coverages: dict[str, list[float]] = {unit: [] for unit in (*scores, "labels by position")}
        for _ in range(n_splits):
            shuffled = rng.permutation(len(X))
            first, second = shuffled[:n], shuffled[n:]
            for unit, values in scores.items():
                threshold = conformal_quantile(values[first], alpha)
                coverages[unit].append(float(np.mean(values[second] <= threshold)))
            sets = ConformalLabels(alpha=alpha, guarantee="position", classes=crf.classes_)
            sets.conformalize([marginals[i] for i in first], [y[i] for i in first])
            coverages["labels by position"].append(
                sets.coverage([marginals[i] for i in second], [y[i] for i in second])
            )
        for unit, values_of_splits in coverages.items():
            values_array, limits = np.array(values_of_splits), band(n, m, alpha, n_splits)
            is_exact = unit in ("all labels of a sequence", "labelling")
            if not is_exact:  # only the lower side is guaranteed; the spread is that of the splits
                low = 1 - alpha - 2.576 * float(values_array.std()) / np.sqrt(n_splits)
                limits = {"expected": 1 - alpha, "mean": [low, 1.0], "split": [0.0, 1.0]}
            inside = (values_array >= limits["split"][0] - 1e-12) & (values_array <= limits["split"][1] + 1e-12)
            rows.append(
                {
                    "unit": unit,
                    "alpha": alpha,
                    "coverage": float(values_array.mean()),
                    "lowest": float(values_array.min()),
                    "highest": float(values_array.max()),
                    "band_of_mean": limits["mean"],
                    "mean_in_band": bool(limits["mean"][0] <= values_array.mean() <= limits["mean"][1]),
                    "splits_in_band": float(inside.mean()) if is_exact else None,
                }
            )
    # Sequences of another source: the same words in lower case, without punctuation at their ends.
    drifted = [
        features([word.lower().strip(".,;:()") or word for word in words[i]]) for i in order[n_train:][:max_pool]
    ]
    uncertain = [
        np.array([1.0 - row.max(axis=1).min() for row in m]) for m in (marginals, crf.predict_marginals(drifted))
    ]
    check = check_exchangeability(uncertain[0][:n], uncertain[1][n:])
    same = check_exchangeability(uncertain[0][:n], uncertain[0][n:])
    drifted_scores = ConformalLabels(crf, alpha=0.5).conformalize(drifted, y).scores_
    threshold = conformal_quantile(pool.scores_[:n], 0.1)
    errors = {}
    calibrated = [crf.reliability_curve(X[n:], y[n:], unit=unit).error for unit in ("tokens", "segments", "sequences")]
    crf.calibrate(X[:n], y[:n])
    for unit, before in zip(("tokens", "segments", "sequences"), calibrated, strict=True):
        errors[unit] = [before, crf.reliability_curve(X[n:], y[n:], unit=unit).error]
    return {
        "name": name,
        "n_train": n_train,
        "n_calibration": n,
        "n_test": m,
        "accuracy": float(np.mean(scores["labelling, never empty"] == 0.0)),
        "unlisted": float(np.mean(best.scores_ > 1.0)),
        "rows": rows,
        "drift": {
            "p_value": check.p_value,
            "p_value_without_drift": same.p_value,
            "coverage": float(np.mean(drifted_scores[n:] <= threshold)),
            "alpha": 0.1,
        },
        "temperature": crf.temperature_,
        "calibration_error": errors,
        "seconds": time.perf_counter() - started,
    }


NAMES = ("citations", "Cora references", "usaddress", "probablepeople", "CoNLL-2000")


def main(path: str) -> None:
    """Measure all data sets and write the file."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    settings = {"alphas": ALPHAS, "n_splits": N_SPLITS, "l2": L2, "max_labellings": MAX_LABELLINGS}
    document: dict[str, Any] = {
        "commit": commit,
        "settings": settings,
        "versions": {"intarsia": intarsia.__version__, "numpy": np.__version__},
        "data_sets": [],
    }
    for name in NAMES:
        document["data_sets"].append(measure(name))
        Path(path).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        sys.stderr.write(f"{name}: {document['data_sets'][-1]['seconds']:.0f} s\n")


if __name__ == "__main__":
    main(sys.argv[1])
