"""A process that stands by to measure cell-rounds: the first job of a run leaves it behind, with all imported
that a cell-round needs. For each later job it forks a child, which does as if the job had done it itself.

To start an interpreter and to import a hundred modules takes as long as many a timed run; after caches were
emptied, longer. This process has done nothing yet that it imports, and never does: its children do. It ends
with the run.
"""

from __future__ import annotations

import atexit
import os
import select
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from vcsbench import processes
from vcsbench.run.asking import ADDRESS, FIELDS_END, is_ours
from vcsbench.storages.runfolder import snakemake_of

# Jobs that wait while one is taken on: there is one at a time.
WAITING = 4
# What ends others: this one ends with Snakemake.
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Measure = Callable[[Sequence[str]], int]


def stand_by(path: str, measure: Measure) -> None:
    """Leave a copy of this process behind that stands by until Snakemake ends, in a folder that has its name
    from storages.runfolder. `measure` gets a job's arguments and returns its exit code. Where somebody else
    has the folder, nothing is left behind."""
    folder = Path(path)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not is_ours(folder):
        return
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    # A child of nobody's who waits for it, or counts what its children use.
    if not os.fork():
        os.setpgid(0, 0)  # a terminal's Ctrl-C comes to the jobs, which pass it on
        with suppress(OSError):
            _serve(folder, measure)
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _serve(folder: Path, measure: Measure) -> None:
    """Take jobs on until Snakemake ends."""
    # Nobody waits for what it prints, nor for a lock that it would hold.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nowhere, standard)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children that have ended are gone
    run = os.pidfd_open(snakemake_of(folder))
    with socket.socket(socket.AF_UNIX) as listener:
        address = folder / ADDRESS
        address.unlink(missing_ok=True)
        listener.bind(str(address))
        listener.listen(WAITING)
        while run not in select.select([listener.fileno(), run], [], [])[0]:
            connection, _ = listener.accept()
            if not os.fork():
                listener.close()
                os.close(run)
                _be_job(connection, measure)
            connection.close()


def _be_job(connection: socket.socket, measure: Measure) -> None:
    """Do as if this were the job that asks; and go no further, whatever happens."""
    code = 1
    try:
        code = _exit_code(_taken_on(connection), measure)
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(b"%d\n" % code)
    finally:
        os._exit(code)


def _taken_on(connection: socket.socket) -> list[str]:
    """Take over what the job has, and work in its place; returns its arguments."""
    for number in (*IGNORED, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    connection.sendall(b"%d\n" % os.getpid())
    request, standard, _, _ = socket.recv_fds(connection, 1 << 16, 3)
    while more := connection.recv(1 << 16):
        request += more
    for own, given in enumerate(standard):
        os.dup2(given, own)
        os.close(given)
    job, folder, count, *rest = map(os.fsdecode, request.split(FIELDS_END))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(dict(pair.split("=", 1) for pair in rest[int(count) :]))
    processes.work_for(int(job))
    return rest[: int(count)]


def _exit_code(arguments: list[str], measure: Measure) -> int:
    """Measure; what the interpreter would have exited with, and said, and done at its end."""
    try:
        return measure(arguments)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        return ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        atexit._run_exitfuncs()
