"""A run on a cluster, as the login node sees it: blocks of cells in jobs, one job per node.

A node works in nodes/job<n>/<node>, a checkout with the same files. All nodes see both.
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
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

from vcsbench import processes
from vcsbench.cell_rounds import CellRound
from vcsbench.files import (
    read_json,
    write_bytes,
    write_json,
)
from vcsbench.machine import node_name
from vcsbench.plan.plan import Block, Plan, shares_of
from vcsbench.plan.result_state import is_readable, is_up_to_date
from vcsbench.storages.file_trees import remove_path

FOLDER = "results/cluster"
# The job of each block, by study/block. A block stays on its node from run to run.
BLOCKS = f"{FOLDER}/blocks.json"
NODES = "nodes"
UNSHARED = ("results", "reports", ".snakemake", ".vcsbench", NODES)
# Beginnings of the states of nodes that Slurm has lost. An ending * means lost, too.
LOST = ("down", "drain", "fail", "unk", "err", "power", "future")
SINFO_TIMEOUT_S, SINFO_VALID_S = 30, 60
# Without a scheduler that reports lost nodes, attempts from this one on go to another node.
FIRST_ATTEMPT_ELSEWHERE = 3
CLEAN = "--clean"


@dataclass(frozen=True)
class NodeWork:
    """The work of a job, in the file job<n>.work.json, which the rule `node_work` writes.

    `digests` has the digest of each recipe by study/path, `blocks` the exports of each block by study/block,
    and `head` is the login node.
    """

    digests: dict[str, str] = field(default_factory=dict)
    blocks: dict[str, list[str]] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    head: str = ""
    config: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, root: Path, job: int) -> Self:
        return cls(**_read_fields(cls, job_file(root, job, "work")))

    def is_measured(self, folder: Path, export: str) -> bool:
        """Return True if an export in a folder is readable and was measured with the recipe of this work."""
        result = CellRound.parse(export)
        digest = self.digests.get(f"{result.study}/{result.cell}", "")
        copy = result.below(folder)
        return is_readable(copy) and is_up_to_date(copy, digest)


def _read_fields(model: type, path: Path) -> dict[str, Any]:
    """Return the fields in a job's file, without fields of another version of vcsbench."""
    known = {field.name for field in fields(model)}
    return {name: value for name, value in read_json(path).items() if name in known}


def job_file(root: Path, job: int, kind: str) -> Path:
    return root / FOLDER / f"job{job}.{kind}.json"


def make_node_folder(root: Path, job: int, node: str) -> Path:
    folder = root / NODES / f"job{job}" / node
    folder.mkdir(parents=True, exist_ok=True)
    for path in root.iterdir():
        link = folder / path.name
        if path.name not in UNSHARED and not os.path.lexists(link):
            link.symlink_to(os.path.relpath(path, folder), path.is_dir())
    return folder


@dataclass
class NodeAssignment:
    """The node of a job, and the nodes that it cannot use, in a file.

    `node` is "" before the first start. `reason` is why the job failed for good in the last run, or "".
    """

    root: Path
    job: int
    node: str = ""
    # The node that the job left, when, for which node (`to`), and the unfinished blocks.
    lost: list[dict[str, Any]] = field(default_factory=list)
    # The node, and the reason.
    rejected: list[dict[str, str]] = field(default_factory=list)
    reason: str = ""

    @classmethod
    def read(cls, root: Path, job: int) -> Self:
        return cls(root, job, **_read_fields(cls, job_file(root, job, "assignment")))

    def write(self) -> None:
        content = {k: v for k, v in asdict(self).items() if k not in ("root", "job")}
        write_json(job_file(self.root, self.job, "assignment"), content)

    def move(self, node: str, unfinished: list[str]) -> None:
        if self.node and self.node != node:
            at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            self.lost.append({"node": self.node, "at": at, "to": node, "blocks": unfinished})
        self.node = node
        self.write()

    def reject(self, node: str, reason: str) -> None:
        others = [each for each in self.rejected if each["node"] != node]
        self.rejected = [*others, {"node": node, "reason": reason}]
        self.write()

    def fail(self, reason: str) -> None:
        self.reason = reason
        self.write()


def collect_jobs(root: Path, job: int, work: NodeWork) -> dict[str, str]:
    """Copy the results of a job from its nodes. Return the node of each complete block.

    Only complete blocks are taken, except from the present node.
    """
    present, nodes = NodeAssignment.read(root, job).node, dict[str, str]()
    folders = {path.name: path for path in (root / NODES / f"job{job}").glob("*")}
    # A block that is complete on another node stays there.
    order = sorted(folders, key=lambda node: (node == present, node))
    for block, exports in work.blocks.items():
        complete = (n for n in order if all(work.is_measured(folders[n], e) for e in exports))
        if node := next(complete, ""):
            nodes[block] = node
        if folder := folders.get(node or present):
            for export in exports:
                _take(folder, root, export, work)
    if present in folders:
        for file in work.others:
            _copy(folders[present] / file, root / file)
    return nodes


def _take(folder: Path, root: Path, export: str, work: NodeWork) -> None:
    result = CellRound.parse(export)
    log, context = result.log, result.context
    _copy(folder / log, root / log)
    if not work.is_measured(folder, export):
        host = read_json(root / context).get("host", {}).get("name", "")
        if (root / export).exists() and host != folder.name:
            (root / export).unlink()
        return
    if not _is_same(folder / context, root / context):
        (root / export).unlink(missing_ok=True)
    _copy(folder / context, root / context)
    _copy(folder / export, root / export)


def _is_same(source: Path, copy: Path) -> bool:
    return copy.exists() and source.exists() and copy.read_bytes() == source.read_bytes()


