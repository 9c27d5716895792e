"""What comes with the package, and loaders for the papers' data sets."""

from intarsia.datasets.backgrounds import BackgroundImages, load_backgrounds
from intarsia.datasets.catalogue import DataSet, find_set, set_names
from intarsia.datasets.denoising import DenoisingImages, load_denoising, noisy_inputs
from intarsia.datasets.faces import FaceImages, load_olivetti_faces
from intarsia.datasets.horses import HorseImages, load_horses
from intarsia.datasets.images import NoisyImage, load_noisy_image
from intarsia.datasets.letters import LetterWords, load_ocr_letters
from intarsia.datasets.location import cache_folder, data_folders, locate, require
from intarsia.datasets.snakes import SnakeImages, load_snakes

__all__ = [
    "BackgroundImages", "DataSet", "DenoisingImages", "FaceImages", "HorseImages", "LetterWords", "NoisyImage",
    "SnakeImages", "cache_folder", "data_folders", "find_set", "load_backgrounds", "load_denoising", "load_horses",
    "load_noisy_image", "load_ocr_letters", "load_olivetti_faces", "load_snakes", "locate", "noisy_inputs", "require",
    "set_names",
]  # fmt: skip
