// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// --metrics and --metrics-http: what a command counts (ops/metrics), in a file that is replaced again and again, and over
// HTTP on request. docs/operations.md
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/http/metrics_server.hpp"
#include "ops/metrics/metrics.hpp"
#include "parley/roce_host.hpp"
#include "tools/options.hpp"

namespace parley::asio_driver {
class MachineLoop;
}

namespace parley::tools {

struct MetricsArgs {
  std::string file;                              ///< empty: none
  Duration interval = std::chrono::seconds(15);  ///< between two times that it is written; 0: at the end alone
  std::string http;                              ///< where to listen; empty: nowhere
  bool any() const { return !file.empty() || !http.empty(); }
};
void add_metrics_options(Command sub, MetricsArgs& args);

/// "PORT", "ADDRESS:PORT" or "ADDRESS"; without an address: 127.0.0.1. Errors: usage.
Or<Endpoint> parse_metrics_endpoint(const std::string& text);

/// Replaces the file in one step, so that who reads it finds the old text or the new one and never a part. What is no
/// regular file, and what is reached by a descriptor as /dev/stdout, is written to. Errors: environment.
Or<void> replace_file(const std::string& path, std::string_view content);

/// Of the sockets alone, without the connection manager's messages.
ops::PacketCounts packet_counts(const RoceCounters& sockets, const std::vector<RoceDropped>& dropped);

class MetricsOutput {
 public:
  /// The file is written at once, and where HTTP is spoken is told, so that what is wrong with either is known before
  /// anything happens. Errors: usage, environment.
  static Or<std::unique_ptr<MetricsOutput>> open(const MetricsArgs& args, Output& out,
                                                 ops::Metrics::Of of = ops::Metrics::Of::connections);
  ~MetricsOutput();

  trace::Sink& sink() { return metrics_; }
  /// `counts` is asked until finish().
  void count_packets(std::function<ops::PacketCounts()> counts) { metrics_.count_packets(std::move(counts)); }
  /// Waits for `fd` to be readable, or for a client, until `until` at most.
  void wait(int fd, Instant until);
  /// Answers clients and writes the file if it is time, without waiting.
  void turn();
  /// The last file. Errors: environment.
  Or<void> finish();

 private:
  MetricsOutput(const MetricsArgs& args, ops::Metrics::Of of);
  Or<void> listen(Output& out);

  MetricsArgs args_;
  ops::Metrics metrics_;
  ops::MetricsServer server_{metrics_};
  std::unique_ptr<asio_driver::MachineLoop> loop_;  ///< none without HTTP
  Instant write_at_ = never;
};

}  // namespace parley::tools
