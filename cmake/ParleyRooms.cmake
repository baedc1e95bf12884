# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# A room is a top-level folder. Every .cpp below a pure one goes into the static library parley_<room>; rooms.txt says
# which room may use which.
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH PARLEY_SOURCE)  # the plugin for Wireshark is a project of its own, too
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(ISAL IMPORTED_TARGET libisal)

add_library(parley_flags INTERFACE)
target_include_directories(parley_flags INTERFACE ${PARLEY_SOURCE}/include ${PARLEY_SOURCE})
target_compile_options(parley_flags INTERFACE -Wall -Wextra -Wconversion -Wno-sign-conversion -fno-strict-aliasing)
# Compiled as one, a variable of one file may have the name of a function of the next. ./dev stress compiles each alone.
target_compile_options(parley_flags INTERFACE $<$<NOT:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wshadow>)
# The checks take a fifth of gcc's time to parse tools. In ./dev test the build with gcc checks for all builds. fmt before 11 reads
# the first name, later versions the second.
if(DEFINED PARLEY_FORMAT_CHECKS AND NOT PARLEY_FORMAT_CHECKS)
  target_compile_definitions(parley_flags INTERFACE FMT_CONSTEVAL= FMT_USE_CONSTEVAL=0)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(parley_flags INTERFACE -Wno-missing-field-initializers)
  # gcc looks for garbage only when it holds so much, in KiB: the same code a sixth sooner, for up to 300 MB more memory.
  target_compile_options(parley_flags INTERFACE --param=ggc-min-heapsize=1000000)
else()
  target_compile_options(parley_flags INTERFACE -Wno-missing-field-initializers -Wno-missing-designated-field-initializers -Wno-unknown-warning-option)
