#!/bin/sh
# A worker in shell: gives the params of each task to COMMAND, and returns what COMMAND prints. Needs curl and jq.
#
#   TASKMANAGER_API_URL=https://host:8000/api LONGSHORE_API_KEY=lsk_... sh worker.sh TYPE COMMAND [ARGUMENT...]
#
# COMMAND reads JSON and prints JSON. If it fails, what it wrote to standard error is the error of the task.
# Ctrl-C lets the task under way finish.
set -u
type=$1 && shift
url=${TASKMANAGER_API_URL:?is the URL of the server} worker=${WORKER_ID:-$(uname -n)-$$} seconds=${LEASE_SECONDS:-60}
umask 077
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
trap 'touch "$dir/drain"' INT TERM
# In a file, because the list of processes shows the arguments of curl.
printf 'Authorization: Bearer %s\nContent-Type: application/json\n' "${LONGSHORE_API_KEY:?is your key}" >"$dir/headers"
say() { echo "$(date -u +%FT%TZ) $worker: $*" >&2; }

post() { # PATH NAME: sends NAME.json; the answer is in NAME.out, and $status is 000 if the server is away
    status=$(curl -s -m 60 -o "$dir/$2.out" -w '%{http_code}' -H "@$dir/headers" -d "@$dir/$2.json" "$url/tasks/$1")
    status=${status:-000}
}
finish() { # waits for process $1 and returns its code; a signal ends `wait` too early
    wait "$1"
    ended=$?
    while [ $ended -gt 128 ] && kill -0 "$1" 2>/dev/null; do wait "$1"; ended=$?; done
    return $ended
}
make() { "$@" & finish $!; } # runs a command that Ctrl-C does not reach, because it runs in the background
renew() { # keeps the lease alive while COMMAND, which is process $1, runs
    while sleep $(((seconds + 2) / 3)) && kill -0 $$; do # not longer than this worker lives
        post "$id/renew" renew
        case $status$([ "$status" = 200 ] && jq -r '.order // ""' "$dir/renew.out") in
            200drain) touch "$dir/drain" ;;
            200stop) touch "$dir/drain" "$dir/stop" && kill "$1" ;;
            409) touch "$dir/lost" && kill "$1" ;;
        esac
    done
}
settle() { # VERB: sends settle.json again and again, until the server has answered
    post "$id/$1" settle
    case $status in
        200) say "$1: task $id" ;;
        409) say "lost lease: task $id went to another worker" ;;
        000 | 429 | 5??) say "the server does not answer ($status)" && sleep 2 && settle "$1" ;;
        *) [ "$1" = fail ] && say "refused ($status): task $id" && return
            make jq "{lease: $lease, error: .detail, retryable: false}" "$dir/settle.out" >"$dir/settle.json" && settle fail ;;
    esac
}
attempt() { # COMMAND [ARGUMENT...]
    make jq -r '.id, (.lease | @json)' "$dir/claim.out" >"$dir/claimed"
    { read -r id && read -r lease; } <"$dir/claimed"
    say "claimed task $id"
    rm -f "$dir/lost" "$dir/stop"
    echo "{\"lease\": $lease, \"lease_seconds\": $seconds}" >"$dir/renew.json"
    jq .params "$dir/claim.out" | "$@" >"$dir/result" 2>"$dir/error" &
    work=$!
    renew $work >/dev/null 2>&1 &
    renewal=$!
    finish $work
    code=$?
    kill $renewal
    if [ -e "$dir/lost" ]; then
        say "lost lease: task $id went to another worker"
    elif [ -e "$dir/stop" ]; then
        echo "{\"lease\": $lease}" >"$dir/settle.json" && settle release
    elif [ $code = 0 ] && make jq -s "{lease: $lease, result: .[0]}" "$dir/result" >"$dir/settle.json" 2>"$dir/error"; then
        settle complete
    else
        make jq -Rs "{lease: $lease, error: (.[-2000:] + \"exit code $code\")}" "$dir/error" >"$dir/settle.json" && settle fail
    fi
}
jq -n --arg worker "$worker" --arg type "$type" --argjson seconds "$seconds" \
    '{worker_id: $worker, types: [$type], lease_seconds: $seconds, wait_seconds: 20}' >"$dir/claim.json"
until [ -e "$dir/drain" ]; do
    post claim claim
    case $status in
        200) attempt "$@" ;;
        204) ;; # no task within wait_seconds
        410) say "asked to end" && break ;;
        000 | 429 | 5??) [ -e "$dir/drain" ] || { say "the server does not answer ($status)" && sleep "${POLL_INTERVAL:-10}"; } ;;
        *) say "refused ($status): $(jq -r .detail "$dir/claim.out")" && exit 1 ;;
    esac
done
say "stopping"
