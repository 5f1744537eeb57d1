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
        self.discards = self.state.get("discard", False)
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

        `stack` takes the clean-up. Raise UserError if something differs from the recipe, such as a program.
        """
        self.started_at = datetime.datetime.now(datetime.UTC)
        if self.cell.server:
            self.group = ServerGroup()
            # The stack calls its callbacks in reverse order. So cell.open() must come after this line: the
            # server then ends before its group is closed, and the kernel removes only an empty group.
            stack.callback(self.group.close)
        self.cell.open(stack)
        self.hyperfine = Hyperfine(self.folder, self._answer_hook)
        # Without a subject, nothing is stored.
        discarded_subject = self.cell.input if self.discards else None
        self.discarded_run = DiscardedRun(self.recipe, discarded_subject, self.cell.root)
        # Not None if an earlier cell-round of this command has discarded a run within the last hour.
        self.discarded_bytes = self.discarded_run.read()

    def measure(self, lock: int) -> None:
        """Time the runs of the round, and set `runs`: the record of each timed run, with its evidence.

        `lock` is the descriptor of the machine's lock. hyperfine inherits it, so that no other cell starts
        before hyperfine has ended. Raise ProgramError (a UserError) if a run fails, or UserError if one takes
        too long. An error of a hook, or of reading what a run wrote, is raised as it is.
        """
        self.runs = []
        self.collector = EvidenceCollector(
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
        self.collector.measure_line()
        try:
            # This calls _answer_hook() for each hook, which fills `runs`, and may set `read_error`.
            failure = self.hyperfine.run(self.cell.timed, self.recipe["runs"], lock)
        finally:
            self.collector.close()
        if failure is not None:
            # hyperfine does not report why a command cannot be run. Another run shows the reason.
            outcome = self._run_again()
            raise ProgramError(f"{printable(failure)}; run again, {outcome}{self._details()}")
        # Exit codes come before `read_error`: a failed run may have written nothing, and its code says more.
        self._check_exit_codes()
        if self.read_error:
            raise self.read_error
        # The line may have changed since it was measured before the runs.
        line_evidence = self.collector.measure_line_again()
        for run in self.runs:
            run["evidence"].update(line_evidence)
        self._add_captured_run()
        # The bytes of a discarded run are valid for an hour after the last cold run. That was just now.
        self.discarded_run.renew()

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

        Raise UserError if a run wrote another tree than the one that it read, or if the client does not lock
        the database of a working copy as the recipe has it (count_locks).
        """
        self._check_counterpart()
        context = describe_round(self.cell, self.runs, self.captured)
        # A wrapper or a user may have given client or server another scheduling than this process has.
        conditions = context["conditions"]
        conditions["client"] = sorted(self.collector.client_scheduling)
        if self.collector.server_scheduling:
            conditions["server"] = sorted(self.collector.server_scheduling)
        if self.captured:
            context["captured_io"] = {**self.captured.io, **self.captured.server_io}
            if self.captured.git_trace:
                context["git_trace"] = self.captured.git_trace._asdict()
        context["round"] = self.number
        context["started_at"] = self.started_at.strftime(TIME_FORMAT)
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

        For two runs, the order is setup, prepare, (run), prepare, (run), cleanup. The record of a run begins
        at the end of the hook before it, and ends at the start of the hook after it.
        """
        if hook is Hook.SETUP:
            self._set_up()
            # Until the first prepare hook, hyperfine does nothing but start the shell of that hook.
            self.collector.begin_hook(self.hyperfine.pid)
        elif hook is Hook.PREPARE:
            # Before the first prepare hook, there was no run: _end_run() then ends the count of begin_hook(),
            # and adds no record.
            self._end_run(is_last=False)
            self._prepare_run(is_timed=True, is_first=not self.runs)
        elif hook is Hook.CLEANUP:
            self._end_run(is_last=True)
            if self.work_kind.read and not self.captured:
                # Without a warm-up run, the command runs once more: its output does not depend on caches.
                self.cell.reset_output()
                # reset_output() ends the server if it puts a repository back.
                self.cell.start_server()
                self.collector.begin(self.hyperfine.pid, is_timed=False)
                self._warm_up(is_representative=True)

    def _set_up(self) -> None:
        """Do the steps before all runs, and run the command untimed as often as the cache state demands.

        hyperfine could do such warm-up runs, but does not report the signal that ended one.
        """
        for step in self.state["setup"]:
            self.cell.run_step(step)
        # The first cold run fills caches below this system, such as a hypervisor's, and is slower.
        must_discard = self.discards and self.discarded_bytes is None
        warm_up_count = self.state["warmup"]
        if must_discard:
            # The first warm-up run is the discarded one, so there must be at least one.
            warm_up_count = max(1, warm_up_count)
        for number in range(warm_up_count):
            is_first = number == 0
            self._prepare_run(is_timed=False, is_first=is_first)
            # All runs print the same. So the output of the first one stands for all.
            self._warm_up(is_representative=is_first)
        if must_discard:
            # The first warm-up run is representative, so _warm_up() has set `captured`.
            assert self.captured
            # The collector's count of the client also has what this process itself has read.
            client_bytes = self.captured.io["read_bytes"]
            # The key is missing without a server. A count that the kernel hides is None.
            server_bytes = self.collector.warming[0].get("server_read_bytes", 0)
            if client_bytes is not None and server_bytes is not None:
                self.discarded_bytes = client_bytes + server_bytes
                self.discarded_run.write(self.discarded_bytes)

    def _prepare_run(self, is_timed: bool, is_first: bool) -> None:
        """Do the steps of the cache state before a run, such as "clear-caches", and read the counters.

        Before the first warm-up run and the first timed run (`is_first`), a state may have other steps: a
        series clears the caches only once. The counters are read last, so that no step counts for the run.
        """
        steps = self.state["prepare"]
        if is_first and "first" in self.state:
            steps = self.state["first"]
        for step in steps:
            self.cell.run_step(step)
            if step == "clear-caches" and is_timed:
                # The query of the files that are still in memory may load inodes.
                must_clear_again = self.collector.query_cleared()
                if must_clear_again:
                    self.cell.run_step(step)
        # The step `restore` has ended the server of a command that changes its input, such as a commit.
        if self.cell.writes_input and self.cell.server and not self.cell.server.pid:
            self.cell.start_server()
            # The new server has empty caches. To fill them ("kept") counts as an untimed run.
            if self._promises().get("server") == "kept":
                self.collector.begin(self.hyperfine.pid, is_timed=False)
                self.cell.fill_server_caches()
                self.collector.end(self.hyperfine.pid)
        self.collector.begin(self.hyperfine.pid, is_timed)

    def _warm_up(self, is_representative: bool) -> None:
        """Run the command untimed, and read the counters after it. The caller has read those before it.

        A representative run (_capture) is stored as `captured`, with the bytes that its server has read and
        written. Raise UserError if the run fails.
        """
        try:
            captured = self._run_untimed(is_representative)
        except UserError as error:
            raise type(error)(f"{error}{self._details()}") from None
        # The untimed run was a child of this process, while hyperfine waited. end() counts both processes.
        self.collector.end(self.hyperfine.pid)
        if is_representative:
            # end() has just appended the counts of this run.
            reads = self.collector.warming[-1]
            server_io = {
                "server_rchar": reads.get("server_rchar"),
                "server_wchar": reads.get("server_wchar"),
            }
            self.captured = captured._replace(server_io=server_io)

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
        environment = command.environment
        # None if the work of the command is not in its output.
        read_work = self.work_kind.read
        if read_work:
            # With a quiet option, the command would print no output to read.
            argv = [word for word in argv if word not in self.work_kind.quiet_options]
        # The trace of a local command, without {url} or {push_url}, has neither a protocol nor sent objects.
        trace = None
        has_url = not URL_WORDS.isdisjoint(WORD.findall(self.recipe["argv"]))
        if self._program == "git" and has_url:
            trace = self.folder / "git-trace"
            # git appends to a trace, and a round that is measured again has one of its first attempt.
            trace.unlink(missing_ok=True)
            environment = {**environment, TRACE_VARIABLE: str(trace)}
        read_command = command._replace(argv=argv, environment=environment)

        def read_output(output: IO[bytes]) -> work.Fingerprint:
            if not read_work:
                return work.discard_output(output)
            return read_work(output, self.cell.urls)

        captured = self._capture_with_server_peak(read_command, read_output, log)
        if trace:
            captured = self._add_trace(captured, trace)
        return captured

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
        # The time between the hooks replaces that between the readings, which includes the readings.
        evidence["window_s"] = round(self.hyperfine.since_hook_s, 6)
        if self.discarded_bytes is not None:
            evidence["discarded_read_bytes"] = self.discarded_bytes
        # A commit adds files to the repository, its input. They are in memory although nothing has read them.
        if self.cell.input and self.cell.writes_input:
            evidence["input_grew_bytes"] = self.cell.input.grown_bytes()
        run: RunRecord = {
            "run": len(self.runs) + 1,
            "evidence": evidence,
            # The evidence is later compared with these, such as {"os": "cold", "server": "new"}.
            "promises": self._promises(),
            # _add_captured_run() fills it if the work is in the output of the command.
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
        for subject in self.cell.subjects:
            subject.check_run()
        output = self.cell.output
        if self.work_kind.inspect and output:
            run["work"] = self.work_kind.inspect(output.inspected, self.cell.urls)
            server = self.cell.server
            if server and server.kind in SUBVERSION.servers and self.work_kind.writes_tree:
                run["compressed_bytes"] = self._estimate_compressed(run, output.inspected)
        if "clients" in self.recipe:
            run["launched"] = json.loads(self.cell.launcher_report.read_text())
        if "traffic" in self.recipe:
            report: Traffic = json.loads(self.cell.traffic_report.read_text())
            # These settings of the traffic are in the recipe, and not in the program's report.
            report["seconds"] = self.recipe["traffic"]["seconds"]
            report["readers"] = self.cell.readers
            report["committers"] = self.recipe.get("committers", 0)
            report["arrival"] = self.recipe.get("arrival", CLOSED_LOOP)
            repository = self.cell.input
            # `base` is the youngest revision before the run.
            if isinstance(repository, CommittedRepository):
                report["revisions_added"] = fsfs.youngest(repository.path) - repository.base
            run["traffic"] = report

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
        """Raise UserError if a run has not written an equal copy of the tree that it read.

        Only some outputs have a `counterpart`: the path of the tree that they must equal, such as an export,
        and the URL in the expanded keywords of this tree, such as $HeadURL$.
        """
        output = self.cell.output
        inspect = self.work_kind.inspect
        if not output or not output.counterpart or not inspect:
            return
        tree, url = output.counterpart
        # The URL in the tree differs from that in the output, so it is normalised.
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
