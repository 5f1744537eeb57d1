"""Make stores of a tree, from which strategies build it: mostly a repository with one commit."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import struct
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType

from vcsbench import processes
from vcsbench.external import file_url, pegged
from vcsbench.files import entries
from vcsbench.programs import CLIENT_ENVIRONMENT
from vcsbench.storages.workdir import copy_tree

AUTHOR, MESSAGE = "vcsbench <vcsbench@localhost>", "the tree"
NO_CONVERSION = "* -text -ident -filter !working-tree-encoding\n"
CONTROL_CHARACTERS = frozenset({*range(32), 127})


class TreeStore:
    """The tree itself, as a folder. Stores refuse different names."""

    environment: Mapping[str, str] = MappingProxyType({})
    refused_names: frozenset[bytes] = frozenset()
    refused_bytes: frozenset[int] = frozenset()
    takes_only_utf8 = False

    def carries(self, name: bytes) -> bool:
        if self.takes_only_utf8:
            try:
                name.decode()
            except UnicodeDecodeError:
                return False
        return name not in self.refused_names and not self.refused_bytes & set(name)

    def make(self, source: Path, path: Path, temporary: Path) -> None:
        """Make the store of `source` at a new path. `temporary` is a private folder."""
        copy_tree(source, path)

    def clean(self, path: Path) -> None:
        """Remove traces of a build from the store, before the next run."""

    def run(self, *argv: str | Path, home: Path, cwd: Path | None = None) -> None:
        homes = {name: str(home) for name in ("HOME", "FOSSIL_HOME", "BRZ_HOME")}
        private = {**CLIENT_ENVIRONMENT, **homes, "USER": "vcsbench", **self.environment}
        processes.run_program(argv, env={**os.environ, **private}, cwd=cwd or home)


class SvnStore(TreeStore):
    """A Subversion repository with one revision."""

    takes_only_utf8 = True
    refused_names = frozenset({b".svn"})
    refused_bytes = CONTROL_CHARACTERS

    def make(self, source: Path, path: Path, temporary: Path) -> None:
        self.run("svnadmin", "create", path, home=temporary)
        url = pegged(file_url(path))
        options = ("--no-ignore", "--no-auto-props", "--non-interactive", "--config-dir", temporary)
        self.run("svn", "import", "-q", *options, "-m", MESSAGE, source, url, home=temporary)


class GitStore(TreeStore):
    """A bare git repository with one commit in one pack, as after `git gc`."""

    def carries(self, name: bytes) -> bool:
        return name.lower() != b".git"

    def make(self, source: Path, path: Path, temporary: Path) -> None:
        git = ("git", f"--git-dir={path}", f"--work-tree={source}")
        author = ("-c", "user.name=vcsbench", "-c", "user.email=vcsbench@localhost")
        # Files `.gitattributes` in the tree then convert nothing, in clones either.
        template = path / "template"
        (template / "info").mkdir(parents=True)
        (template / "info" / "attributes").write_text(NO_CONVERSION)
        self.run("git", "init", "-q", "--bare", f"--template={template}", path, home=temporary)
        self.run(*git, "add", "-A", "-f", source, home=temporary)
        self.run(*git, *author, "commit", "-q", "--allow-empty", "-m", MESSAGE, home=temporary)
        self.run(*git, "repack", "-a", "-d", "-q", home=temporary)
        (path / "index").unlink(missing_ok=True)

    def clean(self, path: Path) -> None:
        self.run("git", f"--git-dir={path}", "worktree", "prune", home=path)


class HgStore(TreeStore):
    """A Mercurial repository with one commit and no working files."""

    refused_names = frozenset({b".hg", b".hgsub", b".hgsubstate"})
    refused_bytes = frozenset(b"\n\r")

    def make(self, source: Path, path: Path, temporary: Path) -> None:
        copy_tree(source, path)
        names = temporary / "names"
        files = [file for file in path.rglob("*") if file.is_symlink() or not file.is_dir()]
        relative = sorted(os.fsencode(file.relative_to(path)) for file in files)
        names.write_bytes(b"\0".join(relative))
        self.run("hg", "init", path, home=temporary)
        if names.stat().st_size:
            self.run("hg", "-R", path, "add", "-q", f"listfile0:{names}", home=temporary, cwd=path)
            self.run("hg", "-R", path, "commit", "-q", "-u", AUTHOR, "-m", MESSAGE, home=temporary)
            self.run("hg", "-R", path, "update", "-q", "null", home=temporary)
        names.unlink()


class BrzStore(TreeStore):
    """A Breezy branch with one commit, in today's format, and no working files."""

    environment = MappingProxyType({"BRZ_LOG": "/dev/null", "BRZ_EMAIL": AUTHOR})

    takes_only_utf8 = True
    refused_names = frozenset({b".bzr"})
    refused_bytes = frozenset(b"\n\r\\")

    def make(self, source: Path, path: Path, temporary: Path) -> None:
        brz = (sys.executable, "-I", "-m", "breezy")
        # Empty ignore files, because the default ones exclude output of compilers.
        for folder in (temporary, temporary / "breezy"):
            folder.mkdir(exist_ok=True)
            (folder / "ignore").write_text("")
        copy_tree(source, path)
        self.run(*brz, "init", "-q", "--format=2a", path, home=temporary)
        self.run(*brz, "add", "-q", path, home=temporary)
        self.run(*brz, "commit", "-q", "--unchanged", "-m", MESSAGE, path, home=temporary)
        self.run(*brz, "remove-tree", "-q", "--force", path, home=temporary)


