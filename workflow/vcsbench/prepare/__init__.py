"""Prepare repositories: load a source, pack, verify, and make interleaved copies on the storages."""
