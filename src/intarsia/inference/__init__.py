"""Inference: marginals, log Z and best labellings (MAP) of factor graphs, one module per algorithm."""

from intarsia._core.status import Status
from intarsia.inference.infer import infer
from intarsia.inference.method import InferenceMethod
from intarsia.inference.registry import method_class, method_names
from intarsia.inference.result import InferenceResult

__all__ = [
    "InferenceMethod", "InferenceResult", "Status", "infer", "method_class", "method_names",
]  # fmt: skip
