"""The folder of vcsbench on each storage: whose it is, who can read it, and what is removed from it."""

import errno
import os
import shutil
import stat
import struct
import subprocess
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

import project
from vcsbench import server_user
from vcsbench.errors import UserError
from vcsbench.files import write_json
from vcsbench.prepare import loader, subversion_loader
from vcsbench.prepare.copies import CopyJob, copy_and_compare
from vcsbench.storages import workdir as storages
from vcsbench.storages.cell_filesystem import CellFilesystem
from vcsbench.storages.file_trees import remove_path
from vcsbench.storages.workdir import (
    LOADED_FOLDER,
    STAGING,
    WorkDir,
    can_be_closed,
    remove_abandoned,
)
from vcsbench.systems import fsfs


def refused(act, pattern):
    with pytest.raises(UserError, match=pattern):
        act()


def refused_in_every_way(workdir, pattern="vcsbench did not make this"):
    for act in (workdir.make, lambda: workdir.remove("repositories"), lambda: workdir.remove()):
        refused(act, pattern)


@pytest.fixture
def workdir(tmp_path):
    return WorkDir(tmp_path, tmp_path / "one")


@pytest.fixture
def precious(tmp_path):
    """A file of the user in a folder on the storage, which must stay."""
    path = tmp_path / "mine" / "precious"
    path.parent.mkdir()
    path.write_text("mine")
    yield path
    assert path.read_text() == "mine"


def test_workdir_of_a_checkout_keeps_other_files(workdir, precious):
    assert workdir.path != WorkDir(workdir.storage, workdir.storage / "two").path
    (workdir.make("repositories") / "link").symlink_to(precious.parent)
    workdir.remove("repositories")
    assert [*workdir.path.iterdir()] == []
    (workdir.make("repositories") / "link").symlink_to(precious.parent)
    # Earlier versions made this file.
    (workdir.path / ".vcsbench").touch()
    (workdir.path / "notes").touch()
    workdir.remove()
    assert [path.name for path in workdir.path.iterdir()] == ["notes"]
    (workdir.path / "notes").unlink()
    workdir.remove()
    assert not workdir.path.exists()


@pytest.mark.parametrize("is_made", [True, False])
def test_workdir_replaced_by_a_link_is_refused(workdir, precious, is_made):
    target = precious.parent
    if is_made:
        workdir.make("repositories")
        target = workdir.path.rename(workdir.storage / "elsewhere")
    workdir.path.symlink_to(target)
    refused_in_every_way(workdir)
    assert (target / "repositories").is_dir() is is_made


def test_workdir_link_inside_is_not_followed(workdir, precious):
    workdir.make()
    (workdir.path / "repositories").symlink_to(precious.parent)
    refused(lambda: workdir.make("repositories"), "this is a link")
    refused(lambda: workdir.remove("repositories", precious.name), "this is a link")
    workdir.remove()
    assert not workdir.path.exists()


def test_make_on_missing_or_read_only_storage_raises(tmp_path):
    refused(WorkDir(tmp_path / "none", tmp_path).make, "is not a folder")
    refused(WorkDir("/proc", tmp_path).make, "^/proc/.*cannot be made: .*`storages`")


@project.needs_root
def test_make_finds_a_folder_on_a_storage_that_is_read_only(tmp_path):
    # The NFS guest has the host's files read-only.
    with project.mounted(tmp_path / "storage") as storage:
        workdir = WorkDir(storage, tmp_path)
        workdir.make("repositories")
        subprocess.run(["mount", "-o", "remount,ro", storage], check=True)
        assert workdir.make("repositories") == workdir.path / "repositories"
        refused(partial(workdir.make, "targets"), "cannot be made: Read-only file system")


@contextmanager
def bound(folder, point):
    """Mount a folder at another place: both have the same device."""
    point.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "--bind", folder, point], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", point], check=True)


