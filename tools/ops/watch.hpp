// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What watches a command from outside: its log, its metrics and the trace points, behind one sink of trace events.
#pragma once
#include <functional>
#include <memory>

#include "tools/ops/log_sink.hpp"
#include "tools/ops/metrics_output.hpp"
#include "tools/ops/sinks.hpp"

namespace parley::tools {

class Watch {
 public:
  /// Errors: environment (a file cannot be written), usage (--metrics-http is no address).
  Or<void> open(const LogArgs& log, const MetricsArgs& metrics, Output& out,
                ops::Metrics::Of of = ops::Metrics::Of::connections);
  /// Gets the events too.
  void add(trace::Sink& sink) { sinks_.add(sink); }
  /// For metrics, if there are any; asked until finish().
  void count_packets(std::function<ops::PacketCounts()> counts) {
    if (metrics_) metrics_->count_packets(std::move(counts));
  }
  /// Null: nobody listens.
  trace::Sink* sink() { return sinks_.empty() ? nullptr : &sinks_; }
  /// Whether metrics are to be served and written: then turn() in place of waiting for `fd` alone.
  bool has_metrics() const { return metrics_ != nullptr; }
  /// Waits for `fd` to be readable, or for a reader of metrics, until `until` at most, and serves that.
  void turn(int fd, Instant until);
  /// The last metrics, and whether the log could be written. Errors: environment.
  Or<void> finish();

 private:
  std::unique_ptr<MetricsOutput> metrics_;
  std::unique_ptr<LogSink> log_;
  std::unique_ptr<trace::Sink> probes_;  ///< null in a build without
  Sinks sinks_;
};

}  // namespace parley::tools
