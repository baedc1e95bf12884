# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# A test's TIMEOUT ends a test that hangs and asserts nothing else. Each is more than ten times what the slowest test of its
# kind takes on two idle cores, with sanitizers too.
set(PARLEY_TIMEOUT_ONE 600)     # one unit test, lint, example or header: seconds
set(PARLEY_TIMEOUT_SUITE 3600)  # a script of many cases, many seeds, a browser: up to some minutes
