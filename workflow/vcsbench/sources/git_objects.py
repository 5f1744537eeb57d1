"""Read objects, changes and trees of a git repository, and write a tree to a folder."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.files import MAX_DEPTH
from vcsbench.sources import dump_format
from vcsbench.sources.git_repository import Git
from vcsbench.sources.streams import CHUNK, Program

EXECUTABLE = b"100755"
SYMLINK = b"120000"
SUBMODULE = b"160000"
FOLDER = b"040000"
ABSENT = b"000000"

# A commit may change more only where its tree holds itself many times over.
MOST_CHANGES = 3_000_000
# Trees as well as files; renames, which are looked for among so many files at most, because the
# effort grows with the square of their number.
DIFF_TREE = ("diff-tree", "--stdin", "-r", "-t", "--raw", "-z", "--no-abbrev", "-M", "-l400")
# So few requests and answers' headers fit into a pipe: neither side waits for the other for ever.
REQUESTS = 256
# Control characters but tab and the line's end, and what is no character.
_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
# What Subversion's dates can hold.
LAST_SECOND = 253402300799
# Trees may hold themselves many times over: a few kilobytes become billions of files.
MOST_ENTRIES = 3_000_000
# Linux's limit for a path, less the folder of the export.
LONGEST_PATH = 3500
# Linux's limit for the target of a symbolic link.
LONGEST_TARGET = 4095
SUBMODULES = "Submodules left out"
TARGETS = (
    "Targets of symbolic links escaped, as in ?\\010, because Subversion refuses control characters and what "
    "is not UTF-8"
)
IMPOSSIBLE = "Symbolic links made plain files, because no link can have such a target"


@dataclass(frozen=True)
class Change:
    """One file or directory that came, went or changed.

    Modes are git's, ABSENT where there is none. `source` is the path that it was renamed or copied
    from, which is `path` when it was neither; `moved` when that one went.
    """

    path: bytes
    source: bytes
    old_mode: bytes
    new_mode: bytes
    old_object: bytes
    new_object: bytes
    moved: bool = False


def _word(pipe: BufferedReader) -> bytes:
    """What comes before the next NUL."""
    word = b""
    while (end := (seen := pipe.peek()).find(b"\0")) < 0:
        if not seen:
            raise EOFError("git diff-tree ended in the middle of a change")
        word += pipe.read(len(seen))
    return word + pipe.read(end + 1)[:-1]


def read_changes(pipe: BufferedReader) -> Iterator[list[Change]]:
    """The changes of each pair of trees that was given to DIFF_TREE, in order.

    Each pair's output begins with a line of the two trees. Each change is
    `:<old mode> <new mode> <old object> <new object> <status>`, NUL, path, NUL; for a rename, whose
    status is R and a percentage, the old path and the new one. Where one file became several, the
    status of all but one is C.
    """
    while pipe.readline():
        changes = []
        while pipe.peek()[:1] == b":":
            old_mode, new_mode, old, new, status = _word(pipe)[1:].split(b" ")
            source = path = _word(pipe)
            if status[:1] in b"RC":
                path = _word(pipe)
            moved = status[:1] == b"R"
            changes.append(Change(path, source, old_mode, new_mode, old, new, moved))
            if len(changes) > MOST_CHANGES:
                raise UserError(
                    f"a commit changes more than {MOST_CHANGES} files. Choose another branch."
                )
        yield changes


class Content:
    """An object's content, to be read before the next object's."""

    def __init__(self, program: Program, size: int) -> None:
        self._program = program
        self.size = size
        self._left = size

    def chunks(self) -> Iterator[bytes]:
        """The content, piece by piece."""
        while self._left > 0:
            chunk = self._program.stdout.read(min(self._left, CHUNK))
            if not chunk:
                raise self._program.failed()
            self._left -= len(chunk)
            yield chunk

    def whole(self) -> bytes:
        """The content in one piece."""
        return b"".join(self.chunks())


class Objects:
    """Reads objects; requests are sent ahead of the answers."""

    def __init__(self, program: Program, where: str) -> None:
        self._program = program
        self.where = where

    def read(self, names: Sequence[bytes]) -> Iterator[Content]:
        """The contents of the objects, in order."""
        requests = self._program.process.stdin
        assert requests is not None
        for start in range(0, len(names), REQUESTS):
            part = names[start : start + REQUESTS]
            try:
                requests.write(b"".join(name + b"\n" for name in part))
                requests.flush()
            except BrokenPipeError:
                raise self._program.failed() from None
            for name in part:
                content = self._answer(name)
                yield content
                for _ in content.chunks():
                    pass
                self._program.stdout.read(1)

    def whole(self, name: bytes) -> bytes:
        """One object's content."""
        for content in self.read([name]):
            text = content.whole()
        return text

    def _answer(self, name: bytes) -> Content:
        head = self._program.stdout.readline().split()
        if not head:
            raise self._program.failed()
        if len(head) != 3:
            raise UserError(
                f"{self.where}: the object {name.decode()} is missing: the clone is partial or "
                "damaged. Clone it again, without --filter."
            )
        return Content(self._program, int(head[2]))


