"""All bytes of the tree's files as one file."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from vcsbench.files import entries
from vcsbench.subjects.tree.stores.store import Store


class OneFile(Store):
    """It has neither folders nor names."""

    def make(self, source: Path, path: Path, work_in: Path) -> None:
        """One behind the other."""
        with path.open("wb") as whole:
            for file, state in entries(source):
                if stat.S_ISREG(state.st_mode):
                    with open(os.fsencode(file), "rb") as part:
                        shutil.copyfileobj(part, whole)


STORE = OneFile
