#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# run.sh BUILD WORK: installs BUILD below WORK and uses what stands there as others would, from a copy of docs/examples
# that sees nothing of the sources.
set -uo pipefail
source_dir=$(dirname -- "$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")")
build=$(realpath -- "$1") work=$(realpath -m -- "$2")
prefix=$work/moved/prefix
# shellcheck disable=SC1091
. "$source_dir/tests/install/check.sh"
check_into "$work/log"

# A prefix may be moved after the installation: nothing in it names its place.
install_and_move() {
  cmake --install "$build" --prefix "$work/first" && mkdir -p "$work/moved" && mv "$work/first" "$prefix" &&
    ! grep -rlF -e "$work/first" -e "$source_dir" "$prefix/include" "$libdir/cmake" "$libdir/pkgconfig"
}

# Each compiles alone: tests/install/CMakeLists.txt.
headers_complete() { diff -r "$source_dir/include/parley" "$prefix/include/parley"; }

program_runs() {
  local version
  version=$("$prefix/bin/parley" --version) && [ "$version" = "parley $project_version" ] &&
    "$prefix/bin/parley" sim run lossy_handshake
}

# Its own scenarios, although the sources are above it too.
scenarios_are_installed() {
  "$prefix/bin/parley" sim list --json >"$work/list" &&
    [ "$(grep -cF "$prefix/share/parley/scenarios" "$work/list")" = "$(find "$source_dir/sim/scenarios" -name '*.toml' | wc -l)" ]
}

schemas_are_installed() { diff -r "$source_dir/docs/schema" "$prefix/share/parley/schema"; }

# The subnet that is served names the library beside the command.
fabric_names_its_preload() {
  timeout -s INT 1 "$prefix/bin/parley" fabric --name "install$$" --fat-tree 2,4,2,2 | tee "$work/fabric"
  grep -qxF "programs join with LD_PRELOAD=$prefix/lib/parley/libparley_umad.so" "$work/fabric"
}

# A page for the command and for each of its subcommands, and nothing in them that man complains of.
manuals_read_well() {
  local command page subcommands
  subcommands=$("$prefix/bin/parley" --help | awk '/^Subcommands:$/ { on = 1; next } /^$/ { on = 0 } on { print $1 }')
  [ -n "$subcommands" ] || return
  for command in '' $subcommands; do
    page=$prefix/share/man/man1/parley${command:+-$command}.1
    LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l "$page" >"$work/page" 2>"$work/complaints" || return
    if [ -s "$work/complaints" ]; then
      cat "$work/complaints"
      return 1
    fi
  done
  # The subcommands' options are there too, one to a paragraph.
  LC_ALL=C.UTF-8 MANWIDTH=120 man -l "$prefix/share/man/man1/parley-sim.1" | grep -qE '^ {7}--swarm$'
}

