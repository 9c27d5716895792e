"""Learn to read digits from solved Sudokus: images of the clues go in, only the missing digits are supervised.

A convolutional network reads the images of the clues (scikit-learn's digits). Rules of soft logic connect it with the
cells of a 4 x 4 Sudoku: each row, column, box and cell contains each digit once. Training compares the inferred values
of the empty cells with the solution; no image ever has a label, so that the network learns to read through the rules
alone. See docs/guide/torch.md. Needs PyTorch: pip install 'intarsia[torch]'.

    python examples/visual_sudoku.py [picture.png]
"""

from __future__ import annotations

import itertools
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from intarsia.softlogic import Program
from intarsia.torch import NeuralProgram

N_CLUES = 10
CELLS = list(itertools.product(range(4), range(4)))


class ReadClues(nn.Module):
    """Probabilities of the digits 1 to 4 for the images of 16 cells; 0 for empty cells."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(),
            nn.Flatten(), nn.Linear(128, 4),
        )  # fmt: skip

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        probabilities = self.layers(images.reshape(-1, 1, 8, 8)).softmax(1).reshape(len(images), 16, 4)
        is_clue = images.flatten(2).amax(2) > 0
        return probabilities * is_clue[..., None]


def rules(network: nn.Module) -> Program:
    """Return the rules of a 4 x 4 Sudoku with a neural predicate for the clues."""
    atoms = [(f"r{r}", f"c{c}", f"b{2 * (r // 2) + c // 2}", str(d)) for r, c in CELLS for d in range(1, 5)]
    return (
        Program()
        .predicate("Reads", 4, module=network)
        .predicate("Cell", 4)
        .rule("1: Reads(R, C, B, D) -> Cell(R, C, B, D) ^2")
        .rule("Cell(R, C, B, +D) = 1 .")  # one digit in each cell
        .rule("Cell(R, +C, +B, D) = 1 .")  # each digit once in a row
        .rule("Cell(+R, C, +B, D) = 1 .")  # each digit once in a column
        .rule("Cell(+R, +C, B, D) = 1 .")  # each digit once in a box
        .observe("Reads", atoms)
        .target("Cell", atoms)
    )


def solutions() -> np.ndarray:
    """Return all 288 solved 4 x 4 Sudokus."""
    orders = list(itertools.permutations(range(4)))
    grids = np.array(list(itertools.product(orders, repeat=4)))
    boxes = grids.reshape(-1, 2, 2, 2, 2).swapaxes(2, 3).reshape(-1, 4, 4)
    valid = [(np.sort(lines, axis=2) == np.arange(4)).all(axis=(1, 2)) for lines in (grids.swapaxes(1, 2), boxes)]
    return grids[valid[0] & valid[1]]


def boards(n: int, images: np.ndarray, labels: np.ndarray, rng: np.random.Generator):
    """Return random boards: images (n, 16, 8, 8) with empty cells black, digits (n, 16), and which cells are clues."""
    digits = solutions()[rng.integers(0, 288, n)].reshape(n, 16)
    is_clue = rng.permuted(np.tile(np.arange(16) < N_CLUES, (n, 1)), axis=1)
    pictures = np.zeros((n, 16, 8, 8), dtype=np.float32)
    for row, cell in np.argwhere(is_clue):
        pictures[row, cell] = rng.choice(images[labels == digits[row, cell] + 1])
    return torch.from_numpy(pictures), torch.from_numpy(digits), torch.from_numpy(is_clue)


def main(picture: str = "visual_sudoku.png", n_epochs: int = 5) -> float:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    digits = load_digits()
    keep = (digits.target >= 1) & (digits.target <= 4)
    images, labels = digits.images[keep] / 16.0, digits.target[keep]
    train, test = np.arange(labels.size) % 2 == 0, np.arange(labels.size) % 2 == 1
    inputs, truth, is_clue = boards(300, images[train], labels[train], rng)
    test_inputs, test_truth, test_clue = boards(100, images[test], labels[test], rng)

    network = ReadClues()
    model = NeuralProgram(rules(network), proximal=0.01)
    optimizer = torch.optim.Adam(model.parameters(), 0.005)
    history = [evaluate(model, test_inputs, test_truth, test_clue)]
    for _ in range(n_epochs):
        for batch in torch.randperm(len(inputs)).split(20):
            values = model(inputs[batch])["Cell"].reshape(-1, 16, 4)
            value_of_truth = values.gather(2, truth[batch][..., None])[..., 0]
            loss = ((1 - value_of_truth) ** 2)[~is_clue[batch]].mean()  # the empty cells alone
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        history.append(evaluate(model, test_inputs, test_truth, test_clue))
    reading, solving = history[-1]
    with torch.no_grad():
        solved = model(test_inputs)["Cell"].reshape(-1, 16, 4).argmax(2)
    draw(picture, history, test_inputs[0], solved[0], test_truth[0])
    print(
        f"{reading:.1%} of the clues of new boards are read correctly, {solving:.0%} of {len(test_inputs)} boards are "
        f"solved; no image had a label; see {picture}"
    )
    return solving


def evaluate(model: NeuralProgram, inputs: torch.Tensor, truth: torch.Tensor, is_clue: torch.Tensor) -> tuple:
    """Return the fraction of clues that the network reads correctly, and of boards that are solved."""
    with torch.no_grad():
        read = model.networks["Reads"](inputs).argmax(2)
        solved = model(inputs)["Cell"].reshape(-1, 16, 4).argmax(2)
    return (read == truth)[is_clue].double().mean().item(), (solved == truth).all(1).double().mean().item()


def draw(picture: str, history: list, images: torch.Tensor, solved: torch.Tensor, truth: torch.Tensor) -> None:
    """Draw the course of training, and a board with its inferred digits."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.5), layout="constrained")
    for values, name in zip(np.array(history).T, ("clues read", "boards solved"), strict=True):
        left.plot(values, marker="o", label=name)
    left.set(xlabel="passes over 300 boards", ylim=(0, 1.03), title="new boards, new images")
    left.legend()
    board = images.reshape(4, 4, 8, 8).swapaxes(1, 2).reshape(32, 32)
    right.imshow(board.numpy(), cmap="Greys", vmax=1.6)
    for line in range(5):
        for draw_line in (right.axhline, right.axvline):
            draw_line(8 * line - 0.5, color="black", linewidth=2 if line % 2 == 0 else 0.5)
    for cell, (row, column) in enumerate(CELLS):
        if images[cell].max() == 0:
            color = "tab:green" if solved[cell] == truth[cell] else "tab:red"
            right.text(
                8 * column + 3.5, 8 * row + 3.5, str(int(solved[cell]) + 1), color=color, fontsize=20, ha="center",
                va="center",
            )  # fmt: skip
    right.set(xticks=[], yticks=[], title="images of clues, inferred digits in green")
    figure.savefig(picture, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:2])
