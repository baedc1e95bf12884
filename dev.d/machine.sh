# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# What a command of ./dev needs of the machine: packages, disk and memory. Checked before anything is compiled; what is missing
# is said in one sentence, with what to do. ./dev sources this file.

OTHER_SYSTEMS="docs/install.md, Other systems"

system_name() {
  local name
  name=$(sed -n 's/^PRETTY_NAME="\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' /etc/os-release 2>/dev/null) || true
  echo "${name:-this system}"
}

# Without apt-get nothing is installed: what is there must do. CMake names a library that is missing.
SAID_WITHOUT_APT=
need_without_apt() {
  local program missing=()
  for program in c++ cmake ninja pkg-config; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
  [ ${#missing[@]} = 0 ] ||
    die 3 "$(system_name) has no apt-get: install ${missing[*]} and the libraries ($OTHER_SYSTEMS), or use a container of Debian 12"
  [ -n "$SAID_WITHOUT_APT" ] ||
    echo "dev: $(system_name) has no apt-get: going on with what is installed ($OTHER_SYSTEMS)" >&2
  SAID_WITHOUT_APT=yes
}

# why_not_installed LOG PACKAGE...: the reason in apt-get's output, and what to do about it.
why_not_installed() {
  local log=$1 unknown
  shift
  if grep -qE 'Temporary failure resolving|ould not resolve|ould not connect|Unable to connect|Network is unreachable|No route to host|onnection (timed out|failed)' "$log"; then
    echo "no network: apt-get reaches no mirror; connect this machine or set http_proxy and run this again, or install: $*"
  elif grep -q 'enough free space' "$log"; then
    echo "the disk of /var and /usr has no room for packages; free some, then: apt-get install $*"
  elif unknown=$(sed -nE "s/^E: (Unable to locate package|Package) '?([a-z0-9.+-]+)('? has no installation candidate)?$/\\2/p" "$log" |
    sort -u | paste -sd ' ') && [ -n "$unknown" ]; then
    echo "$(system_name) has no package $unknown; ./dev installs those of Debian 12, and $OTHER_SYSTEMS has what to install elsewhere"
  else
    echo "apt-get could not install $*: $(sed -n 's/^E: //p' "$log" | head -n 1)"
  fi
}

need() { # packages...
  local package installed missing=() sudo=() log
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    need_without_apt
    return
  fi
  installed=$'\n'$(dpkg-query -W -f '${Package}=${db:Status-Status}\n' "$@" 2>/dev/null || true)$'\n'
  for package in "$@"; do
    [[ $installed == *$'\n'"$package=installed"$'\n'* ]] || missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die 3 "not root and no sudo; as root: apt-get install ${missing[*]}"
    sudo -- true || die 3 "sudo refuses; as root: apt-get install ${missing[*]}"
    sudo=(sudo --)
  fi
  say "installing Debian packages: ${missing[*]}"
  log=$(mktemp)
  # An update that reaches no mirror succeeds with warnings; with those the installation fails.
  "${sudo[@]}" env LC_ALL=C apt-get update -qq >"$log" 2>&1 || true
  "${sudo[@]}" env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    >>"$log" 2>&1 || {
    package=$(why_not_installed "$log" "${missing[@]}")
    rm -f "$log"
    die 3 "$package"
  }
  rm -f "$log"
}

# MiB that a command leaves in the build folder, with some to spare; for commands that are not named nothing is known.
declare -A DISK_OF=(["test"]=9500 ["test --quick"]=2000 ["demo"]=400 ["build"]=2000 ["lint"]=2000 ["install"]=900
  ["packages"]=1000 ["stress"]=3500)

# Before a command compiles: disk and memory.
need_room() { # command
  need_disk "$1" "${DISK_OF[$1]:-100}"
  set_unity "$(unity_files "$UNITY_FILES")"
  fit_memory
}

# A linker that writes to a full disk may die of a bus error, so the check is before an hour's work.
need_disk() { # what, MiB that all of it takes from nothing
  local free have
  mkdir -p "$BUILD"
  free=$(df --output=avail --block-size=1M "$BUILD" | tail -n 1)
  have=$(du -sm "$BUILD" 2>/dev/null | cut -f 1) || true # folders of others that this user may not read
  have=${have:-0}
  [ $((free + have)) -ge "$2" ] ||
    die 3 "./dev $1 takes $2 MiB of disk; $BUILD has $((have)) MiB, and $((free)) MiB are free. PARLEY_BUILD names another folder"
}

# MiB for one compiler of 24 files (measured: 1040), and of FEW_FILES files (700).
JOB_MIB=1400 FEW_FILES=4 FEW_JOB_MIB=800

# How many files are compiled as one. A build folder keeps its number: with another one all is compiled again.
unity_files() { # number for a new folder
  local files=${PARLEY_UNITY_FILES:-$(cached "$BUILD" PARLEY_UNITY_FILES)}
  echo "${files:-$1}"
}

# Of tests all of a room's, where memory has room for such compilers (measured: 2904 MiB) and nobody says another number.
TEST_FILES=96 TEST_JOB_MIB=3200
unity_test_files() { # number of files of a room
  local files
  files=${PARLEY_UNITY_FILES:-$(cached "$BUILD" PARLEY_UNITY_TEST_FILES)}
  if [ -z "$files" ]; then
    files=$1
    [ "$1" -lt "$UNITY_FILES" ] || [ "$(available_memory)" -lt $((JOBS * TEST_JOB_MIB)) ] || files=$TEST_FILES
  fi
  echo "$files"
}

# MiB of memory and swap that can be used, at most the limit of a container.
available_memory() {
  { cat /proc/meminfo /sys/fs/cgroup/memory.max 2>/dev/null || true; } | awk '
    /^(MemAvailable|SwapFree):/ { kib += $2 }
    /^[0-9]+$/ { limit = $1 / 1024 }
    END { if (limit && limit < kib) kib = limit; printf "%d", kib / 1024 }'
}

# As many compilers at once as memory has room for, unless PARLEY_JOBS says how many.
fit_memory() {
  local mib job=$JOB_MIB
  [ -z "${PARLEY_JOBS:-}" ] || return 0
  [ "$(cached "$BUILD" PARLEY_UNITY_TEST_FILES)" != $TEST_FILES ] || job=$TEST_JOB_MIB # the folder keeps its number
  mib=$(available_memory)
  [ "$mib" -lt $((JOBS * job)) ] || return 0
  [ "$mib" -ge $FEW_JOB_MIB ] ||
    die 3 "$mib MiB of memory are available, and a compiler needs $FEW_JOB_MIB: end programs or add swap; PARLEY_JOBS=1 tries it all the same"
  JOBS=$((mib >= job ? mib / job : 1))
  [ "$mib" -ge $JOB_MIB ] || set_unity "$(unity_files $FEW_FILES)"
  echo "dev: $mib MiB of memory are available: compiling with $JOBS at a time, which takes longer; PARLEY_JOBS names another number" >&2
}
