"""Preparation: copies that vanish or change, storages that fill up, and files of the user that stay."""

import errno
import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from project import HOT, mounted_ext4, needs, ruby
from vcsbench.storages import folder_states
from vcsbench.subjects import repository

pytestmark = needs("svn", "svnadmin", "hyperfine")

PART = {**HOT, "access": "file", "format": ["f6", "f7"]}
# More than 1,000 revisions, so that there is a full shard to pack.
SHARDED = ruby(0.024)
TWO = {"repositories": ruby(0.001), "copies": 2}


def copy_path(project, name):
    return next((project.path / "storage").glob(f"vcsbench-*/repositories/{name}"))


def flip(copy):
    path = copy / "db/revs/0/17"
    before = path.stat()
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    path.chmod(before.st_mode)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def commit(copy):
    subprocess.run(["svn", "mkdir", "-qm", "x", f"file://{copy}/new"], check=True)


@pytest.mark.slow
def test_copies_changed_or_swapped_fail_their_cell_and_are_made_again(project):
    project.configure(PART, repositories=ruby(0.001))
    project.prepare()
    six, seven = (copy_path(project, f"ruby.{fmt}.nopack.1") for fmt in ("f6", "f7"))
    commit(seven)
    assert "was changed" in project.tool("measure", "log/file/ruby/f7/nopack/slow/hot-os", code=1)
    project.prepare()
    for first, second in ((six, seven), (Path(f"{six}.json"), Path(f"{seven}.json"))):
        first.rename(first.with_name("aside"))
        second.rename(first)
        first.with_name("aside").rename(second)
    output = project.tool("measure", "log/file/ruby/f6/nopack/slow/hot-os", code=1)
    assert f"copy 1 of ruby.f7.nopack, made as {seven}" in output, output
    assert "2 copies are" in project.succeed("measured")
    assert [(path / "db/format").read_text()[0] for path in (six, seven)] == ["6", "7"]
    assert len(project.exports()) == 2


@pytest.mark.slow
def test_missing_copy_is_made_from_loaded_repository_and_not_from_another_copy(project):
    project.configure(PART, **TWO)
    project.prepare()
    damaged, missing = (copy_path(project, f"ruby.f7.nopack.{number}") for number in (1, 2))
    # No time changes when a device does this, so the label is given the times of a file written to.
    flip(damaged)
    state = folder_states.read_state(damaged)
    repository.write_metadata(damaged, {**repository.read_metadata(damaged), "state": state})
    shutil.rmtree(missing)
    project.prepare()
    subprocess.run(["svnadmin", "verify", "-q", missing], check=True)


def planned(project):
    """Return the jobs of preparation of `ruby` that a dry run plans, as rule and format or storage."""
    jobs, rule = set(), ""
    for line in project.succeed("measured", "--dry-run").splitlines():
        if found := re.match(r"rule (\w+):", line):
            rule = found[1]
        found = re.search(r"wildcards: (?:repo=ruby, format|storage)=([^\s,]+)", line)
        if found and rule in ("load", "pack", "copy_repo"):
            jobs.add(f"{rule} {found[1]}")
    return jobs


@pytest.mark.slow
def test_new_format_loads_itself_and_new_packing_loads_nothing(project):
    def configure(formats, packings):
        part = {**PART, "format": formats, "packing": packings}
        project.configure(part, repositories=SHARDED)

    configure(["f6", "f7"], "nopack")
    assert planned(project) == {"load f6", "load f7", "copy_repo disk"}
    project.prepare()
    configure(["f6", "f7", "f8"], ["nopack", "pack"])
    assert planned(project) == {"load f8", "pack f6", "pack f7", "pack f8", "copy_repo disk"}
    configure("f6", "pack")
    assert planned(project) == {"pack f6", "copy_repo disk"}
    project.prepare()
    assert copy_path(project, "ruby.f6.pack.1").exists()
    # Only the loaded repositories stay.
    kept = (project.path / "storage").glob("vcsbench-*/loaded/ruby/f?/*")
    assert {path.name for path in kept} == {"f6.nopack", "f7.nopack"}
    # A copy that got lost is made of the loaded repository.
    shutil.rmtree(copy_path(project, "ruby.f7.nopack.1"))
    configure(["f6", "f7"], "nopack")
    assert planned(project) == {"copy_repo disk"}
    project.prepare()
    assert project.is_complete("results/repositories/disk.json")
    # A load ends before the packing and the copies of its repository begin.
    load, pack, copies = (
        project.json(f"{name}.json")
        for name in ("loaded/ruby/f6", "packed/ruby/f6", "repositories/disk")
    )
    assert 0 < load["began"] + load["seconds"] < pack["began"] + 0.01
    assert pack["began"] + pack["seconds"] < copies["began"] + 0.01


