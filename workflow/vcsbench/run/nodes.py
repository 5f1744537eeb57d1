"""A node's part of a run on a cluster, as files that all nodes see: which node a share is on, and which it
was; the node's own folder, which is a checkout of its own; and what was measured in there."""

from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vcsbench.files import read_json, write_bytes, write_json
from vcsbench.plan import fresh

FOLDER = "results/cluster"
NODES = "nodes"
# What share.py does instead of measuring.
CLEAN = "--clean"
# What a checkout of a node's has of its own.
OWN = ("results", "reports", ".snakemake", ".vcsbench", NODES)


def of_share(root: Path, share: int, what: str) -> Path:
    """A file about a share."""
    return root / FOLDER / f"share{share}.{what}.json"


def node_name() -> str:
    """The node that this process is on. Nodes may share a host name: Slurm knows them apart."""
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename


def node_folder(root: Path, share: int, node: str) -> Path:
    """Where a node measures a share: below it lies what a checkout has."""
    return root / NODES / f"share{share}" / node


def make_folder(root: Path, share: int, node: str) -> Path:
    """Make it: the checkout's files by links, results of its own."""
    folder = node_folder(root, share, node)
    folder.mkdir(parents=True, exist_ok=True)
    for path in root.iterdir():
        link = folder / path.name
        if path.name not in OWN and not os.path.lexists(link):
            link.symlink_to(os.path.relpath(path, folder), path.is_dir())
    return folder


class Pin:
    """Which node a share is on (`node`, "" before the first job); those that were `lost` with it (node, at,
    to which other, the blocks that were unfinished), those that were `refused` (node, why); the `failed` run,
    whose job has nothing left to try, and `why`."""

    def __init__(self, root: Path, share: int) -> None:
        self.path = of_share(root, share, "pin")
        said = read_json(self.path)
        self.node: str = said.get("node", "")
        self.lost: list[dict[str, Any]] = said.get("lost", [])
        self.refused: list[dict[str, str]] = said.get("refused", [])
        self.failed: str = said.get("failed", "")
        self.why: str = said.get("why", "")

    def write(self) -> None:
        """Note it."""
        said = {k: getattr(self, k) for k in ("node", "lost", "refused", "failed", "why")}
        write_json(self.path, said)

    def move(self, node: str, unfinished: list[str]) -> None:
        """The share is on another node from now on."""
        if self.node and self.node != node:
            at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            self.lost.append({"node": self.node, "at": at, "to": node, "blocks": unfinished})
        self.node = node
        self.write()

    def refuse(self, node: str, why: str) -> None:
        """A node is not what it should be."""
        self.refused = [one for one in self.refused if one["node"] != node]
        self.refused.append({"node": node, "why": why})
        self.write()


def host_of(export: Path) -> str:
    """The node that an export was measured on."""
    context = read_json(export.with_suffix(".context.json"))
    return str(context.get("host", {}).get("name", ""))


def is_measured(export: Path, digests: Mapping[str, str]) -> bool:
    """Whether an export is whole, and what its recipe says now."""
    measured = fresh.measured_as(export)
    return measured is not None and (
        digests.get(f"{measured.study}/{measured.cell}") == measured.digest
    )


def collect(root: Path, share: int, work: Mapping[str, Any]) -> dict[str, str]:
    """Take over what was measured of a share: a block is whole on one node or is not taken, but for that of
    the node that has it now. Returns the node of each block that is whole."""
    pin, found = Pin(root, share), {}
    folders = {path.name: path for path in (root / NODES / f"share{share}").glob("*")}
    # The one that it is on last: what is whole elsewhere stays there.
    order = sorted(folders, key=lambda node: (node == pin.node, node))
    for block, exports in work["blocks"].items():
        for node in order:
            whole = [is_measured(folders[node] / export, work["digests"]) for export in exports]
            if all(whole):
                found[block] = node
                break
        node = found.get(block, pin.node)
        if node in folders:
            for export in exports:
                _take(folders[node], root, export, work["digests"])
    if pin.node in folders:
        for file in work["others"]:
            _copy(folders[pin.node] / file, root / file)
    return found


def _take(source: Path, root: Path, export: str, digests: Mapping[str, str]) -> None:
    """A cell-round and its log; what lies there of another node goes."""
    log = export.replace("results/cells/", "results/logs/cells/").replace(".json", ".log")
    _copy(source / log, root / log)
    there = root / export
    if not is_measured(source / export, digests):
        if there.exists() and host_of(there) != source.name:
            there.unlink()
        return
    context = Path(export).with_suffix(".context.json")
    if not _is_same(source / context, root / context):
        there.unlink(missing_ok=True)
    _copy(source / context, root / context)
    _copy(source / export, there)


def _is_same(source: Path, copy: Path) -> bool:
    return copy.exists() and source.exists() and copy.read_bytes() == source.read_bytes()


def _copy(source: Path, copy: Path) -> None:
    if not source.exists() or _is_same(source, copy):
        return
    copy.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(copy, source.read_bytes())
    shutil.copystat(source, copy)
