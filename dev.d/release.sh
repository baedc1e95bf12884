# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# ./dev release: checks the work tree, tests a clean clone of it, and makes from that clone what is published. ./dev sources this.

release_file() { python3 -B dev.d/release.py "$@"; }

# The octets depend on the commit alone: git gives each file the commit's time, and gzip -n keeps no name and no time.
make_tarball() { # clone, commit, name
  git -C "$1" -c tar.umask=0022 archive --format=tar --prefix="$3/" "$2" | gzip -9 -n >"$BUILD/release/$3/$3.tar.gz"
}

# The tests of the clone, in a build folder of its own.
test_clone() { # clone
  say "./dev test, in a clean clone"
  (cd "$1" && PARLEY_BUILD="$BUILD/release/build" ./dev test)
  say "./dev stress, in a clean clone"
  (cd "$1" && PARLEY_BUILD="$BUILD/release/build" ./dev stress)
}

make_debs() { # clone, commit, folder
  local epoch
  say "Debian packages, from a clean clone"
  epoch=$(git -C "$1" log -1 --format=%ct "$2")
  (cd "$1" && SOURCE_DATE_EPOCH=$epoch PARLEY_BUILD="$BUILD/release/build" ./dev packages)
  cp "$BUILD"/release/build/packages/*.deb "$3"
}

# Sets VERSION; ends ./dev with 1 unless the work tree can be released.
check_release() {
  VERSION=$(release_file check) ||
    die 1 "this is not a release; './dev release --prepare VERSION' writes a version to all places"
  echo "version $VERSION: the tree is clean, all places have it, CHANGELOG.md too"
}

make_release() { # with tests: yes or no; with packages: yes or no
  local name commit clone=$BUILD/release/clone
  name=parley-$VERSION
  commit=$(git rev-parse HEAD)
  rm -rf "$BUILD/release"
  mkdir -p "$BUILD/release/$name"
  git clone -q --no-hardlinks . "$clone"
  git -C "$clone" checkout -q --detach "$commit"
  [ "$1" = no ] || test_clone "$clone"
  make_tarball "$clone" "$commit" "$name"
  [ "$2" = no ] || make_debs "$clone" "$commit" "$BUILD/release/$name"
  (cd "$BUILD/release/$name" && sha256sum -- *.* >SHA256SUMS)
  say "$BUILD/release/$name, of commit $commit"
  cat "$BUILD/release/$name/SHA256SUMS"
  echo "next: git tag -a v$VERSION $commit, and publish these files with the CHANGELOG's section"
}

command_release() {
  local tests=yes packages=yes
  need git python3
  if [ "${1:-}" = --prepare ]; then
    [[ $# = 2 && $2 =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || die 2 "release --prepare takes a version such as 0.2.0"
    release_file prepare "$2"
    return
  fi
  while [ $# -gt 0 ]; do
    case $1 in
      --check) check_release; return ;;
      --skip-test) tests=no ;;
      --source-only) packages=no ;;
      *) usage >&2; die 2 "unknown option $1" ;;
    esac
    shift
  done
  check_release
  make_release $tests $packages
}
