"""What is foreseen: from a part of a history, from cell-rounds that were seen, from the machine itself."""

from __future__ import annotations

import io
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from vcsbench.foresee import doctor as doctors
from vcsbench.foresee import effects, noise, power
from vcsbench.foresee import forecast as forecasts
from vcsbench.foresee.abilities import LACKS, WITHOUT, look
from vcsbench.foresee.beginning import Beginning
from vcsbench.foresee.calibration import Calibration, growth
from vcsbench.foresee.costs import Costs, Seen
from vcsbench.foresee.forecast import forecast
from vcsbench.foresee.others import at_work
from vcsbench.foresee.outlook import outlook
from vcsbench.foresee.sample import REVISIONS, Loaded

from project import open_folder
from vcsbench.config.configuration import merge
from vcsbench.config.validation import read_yaml
from vcsbench.errors import UserError
from vcsbench.run.project import Project
from vcsbench.sources import Estimate, open_source
from vcsbench.statistics.contract import Limits
from vcsbench.subjects.repository import room

ROOT = Path(__file__).parents[2]
DEFAULT = ROOT / "config" / "config.yaml"
ROUNDS = 4
STUDY = "fsfs-san-2014"
SMALL = {"source": "generated", "profile": "ruby", "scale": 0.0005, "seed": 1}


def project(root: Path, **over: Any) -> Project:
    """The default configuration in an empty checkout, of a small repository and with other keys."""
    (root / "config").symlink_to(ROOT / "config")
    (root / "envs").symlink_to(ROOT / "envs")
    for folder in ("storage", "scratch"):
        (root / folder).mkdir()
    keys = {
        "repositories": {"ruby": SMALL},
        "storages": {"disk": str(root / "storage")},
        "scratch": str(root / "scratch"),
        "rounds": ROUNDS,
    }
    return Project(merge(merge(read_yaml(DEFAULT), keys), over), root, [DEFAULT])


class Chunks:
    """A source that writes what another one does, so many bytes at a time."""

    kind = "chunks"

    def __init__(self, stream: bytes, size: int) -> None:
        self.stream, self.size = stream, size

    def write(self, out: Any) -> None:
        for at in range(0, len(self.stream), self.size):
            out.write(self.stream[at : at + self.size])


def whole_stream() -> bytes:
    out = io.BytesIO()
    open_source("ruby", SMALL).write(out)
    return out.getvalue()


@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 20])
def test_the_beginning_of_a_history_ends_between_two_revisions(size: int) -> None:
    stream = whole_stream()
    out, beginning = io.BytesIO(), Beginning(Chunks(stream, size), 5)  # type: ignore[arg-type]
    assert beginning.write(out).revisions == 5
    expected = stream[: stream.index(b"Revision-number: 6\n")]
    assert out.getvalue().rstrip(b"\n") == expected.rstrip(b"\n")
    assert 0 <= beginning.waited_s <= beginning.written_s


def test_what_a_file_says_begins_no_revision() -> None:
    text = b"Revision-number: 99\n\nProp-content-length: 10\n\n"
    head = b"Revision-number: 1\nContent-length: %d\n\n" % len(text)
    stream = head + text + b"\n\n" + b"Revision-number: 2\nContent-length: 0\n\n"
    out = io.BytesIO()
    Beginning(Chunks(stream, 3), 1).write(out)  # type: ignore[arg-type]
    assert out.getvalue() == head + text


def test_a_beginning_that_is_all_is_all() -> None:
    source = open_source("ruby", SMALL)
    out, beginning = io.BytesIO(), Beginning(source, source.estimate().revisions)
    facts = beginning.write(out)
    assert out.getvalue() == whole_stream() and facts.revisions == source.estimate().revisions


