#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# install.sh PACKAGE...: installs Debian packages of a release, after it has compared them with the release's SHA256SUMS. PARLEY_RELEASE_URL
# is the folder of the release's files. action.yml calls this; it works in every Debian 12 with a network and root.
set -eu
fail() {
  echo "parley: $*" >&2
  exit 3
}
url=${PARLEY_RELEASE_URL:?"the folder of the release's files is not given"}
[ $# -gt 0 ] || fail "name packages: parley-tools, libparley1, libparley-dev, python3-parley, parley-python, parley-wireshark"
command -v apt-get >/dev/null || fail "this is no Debian: run the job in a container (container: debian:12)"
# shellcheck source=/dev/null
[ "$(. /etc/os-release && echo "${VERSION_ID:-}")" = 12 ] || fail "the packages are made for Debian 12: run the job in a container (container: debian:12)"
root=
[ "$(id -u)" = 0 ] || root=sudo
export DEBIAN_FRONTEND=noninteractive
if ! command -v curl >/dev/null; then
  $root apt-get update -qq
  $root apt-get install -y -qq --no-install-recommends ca-certificates curl >/dev/null
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder" # apt reads the files as a user of its own
cd "$folder"
get() { curl -fsSL --retry 3 -o "$1" "$url/$1" || fail "$url/$1 cannot be read"; }
get SHA256SUMS
for package; do
  name=$(awk -v p="$package" '{ n = $2; sub(/^\*/, "", n); if (index(n, p "_") == 1) print n }' SHA256SUMS)
  case $name in
  "" | *[!A-Za-z0-9._+~-]*) fail "$url/SHA256SUMS has no package $package" ;;
  esac
  get "$name"
done
sha256sum --check --strict --quiet --ignore-missing SHA256SUMS >&2 || fail "a file differs from SHA256SUMS"
$root apt-get update -qq
$root apt-get install -y -qq --no-install-recommends ./*.deb >/dev/null
echo "parley: installed $(echo ./*.deb)"
