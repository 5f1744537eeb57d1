"""A job on a node of a cluster: python -m vcsbench.run.node ROOT JOB ATTEMPT RECORD, or --clean FOLDER.

It prepares on this node's storage, and measures cell after cell as on a workstation.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from vcsbench import processes, words
from vcsbench.environment import RUN_ROOT
from vcsbench.errors import UserError, accept_all_characters, printable, sentence_of
from vcsbench.files import read_json, write_json
from vcsbench.machine import host, node_name
from vcsbench.plan.plan import Plan
from vcsbench.run import cluster
from vcsbench.run.cleaning import clean_checkout
from vcsbench.run.cluster import NodeAssignment, NodeWork
from vcsbench.run.job import LONG_GRACE_S, end_with_shell, exit_on_signals
from vcsbench.run.project import Project

# The hardware and the system of the first node of a run, which all others must have.
CLASS = f"{cluster.CLUSTER_FOLDER}/node-class.json"
CONFIG = ".vcsbench/node.json"
# Variables of the run that started the job. The workflow on the node is a run of its own.
NOT_INHERITED = (RUN_ROOT, "SNAKEMAKE_PROFILE")
# How many unfinished blocks an error names.
MAX_NAMED_BLOCKS = 5


def main(root: Path, number: str, attempt: str, record: str) -> int:
    """Measure the blocks of a job on this node of a cluster, write its record, and return the code 0 or 1.

    `root` is the checkout of the login node, `number` is the job from 1, and `attempt` counts its starts in
    this workflow run. The file `record` gets the node of each block (cells that are measured together). It
    also gets the nodes that the job has left (`lost`), and those that differ from others (`rejected`).
    """
    end_with_shell()
    exit_on_signals(grace_s=LONG_GRACE_S)
    os.umask(0o022)  # the servers, which run as another user, read the files
    job = int(number)
    node = node_name()
    work = NodeWork.read(root, job)
    assignment = NodeAssignment.read(root, job)
    try:
        # Only a failure that another attempt would repeat has a stored reason.
        if attempt != "1" and assignment.reason:
            raise UserError(f"{assignment.reason} It is not tried again in this workflow run.")
        # This removes the reason of an earlier workflow run.
        assignment.fail("")
        node_by_block = _measure_blocks(root, node, work, assignment)
        content = {
            "node": node,
            "blocks": node_by_block,
            "lost": assignment.lost,
            "rejected": assignment.rejected,
        }
        write_json(record, content)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        # For example, the disk is full, or Snakemake cannot be started. Further attempts would fail again.
        reason = printable(f"{node}: {sentence_of(error)}")
        # The assignment may be on the full disk.
        with suppress(OSError):
            assignment.fail(reason)
        print(reason, file=sys.stderr)
        return 1
    return 0


def _measure_blocks(
    root: Path, node: str, work: NodeWork, assignment: NodeAssignment
) -> dict[str, str]:
    """Measure the unfinished blocks of a job on this node, and return the node of each block.

    If some cells were not measured, store that as the reason why the job failed, and raise UserError.
    """
    folder = _prepare_node(root, node, work, assignment)
    # Some blocks may be complete already, on this node or an earlier one.
    node_of_complete_block = cluster.collect_job(root, assignment.job, work)
    # If some files fail, their blocks are not complete afterwards.
    _run(folder, _missing_files(folder, work, node_of_complete_block, node))
    node_by_block = cluster.collect_job(root, assignment.job, work)
    unfinished = [block for block in work.blocks if block not in node_by_block]
    if unfinished:
        names = words.enumeration(unfinished[:MAX_NAMED_BLOCKS])
        more = ", ..." if len(unfinished) > MAX_NAMED_BLOCKS else ""
        reason = f"{node}: some cells of {names}{more} were not measured. See the log above."
        assignment.fail(reason)
        raise UserError(reason)
    return node_by_block


def _prepare_node(root: Path, node: str, work: NodeWork, assignment: NodeAssignment) -> Path:
    """Make the checkout in which this node measures, assign the job to the node, and return the checkout.

    A job is a share of the run's blocks, for one node at a time, and `assignment` stores which one. `root` is
    the checkout of the login node. Raise UserError if the node may not measure, or differs from other nodes.
    """
    _check_node(node, work)
    # On this node, the job is a workflow of its own, with the configuration of `work`.
    folder = cluster.make_node_folder(root, assignment.job, node)
    config_file = folder / CONFIG
    config_file.parent.mkdir(exist_ok=True)
    write_json(config_file, work.config)
    # An error in the configuration names the file that has the key: the user's, or the file of the node.
    project = Project(work.config, folder, [folder / "config" / "config.yaml", config_file])
    reason = _why_rejected(root, node, work, project.plan)
    if reason:
        assignment.reject(node, reason)
        raise UserError(
            f"{node}: the node is rejected: {reason.removesuffix('.')}. Name equal nodes in `cluster.nodes`, "
            f"or a class in `cluster.class`."
        )
    # If another node had the job before, it was lost. The assignment stores that, and which blocks that node
    # has not finished.
    node_by_block = cluster.collect_job(root, assignment.job, work)
    unfinished = [block for block in work.blocks if block not in node_by_block]
    assignment.move(node, unfinished)
    return folder


def _check_node(node: str, work: NodeWork) -> None:
    """Raise UserError on the login node (`work.head`), and if the job may not use all processors here."""
    if node == work.head:
        raise UserError(
            f"{node}: the workflow run was started on this node, so nothing is measured here. Start it on "
            f"another one."
        )
    usable = len(os.sched_getaffinity(0))
    total = os.cpu_count()
    if usable != total:
        raise UserError(
            f"{node}: the job may use {usable} of {total} processors. A measurement needs the whole node: "
            f"set `cluster.cores: {total}`."
        )


def _why_rejected(root: Path, node: str, work: NodeWork, plan: Plan) -> str:
    """Return how this node differs from the login node, or from the run's first node; "" if it does not.

    `work.digests` has the digest of each recipe on the login node, and `plan` was made on this node. A recipe
    depends on programs and rights, so its two digests differ if these differ.
    """
    for name, digest in work.digests.items():
        study, _, path = name.partition("/")
        if plan.digest(study, path) == digest:
            continue
        # If this node cannot measure the cell, its `skip` is a more exact reason.
        reason = "its programs, rights or storage differ"
        for cell in plan.grids[study]:
            if cell.path == path and cell.skip:
                reason = cell.skip
        return f"it would measure {name} differently than the login node: {reason}"
    # The login node measures nothing, so its hardware may differ.
    return _why_other_hardware(root, node)


def _why_other_hardware(root: Path, node: str) -> str:
    """Return in what the hardware or system of this node differs from the run's first node; "" if in nothing.

    Example: "its kernel is 6.1.0, but 5.15.0 on n1". The first node of the run writes its facts to the file
    CLASS below `root`, and is then compared with itself.
    """
    machine = host()
    # The names are parts of the returned clause.
    facts = {
        "processor": machine["cpu"],
        "number of processors": os.cpu_count(),
        # The bytes that the kernel reports differ by some MiB between equal nodes, so they are rounded.
        "memory in GiB": round((machine["memory_bytes"] or 0) / 2**30),
        "kernel": machine["kernel"],
        "system": machine["os"],
    }
    record = root / CLASS
    if not record.exists():
        # If several nodes start at once, the one whose link succeeds is the first node.
        new = record.with_name(f".{node}.{record.name}.new")
        write_json(new, {"node": node, **facts})
        with suppress(FileExistsError):
            os.link(new, record)
        new.unlink()
    facts_of_first = read_json(record)
    for name, fact in facts.items():
        first_fact = facts_of_first.get(name)
        if first_fact != fact:
            return f"its {name} is {fact}, but {first_fact} on {facts_of_first['node']}"
    return ""


def _missing_files(
    folder: Path, work: NodeWork, node_by_block: Mapping[str, str], node: str
) -> list[str]:
    """Return the files of the job that this node has to make in its checkout `folder`, such as exports.

    `node_by_block` has the node of each complete block.
    """
    missing = []
    for block, exports in work.blocks.items():
        # A block that another node has completed is not measured again.
        if node_by_block.get(block) not in (None, node):
            continue
        for export in exports:
            if not work.is_measured(folder, export):
                missing.append(export)
    for file in work.others:
        if not (folder / file).exists():
            missing.append(file)
    return missing


def _run(folder: Path, targets: list[str]) -> None:
    """Make the files `targets` by Snakemake in the checkout of this node, as far as that succeeds."""
    if not targets:
        return
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(folder / "Snakefile")]
    command += ["--directory", str(folder), "--configfile", str(folder / CONFIG), "--cores", "all"]
    # If this node was lost before, it may have left Snakemake's lock. The scheduler runs each job only once
    # at a time, so no other Snakemake works here.
    command += ["--nolock", "--keep-going", "--rerun-incomplete", "--", *targets]
    environment = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    with processes.background(
        command, signal="TERM", env=environment, cwd=folder, stdout=sys.stderr
    ) as process:
        process.wait()


def clean_folder(folder: Path) -> int:
    """Remove the files of vcsbench from this node's storages, print them, and return the exit code."""
    try:
        configuration = read_json(folder / CONFIG)
        # Without a configuration, nothing was prepared.
        if configuration:
            print("\n".join(clean_checkout(configuration, folder, [folder / CONFIG])))
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(printable(sentence_of(error, folder)), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    accept_all_characters()
    if sys.argv[1] == cluster.CLEAN:
        sys.exit(clean_folder(Path(sys.argv[2])))
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
