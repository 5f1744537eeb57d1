"""A run on a cluster, as the login node sees it: shares of all blocks, a job for each, and the node that each
job belongs on. What happens on the node is run/share.py's."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.files import read_json, write_json
from vcsbench.plan.plan import Plan
from vcsbench.plan.shares import Block, blocks_in, shares_of
from vcsbench.run.nodes import CLEAN, FOLDER, NODES, Pin, collect, node_name, of_share

SHARES = f"{FOLDER}/shares.json"
# Of a node's state, as Slurm has it: what begins so, or ends with *, takes no job, and has lost those it had.
LOST = ("down", "drain", "fail", "unk", "err", "power", "future")
ASKED_FOR_S = 30
# Where nothing tells the state of nodes, a job that has failed so often goes to another.
ELSEWHERE_FROM = 3


class Cluster:
    """The shares of a run, and where they are measured."""

    def __init__(self, plan: Plan, raw: Mapping[str, Any]) -> None:
        """`raw` is the merged configuration, as the nodes get it."""
        self.plan, self.raw, self.root = plan, raw, plan.root
        self.wanted = plan.config.settings.cluster
        folders = {f"storages.{n}": f for n, f in plan.config.settings.storages.items()}
        for key, folder in {**folders, "scratch": plan.config.settings.scratch}.items():
            if not os.path.isabs(folder):
                raise UserError(
                    f"{plan.config.where(key.split('.'))}: `{key}`: {folder} is relative to the checkout, "
                    f"and on a cluster each node works in a folder of its own; say the whole path"
                )
        self.run = uuid.uuid4().hex[:12]
        nodes = self.wanted.nodes
        self.named = nodes if isinstance(nodes, list) else []
        self.count = nodes if isinstance(nodes, int) else len(nodes)

    @cached_property
    def _blocks(self) -> dict[tuple[str, str], Block]:
        """The block of each cell, by its study and path."""
        name_of = self.plan.name_of_block
        return {(c.study, c.path): (c.study, name_of(c)) for c in self.plan.cells}

    @cached_property
    def shares(self) -> dict[Block, int]:
        """The share of each block."""
        sizes = Counter(self._blocks.values())
        before = {
            (study, block): share
            for study, blocks in read_json(self.root / SHARES).items()
            for block, share in blocks.items()
        }
        return shares_of(sizes, self.count, before)

    def records(self) -> list[str]:
        """What the jobs write: a file for each share that has something to measure."""
        return [f"{FOLDER}/share{share}.json" for share in sorted(set(self.shares.values()))]

    def work(self, share: int) -> dict[str, Any]:
        """All that a share has to measure, as plain data: the digest of each cell's recipe by its study and
        path, the exports of each block, and the other files."""
        of, blocks = self._blocks, set(blocks_in(self.shares, share))
        mine = [cell for cell in self.plan.cells if of[cell.study, cell.path] in blocks]
        exports: dict[str, list[str]] = {}
        for cell in mine:
            exports.setdefault("/".join(of[cell.study, cell.path]), []).extend(
                self.plan.exports_of(cell)
            )
        studies = sorted({cell.study for cell in mine})
        paths = {(cell.study, cell.path) for cell in mine}
        others = [
            file
            for study in studies
            for path, file in self.plan.calls_of(study).items()
            if (study, path) in paths
        ]
        if share == min(self.shares.values()):
            drawn = (
                name for name, study in self.plan.config.studies.items() if study.machine_limits
            )
            others += [f"results/ceiling/{name}.json" for name in drawn]
        return {
            "digests": {f"{s}/{p}": self.plan.digest(s, p) for s, p in sorted(paths)},
            "blocks": exports,
            "others": others,
            "seed": self.plan.config.settings.seed,
            "thresholds": self.plan.config.thresholds,
        }

    def digest(self, share: Any) -> str:
        """What makes a share another one: its job then runs anew, and measures what is missing."""
        text = json.dumps(self.work(int(share)), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def write(self) -> None:
        """Tell the nodes: what each share is goes where they can read it."""
        by_study: dict[str, dict[str, int]] = {}
        for (study, block), share in sorted(self.shares.items()):
            by_study.setdefault(study, {})[block] = share
        (self.root / FOLDER).mkdir(parents=True, exist_ok=True)
        write_json(self.root / SHARES, by_study)
        for share in set(self.shares.values()):
            config = {**self.raw, "rounds": self.plan.config.settings.rounds}
            said = {"run": self.run, "head": os.uname().nodename, "config": config}
            write_json(of_share(self.root, share, "work"), {**said, **self.work(share)})

    # What the rule asks for.

    @property
    def constraint(self) -> dict[str, str]:
        """The class of nodes as a resource, if one is named."""
        return {"constraint": self.wanted.node_class} if self.wanted.node_class else {}

    @property
    def cores(self) -> int:
        """How many processors a node of the class has."""
        return self.wanted.cores or 1

    def host(self, share: Any, attempt: int) -> str:
        """The node that a share's job belongs on; "" where it may be any of the class."""
        pin = Pin(self.root, int(share))
        node = pin.node or ([*self.named, ""][int(share) - 1] if self.named else "")
        if not node or node in self.avoided(share) or is_lost(node):
            return ""
        knows = shutil.which("sinfo")
        return "" if attempt >= ELSEWHERE_FROM and not knows and pin.node else node

    def avoided(self, share: Any) -> list[str]:
        """The nodes that were refused, or lost while they had this share."""
        pin = Pin(self.root, int(share))
        lost = [one["node"] for one in pin.lost if is_lost(one["node"])]
        return sorted({*lost, *(one["node"] for one in pin.refused)})

    def slurm_extra(self, share: Any, attempt: int) -> str:
        """The same as words of sbatch's."""
        words = ["--exclusive"]
        if host := self.host(share, attempt):
            words.append(f"--nodelist={host}")
        else:
            pin = Pin(self.root, int(share))
            lost = [pin.node] if pin.node and is_lost(pin.node) else []
            if avoided := sorted({*self.avoided(share), *lost}):
                words.append(f"--exclude={','.join(avoided)}")
        return " ".join(words)

    def collect(self) -> None:
        """Take over what nodes have measured, also those whose job has failed."""
        for share in set(self.shares.values()):
            collect(self.root, share, self.work(share))


