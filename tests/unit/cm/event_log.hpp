// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Events that a Manager has told, by their kind.
#pragma once
#include <variant>
#include <vector>

#include "parley/cm.hpp"

namespace parley::test {

struct EventLog {
  template <class E>
  std::vector<E*> all() {
    std::vector<E*> out;
    for (cm::Event& e : events)
      if (E* found = std::get_if<E>(&e)) out.push_back(found);
    return out;
  }
  template <class E>
  E* last() {
    const auto found = all<E>();
    return found.empty() ? nullptr : found.back();
  }

  std::vector<cm::Event> events;
};

}  // namespace parley::test