completions_are_the_programs() {
  "$prefix/bin/parley" completion bash | cmp - "$prefix/share/bash-completion/completions/parley" &&
    "$prefix/bin/parley" completion zsh | cmp - "$prefix"/share/zsh/*/_parley
}

examples_by_cmake() {
  cmake -S "$work/examples" -B "$work/by-cmake" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF && cmake --build "$work/by-cmake" -j "${PARLEY_JOBS:-2}" &&
    grep -q "Parley_DIR:PATH=$libdir/cmake/Parley" "$work/by-cmake/CMakeCache.txt" &&
    ctest --test-dir "$work/by-cmake" --output-on-failure --no-tests=error &&
    [ "$(ctest --test-dir "$work/by-cmake" -N | grep -c ': example\.')" = "$(find "$work/examples" -name '*.c*' -not -name '*.cmake' | wc -l)" ]
}

# A C project needs the C library alone: nothing of what C++ programs are linked with is looked for.
c_by_cmake() {
  mkdir -p "$work/c"
  printf '%s\n' 'cmake_minimum_required(VERSION 3.16)' 'project(c LANGUAGES C)' \
    'find_package(Parley 0.1 REQUIRED COMPONENTS c)' "add_executable(c_echo $work/examples/c_echo.c)" \
    'target_compile_definitions(c_echo PRIVATE _GNU_SOURCE)' 'target_link_libraries(c_echo Parley::c)' >"$work/c/CMakeLists.txt"
  cmake -S "$work/c" -B "$work/c-by-cmake" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$work/c-by-cmake" &&
    "$work/c-by-cmake/c_echo"
}

scan() { # HOST:PORT, what to say: as anybody may who finds the port
  exec 9<>"/dev/tcp/${1/://}" && printf '%s' "$2" >&9 && exec 9>&-
} 2>/dev/null

a_scan_ends_no_server() {
  local server address='' words rc
  "$work/by-cmake/c_echo" server 127.0.0.1:0 >"$work/address" &
  server=$!
  until address=$(cat "$work/address") && [ -n "$address" ]; do kill -0 "$server" && sleep 0.05 || return; done
  for words in '' 'GET / HTTP/1.1' 'MPA ID Req Frame'; do scan "$address" "$words"; done
  timeout 10 "$work/by-cmake/c_echo" client "$address" hello | grep -x 'echoed: hello'
  rc=$?
  kill "$server" || rc=1 # it still runs
  wait "$server"
  return "$rc"
}

# At the address of the server before, where nobody listens when the client begins.
a_client_awaits_its_server() {
  local client server address rc
  address=$(cat "$work/address")
  timeout 10 "$work/by-cmake/c_echo" client "$address" hello >"$work/echoed" &
  client=$!
  sleep 0.05
  "$work/by-cmake/c_echo" server "$address" &
  server=$!
  wait "$client" && grep -x 'echoed: hello' "$work/echoed"
  rc=$?
  kill "$server" || rc=1
  wait "$server"
  return "$rc"
}

a_scan_ends_no_ranks() {
  local run file scans=0
  mkdir -p "$work/kvs"
  TMPDIR=$work/kvs "$work/by-cmake/c_ranks" --ranks 48 &
  run=$!
  while kill -0 "$run"; do
    for file in "$work"/kvs/c_ranks.*/rank.[0-9]; do
      if scan "$(cat "$file")" 'GET / HTTP/1.1'; then ((++scans)); fi
    done
  done
  wait "$run" && echo "$scans scans" && [ "$scans" -gt 0 ]
}

# Whatever ends a run, nothing of it stays in the folder for temporary files.
ranks_leave_nothing() {
  mkdir -p "$work/kvs"
  ! TMPDIR=$work/kvs "$work/by-cmake/c_ranks" --provider verbs &&
    ! TMPDIR=$work/kvs "$work/by-cmake/c_ranks" --provider sim --loss 2000000 &&
    ! TMPDIR=$work/kvs timeout -s INT 0.2 "$work/by-cmake/c_ranks" --provider sim --ranks 200 &&
    [ -z "$(ls -A "$work/kvs")" ]
}

c_by_pkg_config() {
  local flags
  flags=$(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --cflags --libs parley-c) || return
  # shellcheck disable=SC2086 # several words
  cc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror "$work/examples/c_echo.c" -o "$work/c-by-pkg-config" $flags &&
    LD_LIBRARY_PATH=$libdir "$work/c-by-pkg-config"
}

# What docs/mad.md shows in C is C, and needs no header but the installed ones.
c_of_the_page_compiles() {
  { printf '#include <%s>\n' poll.h stdio.h parley/mad.h && awk '/^```c$/ { on = 1; next } /^```/ { on = 0 } on' "$source_dir/docs/mad.md"; } >"$work/page.c"
  [ "$(grep -c 'parley_mad_call(port, &request' "$work/page.c")" -ge 3 ] &&
    cc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I "$prefix/include" "$work/page.c"
}

