// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Functions that build rows of case tables. Include it only in the .cpp files that hold such a table.
#pragma once
#include "conform/ibcm/case.hpp"

namespace parley::conform::ibcm {

constexpr Case row(std::string_view number, std::string_view name, std::string_view clause, Level level,
                   std::string_view stimulus, std::string_view expected, Task<Observation> (*ask)(Tester&)) {
  return {{number, name, Iut::responder, clause, level, false, stimulus, expected}, ask};
}
/// A row for a peer that connects.
constexpr Case asks(std::string_view number, std::string_view name, std::string_view clause, Level level,
                    std::string_view stimulus, std::string_view expected, Task<Observation> (*ask)(Tester&)) {
  return {{number, name, Iut::initiator, clause, level, false, stimulus, expected}, ask};
}
/// A row that has crashed a known peer.
constexpr Case destructive(Case c) {
  c.what.destructive = true;
  return c;
}
inline constexpr Level must = Level::must, should = Level::should;

}  // namespace parley::conform::ibcm
