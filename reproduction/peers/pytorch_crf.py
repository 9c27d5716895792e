"""Run inference in chain models with pytorch-crf, in a separate environment, controlled by JSON lines.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P pytorch_crf.py`. Each line on stdin is a JSON request
with a key "do", each line on stdout is the JSON answer:

    {"do": "load", "file": F}       npz: nodes (n, k), ptr (where sequences start), transitions (k, k)
    {"do": "infer"}                 one timed call: log Z of all sequences, padded to the longest, and its gradient,
                                    which are marginals and expected transitions
    {"do": "marginals", "file": F}  write the marginals of the last call (n, k)
"""

import json
import sys
import time

import numpy as np
import torch
from torchcrf import CRF

torch.set_num_threads(1)


class Session:
    """Requests about one batch of sequences."""

    def load(self, file):
        with np.load(file) as data:
            nodes, ptr, table = data["nodes"], data["ptr"], data["transitions"]
        lengths = np.diff(ptr)
        longest, k = int(lengths.max()), nodes.shape[1]
        self.inside = np.arange(longest)[:, None] < lengths  # (T, sequences), the layout of pytorch-crf
        padded = np.zeros((lengths.size, longest, k))
        padded[self.inside.T] = nodes
        self.scores = torch.tensor(padded.transpose(1, 0, 2), dtype=torch.float32).contiguous().requires_grad_()
        self.mask = torch.tensor(self.inside)
        self.model = CRF(k)
        with torch.no_grad():
            self.model.start_transitions.zero_()
            self.model.end_transitions.zero_()
            self.model.transitions.copy_(torch.tensor(table, dtype=torch.float32))
        return {"version": f"torch {torch.__version__}"}

    def infer(self):
        self.scores.grad = self.model.transitions.grad = None
        start = time.perf_counter()
        self.model._compute_normalizer(self.scores, self.mask).sum().backward()
        return {"seconds": time.perf_counter() - start}

    def marginals(self, file):
        marginals_of_positions = self.scores.grad.numpy().transpose(1, 0, 2)[self.inside.T]
        np.savez(file, marginals=marginals_of_positions.astype(np.float64))
        return {}


def main():
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(session, request.pop("do"))(**request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
