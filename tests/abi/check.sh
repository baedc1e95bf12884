#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# check.sh CC INCLUDE MAP BASELINE: the binary interface of libparley.so is the reviewed one. It is read from a library that is
# made of parley.h, xrc.h and mad.h alone, with empty functions, so that the baseline holds C's types and nothing of the inside; that
# libparley.so exports what they declare, tests/install/run.sh looks after. With PARLEY_REWRITE=1 the baseline is written
# anew: what was added is fine under the same major version, anything that was changed or removed needs another.
set -eu
cc=$1 include=$2 map=$3 baseline=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '#include <parley/%s.h>\n' xrc mad >"$work/stub.c"
cat "$include/parley/parley.h" "$include/parley/xrc.h" "$include/parley/mad.h" | grep -v '^ *[#*]' | tr '\n' ' ' | grep -o 'PARLEY_API [^;]*;' | grep '(' | sed 's/;$/ { return 0; }/' >>"$work/stub.c"
"$cc" -std=c11 -g -fPIC -shared -fvisibility=hidden -w -I "$include" -Wl,--version-script="$map" -Wl,-soname,libparley.so.1 \
  -o "$work/libparley.so" "$work/stub.c"
abidw --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed --type-id-style hash --out-file "$work/now" "$work/libparley.so"
sed -i "s|path='[^']*stub.c'|path='parley.h'|g" "$work/now"
if [ "${PARLEY_REWRITE:-}" = 1 ]; then cp "$work/now" "$baseline"; fi
abidiff --no-architecture "$baseline" "$work/now" || {
  echo "the binary interface is not that of $baseline; if that is meant, PARLEY_REWRITE=1 writes it anew" >&2
  exit 1
}
