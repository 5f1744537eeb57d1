"""FSFS formats: the values of the axis `format`, their settings, and the format of a repository on disk."""

import configparser
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from vcsbench.external import SMALL_FILE, one_line, parse_number, read_bytes, read_number

# The release for `svnadmin create --compatible-version`. There was no release with f5.
RELEASES = {
    "f1": "1.1",
    "f2": "1.4",
    "f3": "1.5",
    "f4": "1.6",
    "f6": "1.8",
    "f7": "1.9",
    "f8": "1.10",
}
NEWEST = "f8"
LARGEST_REVISION = 2**40
# The first formats with shards, with packed shards and db/fsfs.conf, and with logical addressing.
SHARDED, PACKABLE, LOGICAL = 3, 4, 7
AS_IS = "as-is"
NOT_PACKED = "nopack"
PARTLY_PACKED = "partly"
PACKED = "pack"
PACKINGS = (NOT_PACKED, PARTLY_PACKED, PACKED)
_RELEASE = "|".join(RELEASES)
_VALUE = re.compile(rf"({_RELEASE})-today|({_RELEASE}|{AS_IS})(?:-to-({_RELEASE}))?")
CONFIGURATION_LIMIT = 1 << 20
# db/fsfs.conf: the section of each option that decides how revisions are written or read.
SECTIONS = {
    "enable-rep-sharing": "rep-sharing",
    "enable-dir-deltification": "deltification",
    "enable-props-deltification": "deltification",
    "max-deltification-walk": "deltification",
    "max-linear-deltification": "deltification",
    "compression": "deltification",
    "compression-level": "deltification",
    "revprop-pack-size": "packed-revprops",
    "compress-packed-revprops": "packed-revprops",
    **dict.fromkeys(("block-size", "l2p-page-size", "p2l-page-size"), "io"),
}
_F4 = {
    "enable-rep-sharing": "true",
    "enable-dir-deltification": "false",
    "enable-props-deltification": "false",
    # Subversion 1.6 and 1.7 had no limit, and used skip deltas only.
    "max-deltification-walk": "2147483647",
    "max-linear-deltification": "1",
    "compression": "zlib-5",
}
_F6 = {
    **_F4,
    "max-deltification-walk": "1023",
    "max-linear-deltification": "16",
    "revprop-pack-size": "64",
    "compress-packed-revprops": "false",
}
_F7 = {
    **_F6,
    "enable-dir-deltification": "true",
    "enable-props-deltification": "true",
    "revprop-pack-size": "4",
    "block-size": "64",
    "l2p-page-size": "8192",
    "p2l-page-size": "1024",
}
_F8 = {**_F7, "compression": "lz4", "revprop-pack-size": "16"}
# The defaults of the release that introduced each format, from subversion/libsvn_fs_fs/fs_fs.c:
# read_config() (1.8.0, 1.9.0, 1.10.0, the same in 1.14) and choose_delta_base() (1.6.0). f1 to f3 have no
# settings.
RELEASE_SETTINGS: dict[str, dict[str, str]] = {"f1": {}, "f2": {}, "f3": {}}
RELEASE_SETTINGS |= {"f4": _F4, "f6": _F6, "f7": _F7, "f8": _F8}


class FormatValue(NamedTuple):
    """A value of the axis: the format `created`, and the format after an upgrade in place.

    `f6-to-f8` was made in f6 and upgraded. `f6-today` has the settings that today's svnadmin gives to f6.
    `as-is` is the user's own repository, in its present format.
    """

    created: str
    format: str
    is_today: bool = False

    @property
    def is_upgraded(self) -> bool:
        return self.created != self.format

    @property
    def is_as_is(self) -> bool:
        return self.created == AS_IS

    @property
    def is_sharded(self) -> bool:
        """Return True if its revisions are in shards, which an upgrade does not change."""
        return format_number(self.created) >= SHARDED

    @property
    def is_logical(self) -> bool:
        """Return True if its revisions are addressed logically, which an upgrade does not change."""
        return format_number(self.created) >= LOGICAL

    @property
    def loaded_as(self) -> str:
        """Return the value without its upgrade: `f6` for `f6-to-f8`."""
        return f"{self.created}-today" if self.is_today else self.created


def parse_format(value: str) -> FormatValue:
    """Return a value of the axis `format` in its parts: `f6-to-f8` gives FormatValue("f6", "f8").

    Other values are `f7`, `f6-today` (f6 with the settings that today's svnadmin gives to it), `as-is` (a
    copy of the user's repository in its own format) and `as-is-to-f8`. Raise ValueError for another text.
    """
    match = _VALUE.fullmatch(value)
    if not match:
        raise ValueError(f"{value} is no format")
    # `f6-today` gives ("f6", None, None), and `f6-to-f8` gives (None, "f6", "f8").
    today, created, upgraded = match.groups()
    if today:
        return FormatValue(today, today, is_today=True)
    # Whether `as-is-to-f8` is an upgrade depends on the user's repository, which is not read here.
    if upgraded and created != AS_IS and format_number(upgraded) <= format_number(created):
        raise ValueError(f"{value} is no upgrade")
    return FormatValue(created, upgraded or created)


def format_number(fmt: str) -> int:
    """Return 7 for `f7`."""
    return int(fmt.removeprefix("f"))


