"""Compute the fingerprint of a command's work, from its output or from the files that it wrote.

Cells are compared only if their fingerprints are equal. The `work` key of a study's command is a key of
WORK_KINDS.
"""

import hashlib
import os
import random
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from vcsbench.errors import UserError
from vcsbench.external import CHUNK

# Numbers by name, and the `digest` of the output or the files. Example: {"lines": 3, "bytes": 80, "digest":
# "0123456789abcdef"}. It is empty if the work is unknown, also if a command printed or wrote nothing: all
# commands that do nothing would be equal.
Fingerprint = dict[str, int | str]
# The key in the fingerprint of work that is compared with nothing.
UNCHECKED = "apart"
# The longest URL that is found across two pieces of data.
LONGEST_URL = 1024
PREFIX_LENGTH = 12
# Subversion expands a keyword of fixed width (`$URL::   $`) to a text of just this width. It cuts a long URL,
# or pads a short one with spaces. So the whole keyword is replaced. %b is the start of the URL, of
# PREFIX_LENGTH bytes.
FIXED_WIDTH = rb"\$(?:HeadURL|URL|Header):: %b[^$\r\n]{0,255}\$"


class UrlNormaliser:
    """Replace the repository's URLs in bytes by one word: they differ between copies, ports and protocols.

    Expanded keywords ($HeadURL$, $Header$) contain them. Without `urls`, or with "" only, bytes stay as
    they are.
    """

    def __init__(self, *urls: str) -> None:
        # The longest first, because one URL may be the start of another.
        roots = sorted({url.encode() for url in urls if url}, key=len, reverse=True)
        self._prefixes = {root[:PREFIX_LENGTH] for root in roots}
        patterns = [FIXED_WIDTH % re.escape(prefix) for prefix in self._prefixes]
        patterns += [re.escape(root) for root in roots]
        # Without URLs, this pattern is empty, but _may_match() returns False.
        self._pattern = re.compile(b"|".join(patterns))

    def _may_match(self, data: bytes | bytearray) -> bool:
        # The pattern takes 20 times as long as this search: 17 s for each run that writes a tree of 1 GB.
        return any(prefix in data for prefix in self._prefixes)

    def replace(self, data: bytes | bytearray) -> bytes | bytearray:
        return self._pattern.sub(b"{url}", data) if self._may_match(data) else data

    def complete_length(self, data: bytes | bytearray) -> int:
        """Return how many bytes at the start of the data can be normalised before the next data come.

        A URL may begin in one piece of data and end in the next one, so the last LONGEST_URL bytes wait.
        """
        end = max(0, len(data) - LONGEST_URL)
        if not self._may_match(data):
            return end
        for match in self._pattern.finditer(data):
            # A cut at `end` would leave two parts of the URL, and neither would be replaced.
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
        """Return the digest of all data: 16 hexadecimal digits."""
        self._add(len(self._pending))
        return self._sha256.hexdigest()[:16]

    def _add(self, length: int) -> None:
        """Move the first `length` bytes of the pending data to the digest."""
        data = self._normaliser.replace(self._pending[:length])
        del self._pending[:length]
        self._sha256.update(data)
        self.bytes += len(data)


OutputReader = Callable[[IO[bytes], UrlNormaliser], Fingerprint]


def discard_output(output: IO[bytes], _urls: UrlNormaliser | None = None) -> Fingerprint:
    while output.read(1 << 16):
        pass
    return {}


def read_stdout(output: IO[bytes], urls: UrlNormaliser) -> Fingerprint:
    """Return lines, bytes and digest of any output without `urls`; {} for an empty output."""
    digest = UrlFreeDigest(urls)
    lines = 0
    while data := output.read(CHUNK):
        lines += data.count(b"\n")
        digest.update(data)
    work: Fingerprint = {"lines": lines, "digest": digest.end(), "bytes": digest.bytes}
    return work if digest.bytes else {}


LOG_SEPARATOR = b"-" * 72 + b"\n"
# `r7 | jane | 2020-01-01 00:00:00 +0000 (Wed, 01 Jan 2020) | 3 lines`. With -q, it ends after the date.
LOG_HEADING = re.compile(rb"r\d+ \|.*?(?: \| (\d+) lines?)?\n", re.DOTALL)
LOG_PATH = b"   "


