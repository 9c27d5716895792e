"""`intarsia cluster resolve`: scored pairs in, entities out; Ctrl-C keeps the best result; bad files write nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import duckdb
import numpy as np
import pandas as pd
import pytest

from intarsia.cli import main
from intarsia.clusters import resolve
from intarsia.clusters.resolution import correlation

EDGES = {
    "id1": ["a", "a", "b", "c", "d", "d", "e", "b"],
    "id2": ["b", "c", "c", "d", "e", "f", "f", "d"],
    "log_odds": [3.0, 2.0, 4.0, 1.0, 3.0, 3.0, 3.0, -4.0],
}
ENTITIES = ["a", "a", "a", "d", "d", "d"]


@pytest.fixture
def run(capsys):
    """Run `intarsia cluster resolve`: exit code, stdout, stderr."""

    def call(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main(["cluster", "resolve", *map(str, arguments)])
        out, err = capsys.readouterr()
        return stopped.value.code, out, err

    return call


def write(path, columns):
    frame = pd.DataFrame(columns)
    if path.suffix == ".parquet":
        duckdb.from_df(frame).write_parquet(str(path))
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_pairs_to_entities(run, tmp_path, suffix):
    pairs = write(tmp_path / f"pairs{suffix}", EDGES)
    output, certificate = tmp_path / f"entities{suffix}", tmp_path / "components.csv"
    code, out, err = run(pairs, "-o", output, "--components", certificate, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["n_entities"] == 2
    assert document["status"] == "EXACT"
    table = duckdb.sql(f"select * from '{output}' order by id").df()
    assert table["entity"].tolist() == ENTITIES
    rows = pd.read_csv(certificate)
    assert rows["gap"].tolist() == [0.0]
    code, out, _ = run(pairs, "-o", output)
    assert code == 0
    assert "6 records, 2 entities from 8 pairs" in out
    assert "proven best" in out


def test_links_sources_ids_and_sizes_from_files(run, tmp_path):
    integers = {**EDGES, "id1": [ord(x) for x in EDGES["id1"]], "id2": [ord(x) for x in EDGES["id2"]]}
    pairs, output = write(tmp_path / "pairs.parquet", integers), tmp_path / "entities.csv"
    must = write(tmp_path / "must.csv", {"id1": [97], "id2": [102]})
    cannot = write(tmp_path / "cannot.csv", {"id1": [97], "id2": [98]})
    ids = write(tmp_path / "ids.parquet", {"id": [ord(x) for x in "abcdefg"]})
    code, _, err = run(pairs, "-o", output, "--must-link", must, "--cannot-link", cannot, "--ids", ids, "--max-size", 4)
    assert (code, err) == (0, "")
    table = pd.read_csv(output).set_index("id")["entity"]
    assert table[97] == table[102] != table[98]
    assert table[103] == 103
    assert table.value_counts().max() <= 4
    source = write(tmp_path / "source.parquet", {"id": [ord(x) for x in "abcdef"], "source": list("xyxxyz")})
    assert run(pairs, "-o", output, "--source", source)[0] == 0
    table = pd.read_csv(output).set_index("id")["entity"]
    assert table[97] != table[99]


BAD_FILES = {
    "latin.csv": (b"id1,id2,score\nM\xfcller,b,1\n", "UTF-8"),
    "ends.csv": (b"id1,id2,score\na,b,1\nc,d", "line 3"),
    "text.csv": (b"id1,id2,score\na,b,high\nc,d,1\n", "score"),
    "nan.csv": (b"id1,id2,score\na,b,nan\nc,d,1\n", "expected a finite number"),
    "inf.csv": (b"id1,id2,score\na,b,inf\nc,d,1\n", "expected a finite number"),
    "loop.csv": (b"id1,id2,score\na,a,1\n", "paired with itself"),
    "two.csv": (b"id1,id2\na,b\n", "score"),
    "nothing.csv": (b"", "empty"),
    "broken.parquet": (b"PAR1 and no more", "Export the file again"),
    "pairs.xyz": (b"id1,id2\na,b\n", "suffix"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_give_one_line_and_write_nothing(run, tmp_path, name):
    content, message = BAD_FILES[name]
    (tmp_path / name).write_bytes(content)
    code, out, err = run(tmp_path / name, "-o", tmp_path / "out.csv")
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--score", "log_ods"], "Did you mean 'log_odds'"),
        (["--ids", "short.csv"], "which is not in ids"),
        (["--ids", "twice.csv"], "is there twice"),
        (["--must-link", "ab.csv", "--cannot-link", "ab.csv"], "'a' and 'b' must not be together"),
        (["--must-link", "unknown.csv"], "there is no record with id 'zz'"),
        (["--must-link", "short.csv"], "expected two ids"),
        (["--max-size", "0"], "max_size"),
        (["--time-limit", "-1"], "time_limit"),
        (["--scale", "odds"], "scale"),
        (["--calibrate", "auto", "--labels", "ab.csv"], "exclude each other"),
        (["--calibrate", "often"], "calibrate is 'often'"),
        (["--id-columns", "id1", "id3"], "Did you mean"),
        (["--components", "none/x.csv"], "does not exist"),
        (["-o", "out.xyz"], "suffix"),
    ],
)
def test_bad_options_give_one_line_and_write_nothing(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "pairs.csv", EDGES)
    write(tmp_path / "short.csv", {"id": list("abcde")})
    write(tmp_path / "twice.csv", {"id": list("abcdefa")})
    write(tmp_path / "ab.csv", {"id1": ["a"], "id2": ["b"]})
    write(tmp_path / "unknown.csv", {"id1": ["a"], "id2": ["zz"]})
    before = sorted(os.listdir(tmp_path))
    code, out, err = run("pairs.csv", "-o", "out.csv", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == before


def noisy_pairs(n):
    """Pairs in one large component, with errors in both directions."""
    rng = np.random.default_rng(0)
    ends = np.unique(np.sort(rng.integers(0, n, (6 * n, 2)), axis=1), axis=0)
    ends = ends[ends[:, 0] < ends[:, 1]]
    same = ends[:, 0] // 5 == ends[:, 1] // 5
    return {"id1": ends[:, 0], "id2": ends[:, 1], "log_odds": rng.normal(np.where(same, 2.0, -1.0), 2.0)}


def test_time_limit_is_kept_and_status_says_so():
    """Seconds are of processor time, in one run, since other programs slow down both calls alike."""
    edges, seconds, resolutions = noisy_pairs(10_000), [], []
    for time_limit in (None, 0.01):
        start = time.process_time()
        resolutions.append(resolve(edges, calibrate=None, time_limit=time_limit))
        seconds.append(time.process_time() - start)
    complete, limited = resolutions
    assert limited.status.name == "TIME_LIMIT"
    assert limited.score <= complete.score < complete.bound < limited.bound
    assert seconds[1] < 0.5 * seconds[0]


def test_interrupt_keeps_the_best_clustering(monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    edges = noisy_pairs(400)
    complete = resolve(edges, calibrate=None)
    monkeypatch.setattr(correlation, "pack_cycles", interrupt)
    resolution = resolve(edges, calibrate=None)
    assert resolution.status.name == "INTERRUPTED"
    assert 0.9 * complete.score <= resolution.score <= complete.bound <= resolution.bound


@pytest.mark.skipif(os.name == "nt", reason="signals of another kind")
def test_interrupted_command_writes_its_result_and_exits_with_130(tmp_path):
    pairs = write(tmp_path / "pairs.parquet", noisy_pairs(3000))
    script = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from intarsia.clusters.resolution import correlation\n"
        "def waits(*arguments):\n"
        "    print('here', file=sys.stderr, flush=True)\n"
        "    time.sleep(60)\n"
        "correlation.pack_cycles = waits\n"
        "from intarsia.cli import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", script, "cluster", "resolve", pairs, "-o", tmp_path / "out.csv"]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while (line := process.stderr.readline()) and line != "here\n":
            pass
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=50)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "below the best" in out
    assert len(pd.read_csv(tmp_path / "out.csv")) == len(set(np.unique(list(noisy_pairs(3000).values())[:2])))
