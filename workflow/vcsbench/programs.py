"""Find the programs of builds and the files of server configurations, and compute their digests."""

import hashlib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from vcsbench import processes
from vcsbench.environment import program_environment
from vcsbench.errors import UserError
from vcsbench.external import read_bytes

PROGRAMS = ("bin", "sbin")
HTTPD = ("/usr/sbin/apache2", "/usr/sbin/httpd", "/usr/local/sbin/httpd")
SYSTEM_MODULES = (
    "/usr/lib/apache2/modules",
    "/usr/lib64/httpd/modules",
    "/usr/local/libexec/apache24",
)
MODULES = (
    *("libexec", "modules", "libexec/apache2", "libexec/apache24"),
    *("lib/apache2/modules", "lib/httpd/modules", "lib64/httpd/modules"),
)
# Subversion's libraries in a folder, or in one of an architecture.
LIBRARIES = ("libsvn_*.so*", "*-linux-*/libsvn_*.so*")
# A word in braces in a command, which stands for a program or a value of the cell.
WORD = re.compile(r"\{(\w+)\}")
SUBVERSION = ("svn", "svnadmin", "svnbench", "svnlook", "svnrdump", "svnsync")
BUILT = Path(__file__).parents[2] / ".tools" / "lib"
MODULES_OF = "lib/python3*/*-packages"
MODULE = "python3:"
SCRIPT_BYTES = 1 << 16
TRACE_LIMIT_S = 60.0
# A line of the loader: a library, and its address in memory.
LOADED = re.compile(r"(/.*) \(0x[0-9a-f]+\)$", re.MULTILINE)
CONFIGURATION_BYTES = 1 << 20
# The server configuration with the files that another one lacks.
DEFAULTS = "default"


# The import of dataclasses would take milliseconds of each cell-round.
class _Places(NamedTuple):
    prefix: str = ""
    library_path: str = ""


class Programs(_Places):
    """The programs below `prefix`, or on the PATH if it is empty.

    `library_path` is their LD_LIBRARY_PATH.
    """

    def find(self, name: str) -> str:
        if not self.prefix:
            found = shutil.which(name)
            return os.path.abspath(found) if found else ""
        paths = (os.path.join(self.prefix, folder, name) for folder in PROGRAMS)
        return next((p for p in paths if os.path.isfile(p) and os.access(p, os.X_OK)), "")

    def get(self, name: str) -> str:
        found = self.find(name)
        if not found and self.prefix:
            raise UserError(
                f"{self.prefix}: {' and '.join(f'{d}/{name}' for d in PROGRAMS)} are missing. Install {name}."
            )
        if not found:
            raise UserError(f"{name}: not on the PATH. `make report` installs it.")
        return found

    @cached_property
    def httpd(self) -> str:
        """Return the httpd of the prefix, or of the system, if it can load mod_dav_svn; otherwise ""."""
        own = self.prefix and (self.find("apache2") or self.find("httpd"))
        if own or not (self.prefix or self.mod_dav_svn):
            return own
        return next((path for path in HTTPD if os.access(path, os.X_OK)), "")

    @cached_property
    def httpd_modules(self) -> str:
        own = self.prefix and self.httpd.startswith(self.prefix + "/")
        return self._folder_with("mod_dav.so") if own else _system_modules()

    @cached_property
    def mod_dav_svn(self) -> str:
        folder = self._folder_with("mod_dav_svn.so") if self.prefix else _system_modules()
        return os.path.join(folder, "mod_dav_svn.so") if folder else ""

    def _folder_with(self, name: str) -> str:
        folders = (os.path.join(self.prefix, folder) for folder in MODULES)
        return next((f for f in folders if os.path.isfile(os.path.join(f, name))), "")

    def environment(self) -> dict[str, str]:
        """Return the environment of these programs: that of all programs, with the build's own libraries."""
        variables = program_environment()
        if self.prefix:
            variables.pop("LD_LIBRARY_PATH", None)
        if self.library_path:
            variables["LD_LIBRARY_PATH"] = self.library_path
        return variables

    def env_command(self) -> list[str]:
        """Return the words before a command line that set this environment for it alone."""
        if not self.prefix:
            return []
        if not self.library_path:
            return ["env", "-u", "LD_LIBRARY_PATH"]
        # Not for env itself, because the folders may contain another C library.
        return ["env", f"LD_LIBRARY_PATH={self.library_path}"]

    @property
    def places(self) -> list[str]:
        """Return the folders with the libraries of this build; [] for programs on the PATH."""
        if not self.prefix:
            return []
        return [os.path.realpath(p) for p in (self.prefix, *self.library_path.split(":")) if p]

    def digest_of(self, name: str) -> str:
        return self._libraries() if name == "libraries" else digest(self.path(name))

    def path(self, name: str) -> str:
        """Return the path of a program or module of this build, or of a need; "" if it is missing."""
        if name == "httpd":
            return self.httpd
        if name == "mod_dav_svn":
            return self.mod_dav_svn
        return self.find(name) if name in (*SUBVERSION, "svnserve") else path_of(name)

    def _libraries(self) -> str:
        """Return a digest of the Subversion libraries in this build's folders, and for each architecture.

        A search of all subfolders takes longer than all other checks.
        """
        prefix = self.prefix or str(Path(self.find("svn")).resolve().parent.parent)
        folders = [os.path.join(prefix, "lib"), os.path.join(prefix, "lib64")]
        folders += filter(None, self.library_path.split(":"))
        found = (path for f in folders for names in LIBRARIES for path in Path(f).glob(names))
        return joined_digest({str(path) for path in found if not path.is_symlink()})


