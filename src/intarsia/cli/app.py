"""Entry point of the command-line program: its commands, and the only place where errors become exit codes.

No heavy module is imported here or at the top of a command's file, so that `intarsia --help` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from intarsia._version import __version__
from intarsia.cli.cluster import evaluate_command as cluster_evaluate
from intarsia.cli.cluster import predict_command as cluster_predict
from intarsia.cli.cluster import resolve_command as cluster_resolve
from intarsia.cli.cluster import train_command as cluster_train
from intarsia.cli.cluster_review import review_command as cluster_review
from intarsia.cli.compile import compile_command
from intarsia.cli.diagnose import diagnose_command
from intarsia.cli.infer import infer_command
from intarsia.cli.interrupts import Interrupted, interrupts_raise
from intarsia.cli.methods import methods_command
from intarsia.cli.parse import evaluate_command as parse_evaluate
from intarsia.cli.parse import label_command as parse_label
from intarsia.cli.parse import predict_command as parse_predict
from intarsia.cli.parse import train_command as parse_train
from intarsia.cli.softlogic import explain_command as explain_atom_command
from intarsia.cli.softlogic import infer_command as infer_program_command
from intarsia.cli.softlogic import learn_command as learn_program_command
from intarsia.cli.tag import evaluate_command, predict_command, train_command
from intarsia.cli.tour import tour_command
from intarsia.exceptions import IntarsiaError, MissingDependencyError

# Newer typer carries its own copy of click, so the base of usage errors is reached through typer.
_UsageError: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")

_TASKS, _METHODS, _EVIDENCE = "Tasks", "Choosing a method", "Experiments: papers, benchmarks, data sets"
BAD_INPUT = 2
INTERRUPTED = 130


def _without_types(parameters: list[Any]) -> list[Any]:
    """Hide the type of flags in the help, since a flag takes no value."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class _AllOrNothing(_Command):
    """Command whose result would be wrong if a part of it was interrupted."""

    def invoke(self, ctx: Any) -> Any:
        with interrupts_raise(Interrupted):
            return super().invoke(ctx)


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


