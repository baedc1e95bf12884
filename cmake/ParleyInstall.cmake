# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# What `cmake --install` puts where, in four components:
#   lib        libparley.so.1, for C programs
#   dev        headers, libparley-cxx.a, libparley.a and the link to libparley.so, the CMake package, parley.pc, parley-c.pc, manual pages
#   tools      the command, its scenarios, manual pages and completions, and what InfiniBand's programs are preloaded with
#   wireshark  the plugin
#   python     the bridge to plug-ins in Python
#   pymodule   the module for programs in Python
# docs/install.md is the users' side of it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The objects of the rooms that `tops` are or use. Every object is compiled once, for its room.
function(parley_objects_of out) # tops...
  set(rooms)
  foreach(top IN LISTS ARGN)
    get_target_property(used ${top} LINK_LIBRARIES)
    list(APPEND rooms ${top} ${used})
  endforeach()
  list(FILTER rooms INCLUDE REGEX "^parley_")
  list(REMOVE_ITEM rooms parley_flags)
  list(REMOVE_DUPLICATES rooms)
  list(SORT rooms)
  list(TRANSFORM rooms REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
  set(${out} ${objects} PARENT_SCOPE)
endfunction()

# libparley-cxx.a: the rooms behind include/parley, that is, sim, drivers and all that they use.
function(parley_public_library)
  parley_objects_of(objects parley_sim parley_drivers)
  add_library(parley_public STATIC ${objects})
  add_library(Parley::parley ALIAS parley_public)
  set_target_properties(parley_public PROPERTIES OUTPUT_NAME parley-cxx EXPORT_NAME parley LINKER_LANGUAGE CXX
    ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  target_include_directories(parley_public INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(parley_public INTERFACE cxx_std_20)
  target_link_libraries(parley_public INTERFACE fmt::fmt Threads::Threads)
  if(ISAL_FOUND)
    target_link_libraries(parley_public INTERFACE PkgConfig::ISAL)
  endif()
endfunction()

# libparley.so.1: the same behind the functions of parley.h, and nothing else to be seen.
function(parley_c_library)
  parley_objects_of(objects parley_sim parley_drivers parley_capi)
  set(map ${PROJECT_SOURCE_DIR}/capi/libparley.map)
  # At run time it needs the C and C++ libraries alone: fmt is inside, and the others are opened on use (drivers/libraries).
  add_library(parley_c SHARED ${objects} ${PROJECT_SOURCE_DIR}/drivers/libraries/fmt.cpp)
  add_library(Parley::c ALIAS parley_c)
  set_target_properties(parley_c PROPERTIES OUTPUT_NAME parley EXPORT_NAME c LINKER_LANGUAGE CXX SOVERSION 1
    VERSION 1.${PROJECT_VERSION_MINOR}.${PROJECT_VERSION_PATCH} LINK_DEPENDS ${map}
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  target_link_options(parley_c PRIVATE -Wl,--version-script=${map} -Wl,-z,defs)
  target_include_directories(parley_c INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(parley_c PRIVATE parley_flags Threads::Threads ${CMAKE_DL_LIBS})
  target_include_directories(parley_c PRIVATE $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
  if(ISAL_FOUND)
    target_sources(parley_c PRIVATE ${PROJECT_SOURCE_DIR}/drivers/libraries/libisal.cpp)
    target_include_directories(parley_c SYSTEM PRIVATE ${ISAL_INCLUDE_DIRS})
  endif()
  parley_c_archive("${objects}" ${map})
endfunction()

# libparley.a: one object with the same functions, to which the same names are visible as in libparley.so.
function(parley_c_archive objects map)
  find_program(PARLEY_BFD NAMES ld.bfd ld REQUIRED)  # lld has no --force-group-allocation
  set(work ${PROJECT_BINARY_DIR}/generated/libparley)
  set(archive ${PROJECT_BINARY_DIR}/lib/libparley.a)
  file(GENERATE OUTPUT ${work}.objects CONTENT "$<JOIN:$<FILTER:${objects};$<TARGET_OBJECTS:parley_c>,INCLUDE,\\.o$>,\n>\n")
  file(STRINGS ${map} names REGEX "^ +parley_.*;$")
  list(TRANSFORM names REPLACE "[ ;]" "")
  string(REPLACE ";" "\n" names "${names}")
  file(GENERATE OUTPUT ${work}.names CONTENT "${names}\n")
  add_custom_command(OUTPUT ${archive} DEPENDS parley_c ${work}.objects ${work}.names VERBATIM
    COMMAND ${PARLEY_BFD} -r --force-group-allocation -o ${work}.o @${work}.objects
    COMMAND ${CMAKE_OBJCOPY} --keep-global-symbols=${work}.names ${work}.o
    COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
    COMMAND ${CMAKE_AR} rcsD ${archive} ${work}.o
    COMMENT "Linking C static library lib/libparley.a")
  add_custom_target(parley_c_static DEPENDS ${archive})
endfunction()

# The module for Python programs over libparley.so.1, whole in python/ of the build, where its tests find it.
function(parley_python_module)
  find_package(Python3 COMPONENTS Interpreter)
  if(NOT Python3_FOUND)
    message(STATUS "the module for Python is left out: no python3")
    return()
  endif()
  set(source ${PROJECT_SOURCE_DIR}/capi/python)
  set(folder ${PROJECT_BINARY_DIR}/python/parley)
  set(headers ${PROJECT_SOURCE_DIR}/include/parley/parley.h ${PROJECT_SOURCE_DIR}/include/parley/mad.h)
  file(GLOB modules CONFIGURE_DEPENDS ${source}/parley/*.py)
  add_custom_command(OUTPUT ${folder}/_layout.py DEPENDS ${source}/layout.py ${headers} ${modules} VERBATIM
    COMMAND ${Python3_EXECUTABLE} -B ${source}/layout.py ${folder}/_layout.py ${headers}
    COMMAND ${CMAKE_COMMAND} -E copy ${modules} ${folder}
    COMMENT "Writing the module for Python")
  add_custom_target(parley_pymodule ALL DEPENDS ${folder}/_layout.py)
  install(FILES ${modules} ${folder}/_layout.py DESTINATION lib/python3/dist-packages/parley COMPONENT pymodule)
  add_dependencies(parley_installed parley_pymodule)
endfunction()

function(parley_install_dev)
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Parley)
  install(TARGETS parley_public EXPORT ParleyTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
  install(TARGETS parley_c EXPORT ParleyCTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT lib
    NAMELINK_COMPONENT dev)
  install(FILES ${PROJECT_BINARY_DIR}/lib/libparley.a DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
  # CMake strips programs and shared libraries on --strip; of an archive only the debug information may go.
  set(installed "\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}")
  install(CODE "if(CMAKE_INSTALL_DO_STRIP)
    execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-debug --enable-deterministic-archives
      \"${installed}/libparley.a\" \"${installed}/libparley-cxx.a\" COMMAND_ERROR_IS_FATAL ANY)
  endif()" COMPONENT dev)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/parley DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev
    FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")

  install(EXPORT ParleyTargets NAMESPACE Parley:: DESTINATION ${package} COMPONENT dev)
  install(EXPORT ParleyCTargets NAMESPACE Parley:: DESTINATION ${package} COMPONENT dev)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/ParleyConfig.cmake.in
    ${PROJECT_BINARY_DIR}/generated/ParleyConfig.cmake INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
  # 0.x: a new minor version may break the interface.
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/ParleyConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/generated/ParleyConfig.cmake ${PROJECT_BINARY_DIR}/generated/ParleyConfigVersion.cmake
    DESTINATION ${package} COMPONENT dev)

  # The prefix is told from where the file lies, so that an installed tree may be moved.
  file(RELATIVE_PATH PARLEY_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" PARLEY_PC_TO_PREFIX "${PARLEY_PC_TO_PREFIX}")
  set(PARLEY_PC_REQUIRES "fmt")
  if(ISAL_FOUND)
    string(APPEND PARLEY_PC_REQUIRES ", libisal")
  endif()
  foreach(name parley parley-c)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/generated/${name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/generated/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
  endforeach()
endfunction()

function(parley_install_tools)
  install(TARGETS parley RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/sim/scenarios DESTINATION ${CMAKE_INSTALL_DATADIR}/parley COMPONENT tools
    FILES_MATCHING PATTERN "*.toml")
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/schema DESTINATION ${CMAKE_INSTALL_DATADIR}/parley COMPONENT tools)
endfunction()

# Manual pages and completions are the program's own words, and follow it at each build.
function(parley_install_pages)
  set(pages ${PROJECT_BINARY_DIR}/generated/pages)
  set(makers ${PROJECT_SOURCE_DIR}/cmake/pages.sh ${PROJECT_SOURCE_DIR}/cmake/manual.awk)
  add_custom_command(OUTPUT ${pages}.stamp DEPENDS parley ${makers} VERBATIM
    COMMAND ${PROJECT_SOURCE_DIR}/cmake/pages.sh $<TARGET_FILE:parley> ${PROJECT_VERSION} ${pages}
    COMMAND ${CMAKE_COMMAND} -E touch ${pages}.stamp
    COMMENT "Writing manual pages and completions")
  add_custom_target(parley_pages ALL DEPENDS ${pages}.stamp)
  install(FILES ${PROJECT_SOURCE_DIR}/docs/man/parley.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
  install(DIRECTORY ${pages}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT tools)
  install(FILES ${pages}/bash/parley DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tools)
  set(zsh site-functions)
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND EXISTS /etc/debian_version)
    set(zsh vendor-completions)  # Debian's zsh does not look in /usr/share/zsh/site-functions
  endif()
  install(FILES ${pages}/zsh/_parley DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${zsh} COMPONENT tools)
endfunction()

# A manual page in section 3 for each function of the C library, from the comment above it.
function(parley_install_man3)
  set(header ${PROJECT_SOURCE_DIR}/include/parley/parley.h ${PROJECT_SOURCE_DIR}/include/parley/xrc.h
    ${PROJECT_SOURCE_DIR}/include/parley/mad.h)
  set(maker ${PROJECT_SOURCE_DIR}/cmake/man3.awk)
  set(pages ${PROJECT_BINARY_DIR}/generated/man3)
  add_custom_command(OUTPUT ${pages}.stamp DEPENDS ${header} ${maker} VERBATIM
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${pages}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}
    COMMAND awk -v out=${pages} -v version=${PROJECT_VERSION} -f ${maker} ${header}
    COMMAND ${CMAKE_COMMAND} -E touch ${pages}.stamp
    COMMENT "Writing manual pages of the functions")
  add_custom_target(parley_man3 ALL DEPENDS ${pages}.stamp)
  install(DIRECTORY ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT dev)
endfunction()

# Wireshark looks in the folder that its own package names; ours is the same one below our prefix.
function(parley_install_wireshark)
  pkg_get_variable(plugins wireshark plugindir)
  pkg_get_variable(prefix wireshark prefix)
  file(RELATIVE_PATH plugins "${prefix}" "${plugins}")
  install(TARGETS parley_wireshark LIBRARY DESTINATION ${plugins}/epan COMPONENT wireshark)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/dissectors/profile/Parley DESTINATION share/wireshark/profiles COMPONENT wireshark)
endfunction()

function(parley_install)
  if(PARLEY_SANITIZE OR PARLEY_FUZZ OR NOT TARGET parley_capi)
    return()  # nothing for others to link
  endif()
  parley_public_library()
  parley_c_library()
  parley_install_dev()
  parley_install_man3()
  set(all)
  if(PARLEY_LIBRARIES_ONLY)
    set(all ALL)  # nothing else is built, so that `ninja` is enough
  endif()
  add_custom_target(parley_installed ${all} DEPENDS parley_public parley_c parley_c_static parley_man3)  # what has to be built before `cmake --install`
  parley_python_module()
  if(TARGET parley)
    parley_install_tools()
    parley_install_pages()
    add_dependencies(parley_installed parley_pages)
  endif()
  if(TARGET parley_wireshark)
    parley_install_wireshark()
    add_dependencies(parley_installed parley_wireshark)
  endif()
  if(TARGET parley_python)
    install(TARGETS parley_python LIBRARY DESTINATION lib/parley COMPONENT python)
    add_dependencies(parley_installed parley_python)
  endif()
  foreach(preloaded parley_umad parley_verbs)
    if(TARGET ${preloaded})
      install(TARGETS ${preloaded} LIBRARY DESTINATION lib/parley COMPONENT tools)
      add_dependencies(parley_installed ${preloaded})
    endif()
  endforeach()
  if(TARGET parley_port)
    install(TARGETS parley_port RUNTIME DESTINATION lib/parley COMPONENT tools)
  endif()
endfunction()
