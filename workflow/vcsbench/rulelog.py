"""A script's log: what it says goes into the rule's log file, and so does the one sentence of a UserError."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from vcsbench.errors import UserError


@contextlib.contextmanager
def logged(path: str | Path) -> Iterator[None]:
    """Send standard error to the log. A UserError is written there and on the terminal, without a
    traceback, and ends the script with exit code 1."""
    with open(path, "w", encoding="utf-8") as log:
        try:
            with contextlib.redirect_stderr(log):
                yield
        except UserError as error:
            print(error, file=log)
            print(error, file=sys.stderr)
            sys.exit(1)
