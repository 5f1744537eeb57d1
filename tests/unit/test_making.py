"""File systems that vcsbench makes: real ones that disappear with their process.

Each is made in a new process, because private mounts belong to a process."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from project import needs_root, run_python, wait_for
from vcsbench.storages.cell_filesystem import MAKEABLE, why_cannot_make

MIB = 1 << 20


def makable(kind):
    why = why_cannot_make(kind)
    return pytest.mark.skipif(bool(why), reason=why)


KINDS = [pytest.param(kind, marks=makable(kind)) for kind in MAKEABLE]
IMAGES = [pytest.param(kind, marks=makable(kind)) for kind in MAKEABLE if kind != "tmpfs"]


def run(folder, kind, body):
    """Run code with a made file system `made` in a new process, and return its output."""
    head = (
        "import os, sys, time; from pathlib import Path\n"
        "from vcsbench.storages.cell_filesystem import CellFilesystem\n"
        f"part = {{'root': {str(folder)!r}, 'make': {kind!r}}}\n"
        "made = CellFilesystem(part, Path(part['root'])); made.open(0)\n"
    )
    done = run_python(head + body)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def loops(folder):
    """Return the loop devices with an image in a folder, deleted images included."""
    files = Path("/sys/block").glob("loop*/loop/backing_file")
    return [str(file) for file in files if str(folder) in file.read_text()]


@pytest.mark.parametrize("kind", KINDS)
def test_made_filesystem_is_of_its_kind_private_and_empty_when_made_again(kind, folder):
    output = run(
        folder,
        kind,
        "import errno\n"
        "about, before = made.describe(), os.statvfs(made.inside)\n"
        "print(about['filesystem'], made.direct_io, about['rotational'] is not None)\n"
        "print(str(made.inside) in Path(f'/proc/{os.getppid()}/mounts').read_text())\n"
        "try:\n"
        "    with (made.inside / 'file').open('wb') as file:\n"
        "        while True: file.write(bytes(16 << 20)); file.flush(); os.fsync(file.fileno())\n"
        "except OSError as error: print(errno.errorcode[error.errno])\n"
        "(made.folder / 'beside').write_text('x'); (made.folder / 'beside').unlink(); made.clear()\n"
        "print((made.inside / 'file').exists(), before[2:5] == os.statvfs(made.inside)[2:5])\n"
        "made.close(); print(os.listdir(made.workdir.path / 'targets'))\n",
    )
    facts = f"{kind} None False" if kind == "tmpfs" else f"{kind} True True"
    assert output.split("\n") == [facts, "False", "ENOSPC", "False True", "[]"]
    assert not loops(folder)


@pytest.mark.parametrize("kind", IMAGES)
@pytest.mark.parametrize("number", [1, 2])
def test_process_killed_after_a_program_leaves_no_loop_device(kind, number, folder):
    program = (
        "import os, signal, sys\n"
        "from vcsbench import processes\n"
        "from vcsbench.storages import cell_filesystem\n"
        "real, calls = processes.run_program, []\n"
        "def run(*arguments, **options):\n"
        "    real(*arguments, **options)\n"
        "    calls.append(arguments)\n"
        f"    if len(calls) == {number}: os.kill(os.getpid(), signal.SIGKILL)\n"
        "processes.run_program = run\n"
        f"part = {{'root': {str(folder)!r}, 'make': {kind!r}}}\n"
        f"cell_filesystem.CellFilesystem(part, {str(folder)!r}).open(0)\n"
    )
    assert run_python(program).returncode == -signal.SIGKILL
    wait_for(lambda: not loops(folder))


@pytest.mark.parametrize("kind", IMAGES)
def test_remove_keeps_other_loop_devices(kind, folder):
    image = folder.with_name(f"{folder.name}-other")
    with image.open("wb") as file:
        file.truncate(MIB)
    argv = ["losetup", "--find", "--show", image]
    device = subprocess.check_output(argv, text=True).strip()
    try:
        run(folder, kind, "made.clear(); made.close()")
        backing = Path("/sys/block", os.path.basename(device), "loop/backing_file")
        assert backing.read_text().strip() == str(image)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
        image.unlink()


def test_make_on_storage_without_room_raises(folder):
    if why := why_cannot_make("ext4"):
        pytest.skip(why)
    body = "made.close(); made.kind = 'ext4'\ntry: made.open(1 << 60)\n"
    assert "no room" in run(folder, "tmpfs", f"{body}except Exception as error: print(error)")
    assert not loops(folder)


@needs_root
def test_why_cannot_make_without_right_to_mount():
    # The user changes after the imports, because nobody else may be able to enter the checkout.
    program = """
import os, pwd
from vcsbench.storages.cell_filesystem import why_cannot_make
user = pwd.getpwnam("nobody")
os.setgroups([])
os.setgid(user.pw_gid)
os.setuid(user.pw_uid)
print(why_cannot_make("tmpfs"))
"""
    done = run_python(program)
    assert "not permitted" in done.stdout, done.stderr
