"""The folder of vcsbench on a storage: nothing outside of it is written or removed."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.prepare import loader
from vcsbench.prepare.copies import CopyJob, copy_and_compare
from vcsbench.storages.workdir import MARKER, WorkDir, abandoned_workdirs, owner_of
from vcsbench.subjects import fsfs

WORKFLOW = Path(__file__).parent.parent.parent / "workflow"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes root")


def refused(act: Callable[[], object], pattern: str) -> None:
    with pytest.raises(UserError, match=pattern):
        act()


def test_workdir_of_a_checkout_keeps_other_files(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    place = WorkDir(tmp_path, tmp_path / "one")
    assert place.path != WorkDir(tmp_path, tmp_path / "two").path
    place.make("repositories")
    place.remove("repositories")
    assert (tmp_path / "precious").read_text() == "mine" and (place.path / MARKER).exists()
    place.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_workdir_without_marker_is_refused(tmp_path: Path) -> None:
    place = WorkDir(tmp_path, tmp_path / "one")
    (place.path / "repositories").mkdir(parents=True)
    (place.path / "repositories" / "precious").write_text("mine")
    for act in (place.make, lambda: place.remove("repositories"), lambda: place.remove()):
        refused(act, "vcsbench did not make it")
    Path(place.path / MARKER).write_text(json.dumps({"owner": "/another/checkout"}))
    refused(place.remove, "vcsbench did not make it")
    assert (place.path / "repositories" / "precious").exists()


def test_workdir_replaced_by_a_link_is_refused(tmp_path: Path) -> None:
    place = WorkDir(tmp_path, tmp_path / "one")
    place.make("repositories")
    moved = tmp_path / "elsewhere"
    place.path.rename(moved)
    place.path.symlink_to(moved)
    for act in (place.make, lambda: place.remove("repositories"), lambda: place.remove()):
        refused(act, "vcsbench did not make it")
    assert (moved / "repositories").is_dir()


def test_workdir_link_inside_is_not_followed(tmp_path: Path) -> None:
    place = WorkDir(tmp_path, tmp_path / "one")
    place.make()
    outside = tmp_path / "mine"
    (outside / "ruby.f7.nopack.1").mkdir(parents=True)
    (place.path / "repositories").symlink_to(outside)
    refused(lambda: place.make("repositories"), "it is a link")
    refused(lambda: place.remove("repositories", "ruby.f7.nopack.1"), "it is a link")
    place.remove()
    assert (outside / "ruby.f7.nopack.1").is_dir() and not place.path.exists()


def test_remove_links_keeps_their_targets(tmp_path: Path) -> None:
    place = WorkDir(tmp_path, tmp_path / "one")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("mine")
    (place.make("repositories") / "link").symlink_to(tmp_path / "mine")
    place.remove()
    assert (tmp_path / "mine" / "precious").read_text() == "mine" and not place.path.exists()


def test_remove_folder_with_a_living_writer_is_removed(
    tmp_path: Path,
) -> None:
    place = WorkDir(tmp_path, tmp_path / "one")
    made = place.make("loading", "ruby")
    program = """if True:
        import pathlib, sys, time
        end = time.monotonic() + 1
        while time.monotonic() < end:
            for number in range(2000):
                try:
                    pathlib.Path(sys.argv[1], str(number)).touch()
                except FileNotFoundError:
                    pathlib.Path(sys.argv[1]).mkdir()
    """
    writer = subprocess.Popen([sys.executable, "-c", program, made / "txn"])
    while not list(made.glob("txn/*")):
        assert writer.poll() is None

    place.remove("loading", "ruby")

    assert not made.exists()
    writer.kill()
    writer.wait()


def test_remove_without_permission_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = WorkDir(tmp_path, tmp_path / "one")
    place.make("loading", "ruby")

    def fail(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(shutil, "rmtree", fail)
    refused(lambda: place.remove("loading", "ruby"), "cannot be removed: Operation not permitted")


def test_remove_keeps_files_of_the_user(tmp_path: Path) -> None:
    place = WorkDir(tmp_path, tmp_path / "one")
    place.make("repositories")
    (place.path / "precious").write_text("mine")
    place.remove()
    assert sorted(path.name for path in place.path.iterdir()) == [MARKER, "precious"]
    place.make("repositories")


@pytest.mark.parametrize("left", [{}, {f".{MARKER}.new": b"{"}, {MARKER: b""}, {MARKER: bytes(20)}])
def test_workdir_with_unfinished_marker_is_adopted(tmp_path: Path, left: dict[str, bytes]) -> None:
    def begin() -> WorkDir:
        place = WorkDir(tmp_path, tmp_path / "one")
        place.path.mkdir()
        for name, content in left.items():
            (place.path / name).write_bytes(content)
        return place

    begin().remove()
    assert list(tmp_path.iterdir()) == []
    place = begin()
    place.remove("repositories", "ruby")
    place.make("repositories")
    assert json.loads((place.path / MARKER).read_text())["owner"] == place.owner
    place.remove()
    assert list(tmp_path.iterdir()) == []


def test_workdir_link_or_marker_without_owner_is_refused(tmp_path: Path) -> None:
    place = WorkDir(tmp_path, tmp_path / "one")
    (tmp_path / "mine").mkdir()
    place.path.symlink_to(tmp_path / "mine")
    refused(place.make, "vcsbench did not make it")
    refused(place.remove, "vcsbench did not make it")
    place.path.unlink()
    place.path.mkdir()
    (place.path / MARKER).write_text("{}")
    refused(place.make, "vcsbench did not make it")
    assert (place.path / MARKER).read_text() == "{}"


def test_make_on_missing_or_read_only_storage_raises(tmp_path: Path) -> None:
    refused(WorkDir(tmp_path / "none", tmp_path).make, "is not a folder")
    refused(WorkDir("/proc", tmp_path).make, r"cannot be made: .*name another folder in `storages`")


@needs_root
def test_remove_with_a_mount_inside_is_refused(tmp_path: Path) -> None:
    place = WorkDir(tmp_path, tmp_path / "one")
    inside = place.make("repositories", "disk")
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", inside], check=True)
    try:
        (inside / "precious").write_text("mine")
        refused(place.remove, f"something is mounted at {inside}; unmount it")
        assert (inside / "precious").exists()
    finally:
        subprocess.run(["umount", inside], check=True)
    place.remove()
    assert not place.path.exists()


@needs_root
def test_workdir_in_root_folder_changes_nothing_else(tmp_path: Path) -> None:
    # An overlay as the root folder collects all changes.
    upper, work, root = (tmp_path / name for name in ("upper", "work", "root"))
    for folder in (upper, work, root):
        folder.mkdir()
    act = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from vcsbench.storages.workdir import WorkDir\n"
        "place = WorkDir('/', '/checkout')\n"
        "for name in ('repositories', 'loading'): (place.make(name) / 'file').write_text('x')\n"
        "print(place.path)\n"
        "if sys.argv[2] == 'remove': place.remove()\n"
    )
    script = (
        f"set -e; mount -t overlay -o lowerdir=/,upperdir={upper},workdir={work} overlay {root}\n"
        f"mount --bind /proc {root}/proc\n"
        f'exec chroot {root} "$@"'
    )
    for then in ("keep", "remove"):
        command = ["unshare", "--mount", "sh", "-c", script, "sh"]
        python = [sys.executable, "-B", "-c", act, str(WORKFLOW), then]
        done = subprocess.run([*command, *python], capture_output=True, text=True)
        if "overlay" in done.stderr:
            pytest.skip(f"no overlay can be mounted here: {done.stderr}")
        assert done.returncode == 0, done.stderr
        changed = sorted(path.name for path in upper.iterdir())
        assert changed == ([Path(done.stdout.strip()).name] if then == "keep" else []), changed


def test_remove_stale_staging_keeps_used_folders(tmp_path: Path) -> None:
    place = WorkDir(tmp_path, tmp_path)
    for name in ("left", "finished"):
        (place.make(loader.STAGING, name) / "file").write_text("x")
    (tmp_path / "results" / "loaded").mkdir(parents=True)
    record = {"path": str(place.path / loader.STAGING / "finished")}
    (tmp_path / "results" / "loaded" / "finished.json").write_text(json.dumps(record))
    with loader.staging_dir(place, "used") as into:
        (into / "file").write_text("x")
        loader.remove_stale_staging([place], tmp_path)
        assert sorted(path.name for path in into.parent.iterdir()) == ["finished", "used"]
    with pytest.raises(KeyError), loader.staging_dir(place, "failing") as into:
        raise KeyError
    assert not into.exists()
    shutil.rmtree(tmp_path / "results")
    loader.remove_stale_staging([place], tmp_path)
    assert not list((place.path / loader.STAGING).iterdir())


USER = ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", "--"]
NOBODY = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "--"]


@pytest.fixture
def storage() -> Iterator[Path]:
    """A folder that all users can enter and write, like /var/tmp."""
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
def test_workdir_with_any_umask_is_readable_by_owner_and_servers_only(
    storage: Path, umask: None
) -> None:
    place = WorkDir(storage, storage / "checkout")
    repositories = place.make("repositories")
    source = place.make("loading", "one") / "f7.nopack"
    fsfs.create(source, "f7")
    (source / "db" / "current").chmod(0o600)  # like a private repository
    copying = CopyJob(source, repositories / "one.f7.nopack.1", fsfs.list_files(source))
    copy_and_compare([copying], place.make("making"), 0, 1)
    for user in (USER, NOBODY):
        assert can_read(user, place.path, repositories, copying.destination, source) == []
    uid, gid = processes.server_ids() or (0, 0)
    servers = ["setpriv", "--reuid", str(uid), "--regid", str(gid), "--clear-groups", "--"]
    every = sorted([str(copying.destination), *map(str, copying.destination.rglob("*"))])
    assert sorted(can_read(servers, copying.destination)) == every
    assert processes.closed(repositories) is None and place.is_protected()


def test_workdir_open_to_others_is_closed(storage: Path) -> None:
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
def test_workdir_with_invalid_marker_is_refused(storage: Path, kind: str) -> None:
    place = WorkDir(storage, storage / "checkout")
    place.path.mkdir()
    MARKERS[kind](place.path / MARKER)
    assert owner_of(place.path) == ""
    for act in (place.make, place.remove):
        with pytest.raises(UserError, match="is in the way"):
            act()
    assert abandoned_workdirs(storage) == []


@needs_root
def test_workdir_of_another_user_is_neither_read_nor_removed(storage: Path) -> None:
    gone = storage / "no such checkout"
    place = WorkDir(storage, gone)
    place.path.mkdir()
    (place.path / MARKER).write_text(json.dumps({"owner": str(gone)}))
    assert [workdir.path for workdir in abandoned_workdirs(storage)] == [place.path]
    os.chown(place.path, 12345, 12345)
    (place.path / MARKER).unlink()
    os.mkfifo(place.path / MARKER)
    assert abandoned_workdirs(storage) == []
    with pytest.raises(UserError, match="is in the way"):
        place.make()
