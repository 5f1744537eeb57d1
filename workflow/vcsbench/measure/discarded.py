"""The cold run that is discarded: a command's first one over a copy warms whatever lies below this system.
Once a copy has been read so, no cold run over it is discarded until that may be forgotten."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vcsbench.files import read_json
from vcsbench.kernelfile import read
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects import Subject

# So long what lies below is taken to remember what was read last.
GOOD_FOR_S = 3600


class Discarded:
    """What is remembered of the discarded run of a cell's command over the subject that it reads; another
    access or server configuration reads the same of it. Of a command that reads no subject nothing is known:
    each run is the first."""

    def __init__(self, recipe: Mapping[str, Any], reads: Subject | None) -> None:
        self.file: Path | None = None
        folders = [folder for folder in reads.folders if folder.exists()] if reads else []
        if not folders:
            return
        # One that was made anew, or a machine that was started anew, knows of none.
        found = [os.stat(folder) for folder in folders]
        copies = [[str(f), s.st_ino, s.st_ctime_ns] for f, s in zip(folders, found, strict=True)]
        which = [read("/proc/sys/kernel/random/boot_id"), recipe["argv"], recipe["stdin"], copies]
        name = hashlib.sha256(json.dumps(which).encode()).hexdigest()[:16]
        self.file = (
            WorkDir(recipe["storage"]["path"], os.getcwd()).make("discarded") / f"{name}.json"
        )

    def last(self) -> dict[str, Any]:
        """What the run that was discarded read, as `read_bytes`, and when, as `at`; {} where there was none,
        or the last cold run over the subject is too long ago."""
        if not self.file or not self.file.exists():
            return {}
        age_s = time.time() - self.file.stat().st_mtime
        return read_json(self.file) if 0 <= age_s < GOOD_FOR_S else {}

    def write(self, discarded: Mapping[str, Any]) -> None:
        """Such a run has been discarded."""
        if self.file:
            for file in self.file.parent.iterdir():
                if time.time() - file.stat().st_mtime > GOOD_FOR_S:
                    file.unlink()
            self.file.write_text(json.dumps(discarded))

    def renew(self) -> None:
        """Another cold run has read the subject."""
        if self.file and self.file.exists():
            os.utime(self.file)
