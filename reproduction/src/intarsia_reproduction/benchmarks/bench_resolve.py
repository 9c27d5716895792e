"""`intarsia bench resolve`: entities from scored pairs without labels, compared with dedupe and connected components.

All programs get the same scored pairs. dedupe and connected components get the threshold with the largest F1 on the
very records that they are measured on, which is in their favour; `resolve` calibrates the scores by their agreement
(`calibrate="auto"`) where it is compared with them. Only the step from scores to
entities is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from intarsia._core.validation import IntArray, check_number
from intarsia.clusters import Resolution, best_threshold, connected_components, resolve
from intarsia_reproduction.benchmarks.bench_clusters import Dedupe, qualities
from intarsia_reproduction.benchmarks.measurement import (
    PEAK_BYTES,
    Report,
    Row,
    bench_row,
    fastest_in_turns,
    in_fresh_process,
    one_processor,
    processor_seconds,
)
from intarsia_reproduction.benchmarks.peers import find_peer
from intarsia_reproduction.workloads.cluster_workloads import ScoredEdges, scored_edges

_RECORDS = ((5_000, False), (20_000, True))  # number of records, and whether they are in blocks of 40
_MOST_REPEATS = 3
_GIANT = 20_000  # records of one component with 100,000 pairs
_MANY = 2_000_000  # records of ten million pairs
_F1 = "pairwise F1 of the entities found"


def bench_resolve(repeats: int = 5, *, report: Report | None = None, rows: list[Row] | None = None) -> list[Row]:
    """Measure the rows of `intarsia bench resolve`; takes some minutes.

    Every row has the keys that `bench_inference` describes; values of a peer that is not installed are None. Times are
    processor seconds of one thread, except for the two largest rows, which are timed by wall clock.

    Parameters
    ----------
    repeats : int
        Number of timed runs of each program; the fastest counts. The two largest rows are run once.
    report : callable, optional
        Called with one line of text before each measurement.
    rows : list, optional
        List to which each row is appended once it is measured, so that Ctrl-C keeps the finished rows.
    """
    check_number(repeats, "bench: repeats", low=1, integer=True)
    log: Report = report or (lambda line: None)
    rows = [] if rows is None else rows
    with one_processor():
        for n_records, in_blocks in _RECORDS:
            log(f"{n_records:,} records compared with dedupe and connected components")
            rows += _compare(n_records, in_blocks, min(repeats, _MOST_REPEATS))
    log(f"one component of {_GIANT:,} records")
    rows.append(_giant())
    log(f"{_MANY:,} records, Parquet to Parquet")
    rows.append(_many())
    return rows


def _compare(n_records: int, in_blocks: bool, repeats: int) -> list[Row]:
    """Return a row beside dedupe and a row beside connected components."""
    edges = scored_edges(n_records, 707, in_blocks=in_blocks)
    results, components = list[Resolution](), list[IntArray]()
    threshold = best_threshold(n_records, edges.pairs, edges.probability, edges.truth, "pairwise")[0]

    def run_ours() -> None:
        results.append(resolve(edges.table, list(range(n_records)), calibrate="auto"))

    def run_components() -> None:
        components.append(connected_components(n_records, edges.pairs, edges.probability, threshold))

    timed: dict[str, Callable[[], float]] = {
        "ours": lambda: processor_seconds(run_ours),
        "components": lambda: processor_seconds(run_components),
    }
    dedupe_fields: Row = {}
    with ExitStack() as stack:
        peer = find_peer("dedupe")
        if peer is not None:
            dedupe = Dedupe(stack.enter_context(peer))
            dedupe_fields["peer_version"] = dedupe.load(edges)
            cut = dedupe.best_threshold()
            dedupe_fields["peer_quality"], dedupe_fields["peer_b_cubed_f1"] = dedupe.qualities(cut)
            timed["dedupe"] = lambda: dedupe.seconds(cut)
        best = fastest_in_turns(timed, repeats)
    pairwise, b_cubed = qualities(edges.truth, results[-1].labels)
    workload = _workload(edges, "in blocks of 40" if in_blocks else "tied together")
    ours: Row = {"ours_quality": pairwise, "quality_is": _F1, "ours_b_cubed_f1": b_cubed, "ours_gap": results[-1].gap}
    stopping = "each when its own algorithm ends; the qualities differ"
    other_quality = qualities(edges.truth, components[-1])
    return [
        bench_row(
            workload, best["ours"], "dedupe, its clustering at the best threshold", best.get("dedupe"),
            comparison="own rules", stopping=stopping, **ours, **dedupe_fields,
        ),
        bench_row(
            workload, best["ours"], "connected components at the best threshold", best["components"],
            comparison="own rules", stopping=stopping, peer_quality=other_quality[0],
            peer_b_cubed_f1=other_quality[1], **ours,
        ),
    ]  # fmt: skip


def _workload(edges: ScoredEdges, structure: str) -> str:
    """Return the description of a workload."""
    return f"{edges.n_records:,} records {structure}, {len(edges.pairs):,} scored pairs: into entities without labels"


_GIANT_CODE = """
import json, time
from intarsia.clusters import resolve
from intarsia_reproduction.workloads.cluster_workloads import noisy_component
edges = noisy_component({records}, 5, 3, 708)
resolve({{name: values[:2000] for name, values in edges.items()}}, calibrate=None, time_limit=5.0)  # compiles kernels
start, on_processor = time.perf_counter(), time.process_time()
result = resolve(edges, calibrate=None, time_limit=60.0)
print(json.dumps(dict(seconds=time.perf_counter() - start, processor_seconds=time.process_time() - on_processor,
                      peak={peak}, pairs=result.n_pairs, gap=result.gap)))
