"""What comes with the package, and loaders for the papers' data sets."""

from intarsia.datasets.backgrounds import BackgroundImages, load_backgrounds
from intarsia.datasets.catalogue import DataSet, find_set, set_names
from intarsia.datasets.denoising import DenoisingImages, load_denoising, noisy_inputs
from intarsia.datasets.horses import HorseImages, load_horses
from intarsia.datasets.images import NoisyImage, load_noisy_image
from intarsia.datasets.location import cache_folder, data_folders, locate, require

__all__ = [
    "BackgroundImages", "DataSet", "DenoisingImages", "HorseImages", "NoisyImage", "cache_folder", "data_folders",
    "find_set", "load_backgrounds", "load_denoising", "load_horses", "load_noisy_image", "locate", "noisy_inputs",
    "require", "set_names",
]  # fmt: skip
