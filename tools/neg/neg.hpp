// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley neg serve` and `dial`: what they take, and how they tell what happens.
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

/// Plug-ins besides Parley's own, and where its queue pairs come from.
struct PluginArgs {
  std::string provider = "rdmacm";
  std::vector<std::string> files, folders;
  Duration limit = std::chrono::seconds(2);  ///< of a call; 0: they run in this process
};

struct NegArgs {
  PluginArgs plugins;
  std::string endpoint;
  std::optional<std::uint64_t> port;
  std::vector<std::string> variants;  ///< serve: what is offered; dial: one
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

/// Events of negotiations, as a command tells and counts them.
class NegTally {
 public:
  NegTally(const NegArgs& args, Context& context) : args_(args), context_(context) {}
  void take(const neg::Event& event);
  /// As many as --count wants are over.
  bool served() const { return args_.count > 0 && completed_ + failed_ >= args_.count; }
  const std::optional<neg::ListenFailed>& listen_failure() const { return listen_failure_; }
  /// The command's exit code, with its last words. `written`: captures, logs and metrics.
  int finish(const Or<void>& written, bool timed_out) const;

 private:
  void told(const neg::Ended& ended);
  const NegArgs& args_;
  Context& context_;
  std::uint64_t completed_ = 0, failed_ = 0, listening_ = 0;
  std::optional<neg::Failure> last_failure_;
  std::optional<neg::ListenFailed> listen_failure_;
};

/// perftest with -R, over connections of the provider.
int serve_over_cm(const NegArgs& args, const neg::Config& config, const Address& local, Context& context);
int dial_over_cm(const NegArgs& args, const neg::Config& config, const Address& server, Context& context);

/// How a command ends whose negotiation could not begin.
Exit exit_of(const neg::Failure& why);

}  // namespace parley::tools
