"""Coreference resolution: documents, readers and writers of CoNLL-2012 and LitBank, and the estimator."""

from intarsia.coreference.conll import read_conll2012, write_conll2012
from intarsia.coreference.document import Document, Mention
from intarsia.coreference.litbank import read_litbank
from intarsia.coreference.resolver import CoreferenceResolver
from intarsia.coreference.scoring import score_clusters, score_documents

__all__ = [
    "CoreferenceResolver", "Document", "Mention", "read_conll2012", "read_litbank", "score_clusters",
    "score_documents", "write_conll2012",
]  # fmt: skip
