"""Evidence that contradicts the label of a run sets its flag; a valid run has none."""

import re

import pytest

from project import ROOT
from vcsbench.axes.cache_states import STATES
from vcsbench.evidence import flags
from vcsbench.evidence.judgement import judge

MIB = 1 << 20
SIZE = 100 * MIB
# An undisturbed run against a server, without reads.
QUIET = {
    "subject_bytes": SIZE,
    "resident_after": 0.5,
    "resident_after_bytes": 50 * MIB,
    "client_read_bytes": 0,
    "client_write_bytes": 0,
    "server_kind": "svnserve",
    "server_same": True,
    "server_read_bytes": 0,
    "server_rchar": 10_000,
    "server_first_rchar": 20 * MIB,
    "server_runs_before": 2,
    "window_s": 1.0,
    "device_read_bytes": 0,
    "swapped_in_pages": 0,
    "swapped_out_pages": 0,
    "memory_available_bytes": 4 << 30,
    "other_servers": [],
    "warming": [],
}
READS = ("server_read_bytes", "device_read_bytes", "resident_after_bytes")
LOCAL_READS = {"device_read_bytes": 3 * MIB}
COLD = {
    **QUIET,
    "resident_before": 0.0,
    "server_read_bytes": 50 * MIB,
    "device_read_bytes": 50 * MIB,
    "server_runs_before": 0,
    "warming": [{"client_read_bytes": 0, "server_read_bytes": 50 * MIB}],
}
# The kernel reports no page of the input after the run.
NO_PAGES = {"resident_after": 0.0, "resident_after_bytes": 0}
FEW_READS = {**dict.fromkeys(READS, 20 * MIB), "warming": []}
NOT_WARM = ["cache-not-warm"]
# A client with an output, which did not exist before the run.
WRITES = {"client_write_bytes": MIB, "written_resident_before": None}
COMMITS = {"client_write_bytes": MIB, "input_grew_bytes": 1}
OTHERS_READ = {"client_read_bytes": MIB, "device_read_bytes": 4 * MIB}
SERVER_READ = {"client_read_bytes": MIB, "server_read_bytes": 64 << 10}

# A line between client and server, as it was set and measured.
LINE = {
    "line_delay_ms": 20,
    "line_rate_mbit": 100,
    "line_round_trip_ms": 20.3,
    "line_to_server_mbit": 99.0,
    "line_to_client_mbit": 101.0,
}
NO_LINE = {**LINE, "line_delay_ms": 0, "line_rate_mbit": 0}
LINE_AFTER = {
    "line_round_trip_after_ms": 20.9,
    "line_to_server_after_mbit": 96.0,
    "line_to_client_after_mbit": 101.0,
}

# The discarded run of a client in Python has read its modules, besides the input.
SMALL_INPUT = dict.fromkeys(READS, 0)
SMALL_INPUT |= {"subject_bytes": 340 << 10, "discarded_read_bytes": 1503 << 10}
SMALL_INPUT["resident_after_bytes"] = 300 << 10


def judged(cache, **seen):
    evidence = {"elapsed_s": 0.997, **(COLD if cache == "cold" else QUIET), **seen}
    run = {"evidence": evidence, "promises": STATES[cache].steps["promises"]}
    return judge(run, evidence["elapsed_s"])


