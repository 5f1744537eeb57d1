"""Runs a strategy by its name: python -I <this folder> NAME SOURCE TARGET."""

import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
name, source, target = sys.argv[1:]
import_module(f"vcsbench.strategies.{name}").build(source, target)
