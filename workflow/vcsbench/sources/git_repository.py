"""Read a user's git repository: its files without git, its objects by git on a private bare repository.

No configuration, hook, filter, attribute, replacement, graft or variable of the user takes part. git itself
would follow its configuration, run its programs and wait for its pipes.
"""

from __future__ import annotations

import os
import re
import resource
import secrets
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from vcsbench.errors import UserError
from vcsbench.external import one_line, printable, read_bytes
from vcsbench.sources.base import CHUNK, Program

REF_BYTES = 1 << 14
CONFIG_BYTES = 1 << 24
LIST_BYTES = 1 << 29
SYMBOLIC_DEPTH = 5
MAX_ALTERNATES = 100
# git needs about 300 bytes for each file of a commit. A tree that holds itself many times has billions.
MEMORY_BYTES = 4 << 30
MAX_REFS = 5_000_000
# Requests and the headers of their answers must fit into a pipe, or both sides wait for each other.
REQUESTS = 256
MESSAGE_BYTES = 1 << 26
BLOBS, MESSAGES = (b"blob",), (b"commit", b"tag")

_OBJECT = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")
_BAD_REF = re.compile(rb"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|\.lock(?:/|\Z)|/\.|\.\Z|/\Z")
_ESCAPE = re.compile(rb'\\([abfnrtv"\\]|[0-7]{3})')
_LETTERS = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True))
HEADS = b"refs/heads/"
REMOTES = b"refs/remotes/origin/"
TAGS = b"refs/tags/"
# As files, they would hide newer refs than those in `packed-refs`.
REF_FOLDERS = (b"refs/heads", b"refs/tags", b"refs/remotes")
INHERITED = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")
EMPTY_TREE = {
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
# commit-graph and multi-pack-index repeat data of the objects, perhaps wrongly.
CONFIGURATION = """\
[core]
	repositoryformatversion = {version}
	bare = true
	attributesFile = /dev/null
	hooksPath = /dev/null
	fsmonitor = false
	commitGraph = false
	multiPackIndex = false
	useReplaceRefs = false
[attr]
	tree = {empty}
[protocol]
	allow = never
[gc]
	auto = 0
[advice]
	graftFileDeprecated = false
[extensions]
"""
PACKS = (".pack", ".idx")
EXTENSIONS = ("objectformat", "noop", "preciousobjects")


class GitLayout(NamedTuple):
    """git's folder for this work tree, and git's for all work trees."""

    folder: Path
    common: Path


def find_layout(path: Path) -> GitLayout | None:
    """Return the layout of the repository at a path: bare, a work tree's top, or a linked work tree.

    Return None if nothing there looks like one. Raise UserError for a damaged one.
    """
    if not path.is_dir():
        return None

    def has(*names: str) -> bool:
        return all(os.path.lexists(path / name) for name in names)

    inner = path / ".git"
    if has(".git"):
        folder = inner if os.path.isdir(inner) else _linked(inner)
    elif has("HEAD", "objects") or has("HEAD", "commondir") or has("objects", "refs", "config"):
        folder = path
    else:
        return None
    common = folder
    if os.path.lexists(folder / "commondir"):
        common = folder / os.fsdecode(_read(folder / "commondir", REF_BYTES).rstrip(b"\r\n"))
    for needed in (folder / "HEAD", common / "objects"):
        with _readable(needed):
            try:
                os.lstat(needed)
            except (FileNotFoundError, NotADirectoryError):
                raise UserError(
                    f"{one_line(needed)}: does not exist: the git repository is damaged, or its "
                    "main repository was moved. Clone it again, or run `git worktree repair` there."
                ) from None
    return GitLayout(folder, common)


def list_folders(path: Path) -> list[Path]:
    layout = find_layout(path)
    return [*layout, *_object_folders(layout.common / "objects")] if layout else []


def list_objects(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the files and folders in a folder of list_folders() from which somebody can read a history."""
    for entry in os.scandir(folder):
        if entry.name in ("HEAD", "packed-refs", "objects"):
            yield entry
        elif entry.is_dir() and (entry.name == "pack" or len(entry.name) == 2):
            yield entry
            for file in os.scandir(entry.path):
                # Only their owner can read temporary files and markers as pack-*.keep, which have no history.
                is_temporary = file.name.startswith("tmp_")
                if not is_temporary and (entry.name != "pack" or file.name.endswith(PACKS)):
                    yield file


def work_tree_above(path: Path) -> Path | None:
    above = path.resolve().parents
    return next((folder for folder in above if os.path.lexists(folder / ".git")), None)


def _linked(file: Path) -> Path:
    text = _read(file, REF_BYTES).rstrip(b"\r\n")
    if not text.startswith(b"gitdir: "):
        raise UserError(
            f"{one_line(file)}: has no line `gitdir: FOLDER`. Clone the repository again."
        )
    folder = file.parent / os.fsdecode(text.removeprefix(b"gitdir: "))
    if b"\0" in text or not os.path.isdir(folder):
        raise UserError(
            f"{one_line(file)}: names the folder {one_line(folder)}, which does not exist. "
            "Give the main repository, or run `git worktree repair` in it."
        )
    return folder


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        name = getattr(error, "filename", None) or path
        raise UserError(
            f"{one_line(name)}: git's file cannot be read: {why}. Make it readable, or clone the repository."
        ) from error


def _read(path: Path, limit: int) -> bytes:
    with _readable(path):
        return read_bytes(path, limit)


def _read_optional(path: Path, limit: int) -> bytes:
    with _readable(path), suppress(FileNotFoundError):
        return read_bytes(path, limit)
    return b""


class Ref(NamedTuple):
    """A branch or tag: its short name, the object that it names, and the commit that this leads to.

    For an annotated tag the two differ, and it has a date (seconds since 1970; otherwise 0).
    """

    name: bytes
    target: bytes
    commit: bytes
    seconds: int = 0


def _read_head(layout: GitLayout) -> bytes:
    """Return HEAD: `ref: refs/heads/NAME` or the name of a commit."""
    path = layout.folder / "HEAD"
    if path.is_symlink() and (target := os.fsencode(os.readlink(path))).startswith(b"refs/"):
        return b"ref: " + target
    if value := _value(_read(path, REF_BYTES)):
        return value
    raise UserError(
        f"{one_line(path)}: names neither a branch nor a commit: the git repository is "
        "damaged. Clone it again."
    )


def _value(text: bytes) -> bytes:
    """Return the ref or object in a ref's file, or b"" if it has none. git ignores text behind an object."""
    text = text.rstrip()
    if text.startswith(b"ref:"):
        name = text[4:].strip()
        return b"ref: " + name if _is_ref_name(name) else b""
    name = text.partition(b" ")[0].lower()
    return name if _OBJECT.fullmatch(name) else b""


def _is_ref_name(name: bytes) -> bool:
    return name.startswith(b"refs/") and not _BAD_REF.search(name)


def _read_refs(common: Path) -> dict[bytes, bytes]:
    """Return the object of each ref; refs that are broken, or replace objects, are left out."""
    # In this order, like git: in the meantime, git may move loose refs to `packed-refs`.
    loose, values = _loose_refs(common), {}
    for line in _read_optional(common / "packed-refs", LIST_BYTES).splitlines():
        value, _, name = line.partition(b" ")
        if _OBJECT.fullmatch(value) and _is_ref_name(name):
            values[name] = value
    values |= loose
    refs = {}
    for name, value in values.items():
        for _ in range(SYMBOLIC_DEPTH):
            if not value.startswith(b"ref: "):
                break
            value = values.get(value[5:], b"")
        if _OBJECT.fullmatch(value) and not name.startswith(b"refs/replace/"):
            refs[name] = value
    return refs


def _loose_refs(common: Path) -> dict[bytes, bytes]:
    refs: dict[bytes, bytes] = {}
    waiting = [b"refs"] if os.path.lexists(common / "refs") else []
    while waiting:
        folder = waiting.pop()
        path = common / os.fsdecode(folder)
        with _readable(path), os.scandir(path) as entries:
            for entry in entries:
                name = folder + b"/" + os.fsencode(entry.name)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(name)
                elif name in REF_FOLDERS:
                    raise UserError(
                        f"{one_line(entry.path)}: is not a folder. Clone the repository again."
                    )
                elif _is_ref_name(name):
                    with suppress(FileNotFoundError):
                        refs[name] = _value(read_bytes(entry.path, REF_BYTES))
        if len(refs) > MAX_REFS:
            raise UserError(
                f"{one_line(path)}: has more than {MAX_REFS} refs. Clone the one branch."
            )
    return refs


def _read_shallow(common: Path) -> bytes:
    path = common / "shallow"
    text = _read_optional(path, LIST_BYTES)
    if not all(map(_OBJECT.fullmatch, text.splitlines())):
        raise UserError(f"{one_line(path)}: is damaged. Clone the repository again.")
    return text


def _object_folders(objects: Path) -> list[Path]:
    """Return the folders of objects: the repository's own and all that it borrows from.

    Raise UserError if one is missing, or has a pipe or a device, because git would wait for it.
    """
    folders = [Path(os.path.realpath(objects))]
    for folder in folders:
        _check_files(folder)
        file = folder / "info" / "alternates"
        for line in _read_optional(file, CONFIG_BYTES).split(b"\n"):
            if not line or line.startswith(b"#"):
                continue
            lender = (folder / os.fsdecode(_unquote(line))).absolute()
            if b"\0" in line or not os.path.isdir(lender):
                raise UserError(
                    f"{one_line(file)}: the object folder {one_line(lender)} does not exist. "
                    "Bring it back, or clone the repository again without --shared and --reference."
                )
            if (lender := lender.resolve()) not in folders:
                folders.append(lender)
        if len(folders) > MAX_ALTERNATES:
            raise UserError(
                f"{one_line(file)}: borrows from more than {MAX_ALTERNATES} folders. Clone the repository."
            )
    return folders


def _check_files(folder: Path) -> None:
    with _readable(folder):
        for entry in os.scandir(folder):
            is_used = len(entry.name) == 2 or entry.name in ("pack", "info")
            if not (is_used and entry.is_dir()):
                continue
            for file in os.scandir(entry.path):
                if not file.is_file() and not file.is_dir() and os.path.exists(file.path):
                    raise UserError(
                        f"{one_line(file.path)}: this is not a regular file. Clone the repository again."
                    )


def _unquote(line: bytes) -> bytes:
    if not (line.startswith(b'"') and line.endswith(b'"') and len(line) > 1):
        return line

    def byte(match: re.Match[bytes]) -> bytes:
        text = match[1]
        number = int(text, 8) & 0xFF if len(text) == 3 else _LETTERS.get(text[0], text[0])
        return bytes([number])

    return _ESCAPE.sub(byte, line[1:-1])


def quote(path: Path) -> bytes:
    escaped = b"".join(
        bytes([b]) if 0x20 <= b < 0x7F and b not in b'"\\' else b"\\%03o" % b
        for b in os.fsencode(path)
    )
    return b'"' + escaped + b'"'


@contextmanager
def open_repository(path: Path) -> Iterator[Git]:
    """Yield git on the repository at a path: bare, a work tree's top, or a linked work tree.

    Raise UserError with git's own reason where git cannot read it.
    """
    layout = find_layout(path)
    if layout is None:
        raise UserError(f"{one_line(path)} is not a git repository")
    with tempfile.TemporaryDirectory(prefix="vcsbench-git-") as folder:
        yield Git(one_line(path), layout, Path(folder))


class Git:
    """A private bare repository with the refs and the borrowed objects of a user's repository.

    `where` is the path of the user's repository, safe to print.
    """

    def __init__(self, where: str, layout: GitLayout, private: Path) -> None:
        self.where = where
        self._common = layout.common
        self._private = private
        for name in ("refs", "objects/info", "objects/pack"):
            (private / name).mkdir(parents=True)
        self._write("HEAD", b"ref: refs/heads/none\n")
        self._configure()
        lenders = map(quote, _object_folders(layout.common / "objects"))
        self._write("objects/info/alternates", b"".join(line + b"\n" for line in lenders))
        self.shallow = _read_shallow(layout.common)
        if self.shallow:
            self._write("shallow", self.shallow)
        self.refs = _read_refs(layout.common)
        packed = b"".join(b"%s %s\n" % (self.refs[name], name) for name in sorted(self.refs))
        self._write("packed-refs", packed)
        self.head = _read_head(layout)
        self._write("HEAD", self.head + b"\n")

    def _write(self, name: str, content: bytes) -> None:
        (self._private / name).write_bytes(content)

    def _configure(self) -> None:
        """Write our own configuration with the format of the user's repository, and have git check it."""
        text = _read_optional(self._common / "config", CONFIG_BYTES)
        listed = self._run("config", "--file", "-", "--no-includes", "--list", "-z", text=text)
        lines = [line.partition("\n") for line in os.fsdecode(listed).split("\0") if line]
        settings = {key: value for key, _, value in lines}
        off = ("false", "no", "off", "0")
        is_partial = any(
            k.endswith(".promisor") and v.lower() not in off for k, v in settings.items()
        )
        if is_partial or "extensions.partialclone" in settings:
            raise UserError(
                f"{self.where} is a partial clone, which lacks files. Clone it again without --filter."
            )
        version = settings.get("core.repositoryformatversion", "0")
        first = "extensions."
        extensions = {k.removeprefix(first): v for k, v in settings.items() if k.startswith(first)}
        self._write_configuration(version, extensions)
        self._run("rev-parse", "--git-dir")
        storage = extensions.get("refstorage", "files")
        if storage != "files":
            raise UserError(
                f"{self.where}: its refs are stored as {printable(storage)}, not as files. "
                "Run `git refs migrate --ref-format=files` in it, or clone it with --ref-format=files."
            )
        self._write_configuration(version, {k: v for k, v in extensions.items() if k in EXTENSIONS})

    def _write_configuration(self, version: str, extensions: dict[str, str]) -> None:
        empty = EMPTY_TREE["sha256" if extensions.get("objectformat") == "sha256" else "sha1"]
        text = CONFIGURATION.format(version=_quoted(version), empty=empty)
        text += "".join(f"\t{key} = {_quoted(value)}\n" for key, value in extensions.items())
        self._write("config", text.encode(errors="surrogateescape"))

    def _argv(self, *arguments: str) -> list[str]:
        private = str(self._private)
        return ["git", "-C", private, f"--git-dir={private}", *arguments]

    def _environment(self) -> dict[str, str]:
        inherited = {key: os.environ[key] for key in INHERITED if key in os.environ}
        return inherited | {
            "HOME": str(self._private),
            "XDG_CONFIG_HOME": str(self._private),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_GRAFT_FILE": os.devnull,
            "GIT_NO_REPLACE_OBJECTS": "1",
            # Nothing is fetched into a partial clone; git before 2.44 knows only the second of these.
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }

    def _run(self, *arguments: str, text: bytes = b"") -> bytes:
        done = subprocess.run(
            self._argv(*arguments), input=text, capture_output=True, env=self._environment()
        )
        if done.returncode:
            config = one_line(self._common / "config")
            reason = " ".join(done.stderr.decode(errors="backslashreplace").split())
            reason = printable(reason.removeprefix("fatal: ").removeprefix("error: "))
            reason = reason.replace("standard input", config)
            reason = reason.replace(str(self._private), self.where)
            raise UserError(
                f"{self.where}: git cannot read this repository: {reason}. "
                f"Use a newer git, or mend {config}."
            )
        return done.stdout

    def output(self, *arguments: str) -> bytes:
        with self.start(*arguments) as program:
            return program.read_all()

    def start(self, *arguments: str, stdin: int | IO[Any] = subprocess.DEVNULL) -> Program:
        failure = f"{self.where}: git {arguments[0]} failed (try `git fsck`, or clone it again)"
        program = Program(self._argv(*arguments), failure, self._environment(), stdin)
        limits = (MEMORY_BYTES, MEMORY_BYTES)
        with suppress(OSError, ValueError):
            resource.prlimit(program.process.pid, resource.RLIMIT_DATA, limits)
        return program

    def branches(self) -> list[Ref]:
        """Return the local branches, then origin's that have no local one of the same name."""
        local = self._refs(HEADS)
        names = {ref.name for ref in local} | {b"HEAD"}
        return local + [ref for ref in self._refs(REMOTES) if ref.name not in names]

    def tags(self) -> list[Ref]:
        return self._refs(TAGS)

    def _refs(self, prefix: bytes) -> list[Ref]:
        lines = self.output(
            "for-each-ref", "--format=%(objectname) %(refname) %(taggerdate:unix)", prefix.decode()
        ).splitlines()
        refs = [line.split(b" ") for line in lines]
        with self.start("cat-file", "--batch-check", stdin=subprocess.PIPE) as program:
            request = b"".join(target + b"^{commit}\n" for target, *_ in refs)
            answers, _ = program.process.communicate(request)
        commits = [line.split() for line in answers.splitlines()]
        return [
            Ref(name[len(prefix) :], target, words[0], int(date or 0))
            for (target, name, date), words in zip(refs, commits, strict=True)
            if len(words) == 3
        ]

    def packed_bytes(self) -> int:
        """Return the size of a repository's own objects, without those that it borrows."""
        objects = self._common / "objects"
        with _readable(objects):
            return sum(
                file.stat().st_size
                for file in objects.glob("*/*")
                if file.is_file()
                and file.parent.name != "info"
                and file.suffix not in (".idx", ".rev", ".bitmap")
            )


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


class Blob:
    """The content of an object, to be read before the next object's.

    `end` is the last answer to a request. An object with it is damaged: git does not compare the size of a
    loose object with its content.
    """

    def __init__(
        self, program: Program, size: int, end: bytes, damaged: Callable[[], UserError]
    ) -> None:
        self._program = program
        self._end = end
        self._damaged = damaged
        self.size = self._unread = size

    def chunks(self) -> Iterator[bytes]:
        last, length = b"", len(self._end)
        while self._unread > 0:
            chunk = self._program.stdout.read1(min(self._unread, CHUNK))
            if not chunk:
                raise self._program.failed()
            last = last[-length:] + chunk[-length - 1 :]
            if self._end in last:
                raise self._damaged()
            self._unread -= len(chunk)
            yield chunk

    def read_all(self) -> bytes:
        return b"".join(self.chunks())


class Objects:
    """Reads objects through one `git cat-file --batch`. Requests are sent ahead of the answers."""

    def __init__(self, program: Program, where: str) -> None:
        self._program = program
        self.where = where
        self._last = b"z" + secrets.token_hex(16).encode()
        self._end = self._last + b" missing"

    def read(self, names: Sequence[bytes], kinds: tuple[bytes, ...] = BLOBS) -> Iterator[Blob]:
        """Yield the contents of objects in order. Raise UserError for an object of another kind."""
        requests = self._program.process.stdin
        assert requests is not None
        for start in range(0, len(names), REQUESTS):
            part = names[start : start + REQUESTS]
            try:
                requests.write(b"".join(name + b"\n" for name in (*part, self._last)))
                requests.flush()
            except BrokenPipeError:
                raise self._program.failed() from None
            for name in part:
                header = self._program.stdout.readline().split()
                if not header:
                    raise self._program.failed()
                size = size_of(header, kinds, self.where)
                blob = Blob(self._program, size, self._end, partial(self._damaged, name))
                yield blob
                for _ in blob.chunks():
                    pass
                if self._program.stdout.read(1) != b"\n":
                    raise self._damaged(name)
            self._program.stdout.readline()

    def _damaged(self, name: bytes) -> UserError:
        return UserError(
            f"{self.where}: the object {name.decode()} is damaged: its content has another size than it "
            "states. `git fsck` lists such objects."
        )

    def read_message(self, name: bytes) -> bytes:
        for message in self.read([name], MESSAGES):
            if message.size > MESSAGE_BYTES:
                raise UserError(
                    f"{self.where}: the message of {name.decode()} is larger than "
                    f"{MESSAGE_BYTES >> 20} MiB. Choose another branch."
                )
            text = message.read_all()
        return text


def size_of(answer: Sequence[bytes], kinds: tuple[bytes, ...], where: str) -> int:
    """Return the size in an answer of `git cat-file`.

    Raise UserError if the object is missing or of another kind.
    """
    if len(answer) != 3:
        raise missing(where, answer[0].decode(errors="replace"))
    name, actual, size = answer
    if actual not in kinds:
        raise UserError(
            f"{where}: the object {name.decode()} is damaged: it is a {actual.decode()}, not a "
            f"{kinds[0].decode()}. `git fsck` lists such objects."
        )
    return int(size)


def missing(where: str, name: str) -> UserError:
    return UserError(
        f"{where}: the object {name} is missing: the clone is partial or damaged. "
        "Clone it again, without --filter."
    )