@pytest.mark.parametrize(
    ("cache", "seen", "flags"),
    [
        ("cold", {}, []),
        ("cold", {"warming": []}, []),
        ("cold", FEW_READS, []),
        ("cold", {**FEW_READS, "discarded_read_bytes": 30 * MIB}, ["fewer-disk-reads"]),
        ("cold", {**FEW_READS, "discarded_read_bytes": 22 * MIB}, []),
        ("cold", {"server_read_bytes": None}, ["io-unknown"]),
        ("cold", {"client_read_bytes": None, "device_read_bytes": 0}, ["io-unknown"]),
        ("cold", {"resident_after": 0.0, "resident_after_bytes": 0}, ["residency-unknown"]),
        ("cold", NO_PAGES | {"server_read_bytes": None}, ["io-unknown", "residency-unknown"]),
        ("cold", NO_PAGES | dict.fromkeys(READS, 0), ["no-disk-reads"]),
        ("cold", {**FEW_READS, "discarded_read_bytes": 50 * MIB}, ["too-few-disk-reads"]),
        ("cold", SMALL_INPUT | {"client_read_bytes": 651 << 10}, []),
        ("cold", SMALL_INPUT | {"client_read_bytes": 300 << 10}, ["too-few-disk-reads"]),
        ("cold", {"resident_before": 0.5}, ["cache-not-cold"]),
        ("cold", {"written_resident_before": 0.01}, []),
        ("cold", {"written_resident_before": 0.9}, ["cache-not-cold"]),
        ("cold", {"resident_before": None}, ["residency-unknown"]),
        ("cold", dict.fromkeys(READS, 0), ["no-disk-reads"]),
        ("cold", {**dict.fromkeys(READS, 20 * MIB)}, ["too-few-disk-reads"]),
        ("cold", {"resident_after_bytes": 70 * MIB}, ["foreign-reads"]),
        # A commit has written most of them.
        ("cold", {"resident_after_bytes": 70 * MIB, "input_grew_bytes": 50 * MIB}, []),
        ("cold", {"resident_after_bytes": 70 * MIB, "input_grew_bytes": 1}, ["foreign-reads"]),
        ("cold", {"server_same": False}, ["restarted"]),
        ("cold", {"server_runs_before": 1}, ["server-reused"]),
        ("hot-os", {"server_runs_before": 0}, []),
        ("hot-os", {"server_processes_changed": True, "server_runs_before": 0}, []),  # forks
        ("hot-os", {"server_runs_before": 1}, ["server-reused"]),
        ("hot-os", {"client_read_bytes": 3 * MIB, "server_runs_before": 0} | LOCAL_READS, NOT_WARM),
        ("hot-server", {}, []),
        ("hot-server", {"client_read_bytes": 64 << 10}, []),  # metadata
        ("hot-server", {"client_read_bytes": 68 << 10}, NOT_WARM),
        ("hot-server", {"client_read_bytes": 68 << 10, "has_own_cache": True}, []),  # ZFS
        # Tables of the file system below its output.
        ("hot-server", {"client_read_bytes": MIB, **WRITES}, []),
        ("hot-server", {"client_read_bytes": 2 * MIB, **WRITES}, NOT_WARM),
        ("hot-server", {"server_read_bytes": 68 << 10, **WRITES}, NOT_WARM),
        # A command without an output has no such tables.
        ("hot-server", {"client_read_bytes": MIB, "client_write_bytes": MIB}, NOT_WARM),
        # A commit without a working copy writes to its input.
        ("hot-server", {"client_read_bytes": MIB, **COMMITS}, []),
        ("hot-server", {"client_read_bytes": 2 * MIB, **COMMITS}, NOT_WARM),
        # The client has read a part of its input.
        ("hot-server", {"client_read_bytes": MIB, **WRITES, "input_loaded_bytes": MIB}, NOT_WARM),
        ("hot-server", {"client_read_bytes": MIB, **WRITES, "input_loaded_bytes": 64 << 10}, []),
        # The export of a repository with 6,015 files, of which ten were not in memory.
        (
            "hot-server",
            {"client_read_bytes": 1_089_536, **WRITES, "input_loaded_bytes": 1_064_960},
            NOT_WARM,
        ),
        (
            "hot-server",
            {"client_read_bytes": 1_089_536, **WRITES, "input_loaded_bytes": 1_310_720},
            NOT_WARM,
        ),
        # The server, or another program, has read it, or a part.
        ("hot-server", {**SERVER_READ, **WRITES, "input_loaded_bytes": 64 << 10}, []),
        ("hot-server", {**OTHERS_READ, **WRITES, "input_loaded_bytes": 3 * MIB}, []),
        ("hot-server", {**OTHERS_READ, **WRITES, "input_loaded_bytes": 4 * MIB}, NOT_WARM),
        (
            "hot-server",
            {**OTHERS_READ, **WRITES, "device_read_bytes": None, "input_loaded_bytes": 3 * MIB},
            NOT_WARM,
        ),
        ("hot-server", {"server_read_bytes": None, "server_rchar": None}, ["io-unknown"]),
        ("hot-server", {"client_wchar": None}, ["io-unknown"]),
        ("hot-server", {"resident_after": 0.0, "resident_after_bytes": 0}, ["residency-unknown"]),
        ("hot-server", {"server_first_rchar": 1000, "server_rchar": 1000}, []),  # nothing to cache
        ("hot-server", {"client_write_bytes": MIB, "io_pressure_pct": 50.0}, []),  # its own writes
        ("hot-server", {"steal_s": 0.02, "steal_pct": 20.0}, []),  # two ticks of a short run
        ("hot-server", {"elapsed_s": 0.04, "window_s": 0.055}, []),  # the start of a shell
        ("hot-server", {"elapsed_s": 0.04, "window_s": 0.08}, ["clock"]),
        ("hot-server", {"elapsed_s": 0.951}, []),
        ("hot-server", {"elapsed_s": 0.94}, ["clock"]),
        ("hot-server", {"elapsed_s": 0.94, "cpu_pressure_pct": 2.0}, []),  # the shells waited
        ("hot-server", {"elapsed_s": 0.94, "steal_pct": 2.0}, []),
        # Two shells take the same time after a short run as after a long one.
        ("hot-server", {"elapsed_s": 0.1164, "window_s": 0.1282}, []),
        ("hot-server", {"elapsed_s": 0.1084, "window_s": 0.1154}, []),
        ("hot-server", {"elapsed_s": 0.18, "window_s": 0.2}, ["clock"]),
        # A run's own client and server wait for a processor, too. At a load of 30, they do nothing else.
        ("hot-server", {"elapsed_s": 2.345, "window_s": 2.489, "cpu_pressure_pct": 98.0}, []),
        ("hot-server", {"elapsed_s": 0.893, "cpu_pressure_pct": 90.0}, []),
        ("hot-server", {"elapsed_s": 0.891, "cpu_pressure_pct": 90.0}, []),
        ("hot-server", {"elapsed_s": 0.7, "cpu_pressure_pct": 90.0}, ["clock"]),
        ("hot-server", {"elapsed_s": 0.7, "cpu_pressure_pct": 39.0, "steal_pct": 5.0}, ["clock"]),
        ("hot-server", {"elapsed_s": 0.1, "window_s": 0.12}, ["clock"]),
        ("hot-server", {"elapsed_s": 0.5}, ["clock"]),
        ("hot-server", {"elapsed_s": 1.001}, ["clock"]),
        ("hot-server", {"server_read_bytes": 3 * MIB} | LOCAL_READS, NOT_WARM),
        ("hot-server", {"server_same": False}, ["restarted"]),
        ("hot-server", {"server_runs_before": 0}, ["server-not-warm"]),
        ("hot-server", {"server_processes_changed": True}, ["server-reforked"]),
        ("hot", {"server_processes_changed": True}, ["server-reforked"]),
        ("hot-server", {"server_rchar": 19 * MIB}, ["cache-ineffective"]),
        ("hot-server", {"server_rchar": 19 * MIB, "input_grew_bytes": 1}, []),
        ("hot-server", {"server_kind": "", "server_same": False, "server_runs_before": 0}, []),
        ("", {"other_servers": ["svnserve -d"]}, ["other-server"]),
        ("", {"swapped_out_pages": 1}, ["swapped"]),
        ("", {"memory_available_bytes": 100 * MIB}, ["low-memory"]),
        ("", {"memory_pressure_pct": 3.0}, ["memory-pressure"]),
        ("", {"device_read_bytes": 9 * MIB}, ["io-busy"]),
        ("hot-server", {"io_pressure_pct": 20.0}, ["io-busy"]),
        ("", {"others_cpu_s": 0.4, "others_cpu_pct": 20.0}, ["cpu-busy"]),
        ("", {"steal_s": 0.06, "steal_pct": 3.0}, ["cpu-steal"]),
        ("", {"throttled": 1}, ["throttled"]),
        ("", LINE, []),
        ("", NO_LINE, []),
        ("", {**LINE, "line_round_trip_ms": 21.2}, ["network-not-as-set"]),
        ("", {**LINE, "line_round_trip_ms": 0.1}, ["network-not-as-set"]),
        ("", {**LINE, "line_to_server_mbit": 94.0}, ["network-not-as-set"]),
        ("", {**LINE, "line_to_client_mbit": 5000.0}, ["network-not-as-set"]),
        # It was measured again after the runs.
        ("", LINE | LINE_AFTER, []),
        ("", LINE | LINE_AFTER | {"line_round_trip_after_ms": 21.2}, ["network-drifted"]),
        ("", LINE | LINE_AFTER | {"line_round_trip_after_ms": 23.9}, ["network-drifted"]),
        ("", LINE | LINE_AFTER | {"line_to_server_after_mbit": 90.0}, ["network-drifted"]),
        ("", LINE | LINE_AFTER | {"line_to_client_after_mbit": 110.0}, ["network-drifted"]),
        ("", {**LINE, "line_round_trip_ms": 21.2} | LINE_AFTER, ["network-not-as-set"]),
        ("", NO_LINE | LINE_AFTER | {"line_round_trip_after_ms": 0.1}, []),
        ("", LINE | LINE_AFTER | {"line_round_trip_after_ms": 0.1}, ["network-not-as-set"]),
        ("", LINE | LINE_AFTER | {"line_to_server_after_mbit": 40.0}, ["network-not-as-set"]),
        ("", LINE | LINE_AFTER | {"line_to_client_after_mbit": 200.0}, ["network-not-as-set"]),
        ("", {"quota_throttled_us": 500}, ["throttled"]),
        ("", {"client_read_bytes": None}, ["io-unknown"]),
        ("", {"swapped_in_pages": None, "swapped_out_pages": None}, []),
        ("", {"window_s": None}, ["uncertified"]),
    ],
)
def test_judge_run_has_flags_of_its_faults(cache, seen, flags):
    assert judged(cache, **seen) == flags


