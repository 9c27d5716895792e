"""A Sudoku as a graph of constraints: 729 yes-or-no variables, 324 times "exactly one".

Constraints over many variables need no table, so a puzzle is written as it is said: every cell has exactly one digit,
and every row, column and box has each digit once. The integer program proves that its answer is right; with givens
that contradict each other it would say INFEASIBLE. See docs/guide/graphs.md and docs/guide/integer_program.md.

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
    given = np.array([0 if cell == "." else int(cell) for cell in PUZZLE.split()]).reshape(9, 9)
    builder = intarsia.GraphBuilder()
    name = {at: builder.variable(f"row {at[0]} column {at[1]} digit {at[2] + 1}", 2) for at in np.ndindex(9, 9, 9)}
    for a, b in np.ndindex(9, 9):
        box_row, box_column = 3 * (a // 3), 3 * (a % 3)
        builder.constraint([name[a, b, d] for d in range(9)], "exactly_one")  # a cell
        builder.constraint([name[a, c, b] for c in range(9)], "exactly_one")  # a digit in a row
        builder.constraint([name[r, a, b] for r in range(9)], "exactly_one")  # a digit in a column
        builder.constraint(
            [name[box_row + k // 3, box_column + k % 3, b] for k in range(9)], "exactly_one"
        )  # a digit in a box
    graph, theta = builder.build()
    known = {name[r, c, given[r, c] - 1]: 1 for r, c in np.argwhere(given)}
    solved = intarsia.infer(graph, theta, "integer_program", task="map", evidence=known)
    digits = solved.assignment.reshape(9, 9, 9).argmax(axis=2) + 1

    figure, axes = plt.subplots(figsize=(4.4, 4.6), layout="constrained")
    axes.imshow(given > 0, cmap="YlOrBr", vmax=6)
    for line in range(10):
        width = 2 if line % 3 == 0 else 0.5
        axes.axhline(line - 0.5, color="black", linewidth=width)
        axes.axvline(line - 0.5, color="black", linewidth=width)
    for r, c in np.ndindex(9, 9):
        weight = "bold" if given[r, c] else "normal"
        axes.text(c, r, str(digits[r, c]), ha="center", va="center", fontsize=13, fontweight=weight)
    axes.set_title(f"{solved.status.name}, in {solved.seconds:.1f} s", fontsize=10)
    axes.set(xticks=[], yticks=[])
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    lines = [*digits, *digits.T, *digits.reshape(3, 3, 3, 3).swapaxes(1, 2).reshape(9, 9)]
    right = float(np.mean([sorted(line) == list(range(1, 10)) for line in lines]))
    print(f"{right:.0%} of rows, columns and boxes hold every digit; see {picture}")
    return right


if __name__ == "__main__":
    main(*sys.argv[1:2])
