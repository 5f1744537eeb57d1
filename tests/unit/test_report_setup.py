"""The setup section and the citation of a page, from contexts and provenance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from unit.html_tree import parse
from unit.report_files import default_study, order_of
from vcsbench.config.study import Study
from vcsbench.report import setup_section
from vcsbench.report.citation import citation_of
from vcsbench.report.page import build_page
from vcsbench.report.results import Results
from vcsbench.report.setup_section import Setup, distances_of, setup_of

STUDY = default_study()
UPDATES = default_study("working-copy-2012")


def setup(*contexts: dict[str, Any], study: Study = STUDY) -> Setup:
    return setup_of(Results(study, order_of(study, {}), contexts=contexts), {})


def context(number: int = 1, **changes: Any) -> dict[str, Any]:
    host = {"name": "here", "cpu": "A processor", "cores": 2, "memory_bytes": 4 << 30}
    repository = {"name": "ruby", "scale": 0.13, "format": "f7", "youngest": 6000}
    return {
        "cell": "log",
        "axes": {"command": "log", "config": "slow", "format": "f7", "packing": "pack"},
        "round": number,
        "copy": number,
        "started_at": f"2026-11-21T07:0{number}:00Z",
        "argv_template": "{svn} log {url}",
        "server": {"kind": "svnserve", "argv": ["svnserve", "--listen-port", str(4000 + number)]},
        "server_files": {"svnserve.args": "--threads"},
        "host": {**host, "virtualized": ""},
        "storage": {"name": "disk", "path": "/var/tmp", "filesystem": "ext4", "rotational": True},
        "versions": {"svn": "1.14.2", "httpd": ""},
        "repository": {**repository, "bytes": 3 << 20},
        "runs": [{"run": 1, "certificate": {"cache_cleared_by": "drop-caches"}}],
        **changes,
    }


def test_facts_of_equal_contexts_are_listed_once() -> None:
    found = setup(context(1), context(2), context(3))
    facts = found.facts
    assert facts["Machine"] == ["here: A processor, 2 cores, 4.00 GiB of memory, not virtual"]
    assert facts["Storage"] == ["disk: /var/tmp, ext4, rotational"]
    assert facts["Rounds"] == [
        "3 cell-rounds with 3 timed runs: 3 rounds, 3 copies of each repository"
    ]
    (table,) = found.tables
    assert table.heads == ["Repository", "Format", "Revisions", "Size"] and table.numbers_from == 2
    assert table.rows == [["ruby", "f7", "6\N{NARROW NO-BREAK SPACE}000", "3.00 MiB"]]
    assert found.last and found.first and (found.last - found.first).total_seconds() == 120
    assert found.scales == {"ruby": 0.13} and found.host_names == ["here"]


def test_rounds_of_cells_with_different_counts_are_a_range() -> None:
    contexts = [
        {**context(n), "cell": c} for c, last in (("a", 7), ("b", 5)) for n in range(1, last)
    ]
    assert ": 4 to 6 rounds" in setup(*contexts).facts["Rounds"][0]


def test_facts_of_two_machines_have_both() -> None:
    found = setup(context(1), context(2, host={"name": "there", "virtualized": "QEMU"}))
    assert found.facts["Machine"][1] == "there: a guest (QEMU)" and found.guests == ["QEMU"]
    assert len(found.facts["Nodes"]) == 2


def test_storage_has_the_least_free_space() -> None:
    disk = {"name": "disk", "path": "/d", "filesystem": "ext4", "device": "/dev/vda"}
    disk |= {"rotational": False, "scheduler": "mq-deadline", "mount_options": "rw"}
    found = setup_section.storages([{"storage": {**disk, "free_bytes": n << 30}} for n in (7, 5)])
    assert found == [
        "disk: /d, ext4, /dev/vda, not rotational, scheduler mq-deadline, mounted rw, 5.00 GiB free"
    ]


def test_configurations_differ_by_files_and_not_by_port() -> None:
    edited = context(3, server_files={"svnserve.args": "--memory-cache-size 256"})
    http = context(2, server={"kind": "httpd"}, server_files={"httpd.conf": "SVNBlockRead on"})
    first, second = setup(context(1), http, edited).configurations
    assert first.name == second.name == "slow" and "256" in second.files["svnserve.args"]
    assert first.started == {"svnserve": "svnserve --listen-port 4001", "httpd": ""}
    assert sorted(first.files) == ["httpd.conf", "svnserve.args"]


def test_description_of_a_repository_has_its_scale_and_notes() -> None:
    noted = {"name": "mine", "description": "all of main", "scale": 1, "notes": ["2 left out."]}
    facts = setup(context(repository=noted)).facts
    assert facts["Repository mine"] == ["all of main, scale 1; 2 left out"]


def test_versions_that_changed_have_their_counts() -> None:
    found = setup_section.version_list(
        [context(1), context(2), context(3, versions={"svn": "1.15"})]
    )
    assert found == {"svn": "1.14.2 (2 cell-rounds), 1.15 (1 cell-round)"}


def test_commands_are_in_the_order_of_the_study() -> None:
    dump = context(2, axes={"command": "dump"}, argv_template="{svnadmin} dump")
    export = context(3, axes={"command": "export"}, argv_template="{svn} export")
    names = [name for name, _ in setup_section.commands_as_timed([dump, export, context(1)], STUDY)]
    assert names == [name for name in STUDY.commands if name in ("log", "export")] + ["dump"]


def test_clearing_counts_runs_by_way() -> None:
    runs = [{"certificate": {"cache_cleared_by": "evict"}}] * 2
    evict, drop = setup_section.clearing_sentences([context(1), context(2, runs=runs)])
    assert "vmtouch" in evict and "2 runs" in evict and "drop_caches" in drop
    assert setup_section.clearing_sentences([{}]) == ["No run had its caches cleared."]


def test_setup_of_bare_contexts_is_empty() -> None:
    found = setup({}, {"axes": None, "server": None, "runs": None, "started_at": None})
    assert found.first is None and not found.configurations and not found.tables


@pytest.mark.parametrize(
    ("filesystem", "text"),
    [
        (
            {"made": True, "bytes": 1 << 30, "direct_io": True},
            "in an image of 1.00 GiB with direct",
        ),
        ({"made": True, "bytes": 1 << 30, "direct_io": False}, "through this system's page cache"),
        ({"made": True, "bytes": 1 << 30, "direct_io": None}, "for each measurement, 1.00 GiB,"),
        ({"made": False, "path": "/mnt/x", "device": "host:/x"}, "fs: /mnt/x, btrfs, host:/x"),
    ],
)
def test_output_of_a_working_copy_names_its_file_system(
    filesystem: dict[str, Any], text: str
) -> None:
    working_copy = {"filesystem": {**filesystem, "filesystem": "btrfs", "mount_options": "rw"}}
    found = {"axes": {"filesystem": "fs"}, "targets": "/var/tmp", "working_copy": working_copy}
    (location,) = setup_section.output_locations([found])
    assert text in location and location.endswith("mounted rw")


def test_output_on_the_storage_is_distinguished_from_elsewhere() -> None:
    storage = {"name": "disk", "path": "/var/tmp/vcsbench-1", "filesystem": "ext4"}
    inside, outside = setup_section.output_locations(
        [{"storage": storage, "targets": targets} for targets in ("/var/tmp", "/dev/shm", "")]
    )
    assert inside.endswith("the storage itself") and "not the storage" in outside


def test_layout_and_remote_server_are_facts() -> None:
    layout = {"verdict": "apart", "sentence": "do NOT lie interleaved: far", "apart": ["a"]}
    remote = {"host": "there", "url": "svn://there/it"}
    facts = setup(context(1, layout=layout), context(2, layout=layout, remote=remote)).facts
    assert facts["Layout"] == ["disk: the copies do NOT lie interleaved: far."]
    assert facts["Server"][0].startswith("The server is on there (svn://there/it)")


def test_builds_have_their_programs_and_the_same_binaries_are_named() -> None:
    def of(name: str, digest: str, *libraries: str) -> dict[str, Any]:
        client = {"program": f"/{name}/svn", "version": "1", "libraries": libraries}
        build = {"name": name, "digest": digest, "client": client}
        return {"build": build, "axes": {"command": "log", "build": name}}

    contexts = [of("trunk", "2", "/t/lib/libsvn_fs-1.so"), of("again", "1"), of("system", "1"), {}]
    (table,) = setup_section.build_tables(contexts, ["system", "again", "trunk"])
    assert [(row[0], row[4]) for row in table.rows] == [
        ("system", "unknown"),
        ("again", "unknown"),
        ("trunk", "/t/lib"),
    ]
    assert table.note.startswith("again ran the same binaries as system (A/A")


def update(first: int, last: int, name: str = "main", scale: float = 1.0) -> dict[str, Any]:
    return {
        "axes": {"command": "update-1000", "repo": name},
        "repository": {"name": name, "scale": scale},
        "working_copy": {"revisions": [first, last]},
    }


def test_distances_below_the_expected_one_have_the_reason() -> None:
    contexts = [update(2, 231), update(2, 231), update(951, 1001, "large", 0.05)]
    short, scaled = distances_of(contexts, UPDATES)["update-1000"]
    assert "229 revisions, from 2 to 231, not 1" in short and short.endswith("has no more.")
    assert scaled.endswith("the repository has scale 0.05.")
    (full,) = distances_of([update(500, 1500)], UPDATES)["update-1000"]
    assert "not" not in full
    assert not distances_of([update(0, 1500), update(1500, 1500)], UPDATES)


PROVENANCE = {
    "vcsbench": "0.1.0",
    "commit": "0123456789abcdef" * 2 + "01234567",
    "changed": [],
    "command": "snakemake --cores all --config minutes=15",
    "config_digest": "feedface" * 8,
}


def cited(study: Study = STUDY, **changes: Any) -> Results:
    made = {**PROVENANCE, **changes}
    return Results(study, order_of(study, {}), contexts=[context(1)], provenance=made)


def test_citation_is_in_the_footer_and_in_the_head() -> None:
    tree = parse(build_page(cited()))
    shown = {d.all("dt")[0].text: d.all("dd")[0].text for d in tree.by_id("cite").all("div")}
    assert shown["Made by"] == f"vcsbench 0.1.0, commit {PROVENANCE['commit']}, unchanged"
    assert shown["Command"] == PROVENANCE["command"]
    assert shown["Cite as"] == (
        "vcsbench 0.1.0 (commit 0123456789ab; configuration feedfacefeed). Study fsfs-san-2014: "
        f"{STUDY.title}. Measured {shown['Measured']}."
    )
    meta = {m.attributes.get("name"): m.attributes.get("content") for m in tree.all("meta")}
    assert meta["vcsbench:commit"] == PROVENANCE["commit"]
    assert meta["vcsbench:study-date"] == "2014" and meta["vcsbench:study-authors"] == ""


@pytest.mark.parametrize(
    ("made", "text"),
    [
        ({"changed": ["Snakefile"]}, "with changes in Snakefile"),
        ({"changed": [f"workflow/{n}" for n in range(9)]}, "with changes in 9 files"),
        ({"commit": ""}, "commit unknown"),
    ],
)
def test_citation_has_the_changed_files(made: dict[str, Any], text: str) -> None:
    results = cited(**made)
    assert citation_of(results, setup_of(results, {})).entries["Made by"].endswith(text)


def test_citation_has_authors_only_if_they_are_known() -> None:
    unknown = cited()
    assert "not recorded" in citation_of(unknown, setup_of(unknown, {})).entries["Study"]
    known = cited(replace(STUDY, authors=["A. Author", "B. Author"], url="https://example.org/a"))
    citation = citation_of(known, setup_of(known, {}))
    assert "(fsfs-san-2014; A. Author, B. Author, 2014)" in citation.entries["Study"]
    assert citation.meta["study-authors"] == "A. Author; B. Author"
    bare = replace(known, provenance={}, contexts=())
    assert "not recorded" in citation_of(bare, setup_of(bare, {})).entries["Made by"]