"""


def _giant() -> Row:
    """Resolve one noisy component of 100,000 pairs."""
    measurement = in_fresh_process(_GIANT_CODE.format(records=_GIANT, peak=PEAK_BYTES))
    return bench_row(
        f"one component of {_GIANT:,} records, {measurement['pairs']:,} scored pairs, on the wall",
        measurement["seconds"],
        wanted="< 60 s, gap < 0.02",
        ours_quality=measurement["gap"],
        quality_is="gap to the upper bound, relative",
        ours_processor_seconds=measurement["processor_seconds"],
        ours_peak_bytes=measurement["peak"],
    )


_MANY_CODE = """
import json, tempfile, time
from pathlib import Path
import numpy as np
from intarsia.cli.cluster_files import write_table_file
from intarsia.clusters import resolve
from intarsia_reproduction.workloads.cluster_workloads import write_many_pairs
with tempfile.TemporaryDirectory() as folder:
    pairs = Path(folder, "pairs.parquet")
    write_many_pairs(pairs, {records}, 709)
    start, on_processor = time.perf_counter(), time.process_time()
    result = resolve(pairs, calibrate="auto")
    write_table_file(Path(folder, "entities.parquet"), result.table, Path("none.csv"), "")
    print(json.dumps(dict(seconds=time.perf_counter() - start, processor_seconds=time.process_time() - on_processor,
                          peak={peak}, pairs=result.n_pairs, gap=float(np.median(result.components["gap"])))))
"""


def _many() -> Row:
    """Resolve ten million pairs from Parquet to Parquet, in a fresh process."""
    measurement = in_fresh_process(_MANY_CODE.format(records=_MANY, peak=PEAK_BYTES))
    return bench_row(
        f"{_MANY:,} records, {measurement['pairs']:,} scored pairs, Parquet to Parquet, on the wall",
        measurement["seconds"],
        wanted="< 600 s, < 6e+09 bytes, median gap < 0.001",
        ours_quality=measurement["gap"],
        quality_is="median gap of the components, relative",
        ours_processor_seconds=measurement["processor_seconds"],
        ours_peak_bytes=measurement["peak"],
    )
