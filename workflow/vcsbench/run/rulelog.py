"""A script's log: what it says goes into the rule's log file, and so does the one sentence of a UserError."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.progress import cleared
from vcsbench.run.orphans import FULL, end_when_told, end_with_workflow


@contextlib.contextmanager
def logged(path: str | Path) -> Iterator[None]:
    """Send standard error to the log. A UserError, or that a disk is full, is written there and on the
    terminal, without a traceback, and ends the script with exit code 1. The script ends with its
    workflow, and when it is told to."""
    end_when_told()
    end_with_workflow()
    try:
        with open(path, "w", encoding="utf-8") as log, contextlib.redirect_stderr(log):
            yield
    except UserError as error:
        _refuse(str(error), path)
    except OSError as error:
        if error.errno not in FULL:
            raise
        _refuse(f"{error.filename or path}: {error.strerror}: free some space and run again", path)


def _refuse(sentence: str, path: str | Path) -> None:
    with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as log:
        print(sentence, file=log)
    print(cleared(sys.stderr) + sentence, file=sys.stderr)
    sys.exit(1)
