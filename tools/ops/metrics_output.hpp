// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// --metrics and --metrics-http: a command's counters (ops/metrics), in a file that is replaced periodically, and over
// HTTP on request. See docs/operations.md.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/http/metrics_server.hpp"
#include "ops/metrics/metrics.hpp"
#include "parley/roce_host.hpp"
#include "tools/options.hpp"

struct pollfd;

namespace parley::asio_driver {
class MachineLoop;
}

namespace parley::tools {

struct MetricsArgs {
  std::string file;                              ///< empty: none
  Duration interval = std::chrono::seconds(15);  ///< between two writes; 0: write only at the start and at the end
  std::string http;                              ///< listening endpoint; empty: none
  bool any() const { return !file.empty() || !http.empty(); }
};
void add_metrics_options(Command sub, MetricsArgs& args);

/// "PORT", "ADDRESS:PORT" or "ADDRESS"; without an address: 127.0.0.1. Errors: usage.
Or<Endpoint> parse_metrics_endpoint(const std::string& text);

/// Replaces the file atomically: a reader finds either the old or the new text, never a part. A path that is not a
/// regular file, or that leads to a descriptor (/dev/stdout), is written to. Errors: environment.
Or<void> replace_file(const std::string& path, std::string_view content);

/// Counts of the sockets only, without the messages of the connection manager.
ops::PacketCounts packet_counts(const RoceCounters& sockets, const std::vector<RoceDropped>& dropped);

class MetricsOutput {
 public:
  /// Writes the file at once and prints the HTTP endpoint, so that errors of either are reported at the start. Errors:
  /// usage, environment.
  static Or<std::unique_ptr<MetricsOutput>> open(const MetricsArgs& args, Output& out,
                                                 ops::Metrics::CommandKind of = ops::Metrics::CommandKind::connections);
  /// Instead of what trace events count, the metrics are those of `source`, which must outlive this object.
  static Or<std::unique_ptr<MetricsOutput>> open(const MetricsArgs& args, Output& out,
                                                 const ops::MetricsSource& source);
  ~MetricsOutput();

  /// Only without a source.
  trace::Sink& sink() { return *counted_; }
  /// `counts` is called until finish().
  void count_packets(std::function<ops::PacketCounts()> counts) { counted_->count_packets(std::move(counts)); }
  /// Waits until `fd` is readable or a client needs service, at most until `until`.
  void wait(int fd, Instant until);
  /// Adds what poll(2) has to wait for until next_deadline().
  void add_to(std::vector<pollfd>& polls) const;
  Instant next_deadline() const;
  /// Answers clients, and writes the file if it is due. Does not wait.
  void turn();
  /// Writes the file for the last time. Errors: environment.
  Or<void> finish();

 private:
  MetricsOutput(const MetricsArgs& args, std::unique_ptr<ops::Metrics> counted, const ops::MetricsSource& source);
  static Or<std::unique_ptr<MetricsOutput>> begin(std::unique_ptr<MetricsOutput> metrics, Output& out);
  Or<void> listen(Output& out);

  MetricsArgs args_;
  std::unique_ptr<ops::Metrics> counted_;  ///< null: there is another source
  const ops::MetricsSource& source_;
  ops::MetricsServer server_{source_};
  std::unique_ptr<asio_driver::MachineLoop> loop_;  ///< none without HTTP
  Instant write_at_ = never;
};

}  // namespace parley::tools
