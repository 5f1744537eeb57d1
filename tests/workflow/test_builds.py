"""Builds on the real workflow: each runs its own binaries, false labels are found, slower ones called so."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from project import ROOT, Project, needs

pytestmark = needs("svn", "svnserve", "svnadmin", "svnbench", "hyperfine")

STUDY = "builds"
SMALL = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.001, "seed": 1}}
PART = {"command": "log", "format": "f7", "packing": "nopack", "config": "slow", "cache": "hot-os"}
LOADER = Path("/lib64/ld-linux-x86-64.so.2")

# Stands for conda's: an environment whose programs load libraries of their own.
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


def wrap(project: Project, build: str, name: str, text: str) -> Path:
    """Write a program of a build, a script."""
    program = project.path / build / "bin" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


def rows(project: Project, name: str) -> list[dict[str, str]]:
    with (project.path / "results" / name).open() as file:
        return list(csv.DictReader(file))


def libraries() -> str:
    """The folder of the system's libraries of Subversion."""
    return str(next(Path("/usr/lib").glob("**/libsvn_subr-1.so.*")).parent)


@pytest.fixture(scope="module")
def measured(shared_project: Project) -> Project:
    """A project in which a few builds were measured, all of which are the system's in disguise."""
    for name in ("svn", "svnserve"):
        wrap(shared_project, "wrapped", name, f'exec {shutil.which(name)} "$@"')
    wrapped = str(shared_project.path / "wrapped")
    shared_project.configure(
        studies=[STUDY],
        repositories=SMALL,
        rounds=1,
        copies=1,
        builds={
            "system": {},
            "again": {},
            "unsaid": {"prefix": "wrapped"},
            "said": {"prefix": wrapped, "library_path": libraries()},
            "mixed": {"client": "said", "server": "system"},
        },
        grid={
            STUDY: {"include": [{**PART, "command": ["log", "null-log"], "ra": ["svn", "file"]}]}
        },
    )
    done = shared_project.snakemake()
    assert done.returncode == 0, done.stdout
    return shared_project


def test_each_cell_ran_the_binaries_of_its_build(measured: Project) -> None:
    wrapped = f"{measured.path}/wrapped/bin/"
    system = {name: shutil.which(name) for name in ("svn", "svnserve")}
    ran = {
        row["build"]: (row["client"], row["server"])
        for row in rows(measured, f"measurements/{STUDY}.csv")
        if (row["command"], row["ra"]) == ("log", "svn")
    }
    assert ran == {
        "system": (system["svn"], system["svnserve"]),
        "again": (system["svn"], system["svnserve"]),
        "unsaid": (f"{wrapped}svn", f"{wrapped}svnserve"),
        "said": (f"{wrapped}svn", f"{wrapped}svnserve"),
        "mixed": (f"{wrapped}svn", system["svnserve"]),
    }
    version = subprocess.run(
        ["svn", "--version", "--quiet"], capture_output=True, text=True, check=True
    ).stdout.strip()
    for row in rows(measured, f"measurements/{STUDY}.csv"):
        assert row["client_version"] == version
        assert row["server_version"] == (version if row["ra"] == "svn" else "")


def test_a_build_that_loads_anothers_libraries_leaves_the_tables(measured: Project) -> None:
    flags = {row["cell"]: row["flags"] for row in rows(measured, f"measurements/{STUDY}.csv")}
    assert {cell for cell, words in flags.items() if "other-libraries" in words} == {
        cell for cell in flags if cell.endswith("/unsaid")
    }
    compared = {row["candidate"] for row in rows(measured, f"tables/{STUDY}/first-vs-build.csv")}
    assert compared == {"again", "said", "mixed"}


def test_the_same_binaries_under_another_name_are_said_to_be(measured: Project) -> None:
    for row in rows(measured, f"tables/{STUDY}/first-vs-build.csv"):
        assert row["baseline"] == "system"
        assert ("same-binaries" in row["flags"]) == (row["candidate"] == "again")


def test_a_program_that_a_build_lacks_skips_its_cells_with_the_reason(measured: Project) -> None:
    skipped = {r["cell"]: r["skip"] for r in rows(measured, f"grid/{STUDY}.csv") if r["skip"]}
    assert {cell.rpartition("/")[2] for cell in skipped} == {"unsaid", "said", "mixed"}
    assert all(cell.startswith("null-log/") for cell in skipped)
    assert set(skipped.values()) == {f"{measured.path}/wrapped has no svnbench in bin or sbin"}


def test_another_binary_measures_exactly_the_cells_that_run_it(measured: Project) -> None:
    assert "Nothing to be done" in measured.snakemake().stdout
    before = measured.exports()
    wrap(measured, "wrapped", "svnserve", f'exec {shutil.which("svnserve")} --quiet "$@"')
    assert measured.measure(STUDY).returncode == 0
    changed = {path for path, at in measured.exports().items() if before[path] != at}
    ran = {path.split("/")[2] + path.split("/")[-2].removesuffix("~2") for path in changed}
    assert ran == {
        "svnunsaid",
        "svnsaid",
    }


