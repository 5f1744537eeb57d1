"""A run on a cluster, as the login node sees it: blocks of cells in jobs, one job per node.

A node works in nodes/job<n>/<node>, a checkout with the same files. All nodes see both. A block is named by
its study and its values, for example "fsfs-san-2014/log/cold/svn".
"""

import datetime
import hashlib
import json
import os
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self, TypedDict

from vcsbench import processes
from vcsbench.files import read_json, write_bytes, write_json
from vcsbench.machine import node_name
from vcsbench.plan.plan import Plan
from vcsbench.plan.result_state import NOTHING, is_readable, is_up_to_date, read_context
from vcsbench.result_paths import CellRound
from vcsbench.storages.file_trees import remove_path

CLUSTER_FOLDER = "results/cluster"
# The job of each block. A block stays on its node from run to run.
BLOCKS = f"{CLUSTER_FOLDER}/blocks.json"
NODES = "nodes"
# Folders of the checkout that each node has for itself. It shares all others by links.
UNSHARED = ("results", "reports", ".snakemake", ".vcsbench", NODES)
# Beginnings of the states of nodes that Slurm has lost. An ending * means lost, too.
LOST_STATES = ("down", "drain", "fail", "unk", "err", "power", "future")
SINFO_TIMEOUT_S = 30
SINFO_VALID_S = 60
# Without a scheduler that reports lost nodes, attempts from this one on go to another node.
FIRST_ATTEMPT_ELSEWHERE = 3
CLEAN = "--clean"


def _read_fields(cls: type, path: Path) -> dict[str, Any]:
    """Return the fields of a dataclass that a JSON file has. Files of other versions have other fields."""
    content = read_json(path)
    return {field.name: content[field.name] for field in fields(cls) if field.name in content}


@dataclass(frozen=True)
class NodeWork:
    """The work of a job, in the file job<n>.work.json, which the rule `node_work` writes.

    - `digests`: the digest of each recipe by study and path, such as {"fsfs-san-2014/log/svn": "1a2b3c4d"}.
    - `blocks`: the exports of each block: {"fsfs-san-2014/log": [".../log/svn/round1.json", ...]}.
    - `others`: files next to the exports, which have counts of system calls.
    - `head`: the login node. `config`: the merged configuration of the run.
    """

    digests: dict[str, str] = field(default_factory=dict)
    blocks: dict[str, list[str]] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    head: str = ""
    config: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, root: Path, job: int) -> Self:
        """Return the work of a job; no work if its file is missing or unreadable."""
        return cls(**_read_fields(cls, job_file(root, job, "work")))

    def is_measured(self, folder: Path, export: str) -> bool:
        """Return True if a node's folder has a readable result that was measured with the recipe of the work.

        `export` is the path of the result below `folder`: "results/cells/fsfs-san-2014/log/svn/round1.json".
        """
        result = CellRound.parse(export)
        digest = self.digests.get(f"{result.study}/{result.cell}", "")
        result_of_node = result.below(folder)
        return is_readable(result_of_node) and is_up_to_date(result_of_node, digest)


def job_file(root: Path, job: int, kind: str) -> Path:
    """Return a file about a job. The kinds are "work" and "assignment"."""
    return root / CLUSTER_FOLDER / f"job{job}.{kind}.json"


def make_node_folder(root: Path, job: int, node: str) -> Path:
    """Make the checkout of a node, with links to the files of the login node's checkout, and return it."""
    folder = root / NODES / f"job{job}" / node
    folder.mkdir(parents=True, exist_ok=True)
    for path in root.iterdir():
        link = folder / path.name
        if path.name not in UNSHARED and not os.path.lexists(link):
            # Relative, because nodes may mount the shared file system elsewhere.
            link.symlink_to(os.path.relpath(path, folder), path.is_dir())
    return folder


class LostNode(TypedDict):
    """A node that a job left: the node, the time, the next node (`to`), and the unfinished blocks."""

    node: str
    at: str
    to: str
    blocks: list[str]


class RejectedNode(TypedDict):
    """A node that cannot measure a job, and why."""

    node: str
    reason: str