def _copy(source: Path, copy: Path) -> None:
    if source.exists() and not _is_same(source, copy):
        copy.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(copy, source.read_bytes())
        shutil.copystat(source, copy)


class Cluster:
    """The jobs of a run and their nodes."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.root = plan.root
        self.settings = plan.config.settings.cluster
        for keys, folder in plan.config.folders.items():
            if not os.path.isabs(folder):
                raise plan.config.error(
                    keys,
                    f"{folder!r} is a relative path. On a cluster each node works in a folder of its own: "
                    f"use an absolute path.",
                )
        nodes, node_class = self.settings.nodes, self.settings.node_class
        self.nodes = nodes if isinstance(nodes, list) else []
        self.count = nodes if isinstance(nodes, int) else len(nodes)
        self.constraint = {"constraint": node_class} if node_class else {}
        self.cores = self.settings.cores or 1
        name_of = plan.name_of_block
        self._blocks = {(c.study, c.path): (c.study, name_of(c)) for c in plan.cells}

    @cached_property
    def jobs(self) -> dict[Block, int]:
        stored = read_json(self.root / BLOCKS)
        sizes = Counter(self._blocks.values())
        before = {block: job for block in sizes if (job := stored.get("/".join(block)))}
        return shares_of(sizes, self.count, before)

    def store_jobs(self) -> None:
        """Store the job of each block for later runs. Blocks that this run lacks keep theirs."""
        path = self.root / BLOCKS
        path.parent.mkdir(parents=True, exist_ok=True)
        jobs = {"/".join(block): job for block, job in self.jobs.items()}
        write_json(path, {**read_json(path), **jobs})

    def records(self) -> list[str]:
        return [f"{FOLDER}/job{job}.json" for job in sorted(set(self.jobs.values()))]

    @cache  # noqa: B019 - there is one of it
    def work(self, job: int) -> NodeWork:
        """Return the work of a job."""
        blocks = [block for block, share in self.jobs.items() if share == job]
        exports: dict[str, list[str]] = {}
        cells = [c for c in self.plan.cells if self._blocks[c.study, c.path] in blocks]
        for cell in cells:
            name = "/".join(self._blocks[cell.study, cell.path])
            exports.setdefault(name, []).extend(self.plan.exports_of(cell))
        paths = sorted((cell.study, cell.path) for cell in cells)
        calls = {study: self.plan.traces_of(study) for study, _ in paths}
        config = {
            **self.plan.config.content,
            "rounds": self.plan.config.settings.rounds,
            "blocks": list(exports),
        }
        return NodeWork(
            digests={f"{study}/{path}": self.plan.digest(study, path) for study, path in paths},
            blocks=exports,
            others=[calls[study][path] for study, path in paths if path in calls[study]],
            head=os.uname().nodename,
            config=config,
        )

    def digest(self, job: int) -> str:
        """Return a digest of a job's cells. When it changes, the job measures missing cells."""
        work = self.work(job)
        text = json.dumps([work.digests, work.blocks, work.others], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def host(self, job: int, attempt: int) -> str:
        """Return the node for a job, or "" for any."""
        assigned = NodeAssignment.read(self.root, job).node
        node = assigned or (self.nodes[job - 1] if self.nodes else "")
        is_hopeless = attempt >= FIRST_ATTEMPT_ELSEWHERE and assigned and not shutil.which("sinfo")
        return "" if is_hopeless or node in self.avoided(job) or is_lost(node) else node

    def avoided(self, job: int) -> list[str]:
        """Return the nodes that a job has left or was rejected by, and that it cannot use."""
        assignment = NodeAssignment.read(self.root, job)
        used = [assignment.node, *(each["node"] for each in assignment.lost)]
        rejected = [each["node"] for each in assignment.rejected]
        return sorted({*filter(is_lost, used), *rejected})

    def slurm_extra(self, job: int, attempt: int) -> str:
        if host := self.host(job, attempt):
            return f"--exclusive --nodelist={host}"
        avoided = ",".join(self.avoided(job))
        return f"--exclusive --exclude={avoided}" if avoided else "--exclusive"


def is_lost(node: str) -> bool:
    """Return True if Slurm reports that a node takes no jobs; False without Slurm."""
    # Snakemake asks for the resources of all jobs at once, and again for each attempt, minutes later.
    states = _states_of_nodes(int(time.monotonic() / SINFO_VALID_S)).get(node, [])
    return bool(states) and all(s.startswith(LOST) or s.endswith("*") for s in states)


@cache
def _states_of_nodes(period: int) -> dict[str, list[str]]:
    """Return the states of each node, in each of its partitions. They are asked for once in a period."""
    command = ["sinfo", "-h", "-N", "-o", "%N %T"]
    # Slurm finds its cluster by variables. Without Slurm, nothing is printed.
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
    lines, environment = [], {**os.environ, "PYTHONPATH": str(root / "workflow")}
    for folder in sorted((root / NODES).glob("job*/*")):
        arguments = ["-m", "vcsbench.run.node", CLEAN, str(folder)]
        on_node = ["srun", f"--nodelist={folder.name}", "--nodes=1", "--immediate=30"]
        command = [*on_node * (folder.name != node_name()), sys.executable, *arguments]
        done = processes.run_program(command, cwd=folder, env=environment, may_fail=True)
        if done.code:
            by_hand = shlex.join(["env", "PYTHONPATH=workflow", "python", *arguments])
            lines.append(f"{folder.name}: not removed. On the node, run {by_hand}")
        else:
            lines += [f"{folder.name}: {line}" for line in done.output.splitlines()]
            remove_path(folder)
    for parent in [*(root / NODES).glob("job*"), root / NODES]:
        with suppress(OSError):
            parent.rmdir()
    return lines
