"""Store how many bytes the last discarded cold run of a command has read."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
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
# The keys of recipes by which commands with the same template read different files, such as the program in a
# word {program}. A recipe may lack any of them.
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
        """Set `file`, which stores the bytes that the discarded run read; None if nothing is stored.

        The first cold run of a command is slower than later ones, so it is discarded. Cells share the file if
        they read the same data of `subject`, such as a copy of a repository, so that only one of them
        discards a run. Otherwise, they have different files: the name of a file is a digest of the boot, the
        command, and the folders of the subject.
        """
        self.file: Path | None = None
        folders: list[Path] = []
        if subject:
            folders = [folder for folder in subject.folders if folder.exists()]
        if not folders:
            return
        # A discarded run before the last boot does not count.
        boot_id = read("/proc/sys/kernel/random/boot_id")
        identity = [boot_id, *_identify_command(recipe), _identify_folders(folders)]
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


def _identify_command(recipe: Recipe) -> list[object]:
    """Return everything by which commands read different data in the same folders: three values for JSON.

    They are the templates, the values of the axes that are words in a template, and the values of
    READING_KEYS. The command "tool --level={level} {source}" with level 2 has the words {"level": "2"}.
    """
    templates = [recipe["argv"], recipe["stdin"]]
    # All other axes, such as the access, are left out. They change nothing that is read, or another part of
    # the identity: the format of a repository, for example, changes the folder.
    word_values = {}
    for axis, value in recipe["axes"].items():
        if any(f"{{{axis}}}" in template for template in templates):
            word_values[axis] = value
    reading_values = {key: value for key, value in recipe.items() if key in READING_KEYS}
    return [templates, word_values, reading_values]


def _identify_folders(folders: Sequence[Path]) -> list[tuple[str, int, int]]:
    """Return path, inode and change time of each folder. They differ if a copy was made again."""
    identities = []
    for folder in folders:
        status = os.stat(folder)
        identities.append((str(folder), status.st_ino, status.st_ctime_ns))
    return identities
