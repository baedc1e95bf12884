# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# `cpack` makes a Debian package of each component. The build is to be configured with -DCMAKE_INSTALL_PREFIX=/usr, so that
# libraries go where Debian has them; ./dev packages does so.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME parley)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has a synopsis of its own
set(CPACK_PACKAGE_CONTACT "The Parley authors <parley@localhost>" CACHE STRING "Maintainer of the Debian packages")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# parley_package(<component> <name> <section> <depends> <synopsis> <text>): a macro, for CPack reads variables.
macro(parley_package component name section depends synopsis text)
  string(TOUPPER ${component} key)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${key}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${key}_PACKAGE_DEPENDS "${depends}")
  set(CPACK_DEBIAN_${key}_DESCRIPTION "${synopsis}\n${text}")
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} RENAME copyright
    COMPONENT ${component})
endmacro()

if(TARGET parley_public)
  set(libraries "libexpected-dev, libfmt-dev")
  if(ISAL_FOUND)
    string(APPEND libraries ", libisal-dev")
    set(CPACK_DEBIAN_LIB_PACKAGE_RECOMMENDS libisal2)  # opened on use; its CRCs are faster
  endif()
  if(RDMA_FOUND)
    # Opened on use, for those who have a NIC, with its driver.
    set(CPACK_DEBIAN_LIB_PACKAGE_SUGGESTS "librdmacm1, ibverbs-providers, libibumad3")
    set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS "librdmacm1, ibverbs-providers, libibumad3")
  endif()
  parley_package(lib libparley1 libs "" "RDMA connection set-up: library for C programs"
    "MPA connection set-up, a software RNIC and a deterministic simulator, behind a C\ninterface.")
  set(CPACK_DEBIAN_LIB_PACKAGE_SHLIBDEPS ON)
  # Packages of programs that link libparley.so.1 get their dependency from its shlibs file: this version or a later one, for
  # the binary interface only grows (docs/c.md). What may break with each 0.x is the C++ interface, which is static.
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
  file(WRITE ${PROJECT_BINARY_DIR}/generated/triggers "activate-noawait ldconfig\n")
  set(CPACK_DEBIAN_LIB_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/generated/triggers)
  parley_package(dev libparley-dev libdevel "libparley1 (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}), ${libraries}"
    "RDMA connection set-up: headers and libraries to link with"
    "MPA connection set-up, a software RNIC and a deterministic simulator, for C++20\nand C programs. Parley::parley and Parley::c for CMake, parley and parley-c for\npkg-config.")
  set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "pkg-config, cmake, libboost-dev")
  if(TARGET parley)
    parley_package(tools parley-tools net "" "RDMA connection set-up: the parley command"
      "Sets up iWARP connections over plain TCP, simulates them, judges captures of them\nand tests live peers.")
    set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
  endif()
  if(TARGET parley_wireshark)
    parley_package(wireshark parley-wireshark net "" "RDMA connection set-up: plugin for Wireshark"
      "Dissects MPA, DDP and RDMAP, and tells which rule of the RFCs was broken by\nwhom.")
    set(CPACK_DEBIAN_WIRESHARK_PACKAGE_SHLIBDEPS ON)
    set(CPACK_DEBIAN_WIRESHARK_PACKAGE_ENHANCES "tshark, wireshark")
  endif()
  if(TARGET parley_python)
    parley_package(python parley-python net "parley-tools (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})"
      "RDMA connection set-up: plug-ins in Python" "Lets 'parley neg' load modules of Python as plug-ins of staged QP negotiation.")
    set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS ON)
  endif()
  if(TARGET parley_pymodule)
    parley_package(pymodule python3-parley python "libparley1 (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}), python3"
      "RDMA connection set-up: module for Python programs"
      "Connections, memory, queue pairs, simulated networks and management datagrams,\nalso for asyncio and pytest.")
    set(CPACK_DEBIAN_PYMODULE_PACKAGE_ARCHITECTURE all)
    set(CPACK_DEBIAN_PYMODULE_PACKAGE_RECOMMENDS parley-tools)
    # What python3 compiles beside a module goes with the package.
    file(WRITE ${PROJECT_BINARY_DIR}/generated/prerm "#!/bin/sh\nset -e\npy3clean -p python3-parley\n")
    set(CPACK_DEBIAN_PYMODULE_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/generated/prerm)
  endif()
  include(CPack)
endif()
