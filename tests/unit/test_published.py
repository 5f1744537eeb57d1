"""Published numbers: vcsbench computes the published percentages from the published times."""

import csv
from pathlib import Path

import pytest

from project import CONFIG
from unit.synthetic import rows_frame
from vcsbench.config.definitions import PublishedMetadata
from vcsbench.config.study_reader import load_study
from vcsbench.errors import UserError
from vcsbench.evidence.measurements import write_frame
from vcsbench.statistics.aggregation import read_published
from vcsbench.statistics.comparisons import CALL_COLUMNS, ROUND_COLUMNS
from vcsbench.statistics.tables import make_table

PUBLISHED = CONFIG / "published"
STUDIES = ["fsfs-san-2014", "fsfs-ssd-2014"]


def records(path):
    with Path(path).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def published_records(study):
    """Return the rows of published times. The published name of the axis `access` is `ra`."""
    rows = records(PUBLISHED / study.published.numbers)
    names = {"hot-svn": "hot-server"}
    return [
        {"access": row.pop("ra"), **{name: names.get(text, text) for name, text in row.items()}}
        for row in rows
    ]


def study_and_times(name):
    study = load_study(CONFIG / "studies" / f"{name}.yaml")
    numbers = published_records(study)
    return study, {tuple(row[axis] for axis in study.axes): row["elapsed_s"] for row in numbers}


def table_of(study, name, tmp_path):
    frame = read_published([PUBLISHED / study.published.numbers], list(study.axes))
    axes = {
        axis: values if isinstance(values, list) else [v for v in frame[axis].unique() if v]
        for axis, values in study.axes.items()
    }
    table = make_table(frame, name, study.tables[name], axes, [])
    write_frame(table, tmp_path / f"{name}.csv")
    return records(tmp_path / f"{name}.csv")


def rounded(text):
    """Return the bounds of a number that was rounded to its decimals."""
    half = 0.5 * 10 ** -len(text.partition(".")[2])
    return float(text) - half, float(text) + half


def bounds_of(row, compare, study, times):
    """Return the bounds of the percentage of a row, from the printed times of its two cells."""
    cells = [
        tuple(row[side] if axis == compare["axis"] else row[axis] for axis in study.axes)
        for side in ("baseline", "candidate")
    ]
    (base_low, base_high), (other_low, other_high) = (rounded(times[cell]) for cell in cells)
    return 100 * (base_low / other_high - 1), 100 * (base_high / other_low - 1)


SAN, SSD = STUDIES
LOG, EXPORT = f"{SAN}-derived-log.csv", f"{SSD}-derived-export.csv"
DERIVED = [
    (LOG, SAN, "f6-vs-f7", ["packing"], "access"),
    (LOG, SAN, "nopack-vs-pack", ["format"], "access"),
    (LOG, SAN, "http-vs-ra", ["packing", "format"], "candidate"),
    (EXPORT, SSD, "f7-vs-f6", ["repo", "packing"], "access"),
    (EXPORT, SSD, "pack-vs-nopack", ["repo", "format"], "access"),
]


@pytest.mark.parametrize(("file", "name", "table", "row_axes", "access"), DERIVED)
def test_table_has_published_percentages(tmp_path, file, name, table, row_axes, access):
    study, times = study_and_times(name)
    compare = study.tables[table]["compare"]
    published = [row for row in records(PUBLISHED / file) if row["table"] == table]
    others = ["command", "repo", "storage", "config", "cache"]
    keys = [key for key in others if key in published[0]]

    def key_of(row):
        return (*(row[key] for key in keys), row[access], "-".join(row[axis] for axis in row_axes))

    commands = {row["command"] for row in published}
    computed = [row for row in table_of(study, table, tmp_path) if row["command"] in commands]
    by_key = {key_of(row): row for row in computed}
    assert len(by_key) == len(computed) == len(published) > 40
    for row in published:
        row["cache"] = {"hot-svn": "hot-server"}.get(row["cache"], row["cache"])
        key = (*(row[key] for key in keys), row["ra"], row["row"])
        again = by_key.pop(key)
        low, high = bounds_of(again, compare, study, times)
        assert low - 0.5 <= float(row["pct"]) <= high + 0.5, (row, again)
        assert low < float(again["value"]) < high, (row, again)
    assert not by_key


