// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Common to the `parley mad` commands that send: a transport, a port over it, and the end by Ctrl-C.
#pragma once
#include <memory>
#include <string>

#include <fmt/format.h>

#include "drivers/mad/run.hpp"
#include "mad/resolve.hpp"
#include "mad/text_request.hpp"
#include "sim/subnet/transport.hpp"
#include "tools/command.hpp"
#include "tools/mad/tap.hpp"

namespace parley::tools {

struct MadOptions {
  std::string transport;  ///< "ibsim:name/node", "umad:device/port", "roce:address"; empty: the default
  struct {
    std::string subnet;  ///< a file, "fat-tree:2,8,4,4"; empty: no simulation
    std::string node;
    std::vector<std::string> faults;
    std::uint64_t seed = 1;
  } sim;
  bool trace = false;
  std::string pcap;
  Duration timeout = std::chrono::seconds(1);
  unsigned retries = 3;
  unsigned window = 16;
  std::size_t table_max = mad::PortOptions().table_octets_max;
  std::uint64_t m_key = 0, sm_key = 0;
};
void add_mad_options(Command sub, MadOptions& options);

class MadSession {
 public:
  /// `path` may name the local device. Errors: environment, usage.
  static Or<std::unique_ptr<MadSession>> open(const MadOptions& options, Output& out,
                                              const mad::PathText* path = nullptr);

  mad::Port& port() { return *port_; }
  /// Virtual time on a simulated subnet.
  Instant now() const { return net_ ? net_->now() : clock_now(); }
  /// False on RoCE, where ports have only GIDs.
  bool has_lids() const { return transport_->facts().lids; }
  bool has_smps() const { return transport_->facts().smp; }
  /// From now on port().next_request() returns these requests. Errors: environment.
  Or<void> serve(const mad::ServedClass& what);
  /// The queue pair at which others reach this port.
  std::uint32_t qp_num() const { return qp_num_; }
  /// Checks that this port can use the path. Errors: usage, environment.
  Or<void> check(const mad::PathText& to) const;
  /// The path to the destination in a text, with retries, times and keys of the options; IBPath(...) keeps its own.
  mad::Task<mad::Reply<mad::Path>> resolve(const mad::PathText& to) const;
  /// The path with retries, times and keys of the options.
  mad::Path with_options(mad::Path path) const { return defaults().apply(std::move(path)); }
  mad::PathDefaults defaults() const;
  /// Errors: environment (the transport is gone).
  template <class A>
  Or<mad::detail::Awaited<A>> run(A awaitable, const mad_driver::RunHooks& hooks = {}) {
    auto result = net_ ? net_->run(*port_, *transport_, std::move(awaitable), mad_driver::turn_of(hooks))
                       : mad_driver::run_blocking(*port_, *transport_, std::move(awaitable), hooks);
    if (!result) return command_error(Exit::environment, fmt::format("{}: {}", name_, result.error().message()));
    if constexpr (std::is_void_v<mad::detail::Awaited<A>>)
      return {};
    else
      return std::move(*result);
  }
  /// Completes the capture, if there is one. Errors: environment.
  Or<void> finish() { return tap_ != nullptr ? tap_->finish() : Or<void>(); }

 private:
  MadOptions options_;
  std::string name_;                                 // "ibsim 'sim'"
  std::unique_ptr<sim::subnet::VirtualSubnet> net_;  // outlives transport_; null: no simulation
  std::unique_ptr<mad::Transport> transport_;
  std::uint32_t qp_num_ = 1;
  Tap* tap_ = nullptr;
  std::unique_ptr<mad::Port> port_;
};

/// Prints a request without an answer, with request, reply and contexts, as text or JSON. Returns the exit code.
int print_error(const mad::MadError& error, Output& out);
Json error_json(const mad::MadError& error);

}  // namespace parley::tools
