"""Run a strategy of a module by its name: python -I <this folder> MODULE NAME SOURCE TARGET."""

import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
name, strategy, source, target = sys.argv[1:]
module = import_module(name)
getattr(module, strategy if hasattr(module, strategy) else "build")(source, target)
