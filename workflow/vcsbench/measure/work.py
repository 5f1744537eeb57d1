"""Compute the fingerprint of a command's work, from its output or from the files that it wrote.

Cells are compared only if their fingerprints are equal. The `work` key of a study's command is a key of
KINDS.
"""

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from vcsbench.external import CHUNK

# Numbers by name, and the `digest` of the output or the files. Empty: the work is unknown, also if a command
# printed or wrote nothing: all commands that do nothing would be equal.
Fingerprint = dict[str, int | str]
UNCHECKED = "apart"
LONGEST = 1024
PREFIX_LENGTH = 12
# A keyword of fixed width is padded or cut together with its URL. %b is the start of the URL.
FIXED_WIDTH = rb"\$(?:HeadURL|URL|Header):: %b[^$\r\n]{0,255}\$"


class UrlNormaliser:
    """Replace the repository's URLs in bytes by one word: they differ between copies, ports and protocols.

    Expanded keywords ($HeadURL$, $Header$) contain them. Without `urls`, or with "" only, bytes stay as
    they are.
    """

    def __init__(self, *urls: str) -> None:
        roots = sorted({url.encode() for url in urls if url}, key=len, reverse=True)
        self._prefixes = {root[:PREFIX_LENGTH] for root in roots}
        fixed_width = [FIXED_WIDTH % re.escape(prefix) for prefix in self._prefixes]
        self._pattern = re.compile(b"|".join([*fixed_width, *map(re.escape, roots)]))

    # The pattern takes 20 times as long: 17 s for each run that writes a tree of 1 GB.
    def _may_match(self, data: bytes | bytearray) -> bool:
        return any(prefix in data for prefix in self._prefixes)

    def replace(self, data: bytes | bytearray) -> bytes | bytearray:
        return self._pattern.sub(b"{url}", data) if self._may_match(data) else data

    def complete_length(self, data: bytes | bytearray) -> int:
        """Return how many bytes of the data cannot be part of a URL that continues after the data."""
        end = max(0, len(data) - LONGEST)
        if self._may_match(data):
            for match in self._pattern.finditer(data):
                if match.start() < end < match.end():
                    return match.end()
        return end


class UrlFreeDigest:
    """Compute the digest and the length (`bytes`) of normalised data that comes in pieces of any size."""

    def __init__(self, normaliser: UrlNormaliser) -> None:
        self._normaliser = normaliser
        self._pending = bytearray()
        self._sha256 = hashlib.sha256()
        self.bytes = 0

    def update(self, data: bytes) -> None:
        self._pending += data
        if len(self._pending) >= CHUNK:
            self._add(self._normaliser.complete_length(self._pending))

    def end(self) -> str:
        self._add(len(self._pending))
        return self._sha256.hexdigest()[:16]

    def _add(self, length: int) -> None:
        data = self._normaliser.replace(self._pending[:length])
        del self._pending[:length]
        self._sha256.update(data)
        self.bytes += len(data)


def discard_output(output: IO[bytes], _urls: UrlNormaliser | None = None) -> Fingerprint:
    while output.read(1 << 16):
        pass
    return {}


def read_stdout(output: IO[bytes], urls: UrlNormaliser) -> Fingerprint:
    digest, lines = UrlFreeDigest(urls), 0
    while data := output.read(CHUNK):
        lines += data.count(b"\n")
        digest.update(data)
    work: Fingerprint = {"lines": lines, "digest": digest.end(), "bytes": digest.bytes}
    return work if digest.bytes else {}


LOG_SEPARATOR = b"-" * 72 + b"\n"
LOG_HEADING = re.compile(rb"r\d+ \|.*?(?: \| (\d+) lines?)?\n", re.DOTALL)
LOG_PATH = b"   "


