"""The state of a copy, which detects each change."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from vcsbench.subjects import fsfs

pytestmark = pytest.mark.skipif(not shutil.which("svn"), reason="not installed: svn")

REVISION = "db/revs/0/1"


@pytest.fixture
def copy(tmp_path):
    path = tmp_path / "copy"
    fsfs.create(path, "f7")
    subprocess.run(["svn", "mkdir", "-qm", "x", f"file://{path}/trunk"], check=True)
    return path


def flip_and_set_back_its_time(copy):
    path = copy / REVISION
    before = path.stat()
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    content[5] ^= 1
    path.write_bytes(content)
    path.chmod(0o444)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


CHANGES = {
    "removed": ("db/revs/0", lambda copy: (copy / REVISION).unlink()),
    "flipped": ("db/revs/0", flip_and_set_back_its_time),
    "truncated": ("db/revs/0", lambda copy: os.truncate(copy / REVISION, 10)),
    "appended to": ("db/revs/0", lambda copy: (copy / REVISION).open("ab").write(b"x")),
    "added": ("db/revs/0", lambda copy: (copy / "db/revs/0/2").write_bytes(b"x")),
    "chmod": ("db/revs/0", lambda copy: (copy / REVISION).chmod(0o600)),
    "linked to": ("db/revs/0", lambda copy: os.link(copy / REVISION, copy.parent / "link")),
    "a hook": ("hooks", lambda copy: (copy / "hooks/start-commit").write_text("#!/bin/sh\n")),
    "svnserve.conf": ("conf", lambda copy: (copy / "conf/svnserve.conf").write_text("")),
    "fsfs.conf": ("db", lambda copy: (copy / "db/fsfs.conf").write_text("")),
    "a shard": ("db/revprops", lambda copy: (copy / "db/revprops/1").mkdir()),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_folder_names_the_change(copy, name):
    where, change = CHANGES[name]
    before = fsfs.read_state(copy)
    assert fsfs.changed_folder(copy, before) == ""
    change(copy)
    seen = fsfs.changed_folder(copy, before)
    # A new or removed file changes the time of its folder.
    assert seen in (where, str(Path(where).parent)), seen


def test_changed_folder_after_reading_is_empty(copy):
    before = fsfs.read_state(copy)
    for command in ("verify", "dump"):
        subprocess.run(["svnadmin", command, "-q", copy], check=True, capture_output=True)
    subprocess.run(["svn", "log", "-v", f"file://{copy}"], check=True, capture_output=True)
    assert fsfs.changed_folder(copy, before) == ""
    subprocess.run(["svn", "mkdir", "-qm", "x", f"file://{copy}/tags"], check=True)
    assert fsfs.changed_folder(copy, before, shards=0)
    shutil.rmtree(copy)
    assert fsfs.changed_folder(copy, before, shards=0) == "."
