"""Read the files of a user's git repository without git.

git itself would follow its configuration, run its programs and wait for its pipes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.external import printable, read_bytes

# Limits for HEAD, a ref, `.git` and `commondir`; for the configuration; for `packed-refs` and `shallow`.
REF_BYTES = 1 << 14
CONFIG_BYTES = 1 << 24
LIST_BYTES = 1 << 29
# git follows so many symbolic refs.
SYMBOLIC_DEPTH = 5
MOST_ALTERNATES = 100
MOST_REFS = 5_000_000

_OBJECT = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")
# `git check-ref-format` refuses these.
_BAD_REF = re.compile(rb"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|\.lock(?:/|\Z)|/\.|\.\Z|/\Z")
_ESCAPE = re.compile(rb'\\([abfnrtv"\\]|[0-7]{3})')
_LETTERS = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True))


@dataclass(frozen=True)
class Layout:
    """The folders of a repository: as given, git's own for this work tree, and git's for all work trees."""

    path: Path
    folder: Path
    common: Path

    @property
    def shown(self) -> str:
        """The path as given, safe to print."""
        return shown(self.path)


def shown(path: str | Path) -> str:
    """Return a path that is safe to print on one line."""
    return printable(os.fspath(path)).replace("\n", "\\n")


def find_layout(path: Path) -> Layout | None:
    """Return the layout of the repository at a path: bare, a work tree's top, or a linked work tree.

    Return None if nothing there looks like one. Raise UserError for a damaged one.
    """
    if not path.is_dir():
        return None
    inner = path / ".git"
    if os.path.lexists(inner):
        folder = inner if inner.is_dir() else _linked(inner, path)
    elif _looks_bare(path):
        folder = path
    else:
        return None
    common = folder
    if os.path.lexists(folder / "commondir"):
        common = folder / os.fsdecode(_read(folder / "commondir", REF_BYTES).rstrip(b"\n"))
    for needed in (folder / "HEAD", common / "objects"):
        if not os.path.lexists(needed):
            raise UserError(
                f"{shown(needed)}: does not exist: the git repository is damaged, or its main repository was "
                "moved. Clone it again, or run `git worktree repair` in the main repository."
            )
    return Layout(path, folder, common)


def work_tree_above(path: Path) -> Path | None:
    """Return the nearest folder above a path that has a git repository."""
    above = path.resolve().parents
    return next((folder for folder in above if os.path.lexists(folder / ".git")), None)


def _looks_bare(path: Path) -> bool:
    has = {
        name
        for name in ("HEAD", "objects", "refs", "commondir", "config")
        if os.path.lexists(path / name)
    }
    return (
        {"HEAD", "objects"} <= has
        or {"HEAD", "commondir"} <= has
        or {"objects", "refs", "config"} <= has
    )


def _linked(file: Path, path: Path) -> Path:
    """Return the folder that a file `.git` names."""
    text = _read(file, REF_BYTES).rstrip(b"\n")
    if not text.startswith(b"gitdir: "):
        raise UserError(f"{shown(file)}: has no line `gitdir: FOLDER`. Clone the repository again.")
    folder = path / os.fsdecode(text.removeprefix(b"gitdir: "))
    if b"\0" in text or not folder.is_dir():
        raise UserError(
            f"{shown(file)}: names the folder {shown(folder)}, which does not exist. "
            "Give the main repository, or run `git worktree repair` in it."
        )
    return folder


@contextmanager
def _readable(path: str | Path) -> Iterator[None]:
    """Turn the system's errors about a path into UserError."""
    try:
        yield
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"{shown(path)}: git's file cannot be read: {why}. Make it readable, or clone the repository."
        ) from error


def _read(path: Path, limit: int) -> bytes:
    with _readable(path):
        return read_bytes(path, limit)


def read_config(layout: Layout) -> bytes:
    """Return the text of the configuration; nothing where there is none."""
    path = layout.common / "config"
    return _read(path, CONFIG_BYTES) if os.path.lexists(path) else b""


def read_shallow(layout: Layout) -> bytes:
    """Return the commits whose parents a shallow clone lacks; nothing for a whole clone."""
    path = layout.common / "shallow"
    return _read(path, LIST_BYTES) if os.path.lexists(path) else b""


def read_head(layout: Layout) -> bytes:
    """Return HEAD: `ref: refs/heads/NAME` or the name of a commit."""
    path = layout.folder / "HEAD"
    if path.is_symlink() and (target := os.fsencode(os.readlink(path))).startswith(b"refs/"):
        value = b"ref: " + target  # as git wrote it before 2005
    else:
        value = _value(_read(path, REF_BYTES))
    if not value:
        raise UserError(
            f"{shown(path)}: names neither a branch nor a commit: the git repository is "
            "damaged. Clone it again."
        )
    return value


