#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# libraries_only.sh SOURCE WORK: what a build with PARLEY_TOOLS=OFF compiles and needs. It is configured as if the packages that
# only the command needs were not there; nothing is compiled.
set -eu
source=$1 work=$2
rm -rf "$work"
trap 'rm -rf "$work"' EXIT
cmake -S "$source" -B "$work" -G Ninja -DPARLEY_TESTS=OFF -DPARLEY_TOOLS=OFF -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON \
  -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON >"$work.log" 2>&1 || { cat "$work.log"; exit 1; }
fail() { echo "PARLEY_TOOLS=OFF: $*" >&2; exit 1; }
grep -q 'PARLEY_TOOLS is off' "$work.log" || fail "cmake does not say that the command is left out"
grep -q '^CRYPTO_FOUND' "$work/CMakeCache.txt" && fail "libcrypto is looked for, which only the command needs"
ninja -C "$work" -t commands all >"$work/commands"
for made in libparley-cxx.a libparley.so.1 libparley.a man3; do
  grep -q "$made" "$work/commands" || fail "ninja does not make $made"
done
for folder in tools ops conform tester replay preload drivers/pcap drivers/python; do
  if grep -q "/$folder/[a-z_/]*\.cpp" "$work/commands"; then fail "ninja compiles $folder, which the libraries do not use"; fi
done
grep -q 'include/parley' "$work/cmake_install.cmake" || fail "the headers are not installed"
for component in tools wireshark python; do
  if grep -q "COMPONENT STREQUAL \"$component\"" "$work/cmake_install.cmake"; then fail "the component $component is installed"; fi
done
echo "PARLEY_TOOLS=OFF: $(grep -c '\.cpp\.o -c ' "$work/commands") files to compile, none of the command's"