@dataclass
class NodeAssignment:
    """The node of a job, and the nodes that it cannot use, in the file job<n>.assignment.json.

    `node` is "" before the first start. `reason` is why the job failed for good in the last run, or "".
    """

    root: Path
    job: int
    node: str = ""
    lost: list[LostNode] = field(default_factory=list)
    rejected: list[RejectedNode] = field(default_factory=list)
    reason: str = ""

    @classmethod
    def read(cls, root: Path, job: int) -> Self:
        return cls(root, job, **_read_fields(cls, job_file(root, job, "assignment")))

    def write(self) -> None:
        content = asdict(self)
        del content["root"], content["job"]
        write_json(job_file(self.root, self.job, "assignment"), content)

    def move(self, node: str, unfinished: list[str]) -> None:
        """Assign the job to a node. Another node before counts as lost, with its `unfinished` blocks."""
        if self.node and self.node != node:
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            self.lost.append({"node": self.node, "at": now, "to": node, "blocks": unfinished})
        self.node = node
        self.write()

    def reject(self, node: str, reason: str) -> None:
        """Store why the job cannot use a node. A new reason replaces an earlier one."""
        self.rejected = [each for each in self.rejected if each["node"] != node]
        self.rejected.append({"node": node, "reason": reason})
        self.write()

    def fail(self, reason: str) -> None:
        self.reason = reason
        self.write()


def collect_job(root: Path, job: int, work: NodeWork) -> dict[str, str]:
    """Copy the results of a job from its nodes to the checkout, and return the node of each complete block.

    Example of the result: {"fsfs-san-2014/log": "n1"}. If a node is lost, its job moves to another one, so
    several nodes may have results. The cells of a block are compared, so all results of a block are taken
    from one node: one that has completed the block, otherwise the present one, which will complete it.
    """
    assignment = NodeAssignment.read(root, job)
    # The node where the job runs now, or ran last; "" before its first start.
    present_node = assignment.node
    # The folders of all nodes where the job has run, by the name of the node.
    folders = {path.name: path for path in (root / NODES / f"job{job}").glob("*")}
    # The present node comes last, so a block stays with an earlier node that has completed it.
    nodes = sorted(folders.keys() - {present_node})
    if present_node in folders:
        nodes.append(present_node)
    node_by_block: dict[str, str] = {}
    # `exports` are the result files of a block, one for each cell and round.
    for block, exports in work.blocks.items():
        for node in nodes:
            if all(work.is_measured(folders[node], export) for export in exports):
                node_by_block[block] = node
                break

    for block, exports in work.blocks.items():
        source_node = node_by_block.get(block, present_node)
        # Before its first start, a job has no node and no folder.
        if source_node in folders:
            for export in exports:
                _copy_result(folders[source_node], root, export, work)
    if present_node in folders:
        # Counts of system calls (`work.others`) are no results of a block. The present node makes all of them
        # (run.node), so those of other nodes are not needed.
        for file in work.others:
            _copy(folders[present_node] / file, root / file)
    # Reports depend on the time of this file (Cluster.records).
    assignment.write()
    return node_by_block


def _copy_result(folder: Path, root: Path, export: str, work: NodeWork) -> None:
    """Copy the log, context and export of a cell-round from the folder of a node to the checkout `root`.

    If the node has no readable result that was measured with the recipe in `work`, copy the log only, and
    remove another node's result from the checkout.
    """
    result = CellRound.parse(export)
    # Without a result, the log has the reason.
    _copy(folder / result.log, root / result.log)
    if not work.is_measured(folder, export):
        # Until this node has measured the cell-round, the checkout must not have another node's result: a
        # ratio would compare two nodes. `folder` has the name of the node.
        context = read_context(root / result.context)
        measured_on = "" if context is None else context["host"].get("name", "")
        if (root / export).exists() and measured_on != folder.name:
            (root / export).unlink()
        return
    # An export must never stand next to the context of another run, also after a kill between two copies.
    if not _is_same(folder / result.context, root / result.context):
        (root / export).unlink(missing_ok=True)
    _copy(folder / result.context, root / result.context)
    _copy(folder / export, root / export)


def _is_same(source: Path, copy: Path) -> bool:
    return copy.exists() and source.exists() and copy.read_bytes() == source.read_bytes()


def _copy(source: Path, copy: Path) -> None:
    """Copy a file with its times, unless it is missing or copied already: Snakemake compares times."""
    if source.exists() and not _is_same(source, copy):
        copy.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(copy, source.read_bytes())
        shutil.copystat(source, copy)


def assign_blocks(
    sizes: Mapping[str, int], count: int, before: Mapping[str, int]
) -> dict[str, int]:
    """Distribute blocks to jobs, and return the job of each block, from 1 to `count`.

    `sizes` has the number of cells of each block, and `before` the job of each block in the last run. For
    {"a": 4, "b": 2, "c": 2}, two jobs and no last run ({}), the result is {"a": 1, "b": 2, "c": 2}.
    """
    # A block keeps its job. Each job has a node of its own, so in another job, another node would have to
    # measure the block again. If this run has fewer jobs than the last one, some blocks lose their job.
    jobs = {block: before[block] for block in sizes if 1 <= before.get(block, 0) <= count}
    cells_of_job = dict.fromkeys(range(1, count + 1), 0)
    for block, job in jobs.items():
        cells_of_job[job] += sizes[block]
    # The blocks without a job go one by one, the largest first, to the job with the fewest cells.
    without_job = sizes.keys() - jobs.keys()
    for block in sorted(without_job, key=lambda block: (-sizes[block], block)):
        job = min(cells_of_job, key=lambda job: (cells_of_job[job], job))
        jobs[block] = job
        cells_of_job[job] += sizes[block]
    return jobs


