# shellcheck shell=sh
# What hyperfine runs as --setup, --prepare and --cleanup: it asks the process that runs the cell for
# one of them and waits until that is done. No interpreter but the shell: its files are not read again
# after the caches were dropped.
# usage: hook.sh FOLDER setup|prepare|cleanup
# The machine's lock is not for a hook to hold, should it outlive its cell.
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
echo "$2" > "$1/ask"
read -r answer < "$1/answer"
[ "$answer" = "done" ]
