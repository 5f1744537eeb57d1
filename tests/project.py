"""Copies of the workflow for the tests that run it."""

import contextlib
import csv
import fcntl
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from vcsbench import process_facts
from vcsbench.errors import UserError
from vcsbench.evidence.flags import is_invalid
from vcsbench.storages import file_trees, filesystems

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "config"
DEFAULT = CONFIG / "config.yaml"
STUDY = "fsfs-san-2014"
AS_USER = ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", "--"]
NOBODY = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "--"]
# A right of root that containers lack.
WITHOUT_PTRACE = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-all", "--"]
# Modes count for root, too.
WITHOUT_CAPABILITIES = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"]
WITHOUT_CAPABILITIES = WITHOUT_CAPABILITIES if os.geteuid() == 0 else []
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes root")
# A part of its grid with one cell per access.
HOT = {"command": "log", "format": "f7", "packing": "nopack", "config": "slow", "cache": "hot-os"}
PARTS = ("Snakefile", "config", "envs", "profiles", "vcsbench", "workflow")
# Folders of tests, and the places in which tests make them.
PREFIX = "vcsbench-test-"
# It only ends a test that hangs. A busy machine is slower by a factor of 30.
HANGING_S = 600
# The same for a run of the workflow, or of other tests.
RUN_LIMIT_S = 3600
PLACES = ("/var/tmp", "/tmp", "/run", "/var/lib", "/mnt", "/dev/shm")


def ruby(scale: float, name: str = "ruby", profile: str = "ruby") -> dict[str, Any]:
    """Return the key `repositories` with a generated history."""
    return {name: {"source": "generated", "profile": profile, "scale": scale, "seed": 1}}


def opened(start: Sequence[str]) -> list[str]:
    """Return words that start a program as `start` does, where every user can enter the Python of the tests.

    A checkout may lie in a folder that only its owner enters, such as root's home. In mounts of its own, the
    program sees an open folder in the place of each closed one, with nothing in it but Python, the tools, the
    package and the configuration.
    """
    parts = (".tools", "workflow", "config")
    places = {sys.prefix, sys.base_prefix, *(str(ROOT / part) for part in parts)}
    places |= {os.path.realpath(place) for place in places}
    closed = {place: closed_above(Path(place)) for place in places if os.path.exists(place)}
    closed = {place: top for place, top in closed.items() if top}
    if not closed:
        return [*start]
    lines = ["set -e", "mount -t tmpfs -o mode=755 tmpfs /mnt"]
    for number, place in enumerate(closed):
        real = shlex.quote(os.path.realpath(place))
        lines.append(f"mkdir /mnt/{number}; mount --bind {real} /mnt/{number}")
    for top in set(closed.values()):
        lines.append(f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(str(top))}")
    for number, place in enumerate(closed):
        quoted = shlex.quote(place)
        lines.append(f"mkdir -p {quoted}; mount --bind /mnt/{number} {quoted}")
    return ["unshare", "--mount", "sh", "-c", "\n".join([*lines, 'exec "$@"']), "sh", *start]


def closed_above(path: Path) -> Path | None:
    """Return the highest folder above a path that only its owner can enter, or None."""
    for folder in reversed(path.parents):
        if not folder.stat().st_mode & 0o001:
            return folder
    return None


