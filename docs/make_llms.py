"""Write `docs/llms.txt`, a list of these pages for language models: `python docs/make_llms.py`.

The format is that of llmstxt.org: a title, a summary, then a link and a description of each page, by section. Sections
and order are those of the navigation. The description of a method is its summary; that of another page is in `LINES`,
or is the first sentence of the page. A test fails if the file is not up to date.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
_SUMMARY = """\
> A Python library and command-line program for structured prediction in which learning and inference are matched to
> each other: sequences, images, graphs, rules (PSL programs), entity resolution, counts of many walkers.

Estimators follow scikit-learn (`fit`, `predict`, `predict_marginals`, `score`); inference is
`intarsia.infer(graph, theta, method)` with one result type that says whether log Z is exact, a bound or an estimate.
Every code block of these pages is run by a test. `from intarsia import NAME` works for the most used
names; the others are in subpackages such as `intarsia.losses` (see api.md)."""

LINES = {
    "index.md": "what Intarsia is, first steps, how to read a result",
    "start/images.md": "first steps with `GridCRF`: from photographs to a fitted, saved model",
    "start/sequences.md": "first steps with `ChainCRF` and a global preference (energy) about a sequence",
    "start/records.md": "first steps with `EntityClusterer`: rows of a table into entities",
    "start/rules.md": "first steps with `Program` and `SoftLogic`: weighted and hard rules, why an atom has its value",
    "start/your_own_graph.md": "first steps with `infer`: marginals, best labellings and bounds of any factor graph",
    "guide/scikit_learn.md": "cross-validation, grid search, ready scorers, which common checks apply",
    "gallery.md": "ten short programs with their pictures",
    "choosing.md": "which inference method, loss, gradient and optimiser; what to do when it does not converge",
    "which_learner.md": "which learners are proven, or known to fail, with which approximate inference",
    "peers.md": "speed, memory and quality beside other libraries, as measured",
    "guide/graphs.md": "`FactorGraph`, `GraphBuilder`, layout of theta and mu, shapes, constraints, evidence",
    "guide/uai.md": "reading and writing models, evidence and solutions of the UAI competitions",
    "guide/command_line.md": "all commands of `intarsia`, their JSON and exit status",
    "guide/energies.md": "global preferences (energies): at most one, counts, dictionaries; learned weights psi",
    "guide/rules.md": "the language of rules, tables of facts, grounding, explanations, PSL files",
    "guide/hinge_mrf.md": "`HingeLossMRF`, `ConsensusADMM`: hinge potentials and linear constraints as arrays",
    "guide/paired_dual.md": "weights of rules, also with latent atoms: paired-dual learning, EM, latent SVM",
    "guide/chain_crf.md": "`ChainCRF`: features, partial labels, tag schemes, learners, files",
    "guide/grid_crf.md": "`GridCRF`: features of pixels and pairs, hidden labels, settings",
    "guide/graph_crf.md": "`GraphCRF`: several types of variables and factors of any scope, hidden variables",
    "guide/structured_perceptron.md": "`StructuredPerceptron`: steps after mistakes, with exact or relaxed inference",
    "guide/structured_svm.md": "`StructuredSVM`: margins, with a duality gap",
    "guide/sample_rank.md": "`SampleRank`: weights from the ranking of neighbouring states; worlds of your own",
    "guide/clusters.md": "clusterings with pair features of your own: worlds, proposers, decoders, posterior of pairs",
    "guide/diagnose.md": "`diagnose`, separability with proofs, mistake and PAC-Bayes bounds",
    "guide/collective.md": "`infer_flows`, `CollectiveChain`: flows of many walkers from noisy counts",
    "guide/entities.md": "`EntityClusterer`: blocking, comparisons, links, scores from other programs, measures",
    "guide/losses.md": "losses of marginals, likelihoods and their surrogates",
    "guide/gradients.md": "truncated, back-propagated, perturbation and implicit gradients through inference",
    "guide/fitting.md": "`RiskMinimizer`: optimisers, schedules, checkpoints, early stopping",
    "guide/image_features.md": "features of photographs and of pairs of pixels",
    "guide/data_sets.md": "what comes with the package, loaders for the papers' data, `intarsia reproduce`",
    "notation.md": "symbols and their names in code",
    "api.md": "reference of the public names that have no page of their own",
    "extending.md": "worked examples of an inference method, a loss, an energy and a proposer, with tests",
    "references.md": "papers behind the keys in docstrings",
}


def navigation() -> Iterator[tuple[str, str]]:
    """Yield section and page of each entry of the navigation, in order."""
    section = ""
    lines = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1].splitlines()
    for line in lines:
        if heading := re.fullmatch(r"  - ([^:]+):", line):
            section = heading[1]
        elif page := re.fullmatch(r" +- (\S+\.md)", line):
            yield section if line.startswith("      ") else "", page[1]


def title_and_line(page: str) -> tuple[str, str]:
    """Return the heading of a page and its description in one line."""
    from intarsia.inference.registry import method_class, method_names

    text = (DOCS / page).read_text(encoding="utf-8")
    title = text.split("\n", 1)[0].removeprefix("# ")
    name = Path(page).stem
    if name in method_names():
        return title, f'`infer(graph, theta, "{name}")`: {method_class(name).summary}'
    if page in LINES:
        return title, LINES[page]
    paragraph = next(part for part in text.split("\n\n")[1:] if part.strip() and part[0].isalpha())
    paragraph = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"\s+", " ", paragraph)).strip()
    sentence = re.match(r"(.*?[.?!:])(?= [A-Z`*]|$)", paragraph)
    return title, (sentence[1] if sentence else paragraph).rstrip(":")


def llms_text() -> str:
    """Return the text of the file."""
    lines, last = [f"# Intarsia\n\n{_SUMMARY}"], None
    for section, page in navigation():
        title, line = title_and_line(page)
        link = f"- [{title}]({page.removesuffix('.md')}.html): {line}"
        lines.append(link if section == last else f"\n## {section or 'Start here'}\n\n{link}")
        last = section
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (DOCS / "llms.txt").write_text(llms_text(), encoding="utf-8")
