"""Traffic of many clients: closed and open loops of real processes, its columns, flags and capacity."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from project import HANGING_S, wait_for
from unit.test_untimed_runs import wait_for_end
from vcsbench.axes import AXES
from vcsbench.codes import Call
from vcsbench.config.study_reader import load_study
from vcsbench.errors import UserError
from vcsbench.evidence import run_columns
from vcsbench.evidence.flags import Flag
from vcsbench.evidence.same_work import (
    count_flushes,
    count_needed_flushes,
    has_idle_server,
    has_other_output,
)
from vcsbench.measure import traffic
from vcsbench.metrics import METRICS
from vcsbench.records import complete_context, complete_run
from vcsbench.statistics.capacity import find_capacities
from vcsbench.statistics.comparisons import ComparisonRow

PROGRAM = [sys.executable, "-I", "-S", traffic.__file__]


def specify(folder, script, **keys):
    """Write a specification whose read request runs a script of sh, and return its path."""
    specification = {
        **{"seconds": 1.0, "per_s": 0, "seed": 1, "readers": 1, "commits": []},
        "read": ["/bin/sh", "-c", script],
        "report": str(folder / "report.json"),
        "errors": str(folder / "errors"),
        **keys,
    }
    path = folder / "specification.json"
    path.write_text(json.dumps(specification))
    return path


def send(folder, script, **keys):
    command = [*PROGRAM, specify(folder, script, **keys)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGING_S)
    report = folder / "report.json"
    return done, json.loads(report.read_text()) if report.exists() else {}


def most_at_once(sent):
    """Return the largest number of requests that ran at the same time."""
    changes = [(at, 1) for at in sent["started_s"]] + [(at, -1) for at in sent["ended_s"]]
    running, most = 0, 0
    for _, change in sorted(changes):
        running += change
        most = max(most, running)
    return most


def test_closed_loop_keeps_each_client_busy_until_the_end(tmp_path):
    done, report = send(tmp_path, "sleep 0.1", readers=3)
    assert done.returncode == 0, done.stderr
    sent = report["read"]
    assert most_at_once(sent) == 3
    # An idle machine sends 30.
    assert 6 <= len(sent["ended_s"]) <= 30
    assert max(sent["started_s"]) < 1 <= max(sent["ended_s"])
    assert sent["planned_s"] == sent["started_s"]
    assert (sent["unstarted_s"], sent["failed"], report["late"]) == ([], {}, 0)
    assert report["commit"]["ended_s"] == []


def planned_arrivals(seed, per_s):
    draw = random.Random(seed)
    arrivals = []
    at_s = draw.expovariate(per_s)
    while at_s < 1:
        arrivals.append(pytest.approx(at_s, abs=1e-5))
        at_s += draw.expovariate(per_s)
    return arrivals


def test_open_loop_counts_latency_from_arrival_and_loses_no_request(tmp_path):
    _, report = send(tmp_path, "sleep 0.2", per_s=30, seed=7)
    sent = report["read"]
    # One client sends five requests in a second: the other ones wait, and are not lost.
    assert most_at_once(sent) == 1 and 1 <= len(sent["ended_s"]) <= 6
    assert sent["planned_s"] + sent["unstarted_s"] == planned_arrivals(7, 30)
    assert report["late"] >= len(sent["unstarted_s"]) > 10
    waits = [start - plan for plan, start in zip(sent["planned_s"], sent["started_s"], strict=True)]
    assert waits == sorted(waits) and waits[-1] > 0.3


def test_open_loop_counts_requests_that_arrive_while_another_one_starts(tmp_path):
    # No request ends during the traffic, so no end wakes the program for a request that it overlooked.
    _, report = send(tmp_path, "sleep 2", per_s=50, readers=80, seed=5)
    sent = report["read"]
    assert sorted(sent["planned_s"] + sent["unstarted_s"]) == planned_arrivals(5, 50)


def test_open_loop_with_enough_clients_starts_requests_at_their_arrival(tmp_path):
    _, report = send(tmp_path, ":", per_s=20, readers=20, seed=3)
    sent = report["read"]
    assert sorted(sent["planned_s"]) == planned_arrivals(3, 20)
    assert sent["unstarted_s"] == [] and report["late"] == 0
    early = [p for p, s in zip(sent["planned_s"], sent["started_s"], strict=True) if s < p]
    assert early == []


def test_committers_send_another_content_each_time(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    commits = []
    for number in (1, 2):
        change = str(tmp_path / f"change-{number}")
        script = f'cp {change} "{kept}/{number}-$(date +%s%N)"; sleep 0.1'
        commits.append({"argv": ["/bin/sh", "-c", script], "change": change})
    _, report = send(tmp_path, ":", readers=0, commits=commits)
    contents = [path.read_text() for path in kept.iterdir()]
    assert len(set(contents)) == len(contents) == len(report["commit"]["ended_s"]) >= 4
    assert {path.name[0] for path in kept.iterdir()} == {"1", "2"}
    assert report["read"]["ended_s"] == []


def test_failed_requests_are_counted_and_too_many_end_the_run(tmp_path):
    done, report = send(tmp_path, "echo no access >&2; sleep 0.3; exit 3")
    assert done.returncode == 0
    assert report["read"]["ended_s"] == [] and report["read"]["failed"].keys() == {"3"}
    assert report["errors"][-1] == "no access"
    (tmp_path / "report.json").unlink()
    done, report = send(tmp_path, "echo no access >&2; exit 3", seconds=60)
    assert (done.returncode, report) == (1, {})
    assert done.stderr.endswith("no access\n")


def test_missing_program_is_named(tmp_path):
    done, _ = send(tmp_path, ":", read=["/nowhere/svn"])
    assert done.returncode == 127
    assert done.stderr == f"/nowhere/svn: {os.strerror(2)}\n"


def test_program_on_the_path_is_found(tmp_path):
    done, report = send(tmp_path, ":", read=["sleep", "0.3"])
    assert done.returncode == 0, done.stderr
    assert report["read"]["ended_s"] and not report["read"]["failed"]


def test_request_that_cannot_be_started_ends_those_that_run(tmp_path):
    # A reader runs when the committer is started.
    commit = {"argv": ["/nowhere/svn"], "change": str(tmp_path / "change")}
    done, _ = send(tmp_path, "exec sleep 3604.25", commits=[commit])
    assert done.returncode == 127
    wait_for_end(["sleep", "3604.25"])


def test_traffic_ends_with_its_parent(tmp_path):
    path = specify(tmp_path, "sleep 0.2", seconds=600)
    starter = "import subprocess, sys; p = subprocess.Popen(sys.argv[1:]); print(p.pid); p.wait()"
    command = [sys.executable, "-u", "-c", starter, *PROGRAM, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        program = Path("/proc", parent.stdout.readline().strip())
        time.sleep(0.3)
        parent.send_signal(signal.SIGKILL)
    wait_for(lambda: not program.exists())


# Keys of studies and values of axes

STUDY = {
    **{"title": "Many clients", "source": "A test."},
    "axes": {
        "command": "commands",
        "access": ["svn"],
        "readers": ["1", "4"],
        "committers": ["0", "1"],
    },
    "commands": {
        "log": {
            **{"argv": "{svn} log {url}", "input": "repository", "work": "log"},
            "inapplicable_axes": ["readers", "committers"],
        },
        "requests": {
            **{"argv": "{svn} ls -R {url}", "input": "committed_repository", "work": "stdout"},
            "traffic": {"seconds": 2, "commit": "{svnmucc} put {change} {url}/file-{client}"},
        },
    },
    "tables": {"all": {"metric": "throughput_per_s", "rows": ["access"], "columns": ["readers"]}},
}


def load(folder, **changes):
    """Load the study with changed keys of its axes or of one of its commands."""
    study = json.loads(json.dumps(STUDY))
    for name, keys in changes.items():
        (study["axes"] if name == "axes" else study["commands"][name]).update(keys)
    path = folder / "traffic.yaml"
    path.write_text(yaml.safe_dump(study))
    return load_study(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"log": {"inapplicable_axes": ["readers"]}}, "log.inapplicable_axes`: lacks `committers`"),
        ({"requests": {"traffic": {"seconds": 0}}}, "requests.traffic.seconds"),
        ({"requests": {"traffic": {"seconds": 1, "commit": "x {chnage}"}}}, "{chnage}"),
        ({"requests": {"traffic": {"seconds": 1}}}, "traffic.commit`: is missing"),
        ({"requests": {"argv": "{svn} ls {url} {change}"}}, "{change}"),
        ({"requests": {"stdin": "{url}"}}, "stdin`: has no effect"),
        ({"requests": {"input": "repository"}}, "input`: must be `committed_repository`"),
        ({"axes": {"clients": ["1", "2"]}}, "lacks `clients`"),
    ],
)
def test_study_with_wrong_traffic_is_refused_with_its_key(tmp_path, changes, message):
    assert load(tmp_path).command({"command": "requests"}).traffic["seconds"] == 2
    with pytest.raises(UserError) as caught:
        load(tmp_path, **changes)
    assert str(caught.value).startswith(f"{tmp_path}/traffic.yaml: `commands.")
    assert message in str(caught.value)


def test_study_without_committers_needs_no_commit(tmp_path):
    restricted = {"traffic": {"seconds": 1}, "restrict_to": {"committers": ["0"]}}
    load(tmp_path, requests=restricted)
    load(tmp_path, requests={"traffic": {"seconds": 1}, "inapplicable_axes": ["committers"]})


@pytest.mark.parametrize(
    ("axis", "value", "keys"),
    [
        ("readers", "0", {"readers": 0}),
        ("readers", "256", {"readers": 256}),
        ("readers", "257", None),
        ("readers", "many", None),
        ("committers", "8", {"committers": 8}),
        ("arrival", "closed", {"arrival": "closed"}),
        ("arrival", "0.5", {"arrival": "0.5"}),
        ("arrival", "20", {"arrival": "20"}),
        ("arrival", "0", None),
        ("arrival", "1.50", None),
        ("arrival", "open", None),
        ("arrival", "", {}),
    ],
)
def test_values_of_traffic_axes(axis, value, keys):
    is_valid = keys is not None
    assert bool(value) is False or (AXES[axis].why_invalid(value) == "") == is_valid
    if is_valid:
        assert AXES[axis].recipe_keys(value, None) == keys


def test_cell_without_clients_is_skipped():
    why_not = AXES["readers"].why_not
    assert why_not("0", {"traffic": {}, "readers": 0}, None)
    assert not why_not("0", {"traffic": {}, "readers": 0, "committers": 1}, None)
    assert not why_not("", {}, None)


# Columns and flags

SENT = {"planned_s": [], "started_s": [], "ended_s": [], "unstarted_s": [], "failed": {}}


def reads(latencies, unstarted=(), failed=()):
    """Return requests that were planned at 0 s and took some seconds."""
    planned = [0.0] * len(latencies)
    return {
        **{"planned_s": planned, "started_s": planned, "ended_s": list(latencies)},
        **{"unstarted_s": list(unstarted), "failed": dict(failed)},
    }


def record(read=SENT, commit=SENT, **keys):
    report = {
        **{"seconds": 10, "readers": 4, "committers": 0, "arrival": "closed"},
        **{"late": 0, "generator_cpu_s": 0.5, "read": read, "commit": commit, **keys},
    }
    return complete_run({"traffic": report})


def test_traffic_columns_have_exact_percentiles_and_throughput():
    latencies = [n / 10 for n in range(1, 201)]
    columns = run_columns.traffic_columns(record(reads(latencies), reads([3.0], unstarted=[1.0])))
    assert columns["latency_p50_ms"] == pytest.approx(10_000)
    assert columns["latency_p95_ms"] == pytest.approx(19_000)
    assert columns["latency_p99_ms"] == pytest.approx(19_800)
    # The request that never started waits for 9 s.
    assert columns["commit_p95_ms"] == pytest.approx(9_000)
    assert columns["unstarted_requests"] == 1
    # Of the 201 requests, 100 reads and the commit ended within 10 s.
    assert (columns["requests"], columns["throughput_per_s"]) == (201, pytest.approx(10.1))
    of_memory = {"server_peak_memory_bytes": 8 << 20, "senders": columns["senders"]}
    assert METRICS["server_peak_mib_per_client"].value(of_memory) == 2
    of_cpu = {"server_cpu_s": 2.01, "requests": columns["requests"]}
    assert METRICS["server_cpu_ms_per_request"].value(of_cpu) == pytest.approx(10)


def test_runs_without_traffic_have_no_columns_of_it():
    assert run_columns.traffic_columns(complete_run({})) == {}
    assert run_columns.traffic_columns(record()).keys() == set(run_columns.TRAFFIC_COLUMNS)


@pytest.mark.parametrize(
    ("share", "numbers", "expected"),
    [
        (95, range(1, 11), 10),
        (50, [3], 3),
        (50, [1, 2], 1),
        (99, range(1, 101), 99),
        (50, [], None),
    ],
)
def test_percentile_is_a_measured_number(share, numbers, expected):
    assert run_columns.percentile(list(numbers), share) == expected


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (record(reads([1.0])), []),
        (record(reads([1.0], failed={"1": 2})), [Flag.REQUESTS_FAILED]),
        (record(reads([1.0]), reads([1.0, 2.0]), revisions_added=2), []),
        (record(reads([1.0]), reads([1.0, 2.0]), revisions_added=1), [Flag.OTHER_REVISIONS]),
        (record(reads([1.0], unstarted=[9.0])), [Flag.OVERLOADED]),
        (complete_run({}), []),
    ],
)
def test_traffic_flags(run, expected):
    assert run_columns.traffic_flags(run) == expected
    invalid = {Flag.REQUESTS_FAILED, Flag.OTHER_REVISIONS}
    assert all(flag.is_invalid == (flag in invalid) for flag in expected)


def test_output_of_traffic_is_checked_by_its_mean():
    context = {"work_kind": "stdout", "captured_io": {"wchar": 50_000}, "working_copy": {}}
    run = record(reads([1.0] * 10))
    for written, is_other in ((500_500, False), (400_000, True)):
        run["evidence"] = {"client_wchar": written}
        assert has_other_output(run, context) == is_other
    run["work"] = {"bytes": 50_000}
    # 2 % of what ten requests printed.
    for sent, is_idle in ((10_000, False), (9_999, True)):
        run["evidence"] = {"server_kind": "svnserve", "server_wchar": sent}
        assert has_idle_server(run, context) == is_idle


@pytest.mark.parametrize(
    ("kind", "count"), [("svnserve", "server_wchar"), ("hg-serve", "server_rchar")]
)
def test_open_loop_with_fewer_requests_than_clients_has_no_idle_server(kind, count):
    # The checked run has a request of each of the eight clients.
    context = {"work_kind": "stdout", "captured_io": {count: 8 * 50_000}, "working_copy": {}}
    run = record(reads([1.0] * 2), readers=8, arrival="0.2")
    run["work"] = {"bytes": 50_000}
    run["evidence"] = {"server_kind": kind, count: 2 * 50_000}
    assert not has_idle_server(run, context)


@pytest.mark.parametrize(
    ("commits", "storage", "needed", "counted"),
    [
        (reads([1.0] * 5, failed={"1": 2}), {}, 20, 7),
        (SENT, {}, 0, 7),
        (reads([1.0]), {"filesystem": "tmpfs"}, 0, 7),
        (reads([1.0]), {"write_cache": "write through"}, 4, None),
    ],
)
def test_commits_of_traffic_need_flushes_of_the_storage(commits, storage, needed, counted):
    disk = {"filesystem": "ext4", "write_cache": "write back"}
    content = {"work_kind": "stdout", "argv": ["python"], "storage": {**disk, **storage}}
    context = complete_context(content)
    run = record(reads([1.0] * 10), commits)
    run["evidence"] = {"device_flushes": 7}
    assert count_needed_flushes(run, context) == needed
    assert count_flushes(run, context) == counted


# Capacity


def row(number, ratio, low, high, **where):
    return ComparisonRow("1", str(number), where=where, ratio=ratio, low=low, high=high, n=5)


def test_capacity_is_smallest_number_with_doubled_latency_and_its_interval():
    rows = [row(8, 0.3, 0.25, 0.35), row(4, 0.52, 0.45, 0.6), row(2, 0.8, 0.7, 0.9)]
    (capacity,) = find_capacities(rows)
    assert (capacity.number, capacity.low, capacity.high) == (8, 4, 8)
    assert (capacity.fewest, capacity.most) == (1, 8)
    assert capacity.factors == pytest.approx({2: 1.25, 4: 1.923, 8: 3.333}, rel=1e-3)


def test_capacity_of_server_that_is_never_slow_is_unknown():
    nan = float("nan")
    rows = [row(2, 0.9, nan, nan, access="svn"), row(2, 0.4, 0.3, 0.45, access="http")]
    svn, http = find_capacities(rows)
    assert (svn.where, svn.number, svn.low, svn.high) == ({"access": "svn"}, None, None, None)
    assert (http.where, http.number, http.low, http.high) == ({"access": "http"}, 2, 2, 2)


def test_throughput_metric_calls_more_requests_better():
    metric = METRICS["throughput_per_s"]
    assert metric.gain == -1 and metric.change_words == ("lower", "higher")
    assert METRICS["latency_p95_ms"].calls == (Call.FASTER, Call.SLOWER)


def test_reading_of_metric_with_geometric_means_names_no_median():
    latencies = {"latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "commit_p95_ms"}
    means = {name: metric.reading for name, metric in METRICS.items() if metric.takes_mean}
    assert latencies < means.keys()
    assert [name for name, reading in means.items() if "median" in reading] == []