def read_log(output: IO[bytes], urls: UrlNormaliser) -> Fingerprint:
    """Return revisions, changed paths (0 without -v), bytes and digest of the output of `svn log`.

    A revision has a separator (a line of dashes), a heading, the paths (`   M /trunk/file`), an empty line,
    and its message. The heading has the number of the message's lines, which are skipped: a message may
    contain lines that look like headings or paths. Return {} for an output without revisions.
    """
    digest = UrlFreeDigest(urls)
    revisions = 0
    paths = 0
    # The number of the message's lines by the last heading, and how many of them are still to be skipped.
    message_lines = 0
    lines_to_skip = 0
    # True from a heading to the empty line before the message.
    is_before_message = False
    is_after_separator = False
    for line in output:
        digest.update(line)
        # Only the line after a separator can be a heading.
        heading = LOG_HEADING.fullmatch(line) if is_after_separator else None
        is_after_separator = line == LOG_SEPARATOR
        # A line of a message is skipped even if it looks like a heading.
        if lines_to_skip:
            lines_to_skip -= 1
        elif heading:
            revisions += 1
            # With -q, there are no messages, and the heading has no number.
            message_lines = int(heading[1] or 0)
            is_before_message = True
        elif is_before_message and line.startswith(LOG_PATH):
            paths += 1
        elif is_before_message and line == b"\n":
            lines_to_skip = message_lines
            is_before_message = False
    if not revisions:
        return {}
    return {"revisions": revisions, "paths": paths, "digest": digest.end(), "bytes": digest.bytes}


# `   1,234 bytes in files`, as svnbench prints its counts.
NULL_COUNT = re.compile(rb"\s*([\d,]+) (\D+)")
# Counts that differ between runs or between protocols: mod_dav_svn adds its own properties.
VARYING_COUNTS = frozenset(
    ["seconds taken", "bytes transferred over network", "properties", "bytes in properties"]
)


def read_printed_counts(output: IO[bytes], _urls: UrlNormaliser) -> Fingerprint:
    """Return the counts that svnbench prints, for example {"files": 5, "bytes_in_files": 80}.

    Counts that differ between equal runs are left out (VARYING_COUNTS). Return {} if all counts are 0.
    """
    counts: Fingerprint = {}
    for line in output:
        match = NULL_COUNT.fullmatch(line.rstrip())
        if not match:
            continue
        name = match[2].decode("ascii", "replace")
        if name not in VARYING_COUNTS:
            counts[name.replace(" ", "_")] = int(match[1].replace(b",", b""))
    return counts if any(counts.values()) else {}


VERIFIED = re.compile(rb"\* Verified revision (\d+)\.\s*")


def read_verified(output: IO[bytes], _urls: UrlNormaliser) -> Fingerprint:
    """Return the number and the last of the revisions that `svnadmin verify` prints."""
    verified = []
    for line in output:
        match = VERIFIED.fullmatch(line)
        if match:
            verified.append(int(match[1]))
    return {"revisions": len(verified), "youngest": max(verified)} if verified else {}


# Headers in a dump.
REVISION = b"Revision-number: "
NODE = b"Node-path: "
LENGTH = b"Content-length: "
# Repositories of other formats have another UUID if the source has none, and up to format 3 no SHA-1.
LEFT_OUT = re.compile(rb"UUID: |Text-[a-z-]+-sha1: ")
# The date of revision 0 is the time of the load if the source has none. Its lengths are left out with it.
LENGTH_OF_REVISION_0 = re.compile(rb"(Prop-content-|Content-)length: ")
DATE = re.compile(rb"^K 8\nsvn:date\nV \d+\n[^\n]*\n", re.MULTILINE)
LARGEST_REVISION_0 = 1 << 20


