// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley neg serve` and `dial`: their arguments, and their output.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parley/neg_tcp.hpp"
#include "tools/command.hpp"
#include "tools/neg/neg_report.hpp"
#include "tools/ops/watch.hpp"
#include "tools/options.hpp"

namespace parley::tools {

/// Additional plug-ins, and the source of Parley's own queue pairs.
struct PluginArgs {
  std::string provider = "rdmacm";
  std::vector<std::string> files, folders;
  Duration limit = std::chrono::seconds(2);  ///< of one call; 0: plug-ins run in this process
};

struct NegArgs {
  PluginArgs plugins;
  std::string endpoint;
  std::optional<std::uint64_t> port;
  std::vector<std::string> variants;  ///< serve: the offered variants; dial: the requested one
  std::vector<std::string> settings;
  std::string document;  ///< --export
  std::string pcapng, label;
  std::vector<std::string> backups;
  cm::Retry retry{};
  neg::SessionOptions session{};
  Duration connect_timeout = std::chrono::seconds(10);
  Duration timeout{};
  std::uint64_t count = 0;
  unsigned sessions_max = neg::PeersOptions{}.sessions_max;
  bool history = false;
  bool rdma_cm = false;  ///< -R
  LogArgs log;
  MetricsArgs metrics;
};

/// Prints and counts the events of negotiations.
class NegTally {
 public:
  NegTally(const NegArgs& args, Context& context) : args_(args), context_(context) {}
  void take(const neg::Event& event);
  /// Whether --count negotiations have ended.
  bool served() const { return args_.count > 0 && completed_ + failed_ >= args_.count; }
  const std::optional<neg::ListenFailed>& listen_failure() const { return listen_failure_; }
  /// Prints the end of the command and returns its exit code. `written` is the result for captures, logs and metrics.
  int finish(const Or<void>& written, bool timed_out) const;

 private:
  void report_end(const neg::Ended& ended);
  const NegArgs& args_;
  Context& context_;
  std::uint64_t completed_ = 0, failed_ = 0, listening_ = 0;
  std::optional<neg::Failure> last_failure_;
  std::optional<neg::ListenFailed> listen_failure_;
};

/// perftest with -R: negotiates over connections of the provider.
int serve_over_cm(const NegArgs& args, const neg::Config& config, const Address& local, Context& context);
int dial_over_cm(const NegArgs& args, const neg::Config& config, const Address& server, Context& context);

/// The exit code of a command whose negotiation could not start.
Exit exit_of(const neg::Failure& why);

}  // namespace parley::tools
