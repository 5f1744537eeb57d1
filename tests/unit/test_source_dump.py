"""Real dump files, whole and damaged, plain and compressed."""

from __future__ import annotations

import gzip
import io
import lzma
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from git_histories import digest, listing, write_and_load
from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.sources import Source

pytestmark = pytest.mark.skipif(not shutil.which("svnadmin"), reason="not installed: svnadmin")

needs_zstd = pytest.mark.skipif(not shutil.which("zstd"), reason="not installed: zstd")
COMPRESSIONS = ["", "gz", "xz", pytest.param("zst", marks=needs_zstd)]
DUMPS = {"2": [], "3": ["--deltas"]}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty revisions of a text and a binary file that change, with a copy and a deletion."""
    path = tmp_path_factory.mktemp("dump") / "repository"
    subprocess.run(["svnadmin", "create", path], check=True)
    numbers = random.Random(1)
    lines = [b"line %d\n" % number for number in range(400)]
    parts = [b"SVN-fs-dump-format-version: 2\n\n"]

    def record(headers: str, properties: bytes = b"", text: bytes = b"") -> None:
        length = f"Prop-content-length: {len(properties)}\n" if properties else ""
        length += f"Text-content-length: {len(text)}\n" if text else ""
        whole = len(properties) + len(text)
        head = f"{headers}\n{length}Content-length: {whole}\n\n"
        parts.append(head.encode() + properties + text + b"\n\n")

    for revision in range(1, 21):
        record(f"Revision-number: {revision}", b"K 7\nsvn:log\nV 5\none\n2\nPROPS-END\n")
        action = "add" if revision == 1 else "change"
        lines[numbers.randrange(400)] = b"changed in %d\n" % revision
        if revision == 1:
            record("Node-path: trunk\nNode-kind: dir\nNode-action: add", b"PROPS-END\n")
        node = f"Node-kind: file\nNode-action: {action}"
        record(f"Node-path: trunk/text\n{node}", b"", b"".join(lines))
        record(f"Node-path: trunk/binary\n{node}", b"K 1\na\nV 2\n%02d\nPROPS-END\n" % revision,
               numbers.randbytes(3000))  # fmt: skip
    done = subprocess.run(["svnadmin", "load", "-q", path], input=b"".join(parts))
    assert done.returncode == 0
    url = f"file://{path}"
    subprocess.run(["svn", "cp", "-q", "-m", "", f"{url}/trunk", f"{url}/tag"], check=True)
    subprocess.run(["svn", "rm", "-q", "-m", "", f"{url}/trunk/binary"], check=True)
    return path


@pytest.fixture(scope="module")
def dumps(repository: Path) -> dict[str, bytes]:
    """The dump of each format."""
    return {
        fmt: subprocess.run(
            ["svnadmin", "dump", "-q", *words, repository], check=True, stdout=subprocess.PIPE
        ).stdout
        for fmt, words in DUMPS.items()
    }


def compressed(content: bytes, how: str) -> bytes:
    if how == "gz":
        return gzip.compress(content)
    if how == "xz":
        return lzma.compress(content)
    if how == "zst":
        done = subprocess.run(["zstd", "-qc"], input=content, check=True, stdout=subprocess.PIPE)
        return done.stdout
    return content


def dump_source(path: Path, **options: str) -> Source:
    return sources.open_source("mine", {"source": "dump", "path": str(path), **options})


def refused(path: Path) -> str:
    """The sentence with which write() refuses a file, before it has written anything."""
    out = io.BytesIO()
    with pytest.raises(UserError) as caught:
        dump_source(path).write(out)
    assert out.getvalue() == b""
    return str(caught.value)


@pytest.mark.parametrize("fmt", DUMPS)
@pytest.mark.parametrize("how", COMPRESSIONS)
def test_what_is_written_is_the_dump(
    dumps: dict[str, bytes], tmp_path: Path, how: str, fmt: str
) -> None:
    file = tmp_path / "history"  # its name does not say what it is
    file.write_bytes(compressed(dumps[fmt], how))
    source = dump_source(file)
    source.check()
    before = listing(tmp_path)
    out = io.BytesIO()
    assert source.write(out).revisions == 22
    assert out.getvalue() == dumps[fmt]
    assert digest(source) == digest(dump_source(file))
    assert source.tree() == "trunk"
    assert sources.detect(str(file)) == {"source": "dump", "path": str(file)}
    assert listing(tmp_path) == before


@pytest.mark.parametrize("fmt", DUMPS)
def test_it_makes_the_same_repository(dumps: dict[str, bytes], tmp_path: Path, fmt: str) -> None:
    (tmp_path / "history.dump").write_bytes(dumps[fmt])
    facts = write_and_load(dump_source(tmp_path / "history.dump"), tmp_path / "copy")
    again = subprocess.run(
        ["svnadmin", "dump", "-q", tmp_path / "copy"], check=True, stdout=subprocess.PIPE
    ).stdout
    assert facts.revisions == 22
    uuid = rb"\nUUID: .*\n"
    assert re.sub(uuid, b"", again, count=1) == re.sub(uuid, b"", dumps["2"], count=1)


def test_a_dump_that_begins_later_counts_its_revisions(repository: Path, tmp_path: Path) -> None:
    with (tmp_path / "part").open("wb") as file:
        subprocess.run(
            ["svnadmin", "dump", "-q", "-r", "11:20", repository], check=True, stdout=file
        )
    assert write_and_load(dump_source(tmp_path / "part"), tmp_path / "copy").revisions == 10


def test_estimate_knows_the_last_revision(dumps: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(dumps["2"])
    estimate = dump_source(tmp_path / "plain").estimate()
    assert (estimate.revisions, estimate.repository_bytes) == (22, len(dumps["2"]) // 4)


def test_identity_changes_with_the_file(dumps: dict[str, bytes], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(dumps["2"])
    before = dump_source(file).identity()
    assert dump_source(file).identity() == before
    file.write_bytes(dumps["3"])
    assert dump_source(file).identity() != before


@pytest.mark.parametrize("how", COMPRESSIONS)
@pytest.mark.parametrize("part", [0.3, 0.7, 0.99])
def test_a_truncated_file_is_refused_and_says_where(
    dumps: dict[str, bytes], tmp_path: Path, how: str, part: float
) -> None:
    whole = compressed(dumps["2"], how)
    file = tmp_path / "cut"
    file.write_bytes(whole[: int(part * len(whole))])
    said = refused(file)
    assert said.startswith(f"{file}: it ")
    place = re.search(r"\(at (?:revision (\d+), )?byte ([\d,]+) of the stream\)", said)
    assert place, said
    assert int(place[2].replace(",", "")) <= len(dumps["2"])
    if not how:
        begun = re.findall(rb"\nRevision-number: (\d+)\n", file.read_bytes())
        assert place[1] == begun[-1].decode()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (b"\nchanged in 7\n", b"\nchanged in 8\n", "the text of 'trunk/text' does not have its"),
        (b"Revision-number: 9\n", b"Revision-number: 3\n", "revision 3 comes after revision 8"),
        (b"Revision-number: 9\n", b"Revision-number: x\n", "Revision-number is 'x' (at"),
        (b"Revision-number: 9\n", b"Rexision-number: 9\n", "but nearly Revision-number"),
        (b"Revision-number: 9\n", b"Svndumptool: 9\n", "a record begins with 'Svndumptool'"),
        (b"\nText-content-length", b"\nText-conten4-length", "but nearly Text-content-length"),
        (b"\nText-content-length: ", b"\nLength-of-the-text: ", "a record is longer than its"),
        (b"Node-kind: file\n", b"Node-kind: fine\n", "Node-kind is 'fine'"),
        (b"Node-copyfrom-rev: 20\n", b"Node-copyfrom-rev: 21\n", "revision that is not older"),
        (b"Node-copyfrom-rev: 20\n", b"Of-a-copy: 20\n", "copied from half a place"),
        (b"Text-content-sha1: ", b"Text-content-sha1: 0", "Text-content-sha1 is"),
        (b"Node-kind: file\n", b"Node-kind  file\n", "'Node-kind  file' is no header"),
        (b"one\n2\nPROPS-END", b"one\n2\nPROPS.END", "a record's properties are not as long as"),
        (b"V 5\none\n2\n", b"V 3\none\n2\n", "a record's properties are not as long as"),
        (b"K 1\na\nV 2\n", b"K 1\na\nV x\n", "a record's properties are not as long as"),
        (b"version: 2", b"version: 7", "it has the unknown format version 7"),
        (b"Content-length: 3", b"Content-length: 1", "longer than the record"),
    ],
)
def test_a_corrupt_file_is_refused_and_says_where(
    dumps: dict[str, bytes], tmp_path: Path, old: bytes, new: bytes, sentence: str
) -> None:
    file = tmp_path / "corrupt"
    before, _, after = dumps["2"].partition(old)
    assert after, "the dump has what is to be changed"
    file.write_bytes(before + new + after)
    said = refused(file)
    assert sentence in said
    assert re.search(r"\(at (revision \d+, )?byte [\d,]+ of the stream\)", said)


def test_headers_of_other_programs_are_passed_over(dumps: dict[str, bytes], tmp_path: Path) -> None:
    node = b"Node-kind: file\n"
    (tmp_path / "dump").write_bytes(dumps["2"].replace(node, node + b"X-Made-by: a filter\n"))
    assert dump_source(tmp_path / "dump").write(io.BytesIO()).revisions == 22


def test_a_corrupt_delta_is_refused(dumps: dict[str, bytes], tmp_path: Path) -> None:
    file = tmp_path / "corrupt"
    at = dumps["3"].index(b"\nSVN", 1000)
    file.write_bytes(dumps["3"][: at + 1] + b"XYZ" + dumps["3"][at + 4 :])
    assert "a delta does not begin as one (at revision " in refused(file)


@pytest.mark.parametrize("how", ["gz", "xz", pytest.param("zst", marks=needs_zstd)])
def test_a_corrupt_compressed_file_is_refused(
    dumps: dict[str, bytes], tmp_path: Path, how: str
) -> None:
    whole = bytearray(compressed(dumps["2"], how))
    for at in (len(whole) // 2, len(whole) - 3):  # within, and its checksum
        broken = whole.copy()
        broken[at] ^= 0x55
        (tmp_path / "corrupt").write_bytes(broken)
        assert refused(tmp_path / "corrupt").startswith(f"{tmp_path}/corrupt: ")


@pytest.mark.parametrize(
    "content", [b"", b"text\n", b"SVN", compressed(b"no dump", "gz"), b"\x1f\x8bno", b"\xfd7zXZ\0"]
)
def test_what_is_no_dump_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"repositories\.mine\.path: .*/file is|cannot be decom"):
        dump_source(file).check()
    with pytest.raises(UserError, match=r"^/.*/file: (is |cannot be decompressed)"):
        sources.detect(str(file))
    refused(file)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for path, sentence in ((tmp_path / "none", "does not exist"), (tmp_path, "is no file")):
        with pytest.raises(UserError, match=f"mine.path: {path} {sentence}"):
            dump_source(path).check()


def test_without_zstd_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"\x28\xb5\x2f\xfd")
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UserError, match="the program zstd is needed to read it"):
        dump_source(tmp_path / "file").check()
