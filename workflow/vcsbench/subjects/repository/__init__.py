"""Repositories: loaded from a source, packed, and copied interleaved onto the storage under test."""
