"""A directory as a source: one commit to trunk."""

import os
import shutil
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple

from vcsbench.errors import UserError
from vcsbench.external import CHUNK, one_line, open_regular, printable
from vcsbench.sources import dump_format, svn_names
from vcsbench.sources.base import (
    TRUNK,
    Facts,
    Head,
    LocalSource,
    SizeEstimate,
    check_space,
    digest_values,
    format_notes,
    readable,
)
from vcsbench.sources.text_sample import TextSample
from vcsbench.storages.file_trees import PATH_BYTES, entries

REVISIONS = 1
# A constant, because the same tree must give the same bytes.
COMMIT_DATE = b"2000-01-01T00:00:00.000000Z"
# Repository bytes per byte of the files, which are source code as a rule. This is the least: archives and
# images become no smaller, and a sample of the files shows that.
REPOSITORY_FACTOR = 0.5
# Not set-uid: a copy belongs to the user who runs vcsbench, and a stranger's program would run as that user.
MODE_BITS = 0o777
ADMINISTRATIVE_NOTE = "Administrative folders of version control systems left out"
SPECIAL_NOTE = "Pipes, devices and sockets left out"
LINKED = "Hard links made separate files"
NO_FILES = "has no files, apart from folders of version control systems, pipes and devices"


class NamedEntry(NamedTuple):
    """A folder, file or link below a root. `name` is its relative path as Subversion can have it."""

    path: str
    name: bytes
    state: os.stat_result


class FileId(NamedTuple):
    """The device and inode of a file, which all its hard links share."""

    device: int
    inode: int


