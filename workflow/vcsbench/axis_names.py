"""Name the axes that code refers to. The table of axes (vcsbench.axes.AXES) defines all of them.

A study may have further axes, which only its own file names.
"""

COMMAND_AXIS = "command"
ACCESS_AXIS = "ra"
REPOSITORY_AXIS = "repo"
FORMAT_AXIS = "format"
PACKING_AXIS = "packing"
SERVER_AXIS = "config"
CACHE_AXIS = "cache"
STORAGE_AXIS = "storage"
FILESYSTEM_AXIS = "filesystem"
BUILD_AXIS = "build"
CLIENTS_AXIS = "clients"
STRATEGY_AXIS = "strategy"
COMPRESSION_AXIS = "wire_compression"
DELAY_AXIS = "network_delay"
PRISTINES_AXIS = "pristines"
LOCKING_AXIS = "sqlite_locking"
REFLINK_AXIS = "reflink"
