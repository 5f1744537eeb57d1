"""Fills in a command's template: the {words} of `argv` in a study's file; and reads options from files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.urls import pegged

Words = Mapping[str, Callable[[], "str | Sequence[str]"]]
WORD = re.compile(r"\{(\w+)\}")


def fill(template: str, words: Words) -> list[str]:
    """The argv of a template. A word that stands for several arguments has to stand alone.

    Only the words that the template has are asked for what they stand for.
    """
    argv: list[str] = []
    for part in shlex.split(template):
        alone = WORD.fullmatch(part)
        if alone and not isinstance(value := _value(alone[1], words), str):
            argv.extend(value)
            continue
        filled = WORD.sub(lambda match: str(_value(match[1], words)), part)
        # An export of the whole repository: {url}/{tree} with an empty tree.
        filled = filled.rstrip("/") if part.endswith("}") and len(filled) > 1 else filled
        argv.append(pegged(filled))
    return argv


def _value(word: str, words: Words) -> str | Sequence[str]:
    if word not in words:
        raise UserError(
            f"`argv` has {{{word}}}, which stands for nothing; there are {', '.join(words)}"
        )
    return words[word]()


def read_arguments(path: Path) -> list[str]:
    """The options in a file of config/servers; # starts a comment."""
    try:
        return shlex.split(path.read_text(), comments=True)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file; a server configuration has one") from None
    except ValueError as error:
        raise UserError(f"{path}: cannot be read as options: {error}") from None