endif()
if(PARLEY_SANITIZE)
  # The vptr check opens a pipe to probe memory, and so accuses sound code in the tests that run out of descriptors.
  target_compile_options(parley_flags INTERFACE -fsanitize=address,undefined -fno-sanitize=vptr
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # A program at a fixed address starts a fifth sooner: nothing that AddressSanitizer registers must be relocated first.
  target_link_options(parley_flags INTERFACE -fsanitize=address,undefined
    $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # With its sanitizers on, gcc takes parts of its own standard library for uninitialised. The plain build checks this.
    target_compile_options(parley_flags INTERFACE -Wno-maybe-uninitialized)
  else()
    # Most of this sanitizer's checks would be in templates of the standard library, which take a fifth of the compile time.
    # The library checks its own preconditions in their place.
    target_compile_options(parley_flags INTERFACE -fsanitize-ignorelist=${PROJECT_SOURCE_DIR}/cmake/sanitize-ignore.txt
      -D_GLIBCXX_ASSERTIONS)
    # clang 14 writes what this check reads before each function, and cannot before the parts of a coroutine: "Cannot
    # represent a difference across sections".
    target_compile_options(parley_flags INTERFACE -fno-sanitize=function)
  endif()
endif()

if(PARLEY_TSAN)
  target_compile_options(parley_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(parley_flags INTERFACE -fsanitize=thread)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(parley_flags INTERFACE -Wno-tsan)  # it does not follow the fences in Boost.Asio's headers
  endif()
endif()

# What many files of a target parse first, once for all of them. clang writes the times of headers into it, and then
# refuses one that comes out of ccache after a system update: it is told not to.
set(PARLEY_COMMON_HEADERS <algorithm> <array> <cstdint> <functional> <map> <memory> <optional> <span> <string> <string_view>
  <unordered_map> <variant> <vector> <fmt/format.h> <tl/expected.hpp>)
function(parley_precompile target) # headers..., or REUSE_FROM another target
  if(ARGV1 STREQUAL "REUSE_FROM")
    target_precompile_headers(${target} REUSE_FROM ${ARGV2})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>)
  endif()
endfunction()

# Several files of a room are compiled as one, which takes half the time. 24 files take a quarter less than 6 (with gcc 12, cm:
# 27 s of processor time instead of 36, half of test_cm: 28 instead of 44), because each file that the compiler reads
# instantiates its own templates. A compiler then needs up to 1.1 GB. After a change of one file, 24 are compiled again: who
# edits much takes fewer. Of tests, which instantiate the most, all of a room's at once take a quarter less again (test_capture: 45 s
# instead of 61; test_sim then needs 2.9 GB).
option(PARLEY_UNITY "Compile several files of a room at once" OFF)
set(PARLEY_UNITY_FILES 24 CACHE STRING "With PARLEY_UNITY: how many at once, at most")
set(PARLEY_UNITY_TEST_FILES 24 CACHE STRING "With PARLEY_UNITY: how many of a room's tests at once, at most")
function(parley_unity target) # how many, if not PARLEY_UNITY_FILES
  if(PARLEY_UNITY)
    set(files ${PARLEY_UNITY_FILES} ${ARGN})
    list(GET files -1 files)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # gcc takes a .cpp that is included for a header
    endif()
  endif()
endfunction()

# Names of tools and sim are unique within a folder only. The folders of each group are compiled as one; files of the room's own folder
# are one as well.
function(parley_unite_folders target room) # FOLDER,FOLDER...
  if(NOT PARLEY_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    set_property(SOURCE ${source} PROPERTY UNITY_GROUP ${room})
    foreach(folders IN LISTS ARGN)
      string(REPLACE "," "|" any ${folders})
      string(REPLACE "," "_" group ${folders})
      if(source MATCHES "/${room}/(${any})/")
        set_property(SOURCE ${source} PROPERTY UNITY_GROUP ${group})
      endif()
    endforeach()
  endforeach()
endfunction()

# Its objects go into libparley.so too, which shows nothing but the functions of parley.h.
function(parley_shared target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# Under the sanitizers, what is not run much is compiled without optimisation, in two thirds of the time. Not the pure rooms, in
# which tests and fuzzers spend theirs, nor tools, which the command needs for each of its thousands of starts, and where it searches
# with std::regex.
function(parley_seldom_run target)
  parley_shared(${target})
  # Precompiled headers need the same flags in all that use them: those of the rooms, or their own.
  if(NOT PARLEY_SANITIZE)
    parley_precompile(${target} REUSE_FROM parley_base)
    return()
  endif()
  target_compile_options(${target} PRIVATE -O0)
  if(NOT TARGET parley_seldom_headers)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/seldom_headers.cpp CONTENT "")  # its owner needs a source
    add_library(parley_seldom_headers OBJECT ${PROJECT_BINARY_DIR}/generated/seldom_headers.cpp)
    target_link_libraries(parley_seldom_headers PRIVATE parley_flags fmt::fmt)
    target_compile_options(parley_seldom_headers PRIVATE -O0)
    parley_shared(parley_seldom_headers)
    parley_precompile(parley_seldom_headers ${PARLEY_COMMON_HEADERS})
  endif()
  parley_precompile(${target} REUSE_FROM parley_seldom_headers)
endfunction()

# Reads rooms.txt: makes the library of each pure room, or of those that are named, and sets PARLEY_PURE_ROOMS and PARLEY_TOOLS_USE.
function(parley_rooms) # NAME...
  set(table ${PARLEY_SOURCE}/cmake/rooms.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${table})
  file(STRINGS ${table} lines REGEX "^[a-z]")
  set(pure)
  foreach(line IN LISTS lines)
    separate_arguments(line UNIX_COMMAND "${line}")
    list(POP_FRONT line name kind)
    if(ARGN AND NOT name IN_LIST ARGN)
      continue()
    endif()
    if(kind STREQUAL "pure")
      parley_room(${name} ${line})
      list(APPEND pure ${name})
    elseif(name STREQUAL "tools")
      set(PARLEY_TOOLS_USE ${line} PARENT_SCOPE)
    endif()
  endforeach()
  set(PARLEY_PURE_ROOMS ${pure} PARENT_SCOPE)
endfunction()

# parley_room(<name> <rooms it may use>...)
function(parley_room name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PARLEY_SOURCE}/${name}/*.cpp)
  if(NOT sources)
    message(FATAL_ERROR "cmake/rooms.txt: ${name} has no .cpp file")
  endif()
  add_library(parley_${name} STATIC ${sources})
  set_target_properties(parley_${name} PROPERTIES EXCLUDE_FROM_ALL "${PARLEY_LIBRARIES_ONLY}")
  parley_shared(parley_${name})
  parley_unity(parley_${name})
  target_link_libraries(parley_${name} PUBLIC parley_flags fmt::fmt)
  if(PARLEY_FUZZ)
    target_compile_options(parley_${name} PRIVATE -fsanitize=fuzzer-no-link)  # the fuzzers watch the rooms, not the tests
  endif()
  foreach(room IN LISTS ARGN)
    if(NOT TARGET parley_${room})
      message(FATAL_ERROR "cmake/rooms.txt: ${name} uses ${room}, which is no room above it")
    endif()
    target_link_libraries(parley_${name} PUBLIC parley_${room})
  endforeach()
  # One for all rooms, which have the same flags.
  if(name STREQUAL "base")
    parley_precompile(parley_base ${PARLEY_COMMON_HEADERS})
  else()
    parley_precompile(parley_${name} REUSE_FROM parley_base)
  endif()
  if(name STREQUAL "sim")
    parley_unite_folders(parley_sim sim scenario check fault net,tcp,host subnet workload,run,record,xrc sweep)
    # toml++ is used header-only and without exceptions: a wrong file is a value.
    find_package(PkgConfig REQUIRED)
    pkg_check_modules(TOMLPLUSPLUS REQUIRED tomlplusplus)
    target_include_directories(parley_sim SYSTEM PRIVATE ${TOMLPLUSPLUS_INCLUDE_DIRS})
  endif()
  if(name MATCHES "^(mpa|wire)$" AND ISAL_FOUND)  # CRC-32C and CRC-32
    target_link_libraries(parley_${name} PRIVATE PkgConfig::ISAL)
    target_compile_definitions(parley_${name} PRIVATE PARLEY_HAVE_ISAL=1)
  endif()
  if(name STREQUAL "mpa")
    set_source_files_properties(${PARLEY_SOURCE}/mpa/crc32c_sse42.cpp PROPERTIES
      COMPILE_OPTIONS "-msse4.2;-mpclmul" SKIP_PRECOMPILE_HEADERS ON)
    # Behind a precompiled header g++ 12 takes the intrinsics' functions at -O0, which only -O1 and more can compile.
    set_source_files_properties(${PARLEY_SOURCE}/mpa/crc32c_vpclmul.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON
      SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

function(parley_drivers)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/drivers/asio/*.cpp
    ${PROJECT_SOURCE_DIR}/drivers/mpi/*.cpp ${PROJECT_SOURCE_DIR}/drivers/plugin/*.cpp ${PROJECT_SOURCE_DIR}/drivers/xrcd/*.cpp ${PROJECT_SOURCE_DIR}/drivers/xrcshm/*.cpp
    ${PROJECT_SOURCE_DIR}/drivers/open_host.cpp ${PROJECT_SOURCE_DIR}/drivers/own_memory.cpp)
  if(NOT sources)
    return()
  endif()
  find_package(Boost 1.74 REQUIRED)
  pkg_check_modules(RDMA IMPORTED_TARGET librdmacm libibverbs)  # for its headers: the libraries are opened on use
  set(RDMA_FOUND ${RDMA_FOUND} PARENT_SCOPE)
  if(RDMA_FOUND)
    file(GLOB rdma CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/drivers/verbs/*.cpp ${PROJECT_SOURCE_DIR}/drivers/rdmacm/*.cpp)
    set(forwards ${PROJECT_SOURCE_DIR}/drivers/libraries/libibverbs.cpp ${PROJECT_SOURCE_DIR}/drivers/libraries/librdmacm.cpp)
    set_source_files_properties(${forwards} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    list(APPEND rdma ${forwards})
  else()
    set(rdma ${PROJECT_SOURCE_DIR}/drivers/no_rdma.cpp)
    message(STATUS "the provider rdmacm (real NICs) is left out: librdmacm is missing (Debian: librdmacm-dev)")
  endif()
  add_library(parley_drivers STATIC ${sources} ${rdma})
  parley_unity(parley_drivers)
  parley_seldom_run(parley_drivers)
  target_link_libraries(parley_drivers PUBLIC parley_cm parley_xrc Boost::headers Threads::Threads ${CMAKE_DL_LIBS})
  if(RDMA_FOUND)
    target_include_directories(parley_drivers SYSTEM PRIVATE ${RDMA_INCLUDE_DIRS})
  endif()
  target_compile_definitions(parley_drivers PRIVATE BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_BOOST_REGEX BOOST_ERROR_CODE_HEADER_ONLY)
endfunction()

# Plug-ins that are modules of Python. A shared object of its own, so that nothing else needs Python.
function(parley_python_bridge)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/drivers/plugin/python.cpp PROPERTIES COMPILE_DEFINITIONS
    "PARLEY_VERSION=\"${PROJECT_VERSION}\";PARLEY_LIBRARY_DIR=\"${CMAKE_INSTALL_PREFIX}/lib\"")
  if(NOT PARLEY_TOOLS OR PARLEY_SANITIZE OR PARLEY_TSAN OR PARLEY_FUZZ)
    return()  # Python's own objects are not built for those
  endif()
  pkg_check_modules(PYTHON IMPORTED_TARGET python3-embed)
  find_path(PYBIND11_INCLUDE pybind11/embed.h)
  if(NOT PYTHON_FOUND OR NOT PYBIND11_INCLUDE)
    message(STATUS "plug-ins in Python are left out: pybind11 or Python's headers are missing (Debian: pybind11-dev python3-dev)")
    return()
  endif()
  add_library(parley_python MODULE ${PROJECT_SOURCE_DIR}/drivers/python/bridge.cpp)
  target_include_directories(parley_python SYSTEM PRIVATE ${PYBIND11_INCLUDE})
  target_compile_definitions(parley_python PRIVATE PARLEY_VERSION="${PROJECT_VERSION}")
  target_link_libraries(parley_python PRIVATE parley_flags fmt::fmt PkgConfig::PYTHON)
  target_link_options(parley_python PRIVATE -Wl,-z,defs)  # it brings all that it needs: programs export nothing to it
  set_target_properties(parley_python PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/parley)
endfunction()

# Packets by libpcap. Without it the library is there all the same, and says that it can do nothing.
function(parley_pcap_driver)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/drivers/pcap/*.cpp)
  if(NOT sources OR PARLEY_LIBRARIES_ONLY)
    return()
  endif()
  add_library(parley_pcap STATIC ${sources})
  parley_seldom_run(parley_pcap)
  target_link_libraries(parley_pcap PUBLIC parley_base)
  pkg_check_modules(PCAP IMPORTED_TARGET libpcap)
  if(PCAP_FOUND)
    target_link_libraries(parley_pcap PRIVATE PkgConfig::PCAP)
    target_compile_definitions(parley_pcap PRIVATE PARLEY_HAVE_PCAP=1)
  else()
    message(STATUS "--filter and pcap live are not there: libpcap is missing (Debian: libpcap-dev)")
  endif()
endfunction()

# ibsim's protocol and its client's side, for the two below and for `parley fabric`.
function(parley_ibsim)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/drivers/ibsim/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_library(parley_ibsim STATIC ${sources})
  parley_seldom_run(parley_ibsim)
  target_link_libraries(parley_ibsim PUBLIC parley_base)
endfunction()

# What programs for InfiniBand are preloaded with to take part in `parley fabric`. It stands in front of the C library.
function(parley_umad_preload)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/drivers/umad_preload/*.cpp)
  if(NOT sources OR PARLEY_LIBRARIES_ONLY)
    return()
  endif()
  # What stands in front of nothing, for the unit tests too.
  set(core ${sources})
  list(FILTER core INCLUDE REGEX "/(agents|sysfs)\\.cpp$")
  list(REMOVE_ITEM sources ${core})
  add_library(parley_umad_core STATIC ${core})
  parley_seldom_run(parley_umad_core)
  target_link_libraries(parley_umad_core PUBLIC parley_ibsim parley_mad)
  if(NOT PARLEY_TOOLS OR PARLEY_SANITIZE OR PARLEY_TSAN OR PARLEY_FUZZ)
    return()  # the programs are not built for those
  endif()
  add_library(parley_umad MODULE ${sources})
  target_link_libraries(parley_umad PRIVATE parley_umad_core Threads::Threads ${CMAKE_DL_LIBS})
  # Programs may give open() no path, for which it has EFAULT, whatever the C library's headers promise the compiler.
  target_compile_options(parley_umad PRIVATE -fno-delete-null-pointer-checks)
  target_link_options(parley_umad PRIVATE -Wl,-z,defs -Wl,--exclude-libs,ALL)
  set_target_properties(parley_umad PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/parley)
endfunction()

# What programs for libibverbs and librdmacm are preloaded with to run on Parley's RoCE. It stands in front of libibverbs and of the C
# library.
function(parley_verbs_preload)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/preload/*.cpp ${PROJECT_SOURCE_DIR}/preload/ucma/*.cpp)
  if(NOT sources OR NOT RDMA_FOUND OR PARLEY_LIBRARIES_ONLY)
    return()
  endif()
  # The process that opens the sockets of a shared port, and what it and its members have in common.
  file(GLOB port CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/preload/port/*.cpp)
  file(GLOB keeper CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/preload/keeper/*.cpp)
  add_library(parley_port_core STATIC ${port})
  parley_unity(parley_port_core)
  parley_seldom_run(parley_port_core)
  target_link_libraries(parley_port_core PUBLIC parley_wire)
  # What stands in front of the C library is for programs alone, not for the unit tests.
  set(calls ${sources})
  list(FILTER calls INCLUDE REGEX "_calls\\.cpp$")
  list(REMOVE_ITEM sources ${calls})
  add_library(parley_preload STATIC ${sources})
  parley_unity(parley_preload)
  parley_seldom_run(parley_preload)
  target_link_libraries(parley_preload PUBLIC parley_port_core parley_drivers Threads::Threads)
  if(NOT PARLEY_TOOLS OR PARLEY_SANITIZE OR PARLEY_TSAN OR PARLEY_FUZZ)
    return()  # the programs are not built for those; the unit tests are
  endif()
  add_library(parley_verbs MODULE $<TARGET_OBJECTS:parley_preload> ${calls})
  set_source_files_properties(${calls} PROPERTIES
    COMPILE_OPTIONS "-O2;-foptimize-sibling-calls;-fno-delete-null-pointer-checks")
  # The functions that it does not replace are libibverbs' own, also for those who look them up in this library.
  target_link_libraries(parley_verbs PRIVATE parley_flags parley_port_core parley_drivers Threads::Threads ${CMAKE_DL_LIBS}
    -Wl,--push-state,--no-as-needed,-libverbs,--pop-state)
  target_link_options(parley_verbs PRIVATE -Wl,-z,defs -Wl,--exclude-libs,ALL
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/preload/libibverbs.map)
  set_property(TARGET parley_verbs APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/preload/libibverbs.map)
  set_target_properties(parley_verbs PROPERTIES LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/parley)
  add_executable(parley_port ${keeper})
  target_link_libraries(parley_port PRIVATE parley_port_core parley_drivers)
  set_target_properties(parley_port PROPERTIES OUTPUT_NAME parley-port RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/parley)
  add_dependencies(parley_verbs parley_port)  # which starts it
endfunction()

# Transports of management datagrams: ibsim's sockets, the RoCE engine, queue pairs of any device, and with libibumad the machine's
# devices. libparley.so has them, libparley-cxx.a not.
function(parley_mad_driver)
  set(folder ${PROJECT_SOURCE_DIR}/drivers/mad)
  if(NOT TARGET parley_mad OR NOT TARGET parley_drivers OR NOT EXISTS ${folder}/ibsim.cpp)
    return()
  endif()
  add_library(parley_mad_driver STATIC ${folder}/ibsim.cpp ${folder}/run.cpp ${folder}/where.cpp ${folder}/gsi.cpp ${folder}/ud.cpp
    ${folder}/roce.cpp)
  parley_unity(parley_mad_driver)
  parley_seldom_run(parley_mad_driver)
  target_link_libraries(parley_mad_driver PUBLIC parley_ibsim parley_mad parley_drivers Threads::Threads)
  if(RDMA_FOUND)
    target_sources(parley_mad_driver PRIVATE ${folder}/verbs.cpp)
    target_include_directories(parley_mad_driver SYSTEM PRIVATE ${RDMA_INCLUDE_DIRS})
  else()
    target_sources(parley_mad_driver PRIVATE ${folder}/no_verbs.cpp)
  endif()
  pkg_check_modules(UMAD IMPORTED_TARGET libibumad)
  set(UMAD_FOUND ${UMAD_FOUND} PARENT_SCOPE)
  if(UMAD_FOUND)
    target_sources(parley_mad_driver PRIVATE ${folder}/umad.cpp ${PROJECT_SOURCE_DIR}/drivers/libraries/libibumad.cpp)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/drivers/libraries/libibumad.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    target_include_directories(parley_mad_driver SYSTEM PRIVATE ${UMAD_INCLUDE_DIRS})
  else()
    target_sources(parley_mad_driver PRIVATE ${folder}/no_umad.cpp)
    message(STATUS "management datagrams over InfiniBand devices are left out: libibumad is missing (Debian: libibumad-dev)")
  endif()
endfunction()

# Scalable subnet administration: a subnet's database, read by management datagrams, and the daemon of the tree's nodes.
function(parley_ssa_driver)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/drivers/ssa/*.cpp)
  if(NOT sources OR NOT TARGET parley_drivers OR PARLEY_LIBRARIES_ONLY)
    return()
  endif()
  add_library(parley_ssa_driver STATIC ${sources})
  parley_seldom_run(parley_ssa_driver)
  target_link_libraries(parley_ssa_driver PUBLIC parley_ssa parley_mad parley_drivers)
endfunction()

# What libparley.so is made of besides the rooms; ParleyInstall.cmake makes the library itself.
function(parley_capi)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/capi/*.cpp)
  if(NOT sources OR NOT TARGET parley_drivers)
    return()
  endif()
  add_library(parley_capi STATIC ${sources})
  parley_unity(parley_capi)
  parley_seldom_run(parley_capi)
  target_compile_definitions(parley_capi PRIVATE PARLEY_VERSION="${PROJECT_VERSION}")
  target_link_libraries(parley_capi PUBLIC parley_flags parley_sim parley_drivers parley_mad parley_ibsim parley_mad_driver)
endfunction()

function(parley_tools)
  if(NOT PARLEY_TOOLS)
    message(STATUS "the parley command, and the tests that run it, are left out: PARLEY_TOOLS is off")
    return()
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/*.cpp)
  list(FILTER sources EXCLUDE REGEX "tools/main.cpp$")
  if(NOT sources OR NOT EXISTS ${PROJECT_SOURCE_DIR}/tools/main.cpp)
    return()
  endif()
  find_package(CLI11 REQUIRED)
  find_package(nlohmann_json REQUIRED)
  pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)  # SHA-256 of what a report speaks of
  add_library(parley_tools STATIC ${sources})
  parley_unity(parley_tools)
  parley_unite_folders(parley_tools tools pcap mad,fabric,neg,ssa sim,ops rping,cmtime,udping replay,conform doctor,run,xrc)
  target_link_libraries(parley_tools PUBLIC parley_flags fmt::fmt PRIVATE CLI11::CLI11 nlohmann_json::nlohmann_json)
  parley_precompile(parley_tools <fmt/format.h> <algorithm> <functional> <map> <memory> <optional> <span> <string> <variant>
    <vector>)
  target_link_libraries(parley_tools PRIVATE PkgConfig::CRYPTO)
  include(CheckIncludeFileCXX)
  check_include_file_cxx(sys/sdt.h PARLEY_SDT_HEADER)
  if(PARLEY_SDT_HEADER)
    target_compile_definitions(parley_tools PRIVATE PARLEY_HAVE_SDT=1)
  else()
    message(STATUS "static trace points are not there: sys/sdt.h is missing (Debian: systemtap-sdt-dev)")
  endif()
  # Each is optional: without it, captures packed that way are refused with the package's name.
  foreach(packing "ZLIB;zlib;gzip;zlib1g-dev" "ZSTD;libzstd;zstd;libzstd-dev" "LZ4;liblz4;lz4;liblz4-dev")
    list(POP_FRONT packing name module shown package)
    pkg_check_modules(${name} IMPORTED_TARGET ${module})
    if(${name}_FOUND)
      target_link_libraries(parley_tools PRIVATE PkgConfig::${name})
      target_compile_definitions(parley_tools PRIVATE PARLEY_HAVE_${name}=1)
    else()
      message(STATUS "captures packed with ${shown} are not read: ${module} is missing (Debian: ${package})")
    endif()
  endforeach()
  target_compile_definitions(parley_tools PRIVATE PARLEY_VERSION="${PROJECT_VERSION}")
  # Captures of simulated runs name the commit that made them.
  set(generated ${PROJECT_BINARY_DIR}/generated)
  add_custom_target(parley_commit BYPRODUCTS ${generated}/tools/commit.hpp
    COMMAND ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR} -D HEADER=${generated}/tools/commit.hpp
            -P ${PROJECT_SOURCE_DIR}/cmake/commit.cmake
    COMMENT "Looking up the commit" VERBATIM)
  add_dependencies(parley_tools parley_commit)
  # The demo opens with a shipped scenario and should not need to find it.
  set(lossy_handshake ${PROJECT_SOURCE_DIR}/sim/scenarios/lossy_handshake.toml)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${lossy_handshake})
  file(READ ${lossy_handshake} LOSSY_HANDSHAKE)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/lossy_handshake.hpp.in ${generated}/tools/lossy_handshake.hpp @ONLY)
  target_include_directories(parley_tools PRIVATE ${generated})
  # Where names of shipped scenarios are looked up last: for builds outside the tree.
  set_source_files_properties(${PROJECT_SOURCE_DIR}/tools/sim/sim_files.cpp PROPERTIES COMPILE_DEFINITIONS
    PARLEY_SHIPPED_SCENARIOS="${PROJECT_SOURCE_DIR}/sim/scenarios")
  foreach(room ${PARLEY_TOOLS_USE} pcap ibsim mad_driver ssa_driver)
    if(TARGET parley_${room})
      target_link_libraries(parley_tools PUBLIC parley_${room})
    endif()
  endforeach()
  add_executable(parley ${PROJECT_SOURCE_DIR}/tools/main.cpp)
  target_link_libraries(parley PRIVATE parley_tools)
  set_target_properties(parley PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endfunction()
