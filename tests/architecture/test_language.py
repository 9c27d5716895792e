"""Docstrings, messages, names and pages are written in plain English, in the words that people of this field use.

Run it as a program to list the violations in some files: ``python tests/architecture/test_language.py docs src``.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from intarsia import exceptions

ROOT = Path(__file__).parents[2]
CODE = ["src/intarsia", "reproduction/src", "examples", "tests", "reproduction/tests", "docs"]
PAGES = ["docs", "reproduction", "README.md", "CONTRIBUTING.md", "SECURITY.md"]
# Where names and summaries are checked too; tests are named by what they check, and their helpers are short.
LIBRARY = ["src/intarsia", "reproduction/src", "examples"]

# A phrase of the old language, and the words to use instead.
BANNED = {
    r"cannot be meant|what is meant": "invalid, out of range, mismatched",
    r"what does not fit": "mismatched",
    r"\b(?:is|are|was|were|be|been|as) told\b|\btold (?:by|of|that|apart)\b|\btells\b": "reported, shown",
    r"\bshares? of\b": "fraction of, proportion of",
    r"\bwhole numbers?\b": "integer",
    r"\btruth values?\b": "score in [0, 1]; True or False",
    r"\banew\b|\bonce more\b": "again",
    r"\bthe way (?:back|forward)\b|\bon the way back\b": "backward pass, forward pass",
    r"\bwishes\b|preferences about the whole": "global constraints, global preferences (energies)",
    r"slips? of the pen": "typo",
    r"takes?[ _]heart|find peace|come to rest|comes to rest": "converge",
    r"\bin words\b": "as a string, as text for people",
    r"\bmay be had\b|\bto be had\b|\bcan be had\b": "is available",
    r"\bnothing is lost\b": "the data are unchanged",
    r"\bof (?:its|their) own making\b": "made by",
    r"\bmakes? itself felt\b|\bhas its say\b|\bhave their say\b": "has an effect",
    r"\bas it (?:comes|stands|travels)\b": "unchanged",
    r"\bin one breath\b|\bat heart\b|\bby heart\b": "plain words",
    r"\bno word of\b|\bwithout a word\b": "without a message",
}
# The glossary quotes the words of other libraries.
QUOTES_OTHERS = {"docs/glossary.md"}
SUMMARIES = re.compile(r"(?:What|The same|Those|Everything|As it|As they|One more|Some|The rest)\b")
FEWEST_WORDS = 3

# Names that describe how a value came to be, or where it stands, instead of what it is.
VAGUE_NAMES = frozenset(
    """
    able about across along apart arrived asked at begun both cached checked chosen counted decided declared done
    down drawn each filled finished found gained given gone got held here into joined kept known laid later
    learned least left listed made marked measured merged met mine missed more most moved named needed now of on
    one ordered own part picked placed prepared pulled reached received reduced refused returned said same seen
    settled shown since spare still stored taken there thin told touched tried turned up used wanted what which
    wrapped written
    """.split()  # noqa: SIM905
)
# `left` beside `right` is a side, not what remains.
SIDES = {"left": "right"}

# A sentence that begins with one of these says what to do next.
_VERBS = """
    Add Allow Ask Build Call Cast Change Check Choose Close Combine Compare Compute Convert Copy Correct Create
    Cut Declare Decompress Define Delete Describe Did_you_mean Divide Download Drop Encode Export Fill Fit Fix
    Free Give Increase Install Join Keep Label Leave Let List Load Lower Make Mark Merge Move Name Normalise
    Normalize Observe Open Order Pass Pick Provide Put Quote Raise Read Recreate Reduce Relax Remove Rename Repeat
    Replace Report Rerun Rescale Restart Restore Run Save Scale See Select Set Shorten Sort Specify Split Start
    State Subtract Take Train Try Turn Unpack Upgrade Use Weight Wrap Write
