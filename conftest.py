"""Examples in docstrings that need PyTorch are collected only where it is installed."""

from importlib.util import find_spec

collect_ignore_glob = (
    []
    if find_spec("torch")
    else ["src/intarsia/torch/*.py", "reproduction/src/intarsia_reproduction/benchmarks/bench_torch.py"]
)
