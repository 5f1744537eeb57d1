"""The subject `working_copy`: a Subversion working copy on the file system under test, which a command makes
or updates.

Without `revisions_behind` in the command, it does not exist before a run; with it, it is a clean working
copy, as many revisions behind the youngest. It comes from a template (template.py), is put on a file system
with nothing else in it (subjects/room.py), and what it takes there is counted when the runs are over
(space.py).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.programs import Programs
from vcsbench.subjects.repository import Repository
from vcsbench.subjects.repository.labels import part_of
from vcsbench.subjects.room import Room, size_for
from vcsbench.subjects.subject import Recipe, Subject, Words
from vcsbench.subjects.working_copy import client, cloning, space
from vcsbench.subjects.working_copy.template import Templates

ADMINISTRATIVE = ".svn"


class WorkingCopy(Subject):
    """{working_copy} is its path, {pristine_options} what it is checked out with."""

    def __init__(self, recipe: Recipe, number: int, run: Path) -> None:
        if "filesystem" not in recipe:
            raise UserError("a working copy needs the axis filesystem; the study has none")
        super().__init__(recipe, number, run)
        self.behind: int | None = recipe.get("revisions_behind")
        self.repository = Repository(recipe, number, run)
        self.room = Room(recipe["filesystem"])
        self.path = self.room.inside / "wc"
        self.folders = [self.path]
        self.svn = Programs(**recipe["build"]["client"]).get("svn")
        self.revisions = (0, 0)

    def check(self) -> None:
        """Make what it comes from, if that is not there yet, and room for it."""
        self.prepare()
        self.room.open(self.templates.bytes_of(self.revisions[1]))

    def check_place(self) -> None:
        """Raise a UserError where a folder of the user's is on another file system now."""
        self.room.check()

    def prepare(self) -> int:
        """Make what it comes from, if that is not there yet; returns the size of a file system for it."""
        self.repository.check()
        youngest = self.repository.label["youngest"]
        self.revisions = (self._first(youngest), youngest)
        self.templates = Templates(self.recipe, self.repository, self.svn)
        self.counterpart = self.templates.export(youngest)
        if self.behind is not None:
            # A relocation leaves the keywords as they are in what no update touches.
            self.urls = [self.templates.working_copy(self.revisions[0])[1]]
        return size_for(self.templates.bytes_of(youngest))

    def _first(self, youngest: int) -> int:
        """The revision that it is at before a run; at a scale, as much nearer to the youngest."""
        if self.behind is None:
            return 0
        # The first revision makes the layout.
        return max(min(2, youngest), youngest - part_of(self.behind, self.recipe))

    def words(self) -> Words:
        """{working_copy} and {pristine_options}."""
        return {
            "working_copy": lambda: str(self.path),
            "pristine_options": lambda: self.recipe.get("pristine_options", []),
        }

    def restore(self) -> None:
        """Make it what it has to be before a run. One that a run does not change is left as it is."""
        if self.behind == 0 and self.path.exists():
            return
        self.room.clear()
        if self.behind is not None:
            template, _ = self.templates.working_copy(self.revisions[0])
            # Not as clones: blocks that are shared with the template would be a trace of it.
            subprocess.run(["cp", "-a", "--reflink=never", template, self.path], check=True)
            assert self.origin
            client.relocate(self.svn, self.path, self.origin())
            if "reflink" in self.recipe:
                cloning.clone_working_files(self.path)

    def discard(self) -> None:
        """Remove it, and what was made for it."""
        self.room.close()

    def parts(self) -> dict[str, list[Path]]:
        """Its pristines, its database, and what is worked on."""
        own = self.path / ADMINISTRATIVE
        if not own.exists():
            return {}
        worked_on = [path for path in self.path.iterdir() if path.name != ADMINISTRATIVE]
        found = {"pristines": [own / "pristine"], "database": [own / "wc.db"], "working": worked_on}
        return {name: paths for name, paths in found.items() if all(map(os.path.exists, paths))}

    def facts(self) -> dict[str, Any]:
        """Where it is, its revision, what it takes, and how many files each timed run has cloned. A UserError
        where a run has left it other than it should be."""
        self.room.check()
        client.check_clean(self.svn, self.path, self.revisions[1])
        fresh = self.behind is None
        return {
            "working_copy": {
                "path": str(self.path),
                "revisions": list(self.revisions),
                "filesystem": self.room.described(),
                "space": space.of(self.path) | {"used_bytes": self.room.used() if fresh else None},
                "cloned": cloning.told(self.run, self.recipe),
            }
        }

    def flags(self) -> list[str]:
        """That the storage's page cache stands in for a disk."""
        return ["host-cached"] if self.room.is_cached else []


SUBJECT = WorkingCopy
