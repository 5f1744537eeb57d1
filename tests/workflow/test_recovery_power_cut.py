"""After a power cut: whatever file of a run is half-written, the next run makes it again, and only that."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from project import Project, needs
from vcsbench.run.recovery import mend, note_of

pytestmark = needs("svn", "svnserve", "svnadmin", "hyperfine")

STUDY = "fsfs-san-2014"
PART = {
    "command": "log",
    "ra": "svn",
    "format": ["f6", "f7"],
    "packing": "nopack",
    "config": "slow",
    "cache": "hot-os",
}
RUBY = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.0005, "seed": 1}}
CELL = f"results/cells/{STUDY}/log/svn/ruby/f7/nopack/slow/hot-os/round1"
# One file of each kind that a run makes.
KINDS = {
    "grid": f"results/grid/{STUDY}.csv",
    "load record": "results/loaded/ruby.json",
    "copies record": "results/repositories/disk.json",
    "export": f"{CELL}.json",
    "context": f"{CELL}.context.json",
    "measurements": f"results/measurements/{STUDY}.csv",
    "failures": f"results/failures/{STUDY}.csv",
    "table": f"results/tables/{STUDY}/f6-vs-f7.csv",
    "table as text": f"results/tables/{STUDY}/f6-vs-f7.md",
    "published table": f"results/published/{STUDY}/f6-vs-f7.csv",
    "findings": f"results/findings/{STUDY}.csv",
    "advice": f"results/advice/{STUDY}.json",
    "report": f"reports/{STUDY}.html",
    "index": "reports/index.html",
}


WRITTEN = ("results", "reports", ".snakemake")


def at_a_line_end(path: Path) -> None:
    """What looks most like a whole file."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "line": at_a_line_end,
    "nul": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "nul tail": lambda path: path.write_bytes(
        path.read_bytes()[: -(path.stat().st_size // 3)] + bytes(path.stat().st_size // 3)
    ),
}


def damage(path: Path, how: str) -> None:
    """Damage a file that keeps the time at which it was written."""
    at = path.stat()
    DAMAGES[how](path)
    os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))


def slow(how: str) -> Any:
    """A case that `make test` leaves out."""
    return pytest.param(how, marks=pytest.mark.slow)


@pytest.fixture(scope="module")
def whole(shared_project: Project) -> Project:
    """A project after a run, of which a copy is kept."""
    shared_project.configure(
        repositories=RUBY, rounds=2, copies=2, grid={STUDY: {"include": [PART]}}
    )
    done = shared_project.snakemake()
    assert done.returncode == 0, done.stdout
    for name in (*WRITTEN, "storage"):
        shutil.copytree(shared_project.path / name, shared_project.path / "kept" / name)
    return shared_project


def put_back(project: Project, *names: str) -> None:
    """Make folders of the project what they were after the run."""
    for name in names:
        shutil.rmtree(project.path / name)
        shutil.copytree(project.path / "kept" / name, project.path / name)


@pytest.fixture
def mended(whole: Project) -> Iterator[Project]:
    """The same project, as it was after the run, for what leaves its storage alone."""
    yield whole
    put_back(whole, *WRITTEN)


@pytest.fixture
def run_once(whole: Project) -> Iterator[Project]:
    """The same project, as it was after the run."""
    yield whole
    put_back(whole, *WRITTEN, "storage")


def derived(project: Project) -> dict[str, str]:
    """What a run makes of its measurements, as digests; the pages say when they were made."""
    found = {}
    for name in ("grid", "measurements", "failures", "tables", "published", "findings", "advice"):
        for path in (project.path / "results" / name).rglob("[!.]*"):
            if path.is_file():
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                found[str(path.relative_to(project.path))] = digest
    return found


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_half_written_file_of_any_kind_is_seen(mended: Project, kind: str, how: str) -> None:
    path = mended.path / KINDS[kind]
    before = path.read_bytes()
    damage(path, how)

    if path.read_bytes() == before:
        pytest.skip("so small that the damage changes nothing")
    made_again = mend(mended.path)

    assert KINDS[kind] in made_again
    assert not path.exists()
    pair = {f"{CELL}.json", f"{CELL}.context.json"}
    assert set(made_again) == (pair if KINDS[kind] in pair else {KINDS[kind]})


@pytest.mark.parametrize("how", ["empty", "half", "nul"])
def test_a_half_written_seal_is_seen(mended: Project, how: str) -> None:
    table = mended.path / KINDS["table"]
    damage(table.with_name(f".{table.name}.sha256"), how)
    assert mend(mended.path) == [KINDS["table"]]


def test_what_was_made_from_it_is_made_again_too(run_once: Project) -> None:
    before = derived(run_once)
    (run_once.path / KINDS["table"]).write_text("table,value\n")
    done = run_once.snakemake()
    assert done.returncode == 0 and f"made again: {KINDS['table']}" in done.stdout, done.stdout
    assert derived(run_once) == before


