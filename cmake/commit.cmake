# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# Run at each build: writes HEADER with the commit of SOURCE, and only when that has changed. In an archive of a release git has
# written the commit to commit.txt.
file(STRINGS ${SOURCE}/cmake/commit.txt archived LIMIT_COUNT 1)
execute_process(COMMAND git --no-optional-locks -C ${SOURCE} describe --always --dirty --abbrev=12 --match= --exclude=*
  OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
if(archived MATCHES "^[0-9a-f]+$")
  string(SUBSTRING ${archived} 0 12 commit)
elseif(NOT status EQUAL 0 OR NOT commit MATCHES "^[0-9a-f]+(-dirty)?$")
  set(commit unknown)
endif()
set(text "#define PARLEY_COMMIT \"${commit}\"\n")
set(old "")
if(EXISTS ${HEADER})
  file(READ ${HEADER} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${HEADER} "${text}")
endif()
