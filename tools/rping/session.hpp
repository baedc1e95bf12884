// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The parts that every subcommand with connections uses: a host, the end by SIGINT or SIGTERM, and a capture of the
// traffic.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <type_traits>

#include "parley/ib.hpp"
#include "parley/roce_host.hpp"
#include "parley/tcp_host.hpp"
#include "tools/ops/watch.hpp"
#include "tools/options.hpp"

namespace parley::tools {

class CaptureWriter;
class TraceSink;
struct TrafficOptions;

/// While this object exists, the first SIGINT or SIGTERM only requests the end. The second one terminates the process.
/// An object within the lifetime of another one has no effect.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  static bool requested();
};

struct SessionOptions {
  std::string provider = "iwarp";  ///< see open_host()
  std::string qp_type = "rc";      ///< `listen` and `connect`: rc, uc or xrc
  std::string device;      ///< rdmacm: the device of the buffers before the peer is known; empty: the first device
  std::string pcapng;      ///< capture file; empty: none
  std::string play_quirk;  ///< roce: the peer whose deviations this side plays (wire/ib/quirks.hpp); empty: none
  std::string timers = "back-off";  ///< roce: the CM's timers, "back-off" or "spec" (RoceProviderOptions::spec_timers)
  std::string when_full = "mra";    ///< roce: the answer of a listener without room (RoceProviderOptions::when_full)
  Duration retry_after = cm::RoceProviderOptions{}.retry_after;  ///< roce: with "retry-after"
  bool retry_after_given = false;
  bool offer_retry_after = false;  ///< roce: REQs announce that this side understands retry-after
  cm::Liveness liveness{};         ///< the options that were given
  bool keepalive_given = false, dead_after_given = false;
  Duration linger{};     ///< how long a disconnect waits for the peer's answer; 0: the provider's default
  unsigned verbose = 0;  ///< -v: see tools/trace_sink.hpp
  MetricsArgs metrics;
  LogArgs log;
};
void add_session_options(Command sub, SessionOptions& options);
/// Adds --provider. Commands for the simulator or for MPA only do not have it.
void add_provider_option(Command sub, SessionOptions& options);
/// Adds --roce, short for the value "roce" of the option `provider`, whose value is in `chosen`.
void add_roce_flag(Command sub, Option provider, std::string& chosen);
/// Adds --qp-type.
void add_qp_type_option(Command sub, SessionOptions& options);
QpType qp_type_of(const SessionOptions& options, bool listens);
/// Messages over XRC need a shared receive queue at the peer, which these commands cannot name. Errors: usage.
Or<void> check_qp_type(const SessionOptions& session, const TrafficOptions& traffic);
/// Adds --provider, --device and --timers.
void add_provider_options(Command sub, SessionOptions& options);
/// Adds --keepalive and --dead-after.
void add_liveness_options(Command sub, SessionOptions& options);
/// --when-full and --retry-after for RoCE listeners; --offer-retry-after for RoCE initiators.
void add_when_full_options(Command sub, SessionOptions& options);
void add_offer_option(Command sub, SessionOptions& options);
/// Checks that these options apply to this side and do not contradict each other. Errors: usage.
Or<void> check_when_full(const SessionOptions& session, bool listens);
/// Rejects options on the command line that the provider does not support. Errors: usage.
Or<void> check_provider(const SessionOptions& session, const MpaArgs& args);
/// Checks that a server's private data fits into the provider's answer. Errors: usage.
Or<void> check_answer_data(const SessionOptions& session, ConstBytes data, bool reject);
/// The value of --play-quirk for SessionOptions::play_quirk. A setting applies to MPA only and is ignored here.
std::string played_over_roce(const MpaArgs& args);

/// Options (ConnectOptions, ListenOptions) for the provider: with MPA options for iWARP, with IB options otherwise.
template <class Options>
Options options_for(const SessionOptions& session, const MpaArgs& args) {
  Options options;
  options.ird = args.mpa.ird;
  options.ord = args.mpa.ord;
  if (session.keepalive_given) options.keepalive = session.liveness.keepalive;
  if (session.dead_after_given) options.dead_after = session.liveness.dead_after;
  if (session.provider == "iwarp") options.transport = static_cast<const mpa::Options&>(args.mpa);
  if (session.provider == "iwarp") return options;
  constexpr bool connects = std::is_same_v<Options, cm::ConnectOptions>;
  const bool timed = connects && args.reply_timeout_set;
  if (timed || session.qp_type != "rc")
    options.transport = ib::Options{.reply_timeout = timed ? args.mpa.timeouts.reply : Duration{},
                                    .qp_type = qp_type_of(session, !connects)};
  return options;
}

class Session {
 public:
  /// Errors: environment (no sockets, file cannot be created), usage (--metrics-http is not an address).
  /// `name` is the prefix of -v's lines if several sides are traced.
  static Or<std::unique_ptr<Session>> open(const SessionOptions& options, Output& out, std::string name = {});
  ~Session();

  Host& host() { return *host_; }
  /// The device of a client's buffers.
  Device& device() { return *device_; }
  /// The protection domain of `device`, allocated at the first call. Errors: environment.
  Or<PdHandle> pd(Device& device);
  cm::Manager& cm() { return host_->cm(); }
  Instant now() const { return host_->now(); }
  /// One turn of the driver. It waits until `deadline`, but for at most 100 ms so that signals are noticed. Returns
  /// whether anything happened.
  bool turn(Instant deadline = never);
  static bool stopped() { return StopSignals::requested(); }
  /// Runs turns until `done()` is true, the deadline passes or a signal arrives. Returns whether `done()` was true.
  template <class Done>
  bool run_until(Done done, Instant deadline) {
    while (!done()) {
      if (stopped() || now() >= deadline) return false;
      turn(deadline);
    }
    return true;
  }
  /// Sends what is still pending (a Reply after reject, a FIN after destroy): runs turns until 20 ms pass without an
  /// event, for at most 500 ms.
  void settle();
  /// Ends the capture and the log and writes the last metrics. Errors: environment (the disk is full...).
  Or<void> finish();

  const TraceSink* trace() const { return trace_.get(); }  ///< null without -v

 private:
  Session();
  Or<void> open_sinks(const SessionOptions& options, Output& out, std::string name);
  Or<void> open_host(const SessionOptions& options);
  void set_tap(bool on);
  Or<void> choose(const std::string& name);
  StopSignals signals_;
  std::unique_ptr<CaptureWriter> capture_;
  std::unique_ptr<TraceSink> trace_;
  Watch watch_;
  std::unique_ptr<Host> host_;
  TcpHost* tcp_ = nullptr;    // the host, if it is a TcpHost
  RoceHost* roce_ = nullptr;  // the host, if it is a RoceHost
  Device* device_ = nullptr;
  std::map<Device*, PdHandle> pds_;
};

}  // namespace parley::tools