@pytest.mark.slow
def test_loaded_repository_damaged_is_loaded_again(project):
    project.configure({**PART, "format": "f7"})
    project.succeed("results/loaded/ruby/f7.json")
    loaded = Path(project.json("loaded/ruby/f7.json")["path"])
    flip(loaded / "f7.nopack")
    assert "f7.nopack: svnadmin verify failed: " in project.fail("measured")
    copies = (project.path / "storage").glob("vcsbench-*/repositories/*")
    assert not loaded.exists() and not list(copies) and not project.exports()
    project.succeed("measured")
    assert len(project.exports()) == 1


@pytest.fixture
def disk(project, tmp_path):
    """A function that mounts an ext4 of 12 MB on a folder of the project."""
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(
            mounted_ext4(tmp_path / name, project.path / name, 12, "-N", "2000")
        )


@pytest.mark.slow
def test_disk_full_during_preparation_fails_and_next_run_continues(project, disk):
    full = disk("storage")
    project.configure(PART, **TWO)
    # The disk fills up after the check of free space.
    target = project.path / "workflow" / "vcsbench" / "prepare" / "copies.py"
    line = "        if jobs:\n            _make_batch("
    text = target.read_text()
    assert text.count(f"\n{line}") == 1
    hog = full / "mine"
    taking = (
        f'__import__("subprocess").run(["{sys.executable}", "{project.path}/fill.py"], check=True)'
    )
    target.write_text(text.replace(f"\n{line}", f"\n        {taking}\n{line}"))
    (project.path / "fill.py").write_text(
        "import os, sys\n"
        f"os.path.exists({str(hog)!r}) and sys.exit()\n"
        f"there = os.statvfs({str(full)!r})\n"
        f"with open({str(hog)!r}, 'wb') as file:\n"
        "    room = there.f_bavail * there.f_frsize - 300_000\n"
        "    if room > 0:\n"
        "        os.posix_fallocate(file.fileno(), 0, room)\n"
    )
    output = project.fail("measured")
    assert f"{full}/vcsbench-" in output and os.strerror(errno.ENOSPC) in output, output
    assert hog.exists()
    assert not list(full.glob("vcsbench-*/repositories/*"))
    assert not list(full.glob("vcsbench-*/making"))
    assert not (project.path / "results/repositories/disk.json").exists()
    hog.unlink()
    target.write_text(text)
    project.succeed("measured")
    assert len(project.exports()) == 2


def test_clean_storage_and_results_behind_links_keeps_files_of_the_user(project):
    real, results = project.path / "elsewhere", project.path / "of results"
    (real / "vcsbench-12345678").mkdir(parents=True)
    results.mkdir()
    for folder in (real, real / "vcsbench-12345678", results):
        (folder / "precious").write_text("mine")
    shutil.rmtree(project.path / "storage")
    (project.path / "storage").symlink_to(real)
    project.configure(PART)
    project.prepare()
    project.tool("clean")
    paths = {str(path.relative_to(real)) for path in real.rglob("*")}
    assert paths == {"precious", "vcsbench-12345678", "vcsbench-12345678/precious"}
    assert (project.path / "storage").is_symlink() and not any((project.path / "results").iterdir())
    (project.path / "results").rmdir()
    (project.path / "results").symlink_to(results)
    assert f"{results} remains" in project.tool("clean")
    assert (results / "precious").read_text() == "mine"
