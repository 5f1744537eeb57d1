"""The storages under test, and vcsbench's own folder on each."""
