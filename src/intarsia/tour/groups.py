"""Tour stop on soft logic: the two factions of a karate club as latent groups, found by paired-dual learning."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.datasets.karate_club import KarateClub, load_karate_club
from intarsia.report.page_parts import Picture, Section, Table
from intarsia.softlogic import (
    EntropyPair,
    PairedDual,
    Program,
    ProjectedSubgradient,
    QuadraticPrior,
    SoftLogic,
    SurrogateByRole,
    ground,
)
from intarsia.tour.tour import Row, Stop

_LEADERS = {0: "instructor", 33: "president"}
_RULES = (
    "1: Friends(A, B) & Red(A) -> Red(B) ^2",
    "1: Red(A) & Leader(L) & (L == 'instructor') -> Follows(A, L) ^2",
    "1: !Red(A) & Leader(L) & (L == 'instructor') & Member(A) -> !Follows(A, L) ^2",
    "1: !Red(A) & Leader(L) & (L == 'president') & Member(A) -> Follows(A, L) ^2",
    "1: Red(A) & Leader(L) & (L == 'president') -> !Follows(A, L) ^2",
)


def make_program(club: KarateClub) -> Program:
    """Build the program: friendship with a leader is labelled, other friendships are observed, groups are latent."""
    members = [k for k in range(34) if k not in _LEADERS]
    friends = {(int(a), int(b)) for a, b in club.edges} | {(int(b), int(a)) for a, b in club.edges}
    follows = [(k, name) for k in members for name in _LEADERS.values()]
    truth = [(k, name, float((k, leader) in friends)) for k in members for leader, name in _LEADERS.items()]
    program = (
        Program()
        .predicate("Friends", 2)
        .predicate("Leader", 1)
        .predicate("Member", 1)
        .predicate("Red", 1)
        .predicate("Follows", 2)
        .observe("Friends", [pair for pair in sorted(friends) if not _LEADERS.keys() & set(pair)])
        .observe("Leader", [(name,) for name in _LEADERS.values()])
        .observe("Member", [(k,) for k in members])
        .latent("Red", [(k,) for k in members])
        .target("Follows", follows)
        .truth("Follows", truth)
    )
    for rule in _RULES:
        program.rule(rule)
    return program


def groups_stop(seed: int = 0) -> Stop:
    """Learn weights and groups together, and compare the groups with the factions into which the club split."""
    start = time.perf_counter()
    club = load_karate_club()
    program = make_program(club)
    learner = PairedDual(
        surrogate=SurrogateByRole(latent=EntropyPair(weight=0.5), labelled=QuadraticPrior(weight=0.5)),
        l2=1e-3,
        optimizer=ProjectedSubgradient(step_size=0.5, adagrad=False, max_iter=500, average=False),
        random_state=seed,
    )
    model = SoftLogic(program, learner=learner).fit()
    red = _values(program, model)
    accuracy = float(np.mean([(value > 0.5) == (club.faction[k] == 0) for k, value in red.items()]))
    accuracy = max(accuracy, 1.0 - accuracy)  # which of the groups is called red is arbitrary
    seconds, learning = time.perf_counter() - start, model.learning_result_
    section = Section(
        "groups",
        "Latent groups",
        "Friendships in a karate club, and who is a friend of one of its two leaders. Do rules with latent groups "
        "recover the two factions into which the club later split?",
        [
            Table(["rule", "learned weight"], list(zip(_RULES, model.weights_.tolist(), strict=True))),
            Picture(_picture(club, red), "Members by learned group; the marker shows the faction of each member"),
        ],
        {
            "Data": "karate club of Zachary (1977), comes with the package",
            "Learner": f"paired-dual: {learning.n_iter} updates, {learning.n_admm_iter} ADMM iterations",
            "Seed": str(seed),
            "Seconds": f"{seconds:.1f}",
        },
    )
    return Stop(
        "groups", section.title, [Row("members in the correct faction", 100.0 * accuracy, "%")], section, seconds
    )


def _values(program: Program, model: SoftLogic) -> dict[int, float]:
    """Return the learned score in [0, 1] of Red for each member."""
    atoms = ground(program).atoms
    latent_variables = np.flatnonzero(np.isnan(np.where(atoms.is_latent, np.nan, atoms.truth)))
    position = {int(variable): k for k, variable in enumerate(latent_variables)}
    members = [k for k in range(34) if k not in _LEADERS]
    return {k: float(model.learning_result_.latent[position[atoms.find("Red", str(k))]]) for k in members}


def _picture(club: KarateClub, red: dict[int, float]) -> Any:
    """Draw the friendship network with the learned groups and the true factions."""
    from matplotlib.figure import Figure

    positions = _layout(club)
    figure = Figure(figsize=(6, 4.2), layout="constrained")
    axes = figure.subplots()
    for a, b in club.edges:
        axes.plot(*positions[[a, b]].T, color="#bbb", linewidth=0.8, zorder=1)
    for faction, marker, name in ((0, "o", "stayed with the instructor"), (1, "s", "went with the president")):
        members = [k for k in red if club.faction[k] == faction]
        points = axes.scatter(
            positions[members, 0],
            positions[members, 1],
            c=[red[k] for k in members],
            marker=marker,
            vmin=0.25,
            vmax=0.75,
            cmap="coolwarm",
            s=110,
            edgecolors="#333",
            label=name,
            zorder=2,
        )
    for leader, name in _LEADERS.items():
        axes.scatter(positions[leader, 0], positions[leader, 1], marker="*", s=240, color="#333", zorder=3)
        axes.annotate(name, positions[leader], textcoords="offset points", xytext=(8, 6), fontsize=9)
    figure.colorbar(points, ax=axes, shrink=0.7, label="Red")
    axes.legend(fontsize=8, frameon=False, loc="lower center", ncols=2, bbox_to_anchor=(0.5, -0.12))
    axes.set_axis_off()
    return figure


def _layout(club: KarateClub) -> FloatArray:
    """Return positions from the second and third eigenvector of the graph's Laplacian, spread out by their ranks."""
    adjacency = np.zeros((34, 34))
    adjacency[club.edges[:, 0], club.edges[:, 1]] = adjacency[club.edges[:, 1], club.edges[:, 0]] = 1.0
    degree = adjacency.sum(axis=1)
    laplacian = np.eye(34) - adjacency / np.sqrt(np.outer(degree, degree))
    vectors = np.linalg.eigh(laplacian)[1][:, 1:3]
    ranks = vectors.argsort(axis=0).argsort(axis=0) / 33.0
    return np.asarray(0.6 * ranks + 0.4 * (vectors - vectors.min(axis=0)) / np.ptp(vectors, axis=0))
