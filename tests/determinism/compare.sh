#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# Same scenario, same seed: the same octets, whoever compiled the code.
#
#   compare.sh SCENARIOS NAME=PROGRAM NAME=PROGRAM...   each PROGRAM is a build of sim_hashes
#
# Exit status: 0 all builds print the same hashes, 1 they differ (the first differences are shown), 2 usage, 3 a
# program is not there.
set -euo pipefail

[ $# -ge 3 ] || { sed -n '4,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
directory=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scenarios=("$directory"/*.toml)
[ -e "${scenarios[0]}" ] || { echo "compare: no scenario in $directory" >&2; exit 3; }

# Every second program goes through the scenarios backwards: what one world leaves behind would show in the next.
backwards=()
for scenario in "${scenarios[@]}"; do backwards=("$scenario" "${backwards[@]}"); done

names=()
for pair in "$@"; do
  name=${pair%%=*} program=${pair#*=}
  [ -x "$program" ] || { echo "compare: $program is not there" >&2; exit 3; }
  order=("${scenarios[@]}")
  if [ $((${#names[@]} % 2)) = 1 ]; then order=("${backwards[@]}"); fi
  "$program" "${order[@]}" >"$work/unsorted" || { echo "compare: $name failed with status $?" >&2; exit 1; }
  sort "$work/unsorted" >"$work/$name"
  names+=("$name")
done

passed=0 failed=0
for name in "${names[@]:1}"; do
  if differences=$(diff "$work/${names[0]}" "$work/$name"); then
    echo "determinism: ${names[0]} and $name: $(wc -l <"$work/$name") lines of hashes are the same"
    passed=$((passed + 1))
  else
    echo "determinism: ${names[0]} (<) and $name (>) differ:"
    head -20 <<<"$differences"
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