def read_log(output: IO[bytes], urls: UrlNormaliser) -> Fingerprint:
    """Return revisions, changed paths (0 without -v), bytes and digest of the output of `svn log`.

    A message may contain lines like the headings of other revisions. Its own heading has its number of
    lines.
    """
    digest = UrlFreeDigest(urls)
    revisions = paths = lines = message = 0
    before, in_heading = b"", False
    for line in output:
        digest.update(line)
        if message:
            message -= 1
        elif before == LOG_SEPARATOR and (heading := LOG_HEADING.fullmatch(line)):
            revisions += 1
            lines, in_heading = int(heading[1] or 0), True
        elif in_heading and line.startswith(LOG_PATH):
            paths += 1
        elif in_heading and line == b"\n":
            message, in_heading = lines, False
        before = line
    if not revisions:
        return {}
    return {"revisions": revisions, "paths": paths, "digest": digest.end(), "bytes": digest.bytes}


NULL_COUNT = re.compile(rb"\s*([\d,]+) (\D+)")
# These differ between runs and between protocols: mod_dav_svn adds its own properties.
VARYING_COUNTS = frozenset(
    ["seconds taken", "bytes transferred over network", "properties", "bytes in properties"]
)


def read_printed_counts(output: IO[bytes], _urls: UrlNormaliser) -> Fingerprint:
    counts: Fingerprint = {}
    for line in output:
        match = NULL_COUNT.fullmatch(line.rstrip())
        if match and (name := match[2].decode("ascii", "replace")) not in VARYING_COUNTS:
            counts[name.replace(" ", "_")] = int(match[1].replace(b",", b""))
    return counts if any(counts.values()) else {}


VERIFIED = re.compile(rb"\* Verified revision (\d+)\.\s*")


def read_verified(output: IO[bytes], _urls: UrlNormaliser) -> Fingerprint:
    verified = [int(match[1]) for line in output if (match := VERIFIED.fullmatch(line))]
    return {"revisions": len(verified), "youngest": max(verified)} if verified else {}


REVISION = b"Revision-number: "
NODE = b"Node-path: "
LENGTH = b"Content-length: "
# Repositories of other formats have another UUID if the source has none, and up to format 3 no SHA-1.
LEFT_OUT = re.compile(rb"UUID: |Text-[a-z-]+-sha1: ")
# The date of revision 0 is the time of the load if the source has none. Its lengths are left out with it.
OF_REVISION_0 = re.compile(rb"(Prop-content-|Content-)length: ")
DATE = re.compile(rb"^K 8\nsvn:date\nV \d+\n[^\n]*\n", re.MULTILINE)
LARGEST_REVISION_0 = 1 << 20


def read_dump(stream: IO[bytes], urls: UrlNormaliser) -> Fingerprint:
    """Return revisions, nodes, bytes and digest of a dump, without UUID, SHA-1 and revision 0's date.

    All other bytes are equal for all formats, packings and copies of a repository.
    """
    digest = UrlFreeDigest(urls)
    revisions = nodes = length = 0
    is_revision_0 = False
    for line in stream:
        if line == b"\n":
            digest.update(line)
            if is_revision_0 and length <= LARGEST_REVISION_0:
                digest.update(DATE.sub(b"", stream.read(length)))
                length = 0
            while length > 0 and (data := stream.read(min(length, CHUNK))):
                digest.update(data)
                length -= len(data)
            length, is_revision_0 = 0, False
            continue
        if line.startswith(LENGTH):
            length = int(line[len(LENGTH) :])
        if line.startswith(REVISION):
            revisions += 1
            is_revision_0 = line == b"Revision-number: 0\n"
        nodes += line.startswith(NODE)
        if not LEFT_OUT.match(line) and not (is_revision_0 and OF_REVISION_0.match(line)):
            digest.update(line)
    if not revisions:
        return {}
    return {"revisions": revisions, "nodes": nodes, "digest": digest.end(), "bytes": digest.bytes}


ADMINISTRATIVE = b".svn"
METADATA = (b".svn", b".git", b".hg", b".bzr", b".jj", b".fslckout", b"_FOSSIL_")
Entry = tuple[bytes, bytes, int]


def inspect_trees(targets: Path, urls: UrlNormaliser) -> Fingerprint:
    different = {tuple(inspect_tree(path, urls).items()) for path in sorted(targets.iterdir())}
    return dict(*different) if len(different) == 1 else {"different_trees": len(different)}


def inspect_built_tree(target: Path, urls: UrlNormaliser) -> Fingerprint:
    """Leave out directories, and the metadata of version control systems.

    Some strategies do not build empty directories. Another check reports that.
    """
    counts = inspect_tree(target, urls, is_built=True)
    return {name: value for name, value in counts.items() if name != "directories"}


