"""Scored pairs into clusters by dedupe, run inside its own environment and driven line by line.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P dedupe.py`. Each line on stdin is a JSON request with
a key "do", each line on stdout the JSON answer:

    {"do": "load", "file": F}             npz with n_records, pairs (m, 2), the smaller record first, and probability
    {"do": "cluster", "threshold": T}     its whole clustering: seconds of the processor, and the largest memory so far
    {"do": "labels", "file": F}           writes an npz with the cluster of each record; those in none are alone

`dedupe.clustering.cluster` is what `Dedupe.cluster` calls: connected components, then hierarchical clustering by
centroids in each, pairs without a score being at the largest distance.
"""

import json
import resource
import sys
import time
from importlib.metadata import version

import numpy as np
from dedupe.clustering import cluster


def peak_bytes():
    """Largest memory of this process; on Linux getrusage would tell that of the one which started it, if larger."""
    if sys.platform == "linux":
        with open("/proc/self/status") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class Session:
    """One set of edges."""

    def load(self, file):
        with np.load(file) as data:
            self.n_records = int(data["n_records"])
            self.edges = np.empty(len(data["pairs"]), dtype=[("pairs", "i8", 2), ("score", "f4")])
            self.edges["pairs"], self.edges["score"] = data["pairs"], data["probability"]
        return {"version": version("dedupe")}

    def cluster(self, threshold):
        start = time.process_time()
        self.found = list(cluster(self.edges, threshold))
        seconds = time.process_time() - start
        return {"processor_seconds": seconds, "peak_bytes": peak_bytes()}

    def labels(self, file):
        labels = np.arange(self.n_records)
        for members, _ in self.found:
            labels[list(members)] = min(members)
        np.savez(file, labels=labels)
        return {}


def main():
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(getattr(session, request.pop("do"))(**request)), flush=True)


if __name__ == "__main__":
    main()
