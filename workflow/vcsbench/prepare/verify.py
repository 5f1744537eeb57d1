"""Verify loaded repositories while copies are made."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.formats import AS_IS
from vcsbench.prepare.preparations import preparation_of

THREADS = 2


class DamagedError(UserError):
    """A loaded repository is damaged. `staging` is the folder that has it."""

    def __init__(self, staging: Path, message: str) -> None:
        super().__init__(message)
        self.staging = staging


@contextlib.contextmanager
def verifying(staging: Sequence[Path]) -> Iterator[None]:
    """Verify loaded repositories in threads while the `with` block runs, and wait for the threads at its end.

    Each folder of `staging` has one loaded repository, and perhaps its packed copy: f7.nopack and f7.pack.
    After the block, raise DamagedError if a repository is damaged. An error in the block, or in one of the
    verifications, stops all verifications.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(THREADS) as pool:
        try:
            futures = []
            for folder in staging:
                # A task may compare f7.nopack with f7.pack, so the tasks are listed by format.
                formats = {path.name.partition(".")[0] for path in folder.glob("*.*")}
                for fmt in sorted(formats):
                    for task in preparation_of(fmt).list_tasks(folder, fmt, stop):
                        futures.append(pool.submit(_run_task, folder, fmt, task))
            yield
            for future in futures:
                future.result()
        finally:
            # The end of `with ThreadPoolExecutor` waits for all tasks, which may last hours. After an error,
            # nobody needs their results. Without an error, all tasks have ended before.
            stop.set()


def verify_all(staging: Path) -> None:
    """Verify the repositories in a folder. Raise DamagedError for a damaged one."""
    with verifying([staging]):
        pass


def _run_task(staging: Path, fmt: str, task: Callable[[], None]) -> None:
    """Run a task, and raise DamagedError with the folder `staging` if it finds damage."""
    try:
        task()
    except UserError as error:
        message = str(error)
        if fmt == AS_IS:
            message = f"The repository that this was copied from is damaged, too: {error}"
        raise DamagedError(staging, message) from error
