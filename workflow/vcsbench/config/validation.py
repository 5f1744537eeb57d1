"""Read YAML files with limits, and check their content against models with an error in one sentence."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from vcsbench.errors import UserError, sentence_of
from vcsbench.external import one_line, printable, read_bytes

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Checked = TypeVar("Checked")
Keys = Sequence[str | int]
UNKNOWN = "extra_forbidden"
# A JSON schema, as pydantic makes it from a model.
Schema = dict[str, Any]
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
YAML_BYTES = 4 << 20
SHOWN = 80  # of a refused value
YAML_DEPTH = 40
YAML_NODES = 100_000


def read_yaml(path: Path) -> object:
    """Raise UserError if the file is missing, too large or not YAML."""
    try:
        text = read_bytes(path, YAML_BYTES).decode()
    except FileNotFoundError:
        names = sorted(each.stem for each in path.parent.glob(f"*{path.suffix}"))
        remedy = f"{path.parent} has {', '.join(names)}." if names else "Check the name."
        raise UserError(f"{path}: no such file. {remedy}") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: byte {error.start} is not UTF-8. Save the file as UTF-8."
        ) from None
    except OSError as error:
        raise UserError(sentence_of(error, path)) from None
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
    """Raise UserError if the text is not YAML, is too deep or too large, or repeats a key."""
    depth = number = 0
    too_large = UserError(
        f"{path}: the YAML is too large: more than {YAML_DEPTH} levels or {YAML_NODES} values. Shorten it."
    )
    try:
        # The loader recurses and takes memory for each node, so both are checked first.
        for event in yaml.parse(text, Loader=LOADER):
            number += isinstance(event, yaml.NodeEvent)
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > YAML_DEPTH or number > YAML_NODES:
                raise too_large
        loader = LOADER(text)
        node = loader.get_single_node()
        if node and _size(node, path, {}) > YAML_NODES:
            raise too_large
        content: object = loader.construct_document(node) if node else None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        reason = printable(" ".join(str(error).split())).replace('in "<unicode string>",', "at")
        remedy = "Use spaces, not tabs" if "\t" in reason or "any token" in reason else "Correct it"
        raise UserError(f"{path}: is not valid YAML: {reason}. {remedy}.") from None
    return content


def _size(node: yaml.Node, path: str | Path, sizes: dict[int, float]) -> float:
    """Return the number of values in a node, where an alias counts as often as it is used."""
    if id(node) not in sizes:
        sizes[id(node)] = math.inf  # if it contains itself
        below = node.value if isinstance(node, yaml.CollectionNode) else ()
        if isinstance(node, yaml.MappingNode):
            keys = set()
            for key in (key for key, _ in below if isinstance(key, yaml.ScalarNode)):
                if key.value in keys:
                    line = key.start_mark.line + 1
                    why = f"the key {key.value!r} is there twice (line {line})"
                    raise UserError(f"{path}: {why}. Remove one of the two.")
                keys.add(key.value)
            below = chain.from_iterable(below)
        sizes[id(node)] = 1 + sum(_size(each, path, sizes) for each in below)
    return sizes[id(node)]


def value_at(content: object, key: str | int) -> object:
    if isinstance(content, Mapping):
        return content[key]
    if isinstance(content, list) and isinstance(key, int):
        return content[key]
    raise LookupError(key)


def validate(content: object, model: type[Checked], where: Callable[[Keys], str]) -> Checked:
    """Return the content as an instance of a model.

    Raise UserError for the first key that the model refuses. `where` returns the file of a path of
    keys. Validators get the content as their context.
    """
    import pydantic

    try:
        return pydantic.TypeAdapter(model).validate_python(content, context=content)
    except pydantic.ValidationError as error:
        raise UserError(_sentence(error.errors(include_url=False), content, model, where)) from None


def _sentence(
    errors: Sequence[ErrorDetails], content: object, model: type, where: Callable[[Keys], str]
) -> str:
    """Return the sentence for the error that is deepest, and not only another type of a union."""
    found = [(_keys_in(content, error), error) for error in errors]
    found.sort(key=lambda one: (-len(one[0]), _is_type(one[1]), one[1]["type"] != UNKNOWN))
    keys, error = found[0]
    if error["type"] == UNKNOWN:
        return f"{where(keys)}: `{dotted(keys)}` is not a key here. {_similar(keys, model)}"
    if error["type"] == "missing":
        return f"{where(keys[:-1])}: `{dotted(keys)}` is missing. {_advice(keys, model)}"
    same = [e for place, e in found if place == keys and _is_type(e) == _is_type(error)]
    faults = " or ".join(dict.fromkeys(map(_fault, same))).replace(" or should be", " or")
    name = f"`{dotted(keys)}`" if keys else "the file"
    if faults.endswith("."):
        return f"{where(keys)}: {name}: {faults}"
    given = error["input"]
    # As in YAML: true and null, not True and None.
    shown = json.dumps(given) if given is None or isinstance(given, bool) else given
    return f"{where(keys)}: {name}: '{one_line(shown, SHOWN)}' {faults}. {_advice(keys, model)}"


def _is_type(error: ErrorDetails) -> bool:
    return error["type"].endswith(("_type", "literal_error"))


# Terms of pydantic, and those of config/README.md.
TERMS = {
    "^(Value error, |(Input|String|List|Dictionary) (?=should))": "",
    "^Keys should be strings": "is a key, and should be text (in quotation marks)",
    "a valid dictionary( or instance of .*)?": "a mapping",
    "a valid string": "text",
    "a valid boolean": "true or false",
    "a valid (?=integer)": "an ",
    "a valid ": "a ",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    " after validation.*": "",
}


def _fault(error: ErrorDetails) -> str:
    hint, given = "", error["input"]
    if error["type"] == "string_type":
        hint = " (numbers and words like `on` need quotation marks)"
    elif error["type"] in ("int_type", "float_type") and isinstance(given, str):
        hint = " (without quotation marks, unit or exponent)" * given[:1].isdigit()
    text = error["msg"]
    for term, plain in TERMS.items():
        text = re.sub(term, plain, text)
    return text + hint


def _keys_in(content: object, error: ErrorDetails) -> list[str | int]:
    """Return the keys without the names that pydantic adds for the members of a union."""
    keys: list[str | int] = []
    for number, part in enumerate(error["loc"], 1):
        try:
            content = value_at(content, part)
        except LookupError:
            if number < len(error["loc"]) or error["type"] != "missing":
                continue
        keys.append(part)
    return keys


def schema_of(model: type) -> Schema:
    import pydantic

    return pydantic.TypeAdapter(model).json_schema()


def members_of(schema: Schema, whole: Schema) -> list[Schema]:
    """Return the members of a union in the schema of a model, without references into the whole."""
    if "$ref" in schema:
        return members_of(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    members = [each for member in schema.get("anyOf", ()) for each in members_of(member, whole)]
    return members or [schema]


def item_schemas(schema: Schema) -> list[Schema]:
    """Return the schemas of the values of a mapping, or of the items of a list."""
    values = [schema.get(name) for name in ("additionalProperties", "items")]
    return [*schema.get("patternProperties", {}).values(), *filter(None, values)]


def _levels(keys: Keys, model: type) -> list[dict[str, Schema]]:
    """Return the known fields next to each of the keys."""
    whole = schema_of(model)
    schemas, levels = [whole], []
    for part in keys:
        members = [member for schema in schemas for member in members_of(schema, whole)]
        fields = [member.get("properties", {}) for member in members]
        levels.append({name: field for of in fields for name, field in of.items()})
        schemas = [
            below
            for member, of in zip(members, fields, strict=True)
            for below in item_schemas(member) or filter(None, [of.get(part)])
        ]
    return levels


def _similar(keys: Keys, model: type) -> str:
    fields = _levels(keys, model)[-1]
    for name, field in fields.items():
        if keys[-1] and str(keys[-1]) == field.get("was"):
            return f"It is now `{name}`: rename it."
    known = sorted(fields)
    close = difflib.get_close_matches(str(keys[-1]), known, 1)
    return f"Did you mean `{close[0]}`?" if close else f"The keys are {', '.join(known)}."


def _advice(keys: Keys, model: type) -> str:
    texts = [
        field["description"]
        for key, fields in zip(keys, _levels(keys, model), strict=True)
        if "description" in (field := fields.get(str(key), {}))
    ]
    return " ".join(texts[-1].split()) if texts else "See config/README.md."


def dotted(keys: Keys) -> str:
    """Return a path of keys as people write it: `grid.fsfs-san-2014.include[0].cache`."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else str(key)
    return text
