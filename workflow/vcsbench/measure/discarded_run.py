"""Store how many bytes the last discarded cold run of a command has read."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench.files import write_text
from vcsbench.kernel import read
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects import Subject

if TYPE_CHECKING:
    from vcsbench.records import Recipe

# Layers below this system (the host of a VM, a RAID controller) are assumed to cache reads this long.
DISCARDED_RUN_S = 3600
# The keys by which commands with the same template read different files. A recipe may lack any of them.
READING_KEYS = ("program", "revisions", "revisions_behind", "pristine_options")


class DiscardedRun:
    """The bytes that the last discarded cold run of a command read from the device, in a file on the storage.

    There is one file for a command and a copy of a repository. All accesses and server configurations share
    the file, because they read the same repository. Without a subject (None), nothing is stored.
    """

    # Layers below this system, such as a hypervisor, have caches that cannot be cleared. The first cold run
    # of a command on a copy fills them, so it is slower than later ones, and is discarded. Cold runs after it
    # count, as long as the last cold run is less than DISCARDED_RUN_S ago.

    def __init__(self, recipe: Recipe, subject: Subject | None, root: Path) -> None:
        """Set `file` to the file of this command and this copy; None if nothing is stored.

        The command reads `subject`. The name of the file is a digest of the boot, the command and the folders
        of the subject.
        """
        self.file: Path | None = None
        folders: list[Path] = []
        if subject:
            folders = [folder for folder in subject.folders if folder.exists()]
        if not folders:
            return
        # If a copy of a repository is made again, its folder has another inode or another change time. Then
        # the name of the file changes, and the first cold run is discarded again.
        copies = []
        for folder in folders:
            status = os.stat(folder)
            copies.append((str(folder), status.st_ino, status.st_ctime_ns))
        # A discarded run before the last boot does not count.
        boot_id = read("/proc/sys/kernel/random/boot_id")
        templates = [recipe["argv"], recipe["stdin"]]
        # Two values of an axis are two commands only if a template has the axis as a word, such as {level}.
        # Any other axis changes the folders of the subject, a key in READING_KEYS, or nothing that is read.
        word_values = {}
        for axis, value in recipe["axes"].items():
            if any(f"{{{axis}}}" in template for template in templates):
                word_values[axis] = value
        reading_values = {key: value for key, value in recipe.items() if key in READING_KEYS}
        identity = [boot_id, templates, word_values, reading_values, copies]
        name = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
        self.file = WorkDir(recipe["storage"]["path"], root).make("discarded") / name

    def read(self) -> int | None:
        """Return the bytes that the discarded run read from the device; None without a recent run."""
        if not self.file or not self.file.exists():
            return None
        age_s = time.time() - self.file.stat().st_mtime
        # The clock may have been set back since then.
        if not 0 <= age_s < DISCARDED_RUN_S:
            return None
        try:
            return int(self.file.read_text())
        except ValueError:
            return None

    def write(self, read_bytes: int) -> None:
        """Store the bytes of a discarded run, and remove the files of runs that are too old."""
        if not self.file:
            return
        for file in self.file.parent.iterdir():
            # A run of another checkout on the same storage may remove it at the same time.
            with suppress(FileNotFoundError):
                if time.time() - file.stat().st_mtime > DISCARDED_RUN_S:
                    file.unlink()
        write_text(self.file, str(read_bytes))

    def renew(self) -> None:
        """Store that a cold run has read the subject now: read() counts the age of the file from now on."""
        if self.file and self.file.exists():
            os.utime(self.file)
