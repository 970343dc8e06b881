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

step_times=() # of the steps of this script: seconds, a tab, what was done

# run_step TEXT COMMAND...: says what is done and how long it took; the command's output is shown as it comes.
run_step() {
  local text=$1 begin=$SECONDS
  shift
  say "$text ..."
  "$@" </dev/null || fail "$text: failed after $((SECONDS - begin)) s" "the command was: $*"
  step_times+=("$((SECONDS - begin))"$'\t'"$text")
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
  step_times+=("$((SECONDS - begin))"$'\t'"$text")
  say "$text: $((SECONDS - begin)) s"
}

# configure PRESET: CMake, after dropping precompiled headers that are older than an update of the system's headers. Those
# keep the dates of their packages, so Ninja sees no change, but clang does and refuses the precompiled header.
configure() {
  local preset=$1 header
  if [[ -d $source_dir/build/$preset ]]; then
    find "$source_dir/build/$preset" -name '*.pch' | while read -r header; do
      if [[ -n $(find /var/lib/dpkg/info -name '*-dev*.list' -newer "$header" -print -quit) ]]; then rm "$header"; fi
    done
  fi
  run_quietly "configuring build/$preset" cmake --preset "$preset" -DWEFT_LIBTORCH="$libtorch_dir"
}
