#!/bin/sh
# Keeps a streaming job running that exits for a new bound (mode Restart, run_and_exit):
#
#   keep-running.sh spark-submit --conf spark.tidemark.job=shop ... job.py
#
# The command's exit code decides what follows. 75: it ended between two batches for a new bound and is started again at
# once. 0: it is done, and this script ends too. Any other code is a failure: it is started again after a pause that
# doubles from FIRST_PAUSE (5) to LONGEST_PAUSE (300) seconds, and is reset once the job has run for LONGEST_PAUSE.
# MAX_FAILURES (0: no limit) failures in a row end this script with the job's code. SIGTERM and SIGINT are passed on to
# the job, and then nothing is started again.
set -u

new_bound=75
first_pause=${FIRST_PAUSE:-5}
longest_pause=${LONGEST_PAUSE:-300}
max_failures=${MAX_FAILURES:-0}

if [ "$#" = 0 ]; then
    echo "keep-running: no command given; usage: keep-running.sh spark-submit ... job.py" >&2
    exit 2
fi

stopped=
job=
# shellcheck disable=SC2317,SC2329 # the trap calls it
stop() {
    stopped=yes
    [ -z "$job" ] || kill -TERM "$job" 2>/dev/null
}
trap stop TERM INT

failures=0
pause=$first_pause
while [ -z "$stopped" ]; do
    started=$(date +%s)
    "$@" &
    job=$!
    # A signal may have come before the job existed, and a job that has just begun might miss it.
    [ -z "$stopped" ] || { sleep 1 && stop; }
    # A signal ends a wait early: wait until the job itself has ended.
    while :; do
        wait "$job"
        code=$?
        kill -0 "$job" 2>/dev/null || break
    done
    job=
    [ -z "$stopped" ] || break
    case $code in
        0) exit 0 ;;
        "$new_bound")
            echo "keep-running: a new bound; starting again" >&2
            failures=0
            pause=$first_pause
            continue
            ;;
    esac
    if [ $(($(date +%s) - started)) -ge "$longest_pause" ]; then
        failures=0
        pause=$first_pause
    fi
    failures=$((failures + 1))
    if [ "$max_failures" -gt 0 ] && [ "$failures" -ge "$max_failures" ]; then
        echo "keep-running: $failures failures in a row, the last with code $code; giving up" >&2
        exit "$code"
    fi
    echo "keep-running: failed with code $code; starting again in $pause s" >&2
    left=$pause
    while [ -z "$stopped" ] && [ "$left" -gt 0 ]; do
        sleep 1
        left=$((left - 1))
    done
    pause=$((pause * 2))
    [ "$pause" -le "$longest_pause" ] || pause=$longest_pause
done
exit "${code:-0}"
