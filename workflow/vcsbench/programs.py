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

# The folders of programs below the prefix of a build.
PROGRAM_FOLDERS = ("bin", "sbin")
# The places of the system's httpd and of its modules.
HTTPD = ("/usr/sbin/apache2", "/usr/sbin/httpd", "/usr/local/sbin/httpd")
SYSTEM_MODULES = (
    "/usr/lib/apache2/modules",
    "/usr/lib64/httpd/modules",
    "/usr/local/libexec/apache24",
)
# The folders of httpd's modules below the prefix of a build.
MODULE_FOLDERS = (
    "libexec",
    "modules",
    "libexec/apache2",
    "libexec/apache24",
    "lib/apache2/modules",
    "lib/httpd/modules",
    "lib64/httpd/modules",
)
# Subversion's libraries in a folder, or in one of an architecture.
LIBRARIES = ("libsvn_*.so*", "*-linux-*/libsvn_*.so*")
# A word in braces in a command, which stands for a program or a value of the cell.
WORD = re.compile(r"\{(\w+)\}")
# The programs of servers that have the libraries of Subversion.
SUBVERSION_SERVER_PROGRAMS = ("svnserve", "mod_dav_svn")
SUBVERSION_PROGRAMS = ("svn", "svnadmin", "svnbench", "svnlook", "svnmucc", "svnrdump", "svnsync")
# The programs of clients that a build may have. All others, such as tar, are on the PATH.
BUILD_PROGRAMS = (*SUBVERSION_PROGRAMS, "git")
BUILT = Path(__file__).parents[2] / ".tools" / "lib"
# Set-up unpacks OpenSSH's server here: Debian's package would start one on port 22.
UNPACKED_SSHD = BUILT.parent / "sshd"
# With this library, sshd reads its users from a file of the run.
NSS_WRAPPER = "libnss_wrapper.so"
# The modules of an interpreter, and the start of a need that is a module: `python3:breezy`.
MODULES_OF = "lib/python3*/*-packages"
MODULE = "python3:"
# The start of the name of one of httpd's modules, such as mod_dav_svn.
HTTPD_MODULE = "mod_"
SCRIPT_BYTES = 1 << 16
TRACE_LIMIT_S = 60.0
# A line of the loader: a library, and its address in memory.
LOADED_LIBRARY = re.compile(r"(/.*) \(0x[0-9a-f]+\)$", re.MULTILINE)
CONFIGURATION_BYTES = 1 << 20
# The name of this Python in digests. A command may run another program that is named `python`.
INTERPRETER = "interpreter"
# What the command `hg debuginstall` prints: the folder of Mercurial's modules. A file in it has the version.
MERCURIAL_MODULES = "{hgmodules}"
MERCURIAL_VERSION = "__version__.py"
# The files of a folder with modules of Python that have code. Bytecode is made from these.
CODE_SUFFIXES = (".py", ".so")
# The server configuration with the files that another one lacks.
DEFAULT_SERVER = "default"


# The import of dataclasses would take milliseconds of each cell-round.
class _Places(NamedTuple):
    prefix: str = ""
    library_path: str = ""