@dataclass(frozen=True)
class Message:
    """Who made a commit or tag, when (seconds since 1970), and what they say about it."""

    author: str
    seconds: int
    text: str

    def properties(self, seconds: int) -> dict[bytes, bytes]:
        """The properties of a revision with the date `seconds`."""
        date = dump_format.date(datetime.fromtimestamp(seconds, UTC))
        properties = {b"svn:log": self.text.encode("utf-8"), b"svn:date": date}
        if self.author:
            properties[b"svn:author"] = self.author.encode("utf-8")
        return properties


def parse_object(data: bytes) -> Message:
    """Read a raw commit or annotated tag, in whatever encoding it is.

    The date is the committer's: it tells when the commit came to be where it is.
    """
    head, _, text = data.partition(b"\n\n")
    fields: dict[bytes, bytes] = {}
    for line in head.split(b"\n"):
        key, _, value = line.partition(b" ")
        if key:  # a line that begins with a space continues a signature
            fields.setdefault(key, value)
    encoding = fields.get(b"encoding", b"utf-8").decode("ascii", "replace")
    tagger = fields.get(b"tagger", b"")
    author = fields.get(b"author", tagger).partition(b"<")[0]
    return Message(
        author=" ".join(_REFUSED.sub(" ", decode(author, encoding)).split()),
        seconds=_seconds(fields.get(b"committer", tagger)),
        text=_lines(decode(text, encoding)),
    )


def decode(data: bytes, encoding: str) -> str:
    """Text of a stated encoding, which may be wrong, unknown or a lie."""
    try:
        return data.decode(encoding)
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


def _seconds(signature: bytes) -> int:
    """The date in `Name <mail> 1234567890 +0100`, or 0 where there is none."""
    words = signature.rpartition(b">")[2].split()
    try:
        return min(max(int(words[0]), 0), LAST_SECOND)
    except (IndexError, ValueError):
        return 0


