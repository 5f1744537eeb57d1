"""From hyperfine's exports and the contexts to the rows of the measurements."""

import json
import os
from pathlib import Path

import pytest

from unit.synthetic import AXES, make_study
from vcsbench.errors import UserError
from vcsbench.evidence.collection import KILLED, collect
from vcsbench.evidence.column_names import MEASUREMENT_COLUMNS
from vcsbench.evidence.flags import Flag, is_invalid
from vcsbench.evidence.measurements import read_grid, read_measurements, write_frame
from vcsbench.measure.runs import Run, read_export
from vcsbench.plan.result_state import OUTDATED, PENDING, UNMEASURED
from vcsbench.report.quality_section import list_set_aside

EXPORTS = Path(__file__).parent / "data" / "hyperfine"
ONE_CELL = {axis: values[:1] for axis, values in AXES.items()}
CELL = "log/http/ruby/f6/nopack/slow/cold"
HEADING = "cell,host,round,run,elapsed_s,started_at,flags"
FORTNIGHT = (
    '{"schema_version": 2, "results": [{"measurements": '
    '[{"time_wall_clock": {"value": 1, "unit": "fortnight"}}]}]}'
)


def flags_of(study):
    return study.collected().measurements["flags"].tolist()


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_collect_starts_are_of_runs_or_of_their_cell_round(tmp_path):
    study = make_study(tmp_path, axes=ONE_CELL, rounds=1, runs=2)
    context = study.context(CELL, 1)
    start, later = "2026-11-21T08:00:00.000000Z", "2026-11-21T08:00:07.000000Z"
    edit(context, lambda c: c.update(started_at=start))
    edit(context, lambda c: c["runs"][1]["evidence"].update(started_at=later))
    runs = study.collected().measurements
    assert runs["started_at"].tolist() == [start, later]
    assert runs["cell_round_started_at"].tolist() == [start, start]


def test_collected_columns_are_axes_or_have_reserved_names(tmp_path):
    study = make_study(tmp_path, axes=ONE_CELL, rounds=1)
    columns = {*study.collected().measurements}
    assert columns - MEASUREMENT_COLUMNS == {*ONE_CELL}


@pytest.mark.parametrize(
    ("version", "elapsed_s", "user_s", "peak"),
    [
        # User times are means over the runs, and the memory is not a run's own.
        ("1.15.0", 0.020130079, None, None),
        ("1.20.0", 0.016995066, None, None),
        ("2.0.0", 0.021931768, 0.004936, 12165120),
    ],
)
def test_read_export_versions(version, elapsed_s, user_s, peak):
    runs = read_export(EXPORTS / f"export-{version}.json")
    assert [run.exit_code for run in runs] == [0, 0, 0]
    assert runs[1].elapsed_s == pytest.approx(elapsed_s)
    assert runs[1].user_s == pytest.approx(user_s or runs[0].user_s)
    assert all(run.mean_cpu == (user_s is None) for run in runs)
    assert runs[2].peak_memory_bytes == peak


def test_read_export_version_1_single_run_has_own_times():
    result = {"times": [0.5], "user": 0.2, "system": 0.1, "exit_codes": [0]}
    content = json.dumps({"results": [result]}).encode()
    assert read_export("export.json", content) == [Run(0.5, 0.2, 0.1, 0)]


def test_read_export_converts_units():
    export = json.loads((EXPORTS / "export-2.0.0.json").read_text())
    export["results"][0]["measurements"][0] |= {
        "time_wall_clock": {"value": 250.0, "unit": "millisecond"},
        "time_user": {"value": 3.0, "unit": "microsecond"},
        "memory_peak_resident": {"value": 2.0, "unit": "mebibyte"},
    }
    run = read_export("export.json", json.dumps(export).encode())[0]
    assert (run.elapsed_s, run.user_s) == pytest.approx((0.25, 3e-6))
    assert run.peak_memory_bytes == 2 * 1024 * 1024


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"schema_version": 3, "results": []}', "`schema_version`: 3"),
        ("[]", "`schema_version`: None"),
        ('{"results": []}', "not an export"),
        ('{"results": [{"times": [1.0]', "not JSON"),
        ('{"results": [{"user": 1}]}', "'times'"),
        (FORTNIGHT, "'fortnight'"),
    ],
)
def test_read_export_invalid_is_user_error(tmp_path, text, error):
    path = tmp_path / "round1.json"
    path.write_text(text)
    with pytest.raises(UserError, match=f"round1.*{error}"):
        read_export(path)


