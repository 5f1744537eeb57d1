"""What `vcsbench doctor` says: what this machine can measure, what it lacks, and how much it scatters."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping

from vcsbench import words
from vcsbench.foresee import power
from vcsbench.foresee.abilities import BEWARE, HAS, LACKS, WITHOUT, Found, look
from vcsbench.foresee.calibration import Say
from vcsbench.foresee.effects import effects
from vcsbench.foresee.noise import Device, listen, scatter
from vcsbench.foresee.others import at_work
from vcsbench.plan.plan import Plan
from vcsbench.statistics.contract import Limits
from vcsbench.storages.mounts import IN_MEMORY, mount_of
from vcsbench.storages.place import resolve
from vcsbench.subjects.repository.shelf import Shelf

HEADINGS = {
    HAS: "There is",
    LACKS: "Cannot be measured here",
    WITHOUT: "Is measured with less evidence, or more slowly",
    BEWARE: "Beware",
}
ALL_WELL, LACKING = 0, 1
# A device's own times scatter more than runs do; beyond this, cold runs will.
RESTLESS = 0.25


def doctor(plan: Plan, shelf: Shelf, say: Say, tell: Say) -> int:
    """Tell what there is to say, line by line, while `say` gets what is being done; returns the exit code."""
    others = at_work()
    found = look(plan, others)
    for line in [line for state in HEADINGS for line in _group(state, found)]:
        tell(line)
    tell("What a run does to this machine")
    for sentence in effects(plan, shelf, others):
        tell(f"  {sentence}")
    tell("\nIts noise")
    for line in _noise(plan, shelf, say):
        tell(f"  {line}")
    lacking = any(one.state == LACKS for one in found)
    tell("\nSomething cannot be measured here." if lacking else "\nAll can be measured.")
    return LACKING if lacking else ALL_WELL


def _group(state: str, found: list[Found]) -> list[str]:
    lines = []
    for one in found:
        if one.state == state:
            lines.append(f"  {one.says}" + (f" [{one.remedy}]" if one.remedy else ""))
    return [HEADINGS[state], *lines, ""] if lines else []


def _noise(plan: Plan, shelf: Shelf, say: Say) -> Iterator[str]:
    folders = {s: resolve(plan.config.settings.storages[s], plan.root) for s in shelf.storages}
    there = {name: folder for name, folder in folders.items() if folder.is_dir()}
    on_devices = {n: f for n, f in there.items() if mount_of(f).filesystem not in IN_MEMORY}
    noise = listen(on_devices, say)
    share = scatter(noise.runs)
    yield (
        f"runs of {statistics.median(noise.runs):.1f} s scatter by {100 * share:.0f} % here: "
        f"{power.rounds_said(share, Limits(**plan.config.limits))}"
    )
    for name, device in noise.devices.items():
        yield from _device(name, device)
    yield from _counted(noise.machine)
    yield (
        f"the clock ({noise.clock or 'of an unknown source'}) is read in {1e9 * noise.clock_read_s:.0f} ns "
        f"and was slewed by {1e6 * abs(noise.clock_drift):.1f} millionths"
    )


def _device(name: str, device: Device) -> Iterator[str]:
    read, flush = statistics.median(device.reads), statistics.median(device.flushes)
    share = scatter(device.reads)
    restless = "; cold runs will scatter more than hot ones" if share > RESTLESS else ""
    yield (
        f"{name}: 16 MiB are read in {1e3 * read:.0f} ms, which scatters by {100 * share:.0f} %; a flushed "
        f"block takes {1e3 * flush:.1f} ms, at worst {1e3 * max(device.flushes):.0f} ms{restless}"
    )


def _counted(machine: Mapping[str, float]) -> Iterator[str]:
    steal = machine["steal_pct"]
    limits = "; above 2 % runs are flagged `cpu-steal`" if steal > 2 else ""
    yield f"meanwhile the hypervisor took {steal:.1f} % of the processors' time (steal){limits}"
    told = [
        f"{what} {machine[f'{what}_pressure_pct']:.0f} %"
        for what in ("cpu", "memory", "io")
        if f"{what}_pressure_pct" in machine
    ]
    if told:
        yield f"something waited for: {words.enumeration(told)} of the time (pressure)"