def test_what_is_whole_stays(mended: Project) -> None:
    mine = mended.path / "reports" / "mine.html"
    mine.write_text("<p>half a page of the user's")
    assert mend(mended.path) == []
    assert mine.exists()


@pytest.mark.parametrize("word", ["-n", "--lint"])
def test_looking_leaves_what_a_run_is_writing(mended: Project, word: str) -> None:
    new = mended.path / f"{CELL}.json".replace("round1", ".round1.json.new")
    new.write_text("half of it")
    done = mended.snakemake(word)
    assert new.exists(), done.stdout


@pytest.mark.parametrize("how", [*map(slow, ["empty", "line"]), "nul"])
def test_all_of_it_at_once_is_made_again_without_a_measurement(run_once: Project, how: str) -> None:
    before, exports = derived(run_once), run_once.exports()
    for kind, path in KINDS.items():
        if kind not in ("export", "context"):
            damage(run_once.path / path, how)
    done = run_once.snakemake()
    assert done.returncode == 0 and "Traceback" not in done.stdout, done.stdout
    assert derived(run_once) == before
    assert run_once.exports() == exports
    assert (run_once.path / KINDS["report"]).read_text().rstrip().endswith("</html>")


@pytest.mark.parametrize("how", ["half", slow("nul")])
def test_a_half_written_result_is_measured_again_and_no_other(run_once: Project, how: str) -> None:
    before = run_once.exports()
    other = f"{CELL}.context.json".replace("/f7/", "/f6/")
    damage(run_once.path / f"{CELL}.json", how)
    damage(run_once.path / other, how)
    done = run_once.measure(STUDY)
    assert done.returncode == 0 and "Traceback" not in done.stdout, done.stdout
    after = run_once.exports()
    changed = {path for path, at in after.items() if before[path] != at}
    assert changed == {
        str(Path(path).relative_to("results/cells"))
        for path in (f"{CELL}.json", other.replace(".context", ""))
    }
    assert (run_once.path / f"results/failures/{STUDY}.csv").read_text().count("\n") == 1


@pytest.mark.parametrize("how", [*map(slow, ["empty", "half"]), "nul"])
def test_notes_of_snakemakes_that_are_torn(run_once: Project, how: str) -> None:
    before, exports = derived(run_once), run_once.exports()
    for path in (run_once.path / ".snakemake").rglob("*"):
        if path.is_file():
            damage(path, how)
    (run_once.path / ".snakemake" / "locks").mkdir(exist_ok=True)
    (run_once.path / ".snakemake" / "locks" / "0.output.lock").write_bytes(bytes(100))
    mark = note_of(run_once.path, KINDS["table"])
    incomplete = run_once.path / ".snakemake" / "incomplete" / mark.name
    incomplete.parent.mkdir(exist_ok=True)
    incomplete.write_bytes(b"")
    done = run_once.snakemake()
    assert done.returncode == 0 and "Traceback" not in done.stdout, done.stdout
    assert derived(run_once) == before
    assert run_once.exports() == exports
    assert "Nothing to be done" in run_once.snakemake().stdout


@pytest.mark.parametrize("gone", ["nothing", "a copy", "all on storage and scratch"])
def test_a_change_is_seen_though_snakemakes_notes_are_lost(run_once: Project, gone: str) -> None:
    before = run_once.exports()
    shutil.rmtree(run_once.path / ".snakemake")
    if gone == "a copy":
        (copy,) = (run_once.path / "storage").glob("vcsbench-*/repositories/ruby.f7.nopack.2")
        shutil.rmtree(copy)
    if gone == "all on storage and scratch":
        for place in (*run_once.path.glob("storage/*"), *run_once.path.glob("scratch/*")):
            shutil.rmtree(place)
    args = run_once.path / "config" / "servers" / "slow" / "svnserve.args"
    was = args.read_text()
    args.write_text(was + "--memory-cache-size 17\n")
    try:
        done = run_once.measure(STUDY)
    finally:
        args.write_text(was)
    assert done.returncode == 0, done.stdout
    after = run_once.exports()
    assert after.keys() == before.keys(), done.stdout
    assert all(at > before[path] for path, at in after.items()), done.stdout


@pytest.mark.parametrize("how", [*map(slow, ["empty", "half"]), "nul"])
def test_a_label_beside_a_copy(run_once: Project, how: str) -> None:
    exports = run_once.exports()
    (label,) = (run_once.path / "storage").glob("vcsbench-*/repositories/ruby.f7.nopack.2.json")
    was = label.read_bytes()
    damage(label, how)
    wanted = f"{CELL.replace('/f7/', '/f6/')[:-1]}3.json"
    done = run_once.snakemake(wanted, "--config", "rounds=3")
    assert done.returncode == 0 and "Traceback" not in done.stdout, done.stdout
    # The fixture may have put the others back, with times of now.
    assert re.search(r"[1-4] copies have vanished or were changed", done.stdout), done.stdout
    after = run_once.exports()
    assert {path: after[path] for path in exports} == exports and len(after) == len(exports) + 1
    assert len(label.read_bytes()) == len(was) and b'"identity"' in label.read_bytes()