def test_read_measurements_round_trip(tmp_path):
    axes = {**ONE_CELL, "repo": ["NA", "007"], "command": ["log", "dump"]}
    study = make_study(tmp_path, axes=axes, rounds=2)
    log = study.context("log/http/NA/f6/nopack/slow/cold", 1)
    edit(log, lambda context: context["runs"][0]["evidence"].update(server_pid=20193))
    frame = study.collected().measurements
    write_frame(frame, tmp_path / "m.csv")
    again = read_measurements(tmp_path / "m.csv")
    assert list(again["repo"].unique()) == ["NA", "007"]
    assert again["elapsed_s"].tolist() == frame["elapsed_s"].tolist()
    # An axis that does not apply, and a process id where other runs have none.
    assert again["access"].tolist() == frame["access"].tolist()
    assert set(again.loc[again["command"] == "dump", "cell"].str.split("/").str[1]) == {"-"}
    assert set(again.loc[again["command"] == "dump", "access"]) == {""}
    assert set(again["server_pid"]) == {"20193", ""}
    assert b"\r" not in (tmp_path / "m.csv").read_bytes()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            "cell,host,round,run,elapsed_s,flags\nlog,a,1,1,1,\n",
            "the column `started_at` is missing",
        ),
        (f"{HEADING}\nlog,a,,1,1,x,\n", "`round`: ''"),
        (f"{HEADING}\nlog,a,1,inf,1,x,\n", "`run`: 'inf'"),
        (f"{HEADING}\nlog,a,1,one,1,x,\n", "`run`: 'one'"),
        (f"{HEADING}\nlog,a,1,1,nan,x,\n", "`elapsed_s`: 'nan'"),
        (f"{HEADING}\nlog,a,1\n", "row 1 has 3 fields"),
        ("", "the column `cell` is missing"),
        (None, "this is not a regular"),
    ],
)
def test_read_measurements_of_an_unusable_file_is_user_error(tmp_path, content, reason):
    path = tmp_path / "m.csv"
    if content is None:
        os.mkfifo(path)
    else:
        path.write_text(content)
    with pytest.raises(UserError, match=f"^{path}: {reason}"):
        read_measurements(path)


@pytest.mark.parametrize(
    ("times", "invalid_after", "moved_after", "expected"),
    [
        (
            [1.0, 1.09, 1.11, 0.81, 0.79, 1.0, 1.0],
            *(7, 7, ["", "", "outlier-10", "outlier-10", "outlier-20", "", ""]),
        ),
        ([0.19, 0.19, 0.205], 3, 3, ["too-short"] * 3),
        ([0.201, 0.201, 0.185], 3, 3, [""] * 3),
        # Invalid runs have no part in the median.
        ([1.0, 1.0, 0.5, 0.5, 0.5], 2, 5, ["", "", *["cache-not-cold"] * 3]),
        # Each host has a median.
        ([1.0, 1.0, 1.0, 9.0, 9.0, 9.0], 6, 3, [""] * 6),
    ],
)
def test_flags_by_median_of_valid_runs(tmp_path, times, invalid_after, moved_after, expected):
    left = iter(times)
    study = make_study(
        tmp_path, axes=ONE_CELL, rounds=len(times), noise=0, drift=0,
        host=lambda number: f"moved {number > moved_after}",
        seconds=lambda axes: next(left),
        flags=lambda axes, number: ["cache-not-cold"] * (number > invalid_after),
    )  # fmt: skip
    assert flags_of(study) == expected


def test_flags_of_a_series_are_by_the_median_of_runs_in_the_same_state(tmp_path):
    study = make_study(
        tmp_path, axes=ONE_CELL, rounds=3, runs=3, noise=0, drift=0, seconds=lambda _: 0.3
    )
    for number, seconds in enumerate([0.9, 0.9, 1.2], start=1):

        def set_time(export, seconds=seconds):
            first = export["results"][0]["measurements"][0]
            first["time_wall_clock"]["value"] = seconds

        def set_state(context, seconds=seconds):
            context["runs"][0]["promises"] = {"server": "new"}
            context["runs"][0]["evidence"]["window_s"] = seconds + 0.003

        edit(study.export(CELL, number), set_time)
        edit(study.context(CELL, number), set_state)
    frame = study.collected().measurements
    assert list(frame["flags"]) == [*[""] * 6, "outlier-20", "", ""] and "state" not in frame


