"""Parsers of record strings: text in, fields out. Tokenizers, feature templates, readers of labelled files."""

from intarsia.sequences.parsing.labelled_files import read_labelled, write_labelled
from intarsia.sequences.parsing.labelled_text import LabelledText
from intarsia.sequences.parsing.parse import Fields, Parse, ParsedSpan
from intarsia.sequences.parsing.record_parser import RecordParser
from intarsia.sequences.parsing.token_features import TokenFeatures
from intarsia.sequences.parsing.tokens import Token, tokenize

__all__ = [
    "Fields",
    "LabelledText",
    "Parse",
    "ParsedSpan",
    "RecordParser",
    "Token",
    "TokenFeatures",
    "read_labelled",
    "tokenize",
    "write_labelled",
]  # fmt: skip
