"""Bazaar's TreeTransform as Breezy has it, and the start of the interpreter with the modules of it."""

import os

import breezy
import breezy.bzr
from breezy.controldir import ControlDir, format_registry
from breezy.transform import TreeTransform


def start_breezy(source: str, target: str) -> None:
    """Build nothing: how long the interpreter takes to start and to import these modules."""
    with breezy.initialize():
        pass


def transform(source: str, target: str) -> None:
    """Make a working tree of today's format, and fill it in one transform: contents, links, executables."""
    with breezy.initialize():
        today = format_registry.make_controldir("2a")
        tree = ControlDir.create_standalone_workingtree(target, today)
        with tree.lock_tree_write(), tree.transform() as transform:
            _fill(transform, source)
            transform.apply()


def _fill(transform: TreeTransform, source: str) -> None:
    number = 0
    waiting = [(source, transform.root)]
    while waiting:
        folder, parent = waiting.pop()
        for entry in os.scandir(folder):
            number += 1
            about = (entry.name, parent)
            identity = b"%d" % number
            if entry.is_symlink():
                transform.new_symlink(*about, os.readlink(entry.path), identity)
            elif entry.is_dir():
                waiting.append((entry.path, transform.new_directory(*about, identity)))
            else:
                executable = bool(entry.stat().st_mode & 0o100)
                with open(entry.path, "rb") as file:
                    transform.new_file(*about, [file.read()], identity, executable)