# Programs of the two historic interfaces of XRC, which are headers alone, share queue pairs; each is warned of nothing, and the headers go
# with libibverbs' own if that is here.
xrc_of_ofed_and_upstream_meet() {
  local flags name rc
  flags=$(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --cflags --libs parley-c) || return
  for name in ofed upstream; do
    # shellcheck disable=SC2086 # several words
    cc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror "$source_dir/tests/install/xrc/$name.c" -o "$work/$name" $flags || return
  done
  for name in xrc_ofed xrc_verbs; do
    if ! echo '#include <infiniband/verbs.h>' | cc -fsyntax-only -x c - 2>"$work/no-verbs"; then break; fi
    printf '#include <infiniband/verbs.h>\n#include <parley/%s.h>\n' "$name" |
      cc -std=c11 -D_GNU_SOURCE -fsyntax-only -Wall -Wextra -Werror -DPARLEY_XRC_OFED_NAMES -I "$prefix/include" -x c - || return
  done
  "$prefix/bin/parley" xrcd --socket "$work/xrcd" --idle 1s >"$work/broker" &
  timeout 60 env LD_LIBRARY_PATH="$libdir" PARLEY_XRCD_PROGRAM="$prefix/bin/parley" "$work/upstream" "$work/xrcd" "$work/domain" "$work/ofed"
  rc=$?
  kill $! && wait $!
  return "$rc"
}

# The functions of parley.h, xrc.h and mad.h and nothing else, in the version that the map names.
exports_are_declared() {
  nm -D --defined-only "$libdir/libparley.so.1" | awk '$2 == "T" { print $3 }' | sort >"$work/exported"
  grep -ho '^PARLEY_API [^(]*(' "$prefix"/include/parley/{parley,xrc,mad}.h | grep -o 'parley_[a-z_0-9]*' | sed 's/$/@@PARLEY_1.0/' | sort |
    diff "$work/exported" -
}

# libparley.a shows the same functions, and a program with it needs no libparley.so.
a_program_in_c_is_linked_statically() {
  nm -D --defined-only "$libdir/libparley.so.1" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | sort >"$work/shared"
  nm -g --defined-only "$libdir/libparley.a" | awk '$2 ~ /[TDBRVW]/ { print $3 }' | sort | diff "$work/shared" - || return
  cc -std=c11 -D_GNU_SOURCE -I "$prefix/include" "$work/examples/c_echo.c" -o "$work/c_static" -L"$libdir" -l:libparley.a -lstdc++ -lm -pthread || return
  timeout 60 "$work/c_static"
}

# The libraries of compilers, and no other: what else it uses is inside, or opened on use.
only_compilers_libraries() {
  local needed
  needed=$(objdump -p "$libdir/libparley.so.1" | awk '$1 == "NEEDED" { print $2 }')
  echo "$needed"
  grep -qx 'libc\.so\.6' <<<"$needed" && ! grep -vE '^(libc|libm|libstdc\+\+|libgcc_s|ld-linux.*)\.so' <<<"$needed"
}

# WITHOUT LIBRARY... -- COMMAND...: runs it with an empty file in the place of each library.
without() {
  local hidden=()
  while [ "$1" != -- ]; do
    hidden+=("$(readlink -f "$(/sbin/ldconfig -p | awk -v name="$1" '$1 == name { print $NF; exit }')")")
    shift
  done
  shift
  # shellcheck disable=SC2016
  unshare -m sh -c 'while [ "$1" != -- ]; do mount --bind /dev/null "$1" || exit 99; shift; done; shift; exec "$@"' - "${hidden[@]}" -- "$@"
}

# Connections over TCP work without rdma-core's libraries and isa-l; what needs one says so.
libraries_are_opened_on_use() {
  local rdma=(librdmacm.so.1 libibverbs.so.1 libibumad.so.3)
  unshare --mount true 2>/dev/null || { echo "left out: no mounts of our own are allowed here"; return 0; }
  without "${rdma[@]}" libisal.so.2 -- timeout 60 "$work/c_static" || return
  without "${rdma[@]}" -- "$prefix/bin/parley" rping -c -a 127.0.0.1 --provider rdmacm 2>&1 | tee "$work/said"
  [ "${PIPESTATUS[0]}" = 3 ] && grep -q 'librdmacm\.so\.1' "$work/said" || return
  without "${rdma[@]}" -- "$prefix/bin/parley" mad discover --transport umad:x 2>&1 | tee "$work/said"
  [ "${PIPESTATUS[0]}" = 3 ] && grep -q 'libibumad\.so\.3' "$work/said"
}

