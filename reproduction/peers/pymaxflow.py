"""Binary attractive models by PyMaxflow, run inside its own environment and driven line by line.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P pymaxflow.py`. Each line on stdin is a JSON request
with a key "do", each line on stdout the JSON answer:

    {"do": "load", "file": F}       npz with unary (n, 2), edges (m, 2) and coupling (m,): scores, the coupling being
                                    paid where the two labels agree
    {"do": "cut"}                   seconds of building the network, of the maximum flow alone, and of the processor for
                                    both
    {"do": "labels", "file": F}     writes an npz with the best labelling

A node on the source's side has label 0.
"""

import json
import sys
import time

import maxflow
import numpy as np


class Session:
    """One model."""

    def load(self, file):
        with np.load(file) as data:
            self.unary, self.edges, self.coupling = data["unary"], data["edges"], data["coupling"]
        return {"version": maxflow.__version__}

    def cut(self):
        processor, start = time.process_time(), time.perf_counter()
        n, m = len(self.unary), len(self.edges)
        graph = maxflow.GraphFloat(n, m)
        nodes = graph.add_nodes(n)
        cost = self.unary.max(axis=1, keepdims=True) - self.unary
        graph.add_grid_tedges(nodes, cost[:, 1], cost[:, 0])
        graph.add_edges(self.edges[:, 0], self.edges[:, 1], self.coupling, self.coupling)
        middle, at_middle = time.perf_counter(), time.process_time()
        graph.maxflow()
        end, at_end = time.perf_counter(), time.process_time()
        self.found = graph.get_grid_segments(nodes).astype(np.int64)
        return {
            "build_seconds": middle - start,
            "seconds": end - middle,
            "processor_seconds": at_end - at_middle,
            "processor_build_seconds": at_middle - processor,
        }

    def labels(self, file):
        np.savez(file, labels=self.found)
        return {}


def main():
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(getattr(session, request.pop("do"))(**request)), flush=True)


if __name__ == "__main__":
    main()
