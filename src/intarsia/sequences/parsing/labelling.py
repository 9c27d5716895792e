"""Choice of the string that is most worth labelling next, and a file to which the answers are appended."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intarsia._files.atomic_file import append_line, write_bytes
from intarsia._files.packed_file import check_regular
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.sequences.parsing.json_files import to_json_line
from intarsia.sequences.parsing.labelled_files import read_labelled
from intarsia.sequences.parsing.labelled_text import LabelledText, Span, check_spans
from intarsia.sequences.parsing.parse import Parse
from intarsia.sequences.parsing.record_parser import RecordParser
from intarsia.sequences.parsing.tokens import check_texts, tokenize

# With fewer labelled strings a parser is not fitted, and strings are proposed in the order of the file.
FEWEST_TO_FIT = 5


@dataclass(frozen=True)
class Proposal:
    """String to label next, with the spans that the parser predicts.

    Attributes
    ----------
    index : int
        Number of the string in the list of strings.
    text : str
        The string.
    spans : list of (start, end, field)
        Predicted spans; empty without a parser.
    probability : float or None
        Probability of the predicted parse; the lowest of all strings without an answer.

    Examples
    --------
    >>> Proposal(0, "12 Main St", [(0, 2, "number")], 0.4).probability
    0.4
    """

    index: int
    text: str
    spans: list[Span]
    probability: float | None


class LabellingSession:
    """Labelling of strings one by one: the least certain string is proposed, and answers are appended to a file.

    The session continues where the file ends: strings that are in the file are not proposed again.

    Parameters
    ----------
    texts : list of str
        Strings to label; repeated strings are proposed once.
    path : path
        JSON Lines file of the answers; it is created with the first answer.
    parser : RecordParser, optional
        Parser for the proposals: fitted, or with settings for `refit_every`. Without it, a parser with default settings
        is fitted to the answers.
    labelled : list of LabelledText, optional
        Labelled strings to which the parser is fitted in addition to the answers.
    fields : list of str, optional
        Names of the fields; by default those of the parser and of the labelled strings. Others may be added.
    refit_every : int
        Number of answers after which the parser is fitted again; 0 for never. A fitted parser is fitted again only if
        its training data are passed as `labelled`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     session = LabellingSession(["12 Main St", "7 Oak Rd"], Path(folder, "a.jsonl"), fields=["number"])
    ...     proposal = session.propose()
    ...     session.answer(proposal.index, [(0, 2, "number")])
    ...     (proposal.text, session.propose().text, session.n_answers)
    ('12 Main St', '7 Oak Rd', 1)
    """

    def __init__(
        self,
        texts: Any,
        path: str | os.PathLike[str],
        *,
        parser: RecordParser | None = None,
        labelled: Sequence[LabelledText] = (),
        fields: Sequence[str] = (),
        refit_every: int = 10,
    ) -> None:
        self.texts = list(dict.fromkeys(text for text in check_texts(texts, "texts") if tokenize(text)))
        self.path = Path(path)
        self._parser = RecordParser() if parser is None else parser
        self._is_fitted = hasattr(parser, "fields_")
        self._labelled = list(labelled)
        self._refit_every = 0 if self._is_fitted and not self._labelled else refit_every
        self._answers = _read_answers(self.path)
        answered = {example.text for example in self._answers}
        self._waiting = [i for i, text in enumerate(self.texts) if text not in answered]
        self._skipped: set[int] = set()
        self._n_new = 0
        names = [*fields, *(self._parser.fields_ if self._is_fitted else ())]
        names += [span[2] for example in (*self._labelled, *self._answers) for span in example.spans]
        self.fields = list(dict.fromkeys(names))
        self._parses: dict[int, Parse] = {}
        if not self._is_fitted:
            self._fit()
        self._rank()

    @property
    def n_answers(self) -> int:
        """Number of answers in the file."""
        return len(self._answers)

    @property
    def n_waiting(self) -> int:
        """Number of strings without an answer."""
        return len(self._waiting)

    @property
    def tokenizer(self) -> str:
        """Name of the tokenizer of the parser."""
        return self._parser.tokenizer

    def propose(self) -> Proposal | None:
        """Return the string whose parse is least certain, or None if every string has an answer or was skipped."""
        waiting = [i for i in self._waiting if i not in self._skipped]
        if not waiting:
            return None
        i = min(waiting, key=lambda index: (self._probability(index), index))
        parse = self._parses.get(i)
        spans = [] if parse is None else list(parse.labelled().spans)
        return Proposal(i, self.texts[i], spans, None if parse is None else parse.probability)

    def answer(self, index: int, spans: Any) -> None:
        """Append the spans of a string to the file; then fit the parser again if it is time to.

        Raises
        ------
        InvalidInputError
            If the string has an answer or does not exist, or a span is invalid; the file is then unchanged.
        """
        self._check_waiting(index)
        example = LabelledText(self.texts[index], check_spans(self.texts[index], spans))
        append_line(self.path, to_json_line(example))
        self._answers.append(example)
        self._waiting.remove(index)
        self.fields = list(dict.fromkeys([*self.fields, *(span[2] for span in example.spans)]))
        self._n_new += 1
        is_first_fit = not self._is_fitted and self._n_new >= FEWEST_TO_FIT
        if self._refit_every and (is_first_fit or self._n_new >= self._refit_every):
            self._fit()
            self._rank()

    def skip(self, index: int) -> None:
        """Propose a string no more in this session."""
        self._check_waiting(index)
        self._skipped.add(index)

    def _check_waiting(self, index: Any) -> None:
        if index not in self._waiting:
            raise InvalidInputError(
                f"string {index!r:.20} has an answer already, or does not exist. Label the string that was proposed."
            )

    def _probability(self, index: int) -> float:
        return self._parses[index].probability if index in self._parses else 0.0

    def _fit(self) -> None:
        """Fit the parser to labelled strings and answers, if there are enough."""
        examples = [*self._labelled, *self._answers]
        if sum(bool(example.spans) for example in examples) >= FEWEST_TO_FIT:
            self._parser = self._parser.fit(examples)
            self._is_fitted, self._n_new = True, 0

    def _rank(self) -> None:
        """Parse the strings without an answer."""
        if self._is_fitted and self._waiting:
            parses = self._parser.parse_many([self.texts[i] for i in self._waiting])
            self._parses = dict(zip(self._waiting, parses, strict=True))


def _read_answers(path: Path) -> list[LabelledText]:
    """Return the answers of an earlier session; remove an incomplete last line, which a crash can leave."""
    if not path.exists():
        return []
    check_regular(path)
    if path.stat().st_size == 0:
        return []
    content = path.read_bytes()
    complete, _, last = content.rpartition(b"\n")
    if last:
        try:
            json.loads(last)
            complete = content
        except ValueError:
            if not complete and last:
                raise FileFormatError(
                    f"{path.name} is not a JSON Lines file of labelled strings. Pass another file for the answers."
                ) from None
        write_bytes(path, complete + b"\n")
    return read_labelled(path, "jsonl")
