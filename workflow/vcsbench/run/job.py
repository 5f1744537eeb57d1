"""A process of one job: it ends by an exception on signals, and writes messages into the log of its rule."""

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from vcsbench import kernel, process_facts
from vcsbench.errors import UserError, describe_fault, printable, sentence_of

# A job made this file before it stopped the session.
STOPPED = ".vcsbench/stopped"
# How long a process may clean up after a signal. The tool and a node end many processes.
GRACE_S = 4
LONG_GRACE_S = 15
SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "the terminal closed"}


@contextlib.contextmanager
def job_log(path: str | Path) -> Iterator[None]:
    """Redirect standard error to the log at `path` while the `with` block runs.

    An error in the block ends the process with exit code 1, after one sentence in the log and on the
    terminal. The log also gets the traceback of an error that is neither a UserError nor an OSError.
    """
    end_with_shell()
    exit_on_signals()
    try:
        with open(path, "w", encoding="utf-8") as log, contextlib.redirect_stderr(log):
            yield
    except UserError as error:
        _fail(str(error), path)
    except OSError as error:
        _fail(sentence_of(error, path), path)
    except Exception as error:
        # If the disk is full, the log cannot be written.
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as log:
            traceback.print_exc(file=log)
        _fail(f"{path}: {describe_fault(error)}", path)


def end_with_shell() -> None:
    """Let the kernel send this process a SIGTERM when its parent ends, which is the shell of its job.

    The shell ends with Snakemake (workflow/job_shell.sh).
    """
    kernel.control_process(kernel.PR_SET_PDEATHSIG, signal.SIGTERM)


def _fail(sentence: str, path: str | Path) -> None:
    sentence = printable(sentence)
    with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as log:
        print(sentence, file=log)
    print(clear_line(sys.stderr) + sentence, file=sys.stderr)
    sys.exit(1)


def clear_line(stream: IO[str]) -> str:
    return "\r\x1b[K" if stream.isatty() else ""


def exit_on_signals(
    status: Callable[[int], int | str] = lambda number: f"ended by {signal.Signals(number).name}",
    grace_s: int = GRACE_S,
) -> None:
    """Raise SystemExit for the first SIGTERM, Ctrl-C or closed terminal, so that `finally` blocks run.

    Further signals are ignored. `status` returns the exit code for the number of the signal, or a message,
    which Python prints. If this process has not ended `grace_s` seconds after the first signal, the kernel
    ends it.
    """

    def end(number: int, _: object) -> None:
        for caught in SIGNALS:
            signal.signal(caught, signal.SIG_IGN)
        # SystemExit may not end this process: it may wait for a program that runs for minutes, and Python
        # ignores exceptions in a finaliser.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(grace_s)
        sys.exit(status(number))

    for caught in SIGNALS:
        # A signal that is ignored already stays ignored: nohup lets a program go on when the terminal closes.
        if signal.getsignal(caught) != signal.SIG_IGN:
            signal.signal(caught, end)


def stop_workflow(root: Path) -> None:
    """End the Snakemake that started this job in the checkout `root`, so that no other job starts."""
    # With this mark, Snakemake is not called again for a report. The disk may be too full for the mark.
    with contextlib.suppress(OSError):
        (root / STOPPED).touch()
    # The nearest ancestor with the name of Snakemake has started this job.
    for pid in process_facts.ancestors():
        # As in "python -m snakemake ..." and "/usr/bin/python /x/bin/snakemake ...".
        if any(word.endswith("snakemake") for word in process_facts.command_line(pid)[:4]):
            os.kill(pid, signal.SIGTERM)
            return