def _lines(text: str) -> str:
    """The text as svn:log can be: line ends are LF, and no control characters but tab."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _REFUSED.sub("\N{REPLACEMENT CHARACTER}", text)


class Entry(NamedTuple):
    """A file, folder, link or submodule of a tree."""

    mode: bytes
    name: bytes
    path: bytes


def link_target(target: bytes) -> bytes | None:
    """Return the target that a link can have, or None where no link can have one like it."""
    escaped = dump_format.escape(target)
    return escaped if 0 < len(escaped) <= LONGEST_TARGET else None


def list_tree(git: Git, commit: str) -> Iterator[Entry]:
    """Yield everything in the tree of a commit, folders before their content.

    Raise UserError for trees that no file system can hold.
    """
    with git.start("ls-tree", "-r", "-t", "-z", "--full-tree", commit) as listing:
        rest = b""
        count = 0
        while chunk := listing.stdout.read1(CHUNK):
            *lines, rest = (rest + chunk).split(b"\0")
            for line in lines:
                head, _, path = line.partition(b"\t")
                mode, _, name = head.split(b" ")
                count += 1
                if count > MOST_ENTRIES:
                    raise UserError(
                        f"{git.layout.shown}: the tree of {commit[:12]} has more than {MOST_ENTRIES} "
                        "files and folders. Choose another branch."
                    )
                check_path(path, git.layout.shown)
                yield Entry(mode, name, path)
        listing.finish()


def check_path(path: bytes, where: str) -> None:
    """Raise UserError if folders are nested too deep, or the path is too long for an export."""
    if path.count(b"/") > MAX_DEPTH:
        raise UserError(
            f"{where}: folders are nested deeper than {MAX_DEPTH}: {printable(path[:60])}... . "
            "Choose another branch."
        )
    if len(path) > LONGEST_PATH:
        raise UserError(
            f"{where}: a path is longer than {LONGEST_PATH} bytes: {printable(path[:60])}... . "
            "Choose another branch."
        )


def blob_sizes(git: Git, blobs: Iterator[bytes]) -> Iterator[int]:
    """Yield the size of each blob, in order. Raise UserError if one is missing."""
    with tempfile.TemporaryFile() as requests:
        for name in blobs:
            requests.write(name + b"\n")
        requests.seek(0)
        with git.start("cat-file", "--batch-check", "--buffer", stdin=requests) as answers:
            for line in answers.stdout:
                words = line.split()
                if len(words) != 3:
                    raise missing(git.layout.shown, words[0].decode(errors="replace"))
                yield int(words[2])
            answers.finish()


def missing(where: str, name: str) -> UserError:
    """Return the error about an object that a repository lacks."""
    return UserError(
        f"{where}: the object {name} is missing: the clone is partial or damaged. "
        "Clone it again, without --filter."
    )


def write_tree(git: Git, commit: str, folder: Path) -> list[str]:
    """Write the tree of a commit to a new folder and return notes on what was renamed or left out.

    Names and link targets are those of the loaded history, so that both studies measure the same tree. Files
    have the bytes of the commit's blobs. Every folder is created here, so no link is followed.
    """
    counts = Counter[str]()
    folder.mkdir()
    folder.chmod(0o755)
    made = {b""}
    files = list[tuple[Entry, bytes]]()
    for entry in list_tree(git, commit):
        if entry.mode == SUBMODULE:
            counts[SUBMODULES] += 1
            continue
        at, reasons = dump_format.rename(entry.path)
        counts.update(reasons)
        above = at.rpartition(b"/")[0]
        if at in made or above not in made:
            raise UserError(
                f"{git.layout.shown}: the tree of {commit[:12]} is damaged at {printable(entry.path)}: "
                "two entries of one name, or one outside of its folder. `git fsck` lists more."
            )
        if entry.mode == FOLDER:
            made.add(at)
            os.mkdir(_inside(folder, at))
            os.chmod(_inside(folder, at), 0o755)
        else:
            files.append((entry, at))
    seen = set[bytes]()
    with git.start("cat-file", "--batch", stdin=subprocess.PIPE) as program:
        contents = Objects(program, git.layout.shown).read([entry.name for entry, _ in files])
        for (entry, at), content in zip(files, contents, strict=True):
            if at in seen or at in made:
                raise UserError(
                    f"{git.layout.shown}: the tree of {commit[:12]} has {printable(entry.path)} twice. "
                    "`git fsck` lists more."
                )
            seen.add(at)
            _write_file(entry.mode, content, _inside(folder, at), counts)
    return [f"{what}: {n}." for what, n in counts.items() if n]


def _inside(folder: Path, path: bytes) -> bytes:
    return os.fsencode(folder) + b"/" + path


def _write_file(mode: bytes, content: Content, path: bytes, counts: Counter[str]) -> None:
    chunks: Iterator[bytes] = content.chunks()
    if mode == SYMLINK and content.size <= LONGEST_TARGET:
        target = content.whole()
        escaped = link_target(target)
        if escaped is not None:
            counts[TARGETS] += escaped != target
            os.symlink(escaped, path)
            return
        chunks = iter([target])
    counts[IMPOSSIBLE] += mode == SYMLINK
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb") as file:
        for chunk in chunks:
            file.write(chunk)
        os.fchmod(file.fileno(), 0o755 if mode == EXECUTABLE else 0o644)
