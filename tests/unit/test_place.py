"""vcsbench's folder on a storage: nothing outside of it is written or removed, whatever lies there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vcsbench.errors import UserError
from vcsbench.prepare import loader
from vcsbench.storages.workdir import MARKER, WorkDir

WORKFLOW = Path(__file__).parent.parent.parent / "workflow"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes root to mount")


def refused(act: Callable[[], object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        act()


def test_a_place_belongs_to_one_checkout_and_touches_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    place = WorkDir(tmp_path, tmp_path / "one")
    assert place.path != WorkDir(tmp_path, tmp_path / "two").path
    place.make("repositories")
    place.remove("repositories")
    assert (tmp_path / "precious").read_text() == "mine" and (place.path / MARKER).exists()
    place.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_folder_that_vcsbench_did_not_make_is_left_alone(tmp_path: Path) -> None:
    place = WorkDir(tmp_path, tmp_path / "one")
    (place.path / "repositories").mkdir(parents=True)
    (place.path / "repositories" / "precious").write_text("mine")
    for act in (place.make, lambda: place.remove("repositories"), lambda: place.remove()):
        refused(act, "vcsbench did not make it")
    Path(place.path / MARKER).write_text(json.dumps({"owner": "/another/checkout"}))
    refused(place.remove, "vcsbench did not make it")
    assert (place.path / "repositories" / "precious").exists()


def test_a_link_in_the_place_of_our_folder_is_not_followed(tmp_path: Path) -> None:
    place = WorkDir(tmp_path, tmp_path / "one")
    place.make("repositories")
    moved = tmp_path / "elsewhere"
    place.path.rename(moved)
    place.path.symlink_to(moved)
    for act in (place.make, lambda: place.remove("repositories"), lambda: place.remove()):
        refused(act, "vcsbench did not make it")
    assert (moved / "repositories").is_dir()


def test_a_link_inside_our_folder_is_not_followed(tmp_path: Path) -> None:
    place = WorkDir(tmp_path, tmp_path / "one")
    place.make()
    mine = tmp_path / "mine"
    (mine / "ruby.f7.nopack.1").mkdir(parents=True)
    (place.path / "repositories").symlink_to(mine)
    refused(lambda: place.make("repositories"), "it is a link")
    refused(lambda: place.remove("repositories", "ruby.f7.nopack.1"), "it is a link")
    place.remove()
    assert (mine / "ruby.f7.nopack.1").is_dir() and not place.path.exists()


def test_links_in_what_is_removed_are_removed_and_not_what_they_name(tmp_path: Path) -> None:
    place = WorkDir(tmp_path, tmp_path / "one")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("mine")
    (place.make("repositories") / "link").symlink_to(tmp_path / "mine")
    place.remove()
    assert (tmp_path / "mine" / "precious").read_text() == "mine" and not place.path.exists()


def test_remove_folder_that_a_process_of_a_killed_job_still_writes_is_removed(
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


def test_remove_folder_that_cannot_be_removed_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = WorkDir(tmp_path, tmp_path / "one")
    place.make("loading", "ruby")

    def fail(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(shutil, "rmtree", fail)
    refused(lambda: place.remove("loading", "ruby"), "cannot be removed: Operation not permitted")


def test_what_the_user_put_into_our_folder_stays(tmp_path: Path) -> None:
    place = WorkDir(tmp_path, tmp_path / "one")
    place.make("repositories")
    (place.path / "precious").write_text("mine")
    place.remove()
    assert sorted(path.name for path in place.path.iterdir()) == [MARKER, "precious"]
    place.make("repositories")  # and it is still ours


@pytest.mark.parametrize("left", [{}, {f".{MARKER}.new": b"{"}, {MARKER: b""}, {MARKER: bytes(20)}])
def test_a_place_that_was_only_begun_is_taken_up(tmp_path: Path, left: dict[str, bytes]) -> None:
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


def test_an_empty_link_or_a_marker_of_anothers_is_not_taken_up(tmp_path: Path) -> None:
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


def test_a_storage_that_is_missing_or_read_only(tmp_path: Path) -> None:
    refused(WorkDir(tmp_path / "none", tmp_path).make, "is not a folder")
    refused(WorkDir("/proc", tmp_path).make, r"cannot be made: .*name another folder in `storages`")


@needs_root
def test_a_folder_of_another_user_is_left_alone_whatever_its_marker_says(tmp_path: Path) -> None:
    place = WorkDir(tmp_path, tmp_path / "one")
    place.make("repositories")
    os.chown(place.path, 65534, 65534)
    refused(place.remove, "vcsbench did not make it")


@needs_root
def test_what_is_mounted_inside_is_not_removed(tmp_path: Path) -> None:
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
def test_the_storage_may_be_the_root_folder(tmp_path: Path) -> None:
    # In a root of its own, where every change of it is kept apart and can be looked at.
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


def test_leftovers_of_killed_loads_are_removed_and_nothing_in_use(tmp_path: Path) -> None:
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
