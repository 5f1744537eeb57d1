"""What a run does to the machine, in sentences: packages, caches, memory and disk, ports."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from vcsbench import cgroup, words
from vcsbench.files import server_file
from vcsbench.foresee.forecast import cell_rounds, to_load
from vcsbench.measure.servers.kind import HOST
from vcsbench.measure.template import read_arguments
from vcsbench.plan.isolation import OWN, SHARED, USER, is_private_cell
from vcsbench.plan.plan import Plan
from vcsbench.storages.describe import free_bytes
from vcsbench.storages.mounts import IN_MEMORY, mount_of
from vcsbench.storages.place import resolve
from vcsbench.subjects.repository.room import bytes_of
from vcsbench.subjects.repository.shelf import Shelf
from vcsbench.subjects.room import SMALLEST

CLEAR = "clear-caches"
# svnserve's options for the size of its cache, in MiB.
CACHE = ("-M", "--memory-cache-size")
EVICT = "`clear_caches: evict` in the configuration drops the files of the repositories only"


class Missing(NamedTuple):
    """A package that is not here: whether nothing can be measured without it, and what it is for."""

    package: str
    needed: bool
    purpose: str


@cache
def missing_packages(root: Path) -> list[Missing]:
    """What set-up would install if it may."""
    done = subprocess.run(
        [root / "envs" / "list-missing.sh", "--table"], capture_output=True, text=True, check=True
    )
    rows = (line.split("\t") for line in done.stdout.splitlines())
    return [Missing(package, need == "must", purpose) for need, package, purpose in rows]


def effects(plan: Plan, shelf: Shelf, others: Sequence[str]) -> list[str]:
    """What a run of a plan does to this machine, a sentence each; `others` are servers at work here."""
    return [
        *_packages(plan.root),
        *_caches(plan, others),
        *_room(plan, shelf),
        *_filesystems(plan),
        *_memory(plan),
        _ports(plan),
        *_privacy(plan),
    ]


def _packages(root: Path) -> list[str]:
    missing = missing_packages(root)
    if not missing:
        return ["Installs nothing: all packages and tools are here. Starts no system service."]
    names = words.enumeration([one.package for one in missing])
    return [f"Set-up installs {names} where it may (apt-get, as root). Starts no system service."]


def _caches(plan: Plan, others: Sequence[str]) -> list[str]:
    clearing = plan.here.machine.clearing(plan.config.settings.clear_caches)
    number = sum(n * _clearings(plan, *cell) for cell, n in cell_rounds(plan).items())
    each = sum(_clearings(plan, cell.study, cell.path) for cell in plan.cells)
    told = [f"some {number} times"] * bool(number)
    if plan.passes and each:  # a decision gives more rounds, of all cells or of some
        told.append(f"up to {each} times in each round {'after these' if number else 'more'}")
    if not told:
        return ["Clears no caches."]
    times = ", and ".join(told)
    if clearing == "evict":
        return [f"Drops the repositories' files from the cache, {times}; no other file."]
    says = (
        f"Empties the kernel's caches for everybody on this machine, {times}: whatever else "
        f"runs here reads from the device again."
    )
    at_work = f" {'; '.join(others)}: {EVICT}." if others else f" On a server at work, {EVICT}."
    return [says + at_work]


def _clearings(plan: Plan, study: str, path: str) -> int:
    """How often a round of a cell clears caches."""
    recipe = plan.parts(plan.cell(study, path))
    state = recipe["state"]
    each, once = state["prepare"].count(CLEAR), [*state["setup"], *state.get("first", [])]
    # Once a command and copy another run is discarded, and clears them, too: too seldom to be counted.
    return int(once.count(CLEAR) + each * (state["warmup"] + recipe["runs"]))


def _room(plan: Plan, shelf: Shelf) -> list[str]:
    told, loading = [], to_load(shelf)
    scratch = resolve(plan.config.settings.scratch, plan.root)
    if loading:
        need = sum(_bytes(plan, repo) * len(shelf.formats(repo)) for repo in loading)
        kind = "RAM" if mount_of(scratch).filesystem in IN_MEMORY else "disk"
        told.append(f"Takes {_of(need, scratch)} ({kind}) while repositories are loaded.")
    for repo, last in shelf.dumps.items():
        revisions = min(last, plan.here.revisions(repo)) + 1
        told.append(
            f"Keeps a dump file of {words.count_of(revisions, 'revision')} of {repo} in {scratch}: "
            f"`make clean` removes it."
        )
    for storage in shelf.storages:
        folder = resolve(plan.config.settings.storages[storage], plan.root)
        need = sum(_bytes(plan, variant.repo) for variant, _ in shelf.missing(storage))
        there = f"`make clean` gives it back; all of it is in {shelf.place(storage).path}."
        if need:
            told.append(f"Takes {_of(need, folder)} for copies: {there}")
        else:
            told.append(f"Its copies on {storage} are there. {there}")
    return told


def _filesystems(plan: Plan) -> list[str]:
    parts = [plan.parts(cell) for cell in plan.cells]
    told = [part["filesystem"] for part in parts if part.get("filesystem", {}).get("make")]
    if not told:
        return []
    kinds = words.enumeration(sorted({one["make"] for one in told}))
    where = words.enumeration(sorted({one["root"] for one in told}))
    return [
        f"Makes file systems ({kinds}) in images of at least {words.size(SMALLEST)} in {where}, one at a "
        f"time, mounted for nobody but what is measured; nothing of them stays."
    ]


def _memory(plan: Plan) -> list[str]:
    """Return the memory limit of a container, and the memory that servers take for their caches."""
    told, sentences = [], []
    now = cgroup.memory()
    if now.limit is not None:
        sentences.append(
            f"A control group limits memory to {words.size(now.limit)}, of which "
            f"{words.size(now.available or 0)} are available."
        )
    for folder in sorted({plan.parts(cell)["servers"] for cell in plan.cells} - {""}):
        arguments = read_arguments(server_file(plan.root / folder, "svnserve.args"))
        for option, value in pairwise(arguments):
            if option in CACHE and value.isdigit():
                told.append(f"{words.size(int(value) << 20)} ({folder})")
    if told:
        sentences.append(f"A server takes up to so much RAM for its cache: {', '.join(told)}.")
    return sentences


def _of(need: float, folder: Path) -> str:
    if not folder.is_dir():
        return f"{words.size(need)} in {folder}, which is not there,"
    lacks = "" if need <= free_bytes(folder) else ", which is too little"
    return f"{words.size(need)} of the {words.size(free_bytes(folder))} free in {folder}{lacks}"


def _bytes(plan: Plan, repo: str) -> int:
    return bytes_of(plan.here.sources[repo].estimate())


def _privacy(plan: Plan) -> list[str]:
    """Describe who can read the repositories that not all users of this machine can read."""
    parts = [part for part in map(plan.parts, plan.cells) if is_private_cell(part, plan.here)]
    names = sorted({part["repository"]["name"] for part in parts})
    if not names:
        return []
    files = "files can be read by you and the servers' user only"
    networks = {part["network"] for part in parts}
    if SHARED in networks:
        servers = "its servers answer every user of this machine"
    elif networks & {OWN, USER}:
        servers = "its servers answer in a network of the run only"
    else:
        servers = "no server of vcsbench has it"
    verb = "is" if len(names) == 1 else "are"
    return [
        f"{words.enumeration(names)} {verb} not readable by all users: copied {files}; {servers}."
    ]


def _ports(plan: Plan) -> str:
    kinds = sorted({plan.parts(cell)["server"] for cell in plan.cells} - {""})
    if not kinds:
        return "Opens no port."
    verb = "listen" if len(kinds) > 1 else "listens"
    return (
        f"{words.enumeration(kinds)} {verb} on a free port of {HOST} while a cell runs, and nowhere else; "
        f"one measurement at a time runs on this machine, over all checkouts."
    )
