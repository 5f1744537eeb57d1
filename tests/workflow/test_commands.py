"""Commands outside of a run: plan, doctor, show, measure, clean."""

import re

import pytest

from project import HOT, STUDY, needs, path_of_tool, run_merged

pytestmark = needs("svn", "svnserve", "hyperfine")

CELL = "log/svn/ruby/f7/nopack/fast/hot-svn"
PARTS = {**HOT, "ra": ["svn", "file"]}, {**HOT, "ra": "file", "packing": "pack"}


def seconds(report):
    """Return the forecast of a plan by stage."""
    text = report.partition("\nDuration")[2]
    found = re.findall(r"^  (\S.*?) +(\d+) (s|min)\b", text, re.MULTILINE)
    return {stage: int(number) * {"s": 1, "min": 60}[unit] for stage, number, unit in found}


@pytest.mark.slow
def test_plan_before_and_after_a_run_forecasts_missing_stages(project):
    project.configure(*PARTS)
    done = project.tool("plan")
    assert done.returncode == 0, done.stdout
    for text in (
        "2 cells in",
        "2 cells of",
        "1 skipped",
        "23 revisions",
        "127.0.0.1",
        "thresholds.min_rounds",
    ):
        assert text in done.stdout
    assert seconds(done.stdout)["measuring"] > 0
    made = [*(project.path / "storage").iterdir(), *(project.path / "scratch").iterdir()]
    assert not made and not (project.path / "results").exists()

    project.succeed("measured")
    project.configure(*PARTS, rounds=60)
    stages = seconds(project.tool("plan").stdout)
    assert stages["loading"] == stages["copying"] == 0
    # Two cells, 59 rounds, from half a second each.
    assert 20 < stages["measuring"] < 600


def test_show_measure_and_clean_use_prepared_copies_only(project):
    project.configure()
    unprepared = project.tool("show", CELL)
    assert unprepared.returncode == 1 and "are not prepared" in unprepared.stdout
    project.prepare()

    shown = project.tool("show", CELL)
    assert shown.returncode == 0, shown.stdout
    assert "svn --non-interactive" in shown.stdout and "--limit 50000" in shown.stdout
    # As in `vcsbench show ... | head`, which ends first.
    line = f"./vcsbench show {CELL} --configfile {project.config} | true"
    closed = run_merged(["bash", "-c", line], project.path, 60, PATH=path_of_tool())
    assert closed.stdout == ""
    assert "--threads" in shown.stdout and re.search(r"^warm-up +2 runs$", shown.stdout, re.M)

    measured = project.tool("measure", f"{STUDY}/{CELL}")
    assert measured.returncode == 0, measured.stdout
    assert "run 1: 0." in measured.stdout and "server_pid" in measured.stdout
    assert project.exports() == {}

    unknown = project.tool("measure", CELL.replace("ruby", "rubby"))
    assert unknown.returncode == 1 and f"Similar cells: {CELL}" in unknown.stdout

    precious = project.path / "storage" / "precious"
    precious.write_text("mine")
    cleaned = project.tool("clean")
    assert cleaned.returncode == 0 and "removed" in cleaned.stdout
    assert [path.name for path in (project.path / "storage").iterdir()] == ["precious"]
    assert not list((project.path / "scratch").iterdir())
    assert not (project.path / "results").exists()
