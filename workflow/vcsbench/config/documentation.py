"""Write the tables of keys in config/README.md from the models: `python -m vcsbench.config.documentation`.

The text around the tables is written by hand. A table is between `<!-- keys of MODEL -->` and `<!-- end -->`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from vcsbench.config.definitions import Finding
from vcsbench.config.models import Settings
from vcsbench.config.study import StudyFile
from vcsbench.config.validation import fields_of, is_model

README = Path("config", "README.md")
_TABLE = re.compile(r"(<!-- keys of (\w+) -->\n\n).*?(\n<!-- end -->)", re.DOTALL)
_MODELS: dict[str, type[BaseModel]] = {m.__name__: m for m in (Settings, StudyFile, Finding)}


def with_tables(text: str) -> str:
    """Return a text with its tables of keys made again."""
    return _TABLE.sub(lambda match: match[1] + _rows(_MODELS[match[2]]) + match[3], text)


def _rows(model: type[BaseModel]) -> str:
    lines = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, field in _keys(model, ""):
        meaning = (field.description or "").replace("|", "\\|")
        lines.append(f"| `{name}` | {_type(field.annotation)} | {_default(field)} | {meaning} |")
    return "\n".join(lines) + "\n"


def _keys(kind: object, key: str) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the keys below a key. In a mapping, `<name>` stands for each name."""
    if is_model(kind):
        for name, field in fields_of(kind).items():
            below = f"{key}.{name}" if key else str(name)
            yield below, field
            yield from _keys(field.annotation, below)
    else:
        origin = get_origin(kind)
        key += ".<name>" if origin is dict else "[]" if origin is list else ""
        for member in get_args(kind):
            yield from _keys(member, key)


def _default(field: FieldInfo) -> str:
    """Return the default of a key; "" if its absence means that it is not set."""
    if field.is_required():
        return "needed"
    if isinstance(field.default, BaseModel) or field.default is None:
        return ""
    return f"`{json.dumps(field.default)}`"


def _type(kind: object) -> str:
    names: dict[object, str] = {str: "text", int: "integer", float: "number", bool: "boolean"}
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
        return _type(get_args(kind)[0])
    members = [member for member in get_args(kind) if member is not type(None)]
    return " or ".join(dict.fromkeys(map(_type, members)))


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
