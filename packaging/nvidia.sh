# Sourced by bootstrap: NVIDIA's libraries and headers for libtorch, from the wheels of cuda-wheels.txt.
# shellcheck shell=bash

# Where libtorch's libraries look for NVIDIA's, and where pip puts them.
nvidia_dir=$(dirname "$libtorch_dir")/nvidia

# wheel_of NAME VERSION: the wheel of a distribution among the downloaded ones; another platform or version may lie beside it.
wheel_of() {
  local wheels
  wheels=("$wheel_dir/${1//-/_}-$2"-*.whl)
  [[ -e ${wheels[0]} ]] || fail "bootstrap: the wheel of $1 $2 is not in $wheel_dir"
  if ((${#wheels[@]} > 1)); then
    fail "bootstrap: there are ${#wheels[@]} wheels of $1 $2 in $wheel_dir, for different platforms: ${wheels[*]##*/}" \
      "Remove all but that of this machine"
  fi
  printf '%s' "${wheels[0]}"
}

# lacking_libraries: the libraries that libtorch's CUDA libraries need and the system does not find.
lacking_libraries() {
  ldd "$libtorch_dir/lib/libtorch_cuda.so" "$libtorch_dir/lib/libtorch_cuda_linalg.so" | awk '/=> not found/ { print $1 }' | sort -u
}

# lacking_headers cuda|nccl [LIBTORCH]: which headers the build would miss beside this libtorch; nothing if it has all of them.
lacking_headers() {
  cmake -DWEFT_LIBTORCH="${2:-$libtorch_dir}" -DWHAT="$1" -P "$source_dir/cmake/print-lacking-headers.cmake" 2>&1
}

# lacking: all that is missing, in one line.
lacking() {
  local libraries parts=()
  libraries=$(lacking_libraries)
  if [[ -n $libraries ]]; then parts+=("${libraries//$'\n'/ }"); fi
  mapfile -t -O "${#parts[@]}" parts < <(lacking_headers cuda)
  mapfile -t -O "${#parts[@]}" parts < <(lacking_headers nccl)
  if ((${#parts[@]} == 0)); then return; fi
  printf '%s' "${parts[0]}"
  if ((${#parts[@]} > 1)); then printf ', %s' "${parts[@]:1}"; fi
}

# wanted_cuda_wheels: the lines of cuda-wheels.txt without those that the system serves. What is in nvidia/ does not count: the wheels
# take its place.
wanted_cuda_wheels() {
  local line library found lacks cuda nccl elsewhere
  found=$(/sbin/ldconfig -p)
  elsewhere=$(mktemp -d)
  cuda=$(lacking_headers cuda "$elsewhere/libtorch")
  nccl=$(lacking_headers nccl "$elsewhere/libtorch")
  rmdir "$elsewhere"
  while read -r line; do
    if [[ $line == \#* ]]; then continue; fi
    library=${line##*# }
    lacks=$cuda
    if [[ $line == nvidia-nccl-* ]]; then lacks=$nccl; fi
    if [[ -z $lacks && ($library != lib* || $found == *"$library "*) ]]; then continue; fi
    printf '%s\n' "$line"
  done <"$source_dir/packaging/cuda-wheels.txt"
}

# unpack_cuda TARGET NAME==VERSION...: the wheels of these distributions.
unpack_cuda() {
  local target=$1 name wheel
  shift
  for name in "$@"; do
    wheel=$(wheel_of "${name%%==*}" "${name##*==}") || return 1
    unzip -q -o -d "$target" "$wheel" 'nvidia/*' || return 1
  done
}

install_cuda() {
  local missing temporary names library
  for library in libtorch_cuda.so libtorch_cuda_linalg.so; do
    [[ -e $libtorch_dir/lib/$library ]] || fail "bootstrap: the libtorch in $libtorch_dir is for the CPU alone: lib/$library is not there" \
      "Unset WEFT_LIBTORCH to have libtorch $torch_version for CUDA 13 unpacked in $cache_dir, or point it at one"
  done
  missing=$(lacking)
  if [[ -z $missing ]]; then
    say "NVIDIA's libraries for libtorch $torch_version: all there"
    return
  fi
  if [[ -e $nvidia_dir && -n ${WEFT_LIBTORCH:-} ]]; then
    fail "bootstrap: the libtorch of WEFT_LIBTORCH lacks $missing, and $nvidia_dir is not this script's to change" \
      "Install into it with pip what packaging/cuda-wheels.txt lists"
  fi
  temporary=$(mktemp -d "$cache_dir/nvidia.XXXXXX")
  # shellcheck disable=SC2064 # the name of now
  trap "rm -rf '$temporary'" EXIT
  wanted_cuda_wheels >"$temporary/wheels.txt"
  mapfile -t names < <(cut -d' ' -f1 "$temporary/wheels.txt")
  download_wheels "$temporary/wheels.txt" "${#names[@]} of NVIDIA's wheels (${names[*]})"
  run_quietly "unpacking them to $nvidia_dir" unpack_cuda "$temporary" "${names[@]}"
  chmod 755 "$temporary/nvidia"
  if [[ -e $nvidia_dir ]]; then mv -T "$nvidia_dir" "$temporary/before"; fi
  mv -T "$temporary/nvidia" "$nvidia_dir"
  missing=$(lacking)
  [[ -z $missing ]] || fail "bootstrap: libtorch still lacks $missing" \
    "Neither the wheels in $nvidia_dir nor the system's own libraries (ldconfig -p) and headers have them"
}
