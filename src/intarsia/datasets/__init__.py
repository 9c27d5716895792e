"""Small data sets that come with the package, and generators."""

from intarsia.datasets.customers import EntityRecords, make_customers
from intarsia.datasets.images import NoisyImage, load_noisy_image, noisy_inputs
from intarsia.datasets.karate_club import KarateClub, load_karate_club

__all__ = [
    "EntityRecords", "KarateClub", "NoisyImage", "load_karate_club", "load_noisy_image",
    "make_customers", "noisy_inputs",
]  # fmt: skip
