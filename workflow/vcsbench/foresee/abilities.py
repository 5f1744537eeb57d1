"""What this machine can measure and what it lacks, each with the remedy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from vcsbench import cgroup, words
from vcsbench.errors import UserError
from vcsbench.foresee.effects import EVICT, missing_packages
from vcsbench.foresee.skips import grouped_skips
from vcsbench.measure import versions
from vcsbench.measure.context import host
from vcsbench.measure.meters import counters, instructions, residency
from vcsbench.plan.plan import Plan
from vcsbench.storages import describe
from vcsbench.storages.extents import NotAsked, first_extent
from vcsbench.storages.mounts import IN_MEMORY, mount_of
from vcsbench.storages.place import Place, resolve

# A thing is there (HAS); is not, and something of the configuration cannot be measured (LACKS); is not, and
# less is told of what is measured (WITHOUT); or is a reason to distrust what is measured (BEWARE).
HAS, LACKS, WITHOUT, BEWARE = "has", "lacks", "without", "beware"
ENOUGH_CORES = 2
ENOUGH_MEMORY = 1 << 30
RAISE = "raise the limit to 1 GiB or more"
STEADY_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page")
SCHEMA_2 = 2


class Found(NamedTuple):
    """One thing that was looked at: how it is, in a sentence, and the remedy, if there is one."""

    state: str
    says: str
    remedy: str = ""


def look(plan: Plan, others: list[str]) -> list[Found]:
    """All that there is to say; `others` are servers at work here."""
    return [
        *_cells(plan),
        *_packages(plan),
        *_programs(),
        *_caches(plan),
        *_storages(plan),
        *_evidence(),
        *_machine(),
        *(Found(BEWARE, other, "measure when it is idle, or elsewhere") for other in others),
    ]


def _cells(plan: Plan) -> Iterator[Found]:
    for study, grid in plan.grids.items():
        cells = [cell for cell in grid if not cell.skip]
        says = f"{len(cells)} of {words.count_of(len(grid), 'cell')} of {study} can be measured"
        yield Found(HAS if cells else LACKS, says)
        for reason, number in grouped_skips(grid):
            yield Found(LACKS, f"{words.count_of(number, 'cell')} of {study}: {reason}")


def _packages(plan: Plan) -> Iterator[Found]:
    for package, needed, purpose in missing_packages(plan.root):
        state = LACKS if needed else WITHOUT
        yield Found(state, f"{package} is not installed: {purpose}", f"apt-get install {package}")


def _programs() -> Iterator[Found]:
    asked = {
        "svn": ["svn", "--version", "--quiet"],
        "svnserve": ["svnserve", "--version", "--quiet"],
        "hyperfine": ["hyperfine", "--version"],
        "git": ["git", "version"],
    }
    there = {name: argv for name, argv in asked.items() if shutil.which(name)}
    running = {
        name: subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for name, argv in there.items()
    }
    told = versions.told(running)
    yield Found(HAS, ", ".join(f"{name} {version}" for name, version in told.items()))
    major = told.get("hyperfine", "").partition(".")[0]
    if major.isdigit() and int(major) < SCHEMA_2:
        says = (
            f"hyperfine {told['hyperfine']} tells CPU times as means over the runs of a cell-round"
        )
        yield Found(WITHOUT, says, "hyperfine 2 tells each run's, and its peak memory")


def _caches(plan: Plan) -> Iterator[Found]:
    wanted, machine = plan.config.settings.clear_caches, plan.here.machine
    how = machine.clearing(wanted)
    if how == "drop-caches":
        yield Found(HAS, "caches become cold by emptying the kernel's", f"on a server, {EVICT}")
    elif how:
        says = "caches become cold file by file (vmtouch): inodes and directories stay cached"
        yield Found(WITHOUT, says, "run as root, where no server is at work")
    else:
        folder = plan.config.settings.storages[plan.config.settings.storage]
        says = describe.why_never_cold(machine, folder, wanted)
        yield Found(LACKS, says, "run as root, or apt-get install vmtouch")


def _storages(plan: Plan) -> Iterator[Found]:
    config, root = plan.config, plan.root
    used = {plan.parts(cell)["storage"]["name"] for cell in plan.cells} | {config.settings.storage}
    for name in sorted(used):
        folder = resolve(config.settings.storages[name], root)
        if not folder.is_dir():
            yield Found(
                LACKS, f"the storage {name}: {folder} is no folder", "make it, or name another"
            )
            continue
        yield _storage(name, folder)
        try:
            Place(folder, root).check_open()
        except UserError as error:
            yield Found(LACKS, str(error))
        yield from _writes(name, folder, plan)
    scratch = resolve(config.settings.scratch, root)
    if not scratch.is_dir():
        yield Found(LACKS, f"`scratch`: {scratch} is no folder", "make it, or name another")
    elif mount_of(scratch).filesystem not in IN_MEMORY:
        says = f"`scratch` ({scratch}) is not in RAM: loading takes several times as long"
        yield Found(WITHOUT, says, "name a folder in a tmpfs, such as /dev/shm")


def _storage(name: str, folder: Path) -> Found:
    seen = describe.storage(name, folder)
    kind = {True: "rotational", False: "not rotational"}.get(seen["rotational"], "")
    parts = [
        seen["filesystem"],
        f"on {seen['device']}",
        kind,
        seen["scheduler"],
        seen["mount_options"],
    ]
    under = ", ".join(filter(None, parts))
    return Found(HAS, f"storage {name}: {folder}, {under}; {words.size(seen['free_bytes'])} free")


def _writes(name: str, folder: Path, plan: Plan) -> Iterator[Found]:
    if describe.lacks_journal(str(folder)) and plan.config.settings.output_location == "auto":
        says = f"{name} is ext4 without a journal: what is exported goes to `scratch`, not to it"
        yield Found(WITHOUT, says, "a storage with a journal")
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix="vcsbench-doctor-") as file:
            file.write(os.urandom(1 << 16))
            file.flush()
            os.fsync(file.fileno())
            first_extent(file.name)
            if residency.ask(Path(file.name)) is None:
                yield Found(WITHOUT, f"{name}: nothing tells how much of a file is in memory")
    except NotAsked as error:
        says = f"{name}: it cannot be shown whether copies lie interleaved (no FIEMAP: {error})"
        yield Found(WITHOUT, says, "ext4, xfs or btrfs")
    except OSError as error:
        yield Found(
            LACKS, f"{name}: {folder} cannot be written: {error.strerror}", "name another folder"
        )


def _evidence() -> Iterator[Found]:
    if why := instructions.why_not():
        yield Found(WITHOUT, f"instructions are not counted: {why}", "mostly, no virtual machine")
    else:
        yield Found(HAS, "instructions are counted by the processor")
    if not shutil.which("strace"):
        return  # said with the packages
    traced = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, text=True)
    if traced.returncode:
        last = (traced.stderr.strip().splitlines() or ["it fails"])[-1]
        yield Found(WITHOUT, f"system calls are not counted: {last}", "allow ptrace (in a container: "
                    "--cap-add SYS_PTRACE)")  # fmt: skip
    if not counters.count().pressure:
        yield Found(WITHOUT, "the kernel tells no pressure (/proc/pressure)", "boot it with psi=1")


def _limits(seen: Mapping[str, Any]) -> Iterator[Found]:
    """Yield the limits that a container sets for memory and processor time."""
    limit, quota = seen["memory_limit_bytes"], seen["quota_cores"]
    if limit is not None:
        free = words.size(cgroup.memory().available or 0)
        says = f"memory is limited to {words.size(limit)} by a control group; {free} of it are available"
        yield Found(BEWARE if limit < ENOUGH_MEMORY else HAS, says, RAISE * (limit < ENOUGH_MEMORY))
    if quota is not None:
        says = (
            f"a control group limits processor time to {quota:.2g} cores; slowed runs are flagged"
        )
        yield Found(BEWARE, says, "remove the quota")


def _machine() -> Iterator[Found]:
    seen, now = host(), counters.setting()
    memory = words.size(seen["memory_bytes"] or 0)
    guest = f", a guest ({seen['virtualized']})" if seen["virtualized"] else ""
    cores = words.count_of(seen["cores"], "core")
    yield Found(HAS, f"{seen['cpu']}, {cores}, {memory}, {seen['os']}, {seen['kernel']}{guest}")
    yield from _limits(seen)
    if seen["cores"] < ENOUGH_CORES:
        says = "there is one core: client and server share it, and every run is saturated"
        yield Found(BEWARE, says, "a machine with two or more")
    clock = now["clock_source"]
    if clock and clock not in STEADY_CLOCKS:
        yield Found(
            BEWARE, f"the clock is {clock}: reading it is slow", "clocksource=tsc, if it can"
        )
    if re.fullmatch("powersave|ondemand|conservative|schedutil", now["governor"]):
        says = f"the governor {now['governor']} changes the processor's speed with its load"
        yield Found(BEWARE, says, "cpupower frequency-set -g performance")
    busy = os.getloadavg()[0]
    if busy > seen["cores"] / 4:
        says = f"something else is at work: {busy:.1f} processes wanted a core in the last minute"
        yield Found(BEWARE, says, "wait until the machine is idle")
