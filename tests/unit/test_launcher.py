"""Several clients are let go together; one that fails ends all of them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from vcsbench.evidence import run_columns
from vcsbench.measure import launcher

MARK = "@N@"


def launch(
    tmp_path: Path, number: int, *argv: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    report = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, "-I", "-S", launcher.__file__, str(report), str(number), MARK, *argv],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done, json.loads(report.read_text()) if report.exists() else {}


def test_each_client_runs_the_command_with_its_own_number(tmp_path: Path) -> None:
    done, report = launch(tmp_path, 5, "/bin/touch", f"{tmp_path}/made-{MARK}")
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in tmp_path.glob("made-*")) == [f"made-{n}" for n in range(1, 6)]
    assert len(report["clients"]) == 5


def test_all_are_let_go_when_the_last_one_waits(tmp_path: Path) -> None:
    """They run side by side, and each is told from when it went."""
    done, report = launch(tmp_path, 4, "/bin/sleep", "0.3")
    assert done.returncode == 0
    assert 0.3 <= report["all_s"] < 1.1
    assert all(client["ended_s"] - client["went_s"] >= 0.3 for client in report["clients"])
    went = [client["went_s"] for client in report["clients"]]
    assert min(went) >= 0 and max(went) - min(went) < 0.1


def test_each_clients_processor_time_is_its_own(tmp_path: Path) -> None:
    loop = f"[ {MARK} = 2 ] || exit 0; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    _, report = launch(tmp_path, 2, "/bin/sh", "-c", loop)
    first, second = (client["user_s"] + client["system_s"] for client in report["clients"])
    assert second > 5 * first and second > 0.05


def test_one_that_fails_fails_all_and_ends_the_others(tmp_path: Path) -> None:
    began = time.monotonic()
    done, report = launch(tmp_path, 3, "/bin/sh", "-c", f"[ {MARK} = 2 ] && exit 7; exec sleep 30")
    assert done.returncode == 7 and report == {}
    assert done.stderr == "client 2 of 3 exits with 7\n"
    assert time.monotonic() - began < 10


def test_launcher_of_a_client_that_a_signal_ends_names_it(tmp_path: Path) -> None:
    done, report = launch(tmp_path, 2, "/bin/sh", "-c", "[ @N@ = 2 ] && kill -9 $$; exec sleep 30")
    assert done.returncode == 128 + 9 and report == {}
    assert done.stderr == "client 2 of 2 was ended by SIGKILL\n"


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    done, _ = launch(tmp_path, 2, "/nowhere/svn")
    assert done.returncode == 127
    assert "/nowhere/svn: No such file or directory" in done.stderr


CONTEXT = {"host": {"cores": 4}}


def test_what_clients_get_is_told_of_all_of_them_and_of_the_slowest_and_the_fastest() -> None:
    launched = {
        "all_s": 2.0,
        "clients": [{"went_s": 0.0, "ended_s": 1.5}, {"went_s": 0.25, "ended_s": 2.0}],
    }
    seen = {"work": {"files": 3, "bytes": 100}, "launched": launched}
    told = run_columns.client_columns(2.25, seen, CONTEXT)
    assert told == {
        "tree_bytes": 200,
        "carried_s": 2.0,
        "slowest_client_s": 1.75,
        "fastest_client_s": 1.5,
        "launching_s": 0.25,
        "went_apart_s": 0.25,
        "cores": 4,
    }


def test_a_single_client_is_timed_by_itself_and_what_is_no_tree_brings_none() -> None:
    told = run_columns.client_columns(0.5, {"work": {"files": 3, "bytes": 100}}, CONTEXT)
    assert (told["tree_bytes"], told["carried_s"], told["slowest_client_s"]) == (100, 0.5, None)
    for work in ({"revisions": 7, "bytes": 100}, {"files": 3, "bytes_in_files": 9}, {}):
        assert run_columns.client_columns(0.5, {"work": work}, CONTEXT)["tree_bytes"] is None
