"""What a run says of how far it is: what jobs tell, what becomes of it in words, and when it is written."""

from __future__ import annotations

import io
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from project import needs
from vcsbench import progress
from vcsbench.run import console
from vcsbench.run.console import Console
from vcsbench.run.course import Course, Job
from vcsbench.run.timeleft import TimeLeft
from vcsbench.sources import open_source
from vcsbench.subjects.repository import verifying
from vcsbench.subjects.repository.loader import load_source

NO_SETTINGS = {
    "dryrun": False,
    "verbose": False,
    "printshellcmds": False,
    "debug_dag": False,
    "quiet": None,
}


def wait_for(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 10
    while not (found := condition()):
        assert time.monotonic() < deadline, "nothing happened for 10 s"
        time.sleep(0.02)
    return found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "ruby.log"


def tell(log: Path, *stages: dict[str, Any]) -> None:
    """What a job would tell of itself."""
    usual = {"done": 0, "total": 0, "unit": "revisions", "seconds": 0.0}
    told = ", ".join(f"{ {**usual, **stage} }".replace("'", '"') for stage in stages)
    progress.file_of(log).write_text(f"[{told}]")


def test_a_job_tells_its_stages_while_it_is_at_them(log: Path) -> None:
    with progress.told_beside(log):
        assert progress.read(log) == []
        with progress.stage("loading", 57_000, "revisions") as at:
            at.done = 12_000
            (told,) = wait_for(lambda: progress.read(log))
            assert (told["name"], told["total"], told["unit"]) == ("loading", 57_000, "revisions")
            wait_for(lambda: progress.read(log)[0]["done"] == 12_000)
    assert list(log.parent.iterdir()) == [], "nothing stays of it"


def test_stages_of_the_same_name_side_by_side_are_one(log: Path) -> None:
    tell(
        log,
        {"name": "verifying", "done": 10, "total": 100, "seconds": 9.0},
        {"name": "packing", "done": 1, "total": 2, "unit": "shards"},
        {"name": "verifying", "done": 30, "total": 100, "seconds": 4.0},
    )
    verifying, packing = progress.read(log)
    assert (verifying["done"], verifying["total"], verifying["seconds"]) == (40, 200, 9.0)
    assert (packing["done"], packing["total"]) == (1, 2)


def test_the_file_is_written_once_a_second(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[float] = []
    replace = Path.replace

    def counted(path: Path, target: Path) -> Path:
        written.append(time.monotonic())
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", counted)
    with progress.told_beside(log), progress.stage("copying", 10**6, "files") as at:
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            at.done += 1
    assert 2 <= len(written) <= 4


def test_a_disk_that_is_full_ends_no_job(tmp_path: Path) -> None:
    with progress.told_beside(tmp_path / "none" / "ruby.log"), progress.stage("loading"):
        pass


@needs("svnadmin")
def test_a_load_counts_all_that_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaded, copied, packed; then the packed repository is verified, and the metadata of the other."""
    ended: list[dict[str, Any]] = []
    real = progress.stage

    @contextmanager
    def recorded(*words: Any, **more: Any) -> Iterator[progress.Stage]:
        with real(*words, **more) as at:
            yield at
        ended.append(at.told())

    monkeypatch.setattr(progress, "stage", recorded)
    definition = {"source": "generated", "profile": "ruby", "scale": 0.001, "seed": 1}
    source = open_source("ruby", definition)

    facts = load_source(source, [["f7", "nopack"], ["f7", "pack"]], tmp_path)
    verifying.all_in(tmp_path)

    names = [stage["name"] for stage in ended]
    assert sorted(names) == ["copying", "loading", "packing", "verifying", "verifying"]
    loading = ended[0]
    copying, _, packing, *verified = sorted(ended, key=lambda stage: stage["name"])
    metadata, whole = sorted(verified, key=lambda stage: stage["done"])
    assert metadata["total"] == facts["revisions"] and metadata["done"] > 0
    for stage in (loading, whole):
        assert stage["done"] == stage["total"] == facts["revisions"] > 40
    assert copying["done"] == copying["total"] - 1 > 2 * facts["revisions"]
    assert packing["done"] == packing["total"] == 0, "no shard is full"


@pytest.fixture
def known() -> Course:
    """A run of six cell-rounds of two kinds, after a load, before a report."""
    known = Course(lambda study, cell: cell[0])
    cells = [("cell", {"study": "s", "cell": cell, "round": "1"}) for cell in CELLS]
    jobs = [("load", {"repo": "svn"}), ("copies", {"storage": "disk"}), *cells, ("report", {})]
    assert known.expect(jobs) == 6
    return known


CELLS = ("a1", "a2", "a3", "b1", "b2", "b3")


def measure(
    known: Course, number: int, cell: str, at: float, seconds: float, ok: bool = True
) -> str:
    known.began(number, Job("cell", {"study": "s", "cell": cell, "round": "1"}, "", at))
    return known.ended(number, not ok, at + seconds)


def test_a_run_in_words(known: Course, log: Path) -> None:
    assert known.line(0) == "preparing"
    known.began(1, Job("load", {"repo": "svn"}, str(log), 0.0))
    assert known.line(1) == "preparing svn"
    tell(log, {"name": "listing the commits", "unit": "", "seconds": 2.0})
    assert known.line(2) == "listing the commits svn: 2 s so far"
    tell(log, {"name": "loading", "done": 900, "total": 57_000, "seconds": 4.0})
    assert known.line(6) == "loading svn: 900 of 57,000 revisions", "nobody knows yet how long"
    tell(log, {"name": "loading", "done": 19_000, "total": 57_000, "seconds": 100.0})
    assert known.line(102) == "loading svn: 19,000 of 57,000 revisions, 3 min left"
    tell(
        log,
        {"name": "loading", "done": 0, "total": 0},
        {"name": "checking", "done": 1 << 30, "total": 0, "unit": "bytes"},
    )
    assert known.line(103) == "checking svn: 1.00 GiB"
    assert known.ended(1, False, 240.0) == "loaded svn in 4 min"
    assert known.line(240) == "preparing"
    known.began(2, Job("copies", {"storage": "disk"}, str(log), 240.0))
    tell(log, {"name": "copying", "done": 2, "total": 8, "unit": "files"})
    assert known.line(241) == "copying on disk: 2 of 8 files"
    assert known.ended(2, False, 250.0) == "made the copies on disk in 10 s"
    assert known.line(251) == "preparing"
    for number, cell in enumerate(CELLS, 3):
        said = measure(known, number, cell, 250.0 + 10 * number, 9.0, ok=cell != "a2")
        if cell == "a2":
            assert known.line(300) == "measuring: 2 of 6 cell-rounds (1 failed)"
    assert said == "measured 6 cell-rounds (1 failed) in 59 s"
    assert known.line(400) == "making tables and report: 0 of 1"


def test_counting_is_told_before_measuring() -> None:
    known = Course(lambda study, cell: cell[0])
    calls = [("calls", {"study": "s", "cell": cell}) for cell in CELLS[:2]]
    cells = [("cell", {"study": "s", "cell": cell, "round": "1"}) for cell in CELLS]
    known.expect([*calls, *cells, ("report", {})])
    for number, (rule, wildcards) in enumerate(calls):
        assert known.line(number).startswith("counting") == (number > 0)
        known.began(number, Job(rule, wildcards, "", float(number)))
        assert known.line(number) == f"counting the system calls of commands: {number} of 2"
        known.ended(number, False, number + 1.0)
    measure(known, 9, "a1", 10.0, 1.0)
    assert known.line(11) == "measuring: 1 of 6 cell-rounds"


def test_a_run_that_has_minutes_says_how_long_it_takes_at_the_most() -> None:
    known = Course(lambda study, cell: cell[0])
    known.ends_at = 80.0
    cells = [("cell", {"study": "s", "cell": cell, "round": "1"}) for cell in CELLS]
    asked = known.expect([*cells, ("decide", {"study": "s", "number": "2"}), ("report", {})])
    assert known.asked_for(asked) == "6 cell-rounds to measure, then more where they answer most"
    for number, cell in enumerate(CELLS):
        measure(known, number, cell, 10.0 * number, 9.0)
        if cell == "a1":
            assert known.line(20) == "measuring: 1 of 6 cell-rounds, at most 60 s left"
    known.began(7, Job("decide", {"study": "s", "number": "2"}, "", 60.0))
    assert known.line(61) == "deciding where more rounds answer most"
    known.ended(7, False, 62.0)
    more = [("cell", {"study": "s", "cell": cell, "round": "2"}) for cell in CELLS[:2]]
    assert known.asked_for(known.expect([*more, ("report", {})])) == "2 more cell-rounds to measure"
    measure(known, 8, "a1", 63.0, 9.0)
    assert known.line(73) == "measuring: 7 of 8 cell-rounds, at most 8 s left", (
        "what is given is measured"
    )


def test_time_left_is_told_by_what_those_of_a_kind_took() -> None:
    left = TimeLeft()
    left.expect("a" * 10 + "b" * 10)
    left.begin(100.0)
    for number in range(4):
        left.end("a", 1.0, 102.0 + 2 * number)
    assert left.seconds(108.0) is None, "too few"
    left.end("a", 1.0, 110.0)
    assert left.seconds(110.0) is None, "of most that are left none has ended yet"
    left.end("b", 5.0, 120.0)
    # Five of 1 s and nine of 5 s; and of 20 s until now the half was spent between them.
    assert left.seconds(120.0) == pytest.approx((5 * 1.0 + 9 * 5.0) * 2)
    assert left.seconds(125.0) == pytest.approx(95.0), "time goes on while one is measured"
    assert left.seconds(1000.0) == 0.0


class Stream(io.StringIO):
    """Standard error, a terminal or not."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    def fileno(self) -> int:
        return 2


class Shown:
    """A console whose clock is turned by hand, and that is looked at instead of looking by itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, terminal: bool, known: Course) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((40, 24)))
        monkeypatch.setenv("TERM", "xterm")
        self.stream = Stream(terminal)
        self.console = Console(logging.StreamHandler(self.stream), known)

    def say(self, text: str, level: int = logging.INFO, **event: Any) -> None:
        record = logging.LogRecord("snakemake", level, "", 1, text, (), None)
        record.__dict__.update(event)
        self.console.handle(record)

    def job(self, number: int, rule: str, log: Path | str = "", **wildcards: str) -> None:
        more = {"jobid": number, "rule_name": rule, "wildcards": wildcards, "log": [str(log)]}
        self.say("rule x:", event="job_info", **more)

    def lines(self) -> list[str]:
        """What was written since this was asked last, without the times in front."""
        text = self.stream.getvalue()
        self.stream.seek(0)
        self.stream.truncate()
        return [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in text.splitlines()]


def wait(shown: Shown, until: float) -> None:
    """Let time go by, as the thread does that looks."""
    while (pause := shown.console._pause(shown.now)) <= until - shown.now:
        shown.now += pause
        shown.console._show(shown.now)
    shown.now = until


def test_a_log_has_a_line_at_least_each_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, known: Course, log: Path
) -> None:
    shown = Shown(monkeypatch, False, known)
    shown.job(1, "load", log, repo="svn")
    tell(log, {"name": "loading", "done": 1, "total": 57_000})
    wait(shown, shown.now + 432)
    lines = shown.lines()
    assert 432 / 10 <= len(lines) <= 432 / 7
    assert set(lines) == {"loading svn: 1 of 57,000 revisions"}, "it stands still, and says so"
    tell(log, {"name": "verifying", "done": 0, "total": 57_000})
    wait(shown, shown.now + 2)
    assert shown.lines() == ["verifying svn: 0 of 57,000 revisions"], "at once"


def test_a_log_of_a_day_has_hundreds_of_lines(
    monkeypatch: pytest.MonkeyPatch, known: Course
) -> None:
    shown = Shown(monkeypatch, False, known)
    shown.job(1, "cell", study="s", cell="a1", round="1")
    began = shown.now
    wait(shown, began + 900)
    assert 90 <= len(shown.lines()) <= 115
    wait(shown, began + 24 * 3600)
    assert 100 < len(shown.lines()) < 1000


def test_while_cells_are_timed_nothing_wakes_up(
    monkeypatch: pytest.MonkeyPatch, known: Course
) -> None:
    for terminal in (False, True):
        shown = Shown(monkeypatch, terminal, known)
        shown.job(1, "cell", study="s", cell="a1", round="1")
        assert shown.console._pause(shown.now) > 5
        shown.now += 30
        shown.console._show(shown.now)
        assert shown.console._pause(shown.now) > 5


def test_on_a_terminal_one_line_is_rewritten(
    monkeypatch: pytest.MonkeyPatch, known: Course, log: Path
) -> None:
    shown = Shown(monkeypatch, True, known)
    shown.job(1, "load", log, repo="a-name-that-fills-the-terminal")
    tell(log, {"name": "loading", "done": 1, "total": 57_000})
    wait(shown, shown.now + 3)
    text = shown.stream.getvalue()
    assert "\n" not in text
    *_, last, after = text.split("\r")
    assert last == "\x1b[Kloading a-name-that-fills-the-terminal:" and after == ""
    shown.say("Error in rule load:", logging.ERROR, event="job_error", jobid=1)
    assert "\r\x1b[KError" not in text
    written = shown.stream.getvalue().removeprefix(text)
    assert written.startswith("\r\x1b[K") and written.endswith("\r"), "and it is back behind that"


def test_what_passes_and_what_does_not(monkeypatch: pytest.MonkeyPatch, known: Course) -> None:
    shown = Shown(monkeypatch, False, known)
    shown.say("Select jobs to execute...")
    shown.job(1, "grid", study="s")
    shown.say("Finished jobid: 1 (Rule: grid)", event="job_finished", job_id=1)
    assert shown.lines() == []
    shown.say("Nothing to be done (all requested files are present and up to date).")
    shown.say("Something is odd", logging.WARNING)
    shown.say("RuleException:\nCalledProcessError in file x: Command y", logging.ERROR)
    more = {"jobid": 2, "input": ["a"] * 1000, "shellcmd": "a long one", "msg": "x"}
    shown.say("", logging.ERROR, event="job_error", **more)
    first, second, *_ = shown.lines()
    assert first.startswith("Nothing to be done") and second == "Something is odd"
    shown.console.end()
    shown.say("WorkflowError", logging.ERROR)
    assert shown.lines() == ["WorkflowError"]


@pytest.mark.parametrize(
    "asked", [{"verbose": True}, {"printshellcmds": True}, {"dryrun": True}, {"quiet": {"rules"}}]
)
def test_who_asks_snakemake_for_more_or_less_gets_its_own_console(asked: dict[str, Any]) -> None:
    log = logging.getLogger("snakemake.logging")
    own = logging.StreamHandler(io.StringIO())
    own.name = "DefaultStreamHandler"
    before = log.handlers[:]
    log.handlers[:] = [own]
    try:
        assert console.take_over(SimpleNamespace(**NO_SETTINGS | asked), lambda *_: 0) is None
        assert log.handlers == [own]
        taken = console.take_over(SimpleNamespace(**NO_SETTINGS), lambda *_: 0)
        assert log.handlers == [taken]
        own.name = "a plugin's"
        log.handlers[:] = [own]
        assert console.take_over(SimpleNamespace(**NO_SETTINGS), lambda *_: 0) is None
    finally:
        log.handlers[:] = before
