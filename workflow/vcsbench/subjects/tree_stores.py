"""Make stores of a tree, from which strategies build it: mostly a repository with one commit."""

import os
import re
import shutil
import sqlite3
import stat
import struct
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from vcsbench import processes
from vcsbench.environment import program_environment
from vcsbench.external import file_url, pegged
from vcsbench.storages.file_trees import copy_tree, entries

AUTHOR, MESSAGE = "vcsbench <vcsbench@localhost>", "the tree"
NO_CONVERSION = "* -text -ident -filter !working-tree-encoding\n"
FOSSIL_SETTINGS = {
    **dict.fromkeys(("crlf-glob", "encoding-glob", "binary-glob"), "*"),
    "allow-symlinks": "on",
}
# Kind d, l, h or f, mode, lengths of name and content (workflow/native/build_tree.c).
PACK_HEADER = struct.Struct("<cIIQ")


def _run(*argv: str | Path, home: Path, cwd: Path | None = None) -> None:
    homes = {name: str(home) for name in ("HOME", "FOSSIL_HOME", "BRZ_HOME")}
    breezy = {"BRZ_LOG": "/dev/null", "BRZ_EMAIL": AUTHOR}
    private = program_environment({**homes, **breezy, "USER": "vcsbench"})
    processes.run_program(argv, env=private, cwd=cwd or home)


def make_svn(source: Path, path: Path, home: Path) -> None:
    """Make a Subversion repository with one revision."""
    _run("svnadmin", "create", path, home=home)
    options = ("--no-ignore", "--no-auto-props", "--non-interactive", "--config-dir", home)
    _run("svn", "import", "-q", *options, "-m", MESSAGE, source, pegged(file_url(path)), home=home)


def make_git(source: Path, path: Path, home: Path) -> None:
    """Make a bare git repository with one commit in one pack, as after `git gc`."""
    git = partial(_run, "git", f"--git-dir={path}", f"--work-tree={source}", home=home)
    author = ("-c", "user.name=vcsbench", "-c", "user.email=vcsbench@localhost")
    # Files `.gitattributes` in the tree then convert nothing, in clones either.
    template = path / "template"
    (template / "info").mkdir(parents=True)
    (template / "info" / "attributes").write_text(NO_CONVERSION)
    _run("git", "init", "-q", "--bare", f"--template={template}", path, home=home)
    git("add", "-A", "-f", source)
    git(*author, "commit", "-q", "--allow-empty", "-m", MESSAGE)
    git("repack", "-a", "-d", "-q")
    (path / "index").unlink(missing_ok=True)


def prune_worktrees(path: Path) -> None:
    _run("git", f"--git-dir={path}", "worktree", "prune", home=path)


def make_hg(source: Path, path: Path, home: Path) -> None:
    """Make a Mercurial repository with one commit and no working files."""
    hg = partial(_run, "hg", "-R", path, home=home, cwd=path)
    copy_tree(source, path)
    names = home / "names"
    files = [file for file in path.rglob("*") if file.is_symlink() or not file.is_dir()]
    names.write_bytes(b"\0".join(sorted(os.fsencode(file.relative_to(path)) for file in files)))
    _run("hg", "init", path, home=home)
    if files:
        hg("add", "-q", f"listfile0:{names}")
        hg("commit", "-q", "-u", AUTHOR, "-m", MESSAGE)
        hg("update", "-q", "null")


def make_brz(source: Path, path: Path, home: Path) -> None:
    """Make a Breezy branch with one commit, in today's format, and no working files."""
    brz = partial(_run, sys.executable, "-I", "-m", "breezy", home=home)
    # Empty ignore files, because the default ones exclude output of compilers.
    for folder in (home, home / "breezy"):
        folder.mkdir(exist_ok=True)
        (folder / "ignore").write_text("")
    copy_tree(source, path)
    brz("init", "-q", "--format=2a", path)
    brz("add", "-q", path)
    brz("commit", "-q", "--unchanged", "-m", MESSAGE, path)
    brz("remove-tree", "-q", "--force", path)


