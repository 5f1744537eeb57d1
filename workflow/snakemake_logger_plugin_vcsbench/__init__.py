"""Print the progress of a run in one line, through Snakemake's interface for logger plugins (`--logger
vcsbench`)."""

from __future__ import annotations

from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase

from vcsbench.run.console import Console


class LogHandler(LogHandlerBase):
    """Hand Snakemake's events to the console."""

    def __post_init__(self) -> None:
        self.console = Console()

    def emit(self, record: LogRecord) -> None:
        """Print what an event changes."""
        self.console.handle(record)

    def close(self) -> None:
        """End the line of progress."""
        self.console.close()
        super().close()

    @property
    def writes_to_stream(self) -> bool:
        """Replace Snakemake's own output on the terminal."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """Leave Snakemake's log file alone."""
        return False

    @property
    def has_filter(self) -> bool:
        """Choose among the events itself."""
        return True

    @property
    def has_formatter(self) -> bool:
        """Format events itself."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """Do without the graph of rules."""
        return False