def read_dump(stream: IO[bytes], urls: UrlNormaliser) -> Fingerprint:
    """Return revisions, nodes, bytes and digest of a dump, without UUID, SHA-1 and revision 0's date.

    These three differ between formats or copies of a repository, and all other bytes are equal. Return {} for
    a dump without revisions.
    """
    content = _read_records(stream, urls)
    del content["youngest"]
    return content if content["revisions"] else {}


def read_committed(stream: IO[bytes], urls: UrlNormaliser) -> Fingerprint:
    """Return the youngest revision, its changed paths, and bytes and digest of a dump of this revision alone.

    The properties of the revision are left out: its author and date differ between accesses and runs. Return
    {} for a dump that has no changed path.
    """
    content = _read_records(stream, urls, nodes_only=True)
    paths = content.pop("nodes")
    del content["revisions"]
    return {**content, "paths": paths} if paths else {}


def _read_records(stream: IO[bytes], urls: UrlNormaliser, nodes_only: bool = False) -> Fingerprint:
    """Return the fingerprint of a dump, and its last revision (`youngest`), by reading its records.

    A record is a revision, or a node (a changed path in the revision before it). Digest and bytes exclude
    parts that differ between equal repositories: `urls`, some headers, and revision 0's date. With
    `nodes_only`, they exclude everything before the first node, such as the properties of the only revision.
    """
    digest = UrlFreeDigest(urls)
    revisions = 0
    youngest = 0
    nodes = 0
    while headers := _read_headers(stream):
        # A record has as many bytes of content as its header `Content-length` gives, and none without it.
        content_length = 0
        is_revision_0 = False
        for line in headers:
            if line.startswith(NODE):
                nodes += 1
            elif line.startswith(LENGTH):
                content_length = int(line[len(LENGTH) :])
            elif line.startswith(REVISION):
                revisions += 1
                youngest = int(line[len(REVISION) :])
                is_revision_0 = youngest == 0
            is_digested = nodes > 0 or not nodes_only
            if is_digested and not _is_left_out(line, is_revision_0):
                digest.update(line)
        if is_digested:
            _add_content(digest, stream, content_length, is_revision_0)
        else:
            # Skip the properties of the revision.
            stream.read(content_length)
    return {
        "revisions": revisions,
        "youngest": youngest,
        "nodes": nodes,
        "digest": digest.end(),
        "bytes": digest.bytes,
    }


def _read_headers(stream: IO[bytes]) -> list[bytes]:
    """Return the lines up to the next empty line of a dump, and this line; [] at the end of the dump."""
    headers: list[bytes] = []
    for line in stream:
        headers.append(line)
        if line == b"\n":
            break
    return headers


def _is_left_out(header: bytes, is_revision_0: bool) -> bool:
    """Return True for a header that differs between equal repositories (LEFT_OUT)."""
    # The lengths in the headers of revision 0 include its date.
    if is_revision_0 and LENGTH_OF_REVISION_0.match(header):
        return True
    return bool(LEFT_OUT.match(header))


def _add_content(
    digest: UrlFreeDigest, stream: IO[bytes], length: int, is_revision_0: bool
) -> None:
    """Add `length` bytes of a dump, the content of a record without revision 0's date, to the digest."""
    # The content of revision 0 is its properties, which are small.
    if is_revision_0 and length <= LARGEST_REVISION_0:
        digest.update(DATE.sub(b"", stream.read(length)))
        return
    while length > 0:
        data = stream.read(min(length, CHUNK))
        # The dump ends too early.
        if not data:
            return
        digest.update(data)
        length -= len(data)


# A tree is compressed in part: at most so many pieces of so many bytes. That takes 0.5 s of 31,000 files.
COMPRESSED_PIECES, PIECE_BYTES = 128, 1 << 16
# The folder of a working copy with its unmodified files, each content once.
PRISTINES = Path(".svn", "pristine")


