"""Solve hinge-loss problems with cvxpylayers, in a separate environment, controlled by JSON lines.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P cvxpylayers.py`. Each line on stdin is a JSON request
with a key "do", each line on stdout is the JSON answer:

    {"do": "load", "file": F}       npz: free (m, n), observed (m, k), const (m,): linear functions inside the hinges;
                                    power (m,), group (m,); values (batch, k), weights (groups,), direction (batch, n);
                                    for equalities and inequalities the same three arrays with prefix eq_ and in_
    {"do": "infer"}                 one timed call: minima of all examples, and the gradient of <direction, x>
    {"do": "x", "file": F}          write the minima of the last call
    {"do": "gradient", "file": F}   write the gradient in the observed values of the last call
"""

import json
import sys
import time

import cvxpy as cp
import numpy as np
import torch
from cvxpylayers.torch import CvxpyLayer

torch.set_num_threads(1)


class Session:
    """Requests about one batch of problems."""

    def load(self, file):
        with np.load(file) as data:
            arrays = {key: data[key] for key in data.files}
        m, n = arrays["free"].shape
        x, slack = cp.Variable(n), cp.Variable(m)
        v = cp.Parameter(arrays["observed"].shape[1])
        weight = cp.Parameter(m, nonneg=True)
        squared = arrays["power"] == 2
        objective = weight[~squared] @ slack[~squared] if (~squared).any() else 0.0
        if squared.any():
            objective = objective + cp.sum(cp.multiply(weight[squared], cp.square(slack[squared])))
        constraints = [slack >= arrays["free"] @ x + arrays["observed"] @ v + arrays["const"], slack >= 0]
        constraints += [x >= 0, x <= 1]
        if len(arrays["eq_const"]):
            constraints.append(arrays["eq_free"] @ x + arrays["eq_observed"] @ v + arrays["eq_const"] == 0)
        if len(arrays["in_const"]):
            constraints.append(arrays["in_free"] @ x + arrays["in_observed"] @ v + arrays["in_const"] <= 0)
        self.layer = CvxpyLayer(cp.Problem(cp.Minimize(objective), constraints), [v, weight], [x])
        self.values = torch.tensor(arrays["values"], requires_grad=True)
        self.weights = torch.tensor(arrays["weights"], requires_grad=True)
        self.group, self.direction = torch.tensor(arrays["group"]).long(), torch.tensor(arrays["direction"])
        return {"version": f"torch {torch.__version__}"}

    def infer(self):
        self.values.grad = self.weights.grad = None
        start = time.perf_counter()
        per_term = self.weights[self.group].expand(len(self.values), -1)
        (self.minimum,) = self.layer(self.values, per_term)
        (self.minimum * self.direction).sum().backward()
        return {"seconds": time.perf_counter() - start}

    def x(self, file):
        np.savez(file, x=self.minimum.detach().numpy())
        return {}

    def gradient(self, file):
        np.savez(file, gradient=self.values.grad.numpy())
        return {}


def main():
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(session, request.pop("do"))(**request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