def path_of_tool() -> str:
    """Return a PATH on which `vcsbench` finds the Python of the tests."""
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def run_merged(
    command: Sequence[str | Path], folder: Path, timeout: float, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder. `stdout` has both streams."""
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )


class Project:
    """A copy of the workflow, with its own configuration, that the user of the servers can enter."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for part in PARTS:
            source = ROOT / part
            copy: Callable[..., Any] = shutil.copytree if source.is_dir() else shutil.copy2
            copy(source, path / part)
        for folder in ("storage", "scratch"):
            (path / folder).mkdir()
        self.config = path / "test.yaml"

    def configure(self, *parts: dict[str, Any], study: str = STUDY, **keys: Any) -> None:
        """Write a configuration with these parts as the grid of a study.

        Without other keys, it has one small repository, one copy, one round, one run, no duplicates.
        """
        base: dict[str, Any] = {
            "studies": [study],
            "repositories": ruby(0.0005),
            "storages": {"disk": str(self.path / "storage")},
            "scratch": str(self.path / "scratch"),
            "duplicates": 0,
            **dict.fromkeys(("rounds", "runs", "copies"), 1),
        }
        if parts:
            base["grid"] = {study: {"include": list(parts)}}
        self.config.write_text(yaml.safe_dump({**base, **keys}, sort_keys=False))

    def command(self, *arguments: str) -> list[str]:
        start = (sys.executable, "-m", "snakemake", "--cores", "2")
        return [*start, *arguments, "--configfile", str(self.config)]

    def snakemake(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run Snakemake. `stdout` has both streams."""
        return run_merged(self.command(*arguments), self.path, RUN_LIMIT_S, **environment)

    def succeed(self, *arguments: str, **environment: str) -> str:
        """Run Snakemake, which must succeed. Return the output."""
        done = self.snakemake(*arguments, **environment)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def fail(self, *arguments: str, **environment: str) -> str:
        """Run Snakemake, which must fail without a traceback. Return the output."""
        done = self.snakemake(*arguments, **environment)
        assert done.returncode != 0 and "Traceback" not in done.stdout, done.stdout
        return done.stdout

    def prepare(self) -> None:
        """Load the repositories and make their copies."""
        self.succeed("results/repositories/disk.json")

    def tool(self, *arguments: str, code: int = 0) -> str:
        """Run the command-line tool, which must end with a code, without a traceback. Return the output."""
        command = ["./vcsbench", *arguments, "--configfile", str(self.config)]
        done = run_merged(command, self.path, RUN_LIMIT_S, PATH=path_of_tool())
        assert done.returncode == code and "Traceback" not in done.stdout, done.stdout
        return done.stdout

    def exports(self) -> dict[str, int]:
        """Return the time of writing of each export, without fixed-cost cells."""
        cells = self.path / "results" / "cells"
        return {
            str(path.relative_to(cells)): path.stat().st_mtime_ns
            for path in cells.rglob("round*.json")
            if not path.name.endswith(".context.json") and "/empty/" not in str(path)
        }

    def measured_since(self, before: dict[str, int]) -> set[str]:
        """Return the exports that are newer than an earlier answer of `exports`. All of these remain."""
        after = self.exports()
        assert before.keys() <= after.keys()
        return {path for path, at in after.items() if before.get(path) != at}

    def rows(self, path: str) -> list[dict[str, str]]:
        with (self.path / "results" / path).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def json(self, path: str) -> Any:
        return json.loads((self.path / "results" / path).read_text())

    def context(self, study: str, cell: str, number: int = 1) -> dict[str, Any]:
        found: dict[str, Any] = self.json(f"cells/{study}/{cell}/round{number}.context.json")
        return found

    def contexts(self) -> dict[str, dict[str, Any]]:
        """Return the context of each export, without fixed-cost cells."""
        paths = {export: f"cells/{export.removesuffix('.json')}" for export in self.exports()}
        return {export: self.json(f"{path}.context.json") for export, path in paths.items()}

    def log(self, study: str, cell: str) -> str:
        return (self.path / "results/logs/cells" / study / cell / "round1.log").read_text()

    def is_complete(self, *targets: str) -> bool:
        """Return True if Snakemake would run nothing for the targets."""
        return "Nothing to be done" in self.succeed(*targets)

    def page(self, study: str) -> str:
        return (self.path / "reports" / f"{study}.html").read_text()


class Run(subprocess.Popen[str]):
    """A run of `vcsbench run`, or of Snakemake (`plain`), in a session of its own."""

    def __init__(
        self, project: Project, *targets: str, environment: dict[str, str], plain: bool = False
    ) -> None:
        self.project, self.log = project, project.path / "output.txt"
        command = project.command(*targets)
        if not plain:
            command[:3] = [str(project.path / "vcsbench"), "run"]
        with self.log.open("w") as log:
            super().__init__(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=project.path,
                env=environment,
                start_new_session=True,
                text=True,
            )

    def output(self) -> str:
        return self.log.read_text(errors="replace")


def invalid_flags(runs: Iterable[dict[str, str]]) -> list[str]:
    """Return the flags of invalid runs, without `clock`, which short runs get on a busy machine."""
    flags = [" ".join(set(run["flags"].split()) - {"clock"}) for run in runs]
    return [words for words in flags if is_invalid(words)]


def measurements_of(study: str) -> str:
    """Return the target that measures all cells of a study, without tables and reports."""
    return f"results/measurements/{study}.csv"


def wait_for(condition: Callable[[], Any], limit_s: float = HANGING_S) -> Any:
    """Wait until a condition holds, and return its value."""
    deadline = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"nothing happened for {limit_s} s"
        time.sleep(0.02)
    return found


def write_program(path: Path, text: str) -> Path:
    """Write a script that all users can run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def make_socket(path: Path) -> None:
    before = os.getcwd()
    os.chdir(path.parent)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path.name)
    os.chdir(before)


# Makers of things that no program expects in the place of a file.
ODD_FILES: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "socket": make_socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path.name),
    "folder": Path.mkdir,
}