@pytest.mark.parametrize("name", STUDIES)
def test_table_has_each_pair_of_published_times(tmp_path, name):
    study, times = study_and_times(name)
    numbers = published_records(study)
    for table, definition in study.tables.items():
        if not definition.get("published", True):
            continue
        rows = table_of(study, table, tmp_path)
        empty = [*ROUND_COLUMNS, *CALL_COLUMNS]
        assert list(rows[0])[-len(empty) :] == empty
        assert not any(row[column] for row in rows for column in empty)
        if "compare" not in definition:
            metric = definition["metric"]
            want = {tuple(r[a] for a in study.axes): float(r[metric]) for r in numbers if r[metric]}
            assert {tuple(r[a] for a in study.axes): float(r["value"]) for r in rows} == want
            continue
        compare = definition["compare"]
        at = list(study.axes).index(compare["axis"])
        pairs = [
            cell
            for cell in times
            if cell[at] in compare["candidates"]
            and (*cell[:at], compare["baseline"], *cell[at + 1 :]) in times
        ]
        assert len(rows) == len(pairs), table
        for row in rows:
            low, high = bounds_of(row, compare, study, times)
            assert low < float(row["value"]) < high, row


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("command,elapsed_s\nlog,1\n", "`access`"),
        *(
            (f"command,access,elapsed_s\nlog,svn,{bad}\n", f"'{bad}'")
            for bad in ("fast", "inf", "-1")
        ),
        ("command,access,elapsed_s\ndump,,1\ndump,,2\n", "dump/-"),
        ("command,access,elapsd_s\nlog,svn,1\n", "'elapsd_s'"),
        ("command,access,elapsed_s,\nlog,svn,1,\n", "''"),
        ("command;access;elapsed_s\nlog;svn;1\n", "'command;access;elapsed_s'"),
        ("command,access,access,elapsed_s\nlog,svn,svn,1\n", "`access`"),
        ("command,access,elapsed_s\nlog,svn,1\nlog,http,1,5\n", "row 2"),
        ('command,access,elapsed_s\nlog,"svn,1\nlog,http,1\n', "CSV"),
        ("command,access,elapsed_s\ndump,svn,1\n", "`access`"),
        ("command,access,elapsed_s\n", "no rows"),
        ("", "no rows"),
    ],
)
def test_read_published_invalid_is_refused(tmp_path, text, part):
    path = tmp_path / "numbers.csv"
    path.write_text(text)
    metadata = PublishedMetadata(inapplicable={"dump": ["access"]})
    with pytest.raises(UserError) as caught:
        read_published([path], ["command", "access"], metadata=metadata)
    assert str(caught.value).startswith(f"{path}: ") and part in str(caught.value)


def test_read_published_merges_metrics_of_files_and_refuses_two_numbers(tmp_path):
    texts = {"a": "access,elapsed_s,flushes\nsvn,2,\nhttp,3,\n", "b": "access,flushes\nsvn,7\n"}
    paths = [tmp_path / name for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text)
    frame = read_published(paths, ["access"]).set_index("access")
    assert frame.loc["svn", ["elapsed_s", "flushes"]].tolist() == [2, 7]
    assert frame["elapsed_s"].tolist() == [2, 3] and frame["flushes"].count() == 1
    paths[1].write_text("access,elapsed_s\nsvn,5\n")
    with pytest.raises(UserError, match=r"b: `elapsed_s` of svn is also in .*/a\. Remove one"):
        read_published(paths, ["access"])


def test_read_published_leaves_out_columns_of_runs_that_no_table_groups_by(tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text("\ufeffra,run,round,elapsed_s\nsvn,3,1,2\n", encoding="utf-8")
    expected = ["access", "elapsed_s", "elapsed_s_rounding"]
    assert list(read_published([path], ["access"])) == expected
    assert read_published([path], ["access"], ["run"])["run"].tolist() == ["3"]


def test_table_of_unpublished_metric_has_no_row(tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text("format,elapsed_s,client_cpu_pct\nf6,2,\nf7,1,50\n")
    frame = read_published([path], ["format"])
    definition = {"metric": "client_cpu_pct"}
    table = make_table(frame, "client-cpu", definition, {"format": ["f6", "f7"]}, [])
    assert table[["format", "value"]].values.tolist() == [["f7", 50]]


def test_table_by_run_has_numbers_of_measured_runs():
    rows = [
        {"strategy": "cp", "round": r, "run": n, "elapsed_s": r * n}
        for r in (1.0, 2.0)
        for n in (1.0, 2.0)
    ]
    definition = {"metric": "elapsed_s", "by": ["run", "statistic"]}
    table = make_table(rows_frame(rows), "t", definition, {"strategy": ["cp"]}, [])
    assert table[["run", "statistic", "value"]].values.tolist() == [
        ["1", "", pytest.approx(2**0.5)],
        ["2", "", pytest.approx(8**0.5)],
    ]
