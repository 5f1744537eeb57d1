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

AUTHOR = "vcsbench <vcsbench@localhost>"
MESSAGE = "the tree"
# With these attributes, files `.gitattributes` in the tree convert nothing, also in clones.
NO_CONVERSION = "* -text -ident -filter !working-tree-encoding\n"
# All files are binary, so Fossil has no questions and no warnings.
FOSSIL_SETTINGS = {
    "crlf-glob": "*",
    "encoding-glob": "*",
    "binary-glob": "*",
    "allow-symlinks": "on",
}
# Kind (d, l, h or f), mode, and lengths of name and content (workflow/native/build_tree.c).
PACK_HEADER = struct.Struct("<cIIQ")


def _run(*argv: str | Path, home: Path, cwd: Path | None = None) -> None:
    """Run a program with a private home folder, because the user's settings would change the store.

    Raise ProgramError if the program fails.
    """
    variables = {
        "HOME": str(home),
        "FOSSIL_HOME": str(home),
        "BRZ_HOME": str(home),
        "BRZ_LOG": os.devnull,
        "BRZ_EMAIL": AUTHOR,
        "USER": "vcsbench",
    }
    processes.run_program(argv, env=program_environment(variables), cwd=cwd or home)


# Each function make_* gets the tree `source`, the new `path` of the store, and a private folder `home`.


def make_svn(source: Path, path: Path, home: Path) -> None:
    """Make a Subversion repository with the tree as one revision."""
    _run("svnadmin", "create", path, home=home)
    options = ("--no-ignore", "--no-auto-props", "--non-interactive", "--config-dir", home)
    _run("svn", "import", "-q", *options, "-m", MESSAGE, source, pegged(file_url(path)), home=home)


def make_git(source: Path, path: Path, home: Path) -> None:
    """Make a bare git repository with the tree as one commit, in one pack, as after `git gc`.

    `.gitattributes` and `.gitignore` in the tree have no effect.
    """
    git = partial(_run, "git", f"--git-dir={path}", f"--work-tree={source}", home=home)
    author = ("-c", "user.name=vcsbench", "-c", "user.email=vcsbench@localhost")
    # git copies the files of a template to a new repository: here info/attributes, and none of git's example
    # hooks. The template stays in the store, because commands of a study clone the store with the template.
    template = path / "template"
    (template / "info").mkdir(parents=True)
    (template / "info" / "attributes").write_text(NO_CONVERSION)
    _run("git", "init", "-q", "--bare", f"--template={template}", path, home=home)
    # -f adds also files that `.gitignore` names.
    git("add", "-A", "-f", source)
    git(*author, "commit", "-q", "--allow-empty", "-m", MESSAGE)
    git("repack", "-a", "-d", "-q")
    # `git add` has made an index, a list of the files of a work tree. A bare repository has none.
    (path / "index").unlink(missing_ok=True)


def prune_worktrees(path: Path) -> None:
    """Remove the entries of work trees of earlier runs from a git repository. The work trees are gone."""
    _run("git", f"--git-dir={path}", "worktree", "prune", home=path)


def make_hg(source: Path, path: Path, home: Path) -> None:
    """Make a Mercurial repository with the tree as one commit, and no working files.

    An empty tree gives a repository without a commit.
    """
    hg = partial(_run, "hg", "-R", path, home=home, cwd=path)
    # Mercurial commits only files in the repository's own folder. So the tree is copied there.
    copy_tree(source, path)
    # The names are listed before `hg init`, because afterwards the files of `.hg` would be among them.
    names = []
    for file in path.rglob("*"):
        # Mercurial has no folders, only the paths of files. A symbolic link to a folder is a file for it.
        if file.is_symlink() or not file.is_dir():
            names.append(os.fsencode(file.relative_to(path)))
    # hg reads the names from a file, because a command line could not hold all of them. NULs separate them.
    list_file = home / "names"
    list_file.write_bytes(b"\0".join(sorted(names)))
    _run("hg", "init", path, home=home)
    # A commit without files fails.
    if names:
        # `hg add` without names would leave out the files that `.hgignore` in the tree names.
        hg("add", "-q", f"listfile0:{list_file}")
        hg("commit", "-q", "-u", AUTHOR, "-m", MESSAGE)
        # `null` is the empty revision: this removes the working files.
        hg("update", "-q", "null")


