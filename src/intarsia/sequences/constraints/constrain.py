"""Best labelling under rules for the scores of any model: logits of spaCy, GLiNER, transformers, language models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.error_context import entry_point
from intarsia._core.status import Status
from intarsia._core.validation import as_float_array, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.graph.chains import ChainBatch
from intarsia.sequences.constraints.chain_rules import chains_of
from intarsia.sequences.constraints.rule_set import RuleSet, check_rules, warn_of_unknown_fields
from intarsia.sequences.constraints.solver import find_clash, least_violation, solve


@dataclass(frozen=True, eq=False)
class ConstrainedLabels:
    """Labelling of a sequence under rules; returned by `constrain`.

    Attributes
    ----------
    labels : list
        Best labelling found that satisfies the rules; one that violates few of them if none was found. Empty if the
        scores exclude every labelling.
    score : float
        Its score; -inf if there is no labelling.
    bound : float
        Upper bound on the score of every labelling that satisfies the rules; -inf if there is none.
    status : Status
        EXACT if the labelling is proven to be the best, INFEASIBLE if it is proven that no labelling satisfies the
        rules, MAX_ITER if the joint states of the rules are too many for a proof.
    violated : list of Rule
        Rules that the labelling violates; empty if a labelling that satisfies all of them was found. With status
        MAX_ITER a violated rule is no proof that the rules cannot hold together.
    clash : list of Rule
        Rules that cannot hold together, none of which can be left out; empty if the labelling is valid.
    alternatives : list of (list, float)
        The `n_best` best labellings that satisfy the rules with their scores, the best first.

    Examples
    --------
    >>> from intarsia.sequences import constrain, exactly_once
    >>> result = constrain([[0.0, 3.0], [1.0, 2.0]], require=[exactly_once("year")], classes=["year", "title"])
    >>> result.labels, result.score, result.gap
    (['title', 'year'], 4.0, 0.0)
    """

    labels: list[Any]
    score: float
    bound: float
    status: Status
    violated: list[Any] = field(default_factory=list)
    clash: list[Any] = field(default_factory=list)
    alternatives: list[tuple[list[Any], float]] = field(default_factory=list)

    @property
    def proven(self) -> bool:
        """Whether the labelling is proven to be the best of those that satisfy the rules."""
        return self.status is Status.EXACT

    @property
    def gap(self) -> float:
        """Difference between bound and score: 0 if proven, nan if the rules cannot hold together."""
        return self.bound - self.score if self.status is not Status.INFEASIBLE else float("nan")


@entry_point
def constrain(
    scores: ArrayLike,
    transitions: ArrayLike | None = None,
    *,
    require: Any,
    start: ArrayLike | None = None,
    end: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    tokens: Sequence[str] | None = None,
    n_best: int = 1,
) -> ConstrainedLabels:
    """Return the labelling with the highest score among those that satisfy all rules, for the scores of any model.

    The score of labels y is `start[y_1] + sum_t scores[t, y_t] + sum_t transitions[y_(t-1), y_t] + end[y_n]`. Pass
    logits or log-probabilities of each token, from a CRF or from a model without transitions. The answer is exact: it
    is found by dynamic programming over labels and the states of those rules that simpler answers violate. If their
    joint states are too many, a Lagrangian relaxation gives a labelling and a bound (`status`, `gap`). If it finds no
    valid labelling, a second search starts with few labels, and adds those that the rules need.

    Parameters
    ----------
    scores : (length, n_labels) array
        Score of each label at each position; -inf forbids a label. The length may be 0.
    transitions : (n_labels, n_labels) or (length - 1, n_labels, n_labels) array, optional
        Score of a label (row) followed by another (column); by default 0.
    require : Rule or list of Rule
        Rules such as ``[once("ZipCode"), in_order("City", "ZipCode")]``.
    start, end : (n_labels,) arrays, optional
        Scores of the first and last label.
    classes : sequence, optional
        Label of each column; by default 0, 1, 2, ...
    tokens : sequence of str, optional
        Token of each position, which `one_of` reads.
    n_best : int
        Number of labellings in `alternatives`.

    Returns
    -------
    ConstrainedLabels
        Labels, score, bound, status, and the rules that clash if no labelling satisfies all.

    Raises
    ------
    InvalidInputError
        If shapes are mismatched, a score is NaN, or `require` contains something else than hard rules.

    Warns
    -----
    UserWarning
        If a rule names a field that no class has.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.sequences import constrain, once
    >>> logits = np.log([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    >>> result = constrain(logits, require=[once("Zip")], classes=["Zip", "City"])
    >>> result.labels, result.proven
    (['Zip', 'City', 'City'], True)
    >>> float(np.exp(result.score).round(3))                    # 0.9 x 0.8 x 0.4
    0.288
    """
    rules = check_rules(require)
    nodes = as_float_array(scores, "scores")
    if nodes.ndim != 2 or nodes.shape[1] == 0:
        raise InvalidInputError(f"scores has shape {nodes.shape}. Pass one row per position and one column per label.")
    length, k = nodes.shape
    names = list(range(k)) if classes is None else list(classes)
    if len(names) != k:
        raise InvalidInputError(f"classes has {len(names)} labels, but scores has {k} columns. Pass one label each.")
    if len(set(map(str, names))) < k:
        raise InvalidInputError("classes has a label twice. Pass a different label for each column.")
    if tokens is not None and (isinstance(tokens, (str, bytes)) or len(tokens) != length):
        raise InvalidInputError(
            f"tokens has {len(tokens)} entries for {length} positions. Pass a list with one string for each position."
        )
    check_number(n_best, "n_best", low=1, high=2**31, integer=True)
    warn_of_unknown_fields(rules, names)
    rule_set = RuleSet(rules, names)
    if length == 0:
        violated = [rule for rule in rules if not rule.check([], [])]
        status, bound = (Status.INFEASIBLE, -np.inf) if violated else (Status.EXACT, 0.0)
        alternatives: list[tuple[list[Any], float]] = [] if violated else [([], 0.0)]
        return ConstrainedLabels([], 0.0, bound, status, violated, violated[:1], alternatives)
    table = np.zeros((k, k)) if transitions is None else as_float_array(transitions, "transitions")
    chain = chains_of(ChainBatch(nodes, [0, length], table, start, end))[0]  # type: ignore[arg-type]
    automata = rule_set.automata(length, tokens)
    solution = solve(chain, automata, int(n_best))

    def as_labels(path: Any) -> list[Any]:
        return [rule_set.classes[y] for y in path.tolist()]

    if solution.scores.size:
        alternatives = [
            (as_labels(path), score) for path, score in zip(solution.paths, solution.scores.tolist(), strict=True)
        ]
        labels, score = alternatives[0]
        status = Status.EXACT if solution.proven else Status.MAX_ITER
        return ConstrainedLabels(labels, score, solution.bound, status, alternatives=alternatives)
    plain_paths, _ = chain.best(1)
    if not len(plain_paths):
        return ConstrainedLabels([], -np.inf, -np.inf, Status.INFEASIBLE)
    compromise = least_violation(chain, rule_set.automata(length, tokens, is_penalty=True))
    path = compromise.paths[0] if compromise.scores.size else plain_paths[0]
    labels = as_labels(path)
    steps = chain.tables[np.arange(length - 1) % len(chain.tables), path[:-1], path[1:]]
    score = float(chain.nodes[np.arange(length), path].sum() + steps.sum())
    violated = [rule for rule in rules if not rule.check(labels, tokens)]
    if not violated:
        return ConstrainedLabels(labels, score, solution.bound, Status.MAX_ITER, alternatives=[(labels, score)])
    clash = [rules[i] for i in find_clash(chain, automata, solution.active)] if solution.proven else []
    status = Status.INFEASIBLE if solution.proven else Status.MAX_ITER
    return ConstrainedLabels(labels, score, solution.bound, status, violated, clash)
