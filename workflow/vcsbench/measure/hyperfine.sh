# shellcheck shell=sh
# hyperfine runs this as --setup, --prepare and --cleanup. It asks the process that measures to do one
# of them, and waits for the answer. It is a shell script because its interpreter is not read again
# after the caches were dropped.
# usage: hyperfine.sh FOLDER setup|prepare|cleanup
# A hook that outlives its cell must not hold the lock of the machine.
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
echo "$2" > "$1/ask"
read -r answer < "$1/answer"
[ "$answer" = "done" ]
