"""Strategies of building a tree that are programs of ours.

A strategy is a function with its name in a module of this folder (vcsbench.modules.SHARED_MODULES), or
`build` in a file with its name. It gets a tree `source` and a path `target` that does not exist. Strategies
run alone (__main__), so a file imports the standard library, what it measures, and its neighbours.
"""
