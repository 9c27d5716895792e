"""Record the results of all calls, the messages and the settings; print what has changed.

python tests/golden/record.py                 everything
python tests/golden/record.py --only NAME...  single calls, or all whose names start with NAME
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.golden import messages, settings
from tests.golden.golden import Store, differences, load_calls, machine, run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", default=None, help="names of calls, or their beginnings")
    parser.add_argument("--slow", type=float, default=0.5, help="print calls that take more seconds than this")
    parser.add_argument("--dry-run", action="store_true", help="print the changes, write nothing")
    options = parser.parse_args()
    store, calls = Store(), load_calls()
    chosen = [name for name in sorted(calls) if options.only is None or name.startswith(tuple(options.only))]
    parts = [part for part in (messages, settings) if options.only is None or part.NAME in options.only]
    if options.only and not chosen and not parts:
        parser.error(f"no call begins with {' or '.join(options.only)}")
    if options.only and store.machine and not options.dry_run and store.machine != machine():
        parser.error("the others were recorded on another machine or with other versions: record everything")
    results = {name: result for name, result in store.recorded.items() if name in calls}
    n_changed, failed = 0, []
    for name in chosen:
        start = time.perf_counter()
        try:
            results[name] = run(name)
        except Exception:
            failed.append(name)
            print(f"{name}: failed", traceback.format_exc(limit=-1), sep="\n")
            continue
        seconds = time.perf_counter() - start
        if seconds > options.slow:
            print(f"{name}: {seconds:.2f} s")
        if name not in store.recorded:
            print(f"{name}: new")
        elif results[name].hash != store.hashes[name]:
            n_changed += 1
            print(f"{name}: changed", *differences(store.recorded[name], results[name]), sep="\n    ")
    removed = sorted(set(store.recorded) - set(calls))
    for name in removed:
        print(f"{name}: removed")
    print(f"{len(chosen)} calls run, {n_changed} changed, {len(removed)} removed, {len(failed)} failed")
    for part in parts:
        print(*part.changes(), sep="\n")
    if options.dry_run or failed:
        print("nothing is written")
        return 1
    store.write(results)
    for part in parts:
        part.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
