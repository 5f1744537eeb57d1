"""File systems that are made: real ones, of which nothing is left, however the process ends that made them.

Each is made in a process of its own: mounts of its own stay with a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from project import ROOT
from vcsbench.storages.filesystems import MAKEABLE, why_cannot_make

MIB = 1 << 20


def makable(kind: str) -> pytest.MarkDecorator:
    why = why_cannot_make(kind)
    return pytest.mark.skipif(bool(why), reason=why)


KINDS = [pytest.param(kind, marks=makable(kind)) for kind in MAKEABLE]
IMAGES = [pytest.param(kind, marks=makable(kind)) for kind in MAKEABLE if kind != "tmpfs"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder on a disk, as an image's is."""
    with tempfile.TemporaryDirectory(prefix="vcsbench-test-", dir="/var/tmp") as found:
        yield Path(found)


def script(folder: Path, kind: str, body: str) -> list[str]:
    head = (
        "import os, sys, time; from pathlib import Path\n"
        "from vcsbench.storages.filesystems import MadeFilesystem\n"
        f"made = MadeFilesystem({kind!r}, {1024 * MIB}, Path({str(folder)!r})); made.make()\n"
    )
    return [sys.executable, "-c", head + body]


def run(folder: Path, kind: str, body: str) -> str:
    done = subprocess.run(
        script(folder, kind, body),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow")},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def loops(folder: Path) -> list[str]:
    """The loop devices whose image lies, or lay, in a folder."""
    files = Path("/sys/block").glob("loop*/loop/backing_file")
    return [str(file) for file in files if str(folder) in file.read_text()]


@pytest.mark.parametrize("kind", KINDS)
def test_one_is_what_it_is_called_and_nobody_else_sees_it(kind: str, folder: Path) -> None:
    said = run(
        folder,
        kind,
        "from vcsbench.storages.filesystems import mount_of\n"
        "(made.point / 'file').write_text('x')\n"
        "print(mount_of(made.point).filesystem, made.direct_io)\n"
        "print(str(made.point) in Path(f'/proc/{os.getppid()}/mounts').read_text())\n"
        "made.remove(); print(os.listdir(made.folder))\n",
    )
    assert said.split("\n") == [
        f"{kind} {None if kind == 'tmpfs' else True}",
        "False",
        "[]",
    ]
    assert not loops(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_is_made_anew_is_empty_and_as_large(kind: str, folder: Path) -> None:
    said = run(
        folder,
        kind,
        "before = os.statvfs(made.point)\n"
        "(made.point / 'file').write_bytes(bytes(20 << 20)); made.make()\n"
        "after = os.statvfs(made.point)\n"
        "print((made.point / 'file').exists(), before[2:5] == after[2:5])",
    )
    assert said == "False True"


@pytest.mark.parametrize("kind", IMAGES)
def test_its_image_is_allocated_beforehand_and_stays_so(kind: str, folder: Path) -> None:
    said = run(
        folder,
        kind,
        "print(os.stat(made._loop).st_rdev > 0)\n"
        "there = os.statvfs(made.folder)\n"
        "(made.point / 'file').write_bytes(bytes(50 << 20)); os.sync()\n"
        "(made.point / 'file').unlink(); os.sync(); made.make()\n"
        "print(abs(os.statvfs(made.folder).f_bfree - there.f_bfree) * there.f_frsize < 100 << 20)",
    )
    assert said == "True\nTrue"


@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_leaves_nothing_but_an_empty_folder(kind: str, folder: Path) -> None:
    body = "print('there', flush=True); time.sleep(60)"
    with subprocess.Popen(
        script(folder, kind, body),
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow")},
    ) as process:
        assert process.stdout and process.stdout.readline() == "there\n"
        assert bool(loops(folder)) == (kind != "tmpfs")
        process.send_signal(signal.SIGKILL)
    for _ in range(50):  # the kernel takes it apart in its own time
        if not loops(folder):
            break
        subprocess.run(["sleep", "0.1"])
    assert not loops(folder)
    assert str(folder) not in Path("/proc/self/mounts").read_text()
    assert [path.name for path in folder.rglob("*")] == ["mounted"]


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_is_full_fills_nothing_else(kind: str, folder: Path) -> None:
    said = run(
        folder,
        kind,
        "import errno\n"
        "try:\n"
        "    with (made.point / 'file').open('wb') as file:\n"
        "        while True: file.write(bytes(16 << 20)); file.flush(); os.fsync(file.fileno())\n"
        "except OSError as error: print(errno.errorcode[error.errno])\n"
        "(made.folder / 'beside').write_text('x'); (made.folder / 'beside').unlink(); made.remove()",
    )
    assert said == "ENOSPC"


@pytest.mark.parametrize("kind", IMAGES)
def test_a_loop_device_of_somebody_else_stays(kind: str, folder: Path) -> None:
    theirs = folder.with_name(f"{folder.name}-theirs")
    with theirs.open("wb") as file:
        file.truncate(MIB)
    found = subprocess.run(
        ["losetup", "--find", "--show", theirs], capture_output=True, text=True, check=True
    )
    device = found.stdout.strip()
    try:
        run(folder, kind, "made.make(); made.remove()")
        backing = Path("/sys/block", os.path.basename(device), "loop/backing_file")
        assert backing.read_text().strip() == str(theirs)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
        theirs.unlink()


def test_a_storage_without_room_is_one_sentence(folder: Path) -> None:
    if why := why_cannot_make("ext4"):
        pytest.skip(why)
    done = subprocess.run(
        [
            *(sys.executable, "-c"),
            "from pathlib import Path; from vcsbench.storages.filesystems import MadeFilesystem\n"
            f"MadeFilesystem('ext4', 1 << 60, Path({str(folder)!r})).make()",
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow")},
    )
    assert f"{folder}: has no room for a file system of" in done.stderr
    assert not loops(folder)


def test_what_is_not_made_is_said() -> None:
    assert "cannot make one of the kind nfs" in why_cannot_make("nfs")


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to become another user")
def test_who_may_not_mount_is_told() -> None:
    done = subprocess.run(
        [
            *("setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all"),
            *("python3", "-c"),
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "from vcsbench.storages.filesystems import why_cannot_make as why; print(why('tmpfs'))",
            str(ROOT / "workflow"),
        ],
        capture_output=True,
        text=True,
    )
    assert "no right to mount" in done.stdout, done.stderr