""".split()  # noqa: SIM905
REMEDIES = re.compile(
    r"(?:^|[.;:,(]\s+|\b(?:or|and|then|to) )(?:" + "|".join(_VERBS).replace("_", " ") + r")\b", re.IGNORECASE
)
# Words that already say which values are valid.
EXPECTATIONS = re.compile(
    r"\bmust\b|\bexpected?\b|\bexpects\b|\bneeds?\b|\brequires?\b|\bat (?:least|most)\b|\bshould\b|Known:|\{known",
    re.IGNORECASE,
)
ERRORS = {name for name, value in vars(exceptions).items() if isinstance(value, type) and issubclass(value, Exception)}
ERRORS |= {"NotFittedError"}


def files_in(folders: list[str], suffix: str) -> list[Path]:
    """Return the files with this suffix in folders of the repository, sorted; a path of a file stands for itself."""
    paths = [ROOT / folder for folder in folders]
    return sorted(
        path
        for base in paths
        for path in (base.rglob(f"*{suffix}") if base.is_dir() else [base])
        if path.suffix == suffix and path.name != Path(__file__).name and "results" not in path.parts
    )


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line number and text of each string and comment of a Python file, or of each line of a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), start=1)
        return
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in kinds:
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, line


def banned_phrases(path: Path) -> list[str]:
    """List the phrases of the old language in a file, with the words to use instead."""
    return [
        f"line {number}: {match.group(0)!r}; write: {instead}"
        for number, line in prose_of(path)
        for pattern, instead in BANNED.items()
        for match in re.finditer(pattern, line, re.IGNORECASE)
    ]


def vague_summaries(tree: ast.Module) -> list[str]:
    """List docstrings whose first line does not make sense alone."""
    problems = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            summary = (ast.get_docstring(node) or "").partition("\n")[0]
            if summary and (SUMMARIES.match(summary) or len(summary.split()) < FEWEST_WORDS):
                problems.append(f"line {getattr(node, 'lineno', 1)}: summary {summary!r}; say what it returns or does")
    return problems


def assigned_names(function: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of every variable, argument and loop variable."""
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def vague_names(tree: ast.Module) -> list[str]:
    """List variables named by how their value came to be instead of what it is."""
    names = list(assigned_names(tree))
    present = {name for _, name in names}
    return [
        f"line {line}: variable {name!r}; name what it holds"
        for line, name in names
        if name in VAGUE_NAMES and SIDES.get(name) not in present
    ]


def message_of(call: ast.Call) -> str | None:
    """Return the text of an error, without the values that are filled in; None where it is not written in the call."""
    if not call.args:
        return None
    if not isinstance(call.args[0], ast.Constant | ast.JoinedStr):
        return None
    # A variable called `remedy` stands for a sentence that says what to do.
    names = ["Use it" for node in ast.walk(call.args[0]) if isinstance(node, ast.Name) and node.id == "remedy"]
    pieces = [node for node in ast.walk(call.args[0]) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return ". ".join([*(piece.value for piece in pieces), *names])


def messages_without_remedy(tree: ast.Module) -> list[str]:
    """List errors that say neither which values are valid nor what to do."""
    problems = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            message = message_of(node.exc) if node.exc.func.id in ERRORS else None
            is_own_text = message is not None and len(re.findall(r"[a-z]{2,}", message)) >= FEWEST_WORDS
            if is_own_text and not REMEDIES.search(message) and not EXPECTATIONS.search(message):
                problems.append(f"line {node.lineno}: no remedy in {message!r:.120}")
    return problems


def problems_of(path: Path) -> list[str]:
    """List every violation in a file."""
    problems = [] if relative(path) in QUOTES_OTHERS else banned_phrases(path)
    if path.suffix == ".py" and any((ROOT / folder) in path.parents for folder in LIBRARY):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        problems += vague_summaries(tree) + vague_names(tree) + messages_without_remedy(tree)
    return problems


def relative(path: Path) -> str:
    """Return the path from the root of the repository, as the id of a test."""
    return path.resolve().relative_to(ROOT).as_posix()


ALL_FILES = [*files_in(CODE, ".py"), *files_in(PAGES, ".md")]


@pytest.mark.parametrize("path", ALL_FILES, ids=relative)
def test_plain_english(path):
    assert problems_of(path) == []


def test_planted_violations_are_listed():
    tree = ast.parse(
        'def f(found):\n    "What is left."\n    raise InvalidInputError(f"{found} is odd.")\n\n'
        'def g(labels):\n    "Return the labels."\n    raise InvalidInputError("labels is empty. Pass one label.")\n'
    )
    assert len(vague_summaries(tree)) == len(vague_names(tree)) == len(messages_without_remedy(tree)) == 1


def test_banned_phrases_are_listed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("The share of labels is told apart once more.\nA fraction of the labels.\n")
    assert [line.partition(":")[0] for line in banned_phrases(page)] == ["line 1"] * 3


if __name__ == "__main__":
    targets = sys.argv[1:] or [*CODE, *PAGES]
    for target in [*files_in(targets, ".py"), *files_in(targets, ".md")]:
        for problem in problems_of(target):
            sys.stdout.write(f"{relative(target)}: {problem}\n")
