"""The programs of one side of a build, client or server: where they are, and what shows which they are."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from vcsbench.errors import UserError
from vcsbench.machine import HTTPD, Machine

# Where a prefix has its programs, and httpd's modules; the first that has them counts.
PROGRAMS = ("bin", "sbin")
MODULES = (
    "libexec",
    "modules",
    "libexec/apache2",
    "libexec/apache24",
    "lib/apache2/modules",
    "lib/httpd/modules",
    "lib64/httpd/modules",
)
# The environment of every client: text as it is, and no sleep for timestamps, which times nothing.
CLIENT_ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "SVN_I_LOVE_CORRUPTED_WORKING_COPIES_SO_DISABLE_SLEEP_FOR_TIMESTAMPS": "yes",
    # What the user has configured for git and Mercurial is no part of what is measured.
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "HGRCPATH": "",
}
# Subversion's libraries, and what the name of a folder has that is an architecture's.
LIBRARY = re.compile(r"libsvn_.*\.so")
ARCHITECTURE = "-linux-"
# What a template names in braces is one of these, of the client's build; all else comes from the cell.
SUBVERSION = ("svn", "svnadmin", "svnbench", "svnlook", "svnrdump", "svnsync")
# What set-up has built; and where an interpreter has its modules.
BUILT = Path(__file__).parents[2] / ".tools" / "lib"
MODULES_OF = "lib/python3*/*-packages"
# How a command names a module of the interpreter that it needs.
MODULE = "python3:"
# A script is read for the files that it names if it is no larger.
SCRIPT_BYTES = 1 << 16


class _Places(NamedTuple):
    prefix: str = ""
    library_path: str = ""


class Programs(_Places):
    """The programs below `prefix`, or those on the PATH where it is "".

    `library_path` is what LD_LIBRARY_PATH is for them (folders with colons between).
    """

    def find(self, name: str) -> str:
        """The path of a program, or "" where there is none."""
        if not self.prefix:
            found = shutil.which(name)
            return os.path.abspath(found) if found else ""
        paths = (os.path.join(self.prefix, folder, name) for folder in PROGRAMS)
        return next((p for p in paths if os.path.isfile(p) and os.access(p, os.X_OK)), "")

    def get(self, name: str) -> str:
        """The path of a program; a UserError where there is none."""
        found = self.find(name)
        if not found and self.prefix:
            raise UserError(f"{self.prefix}: has no {' or '.join(f'{d}/{name}' for d in PROGRAMS)}")
        if not found:
            raise UserError(f"{name} is not on the PATH; `make report` installs what is needed")
        return found

    @cached_property
    def httpd(self) -> str:
        """The httpd that these programs' mod_dav_svn runs in: their own or the machine's; "" without."""
        if not self.prefix:
            return Machine().httpd
        own = self.find("apache2") or self.find("httpd")
        return own or next((path for path in HTTPD if os.access(path, os.X_OK)), "")

    @cached_property
    def httpd_modules(self) -> str:
        """The folder of that httpd's own modules, or ""."""
        own = self.prefix and self.httpd.startswith(self.prefix + "/")
        return self._folder_with("mod_dav.so") if own else Machine().httpd_modules

    @cached_property
    def mod_dav_svn(self) -> str:
        """The path of mod_dav_svn.so, or ""."""
        folder = self._folder_with("mod_dav_svn.so") if self.prefix else Machine().httpd_modules
        return os.path.join(folder, "mod_dav_svn.so") if folder else ""

    def _folder_with(self, name: str) -> str:
        folders = (os.path.join(self.prefix, folder) for folder in MODULES)
        return next((f for f in folders if os.path.isfile(os.path.join(f, name))), "")

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """An environment in which the programs find their libraries, and no other build's."""
        if not self.prefix:
            return dict(inherited)
        changed = {k: v for k, v in inherited.items() if k != "LD_LIBRARY_PATH"}
        return {**changed, "LD_LIBRARY_PATH": self.library_path} if self.library_path else changed

    def as_words(self) -> list[str]:
        """The words before a command line that give it this environment and no other process."""
        if not self.prefix:
            return []
        if not self.library_path:
            return ["env", "-u", "LD_LIBRARY_PATH"]
        # env itself runs without: the folders may hold another C library.
        return ["env", f"LD_LIBRARY_PATH={self.library_path}"]

    @property
    def places(self) -> list[str]:
        """The folders below which Subversion's libraries lie if these are the programs that run; [] for
        the PATH's, of which nothing is claimed."""
        if not self.prefix:
            return []
        return [os.path.realpath(p) for p in (self.prefix, *self.library_path.split(":")) if p]

    def digests(self, name: str) -> dict[str, str]:
        """Digests of a program, and of all of Subversion's libraries where these programs have them."""
        return {name: digest(self.find(name)), "libraries": self._libraries()}

    def httpd_digests(self) -> dict[str, str]:
        """Digests of httpd, of mod_dav_svn, and of Subversion's libraries."""
        return {
            "httpd": digest(self.httpd),
            "mod_dav_svn": digest(self.mod_dav_svn),
            "libraries": self._libraries(),
        }

    def _libraries(self) -> str:
        if self.prefix:
            folders = [os.path.join(self.prefix, "lib"), os.path.join(self.prefix, "lib64")]
            folders += filter(None, self.library_path.split(":"))
        else:
            prefix = Path(self.find("svn")).resolve().parent.parent
            folders = [str(prefix / "lib"), str(prefix / "lib64")]
        return _libraries_below(folders)