def _value(text: bytes) -> bytes:
    """Return what a ref's file holds, or nothing where that is neither a ref nor an object."""
    text = text.rstrip()
    if text.startswith(b"ref:"):
        name = text[4:].strip()
        return b"ref: " + name if is_ref_name(name) else b""
    return text if _OBJECT.fullmatch(text) else b""


def is_ref_name(name: bytes) -> bool:
    """Return True if git accepts the name of a ref."""
    return name.startswith(b"refs/") and not _BAD_REF.search(name)


def read_refs(layout: Layout) -> dict[bytes, bytes]:
    """Return the object of each ref; refs that are broken, or replace objects, are left out."""
    values = dict(_packed_refs(layout.common / "packed-refs"))
    values |= _loose_refs(layout.common / "refs")
    refs = {}
    for name, value in values.items():
        for _ in range(SYMBOLIC_DEPTH):
            if not value.startswith(b"ref: "):
                break
            value = values.get(value[5:], b"")
        if _OBJECT.fullmatch(value) and not name.startswith(b"refs/replace/"):
            refs[name] = value
    return refs


def _packed_refs(path: Path) -> Iterator[tuple[bytes, bytes]]:
    if not os.path.lexists(path):
        return
    for line in _read(path, LIST_BYTES).splitlines():
        value, _, name = line.partition(b" ")
        if _OBJECT.fullmatch(value) and is_ref_name(name):
            yield name, value


def _loose_refs(top: Path) -> dict[bytes, bytes]:
    found = {}
    waiting = [(os.fsencode(top), b"refs")]
    while waiting:
        folder, above = waiting.pop()
        if not os.path.isdir(folder):
            continue
        with _readable(os.fsdecode(folder)), os.scandir(folder) as entries:
            for entry in entries:
                name = above + b"/" + entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, name))
                elif is_ref_name(name):
                    value = _value(_read(Path(os.fsdecode(entry.path)), REF_BYTES))
                    found[name] = value
        if len(found) > MOST_REFS:
            raise UserError(f"{shown(top)}: has more than {MOST_REFS} refs. Clone the one branch.")
    return found


def object_folders(layout: Layout) -> list[Path]:
    """Return the folders of objects: the repository's own and all that it borrows from.

    Raise UserError if one is missing, or has files that are not regular.
    """
    folders = [(layout.common / "objects").resolve()]
    for folder in folders:
        _check_files(folder)
        file = folder / "info" / "alternates"
        if not os.path.lexists(file):
            continue
        for line in _read(file, CONFIG_BYTES).split(b"\n"):
            if not line or line.startswith(b"#"):
                continue
            lender = (folder / os.fsdecode(_unquote(line))).absolute()
            if b"\0" in line or not lender.is_dir():
                raise UserError(
                    f"{shown(file)}: the object folder {shown(lender)} does not exist. "
                    "Bring it back, or clone the repository again without --shared and --reference."
                )
            if (lender := lender.resolve()) not in folders:
                folders.append(lender)
        if len(folders) > MOST_ALTERNATES:
            raise UserError(
                f"{shown(file)}: borrows from more than {MOST_ALTERNATES} folders. Clone the repository."
            )
    return folders


def _check_files(folder: Path) -> None:
    """Refuse pipes and devices among the objects, because git would wait for them."""
    with _readable(folder):
        for entry in os.scandir(folder):
            is_used = len(entry.name) == 2 or entry.name in ("pack", "info")
            if not (is_used and entry.is_dir()):
                continue
            for file in os.scandir(entry.path):
                if not file.is_file() and not file.is_dir() and os.path.exists(file.path):
                    raise UserError(
                        f"{shown(file.path)}: this is not a regular file. Clone the repository again."
                    )


def pack_bytes(layout: Layout) -> int:
    """Return the size of a repository's own objects."""
    objects = layout.common / "objects"
    with _readable(objects):
        folders = [
            entry.path for entry in os.scandir(objects) if entry.is_dir() and entry.name != "info"
        ]
        files = (file for folder in folders for file in os.scandir(folder) if file.is_file())
        return sum(
            file.stat().st_size
            for file in files
            if not file.name.endswith((".idx", ".rev", ".bitmap"))
        )


def _unquote(line: bytes) -> bytes:
    """Return a line of `alternates` without the quotes of C."""
    if not (line.startswith(b'"') and line.endswith(b'"') and len(line) > 1):
        return line

    def byte(match: re.Match[bytes]) -> bytes:
        text = match[1]
        number = int(text, 8) & 0xFF if len(text) == 3 else _LETTERS.get(text[0], text[0])
        return bytes([number])

    return _ESCAPE.sub(byte, line[1:-1])


def quote(path: Path) -> bytes:
    """Return a path as a line of `alternates`, with every unusual byte escaped."""
    escaped = b"".join(
        bytes([b]) if 0x20 <= b < 0x7F and b not in b'"\\' else b"\\%03o" % b
        for b in os.fsencode(path)
    )
    return b'"' + escaped + b'"'