def is_lost(node: str) -> bool:
    """Whether the scheduler says that a node takes no jobs; False where nothing tells."""
    if not shutil.which("sinfo"):
        return False
    command = ["sinfo", "-h", "-n", node, "-o", "%T"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASKED_FOR_S)
    except (OSError, subprocess.TimeoutExpired):
        return False
    states = done.stdout.lower().split()
    return bool(states) and all(s.startswith(LOST) or s.endswith("*") for s in states)


def clean_nodes(root: Path) -> list[str]:
    """Remove what lies on the nodes of a checkout, through the scheduler, and their folders; returns what was
    removed, and what is left on which node."""
    said = []
    for folder in sorted((root / NODES).glob("share*/*")):
        clean = [sys.executable, "-m", "vcsbench.run.share", CLEAN, str(folder)]
        if folder.name != node_name():
            clean = ["srun", f"--nodelist={folder.name}", "--nodes=1", "--immediate=30", *clean]
        environment = {**os.environ, "PYTHONPATH": str(root / "workflow")}
        done = None
        with suppress(OSError):
            done = subprocess.run(
                clean, cwd=folder, env=environment, capture_output=True, text=True
            )
        if done and done.returncode == 0:
            said += [f"{folder.name}: {line}" for line in done.stdout.splitlines()]
            shutil.rmtree(folder)
        else:
            by_hand = shlex.join(["env", "PYTHONPATH=workflow", "python", *clean[-4:]])
            said.append(f"{folder.name}: what lies there is left; there, {by_hand} removes it")
    for above in [*(root / NODES).glob("share*"), root / NODES]:
        with suppress(OSError):  # one that has something left
            above.rmdir()
    return said
