"""A generated project: a trunk whose files change at random, within limits, with branches and tags."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from math import sqrt
from random import Random

from vcsbench.sources.dump_format import CopyOrigin
from vcsbench.sources.generated_events import (
    BranchAdded,
    Change,
    FileAdded,
    FileChanged,
    FileCopied,
    FolderAdded,
    FolderCopied,
    PathDeleted,
    TagAdded,
)
from vcsbench.sources.generated_profiles import FileKind, Profile, ProjectLayout
from vcsbench.sources.generated_text import NOUNS, VERBS, Pool, Text, pick, pick_noun, pick_rank

# Only this number of the youngest branches is changed, and on each branch this number of files at most.
LIVE_BRANCHES = 5
BRANCH_FILES = 48
# The first import is as large as trunk after this number of revisions.
IMPORTED_REVISIONS = 100
# The share of new files for which this holds: the larger the file, the more often it changes.
HEAT_BY_SIZE = 0.3
# The largest file: a share of the tree, and bytes, because texts take memory.
LARGEST_SHARE = 0.04
LARGEST_FILE = 4 << 20
# An import adds missing files. If more than IMPORT_BEHIND are missing, IMPORT_SHARE of commits are imports.
IMPORT_SHARE, IMPORT_BEHIND, IMPORT_AT_MOST = 0.05, 30, 400
JOURNAL = FileKind(0, b"", "prose")


class Action(Enum):
    """What a revision does to one file of trunk."""

    ADD = auto()
    DELETE = auto()
    MOVE = auto()
    COPY = auto()
    EDIT = auto()


@dataclass(slots=True, eq=False)
class GeneratedFile:
    """A file of a trunk or branch."""

    path: bytes
    kind: FileKind
    text: Text
    is_executable: bool = False

    def directory(self) -> bytes:
        return self.path.rpartition(b"/")[0]

    def copy(self, path: bytes) -> GeneratedFile:
        """Return a copy at another path, whose text changes on its own."""
        return GeneratedFile(path, self.kind, self.text.copy(), self.is_executable)

    def added(self, properties: dict[bytes, bytes]) -> FileAdded:
        return FileAdded(self.path, self.is_executable, properties, self.text.content())

    def changed(self) -> FileChanged:
        return FileChanged(self.path, self.is_executable, self.text.content())


@dataclass(frozen=True)
class Branch:
    """A copy of trunk with the files that change on it."""

    path: bytes
    files: list[GeneratedFile]
    journal: GeneratedFile | None


def grown_share(profile: Profile, age: int) -> float:
    """Return the part of its final size that trunk should have after `age` revisions: the law of growth.

    It is the square root of the age as a part of all revisions: 0.5 after a quarter of the history. It does
    not depend on the scale, because a scaled repository is the beginning of the whole one. Trunk grows
    linearly if its first import has nearly all of it (`imported`).
    """
    if profile.imported:
        return min(1.0, profile.imported + (1 - profile.imported) * age / profile.revisions)
    return sqrt(min(1.0, max(age, IMPORTED_REVISIONS) / profile.revisions))


class GeneratedProject:
    """A trunk with its branches and tags. Changes of trunk steer towards the size that grown_share() gives.

    `files`, `directories` and `size` (bytes) are trunk's. The first ones of `files` change most often. The
    journal (a change log, to which commits add entries) is not in `files`, but its bytes are in `size`.
    """

    def __init__(
        self,
        profile: Profile,
        layout: ProjectLayout,
        pools: dict[str, Pool],
        rng: Random,
        *,
        first: int,
        kinds: tuple[FileKind, ...],
    ) -> None:
        """Prepare a project that begins in the revision `first`. It has no files before start().

        `layout` names its folders, `kinds` are those of its files, and `pools` have the lines of texts by the
        name of a pool. All projects of a history share `rng`, the source of random numbers.
        """
        self._profile = profile
        self._layout = layout
        self._pools = pools
        self._rng = rng
        self._first = first
        self._kinds = kinds
        # The factor from a size of the distribution `profile.file_bytes` to a size in this project.
        self._size_factor = profile.size_factor(kinds)
        self.directories = [layout.trunk]
        self.files: list[GeneratedFile] = []
        # The bytes of all files of trunk and of its journal.
        self.size = 0
        # All paths that ever existed.
        self._paths: set[bytes] = set()
        # The change log of trunk, to which commits add entries; None if the profile has none.
        self._journal: GeneratedFile | None = None
        self._branches: list[Branch] = []
        # The number of branches and tags so far.
        self._copy_count = 0
        # The latest revision that changes trunk, and the files that it has added or changed so far.
        self._revision = 0
        self._changed_files: set[GeneratedFile] = set()
        # The part of its final size that trunk should have at its latest revision (grown_share).
        self._grown = 0.0

    def start(self, number: int) -> Iterator[Change]:
        """Yield the changes of the first import, the revision `number`: the journal, if any, and files.

        Trunk grows during the whole history, for example from 5 % of its final size to all of it
        (grown_share). The import adds files until trunk has this first part of the final number of files.
        """
        # The part of its final size that trunk should have now, such as 0.05. _journal_limit() and
        # _count_missing() multiply the final numbers by it.
        self._grown = grown_share(self._profile, number - self._first)
        if self._profile.journal:
            path = self._layout.trunk + b"/" + self._profile.journal
            # A journal that exceeds its limit loses its older half. So it has between half of the limit and
            # the limit, and begins with half of it.
            text = Text.create(self._rng, self._pools["prose"], self._journal_limit() // 2)
            self._journal = GeneratedFile(path, JOURNAL, text)
            self._paths.add(path)
            self.size += text.size
            yield self._journal.added({b"svn:eol-style": b"native"})
        while self._count_missing() >= 1:
            yield from self._new_file()

    def change(self, number: int) -> Iterator[Change]:
        """Yield the changes of the revision `number`: a new branch, a new tag, or changed files.

        The files are all in one branch, or all in trunk. The profile's shares decide: with `new_branch` 0.01,
        one revision in a hundred makes a branch. The calls of random() must keep their order: another order
        gives another history.
        """
        shares, layout = self._profile.shares, self._layout
        # One random number from 0 to 1 decides: each event has a part of this range that is as long as its
        # share, one part after the other. The rest of the range changes trunk.
        event = self._rng.random()
        # A new tag and a change of a branch need a branch, so the first call always makes one.
        if event < shares.new_branch or not self._branches:
            path = self._name_copy(layout.branches)
            self._branches.append(self._make_branch(path))
            # Only the youngest branches are changed later. The text of older ones would take memory.
            del self._branches[:-LIVE_BRANCHES]
            yield BranchAdded(path, CopyOrigin(layout.trunk, number - 1))
        elif event < shares.new_branch + shares.new_tag:
            origin = CopyOrigin(pick(self._rng, self._branches).path, number - 1)
            yield TagAdded(self._name_copy(layout.tags), origin)
        elif event < shares.new_branch + shares.new_tag + shares.branch:
            yield from self._change_branch()
        else:
            # Only a revision that changes trunk sets these two. `_grown` is the part of its final size that
            # trunk should have now: new files are added only while trunk has fewer. Copies are made from the
            # revision before `_revision`.
            self._grown = grown_share(self._profile, number - self._first)
            self._revision = number
            yield from self._change_trunk()

    def _name_copy(self, folders: tuple[bytes, ...]) -> bytes:
        """Return the path of a new branch or tag, in each of the folders in turn: branches/buffer_7"""
        self._copy_count += 1
        folder = folders[self._copy_count % len(folders)]
        return b"%s/%s_%d" % (folder, pick_noun(self._rng), self._copy_count)

    def _make_branch(self, path: bytes) -> Branch:
        """Return a branch. Its `files` are some of trunk's files, mostly those that change most often."""
        # The keys are a set that keeps its order.
        trunk_files: dict[GeneratedFile, None] = {}
        for _ in range(BRANCH_FILES):
            trunk_files[self._pick_hot_file()] = None
        files = [self._copy_to(path, file) for file in trunk_files]
        journal = self._copy_to(path, self._journal) if self._journal else None
        return Branch(path, files, journal)

    def _copy_to(self, branch: bytes, file: GeneratedFile) -> GeneratedFile:
        return file.copy(branch + file.path.removeprefix(self._layout.trunk))

    def _change_branch(self) -> Iterator[Change]:
        """Yield the changes of a revision that changes files of one branch, perhaps also its journal.

        A journal is a change log. No file is changed twice: a revision can have only one record for a path.
        """
        rng = self._rng
        branch = pick(rng, self._branches)
        if branch.journal and rng.random() < self._profile.shares.journal:
            # Above the limit, the journal loses its older half.
            branch.journal.text.add_entry(rng, self._journal_limit())
            yield branch.journal.changed()
        count = min(self._profile.paths.draw(rng), len(branch.files))
        # The first files of a branch are drawn more often (by the power 2). A file that is drawn twice is in
        # the set only once.
        indices = {pick_rank(rng, len(branch.files), 2) for _ in range(count)}
        # Sorted, because Python does not define the order of a set, and a history must always be the same.
        for i in sorted(indices):
            file = branch.files[i]
            file.text.edit(rng, file.kind.churn)
            yield file.changed()

    def _change_trunk(self) -> Iterator[Change]:
        """Yield the changes of a revision that changes trunk, sometimes with an entry in the journal.

        The revision moves or deletes a directory, rewrites all files that a program writes, adds many missing
        files (an import), or (usually) changes a few files.
        """
        shares, rng, journal = self._profile.shares, self._rng, self._journal
        # The files that this revision has changed so far. None may be changed twice.
        self._changed_files = set()
        if journal and rng.random() < shares.journal:
            old_size = journal.text.size
            journal.text.add_entry(rng, self._journal_limit())
            self.size += journal.text.size - old_size
            yield journal.changed()
        # One random number from 0 to 1 decides. With the shares 0.001 and 0.01, a number below 0.001 changes
        # a directory, and one from 0.001 to 0.011 makes a rewrite.
        event = rng.random()
        if event < shares.directory:
            yield from self._change_directory()
        elif event < shares.directory + shares.rewrite:
            for file in self.files:
                # Only files that a program writes, such as translations, have a churn between 0 and 1.
                if 0 < file.kind.churn < 1:
                    yield self._edit(file)
        # Trunk has far fewer files than it should have by now. Then a second random number makes an import of
        # this commit, with the probability IMPORT_SHARE (0.05).
        elif self._count_missing() > IMPORT_BEHIND and rng.random() < IMPORT_SHARE:
            count = min(int(self._count_missing()), IMPORT_AT_MOST)
            for _ in range(count):
                yield from self._new_file()
        else:
            # The number of files to change. A small trunk has fewer files than some commits change.
            count = min(self._profile.paths.draw(rng), 1 + len(self.files) // 2)
            for _ in range(count):
                yield from self._change_path()

    def _change_path(self) -> Iterator[Change]:
        """Yield the changes that add, delete, move, copy or edit one random file of trunk.

        Yield nothing if the random file was already changed in this revision: a path has one record only.
        """
        rng = self._rng
        action = self._draw_action()
        if action == Action.ADD:
            yield from self._new_file()
            return
        # An edit changes a hot file: one of those that are edited often. It is also drawn for the other
        # actions, because another sequence of random numbers would give another history.
        file = self._pick_hot_file()
        # A deletion, move or copy takes any file instead. But if this revision has changed the hot file
        # already, no second file is drawn, and nothing happens.
        if action != Action.EDIT and file not in self._changed_files:
            file = pick(rng, self.files)
        # The hot file, or the file that was drawn instead.
        if file in self._changed_files:
            return
        self._changed_files.add(file)
        if action == Action.EDIT:
            yield self._edit(file)
            return
        # In a dump stream, a move is a copy and a deletion.
        if action in (Action.MOVE, Action.COPY):
            # A record can copy only from an earlier revision than its own.
            origin = CopyOrigin(file.path, self._revision - 1)
            path = self._new_path(file.directory(), file.kind.extension)
            # The new file gets a random heat, which decides how often it will be edited.
            self._insert(file.copy(path), rng.random())
            yield FileCopied(path, origin)
        if action in (Action.MOVE, Action.DELETE):
            self.files.remove(file)
            self.size -= file.text.size
            yield PathDeleted(file.path)

    def _draw_action(self) -> Action:
        """Return what happens to a file of trunk, at random by the shares of the profile."""
        shares = self._profile.shares
        # One random number from 0 to 1: each action has a part of this range that is as long as its share.
        # Additions have the first part. `share` is the distance from the end of that part.
        share = self._rng.random() - shares.add
        if share < 0:
            # If trunk has enough files for its age, the addition becomes an edit.
            return Action.ADD if self._count_missing() >= 1 else Action.EDIT
        if share < shares.delete:
            return Action.DELETE
        if share < shares.delete + shares.move:
            return Action.MOVE
        if share <= shares.delete + shares.move + shares.copy:
            return Action.COPY
        return Action.EDIT

    def _change_directory(self) -> Iterator[Change]:
        """Delete or move a random directory, each with a probability of one half, and yield the changes.

        Do nothing if the directory is trunk, or has too many files for one commit: over 2 percent of all.
        """
        old = pick(self._rng, self.directories)
        files = [file for file in self.files if file.path.startswith(old + b"/")]
        if old == self._layout.trunk or len(files) > len(self.files) // 50:
            return
        # The directory, and all directories below it.
        folders = [path for path in self.directories if (path + b"/").startswith(old + b"/")]
        self.directories = [path for path in self.directories if path not in folders]
        if self._rng.random() < 0.5:
            self.files = [file for file in self.files if file not in files]
            self.size -= sum(file.text.size for file in files)
        else:
            new = self._new_path(old.rpartition(b"/")[0])
            # A record can copy only from an earlier revision than its own.
            origin = CopyOrigin(old, self._revision - 1)
            yield FolderCopied(new, origin, has_files=bool(files))
            self.directories += [new + path.removeprefix(old) for path in folders]
            for file in files:
                file.path = new + file.path.removeprefix(old)
            # The new paths are now taken, and the old paths stay taken: no path ever gets another file.
            self._paths.update(self.directories, (file.path for file in files))
        # In a dump stream, a move is a copy and a deletion.
        yield PathDeleted(old)

    def _new_file(self) -> Iterator[Change]:
        """Add a file to trunk, sometimes in a new directory, and yield these changes: the directory first."""
        rng, profile = self._rng, self._profile
        directory = self._choose_directory()
        depth = directory.count(b"/") - self._layout.trunk.count(b"/")
        if rng.random() < profile.new_directories and depth < profile.deepest:
            directory = self._new_path(directory)
            self.directories.append(directory)
            yield FolderAdded(directory)
        kind = self._pick_kind()
        # The place of the new file among all files by size: 0.9 means that it is larger than 90 % of them.
        share = rng.random()
        # The profile's bytes at this place, times a factor of the kind of file (2: twice as large as the mean
        # file), times a factor of this project, which gives its files the mean size of the profile.
        size = self._size_factor * kind.size * profile.file_bytes.at(share)
        # Without a limit, one file could be most of a small tree. `_grown` is the part of the profile's
        # `tree_bytes` that trunk should have at its age.
        largest = min(LARGEST_FILE, LARGEST_SHARE * self._grown * profile.tree_bytes)
        # _size_excess() is from -1 (files are too small now) to 1 (too large). The new file becomes up to
        # 60 % smaller if files are too large, and up to 60 % larger if they are too small.
        size = min(size * (1 - 0.6 * self._size_excess()), largest)
        text = Text.create(rng, self._pools[kind.pool], int(size))
        file = GeneratedFile(self._new_path(directory, kind.extension), kind, text)
        # The place of the file among all files by its changes: 0.9 means that it changes more often than 90 %
        # of them. Some kinds of files have a fixed place.
        heat = kind.heat
        if heat is None:
            # Large files change more often. So a part of the files (HEAT_BY_SIZE, 0.3) has the same place by
            # changes as by size. All others have a random place.
            heat = share if rng.random() < HEAT_BY_SIZE else rng.random()
        self._insert(file, heat)
        properties = self._new_properties(kind)
        file.is_executable = b"svn:executable" in properties
        yield file.added(properties)

    def _choose_directory(self) -> bytes:
        """Return the directory of a new file: any, or another file's directory, so that some become full."""
        directory = pick(self._rng, self.directories)
        if self.files and self._rng.random() < 0.5:
            directory = pick(self._rng, self.files).directory()
        return directory

    def _new_properties(self, kind: FileKind) -> dict[bytes, bytes]:
        if kind.pool == "bytes":
            return {b"svn:mime-type": b"application/octet-stream"}
        properties = {}
        if self._profile.eol_style:
            properties[b"svn:eol-style"] = self._profile.eol_style
        if self._rng.random() < kind.executable:
            properties[b"svn:executable"] = b"*"
        return properties

    def _new_path(self, directory: bytes, extension: bytes = b"") -> bytes:
        """Return a path that was never used before: trunk/lib/buffer.c, or trunk/lib/buffer_parse.c"""
        stem = directory + b"/" + pick_noun(self._rng)
        while stem + extension in self._paths:
            words = NOUNS if self._rng.random() < 0.6 else VERBS
            stem += b"_" + pick(self._rng, words).encode("ascii")
        path = stem + extension
        self._paths.add(path)
        return path

    def _pick_kind(self) -> FileKind:
        share = self._rng.random()
        for kind in self._kinds:
            share -= kind.share
            if share < 0:
                return kind
        return self._kinds[-1]

    def _pick_hot_file(self) -> GeneratedFile:
        """Return a random file; the first ones are the more likely ones, by the profile's `heat`."""
        return self.files[int(self._profile.heat.value(self._rng) * len(self.files))]

    def _edit(self, file: GeneratedFile) -> FileChanged:
        before = file.text.size
        file.text.edit(self._rng, file.kind.churn, self._size_excess())
        self.size += file.text.size - before
        return file.changed()

    def _insert(self, file: GeneratedFile, heat: float) -> None:
        """Insert a new file of trunk behind the part 1 - `heat` of all files, which change more often.

        The file counts as changed in this revision, so that its path gets no second record.
        """
        self.files.insert(int((1 - heat) * len(self.files)), file)
        self._changed_files.add(file)
        self.size += file.text.size

    def _journal_limit(self) -> int:
        """Return the bytes above which a journal loses its older half: 2,000 or more."""
        # A journal has from half of the limit to the limit, so its median is 3/4 of the limit.
        return 2000 + int(self._profile.journal_bytes * self._grown * 4 / 3)

    def _size_excess(self) -> float:
        """Return from -1 to 1 how much the mean file of trunk is too small or too large.

        -1 stands for 5 % or more below the mean of the profile, 0 for the mean, and 1 for 5 % or more above.
        """
        # The added 1 keeps the divisor above 0 before the first file is added.
        share = self.size / (self._profile.mean_file_bytes * (len(self.files) + 1))
        return max(-1.0, min(1.0, 20 * (share - 1)))

    def _count_missing(self) -> float:
        """Return the number of files that trunk lacks at its age; negative if it has too many."""
        return self._grown * self._profile.tree_files - len(self.files)