def run_python(
    program: str, *arguments: str | Path, start: Sequence[str] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program that imports vcsbench in a new Python process, which the words `start` begin."""
    return subprocess.run(
        [*start, sys.executable, "-c", program, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow"), **environment},
        capture_output=True,
        text=True,
    )


def start_python(
    program: str, *arguments: str | Path, start: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """Start a program as `run_python` runs it, with pipes."""
    argv, pipe = [*start, sys.executable, "-c", program, *map(str, arguments)], subprocess.PIPE
    env = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    return subprocess.Popen(argv, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def slow(*values: Any) -> Any:
    """Return the values of a case that `make test` leaves out."""
    return pytest.param(*values, marks=pytest.mark.slow)


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skip a test if one of the programs is missing."""
    missing = [program for program in programs if not shutil.which(program)]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def fill(folder: Path, left: int) -> Path:
    """Fill the disk of a folder except for `left` bytes. Return the file that fills it."""
    hog = folder / "mine"
    with hog.open("wb") as file:
        for _ in range(10):
            disk = os.statvfs(folder)
            # A run at work may take the space in between.
            with contextlib.suppress(OSError):
                os.posix_fallocate(file.fileno(), 0, disk.f_bavail * disk.f_frsize - left)
                return hog
    raise AssertionError(f"{folder} cannot be filled")


@contextmanager
def mounted(path: Path, options: str = "mode=755") -> Iterator[Path]:
    """Mount a tmpfs on a folder, which is made if it is missing."""
    path.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True)


@contextmanager
def mounted_ext4(image: Path, path: Path, mib: int, *options: str) -> Iterator[Path]:
    """Mount an ext4 of its own, made in a file. Skip the test where that is impossible."""
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        pytest.skip("takes root and mkfs.ext4 to make a file system")
    with image.open("wb") as file:
        file.truncate(mib << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", *options, image], check=True)
    path.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-o", "loop", image, path], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no loop device can be mounted here: {done.stderr}")
    yield path
    subprocess.run(["umount", path], check=True)


def make_project() -> Iterator[Project]:
    """Make a project below /var/tmp, which is no tmpfs. The user of the servers can enter it."""
    with open_folder("/var/tmp") as path:
        yield Project(path)


@contextmanager
def open_folder(above: str) -> Iterator[Path]:
    """Make a folder that the user of the servers can enter, other than the folders of pytest.

    It is locked: remove_leftovers() keeps it.
    """
    path, lock = _make_locked(above)
    try:
        yield path
    finally:
        shutil.rmtree(path)
        os.close(lock)


def make_served(folder: Path) -> Path:
    """Make the folders `run` and `root` of a server, with the empty repository `one`. Return `folder`."""
    (folder / "run").mkdir(mode=0o700)
    (folder / "root").mkdir()
    subprocess.run(["svnadmin", "create", folder / "root" / "one"], check=True)
    return folder


def _make_locked(above: str) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=above))
        # A test run that begins now may remove it before it is locked.
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            path.chmod(0o755)
            return path, lock


def remove_leftovers(above: str) -> None:
    """Remove this user's folders of open_folder() that killed tests left, and unmount what is in them.

    A folder stays if it is locked, if a process works in it, or if a mount in it is busy.
    """
    refusals = contextlib.suppress(OSError, UserError, subprocess.CalledProcessError)
    for path in Path(above).glob(f"{PREFIX}*"):
        with refusals, file_trees.open_folder(path) as folder:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(folder).st_uid != os.geteuid() or _is_used(path):
                continue
            # The last mount is the first to go.
            for mount in reversed(filesystems.mounts()):
                if Path(mount.point).is_relative_to(path):
                    subprocess.run(["umount", mount.point], check=True, capture_output=True)
            file_trees.remove_path(path)


def _is_used(path: Path) -> bool:
    """Return True if a process works in a folder, or has it in its command line."""
    for pid in process_facts.all_pids():
        with contextlib.suppress(OSError):
            words = [os.readlink(f"/proc/{pid}/cwd"), *process_facts.command_line(pid)]
            if any(str(path) in word for word in words):
                return True
    return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def serve_with_password(repository: Path, user: str, password: str) -> Iterator[str]:
    """Serve a folder by svnserve, and `repository` in it to one user. Yield the address of the folder."""
    (repository / "conf/svnserve.conf").write_text(
        "[general]\nanon-access = none\npassword-db = passwd\n"
    )
    (repository / "conf/passwd").write_text(f"[users]\n{user} = {password}\n")
    port = free_port()
    argv = ["svnserve", "-d", "--foreground", "-T", "-r", str(repository.parent)]
    argv += ["--listen-host", "127.0.0.1", "--listen-port", str(port)]
    with subprocess.Popen(argv) as server:
        try:
            wait_for(lambda: is_listening(port))
            yield f"127.0.0.1:{port}"
        finally:
            server.terminate()


def servers_of(project: Project) -> list[str]:
    """Return the command lines of running servers that serve from the storage of a project."""
    programs, path = ("svnserve", "apache2", "httpd"), str(project.path)
    lines = [words for words in map(process_facts.command_line, process_facts.all_pids()) if words]
    return [" ".join(w) for w in lines if w[0].endswith(programs) and path in " ".join(w)]
