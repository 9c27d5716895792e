r"""Penalized MAP: the labelling of highest score minus the penalties of energies on the labelling itself.

.. math:: \arg\max_y \; \langle \theta, S(y) \rangle - \sum_j \psi_j \, \ell_j(a_j^\top S(y)) \qquad
   \text{(Vilnis2015 Eq. 19)}

An energy of `ChainCRF` acts on expected counts, so it shifts the scores of all labellings alike. The penalized MAP
judges each labelling by its actual counts, as a soft constraint. A dual with one multiplier for each energy usually
proves the best labelling (`soft_dual`). Otherwise the violated energies become automata that count, on the labels that
the bound of the dual does not exclude. If these have too many joint states, the best labelling of the dual is returned
with its gap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.energies import (
    Count,
    DistanceToSet,
    MeasuredEnergies,
    MeasuredEnergy,
    SegmentStarts,
    StartsAfter,
    Transitions,
)
from intarsia.energies.binding.label_index import ChainShape, LabelIndex
from intarsia.energies.binding.scalar_terms import stack_functions
from intarsia.energies.measured_energies import shared_measurements
from intarsia.energies.measurements import Combination, Measurement
from intarsia.exceptions import NotSupportedError
from intarsia.graph.chains import ChainBatch
from intarsia.sequences import chain_prediction as plain
from intarsia.sequences.chain_data import ChainData
from intarsia.sequences.constraints.automaton import Automaton, Step, build_automaton
from intarsia.sequences.constraints.chain_rules import Answer, SequenceRules, best_valid, chains_of
from intarsia.sequences.constraints.lagrangian import path_score
from intarsia.sequences.constraints.soft_dual import (
    CountPenalties,
    DualAnswer,
    ascend_dual,
    possible_labels,
    tolerance_of,
)
from intarsia.sequences.constraints.solver import QUICK_SIZE, Chain, Solution, solve
from intarsia.sequences.constraints.trellis import Automata

# Counts up to this one are compared to find where a penalty becomes linear.
_MAX_COUNT = 1000


def penalized_labels(
    fitted: Any, data: ChainData, required: SequenceRules | None, classes: Sequence[Any]
) -> plain.Work:
    """Return the function that finds the penalized MAP of each sequence, with the fitted weights psi of the energies.

    Parameters
    ----------
    fitted : FittedEnergies
        Energies with the learned weights of psi.
    data : ChainData
        Sequences that are predicted.
    required : SequenceRules, optional
        Hard rules that labellings must satisfy.
    classes : sequence
        All labels.
    """
    if fitted is None:
        raise NotSupportedError("decode='penalized_map' needs energies. Pass energies=[...], or use decode='map'.")
    psi, members, sizes = fitted.strengths(data), fitted.energies.members, fitted.energies.sizes
    is_distance = [isinstance(energy, DistanceToSet) and bool(energy.positional) for energy in members]
    if sum(is_distance) > 1:
        raise NotSupportedError("the penalized MAP supports one DistanceToSet. Join the lists of outputs into one.")
    penalties = EnergyPenalties(
        [e for e, is_set in zip(members, is_distance, strict=True) if not is_set], list(classes)
    )
    if not any(is_distance):
        return partial(_best_penalized, penalties=penalties, psi=psi, required=required)
    column = np.repeat(is_distance, sizes)
    return partial(
        _best_near_set,
        distance=members[is_distance.index(True)],
        distance_psi=psi[:, column][:, 0],
        penalties=penalties,
        psi=psi[:, ~column],
        required=required,
    )


def _best_penalized(
    batch: ChainBatch, first: int, penalties: EnergyPenalties, psi: FloatArray, required: SequenceRules | None
) -> list[Answer]:
    return [
        _as_answer(_solve(chain, first + s, penalties, psi[first + s], required), chain, first + s, required)
        for s, chain in enumerate(chains_of(batch))
    ]


def _solve(
    chain: Chain, s: int, penalties: EnergyPenalties, psi: FloatArray, required: SequenceRules | None
) -> Solution:
    """Return the best labelling of sequence s under penalties of counts and rules."""
    if required is None and penalties.counts is not None:
        return penalties.solve(chain, psi)
    length = len(chain.nodes)
    if required is None and not penalties.members:
        paths, scores = chain.best(1)
        return Solution(paths, scores, float(scores.max(initial=-np.inf)), True, [])
    automata = penalties.automata(length, psi)
    if required is not None:
        automata = [*required.rules.automata(length, required.tokens_of(s)).members, *automata]
    return solve(chain, Automata(automata))


def _as_answer(solution: Solution, chain: Chain, s: int, required: SequenceRules | None) -> Answer:
    if solution.scores.size:
        return Answer(solution.paths[0], (), 0.0 if solution.proven else solution.bound - float(solution.scores[0]))
    if required is not None:
        return best_valid(chain, required, s)
    return Answer(chain.best(1)[0][0], (), np.inf)


def _best_near_set(
    batch: ChainBatch,
    first: int,
    distance: DistanceToSet,
    distance_psi: FloatArray,
    penalties: EnergyPenalties,
    psi: FloatArray,
    required: SequenceRules | None,
) -> list[Answer]:
    """Return the best labellings with the distance to a set of outputs: the best over all outputs, each solved apart.

    The distance to one output is a sum over positions, so its penalty is added to the scores. With a cap there is one
    problem more: no output, at the cost psi times the cap.
    """
    labellings: dict[int, IntArray] = {}
    answers = []
    for s, chain in enumerate(chains_of(batch), first):
        length, k = chain.nodes.shape
        if length not in labellings:
            labellings[length] = distance.labellings(
                LabelIndex(ChainShape(length, k, has_table=True), penalties.classes)
            )
        weight, is_near = float(distance_psi[s]), len(labellings[length]) > 0
        problems = []
        for states in labellings[length]:
            nodes = chain.nodes - 2.0 * weight
            nodes[np.arange(length), states] += 2.0 * weight
            problems.append(Chain(nodes, chain.tables))
        solutions = [_solve(problem, s, penalties, psi[s], required) for problem in problems]
        if not is_near or distance.cap is not None:
            free = _solve(chain, s, penalties, psi[s], required)
            constant = weight * float(distance.cap or 0.0) if is_near else 0.0
            solutions.append(replace(free, scores=free.scores - constant, bound=free.bound - constant))
        best = max(solutions, key=lambda solution: float(solution.scores.max(initial=-np.inf)))
        bound = max(solution.bound for solution in solutions)
        is_best = bool(best.scores.size) and bound <= float(best.scores[0]) + tolerance_of(float(best.scores[0]))
        is_proven = is_best or all(solution.proven for solution in solutions)
        answers.append(_as_answer(replace(best, bound=bound, proven=is_proven), chain, s, required))
    return answers


class EnergyPenalties:
    """Energies as penalties of the counts of a labelling, and as automata that charge them.

    Parameters
    ----------
    energies : sequence of Energy
        Measured energies: penalties of counts of labels, segments and transitions, or of segments after others.
    classes : sequence
        All labels.

    Raises
    ------
    NotSupportedError
        If an energy is not a penalty of counts.
    """

    def __init__(self, energies: Sequence[Any], classes: Sequence[Any]) -> None:
        self.classes = classes
        self.members: list[MeasuredEnergy] = []
        for energy in energies:
            if isinstance(energy, MeasuredEnergies):
                self.members += list(energy.energies)
            elif isinstance(energy, MeasuredEnergy):
                self.members.append(energy)
            else:
                raise NotSupportedError(
                    f"the penalized MAP needs penalties of counts, but {type(energy).__name__} is none. Use energies "
                    f"such as at_most_one('title') or DistanceToSet(outputs, positional=True), or decode='map'."
                )
        self._index = LabelIndex(ChainShape(2, len(classes), has_table=True), classes)
        self._automata: dict[tuple[int, int], Automaton] = {}

    def automata(self, length: int, psi: FloatArray) -> list[Automaton]:
        """Return the automata of the energies with a positive psi for a sequence."""
        return [self._scaled_automaton(j, length, psi) for j in np.flatnonzero(psi > 0.0).tolist()]

    @cached_property
    def counts(self) -> CountPenalties | None:
        """All energies as penalties of counts; None if a measurement has a value for each position."""
        if not self.members or any(isinstance(energy.measurement, StartsAfter) for energy in self.members):
            return None
        families = [energy.judgement.functions() for energy in self.members]
        member_of = np.repeat(np.arange(len(families)), [family.size for family in families])
        measurements, coefficients = shared_measurements(self.members)
        first, following = zip(*(self._increments(measurement) for measurement in measurements), strict=True)
        functions = stack_functions(families)
        return CountPenalties(np.array(first), np.array(following), coefficients[member_of], functions, member_of)

    def solve(self, chain: Chain, psi: FloatArray) -> Solution:
        """Return the labelling with the highest score minus penalties, with an upper bound on it.

        Parameters
        ----------
        chain : Chain
            Scores of one sequence.
        psi : (n_members,) float array
            Weight of each energy.

        Raises
        ------
        NotSupportedError
            If a measurement has a value for each position, such as `StartsAfter`.
        """
        counts = self.counts
        if counts is None:
            raise NotSupportedError("the dual needs one count for each energy. Use `solve` with the automata instead.")
        weights = psi[counts.member_of]
        answer = ascend_dual(chain, counts, weights)
        if answer.score == -np.inf:
            return Solution(np.empty((0, len(chain.nodes)), np.int64), np.empty(0), answer.bound, True, [])
        if not answer.proven:
            exact = self._solve_exactly(chain, psi, answer)
            if exact is not None:
                return exact
        return Solution(answer.path[None], np.array([answer.score]), answer.bound, answer.proven, [])

    def _solve_exactly(self, chain: Chain, psi: FloatArray, answer: DualAnswer) -> Solution | None:
        """Return the best labelling by automata of the energies that are violated; None if these are too many.

        Automata are added until no other energy charges the best labelling, which then is the best of all.
        """
        counts, active = self.counts, set[int]()
        if counts is None:
            return None
        weights, length = psi[counts.member_of], len(chain.nodes)
        alive = chain.alive & possible_labels(chain, counts, weights, answer)
        path = chain.best(1)[0][0]  # it violates an energy, since otherwise the dual would have proven it
        while True:
            charged = counts.charges(counts.values(path), weights) > 0.0
            violated = set(counts.member_of[charged].tolist()) - active
            if active and not violated:
                score = path_score(chain.nodes, chain.tables, path) - float(
                    counts.charges(counts.values(path), weights).sum()
                )
                return Solution(path[None], np.array([score]), score, True, sorted(active))
            active |= violated
            members = [self._scaled_automaton(j, length, psi) for j in sorted(active)]
            trellis = Automata(members).trellis(alive, max(QUICK_SIZE, 16 * chain.nodes.size))
            if trellis is None:
                return None
            paths, _ = trellis.best(np.where(alive, chain.nodes, -np.inf), chain.tables)
            path = paths[0]

    def _scaled_automaton(self, j: int, length: int, psi: FloatArray) -> Automaton:
        """Return the automaton of one energy, whose scores are multiplied by its psi."""
        if (j, length) not in self._automata:
            self._automata[j, length] = self._automaton(self.members[j], length)
        return self._automata[j, length].scaled(float(psi[j]))

    def _automaton(self, energy: MeasuredEnergy, length: int) -> Automaton:
        measurement = energy.measurement
        if isinstance(measurement, StartsAfter):
            return self._starts_after(measurement, energy.judgement, length)
        first, following = self._increments(measurement)
        return _counting_automaton(first, following, energy.judgement, length)

    def _increments(self, measurement: Measurement) -> tuple[FloatArray, FloatArray]:
        """Return what each label adds to a measurement: at the first position, and after each label (row)."""
        k = len(self.classes)
        first, following = np.zeros(k), np.zeros((k, k))
        if isinstance(measurement, Combination):
            for coefficient, term in measurement.terms:
                term_first, term_following = self._increments(term)
                first += coefficient * term_first
                following += coefficient * term_following
        elif isinstance(measurement, Count) and measurement.variables is None:
            state = int(self._index.states(measurement.label)[0])
            first[state] = 1.0
            following[:, state] = 1.0
        elif isinstance(measurement, Transitions):
            source, target = (int(self._index.states(name)[0]) for name in (measurement.source, measurement.target))
            following[source, target] = 1.0
        elif isinstance(measurement, SegmentStarts):
            first, following = self._starts(measurement.kind)
        else:
            raise NotSupportedError(
                f"the penalized MAP cannot count {measurement!r}. Use Count of all positions, SegmentStarts, "
                f"Transitions or StartsAfter, or decode='map'."
            )
        return first, following

    def _starts(self, kind: Any) -> tuple[FloatArray, FloatArray]:
        """Return which labels start a segment of a kind: at the first position, and after each label."""
        k = len(self.classes)
        opening = self._index.opening(kind)
        states = [int(self._index.states(name)[0]) for name in opening or [self._index.body(kind)]]
        first, following = np.zeros(k), np.zeros((k, k))
        first[states] = 1.0
        following[:, states] = 1.0
        if not opening:
            following[states[0], states[0]] = 0.0
        return first, following

    def _starts_after(self, measurement: StartsAfter, penalty: Callable[[float], float], length: int) -> Automaton:
        early_first, early = self._starts(measurement.early)
        late = self._starts(measurement.late)[1]
        groups, members = _merge_rows(np.hstack([early, late]))

        def advance(state: tuple[int, int], label: int) -> Step:
            n, group = state
            if group < 0:
                return (int(early_first[label]), int(groups[label])), 0.0
            previous = members[group]
            cost = penalty(float(late[previous, label]) + n)
            return (n + int(early[previous, label]), int(groups[label])), -cost

        k = len(self.classes)
        return build_automaton(k, (0, -1), advance, lambda state: 0.0, np.arange(k), max_depth=length)


def _merge_rows(rows: FloatArray) -> tuple[IntArray, list[int]]:
    """Return the group of each row, where equal rows are in one group, and a row of each group."""
    _, members, groups = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return groups.ravel().astype(np.int64), members.tolist()


def _counting_automaton(
    first: FloatArray, following: FloatArray, penalty: Callable[[float], float], length: int
) -> Automaton:
    """Return the automaton that charges the penalty of a sum of increments."""
    k = first.size
    groups, members = _merge_rows(following)
    cap = np.inf
    increments = np.unique(np.concatenate([first, following.ravel()]))
    if np.isin(increments, [0.0, 1.0]).all():
        # Where the penalty is linear, larger counts need no states: each increment charges the slope.
        values = np.array([penalty(float(n)) for n in range(min(length, _MAX_COUNT) + 2)])
        slopes = np.diff(values)
        differs = np.flatnonzero(np.abs(slopes - slopes[-1]) > 1e-12)
        if not differs.size or differs[-1] < slopes.size - 2:
            cap = float(differs[-1] + 1) if differs.size else 0.0

    def advance(state: tuple[float, int], label: int) -> Step:
        value, group = state
        added = first[label] if group < 0 else following[members[group], label]
        total = value + float(added)
        charge = penalty(total) - penalty(value) if added else 0.0
        return (round(min(total, cap), 9), int(groups[label])), -charge

    start_penalty = penalty(0.0)
    return build_automaton(k, (0.0, -1), advance, lambda state: -start_penalty, np.arange(k), max_depth=length)
