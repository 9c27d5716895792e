"""Make the folder `cora_ie` from the Cora references (https://people.cs.umass.edu/~mccallum/data.html).

The file `tagged_references.txt` has references with marked fields, `<ref><author> ... </author> <title> ... </ref>`.
"""

from __future__ import annotations

import re
from pathlib import Path

from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.datasets.make.command import field_tokens, read_original, run, write_text


def make_cora_ie(original: Path, output: Path) -> None:
    """Write the published references, and a table of token and tag."""
    text = read_original(original)
    references = [field_tokens(inside) for inside in re.findall(r"<ref>(.*?)</ref>", text, flags=re.S)]
    if not references:
        raise InvalidInputError(f"{original} has no reference <ref> ... </ref>. Download it again.")
    blocks = ("".join(f"{token}\t{tag}\n" for token, tag, _ in reference) for reference in references)
    write_text(output / "cora_ie" / "tagged_references.txt.gz", text)
    write_text(output / "cora_ie" / "cora_ie.tsv.gz", "".join(block + "\n" for block in blocks))


if __name__ == "__main__":
    run(make_cora_ie, "tagged_references.txt from https://people.cs.umass.edu/~mccallum/data.html")
