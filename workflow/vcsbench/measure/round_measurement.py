"""Measure one round of a cell: run hyperfine, do the work of its hooks, and collect the evidence."""

from __future__ import annotations

import datetime
import errno
import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING

from vcsbench import processes
from vcsbench.axis_names import CLOSED_LOOP
from vcsbench.errors import ProgramError, UserError
from vcsbench.external import printable
from vcsbench.measure import work
from vcsbench.measure.cell_setup import CellSetup
from vcsbench.measure.discarded_run import DiscardedRun
from vcsbench.measure.git_trace import TRACE_VARIABLE, read_git_trace
from vcsbench.measure.memory_sampler import SHORT_INTERVAL_S, MemorySampler
from vcsbench.measure.round_context import describe_round
from vcsbench.measure.run_evidence import TIME_FORMAT, EvidenceCollector
from vcsbench.measure.runs import Hook, Hyperfine, Invocation, read_export
from vcsbench.measure.server_group import ServerGroup
from vcsbench.measure.syscalls import count_locks
from vcsbench.measure.untimed_runs import Captured, capture
from vcsbench.programs import WORD, Programs
from vcsbench.storages.filesystems import is_full
from vcsbench.subjects.committed_repository import CommittedRepository
from vcsbench.systems import SUBVERSION, fsfs

if TYPE_CHECKING:
    from vcsbench.records import Context, Promises, Recipe, RunRecord, SetAside, Traffic


# The values of plan.recipe.Network for a network namespace of the cell-round alone.
OWN_NETWORKS = ("own", "user")
# The words of commands that are the URL of a repository.
URL_WORDS = frozenset(["url", "push_url"])
# How many lines of the errors of requests are in a failure's message.
REQUEST_ERROR_LINES = 3


