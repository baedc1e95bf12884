// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What observes a command: its log, its metrics and its trace points, behind one sink of trace events.
#pragma once
#include <functional>
#include <memory>

#include "tools/ops/log_sink.hpp"
#include "tools/ops/metrics_output.hpp"
#include "tools/ops/sinks.hpp"

namespace parley::tools {

class Watch {
 public:
  /// Errors: environment (a file cannot be written), usage (--metrics-http is not an address).
  Or<void> open(const LogArgs& log, const MetricsArgs& metrics, Output& out,
                ops::Metrics::CommandKind of = ops::Metrics::CommandKind::connections);
  /// Adds another sink for the events.
  void add(trace::Sink& sink) { sinks_.add(sink); }
  /// The source of packet counts for metrics, if there are any. It is called until finish().
  void count_packets(std::function<ops::PacketCounts()> counts) {
    if (metrics_) metrics_->count_packets(std::move(counts));
  }
  /// Null if there is no sink.
  trace::Sink* sink() { return sinks_.empty() ? nullptr : &sinks_; }
  /// Whether there are metrics to serve and write. If so, call turn() instead of waiting for `fd`.
  bool has_metrics() const { return metrics_ != nullptr; }
  /// Waits until `fd` is readable or a reader of metrics needs service, at most until `until`, and serves the reader.
  void turn(int fd, Instant until);
  /// Writes the last metrics and reports failed writes of the log. Errors: environment.
  Or<void> finish();

 private:
  std::unique_ptr<MetricsOutput> metrics_;
  std::unique_ptr<LogSink> log_;
  std::unique_ptr<trace::Sink> probes_;  ///< null if this build has none
  Sinks sinks_;
};

}  // namespace parley::tools
