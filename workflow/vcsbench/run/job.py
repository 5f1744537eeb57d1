"""A process of one job: it ends by an exception on signals, and writes messages into the log of its rule."""

import contextlib
import ctypes
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
# The number of the operation of prctl(2), from <linux/prctl.h>.
PR_SET_PDEATHSIG = 1
# A load can wait for a program that takes minutes.
GRACE_S = 4.0
SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "the terminal closed"}


@contextlib.contextmanager
def job_log(path: str | Path) -> Iterator[None]:
    """Redirect standard error to the log.

    An error ends it with exit code 1 and one sentence, in the log and on the terminal. The log has the
    traceback of an unexpected one.
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
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as log:
            traceback.print_exc(file=log)
        _fail(f"{path}: {describe_fault(error)}", path)


def run_rule(snakemake: Any, **functions: Callable[[], None]) -> None:
    """Run the function for the rule of this job, within job_log. `functions` are by rule."""
    with job_log(snakemake.log[0]):
        functions[snakemake.rule]()


def end_with_shell() -> None:
    """Let the kernel send this process a SIGTERM when its parent ends, which is the shell of its job.

    The shell ends with Snakemake (workflow/job_shell.sh).
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


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
    grace_s: float | None = GRACE_S,
) -> None:
    """Raise SystemExit for the first SIGTERM, Ctrl-C or closed terminal, so that `finally` blocks run.

    Further signals are ignored. `status` returns the exit code, or a message, by the number of the signal.
    After `grace_s` seconds, this process and all that it started are killed.
    """

    def kill_family() -> None:
        processes.send(processes.family(os.getpid())[1:], signal.SIGKILL)
        os._exit(1)

    def end(number: int, _: object) -> None:
        for name in SIGNALS:
            signal.signal(name, signal.SIG_IGN)
        if grace_s is not None:
            timer = threading.Timer(grace_s, kill_family)
            timer.daemon = True
            timer.start()
        sys.exit(status(number))

    def repeat(unraisable: "sys.UnraisableHookArgs") -> None:
        if not isinstance(unraisable.exc_value, SystemExit):
            sys.__unraisablehook__(unraisable)
            return
        # The signal came in a finaliser, where Python ignores exceptions, as it does here. So it comes again.
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        signal.signal(signal.SIGTERM, end)

    sys.unraisablehook = repeat
    for name in SIGNALS:
        if signal.getsignal(name) != signal.SIG_IGN:
            signal.signal(name, end)


def stop_workflow() -> None:
    with contextlib.suppress(OSError):
        Path(ENDED).touch()
    if any(word.endswith("snakemake") for word in processes.command_line(os.getppid())[:4]):
        os.kill(os.getppid(), signal.SIGTERM)