def estimate_compressed_bytes(target: Path) -> int:
    """Return an estimate of the size of a tree's files if zlib compressed each file; 0 without files.

    A working copy has each different content once in its folder PRISTINES. Only the files there count,
    because a server may send equal contents only once.
    """
    pristines = target / PRISTINES
    top = pristines if pristines.is_dir() else target
    total_bytes, pieces = _list_pieces(top)
    # Random pieces, because pieces at equal distances might be of one kind of file only. The fixed seed gives
    # the same sample in each run.
    sample = random.Random(0).sample(pieces, min(len(pieces), COMPRESSED_PIECES))
    read_bytes = 0
    compressed_bytes = 0
    for path, start in sample:
        with open(path, "rb") as file:
            file.seek(start)
            data = file.read(PIECE_BYTES)
        read_bytes += len(data)
        compressed_bytes += len(zlib.compress(data))
    if not read_bytes:
        return 0
    # A server does not compress files that would grow.
    share = min(1.0, compressed_bytes / read_bytes)
    return int(share * total_bytes)


def _list_pieces(top: Path) -> tuple[int, list[tuple[str, int]]]:
    """Return the bytes of all files below a folder, and their pieces of PIECE_BYTES: (path, first byte)."""
    total_bytes = 0
    pieces: list[tuple[str, int]] = []
    for folder, _, names in os.walk(top):
        for name in sorted(names):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode):
                continue
            total_bytes += status.st_size
            pieces += [(path, start) for start in range(0, status.st_size, PIECE_BYTES)]
    return total_bytes, pieces


ADMINISTRATIVE = b".svn"
# The last one is a Fossil repository in its own working tree.
METADATA = (
    *(b".svn", b".git", b".hg", b".bzr", b".jj", b".fslckout", b"_FOSSIL_"),
    b"repository.fossil",
)


class WrittenEntry(NamedTuple):
    """A file, folder or link. `name` is its path in the tree, "" for the tree itself."""

    name: bytes
    path: bytes
    mode: int


def inspect_trees(targets: Path, urls: UrlNormaliser) -> Fingerprint:
    """Return the fingerprint of one client's tree (inspect_tree) if all clients wrote equal trees.

    Otherwise, return the number of different trees in the folder `targets`, such as {"different_trees": 2}.
    No correct run has this fingerprint, so the run is later found to have done other work.
    """
    distinct: list[Fingerprint] = []
    for path in sorted(targets.iterdir()):
        work = inspect_tree(path, urls)
        if work not in distinct:
            distinct.append(work)
    if len(distinct) == 1:
        return distinct[0]
    return {"different_trees": len(distinct)}


def inspect_built_tree(target: Path, urls: UrlNormaliser) -> Fingerprint:
    """Return the fingerprint of a tree without its directories, and without METADATA such as .git."""
    # Some strategies do not build empty directories. They get the flag `no-empty-folders`.
    work = inspect_tree(target, urls, is_built=True)
    # A tree without files has no such key.
    work.pop("directories", None)
    return work


def inspect_unchecked(target: Path, urls: UrlNormaliser) -> Fingerprint:
    """Return the fingerprint of a tree that is compared with no other tree (UNCHECKED)."""
    return {**inspect_tree(target, urls), UNCHECKED: 1}


def inspect_repository(repository: Path, urls: UrlNormaliser) -> Fingerprint:
    """Return the fingerprint of a loaded repository: that of a dump of it (read_dump), and `youngest`.

    Return {} for a repository without revisions.
    """
    # Most kinds of work need no repository on disk.
    from vcsbench.systems import fsfs

    youngest = fsfs.youngest(repository)
    if not youngest:
        return {}
    dump = fsfs.read_output(lambda output: read_dump(output, urls), "dump", "-q", repository)
    return {"youngest": youngest, **dump}


def inspect_commit(repository: Path, urls: UrlNormaliser) -> Fingerprint:
    """Return the fingerprint of the youngest revision, which the run has committed (read_committed)."""
    # Most kinds of work need no repository on disk.
    from vcsbench.systems import fsfs

    options = ("-q", "--incremental", "-r", str(fsfs.youngest(repository)))
    return fsfs.read_output(
        lambda output: read_committed(output, urls), "dump", *options, repository
    )


GIT_OBJECTS = ("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")
GIT_REFS = ("for-each-ref", "--format=%(objectname) %(refname)")


