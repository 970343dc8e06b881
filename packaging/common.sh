# Sourced by the scripts of this folder: where things are, and how a step reports itself.
# shellcheck shell=bash disable=SC2034

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache_dir=${WEFT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/weft}
wheel_dir=$cache_dir/wheels
torch_version=2.11.0
libtorch_dir=$(realpath -m "${WEFT_LIBTORCH:-$cache_dir/libtorch-$torch_version}")
system_python=/usr/bin/python3 # Debian's, whose version the pinned wheels are for

# say TEXT: one line of progress. It goes to stderr, so that a script's stdout stays its answer.
say() { printf '[weft] %s\n' "$*" >&2; }

# fail TEXT [LINE...]: the first line is whole in itself, the others say what to do.
fail() {
  printf 'weft: %s\n' "$1" >&2
  shift
  if (($# > 0)); then printf '      %s\n' "$@" >&2; fi
  exit 1
}

# run_step TEXT COMMAND...: says what is done and how long it took; the command's output is shown as it comes.
run_step() {
  local text=$1 begin=$SECONDS
  shift
  say "$text ..."
  "$@" </dev/null || fail "$text: failed after $((SECONDS - begin)) s" "the command was: $*"
  say "$text: $((SECONDS - begin)) s"
}

# run_quietly TEXT COMMAND...: the same, but the output is shown only when the command fails.
run_quietly() {
  local text=$1 begin=$SECONDS log
  shift
  log=$(mktemp)
  say "$text ..."
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 60 "$log" >&2
    rm -f "$log"
    fail "$text: failed after $((SECONDS - begin)) s" "the command was: $*"
  fi
  rm -f "$log"
  say "$text: $((SECONDS - begin)) s"
}
