"""Generate config/README.md from the models: `python -m vcsbench.config.documentation > config/README.md`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from vcsbench.config.models import Settings
from vcsbench.config.study_models import Finding, StudyFile

HEAD = """\
# The configuration

`config.yaml` is read first. `--configfile FILE` lays another file over it (mappings are merged key by
key, everything else is replaced), and `--config key=value` lays single keys over both. An unknown key
or a value of the wrong type is an error that names the file and the key.

Generated from `workflow/vcsbench/config/models.py` and `study_models.py` by
`python -m vcsbench.config.documentation`; a test compares it.
"""

EXAMPLE = """\
A part of the grid names axes of the study with a value or a list of values:

```yaml
grid:
  fsfs-san-2014:
    include:
      - {command: [log, export], format: [f6, f7], config: slow, cache: [cold, hot-os]}
    exclude:
      - {ra: http, cache: cold}
```
"""

SERVERS = """\
## Server configurations: `config/servers/<name>/`

Each folder is a value of the axis `config`. Its files are given to the programs. A file that a folder leaves
out is taken from `default`. An edit measures again exactly the cells that use the file.

| file | what it is | used by |
| --- | --- | --- |
| `svnserve.args` | svnserve's options, as on its command line; `#` starts a comment | ra svn |
| `httpd.conf` | directives in httpd's server context, after those of vcsbench's own | ra http |
| `svnadmin.args`, `load.args` | options of `svnadmin dump` and `svnadmin load` | dump, load |
| `client/` | the client's configuration folder: `config`, `servers` | ra http, svn, file |

`slow` has the defaults, `medium` 256 MB of cache, `fast` 1024 MB, revision property caching, block
read, no compression and no flush of each commit of a load, all as published. `forking` is svnserve
without `--threads`, as many run it. Of `default` the others differ by what they are called, in one setting
each: `cache-256` and `cache-1024` (MB), `revprops`, `block-read`, `no-compression`; `tuned` has all of them,
and 256 MB.
"""

FORMATS = """\
## Formats and packings, and those of your own repository

`format` has f1 to f8 (no f5 was released), and `f6-to-f8` for a repository that was made in f6 and then
upgraded in place: `svnadmin upgrade` goes to the newest format that the svnadmin here makes, and a cell that
names another is skipped. A loaded repository has the settings (db/fsfs.conf) of the release that introduced
its format; `f6-today` has those that today's svnadmin uses for f6. `as-is` is a copy of your own repository.
In a study whose axes take `formats` and `packings` (own-repository), parts of the
grid may also name these:

| word | what it stands for |
| --- | --- |
| `format: current` | `as-is` for a local Subversion repository; the newest format for other sources |
| `format: upgraded` | such a copy, upgraded in place (`as-is-to-f8`); nothing if it has the newest format |
| `packing: current` | `pack` if all full shards are packed, `partly` if some are, otherwise `nopack` |
| `packing: if_packable` | `pack` where there are revisions enough to fill a shard, else as `current` |

In a published study, an upgraded repository is measured where its grid names it, as
`{command: log, ra: svn, format: [f6, f6-to-f8, f8], packing: pack, config: slow, cache: cold}`.
"""

CHECKS = """\
## Expectations: the files that `expectations` names

By study, a list of checks like those of `config/published/findings.yaml`. For every pair of cells that
agree on all axes but the compared one, and match `where`, the value is elapsed(baseline) /
elapsed(candidate); with `level` it is a cell's own. `over` reduces them to one value in each round; the
interval over the rounds, what twins differ by included, must keep the bounds.
The verdict is `holds`, `differs`, `inconclusive` (with the reason: low n, interval, noise, other work,
hosts differ) or `not measured`.

`make check` measures what is missing, writes the report and prints a line for each. It fails unless all
hold; `./vcsbench check` says by its exit code how: 3, one does not hold; 4, none fails to hold,
but one is inconclusive or was not measured; 1, something went wrong, or there is nothing to check.
`snakemake check` does the same with Snakemake's own exit codes.
"""


def document() -> str:
    """Return the text of config/README.md."""
    parts = [HEAD, "## Keys of config.yaml\n", _rows(Settings), EXAMPLE, SERVERS, FORMATS]
    parts += ["## Keys of a study: `config/studies/<name>.yaml`\n", _rows(StudyFile)]
    return "\n".join([*parts, CHECKS, _rows(Finding)])


def _rows(model: type[BaseModel]) -> str:
    lines = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, field in _keys(model, ""):
        meaning = (field.description or "").replace("|", "\\|")
        lines.append(f"| `{name}` | {_type(field.annotation)} | {_default(field)} | {meaning} |")
    return "\n".join(lines) + "\n"


def _keys(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        yield key, field
        yield from _below(field.annotation, key)


def _below(kind: Any, key: str) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the keys of the models below a key: of a mapping, `<name>` stands for each name."""
    origin = get_origin(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from _keys(kind, f"{key}.")
    elif origin is dict:
        yield from _below(get_args(kind)[1], f"{key}.<name>")
    elif origin is list:
        yield from _below(get_args(kind)[0], f"{key}[]")
    else:
        for one in get_args(kind):
            yield from _below(one, key)


def _default(field: FieldInfo) -> str:
    """Return the default of a key; "" if its absence means that it is not set."""
    if field.is_required():
        return "needed"
    if isinstance(field.default, BaseModel) or field.default is None:
        return ""
    return f"`{json.dumps(field.default)}`"


def _type(kind: Any) -> str:
    names = {str: "text", int: "integer", float: "number", bool: "boolean"}
    origin = get_origin(kind)
    if kind in names:
        return names[kind]
    if origin is Literal:
        return "one of " + ", ".join(f"`{value}`" for value in get_args(kind))
    if origin is list:
        return "list"
    if origin is dict or (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return "mapping"
    if origin is Annotated:
        return _type(get_args(kind)[0])
    members = [one for one in get_args(kind) if one is not type(None)]
    return " or ".join(dict.fromkeys(map(_type, members)))


if __name__ == "__main__":
    print(document(), end="")
