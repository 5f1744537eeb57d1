"""Strategies of building a tree that are programs of ours: a file each, with `build` (source, target).

They run by themselves (python -I <this folder> NAME SOURCE TARGET), so a file imports the standard library,
what it measures, and its neighbours, and nothing else of vcsbench's.
"""
