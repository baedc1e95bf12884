#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# tests/fuzz/run.sh [seconds-per-target] [target...]
# Builds the libFuzzer targets with clang++, AddressSanitizer and UndefinedBehaviorSanitizer and runs each for 30 s (or
# as told), from the checked-in corpus. Fails on any crash, leak, input over 5 s, or memory over 2 GiB; the input is kept
# beside the executables. New inputs go to a folder of the build, never to the source tree.
# PARLEY_FUZZ_BUILD: the build folder (default build-fuzz), configured for the fuzzers alone unless it is there already;
# PARLEY_FUZZ_JOBS: compilers, and then fuzzers, at once. PARLEY_FUZZ_SEED: where each begins, so that a commit is judged
# alike each time; a new one for each run if it is not set.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
build=${PARLEY_FUZZ_BUILD:-$source/build-fuzz}
seconds=${1:-30}
[ $# -eq 0 ] || shift
[ $# -ne 0 ] || set -- startup deframer mad mad_text ssa acm rdmap roce ibcm neg xrc pcap anonymize frame_reader replay scenario host config http

if [ ! -f "$build/CMakeCache.txt" ]; then
  generator=
  ! command -v ninja >/dev/null || generator="-G Ninja"
  # shellcheck disable=SC2086
  cmake -S "$source" -B "$build" $generator -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER=clang++ \
    -DCMAKE_C_COMPILER=clang -DPARLEY_FUZZ=ON -DPARLEY_SANITIZE=ON -DPARLEY_TESTS=OFF -DPARLEY_BENCH=OFF >/dev/null
elif ! grep -q '^PARLEY_FUZZ:BOOL=ON' "$build/CMakeCache.txt"; then
  echo "run.sh: $build is a build without fuzzers; name another in PARLEY_FUZZ_BUILD, or configure it with -DPARLEY_FUZZ=ON" >&2
  exit 2
fi
targets=
for name; do targets="$targets fuzz_$name"; done
# shellcheck disable=SC2086
cmake --build "$build" -j "${PARLEY_FUZZ_JOBS:-$(nproc)}" --target $targets

# One line with its verdict; the log only if it failed.
run_one() {
  name=$1
  grown=$build/fuzz-corpus/$name
  mkdir -p "$grown"
  dictionary=
  [ ! -f "$source/tests/fuzz/$name.dict" ] || dictionary=-dict=$source/tests/fuzz/$name.dict
  log=$build/fuzz_$name.log
  verdict=passed
  # shellcheck disable=SC2086
  "$build/tests/fuzz/fuzz_$name" -seed="${PARLEY_FUZZ_SEED:-0}" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 -max_len=8192 \
    -print_final_stats=1 -artifact_prefix="$build/fuzz_${name}_" $dictionary "$grown" \
    "$source/tests/fuzz/corpus/$name" >"$log" 2>&1 || verdict=FAILED
  [ $verdict = passed ] || tail -n 40 "$log"
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  printf 'fuzz %-12s %s s, %s executions: %s\n' "$name" "$seconds" "${executions:-0}" "$verdict"
  [ $verdict = passed ]
}

failed=
running=
collect() {
  for job in $running; do
    wait "${job%%:*}" || failed="$failed ${job#*:}"
  done
  running=
}
# As many at once as there are processors.
at_once=0
for name; do
  run_one "$name" &
  running="$running $!:$name"
  at_once=$((at_once + 1))
  [ $((at_once % ${PARLEY_FUZZ_JOBS:-$(nproc)})) -ne 0 ] || collect
done
collect
[ -z "$failed" ] || { printf 'failed:%s; inputs are in %s\n' "$failed" "$build"; exit 1; }