def make_fossil(source: Path, path: Path, home: Path) -> None:
    """Make a Fossil repository with one check-in."""
    _run("fossil", "init", path, "-A", "vcsbench", home=home)
    tree = home / "check-out"
    copy_tree(source, tree)
    fossil = partial(_run, "fossil", home=home, cwd=tree)
    fossil("open", "--force", "--keep", path)
    for name, value in FOSSIL_SETTINGS.items():
        fossil("settings", name, value)
    if any(source.iterdir()):
        fossil("add", "--dotfiles", "--ignore", "", ".")
        fossil("commit", "-m", MESSAGE, "--no-warnings", "--user-override", "vcsbench")
    fossil("close", "--force")


def forget_checkouts(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM config WHERE name GLOB 'ckout:*'")


def make_one_file(source: Path, path: Path, home: Path) -> None:
    """Write the content of all files to one file, without names."""
    with path.open("wb") as whole:
        for file, status in entries(source):
            if stat.S_ISREG(status.st_mode):
                with open(os.fsencode(file), "rb") as part:
                    shutil.copyfileobj(part, whole)


def make_pack(source: Path, path: Path, home: Path) -> None:
    """Write the tree to one file: a PACK_HEADER, the name and the content of each entry, folders first."""
    first_names: dict[tuple[int, int], bytes] = {}
    with path.open("wb") as pack:
        for file, status in entries(source):
            name = os.fsencode(os.path.relpath(file, source))
            first = first_names.setdefault((status.st_dev, status.st_ino), name)
            if stat.S_ISDIR(status.st_mode):
                kind, content = b"d", b""
            elif stat.S_ISLNK(status.st_mode):
                kind, content = b"l", os.readlink(os.fsencode(file))
            elif first != name:
                kind, content = b"h", first
            else:
                kind, content = b"f", Path(file).read_bytes()
            mode = stat.S_IMODE(status.st_mode)
            pack.write(PACK_HEADER.pack(kind, mode, len(name), len(content)))
            pack.write(name + b"\0" + content + b"\0")


class TreeStore(NamedTuple):
    """A kind of store. `make` gets the tree, the store's new path, and a private folder.

    The store carries no name that the pattern `refused` matches, and with `only_utf8` only names in UTF-8.
    `clean` removes traces of a build from the store, before the next run.
    """

    make: Callable[[Path, Path, Path], None]
    refused: bytes = rb"(?!)"
    only_utf8: bool = False
    clean: Callable[[Path], None] = lambda path: None

    def carries(self, name: bytes) -> bool:
        try:
            name.decode("utf-8" if self.only_utf8 else "latin-1")
        except UnicodeDecodeError:
            return False
        return not re.fullmatch(self.refused, name, re.DOTALL)


CONTROL = rb"\x00-\x1f\x7f"
STORES: dict[str, TreeStore] = {
    "": TreeStore(lambda source, path, home: copy_tree(source, path)),
    "svn": TreeStore(make_svn, rb"\.svn|.*[%b].*" % CONTROL, only_utf8=True),
    "git": TreeStore(make_git, rb"(?i:\.git)", clean=prune_worktrees),
    "hg": TreeStore(make_hg, rb"\.hg|\.hgsub|\.hgsubstate|.*[\n\r].*"),
    "brz": TreeStore(make_brz, rb"\.bzr|.*[\n\r\\].*", only_utf8=True),
    "fossil": TreeStore(
        make_fossil,
        rb'_FOSSIL_|\.fslckout|.*[%b\\*\[\]?":<>|].*' % CONTROL,
        only_utf8=True,
        clean=forget_checkouts,
    ),
    "one_file": TreeStore(make_one_file),
    "pack": TreeStore(make_pack),
}
