"""The axis `filesystem`: what a working copy or a tree is written to, a folder of the user's or one that is
made for the purpose."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from vcsbench.axes.axis import Axis, Parts
from vcsbench.errors import UserError
from vcsbench.storages import guest
from vcsbench.storages.describe import lacks_journal
from vcsbench.storages.making import MADE, REFLINKS, why_cannot_make
from vcsbench.storages.mounts import mount_of
from vcsbench.storages.place import resolve

if TYPE_CHECKING:
    from vcsbench.axes.here import Here
    from vcsbench.config.configuration import Config
    from vcsbench.config.study import Study

MAKE, GUEST = "make", "guest"
# The storage itself, whatever it is; what is made on one that is an ext4 without a journal (storages.spread);
# and the word for it and all that are configured.
STORAGE, INSTEAD, EVERYWHERE = "storage", "ext4", "storage and filesystems"
# What names mean that are those of kinds: a folder by that name has to be of that kind.
KINDS = {**{kind: (kind,) for kind in MADE}, "nfs": ("nfs", "nfs4")}
LOOP = """A file system that is made lies in an image on the storage, behind a loop device with direct I/O:
its journal, allocation and metadata are its own, and its writes reach the same disk as those of all others
that are made; the storage's own file system lies below them all."""


class Filesystem(Axis):
    """`filesystems` stands for the names in the configuration."""

    speaks = True

    def values(self, given: Sequence[str] | str, study: Study, here: Here) -> list[str]:
        """Those of the configuration, and for a study that says so the storage as it is."""
        if given == EVERYWHERE:
            return [STORAGE, *here.config.settings.filesystems]
        return super().values(given, study, here)

    def named(self, here: Here) -> tuple[str, list[str]]:
        """The configured names."""
        return "filesystems", list(here.config.settings.filesystems)

    def defined_in(self, given: Sequence[str] | str, study: Study) -> str:
        """The key of the configuration."""
        return "`filesystems`"

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """Where it is: a folder, or the kind that is made and the folder in which. A UserError where a folder
        is not of the kind that its name says."""
        if not value:
            return {}
        config = here.config
        if value == STORAGE:
            return {"filesystem": self._storage(here)}
        folder = config.settings.filesystems[value]
        if folder == GUEST:
            if value not in guest.FOLDERS:
                raise UserError(
                    f"{config.where(['filesystems'])}: `filesystems.{value}`: a guest has "
                    f"{' and '.join(guest.FOLDERS)}, and no {value}"
                )
            where = guest.FOLDERS[value]
            scratch = str(resolve(config.settings.scratch, here.root))
            of_guest = {"make": "", "root": where, "guest": guest.KIND, "scratch": scratch}
            return {"filesystem": of_guest, "within": GUEST}
        made = folder == MAKE
        root = resolve(
            config.settings.storages[config.settings.storage] if made else folder, here.root
        )
        if not made and root.is_dir() and (wrong := _not_what_it_is_called(value, str(root))):
            raise UserError(f"{config.where(['filesystems'])}: `filesystems.{value}`: {wrong}")
        mounted = [] if made else _mounted(str(root))
        return {
            "filesystem": {"make": value if made else "", "root": str(root), "mounted": mounted}
        }

    def _storage(self, here: Here) -> dict[str, Any]:
        """The storage itself, or INSTEAD, in an image on it, where files that were just removed would be a
        part of what is measured."""
        itself = str(
            resolve(here.config.settings.storages[here.config.settings.storage], here.root)
        )
        made = _lacks_journal(itself) and not why_cannot_make(INSTEAD)
        mounted = [] if made else _mounted(itself)
        return {"make": INSTEAD if made else "", "root": itself, "mounted": mounted}

    def why_not(self, value: str, parts: Parts, here: Here) -> str:
        """One that is made may be impossible to make; a folder has to be there."""
        told = parts.get("filesystem")
        if not told:
            return ""
        if "guest" in told:
            return guest.why_not(here.root) or ("ext4 has no reflinks" * bool(parts.get("clones")))
        kind = told["make"] or told["mounted"][0]
        if parts.get("clones") and kind not in REFLINKS:
            return f"{kind} has no reflinks"
        if told["make"]:
            return why_cannot_make(kind)
        return "" if os.path.isdir(told["root"]) else f"{told['root']} is no folder"

    def limits(self, guests: Sequence[str]) -> list[str]:
        """What lies below one that is made."""
        return [LOOP]


_lacks_journal = cache(lacks_journal)


def mounted_folders(config: Config) -> list[str]:
    """The configured folders on file systems of the user's."""
    return [
        folder for folder in config.settings.filesystems.values() if folder not in (MAKE, GUEST)
    ]


@cache
def _mounted(folder: str) -> list[str]:
    """The kind of file system that a folder is on, and where that is mounted."""
    mount = mount_of(folder)
    return [mount.filesystem, mount.point]


@cache
def _not_what_it_is_called(name: str, folder: str) -> str:
    kind, _ = _mounted(folder)
    if kind in KINDS.get(name, (kind,)):
        return ""
    return f"{folder} is {kind}, not {name}; call it {kind}, or name a folder on {name}"


AXIS = Filesystem("filesystem")