class Shape(NamedTuple):
    """The format of a repository by its own files, such as `number` 7. `youngest` is its last revision.

    `shard` is the number of revisions per shard (folder of revisions), 0 without shards. `packed` is the
    number of packed shards. `settings` are those with which Subversion writes (effective_settings).
    """

    number: int
    shard: int
    is_logical: bool
    youngest: int
    packed: int
    settings: Mapping[str, str] = MappingProxyType({})

    @property
    def format(self) -> str:
        return f"f{self.number}"

    @property
    def full(self) -> int:
        """Return the number of full shards. Only these can be packed."""
        return (self.youngest + 1) // self.shard if self.shard else 0

    @property
    def packing(self) -> str:
        """Return the value of the axis `packing` that describes the repository."""
        if not self.packed:
            return NOT_PACKED
        return PACKED if self.packed == self.full else PARTLY_PACKED


def read_shape(path: Path) -> Shape:
    """Return the shape of the FSFS repository at a path, as its files in `db` state it.

    Raise OSError, ValueError or UserError if a file cannot be read, or has no number where one must be.
    """
    database = path / "db"
    try:
        text = read_bytes(database / "format", SMALL_FILE).decode("ascii")
    except FileNotFoundError:
        # Early releases wrote no such file. Subversion takes that for format 1 (read_format() of FSFS).
        text = "1"
    # The three lines of a typical file: `7`, `layout sharded 1000` and `addressing logical`.
    lines = text.splitlines()
    first = lines[0] if lines else ""
    number = parse_number(first, LARGEST_REVISION)
    if number is None:
        raise ValueError(
            f"{path}/db/format begins with '{one_line(first, 40)}', which is no number"
        )
    # {"layout": "sharded 1000", "addressing": "logical"}
    options = dict(line.split(" ", 1) for line in lines[1:] if " " in line)
    # Older formats are linear, and have no shards.
    shard = 0
    layout, *size = options.get("layout", "linear").split()
    if layout == "sharded" and size:
        shard = parse_number(size[0], LARGEST_REVISION) or 0
    # Formats before PACKABLE lack the file.
    packed = 0
    unpacked_file = database / "min-unpacked-rev"
    if shard and unpacked_file.exists():
        # The file has the first revision that is not packed. Whole shards are packed, from the oldest on.
        packed = read_number(unpacked_file, LARGEST_REVISION) // shard
    return Shape(
        number=number,
        shard=shard,
        is_logical=options.get("addressing", "").startswith("logical"),
        youngest=read_number(database / "current", LARGEST_REVISION),
        packed=packed,
        settings=effective_settings(path, number),
    )


def release_settings(value: FormatValue) -> dict[str, str] | None:
    """Return the settings of db/fsfs.conf that vcsbench writes for a format; None if it writes none."""
    # The user's repository keeps its own file, and `f6-today` the file that svnadmin has written.
    if value.is_as_is or value.is_today:
        return None
    return RELEASE_SETTINGS[value.format]


def written_settings(value: FormatValue) -> dict[str, str]:
    """Return the settings with which the revisions of a repository were loaded, before its upgrade."""
    if value.is_today:
        return today_settings(format_number(value.created))
    return RELEASE_SETTINGS[value.created]


def today_settings(number: int) -> dict[str, str]:
    """Return the defaults of today's Subversion for a format, such as 7: the options of f8 that it has."""
    # Subversion reads no db/fsfs.conf of an older format.
    if number < PACKABLE:
        return {}
    # All other sections came with PACKABLE.
    first_format = {"packed-revprops": 6, "io": LOGICAL}
    settings = {}
    for option, value in _F8.items():
        if number >= first_format.get(SECTIONS[option], PACKABLE):
            settings[option] = value
    # The default of f8 is lz4, which older formats cannot have.
    if number < 8:
        settings["compression"] = "zlib-5"
    return settings


def settings_text(settings: Mapping[str, str]) -> str:
    """Return settings as the text of db/fsfs.conf, by section: `[deltification]`, `compression = lz4`."""
    by_section: dict[str, list[str]] = {}
    for option, value in settings.items():
        by_section.setdefault(SECTIONS[option], []).append(f"{option} = {value}\n")
    return "".join(f"[{section}]\n{''.join(lines)}" for section, lines in by_section.items())


def read_settings(path: Path) -> dict[str, str]:
    """Return the options of SECTIONS that the db/fsfs.conf of a repository sets."""
    parser = _configuration(path)
    return {
        option: parser[section][option]
        for option, section in SECTIONS.items()
        if parser.has_option(section, option)
    }


def effective_settings(path: Path, number: int) -> dict[str, str]:
    """Return the settings with which Subversion writes revisions: from db/fsfs.conf, or the defaults."""
    # Subversion does not read the file of an older format.
    explicit = read_settings(path) if number >= PACKABLE else {}
    settings = {**today_settings(number), **explicit}
    # `compression-level`, the option of older releases, decides if it is there.
    if "compression-level" in explicit:
        settings.pop("compression", None)
    return settings


def has_memcached(path: Path) -> bool:
    """Return True if a repository caches revisions in servers of memcached."""
    parser = _configuration(path)
    return parser.has_section("memcached-servers") and bool(parser.options("memcached-servers"))


def _configuration(path: Path) -> configparser.RawConfigParser:
    """Return the db/fsfs.conf of a repository as Subversion reads it; empty if it is unreadable."""
    # With `strict`, a section that is there twice would be an error. The name of configparser's default
    # section, whose options hold in all sections, is one that no section has.
    parser = configparser.RawConfigParser(
        strict=False, comment_prefixes=("#",), default_section="", empty_lines_in_values=False
    )
    try:
        text = read_bytes(path / "db" / "fsfs.conf", CONFIGURATION_LIMIT)
        # Subversion ignores the case of sections and options. configparser does so only for options.
        lines = []
        for line in text.decode("utf-8-sig", "replace").splitlines():
            lines.append(line.lower() if line.startswith("[") else line)
        parser.read_string("\n".join(lines))
    except (OSError, configparser.Error):
        parser.clear()
    return parser
