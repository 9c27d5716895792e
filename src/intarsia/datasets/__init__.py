"""What comes with the package."""

from intarsia.datasets.images import NoisyImage, load_noisy_image

__all__ = ["NoisyImage", "load_noisy_image"]
