"""Read a user's git repository by git, through a private git folder with its refs and objects.

No configuration, hook, filter, attribute, replacement, graft or variable of the user takes part. git itself
would follow its configuration, run its programs and wait for its pipes.
"""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from vcsbench import processes
from vcsbench.environment import program_environment
from vcsbench.errors import UserError
from vcsbench.external import one_line, printable, read_bytes
from vcsbench.processes import Program
from vcsbench.sources.base import readable
from vcsbench.sources.repository_files import GIT_PARTS, WORK_TREE_PARTS, check_files
from vcsbench.storages.workdir import run_folder

REF_BYTES = 1 << 14
CONFIG_BYTES = 1 << 24
ALTERNATES_BYTES = 1 << 20
LIST_BYTES = 1 << 29
# git needs about 300 bytes for each file of a commit. A tree that holds itself many times has billions.
MEMORY_BYTES = 4 << 30

_EXTENSION = re.compile(r"[a-z][a-z0-9-]*")
_HEAD = re.compile(rb"(?:ref:\s*(refs/[^\0]+)|[0-9a-fA-F]{40}.*)", re.DOTALL)
# A string of C as git writes and reads it (unquote_c_style), and one escape in it.
_ESCAPE = re.compile(rb'\\([abfnrtv\\"]|[0-3][0-7]{2})')
_QUOTATION = re.compile(rb'"((?:[^"\\]|\\[abfnrtv\\"]|\\[0-3][0-7]{2})*)"')
ESCAPES = {
    b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v",
    b"\\": b"\\", b'"': b'"',
}  # fmt: skip
HEADS = b"refs/heads/"
REMOTES = b"refs/remotes/origin/"
TAGS = b"refs/tags/"
# As files, they would hide newer refs than those in `packed-refs`.
REF_FOLDERS = ("refs", "refs/heads", "refs/tags", "refs/remotes")
ENVIRONMENT = {
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
CLONE = "Clone the repository again."
GIVE_CLONE = "Give a clone of the repository, which `git clone --mirror` makes."
CLONE_AGAIN = "try `git fsck`, or clone it again"
MEND = "use a newer git, or mend the repository's configuration"


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
    # Before anything there is opened.
    check_files(folder, WORK_TREE_PARTS, GIVE_CLONE, allows_inner_links=True)
    common = folder
    if os.path.lexists(folder / "commondir"):
        name = _read(folder / "commondir", REF_BYTES).partition(b"\0")[0].rstrip(b"\r\n")
        common = folder / os.fsdecode(name)
    for needed in (folder / "HEAD", common / "objects"):
        with readable(needed):
            try:
                os.lstat(needed)
            except (FileNotFoundError, NotADirectoryError):
                raise UserError(
                    f"{one_line(needed)}: does not exist: the git repository is damaged, or its "
                    "main repository was moved. Clone it again, or run `git worktree repair` there."
                ) from None
    check_files(common, GIT_PARTS, GIVE_CLONE, allows_inner_links=True)
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


def _linked(file: Path) -> Path:
    text = _read(file, REF_BYTES).rstrip(b"\r\n")
    if not text.startswith(b"gitdir: "):
        raise UserError(f"{one_line(file)}: has no line `gitdir: FOLDER`. {CLONE}")
    folder = file.parent / os.fsdecode(text.removeprefix(b"gitdir: "))
    if b"\0" in text or not os.path.isdir(folder):
        raise UserError(
            f"{one_line(file)}: names the folder {one_line(folder)}, which does not exist. "
            "Give the main repository, or run `git worktree repair` in it."
        )
    return folder


def _read(path: Path, limit: int) -> bytes:
    with readable(path):
        return read_bytes(path, limit)


def _read_optional(path: Path, limit: int) -> bytes:
    with readable(path), suppress(FileNotFoundError):
        return read_bytes(path, limit)
    return b""


class Ref(NamedTuple):
    """A branch or tag: its short name, and the commit that it leads to."""

    name: bytes
    commit: bytes


def _read_head(layout: GitLayout) -> bytes:
    """Return HEAD: `ref: refs/heads/NAME` or the name of a commit."""
    path = layout.folder / "HEAD"
    if path.is_symlink():
        target = os.fsencode(os.readlink(path))
        # A symbolic ref of an old git, which git reads as a text.
        if target.startswith(b"refs/"):
            return b"ref: " + target
    head = _read(path, REF_BYTES).rstrip()
    match = _HEAD.fullmatch(head)
    if not match:
        raise UserError(
            f"{one_line(path)}: names neither a branch nor a commit: the git repository is "
            "damaged. Clone it again."
        )
    branch = match[1]
    return b"ref: " + branch if branch else head


def _object_folders(objects: Path) -> list[Path]:
    """Return the folders of objects: the repository's own and all that it borrows from.

    Raise UserError if one is missing, or has an entry that is no plain file or folder.
    """
    own = Path(os.path.realpath(objects))
    folders = [own]
    for folder in folders:
        # find_layout() has checked the repository's own folder.
        if folder != own:
            check_files(folder, [""], GIVE_CLONE, allows_inner_links=True)
        file = folder / "info" / "alternates"
        for name in read_alternates(_read_optional(file, ALTERNATES_BYTES)):
            lender = (folder / os.fsdecode(name)).absolute()
            if not os.path.isdir(lender):
                raise UserError(
                    f"{one_line(file)}: the object folder {one_line(lender)} does not exist. "
                    "Bring it back, or clone the repository again without --shared and --reference."
                )
            lender = lender.resolve()
            if lender not in folders:
                folders.append(lender)
    return folders


def read_alternates(content: bytes) -> list[bytes]:
    """Return the names of folders in a file `info/alternates`, in git's own reading of it.

    git ends at a NUL byte, skips lines that begin with #, and unquotes a line that begins with a quotation
    mark as a string of C. Behind the closing mark it skips one character, whatever that is. A line whose
    quotation is wrong is a name as it stands.
    """
    names = []
    text = content.partition(b"\0")[0] + b"\n"
    at = 0
    while at < len(text):
        quotation = _QUOTATION.match(text, at)
        if quotation:
            name = _ESCAPE.sub(_unescape, quotation[1])
            at = quotation.end() + 1
        else:
            end = text.index(b"\n", at)
            name = text[at:end]
            at = end + 1
            if name.startswith(b"#"):
                continue
        if name:
            names.append(name)
    return names


def _unescape(escape: re.Match[bytes]) -> bytes:
    text = escape[1]
    # Three digits are a byte in octal.
    return bytes([int(text, 8)]) if text.isdigit() else ESCAPES[text]


@contextmanager
def open_repository(path: Path) -> Iterator[Git]:
    """Yield git on the repository at a path: bare, a work tree's top, or a linked work tree.

    Raise UserError with git's own reason where git cannot read it.
    """
    layout = find_layout(path)
    if layout is None:
        raise UserError(f"{one_line(path)}: is not a git repository. Give one.")
    with run_folder(os.getcwd()) as folder:
        yield Git(one_line(path), layout, folder)


class Git:
    """git on a private folder with the refs and the objects of a user's repository.

    `where` is the path of the user's repository, safe to print.
    """

    def __init__(self, where: str, layout: GitLayout, private: Path) -> None:
        self.where = where
        self._private = private
        common = Path(os.path.abspath(layout.common))
        self._objects = _object_folders(common / "objects")[0]
        for path in (common / name for name in REF_FOLDERS):
            if os.path.lexists(path) and not os.path.isdir(path):
                raise UserError(f"{one_line(path)}: is not a folder. {CLONE}")
        refs, packed_refs = common / "refs", common / "packed-refs"
        self.head = _read_head(layout)
        (private / "HEAD").write_bytes(self.head + b"\n")
        if refs.is_dir():
            (private / "refs").symlink_to(refs)
        else:
            (private / "refs").mkdir()
        (private / "packed-refs").symlink_to(packed_refs)
        self.shallow = _read_optional(common / "shallow", LIST_BYTES)
        if self.shallow:
            (private / "shallow").write_bytes(self.shallow)
        self._configure(common / "config")

    def _configure(self, path: Path) -> None:
        """Write our configuration with the format of the user's repository."""
        settings = {}
        if _read_optional(path, CONFIG_BYTES):
            # With --file, git follows no includes.
            listed = self.output("config", "--file", str(path), "--list", "-z", remedy=MEND)
            lines = (line.partition("\n") for line in os.fsdecode(listed).split("\0") if line)
            settings = {key: value for key, _, value in lines}
        is_partial = "extensions.partialclone" in settings
        for key, value in settings.items():
            is_off = value.lower() in ("false", "no", "off", "0")
            if key.endswith(".promisor") and not is_off:
                is_partial = True
        if is_partial:
            raise UserError(
                f"{self.where} is a partial clone, which lacks files. Clone it again without --filter."
            )
        storage = settings.get("extensions.refstorage", "files")
        if storage != "files":
            raise UserError(
                f"{self.where}: its refstorage is {printable(storage)}, not files. "
                "Run `git refs migrate --ref-format=files` in it, or clone it with --ref-format=files."
            )
        kind = "sha256" if settings.get("extensions.objectformat") == "sha256" else "sha1"
        version = _quoted(settings.get("core.repositoryformatversion", "0"))
        text = CONFIGURATION.format(version=version, empty=EMPTY_TREE[kind])
        for key, value in settings.items():
            section, _, name = key.partition(".")
            if section == "extensions":
                # The name of a subsection can hold the text of any other section.
                if not _EXTENSION.fullmatch(name):
                    raise UserError(
                        f"{self.where}: git has no extension {printable(name[:80])!r}. "
                        f"Remove its section from {one_line(path)}."
                    )
                text += f"\t{name} = {_quoted(value)}\n"
        (self._private / "config").write_bytes(os.fsencode(text))
        # git refuses unknown formats and extensions.
        self.output("rev-parse", "--git-dir", remedy=MEND)

    def output(self, *arguments: str, remedy: str = CLONE_AGAIN) -> bytes:
        with self.start(*arguments, remedy=remedy) as program:
            return program.read_all()

    def start(
        self, *arguments: str, stdin: int | IO[Any] = processes.DEVNULL, remedy: str = CLONE_AGAIN
    ) -> Program:
        failure = f"{self.where}: git {arguments[0]} failed ({remedy})"
        # With -C, git's messages do not show the private folder.
        argv = ["git", "-C", str(self._private), "--git-dir=.", *arguments]
        home = {"HOME": str(self._private), "XDG_CONFIG_HOME": str(self._private)}
        env = program_environment({**ENVIRONMENT, **home})
        env["GIT_OBJECT_DIRECTORY"] = str(self._objects)
        program = Program(argv, failure, env, stdin)
        limits = (MEMORY_BYTES, MEMORY_BYTES)
        with suppress(OSError, ValueError):
            resource.prlimit(program.process.pid, resource.RLIMIT_DATA, limits)
        return program

    def damaged(self, name: bytes, what: str) -> UserError:
        return UserError(
            f"{self.where}: the object {name.decode()} is damaged: {what}. `git fsck` lists such objects."
        )

    def missing(self, name: bytes) -> UserError:
        return UserError(
            f"{self.where}: the object {name.decode()} is missing: the clone is partial or damaged. "
            "Clone it again, without --filter."
        )

    def branches(self) -> list[Ref]:
        """Return the local branches, then origin's that have no local one of the same name."""
        local = self.refs(HEADS)
        names = {ref.name for ref in local} | {b"HEAD"}
        return local + [ref for ref in self.refs(REMOTES) if ref.name not in names]

    def count_other_refs(self) -> int:
        """Return the number of refs that are neither branches nor tags of commits."""
        names = self.output("for-each-ref", "--format=%(refname)").splitlines()
        beside_branches = [name for name in names if not name.startswith((HEADS, REMOTES))]
        return len(beside_branches) - len(self.refs(TAGS))

    def refs(self, prefix: bytes) -> list[Ref]:
        """Return the refs below a prefix that lead to commits. Raise UserError if an object is missing."""
        lines = self.output("for-each-ref", "--format=%(objectname) %(refname)", prefix.decode())
        listed = [line.split(b" ") for line in lines.splitlines()]
        with self.start("cat-file", "--batch-check", stdin=processes.PIPE) as program:
            request = b"".join(target + b"^{}\n" for target, _ in listed)
            answers, _ = program.process.communicate(request)
        refs = []
        for (target, name), answer in zip(listed, answers.splitlines(), strict=True):
            commit, kind, *_ = answer.split()
            if kind == b"missing":
                raise self.missing(target)
            if kind == b"commit":
                refs.append(Ref(name.removeprefix(prefix), commit))
        return refs


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