class RoundMeasurement:
    """Measure one round of a cell.

    open() prepares the round. measure() times the command, and sets `runs`. After set_runs_aside(), measure()
    can be called again. describe() returns the context. Nothing is judged here.
    """

    def __init__(self, recipe: Recipe, number: int, folder: Path, root: Path) -> None:
        """Set the attributes for round `number` (from 1). `folder` is private, `root` the checkout."""
        self.recipe = recipe
        self.number = number
        self.folder = folder
        # The cache state: its steps before runs, its number of warm-up runs, and its promises.
        self.state = recipe["state"]
        self.cell = CellSetup(recipe, number, folder, root)
        # How the work of the command is computed: a fingerprint of its output, or of the files that it wrote.
        self.work_kind = work.WORK_KINDS[recipe["work_kind"]]
        # hyperfine discards the output of timed runs, so an untimed run is read instead (_capture).
        self.captured: Captured | None = None
        # True if the first cold run of a command is not timed but discarded (_set_up).
        self.discards_first_run = self.state.get("discard", False)
        # The bytes that the discarded run read from the device. A timed cold run has to read about as many.
        self.discarded_bytes: int | None = None
        # The control group that counts the CPU time of the server.
        self.group: ServerGroup | None = None
        # The timed runs of this attempt.
        self.runs: list[RunRecord] = []
        # The runs of earlier attempts at this round (set_runs_aside).
        self.set_aside: list[SetAside] = []
        # The first error in reading what a timed run has written.
        self.read_error: Exception | None = None

    def open(self, stack: ExitStack) -> None:
        """Prepare what the command reads and writes, its server and its command line, and set up hyperfine.

        Also read if an earlier cell-round has discarded a run. The first cold run of a command is slower than
        later ones, because it fills caches that cannot be cleared, such as a hypervisor's. So it is not timed
        but discarded. `stack` takes the clean-up. Raise UserError if a program, for example, differs from the
        recipe.
        """
        self.started_at = datetime.datetime.now(datetime.UTC)
        if self.cell.server:
            self.group = ServerGroup()
            # The stack calls its callbacks in reverse order. So cell.open() must come after this line: the
            # server then ends before its group is closed, and the kernel removes only an empty group.
            stack.callback(self.group.close)
        self.cell.open(stack)
        self.hyperfine = Hyperfine(self.folder, self._answer_hook)
        # It has a file with the bytes that the last discarded run of this command on this input has read; no
        # file for a warm cell, which discards no run (None).
        cold_input = self.cell.input if self.discards_first_run else None
        self.discarded_run = DiscardedRun(self.recipe, cold_input, self.cell.root)
        # None if the last cold run is more than an hour ago. A cold cell then discards its first run.
        self.discarded_bytes = self.discarded_run.read()

    def measure(self, lock: int) -> None:
        """Time the runs of the round, and set `runs`: the record of each timed run, with its evidence.

        Evidence is facts about a run, such as the bytes that it read. `lock` is the descriptor of the
        machine's lock. hyperfine inherits it, so that no other cell starts before hyperfine has ended. Raise
        ProgramError (a UserError) if a run fails, or UserError if one takes too long. An error of a hook, or
        of reading what a run wrote, is raised as it is.
        """
        self.runs = []
        self.collector = self._make_collector()
        # If client and server have a network of their own (a line), this measures its delay and rate.
        self.collector.measure_line()
        try:
            # This calls _answer_hook() for each hook, which fills `runs`, and may set `read_error`.
            failure = self.hyperfine.run(self.cell.timed, self.recipe["runs"], lock)
        finally:
            self.collector.close()
        self._raise_failure(failure)
        # The line may have changed during the runs.
        line_evidence = self.collector.measure_line_again()
        for run in self.runs:
            run["evidence"].update(line_evidence)
        self._add_captured_run()
        # A cold cell discards its first run if the last cold run is more than an hour ago: caches that cannot
        # be cleared, such as a hypervisor's, then have to be filled. The hour begins again now.
        self.discarded_run.renew()

    def _make_collector(self) -> EvidenceCollector:
        """Return the collector of the evidence of this round's runs."""
        return EvidenceCollector(
            # If the server is another machine, the files that it reads are not here.
            read=None if "remote" in self.recipe else self.cell.input,
            written=self.cell.output,
            server=self.cell.server,
            clearing=self.recipe["clearing"],
            measures_sync=self.recipe.get("measure_sync", False),
            networks=self.cell.networks,
            group=self.group,
            # Many clients are served at once, and processes of the server may end within the run.
            samples_memory="traffic" in self.recipe,
            # Hooks of the repository, such as pre-commit.
            runs_hooks="hooks" in self.recipe,
            owns_network=self.recipe.get("network") in OWN_NETWORKS,
            # A hot run may still read tables of the file system that it writes to. The kernel does not
            # separate these reads, so the reads of the input are counted apart.
            checks_input=self.state["promises"].get("os") == "hot" and self.cell.output is not None,
        )

    def _raise_failure(self, failure: str | None) -> None:
        """Raise the first error: of hyperfine (`failure`), of a run, or of reading what a run has written."""
        if failure is not None:
            # hyperfine does not report why a command cannot be run. Another run shows the reason.
            outcome = self._run_again()
            raise ProgramError(f"{printable(failure)}; run again, {outcome}{self._details()}")
        # Exit codes come before `read_error`: a failed run may have written nothing, and its code says more.
        self._check_exit_codes()
        if self.read_error:
            raise self.read_error

    def set_runs_aside(self) -> None:
        """Move the runs and their times to `set_aside`, and prepare another measure() with a new server.

        The caller does so if a hot run has read from the device.
        """
        export = json.loads(self.hyperfine.export.read_bytes())
        self.set_aside.append({"runs": self.runs, "results": export["results"]})
        self.cell.reset_output()
        self.cell.stop_server()
        self.cell.start_server()

    def describe(self) -> Context:
        """Return the context of the runs as JSON data: everything that may explain their times.

        Raise UserError if a run wrote a wrong tree (_check_counterpart), or if the client does not lock the
        database of a working copy as the recipe has it (count_locks).
        """
        self._check_counterpart()
        context = describe_round(self.cell, self.runs, self.captured)
        # The conditions have the scheduling of this process, such as its nice value. A wrapper or a user may
        # have given client or server another one.
        conditions = context["conditions"]
        conditions["client"] = sorted(self.collector.client_scheduling)
        if self.collector.server_scheduling:
            conditions["server"] = sorted(self.collector.server_scheduling)
        # The untimed run whose output was read. The bytes of the timed runs are compared with its bytes.
        if self.captured:
            context["captured_io"] = {**self.captured.io, **self.captured.server_io}
            if self.captured.git_trace:
                context["git_trace"] = self.captured.git_trace._asdict()
        context["round"] = self.number
        context["started_at"] = self.started_at.strftime(TIME_FORMAT)
        # Earlier attempts at this round. It was measured again because a hot run read from the device.
        context["set_aside"] = self.set_aside
        # The seconds of the last call of measure(): of all runs with their hooks, and of the hooks alone.
        context["took"] = {
            "hyperfine_s": round(self.hyperfine.seconds, 6),
            "hooks_s": round(self.hyperfine.hooks_s, 6),
        }
        # All rounds have the same client, so its calls for file locks are counted in the first round only.
        if self.recipe.get("locking") and self.number == 1:
            context["locks"] = count_locks(self.cell)
        return context

    # The hooks of hyperfine

    def _answer_hook(self, hook: Hook) -> None:
        """Do the steps before, between and after the timed runs. Each hook of hyperfine calls this method.

        For two runs, the order is setup, prepare, (run), prepare, (run), cleanup. The collector counts, for
        example, bytes and instructions of a run: from the end of the hook before it to the start of the hook
        after it.
        """
        if hook is Hook.SETUP:
            self._set_up()
            # Until the first prepare hook, hyperfine only starts the shell of that hook. The collector counts
            # the instructions of this start. They are later subtracted from those of each run.
            self.collector.begin_hook(self.hyperfine.pid)
        elif hook is Hook.PREPARE:
            # End the count of the last run. In the first prepare hook, this is the count of begin_hook(), and
            # no run is recorded.
            self._end_run(is_last=False)
            self._prepare_run(is_timed=True, is_first=not self.runs)
        elif hook is Hook.CLEANUP:
            self._end_run(is_last=True)
            # hyperfine discards the output of timed runs. An untimed run before them may have been captured.
            must_capture = self.work_kind.read is not None and not self.captured
            if must_capture:
                self._capture_after_timed_runs()

    def _capture_after_timed_runs(self) -> None:
        """Run the command once more, untimed, to read its output, which does not depend on caches."""
        self.cell.reset_output()
        # reset_output() ends the server if it puts a repository back.
        self.cell.start_server()
        self.collector.begin(self.hyperfine.pid, is_timed=False)
        self._run_and_count(is_representative=True)

    def _set_up(self) -> None:
        """Do the steps before all runs, and run the command untimed as often as the cache state demands.

        A cold cell may need one such run that is discarded. The first cold run of a command fills caches that
        cannot be cleared, such as a hypervisor's, so it is slower than later ones. hyperfine could do untimed
        runs, but does not report the signal that ended one.
        """
        for step in self.state["setup"]:
            self.cell.run_step(step)
        untimed_runs = self.state["warmup"]
        # `discarded_bytes` is None if the last cold run is more than an hour ago.
        must_discard = self.discards_first_run and self.discarded_bytes is None
        if must_discard:
            # The first untimed run is the discarded one.
            untimed_runs = max(1, untimed_runs)
        for number in range(untimed_runs):
            is_first = number == 0
            self._prepare_run(is_timed=False, is_first=is_first)
            # All runs print the same. So the output of the first one is read, and stands for all.
            self._run_and_count(is_representative=is_first)
        if must_discard:
            self._store_discarded_bytes()

    def _store_discarded_bytes(self) -> None:
        """Store the bytes that the discarded run, the first untimed one, has read from the device.

        A timed cold run has to read about as many. One that reads far less was not cold. If the kernel hides
        a count (None), nothing is stored.
        """
        # The first untimed run is representative, so _run_and_count() has set `captured`.
        assert self.captured
        # `captured` has the bytes of the client alone. Those in `warming`, the collector's counts of untimed
        # runs, include bytes that this process has read.
        client_bytes = self.captured.io["read_bytes"]
        # The key is missing without a server.
        server_bytes = self.collector.warming[0].get("server_read_bytes", 0)
        if client_bytes is not None and server_bytes is not None:
            self.discarded_bytes = client_bytes + server_bytes
            self.discarded_run.write(self.discarded_bytes)

    def _prepare_run(self, is_timed: bool, is_first: bool) -> None:
        """Do the steps of the cache state before a run, such as "clear-caches", and read the counters.

        Before the first untimed run and the first timed run (`is_first`), a state may have other steps: a
        series clears the caches only once. The counters are read last, so that no step counts for the run.
        """
        steps = self.state["prepare"]
        if is_first and "first" in self.state:
            steps = self.state["first"]
        for step in steps:
            self.cell.run_step(step)
            if step == "clear-caches" and is_timed:
                # Store how much of the files is still in memory. If this query had to open files, it has
                # loaded their inodes into the caches. So they are cleared again.
                has_opened_files = self.collector.query_cleared()
                if has_opened_files:
                    self.cell.run_step(step)
        # The step `restore` undoes a commit, and ends the server for that. Some states have no step that
        # starts it again.
        if self.cell.writes_input and self.cell.server and not self.cell.server.pid:
            self._replace_server()
        self.collector.begin(self.hyperfine.pid, is_timed)

    def _replace_server(self) -> None:
        """Start a new server, and fill its caches if the cache state promises a server with full ones."""
        self.cell.start_server()
        if self._promises().get("server") == "kept":
            # The collector counts this as an untimed run. So the evidence shows what the server has read.
            self.collector.begin(self.hyperfine.pid, is_timed=False)
            self.cell.fill_server_caches()
            self.collector.end(self.hyperfine.pid)

    def _run_and_count(self, is_representative: bool) -> None:
        """Run the command untimed, and end its counts. The caller has begun them (EvidenceCollector.begin).

        A representative run stands for all timed runs, so its output is read. It is stored as `captured`,
        with the bytes that its server has read and written. Raise UserError if the run fails.
        """
        try:
            untimed_run = self._run_untimed(is_representative)
        except UserError as error:
            raise type(error)(f"{error}{self._details()}") from None
        # This adds the counts of the run to the list `warming`.
        self.collector.end(self.hyperfine.pid)
        if not is_representative:
            return
        counts = self.collector.warming[-1]
        server_io = {
            "server_rchar": counts.get("server_rchar"),
            "server_wchar": counts.get("server_wchar"),
        }
        self.captured = untimed_run._replace(server_io=server_io)

    def _run_untimed(self, is_representative: bool) -> Captured:
        """Run the command once, and return the run. `work` is {} unless the run is representative (_capture).

        In a cell with traffic, each client sends one request, one after another, and the run of the first
        reader is returned. Raise UserError if a run fails, or if two readers got different answers.
        """
        # Only a cell with traffic has `requests`.
        if not self.cell.requests:
            return self._capture(self.cell.timed, is_representative)
        # Readers come first. A cell without readers has one here: its answer identifies the repository.
        readers = max(1, self.cell.readers)
        first_run = self._capture(self.cell.requests[0], is_representative)
        for number, request in enumerate(self.cell.requests[1:readers], 2):
            run = self._capture(request, is_representative)
            # The fingerprints of the answers; {} for answers that are not read.
            if run.work != first_run.work:
                raise UserError(
                    f"reader {number} got another answer than reader 1: {run.work} and not "
                    f"{first_run.work}. Use a command in `argv` whose output does not vary."
                )
        for commit in self.cell.requests[readers:]:
            self._capture(commit, is_representative=False)
        return first_run

    def _capture(self, command: Invocation, is_representative: bool) -> Captured:
        """Run a command untimed, and return the run, with its I/O and its peak memory.

        A representative run stands for all timed runs, so three more facts are read: the work of the command
        (a fingerprint of its output), the trace of git (with a URL), and the peak memory of the server.
        """
        log = self.folder / "captured.log"
        if not is_representative:
            return capture(command, work.discard_output, log)

        argv = command.argv
        if self.work_kind.read:
            # With a quiet option, such as -q, the command would print no output to read.
            argv = [word for word in argv if word not in self.work_kind.quiet_options]
        read_command = command._replace(argv=argv)
        if not self._is_git_with_url:
            return self._capture_with_server_peak(read_command, self._read_work, log)

        trace = self.folder / "git-trace"
        # git appends to a trace, and a round that is measured again has one of its first attempt.
        trace.unlink(missing_ok=True)
        environment = {**command.environment, TRACE_VARIABLE: str(trace)}
        traced_command = read_command._replace(environment=environment)
        captured = self._capture_with_server_peak(traced_command, self._read_work, log)
        return self._add_trace(captured, trace)

    @property
    def _is_git_with_url(self) -> bool:
        """True for a command of git with {url} or {push_url}: its trace has a protocol and sent objects."""
        words = WORD.findall(self.recipe["argv"])
        return self._program == "git" and not URL_WORDS.isdisjoint(words)

    def _read_work(self, output: IO[bytes]) -> work.Fingerprint:
        """Return the fingerprint of a command's output; {} if its work is in the files that it writes."""
        if not self.work_kind.read:
            return work.discard_output(output)
        return self.work_kind.read(output, self.cell.urls)

    def _capture_with_server_peak(
        self, command: Invocation, read_output: Callable[[IO[bytes]], work.Fingerprint], log: Path
    ) -> Captured:
        """Run a command untimed (capture), and return the run with the server's peak memory, if one runs."""
        if not self.cell.server or not self.cell.server.pid:
            return capture(command, read_output, log)
        sampler = MemorySampler(self.cell.server.pid, SHORT_INTERVAL_S)
        try:
            captured = capture(command, read_output, log)
        finally:
            sampler.stop()
        return captured._replace(server_peak_bytes=sampler.peak_bytes)

    def _add_trace(self, captured: Captured, trace: Path) -> Captured:
        """Return the run `captured` with the facts from git's trace, which are in the file `trace`.

        Raise UserError if git has written no trace, or if the cell has another protocol.
        """
        git_trace = read_git_trace(trace)
        io = dict(captured.io)
        # The timed runs write no trace, so its bytes are subtracted from all bytes that this run wrote.
        if io["wchar"] is not None:
            io["wchar"] -= trace.stat().st_size
        expected = self.recipe["axes"].get("protocol", "")
        if expected and git_trace.protocol != expected:
            raise UserError(
                f"client and server used protocol {git_trace.protocol or 'of an unknown version'}, not "
                f"{expected}. Use a newer git, or leave out `protocol: {expected}`."
            )
        return captured._replace(io=io, git_trace=git_trace)

    def _end_run(self, is_last: bool) -> None:
        """Add the record of the timed run that has ended to `runs`, with its evidence and its work.

        If the written files cannot be read, set `read_error`.
        """
        evidence = self.collector.end(self.hyperfine.pid, is_last)
        # There was no timed run before the first prepare hook.
        if not evidence:
            return
        # The time from the end of the last hook to the start of this one, which is little more than the run.
        # The collector's own `window_s` also has the time in which it read its counters.
        evidence["window_s"] = round(self.hyperfine.since_hook_s, 6)
        # A cold run has to read about as many bytes from the device as the discarded run before it.
        if self.discarded_bytes is not None:
            evidence["discarded_read_bytes"] = self.discarded_bytes
        # A commit adds files to its input, the repository. They are in memory because the commit wrote them.
        # Without this number, another program would seem to have read them.
        if self.cell.input and self.cell.writes_input:
            evidence["input_grew_bytes"] = self.cell.input.grown_bytes()
        run: RunRecord = {
            "run": len(self.runs) + 1,
            "evidence": evidence,
            # The evidence is later compared with these, such as {"os": "cold", "server": "new"}.
            "promises": self._promises(),
            # If the work is in the output of the command, _add_captured_run() adds it after all runs.
            "work": {},
        }
        self.runs.append(run)
        try:
            self._read_what_was_written(run)
        except (OSError, UserError, ValueError) as error:
            # measure() first checks the exit codes: a command that failed may have written nothing.
            self.read_error = self.read_error or error

    def _promises(self) -> Promises:
        """Return what the cache state promises about the next run: {"os": "hot", "server": "kept"}."""
        # In a series, the first timed run is cold, and all later runs are hot.
        if self.runs and "later_promises" in self.state:
            return self.state["later_promises"]
        return self.state["promises"]

    def _read_what_was_written(self, run: RunRecord) -> None:
        """Add to a run what is in files: its work, and the report of the launcher or the traffic program.

        Raise OSError, UserError or ValueError if one of the files cannot be read. Raise UserError as well if
        the run does not match the label of its cell, such as a commit whose hook has not run.
        """
        # The subjects are the input and the output of the command.
        for subject in self.cell.subjects:
            subject.check_run()
        output = self.cell.output
        if self.work_kind.inspect and output:
            run["work"] = self.work_kind.inspect(output.inspected, self.cell.urls)
            server = self.cell.server
            # A server of Subversion may compress the files that it sends. The run is later flagged if its
            # server sent far fewer bytes than these files have after compression.
            if server and server.kind in SUBVERSION.servers and self.work_kind.writes_tree:
                run["compressed_bytes"] = self._estimate_compressed(run, output.inspected)
        if "clients" in self.recipe:
            run["launched"] = json.loads(self.cell.launcher_report.read_text())
        if "traffic" in self.recipe:
            run["traffic"] = self._read_traffic_report()

    def _read_traffic_report(self) -> Traffic:
        """Return the report of the program that sent the requests of many clients, and its settings."""
        report: Traffic = json.loads(self.cell.traffic_report.read_text())
        # These settings are in the recipe, and not in the program's report.
        report["seconds"] = self.recipe["traffic"]["seconds"]
        report["readers"] = self.cell.readers
        report["committers"] = self.recipe.get("committers", 0)
        report["arrival"] = self.recipe.get("arrival", CLOSED_LOOP)
        repository = self.cell.input
        # `base` is the youngest revision before the run.
        if isinstance(repository, CommittedRepository):
            report["revisions_added"] = fsfs.youngest(repository.path) - repository.base
        return report

    def _estimate_compressed(self, run: RunRecord, tree: Path) -> int:
        """Estimate the compressed size of the written files, once for all runs that wrote equal files."""
        for earlier in self.runs:
            if "compressed_bytes" in earlier and earlier["work"] == run["work"]:
                return earlier["compressed_bytes"]
        return work.estimate_compressed_bytes(tree)

    # The checks after the runs

    def _check_exit_codes(self) -> None:
        """Raise ProgramError if a run has failed, or UserError if there are not as many runs as expected."""
        # The code is None if a signal ended the run. For this code, too, signal_of() returns a text.
        codes = [run.exit_code for run in read_export(self.hyperfine.export)]
        expected = self.recipe["runs"]
        if len(codes) != expected or len(self.runs) != expected:
            raise UserError(
                f"{Programs().get('hyperfine')}: its export has {len(codes)} runs, and the recipe asks for "
                f"{expected}. Use an unmodified hyperfine."
            )
        for number, code in enumerate(codes, 1):
            if code == 0:
                continue
            failure = f"{self._program} {processes.how_it_ended(code)} in timed run {number} of {len(codes)}"
            # The export has no output, so another run shows the error. After a signal, it would show none.
            if not processes.signal_of(code):
                outcome = self._run_again()
                failure += f"; run again, {outcome}"
            raise ProgramError(f"{failure}{self._details()}")

    def _add_captured_run(self) -> None:
        """Add peak memory and work of `captured`, the untimed run that stands for all, to the timed runs."""
        captured = self.captured
        for run in self.runs:
            evidence = run["evidence"]
            if not captured:
                evidence["client_peak_memory_bytes"] = None
                continue
            evidence["client_peak_memory_bytes"] = captured.peak_bytes
            # The kernel keeps no peak of a server process that has ended in the run.
            if evidence.get("server_peak_memory_bytes") is None:
                evidence["server_peak_memory_bytes"] = captured.server_peak_bytes
            if self.work_kind.read:
                run["work"] = captured.work

    def _check_counterpart(self) -> None:
        """Raise UserError if a run has written another tree than it had to.

        Some outputs have a `counterpart`: a tree that they must equal. For a working copy, for example, it is
        an export of the same revision, which vcsbench has made.
        """
        output = self.cell.output
        inspect = self.work_kind.inspect
        if not output or not output.counterpart or not inspect:
            return
        # Files may have the URL from which they came, by a keyword such as $HeadURL$. The two trees came from
        # different URLs, so the fingerprint of each tree leaves out its URL.
        tree, url = output.counterpart
        expected = inspect(tree, work.UrlNormaliser(url))
        for run in self.runs:
            if run["work"] != expected:
                raise UserError(
                    f"run {run['run']} wrote another tree than an export: {run['work']} and not {expected}. "
                    f"Check the command's `argv`."
                )

    # The texts of failures

    def _run_again(self) -> str:
        """Run the command untimed after a failure, and return the outcome with its error.

        Example: "svn exits with 1: svn: E170013: Unable to connect", or "svn succeeds".
        """
        try:
            self.cell.reset_output()
            # reset_output() ends the server if it puts an input back, such as the repository of a commit.
            if self.cell.writes_input:
                self.cell.start_server()
            self._run_untimed(is_representative=False)
        except UserError as error:
            return str(error)
        except OSError as error:
            return f"{self._program} failed: {error}"
        return f"{self._program} succeeds"

    @property
    def _program(self) -> str:
        return os.path.basename(self.cell.timed.argv[0])

    def _details(self) -> str:
        """Return the end of a failure's message: errors of requests, a full disk, and the server's log.

        Example: "; /mnt/out: No space left on device; svnserve's log ends: svnserve: Can't bind".
        """
        details = ""
        if "traffic" in self.recipe:
            # hyperfine keeps nothing of the errors of the timed program, which sends the requests.
            errors = processes.last_lines(self.cell.traffic_errors, REQUEST_ERROR_LINES)
            if errors:
                details += f"; the errors of requests end: {' '.join(errors)}"
        output = self.cell.output
        # An output has one folder (or file). It may be missing if the command has failed early.
        if output and output.folders[0].exists() and is_full(output.folders[0]):
            details += f"; {output.folders[0]}: {os.strerror(errno.ENOSPC)}"
        server = self.cell.server
        if server:
            log = " ".join(server.last_output()) or "it is empty"
            details += f"; {server.kind}'s log ends: {log}"
        return details
