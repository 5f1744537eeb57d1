"""The setup section and the citation of a page, from contexts and provenance."""

import re
from dataclasses import replace

import pytest

from unit.html_tree import parse
from unit.report_files import default_study, order_of
from vcsbench.evidence.run_columns import storage_label
from vcsbench.records import complete_context
from vcsbench.report.citation import describe_origin, make_bibtex
from vcsbench.report.page import build_page
from vcsbench.report.results import Provenance, Results
from vcsbench.report.setup_conditions import compare_conditions
from vcsbench.report.setup_section import describe_setup
from vcsbench.report.table_sections import distance_notes

STUDY = default_study()
DISK = {"name": "disk", "path": "/var/tmp", "filesystem": "ext4", "rotational": True}


def setup(*contexts):
    complete = [complete_context(context) for context in contexts]
    return describe_setup(Results(STUDY, order_of(STUDY, {}), contexts=complete))


def facts_of(setup):
    return {fact.heading: fact.values for fact in setup.facts}


def context(number=1, **changes):
    host = {"name": "here", "cpu": "A processor", "cores": 2, "memory_bytes": 4 << 30}
    repository = {"name": "ruby", "scale": 0.13, "format": "f7", "youngest": 6000, "bytes": 3 << 20}
    content = {
        "cell": "log",
        "axes": {"command": "log", "config": "slow", "format": "f7", "packing": "pack"},
        "round": number,
        "copy": number,
        "started_at": f"2026-11-21T07:0{number}:00Z",
        "argv_template": "{svn} log {url}",
        "server": {"kind": "svnserve", "argv": ["svnserve", "--listen-port", str(4000 + number)]},
        "server_files": {"svnserve.args": "--threads"},
        "host": {**host, "virtualized": ""},
        "storage": DISK,
        "versions": {"svn": "1.14.2", "httpd": ""},
        "repository": repository,
        "runs": [{"run": 1, "evidence": {"cache_cleared_by": "drop-caches"}}],
    }
    return complete_context({**content, **changes})


def test_setup_of_equal_contexts_lists_facts_once():
    facts = facts_of(setup(context(1), context(2), context(3)))
    assert facts["Machine"] == ["here (2 cores, 4 GiB): A processor, not virtual"]
    assert facts["Storage"] == ["disk: /var/tmp, ext4, spinning disk"]
    (rounds,) = facts["Rounds"]
    assert re.findall(r"\d+", rounds) == ["3"] * 4
    (caches,) = facts["Caches"]
    assert re.findall(r"drop_caches|\d+", caches) == ["drop_caches", "3"]
    assert facts["Programs"] == ["svn 1.14.2"]
    (repository,) = facts["Repository ruby"]
    assert repository == "scale 0.13, format f7, revisions 6,000, size 3.00 MiB"


def test_setup_of_different_contexts_has_each_value():
    repository = {**context()["repository"], "packing": "nopack", "packed": False}
    repository["notes"] = ["2 left out."]
    remote = {"host": "far", "url": "http://far"}
    other = context(2, repository=repository, host={"name": "there"}, remote=remote)
    facts = facts_of(setup(context(1), other))
    assert facts["Machine"][1:] == ["there"]
    assert facts["Repository ruby"][1] == "2 left out."
    assert facts["Repository ruby"][2].endswith("packing not packed")
    assert facts["Nodes"] == ["here: log/-/-", "there: log/-/-"]
    assert facts["Network"][0].endswith("another machine: far")
    assert facts["Server"][0].startswith("far (http://far), ")


MADE = {"filesystem": "btrfs", "made": True, "bytes": 1 << 31}
IN_IMAGE = "btrfs, made for each measurement in an image of 2.00 GiB, through the page cache"


@pytest.mark.parametrize(
    ("targets", "filesystem", "output"),
    [
        ("/dev/shm", None, "/dev/shm, not the storage"),
        ("/var", None, "/var, the storage itself"),
        ("/var", DISK, "/var/tmp, ext4, spinning disk"),
        ("/var", MADE, IN_IMAGE),
    ],
)
def test_setup_has_the_place_to_which_a_command_writes(targets, filesystem, output):
    working_copy = {"filesystem": filesystem} if filesystem else {}
    facts = facts_of(setup(context(targets=targets, working_copy=working_copy)))
    (text,) = facts["Written to"]
    assert text.startswith(output)


IN_MEMORY = "tmpfs, made for each measurement in memory, with a size of 2.00 GiB"


