// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/trace_sink.hpp"

#include <fmt/format.h>

#include "base/escape.hpp"

namespace parley::tools {

void add_trace_option(Command sub, unsigned& verbose, const std::string& help_before) {
  const std::string what = "what connections do, message by message; -vv: each FPDU and timer too";
  sub.count("-v", verbose, help_before.empty() ? "Print " + what : help_before + what);
}

std::optional<trace::Level> trace_level(unsigned verbose) {
  if (verbose == 0) return std::nullopt;
  return verbose == 1 ? trace::Level::debug : trace::Level::trace;
}

std::string trace_text(const trace::Record& record, Instant start, std::string_view host) {
  const std::string line = printable(trace::to_text(record, start), false);
  return host.empty() ? line : fmt::format("{}: {}", host, line);
}

std::string trace_log_text(const trace::Record& record) {
  return printable(fmt::format("{:5} {}", trace::to_string(trace::level_of(record.event)), trace::to_text(record)),
                   false);
}

Json trace_json(const trace::Record& record, Instant start, std::string_view host) {
  Json object = trace::to_json(record, start);
  if (!host.empty()) object["host"] = host;
  return object;
}

void TraceSink::record(const trace::Record& record) {
  if (!*start_) *start_ = record.at;
  if (out_.json)
    out_.object(trace_json(record, **start_, host_));
  else
    out_.note(trace_text(record, **start_, host_));
  if (also) also(record);
}

}  // namespace parley::tools
