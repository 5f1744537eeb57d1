"""vcsbench's folder on a storage, next to other users of the machine and whatever the umask is."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.prepare.copies import CopyJob, copy_and_compare
from vcsbench.storages.workdir import MARKER, WorkDir, abandoned_workdirs, owner_of
from vcsbench.subjects import fsfs

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes root to be another user")
USER = ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", "--"]
NOBODY = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "--"]


@pytest.fixture
def storage() -> Iterator[Path]:
    """A folder that all users can enter and write, as /var/tmp is."""
    path = Path(tempfile.mkdtemp(prefix="vcsbench-test-"))
    path.chmod(0o1777)
    yield path
    shutil.rmtree(path)


@pytest.fixture(params=[0o000, 0o022, 0o027, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def can_read(user: list[str], *paths: Path) -> list[str]:
    argv = [*user, "find", *paths, "-readable"]
    return subprocess.run(argv, capture_output=True, text=True).stdout.splitlines()


@needs_root
def test_place_under_any_umask_is_read_by_its_owner_and_the_servers_alone(
    storage: Path, umask: None
) -> None:
    place = WorkDir(storage, storage / "checkout")
    repositories = place.make("repositories")
    source = place.make("loading", "one") / "f7.nopack"
    fsfs.create(source, "f7")
    (source / "db" / "current").chmod(0o600)  # as a private repository has it
    copying = CopyJob(source, repositories / "one.f7.nopack.1", fsfs.list_files(source))
    copy_and_compare([copying], place.make("making"), 0, 1)
    for user in (USER, NOBODY):
        assert can_read(user, place.path, repositories, copying.destination, source) == []
    uid, gid = processes.server_ids() or (0, 0)
    servers = ["setpriv", "--reuid", str(uid), "--regid", str(gid), "--clear-groups", "--"]
    every = sorted([str(copying.destination), *map(str, copying.destination.rglob("*"))])
    assert sorted(can_read(servers, copying.destination)) == every
    assert processes.closed(repositories) is None and place.is_protected()


def test_place_of_an_earlier_release_is_closed_to_others(storage: Path) -> None:
    place = WorkDir(storage, storage / "checkout")
    place.make("repositories")
    place.path.chmod(0o755)
    assert not place.is_protected()
    with pytest.raises(UserError, match="all users would read the repository"):
        place.check_protected()
    place.make()
    assert stat.S_IMODE(place.path.stat().st_mode) == (0o750 if os.geteuid() == 0 else 0o700)


def make_socket(path: Path) -> None:
    subprocess.run(
        ["python3", "-c", f"import socket; socket.socket(1).bind({str(path)!r})"], check=True
    )


MARKERS = {
    "pipe": os.mkfifo,
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path),
    "folder": Path.mkdir,
    "socket": make_socket,
    "large": lambda path: path.write_bytes(b" " * (1 << 20)),
    "deep": lambda path: path.write_text("[" * 60_000),
    "another type": lambda path: path.write_text('{"owner": ["x"]}'),
}


@pytest.mark.parametrize("kind", MARKERS)
def test_place_with_a_marker_that_is_no_marker_is_in_the_way(storage: Path, kind: str) -> None:
    place = WorkDir(storage, storage / "checkout")
    place.path.mkdir()
    MARKERS[kind](place.path / MARKER)
    assert owner_of(place.path) == ""
    for act in (place.make, place.remove):
        with pytest.raises(UserError, match="is in the way"):
            act()
    assert abandoned_workdirs(storage) == []


@needs_root
def test_place_that_another_user_made_is_neither_read_nor_removed(storage: Path) -> None:
    gone = storage / "no such checkout"
    place = WorkDir(storage, gone)
    place.path.mkdir()
    (place.path / MARKER).write_text(json.dumps({"owner": str(gone)}))
    assert [one.path for one in abandoned_workdirs(storage)] == [place.path]
    os.chown(place.path, 12345, 12345)
    (place.path / MARKER).unlink()
    os.mkfifo(place.path / MARKER)
    assert abandoned_workdirs(storage) == []
    with pytest.raises(UserError, match="is in the way"):
        place.make()
