"""Parser of record strings such as addresses, names and references: text in, fields with probabilities out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from intarsia._core.error_context import entry_point, warn_caller
from intarsia._core.html import ShownEstimator
from intarsia._core.predictions import PredictionList
from intarsia._core.registry import NamedParts, Parts
from intarsia._core.settings import Settings, check_fitted
from intarsia._core.transaction import SettingsOfFit, transaction
from intarsia._core.validation import check_number
from intarsia._files.saved_model import Arrays, Content, SavedModel
from intarsia.exceptions import InvalidInputError
from intarsia.sequences.constraints.rule import RULES, Rule
from intarsia.sequences.parsing.labelled_text import OUTSIDE, Span, check_labelled, spans_of, tags_of
from intarsia.sequences.parsing.parse import Fields, Parse, ParsedSpan, span_tuples
from intarsia.sequences.parsing.parser_model import Labelling, ParserModel, split_rules, warn_of_unknown_fields
from intarsia.sequences.parsing.preparation import Preparation, plain_words
from intarsia.sequences.parsing.token_features import FEATURES, TokenFeatures
from intarsia.sequences.parsing.tokens import Token, check_text, check_texts, find_tokenizer

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from intarsia.sequences.chain_crf import ChainCRF
    from intarsia.sequences.parsing.parse_scores import ParseScores
    from intarsia.sequences.regularization_path import L2Path

# With fewer strings, cross-validation says little, and a mild prior is used.
_FEWEST_TO_CHOOSE = 10
_L2_OF_FEW = 0.1
# Settings on which a fitted parser depends.
_MODEL_SETTINGS = ("rules", "features", "tokenizer", "gazetteers", "bio")


class RecordParser(NamedParts, SavedModel, ShownEstimator, Settings):
    """Parser of record strings: splits addresses, names, references or ingredients into fields with probabilities.

    Use it instead of usaddress, probablepeople, parserator or AnyStyle, with your own labelled strings. A tokenizer
    splits a text, feature templates describe the tokens, and a linear-chain conditional random field (`ChainCRF`)
    labels them; runs of a field become BIO tags inside. Rules say what is valid: a hard rule such as
    ``once("ZipCode")`` holds in every parse, a soft rule such as ``once("title", soft=True)`` is a preference whose
    weight is learned. A prediction never raises because of what it predicts.

    Parameters
    ----------
    rules : list of Rule
        Rules about the fields, from `intarsia.sequences`: `once`, `exactly_once`, `count`, `in_order`, `needs`,
        `not_together`, `each_side`, `when`, `one_of`. Hard rules hold in all predictions; soft rules are preferences.
    features : TokenFeatures or callable
        Feature templates; or a function from the list of words of a text to a list of features for each word (dicts or
        lists of strings, as in `ChainCRF`). A parser with a function cannot be saved.
    tokenizer : {"words", "whitespace", "usaddress", "characters"}
        How texts are split; see `tokenize`.
    gazetteers : dict of lists, optional
        Named lists of words or phrases, such as ``{"state": ["IL", "New York"]}``; membership is a feature.
    l2 : float or "auto"
        L2 regularization of the weights; "auto" chooses it by five-fold cross-validation of the likelihood along a
        warm-started path (`choose_l2`); fewer than 10 strings are too few for that, and l2 is 0.1.
    bio : bool
        Whether the first token of a field has a label of its own, so that two neighbouring spans of a field are
        possible and the start of a field is learned. Usually better than one label per field.
    min_count : int
        Minimum number of tokens with a feature; rarer features are ignored.
    random_state : int or Generator, optional
        Seed of the folds for ``l2="auto"``.
    n_jobs, verbose : optional
        Number of threads, and whether progress is shown.

    Attributes
    ----------
    fields_ : list of str
        Names of the fields, sorted.
    crf_ : ChainCRF
        The fitted model.
    l2_, l2_path_ : float, L2Path or None
        The regularization that was used, and the cross-validation that chose it.

    Examples
    --------
    >>> from intarsia import RecordParser
    >>> from intarsia.sequences import LabelledText
    >>> streets, cities = ["Main St", "Oak Ave", "High St", "Elm Rd"], ["Rome", "Oslo", "Bern", "Lima"]
    >>> labelled = [
    ...     LabelledText(f"{n} {street}, {city}", [(0, 2, "number"), (3, 3 + len(street), "street"),
    ...                                            (5 + len(street), 9 + len(street), "city")])
    ...     for n, street, city in zip(range(10, 90), 20 * streets, sorted(20 * cities))
    ... ]
    >>> parser = RecordParser(l2=0.1).fit(labelled)
    >>> parse = parser.parse("77 Park St, Paris")
    >>> [(span.field, span.text) for span in parse.spans]
    [('number', '77'), ('street', 'Park St'), ('city', 'Paris')]
    >>> parse.probability > 0.5
    True
    >>> parser.tag("77 Park St, Paris")
    {'number': '77', 'street': 'Park St', 'city': 'Paris'}
    """

    _parts: ClassVar[Parts] = {"rules": RULES, "features": FEATURES}
    _learned: ClassVar[str | None] = "fields_"

    fields_: list[str]
    _model: ParserModel
    _prepare: Preparation

    def __init__(
        self,
        *,
        rules: Rule | Sequence[Rule] = (),
        features: str | TokenFeatures | Callable[[list[str]], list[Any]] = "token_features",
        tokenizer: str = "words",
        gazetteers: Mapping[str, Iterable[str]] | None = None,
        l2: float | str = "auto",
        bio: bool = True,
        min_count: int = 1,
        random_state: int | np.random.Generator | None = 0,
        n_jobs: int | None = None,
        verbose: bool | None = None,
    ) -> None:
        self.rules = rules
        self.features = features
        self.tokenizer = tokenizer
        self.gazetteers = gazetteers
        self.l2 = l2
        self.bio = bio
        self.min_count = min_count
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ---------------------------------------------------------------- fitting

    @entry_point
    @transaction
    def fit(self, X: Any, y: Any = None) -> RecordParser:
        """Fit the parser to labelled strings.

        Parameters
        ----------
        X : list of LabelledText, or list of str
            Labelled strings, as `read_labelled` returns them; or strings, with their spans as y.
        y : list of lists of (start, end, field), optional
            Character spans of each string.

        Raises
        ------
        InvalidInputError
            If the training set is empty, spans are invalid, or rules contradict each other.

        Warns
        -----
        UserWarning
            If a span begins or ends inside a word, or a rule names a field that does not occur.
        """
        from intarsia.sequences.chain_crf import ChainCRF

        examples = check_labelled(X, y)
        if not any(example.spans for example in examples):
            problem = "the training set is empty" if not examples else "no string of the training set has a field"
            raise InvalidInputError(f"{problem}. Pass labelled strings, for example those that read_labelled returns.")
        self._check_settings()
        prepare = self._preparation()
        words, rows, tags = [], [], []
        misaligned: list[tuple[str, Span]] = []
        for example in examples:
            tokens, features = prepare(example.text)
            labels, spans = tags_of(example.text, tokens, example.spans, bio=self.bio)
            misaligned += [(example.text, span) for span in spans]
            if tokens:
                words.append(plain_words(tokens))
                rows.append(features)
                tags.append(labels)
        fields = sorted({_field(label, self.bio) for labels in tags for label in labels} - {OUTSIDE})
        if not fields:
            raise InvalidInputError(
                f"no field covers a token of tokenizer={self.tokenizer!r}. Check the spans, or use another tokenizer."
            )
        _warn_misaligned(misaligned, self.tokenizer)
        rules = self._rules()
        warn_of_unknown_fields(rules, fields)
        hard, soft = split_rules(rules, self.tokenizer)
        crf = ChainCRF(
            classes=_classes(tags, fields, self.bio),
            scheme="bio" if self.bio else None,
            min_count=self.min_count,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            verbose=self.verbose,
        )
        l2 = _L2_OF_FEW if self.l2 == "auto" and len(rows) < _FEWEST_TO_CHOOSE else self.l2
        if soft:
            crf.set_params(energies=[rule.energy() for rule in soft])
        # The weights are fitted without hard rules, because labelled strings often violate them.
        crf.set_params(l2=l2).fit(rows, tags)
        model = ParserModel(crf, hard, soft, self.bio)
        model.check_rules(words)
        self._store(model, prepare)
        self.fields_ = fields
        return self

    def _check_settings(self) -> None:
        if self.l2 != "auto":
            check_number(self.l2, "l2", low=0.0)
        if not isinstance(self.bio, bool):
            raise InvalidInputError(f"bio must be True or False, got {self.bio!r:.60}.")

    def _rules(self) -> list[Rule]:
        """Return the rules as a list; raise for an item that is no rule."""
        if isinstance(self.rules, (str, bytes, Mapping)):
            raise InvalidInputError(
                f"rules must be a list of rules such as [once('ZipCode')], got {type(self.rules).__name__} "
                f"{self.rules!r:.60}. Create rules with the functions of intarsia.sequences."
            )
        rules = [self.rules] if isinstance(self.rules, Rule) else list(self.rules or ())
        for i, rule in enumerate(rules):
            if not isinstance(rule, Rule):
                raise InvalidInputError(
                    f"rules[{i}] must be a rule such as once('ZipCode'), got {type(rule).__name__} {rule!r:.60}. "
                    f"Create it with a function of intarsia.sequences."
                )
        return rules

    def _preparation(self) -> Preparation:
        """Return the function from a text to its tokens and features."""
        features = self.features if callable(self.features) else self._part("features")
        return Preparation(self.tokenizer, features, self.gazetteers)

    def _store(self, model: ParserModel, prepare: Preparation) -> None:
        self._model, self._prepare = model, prepare
        self._settings_of_fit = SettingsOfFit(self, _MODEL_SETTINGS)

    # ---------------------------------------------------------------- predictions

    @property
    def l2_(self) -> float:
        """The L2 regularization that was used."""
        return float(self.crf_.l2_ or 0.0)

    @property
    def l2_path_(self) -> L2Path | None:
        """Held-out scores of the values of l2 from which "auto" chose; None if l2 is a number."""
        path: L2Path | None = self.crf_.l2_path_
        return path

    @property
    def crf_(self) -> ChainCRF:
        """The fitted chain CRF, with its weights, marginals and explanations."""
        check_fitted(self, "fields_")
        return self._model.crf

    @entry_point
    def parse(self, text: str, n_alternatives: int = 3) -> Parse:
        """Return the fields of a text with their probabilities, and the next best parses.

        Parameters
        ----------
        text : str
            The text. A text without tokens has no fields, and its parse has probability 1. In a text of more than 500
            tokens, the probabilities of spans are those without the hard rules.
        n_alternatives : int
            Number of other parses.

        Examples
        --------
        See `RecordParser`.
        """
        return self._parses([check_text(text, "text")], n_alternatives)[0]

    @entry_point
    def parse_many(self, texts: Any, n_alternatives: int = 0) -> list[Parse]:
        """Return the parse of each text; faster than a call of `parse` for each.

        Parameters
        ----------
        texts : list of str
            The texts.
        n_alternatives : int
            Number of other parses of each text.
        """
        return self._parses(check_texts(texts, "texts"), n_alternatives)

    @entry_point
    def tag(self, text: str) -> Fields:
        """Return the value of each field of a text as a dict, as `usaddress.tag` does, but never raise for repeats.

        The value of a field is the text of its span, with runs of white space replaced by a space and ``" ,;"`` removed
        from its ends. If a field has several spans, their texts are joined with a space, and the attribute `repeated`
        of the result names the field.

        Parameters
        ----------
        text : str
            The text.
        """
        return self._parses([check_text(text, "text")], 0, with_probabilities=False)[0].fields()

    @entry_point
    def predict(self, X: Any) -> list[list[Span]]:
        """Return the spans (start, end, field) of each text, in the form of y in `fit`."""
        parses = self._parses(check_texts(X), 0, with_probabilities=False)
        return PredictionList([span_tuples(parse) for parse in parses])

    @entry_point
    def evaluate(self, X: Any, y: Any = None) -> ParseScores:
        """Compare predicted with true spans: precision, recall and F1 of exact spans, and fraction of exact parses.

        Parameters
        ----------
        X, y
            Labelled strings, as in `fit`.
        """
        from intarsia.sequences.parsing.parse_scores import score_parses

        examples = check_labelled(X, y)
        parses = self._parses([example.text for example in examples], 0, with_probabilities=False)
        split = find_tokenizer(self.tokenizer)
        return score_parses(examples, [parse.labelled() for parse in parses], split)

    @entry_point
    def score(self, X: Any, y: Any = None) -> float:
        """Return the F1 of exact spans."""
        return self.evaluate(X, y).f1

    def _parses(self, texts: list[str], n_alternatives: int, with_probabilities: bool = True) -> list[Parse]:
        """Return the parse of each text; texts without tokens have an empty parse with probability 1."""
        check_fitted(self, "fields_")
        self._settings_of_fit.check(self)
        check_number(n_alternatives, "n_alternatives", low=0, high=10_000, integer=True)
        inputs = [self._prepare(text) for text in texts]
        index = [i for i, (tokens, _) in enumerate(inputs) if tokens]
        parses = [Parse(text) for text in texts]
        if not index:
            return parses
        rows = [inputs[i][1] for i in index]
        words = [plain_words(inputs[i][0]) for i in index]
        if with_probabilities:
            ranked = self._model.ranked(rows, words, n_alternatives + 1, self.n_jobs)
        else:
            ranked = [[labelling] for labelling in self._model.best(rows, words, self.n_jobs)]
        for i, labellings in zip(index, ranked, strict=True):
            best, *others = [
                Parse(
                    texts[i],
                    tuple(_parsed_spans(texts[i], inputs[i][0], labelling)),
                    labelling.probability,
                    (),
                    labelling.violations,
                )
                for labelling in labellings
            ]
            parses[i] = replace(best, alternatives=tuple(others))
        return parses

    def __sklearn_tags__(self) -> Tags:
        """Return the scikit-learn tags: X is a list of strings, y a list of spans for each string."""
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array, tags.input_tags.string = True, False, True
        tags.target_tags.required = False
        return tags

    # ---------------------------------------------------------------- files

    def _to_file(self) -> Content:
        if callable(self.features):
            raise InvalidInputError(
                "features is a function, which cannot be saved without running code at loading. Use TokenFeatures, or "
                "save crf_ and compute the features before it."
            )
        content, arrays = self._model.to_file()
        return {"fields": self.fields_, **content}, arrays

    def _from_file(self, fields: dict[str, Any], arrays: Arrays) -> None:
        hard, soft = split_rules(self._rules(), self.tokenizer)
        self.fields_ = [str(field) for field in fields["fields"]]
        self._store(ParserModel.from_file(fields, arrays, hard, soft, self.bio), self._preparation())


def _field(label: str, bio: bool) -> str:
    return label[2:] if bio and label != OUTSIDE else label


def _classes(tags: list[list[str]], fields: list[str], bio: bool) -> list[str]:
    """Return the labels of the model; with BIO tags, every field may have several tokens."""
    labels = {label for row in tags for label in row} | {OUTSIDE}
    if bio:
        labels |= {f"{prefix}-{field}" for field in fields for prefix in "BI"}
    return sorted(labels)


def _parsed_spans(text: str, tokens: list[Token], labelling: Labelling) -> Iterator[ParsedSpan]:
    for first, last, field, probability in labelling.segments:
        ((start, end, name),) = spans_of(tokens, [(first, last, field)])
        yield ParsedSpan(name, start, end, text[start:end], float(probability))


def _warn_misaligned(misaligned: list[tuple[str, Span]], tokenizer: str) -> None:
    """Warn about spans that begin or end inside a token, with the first of them."""
    if not misaligned:
        return
    text, (start, end, field) = misaligned[0]
    counts = Counter(span[2] for _, span in misaligned)
    warn_caller(
        f"{len(misaligned)} spans begin or end inside a token of tokenizer={tokenizer!r} and were moved to the "
        f"nearest tokens, most often of the field {counts.most_common(1)[0][0]!r}; the first is {field!r} "
        f"{text[start:end]!r:.60} in {text!r:.80}. Correct the spans, or use another tokenizer.",
        UserWarning,
    )
