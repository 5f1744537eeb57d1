"""A job on a node of a cluster: python -m vcsbench.run.node JOB ATTEMPT RECORD, or --clean FOLDER.

It prepares on this node's storage, and measures cell after cell as on a workstation.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from vcsbench import processes, words
from vcsbench.environment import RUN_ROOT
from vcsbench.errors import UserError
from vcsbench.files import read_json, write_json
from vcsbench.machine import host, node_name
from vcsbench.run.cluster import (
    CLEAN,
    FOLDER,
    NodeAssignment,
    NodeWork,
    collect_jobs,
    make_node_folder,
)
from vcsbench.run.job import LONG_GRACE_S, end_with_shell, exit_on_signals
from vcsbench.run.project import Project, clean_checkout

CLASS = f"{FOLDER}/node-class.json"
CONFIG = ".vcsbench/node.json"
# The workflow on the node is another one.
NOT_INHERITED = (RUN_ROOT, "SNAKEMAKE_PROFILE")
NAMED = 5


def main(number: str, attempt: str, record: str) -> int:
    """Measure, and write the record: the node of each block, and lost and rejected nodes.

    The next attempts of Snakemake do not try a job again that failed for good. Return the exit code.
    """
    end_with_shell()
    exit_on_signals(grace_s=LONG_GRACE_S)
    os.umask(0o022)
    root, job, node = Path.cwd(), int(number), node_name()
    work, assignment = NodeWork.read(root, job), NodeAssignment.read(root, job)
    try:
        if attempt != "1" and assignment.reason:
            raise UserError(f"{assignment.reason} It is not tried again in this workflow run.")
        assignment.fail("")
        folder = _enter(root, node, work, assignment)
        _run(folder, _missing(folder, work, collect_jobs(root, job, work), node))
        found = collect_jobs(root, job, work)
        if left := [block for block in work.blocks if block not in found]:
            names = words.enumeration(left[:NAMED]) + (", ..." if len(left) > NAMED else "")
            assignment.fail(f"{node}: some cells of {names} were not measured. See the log above.")
            raise UserError(assignment.reason)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    lost, rejected = assignment.lost, assignment.rejected
    write_json(record, {"node": node, "blocks": found, "lost": lost, "rejected": rejected})
    return 0


def _enter(root: Path, node: str, work: NodeWork, assignment: NodeAssignment) -> Path:
    if node == work.head:
        raise UserError(
            f"{node}: the workflow run was started on this node, so nothing is measured here. Start it on "
            f"another one."
        )
    if (usable := len(os.sched_getaffinity(0))) != (total := os.cpu_count()):
        raise UserError(
            f"{node}: the job may use {usable} of {total} processors. A measurement needs the whole node: "
            f"set `cluster.cores: {total}`."
        )
    folder = make_node_folder(root, assignment.job, node)
    (folder / CONFIG).parent.mkdir(exist_ok=True)
    write_json(folder / CONFIG, work.config)
    project = Project(work.config, folder, [folder / "config" / "config.yaml", folder / CONFIG])
    if reason := _difference(root, node, work, project):
        assignment.reject(node, reason)
        raise UserError(
            f"{node}: the node is rejected: {reason.removesuffix('.')}. Name equal nodes in `cluster.nodes`, "
            f"or a class in `cluster.class`."
        )
    found = collect_jobs(root, assignment.job, work)
    assignment.move(node, [block for block in work.blocks if block not in found])
    return folder


def _difference(root: Path, node: str, work: NodeWork, project: Project) -> str:
    """Return how a node differs from the others of the run, or ""."""
    plan = project.plan
    for name, digest in work.digests.items():
        study, _, path = name.partition("/")
        if plan.digest(study, path) != digest:
            skipped = [cell.skip for cell in plan.grids[study] if cell.path == path and cell.skip]
            reason = skipped[0] if skipped else "its programs, rights or storage differ"
            return f"it would measure {name} differently than the login node: {reason}"
    about = host()
    facts = {
        "processor": about["cpu"],
        "number of processors": os.cpu_count(),
        "memory in GiB": round((about["memory_bytes"] or 0) / 2**30),
        "kernel": about["kernel"],
        "system": about["os"],
    }
    record = root / CLASS
    if not record.exists():
        # If several nodes start at once, one of them defines the class.
        mine = record.with_name(f".{node}.{record.name}.new")
        write_json(mine, {"node": node, **facts})
        with suppress(FileExistsError):
            os.link(mine, record)
        mine.unlink()
    known = read_json(record)
    for name, fact in facts.items():
        if known.get(name) != fact:
            return f"its {name} is {fact}, but {known.get(name)} on {known['node']}"
    return ""


def _missing(folder: Path, work: NodeWork, found: Mapping[str, str], node: str) -> list[str]:
    exports = [
        export
        for block, exports in work.blocks.items()
        if found.get(block, node) == node
        for export in exports
        if not work.is_measured(folder, export)
    ]
    return [*exports, *(file for file in work.others if not (folder / file).exists())]


def _run(folder: Path, targets: list[str]) -> None:
    if not targets:
        return
    command = [
        *(sys.executable, "-m", "snakemake", "--snakefile", str(folder / "Snakefile")),
        *("--directory", str(folder), "--configfile", str(folder / CONFIG), "--cores", "all"),
        *("--nolock", "--keep-going", "--rerun-incomplete", "--", *targets),
    ]
    environment = {k: v for k, v in os.environ.items() if k not in NOT_INHERITED}
    options = {"cwd": folder, "stdout": sys.stderr}
    with processes.background(command, signal="TERM", env=environment, **options) as process:
        process.wait()


if __name__ == "__main__":
    if sys.argv[1] != CLEAN:
        sys.exit(main(*sys.argv[1:]))
    place = Path(sys.argv[2])
    try:
        configuration = read_json(place / CONFIG)
        lines = clean_checkout(configuration, place, [place / CONFIG]) if configuration else []
    except UserError as error:
        sys.exit(str(error))
    print("\n".join(lines))
