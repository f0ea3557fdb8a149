"""The command `sojourn`: a verb and a path. Formats are detected; stdout is the result.

Exit codes: 0 fine; 2 usage; 3 input missing, empty or unreadable, or a file cannot be written;
4 read, but nothing usable; 70 an error of our own; 130 interrupted; 141 nobody read the result to
its end; 143 terminated. Each command imports what it needs when it runs, so that
``sojourn --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from enum import IntEnum
from pathlib import Path
from typing import Annotated, TextIO

import typer

import sojourn
from sojourn.cli import (
    assess,
    compare,
    convert,
    demo,
    export,
    fit,
    forecast,
    formats,
    gate,
    plan,
    simulate,
    validate,
    watch,
    whatif,
)

__all__ = ["ExitCode", "app", "main"]


class ExitCode(IntEnum):
    """What the command's exit tells a script."""

    OK = 0
    GATE_FAILED = 1
    USAGE = 2
    INPUT = 3
    NOTHING_USABLE = 4
    NOT_CERTIFIED = 5
    INCONCLUSIVE = 6
    INTERNAL = 70
    INTERRUPTED = 130
    UNREAD = 141


app = typer.Typer(
    name="sojourn",
    help="Measure how reliable an LLM agent is, over attempts and over steps.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("assess")(assess.command)
app.command("demo")(demo.command)
app.command("formats")(formats.command)
app.command("convert")(convert.command)
app.command("compare")(compare.command)
app.command("gate")(gate.command)
app.command("plan")(plan.command)
app.command("fit")(fit.command)
app.command("forecast")(forecast.command)
app.command("whatif")(whatif.command)
app.command("export")(export.command)
app.command("simulate")(simulate.command)
app.command("validate")(validate.command)
app.command("watch")(watch.command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sojourn {sojourn.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show the whole of an internal error.")
    ] = False,
) -> None:
    """Measure how reliable an LLM agent is, over attempts and over steps."""
    if traceback:
        os.environ["SOJOURN_TRACEBACK"] = "1"


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code.

    Parameters
    ----------
    arguments : list of str, optional
        The command line without the program's name; by default the process's own.
    """
    from sojourn.cli._config import read_config
    from sojourn.errors import (
        ConfigError,
        NothingUsableError,
        ReaderError,
        RuleError,
        StateTableError,
    )

    command = typer.main.get_command(app)
    try:
        code = command.main(
            args=arguments,
            prog_name="sojourn",
            standalone_mode=False,
            default_map=read_config(command, Path.cwd()),
        )
    except ReaderError as error:
        return _fail(str(error), ExitCode.INPUT)
    except NothingUsableError as error:
        return _fail(str(error), ExitCode.NOTHING_USABLE)
    except StateTableError as error:
        return _fail(f"--states: {error}", ExitCode.USAGE)
    except (ConfigError, RuleError) as error:
        return _fail(str(error), ExitCode.USAGE)
    except SystemExit as leaving:
        # What the command-line library makes of a pipe that its reader has closed (`| head`).
        if isinstance(leaving.__context__, BrokenPipeError):
            return _unread()
        raise
    except BrokenPipeError:
        return _unread()
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", ExitCode.INPUT)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", ExitCode.INTERRUPTED)
    except Exception as error:
        return _other_failure(error)
    if code == ExitCode.INTERRUPTED:  # an interrupt that the command-line library has turned
        return _fail("interrupted", ExitCode.INTERRUPTED)
    return int(code or 0)


def _unread() -> int:
    """Return the code of a result that nobody read to its end, as a shell's tools have it.

    It is not 0, since nobody has seen whether a gate has passed; there is nobody left to tell.
    """
    _drop(sys.stdout)
    return ExitCode.UNREAD


def _drop(stream: TextIO | None) -> None:
    """Send what a stream still holds nowhere, so that it does not fail again at the end."""
    if stream is None or stream.closed:
        return
    try:
        stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _other_failure(error: Exception) -> int:
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    show = getattr(error, "show", None)
    if callable(show):
        # A usage error of the command-line library: it knows best how to say it.
        show()
        return ExitCode.USAGE
    if os.environ.get("SOJOURN_TRACEBACK"):
        raise error
    return _fail(
        f"internal error: {type(error).__name__}: {error}; "
        "`sojourn --traceback ...` shows where; please report it",
        ExitCode.INTERNAL,
    )


def _fail(message: str, code: ExitCode) -> int:
    from sojourn.tables import clean

    try:
        typer.echo(f"sojourn: {clean(message, limit=2000)}", err=True)
    except OSError:
        _drop(sys.stderr)  # there is no other place to say it; the code says the rest
    _drop(sys.stdout)
    return code
