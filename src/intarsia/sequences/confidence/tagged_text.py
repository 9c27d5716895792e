"""Pictures of tagged text with confidences, for notebooks (HTML), terminals and plain text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from intarsia.sequences.confidence.segments import Segment

if TYPE_CHECKING:
    from rich.text import Text

# Colours that are different for most kinds of colour-blindness, as red, green, blue.
_COLOURS = (
    (68, 119, 170), (238, 119, 51), (34, 136, 51), (170, 51, 119), (102, 204, 238), (204, 187, 68), (187, 85, 102),
    (0, 153, 136), (153, 85, 187), (136, 136, 136),
)  # fmt: skip


@dataclass(frozen=True)
class TaggedText:
    """Words of one sequence with their segments; shown with colours in notebooks and terminals.

    Attributes
    ----------
    words : list of str
        Words of the sequence.
    segments : list of Segment
        Segments with labels and probabilities; stronger colours mean higher probabilities.

    Examples
    --------
    >>> print(TaggedText(["12", "Main", "Street"], [Segment(0, 1, "number", 0.98), Segment(1, 3, "street", 0.774)]))
    [12 | number 0.98] [Main Street | street 0.77]
    """

    words: list[str]
    segments: list[Segment]

    def _spans(self) -> list[tuple[str, Segment | None]]:
        """Return the text of each segment, and of the words between segments."""
        spans: list[tuple[str, Segment | None]] = []
        end = 0
        for segment in self.segments:
            if segment.start > end:
                spans.append((" ".join(self.words[end : segment.start]), None))
            spans.append((" ".join(self.words[segment.start : segment.end]), segment))
            end = segment.end
        if end < len(self.words):
            spans.append((" ".join(self.words[end:]), None))
        return spans

    def _colours(self) -> dict[object, tuple[int, int, int]]:
        labels = sorted({str(segment.label) for segment in self.segments})
        return {label: _COLOURS[i % len(_COLOURS)] for i, label in enumerate(labels)}

    def __str__(self) -> str:
        return " ".join(
            text if segment is None else f"[{text} | {segment.label} {segment.probability:.2f}]"
            for text, segment in self._spans()
        )

    def _repr_html_(self) -> str:
        colours = self._colours()
        pieces = []
        for text, segment in self._spans():
            if segment is None:
                pieces.append(f'<span style="padding:.1em .2em">{escape(text)}</span>')
                continue
            red, green, blue = colours[str(segment.label)]
            strength = 0.1 + 0.5 * segment.probability
            pieces.append(
                f'<span title="{escape(str(segment.label))}: probability {segment.probability:.3f}" style="display:'
                f"inline-block;margin:.15em;padding:.1em .35em;border-radius:.3em;background:rgba({red},{green},{blue},"
                f'{strength:.2f});border-bottom:2px solid rgb({red},{green},{blue})">{escape(text)}'
                f'<sub style="opacity:.8;margin-left:.4em">{escape(str(segment.label))} {segment.probability:.2f}</sub>'
                f"</span>"
            )
        return f'<div style="line-height:2;color:inherit;font:inherit">{" ".join(pieces)}</div>'

    def __rich__(self) -> Text:
        from rich.text import Text

        colours = self._colours()
        line = Text()
        for i, (text, segment) in enumerate(self._spans()):
            line.append(" " if i else "")
            if segment is None:
                line.append(text)
                continue
            style = f"rgb({','.join(map(str, colours[str(segment.label)]))})"
            line.append(text, style=f"{style} bold" if segment.probability >= 0.9 else style)
            line.append(f"[{segment.label} {segment.probability:.2f}]", style=style)
        return line


def as_words(words: Sequence[str] | None, n: int) -> list[str]:
    """Return the words of a sequence; without words, the numbers of the positions."""
    return [str(t) for t in range(n)] if words is None else [str(word) for word in words]