def _system_modules() -> str:
    return next((d for d in SYSTEM_MODULES if Path(d, "mod_dav_svn.so").exists()), "")


def path_of(need: str) -> str:
    """Return the path of a need of a command, or "" if it is missing.

    A need is a program on the PATH, one that set-up built, or a module of this interpreter (`python3:NAME`;
    the path of its metadata, with the version).
    """
    if need.startswith(MODULE):
        prefix = Path(sys.executable).parent.parent
        found = prefix.glob(f"{MODULES_OF}/{need.removeprefix(MODULE)}-*.dist-info/METADATA")
        return str(next(found, ""))
    built = BUILT / need
    return str(built) if built.exists() else Programs().find(need)


def programs_in(argv: str) -> tuple[str, ...]:
    words = [word for word in WORD.findall(argv) if word in SUBVERSION]
    first = argv.split()[0]
    return tuple(dict.fromkeys([*([] if "{" in first else [first]), *words]))


@cache
def binaries(
    client: Programs, clients: tuple[str, ...], server: Programs, kind: str
) -> Mapping[str, str]:
    of_client = [*clients, *["libraries"] * any(name in SUBVERSION for name in clients)]
    of_server = [kind, *["mod_dav_svn"] * (kind == "httpd"), "libraries"] if kind else []
    return {
        **{f"client {name}": client.digest_of(name) for name in of_client},
        **{f"server {name}": server.digest_of(name) for name in of_server},
    }


def check_unchanged(known: Mapping[str, str], client: Programs, server: Programs) -> None:
    for key, before in known.items():
        side, _, name = key.partition(" ")
        programs = client if side == "client" else server
        if programs.digest_of(name) != before:
            prefix = programs.prefix or "the PATH"
            raise UserError(f"{prefix}: the {key} changed during the run. Run again.")


def joined_digest(paths: Iterable[str]) -> str:
    """Return a digest of the names and contents of files, without their folders; "" without files."""
    lines = sorted(f"{os.path.basename(path)} {digest(path)}" for path in paths)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] if lines else ""


