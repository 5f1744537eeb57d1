"""A process of one job: it ends by an exception on signals, and writes messages into the log of its rule."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from vcsbench import processes
from vcsbench.errors import UserError, describe_fault, printable, sentence_of

ENDED = ".vcsbench/ended"


@contextlib.contextmanager
def job_log(path: str | Path) -> Iterator[None]:
    """Redirect standard error to the log.

    An error ends it with exit code 1 and one sentence, in the log and on the terminal. The log has the
    traceback of an unexpected one.
    """
    exit_on_signals()
    try:
        with open(path, "w", encoding="utf-8") as log, contextlib.redirect_stderr(log):
            yield
    except UserError as error:
        _fail(str(error), path)
    except OSError as error:
        _fail(sentence_of(error, path), path)
    except Exception as error:
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as log:
            traceback.print_exc(file=log)
        _fail(f"{path}: {describe_fault(error)}", path)


def run_rule(snakemake: Any, **functions: Callable[[], None]) -> None:
    """Run the function for the rule of this job, within job_log. `functions` are by rule."""
    with job_log(snakemake.log[0]):
        functions[snakemake.rule]()


def _fail(sentence: str, path: str | Path) -> None:
    sentence = printable(sentence)
    with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as log:
        print(sentence, file=log)
    print(clear_line(sys.stderr) + sentence, file=sys.stderr)
    sys.exit(1)


def clear_line(stream: IO[str]) -> str:
    return "\r\x1b[K" if stream.isatty() else ""


def exit_on_signals() -> None:
    """Raise SystemExit for SIGTERM, Ctrl-C and a closed terminal, so that `finally` blocks run."""
    sys.unraisablehook = _repeat_signal
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(name) != signal.SIG_IGN:
            signal.signal(
                name, lambda number, _: sys.exit(f"ended by {signal.Signals(number).name}")
            )


def _repeat_signal(unraisable: sys.UnraisableHookArgs) -> None:
    """Send a signal again that came in a finaliser, where Python ignores exceptions."""
    if isinstance(unraisable.exc_value, SystemExit):
        # Later, because Python also ignores an exception in this hook, and prints it. So another SIGTERM is
        # ignored meanwhile.
        handler = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGTERM)).start()
        signal.signal(signal.SIGTERM, handler)
    else:
        sys.__unraisablehook__(unraisable)


def stop_workflow() -> None:
    with contextlib.suppress(OSError):
        Path(ENDED).touch()
    if any(word.endswith("snakemake") for word in processes.command_line(os.getppid())[:4]):
        os.kill(os.getppid(), signal.SIGTERM)
