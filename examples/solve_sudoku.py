"""Solve a Sudoku as a graph of constraints: 729 binary variables and 324 "exactly one" constraints.

Constraints over many variables need no table, so the rules are written directly: every cell has exactly one digit, and
every row, column and box has each digit once. The integer program proves that its answer is optimal; for contradictory
clues the status would be INFEASIBLE. See docs/guide/graphs.md and docs/guide/integer_program.md.

    python examples/solve_sudoku.py [picture.png]
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import intarsia

PUZZLE = """
1 . . . . 7 . 9 .
. 3 . . 2 . . . 8
. . 9 6 . . 5 . .
. . 5 3 . . 9 . .
. 1 . . 8 . . . 2
6 . . . . 4 . . .
3 . . . . . . 1 .
. 4 . . . . . . 7
. . 7 . . . 3 . .
"""


def main(picture: str = "sudoku.png") -> float:
    clues = np.array([0 if cell == "." else int(cell) for cell in PUZZLE.split()]).reshape(9, 9)
    builder = intarsia.GraphBuilder()
    name = {
        position: builder.variable(f"row {position[0]} column {position[1]} digit {position[2] + 1}", 2)
        for position in np.ndindex(9, 9, 9)
    }
    for a, b in np.ndindex(9, 9):
        box_row, box_column = 3 * (a // 3), 3 * (a % 3)
        builder.constraint([name[a, b, d] for d in range(9)], "exactly_one")  # one digit in each cell
        builder.constraint([name[a, c, b] for c in range(9)], "exactly_one")  # each digit once in a row
        builder.constraint([name[r, a, b] for r in range(9)], "exactly_one")  # each digit once in a column
        box = [name[box_row + k // 3, box_column + k % 3, b] for k in range(9)]
        builder.constraint(box, "exactly_one")  # each digit once in a box
    graph, theta = builder.build()
    evidence = {name[r, c, clues[r, c] - 1]: 1 for r, c in np.argwhere(clues)}
    result = intarsia.infer(graph, theta, "integer_program", task="map", evidence=evidence)
    digits = result.assignment.reshape(9, 9, 9).argmax(axis=2) + 1

    figure, axes = plt.subplots(figsize=(4.4, 4.6), layout="constrained")
    axes.imshow(clues > 0, cmap="YlOrBr", vmax=6)
    for line in range(10):
        width = 2 if line % 3 == 0 else 0.5
        axes.axhline(line - 0.5, color="black", linewidth=width)
        axes.axvline(line - 0.5, color="black", linewidth=width)
    for r, c in np.ndindex(9, 9):
        weight = "bold" if clues[r, c] else "normal"
        axes.text(c, r, str(digits[r, c]), ha="center", va="center", fontsize=13, fontweight=weight)
    axes.set_title(f"{result.status.name}, in {result.seconds:.1f} s", fontsize=10)
    axes.set(xticks=[], yticks=[])
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    lines = [*digits, *digits.T, *digits.reshape(3, 3, 3, 3).swapaxes(1, 2).reshape(9, 9)]
    accuracy = float(np.mean([sorted(line) == list(range(1, 10)) for line in lines]))
    print(f"{accuracy:.0%} of rows, columns and boxes contain every digit; see {picture}")
    return accuracy


if __name__ == "__main__":
    main(*sys.argv[1:2])
