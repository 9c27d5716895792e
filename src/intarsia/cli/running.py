"""Run inference from command-line options: read the model, parse the settings, call the method."""

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
    """Model, evidence and options of one call of `intarsia infer`."""

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
        """Name of the task in `intarsia.infer`: "map" or "marginals"."""
        return "map" if self.task == "map" else "marginals"


def load_request(file: Path, evidence: Path | None, task: str, **options: Any) -> Request:
    """Check the options that no method checks, then read the model and its evidence."""
    from intarsia._core.validation import check_choice, check_number
    from intarsia.graph.uai import read_uai
    from intarsia.graph.uai_evidence import read_uai_evidence

    if options.get("seed") is not None:
        check_number(options["seed"], "--seed", low=0, integer=True)
    if options.get("time_limit") is not None:
        check_number(options["time_limit"], "--time-limit", low=0, open_low=True)
    task = check_choice(task.lower(), TASKS, "--task")
    graph, theta = read_uai(file)
    states: dict[int, int] = read_uai_evidence(evidence) if evidence is not None else {}
    for variable, state in states.items():
        if variable >= graph.n_variables or state >= graph.n_states[variable]:
            limit = (
                f"the model has {graph.n_variables} variables"
                if variable >= graph.n_variables
                else f"the variable has {graph.n_states[variable]} states"
            )
            raise InvalidInputError(
                f"{evidence.name if evidence else 'evidence'}: variable {variable} is observed in state {state}, but "
                f"{limit} (counted from 0). Correct the evidence file."
            )
    return Request(graph, theta, task, dict(states.items()), **options)


def run(request: Request, method: str, settings: dict[str, Any] | None = None) -> InferenceResult:
    """Run one method by name, or the method that "auto" chooses."""
    from intarsia.inference import infer, method_class, method_names

    def refuse_without_log_partition(kind: type[InferenceMethod]) -> None:
        if request.task == "pr" and kind.log_partition_is is None:
            names = [name for name in method_names() if method_class(name).log_partition_is is not None]
            raise NotSupportedError(f"{kind.__name__} does not compute log Z. Use one of: {', '.join(names)}.")

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
    """Return the settings that apply to each method; raise if a setting applies to none of them."""
    from intarsia._core.validation import check_choice
    from intarsia.inference import method_class

    setting_names = {name: method_class(name)._get_param_names() for name in names}
    for key in settings:
        check_choice(key, {k for keys in setting_names.values() for k in keys}, "setting")
    return {name: {k: v for k, v in settings.items() if k in keys} for name, keys in setting_names.items()}


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse `key=value` strings; a value is a Python literal, or else a string.

    Examples
    --------
    >>> parse_settings(["schedule=parallel", "max_memory=1e9"])
    {'schedule': 'parallel', 'max_memory': 1000000000.0}
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise InvalidInputError(f"--set {pair}: expected key=value, such as --set schedule=parallel.")
        try:
            value = ast.literal_eval(text.strip())
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            value = text.strip()
        settings[key.strip().replace("-", "_")] = value
    return settings