def digest(path: str) -> str:
    """Return a digest of a program, and of the files that a script names; "" if it is missing."""
    named = _named_files(path)
    digests = [_file_digest(name) for name in [path, *named]]
    if not named:
        return digests[0]
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()[:16]


def _named_files(path: str) -> list[str]:
    """Return the absolute paths in a script, because a wrapper runs them; [] for another file."""
    if not os.path.isfile(path):
        return []
    with open(path, "rb") as file:
        interpreter, _, lines = file.read(SCRIPT_BYTES).partition(b"\n")
    # The interpreter in the first line does not belong to the build.
    named = re.findall(rb"/[^\s'\":;]+", lines) if interpreter.startswith(b"#!") else []
    return [os.fsdecode(name) for name in named]


@cache
def linked_digest(programs: Programs, names: tuple[str, ...]) -> str:
    """Return a digest of all libraries that the loader gives to programs, such as libapr and libc.

    Libraries in /usr/local/lib, on a LD_LIBRARY_PATH and in /etc/ld.so.preload are among them.
    """
    libraries: set[str] = set()
    for name in names:
        path = programs.path(name)
        if not os.path.isfile(path) or not os.access(path, os.X_OK):
            continue
        variables = {**programs.environment(), "LD_TRACE_LOADED_OBJECTS": "1"}
        if name == "httpd":
            # httpd loads the module later: its libraries are those of a preloaded one.
            variables["LD_PRELOAD"] = programs.mod_dav_svn
        wrapped = [file for file in _named_files(path) if os.path.basename(file) == name]
        for file in (path, *wrapped):
            # The loader lists the libraries, and does not start the program. A static one prints its version.
            traced = processes.run_program(
                [file, "-v" if name == "httpd" else "--version"],
                env=variables,
                limit_s=TRACE_LIMIT_S,
                may_fail=True,
            )
            libraries.update(LOADED.findall(traced.output))
    return joined_digest(libraries)


@cache
def _file_digest(path: str) -> str:
    if not os.path.isfile(path):
        return ""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def files_digest(folder: Path, names: Sequence[str]) -> str:
    return _content_digest(_list(folder, names))


def server_files(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    return {**dict(_list(folder.parent / DEFAULTS, names)), **dict(_list(folder, names))}


def server_file(folder: Path, name: str) -> Path:
    return server_files(folder, [name]).get(name, folder / name)


def server_files_digest(folder: Path, names: Sequence[str]) -> str:
    return _content_digest([*server_files(folder, names).items()])


def read_arguments(path: Path) -> list[str]:
    """Return the options in a file of a server configuration. A # starts a comment."""
    try:
        return shlex.split(path.read_text(), comments=True)
    except FileNotFoundError:
        raise missing_server_file(path) from None
    except ValueError as error:
        raise UserError(f"{path}: cannot be read as options: {error}. Correct the file.") from None


def missing_server_file(path: Path) -> UserError:
    """Return the error about a missing file of a server configuration."""
    return UserError(f"{path}: no such file, which the server configuration needs. Add it.")


def _list(folder: Path, names: Sequence[str]) -> list[tuple[str, Path]]:
    paths: list[Path] = []
    for name in names:
        path = folder / name
        if os.path.lexists(path) and not path.is_file() and not path.is_dir():
            raise UserError(f"{path}: this is not a regular file. Replace it, or remove it.")
        paths += path.rglob("*") if path.is_dir() else [path]
    return [(str(path.relative_to(folder)), path) for path in paths if path.is_file()]


def _content_digest(files: Sequence[tuple[str, Path]]) -> str:
    total = hashlib.sha256()
    for name, path in sorted(files):
        content = read_bytes(path, CONFIGURATION_BYTES)
        try:
            is_text = "\0" not in content.decode()
        except UnicodeDecodeError:
            is_text = False
        if not is_text:
            raise UserError(f"{path}: the file is not text in UTF-8. Save it as UTF-8.")
        total.update(f"{name}\0".encode() + content + b"\0")
    return total.hexdigest()[:16]
