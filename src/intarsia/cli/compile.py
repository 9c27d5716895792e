"""`intarsia compile`: compile the kernels of common calls ahead of time and store them with the package."""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer

from intarsia.cli.output import note, write_json
from intarsia.exceptions import IntarsiaError, NotSupportedError


def compile_command(
    jobs: Annotated[int, typer.Option(help="Number of processes that compile at the same time.", min=1)] = 2,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compile the numerical kernels now, so that the first call of a program does not have to.

    Run it once after installing from source or when building a container image. Wheels already contain the
    compiled kernels. It takes about a minute. Results change by rounding errors at most (1e-15).

    Example: `intarsia compile`
    """
    from intarsia._core.compiled_kernels import compile_environment, fill_stored_folder, is_supported
    from intarsia._files.atomic_file import run_program
    from intarsia.tour.first_calls import CALLS

    if not is_supported():
        raise NotSupportedError(
            "intarsia compile: no portable processor is known for this platform. Leave it out; kernels are then "
            "compiled at their first call and cached."
        )
    start = time.perf_counter()

    def compile_into(folder: Path) -> None:
        environment = os.environ | compile_environment(folder)

        def run(name: str) -> None:
            outcome = run_program([sys.executable, "-m", "intarsia.tour.first_calls", name], env=environment)
            if outcome.returncode:
                reason = (outcome.stderr.strip().splitlines() or ["no message"])[-1]
                raise IntarsiaError(f"intarsia compile: the calls for {name!r} failed: {reason}. Report this as a bug.")
            if not json:
                note(f"compiled: {name}")

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(run, CALLS))

    files = fill_stored_folder(compile_into)
    document = {
        "folder": str(files[0].parent),
        "kernels": len(files),
        "megabytes": round(sum(file.stat().st_size for file in files) / 1e6, 1),
        "seconds": round(time.perf_counter() - start, 1),
    }
    if json:
        write_json(document)
    else:
        typer.echo(
            f"{document['kernels']} kernels, {document['megabytes']} MB, {document['seconds']} s: {document['folder']}"
        )