@pytest.mark.parametrize(("server_cpu_s", "flags"), [(0.08, ""), (0.1, "saturated")])
def test_flag_saturated_is_of_more_than_90_percent_of_all_cores(tmp_path, server_cpu_s, flags):
    study = make_study(tmp_path, axes=ONE_CELL, rounds=1, noise=0, drift=0, seconds=lambda _: 0.3)
    edit(study.context(CELL, 1), lambda context: context["host"].update(cores=1))
    # With the 60 % of the client, 87 % or 93 % of the core.
    seen = {"server_cpu_s": server_cpu_s}
    edit(study.context(CELL, 1), lambda context: context["runs"][0]["evidence"].update(seen))
    assert flags_of(study) == [flags]


def test_hosts_of_one_name_differ_by_identity(tmp_path):
    made = make_study(tmp_path, axes=ONE_CELL, rounds=2, host=lambda number: "localhost")
    for number, identity in ((1, "aaaa"), (2, "bbbb")):
        edit(made.context(CELL, number), lambda c, name=identity: c["host"].update(id=name))
    assert made.collected().measurements["host"].tolist() == ["localhost#aaaa", "localhost#bbbb"]


def test_flags_of_cell_round_apply_to_each_run_with_evidence(tmp_path):
    study = make_study(tmp_path, axes=ONE_CELL, rounds=1, runs=2, schema=1)
    edit(study.context(CELL, 1), lambda context: context.update(flags=["nothing-packed"]))
    assert flags_of(study) == ["nothing-packed mean-cpu"] * 2
    edit(study.context(CELL, 1), lambda context: context["runs"].pop())
    whole, without = flags_of(study)
    assert whole == "nothing-packed mean-cpu" and "uncertified" in without.split()


@pytest.mark.parametrize(
    ("niceness", "flagged"),
    [([0, 0, 0], []), ([0, 0, 10], [3]), ([0, 10], [1, 2]), ([0, None, 0], [])],
)
def test_rounds_under_other_conditions_than_most_are_flagged(tmp_path, niceness, flagged):
    study = make_study(tmp_path, axes=ONE_CELL, rounds=len(niceness), runs=2)
    for number, nice in enumerate(niceness, 1):
        if nice is not None:
            known = {"conditions": {"nice": nice, "cpus": [0, 1]}}
            edit(study.context(CELL, number), lambda c, known=known: c.update(known))
    frame = study.collected().measurements
    differ = frame["flags"].map(lambda words: "conditions-differ" in words.split())
    assert [*frame["round"][differ]] == sorted([*flagged, *flagged])
    assert "conditions" not in frame and not frame["flags"].map(is_invalid).any()


NFS_OPTIONS = "rw,vers=4.2,addr=192.0.2.1,clientaddr=192.0.2.2"
USUAL = {
    "conditions": {
        **{"nice": 0, "cpus": [0, 1], "turbo": "on"},
        **{"client": [[0, 0, [0, 1]]], "server": [[0, 0, [0, 1]]]},
    },
    "preloaded": [],
    "storage": {
        **{"path": "/srv", "filesystem": "ext4", "mount_options": "rw,noatime"},
        **{"scheduler": "none", "read_ahead_kb": "128", "write_cache": "write back"},
    },
    "target_storage": {"path": "/scratch", "filesystem": "nfs4", "mount_options": NFS_OPTIONS},
}


