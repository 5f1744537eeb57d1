"""The dump reader accepts and refuses the same odd dumps as `svnadmin load`."""

import io
import os
import subprocess
import tracemalloc

import pytest

from dump_streams import (
    BASE,
    DATE,
    HEAD,
    UUID,
    VERSION,
    block,
    copied,
    file,
    folder,
    lengths,
    revision,
)
from project import needs
from vcsbench.errors import UserError
from vcsbench.prepare.loader import load_source
from vcsbench.processes import Program
from vcsbench.sources import open_source
from vcsbench.sources.dump_reader import BYPASS, LARGEST_GAP, DumpReader

pytestmark = needs("svnadmin")

PROPERTIES = b"Prop-content-length: %d\nContent-length: %d\n\n"
DELTA = block({b"c": b"3"}, (b"a",))
CHANGE = b"Node-path: trunk/f\nNode-kind: file\nNode-action: change\n"
ADD = b"Node-path: a\nNode-kind: file\nNode-action: add\n"
# Loaded by svnadmin and by us, with the number of revisions.
LOADED = {
    "as svnadmin writes it": (BASE + file(b"trunk/f"), 1),
    "comments and blank lines between records": (
        b"SVN-fs-dump-format-version: 2\n ## a comment: x\n\t# y\n\n" + UUID + revision(0) + b" ## z\n"
        + revision(1) + folder(b"trunk") + b"\x0b a\n\x0c b: c\n\r\n" + folder(b"a") + b" end\n",
        1,
    ),
    "a tab behind the colons": (
        BASE + (revision(2) + folder(b"a") + file(b"a/f", properties={b"k": b"v"})).replace(b": ", b":\t"), 2,
    ),
    "comments, unknown and repeated headers": (
        BASE + folder(b"a", b"## x: y\nSvn-extension: 1\nX-foo: \nNode-kind: dir\n"), 1,
    ),
    "no blank line after the version": (BASE.replace(b"version: 2\n\n", b"version: 2\n"), 1),
    "no line end after a text": (BASE + file(b"trunk/f")[:-2], 1),
    "no blank line at the end": (BASE[:-2], 1),
    "a gap": (BASE + revision(9) + file(b"trunk/f"), 2),
    "leading zeros": (HEAD + revision(1).replace(b"number: 1", b"number: " + b"0" * 5000 + b"1"), 1),
    "lengths of properties with blanks and a plus": (
        BASE + folder(b"a", PROPERTIES % (25, 25) + b"K +1\na\nV  +1\nb\nPROPS-END\n"), 1,
    ),
    "long headers, names of properties and gaps": (
        BASE + folder(b"a", b"X-header: %s\n" % (b"x" * 100_000))
        + file(b"b", properties={b"k" * 100_000: b"v"}) + b"\n" * ((1 << 20) + 1) + folder(b"c"),
        1,
    ),
    "a checksum of zeros": (BASE + file(b"a", more=b"Text-content-md5: " + b"0" * 32 + b"\n"), 1),
    "format 1": (BASE.replace(b"version: 2", b"version: 1") + file(b"trunk/f"), 1),
    "paths with slashes, dots, a minus and an at sign": (
        BASE + folder(b"/trunk//a/") + folder(b"./trunk/./b/.") + folder(b"-r") + folder(b"a@2")
        + revision(2) + copied(b"./b", b"trunk/./a", 1),
        2,
    ),
    "properties without an end": (BASE + folder(b"a", PROPERTIES % (12, 12) + b"K 1\na\nV 1\nb\n"), 1),
    "no UUID": (VERSION + revision(0) + revision(1) + folder(b"a"), 1),
    "no revision 0": (VERSION + UUID + revision(1) + folder(b"a"), 1),
    "revisions from 5 on": (VERSION + revision(5) + folder(b"a") + revision(6) + file(b"a/f"), 2),
    "two dumps in one file": (BASE + VERSION + UUID + revision(0) + revision(1) + folder(b"b"), 2),
    "revisions without properties": (VERSION + b"Revision-number: 0\n\nRevision-number: 1\n\n", 1),
    **{
        f"the number {number!r}": (HEAD + revision(1).replace(b"number: 1", b"number: " + number), 1)
        for number in (b"\t1", b"+01")
    },
    "lengths and revisions with a plus": (
        (BASE + file(b"a", properties={b"k": b"v"}) + revision(2) + copied(b"b", b"trunk", 1))
        .replace(b"length: ", b"length: +").replace(b"rev: ", b"rev: +").replace(b"version: ", b"version: +"),
        2,
    ),
    "line ends counted as content": (
        BASE + file(b"a").replace(b"Content-length: 15", b"Content-length: 17") + folder(b"b"), 1,
    ),
    "no date": (HEAD + revision(1, {b"svn:log": b"a"}), 1),
    "format 1 without lengths of parts": (
        (BASE + file(b"trunk/f", properties={b"a": b"b"}))
        .replace(b"version: 2", b"version: 1")
        .replace(b"Prop-content-length: 23\nText-content-length: 5\n", b""),
        1,
    ),
    "deltas of properties": (
        (BASE + file(b"trunk/f", properties={b"a": b"1", b"b": b"2"}) + revision(2) + CHANGE)
        .replace(b"version: 2", b"version: 3")
        + b"Prop-delta: true\n" + lengths(DELTA) + b"\n" + DELTA + b"\n\n",
        2,
    ),
    "binary names and values of properties": (BASE + file(b"a", properties={b"\xe9\n": b"\0\xff\r"}), 1),
    "a property of a revision with the name of mergeinfo": (HEAD + revision(1, {b"svn:mergeinfo": b"x"}), 1),
    **{
        f"the date {date!r}": (HEAD + revision(1, {b"svn:date": date}), 1)
        for date in (
            b"Tue 3 Oct 2000 09:00:00.000 (day 277, dst 1, gmt_off -18000)",
            DATE + b"\0", DATE + b" and more", b"02005-005-00T::.Z", b"10000-01-01T00:00:00.000000Z",
        )
    },
    **{
        f"properties of {length} bytes, which have 22": (
            BASE + folder(b"a", PROPERTIES % (length, length) + block({b"a": b"b"})), 1,
        )
        for length in (21, 31)
    },
}  # fmt: skip
# Loaded with a note, because svnadmin load replaces numbers.
NOTED = {
    "a number twice": (BASE + revision(1) + copied(b"b", b"trunk", 1), 2),
    "a lower number": (BASE + revision(5) + folder(b"a") + revision(3) + copied(b"b", b"a", 5), 3),
}
BOGUS_DATES = [b"", b"first monday", b"1969-12-31T00:00:00.000000Z", b" " + DATE, b"\xff"]
BOGUS_DATES += [b"2005-05-05T05:05:05Z", b"2005-13-05T05:05:05.000000Z"]
BOGUS_DATES += [b"4294967296-05-05T05:05:05.000000Z", b"Tue 3 Oct 2000 09:00:00.000 (GMT)"]
BOGUS_DATES += [b"Tue 3 Okt 2000 09:00:00.000 (day 277, dst 1, gmt_off -18000)"]
# Refused by svnadmin, and where the reader cannot go on, by the reader.
REFUSED = {
    "a comment in a record": BASE + b"Node-path: a\n## x\nNode-kind: dir\nNode-action: add\n\n\n",
    "a header without a value": BASE + folder(b"a", b"X-foo:\n"),
    "an unknown record": BASE + b"Foo: bar\n\n",
    "a truncated header": BASE[:-3],
    "properties that do not end": BASE + folder(b"a", PROPERTIES % (4, 4) + b"K 1\n"),
    "CR LF everywhere": BASE.replace(b"\n", b"\r\n"),
    "version 4": BASE.replace(b"version: 2", b"version: 4"),
    "an incremental dump": HEAD + revision(5) + file(b"trunk/f"),
    "junk at the end": BASE + b"junk\n",
    "a truncated text": (BASE + file(b"trunk/f"))[:-4],
    "a part longer than its record": BASE + file(b"a").replace(b"ngth: 15", b"ngth: 5"),
    **{
        f"the properties {text!r}": BASE + folder(b"a", PROPERTIES % (len(text), len(text)) + text)
        for text in (b"K 1\na\nV 1\nbb\nPROPS-END\n", b"K 1\na\nV x\nb\nPROPS-END\n", b"PROPS.END\n")
    },
    "a node before the first revision": VERSION + folder(b"a"),
}  # fmt: skip
# Damage that svnadmin load does not notice, and limits: refused by us alone.
REFUSED_BY_US = {
    "revision 0 only": HEAD,
    "a length with two signs": BASE + file(b"a").replace(b"nt-length: 5", b"nt-length: ++5"),
    "a number with junk": HEAD + revision(1).replace(b"number: 1", b"number: 1x"),
}  # fmt: skip
NINES = b"9" * 5000
HOSTILE = {
    "a length of 5,000 digits": BASE + folder(b"a", b"Text-content-length: %s\n" % NINES),
    "revision 2^64": BASE + b"Revision-number: 18446744073709551616\n\n",
    "a revision of 5,000 digits": BASE + b"Revision-number: %s\n\n" % NINES,
    "a name of 5,000 digits": BASE + folder(b"a", PROPERTIES % (9, 9) + b"K %s\n" % NINES),
    "a version of 5,000 digits": b"SVN-fs-dump-format-version: %s\n\n" % NINES,
    "a gap of millions": BASE + revision(LARGEST_GAP + 3),
    "gaps of millions in sum": BASE + revision(LARGEST_GAP // 2 + 2) + revision(LARGEST_GAP + 5),
    "a header without an end": BASE + b"Node-path: " + b"a" * (1 << 20),
    "a million headers": BASE + b"".join(b"X-%d: %s\n" % (n, b"x" * 1000) for n in range(5000)),
}  # fmt: skip


def read(stream, out=None):
    reader = DumpReader("it", io.BytesIO(stream), out=out)
    reader.run()
    return reader


def load(stream, path, *options):
    subprocess.run(["svnadmin", "create", path], check=True)
    argv = ["svnadmin", "load", "-q", *options, path]
    return subprocess.run(argv, input=stream, capture_output=True).returncode


def load_dump(stream, into, fmt="f8"):
    """Load a dump with vcsbench into the folder `into`."""
    (into / "dump").write_bytes(stream)
    source = open_source("it", {"source": "dump", "path": str(into / "dump")})
    return load_source(source, fmt, into)


@pytest.mark.parametrize("name", [*LOADED, *NOTED])
def test_reader_loads_streams_that_svnadmin_loads(tmp_path, name):
    stream, revisions = {**LOADED, **NOTED}[name]
    out = io.BytesIO()
    facts = read(stream, out).facts()
    assert (facts.revisions, facts.load_options, out.getvalue()) == (revisions, [BYPASS], stream)
    assert len(facts.notes) == (name in NOTED)
    assert load(stream, tmp_path / "it") == 0
    youngest = subprocess.check_output(["svnlook", "youngest", tmp_path / "it"])
    assert int(youngest) == revisions


OLD_PROPERTIES = [{b"svn:log": b"a\r\nb"}, {b"svn:log": b"caf\xe9"}, {b"svn:author": b"Andr\xe9"}]


@pytest.mark.parametrize("properties", OLD_PROPERTIES)
def test_dump_with_properties_that_need_the_bypass_is_loaded(tmp_path, properties):
    stream = HEAD + revision(1, {**properties, b"svn:date": DATE}) + folder(b"trunk")
    assert load(stream, tmp_path / "without") != 0
    facts = load_dump(stream, tmp_path)
    assert (facts["revisions"], facts["load_options"]) == (1, [BYPASS])


@pytest.mark.parametrize("date", BOGUS_DATES)
def test_reader_leaves_out_dates_that_svnadmin_verify_refuses(tmp_path, date):
    properties = {b"svn:log": b"a", b"svn:date": date, b"svn:author": b"b"}
    stream = HEAD + revision(1, properties) + folder(b"trunk")
    assert load(stream, tmp_path / "without") != 0
    facts = read(stream).facts()
    assert (len(facts.notes), facts.load_options, facts.bogus_dates) == (1, [BYPASS], [1])
    assert "revision 1" in facts.notes[0]
    load_dump(stream, tmp_path)
    copy = tmp_path / "f8.nopack"
    subprocess.run(["svnadmin", "verify", "-q", copy], check=True)
    assert subprocess.check_output(["svnlook", "log", copy]) == b"a\n"
    assert subprocess.check_output(["svnlook", "date", copy]) == b"\n"


def test_load_removes_bogus_dates_by_the_numbers_of_the_copies(tmp_path):
    bad = {b"svn:date": b"monday"}
    again = VERSION + UUID + revision(0, bad) + revision(1, bad)
    stream = VERSION + UUID + revision(0, bad) + revision(5) + revision(7, bad) + again
    load_dump(stream, tmp_path, "f7")
    argv = ["svnlook", "date", tmp_path / "f7.nopack", "-r"]
    dates = [subprocess.check_output([*argv, number])[:4] for number in "0123"]
    assert dates == [b"\n", DATE[:4], b"\n", b"\n"]


@pytest.mark.parametrize("name", [*REFUSED, *REFUSED_BY_US])
def test_damaged_dump_is_refused_by_svnadmin_or_the_reader(tmp_path, name):
    stream = {**REFUSED, **REFUSED_BY_US}[name]
    assert bool(load(stream, tmp_path / "it", BYPASS)) is (name in REFUSED)
    with pytest.raises(UserError) as caught:
        load_dump(stream, tmp_path)
    assert "\n" not in str(caught.value)


def test_refusal_of_svnadmin_names_its_reason_and_the_revision(tmp_path):
    text = file(b"a", more=b"Text-content-md5: " + b"1" * 32 + b"\n")
    reason = rf"after revision 1 \(revision 7 of {tmp_path}/dump, at byte .*E200014"
    with pytest.raises(UserError, match=reason):
        load_dump(BASE + revision(7) + text + revision(8), tmp_path)


@pytest.mark.parametrize("name", HOSTILE)
def test_reader_refuses_hostile_streams_in_one_line(name):
    with pytest.raises(UserError) as caught:
        read(HOSTILE[name])
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "begin",
    [
        BASE + folder(b"a", PROPERTIES % (3 << 30, 3 << 30) + b"K 1\na\nV 2400000000\n"),
        BASE + b"Revision-number: 2\n" + PROPERTIES % (1 << 30, 1 << 30) + b"K 7\nsvn:log\nV 300000000\n",
        BASE + b"Node-path: ",
        BASE + b" ",
    ],
)  # fmt: skip
def test_reader_holds_little_memory(begin, tmp_path):
    (tmp_path / "large").write_bytes(begin)
    os.truncate(tmp_path / "large", 64 << 20)  # zeros follow
    with (tmp_path / "large").open("rb") as stream, open(os.devnull, "wb") as out:
        reader = DumpReader("it", stream, out=out)
        tracemalloc.start()
        try:
            with pytest.raises(UserError):
                reader.run()
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()


CUT = "printf 'SVN-fs-dump-format-version: 2\\n\\nRevision-number: 0\\nProp-content-length: 90\\n'"


@pytest.mark.parametrize(
    ("end", "limit_s", "error"),
    [
        ("; echo 'svnadmin: E000005: Input/output error' >&2; exit 1", None, "E000005"),
        ("; echo", None, "middle of a record"),
        ("; exec sleep 3600", 2, "no answer within 2 s"),
    ],
)
def test_reader_of_a_program_that_stops_has_its_error_at_once(end, limit_s, error):
    with (
        pytest.raises(UserError, match=error),
        Program(["sh", "-c", CUT + end], "it failed", limit_s=limit_s) as program,
    ):
        DumpReader("x", program.stdout).run_on(program)
