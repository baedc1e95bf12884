// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// -v: the steps of connections (parley/trace.hpp), as lines on standard error or, with --json, as objects among the
// others, and as comments in the capture that the command writes. See docs/trace.md.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/trace.hpp"
#include "tools/cli.hpp"
#include "tools/output.hpp"

namespace parley::tools {

/// -v is 1, -vv is 2. `help_before` is the beginning of its help text: "Print the ping data and ".
void add_trace_option(Command sub, unsigned& verbose, const std::string& help_before = "");
/// No level without -v.
std::optional<trace::Level> trace_level(unsigned verbose);

/// The text of an event for the user, with the name of its side or host if several are traced.
std::string trace_text(const trace::Record& record, Instant start, std::string_view host);
/// The same without a time: the log adds its own.
std::string trace_log_text(const trace::Record& record);
Json trace_json(const trace::Record& record, Instant start, std::string_view host);

class TraceSink final : public trace::Sink {
 public:
  TraceSink(Output& out, trace::Level level, std::string host = {}) : out_(out), host_(std::move(host)) {
    up_to = level;
  }
  void record(const trace::Record& record) override;
  /// Times are relative to the first event of either sink. Both must use the same clock.
  void share_start(const TraceSink& other) { start_ = other.start_; }
  /// Also called for each event.
  std::function<void(const trace::Record&)> also;

 private:
  Output& out_;
  std::string host_;
  /// The time of the first event: the driver's clock has an arbitrary start.
  std::shared_ptr<std::optional<Instant>> start_ = std::make_shared<std::optional<Instant>>();
};

}  // namespace parley::tools