@pytest.mark.parametrize(
    ("changes", "is_flagged"),
    [
        ({}, False),
        ({"conditions": {"nice": 19}}, True),
        ({"conditions": {"cpus": [0]}}, True),
        ({"conditions": {"turbo": "off"}}, True),
        # hyperfine is a wrapper that starts the real one, or the server was reniced.
        ({"conditions": {"client": [[0, 0, [0, 1]], [19, 0, [0]]]}}, True),
        ({"conditions": {"server": [[19, 0, [0, 1]]]}}, True),
        ({"server": {"kind": "svnserve"}, "conditions": {"server": [[19, 0, [0]]]}}, False),
        ({"host": {"kernel": "6.2.0"}}, True),
        ({"preloaded": ["/usr/lib/libeatmydata.so"]}, True),
        ({"storage": {"scheduler": "bfq"}}, True),
        ({"storage": {"read_ahead_kb": "4096"}}, True),
        ({"storage": {"write_cache": "write through"}}, True),
        ({"storage": {"mount_options": "rw,noatime,data=writeback"}}, True),
        # Another storage has settings of its own.
        ({"storage": {"path": "/mnt", "scheduler": "bfq"}}, False),
        ({"target_storage": {"mount_options": f"{NFS_OPTIONS},sync"}}, True),
        # The kernel chose another address.
        ({"target_storage": {"mount_options": NFS_OPTIONS.replace("0.2.2", "0.2.3")}}, False),
    ],
)
def test_cells_under_other_conditions_than_most_are_flagged(tmp_path, changes, is_flagged):
    """One of three formats was measured on another day."""
    study = make_study(tmp_path, axes={**ONE_CELL, "format": ["f6", "f7", "f8"]}, rounds=2)
    for cell in study.cells:
        all_facts = [USUAL, changes] if "/f8/" in cell else [USUAL]

        def set_facts(context, all_facts=all_facts):
            for facts in all_facts:
                for key, value in facts.items():
                    is_mapping = isinstance(value, dict)
                    context[key] = {**(context.get(key) or {}), **value} if is_mapping else value

        for number in (1, 2):
            edit(study.context(cell, number), set_facts)
    frame = study.collected().measurements
    differ = frame["flags"].str.contains("conditions-differ")
    assert differ.tolist() == [is_flagged and form == "f8" for form in frame["format"]]


def test_mount_options_of_an_overlay_are_no_condition(tmp_path):
    """Each start of a container has other folders in them."""
    study = make_study(tmp_path, axes=ONE_CELL, rounds=2)
    for number in (1, 2):
        options = f"rw,upperdir=/var/lib/{number}/diff"
        facts = {"path": "/srv", "filesystem": "overlay", "mount_options": options}
        known = {"conditions": {"nice": 0}, "storage": facts}
        edit(study.context(CELL, number), lambda c, known=known: c.update(known))
    assert flags_of(study) == ["", ""]


def test_checked_run_without_counts_has_io_unknown_and_stays(tmp_path):
    study = make_study(tmp_path, axes=ONE_CELL, rounds=1)
    unknown = {"work_kind": "log", "captured_io": {"wchar": None}}
    edit(study.context(CELL, 1), lambda context: context.update(unknown))
    assert flags_of(study) == ["io-unknown"] and not is_invalid("io-unknown")


def test_quiet_run_that_read_too_little_has_other_output(tmp_path):
    axes = {**ONE_CELL, "access": ["file"]}
    study = make_study(tmp_path, axes=axes, rounds=1)
    checked = {"work_kind": "printed_counts", "captured_io": {"rchar": 900_000}}

    def set_facts(context):
        context |= checked
        context["runs"][0]["evidence"]["client_rchar"] = 9000

    edit(study.context(study.cells[0], 1), set_facts)
    assert flags_of(study) == ["other-output"]


def test_failures_have_last_line_of_log_or_reason(tmp_path):
    study = make_study(tmp_path, axes=ONE_CELL, rounds=3, failed={(CELL, 2)})
    result = study.collected(rounds=4)
    assert result.measurements["round"].tolist() == [1, 3]
    logged, missing = result.failures.to_dict("records")
    reason = "svnserve did not answer within 10 s."
    assert logged == {"cell": CELL, "round": 2, "reason": reason}
    # No log: the run ended before its turn.
    assert missing == {"cell": CELL, "round": 4, "reason": UNMEASURED}
    # A run that measures nothing leaves out results of another recipe.
    grid, folder = read_grid(study.grid), str(study.results)
    none = collect(study.name, *grid, {CELL: 3}, [], folder=folder)
    assert none.failures["reason"].tolist() == [OUTDATED, reason, OUTDATED]


