"""Solve binary attractive models with PyMaxflow, in a separate environment, controlled by JSON lines.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P pymaxflow.py`. Each line on stdin is a JSON request
with a key "do", each line on stdout is the JSON answer:

    {"do": "load", "file": F}       npz with unary (n, 2), edges (m, 2) and coupling (m,): scores; the coupling is added
                                    where the two labels are equal
    {"do": "cut"}                   returns wall-clock and processor seconds of building the network and of the maximum
                                    flow
    {"do": "labels", "file": F}     write an npz with the best labelling

A node on the source's side has label 0.
"""

import json
import sys
import time

import maxflow
import numpy as np


class Session:
    """Requests about one model."""

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
        self.segments = graph.get_grid_segments(nodes).astype(np.int64)
        return {
            "build_seconds": middle - start,
            "seconds": end - middle,
            "processor_seconds": at_end - at_middle,
            "processor_build_seconds": at_middle - processor,
        }

    def labels(self, file):
        np.savez(file, labels=self.segments)
        return {}


def main():
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(getattr(session, request.pop("do"))(**request)), flush=True)


if __name__ == "__main__":
    main()
