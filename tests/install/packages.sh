#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# packages.sh PACKAGES WORK: installs the Debian packages in the folder PACKAGES on a bare Debian below WORK, uses them there
# and removes them. Needs root and a Debian mirror; the bare Debian and what apt downloads are kept in WORK for the next time.
# Exit status 3: this machine lacks something.
set -uo pipefail
source_dir=$(dirname -- "$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")")
packages=$(realpath -- "$1") work=$(realpath -m -- "$2")
bare=$work/bare root=$work/root archives=$work/archives log=$work/log

lacks() {
  echo "packages: $*" >&2
  exit 3
}

# shellcheck disable=SC1091
. "$source_dir/tests/install/check.sh"
# shellcheck disable=SC1091
. "$source_dir/tests/install/bare.sh"
check_into "$log"
inside() { bare_run "$root" "$@"; }
apt_install() { bare_install "$root" "$@"; }

deb() { (cd "$root" && printf '/%s' tmp/"$1"_*.deb); } # a package's file, as seen inside
# shellcheck disable=SC2016 # dpkg-query's own variables
ours() { inside dpkg-query -W -f '${Package} ${db:Status-Status}\n' '*parley*' 2>/dev/null; }
# Whatever has our name and is neither package nor example, and of what our packages held, what belongs to no other now.
left_of_ours() {
  local path
  find "$root" -xdev -iname '*parley*' -not -path "$root/tmp/*" -not -path "$root/var/cache/apt/*"
  for deb in "$packages"/*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -t; done | sed 's|^\.||; s|/$||' | sort -u |
    while read -r path; do
      if [ -n "$path" ] && [ -e "$root$path" ]; then echo "$path"; fi
    done | { xargs -r dpkg-query --admindir="$root/var/lib/dpkg" -S >/dev/null; } 2>&1
}

# As action.yml does it. The folder of a release is /tmp.
release_installs() {
  (cd "$root/tmp" && sha256sum -- *.deb >SHA256SUMS)
  inside env PARLEY_RELEASE_URL=file:///tmp sh /tmp/install.sh "$@"
}
release_is_checked() {
  local log=$root/tmp/refused.log
  mkdir -p "$root/tmp/other"
  cp "$root"/tmp/libparley1_*.deb "$root/tmp/other/"
  (cd "$root/tmp/other" && sha256sum -- *.deb >SHA256SUMS && for deb in *.deb; do echo more >>"$deb"; done)
  ! inside env PARLEY_RELEASE_URL=file:///tmp/other sh /tmp/install.sh libparley1 >"$log" 2>&1 && grep -F "differs from SHA256SUMS" "$log" &&
    ! inside env PARLEY_RELEASE_URL=file:///tmp/other sh /tmp/install.sh parley-tools >"$log" 2>&1 && grep -F "has no package parley-tools" "$log"
}

command_works() {
  inside parley --version && inside parley sim run lossy_handshake &&
    inside parley sim list --json | grep -F '"/usr/share/parley/scenarios/lossy_handshake.toml"' &&
    [ -s "$root/usr/share/man/man1/parley-sim.1" ] && [ -s "$root/usr/share/parley/schema/common.json" ]
}

examples_work() {
  inside cmake -S /tmp/examples -B /tmp/by-cmake && inside cmake --build /tmp/by-cmake &&
    inside ctest --test-dir /tmp/by-cmake --output-on-failure --no-tests=error &&
    [ "$(inside ctest --test-dir /tmp/by-cmake -N | grep -c ': example\.')" = "$(find "$root/tmp/examples" -name '*.c*' -not -name '*.cmake' | wc -l)" ] &&
    inside sh -c "cc -std=c11 -D_GNU_SOURCE /tmp/examples/c_echo.c -o /tmp/c-by-pkg-config \$(pkg-config --cflags --libs parley-c)" &&
    inside /tmp/c-by-pkg-config &&
    inside sh -c "g++ -std=c++20 /tmp/examples/sim_connect.cpp -o /tmp/by-pkg-config \$(pkg-config --cflags --libs parley)" &&
    inside /tmp/by-pkg-config
}

# What packages of programs that link libparley.so.1 will depend on.
shlibs_are_told() {
  dpkg-deb -I "$(printf '%s' "$packages"/libparley1_*.deb)" shlibs | tee -a "$log" |
    grep -xE 'libparley 1 libparley1 \(>= [0-9]+\.[0-9]+\.[0-9]+-[0-9]+\)'
}

plugin_is_loaded() { inside tshark -G plugins 2>/dev/null | grep -E '^parley\.so\s.*/usr/lib/.*/epan/parley\.so'; }

python_module_is_loaded() { inside parley neg check-plugin /tmp/examples/neg_plugin.py; }

python_programs_run() { inside python3 /tmp/examples/python/echo.py && inside python3 /tmp/examples/python/judge.py; }

remove_all() {
  local left
  inside apt-get purge -y -q libparley-dev libparley1 python3-parley parley-python parley-tools parley-wireshark || return
  left=$(ours; left_of_ours)
  echo "$left"
  [ -z "$left" ]
}

bare_needs
mkdir -p "$work"
bare_use "$archives"
bare_make bookworm "$bare" "$log"
rm -rf "$root"
cp -a "$bare" "$root"
cp "$packages"/*.deb "$root/tmp/"
cp "$source_dir/.github/install.sh" "$root/tmp/"
cp -r "$source_dir/docs/examples" "$root/tmp/examples"

inside timeout 120 apt-get update -qq >"$log" 2>&1 || lacks "apt-get update failed in the bare Debian; is the mirror in reach?"
check "curl installs" apt_install curl ca-certificates
check "a package that differs from its checksum is refused" release_is_checked
check "parley-tools installs on a bare Debian, as in a workflow" release_installs parley-tools
check "the command runs and has its scenarios" command_works
check "parley-wireshark installs" apt_install "$(deb parley-wireshark)" tshark
check "tshark loads the plugin" plugin_is_loaded
check "parley-python installs" apt_install "$(deb parley-python)"
check "a plug-in in Python negotiates with itself" python_module_is_loaded
check "libparley1 tells what depends on it to" shlibs_are_told
check "libparley-dev installs" apt_install "$(deb libparley1)" "$(deb libparley-dev)" g++ make cmake pkg-config \
  libboost-dev libgtest-dev
check "the examples build there and run" examples_work
check "python3-parley installs" apt_install "$(deb python3-parley)"
check "programs in Python run" python_programs_run
check "all are removed, and nothing is left" remove_all
rm -rf "$root"
checks_end