def inspect_repository(repository: Path, urls: UrlNormaliser) -> Fingerprint:
    from vcsbench.subjects import fsfs

    youngest = fsfs.youngest(repository)
    if not youngest:
        return {}
    dump = fsfs.read_output(lambda output: read_dump(output, urls), "dump", "-q", repository)
    return {"youngest": youngest, **dump}


def inspect_tree(target: Path, urls: UrlNormaliser, is_built: bool = False) -> Fingerprint:
    """Return files, directories, symlinks, bytes in files, and the digest of a tree.

    The digest covers names, contents, the executable bit and the targets of symlinks. `is_built` leaves out
    directories and METADATA.
    """
    counts = {"files": 0, "directories": 0, "symlinks": 0, "bytes": 0}
    total = hashlib.sha256()
    for name, path, mode in _entries(target):
        if is_built and (stat.S_ISDIR(mode) or name.partition(b"/")[0] in METADATA):
            continue
        total.update(name + b"\0")
        if stat.S_ISLNK(mode):
            counts["symlinks"] += 1
            total.update(b"l" + os.readlink(path) + b"\0")
        elif stat.S_ISDIR(mode):
            counts["directories"] += 1
            total.update(b"d\0")
        else:
            digest = UrlFreeDigest(urls)
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb", buffering=0) as file:
                buffer = min(os.fstat(file.fileno()).st_size + 1, CHUNK)
                while data := file.read(buffer):
                    digest.update(data)
            total.update((b"x" if mode & stat.S_IXUSR else b"f") + digest.end().encode() + b"\0")
            counts["files"] += 1
            counts["bytes"] += digest.bytes
    if not counts["files"] and not counts["symlinks"]:
        return {}
    return {**counts, "digest": total.hexdigest()[:16]}


def _entries(target: Path) -> Iterator[Entry]:
    root = os.fsencode(target)
    try:
        mode = os.lstat(root).st_mode
    except FileNotFoundError:
        return
    yield b"", root, mode
    pending = [(b"", root)] if stat.S_ISDIR(mode) else []
    while pending:
        parent, folder = pending.pop()
        with os.scandir(folder) as children:
            entries = sorted(children, key=lambda entry: entry.name)
        for entry in entries:
            if entry.name != ADMINISTRATIVE:
                mode = entry.stat(follow_symlinks=False).st_mode
                yield parent + entry.name, entry.path, mode
                if stat.S_ISDIR(mode):
                    pending.append((parent + entry.name + b"/", entry.path))


class WorkKind(NamedTuple):
    """A way to compute the fingerprint of a command: `read` its output, or `inspect` what it wrote.

    `quiet_options` of the command suppress its output, so they are left out in the run that is read.
    """

    description: str
    read: Callable[[IO[bytes], UrlNormaliser], Fingerprint] | None = None
    inspect: Callable[[Path, UrlNormaliser], Fingerprint] | None = None
    quiet_options: Sequence[str] = ()


# All runs of a command that only prints do the same, so one run is read for all of them.
PRINTED = "the output of one untimed run"
QUIET = ("-q", "--quiet")
KINDS = {
    "built_tree": WorkKind("the files and links of each timed run", inspect=inspect_built_tree),
    "dump": WorkKind(PRINTED, read_dump),
    "log": WorkKind(PRINTED, read_log),
    "opaque": WorkKind("unknown, so the command is compared with nothing"),
    "printed_counts": WorkKind(PRINTED, read_printed_counts, quiet_options=QUIET),
    "repository": WorkKind("a dump of the loaded repository", inspect=inspect_repository),
    "stdout": WorkKind(PRINTED, read_stdout),
    "tree": WorkKind("the files of each timed run", inspect=inspect_tree),
    "trees": WorkKind("the files of each client, which must be equal", inspect=inspect_trees),
    "unchecked": WorkKind(
        "the files of each timed run, which differ by design",
        inspect=lambda target, urls: {**inspect_tree(target, urls), UNCHECKED: 1},
    ),
    "verified": WorkKind(PRINTED, read_verified, quiet_options=QUIET),
}
