"""Make the folder `umass_citation` from the UMass citation field extraction data (Anzaroot and McCallum 2013).

It is published at https://sites.google.com/a/iesl.cs.umass.edu/home/data/umasscitationfield. The files `training.docs`,
`dev.docs` and `testing.docs` have one reference per line, with nested fields as in `<authors> <person> ... </person>`.
"""

from __future__ import annotations

from pathlib import Path

from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.datasets.make.command import field_tokens, read_original, run, write_text


def make_umass_citation(original: Path, output: Path) -> None:
    """Write the published references, and a table of token, tag of the innermost field and path of the fields."""
    texts = {name: read_original(original / f"{name}.docs") for name in ("training", "dev", "testing")}
    for name, text in texts.items():
        references = [field_tokens(line) for line in text.split("\n") if line.strip()]
        if not any(tag != "O" for reference in references for _, tag, _ in reference):
            raise InvalidInputError(f"{name}.docs has no reference with fields such as <title>. Download it again.")
        blocks = ("".join("\t".join(row) + "\n" for row in reference) for reference in references)
        write_text(output / "umass_citation" / f"{name}.docs.gz", text)
        write_text(output / "umass_citation" / f"{name}.tsv.gz", "".join(block + "\n" for block in blocks))


if __name__ == "__main__":
    run(make_umass_citation, "folder with training.docs, dev.docs and testing.docs of the UMass citation data")
