"""Run belief propagation with PGMax, in a separate environment, controlled by JSON lines.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P pgmax.py`. Each line on stdin is a JSON request with a
key "do", each line on stdout is the JSON answer:

    {"do": "load", "file": F}                  npz with unary (n, k), edges (m, 2), pair (m, k, k), optional labels (n,)
    {"do": "run", "n_iter": N, "damping": D}   one timed run from uniform messages, after compilation
    {"do": "infer", "n_iter": N}               a timed run that also computes beliefs and variable marginals
    {"do": "residuals", "n_iter": N, ...}      largest change of a log message in each of N iterations
    {"do": "marginals", "file": F}             write the variable marginals (n, k) of the last run
    {"do": "differentiate", "n_iter": N}       one timed gradient of -sum of log marginals of the labels, by JAX
    {"do": "gradient", "file": F}              write the last gradient: unary, then pair, flat
    {"do": "memory"}                           peak memory of this process since "forget" or its start, in bytes
    {"do": "forget"}                           reset the peak; returns current memory, null except on Linux

`seconds` is measured after compilation, with the arrays on the device. Neither request computes marginals of factors or
log Z, which favours PGMax.
"""

import ctypes
import gc
import json
import resource
import sys
import time
import types

import jax
import jax.extend.backend
import jax.lib
import jax.numpy as jnp
import numpy as np

# PGMax 0.6.1 needs jax.lib.xla_bridge, which current JAX no longer has, only for the name of the backend.
if not hasattr(jax.lib, "xla_bridge"):
    jax.lib.xla_bridge = types.SimpleNamespace(get_backend=jax.extend.backend.get_backend)

from pgmax import fgraph, fgroup, infer, vgroup


class Session:
    """Requests about one model, with its compiled functions."""

    def load(self, file):
        with np.load(file) as data:
            unary, edges, pair = data["unary"], data["edges"], data["pair"]
            self.labels = data.get("labels")
        start = time.perf_counter()
        n, k = unary.shape
        self.variables = vgroup.NDVarArray(num_states=k, shape=(n,))
        graph = fgraph.FactorGraph(variable_groups=self.variables)
        graph.add_factors(
            fgroup.PairwiseFactorGroup(
                variables_for_factors=[[self.variables[i], self.variables[j]] for i, j in edges.tolist()],
                log_potential_matrix=pair,
            )
        )
        self.inferer = infer.build_inferer(graph.bp_state, backend="bp")
        arrays = self.inferer.init(evidence_updates={self.variables: unary})
        # Plain arrays, because the tree structure of BPArrays changes on return, which a compiled function rejects.
        self.arrays = jax.block_until_ready(
            tuple(jax.device_put(a) for a in (arrays.log_potentials, arrays.ftov_msgs, arrays.evidence))
        )
        self.compiled = {}
        self.last_messages = self.slopes = None
        return {"seconds": time.perf_counter() - start, "version": f"jax {jax.__version__}"}

    def compile(self, function, n_iter, damping, marginals=False):
        """Compile once per setting; the number of iterations and the damping are constants, as PGMax requires."""
        key = (function, n_iter, damping, marginals)
        if key not in self.compiled:
            run = getattr(self.inferer, function)
            start = time.perf_counter()

            def messages(log_potentials, ftov_msgs, evidence):
                arrays = infer.BPArrays(log_potentials=log_potentials, ftov_msgs=ftov_msgs, evidence=evidence)
                if function == "run_with_diffs":
                    out, residuals = run(arrays, num_iters=n_iter, damping=damping, temperature=1.0)
                    return out.ftov_msgs, residuals
                out = run(arrays, num_iters=n_iter, damping=damping, temperature=1.0)
                if not marginals:
                    return out.ftov_msgs
                return out.ftov_msgs, infer.get_marginals(self.inferer.get_beliefs(out))[self.variables]

            self.compiled[key] = jax.jit(messages).lower(*self.arrays).compile(), time.perf_counter() - start
        return self.compiled[key]

    def run(self, n_iter, damping=0.0):
        run, compile_seconds = self.compile("run", n_iter, damping)
        start = time.perf_counter()
        self.last_messages = jax.block_until_ready(run(*self.arrays))
        return {"seconds": time.perf_counter() - start, "compile_seconds": compile_seconds}

    def infer(self, n_iter, damping=0.0):
        run, compile_seconds = self.compile("run", n_iter, damping, marginals=True)
        start = time.perf_counter()
        jax.block_until_ready(run(*self.arrays))
        return {"seconds": time.perf_counter() - start, "compile_seconds": compile_seconds}

    def residuals(self, n_iter, damping=0.0):
        run, _ = self.compile("run_with_diffs", n_iter, damping)
        self.last_messages, residuals = jax.block_until_ready(run(*self.arrays))
        return {"residuals": np.asarray(residuals, dtype=float).tolist()}

    def marginals(self, file):
        log_potentials, _, evidence = self.arrays
        arrays = infer.BPArrays(log_potentials=log_potentials, ftov_msgs=self.last_messages, evidence=evidence)
        marginals = infer.get_marginals(self.inferer.get_beliefs(arrays))[self.variables]
        np.savez(file, marginals=np.asarray(marginals, dtype=np.float64))
        return {"dtype": str(self.last_messages.dtype)}

    def differentiate(self, n_iter):
        key = ("differentiate", n_iter)
        if key not in self.compiled:

            def loss(log_potentials, evidence, ftov_msgs):
                arrays = infer.BPArrays(log_potentials=log_potentials, ftov_msgs=ftov_msgs, evidence=evidence)
                out = self.inferer.run(arrays, num_iters=n_iter, damping=0.0, temperature=1.0)
                marginals = infer.get_marginals(self.inferer.get_beliefs(out))[self.variables]
                return -jnp.log(marginals[np.arange(len(self.labels)), self.labels]).sum()

            log_potentials, ftov_msgs, evidence = self.arrays
            start = time.perf_counter()
            function = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))
            function = function.lower(log_potentials, evidence, ftov_msgs).compile()
            self.compiled[key] = function, time.perf_counter() - start
        run, compile_seconds = self.compiled[key]
        log_potentials, ftov_msgs, evidence = self.arrays
        start = time.perf_counter()
        value, self.slopes = jax.block_until_ready(run(log_potentials, evidence, ftov_msgs))
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "compile_seconds": compile_seconds, "value": float(value)}

    def gradient(self, file):
        pair, unary = (np.asarray(slope, dtype=np.float64).reshape(-1) for slope in self.slopes)
        np.savez(file, gradient=np.concatenate([unary, pair]))
        return {"dtype": str(self.slopes[0].dtype)}

    def forget(self):
        """Reset the peak memory, as `forget_peak` of intarsia_reproduction does, which is not installed here."""
        gc.collect()
        try:
            ctypes.CDLL(None).malloc_trim(0)
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
            with open("/proc/self/status") as file:
                return {"bytes": next(1024 * int(line.split()[1]) for line in file if line.startswith("VmRSS"))}
        except (OSError, AttributeError):
            return {"bytes": None}

    def memory(self):
        return {"bytes": peak_bytes()}


def peak_bytes():
    """Return the peak memory of this process; on Linux, getrusage would include that of the parent process."""
    if sys.platform == "linux":
        with open("/proc/self/status") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main():
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(session, request.pop("do"))(**request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