def test_what_noise_hides() -> None:
    """Runs that scatter by 11 % take some 40 rounds to show 10 %, as the rule of the tables has it."""
    assert 35 <= power.rounds_for(0.11, 10) <= 50
    shown = power.shown_pct(0.11, power.rounds_for(0.11, 10))
    assert shown <= 10 < power.shown_pct(0.11, power.rounds_for(0.11, 10) - 1)
    assert power.shown_pct(0.03, 5) < power.shown_pct(0.03, 3) < power.shown_pct(0.1, 3)


def test_on_a_noisy_machine_it_is_said_what_is_worth_noting_there() -> None:
    limits = Limits(min_effect_pct=10, min_effect_pct_if_noisy=15)
    few, many = power.rounds_for(0.11, 15), power.rounds_for(0.11, 10)
    assert power.rounds_said(0.11, limits) == (
        f"10 % differences take some {many} rounds, 15 % ones (what counts where runs scatter by more than "
        f"8 %) {few}"
    )
    assert power.rounds_said(0.07, limits).endswith(f"some {power.rounds_for(0.07, 10)} rounds")
    assert power.rounds_said(0.11, Limits(10, 10)).endswith(f"{many} rounds")


def seen(wall_s: float, times: Sequence[float], **axes: str) -> Seen:
    return Seen(STUDY, axes, wall_s, 2 * times[0], times)


def test_costs_are_those_of_what_is_most_alike(tmp_path: Path) -> None:
    cold = {"command": "log", "cache": "cold", "ra": "svn"}
    costs = Costs(
        project(tmp_path).plan,
        [
            seen(2.0, [0.5], **cold, format="f6"),
            seen(3.0, [0.7], **cold, format="f7"),
            seen(9.0, [5.0], **{**cold, "command": "export"}, format="f7"),
        ],
        "",
    )
    assert costs.cell_round_s(STUDY, {**cold, "format": "f6"}) == 2.0
    assert costs.cell_round_s(STUDY, {**cold, "format": "f8"}) == 2.5  # its class
    assert (
        costs.cell_round_s(STUDY, {**cold, "ra": "http", "format": "f7"}) == 3.0
    )  # none of its class
    assert costs.run_s(STUDY, {**cold, "format": "f8"}) == pytest.approx(0.6)
    assert Costs(costs.plan, [], "").cell_round_s(STUDY, cold) is None


def test_a_forecast_from_nothing_says_so(tmp_path: Path) -> None:
    here = project(tmp_path)
    told = forecast(here.plan, here.shelf, Costs(here.plan, [], ""))
    assert told.unknown == [*forecasts.PREPARING, forecasts.COPYING, forecasts.MEASURING]
    ours = [cell for cell in here.plan.cells if cell.axes["repo"] != "empty"]
    fixed = len(here.plan.cells) - len(ours)
    assert told.cell_rounds == len(ours) * ROUNDS + fixed
    assert told.total_s == told.stages[forecasts.TELLING] + told.stages[forecasts.MEASURING] > 0


