// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Combines several sinks of trace events. Each receives the events up to its own level.
#pragma once
#include <algorithm>
#include <vector>

#include "parley/trace.hpp"

namespace parley::tools {

class Sinks final : public trace::Sink {
 public:
  Sinks() { up_to = trace::Level::error; }
  void add(trace::Sink& sink) {
    sinks_.push_back(&sink);
    up_to = std::max(up_to, sink.up_to);
  }
  bool empty() const { return sinks_.empty(); }
  void record(const trace::Record& record) override {
    const trace::Level level = trace::level_of(record.event);
    for (trace::Sink* sink : sinks_)
      if (level <= sink->up_to) sink->record(record);
  }

 private:
  std::vector<trace::Sink*> sinks_;
};

}  // namespace parley::tools
