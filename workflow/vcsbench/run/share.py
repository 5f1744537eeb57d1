"""Measures a share of a run on a node of a cluster: python -m vcsbench.run.share SHARE RECORD.

In a folder of the node's own it runs the workflow as on a workstation: prepares, on this node's storage, and
measures cell after cell. So what comes of it is what a workstation's run would have brought.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from vcsbench import processes, words
from vcsbench.errors import UserError
from vcsbench.files import read_json, write_json
from vcsbench.measure.context import host
from vcsbench.run import byhand
from vcsbench.run.leftovers import MARK
from vcsbench.run.nodes import (
    CLEAN,
    FOLDER,
    Pin,
    collect,
    is_measured,
    make_folder,
    node_name,
    of_share,
)
from vcsbench.run.orphans import end_when_told
from vcsbench.run.project import BLOCKS, Project

# What all nodes of a class agree on, and how it is said.
FACTS = {
    "cpu": "processor",
    "processors": "number of processors",
    "memory_gib": "memory in GiB",
    "kernel": "kernel",
    "os": "system",
}
CLASS = f"{FOLDER}/class.json"
CONFIG = ".vcsbench/share.json"
# Of a workflow that this one is a part of.
NOT_PASSED_ON = (MARK, "SNAKEMAKE_PROFILE")
NAMED = 5


def main(number: str, record: str) -> int:
    """Measure, and write the record: which node each block had, and what was lost or refused. Returns the
    exit code."""
    end_when_told()
    os.umask(0o022)  # the servers run as another user
    root, share, node = Path.cwd(), int(number), node_name()
    work = read_json(of_share(root, share, "work"))
    pin = Pin(root, share)
    try:
        if pin.failed == work["run"]:
            raise UserError(f"{pin.why} (it is not tried again before the next run)")
        folder = _settle(root, share, node, work, pin)
        _run(folder, work, [*_missing(folder, work, collect(root, share, work), node)])
        found = collect(root, share, work)
        if left := [block for block in work["blocks"] if block not in found]:
            why = f"{node}: not all was measured of {_some(left)}; the log above says why"
            pin.failed, pin.why = work["run"], why
            pin.write()
            raise UserError(why)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    said = {"node": pin.node, "blocks": found, "lost": pin.lost, "refused": pin.refused}
    write_json(record, said)
    return 0


def clean(folder: Path) -> int:
    """Remove what lies on a node for its folder, there; says what. Returns the exit code."""
    try:
        said = read_json(folder / CONFIG)
        print("\n".join(byhand.clean(Project(said, folder, [folder / CONFIG]))) if said else "")
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _settle(root: Path, share: int, node: str, work: Mapping[str, Any], pin: Pin) -> Path:
    """Take the share over, on a node that is as it should be; returns its folder."""
    if node == work["head"]:
        raise UserError(f"{node}: is where the run was started: nothing is measured there")
    usable, there = len(os.sched_getaffinity(0)), os.cpu_count()
    if usable != there:
        raise UserError(
            f"{node}: the job may use {usable} of the node's {there} processors; a measurement has the node "
            f"to itself: `cluster.cores: {there}`"
        )
    folder = make_folder(root, share, node)
    (folder / CONFIG).parent.mkdir(exist_ok=True)
    write_json(folder / CONFIG, work["config"])
    project = Project(work["config"], folder, [folder / "config" / "config.yaml", folder / CONFIG])
    if why := _why_other(root, node, work, project):
        pin.refuse(node, why)
        raise UserError(f"{node}: is refused: {why}")
    found = collect(root, share, work)
    pin.move(node, [block for block in work["blocks"] if block not in found])
    return folder


def _why_other(root: Path, node: str, work: Mapping[str, Any], project: Project) -> str:
    """Why a node is not one of the class that the run is measured on; "" if it is. The first node that
    measures says what the class is."""
    about = host()
    facts = {
        "cpu": about["cpu"],
        "processors": os.cpu_count(),
        "memory_gib": round((about["memory_bytes"] or 0) / 2**30),
        "kernel": about["kernel"],
        "os": about["os"],
    }
    plan = project.plan
    for name, digest in work["digests"].items():
        study, _, path = name.partition("/")
        if plan.digest(study, path) != digest:
            skipped = [cell.skip for cell in plan.grids[study] if cell.path == path and cell.skip]
            return (
                f"{name} is another measurement there than where the run was started: "
                f"{skipped[0] if skipped else 'its programs, rights or storage differ'}"
            )
    known = _class_of(root, node, facts)
    for key, says in FACTS.items():
        if known.get(key) != facts[key]:
            return f"its {says} is {facts[key]}, and {known['node']}'s is {known.get(key)}"
    return ""


def _class_of(root: Path, node: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What the class is: what its first node found, of several that begin at once only one."""
    path = root / CLASS
    if not path.exists():
        mine = path.with_name(f".{node}.{path.name}.new")
        write_json(mine, {"node": node, **facts})
        with suppress(FileExistsError):
            os.link(mine, path)
        mine.unlink()
    return read_json(path)


def _missing(
    folder: Path, work: Mapping[str, Any], found: Mapping[str, str], node: str
) -> list[str]:
    """What is to be measured here: what is not whole on another node."""
    blocks = {block: e for block, e in work["blocks"].items() if found.get(block, node) == node}
    exports = [
        export
        for of_block in blocks.values()
        for export in of_block
        if not is_measured(folder / export, work["digests"])
    ]
    others = [file for file in work["others"] if not (folder / file).exists()]
    return [*exports, *others]


def _run(folder: Path, work: Mapping[str, Any], targets: list[str]) -> None:
    """Run the workflow in the node's folder up to the targets."""
    if not targets:
        return
    command = [
        *(sys.executable, "-m", "snakemake", "--snakefile", str(folder / "Snakefile")),
        *("--directory", str(folder), "--configfile", str(folder / CONFIG), "--cores", "all"),
        *("--nolock", "--keep-going", "--rerun-incomplete", "--", *targets),
    ]
    environment = {k: v for k, v in os.environ.items() if k not in NOT_PASSED_ON}
    environment[BLOCKS] = "\n".join(work["blocks"])
    # What it says belongs into the log of the share.
    subprocess.run(
        processes.tied(command, "TERM"),
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
    )


def _some(names: list[str]) -> str:
    return words.enumeration(names[:NAMED]) + (", ..." if len(names) > NAMED else "")


if __name__ == "__main__":
    cleans = sys.argv[1] == CLEAN
    sys.exit(clean(Path(sys.argv[2])) if cleans else main(*sys.argv[1:]))