class Cluster:
    """The jobs of a run and their nodes."""

    def __init__(self, plan: Plan) -> None:
        """Read the nodes, and the block of each cell. Raise UserError for a relative path of a folder."""
        self.plan = plan
        self.root = plan.root
        self.settings = plan.config.settings.cluster
        # The keys of a folder are, for example, ("storages", "disk").
        for keys, folder in plan.config.folders.items():
            if not os.path.isabs(folder):
                raise plan.config.error(
                    keys,
                    f"{folder!r} is a relative path. On a cluster each node works in a folder of its own: "
                    f"use an absolute path.",
                )
        # The configuration has the names of nodes, or only their number. There is a job for each node.
        nodes = self.settings.nodes
        self.nodes = nodes if isinstance(nodes, list) else []
        self.count = len(nodes) if isinstance(nodes, list) else nodes
        # A resource of each job: Slurm chooses a node with this feature.
        node_class = self.settings.node_class
        self.constraint = {"constraint": node_class} if node_class else {}
        self.cores = self.settings.cores or 1
        # Example: {("fsfs-san-2014", "log/svn"): "fsfs-san-2014/log"}.
        self._block_by_cell: dict[tuple[str, str], str] = {}
        for cell in plan.cells:
            self._block_by_cell[cell.study, cell.path] = f"{cell.study}/{plan.name_of_block(cell)}"

    @cached_property
    def jobs(self) -> dict[str, int]:
        """Return the job of each block."""
        stored = read_json(self.root / BLOCKS)
        return assign_blocks(Counter(self._block_by_cell.values()), self.count, stored)

    def store_jobs(self) -> None:
        """Store the job of each block for later runs. Blocks that this run lacks keep their stored jobs."""
        path = self.root / BLOCKS
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, read_json(path) | self.jobs)

    def records(self) -> list[str]:
        """Return the files on which the rule that collects the measurements depends.

        If the run measures, they are the records of the nodes' jobs. Snakemake starts each job without a
        record, also a job that failed. But a run that measures nothing must start no job. So it depends on
        the existing assignments. An assignment is newer than measurements that lack results of its job
        (collect_job), so Snakemake collects them again.
        """
        jobs = sorted(set(self.jobs.values()))
        if self.plan.config.settings.measure == NOTHING:
            files = [job_file(self.root, job, "assignment") for job in jobs]
            return [str(file.relative_to(self.root)) for file in files if file.exists()]
        return [f"{CLUSTER_FOLDER}/job{job}.json" for job in jobs]

    @cache  # noqa: B019 - one instance
    def work(self, job: int) -> NodeWork:
        """Return the work of a job: the cell-rounds of its blocks, and the configuration for its node.

        The work also has the digest of each cell's recipe, which covers programs and rights. A node with
        other programs computes another digest, and refuses to measure.
        """
        exports_by_block: dict[str, list[str]] = {}
        digests: dict[str, str] = {}
        trace_files = []
        for cell in self.plan.cells:
            block = self._block_by_cell[cell.study, cell.path]
            if self.jobs[block] != job:
                continue
            exports_by_block.setdefault(block, []).extend(self.plan.exports_of(cell))
            digests[f"{cell.study}/{cell.path}"] = self.plan.digest(cell.study, cell.path)
            # Several cells share one count of system calls. Only the cell that is traced for them has a file.
            trace_file_by_cell = self.plan.trace_files(cell.study)
            if cell.path in trace_file_by_cell:
                trace_files.append(trace_file_by_cell[cell.path])
        # The user's configuration (`content`) may have `minutes` in place of `rounds`. A cluster ignores the
        # minutes, and measures the least number of rounds, which only `settings` has.
        rounds = self.plan.config.settings.rounds
        keys_for_node = {"rounds": rounds, "blocks": list(exports_by_block)}
        return NodeWork(
            digests=dict(sorted(digests.items())),
            blocks=exports_by_block,
            others=sorted(trace_files),
            # This machine is the login node, which must not measure.
            head=os.uname().nodename,
            config={**self.plan.config.content, **keys_for_node},
        )

    def digest(self, job: int) -> str:
        """Return a digest of a job's cells. If it changes, Snakemake starts the job for the missing ones."""
        work = self.work(job)
        # The configuration is left out: a change that concerns no cell must not start the job.
        text = json.dumps([work.digests, work.blocks, work.others], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def host(self, job: int, attempt: int) -> str:
        """Return the node on which a job has to run; "" if the scheduler may choose one.

        The node is the one where the job ran before, otherwise the job's node in the configuration, if this
        node is not avoided or lost. `attempt` counts the starts of the job in this run, from 1.
        """
        node = NodeAssignment.read(self.root, job).node
        if node:
            # Slurm's `sinfo` reports lost nodes. Without sinfo, the job could wait for a lost node for ever.
            if attempt >= FIRST_ATTEMPT_ELSEWHERE and not shutil.which("sinfo"):
                return ""
        elif self.nodes:
            node = self.nodes[job - 1]
        is_usable = node not in self.avoided(job) and not is_lost(node)
        return node if is_usable else ""

    def avoided(self, job: int) -> list[str]:
        """Return the nodes on which a job must not run: lost ones, and those that cannot measure it."""
        assignment = NodeAssignment.read(self.root, job)
        used = [assignment.node, *(each["node"] for each in assignment.lost)]
        # A node that was lost once, and has come back, can be used again.
        lost = [node for node in used if is_lost(node)]
        rejected = [each["node"] for each in assignment.rejected]
        return sorted({*lost, *rejected})

    def slurm_extra(self, job: int, attempt: int) -> str:
        """Return the options of sbatch for a job, for example "--exclusive --nodelist=n1".

        Snakemake's executor for Slurm submits, watches and retries jobs, but binds no job to a node.
        """
        host = self.host(job, attempt)
        if host:
            return f"--exclusive --nodelist={host}"
        avoided = ",".join(self.avoided(job))
        return f"--exclusive --exclude={avoided}" if avoided else "--exclusive"


def is_lost(node: str) -> bool:
    """Return True if Slurm reports that a node takes no jobs; False without Slurm."""
    # Snakemake computes the resources of all jobs at once, and minutes later again for a further attempt. So
    # one output of sinfo serves all jobs for SINFO_VALID_S.
    period = int(time.monotonic() / SINFO_VALID_S)
    states = _states_of_nodes(period).get(node, [])
    if not states:
        return False
    # A node is in several partitions, each with a state.
    return all(state.startswith(LOST_STATES) or state.endswith("*") for state in states)


@cache
def _states_of_nodes(period: int) -> dict[str, list[str]]:
    """Return the states of each node, one for each of its partitions, such as {"n1": ["idle"]}.

    A new `period` has no entry in the cache, so sinfo is run again.
    """
    # A line is, for example, "n1 idle".
    command = ["sinfo", "-h", "-N", "-o", "%N %T"]
    # sinfo finds its cluster by variables of the environment.
    done = processes.run_program(
        command, env={**os.environ}, limit_s=SINFO_TIMEOUT_S, may_fail=True
    )
    states: dict[str, list[str]] = {}
    for line in done.output.splitlines():
        node, _, state = line.partition(" ")
        states.setdefault(node, []).append(state.lower())
    return states


def clean_nodes(root: Path) -> list[str]:
    """Remove the files of a checkout on its nodes. Return a line for each removed folder."""
    lines = []
    for folder in sorted((root / NODES).glob("job*/*")):
        lines += _clean_node(root, folder)
    for parent in [*(root / NODES).glob("job*"), root / NODES]:
        # The folder of a node that was not cleaned stays.
        with suppress(OSError):
            parent.rmdir()
    return lines


def _clean_node(root: Path, folder: Path) -> list[str]:
    """Clean a node by a program that runs on it, remove its folder, and return the lines to print.

    Only the node itself sees its local storages. `folder` is nodes/job<n>/<node>. If cleaning fails, the
    folder stays, and the line has the command to run by hand.
    """
    arguments = ["-m", "vcsbench.run.node", CLEAN, str(folder)]
    command = [sys.executable, *arguments]
    if folder.name != node_name():
        # srun gives up if the node is not free within 30 s.
        on_node = ["srun", f"--nodelist={folder.name}", "--nodes=1", "--immediate=30"]
        command = [*on_node, *command]
    environment = {**os.environ, "PYTHONPATH": str(root / "workflow")}
    done = processes.run_program(command, cwd=folder, env=environment, may_fail=True)
    if done.code:
        by_hand = shlex.join(["env", "PYTHONPATH=workflow", "python", *arguments])
        return [f"{folder.name}: not removed. On the node, run {by_hand}"]
    remove_path(folder)
    return [f"{folder.name}: {line}" for line in done.output.splitlines()]
