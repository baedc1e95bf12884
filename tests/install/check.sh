# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# shellcheck shell=bash
# Checks that are commands, counted; to be sourced.
CHECK_LOG='' CHECKS_PASSED=0 CHECKS_FAILED=0
check_into() { CHECK_LOG=$1; } # the file that has the output of the last command

check() { # what a user wants, command...
  local what=$1 begin=$SECONDS
  shift
  if "$@" >"$CHECK_LOG" 2>&1 </dev/null; then
    echo "ok      $what ($((SECONDS - begin)) s)"
    ((++CHECKS_PASSED))
  else
    echo "FAILED  $what: $*"
    tail -n 60 "$CHECK_LOG"
    ((++CHECKS_FAILED))
    return 1
  fi
}

# The exit status of the script: good if something was checked and nothing failed.
checks_end() {
  echo "$CHECKS_PASSED passed, $CHECKS_FAILED failed"
  [ "$CHECKS_FAILED" = 0 ] && [ "$CHECKS_PASSED" != 0 ]
}
