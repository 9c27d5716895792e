"""From options to a run: settings, and which answers a task asks for."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intarsia.exceptions import InvalidInputError, NotSupportedError

if TYPE_CHECKING:
    from intarsia._core.validation import FloatArray
    from intarsia.graph import FactorGraph
    from intarsia.inference.method import InferenceMethod
    from intarsia.inference.result import InferenceResult

TASKS = ("pr", "mar", "map")


@dataclass
class Request:
    """A model and what is wanted of it."""

    graph: FactorGraph
    theta: FloatArray
    task: str
    evidence: dict[int | str, int] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    n_samples: int = 0
    n_best: int = 0
    time_limit: float | None = None
    seed: int | None = None
    verbose: bool = False

    @property
    def inference_task(self) -> str:
        """The task in the words of `intarsia.infer`."""
        return "map" if self.task == "map" else "marginals"


def load_request(file: Path, evidence: Path | None, task: str, **more: Any) -> Request:
    """Read the model and its evidence, after the options have been checked that no method checks."""
    from intarsia._core.validation import check_choice, check_number
    from intarsia.graph.uai import read_uai
    from intarsia.graph.uai_evidence import read_uai_evidence

    if more.get("seed") is not None:
        check_number(more["seed"], "--seed", low=0, integer=True)
    if more.get("time_limit") is not None:
        check_number(more["time_limit"], "--time-limit", low=0, open_low=True)
    task = check_choice(task.lower(), TASKS, "--task")
    graph, theta = read_uai(file)
    known: dict[int, int] = read_uai_evidence(evidence) if evidence is not None else {}
    for variable, state in known.items():
        if variable >= graph.n_variables or state >= graph.n_states[variable]:
            limit = (
                f"there are {graph.n_variables} variables"
                if variable >= graph.n_variables
                else f"it has {graph.n_states[variable]} states"
            )
            raise InvalidInputError(
                f"{evidence.name if evidence else 'evidence'}: variable {variable} is given state {state}, but {limit} "
                f"(counted from 0)."
            )
    return Request(graph, theta, task, dict(known.items()), **more)


def run(request: Request, method: str, settings: dict[str, Any] | None = None) -> InferenceResult:
    """Run one method by name, or the one that "auto" chooses."""
    from intarsia.inference import infer, method_class, method_names

    def refuse_without_log_partition(kind: type[InferenceMethod]) -> None:
        if request.task == "pr" and kind.log_partition_is is None:
            able = [name for name in method_names() if method_class(name).log_partition_is is not None]
            raise NotSupportedError(f"{kind.__name__} gives no log Z. These do: {', '.join(able)}.")

    if method in method_names():
        refuse_without_log_partition(method_class(method))
    result = infer(
        request.graph,
        request.theta,
        method,
        request.inference_task,
        evidence=request.evidence,
        n_samples=request.n_samples,
        n_best=request.n_best,
        time_limit=request.time_limit,
        random_state=request.seed,
        verbose=request.verbose,
        **(request.settings if settings is None else settings),
    )
    refuse_without_log_partition(type(result.method))
    return result


def settings_by_method(names: Iterable[str], settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """For each method the settings it has; one that none of them has is refused."""
    from intarsia._core.validation import check_choice
    from intarsia.inference import method_class

    known = {name: method_class(name)._get_param_names() for name in names}
    for key in settings:
        check_choice(key, {k for keys in known.values() for k in keys}, "setting")
    return {name: {k: v for k, v in settings.items() if k in keys} for name, keys in known.items()}


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Settings from `key=value` words; values are Python literals, and text where they are none.

    Examples
    --------
    >>> parse_settings(["schedule=parallel", "max_memory=1e9"])
    {'schedule': 'parallel', 'max_memory': 1000000000.0}
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise InvalidInputError(f"--set {pair}: expected key=value, such as --set schedule=parallel.")
        try:
            value = ast.literal_eval(text.strip())
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            value = text.strip()
        found[key.strip().replace("-", "_")] = value
    return found