# Runs of working-copy-2012 in the guest. The client reads its own files again.
ON_NFS = {
    **QUIET,
    "subject_bytes": 1_185_662,
    "resident_after": None,
    "resident_after_bytes": None,
    "client_write_bytes": 33_865_728,
    "server_runs_before": 1,
    "server_first_rchar": 2_867_710,
    "server_rchar": 19_830,
    "device_read_bytes": None,
    "network_filesystem": "nfs4",
    "network_input": False,
    "network_storage_read_bytes": 0,
}
DEFAULT_CHECKOUT = {"client_read_bytes": 16_642_048, "network_read_bytes": 16_642_048}
CIFS = {
    **{"client_read_bytes": 3 * MIB, "network_read_bytes": None},
    **{"network_filesystem": "cifs", "network_storage_read_bytes": None},
}
UPDATE = {"client_read_bytes": 3_805_184, "network_read_bytes": 3_805_184}


@pytest.mark.parametrize(
    ("seen", "flags"),
    [
        ({}, []),
        (UPDATE, []),
        ({"network_filesystem": ""}, NOT_WARM),
        ({"network_storage_read_bytes": 3 * MIB}, NOT_WARM),
        ({"client_read_bytes": 20 * MIB}, NOT_WARM),  # 4 MiB of it from a local disk
        ({"server_read_bytes": 3 * MIB}, NOT_WARM),
        ({"network_storage_read_bytes": None}, ["server-disk-unknown"]),
        # The repository is on NFS, too. All, half or an unknown share of it is in the page cache.
        ({"network_input": True, "resident_after": 1.0}, []),
        ({"network_input": True, "resident_after": 0.5}, NOT_WARM),
        ({"network_input": True, "resident_after": None}, NOT_WARM),
        # Without counters of its network, local devices decide, if input or output is on one.
        (CIFS, ["server-disk-unknown"]),
        ({**CIFS, "device_read_bytes": 0}, ["server-disk-unknown"]),
        ({**CIFS, "device_read_bytes": 3 * MIB}, ["server-disk-unknown", "cache-not-warm"]),
    ],
)
def test_judge_hot_run_on_nfs_by_disks_and_page_cache(seen, flags):
    evidence = {**ON_NFS, **DEFAULT_CHECKOUT, **seen}
    run = {"evidence": evidence, "promises": STATES["served"].steps["promises"]}
    assert {*judge(run, 0.997)} == {*flags}


def test_flags_documented_equal_code():
    text = (ROOT / "docs" / "evidence.md").read_text()
    rows = re.findall(r"^\| (`[^|]+`) \| .* \| (run left out)? ?\|$", text, re.MULTILINE)
    documented = {
        word: bool(invalid) for words, invalid in rows for word in re.findall(r"[a-z0-9-]+", words)
    }
    assert documented == {word: flags.FLAGS[word].is_invalid for word in documented}
    invalid = {word for word, flag in flags.FLAGS.items() if flag.is_invalid}
    assert invalid <= documented.keys()
    # Rows with another effect, too.
    cells = re.findall(r"^\| (`[^|]+`) \|", text, re.MULTILINE)
    words = [word for cell in cells for word in re.findall(r"[a-z0-9-]+", cell)]
    assert sorted(words) == sorted(flags.FLAGS)
    assert invalid >= {
        *("cache-not-cold", "no-disk-reads", "too-few-disk-reads", "foreign-reads"),
        *("cache-not-warm", "restarted", "server-reused", "server-not-warm", "server-reforked"),
        *("uncertified", "clock"),
    }
