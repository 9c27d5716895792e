"""What comes with the package, and loaders for the papers' data sets."""

from intarsia.datasets.backgrounds import BackgroundImages, load_backgrounds
from intarsia.datasets.catalogue import DataSet, find_set, set_names
from intarsia.datasets.conll import read_conll, write_conll
from intarsia.datasets.coreference import CoreferenceText, Mention, load_litbank
from intarsia.datasets.crfsuite import CrfsuiteSequence, read_crfsuite, write_crfsuite
from intarsia.datasets.customers import make_customers
from intarsia.datasets.denoising import DenoisingImages, load_denoising, noisy_inputs
from intarsia.datasets.entities import EntityRecords, load_cora_citations, load_febrl
from intarsia.datasets.faces import FaceImages, load_olivetti_faces
from intarsia.datasets.horses import HorseImages, load_horses
from intarsia.datasets.images import NoisyImage, load_noisy_image
from intarsia.datasets.karate_club import KarateClub, load_karate_club
from intarsia.datasets.letters import LetterWords, load_ocr_letters
from intarsia.datasets.location import cache_folder, data_folders, locate, require
from intarsia.datasets.relations import (
    AcquaintancesProgram,
    LinkedDocuments,
    TrustNetwork,
    load_epinions,
    load_linked_documents,
    load_simple_acquaintances,
)
from intarsia.datasets.snakes import SnakeImages, load_snakes
from intarsia.datasets.tagged_text import (
    TaggedParts,
    TaggedSequences,
    load_conll2000,
    load_cora_ie,
    load_umass_citations,
)
from intarsia.datasets.woodcock import WeeklyAbundance, load_woodcock

__all__ = [
    "AcquaintancesProgram", "BackgroundImages", "CoreferenceText", "CrfsuiteSequence", "DataSet", "DenoisingImages",
    "EntityRecords", "FaceImages", "HorseImages", "KarateClub", "LetterWords", "LinkedDocuments", "Mention",
    "NoisyImage", "SnakeImages", "TaggedParts", "TaggedSequences", "TrustNetwork", "WeeklyAbundance", "cache_folder",
    "data_folders", "find_set", "load_backgrounds", "load_conll2000", "load_cora_citations", "load_cora_ie",
    "load_denoising", "load_epinions", "load_febrl", "load_horses", "load_karate_club", "load_linked_documents",
    "load_litbank", "load_noisy_image", "load_ocr_letters", "load_olivetti_faces", "load_simple_acquaintances",
    "load_snakes", "load_umass_citations", "load_woodcock", "locate", "make_customers", "noisy_inputs", "read_conll",
    "read_crfsuite", "require", "set_names", "write_conll", "write_crfsuite",
]  # fmt: skip