class Programs(_Places):
    """The programs of one side of a build (client or server).

    They are below `prefix`, such as "/opt/svn", or on the PATH if it is "". `library_path` is their
    LD_LIBRARY_PATH, such as "/opt/svn/lib:/opt/apr/lib"; "" for none.
    """

    def find(self, name: str) -> str:
        """Return the path of a program; "" if it is missing."""
        if not self.prefix:
            path = shutil.which(name)
            return os.path.abspath(path) if path else ""
        for folder in PROGRAM_FOLDERS:
            path = os.path.join(self.prefix, folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
        return ""

    def get(self, name: str) -> str:
        """Return the path of a program. Raise UserError if it is missing."""
        path = self.find(name)
        if path:
            return path
        if self.prefix:
            files = " and ".join(f"{folder}/{name}" for folder in PROGRAM_FOLDERS)
            raise UserError(f"{self.prefix}: {files} are missing. Install {name}.")
        raise UserError(f"{name}: not on the PATH. `make report` installs it.")

    @cached_property
    def httpd(self) -> str:
        """The path of the httpd that serves repositories of Subversion; "" if it is missing."""
        # A build without mod_dav_svn has an error of its own (build_axis).
        if not self.prefix and not self.mod_dav_svn:
            return ""
        return self.any_httpd

    @cached_property
    def any_httpd(self) -> str:
        """The path of an httpd, with or without mod_dav_svn; "" if it is missing.

        The httpd of the system can load the module of a prefix without an httpd.
        """
        if self.prefix:
            # Debian names the program apache2.
            program = self.find("apache2") or self.find("httpd")
            if program:
                return program
        for path in HTTPD:
            if os.access(path, os.X_OK):
                return path
        return ""

    @cached_property
    def httpd_modules(self) -> str:
        """The folder with the modules of any_httpd; "" if it is missing."""
        has_own_httpd = self.prefix and self.any_httpd.startswith(self.prefix + "/")
        if has_own_httpd:
            return self._find_folder_with("mod_dav.so")
        # An httpd for git needs mod_cgi, and not Subversion's module.
        return _find_system_modules() or _find_system_modules("mod_cgi.so")

    @cached_property
    def mod_dav_svn(self) -> str:
        """The path of Subversion's module for httpd; "" if it is missing."""
        name = "mod_dav_svn.so"
        # A build of Subversion without an httpd is a module for the httpd of the system.
        folder = self._find_folder_with(name) if self.prefix else _find_system_modules()
        return os.path.join(folder, name) if folder else ""

    def find_git(self, name: str) -> str:
        """Return the path of git, or of a program such as git-daemon, outside of `bin`; "" if missing."""
        git = self.find("git")
        if not git or name == "git":
            return git
        path = os.path.join(find_git_folder(self), name)
        return path if os.access(path, os.X_OK) else ""

    def find_module(self, name: str) -> str:
        """Return the path of a module of httpd, such as "ssl"; "" if it is missing, or part of httpd."""
        # Subversion's modules, such as authz_svn, may be in another folder than httpd's own.
        is_of_subversion = name.endswith("_svn")
        folder = os.path.dirname(self.mod_dav_svn) if is_of_subversion else self.httpd_modules
        path = f"{folder}/mod_{name}.so"
        return path if os.path.exists(path) else ""

    def _find_folder_with(self, name: str) -> str:
        """Return the folder of modules below the prefix that has a module; "" without one."""
        for subfolder in MODULE_FOLDERS:
            folder = os.path.join(self.prefix, subfolder)
            if os.path.isfile(os.path.join(folder, name)):
                return folder
        return ""

    def environment(self) -> dict[str, str]:
        """Return the environment of these programs: program_environment() with the build's own libraries."""
        variables = program_environment()
        # The user's LD_LIBRARY_PATH is for programs on the PATH.
        if self.prefix:
            variables.pop("LD_LIBRARY_PATH", None)
        if self.library_path:
            variables["LD_LIBRARY_PATH"] = self.library_path
        return variables | self._git_path()

    def _git_path(self) -> dict[str, str]:
        """Return the PATH of a build with a git of its own: {"PATH": "/opt/git/bin:/usr/bin"}; {} without.

        git-daemon and git-http-backend start `git` by the PATH.
        """
        git = self.find("git") if self.prefix else ""
        if not git:
            return {}
        return {"PATH": f"{os.path.dirname(git)}:{program_environment().get('PATH', os.defpath)}"}

    def env_command(self) -> list[str]:
        """Return the words before a command line that set its variables as environment() does."""
        if not self.prefix:
            return []
        words = ["env"]
        if self.library_path:
            # env starts without the variable, because the folders may contain another C library.
            words.append(f"LD_LIBRARY_PATH={self.library_path}")
        else:
            words += ["-u", "LD_LIBRARY_PATH"]
        words += [f"{name}={value}" for name, value in self._git_path().items()]
        return words

    @property
    def places(self) -> list[str]:
        """The folders with the libraries of this build; [] for programs on the PATH."""
        if not self.prefix:
            return []
        folders = [self.prefix, *self.library_path.split(":")]
        return [os.path.realpath(folder) for folder in folders if folder]

    def digest_of(self, name: str) -> str:
        """Return the digest of a program or module, or of Subversion's libraries (the name "libraries")."""
        if name == "libraries":
            return self._digest_libraries()
        path = self.path(name)
        if path and name.startswith(MODULE):
            # The path of a module of Python is that of its metadata, which have the version only.
            modules = Path(path).parent.parent / name.removeprefix(MODULE)
            digests = f"{digest(path)} {_digest_modules(modules)}"
            return hashlib.sha256(digests.encode()).hexdigest()[:16]
        if os.path.isdir(path):
            # The modules of Mercurial.
            return _digest_modules(Path(path))
        return digest(path)

    def path(self, name: str) -> str:
        """Return the path of something that a cell runs, such as "svn" or "mod_ssl"; "" if it is missing.

        Programs of Subversion and git, httpd and its modules are those of this build. All others, such as
        sshd, are the same for all builds.
        """
        # A folder of modules is named by its path (_with_modules).
        if os.path.isabs(name):
            return name
        # 1. Programs and modules of this build.
        if name in SUBVERSION_PROGRAMS or name == "svnserve":
            return self.find(name)
        if name == "httpd":
            # One without mod_dav_svn can serve repositories of git.
            return self.any_httpd
        if name == "mod_dav_svn":
            return self.mod_dav_svn
        if name.startswith(HTTPD_MODULE):
            return self.find_module(name.removeprefix(HTTPD_MODULE))
        if name == "git" or name.startswith("git-"):
            # A build of Subversion has no git, and uses that on the PATH.
            has_git = bool(self.find("git"))
            programs = self if has_git else Programs()
            return programs.find_git(name)
        # 2. Programs that do not depend on the build.
        if name == INTERPRETER:
            return sys.executable
        if name == "sshd":
            return find_sshd()
        return path_of(name)

    def _digest_libraries(self) -> str:
        """Return a digest of the Subversion libraries of this build, such as libsvn_fs-1.so; "" without any.

        Only usual folders are searched: to search all would take longer than all other checks.
        """
        # Programs on the PATH have no prefix, so the path of svn gives it: /usr for /usr/bin/svn.
        prefix = self.prefix or str(Path(self.find("svn")).resolve().parent.parent)
        folders = [os.path.join(prefix, "lib"), os.path.join(prefix, "lib64")]
        folders += [folder for folder in self.library_path.split(":") if folder]
        libraries = set()
        for folder in folders:
            for pattern in LIBRARIES:
                for path in Path(folder).glob(pattern):
                    # A library has several names, and all but one are links.
                    if not path.is_symlink():
                        libraries.add(str(path))
        return joined_digest(libraries)


def _find_system_modules(name: str = "mod_dav_svn.so") -> str:
    """Return the folder of the system's httpd modules that has a module; "" without one."""
    for folder in SYSTEM_MODULES:
        if os.path.exists(os.path.join(folder, name)):
            return folder
    return ""


def find_sshd() -> str:
    """Return the path of OpenSSH's server: an installed one, or the unpacked one; "" without both."""
    unpacked = str(UNPACKED_SSHD / "usr" / "sbin" / "sshd")
    return shutil.which("sshd") or shutil.which(unpacked) or ""


def is_unpacked_sshd() -> bool:
    """Return True if find_sshd() is the unpacked one, and not an installed one."""
    return find_sshd().startswith(f"{UNPACKED_SSHD}/")


def sshd_library_path(unpacked: Path = UNPACKED_SSHD) -> str:
    """Return the LD_LIBRARY_PATH of the sshd in a folder."""
    folders = [*unpacked.glob("usr/lib/*-linux-*"), *unpacked.glob("lib/*-linux-*")]
    return ":".join(map(str, folders))


def find_nss_wrapper() -> str:
    """Return the path of the library NSS_WRAPPER; "" if it is missing."""
    # conda has it next to its sshd, a distribution in its own folders of libraries.
    prefixes = [Path(find_sshd()).parent.parent, UNPACKED_SSHD / "usr", Path("/usr")]
    for prefix in prefixes:
        for folder in ("lib", "lib64", "lib/*-linux-*"):
            for path in prefix.glob(f"{folder}/{NSS_WRAPPER}"):
                return str(path)
    return ""


def why_no_ssh_folder(folder: str | Path) -> str:
    """Return why the configuration of OpenSSH cannot name files in a folder, in a clause; "" if it can."""
    # OpenSSH expands %, $ and ~ in some values only. sshd reads its users from a file, in which a colon ends
    # the path of a home.
    if re.fullmatch(r"[A-Za-z0-9._/+=@,-]+", str(folder)):
        return ""
    return (
        f"the settings of ssh cannot name the temporary folder {folder}; name another one in TMPDIR"
    )


@cache
def find_git_folder(programs: Programs) -> str:
    """Return the folder in which a git looks for its own programs; "" if it does not run."""
    argv = [programs.get("git"), "--exec-path"]
    done = processes.run_program(argv, env=programs.environment(), may_fail=True)
    return "" if done.code else done.output.strip()


def path_of(need: str) -> str:
    """Return the path of something that a command needs; "" if it is missing.

    A need is the name of a program on the PATH, or of a file that set-up has built. "python3:breezy" is the
    module breezy of this interpreter. The path of a module is that of its metadata, and names the version.
    """
    if need.startswith(MODULE):
        name = need.removeprefix(MODULE)
        prefix = Path(sys.executable).parent.parent
        for path in prefix.glob(f"{MODULES_OF}/{name}-*.dist-info/METADATA"):
            return str(path)
        return ""
    built = BUILT / need
    return str(built) if built.exists() else Programs().find(need)


def programs_in(argv: str) -> tuple[str, ...]:
    """Return the programs that the template of a command runs: ("tar", "svn") of "tar c {svn}"."""
    programs = []
    # The first word is the program, unless it has braces, such as {svn}.
    first = argv.split()[0]
    if "{" not in first:
        programs.append(first)
    for word in WORD.findall(argv):
        if word in BUILD_PROGRAMS and word not in programs:
            programs.append(word)
    return tuple(programs)


@cache
def binaries(
    client: Programs, client_names: tuple[str, ...], server: Programs, server_names: tuple[str, ...]
) -> Mapping[str, str]:
    """Return the digests of the programs of a cell, and of Subversion's libraries if it uses them.

    `client` and `server` are where the programs of each side are. `client_names` are what the client runs,
    such as ("tar", "svn"), and `server_names` what the server runs, such as ("httpd", "mod_dav_svn").
    Example: {"client svn": "0123...", "client libraries": "4567...", "server svnserve": "89ab..."}.
    """
    digests = {}
    for side, programs, names, users_of_libraries in (
        ("client", client, client_names, SUBVERSION_PROGRAMS),
        ("server", server, server_names, SUBVERSION_SERVER_PROGRAMS),
    ):
        # For `hg`, this adds the folder of Mercurial's modules, whose name is its path.
        for name in _with_modules(names):
            digests[f"{side} {name}"] = programs.digest_of(name)
        if any(name in users_of_libraries for name in names):
            digests[f"{side} libraries"] = programs.digest_of("libraries")
    return digests


def _with_modules(names: Sequence[str]) -> list[str]:
    """Return the names of programs, with the path of the folder of Mercurial's modules if `hg` is one.

    The program hg is a short script, which is the same in all versions.
    """
    all_names = list(names)
    folder = find_mercurial_modules(path_of("hg")) if "hg" in names else ""
    if folder:
        all_names.append(folder)
    return all_names


@cache
def find_mercurial_modules(hg: str) -> str:
    """Return the folder of Mercurial's modules, by the path of its program; "" if there is none.

    The plan calls this. Each measurement gets the path from the plan, because Mercurial takes 0.3 s to start.
    """
    if not hg:
        return ""
    command = [hg, "debuginstall", "-T", MERCURIAL_MODULES]
    # The command fails for settings that have no effect here, such as a missing editor.
    done = processes.run_program(command, limit_s=TRACE_LIMIT_S, may_fail=True)
    folder = done.output.strip()
    # A Mercurial in one file has no folder of modules.
    has_modules = os.path.isabs(folder) and os.path.isfile(f"{folder}/{MERCURIAL_VERSION}")
    return folder if has_modules else ""


def _digest_modules(folder: Path) -> str:
    """Return a digest of the names and contents of the files with code below a folder; "" without any.

    A security update may change a module and leave the version. Mercurial and Breezy have some hundred files
    each, which are read in about 0.1 s.
    """
    lines = []
    for path in folder.rglob("*"):
        if path.suffix in CODE_SUFFIXES:
            lines.append(f"{path.relative_to(folder)} {_digest_file(str(path))}")
    if not lines:
        return ""
    text = "\n".join(sorted(lines))
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def check_unchanged(expected: Mapping[str, str], client: Programs, server: Programs) -> None:
    """Raise UserError if a program has another digest than `expected`: {"client svn": "0123..."}."""
    for key, digest_before in expected.items():
        side, _, name = key.partition(" ")
        programs = client if side == "client" else server
        if programs.digest_of(name) != digest_before:
            prefix = programs.prefix or "the PATH"
            raise UserError(f"{prefix}: the {key} changed during the run. Run again.")


def joined_digest(paths: Iterable[str]) -> str:
    """Return a digest of the names and contents of files, without their folders; "" without files."""
    lines = sorted(f"{os.path.basename(path)} {digest(path)}" for path in paths)
    if not lines:
        return ""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def digest(path: str) -> str:
    """Return a digest of a program; "" if it is missing.

    A script may be a wrapper of the real program, so its digest covers the files that it names, too.
    """
    named_files = _find_named_files(path)
    if not named_files:
        return _digest_file(path)
    digests = [_digest_file(file) for file in (path, *named_files)]
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()[:16]


def _find_named_files(path: str) -> list[str]:
    """Return the absolute paths in a script, such as that of a program that it runs; [] for another file."""
    if not os.path.isfile(path):
        return []
    with open(path, "rb") as file:
        # The interpreter in the first line does not belong to the build.
        interpreter, _, lines = file.read(SCRIPT_BYTES).partition(b"\n")
    if not interpreter.startswith(b"#!"):
        return []
    return [os.fsdecode(name) for name in re.findall(rb"/[^\s'\":;]+", lines)]


@cache
def linked_digest(programs: Programs, names: tuple[str, ...]) -> str:
    """Return a digest of all libraries that the loader would load for programs, such as libapr and libc.

    Libraries in /usr/local/lib, on an LD_LIBRARY_PATH and in /etc/ld.so.preload count, too. `names` may have
    modules of httpd: ("httpd", "mod_ssl"). Return "" if no library is found.
    """
    # Modules cannot run by themselves, so their libraries are found together with httpd's. The call for any
    # other program does not use them.
    module_names = [name for name in names if name.startswith(HTTPD_MODULE)]
    module_paths = [programs.path(name) for name in module_names]
    # A module that is a part of httpd has no path.
    modules = [path for path in module_paths if path]
    libraries: set[str] = set()
    for name in names:
        path = programs.path(name)
        is_program = name not in module_names and os.path.isfile(path) and os.access(path, os.X_OK)
        if is_program:
            libraries |= _list_loaded_libraries(programs, name, path, modules)
    return joined_digest(libraries)


def _list_loaded_libraries(
    programs: Programs, name: str, path: str, modules: Sequence[str]
) -> set[str]:
    """Return the libraries that the loader would load for a program, by its name and path.

    `modules` are the paths of the modules that httpd loads. If the file is a wrapper (a script), the
    libraries of the program that it runs are in the result, too.
    """
    # With this variable, the loader lists the libraries, and does not start the program.
    variables = {**programs.environment(), "LD_TRACE_LOADED_OBJECTS": "1"}
    # A static program does not use the loader, so it really runs, and prints its version.
    version_option = "--version"
    if name == "httpd":
        version_option = "-v"
        # httpd loads its modules after its start. The loader lists their libraries only if it preloads them.
        variables["LD_PRELOAD"] = ":".join(modules)
    # A wrapper names the program that it runs by its path.
    wrapped = [file for file in _find_named_files(path) if os.path.basename(file) == name]
    libraries: set[str] = set()
    for file in (path, *wrapped):
        traced = processes.run_program(
            [file, version_option], env=variables, limit_s=TRACE_LIMIT_S, may_fail=True
        )
        libraries.update(LOADED_LIBRARY.findall(traced.output))
    return libraries


@cache
def _digest_file(path: str) -> str:
    if not os.path.isfile(path):
        return ""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def files_digest(folder: Path, names: Sequence[str]) -> str:
    """Return the digest of files, and of all files in folders, by their `names` in a folder."""
    return _digest_contents(_list_files(folder, names))


def server_files(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    """Return the files of a server configuration, by their path in its folder.

    A file that the configuration lacks is that of DEFAULT_SERVER: {"svnserve.args":
    config/servers/fast/svnserve.args, "client/config": config/servers/default/client/config}.
    """
    files = _list_files(folder.parent / DEFAULT_SERVER, names)
    files.update(_list_files(folder, names))
    return files


def server_file(folder: Path, name: str) -> Path:
    """Return a file of a server configuration, which may be missing."""
    return server_files(folder, [name]).get(name, folder / name)


def server_files_digest(folder: Path, names: Sequence[str]) -> str:
    return _digest_contents(server_files(folder, names))


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


def _list_files(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    """Return files in `folder`, by their path relative to it. A missing file or folder is left out.

    The name of a subfolder stands for all files below it. Raise UserError for a link to nothing, or a device.
    """
    files = {}
    for name in names:
        path = folder / name
        is_file_or_folder = path.is_file() or path.is_dir()
        # A link to nothing, or to a device such as /dev/zero, must not count as missing.
        if os.path.lexists(path) and not is_file_or_folder:
            raise UserError(f"{path}: this is not a regular file. Replace it, or remove it.")
        paths = path.rglob("*") if path.is_dir() else [path]
        for file in paths:
            if file.is_file():
                files[str(file.relative_to(folder))] = file
    return files


def _digest_contents(files: Mapping[str, Path]) -> str:
    """Return the digest of the names and contents of files. Raise UserError for a file that is not text."""
    total = hashlib.sha256()
    for name, path in sorted(files.items()):
        content = read_bytes(path, CONFIGURATION_BYTES)
        try:
            is_text = "\0" not in content.decode()
        except UnicodeDecodeError:
            is_text = False
        if not is_text:
            raise UserError(f"{path}: the file is not text in UTF-8. Save it as UTF-8.")
        total.update(name.encode() + b"\0" + content + b"\0")
    return total.hexdigest()[:16]
