"""Baselines: saved once, compared only with the same settings on the same host, and their history."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from unit.synthetic import FACTORS, make_study
from vcsbench import __version__
from vcsbench.errors import UserError
from vcsbench.evidence.measurements import write_frame
from vcsbench.statistics import baseline_comparison, baselines
from vcsbench.statistics.comparisons import CALL_COLUMNS, DEFAULT_LIMITS, ROUND_COLUMNS
from vcsbench.statistics.evaluations import EvaluationContext
from vcsbench.statistics.findings import evaluate_expectations
from vcsbench.statistics.settings import StudySettings

STUDY = "fsfs-san-2014"
AXES = {
    **{"command": ["log"], "access": ["svn", "file"], "repo": ["ruby"], "format": ["f7"]},
    **{"packing": ["nopack", "pack"], "config": ["slow"], "cache": ["cold", "hot-os"]},
}
BLOCK = ["command", "repo", "cache"]
CELL = "log/svn/ruby/f7/pack/slow/cold"
QUIET = {"noise": 0.003, "drift": 0.0}
DUPLICATES = {"noise": 0.01, "drift": 0.0, "twins": 1}
SLOWER = {**FACTORS, "cache": {"cold": 3.0 * 1.3, "hot-os": 1.0}}
HOST = "workstation#aaaa"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def measure(root, name, *, change=None, part="", **options):
    """Write a synthetic run below `root`, on a host with an identity.

    `change` changes the contexts with `part` in their path.
    """
    made = make_study(root / name, **{"axes": AXES, "host": lambda number: HOST, **options})
    edit(made, lambda c: c.update(started_at=c["started_at"].replace("2026-11-21", f"day-{name}")))
    if change:
        edit(made, change, part)
    made.frame()
    return made


def edit(made, change, part=""):
    for path in made.results.glob("cells/**/*.context.json"):
        if part in str(path):
            context = json.loads(path.read_text())
            change(context)
            path.write_text(json.dumps(context))


def read_frame(made):
    return pd.read_csv(made.measurements, keep_default_na=False)


def sides_of(before, now):
    """Return `before`, saved as `old`, and `now`."""
    if not Path("baselines/old").exists():
        baseline_comparison.save_baseline("old", [STUDY], before.results)
    saved = baseline_comparison.load_baseline("old", STUDY, list(AXES))
    return saved, baseline_comparison.load_current(STUDY, now.results)


def compare(before, now):
    """Return the table and the notes of `now` against `before`."""
    sides = sides_of(before, now)
    pairs = baseline_comparison.pair_cells(*sides, list(AXES), BLOCK)
    table = baseline_comparison.make_baseline_table("old", pairs, AXES)
    return table, baseline_comparison.list_baseline_notes(*sides, pairs)


def test_baseline_table_has_columns_and_welch_ratio(here):
    before = measure(here, "a", noise=0.05, drift=0.0)
    changes = {"noise": 0.01, "rounds": 7, "factors": {"cache": {"cold": 3.6}}}
    now = measure(here, "b", drift=0.0, seed=2, **changes)
    table, _ = compare(before, now)
    sides = ["baseline", "candidate", "value"]
    assert list(table) == ["table", *AXES, *sides, *ROUND_COLUMNS, *CALL_COLUMNS]
    assert set(table["table"]) == {"old-vs-now"}
    assert set(zip(table["baseline"], table["candidate"], strict=True)) == {("old", "now")}
    assert len(table) == 8

    row = table.query("cache == 'cold' and access == 'svn' and packing == 'pack'").iloc[0]
    times = [read_frame(made).query("cell == @CELL")["elapsed_s"] for made in (before, now)]
    assert row["value"] == pytest.approx(100 * (row["baseline_mean"] / row["candidate_mean"] - 1))
    welch = stats.ttest_ind(np.log(times[0]), np.log(times[1]), equal_var=False)
    interval = welch.confidence_interval(0.95)
    first, second = (np.log(side).mean() for side in times)
    assert row["ratio"] == pytest.approx(math.exp(first - second))
    # Moderation by the other cells changes Welch's interval a little.
    assert math.log(row["low"]) == pytest.approx(interval.low, rel=0.02)
    assert math.log(row["high"]) == pytest.approx(interval.high, rel=0.02)
    assert row["n"] == 5


def test_baseline_table_compares_changed_conditions(here):
    def upgrade(context):
        context["versions"]["svn"] = "1.14.5"
        context["host"]["kernel"] = "6.12"
        context["server_files"] = {"svnserve.args": "-M 512"}

    before = measure(here, "a", change=lambda c: c.update(server_files={"svnserve.args": "-M 256"}))
    table, notes = compare(before, measure(here, "b", change=upgrade))
    assert table["value"].notna().all()
    (changed,) = (note for note in notes if note.startswith("Changed since"))
    for part in ("svn 1.14.2 to 1.14.5", "kernel 6.1.0 to 6.12", "slow/svnserve.args"):
        assert part in changed


def test_baseline_notes_have_changed_conditions_of_the_process(here):
    usual = {"cpus": [0, 1], "nice": 0, "quota_cores": None, "governor": "powersave"}

    def limit(context):
        context["conditions"] = {**usual, "cpus": [0], "nice": 19, "quota_cores": 0.5}
        context["storage"]["scheduler"] = "bfq"

    def record(context):
        context["conditions"] = usual
        context["storage"]["scheduler"] = "none"

    _, notes = compare(measure(here, "a", change=record), measure(here, "b", change=limit))
    (changed,) = (note for note in notes if note.startswith("Changed since"))
    for part in (
        *("processors 0 1 to 0", "nice 0 to 19", "quota of processors none to 0.5"),
        "/var/tmp ext4 scheduler none to bfq",
    ):
        assert part in changed
    # A baseline of an earlier version has no conditions.
    path = baselines.description_path("old", STUDY)
    about = json.loads(path.read_text())
    assert about["conditions"]["nice"] == ["0"] and "governor" not in about["conditions"]
    del about["conditions"]
    path.write_text(json.dumps(about))
    _, notes = compare(measure(here, "c"), measure(here, "d", change=limit))
    assert not [note for note in notes if note.startswith("Changed since")]


def test_baseline_table_uses_larger_noise_of_days(here):
    """The duplicates of one day differ by 2 %, of the other by 8 %. One has no duplicates of cold cells."""

    def with_twins(name, factor, caches, **options):
        made = measure(here, name, noise=0.002, drift=0.0, **options)
        frame = read_frame(made)
        twins = frame[frame["cache"].isin(caches)].copy()
        twins["elapsed_s"] *= factor
        for cell in twins["cell"].unique():
            source = made.results / "cells" / STUDY / cell
            shutil.copytree(source, source.with_name(f"{source.name}~2"))
        renamed = twins.assign(cell=twins["cell"] + "~2")
        write_frame(pd.concat([frame, renamed]), made.measurements)
        return made

    before = with_twins("a", 1.02, ["cold", "hot-os"])
    slower = {**FACTORS, "cache": {"cold": 3.0 * 1.15, "hot-os": 1.15}}
    now = with_twins("b", 1.08, ["hot-os"], factors=slower, seed=2)
    table, _ = compare(before, now)
    assert len(table) == 8
    assert table["duplicate_sd"].to_numpy() == pytest.approx(math.log(1.08), abs=0.004)
    assert not {"slower", "faster"} & set(table["call"])
    quieter, _ = compare(before, with_twins("c", 1.0, ["hot-os"], factors=slower, seed=2))
    assert quieter["duplicate_sd"].to_numpy() == pytest.approx(math.log(1.02), abs=0.004)
    assert set(quieter["call"]) == {"slower"}


def test_pair_cells_noise_of_duplicates_excludes_drift_of_blocks(here):
    """Duplicates differ by 5 %, and the rounds of each block by 50 %."""
    made = (measure(here, name, seed=seed, twins=2, **QUIET) for seed, name in enumerate("ab"))
    rng, sides = np.random.default_rng(1), []
    for side in sides_of(*made):
        frame = side.frame.copy()
        frame.loc[frame["cell"].str.endswith("~2"), "elapsed_s"] *= 1.05
        for _, rows in frame.groupby([*BLOCK, "round"]):
            frame.loc[rows.index, "elapsed_s"] *= math.exp(rng.normal(0, 0.5))
        sides.append(replace(side, frame=frame))
    pairs = baseline_comparison.pair_cells(*sides, list(AXES), BLOCK)
    assert pairs["duplicate_sd"].to_numpy() == pytest.approx(math.log(1.05), rel=0.1)


@pytest.mark.parametrize(
    ("flag", "n", "change"),
    [
        ("other-command", 1, lambda c: c.update(argv_template="other")),
        ("other-repository", 1, lambda c: c["repository"].update(scale=1)),
        ("other-repository", 1, lambda c: c["repository"].update(identity="x")),
        ("other-method", 1, lambda c: c.update(warmup=7)),
        ("other-method", 1, lambda c: c["runs"][0]["evidence"].update(cache_cleared_by="evict")),
        ("other-work", 1, lambda c: c["runs"][0]["work"].update(revisions=5000)),
        ("hosts-differ", 8, lambda c: c["host"].update(name="other#bbbb")),
    ],
)
def test_baseline_table_withholds_changed_cells(here, flag, n, change):
    now = measure(here, "b", change=change, part=CELL if n == 1 else "log/")
    table, notes = compare(measure(here, "a"), now)
    changed = table["flags"].str.contains(flag)
    values = table[changed][["access", "packing", "cache"]].to_numpy().tolist()
    assert len(values) == n and ["svn", "pack", "cold"] in values
    assert table[changed][["value", "ratio", "low", "high"]].isna().all(axis=None)
    assert table[~changed]["value"].notna().all()
    assert (table[changed]["withheld"] == flag).all()
    reason = "log: " if flag == "other-work" else ""
    assert table[changed]["detail"].str.startswith(reason).all()
    assert any(note.startswith(f"{n} of 8 cells") for note in notes)


def test_baseline_without_the_first_steps_in_its_contexts_is_of_the_same_method(here):
    """Earlier versions did not store these steps."""
    now = measure(here, "b", change=lambda c: c["hooks"].update(first=["clear-caches"]))
    table, _ = compare(measure(here, "a"), now)
    assert table["value"].notna().all()


def test_baseline_table_unsaved_cell_has_flag(here):
    skip = lambda axes: "not then" if axes["cache"] == "cold" else ""  # noqa: E731
    table, _ = compare(measure(here, "a", skip=skip), measure(here, "b"))
    is_cold = table["cache"] == "cold"
    assert table["flags"].str.contains("not-saved").tolist() == is_cold.tolist()
    assert table["value"].isna().tolist() == is_cold.tolist()


def test_baseline_table_excludes_saved_runs(here):
    """Up-to-date cells are not measured again; further rounds are compared with the saved ones."""
    made = measure(here, "a", rounds=7, noise=0.0, drift=0.0, factors={})
    path, frame = made.measurements, read_frame(made)
    write_frame(frame[frame["round"] < 5], path)
    baseline_comparison.save_baseline("old", [], made.results)
    table, notes = compare(made, made)
    assert table["flags"].str.contains("same-runs").all()
    assert table["value"].isna().all()
    assert table["withheld"].astype(bool).all()
    assert notes[-1].startswith("8 of 8 cells")

    frame.loc[frame["round"] >= 5, "elapsed_s"] *= 2
    write_frame(frame, path)
    table, _ = compare(made, made)
    assert set(table["n"]) == {3}
    assert table["ratio"].to_numpy() == pytest.approx(0.5)
    assert table["value"].to_numpy() == pytest.approx(-50)


@pytest.mark.parametrize(
    ("key", "path"),
    [
        (("ls -R", "", "cold"), "ls-R/-/cold"),
        (("log of a file", "svn", "hot"), "log-of-a-file/svn/hot"),
        (("log", "svn", "cold"), "log/svn/cold"),
    ],
)
def test_settings_of_finds_cell_by_path_of_its_values(key, path):
    settings = {"command": "{svn} ls -R {url}", "repository": {}, "method": {}}
    description = {"cells": {path: settings}}
    measured = baseline_comparison.MeasurementSet("old", pd.DataFrame(), description)
    assert measured.settings_of(key) == settings
    assert measured.settings_of(("other", *key[1:])) is None


def without_times(made, access):
    """Remove the elapsed times of the cells of an access. Many clients at once have none."""
    frame = read_frame(made)
    frame["elapsed_s"] = frame["elapsed_s"].mask(frame["access"] == access)
    write_frame(frame, made.measurements)
    return made


def test_baseline_comparison_leaves_out_cells_without_elapsed_time(here):
    before = without_times(measure(here, "a", **QUIET), "file")
    now = without_times(measure(here, "b", seed=2, **QUIET), "file")
    table, _ = compare(before, now)
    assert set(table["access"]) == {"svn"} and len(table) == 4
    assert table["ratio"].notna().all()
    row = verdict(before, now)
    assert (row["verdict"], row["passes"]) == ("holds", "yes")
    points = history_of(now, "old")["points"]
    assert {point["access"] for point in points} == {"svn"} and len(points) == 2 * 4


def test_baseline_without_an_axis_of_the_study_is_refused_and_not_in_history(here, capsys):
    """The study has another axis since the baseline was saved."""
    save("old", measure(here, "a", **QUIET))
    path = baselines.csv_path("old", STUDY)
    saved = pd.read_csv(path, keep_default_na=False)
    write_frame(saved.drop(columns="packing"), path)
    with pytest.raises(UserError, match=rf"^{path}: .*`packing`"):
        baseline_comparison.load_baseline("old", STUDY, list(AXES))
    result = history_of(measure(here, "b", seed=2, **QUIET), "old")
    assert [time["name"] for time in result["times"]] == ["now"]
    assert capsys.readouterr().err.startswith(f"{path}: ")


def test_save_counts_cells_without_duplicates_and_never_overwrites(here):
    made = measure(here, "a", **DUPLICATES, rounds=2)
    assert any(cell.endswith("~2") for cell in read_frame(made)["cell"])
    (sentence,) = baseline_comparison.save_baseline("old", [], made.results)
    assert ": 8 cells in 2 rounds, " in sentence
    path = Path(f"baselines/old/{STUDY}.csv")
    content = made.measurements.read_bytes()
    assert path.read_bytes() == content
    about = json.loads(path.with_suffix(".json").read_text())
    assert about["vcsbench"] == __version__
    assert (about["seeds"], about["kernel"]) == ([1], ["6.1.0"])
    assert about["hosts"][HOST]["memory_bytes"] == 4 << 30
    assert {c["repository"]["scale"] for c in about["cells"].values()} == {0.1304}
    with pytest.raises(UserError, match="never overwritten"):
        baseline_comparison.save_baseline("old", [], measure(here, "b").results)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("name", "studies", "expected"),
    [
        ("../evil", [], "^--name .*: '../evil': "),
        ("", [], "^--name .*: '': "),
        # The name of the current results.
        ("now", [], "^--name .*: 'now': "),
        ("old", ["no-such"], r"measurements/no-such\.csv: .*not been measured"),
        ("old", ["../../x"], "^STUDY=../../x: "),
    ],
)
def test_save_impossible_is_user_error(here, name, studies, expected):
    made = measure(here, "a")
    with pytest.raises(UserError, match=expected):
        baseline_comparison.save_baseline(name, studies, made.results)
    edit(made, lambda c: c.update(started_at="2027-01-01T00:00:00Z"), part="pack/slow/cold/round3")
    with pytest.raises(UserError, match=r"round3\.context\.json: .* newer"):
        baseline_comparison.save_baseline("old", [], made.results)
    assert not Path("baselines").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.replace(b"started_at", b"begun_at", 1),
        lambda content: content + b"log\n",
        lambda content: content + b"\xff",
        lambda content: content.replace(b",1,", b",inf,"),
        lambda content: content + b"x" * 200_000 + b"\n",
    ],
)
def test_save_damaged_measurements_is_user_error(here, change):
    made = measure(here, "a")
    path = made.results / "measurements" / f"{STUDY}.csv"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UserError, match=rf"{STUDY}\.csv: [^\n]*make it again|context\.json"):
        baseline_comparison.save_baseline("old", [], made.results)
    assert not Path("baselines").exists()


EXPECTATION = {
    "id": "no-slower",
    "statement": "It is no slower than it was by more than 5 %.",
    "where": {"cache": "cold"},
    "compare": {"to": "old"},
    "expect": {"over": "min", "at_least": 0.952},
}


def verdict(before, now):
    sides = sides_of(before, now)
    pairs = baseline_comparison.pair_cells(*sides, list(AXES), BLOCK)
    context = EvaluationContext(baselines={"old": pairs.assign(duplicate_sd=0.0)})
    return evaluate_expectations([EXPECTATION], list(AXES), sides[1].frame, context).iloc[0]


@pytest.mark.parametrize(("factor", "expected"), [(1.0, ("holds", "yes")), (1.1, ("fails", "no"))])
def test_evaluate_expectations_baseline_has_verdict(here, factor, expected):
    sides = (
        measure(here, name, seed=seed, factors={"cache": {"cold": cold}}, **QUIET)
        for name, seed, cold in (("a", 1, 3.0), ("b", 2, 3.0 * factor))
    )
    row = verdict(*sides)
    assert (row["verdict"], row["passes"]) == expected
    assert row["low"] < row["measured"] < row["high"]
    assert row["measured"] == pytest.approx(1 / factor, rel=0.02)


def history_of(now, *names):
    settings = StudySettings(AXES, [], [], {}, DEFAULT_LIMITS)
    return baseline_comparison.make_history(names, STUDY, now.results, settings)


def save(name, made):
    baseline_comparison.save_baseline(name, [STUDY], made.results)


def test_history_has_times_by_date_and_calls_of_table(here):
    first = measure(here, "a", **DUPLICATES)
    second = measure(here, "b", **DUPLICATES, seed=2, factors=SLOWER)
    now = measure(here, "c", **DUPLICATES, seed=3, factors=SLOWER)
    save("z-oldest", first)
    save("a-second", second)
    result = history_of(now, "a-second", "z-oldest")
    assert [time["name"] for time in result["times"]] == ["z-oldest", "a-second", "now"]
    points = result["points"]
    assert len({(p["time"], *(p[axis] for axis in AXES)) for p in points}) == len(points) == 3 * 8
    assert [time["calls"].get("slower", 0) for time in result["times"][1:]] == [4, 0]


def test_history_counts_a_certain_difference_below_the_margin_as_equal(here):
    options = {"noise": 0.001, "drift": 0.0, "twins": 2}
    before = measure(here, "a", **options)
    slightly_slower = {**FACTORS, "cache": {"cold": 3.0 * 1.08, "hot-os": 1.08}}
    now = measure(here, "b", **options, seed=2, factors=slightly_slower)
    table, _ = compare(before, now)
    assert set(zip(table["call"], table["result"], strict=True)) == {("slower", "equal")}
    assert history_of(now, "old")["times"][1]["calls"] == {"equal": 8}


def test_history_of_continued_results_is_in_the_order_of_the_last_run(here):
    """Both baselines have the first run. The current results are those of the later one."""
    made = measure(here, "a", **QUIET, rounds=7)
    frame = read_frame(made)
    write_frame(frame[frame["round"] < 5], made.measurements)
    save("z-earlier", made)
    write_frame(frame, made.measurements)
    save("a-later", made)
    # Another baseline began after the first run of both.
    save("other", measure(here, "b", **QUIET, seed=2))
    times = history_of(made, "a-later", "other", "z-earlier")["times"]
    assert [time["name"] for time in times] == ["z-earlier", "a-later", "other"]
    assert [time["before"] for time in times] == ["", "z-earlier", "a-later"]


def test_history_hosts_have_own_lines(here):
    save("here", measure(here, "a", **DUPLICATES))
    elsewhere = measure(here, "b", **DUPLICATES, factors=SLOWER, host=lambda number: "other#bbbb")
    save("there", elsewhere)
    now = measure(here, "c", **DUPLICATES, factors=SLOWER, seed=3)
    result = history_of(now, "here", "there")
    times = {time["name"]: time for time in result["times"]}
    assert times["there"]["before"] == "" and not any(times["there"]["calls"].values())
    assert times["now"]["before"] == "here"
    assert times["now"]["calls"]["slower"] == 4


def test_history_changed_cell_starts_line(here):
    save("old", measure(here, "a", **DUPLICATES))
    now = measure(here, "b", **DUPLICATES, factors=SLOWER)
    edit(now, lambda context: context.update(argv_template="svn log of another kind"), "/svn/")
    points = [p for p in history_of(now, "old")["points"] if p["time"] == "now"]
    assert {p["access"]: p["settings"] for p in points} == {"svn": "settings 2", "file": ""}


def test_history_settings_change_by_host(here):
    """Other settings on another host, and a baseline without the cell, do not break a host's line."""

    def saved(name, host, command="", **options):
        of = measure(here, name, **DUPLICATES, host=lambda number: f"{host}#aaaa", **options)
        if command:
            edit(of, lambda context: context.update(argv_template=command), "/svn/")
        save(name, of)
        return of

    saved("a", "one")
    saved("b", "two")
    saved("c", "two", "svn log of another kind", seed=2)
    saved("d", "one", seed=3, axes={**AXES, "access": ["file"]})
    now = saved("e", "one", seed=4)
    points = history_of(now, "a", "b", "c", "d", "e")["points"]
    labels = {(p["time"], p["access"], p["settings"]) for p in points}
    others = {(time, access, "") for time in "abcde" for access in ("svn", "file")}
    assert labels == others - {("c", "svn", ""), ("d", "svn", "")} | {("c", "svn", "settings 2")}