def test_a_forecast_grows_with_the_history(tmp_path: Path) -> None:
    here = project(tmp_path)
    revisions = here.here.revisions("ruby")
    half = Loaded(revisions // 2, dict.fromkeys(forecasts.PREPARING, 1.0), {})
    costs = Costs(here.plan, [seen(2.0, [0.5], **c.axes) for c in here.plan.cells], "")
    told = forecast(here.plan, here.shelf, costs, Calibration({"ruby": half}, {"disk": 1.0}, costs))
    more = revisions / (revisions // 2)
    assert told.stages["loading"] == pytest.approx(more)
    # 1.0 s was for one copy of each variant.
    assert told.stages["copying"] == pytest.approx(more * here.config.settings.copies)
    fixed = sum(cell.axes["repo"] == "empty" for cell in here.plan.cells)
    assert told.stages["measuring"] == 2.0 * (told.cell_rounds - fixed) + fixed
    assert told.unknown == []


def test_how_much_more_a_whole_repository_is() -> None:
    estimate = Estimate(60_000, 0, 500, 0)
    assert growth({"revisions": 1000, "paths": 7}, estimate, "svn log -v --limit 50000 url") == 50
    assert growth({"revisions": 1000}, estimate, "svn log url") == 60
    assert growth({"files": 250, "bytes": 1}, estimate, "svn export") == 2
    assert growth({"files": 1000}, estimate, "svn export") == 1  # the tree has shrunk
    unknown = Estimate(4 * REVISIONS, 0)
    assert growth({"files": 1000}, unknown, "svn export") == 2
    assert growth({"digest": "x"}, estimate, "svn cat") == 1


def test_another_server_at_work_is_seen(tmp_path: Path) -> None:
    database = tmp_path / "postgres"
    shutil.copy(shutil.which("sleep") or "", database)
    with subprocess.Popen([database, "60"]) as process:
        try:
            deadline = time.monotonic() + 5
            while not (told := [o for o in at_work() if "postgres" in o]):
                assert time.monotonic() < deadline
        finally:
            process.kill()
    assert told[0].startswith("postgres, a database, is at work here (")


def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RUNS": 3, "RUN_S": 0.02, "READS": 3, "FLUSHES": 3}.items():
        monkeypatch.setattr(noise, name, value)


def test_a_doctor_says_what_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet(monkeypatch)
    here = project(tmp_path, builds={})
    lines: list[str] = []
    code = doctors.doctor(here.plan, here.shelf, lambda text: None, lines.append)
    text = "\n".join(lines)
    # So small a repository has nothing to pack.
    assert (
        code == doctors.LACKING and "fewer than a shard of 1000: there is nothing to pack" in text
    )
    assert "Cannot be measured here" in text and lines[-1].endswith("cannot be measured here.")
    assert "differences take some" in text and " 0 cells" not in text
    assert not list((tmp_path / "storage").iterdir())


def test_all_can_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet(monkeypatch)
    part = {
        "command": "log",
        "ra": "file",
        "packing": "nopack",
        "config": "slow",
        "cache": "hot-os",
    }
    lines: list[str] = []
    with open_folder("/var/tmp") as root:
        here = project(root, grid={STUDY: {"include": [part]}})
        code = doctors.doctor(here.plan, here.shelf, lambda text: None, lines.append)
        assert not list((root / "storage").iterdir())
    assert code == doctors.ALL_WELL
    assert lines[-1].endswith("All can be measured.")
    assert "Clears no caches." in "\n".join(lines) and "Opens no port." in "\n".join(lines)


def test_a_storage_that_is_not_there_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet(monkeypatch)
    here = project(tmp_path)
    (tmp_path / "storage").rmdir()
    found = [one for one in look(here.plan, []) if one.state == LACKS]
    assert any("is no folder" in one.says and one.remedy for one in found)
    lines: list[str] = []
    assert doctors.doctor(here.plan, here.shelf, lambda text: None, lines.append) == 1
    assert "which is not there" in "\n".join(lines)


def test_caches_that_cannot_be_cleared_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcsbench.machine.can_drop_caches", lambda: False)
    here = project(tmp_path)
    monkeypatch.setattr(here.here.machine, "has", lambda program: program != "vmtouch")
    found = look(here.plan, [])
    assert any(one.state == LACKS and "root" in one.says for one in found)
    monkeypatch.setattr(here.here.machine, "has", lambda program: True)
    assert any(one.state == WITHOUT and "inodes" in one.says for one in look(here.plan, []))


def test_a_history_that_has_no_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in (effects, room):
        monkeypatch.setattr(module, "free_bytes", lambda folder: 1 << 16)
    here = project(tmp_path)
    lines: list[str] = []
    with pytest.raises(UserError, match="are needed for repositories and their copies"):
        lines.extend(outlook(here.plan, here.shelf, lambda text: None))
    assert "64.0 KiB free in" in "\n".join(lines) and "which is too little" in "\n".join(lines)
    assert not [*(tmp_path / "storage").iterdir(), *(tmp_path / "scratch").iterdir()]
