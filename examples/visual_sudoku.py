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
    grids = np.array([rows for rows in itertools.product(orders, repeat=4)])
    boxes = grids.reshape(-1, 2, 2, 2, 2).swapaxes(2, 3).reshape(-1, 4, 4)
    valid = [(np.sort(lines, axis=2) == np.arange(4)).all(axis=(1, 2)) for lines in (grids.swapaxes(1, 2), boxes)]
    return grids[valid[0] & valid[1]]


def boards(n: int, images: np.ndarray, labels: np.ndarray, rng: np.random.Generator):
    """Return random boards: images (n, 16, 8, 8) with empty cells black, digits (n, 16), and which cells are clues."""
    digits = rng.permuted(solutions(), axis=0)[rng.integers(0, 288, n)].reshape(n, 16)
    is_clue = rng.permuted(np.tile(np.arange(16) < N_CLUES, (n, 1)), axis=1)
    pictures = np.zeros((n, 16, 8, 8), dtype=np.float32)
    for digit in range(4):
        rows, cells = np.nonzero(is_clue & (digits == digit))
        pictures[rows, cells] = rng.permuted(images[labels == digit + 1], axis=0)[
            rng.integers(0, (labels == digit + 1).sum(), rows.size)
        ] if False else images[labels == digit + 1][rng.integers(0, (labels == digit + 1).sum(), rows.size)]
    return torch.from_numpy(pictures), torch.from_numpy(digits), torch.from_numpy(is_clue)


def main(picture: str = "visual_sudoku.png") -> float:
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
    history = []
    for epoch in range(12):
        for batch in torch.randperm(len(inputs)).split(20):
            values = model(inputs[batch])["Cell"].reshape(-1, 16, 4)
            chosen = values.gather(2, truth[batch][..., None])[..., 0]
            loss = ((1 - chosen) ** 2)[~is_clue[batch]].mean()  # only the empty cells
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            read = network(test_inputs).argmax(2)
            solved = model(test_inputs)["Cell"].reshape(-1, 16, 4).argmax(2)
        reading = (read == test_truth)[test_clue].double().mean().item()
        solving = (solved == test_truth).all(1).double().mean().item()
        history.append((loss.item(), reading, solving))
        print(epoch, history[-1])
    return history[-1][2]


if __name__ == "__main__":
    main(*sys.argv[1:2])
