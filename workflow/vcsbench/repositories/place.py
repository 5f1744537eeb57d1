"""The one folder that vcsbench makes on a storage; nothing outside of it is ever written or removed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.wholefile import write_json

MARKER = ".vcsbench"


class Place:
    """vcsbench's folder on a storage, one for each checkout of the workflow.

    `storage` is the configured folder, `root` the checkout: two checkouts never share a place.
    """

    def __init__(self, storage: str | Path, root: str | Path) -> None:
        self.storage = Path(os.path.realpath(storage))
        self.owner = os.path.realpath(root)
        name = hashlib.sha256(self.owner.encode()).hexdigest()[:8]
        self.path = self.storage / f"vcsbench-{name}"

    def make(self, *below: str) -> Path:
        """Make the place, and a folder in it; a UserError where the storage does not allow it."""
        if not self.storage.is_dir():
            raise UserError(
                f"{self.storage}: the storage is not a folder; make it, or name another one"
            )
        try:
            if not self.path.exists():
                self.path.mkdir(mode=0o755)
                write_json(self.path / MARKER, {"owner": self.owner})
            self._check()
            folder = self.path.joinpath(*below)
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"{self.path}: cannot be made: {error.strerror}; name another folder in `storages` "
                f"or `scratch`"
            ) from None
        return folder

    def check_open(self) -> None:
        """A UserError where the user whom root's servers run as cannot enter the place."""
        if os.geteuid() != 0:
            return  # the servers run as this user
        for folder in (self.path, *self.path.parents):
            if folder.exists() and not folder.stat().st_mode & 0o001:
                raise UserError(
                    f"{self.storage}: the servers run as nobody, who cannot enter {folder}; name a folder "
                    f"in `storages` that everybody can enter, such as /var/tmp, or chmod o+x it"
                )

    def remove(self, *below: str) -> None:
        """Remove a folder or file in the place, if it is there; without a name, the place itself."""
        target = self.path.joinpath(*below)
        if not os.path.lexists(target):
            return
        self._check()
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink()

    def _check(self) -> None:
        try:
            marker = json.loads((self.path / MARKER).read_text())
        except (OSError, ValueError):
            marker = {}
        if self.path.is_symlink() or marker.get("owner") != self.owner:
            raise UserError(
                f"{self.path}: is in the way: vcsbench did not make it, and will not touch it; "
                f"move it elsewhere"
            )