@project.needs_root
@pytest.mark.parametrize("names", [("disk",), ("copy", "disk"), ()])
def test_remove_with_a_mount_inside_is_refused(workdir, precious, names):
    inside = workdir.make("repositories", *names[:-1]).joinpath(*names[-1:])
    for mount in (project.mounted, partial(bound, precious.parent)):
        with mount(inside):
            (inside / "precious").write_text("mine")
            for below in ((), ("repositories", *names[:1]), ("repositories", "precious")):
                with suppress(UserError):
                    workdir.remove(*below)
                assert (inside / "precious").exists()
            refused(workdir.remove, f"{inside}: .*mounted")
    workdir.remove()
    assert not workdir.path.exists()


@project.needs_root
def test_remove_abandoned_with_a_mount_inside_keeps_its_files(workdir, precious, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(workdir.storage))
    run = workdir.storage / f"{workdir.path.name}-x"
    for place in (workdir.make("targets", "x"), run):
        with bound(precious.parent, place / "disk"):
            assert remove_abandoned(workdir.owner, [workdir]) == []
        assert remove_abandoned(workdir.owner, [workdir]) == [place]


def test_remove_path_error_names_the_file_that_stays():
    with pytest.raises(PermissionError) as caught:
        remove_path(Path("/proc/self/fdinfo"))
    assert caught.value.filename.startswith("/proc/self/fdinfo/")


REMOVE = """
import sys
from pathlib import Path
from vcsbench.storages.file_trees import remove_path
remove_path(Path(sys.argv[1]))
"""


def test_remove_path_of_read_only_folders_changes_no_target_of_a_link(tmp_path, precious):
    folder = tmp_path / "copy" / "read-only"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "file").touch()
    (folder / "link").symlink_to(precious.parent)
    for path in (folder / "below", folder, precious.parent):
        path.chmod(0o555)
    done = project.run_python(REMOVE, tmp_path / "copy", start=project.WITHOUT_CAPABILITIES)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "copy").exists()
    assert stat.S_IMODE(precious.parent.stat().st_mode) == 0o555


def test_cell_filesystem_follows_no_link_with_its_number(workdir, precious):
    os.mkdir(workdir.owner)
    (workdir.make("targets") / str(os.getpid())).symlink_to(precious.parent)
    folder = CellFilesystem({"root": str(workdir.storage), "make": ""}, Path(workdir.owner))
    folder.open(0)
    (folder.inside / "file").touch()
    folder.clear()
    folder.close()
    assert list((workdir.path / "targets").iterdir()) == []


def test_remove_abandoned_over_a_link_keeps_its_files(workdir, precious):
    workdir.make()
    (workdir.path / "targets").symlink_to(precious.parent.parent)
    assert remove_abandoned(workdir.owner, [workdir]) == []
    assert precious.exists()


WORK = """
import sys
from pathlib import Path
from vcsbench.storages.workdir import WorkDir, run_folder
storage, root = sys.argv[1:]
with run_folder(root) as folder:
    lock = WorkDir(storage, root).lock()
    print(folder, flush=True)
    sys.stdin.read()
"""


@project.needs("unshare")
@project.needs_root
def test_folders_of_a_run_in_another_container_stay(workdir, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(workdir.storage))
    workdir.make("targets", "1")
    start = ("unshare", "--pid", "--fork", "--kill-child", "env", f"TMPDIR={workdir.storage}")
    arguments = (workdir.storage, workdir.owner)
    with project.start_python(WORK, *arguments, start=start) as container:
        folder = container.stdout.readline().strip()
        assert remove_abandoned(workdir.owner, []) == []
        refused(workdir.lock, f"{workdir.path}: another workflow run")
        # Before the end of its input, which would end it well.
        container.kill()
        container.wait()
    os.close(workdir.lock(wait_s=600))
    removed = remove_abandoned(workdir.owner, [workdir])
    assert removed == [Path(folder), workdir.path / "targets" / "1"]


