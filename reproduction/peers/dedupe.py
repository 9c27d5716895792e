"""Cluster scored pairs with dedupe, in a separate environment, controlled by JSON lines.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P dedupe.py`. Each line on stdin is a JSON request with
a key "do", each line on stdout is the JSON answer:

    {"do": "load", "file": F}             npz with n_records, pairs (m, 2), the smaller record first, and probability
    {"do": "cluster", "threshold": T}     complete clustering; returns processor seconds and peak memory
    {"do": "labels", "file": F}           write an npz with the cluster of each record; others are alone

`Dedupe.cluster` calls `dedupe.clustering.cluster`: connected components, then hierarchical clustering with centroid
linkage in each; pairs without a score have the largest distance.
"""

import json
import resource
import sys
import time
from importlib.metadata import version

import numpy as np
from dedupe.clustering import cluster


def peak_bytes():
    """Return the peak memory of this process; on Linux, getrusage would include that of the parent process."""
    if sys.platform == "linux":
        with open("/proc/self/status") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class Session:
    """Requests about one set of edges."""

    def load(self, file):
        with np.load(file) as data:
            self.n_records = int(data["n_records"])
            self.edges = np.empty(len(data["pairs"]), dtype=[("pairs", "i8", 2), ("score", "f4")])
            self.edges["pairs"], self.edges["score"] = data["pairs"], data["probability"]
        return {"version": version("dedupe")}

    def cluster(self, threshold):
        start = time.process_time()
        self.clusters = list(cluster(self.edges, threshold))
        seconds = time.process_time() - start
        return {"processor_seconds": seconds, "peak_bytes": peak_bytes()}

    def labels(self, file):
        labels = np.arange(self.n_records)
        for members, _ in self.clusters:
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
