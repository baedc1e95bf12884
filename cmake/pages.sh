#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# pages.sh PARLEY VERSION DIRECTORY: what the program itself tells best, as files: a manual page for each command, and the
# completion of both shells.
set -eu
parley=$1 version=$2 out=$3 here=$(dirname -- "$0")

subcommands() { # command...
  "$parley" help "$@" | awk '/^Subcommands:$/ { on = 1; next } /^ *$/ { on = 0 } on { print $1 }'
}
explained() { # command...: it, and all below it
  "$parley" help "$@"
  for sub in $(subcommands "$@"); do (explained "$@" "$sub"); done
}

rm -rf "$out"
mkdir -p "$out/man1" "$out/bash" "$out/zsh"
for command in $(subcommands); do
  explained "$command" >"$out/help"
  awk -v page="parley-$command" -v version="$version" -f "$here/manual.awk" "$out/help" >"$out/man1/parley-$command.1"
done
rm "$out/help"
"$parley" completion bash >"$out/bash/parley"
"$parley" completion zsh >"$out/zsh/_parley"