# A page for each function, and nothing in them that man complains of.
function_manuals_read_well() {
  local page count
  count=$(cat "$prefix"/include/parley/{parley,xrc,mad}.h | grep -c '^PARLEY_API ')
  [ "$(find "$prefix/share/man/man3" -name 'parley_*.3' | wc -l)" = "$count" ] || return
  for page in "$prefix"/share/man/man3/*.3; do
    LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l "$page" >"$work/page" 2>"$work/complaints" || return
    if [ -s "$work/complaints" ]; then
      cat "$work/complaints"
      return 1
    fi
  done
  LC_ALL=C.UTF-8 MANWIDTH=120 man -l "$prefix/share/man/man3/parley_connect.3" | grep -q 'PARLEY_E_BAD_ADDRESS'
}

example_by_pkg_config() { # options of pkg-config...
  local flags
  flags=$(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config "$@" --cflags --libs parley) || return
  # shellcheck disable=SC2086 # several words
  "$cxx" -std=c++20 "$work/examples/sim_connect.cpp" -o "$work/by-pkg-config" $flags && "$work/by-pkg-config"
}

# The version is found by a program that asks for its first two numbers, and not by one that asks for the next ones.
versions_are_told_apart() {
  local version=${project_version%.*} next found=(cmake -S "$work/version" -B "$work/by-version" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$prefix")
  next=${version%.*}.$((${version#*.} + 1))
  mkdir -p "$work/version"
  printf '%s\n' 'cmake_minimum_required(VERSION 3.16)' 'project(version LANGUAGES CXX)' \
    "find_package(Parley \${WANTED} REQUIRED)" >"$work/version/CMakeLists.txt"
  "${found[@]}" -DWANTED="$version" && rm -r "$work/by-version" && ! "${found[@]}" -DWANTED="$next" &&
    PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --exists "parley >= $version" &&
    ! PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --exists "parley >= $next"
}

rm -rf "$work"
mkdir -p "$work"
cp -r "$source_dir/docs/examples" "$work/examples"
unset PARLEY_SCENARIOS
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
cxx=$(cached CMAKE_CXX_COMPILER)
libdir=$prefix/$(cached CMAKE_INSTALL_LIBDIR)
project_version=$(cached CMAKE_PROJECT_VERSION)

check "install, and move the prefix" install_and_move
check "all public headers are there" headers_complete
check "the command runs" program_runs
check "it has its scenarios" scenarios_are_installed
check "it has the schemas of its JSON" schemas_are_installed
check "a served subnet names its preload library" fabric_names_its_preload
check "its manual pages are there and read well" manuals_read_well
check "its completions are there" completions_are_the_programs
check "the examples build with CMake and run" examples_by_cmake
check "an example builds with pkg-config and runs" example_by_pkg_config
check "and with pkg-config --static" example_by_pkg_config --static
check "its version is found, the next one is not" versions_are_told_apart
check "a C project builds with CMake and runs" c_by_cmake
check "and with pkg-config" c_by_pkg_config
check "what docs/mad.md shows in C compiles" c_of_the_page_compiles
check "a scan of ports ends no server in C" a_scan_ends_no_server
check "a client in C awaits its server" a_client_awaits_its_server
check "a scan ends no run of ranks" a_scan_ends_no_ranks
check "a run of ranks that fails leaves nothing behind" ranks_leave_nothing
check "programs of OFED's and of libibverbs' XRC share queue pairs" xrc_of_ofed_and_upstream_meet
check "libparley.so exports what its headers declare" exports_are_declared
check "libparley.a has the same functions and links statically" a_program_in_c_is_linked_statically
check "libparley.so needs only the C and C++ libraries" only_compilers_libraries
check "libraries are opened on use" libraries_are_opened_on_use
check "each function has a manual page that reads well" function_manuals_read_well
checks_end
