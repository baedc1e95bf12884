// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// For tables of conformance cases: the two entries of a case that is run against responders and initiators. Include it
// only in the .cpp files that hold such a table.
#pragma once
#include "conform/core/case.hpp"

#define BOTH(row, name, clause, level, stimulus, expected, run)                                 \
  Case{row, name, Iut::responder, clause, Level::level, false, stimulus, expected, run}, Case { \
    row, name, Iut::initiator, clause, Level::level, false, stimulus, expected, run             \
  }
