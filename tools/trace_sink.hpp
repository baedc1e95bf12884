// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// -v: what connections do, step by step (parley/trace.hpp), as lines on standard error or, with --json, as objects among
// the others; and as comments in the capture that the command writes. docs/trace.md
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/trace.hpp"
#include "tools/cli.hpp"
#include "tools/output.hpp"

namespace parley::tools {

/// -v is 1, -vv is 2. Words of its help go in front: "Print the ping data and ".
void add_trace_option(Command sub, unsigned& verbose, const std::string& help_before = "");
/// None without -v.
std::optional<trace::Level> trace_level(unsigned verbose);

/// What of an event goes to the user, with whose it is if several sides or hosts are traced.
std::string trace_text(const trace::Record& record, Instant start, std::string_view host);
/// The same behind a time that somebody else has written.
std::string trace_log_text(const trace::Record& record);
Json trace_json(const trace::Record& record, Instant start, std::string_view host);

class TraceSink final : public trace::Sink {
 public:
  TraceSink(Output& out, trace::Level level, std::string host = {}) : out_(out), host_(std::move(host)) {
    up_to = level;
  }
  void record(const trace::Record& record) override;
  /// Times are since the first event of either. Both clocks must be the same.
  void share_start(const TraceSink& other) { start_ = other.start_; }
  /// Gets each event too.
  std::function<void(const trace::Record&)> also;

 private:
  Output& out_;
  std::string host_;
  /// Of the first event: the driver's clock begins anywhere.
  std::shared_ptr<std::optional<Instant>> start_ = std::make_shared<std::optional<Instant>>();
};

}  // namespace parley::tools
