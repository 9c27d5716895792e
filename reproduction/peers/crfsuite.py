"""Train and apply chain models with CRFsuite, in a separate environment, controlled by JSON lines.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P crfsuite.py`. Each line on stdin is a JSON request
with a key "do", each line on stdout is the JSON answer:

    {"do": "load", "file": F}       npz: row_ptr, columns (features of positions, all of value 1), ptr (where sequences
                                    start), labels (n,), every_pair (whether features have weights for all labels)
    {"do": "train", "c2": C, "max_iterations": N, "epsilon": E, "c1": L, "delta": D}
                                    L-BFGS (OWL-QN if L > 0) from 0, until N iterations or |gradient| <= E max(1,
                                    |weights|) or, if D > 0, a relative decrease below D in 10 iterations; returns for
                                    each iteration the loss, seconds since feature generation and evaluations, and
                                    the processor seconds of the call
    {"do": "weights", "file": F}    write rows (feature, label, weight) of the last model
    {"do": "transitions", "file": F}  write its table (n_labels, n_labels)
    {"do": "tag", "file": F}        npz: row_ptr, columns, ptr of other sequences; the last model labels them
    {"do": "tags", "file": F}       write these labels (n,)
    {"do": "chain", "file": F}      npz: unary (T, k); create a model with these scores and a trained transition table
    {"do": "infer", "all": B}       one timed call for the chain: all marginals, which CRFsuite returns one by one, or a
                                    single one, for which it computes all messages
    {"do": "marginals", "file": F}  write all marginals (T, k)
    {"do": "open", "model": M, "file": F}  read a model file, and sequences of lists of strings from a JSON file
    {"do": "tag_each", "labels": B}  tag these sequences one at a time, timed; return the labels if B
"""

import importlib.metadata
import itertools
import json
import os
import random
import sys
import tempfile
import time

import numpy as np
import pycrfsuite

VERSION = f"python-crfsuite {importlib.metadata.version('python-crfsuite')}"


class Trainer(pycrfsuite.Trainer):
    """Trainer that records the wall-clock time at the end of each iteration; CRFsuite reports processor time only."""

    def message(self, message):
        n = len(self.logparser.iterations)
        super().message(message)
        if self.logparser.featgen_seconds is not None and not self.stamps:
            self.stamps.append(time.perf_counter())  # feature generation has ended, training starts
        # CRFsuite prints the heading of an iteration, and its results, after it has ended.
        if len(self.logparser.iterations) > n:
            self.stamps.append(time.perf_counter())


class Session:
    """Requests about one data set and the last model trained on it."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.model = os.path.join(self.folder.name, "model")
        self.model_info = None

    def load(self, file):
        with np.load(file) as data:
            rows, columns, ptr, labels = (data[name].tolist() for name in ("row_ptr", "columns", "ptr", "labels"))
            self.every_pair = bool(data["every_pair"])
        self.n_labels = max(labels) + 1
        start = time.perf_counter()
        self.trainer = Trainer(algorithm="lbfgs", verbose=False)
        for a, b in itertools.pairwise(ptr):
            items = [[str(c) for c in columns[rows[t] : rows[t + 1]]] for t in range(a, b)]
            self.trainer.append(items, [str(y) for y in labels[a:b]])
        return {"seconds": time.perf_counter() - start, "version": VERSION}

    def train(self, c2, max_iterations, epsilon, c1=0.0, delta=0.0):
        self.trainer.set_params(
            {
                "c1": c1,
                "c2": c2,
                "max_iterations": max_iterations,
                "epsilon": epsilon,
                "delta": delta,
                "feature.possible_states": self.every_pair,
                "feature.possible_transitions": True,
            }
        )
        self.model_info, self.trainer.stamps = None, []
        start = time.process_time()
        self.trainer.train(self.model)
        processor_seconds = time.process_time() - start
        steps, stamps = self.trainer.logparser.iterations, self.trainer.stamps
        return {
            "losses": [step["loss"] for step in steps],
            "seconds": [stamp - stamps[0] for stamp in stamps[1:]],
            "evaluations": [step["linesearch_trials"] for step in steps],
            "processor_seconds": processor_seconds,
        }

    def info(self):
        if self.model_info is None:
            tagger = pycrfsuite.Tagger()
            tagger.open(self.model)
            self.model_info = tagger.info()
        return self.model_info

    def weights(self, file):
        states = self.info().state_features
        np.savez(file, weights=np.array([(int(f), int(y), w) for (f, y), w in states.items()]))
        return {}

    def transitions(self, file):
        table = np.zeros((self.n_labels, self.n_labels))
        for (x, y), w in self.info().transitions.items():
            table[int(x), int(y)] = w
        np.savez(file, transitions=table)
        return {}

    def tag(self, file):
        with np.load(file) as data:
            rows, columns, ptr = (data[name].tolist() for name in ("row_ptr", "columns", "ptr"))
        tagger = pycrfsuite.Tagger()
        tagger.open(self.model)
        self.tagged = []
        for a, b in itertools.pairwise(ptr):
            self.tagged += tagger.tag([[str(c) for c in columns[rows[t] : rows[t + 1]]] for t in range(a, b)])
        return {}

    def tags(self, file):
        np.savez(file, tags=np.array([int(y) for y in self.tagged]))
        return {}

    def chain(self, file):
        """Create a model in which feature y has a weight for label y only, so that its value can give any score."""
        with np.load(file) as data:
            unary = data["unary"]
        k = self.n_labels = unary.shape[1]
        rng = random.Random(0)
        trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
        trainer.set_params({"c2": 1.0, "max_iterations": 20, "feature.possible_transitions": True})
        for _ in range(200):
            labels = [str(rng.randrange(k)) for _ in range(20)]
            trainer.append([[y] for y in labels], labels)
        trainer.train(self.model)
        self.model_info = None
        weights = self.info().state_features
        scale = [weights[str(y), str(y)] for y in range(k)]
        rows = [{str(y): float(row[y]) / scale[y] for y in range(k)} for row in unary]
        self.items = pycrfsuite.ItemSequence(rows)
        self.tagger = pycrfsuite.Tagger()
        self.tagger.open(self.model)
        self.length = len(rows)
        return {"version": VERSION}

    def infer(self, all):
        names = [str(y) for y in range(self.n_labels)] if all else ["0"]
        marginal, positions = self.tagger.marginal, range(self.length if all else 1)
        start = time.perf_counter()
        self.tagger.set(self.items)
        self.last_marginals = [[marginal(y, t) for y in names] for t in positions]
        return {"seconds": time.perf_counter() - start}

    def marginals(self, file):
        self.infer(True)
        np.savez(file, marginals=np.array(self.last_marginals))
        return {}

    def open(self, model, file):
        with open(file, encoding="utf-8") as sequences:
            self.sequences = json.load(sequences)
        self.tagger = pycrfsuite.Tagger()
        self.tagger.open(model)
        return {"version": VERSION}

    def tag_each(self, labels=False):
        tag = self.tagger.tag
        start = time.perf_counter()
        tagged = [tag(x) for x in self.sequences]
        return {"seconds": time.perf_counter() - start, "labels": tagged if labels else None}


def main():
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(session, request.pop("do"))(**request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
