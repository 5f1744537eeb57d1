"""Builds of Subversion: each cell runs the binaries of its build, and a slower build is detected."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from project import HOT, needs, ruby, write_program
from vcsbench.codes import Call

pytestmark = [pytest.mark.slow, needs("svn", "svnserve", "svnadmin", "svnbench", "hyperfine")]

STUDY = "builds"
TARGETS = ("measured", f"results/tables/{STUDY}")
LOADER = Path("/lib64/ld-linux-x86-64.so.2")

# A stand-in for micromamba: an environment whose programs load their own libraries.
MICROMAMBA = """#!/bin/bash
[[ "$1 $2" == "create --prefix" ]] || exit
mkdir -p "$3/bin" "$3/lib"
cp -P /usr/lib/*/libsvn_*.so* "$3/lib"
for name in svn svnserve; do
    real=$(type -P $name)
    printf '#!/bin/sh\\nexec %s --library-path %s %s "$@"\\n' LOADER "$3/lib" "$real" >"$3/bin/$name"
    chmod 755 "$3/bin/$name"
done
""".replace("LOADER", str(LOADER))


def wrap(project, build, name, text):
    return write_program(project.path / build / "bin" / name, f"#!/bin/sh\n{text}\n")


def configure(project, builds, part, **keys):
    """Configure one round of a part of the grid with some builds."""
    project.configure(part, study=STUDY, builds=builds, **{"repositories": ruby(0.001), **keys})


def libraries():
    return str(next(Path("/usr/lib").glob("**/libsvn_subr-1.so.*")).parent)


@pytest.fixture(scope="module")
def measured(shared_project):
    for name in ("svn", "svnserve"):
        wrap(shared_project, "wrapped", name, f'exec {shutil.which(name)} "$@"')
    wrapped = str(shared_project.path / "wrapped")
    builds = {
        "system": {},
        "again": {},
        "no-libraries": {"prefix": "wrapped"},
        "wrapped": {"prefix": wrapped, "library_path": libraries()},
        "mixed": {"client": "wrapped", "server": "system"},
    }
    part = {**HOT, "command": ["log", "null-log"], "access": ["svn", "file"]}
    configure(shared_project, builds, part)
    shared_project.succeed(*TARGETS)
    return shared_project


def test_build_cells_run_its_binaries(measured):
    system = shutil.which("svn"), shutil.which("svnserve")
    wrapped = tuple(f"{measured.path}/wrapped/bin/{name}" for name in ("svn", "svnserve"))
    rows = measured.rows(f"measurements/{STUDY}.csv")
    ran = {
        row["build"]: (row["client"], row["server"])
        for row in rows
        if (row["command"], row["access"]) == ("log", "svn")
    }
    assert ran == {
        **dict.fromkeys(("system", "again"), system),
        **dict.fromkeys(("no-libraries", "wrapped"), wrapped),
        "mixed": (wrapped[0], system[1]),
    }
    version = subprocess.check_output(["svn", "--version", "--quiet"], text=True).strip()
    for row in rows:
        assert row["client_version"] == version
        assert row["server_version"] == (version if row["access"] == "svn" else "")
        assert ("other-libraries" in row["flags"]) == (row["build"] == "no-libraries")


def test_builds_compared_load_their_libraries_and_equal_binaries_have_flag(measured):
    rows = measured.rows(f"tables/{STUDY}/first-vs-build.csv")
    assert {row["candidate"] for row in rows} == {"again", "wrapped", "mixed"}
    for row in rows:
        assert row["baseline"] == "system"
        assert ("same-binaries" in row["flags"]) == (row["candidate"] == "again")


def test_build_without_a_program_skips_its_cells(measured):
    skipped = {r["cell"]: r["skip"] for r in measured.rows(f"grid/{STUDY}.csv") if r["skip"]}
    assert {cell.rpartition("/")[2] for cell in skipped} == {"no-libraries", "wrapped", "mixed"}
    assert all(cell.startswith("null-log/") for cell in skipped)
    assert all(f"{measured.path}/wrapped has" in why for why in skipped.values())


