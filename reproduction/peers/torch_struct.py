"""Run inference in chain models with torch-struct, in a separate environment, controlled by JSON lines.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P torch_struct.py`. Each line on stdin is a JSON request
with a key "do", each line on stdout is the JSON answer:

    {"do": "load", "file": F}       npz: nodes (batch, time, k), transitions (k, k)
    {"do": "infer"}                 one timed call: log Z of all sequences, and its gradient
    {"do": "square"}                one timed call: sum of squares of all marginals of pairs, and its gradient
    {"do": "nodes", "file": F}      write the gradient of the last call in the scores of labels
"""

import json
import sys
import time

import numpy as np
import torch
from torch_struct import LinearChainCRF

torch.set_num_threads(1)


class Session:
    """Requests about one batch of sequences."""

    def load(self, file):
        with np.load(file) as data:
            self.scores = torch.tensor(data["nodes"]).requires_grad_()
            self.transitions = torch.tensor(data["transitions"]).requires_grad_()
        return {"version": f"torch {torch.__version__}"}

    def potentials(self):
        """Scores of steps; axes are the label after a step and the label before it."""
        steps = self.scores[:, 1:, :, None] + self.transitions.T
        first = self.scores[:, :1, None, :]
        return torch.cat([steps[:, :1] + first, steps[:, 1:]], dim=1)

    def infer(self):
        self.scores.grad = self.transitions.grad = None
        start = time.perf_counter()
        LinearChainCRF(self.potentials()).partition.sum().backward()
        return {"seconds": time.perf_counter() - start}

    def square(self):
        self.scores.grad = self.transitions.grad = None
        start = time.perf_counter()
        (LinearChainCRF(self.potentials()).marginals ** 2).sum().backward()
        return {"seconds": time.perf_counter() - start}

    def nodes(self, file):
        np.savez(file, nodes=self.scores.grad.numpy())
        return {}


def main():
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(session, request.pop("do"))(**request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