def test_failures_of_a_killed_process_have_an_empty_log(tmp_path):
    study = make_study(tmp_path, axes=ONE_CELL, rounds=2, failed={(CELL, 2)})
    # The shell of the job makes the log, and the process has no time to write into it.
    (study.results / "logs/cells" / study.name / CELL / "round2.log").write_text("")
    (failure,) = study.collected().failures.to_dict("records")
    assert failure == {"cell": CELL, "round": 2, "reason": KILLED}
    # It is a failure, and no cell-round that waits for its turn.
    assert KILLED not in PENDING


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("round2.json", None, ""),
        ("round2.context.json", None, '{"study": '),
        ("round2.json", '"exit_code": 0', '"exit_code": 7'),
        ("round2.json", '"measurements": [', '"measurements": [], "others": ['),
    ],
)
def test_failures_invalid_result_has_reason(tmp_path, file, old, new):
    study = make_study(tmp_path, axes=ONE_CELL, rounds=2)
    path = study.export(CELL, 2).with_name(file)
    path.write_text(path.read_text().replace(old, new) if old else new)
    result = study.collected()
    assert result.measurements["round"].tolist() == [1]
    assert result.failures["round"].tolist() == [2]


def test_set_aside_attempts_are_listed_and_counted(tmp_path):
    study = make_study(tmp_path, axes=ONE_CELL, rounds=3)
    flagged = (["too-short", "cache-not-warm"], ["cache-not-warm"])
    attempts = [{"runs": [{"flags": words}]} for words in flagged]
    edit(study.context(CELL, 2), lambda content: content.update(set_aside=attempts))
    frame = study.collected().measurements
    assert list(frame["set_aside"]) == ["", "cache-not-warm, cache-not-warm", ""]
    ((reason, cells),) = list_set_aside(frame.to_dict("records"))
    assert reason.startswith("cache-not-warm: ") and cells == [CELL]


def build_facts(libc="a", libraries=("/usr/lib/libc.so.6",), **server):
    mapped = {"/usr/bin/svn": "1", **dict.fromkeys(libraries, libc)}
    client = {"program": "/usr/bin/svn", "version": "1", "places": [], "libraries": []}
    side = {**client, "mapped": mapped}
    return {"name": "", "digest": "x", "client": side, "server": {**client, **server}}


@pytest.mark.parametrize(
    ("builds", "invalid"),
    [
        ([{}, {}, {}], []),
        ([{}, {"libc": "b"}, {}], [2]),
        # In another folder, the same content is no difference.
        ([{}, {"libraries": ["/usr/local/lib/libc.so.6"]}, {}], []),
        ([{}, {}, {"libraries": ["/usr/lib/libc.so.6", "/x/libeatmydata.so"]}], [3]),
        # The C library loads it when a thread ends, which one server may not have had yet.
        ([{}, {"libraries": ["/usr/lib/libc.so.6", "/usr/lib/libgcc_s.so.1"]}, {}], []),
        # No round is the right one.
        ([{}, {"libc": "b"}, {"libc": "c"}], [1, 2, 3]),
        # A server that could not be read is no difference.
        ([{"mapped": {"/s": "1"}}, {"mapped": None}, {"mapped": {"/s": "1"}}], []),
        ([{"mapped": {"/s": "1"}}, {"mapped": {"/s": "2"}}, {"mapped": {"/s": "1"}}], [2]),
    ],
)
def test_flag_of_rounds_with_other_libraries(tmp_path, builds, invalid):
    study = make_study(tmp_path, axes=ONE_CELL, rounds=3)
    for number, facts in enumerate(builds, 1):
        edit(study.context(CELL, number), lambda c, f=facts: c.update(build=build_facts(**f)))
    frame = study.collected().measurements
    flagged = frame["flags"].str.contains("libraries-differ")
    assert sorted(frame["round"][flagged]) == invalid
    assert Flag.LIBRARIES_DIFFER.is_invalid


DISK = {"filesystem": "ext4", "cached_below": True}


@pytest.mark.parametrize(
    ("cell", "change", "is_flagged"),
    [
        ("cold", {"storage": DISK}, True),
        ("cold", {"storage": {**DISK, "cached_below": False}}, False),
        ("hot", {"storage": DISK}, False),
        ("cold", {"working_copy": {"filesystem": DISK}}, True),
        # Its image is read without the page cache; another flag says if not.
        ("cold", {"read": {"filesystem": {**DISK, "made": True}}}, False),
        ("cold", {"read": {"filesystem": DISK}}, True),
    ],
)
def test_flag_of_cold_run_on_a_disk_in_memory(tmp_path, cell, change, is_flagged):
    study = make_study(tmp_path, axes=ONE_CELL, rounds=1)

    def set_facts(context):
        for name, facts in change.items():
            context[name] = {**context.get(name, {}), **facts}
            context[name].setdefault("space", {})
        if cell == "hot":
            context["runs"][0]["promises"] = {"os": "hot"}

    edit(study.context(CELL, 1), set_facts)
    (found,) = flags_of(study)
    assert (Flag.CACHED_BELOW in found.split()) is is_flagged
    assert Flag.CACHED_BELOW.is_invalid


