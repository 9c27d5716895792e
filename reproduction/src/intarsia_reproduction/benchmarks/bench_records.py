"""`intarsia bench records`: entities of a million records without labels, from a Parquet file, by DuckDB."""

from __future__ import annotations

from pathlib import Path

from intarsia._core.validation import check_number
from intarsia._files.atomic_file import temporary_folder
from intarsia_reproduction.benchmarks.measurement import PEAK_BYTES, Report, Row, bench_row, in_fresh_process

_MANY = 1_000_000  # records of the large row
_FEW = 50_000  # records that are compared by both engines
_F1 = "pairwise F1 of the entities"

_WRITE_CODE = """
import numpy as np
from intarsia._files.tables import quiet_database
from intarsia.datasets import make_customers
customers = make_customers({people}, random_state=710)
columns = {{name: np.array(values, dtype=object) for name, values in customers.columns.items() if name != "source"}}
columns["entity"] = np.asarray(customers.entity)
quiet_database().sql("select * from columns").write_parquet({path!r})
print("{{}}")
"""
_MEASURE_CODE = """
import json, time
from intarsia.clusters import EntityClusterer, SharedValues
# The e-mail address is made from the name and the city follows from the postcode: EM would count both twice.
comparisons = dict(first_name="jaro_winkler", last_name="jaro_winkler", street="token_overlap", postcode="exact",
                   birth_date="date", phone="jaro_winkler")
keys = ["phone"], ["birth_date", "last_name"], ["birth_date", "first_name"], ["birth_date", "postcode"], [
    "last_name", "postcode", "street"]
clusterer = EntityClusterer(comparisons, [SharedValues(columns) for columns in keys], engine={engine!r})
start, on_processor = time.perf_counter(), time.process_time()
entity = clusterer.fit_predict({path!r})
measured = dict(seconds=time.perf_counter() - start, processor_seconds=time.process_time() - on_processor,
                peak={peak}, records=len(entity), pairs=sum(clusterer.pairs_per_rule_.values()))
import numpy as np
from intarsia._files.tables import quiet_database
def n_pairs(labels):
    sizes = np.unique(labels, return_counts=True)[1].astype(float)
    return float((sizes * (sizes - 1) / 2).sum())
truth = quiet_database().read_parquet({path!r}).fetchnumpy()["entity"].astype(np.int64)
n_correct = n_pairs(truth * len(entity) + entity)
print(json.dumps(dict(measured, precision=n_correct / n_pairs(entity), recall=n_correct / n_pairs(truth),
                      f1=2 * n_correct / (n_pairs(entity) + n_pairs(truth)))))
"""


def bench_records(repeats: int = 5, *, report: Report | None = None, rows: list[Row] | None = None) -> list[Row]:
    """Measure the rows of `intarsia bench records`; takes some minutes.

    Every row has the keys that `bench_inference` describes. Each measurement runs once, in a fresh process; seconds are
    those of the processor, over all threads, since DuckDB uses all cores.

    Parameters
    ----------
    repeats : int
        Not used: every measurement runs once.
    report : callable, optional
        Called with one line of text before each measurement.
    rows : list, optional
        List to which each row is appended once it is measured, so that Ctrl-C keeps the finished rows.
    """
    check_number(repeats, "bench: repeats", low=1, integer=True)
    log: Report = report or (lambda line: None)
    rows = [] if rows is None else rows
    with temporary_folder() as folder:
        path = str(Path(folder, "records.parquet"))
        for n_records in (_FEW, _MANY):
            log(f"writing {n_records:,} records")
            in_fresh_process(_WRITE_CODE.format(people=n_records // 2, path=path))
            by_engine = {}
            for engine in ("duckdb", "memory") if n_records == _FEW else ("duckdb",):
                log(f"{n_records:,} records, engine={engine!r}")
                by_engine[engine] = in_fresh_process(_MEASURE_CODE.format(engine=engine, path=path, peak=PEAK_BYTES))
            rows.append(_row(n_records, by_engine))
    return rows


def _row(n_records: int, by_engine: dict[str, Row]) -> Row:
    """Return the row of one number of records."""
    ours = by_engine["duckdb"]
    fields: Row = {
        "ours_quality": ours["f1"],
        "quality_is": _F1,
        "ours_wall_seconds": ours["seconds"],
        "ours_peak_bytes": ours["peak"],
        "ours_precision": ours["precision"],
        "ours_recall": ours["recall"],
        "n_records": ours["records"],
        "n_pairs": ours["pairs"],
    }
    workload = f"{n_records:,} records from Parquet, five blocking rules: into entities without labels"
    if "memory" not in by_engine:
        return bench_row(workload, ours["processor_seconds"], wanted="< 6e+09 bytes", **fields)
    peer = by_engine["memory"]
    return bench_row(
        workload, ours["processor_seconds"], "engine='memory'", peer["processor_seconds"], comparison="ourselves",
        stopping="the same pairs, levels and entities", peer_quality=peer["f1"], peer_peak_bytes=peer["peak"],
        peer_wall_seconds=peer["seconds"], **fields,
    )  # fmt: skip