def inspect_git_clone(clone: Path, urls: UrlNormaliser, is_partial: bool = False) -> Fingerprint:
    """Return the numbers of objects, refs and files of a clone, and a digest of all of them and of HEAD.

    A bare clone has no `files`. The digest leaves out `urls` in the contents of files. Return {} for a clone
    without objects. Raise UserError if the server ignored the filter of a partial clone (`is_partial`).
    """
    # Most kinds of work need no git.
    from vcsbench.systems.git_program import read_head, run_git

    git = clone / ".git"
    is_bare = not git.exists()
    repository = clone if is_bare else git
    # Lines such as b"9f86... blob". They are compared instead of packs (git's files of many objects), which
    # differ from run to run, because several threads make them.
    objects = run_git(repository, *GIT_OBJECTS)
    if not objects:
        return {}
    if is_partial:
        _check_partial_clone(clone, repository, objects)
    refs = run_git(repository, *GIT_REFS)
    digest = hashlib.sha256(objects + refs + os.fsencode(read_head(repository)))
    work: Fingerprint = {"objects": objects.count(b"\n"), "refs": refs.count(b"\n")}
    if not is_bare:
        # If the repository lacks the branch of its HEAD, the clone has no files.
        tree_work = inspect_built_tree(clone, urls)
        digest.update(str(tree_work.get("digest", "")).encode())
        work["files"] = tree_work.get("files", 0)
    return {**work, "digest": digest.hexdigest()[:16]}


def _check_partial_clone(clone: Path, repository: Path, objects: bytes) -> None:
    """Raise UserError if a clone has contents of files (blobs) that its filter should have left out.

    It should have only the blobs of HEAD, which git fetches for the working tree, and blobs that a ref names
    directly: no filter leaves out such an object. `objects` are lines such as b"9f86... blob".
    """
    # Most kinds of work need no git.
    from vcsbench.systems.git_program import run_git

    blobs = {line.split()[0] for line in objects.splitlines() if line.endswith(b" blob")}
    # Lines such as b"100644 blob 9f86...\tfile". git before 2.36 knows no other format.
    head_files = run_git(repository, "ls-tree", "-r", "HEAD")
    head_blobs = {line.split()[2] for line in head_files.splitlines()}
    # Lines such as b"9f86... refs/tags/key", and for a tag with a message also b"9f87... refs/tags/key^{}"
    # with the object that it leads to.
    refs_and_tags = run_git(repository, "show-ref", "--dereference")
    named_objects = {line.split()[0] for line in refs_and_tags.splitlines()}
    # git itself only warns if the server ignores the filter.
    if not blobs <= head_blobs | named_objects:
        raise UserError(
            f"{clone}: the server ignored the filter, and sent all objects. Use a newer git, or leave "
            f"out commands with `--filter`."
        )


def inspect_tree(target: Path, urls: UrlNormaliser, is_built: bool = False) -> Fingerprint:
    """Return the fingerprint of a tree that a command wrote, such as {"files": 5, "digest": "9f86...", ...}.

    The digest covers names, contents without the repository's URLs, the executable bit and the targets of
    symlinks. With `is_built`, the tree is compared with the trees of other systems or programs. Some of them
    make no empty directories, so directories and METADATA, such as .git, are left out. Return {} for a tree
    without files and symlinks.
    """
    files = 0
    directories = 0
    symlinks = 0
    file_bytes = 0
    total = hashlib.sha256()
    for entry in _list_entries(target):
        is_directory = stat.S_ISDIR(entry.mode)
        is_metadata = entry.name.partition(b"/")[0] in METADATA
        if is_built and (is_directory or is_metadata):
            continue
        # A NUL ends each part. No name and no target of a link has a NUL, so two different trees never give
        # the same sequence of bytes. The letters l, d, x and f stand for the kind of an entry.
        total.update(entry.name + b"\0")
        if stat.S_ISLNK(entry.mode):
            symlinks += 1
            total.update(b"l" + os.readlink(entry.path) + b"\0")
        elif is_directory:
            directories += 1
            total.update(b"d\0")
        else:
            content_digest, content_bytes = _digest_file(entry.path, urls)
            files += 1
            file_bytes += content_bytes
            is_executable = entry.mode & stat.S_IXUSR
            kind = b"x" if is_executable else b"f"
            total.update(kind + content_digest.encode() + b"\0")
    if not files and not symlinks:
        return {}
    return {
        "files": files,
        "directories": directories,
        "symlinks": symlinks,
        "bytes": file_bytes,
        "digest": total.hexdigest()[:16],
    }


