"""Saved baselines: saved whole and once, and compared only with what is the same, on the same host."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from unit.html_tree import parse
from unit.report_files import default_study, make_files, order_of
from unit.synthetic import FACTORS, SyntheticStudy, make_study
from vcsbench.errors import UserError
from vcsbench.evidence.frames import write_frame
from vcsbench.evidence.measurements import collect, measurements, read_grid
from vcsbench.report.page import build_page
from vcsbench.report.results import read_results
from vcsbench.statistics import baseline_comparison, baselines
from vcsbench.statistics.contract import CALL, STATISTICS
from vcsbench.statistics.findings import EvaluationContext, evaluate_expectations
from vcsbench.statistics.intervals import ratio_interval, unpaired_ratio
from vcsbench.statistics.noise import NO_NOISE

STUDY = "fsfs-san-2014"
AXES = {
    "command": ["log"],
    "ra": ["svn", "file"],
    "repo": ["ruby"],
    "format": ["f7"],
    "packing": ["nopack", "pack"],
    "config": ["slow"],
    "cache": ["cold", "hot-os"],
}
HOST = "workstation#aaaa"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def measure(root: Path, name: str, **options: Any) -> SyntheticStudy:
    """A made-up run in its own folder below `root`, on a host with an identity."""
    made = make_study(root / name, **{"axes": AXES, "host": lambda number: HOST, **options})
    date(made, name)
    axes, grid = read_grid(made.grid)
    frame = measurements(collect(axes, grid, made.rounds, made.exports, made.results / "logs"))
    (made.results / "measurements").mkdir()
    write_frame(frame, made.results / "measurements" / f"{STUDY}.csv")
    return made


def date(made: SyntheticStudy, day: str) -> None:
    """Measured on a day of its own."""
    edit(made, lambda c: c.update(started_at=c["started_at"].replace("2026-11-21", f"day-{day}")))


def edit(made: SyntheticStudy, change: Callable[[dict[str, Any]], None], part: str = "") -> None:
    """Change the contexts of the cells whose path has `part`."""
    for path in made.results.glob("cells/**/*.context.json"):
        if part in str(path):
            context = json.loads(path.read_text())
            change(context)
            path.write_text(json.dumps(context))


def compare(before: SyntheticStudy, now: SyntheticStudy) -> tuple[pd.DataFrame, list[str]]:
    """The table and the notes of `now` against `before`, saved as `old`."""
    if not Path("baselines/old").exists():
        baselines.save("old", [STUDY], before.results)
    sides = (
        baseline_comparison.load_baseline("old", STUDY),
        baseline_comparison.load_current(STUDY, now.results),
    )
    found = baseline_comparison.pair_cells(*sides, list(AXES))
    return baseline_comparison.baseline_table(
        "old", found, AXES
    ), baseline_comparison.baseline_notes(*sides, found)


def test_baseline_table_has_columns_and_welch_ratio(here: Path) -> None:
    before = measure(here, "a", noise=0.05, drift=0.0)
    now = measure(
        here, "b", noise=0.01, drift=0.0, seed=2, rounds=7, factors={"cache": {"cold": 3.6}}
    )
    table, notes = compare(before, now)
    axes = list(AXES)
    assert list(table) == ["table", *axes, "baseline", "candidate", "value", *STATISTICS, *CALL]
    assert set(table["table"]) == {"old-vs-now"}
    assert set(zip(table["baseline"], table["candidate"], strict=True)) == {("old", "now")}
    assert len(table) == 8

    row = table.query("cache == 'cold' and ra == 'svn' and packing == 'pack'").iloc[0]
    times = []
    for made in (before, now):
        frame = pd.read_csv(made.results / "measurements" / f"{STUDY}.csv")
        times.append(frame.query("cell == 'log/svn/ruby/f7/pack/slow/cold'")["elapsed_s"])
    assert row["value"] == pytest.approx(100 * (times[0].median() / times[1].median() - 1))
    welch = stats.ttest_ind(np.log(times[0]), np.log(times[1]), equal_var=False)
    interval = welch.confidence_interval(0.95)
    assert row["ratio"] == pytest.approx(
        math.exp(np.log(times[0]).mean() - np.log(times[1]).mean())
    )
    # Not quite Welch's: its variance is made steadier by the other cells'.
    assert (row["low"], row["high"]) == pytest.approx(
        (math.exp(interval.low), math.exp(interval.high)), rel=0.02
    )
    assert row["n"] == 5
    assert any("not paired" in note for note in notes)
    assert any("are unchanged" in note for note in notes)


def test_baseline_table_uses_larger_noise_of_days(here: Path) -> None:
    """The twins of one day differ by 2 %, those of the other by 8 %; one has none for cold cells."""

    def with_twins(name: str, factor: float, caches: list[str], **options: Any) -> SyntheticStudy:
        made = measure(here, name, noise=0.002, drift=0.0, **options)
        path = made.results / "measurements" / f"{STUDY}.csv"
        frame = pd.read_csv(path, keep_default_na=False)
        twins = frame[frame["cache"].isin(caches)].copy()
        twins["elapsed_s"] *= factor
        for cell in twins["cell"].unique():
            source = made.results / "cells" / STUDY / cell
            shutil.copytree(source, source.with_name(f"{source.name}~2"))
        write_frame(pd.concat([frame, twins.assign(cell=twins["cell"] + "~2")]), path)
        return made

    before = with_twins("a", 1.02, ["cold", "hot-os"])
    slower = {**FACTORS, "cache": {"cold": 3.0 * 1.15, "hot-os": 1.15}}
    now = with_twins("b", 1.08, ["hot-os"], factors=slower, seed=2)
    table, _ = compare(before, now)
    assert len(table) == 8, "twins are no rows of their own"
    assert table["twin_sd"].to_numpy() == pytest.approx(math.log(1.08), abs=0.004)
    assert not {"slower", "faster"} & set(table["call"]), "15 % is within the noise of now"
    quieter, _ = compare(before, with_twins("c", 1.0, ["hot-os"], factors=slower, seed=2))
    assert quieter["twin_sd"].to_numpy() == pytest.approx(math.log(1.02), abs=0.004)
    assert set(quieter["call"]) == {"slower"}


def test_unpaired_ratio_is_wider_than_paired_under_drift() -> None:
    rng = np.random.default_rng(1)
    drift = np.linspace(0, 1, 6)
    sides = drift + rng.normal(0, 0.01, 6), drift + rng.normal(0, 0.01, 6)
    paired, unpaired = ratio_interval(sides[0] - sides[1]), unpaired_ratio(*sides)
    assert unpaired.value == pytest.approx(paired.value)
    assert unpaired.high - unpaired.low > 5 * (paired.high - paired.low)


@pytest.mark.parametrize("count", [0, 1])
def test_unpaired_ratio_few_rounds_have_no_interval(count: int) -> None:
    estimate = unpaired_ratio([0.5] * count, [0.1, 0.2, 0.3])
    assert (estimate.n, math.isnan(estimate.low)) == (count, True)


def test_baseline_table_withholds_other_host(here: Path) -> None:
    before = measure(here, "a")
    now = measure(here, "b", host=lambda number: "workstation#bbbb")
    table, notes = compare(before, now)
    assert table[["value", "ratio", "low", "high"]].isna().all(axis=None)
    assert table["flags"].str.contains("hosts-differ").all()
    for why in table["withheld"]:
        assert why.endswith("numbers are never compared (workstation#aaaa, workstation#bbbb)")
    assert "8 of 8 cells are not compared, for the reasons below." in notes


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        (lambda c: c.update(argv_template="{svn} log --limit 100 {url}"), "other-command"),
        (lambda c: c["repository"].update(scale=1), "other-repository"),
        (lambda c: c["repository"].update(identity="another"), "other-repository"),
        (lambda c: c.update(warmup=7), "other-method"),
        (lambda c: c["runs"][0]["certificate"].update(cache_cleared_by="evict"), "other-method"),
    ],
)
def test_baseline_table_withholds_other_settings(
    here: Path, change: Callable[[dict[str, Any]], None], flag: str
) -> None:
    before, now = measure(here, "a"), measure(here, "b")
    edit(now, change, part="svn/ruby/f7/pack/slow/cold")
    table, notes = compare(before, now)
    changed = table["flags"].str.contains(flag)
    assert table[changed][["ra", "packing", "cache"]].to_numpy().tolist() == [
        *[["svn", "pack", "cold"]]
    ]
    assert table[changed][["value", "ratio", "low", "high"]].isna().all(axis=None)
    assert table[~changed]["value"].notna().all()
    assert table[changed]["withheld"].str.startswith("The saved baseline").all()
    assert "1 of 8 cells are not compared, for the reasons below." in notes


def test_baseline_table_compares_changed_conditions(here: Path) -> None:
    before, now = measure(here, "a"), measure(here, "b")

    def upgrade(context: dict[str, Any]) -> None:
        context["versions"]["svn"] = "1.14.5"
        context["host"]["kernel"] = "6.12"
        context["server_files"] = {"svnserve.args": "-M 512"}

    edit(before, lambda c: c.update(server_files={"svnserve.args": "-M 256"}))
    edit(now, upgrade)
    table, notes = compare(before, now)
    assert table["value"].notna().all()
    changed = next(note for note in notes if note.startswith("Changed since"))
    assert "svn 1.14.2 to 1.14.5" in changed
    assert "kernel 6.1.0 to 6.12" in changed
    assert "server configuration slow/svnserve.args" in changed


def test_baseline_table_withholds_other_work(here: Path) -> None:
    before, now = measure(here, "a"), measure(here, "b")
    path = now.results / "measurements" / f"{STUDY}.csv"
    frame = pd.read_csv(path, keep_default_na=False)
    less = frame["cell"] == "log/svn/ruby/f7/pack/slow/cold"
    works = frame["work"].mask(less, frame["work"].str.replace("6000", "5000"))
    assert (works[less] != frame["work"][less]).all()
    write_frame(frame.assign(work=works), path)
    table, _ = compare(before, now)
    other = table["flags"].str.contains("other-work")
    assert list(table[other]["ra"] + table[other]["packing"]) == ["svnpack"]
    assert table[other]["value"].isna().all()
    assert table[other]["withheld"].iloc[0].startswith("log: ")


def test_baseline_table_unsaved_cell_has_flag(here: Path) -> None:
    skip = lambda axes: "not then" if axes["cache"] == "cold" else ""  # noqa: E731
    table, _ = compare(measure(here, "a", skip=skip), measure(here, "b"))
    cold = table.query("cache == 'cold'")
    assert cold["flags"].str.contains("not-saved").all()
    assert cold["value"].isna().all()
    assert table.query("cache == 'hot-os'")["value"].notna().all()


def test_baseline_table_excludes_saved_runs(here: Path) -> None:
    """What nothing made stale was not measured anew, and more rounds are new ones beside old ones."""
    made = measure(here, "a", rounds=7, noise=0.0, drift=0.0, factors={})
    path = made.results / "measurements" / f"{STUDY}.csv"
    whole = path.read_text()
    frame = pd.read_csv(path, keep_default_na=False)
    write_frame(frame[frame["round"] < 5], path)
    baselines.save("old", [], made.results)
    table, notes = compare(made, made)
    assert table["flags"].str.contains("same-runs").all()
    assert table["value"].isna().all()
    assert table["withheld"].str.startswith("Nothing has been measured since").all()
    assert notes[-1].startswith("8 of 8 cells")

    path.write_text(whole)
    frame.loc[frame["round"] >= 5, "elapsed_s"] *= 2
    write_frame(frame, path)
    table, _ = compare(made, made)
    assert set(table["n"]) == {3}
    assert table["ratio"].to_numpy() == pytest.approx(0.5)
    assert table["value"].to_numpy() == pytest.approx(-50)


def test_save_never_overwrites_baseline(here: Path) -> None:
    made = measure(here, "a")
    said = baselines.save("old", [], made.results)
    assert said == [
        f"saved baselines/old/{STUDY}.csv: 8 cells in 5 rounds, measured on workstation#aaaa"
    ]
    path = Path(f"baselines/old/{STUDY}.csv")
    assert path.read_bytes() == (made.results / "measurements" / f"{STUDY}.csv").read_bytes()
    about = json.loads(path.with_suffix(".json").read_text())
    assert (about["vcsbench"], about["seeds"], about["kernel"]) == ("0.1.0", [1], ["6.1.0"])
    assert about["hosts"][HOST]["memory_bytes"] == 4 << 30
    assert {c["repository"]["scale"] for c in about["cells"].values()} == {0.1304}
    with pytest.raises(UserError, match="is there already, and a baseline is never overwritten"):
        baselines.save("old", [], measure(here, "b").results)
    assert path.read_bytes() == (made.results / "measurements" / f"{STUDY}.csv").read_bytes()


@pytest.mark.parametrize(
    ("name", "studies", "says"),
    [
        ("../evil", [], "a baseline's name has letters"),
        ("", [], "a baseline's name has letters"),
        ("old", ["no-such"], "the study no-such has not been measured; `make report` does it"),
        ("old", ["../../x"], "is no study's name"),
    ],
)
def test_save_impossible_is_user_error(
    here: Path, name: str, studies: list[str], says: str
) -> None:
    made = measure(here, "a")
    with pytest.raises(UserError, match=says):
        baselines.save(name, studies, made.results)
    assert not Path("baselines").exists()


def test_save_stale_measurements_is_user_error(here: Path) -> None:
    made = measure(here, "a")
    edit(made, lambda c: c.update(started_at="2027-01-01T00:00:00Z"), part="pack/slow/cold/round3")
    with pytest.raises(UserError, match="was measured after the measurements were written"):
        baselines.save("old", [], made.results)
    assert not Path("baselines").exists()


def expectation(over: str, **bounds: float) -> dict[str, Any]:
    return {
        "id": "no-slower",
        "statement": "It is no slower than it was by more than 5 %.",
        "where": {"cache": "cold"},
        "compare": {"to": "old"},
        "expect": {"over": over, **bounds},
    }


def verdict(before: SyntheticStudy, now: SyntheticStudy, over: str = "min") -> Any:
    if not Path("baselines/old").exists():
        baselines.save("old", [STUDY], before.results)
    sides = (
        baseline_comparison.load_baseline("old", STUDY),
        baseline_comparison.load_current(STUDY, now.results),
    )
    found = baseline_comparison.pair_cells(*sides, list(AXES))
    found = [replace(both, noise=NO_NOISE) for both in found]  # there are no twins
    basis = EvaluationContext(baselines={"old": found})
    check = expectation(over, at_least=0.952)
    return evaluate_expectations([check], list(AXES), sides[1].frame, basis).iloc[0]


def test_evaluate_expectations_baseline_has_verdict(here: Path) -> None:
    quiet = {"noise": 0.003, "drift": 0.0}
    before = measure(here, "a", **quiet)
    row = verdict(before, measure(here, "b", seed=2, **quiet))
    assert (row["verdict"], row["passes"]) == ("holds", "yes")
    assert row["low"] < row["measured"] < row["high"]
    slower = measure(here, "c", seed=3, factors={"cache": {"cold": 3.0 * 1.1}}, **quiet)
    unchanged = measure(here, "d", seed=3, factors={"cache": {"cold": 3.0}}, **quiet)
    Path("baselines/old").rename("baselines/first")
    row = verdict(unchanged, slower)
    assert (row["verdict"], row["passes"]) == ("differs", "no")
    assert row["measured"] == pytest.approx(1 / 1.1, rel=0.02)


def test_evaluate_expectations_baseline_excludes_like_table(here: Path) -> None:
    quiet = {"noise": 0.003, "drift": 0.0}
    before = measure(here, "a", **quiet)
    other = measure(here, "b", host=lambda number: "workstation#bbbb", **quiet)
    row = verdict(before, other)
    assert (row["verdict"], row["passes"]) == ("inconclusive", "no")
    assert row["why"].startswith("hosts differ: measured on workstation#aaaa, workstation#bbbb")
    now = measure(here, "c", **quiet)
    edit(now, lambda c: c.update(argv_template="other"), part="svn/ruby/f7/pack/slow/cold")
    row = verdict(before, now)
    assert row["verdict"] == "inconclusive", "one of the cells is something else now"
    assert row["why"] == "other-command: 1 of 4 cells not compared"
    gone = evaluate_expectations(
        [expectation("min", at_least=1)], list(AXES), pd.DataFrame(), EvaluationContext()
    )
    assert gone["why"][0].startswith("no baseline: old ")


def test_evaluate_expectations_least_has_bonferroni_interval(here: Path) -> None:
    """Of cells that have not changed, an interval of the least ratio has 1 in it: at least 95 %."""
    rng = np.random.default_rng(1)
    missed = 0
    trials = 200
    for _ in range(trials):
        found = [
            baseline_comparison.CellPair(
                {"cache": "cold"},
                ratio=unpaired_ratio(rng.normal(0, 0.02, 5), rng.normal(0, 0.02, 5)),
            )
            for _ in range(20)
        ]
        check = expectation("min", at_least=1.0)
        row = evaluate_expectations(
            [check], ["cache"], pd.DataFrame(), EvaluationContext(baselines={"old": found})
        ).iloc[0]
        missed += row["verdict"] == "differs"
    assert missed / trials < 0.05


def test_page_has_baseline_table_and_changes(here: Path) -> None:
    before = measure(here, "a")
    now = make_files(here / "b", axes=AXES, host=lambda number: HOST, seed=2)
    edit(now, lambda c: c["versions"].update(svn="1.14.5"))
    edit(now, lambda c: c.update(argv_template="other"), part="svn/ruby/f7/pack/slow/cold")
    table, notes = compare(before, now)
    folder = now.results / "tables" / STUDY
    table.to_csv(folder / "old-vs-now.csv", index=False)
    (folder / "old-vs-now.json").write_text(json.dumps(notes))
    definitions = Path(__file__).parents[2] / "config" / "published" / "findings.yaml"
    results = read_results(
        default_study(), now.results, definitions, order_of(default_study(), AXES), [], ["old"]
    )
    page = parse(build_page(results))
    section = page.by_id("table-old-vs-now")
    assert "svn 1.14.2 to 1.14.5" in section.text
    assert "above 0, now is faster" in section.text
    numbers = [cell for cell in section.all("td") if cell.text[:1] in ("+", "\N{MINUS SIGN}", "0")]
    assert len(numbers) == 2 * 7, "once more reduced as published"
    withheld = [cell for cell in section.all("td") if cell.text == "left out"]
    assert len(withheld) == 1
    assert "timed another command line" in withheld[0].attributes["title"]
