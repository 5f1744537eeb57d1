"""Read YAML files with limits, and check their content against models with an error in one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard, TypeVar, get_args, get_origin

import yaml

from vcsbench.errors import UserError
from vcsbench.external import printable, read_bytes

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

Checked = TypeVar("Checked")
Keys = Sequence[str | int]
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
YAML_BYTES = 4 << 20
YAML_DEPTH = 40
YAML_NODES = 100_000


def read_yaml(path: Path) -> object:
    """Raise UserError if the file is missing, too large or not YAML."""
    try:
        text = read_bytes(path, YAML_BYTES).decode()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file. {_siblings(path)}") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: byte {error.start} is not UTF-8. Save the file as UTF-8."
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}.") from None
    return parse_yaml(text, path)


def read_mapping(path: Path) -> dict[str, object]:
    """Return {} for an empty file. Raise UserError like read_yaml()."""
    content = read_yaml(path)
    if not isinstance(content, dict | None):
        raise UserError(f"{path}: the file must be a mapping. Write keys with values.")
    for key in content or {}:
        if not isinstance(key, str):
            raise UserError(f"{path}: the key {key!r} is no text. Put it into quotation marks.")
    return content or {}


def parse_yaml(text: str, path: str | Path) -> object:
    try:
        check_yaml_size(text, path)
        content: object = yaml.load(text, Loader=LOADER)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        reason = printable(" ".join(str(error).split()))
        raise UserError(f"{path}: is not valid YAML: {reason}") from None
    return content


def check_yaml_size(text: str | bytes, path: str | Path) -> None:
    """Raise UserError if the content of a YAML text is too deep or too large, or repeats a key.

    The text is parsed and not loaded, because the loader recurses. An alias counts as often as it is
    used.
    """
    open_anchors: list[str | None] = []
    counts = [0]
    of_anchor: dict[str, int] = {}
    # The keys of each open mapping, None for a sequence, and if its last node is a key.
    keys: list[set[str] | None] = [None]
    is_key = [False]
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.NodeEvent) and (before := keys[-1]) is not None:
            is_key[-1] = not is_key[-1]
            if is_key[-1] and isinstance(event, yaml.ScalarEvent):
                if event.value in before:
                    line = f" (line {event.start_mark.line + 1})" if event.start_mark else ""
                    why = f"the key {event.value!r} is there twice{line}"
                    raise UserError(f"{path}: {why}. Remove one of the two.")
                before.add(event.value)
        if isinstance(event, yaml.CollectionStartEvent):
            keys.append(set() if isinstance(event, yaml.MappingStartEvent) else None)
            is_key.append(False)
            open_anchors.append(event.anchor)
            counts.append(1)
        elif isinstance(event, yaml.CollectionEndEvent):
            count, anchor = counts.pop(), open_anchors.pop()
            keys.pop()
            is_key.pop()
            counts[-1] += count
            if anchor:
                of_anchor[anchor] = count
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor in open_anchors:
                raise UserError(f"{path}: `*{event.anchor}` contains itself. Remove the alias.")
            counts[-1] += of_anchor.get(event.anchor or "", 1)
        elif isinstance(event, yaml.ScalarEvent):
            counts[-1] += 1
        if len(counts) > YAML_DEPTH or sum(counts) > YAML_NODES:
            raise UserError(
                f"{path}: the YAML is too large: more than {YAML_DEPTH} levels or {YAML_NODES} values. "
                f"Shorten it."
            )


def value_at(content: object, key: str | int) -> object:
    if isinstance(content, Mapping):
        return content[key]
    if isinstance(content, list) and isinstance(key, int):
        return content[key]
    raise LookupError(key)


def validate(content: object, model: type[Checked], where: Callable[[Keys], str]) -> Checked:
    """Return the content as an instance of a model.

    Raise UserError for the first key that the model refuses. `where` returns the file of a path of
    keys.
    """
    import pydantic

    try:
        return pydantic.TypeAdapter(model).validate_python(content)
    except pydantic.ValidationError as error:
        raise UserError(_sentence(error.errors(include_url=False), content, model, where)) from None


_FAULTS = {
    "missing": "is missing",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "finite_number": "must be a finite number",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be text (numbers and words like `on` need quotation marks)",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "literal_error": "must be one of {expected}",
    "string_too_short": "must not be empty",
    "string_too_long": "is too long",
    "string_pattern_mismatch": "must match {pattern}",
    "too_short": "needs at least {min_length}",
    "value_error": "{error}",
}
_SHOWN = 80


def _sentence(
    errors: Sequence[ErrorDetails], content: object, model: object, where: Callable[[Keys], str]
) -> str:
    """Return the sentence for the error that is deepest, and not only another type of a union."""
    paths = [_keys_in(content, error["loc"]) for error in errors]
    unions = [error["type"].endswith(("_type", "literal_error")) for error in errors]
    unknown = [error["type"] != "extra_forbidden" for error in errors]
    order = sorted(range(len(errors)), key=lambda n: (-len(paths[n]), unions[n], unknown[n], n))
    keys, error = paths[order[0]], errors[order[0]]
    if error["type"] == "extra_forbidden":
        return f"{where(keys)}: `{dotted(keys)}` is not a key here. {_similar(keys, model)}"
    if error["type"] == "missing":
        return f"{where(keys[:-1])}: `{dotted(keys)}` is missing. {_advice(keys, model)}"
    same = [errors[n] for n in order if paths[n] == keys and unions[n] == unions[order[0]]]
    faults = dict.fromkeys(map(_fault, same))
    name = f"`{dotted(keys)}`" if keys else "the file"
    if error["type"] == "value_error" and (fault := _fault(error)).endswith("."):
        return f"{where(keys)}: {name}: {fault}"
    return f"{where(keys)}: {name}: {_quoted(error['input'])} {' or '.join(faults)}. {_advice(keys, model)}"


def _fault(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    if error["type"] == "string_pattern_mismatch" and context["pattern"].startswith("^[A-Za-z0-9]"):
        return "may only have letters, digits, `.`, `_` and `-`, and begins with a letter or digit"
    return _FAULTS.get(error["type"], error["msg"]).format(**context)


def _quoted(value: object) -> str:
    text = printable(value if isinstance(value, str) else str(value))
    return f"'{text if len(text) <= _SHOWN else text[:_SHOWN] + '...'}'"


def _keys_in(content: object, location: Keys) -> list[str | int]:
    """Return the keys without the names that pydantic adds for the members of a union."""
    keys: list[str | int] = []
    for number, part in enumerate(location):
        try:
            content = value_at(content, part)
        except LookupError:
            is_last = number + 1 == len(location)
            is_added = part == "[key]" or str(part).startswith(("dict[", "list["))
            if not is_last or is_added or not isinstance(content, Mapping):
                continue
        keys.append(part)
    return keys


def is_model(kind: object) -> TypeGuard[type[BaseModel]]:
    return hasattr(kind, "model_fields")


def _fields_at(keys: Keys, model: object) -> dict[str | int, FieldInfo]:
    kinds = _containers(model)
    for part in keys:
        below: list[object] = []
        for kind in kinds:
            if not is_model(kind):
                below += _containers(get_args(kind)[-1])
            elif field := fields_of(kind).get(part):
                below += _containers(field.annotation)
        kinds = below
    return {
        name: field for kind in kinds if is_model(kind) for name, field in fields_of(kind).items()
    }


def _containers(kind: object) -> list[object]:
    if is_model(kind) or get_origin(kind) in (dict, list):
        return [kind]
    return [container for member in get_args(kind) for container in _containers(member)]


def fields_of(model: type[BaseModel]) -> dict[str | int, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def former_name(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    return str(extra.get("was", "")) if isinstance(extra, dict) else ""


def _similar(keys: Keys, model: object) -> str:
    fields = _fields_at(keys[:-1], model)
    for name, field in fields.items():
        if keys[-1] and str(keys[-1]) == former_name(field):
            return f"It is now `{name}`: rename it."
    known = sorted(map(str, fields))
    close = difflib.get_close_matches(str(keys[-1]), known, 1)
    return f"Did you mean `{close[0]}`?" if close else f"The keys are {', '.join(known)}."


def _advice(keys: Keys, model: object) -> str:
    for length in range(len(keys), 0, -1):
        field = _fields_at(keys[: length - 1], model).get(keys[length - 1])
        if field is not None and field.description:
            return field.description
    return "See config/README.md."


def dotted(keys: Keys) -> str:
    """Return a path of keys as people write it: `grid.fsfs-san-2014.include[0].cache`."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else str(key)
    return text


def _siblings(path: Path) -> str:
    names = sorted(p.stem for p in path.parent.glob(f"*{path.suffix}"))
    return f"{path.parent} has {', '.join(names)}." if names else "Check the name."