def _digest_file(path: bytes, urls: UrlNormaliser) -> tuple[str, int]:
    """Return the digest and the length of a file without URLs."""
    digest = UrlFreeDigest(urls)
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb", buffering=0) as file:
        # A small file needs no CHUNK bytes. read(0) would return nothing, even if the file has grown.
        buffer_bytes = min(os.fstat(file.fileno()).st_size + 1, CHUNK)
        while data := file.read(buffer_bytes):
            digest.update(data)
    return digest.end(), digest.bytes


def _list_entries(target: Path) -> Iterator[WrittenEntry]:
    """Yield a file, or a folder with everything below it, without ADMINISTRATIVE folders (.svn).

    The entries of a folder come together, sorted by name, and then the content of its folders, so that equal
    trees have the same order. Yield nothing for a missing path.
    """
    root = os.fsencode(target)
    try:
        root_mode = os.lstat(root).st_mode
    except FileNotFoundError:
        return
    yield WrittenEntry(b"", root, root_mode)
    # The folders to list, each with the start of the names of its entries: (b"lib/", b"/mnt/target/lib").
    pending: list[tuple[bytes, bytes]] = []
    if stat.S_ISDIR(root_mode):
        pending.append((b"", root))
    while pending:
        prefix, folder = pending.pop()
        with os.scandir(folder) as children:
            entries = sorted(children, key=lambda entry: entry.name)
        for entry in entries:
            if entry.name == ADMINISTRATIVE:
                continue
            mode = entry.stat(follow_symlinks=False).st_mode
            name = prefix + entry.name
            yield WrittenEntry(name, entry.path, mode)
            if stat.S_ISDIR(mode):
                pending.append((name + b"/", entry.path))


class WorkKind(NamedTuple):
    """A way to compute the fingerprint of a command: `read` its output, or `inspect` what it wrote.

    `quiet_options` of the command suppress its output, so they are left out in the run that is read.
    `writes_tree` is True if the files of a revision are inspected, and not a repository's.
    """

    description: str
    read: OutputReader | None = None
    inspect: Callable[[Path, UrlNormaliser], Fingerprint] | None = None
    quiet_options: Sequence[str] = ()
    writes_tree: bool = False


# All runs of a command that only prints do the same, so one run is read for all of them.
PRINTED = "the output of one untimed run"
QUIET = ("-q", "--quiet")
WORK_KINDS = {
    "built_tree": WorkKind(
        "the files and links of each timed run", inspect=inspect_built_tree, writes_tree=True
    ),
    "commit": WorkKind("a dump of the revision of each timed run", inspect=inspect_commit),
    "dump": WorkKind(PRINTED, read_dump),
    "git_clone": WorkKind("objects, refs and files of each clone", inspect=inspect_git_clone),
    "git_partial_clone": WorkKind(
        "objects, refs and files of each clone with a filter",
        inspect=partial(inspect_git_clone, is_partial=True),
    ),
    "log": WorkKind(PRINTED, read_log),
    "opaque": WorkKind("unknown, so the command is compared with nothing"),
    "printed_counts": WorkKind(PRINTED, read_printed_counts, quiet_options=QUIET),
    "repository": WorkKind("a dump of the loaded repository", inspect=inspect_repository),
    "stdout": WorkKind(PRINTED, read_stdout),
    "tree": WorkKind("the files of each timed run", inspect=inspect_tree, writes_tree=True),
    "trees": WorkKind(
        "the files of each client, which must be equal", inspect=inspect_trees, writes_tree=True
    ),
    "unchecked": WorkKind(
        "the files of each timed run, which differ by design",
        inspect=inspect_unchecked,
        writes_tree=True,
    ),
    "verified": WorkKind(PRINTED, read_verified, quiet_options=QUIET),
}
