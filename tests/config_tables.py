"""Write the tables of keys in config/README.md: PYTHONPATH=workflow envs/run.sh python tests/config_tables.py

The tables are made from the models of the configuration. Each is between `<!-- keys of MODEL -->` and
`<!-- end -->`; the text around them is written by hand.
"""

import json
import re
from pathlib import Path
from typing import Annotated, Literal, get_args, get_origin

from pydantic import BaseModel

from vcsbench.config.definitions import Finding
from vcsbench.config.models import Settings
from vcsbench.config.study import StudyFile
from vcsbench.config.validation import fields_of, is_model

README = Path(__file__).parents[1] / "config" / "README.md"
TABLE = re.compile(r"(<!-- keys of (\w+) -->\n\n).*?(\n<!-- end -->)", re.DOTALL)
MODELS = {m.__name__: m for m in (Settings, StudyFile, Finding)}


def with_tables(text):
    """Return a text with its tables of keys made again."""
    return TABLE.sub(lambda match: match[1] + rows_of(MODELS[match[2]]) + match[3], text)


def rows_of(model):
    lines = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, field in keys_of(model, ""):
        meaning = (field.description or "").replace("|", "\\|")
        lines.append(
            f"| `{name}` | {type_of(field.annotation)} | {default_of(field)} | {meaning} |"
        )
    return "\n".join(lines) + "\n"


def keys_of(kind, key):
    """Yield the keys below a key. In a mapping, `<name>` stands for each name."""
    if is_model(kind):
        for name, field in fields_of(kind).items():
            below = f"{key}.{name}" if key else str(name)
            yield below, field
            yield from keys_of(field.annotation, below)
    else:
        origin = get_origin(kind)
        key += ".<name>" if origin is dict else "[]" if origin is list else ""
        for member in get_args(kind):
            yield from keys_of(member, key)


def default_of(field):
    """Return the default of a key; "" if its absence means that it is not set."""
    if field.is_required():
        return "needed"
    if isinstance(field.default, BaseModel) or field.default is None:
        return ""
    return f"`{json.dumps(field.default)}`"


def type_of(kind):
    names = {str: "text", int: "integer", float: "number", bool: "boolean"}
    origin = get_origin(kind)
    if kind in names:
        return names[kind]
    if origin is Literal:
        return "one of " + ", ".join(f"`{value}`" for value in get_args(kind))
    if origin is list:
        return "list"
    if origin is dict or is_model(kind):
        return "mapping"
    if origin is Annotated:
        return type_of(get_args(kind)[0])
    members = [member for member in get_args(kind) if member is not type(None)]
    return " or ".join(dict.fromkeys(map(type_of, members)))


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
