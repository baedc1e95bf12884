# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# shellcheck shell=bash
# Bare Debians to try things in; to be sourced. Needs root, debootstrap and a Debian mirror.
#
# The sourcing script has a function `lacks`, which says its words and ends with status 3.

BARE_ARCHIVES='' BARE_SOURCE=''
bare_use() { # where apt keeps what it downloads[, what is seen read-only as /src]
  BARE_ARCHIVES=$1 BARE_SOURCE=${2:-}
  mkdir -p "$1/partial"
}

bare_needs() {
  [ "$(id -u)" = 0 ] || lacks "only root can make a Debian to install on"
  command -v debootstrap >/dev/null || lacks "no debootstrap"
  unshare --mount --fork true 2>/dev/null || lacks "no mounts of our own are allowed here"
}

# Makes one, once. The mirror is debootstrap's own choice, or the one named.
bare_make() { # suite, folder, log
  if [ -e "$2/done" ]; then return; fi
  rm -rf "$2"
  mkdir -p "$(dirname -- "$2")"
  timeout 300 debootstrap --variant=minbase "$1" "$2" ${PARLEY_DEBIAN_MIRROR:+"$PARLEY_DEBIAN_MIRROR"} >"$3" 2>&1 ||
    { tail -n 5 "$3" >&2; lacks "no bare Debian ($1) could be made; is a mirror in reach?"; }
  touch "$2/done"
}

# Runs a command in there. The mounts are gone with the namespace that they were made in.
bare_run() { # root, command...
  # shellcheck disable=SC2016 # the inner shell expands it
  unshare --mount --fork -- sh -c 'mount -t proc proc "$0/proc" && mount --bind "$1" "$0/var/cache/apt/archives" &&
    { [ -z "$2" ] || { mkdir -p "$0/src" && mount --bind -o ro "$2" "$0/src"; }; } && root=$0 && shift 2 &&
    exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
      http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" DEBIAN_FRONTEND=noninteractive "$@"' \
    "$1" "$BARE_ARCHIVES" "$BARE_SOURCE" "${@:2}"
}

bare_install() { # root, packages...
  bare_run "$1" timeout 300 apt-get install -y -q --no-install-recommends -o APT::Keep-Downloaded-Packages=true \
    -o Dpkg::Options::=--force-unsafe-io "${@:2}"
}