def _libraries_below(folders: Iterable[str]) -> str:
    """A digest of Subversion's libraries in folders, and in those of an architecture (x86_64-linux-gnu) in
    them; not in all others there: to look into each takes longer than all else that is checked."""
    found: set[str] = set()
    for folder in folders:
        with suppress(OSError):
            names = os.listdir(folder)
            below = [os.path.join(folder, name) for name in names if ARCHITECTURE in name]
            found.update(path for place in (folder, *below) for path in _libraries_in(place))
    return joined_digest(found)


def _libraries_in(folder: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if LIBRARY.match(entry.name) and not entry.is_symlink():
                yield entry.path


def path_of(need: str) -> str:
    """Where something is that a command needs beside its own programs: a program, one that set-up has built,
    or a module of this interpreter (`python3:NAME`), by what says its version; "" where it is not."""
    if need.startswith(MODULE):
        prefix = Path(sys.executable).parent.parent
        found = prefix.glob(f"{MODULES_OF}/{need.removeprefix(MODULE)}-*.dist-info/METADATA")
        return str(next(found, ""))
    built = BUILT / need
    return str(built) if built.exists() else Programs().find(need)


def programs_in(argv: str) -> tuple[str, ...]:
    """The names of the programs that a command's template runs: its words of Subversion's, {svn} and the
    like, and the first word where that is a program's own name."""
    words = [word for word in re.findall(r"\{(\w+)\}", argv) if word in SUBVERSION]
    first = argv.split()[0]
    return tuple(dict.fromkeys([*([] if "{" in first else [first]), *words]))


def binaries(
    client: Programs, clients: Sequence[str], server: Programs, kind: str
) -> dict[str, str]:
    """Digests of the client's programs and of a server of a `kind`, and of the Subversion libraries of
    each side; a side without a name is left out."""
    found: dict[str, str] = {}
    for program in clients:
        own = program in SUBVERSION
        theirs = client.digests(program) if own else {program: digest(path_of(program))}
        found |= {f"client {name}": value for name, value in theirs.items()}
    if kind:
        theirs = server.httpd_digests() if kind == "httpd" else server.digests(kind)
        found |= {f"server {name}": value for name, value in theirs.items()}
    return found


def check_unchanged(known: Mapping[str, str], client: Programs, server: Programs) -> None:
    """Raise a UserError where binaries() says other than when a cell's spec was made."""
    names: dict[str, list[str]] = {"client": [], "server": []}
    for key in known:
        side, _, name = key.partition(" ")
        if name not in ("libraries", "mod_dav_svn"):
            names[side].append(name)
    now = binaries(client, names["client"], server, "".join(names["server"]))
    changed = [key for key in known if now[key] != known[key]]
    if changed:
        prefix = (client if changed[0].startswith("client") else server).prefix or "the PATH"
        raise UserError(
            f"{prefix}: the {changed[0]} changed after this run of the workflow had begun; run it again"
        )


def joined_digest(paths: Iterable[str]) -> str:
    """A digest of files by their names and contents, wherever they lie; "" without files."""
    lines = sorted(f"{os.path.basename(path)} {digest(path)}" for path in paths)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] if lines else ""


def digest(path: str) -> str:
    """A digest of a program: of its file, and if that is a script, of the files as well that it names
    by their absolute paths (what a wrapper runs). "" where there is no file."""
    script = _script(path)
    # Its interpreter, in the first line, is no part of a build.
    named = re.findall(rb"/[^\s'\":;]+", script.partition(b"\n")[2])
    digests = [_file_digest(name) for name in [path, *map(os.fsdecode, named)]]
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()[:16]


def _script(path: str) -> bytes:
    if not os.path.isfile(path):
        return b""
    with open(path, "rb") as file:
        start = file.read(SCRIPT_BYTES)
    return start if start.startswith(b"#!") else b""


@cache
def _file_digest(path: str) -> str:
    if not os.path.isfile(path):
        return ""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