@pytest.mark.parametrize(
    ("changes", "flag"),
    [
        ({"flushes": 120}, ""),
        ({"flushes": 119}, Flag.TOO_FEW_FLUSHES),
        ({"flushes": 0}, Flag.TOO_FEW_FLUSHES),
        ({"flushes": None}, Flag.FLUSHES_UNKNOWN),
        ({"flushes": 0, "write_cache": "write through"}, Flag.FLUSHES_UNKNOWN),
        ({"flushes": 0, "filesystem": "tmpfs"}, ""),
        ({"flushes": 0, "argv": ["svnadmin", "load", "--no-flush-to-disk"]}, ""),
        ({"flushes": 0, "work_kind": "tree"}, ""),
    ],
)
def test_flag_of_load_with_too_few_flushes(tmp_path, changes, flag):
    study = make_study(tmp_path, axes=ONE_CELL, rounds=1)
    facts = {"work_kind": "repository", "argv": ["svnadmin", "load"], "filesystem": "ext4"}
    facts |= {"write_cache": "write back", **changes}

    def set_facts(context):
        context["target_storage"] = {key: facts[key] for key in ("filesystem", "write_cache")}
        context |= {key: facts[key] for key in ("work_kind", "argv")}
        context["runs"][0]["work"] = {"youngest": 30}
        context["runs"][0]["evidence"]["device_flushes"] = facts["flushes"]

    edit(study.context(CELL, 1), set_facts)
    (found,) = flags_of(study)
    assert [word for word in found.split() if "flushes" in word] == ([flag] if flag else [])
    assert Flag.TOO_FEW_FLUSHES.is_invalid and not Flag.FLUSHES_UNKNOWN.is_invalid


MIB = 1 << 20
LOAD = {
    **{"work_kind": "repository", "argv": ["svnadmin", "load"], "written": "/targets/1"},
    "target_storage": {"filesystem": "ext4", "write_cache": "write back"},
}
UPDATE = {"working_copy": {"path": "/wc", "space": {}}}
FETCH = {"work_kind": "git_clone", "written": "/targets/1"}


@pytest.mark.parametrize(
    ("facts", "counts", "device_bytes", "is_busy"),
    [
        ({}, {}, 16 * MIB, False),
        ({}, {}, 16 * MIB + 1, True),
        # Data, metadata and a journal.
        ({}, {"client_write_bytes": 8 * MIB}, 48 * MIB, False),
        ({}, {"client_write_bytes": 8 * MIB}, 49 * MIB, True),
        ({}, {"server_write_bytes": 8 * MIB}, 48 * MIB, False),
        # In a long run, logs of the system grow.
        ({}, {"window_s": 60.0}, 60 * MIB, False),
        ({}, {"client_write_bytes": None}, 99 * MIB, False),
        ({}, {"server_write_bytes": None}, 99 * MIB, False),
        ({}, {}, None, False),
        # A working copy or a clone was put back before the run.
        (UPDATE, {}, 99 * MIB, False),
        (FETCH, {}, 99 * MIB, False),
        # A revision takes some flushes, each with a part of the journal: here 120 of 128 KiB.
        (LOAD, {"device_flushes": 120}, 31 * MIB, False),
        (LOAD, {"device_flushes": 120}, 32 * MIB, True),
        (LOAD, {"device_flushes": None}, 99 * MIB, False),
    ],
)
def test_flag_of_run_whose_disk_others_wrote(tmp_path, facts, counts, device_bytes, is_busy):
    study = make_study(tmp_path, axes=ONE_CELL, rounds=1)

    def set_facts(context):
        context |= facts
        context["runs"][0]["work"] = {"youngest": 30}
        evidence = context["runs"][0]["evidence"]
        evidence |= {"client_write_bytes": 0, **counts, "device_write_bytes": device_bytes}

    edit(study.context(CELL, 1), set_facts)
    (found,) = flags_of(study)
    assert (Flag.IO_BUSY in found.split()) is is_busy and not Flag.IO_BUSY.is_invalid
