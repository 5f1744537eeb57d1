"""Results, records or copies removed or damaged: the next run makes these again and no others."""

import hashlib
import os
import re
import shutil
import subprocess

import pytest

from project import HOT, STUDY, needs, slow

pytestmark = [pytest.mark.slow, needs("svn", "svnserve", "svnadmin", "hyperfine")]

PART = {**HOT, "access": "svn", "format": ["f6", "f7"]}
CELL = "log/svn/ruby/f7/nopack/slow/hot-os/round1"
EXPORT = f"results/cells/{STUDY}/{CELL}.json"
CONTEXT = EXPORT.replace(".json", ".context.json")
WRITTEN = ("results", "reports", ".snakemake", ".vcsbench")
# Files and folders of each kind, and the number of cell-rounds to measure again after their removal.
KINDS = {
    "grid": (f"results/grid/{STUDY}.csv", 0),
    "load record": ("results/loaded/ruby/f7.json", 0),
    # Snakemake takes a missing input for a changed one, and measures the cells again.
    "copies record": ("results/repositories/disk.json", 4),
    "export": (EXPORT, 1),
    "context": (CONTEXT, 1),
    "cell": (f"results/cells/{STUDY}/log/svn/ruby/f6", 2),
    "measurements": (f"results/measurements/{STUDY}.csv", 0),
    "failures": (f"results/failures/{STUDY}.csv", 0),
    "tables": (f"results/tables/{STUDY}", 0),
    "findings": (f"results/findings/{STUDY}.csv", 0),
    "advice": (f"results/advice/{STUDY}.json", 0),
    "charts": (f"results/charts/{STUDY}", 0),
    "report": (f"reports/{STUDY}.html", 0),
    "index": ("reports/index.html", 0),
}


@pytest.fixture(scope="module")
def whole(shared_project):
    """A project after a run, with a copy of its results."""
    shared_project.configure(PART, rounds=2, copies=2)
    shared_project.succeed()
    for name in (*WRITTEN, "storage"):
        copy_with_owners(shared_project.path / name, shared_project.path / "saved" / name)
    return shared_project


@pytest.fixture
def after_run(whole):
    """The same project, with its results restored after the test."""
    yield whole
    for name in (*WRITTEN, "storage"):
        shutil.rmtree(whole.path / name)
        copy_with_owners(whole.path / "saved" / name, whole.path / name)


def copy_with_owners(source, copy):
    """Copy a folder with its groups, which the servers' user needs."""
    copy.parent.mkdir(exist_ok=True)
    subprocess.run(["cp", "-a", source, copy], check=True)


def derived(project):
    """Return the digests of the files that a run makes of its measurements. Pages contain their time."""
    found = {}
    for name in ("grid", "measurements", "failures", "tables", "published", "findings", "advice"):
        for path in (project.path / "results" / name).rglob("[!.]*"):
            if path.is_file():
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                found[str(path.relative_to(project.path))] = digest
    return found


def assert_made_again(project, kinds, exports, files):
    """Check that only cell-rounds of these kinds were measured again, and that all derived files exist."""
    cell_rounds = sum(KINDS[kind][1] for kind in kinds)
    assert project.exports().keys() == exports.keys()
    assert len(project.measured_since(exports)) == cell_rounds
    assert derived(project).keys() == files.keys()
    assert cell_rounds or derived(project) == files


@pytest.mark.parametrize(
    "kinds", [("export", "tables", "findings", "index"), *(slow((kind,)) for kind in KINDS)]
)
def test_run_after_removal_of_files_makes_these_again(after_run, kinds):
    exports, files = after_run.exports(), derived(after_run)
    for kind in kinds:
        path = after_run.path / KINDS[kind][0]
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    # The restored copies are made again, and Snakemake then makes no other missing file in the same call.
    after_run.tool("run", "--cores", "2")
    after_run.tool("run", "--cores", "2")
    assert_made_again(after_run, kinds, exports, files)
    # A run that measures a cell makes the records of preparation again.
    made = [KINDS[kind][0] for kind in kinds if "record" not in kind]
    assert [name for name in made if not (after_run.path / name).exists()] == []


DAMAGES = {
    "binary": lambda _: b"\xff\x00\x80" * 99,
    "empty": lambda _: b"",
    "zeros": lambda content: bytes(len(content)),
}
UNREADABLE = ("export", "context", "measurements", "tables", "findings", "advice", "grid", "charts")


@pytest.mark.parametrize(
    ("kinds", "how"),
    [
        (("export", "tables"), "zeros"),
        *(slow((kind,), how) for kind in UNREADABLE for how in DAMAGES),
    ],
)
def test_run_after_damage_names_files_and_makes_these_again(after_run, kinds, how):
    exports, files = after_run.exports(), derived(after_run)
    for kind in kinds:
        path = after_run.path / KINDS[kind][0]
        # A folder has tables (.csv) or charts (.vl.json).
        path = min(path.glob("[!.]*.[cj]s*")) if path.is_dir() else path
        before, content = path.stat(), path.read_bytes()
        path.write_bytes(DAMAGES[how](content))
        # As a faulty disk does it.
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    output = after_run.tool("run", "--cores", "2")
    assert [KINDS[kind][0] for kind in kinds if KINDS[kind][0] not in output] == []
    # As above, the restored copies are made again in the first call, and other files in the second one.
    after_run.tool("run", "--cores", "2")
    assert_made_again(after_run, kinds, exports, files)
    # Nothing is unreadable any more.
    assert "removed unreadable" not in after_run.tool("run", "--cores", "2")
    assert [kind for kind in kinds if not (after_run.path / KINDS[kind][0]).exists()] == []


@pytest.mark.parametrize("word", ["-n", "--lint"])
def test_dry_run_leaves_files_of_a_run(after_run, word):
    new = after_run.path / EXPORT.replace("round1", ".round1.json.new")
    new.write_text("half of it")
    after_run.snakemake(word)
    assert new.exists()


def test_run_unreadable_records_of_snakemake_are_one_sentence(after_run):
    exports, place = after_run.exports(), after_run.path / ".snakemake"
    for path in (place / "metadata").rglob("*"):
        if path.is_file():
            path.write_bytes(b"\xff\xfe\x00\x80")
    output = after_run.tool("run", "--cores", "2", code=1)
    assert re.search(r"\.snakemake: .*UnicodeDecodeError.*metadata", output)
    for name in ("metadata", "incomplete"):
        shutil.rmtree(place / name)
    after_run.tool("run", "--cores", "2")
    assert after_run.exports() == exports


def test_run_changed_settings_and_lost_metadata_is_refused(after_run):
    # Restored copies are made again. Cells that are older than their record would be measured.
    after_run.tool("run", "--cores", "2")
    for path in (after_run.path / "results/cells").rglob("*.json"):
        path.touch()
    shutil.rmtree(after_run.path / ".snakemake")
    args = after_run.path / "config" / "servers" / "slow" / "svnserve.args"
    text = args.read_text()
    args.write_text(text + "--memory-cache-size 17\n")
    (after_run.path / f"results/measurements/{STUDY}.csv").unlink()
    try:
        refused = after_run.fail("measured")
        after_run.succeed("measured", "--forcerun", "cell")
    finally:
        args.write_text(text)
    assert "--forcerun cell" in refused
