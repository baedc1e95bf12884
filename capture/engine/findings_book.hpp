// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The findings of a capture by frame, in the form of the C interface.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "capture/engine/parley_engine.h"
#include "capture/report.hpp"

namespace parley::capture {

class FindingsBook {
 public:
  /// Sets the frame that is being read. A finding in another frame is late.
  void reading(std::uint64_t frame) {
    now_ = frame;
    late_.clear();
  }
  void add(const Finding& finding);
  const parley_engine_finding* of(std::uint64_t frame) const;
  const std::vector<const parley_engine_finding*>& late() const { return late_; }
  /// Stores a text. The pointer is valid as long as the book.
  const char* keep(std::string text) { return texts_.emplace_back(std::move(text)).c_str(); }

 private:
  struct Frame {
    parley_engine_finding *first = nullptr, *last = nullptr;
  };
  const char* constant(std::string_view text);

  std::deque<parley_engine_finding> all_;
  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, const char*> constants_;  // of ids and clauses
  std::unordered_map<std::uint64_t, Frame> frames_;
  std::vector<const parley_engine_finding*> late_;
  std::uint64_t now_ = 0;
  std::size_t octets_ = 0;
};

}  // namespace parley::capture
