"""A small study with traffic of many clients, from its grid to its report, with real servers."""

import json
import re

import pytest
import yaml

from project import invalid_flags, needs
from vcsbench.statistics.capacity import find_capacities
from vcsbench.statistics.comparisons import comparison_rows

STUDY = "traffic"
COMPARED = {"axis": "readers", "baseline": "1", "candidates": ["4"]}
BY_READERS = {"rows": ["access", "config"], "columns": ["readers"]}
STUDY_FILE = {
    **{"title": "Many clients", "source": "A test."},
    "axes": {
        "command": ["log", "requests"],
        "access": ["svn", "http"],
        "repo": "repositories",
        "config": ["default", "forking"],
        "readers": ["1", "4"],
        "arrival": ["closed", "5"],
    },
    "defaults": {"format": "f7", "packing": "nopack"},
    "block": ["command", "repo"],
    "variance_group": ["command", "access"],
    "scenario_axes": ["command", "access", "repo"],
    "commands": {
        "log": {
            "argv": "{svn} log -v {url}",
            **{"input": "repository", "work": "log", "logged_as": "log"},
            "inapplicable_axes": ["readers", "arrival"],
        },
        "requests": {
            "argv": "{svn} ls -R {url}/{tree}",
            **{"input": "repository", "work": "stdout"},
            "traffic": {"seconds": 2},
        },
    },
    "questions": {
        "access": {"question": "http or svn?"},
        "readers": {"question": "How many clients?", "doubles": "latency_p95_ms"},
    },
    "tables": {
        "elapsed": {"metric": "elapsed_s", "rows": ["access"], "columns": ["config", "readers"]},
        "svn-vs-http": {
            "compare": {"axis": "access", "baseline": "svn", "candidates": ["http"]},
            **{"rows": ["candidate", "command"], "columns": ["config", "readers"]},
        },
        "throughput": {
            **{"metric": "throughput_per_s", "where": {"command": "requests"}},
            **{"rows": ["access", "config"], "columns": ["readers", "arrival"], "over": "readers"},
        },
        "p95-by-readers": {
            "compare": {**COMPARED, "metric": "latency_p95_ms"},
            "where": {"arrival": "closed"},
            **{"rows": ["access", "config"], "columns": ["candidate"]},
        },
        "memory": {"metric": "server_peak_mib_per_client", **BY_READERS},
        "server-cpu": {"metric": "server_cpu_ms_per_request", **BY_READERS},
    },
}
REQUESTS = {"command": "requests", "config": "default", "access": "svn"}


@pytest.mark.slow
@needs("svn", "svnserve", "hyperfine")
def test_traffic_study_runs_from_grid_to_report(project):
    file = project.path / "config" / "studies" / f"{STUDY}.yaml"
    file.write_text(yaml.safe_dump(STUDY_FILE, sort_keys=False))
    log = project.path / "svn.log"
    log.write_text("[28/Nov/2026:22:30:10 +0000] - log (/trunk) r9:1\n" * 3)
    project.configure(
        {"command": "log", "config": "default"},
        {**REQUESTS, "arrival": "closed", "access": ["svn", "http"]},
        {**REQUESTS, "arrival": "closed", "config": "forking"},
        {**REQUESTS, "arrival": "5", "readers": "4"},
        study=STUDY,
        rounds=2,
        server_log=str(log),
    )
    project.succeed()
    rows = project.rows(f"measurements/{STUDY}.csv")
    assert invalid_flags(rows) == []
    runs = {(r["access"], r["config"], r["readers"], r["arrival"]): r for r in rows if r["readers"]}
    assert_requests_are_counted(runs)
    assert_servers_are_accounted(runs)
    assert_context_has_all_latencies(project, runs)
    # Requests have no elapsed time.
    for table in ("elapsed", "svn-vs-http"):
        assert {row["command"] for row in project.rows(f"tables/{STUDY}/{table}.csv")} == {"log"}
    assert "requests" not in json.dumps(project.json(f"advice/{STUDY}.json")["situations"])
    assert_page_and_capacity(project)


def assert_requests_are_counted(runs):
    assert len(runs) == 7
    assert len({run["work"] for run in runs.values()}) == 1
    for (_, _, readers, arrival), run in runs.items():
        assert run["elapsed_s"] == "" and float(run["senders"]) == int(readers)
        assert 0 < float(run["throughput_per_s"]) <= float(run["requests"]) / 2
        percentiles = [float(run[f"latency_p{share}_ms"]) for share in (50, 95, 99)]
        assert percentiles == sorted(percentiles) and percentiles[0] > 1
        # Ten arrivals on average.
        assert arrival == "closed" or 2 <= float(run["requests"]) <= 25