def test_binary_changed_measures_its_cells_only(measured):
    before = measured.exports()
    wrap(measured, "wrapped", "svnserve", f'exec {shutil.which("svnserve")} --quiet "$@"')
    measured.succeed("measured")
    changed = (path.split("/") for path in measured.measured_since(before))
    ran = {words[2] + words[-2].removesuffix("~2") for words in changed}
    assert ran == {"svnno-libraries", "svnwrapped"}


@pytest.mark.skipif(not LOADER.exists(), reason="no x86-64 glibc")
def test_build_of_conda_is_made_once_and_measured(project, monkeypatch):
    tools = write_program(project.path / "tools" / "micromamba", MICROMAMBA).parent
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    (project.path / "my.yaml").write_text("dependencies: [subversion=1.15.0]\n")
    builds = {"system": {}, "conda": {"conda": "my.yaml"}}
    configure(project, builds, {**HOT, "access": ["svn", "http"]})
    project.succeed(*TARGETS)
    (made,) = (p for p in (project.path / "results" / "builds").iterdir() if p.is_dir())
    found = project.rows(f"measurements/{STUDY}.csv")
    ran = next(row for row in found if row["build"] == "conda")
    assert ran["server"] == f"{made}/bin/svnserve" and "other-libraries" not in ran["flags"]
    skipped = {row["cell"]: row["skip"] for row in project.rows(f"grid/{STUDY}.csv")}
    assert "mod_dav_svn" in skipped["log/http/ruby/f7/nopack/slow/hot-os/conda"]
    assert project.is_complete(TARGETS[1])

    before = project.exports()
    (project.path / "my.yaml").write_text("dependencies: [subversion=1.14.5]\n")
    project.succeed("measured")
    changed = project.measured_since(before)
    assert changed and all("/conda/" in path for path in changed)


# The real client, and then a busy loop for 30 % of its time, which a noisy machine shows, too.
SLOWER = """#!/bin/bash
began=${{EPOCHREALTIME/./}}
{svnadmin} "$@"
code=$?
now=${{EPOCHREALTIME/./}}
ends=$((now + (now - began) * 30 / 100))
while ((${{EPOCHREALTIME/./}} < ends)); do :; done
exit $code
"""


def test_build_slower_client_is_detected_and_equal_client_is_not(project):
    svnadmin = shutil.which("svnadmin")
    wrap(project, "same", "svnadmin", f'exec {svnadmin} "$@"')
    wrap(project, "slower", "svnadmin", "").write_text(SLOWER.format(svnadmin=svnadmin))
    builds = {name: {"prefix": name, "library_path": libraries()} for name in ("same", "slower")}
    part = {**HOT, "command": "dump", "cache": "hot-server"}
    # A dump of just over a shard takes over half a second. Without duplicates nothing is called.
    keys = {"repositories": ruby(0.0222), "duplicates": 1}
    for rounds in (10, 20):  # a busy machine needs more rounds
        configure(project, {"system": {}, **builds}, part, rounds=rounds, **keys)
        project.succeed(TARGETS[1])
        table = project.rows(f"tables/{STUDY}/first-vs-build.csv")
        rows = {row["candidate"]: row for row in table}
        if rows["slower"]["call"] == "slower":
            break
    assert rows["slower"]["call"] == "slower", rows
    assert 1 / 1.45 < float(rows["slower"]["ratio"]) < 1 / 1.15
    assert rows["same"]["call"] in (Call.EQUAL, Call.BOUNDED, Call.UNDECIDED), rows


def test_build_of_another_release_runs_its_programs_over_each_access(trixie, project):
    builds = {"system": {}, "trixie": {"prefix": str(trixie)}}
    configure(project, builds, {**HOT, "access": ["svn", "http", "file"]})
    project.succeed("measured")
    ran = [r for r in project.rows(f"measurements/{STUDY}.csv") if r["build"] == "trixie"]
    assert {row["access"] for row in ran} == {"svn", "http", "file"}
    for row in ran:
        assert row["client_version"].startswith("1.14.") and row["client_version"] != "1.14.2"
        assert row["server_version"] == ("" if row["access"] == "file" else row["client_version"])
        assert not {"other-libraries", "libraries-unknown"} & set(row["flags"].split())
