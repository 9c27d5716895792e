"""Coreference resolution: documents, readers and writers of CoNLL-2012 and LitBank, and the estimator."""

from intarsia_reproduction.coreference.conll import read_conll2012, write_conll2012
from intarsia_reproduction.coreference.document import Document, Mention
from intarsia_reproduction.coreference.litbank import read_litbank
from intarsia_reproduction.coreference.resolver import CoreferenceResolver
from intarsia_reproduction.coreference.scoring import score_clusters, score_documents
from intarsia_reproduction.coreference.tales import load_tales

__all__ = [
    "CoreferenceResolver", "Document", "Mention", "load_tales", "read_conll2012", "read_litbank", "score_clusters",
    "score_documents", "write_conll2012",
]  # fmt: skip