app = typer.Typer(
    name="intarsia",
    cls=_Group,
    epilog="Run `intarsia COMMAND --help` for options and an example. Use `--json` for output that programs can read.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(show: bool) -> None:
    if show:
        typer.echo(f"intarsia {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Structured prediction (CRFs, record linkage, soft logic) with learning and inference that work together."""


app.command("tour", cls=_AllOrNothing, rich_help_panel="Start here")(tour_command)
app.command("compile", cls=_AllOrNothing, rich_help_panel="Start here")(compile_command)
app.command("infer", cls=_Command, rich_help_panel=_TASKS)(infer_command)
app.command("methods", cls=_Command, rich_help_panel=_METHODS)(methods_command)
app.command("diagnose", cls=_AllOrNothing, rich_help_panel=_METHODS)(diagnose_command)

tag = typer.Typer(
    cls=_Group,
    help="""Label sequences with a linear-chain CRF: train a tagger, tag files, evaluate the tags.

    Example: `intarsia tag train train.txt --model tagger.npz`

    Example: `intarsia tag evaluate test.txt --model tagger.npz`
    """,
)
tag.command("train", cls=_Command)(train_command)
tag.command("predict", cls=_AllOrNothing)(predict_command)
tag.command("evaluate", cls=_AllOrNothing)(evaluate_command)
app.add_typer(tag, name="tag", no_args_is_help=True, rich_help_panel=_TASKS)

parse = typer.Typer(
    cls=_Group,
    help="""Parse record strings (addresses, names, references) into fields: train, parse files, evaluate, label.

    Example: `intarsia parse train labeled.xml --model addresses.npz`

    Example: `intarsia parse predict new.txt --model addresses.npz --output fields.csv`
    """,
)
parse.command("train", cls=_AllOrNothing)(parse_train)
parse.command("predict", cls=_AllOrNothing)(parse_predict)
parse.command("evaluate", cls=_AllOrNothing)(parse_evaluate)
parse.command("label", cls=_Command)(parse_label)
app.add_typer(parse, name="parse", no_args_is_help=True, rich_help_panel=_TASKS)

cluster = typer.Typer(
    cls=_Group,
    help="""Resolve entities (record linkage): train on labelled records, cluster files, evaluate the clusters.

    Example: `intarsia cluster train known.csv --entity person --model people.npz`

    Example: `intarsia cluster predict new.csv --model people.npz --output resolved.csv`
    """,
)
cluster.command("train", cls=_Command)(cluster_train)
cluster.command("predict", cls=_AllOrNothing)(cluster_predict)
cluster.command("resolve", cls=_Command)(cluster_resolve)
cluster.command("evaluate", cls=_AllOrNothing)(cluster_evaluate)
cluster.command("review", cls=_Command)(cluster_review)
app.add_typer(cluster, name="cluster", no_args_is_help=True, rich_help_panel=_TASKS)

softlogic = typer.Typer(
    cls=_Group,
    help="""Reason with weighted rules (probabilistic soft logic): run PSL programs, learn weights, explain results.

    Example: `intarsia softlogic infer program.json --output inferred`
    """,
)
softlogic.command("infer", cls=_Command)(infer_program_command)
softlogic.command("learn", cls=_Command)(learn_program_command)
softlogic.command("explain", cls=_AllOrNothing)(explain_atom_command)
app.add_typer(softlogic, name="softlogic", no_args_is_help=True, rich_help_panel=_TASKS)


# Commands of the distribution intarsia-reproduction, listed here so that the program can say how to install it.
_REPRODUCTION_COMMANDS = {
    "reproduce": "Rebuild a table or figure of a paper and compare it with ours (needs intarsia-reproduction).",
    "bench": "Compare speed, memory and quality with other libraries (needs intarsia-reproduction).",
    "data": "List the papers' data sets and how to obtain them (needs intarsia-reproduction).",
}


def _not_installed(name: str) -> Callable[[], None]:
    """Return a command that raises an error with the installation instructions."""

    def command() -> None:
        raise MissingDependencyError(
            f"intarsia {name} belongs to the package intarsia-reproduction, which is not installed. Install it with "
            f"`pip install intarsia-reproduction`, or from a checkout with `pip install -e reproduction`."
        )

    command.__doc__ = _REPRODUCTION_COMMANDS[name]
    return command


@cache
def program() -> Any:
    """Return the program with the commands of all installed distributions (entry points `intarsia.commands`).

    Examples
    --------
    >>> "tour" in program().commands
    True
    """
    installed = {entry.name: entry for entry in entry_points(group="intarsia.commands")}
    for name in [*_REPRODUCTION_COMMANDS, *sorted(set(installed) - set(_REPRODUCTION_COMMANDS))]:
        if name in installed:
            app.command(name, cls=_Command, rich_help_panel=_EVIDENCE)(installed[name].load())
        else:
            settings = {"ignore_unknown_options": True, "allow_extra_args": True}
            app.command(name, cls=_Command, rich_help_panel=_EVIDENCE, context_settings=settings)(_not_installed(name))
    return typer.main.get_command(app)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program: exit 0 on success, 2 with one line on stderr for bad input, 130 after Ctrl-C.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default the arguments of the process, `sys.argv[1:]`.

    Examples
    --------
    >>> try:
    ...     main(["--version"])
    ... except SystemExit as stopped:
    ...     print("exit", stopped.code)
    intarsia ...
    exit 0
    """
    sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    """Run the program and convert errors to exit codes."""
    try:
        with interrupts_raise(KeyboardInterrupt) as signals:
            code = program().main(
                None if arguments is None else list(arguments), prog_name="intarsia", standalone_mode=False
            )
        if signals and code is None:  # a learner or a method has returned what it had
            code = INTERRUPTED
        sys.stdout.flush()
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message())
            return 0
        return _report_error(error.format_message())
    except IntarsiaError as error:
        return _report_error(str(error))
    except BrokenPipeError:
        # The reader of the pipe (head, less) has closed it. Without stdout, Python does not complain at exit.
        sys.stdout = None
        return 0
    except OSError as error:
        return _report_error(f"{error.filename}: {error.strerror}." if error.filename else str(error))
    except MemoryError:
        return _report_error("not enough memory. Use a method that needs less memory, such as tree_reweighted.")
    except (KeyboardInterrupt, Interrupted, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        typer.echo("intarsia: interrupted.", err=True)
    return code if isinstance(code, int) else 0


def _report_error(message: str) -> int:
    """Write an error as one line to stderr and return the exit code for bad input."""
    typer.echo(f"intarsia: {' '.join(message.split())}", err=True)
    return BAD_INPUT