@pytest.mark.slow
@pytest.mark.skipif(not LOADER.exists(), reason="no x86-64 glibc")
def test_a_conda_environment_is_made_once_and_measured(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = project.path / "tools"
    tools.mkdir()
    (tools / "micromamba").write_text(MICROMAMBA)
    (tools / "micromamba").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    (project.path / "my.yaml").write_text("dependencies: [subversion=1.15.0]\n")
    project.configure(
        studies=[STUDY],
        repositories=SMALL,
        rounds=1,
        copies=1,
        builds={"system": {}, "conda": {"conda": "my.yaml"}},
        grid={STUDY: {"include": [{**PART, "ra": ["svn", "http"]}]}},
    )
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    (made,) = (p for p in (project.path / "results" / "builds").iterdir() if p.is_dir())
    found = rows(project, f"measurements/{STUDY}.csv")
    ran = next(row for row in found if row["build"] == "conda")
    assert ran["server"] == f"{made}/bin/svnserve" and "other-libraries" not in ran["flags"]
    skipped = {row["cell"]: row["skip"] for row in rows(project, f"grid/{STUDY}.csv")}
    assert "mod_dav_svn" in skipped["log/http/ruby/f7/nopack/slow/hot-os/conda"]
    assert "Nothing to be done" in project.snakemake().stdout

    before = project.exports()
    (project.path / "my.yaml").write_text("dependencies: [subversion=1.14.5]\n")
    assert project.measure(STUDY).returncode == 0
    changed = {path for path, at in project.exports().items() if before[path] != at}
    assert changed and all("/conda/" in path for path in changed)


# The real client, and then 15 % of its time more in work of the processor's.
SLOWER = """#!/bin/bash
began=${{EPOCHREALTIME/./}}
{svnadmin} "$@"
code=$?
now=${{EPOCHREALTIME/./}}
ends=$((now + (now - began) * 15 / 100))
while ((${{EPOCHREALTIME/./}} < ends)); do :; done
exit $code
"""


def compared(project: Project, rounds: int) -> dict[str, dict[str, str]]:
    """The rows of the table that compares the builds, by candidate."""
    builds = {name: {"prefix": name, "library_path": libraries()} for name in ("same", "slower")}
    project.configure(
        studies=[STUDY],
        # A dump of just over a shard takes over half a second.
        repositories={"ruby": {**SMALL["ruby"], "scale": 0.0222}},
        rounds=rounds,
        duplicates=1,  # without twins nothing is called
        copies=1,
        builds={"system": {}, **builds},
        grid={STUDY: {"include": [{**PART, "command": "dump", "cache": "hot-svn"}]}},
    )
    done = project.snakemake(timeout=1200)
    assert done.returncode == 0, done.stdout
    table = rows(project, f"tables/{STUDY}/first-vs-build.csv")
    return {row["candidate"]: row for row in table}


@pytest.mark.slow
def test_a_client_that_is_slower_is_called_so_and_one_that_is_the_same_is_not(
    project: Project,
) -> None:
    svnadmin = shutil.which("svnadmin")
    wrap(project, "same", "svnadmin", f'exec {svnadmin} "$@"')
    wrap(project, "slower", "svnadmin", "").write_text(SLOWER.format(svnadmin=svnadmin))
    for rounds in (10, 20):  # once more where the machine is busy: only the new ones are measured
        table = compared(project, rounds)
        calls = {name: row["call"] for name, row in table.items()}
        if calls["slower"] == "slower":
            break
    assert calls["slower"] == "slower", table
    assert 1 / 1.3 < float(table["slower"]["ratio"]) < 1 / 1.05
    assert calls["same"] in ("no difference shown", "too noisy to say"), table


@pytest.mark.slow
def test_another_releases_build_runs_its_own_programs_over_every_access(
    trixie: Path, project: Project
) -> None:
    project.configure(
        studies=[STUDY],
        repositories=SMALL,
        rounds=1,
        copies=1,
        builds={"system": {}, "trixie": {"prefix": str(trixie)}},
        grid={STUDY: {"include": [{**PART, "ra": ["svn", "http", "file"]}]}},
    )
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    ran = [r for r in rows(project, f"measurements/{STUDY}.csv") if r["build"] == "trixie"]
    assert {row["ra"] for row in ran} == {"svn", "http", "file"}
    for row in ran:
        assert row["client_version"].startswith("1.14.") and row["client_version"] != "1.14.2"
        assert row["server_version"] == ("" if row["ra"] == "file" else row["client_version"])
        assert not {"other-libraries", "libraries-unknown"} & set(row["flags"].split())


def test_what_cannot_be_unpacked_is_a_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    script = ROOT / "envs" / "unpack_debian_build.sh"

    def said(*arguments: str) -> str:
        done = subprocess.run([script, *arguments], capture_output=True, text=True, timeout=300)
        assert done.returncode == 1
        return done.stderr

    assert "usage: " in said("trixie")
    assert "'Trixie;' is not the name of a release" in said("Trixie;", str(tmp_path / "x"))
    assert "is there already" in said("trixie", str(tmp_path))
    assert "without spaces" in said("trixie", str(tmp_path / "a b"))
    assert list(tmp_path.iterdir()) == []