@pytest.mark.parametrize("replaced", ["", "repositories", "repositories/copy"])
def test_remove_while_a_folder_becomes_a_link_keeps_files(workdir, precious, monkeypatch, replaced):
    workdir.make("repositories", "copy")
    for below in ("", "repositories", "repositories/copy", "copy"):
        shutil.copytree(precious.parent, workdir.storage / "outside" / below, dirs_exist_ok=True)
    enter_folder = storages._enter_folder

    def replace_and_enter_folder(*arguments):
        (workdir.path / replaced).rename(workdir.storage / "moved")
        (workdir.path / replaced).symlink_to(workdir.storage / "outside")
        return enter_folder(*arguments)

    # The work folder is open then.
    monkeypatch.setattr(storages, "_enter_folder", replace_and_enter_folder)
    with suppress(UserError):
        workdir.remove("repositories", "copy")
    assert len([*(workdir.storage / "outside").rglob("precious")]) == 4


@project.needs("svnadmin")
def test_make_dump_over_a_hard_link_keeps_the_file(workdir, precious):
    fsfs.create(workdir.storage / "one", "f7")
    (workdir.make("dumps") / "one.dump").hardlink_to(precious)
    subversion_loader.make_dump(workdir.storage / "one", 1, workdir, "one")


def test_remove_abandoned_keeps_loaded_repositories_with_a_record(tmp_path):
    place = WorkDir(tmp_path, tmp_path)
    at_work = place.make(STAGING, "ruby.f7")
    left, finished = (place.make(LOADED_FOLDER, "ruby", fmt) for fmt in ("f6", "f7"))
    (tmp_path / "results" / "loaded" / "ruby").mkdir(parents=True)
    write_json(tmp_path / "results" / "loaded" / "ruby" / "f7.json", {"path": str(finished)})
    assert remove_abandoned(tmp_path, [place]) == [at_work, left]
    assert [*left.parent.iterdir()] == [finished] and not at_work.exists()
    with pytest.raises(KeyError), loader.staging_dir(place, "ruby", "failing") as into:
        raise KeyError
    assert not into.exists()


def test_lock_on_a_file_system_without_locks_is_none_and_open_nowhere(workdir, monkeypatch):
    def refuse(descriptor, wait_s):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    workdir.make()
    monkeypatch.setattr(storages, "take_lock", refuse)
    before = os.listdir("/proc/self/fd")
    assert workdir.lock() is None
    assert os.listdir("/proc/self/fd") == before


@pytest.fixture
def storage():
    with project.open_folder("/tmp") as path:
        path.chmod(0o1777)
        yield path


