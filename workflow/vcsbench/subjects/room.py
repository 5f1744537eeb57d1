"""Where a working copy or a tree is put: a file system that is made for it, or a folder in one that the user
has."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Any

from vcsbench.errors import UserError
from vcsbench.storages.describe import storage
from vcsbench.storages.making import Made
from vcsbench.storages.mounts import mount_of
from vcsbench.storages.place import Place

MIB = 1 << 20
# No file system that is made is smaller: btrfs and xfs are others then.
SMALLEST = 1024 * MIB
# Free beside what lies there: an update has old and new, and no file system likes to be full.
TIMES, BESIDE = 3, 512 * MIB


def size_for(expected: int) -> int:
    """The size of a file system for so many bytes."""
    return max(SMALLEST, TIMES * expected + BESIDE) // MIB * MIB


class Room:
    """By the part of a recipe that the axis `filesystem` says. Nothing is made before open()."""

    def __init__(self, part: Mapping[str, Any]) -> None:
        self.place = Place(part["root"], os.getcwd())
        # Its name says which process it is of: what a killed one leaves is removed by the next run.
        self.folder = self.place.path / "targets" / str(os.getpid())
        self.make: str = part["make"]
        self.mounted: list[str] = list(part.get("mounted", []))
        self.made: Made | None = None
        self.inside = self.folder / "mounted" if self.make else self.folder
        self._empty = 0

    def open(self, expected: int) -> None:
        """Make it, for so many bytes."""
        self.check()
        self.place.make("targets")
        self.folder.mkdir(exist_ok=True)
        if self.make:
            self.made = Made(self.make, size_for(expected), self.folder)
            self.made.fresh()
        self._empty = self._taken()

    def check(self) -> None:
        """A UserError where a folder of the user's is not on the file system any more that it was on when the
        run began."""
        mount = mount_of(self.place.storage)
        if self.mounted and [mount.filesystem, mount.point] != self.mounted:
            kind, point = self.mounted
            raise UserError(
                f"{self.place.storage}: is on {mount.filesystem}, mounted at {mount.point}, and was on "
                f"{kind}, mounted at {point}, when the run began: mount it again, and run again"
            )

    def clear(self) -> None:
        """Take away all that lies there: of a file system that is made, by making it anew."""
        if self.made:
            self.made.fresh()
        else:
            self._empty_folder()
        self._empty = self._taken()

    def close(self) -> None:
        """Remove all of it, as far as that is possible."""
        if self.made:
            self.made.remove()
            self.made = None
        elif not self.make and self.folder.exists():
            self._empty_folder()
        if self.folder.exists():
            self.folder.rmdir()

    def _empty_folder(self) -> None:
        for path in self.folder.iterdir():
            shutil.rmtree(path, ignore_errors=True)
            if path.is_file():
                path.unlink()

    def used(self) -> int:
        """The bytes that the file system has taken since it was cleared, as df tells, with all that is dirty
        written."""
        return self._taken() - self._empty

    def _taken(self) -> int:
        os.sync()
        there = os.statvfs(self.inside)
        return (there.f_blocks - there.f_bfree) * there.f_frsize

    @property
    def is_cached(self) -> bool:
        """Whether an image is read and written through this system's page cache."""
        return bool(self.made and self.made.direct is False)

    def described(self) -> dict[str, Any]:
        """What the kernel tells of the file system; whether it was made, and its image's size and I/O."""
        where = self.inside
        of_made = {"bytes": self.made.size, "direct_io": self.made.direct} if self.made else {}
        return {**storage(mount_of(where).filesystem, where), "made": bool(self.made), **of_made}
