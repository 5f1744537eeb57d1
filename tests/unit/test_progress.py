"""What a run says of how far it is: what jobs tell, what becomes of it in words, and when it is written."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from vcsbench.run.console import Console, Job, Progress

from project import needs
from vcsbench import progress
from vcsbench.run import console
from vcsbench.sources import open_source
from vcsbench.subjects.repository import verifying
from vcsbench.subjects.repository.loader import load_source


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


def measure(known: Progress, number: int, at: float, seconds: float, failed: bool = False) -> str:
    known.start(number, Job("cell", {"study": "s", "cell": "a", "round": "1"}, "", at))
    return known.end(number, failed, at + seconds)


def test_progress_line_follows_the_stages_of_a_run(log: Path) -> None:
    known = Progress()
    assert known.line(0.0) == "planning"
    known.expect({"load": 1, "copies": 1, "cell": 6, "tables": 1, "report": 1, "total": 10})
    assert known.line(0.0) == "preparing"

    known.start(1, Job("load", {"repo": "svn"}, str(log), 0.0))
    tell(log, {"name": "loading", "done": 1_000, "total": 4_000, "seconds": 10.0})
    assert known.line(10.0) == "loading svn: 1,000 of 4,000 revisions, 30 s left"
    assert known.end(1, False, 40.0) == "loaded svn in 40 s"

    for number in range(5):
        assert measure(known, 2 + number, 50.0 + number, 1.0, failed=number == 1) == ""
    assert known.stage() == "cell"
    assert known.line(55.0) == "measuring: 5 of 6 cell-rounds (1 failed), 1 s left"
    assert measure(known, 8, 55.0, 1.0) == "measured 6 cell-rounds (1 failed) in 6 s"

    known.start(9, Job("tables", {"study": "s"}, "", 60.0))
    assert known.end(9, False, 61.0) == ""
    assert known.line(61.0).startswith("preparing"), "the copies have not been made"
    known.end(10, False, 61.0)
    known.ended["copies"] = 1
    assert known.line(61.0) == "making tables and report: 1 of 2"


def test_progress_cell_waits_for_machine_names_the_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Progress()
    known.expect({"cell": 2})
    known.start(1, Job("cell", {"study": "s"}, "", 0.0))
    assert known.line(1.0) == "measuring: 0 of 2 cell-rounds"
    monkeypatch.setattr(console, "other_holder", lambda: "process 7 of eve")
    line = known.line(1.0)
    assert (
        line == "measuring: 0 of 2 cell-rounds; waiting for another measurement: process 7 of eve"
    )


class Terminal(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def event(level: int = logging.INFO, message: str = "", **fields: Any) -> logging.LogRecord:
    record = logging.LogRecord("snakemake", level, "", 0, message, (), None)
    vars(record).update(fields)
    return record


EVENTS = (
    event(event="run_info", stats={"cell": 2, "report": 1, "total": 3}),
    event(event="job_info", jobid=1, rule_name="cell", wildcards={"study": "s"}, log=[]),
    event(message="Select jobs to execute..."),
    event(event="job_finished", job_id=1),
    event(event="job_info", jobid=2, rule_name="cell", wildcards={"study": "s"}, log=[]),
)


def test_console_terminal_rewrites_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    shown = Console(stream)
    for one in EVENTS:
        shown.handle(one)
    shown.close()
    text = stream.getvalue()
    assert "2 cell-rounds to measure\n" in text
    assert "\r\x1b[Kmeasuring: 1 of 2 cell-rounds\r" in text
    assert "Select jobs" not in text
    assert text.endswith("\r\x1b[K")


def test_console_log_file_has_a_line_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    stream = io.StringIO()
    shown = Console(stream)
    for one in EVENTS:
        shown.handle(one)
    before = len(stream.getvalue().splitlines())
    for second in range(600):
        now = 1_000.0 + second
        shown.handle(event(message="Select jobs to execute..."))
    shown.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) - before in (9, 10)
    assert "\r" not in stream.getvalue() and "\x1b" not in stream.getvalue()


def test_console_failed_job_has_last_lines_of_its_log_escaped(tmp_path: Path) -> None:
    log = tmp_path / "round1.log"
    log.write_text("".join(f"line {number}\n" for number in range(40)) + "\x1b]0;title\x07 end\n")
    stream = io.StringIO()
    shown = Console(stream)
    shown.handle(
        event(
            logging.ERROR,
            event="job_error",
            jobid=1,
            rule_name="cell",
            log=[str(log)],
            output=["results/cells/s/a/round1.json"],
            shellcmd="python -m vcsbench.run.cell",
        )
    )
    shown.handle(event(logging.ERROR, "RuleException:\nCalledProcessError in file x"))
    shown.close()
    text = stream.getvalue()
    assert "failed: results/cells/s/a/round1.json" in text
    assert "line 39" in text and "line 20" not in text
    assert "\\x1b]0;title\\x07 end" in text and "\x1b" not in text
    assert "python -m" not in text and "RuleException" not in text


@pytest.mark.parametrize(
    ("level", "message", "is_shown"),
    [
        (logging.INFO, "Nothing to be done (all requested files are present).", True),
        (logging.WARNING, "Unlocking", True),
        (logging.ERROR, "WorkflowError:\nconfig.yaml: `rounds`: is no number.", True),
        (logging.ERROR, "WorkflowError:\nAt least one job did not complete successfully.", False),
        (logging.INFO, "Building DAG of jobs...", False),
    ],
)
def test_console_message_is_shown_if_it_matters(level: int, message: str, is_shown: bool) -> None:
    stream = io.StringIO()
    shown = Console(stream)
    shown.handle(event(level, message))
    shown.close()
    assert (message.splitlines()[-1] in stream.getvalue()) is is_shown


def test_logger_plugin_is_found_by_snakemake() -> None:
    from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

    registry = LoggerPluginRegistry()
    registry.collect_plugins()
    assert registry.get_plugin("vcsbench").log_handler.__name__ == "LogHandler"
