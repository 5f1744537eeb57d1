"""The library that has Subversion's client install working files as clones, on a real btrfs, xfs and ext4:
it clones what it may, and what a client leaves is what it leaves without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from project import ROOT, needs
from vcsbench.axes.client_server import REFLINK_LIBRARY
from vcsbench.storages.filesystems import why_cannot_make

BUILT = ROOT / REFLINK_LIBRARY
pytestmark = [
    needs("svn", "svnadmin"),
    pytest.mark.skipif(not BUILT.exists(), reason="set-up has not built it: there is no gcc"),
]
# Run in a process of its own, which mounts: argv is the kind, a folder, and a command to run there.
INSIDE = """
import json, subprocess, sys
from pathlib import Path
from vcsbench.storages.filesystems import MadeFilesystem
kind, folder, script = sys.argv[1:]
made = MadeFilesystem(kind, 1 << 30, Path(folder)); made.make()
done = subprocess.run(["sh", "-eu", "-c", script], cwd=made.point, capture_output=True, text=True)
print(json.dumps([done.returncode, done.stdout, done.stderr])); made.remove()
"""
# Plain files, of which an empty one and one that fits into its inode; and what has to be translated.
REPOSITORY = """
svnadmin create repo; url=file://$PWD/repo
svn checkout -q $url start; cd start
: > empty; printf x > inline; head -c 300000 /dev/urandom > large
head -c 9000 /dev/zero | tr '\\0' a > executable; ln -s large link
yes 'line $Rev$' | head -3000 > keywords; yes line | head -3000 > eol; seq 3000 > merged; seq 3000 > edited
svn add -q *; svn propset -q svn:executable yes executable
svn propset -q svn:keywords Rev keywords; svn propset -q svn:eol-style CRLF eol
svn commit -qm 1; svn update -q
sed -i 1s/.*/theirs/ merged edited; head -c 300000 /dev/urandom > large; svn commit -qm 2; cd ..
"""
CHECKOUT = (
    REPOSITORY
    + "LD_PRELOAD=$REFLINK_LIBRARY SVN_REFLINK_STATS=$PWD/said svn checkout -q $url cloned\n"
)
SAID = "cat said; diff -r -x .svn start cloned; svn status cloned; stat -c %A cloned/executable\n"


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="vcsbench-test-", dir="/var/tmp") as found:
        yield Path(found)


def inside(kind: str, folder: Path, script: str) -> list[Any]:
    if why := why_cannot_make(kind):
        pytest.skip(why)
    done = subprocess.run(
        [sys.executable, "-c", INSIDE, kind, str(folder), script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow"), "REFLINK_LIBRARY": str(BUILT)},
    )
    assert done.returncode == 0, done.stderr
    code, out, err = json.loads(done.stdout)
    assert code == 0, (out, err)
    return out.splitlines()


@pytest.mark.parametrize("kind", ["btrfs", "xfs"])
def test_what_is_cloned_is_what_is_left_without(kind: str, folder: Path) -> None:
    said, *rest = inside(kind, folder, CHECKOUT + SAID)
    # inline, large, executable, merged, edited, and empty, which has nothing to share.
    assert said.startswith("cloned=6 passed_on=") and said.endswith(" failed=0 errno=0")
    assert rest == ["-rwxr-xr-x"]


@pytest.mark.parametrize("kind", ["btrfs", "xfs"])
def test_what_is_cloned_shares_its_blocks(kind: str, folder: Path) -> None:
    script = CHECKOUT + (
        "sync; python3 -c \"import sys; sys.path.insert(0, '" + str(ROOT / "workflow") + "')\n"
        "from pathlib import Path; from vcsbench.subjects.working_copy import disk_space\n"
        "print(disk_space(Path('start'))['shared_bytes'], disk_space(Path('cloned'))['shared_bytes'])\""
    )
    plain, cloned = map(int, inside(kind, folder, script)[-1].split())
    assert plain == 0 and cloned >= 300_000


def test_a_local_change_is_merged_and_stays(folder: Path) -> None:
    script = CHECKOUT + (
        "svn update -q -r1 cloned; sed -i '$s/.*/mine/' cloned/merged; rm said\n"
        "LD_PRELOAD=$REFLINK_LIBRARY SVN_REFLINK_STATS=$PWD/said svn update -q cloned\n"
        "cat said; head -1 cloned/merged; tail -1 cloned/merged; svn status cloned\n"
        "cmp start/large cloned/large\n"
        "svn cat cloned/merged | tail -1\n"
    )
    said, first, last, status, pristine = inside("btrfs", folder, script)
    assert said.startswith("cloned=2 ")  # large and edited
    assert (first, last, status.split()) == ("theirs", "mine", ["M", "cloned/merged"])
    assert pristine == "3000", "the pristine is not what was changed in its clone"


def test_a_file_system_without_reflinks_gets_copies(folder: Path) -> None:
    said, *rest = inside("ext4", folder, CHECKOUT + SAID)
    assert said.startswith("cloned=0 ") and " failed=6 " in said and not said.endswith("errno=0")
    assert rest == ["-rwxr-xr-x"]


def test_another_program_is_left_alone() -> None:
    done = subprocess.run(
        ["true"], env={**os.environ, "LD_PRELOAD": str(BUILT)}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