class LoadedTree:
    """The folders, files and links below `root` that are loaded.

    While the tree is read, `counts` gets the numbers of entries that are left out, renamed or changed. Its
    keys are the texts of the notes on them in reports: {"Pipes, devices and sockets left out": 2}.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.counts = Counter[str]()

    def list(self) -> Iterator[NamedEntry]:
        """Yield the folders, files and links to load, folders before their content.

        Raise UserError for a path that is too long or deep.
        """
        # entries() counts here the names that it leaves out, such as {".git": 1}.
        left_out = Counter[str]()
        for path, state in entries(self._root, left_out):
            kind = stat.S_IFMT(state.st_mode)
            if kind not in (stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK):
                self.counts[SPECIAL_NOTE] += 1
                continue
            # Subversion refuses some names: `.svn` becomes `?\046svn`.
            old_name = os.fsencode(os.path.relpath(path, self._root))
            name = svn_names.subversion_path(old_name)
            if name != old_name:
                self.counts[svn_names.RENAMED_NOTE] += 1
            # The limit is for the new name, which may be longer.
            if len(name) > PATH_BYTES:
                raise UserError(
                    f"{printable(os.fspath(self._root))}: a path is longer than {PATH_BYTES} bytes: "
                    f"{printable(name[:60])}... . Choose a folder further down."
                )
            yield NamedEntry(path, name, state)
        self.counts[ADMINISTRATIVE_NOTE] += left_out.total()

    def records(self) -> Iterator[bytes]:
        """Yield the records of a dump stream that add trunk and the tree in it."""
        trunk = TRUNK.encode()
        yield dump_format.directory(trunk)
        loaded_files = set[FileId]()
        for path, name, state in self.list():
            svn_path = trunk + b"/" + name
            if stat.S_ISDIR(state.st_mode):
                yield dump_format.directory(svn_path)
            elif stat.S_ISLNK(state.st_mode):
                # link() returns no properties if Subversion can make no link to the target.
                properties, text = svn_names.link(os.readlink(os.fsencode(path)))
                is_plain_file = not properties
                if is_plain_file:
                    self.counts[svn_names.LINKS_NOTE] += 1
                yield dump_format.file(svn_path, b"add", properties=properties, text=text)
            else:
                # Subversion has no hard links, so each name of a file becomes a file of its own.
                file_id = FileId(state.st_dev, state.st_ino)
                if file_id in loaded_files:
                    self.counts[LINKED] += 1
                loaded_files.add(file_id)
                is_executable = bool(state.st_mode & stat.S_IXUSR)
                yield from _file_records(path, svn_path, is_executable)


def _file_records(path: str, svn_path: bytes, is_executable: bool) -> Iterator[bytes]:
    properties = dump_format.EXECUTABLE if is_executable else {}
    # Somebody may have replaced the file by a link or a pipe since it was listed.
    with open(open_regular(path, follow_links=False), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        chunks = _read_chunks(file, size, path)
        yield from dump_format.file_records(
            svn_path, b"add", properties=properties, size=size, chunks=chunks
        )


def _read_chunks(file: BinaryIO, size: int, path: str) -> Iterator[bytes]:
    """Yield exactly `size` bytes: the record states this length. Raise UserError if there are fewer."""
    while size > 0:
        chunk = file.read(min(size, CHUNK))
        if not chunk:
            raise UserError(
                f"{printable(path)}: the file became shorter while it was read. Run again."
            )
        size -= len(chunk)
        yield chunk


def _sample_file(path: str, size: int, sample: TextSample) -> None:
    """Count a file in a sample of texts, and add its beginning if the sample needs it."""
    head_bytes = sample.count(size)
    if not head_bytes:
        return
    # A file that cannot be read is an error of the load later, and not of this estimate.
    with suppress(OSError, UserError), open(open_regular(path, follow_links=False), "rb") as file:
        sample.compress(file.read(head_bytes), size)


def copy_directory(source: Path, folder: Path) -> list[str]:
    """Copy the tree of `source` to the new `folder`, and return notes on changed and left-out entries.

    Names such as `.svn` are escaped, as in the loaded history. Times, hard links and modes stay, but no
    set-uid bits. A link that Subversion cannot have becomes a plain file. Raise UserError if the disk has too
    little space, if a path is too long, or if a file cannot be read.
    """
    tree = LoadedTree(source)
    with readable(source):
        sizes = [state.st_size for _, state in entries(source) if stat.S_ISREG(state.st_mode)]
        check_space(sum(sizes), folder.parent, one_line(source))
        folder.mkdir(mode=0o700)
        # The state of each original folder, by the path of its copy.
        folder_states = {os.fsencode(folder): os.stat(source)}
        # The path of the copy of each original file or link.
        copies = dict[FileId, bytes]()
        for path, name, state in tree.list():
            target = os.fsencode(folder) + b"/" + name
            if stat.S_ISDIR(state.st_mode):
                # The folder gets its own mode at the end.
                os.mkdir(target, 0o700)
                folder_states[target] = state
                continue
            file_id = FileId(state.st_dev, state.st_ino)
            if file_id in copies:
                # A further hard link to a file becomes a hard link to the copy of the file.
                os.link(copies[file_id], target, follow_symlinks=False)
                continue
            copies[file_id] = target
            if stat.S_ISREG(state.st_mode):
                _copy_file(path, target)
                continue
            # A symbolic link becomes a plain file if Subversion can make no link to its target.
            text = os.readlink(os.fsencode(path))
            if svn_names.is_link_target(text):
                os.symlink(text, target)
                _copy_times(state, target)
            else:
                Path(os.fsdecode(target)).write_bytes(text)
                tree.counts[svn_names.LINKS_NOTE] += 1
        # Folders get their modes and times last, the inner ones first. Nothing can be written to a read-only
        # folder, and each new file in a folder changes the time of the folder.
        for target, state in reversed(folder_states.items()):
            os.chmod(target, state.st_mode & MODE_BITS)
            _copy_times(state, target)
    return format_notes(tree.counts)


def _copy_file(path: str, target: bytes) -> None:
    with open(open_regular(path, follow_links=False), "rb") as file, open(target, "xb") as copy:
        shutil.copyfileobj(file, copy)
        state = os.fstat(file.fileno())
        os.fchmod(copy.fileno(), state.st_mode & MODE_BITS)
    _copy_times(state, target)


def _copy_times(state: os.stat_result, target: bytes) -> None:
    os.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns), follow_symlinks=False)


class DirectorySource(LocalSource):
    """A directory."""

    kind = "directory"

    def identity(self) -> str:
        """Return a digest of the names, modes, sizes and times of all entries."""
        self.check()
        with readable(self._path):
            states = []
            for path, state in entries(self._path):
                name = os.path.relpath(path, self._path)
                states.append((name, state.st_mode, state.st_size, state.st_mtime_ns))
        return digest_values("directory", self._path.resolve(), states)

    def check(self) -> None:
        self._check_exists()
        if not self._path.is_dir():
            raise self._path_error("is no folder. Check the path.")
        if not os.access(self._path, os.R_OK | os.X_OK):
            raise self._path_error("cannot be read. Check its permissions.")
        with readable(self._path):
            modes = (state.st_mode for _, state in entries(self._path))
            if not any(stat.S_ISREG(mode) or stat.S_ISLNK(mode) for mode in modes):
                raise self._path_error(f"{NO_FILES}. Give another folder.")

    def describe(self) -> str:
        return f"the directory {self._path}, as one commit"

    def head(self) -> Head:
        return {"kind": self.kind, "path": str(self._path)}

    def expected_revisions(self) -> int:
        return REVISIONS

    @cached_property
    def _estimate(self) -> SizeEstimate:
        size = 0
        sample = TextSample()
        for path, _, state in LoadedTree(self._path).list():
            size += state.st_size
            if stat.S_ISREG(state.st_mode):
                _sample_file(path, state.st_size, sample)
        return SizeEstimate(REVISIONS, int(size * sample.estimate_share(REPOSITORY_FACTOR)))

    def write(self, out: BinaryIO) -> Facts:
        tree = LoadedTree(self._path)
        with readable(self._path):
            out.write(dump_format.header(self.identity()))
            # Revision 0 is empty. The records of the tree follow the head of revision 1.
            for number in range(REVISIONS + 1):
                out.write(dump_format.revision(number, {b"svn:date": COMMIT_DATE}))
            out.writelines(tree.records())
            out.flush()
        return Facts(REVISIONS, format_notes(tree.counts))