def make_brz(source: Path, path: Path, home: Path) -> None:
    """Make a Breezy branch in the usual format 2a, with the tree as one commit, and no working files."""
    brz = partial(_run, sys.executable, "-I", "-m", "breezy", home=home)
    # By default, Breezy ignores the output of compilers. With an empty file `ignore`, it ignores nothing. The
    # file is made in both folders in which Breezy may look for it.
    for folder in (home, home / "breezy"):
        folder.mkdir(exist_ok=True)
        (folder / "ignore").write_text("")
    # Breezy commits only files in the branch's own folder. So the tree is copied there.
    copy_tree(source, path)
    brz("init", "-q", "--format=2a", path)
    brz("add", "-q", path)
    # --unchanged allows the commit of an empty tree.
    brz("commit", "-q", "--unchanged", "-m", MESSAGE, path)
    brz("remove-tree", "-q", "--force", path)


def make_fossil(source: Path, path: Path, home: Path) -> None:
    """Make a Fossil repository, which is one file, with the tree as one check-in (commit)."""
    _run("fossil", "init", path, "-A", "vcsbench", home=home)
    # Fossil writes a file into a folder that becomes a check-out. So Fossil gets a copy of the tree.
    tree = home / "check-out"
    copy_tree(source, tree)
    fossil = partial(_run, "fossil", home=home, cwd=tree)
    # With --keep, the copied files stay as they are.
    fossil("open", "--force", "--keep", path)
    for name, value in FOSSIL_SETTINGS.items():
        fossil("settings", name, value)
    # A commit without files fails. The options of `add` include all files, also those that it would ignore.
    if any(source.iterdir()):
        fossil("add", "--dotfiles", "--ignore", "", ".")
        fossil("commit", "-m", MESSAGE, "--no-warnings", "--user-override", "vcsbench")
    fossil("close", "--force")


def forget_checkouts(path: Path) -> None:
    """Remove the entries of check-outs of earlier runs from a Fossil repository. The check-outs are gone."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM config WHERE name GLOB 'ckout:*'")


def make_one_file(source: Path, path: Path, home: Path) -> None:
    """Write the contents of all files of the tree `source` to the file `path`, without names."""
    with path.open("wb") as whole:
        for name, status in entries(source):
            if stat.S_ISREG(status.st_mode):
                with open(os.fsencode(name), "rb") as file:
                    shutil.copyfileobj(file, whole)


def make_pack(source: Path, path: Path, home: Path) -> None:
    """Write the tree `source` to the file `path`. No program runs, so the private folder `home` is not used.

    For each entry (file, folder or link), the file has a PACK_HEADER, the name, a NUL, the content and a NUL.
    A folder (kind d) has no content, and comes before its entries. The content of a symbolic link (l) is the
    path to which the link leads. The content of a hard link (h) is the name of an earlier file (f).
    """
    # The first name of each file, by device and inode. Its other names are hard links.
    first_names: dict[tuple[int, int], bytes] = {}
    with path.open("wb") as pack:
        for file, status in entries(source):
            name = os.fsencode(os.path.relpath(file, source))
            # setdefault() returns `name` itself, unless an earlier entry is the same file.
            first_name = first_names.setdefault((status.st_dev, status.st_ino), name)
            if stat.S_ISDIR(status.st_mode):
                kind, content = b"d", b""
            elif stat.S_ISLNK(status.st_mode):
                kind, content = b"l", os.readlink(os.fsencode(file))
            elif first_name != name:
                kind, content = b"h", first_name
            else:
                kind, content = b"f", Path(file).read_bytes()
            mode = stat.S_IMODE(status.st_mode)
            pack.write(PACK_HEADER.pack(kind, mode, len(name), len(content)))
            pack.write(name + b"\0" + content + b"\0")


def copy_source(source: Path, path: Path, home: Path) -> None:
    """Copy the tree `source` itself to `path`."""
    copy_tree(source, path)


def keep_store(path: Path) -> None:
    """Change nothing: a build leaves no traces in most stores."""


class TreeStore(NamedTuple):
    """A kind of store, such as a git repository.

    `make` builds it from a tree, at a new path, with a private folder. The store cannot have a name that the
    pattern `refused` matches, such as `.git`, and with `only_utf8` none that is not UTF-8. `clean` removes
    traces of a build from the store, before the next run.
    """

    make: Callable[[Path, Path, Path], None]
    refused: bytes | None = None
    only_utf8: bool = False
    clean: Callable[[Path], None] = keep_store

    def carries(self, name: bytes) -> bool:
        """Return True if the store can have a file or folder of this name, which is the end of its path."""
        if self.only_utf8:
            try:
                name.decode("utf-8")
            except UnicodeDecodeError:
                return False
        return self.refused is None or not re.fullmatch(self.refused, name, re.DOTALL)


CONTROL = rb"\x00-\x1f\x7f"
# By the command's key `store`. Without this key, it is "", the tree itself.
STORES: dict[str, TreeStore] = {
    "": TreeStore(copy_source),
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
