"""Segment noisy digits with a convolutional network, alone and under a grid CRF that is trained with it.

The network scores each pixel from its 3 x 3 neighbourhood. A grid of 16 x 16 variables connects neighbouring pixels,
and tree-reweighted belief propagation computes marginals; the gradient of the loss passes through its sweeps, so that
the network and the scores of neighbours are fitted to each other. See docs/guide/torch.md. Needs PyTorch: pip install
'intarsia[torch]'.

    python examples/network_under_grid.py [picture.png]
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.ndimage import zoom
from sklearn.datasets import load_digits
from torch import nn

import intarsia
from intarsia.gradients import TruncatedGradient
from intarsia.torch import MarginalLayer

SIDE, NOISE, N_TRAIN = 16, 0.8, 150


class Network(nn.Module):
    """Scores of ink and paper for each pixel, from 3 x 3 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images[:, None]).permute(0, 2, 3, 1).flatten(1, 2)  # (batch, 256 pixels, 2 labels)


class NetworkUnderGrid(nn.Module):
    """The network, followed by a grid CRF with learned scores of horizontal and vertical neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.network = Network()
        graph = intarsia.grid_graph(SIDE, SIDE, 2)
        self.layer = MarginalLayer(graph, "tree_reweighted", gradient=TruncatedGradient(n_iter=5))
        is_vertical = np.array([graph.scope(c)[1] - graph.scope(c)[0] == SIDE for c in range(graph.n_factors)])
        self.register_buffer("direction", torch.from_numpy(is_vertical.astype(np.int64)))
        self.tables = nn.Parameter(torch.zeros(2, 2, 2))

    def theta(self, images: torch.Tensor) -> torch.Tensor:
        return self.layer.pack(self.network(images), self.tables[self.direction].flatten())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layer.variables(self.layer(self.theta(images)))


def train(model: nn.Module, loss_of, inputs: torch.Tensor, labels: torch.Tensor, n_epochs: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(n_epochs):
        for batch in torch.randperm(len(inputs)).split(25):
            optimizer.zero_grad()
            loss_of(inputs[batch], labels[batch]).backward()
            optimizer.step()


def main(picture: str = "network_under_grid.png", n_epochs: int = 10) -> float:
    rng = np.random.default_rng(0)
    # Size, noise and number of passes were chosen on images 150 to 300; images 300 to 600 test them.
    order = rng.permutation(len(load_digits().images))
    selected_images = load_digits().images[np.append(order[:N_TRAIN], order[300:600])] / 16.0
    images = zoom(selected_images, (1, 2, 2), order=1)
    labels = torch.from_numpy((images > 0.5).astype(np.int64)).flatten(1)
    inputs = torch.from_numpy(images + NOISE * rng.standard_normal(images.shape)).float()
    test = slice(N_TRAIN, None)

    torch.manual_seed(0)
    alone = Network()
    cross_entropy = nn.CrossEntropyLoss()
    train(
        alone,
        lambda x, y: cross_entropy(alone(x).flatten(0, 1), y.flatten()),
        inputs[:N_TRAIN],
        labels[:N_TRAIN],
        n_epochs,
    )
    torch.manual_seed(0)
    under_grid = NetworkUnderGrid()
    train(
        under_grid,
        lambda x, y: under_grid.layer.loss(under_grid.theta(x), y),
        inputs[:N_TRAIN],
        labels[:N_TRAIN],
        n_epochs,
    )

    with torch.no_grad():
        answers = {"network alone": alone(inputs[test]).softmax(2), "network under a grid": under_grid(inputs[test])}
    wrong = {name: (p.argmax(2) != labels[test]).double().mean(1).numpy() for name, p in answers.items()}
    difference = wrong["network alone"] - wrong["network under a grid"]
    margin = 1.96 * difference.std() / np.sqrt(difference.size)
    for name, errors in wrong.items():
        print(f"{name}: {errors.mean():.1%} of the pixels of {errors.size} test images are wrong")
    print(f"difference: {difference.mean():.1%} +- {margin:.1%} (95 %); see {picture}")

    figure, axes = plt.subplots(4, 6, figsize=(6.4, 4.6), layout="constrained")
    rows = [
        inputs[test],
        labels[test].reshape(-1, SIDE, SIDE),
        *(p[..., 1].reshape(-1, SIDE, SIDE) for p in answers.values()),
    ]
    for row, (name, values) in enumerate(zip(["input", "truth", *answers], rows, strict=True)):
        for column in range(6):
            axes[row, column].imshow(values[column].numpy(), cmap="Greys", vmin=0, vmax=1)
            axes[row, column].set(xticks=[], yticks=[])
        axes[row, 0].set_ylabel(name.replace(" under", "\nunder").replace(" alone", "\nalone"), fontsize=9)
    figure.suptitle(f"wrong pixels: {wrong['network alone'].mean():.1%} and {wrong['network under a grid'].mean():.1%}")
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    return float(difference.mean())


if __name__ == "__main__":
    main(*sys.argv[1:2])
