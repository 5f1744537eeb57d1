"""The reflink library on a real btrfs, xfs and ext4: the client installs equal files as clones."""

import json
import shlex
import sys

import pytest

from project import ROOT, WITHOUT_CAPABILITIES, needs, run_python
from vcsbench.axes.client_axes import REFLINK_LIBRARY
from vcsbench.storages.cell_filesystem import why_cannot_make

BUILT = ROOT / REFLINK_LIBRARY
pytestmark = [
    needs("svn", "svnadmin"),
    pytest.mark.skipif(not BUILT.exists(), reason="set-up has not built it: no gcc"),
]
# A process that mounts a file system. Arguments: its kind, a folder, a command to run in it.
INSIDE = """
import json, subprocess, sys
from pathlib import Path
from vcsbench.storages.cell_filesystem import CellFilesystem
kind, folder, script = sys.argv[1:]
made = CellFilesystem({"root": folder, "make": kind}, folder); made.open(0)
done = subprocess.run(["sh", "-eu", "-c", script], cwd=made.inside, capture_output=True, text=True)
print(json.dumps([done.returncode, done.stdout, done.stderr])); made.close()
"""
# Plain files, an empty one, one that fits into its inode, and files to translate.
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
PRELOAD = "LD_PRELOAD=$REFLINK_LIBRARY SVN_REFLINK_STATS=$PWD/stats"
CHECKOUT = f"{REPOSITORY}{PRELOAD} svn checkout -q $url cloned\n"
RESULT = "cat stats; diff -r -x .svn start cloned; svn status cloned; stat -c %A cloned/executable"


def inside(kind, folder, script):
    if why := why_cannot_make(kind):
        pytest.skip(why)
    done = run_python(INSIDE, kind, folder, script, REFLINK_LIBRARY=str(BUILT))
    assert done.returncode == 0, done.stderr
    code, out, err = json.loads(done.stdout)
    assert code == 0, (out, err)
    return out.splitlines()


@pytest.mark.parametrize("kind", ["btrfs", "xfs"])
def test_checkout_with_clones_equals_a_plain_checkout(kind, folder):
    stats, *rest = inside(kind, folder, CHECKOUT + RESULT)
    # inline, large, executable, merged, edited and empty
    assert stats.startswith("cloned=6 passed_on=") and stats.endswith(" failed=0 errno=0")
    assert rest == ["-rwxr-xr-x"]


def test_update_with_clones_merges_local_changes(folder):
    script = CHECKOUT + (
        "svn update -q -r1 cloned; sed -i '$s/.*/mine/' cloned/merged; rm stats\n"
        f"{PRELOAD} svn update -q cloned\n"
        "cat stats; head -1 cloned/merged; tail -1 cloned/merged; svn status cloned\n"
        "cmp start/large cloned/large; svn cat cloned/merged | tail -1\n"
    )
    stats, first, last, status, pristine = inside("btrfs", folder, script)
    assert stats.startswith("cloned=2 ")  # large and edited
    assert (first, last, status.split()) == ("theirs", "mine", ["M", "cloned/merged"])
    assert pristine == "3000"


CLONE = """
import os
from pathlib import Path
from vcsbench.subjects.working_copy import clone_working_files, measure_disk_space
clone_working_files(Path.cwd())
os.sync()
print(measure_disk_space(Path.cwd())["shared_bytes"])
"""


def test_clones_of_files_that_need_a_lock_keep_modes_and_times(folder):
    # Without capabilities, root cannot write read-only files, like an ordinary user.
    clone = shlex.join([*WITHOUT_CAPABILITIES, sys.executable, "-c", CLONE])
    state = "stat -c '%a %y' locked"
    script = (
        "svnadmin create repo; svn checkout -q file://$PWD/repo work; cd work; seq 3000 > locked\n"
        "svn add -q locked; svn propset -q svn:needs-lock x locked; svn commit -qm 1\n"
        f"{state}; {clone}; {state}; svn status\n"
    )
    before, shared, after = inside("btrfs", folder, script)
    assert before == after and before.startswith("4")
    assert int(shared) > 0


def test_checkout_without_reflinks_makes_copies(folder):
    stats, *rest = inside("ext4", folder, CHECKOUT + RESULT)
    assert stats.startswith("cloned=0 ") and " failed=6 " in stats and not stats.endswith("errno=0")
    assert rest == ["-rwxr-xr-x"]