def assert_servers_are_accounted(runs):
    for run in runs.values():
        assert float(run["server_cpu_s"]) > 0
        # The requests are many processes, which take more than the program that starts them.
        assert float(run["clients_cpu_s"]) > 3 * float(run["generator_cpu_s"]) > 0
    peaks = {
        (config, readers): float(run["server_peak_memory_bytes"])
        for (access, config, readers, arrival), run in runs.items()
        if access == "svn" and arrival == "closed"
    }
    # The processes of four connections have ended, and were seen while they lived.
    assert peaks["forking", "4"] > 1.1 * peaks["forking", "1"]


def assert_context_has_all_latencies(project, runs):
    context = project.context(STUDY, "requests/svn/ruby/default/4/5", 2)
    traffic = context["runs"][0]["traffic"]
    assert (traffic["readers"], traffic["arrival"], traffic["seconds"]) == (4, "5", 2)
    assert len(traffic["read"]["ended_s"]) == float(runs["svn", "default", "4", "5"]["requests"])
    # All cells of a round have the same arrivals, and another round has other ones.
    other = project.context(STUDY, "requests/svn/ruby/default/4/5", 1)["runs"][0]["traffic"]
    assert other["read"]["planned_s"] != traffic["read"]["planned_s"]


def assert_page_and_capacity(project):
    compared = project.rows(f"tables/{STUDY}/p95-by-readers.csv")
    numbers = ("ratio", "low", "high", "n")
    records = [{**row, **{n: float(row[n] or "nan") for n in numbers}} for row in compared]
    capacities = find_capacities(comparison_rows(records))
    expected = {("svn", "default"), ("svn", "forking"), ("http", "default")}
    assert {(c.where["access"], c.where["config"]) for c in capacities} == expected
    assert all(capacity.factors[4] > 1 for capacity in capacities)
    page = project.page(STUDY)
    assert "Requests per second" in page and "Latency, p95" in page
    assert "clients and server share this machine" in page
    assert "svn.log has 3 commands: log 100 %." in page
    card, capacity = project.json(f"advice/{STUDY}.json")["cards"]
    (share,) = card["workload"]
    assert (share["name"], share["weight"]) == ("log", 100)
    # Each case has the shares of the processors that server and clients took, here with four clients.
    assert len(capacity["candidates"]) == len(capacity["lines"]) == 3
    for line in capacity["lines"]:
        number, server_pct, clients_pct = map(int, re.findall(r"\b\d+\b", line))
        assert number == 4 and 0 <= server_pct < clients_pct <= 100


COMMITS_FILE = {
    **{"title": "Many committers", "source": "A test."},
    "axes": {
        "command": ["commits"],
        "access": ["svn", "http"],
        "repo": "repositories",
        "readers": ["0", "1"],
        "committers": ["0", "2"],
        "arrival": ["closed", "10"],
    },
    "defaults": {"format": "f7", "packing": "nopack", "config": "default"},
    "commands": {
        "commits": {
            "argv": "{svn} ls -R {url}/{tree}",
            **{"input": "committed_repository", "work": "stdout"},
            "traffic": {
                "seconds": 2,
                "commit": "{svnmucc} put {change} {url}/traffic-{client} -m change",
            },
        },
    },
    "tables": {"commits": {"metric": "commit_p95_ms", "rows": ["access"], "columns": ["readers"]}},
}


@pytest.mark.slow
@needs("svn", "svnmucc", "svnserve", "hyperfine")
def test_committers_add_as_many_revisions_as_they_commit(project):
    file = project.path / "config" / "studies" / f"{STUDY}.yaml"
    file.write_text(yaml.safe_dump(COMMITS_FILE, sort_keys=False))
    both = {"readers": "1", "committers": "2", "access": "svn"}
    project.configure(
        {"readers": "0", "committers": "2", "arrival": "closed"},
        {**both, "arrival": ["closed", "10"]},
        study=STUDY,
    )
    project.succeed()
    rows = project.rows(f"measurements/{STUDY}.csv")
    assert len(rows) == 4 and invalid_flags(rows) == []
    assert len({row["work"] for row in rows}) == 1
    for row in rows:
        cell = f"commits/{row['access']}/ruby/{row['readers']}/2/{row['arrival']}"
        traffic = project.context(STUDY, cell)["runs"][0]["traffic"]
        commits = len(traffic["commit"]["ended_s"])
        assert traffic["revisions_added"] == commits > 2
        assert float(row["commit_p95_ms"]) > 0
        reads = len(traffic["read"]["ended_s"])
        assert (reads > 0) == (row["readers"] == "1") == (row["latency_p95_ms"] != "")
        assert float(row["requests"]) == commits + reads
    assert "Latency of commits, p95" in project.page(STUDY)
