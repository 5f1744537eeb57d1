"""Disks below a storage: real file systems on loop devices and RAM disks."""

import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from project import needs_root
from vcsbench.errors import UserError
from vcsbench.storages import disks
from vcsbench.storages.disks import DiskKind, is_cached_below, storage_identity
from vcsbench.storages.filesystems import Mount

ZRAM = Path("/sys/class/zram-control")


def command(*argv):
    done = subprocess.run([*map(str, argv)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{argv[0]}: {done.stderr}")
    return done.stdout.strip()


def new_image(path, mib=16):
    with path.open("wb") as file:
        file.truncate(mib << 20)
    command("mkfs.ext4", "-q", "-F", path)
    return path


@contextmanager
def mounted(source, point, *options):
    point.mkdir(exist_ok=True)
    command("mount", *options, source, point)
    try:
        yield point
    finally:
        subprocess.run(["umount", point], check=True)


@contextmanager
def loop_device(image, *options):
    device = command("losetup", "--find", "--show", *options, image)
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@needs_root
def test_identity_differs_for_another_disk_at_the_same_mount_point(tmp_path):
    point = tmp_path / "disk"
    first, second = new_image(tmp_path / "first"), new_image(tmp_path / "second")
    below = storage_identity(tmp_path)
    with mounted(first, point, "-o", "loop"):
        before = storage_identity(point)
    with mounted(second, point, "-o", "loop"):
        other = storage_identity(point)
        with pytest.raises(UserError):
            disks.check_same_disks({str(point): before})
    # The first one again, behind another loop device.
    with loop_device(second), loop_device(first) as device, mounted(device, point):
        again = storage_identity(point)
        disks.check_same_disks({str(point): before})
    assert before == again
    assert len({*map(tuple, (before, other, below))}) == 3


@needs_root
def test_copy_of_a_disk_with_the_same_file_system_id_is_another_disk(tmp_path):
    point, first, second = (tmp_path / name for name in ("disk", "first", "second"))
    new_image(first)
    command("cp", "--sparse=always", first, second)
    with mounted(first, point, "-o", "loop"):
        before = disks.filesystem_id(point), storage_identity(point)
    with mounted(second, point, "-o", "loop"):
        after = disks.filesystem_id(point), storage_identity(point)
    assert before[0] == after[0] and before[1] != after[1]


@needs_root
def test_identity_of_memory_stays(tmp_path):
    identities = []
    for _ in range(2):
        with mounted("none", tmp_path / "ram", "-t", "tmpfs") as ram:
            identities.append(storage_identity(ram))
            assert not is_cached_below(ram)
    assert identities == [["tmpfs", ""]] * 2


def overlay_options(folder):
    """Make the folders of an overlay below a folder, and return its mount options."""
    for name in ("lower", "upper", "work"):
        (folder / name).mkdir()
    return f"lowerdir={folder}/lower,upperdir={folder}/upper,workdir={folder}/work"


@needs_root
def test_identity_without_disks_differs_for_another_device_of_the_mount(tmp_path):
    # An overlay shows no disks, as NFS, and its device may have any name.
    options = ("-t", "overlay", "-o", overlay_options(tmp_path))
    identities = []
    for device in ("server-one", "server-two", "server-one"):
        with mounted(device, tmp_path / "merged", *options) as point:
            identities.append(storage_identity(point))
    first, second, again = identities
    assert first == again and first != second
    assert first[0] == "overlay" and first[-1] == "server-one"


@needs_root
def test_overlay_is_cached_below_if_its_upper_folder_is(tmp_path):
    image = new_image(tmp_path / "image")
    point = tmp_path / "merged"
    with mounted(image, tmp_path / "disk", "-o", "loop") as below:
        options = ("-t", "overlay", "-o", overlay_options(below))
        with mounted("overlay", point, *options):
            assert is_cached_below(below) and is_cached_below(point)
    with mounted("none", tmp_path / "ram", "-t", "tmpfs") as ram:
        options = ("-t", "overlay", "-o", overlay_options(ram))
        with mounted("overlay", point, *options):
            assert is_cached_below(point)
            # As in a container, in which the upper folder is one of the host.
            with mounted("none", ram, "-t", "tmpfs"):
                assert not is_cached_below(point)


@needs_root
def test_loop_device_is_cached_below_without_direct_io(tmp_path):
    image = new_image(tmp_path / "image")
    with loop_device(image) as device, mounted(device, tmp_path / "disk") as point:
        facts = disks.describe_storage("disk", point)
        (disk,) = disks.disks_of(point)
        queue = Path("/sys/block", Path(device).name, "queue")
        assert facts["read_ahead_kb"] == (queue / "read_ahead_kb").read_text().strip() != ""
    assert disk.kind is DiskKind.LOOP and disk.image == str(image) and not disk.is_direct
    assert facts["cached_below"] is True
    assert facts["disks"][0]["kind"] == "loop device"
    assert facts["disks"][0]["image"] == str(image)
    assert facts["real_path"] == str(point)


@needs_root
def test_loop_device_with_direct_io_is_a_disk_unless_its_image_is_in_memory(tmp_path):
    image = new_image(tmp_path / "image")
    with loop_device(image, "--direct-io=on") as device:
        if Path("/sys/block", Path(device).name, "loop/dio").read_text().strip() != "1":
            pytest.skip("the temporary folder has no direct I/O")
        with mounted(device, tmp_path / "disk") as point:
            assert is_cached_below(point) == is_cached_below(tmp_path)
    with mounted("none", tmp_path / "ram", "-t", "tmpfs") as ram:
        image = new_image(ram / "image")
        with loop_device(image) as device, mounted(device, tmp_path / "disk") as point:
            assert is_cached_below(point)


@needs_root
def test_loop_device_on_a_file_system_on_a_loop_device_is_cached_below(tmp_path):
    outer = new_image(tmp_path / "outer")
    with mounted(outer, tmp_path / "below", "-o", "loop") as below:
        direct = loop_device(new_image(below / "inner", mib=8), "--direct-io=on")
        with direct as device, mounted(device, tmp_path / "disk") as point:
            assert is_cached_below(point)


@needs_root
@pytest.mark.skipif(not ZRAM.exists(), reason="the kernel has no zram")
def test_ram_disk_is_cached_below(tmp_path):
    number = (ZRAM / "hot_add").read_text().strip()
    try:
        Path(f"/sys/block/zram{number}/disksize").write_text("16M")
        command("mkfs.ext4", "-q", f"/dev/zram{number}")
        with mounted(f"/dev/zram{number}", tmp_path / "disk") as point:
            (disk,) = disks.disks_of(point)
            assert disk.kind is DiskKind.RAM
            assert is_cached_below(point)
    finally:
        (ZRAM / "hot_remove").write_text(number)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ram0", DiskKind.RAM),
        ("pmem0s", DiskKind.RAM),
        ("pmem1.1", DiskKind.RAM),
        ("sdb", DiskKind.DEVICE),
        ("nvme0n1", DiskKind.DEVICE),
    ],
)
def test_disk_in_memory_is_cached_below(tmp_path, monkeypatch, name, kind):
    # A folder in place of that of sysfs: the kernel of the tests may lack these drivers.
    (tmp_path / name).mkdir()
    monkeypatch.setattr(disks, "block_folders", lambda path: {str(tmp_path / name)})
    monkeypatch.setattr(disks, "mount_of", lambda path: Mount("/dev/x", "/", "ext4"))
    (disk,) = disks.disks_of(tmp_path)
    assert disk.kind is kind
    assert is_cached_below(tmp_path) == (kind is DiskKind.RAM)


def test_identity_of_missing_folder_is_empty(tmp_path):
    assert storage_identity(tmp_path / "missing") == []


def test_disk_of_a_real_storage_is_no_memory(tmp_path, monkeypatch):
    # A disk with a serial number keeps its identity when its name changes.
    for name, serial in (("sda", "A1"), ("sdb", "B2")):
        folder = tmp_path / name / "device"
        folder.mkdir(parents=True)
        (folder / "serial").write_text(f"{serial}\n")
    found = {"sda"}
    monkeypatch.setattr(
        disks, "block_folders", lambda path: {str(tmp_path / name) for name in found}
    )
    (disk,) = disks.disks_of(tmp_path)
    assert disk == ("sda", DiskKind.DEVICE, "A1", "", False)
    before = storage_identity(tmp_path)
    found = {"sdb"}
    assert storage_identity(tmp_path) != before
    (tmp_path / "sdb" / "device" / "serial").write_text("A1\n")
    assert storage_identity(tmp_path) == before