class FossilStore(TreeStore):
    """A Fossil repository with one check-in."""

    SETTINGS = MappingProxyType(
        {"crlf-glob": "*", "encoding-glob": "*", "binary-glob": "*", "allow-symlinks": "on"}
    )
    takes_only_utf8 = True
    refused_names = frozenset({b"_FOSSIL_", b".fslckout"})
    refused_bytes = CONTROL_CHARACTERS | set(rb'\*[]?":<>|')

    def make(self, source: Path, path: Path, temporary: Path) -> None:
        self.run("fossil", "init", path, "-A", "vcsbench", home=temporary)
        tree = temporary / "check-out"
        copy_tree(source, tree)

        def fossil(*arguments: str | Path) -> None:
            self.run("fossil", *arguments, home=temporary, cwd=tree)

        fossil("open", "--force", "--keep", path)
        for name, value in self.SETTINGS.items():
            fossil("settings", name, value)
        if any(source.iterdir()):
            fossil("add", "--dotfiles", "--ignore", "", ".")
            fossil("commit", "-m", MESSAGE, "--no-warnings", "--user-override", "vcsbench")
        fossil("close", "--force")

    def clean(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("DELETE FROM config WHERE name GLOB 'ckout:*'")


class OneFileStore(TreeStore):
    """The content of all files in one file, without names."""

    def make(self, source: Path, path: Path, temporary: Path) -> None:
        with path.open("wb") as whole:
            for file, status in entries(source):
                if stat.S_ISREG(status.st_mode):
                    with open(os.fsencode(file), "rb") as part:
                        shutil.copyfileobj(part, whole)


class PackStore(TreeStore):
    """The tree in one file for workflow/native/build_tree.c.

    Each entry has a header (kind d, l, h or f, mode, lengths), a name and content. A folder comes first.
    """

    HEADER = struct.Struct("<cIIQ")

    def make(self, source: Path, path: Path, temporary: Path) -> None:
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
                pack.write(self.HEADER.pack(kind, mode, len(name), len(content)))
                pack.write(name + b"\0" + content + b"\0")


STORES: dict[str, type[TreeStore]] = {
    "": TreeStore,
    "svn": SvnStore,
    "git": GitStore,
    "hg": HgStore,
    "brz": BrzStore,
    "fossil": FossilStore,
    "one_file": OneFileStore,
    "pack": PackStore,
}
