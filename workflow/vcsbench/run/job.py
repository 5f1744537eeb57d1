"""A process of one job: it ends with its workflow, and writes messages into the log of its rule."""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from vcsbench import processes
from vcsbench.errors import UserError, describe_fault, printable, sentence_of

WATCHED_ANCESTORS = 2
ENDED = ".vcsbench/ended"
GRACE_S = 2.0


@contextlib.contextmanager
def job_log(path: str | Path) -> Iterator[None]:
    """Redirect standard error to the log, and end the script with its workflow.

    An error ends it with exit code 1 and one sentence, in the log and on the terminal. The log has the
    traceback of an unexpected one.
    """
    exit_on_signals()
    watch_parents()
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


def run_task(snakemake: Any, *tasks: Callable[[], None]) -> None:
    """Run the function that the rule's param `task` names, within job_log."""
    with job_log(snakemake.log[0]):
        {task.__name__: task for task in tasks}[snakemake.params.task]()


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
        # Later, because Python also ignores an exception in this hook.
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGTERM)).start()
    else:
        sys.__unraisablehook__(unraisable)


def watch_parents() -> None:
    """End this process and its children as soon as the rule's shell or Snakemake ends.

    SIGTERM comes first, SIGKILL after a grace period.
    """
    fds = []
    for pid in processes.ancestors(WATCHED_ANCESTORS):
        try:
            fds.append(os.pidfd_open(pid))
        except ProcessLookupError:
            os.kill(os.getpid(), signal.SIGTERM)
    threading.Thread(target=_watch, args=(fds,), daemon=True).start()


def _watch(fds: list[int]) -> None:
    select.select(fds, [], [])
    with contextlib.suppress(OSError):
        print("the workflow has ended, and so does this job", file=sys.stderr, flush=True)
    started = processes.family(os.getpid())[1:]
    # After SIGTERM this process ends only its own children, and this thread with itself.
    atexit.register(processes.send, started, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    processes.send({*started, *processes.family(os.getpid())[1:]}, signal.SIGKILL)
    os._exit(1)


def stop_workflow() -> None:
    with contextlib.suppress(OSError):
        Path(ENDED).touch()
    for pid in processes.ancestors(WATCHED_ANCESTORS + 1):
        if any(word.endswith("snakemake") for word in processes.command_line(pid)[:4]):
            processes.send([pid], signal.SIGTERM)
            return