@pytest.mark.parametrize(
    ("filesystem", "output"),
    [
        (MADE, IN_IMAGE),
        ({**MADE, "filesystem": "tmpfs"}, IN_MEMORY),
        (DISK, "/var, the storage itself"),
    ],
)
def test_setup_of_a_tree_on_a_made_file_system_has_it_as_output(filesystem, output):
    facts = facts_of(setup(context(targets="/var", read={"filesystem": filesystem})))
    assert facts["Written to"] == [output]


def test_setup_conditions_have_the_size_of_a_repository_that_was_also_loaded():
    sizes = setup(context(2)).conditions.repositories
    # A load reads a dump file: its record has no number of revisions.
    of_load = context(repository={"name": "ruby", "scale": 0.13})
    assert setup(of_load, context(2)).conditions.repositories == sizes
    assert "6,000 revisions" in sizes


def test_setup_has_the_settings_of_formats_and_none_of_a_load():
    repository = context()["repository"]
    with_settings = {**repository, "fsfs_settings": {"compression": "lz4", "block-size": "64"}}
    # A load reads a dump file, which has no format.
    of_load = {key: value for key, value in with_settings.items() if key != "format"}
    facts = facts_of(setup(context(repository=of_load), context(2, repository=with_settings)))
    assert facts["Format settings (fsfs.conf)"] == ["f7: compression = lz4, block-size = 64"]


@pytest.mark.parametrize(
    ("virtualized", "storage", "label"),
    [
        ("", DISK, "spinning disk"),
        ("", {**DISK, "rotational": False}, "SSD"),
        ("QEMU", DISK, "virtual disk"),
        ("yes", {**DISK, "rotational": False}, "virtual disk"),
        ("QEMU", {**DISK, "filesystem": "tmpfs"}, "RAM"),
        ("QEMU", {**DISK, "rotational": None}, ""),
        ("", {**DISK, "disks": [{"kind": "device"}]}, "spinning disk"),
        ("", {**DISK, "rotational": False, "disks": [{"kind": "RAM disk"}]}, "RAM disk"),
        ("QEMU", {**DISK, "disks": [{"kind": "device"}, {"kind": "loop device"}]}, "loop device"),
    ],
)
def test_storage_has_one_label_everywhere(virtualized, storage, label):
    host = {"name": "here", "virtualized": virtualized}
    found = setup(context(host=host, storage=storage))
    assert storage_label(storage, host) == label
    assert (f"({label})" in found.conditions.storage) == bool(label)
    (fact,) = facts_of(found)["Storage"]
    assert fact.split(", ")[2:] == [label] * bool(label)


def test_setup_configuration_has_all_contents_of_its_files_and_one_port():
    edited = context(3, server_files={"svnserve.args": "--memory-cache-size 256"})
    http = context(2, server={"kind": "httpd"}, server_files={"httpd.conf": "SVNBlockRead on"})
    (configuration,) = setup(context(1), http, edited).configurations
    assert configuration.name == "slow"
    assert configuration.started == {"svnserve": "svnserve --listen-port 4001", "httpd": ""}
    assert configuration.files == [
        ("svnserve.args", "--threads"),
        ("httpd.conf", "SVNBlockRead on"),
        ("svnserve.args", "--memory-cache-size 256"),
    ]


def test_setup_has_the_programs_of_builds_in_their_order():
    contexts = [complete_context({})]
    folders = {"trunk": ["/t/lib/libsvn_fs-1.so"], "again": [], "system": None}
    for name, libraries in folders.items():
        client = {"program": f"/{name}/svn", "version": "1", "libraries": libraries}
        build = {"name": name, "digest": "1", "client": client}
        axes = {"command": "log", "build": name}
        contexts.append(complete_context({"build": build, "axes": axes}))
    study = default_study("builds")
    order = {**order_of(study, {}), "build": ["system", "again", "trunk"]}
    facts = describe_setup(Results(study, order, contexts=contexts)).facts
    builds = [(fact.heading, *fact.values) for fact in facts if fact.heading.startswith("Build")]
    assert builds == [
        ("Build system", "client: /system/svn, 1, libraries in unknown folders, digest 1"),
        ("Build again", "client: /again/svn, 1, libraries in unknown folders, digest 1"),
        ("Build trunk", "client: /trunk/svn, 1, libraries in /t/lib, digest 1"),
    ]


