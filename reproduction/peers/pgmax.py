"""Belief propagation by PGMax, run inside its own environment and driven line by line.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P pgmax.py`. Each line on stdin is a JSON request with a
key "do", each line on stdout the JSON answer:

    {"do": "load", "file": F}                  npz with unary (n, k), edges (m, 2), pair (m, k, k), perhaps labels (n,)
    {"do": "run", "n_iter": N, "damping": D}   one timed run from uniform messages; compiled before, compile time apart
    {"do": "infer", "n_iter": N}               the same with the variables' beliefs and marginals after it
    {"do": "residuals", "n_iter": N, ...}      largest change of a log message in each of N iterations
    {"do": "marginals", "file": F}             write the variable marginals (n, k) of the last run
    {"do": "differentiate", "n_iter": N}       one timed gradient of -sum of log marginals of the labels, by JAX
    {"do": "gradient", "file": F}              write the last one: unary, then pair, flat
    {"do": "memory"}                           largest memory of this process since "forget" or its start, in bytes
    {"do": "forget"}                           measure that anew: memory now, null where the system cannot (not Linux)

`seconds` is taken after compilation, with the arrays on the device. Marginals of factors and log Z are in neither
of the two. Where that favours somebody, it is PGMax.
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

# PGMax 0.6.1 reads jax.lib.xla_bridge, which current JAX no longer has; it asks it only for the backend's name.
if not hasattr(jax.lib, "xla_bridge"):
    jax.lib.xla_bridge = types.SimpleNamespace(get_backend=jax.extend.backend.get_backend)

from pgmax import fgraph, fgroup, infer, vgroup


class Session:
    """One model and what was compiled for it."""

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
        # Plain arrays: BPArrays flattens to another tree when it comes back, which a compiled function refuses.
        self.arrays = jax.block_until_ready(
            tuple(jax.device_put(a) for a in (arrays.log_potentials, arrays.ftov_msgs, arrays.evidence))
        )
        self.compiled = {}
        self.last = self.slopes = None
        return {"seconds": time.perf_counter() - start, "version": f"jax {jax.__version__}"}

    def compile(self, function, n_iter, damping, marginals=False):
        """Compile once per setting; the iteration count and the damping are constants, as PGMax wants them."""
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
        self.last = jax.block_until_ready(run(*self.arrays))
        return {"seconds": time.perf_counter() - start, "compile_seconds": compile_seconds}

    def infer(self, n_iter, damping=0.0):
        run, compile_seconds = self.compile("run", n_iter, damping, marginals=True)
        start = time.perf_counter()
        jax.block_until_ready(run(*self.arrays))
        return {"seconds": time.perf_counter() - start, "compile_seconds": compile_seconds}

    def residuals(self, n_iter, damping=0.0):
        run, _ = self.compile("run_with_diffs", n_iter, damping)
        self.last, residuals = jax.block_until_ready(run(*self.arrays))
        return {"residuals": np.asarray(residuals, dtype=float).tolist()}

    def marginals(self, file):
        log_potentials, _, evidence = self.arrays
        arrays = infer.BPArrays(log_potentials=log_potentials, ftov_msgs=self.last, evidence=evidence)
        marginals = infer.get_marginals(self.inferer.get_beliefs(arrays))[self.variables]
        np.savez(file, marginals=np.asarray(marginals, dtype=np.float64))
        return {"dtype": str(self.last.dtype)}

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
        """As `forget_peak` of intarsia_reproduction.benchmarks.measurement, which this environment does not have."""
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
    """Largest memory of this process; on Linux getrusage would tell that of the one which started it, if larger."""
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
