# The functions that scripts of git's t/perf call, in place of git's perf-lib.sh: they run with the installed git.
#
# GIT_PERF_REPO: the repository to copy. GIT_PERF_REPEAT_COUNT: runs of each command; the fastest counts.
# GIT_PERF_RESULTS: the file for a line per command: its title, a tab, and the seconds (elapsed, user, system).
set -e
export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_TERMINAL_PROMPT=0 LC_ALL=C.UTF-8
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@localhost GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@localhost
TIMEFORMAT='%R %U %S'

test_perf_default_repo () {
	# Copied, because tests repack it. The copy has a working tree's layout, as git's own.
	mkdir .git
	cp -R "$GIT_PERF_REPO"/objects "$GIT_PERF_REPO"/refs "$GIT_PERF_REPO"/HEAD .git/
	test ! -f "$GIT_PERF_REPO"/packed-refs || cp "$GIT_PERF_REPO"/packed-refs .git/
	git init -q --template= .
	git config gc.auto 0
	git config maintenance.auto false
}

test_perf_large_repo () {
	test_perf_default_repo
}

test_export () {
	export "$@"
}

test_expect_success () {
	title=$1
	# Some scripts name a prerequisite first.
	test $# -eq 2 || shift
	eval "$2" >>"$GIT_PERF_RESULTS.log" 2>&1 || {
		echo "setup failed: $title" >&2
		exit 1
	}
}

test_perf () {
	title=$1
	shift
	# Newer scripts give a body for the preparation of each run.
	setup=:
	if test "$1" = --setup
	then
		setup=$2
		shift 2
	fi
	best=
	for run in $(seq "$GIT_PERF_REPEAT_COUNT")
	do
		eval "$setup" >>"$GIT_PERF_RESULTS.log" 2>&1
		status=0
		# The body writes to descriptor 3; the time is what is left on stderr.
		{ spent=$({ time eval "$1" >&3 2>&3; } 2>&1); } 3>>"$GIT_PERF_RESULTS.log" || status=$?
		# The script may be newer than the installed git.
		test $status -eq 0 || {
			echo "failed with the installed git: $title" >&2
			return 0
		}
		best=$(printf '%s\n%s\n' "$best" "$spent" | grep . | sort -n | head -n 1)
	done
	printf '%s\t%s\n' "$title" "$best" >>"$GIT_PERF_RESULTS"
}

test_size () {
	:
}

test_done () {
	exit 0
}