@pytest.mark.parametrize(
    ("revisions", "scale", "end"),
    [
        ([2, 231], 1.0, "from 2 to 231, not 1,000: the repository has no more."),
        ([951, 1001], 0.05, "not 1,000: the repository has scale 0.05."),
        ([0, 1500], 1.0, ""),
    ],
)
def test_distances_below_the_expected_one_have_the_reason(revisions, scale, end):
    axes = {"command": "update-1000", "repo": "main"}
    repository = {"name": "main", "scale": scale}
    content = {"axes": axes, "repository": repository, "working_copy": {"revisions": revisions}}
    notes = distance_notes([complete_context(content)] * 2, default_study("working-copy-2012"))
    (text,) = notes.get("update-1000", [""])
    assert text.endswith(end) and bool(text) == bool(end)


PROVENANCE = Provenance(
    vcsbench="0.1.0",
    commit="0123456789" * 4,
    command="snakemake --cores all --config seed=2 minutes=15",
    config_digest="feedface" * 8,
)


@pytest.mark.parametrize(
    ("changed", "state"),
    [
        ([], "unchanged"),
        (["workflow/a.py", "Snakefile"], "with changes in workflow/a.py and Snakefile"),
        (list("abcde"), "with changes in 5 files"),
    ],
)
def test_citation_is_in_the_footer_of_the_page(changed, state):
    provenance = replace(PROVENANCE, changed=changed)
    results = Results(STUDY, order_of(STUDY, {}), contexts=[context(1)], provenance=provenance)
    tree = parse(build_page(results))
    shown = {d.all("dt")[0].text: d.all("dd")[0].text for d in tree.by_id("cite").all("div")}
    assert shown["Made by"] == f"vcsbench 0.1.0, commit {PROVENANCE.commit}, {state}"
    assert shown["Command"] == f"make report STUDY={STUDY.name} ARGS='--config seed=2'"
    assert shown["Configuration"] == PROVENANCE.config_digest
    assert shown["Cite as"].split() == make_bibtex(results, describe_setup(results)).split()


def test_bibtex_has_title_year_and_what_identifies_the_results():
    study = STUDY.model_copy(update={"title": "A {brace} ends a field"})
    results = Results(study, order_of(STUDY, {}), contexts=[context(1)], provenance=PROVENANCE)
    entry = make_bibtex(results, describe_setup(results))
    fields = dict(re.findall(r"^  (\w+) = \{(.*)\},$", entry, re.MULTILINE))
    assert fields["year"] == "2026" and fields["author"] == "{The maintainers of vcsbench}"
    assert fields["title"].endswith(f"{STUDY.name}: A brace ends a field")
    parts = ("vcsbench 0.1.0", PROVENANCE.commit, "feedfacefeed", "here")
    assert [part for part in parts if part not in fields["note"]] == []


@pytest.mark.parametrize(
    ("name", "history", "version"),
    [
        ("fsfs-san-2014", "real", "1.9"),
        ("fsfs-ssd-2014", "real", "1.9"),
        ("server-prototype-2010", "real", "1.7"),
        ("working-copy-2012", "not published", "1.7"),
        ("tree-building-2007", "not published", "not published"),
    ],
)
def test_published_set_up_is_that_of_the_study(name, history, version):
    study = default_study(name)
    axes = {study.command_axis: next(iter(study.commands))}
    contexts = [context(axes=axes, repository={**context()["repository"], "source": "generated"})]
    made = describe_setup(Results(study, order_of(study, {}), contexts=contexts))
    rows = {row[0]: row[1] for row in compare_conditions(made.conditions, study).rows}
    assert (rows.get("History", "not published"), rows["Subversion"]) == (history, version)


def test_head_names_machines_that_differ_by_a_few_mib_once():
    hosts = [{"name": "guest", "cores": 1, "memory_bytes": n << 20} for n in (1950, 1960, 1940)]
    found = setup(*(context(n, host=host) for n, host in enumerate(hosts)))
    assert found.conditions.machine == "guest (1 core, 2 GiB)"


@pytest.mark.parametrize(
    ("name", "origin", "end"),
    [
        ("fsfs-san-2014", "; author not known, 2014", "No stable address known."),
        ("working-copy-2012", "; Mattias Engdegård, 2012-07-08", "/0055.shtml"),
        ("builds", "", "Nothing was published."),
    ],
)
def test_citation_names_what_is_not_known_of_a_published_study(name, origin, end):
    text = describe_origin(default_study(name))
    assert f" ({name}{origin}). " in text and text.endswith(end)