@pytest.mark.parametrize("text", ["{", '{"cells": []}', "[" * 100_000])
def test_history_unreadable_baseline_is_reported(here, capsys, text):
    save("good", measure(here, "a", **DUPLICATES))
    save("bad", measure(here, "b", **DUPLICATES))
    baselines.description_path("bad", STUDY).write_text(text)
    result = history_of(measure(here, "c", **DUPLICATES, seed=2), "bad", "good")
    assert [time["name"] for time in result["times"]] == ["good", "now"]
    assert capsys.readouterr().err.startswith(f"baselines/bad/{STUDY}.json: ")


def test_evaluate_expectations_baseline_excludes_like_table(here):
    before = measure(here, "a", **QUIET)
    other = measure(here, "b", host=lambda number: "workstation#bbbb", **QUIET)
    row = verdict(before, other)
    assert (row["verdict"], row["passes"]) == ("undecided", "no")
    (reason,) = json.loads(row["reasons"])
    hosts = reason["values"]["hosts"].split(", ")
    assert (reason["code"], hosts) == ("hosts-differ", ["workstation#aaaa", "workstation#bbbb"])
    now = measure(here, "c", **QUIET)
    edit(now, lambda c: c.update(argv_template="other"), part=CELL)
    row = verdict(before, now)
    assert row["verdict"] == "undecided"
    values = {"withheld": "other-command", "excluded": 1, "total": 4}
    assert json.loads(row["reasons"]) == [{"code": "not-compared", "values": values}]
    rows = evaluate_expectations([EXPECTATION], list(AXES), pd.DataFrame(), EvaluationContext())
    assert json.loads(rows["reasons"][0]) == [{"code": "no-baseline", "values": {"name": "old"}}]
