#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# versions.sh WORK [SUITE...]: builds the Wireshark plugin in the Debian of each suite (those of dissectors/versions.txt), with
# that Debian's compiler and Wireshark, and runs the plugin's tests there. The Debians are kept in WORK for the next time.
# With PARLEY_ENGINE (a build's dissectors/engine.link) that compiler compiles the C files alone, and links the engine in it.
# Exit status 3: this machine lacks something.
set -uo pipefail
source_dir=$(dirname -- "$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")")
work=$(realpath -m -- "$1")
shift
# What reads no more than the plugin and tshark.
tests=(gaps judgement messages neg ib ib_captures ib_conn robust)

lacks() {
  echo "wireshark: $*" >&2
  exit 3
}
# shellcheck disable=SC1091
. "$source_dir/tests/install/check.sh"
# shellcheck disable=SC1091
. "$source_dir/tests/install/bare.sh"

# An unstable suite's mirror may be older than its Release file allows, and it is only read from here.
make_root() { # suite
  bare_make "$1" "$root" "$work/$1.log"
  if [ -e "$root/has-wireshark" ]; then return; fi
  { bare_run "$root" timeout 120 apt-get -o Acquire::Check-Valid-Until=false update -qq &&
    bare_install "$root" wireshark-dev tshark cmake ninja-build pkg-config g++ libexpected-dev libfmt-dev libisal-dev python3; } >"$work/$1.log" 2>&1 ||
    { tail -n 5 "$work/$1.log" >&2; lacks "Wireshark could not be installed in the bare Debian ($1)"; }
  touch "$root/has-wireshark"
}

# The engine as it was compiled here, with the shared libraries that it was compiled for, under the names that programs ask for.
bring_engine() { # root
  local file name
  rm -rf "$1/tmp/engine"
  mkdir "$1/tmp/engine"
  while read -r file; do
    name=$(basename -- "$file")
    [[ $file == *.a ]] || name=$(readelf -d -- "$file" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
    cp -L -- "$file" "$1/tmp/engine/$name"
    echo "/tmp/engine/$name"
  done <"$PARLEY_ENGINE" >"$1/tmp/engine/engine.link"
}

try() { # version, suite
  local root=$work/$2 test engine=
  make_root "$2"
  if [ -n "${PARLEY_ENGINE:-}" ]; then
    bring_engine "$root"
    engine=/tmp/engine/engine.link
  fi
  check_into "$work/$2.log"
  check "$1: the plugin builds without a warning" \
    bare_run "$root" sh -c "cmake -S /src/dissectors -B /tmp/plugin -G Ninja -DPARLEY_ENGINE=$engine && ninja -C /tmp/plugin &&
      gcc -Wall -Wextra -Werror -shared -fPIC -o /tmp/fork_at_open.so /src/tests/dissectors/fork_at_open.c" || return
  for test in "${tests[@]}"; do
    check_into "$work/$2.$test.log"
    check "$1: $test" bare_run "$root" env PARLEY_PLUGIN=/tmp/plugin/dissectors/parley.so \
      PARLEY_TSHARK=/usr/bin/tshark PARLEY_PLUGIN_API="$1" PARLEY_FORK=/tmp/fork_at_open.so PARLEY_THIN=9 python3 -B "/src/tests/dissectors/${test}_test.py"
  done
}

bare_needs
bare_use "$work/archives" "$source_dir"
while read -r version suite; do
  if [ $# = 0 ] || [[ " $* " == *" $suite "* ]]; then try "$version" "$suite"; fi
done < <(grep -v '^#' "$source_dir/dissectors/versions.txt")
checks_end