@pytest.fixture(params=[0o000, 0o022, 0o027, 0o077], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def can_read(user, *paths):
    argv = [*user, "find", *paths, "-readable"]
    return subprocess.run(argv, capture_output=True, text=True).stdout.splitlines()


@project.needs_root
def test_workdir_with_any_umask_is_readable_by_owner_and_servers_only(storage, umask):
    place = WorkDir(storage, storage / "checkout")
    repositories = place.make("repositories")
    source = place.make("loading", "one") / "f7.nopack"
    fsfs.create(source, "f7")
    (source / "db" / "current").chmod(0o600)  # like a private repository
    copying = CopyJob(source, repositories / "one.f7.nopack.1", fsfs.list_files(source))
    copy_and_compare([copying], place.make("making"), fragmentation_kib=0, seed=1)
    for user in (project.AS_USER, project.NOBODY):
        assert can_read(user, place.path, repositories, copying.destination, source) == []
    uid, gid = server_user.server_ids() or (0, 0)
    servers = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--"]
    every = sorted([str(copying.destination), *map(str, copying.destination.rglob("*"))])
    assert sorted(can_read(servers, copying.destination)) == every
    place.check_protected()
    assert server_user.closed_folder(repositories) is None


def test_make_after_a_kill_opens_the_folder_to_the_servers(storage):
    place = WorkDir(storage, storage / "checkout")
    place.make("repositories").chmod(0o700)
    assert stat.S_IMODE(place.make("repositories").stat().st_mode) == 0o755


def test_workdir_open_to_others_is_closed(storage):
    place = WorkDir(storage, storage / "checkout")
    place.make("repositories")
    place.path.chmod(0o755)
    refused(place.check_protected, "other users")
    place.make()
    assert stat.S_IMODE(place.path.stat().st_mode) == (0o750 if os.geteuid() == 0 else 0o700)


@project.needs_root
@pytest.mark.parametrize(
    ("is_of_servers", "mode", "is_open"),
    [
        *((True, 0o750, False), (True, 0o2750, False), (True, 0o770, True)),
        *((False, 0o750, True), (False, 0o700, False), (False, 0o701, True)),
    ],
)
def test_workdir_is_open_by_rights_of_a_group_other_than_the_servers(
    storage, is_of_servers, mode, is_open
):
    place = WorkDir(storage, storage / "checkout")
    path = place.make()
    if not is_of_servers:
        os.chown(path, 0, 12345)
    path.chmod(mode)
    if is_open:
        refused(place.check_protected, "other users")
    else:
        place.check_protected()


@contextmanager
def mounted_vfat(image, point, options):
    """Mount a file system that keeps neither owners nor modes. Skip the test where that is impossible."""
    with image.open("wb") as file:
        file.truncate(16 << 20)
    subprocess.run(["mkfs.vfat", image], check=True, capture_output=True)
    point.mkdir()
    argv = ["mount", "-t", "vfat", "-o", f"loop,{options}", image, point]
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no vfat can be mounted here: {done.stderr}")
    try:
        yield point
    finally:
        subprocess.run(["umount", point], check=True)


@project.needs_root
@project.needs("mkfs.vfat")
@pytest.mark.parametrize(
    ("options", "is_closed"),
    [("umask=0", False), ("umask=027,gid=12345", False), ("umask=077", True)],
)
def test_storage_without_modes_can_be_closed_only_by_its_mount(tmp_path, options, is_closed):
    with mounted_vfat(tmp_path / "image", tmp_path / "disk", options) as disk:
        assert can_be_closed(disk) == is_closed
        assert not [*disk.iterdir()]


@project.needs_root
@project.needs("mkfs.vfat")
def test_make_where_new_files_belong_to_another_user_names_that(tmp_path):
    with mounted_vfat(tmp_path / "image", tmp_path / "disk", "uid=12345") as disk:
        refused(WorkDir(disk, tmp_path).make, f"^{disk}/vcsbench-.*: belongs to user 12345")


def test_can_be_closed_leaves_nothing_and_ignores_a_missing_folder(storage):
    assert can_be_closed(storage) and can_be_closed(storage / "missing")
    assert not [*storage.iterdir()]


@project.needs_root
def test_can_be_closed_leaves_a_missing_servers_user_to_another_check(storage, monkeypatch):
    monkeypatch.setattr(server_user, "UNPRIVILEGED", "no-such-user")
    assert can_be_closed(storage)
    assert not [*storage.iterdir()]


# ACL_USER_OBJ, ACL_USER, ACL_GROUP_OBJ, ACL_MASK and ACL_OTHER, each with rights and a user id.
ACCESS_LIST = ((1, 7, -1), (2, 7, 12345), (4, 5, -1), (0x10, 7, -1), (0x20, 0, -1))


@project.needs_root
@pytest.mark.parametrize("above", ["/var/tmp", "/dev/shm"])
@pytest.mark.parametrize("is_new", [True, False])
def test_workdir_on_a_storage_with_an_access_list_is_closed(above, is_new):
    content = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in ACCESS_LIST)
    with project.open_folder(above) as storage:
        place = WorkDir(storage, storage / "checkout")
        if not is_new:
            place.make("repositories")
        try:
            os.setxattr(storage, "system.posix_acl_default", content)
        except OSError:
            pytest.skip(f"{above} has no access-control lists")
        if not is_new:
            os.setxattr(place.path, "system.posix_acl_access", content)
            refused(place.check_protected, "other users")
        secret = place.make("repositories") / "secret"
        secret.touch()
        assert can_read(project.AS_USER, secret.parent, secret) == []
        place.check_protected()


@project.needs_root
def test_workdir_of_another_user_is_neither_used_nor_removed(storage):
    place = WorkDir(storage, storage / "checkout")
    theirs = place.make("repositories")
    os.chown(place.path, 12345, 12345)
    assert place.lock() is None
    refused_in_every_way(place, "belongs to user 12345, and not to you")
    assert theirs.exists()
