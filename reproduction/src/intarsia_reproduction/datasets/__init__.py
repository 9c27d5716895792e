"""Loaders of the papers' data sets."""

from intarsia_reproduction.datasets.backgrounds import BackgroundImages, load_backgrounds
from intarsia_reproduction.datasets.catalogue import DataSet, find_set, set_names
from intarsia_reproduction.datasets.coreference import CoreferenceText, Mention, load_litbank
from intarsia_reproduction.datasets.denoising import DenoisingImages, load_denoising
from intarsia_reproduction.datasets.entities import load_cora_citations, load_febrl
from intarsia_reproduction.datasets.faces import FaceImages, load_olivetti_faces
from intarsia_reproduction.datasets.horses import HorseImages, load_horses
from intarsia_reproduction.datasets.letters import LetterWords, load_ocr_letters
from intarsia_reproduction.datasets.location import cache_folder, data_folders, locate, require
from intarsia_reproduction.datasets.relations import (
    AcquaintancesProgram,
    LinkedDocuments,
    TrustNetwork,
    load_epinions,
    load_linked_documents,
    load_simple_acquaintances,
)
from intarsia_reproduction.datasets.snakes import SnakeImages, load_snakes
from intarsia_reproduction.datasets.tagged_text import (
    TaggedParts,
    TaggedSequences,
    load_conll2000,
    load_cora_ie,
    load_umass_citations,
)
from intarsia_reproduction.datasets.woodcock import WeeklyAbundance, load_woodcock

__all__ = [
    "AcquaintancesProgram", "BackgroundImages", "CoreferenceText", "DataSet", "DenoisingImages", "FaceImages",
    "HorseImages", "LetterWords", "LinkedDocuments", "Mention", "SnakeImages", "TaggedParts", "TaggedSequences",
    "TrustNetwork", "WeeklyAbundance", "cache_folder", "data_folders", "find_set", "load_backgrounds",
    "load_conll2000", "load_cora_citations", "load_cora_ie", "load_denoising", "load_epinions", "load_febrl",
    "load_horses", "load_linked_documents", "load_litbank", "load_ocr_letters", "load_olivetti_faces",
    "load_simple_acquaintances", "load_snakes", "load_umass_citations", "load_woodcock", "locate", "require",
    "set_names",
]  # fmt: skip
