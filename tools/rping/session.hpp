// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What every subcommand with connections needs: a host, an end by SIGINT or SIGTERM, and a capture of what went over.
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

/// While it lives, the first SIGINT or SIGTERM only asks for an end; the second one ends the process as usual.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  static bool requested();
};

struct SessionOptions {
  std::string provider = "iwarp";   ///< open_host()'s
  std::string qp_type = "rc";       ///< of `listen` and `connect`: or uc, xrc
  std::string device;               ///< rdmacm: where buffers lie before the peer is known; empty: the first
  std::string pcapng;               ///< file for the capture; empty: none
  std::string play_quirk;           ///< roce: whose departures this side plays (wire/ib/quirks.hpp); empty: nobody's
  std::string timers = "back-off";  ///< roce: of the CM, or "spec" (RoceProviderOptions::spec_timers)
  std::string when_full = "mra";    ///< roce: what a listener without room answers (RoceProviderOptions::when_full)
  Duration retry_after = cm::RoceProviderOptions{}.retry_after;  ///< roce: with "retry-after"
  bool retry_after_given = false;
  bool offer_retry_after = false;  ///< roce: this side's REQs say that it heeds a retry-after
  cm::Liveness liveness{};         ///< of those that were given
  bool keepalive_given = false, dead_after_given = false;
  Duration linger{};     ///< how long a disconnect waits for its answer; 0: the provider's own time
  unsigned verbose = 0;  ///< -v: see tools/trace_sink.hpp
  MetricsArgs metrics;
  LogArgs log;
};
void add_session_options(Command sub, SessionOptions& options);
/// --provider. Commands of the simulator and of MPA alone do without.
void add_provider_option(Command sub, SessionOptions& options);
/// --roce, short for the value "roce" of the option `provider`, whose text is `chosen`.
void add_roce_flag(Command sub, Option provider, std::string& chosen);
/// --qp-type, and what its value means for who listens or connects.
void add_qp_type_option(Command sub, SessionOptions& options);
QpType qp_type_of(const SessionOptions& options, bool listens);
/// Messages over XRC need a shared receive queue at the peer, which nothing names here. Errors: usage.
Or<void> check_qp_type(const SessionOptions& session, const TrafficOptions& traffic);
/// And --device and --timers.
void add_provider_options(Command sub, SessionOptions& options);
/// --keepalive and --dead-after.
void add_liveness_options(Command sub, SessionOptions& options);
/// --when-full and --retry-after, of who listens over RoCE; --offer-retry-after, of who connects.
void add_when_full_options(Command sub, SessionOptions& options);
void add_offer_option(Command sub, SessionOptions& options);
/// Whether they are for what this side does, and fit one another. Errors: usage.
Or<void> check_when_full(const SessionOptions& session, bool listens);
/// Options of the command line that the provider cannot follow. Errors: usage.
Or<void> check_provider(const SessionOptions& session, const MpaArgs& args);
/// Whether what a server answers with fits into the provider's answer. Errors: usage.
Or<void> check_answer_data(const SessionOptions& session, ConstBytes data, bool reject);
/// What --play-quirk names, for SessionOptions::play_quirk. A setting is MPA's.
std::string played_over_roce(const MpaArgs& args);

/// `options` (ConnectOptions, ListenOptions) for the provider: with MPA's, or with those of a NIC.
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
  /// Errors: environment (no sockets, file cannot be created), usage (--metrics-http is no address).
  /// `name`: whose lines those of -v are, if not only one side is traced.
  static Or<std::unique_ptr<Session>> open(const SessionOptions& options, Output& out, std::string name = {});
  ~Session();

  Host& host() { return *host_; }
  /// Where a client's buffers lie.
  Device& device() { return *device_; }
  /// A protection domain of the device, the same one each time. Errors: environment.
  Or<PdHandle> pd(Device& device);
  cm::Manager& cm() { return host_->cm(); }
  Instant now() const { return host_->now(); }
  /// One turn of the driver, waiting at most until `deadline`, and at most a tenth of a second so that signals are
  /// seen. Returns whether anything happened.
  bool turn(Instant deadline = never);
  static bool stopped() { return StopSignals::requested(); }
  /// Turns until `done()`, the deadline or a signal; whether done() came true.
  template <class Done>
  bool run_until(Done done, Instant deadline) {
    while (!done()) {
      if (stopped() || now() >= deadline) return false;
      turn(deadline);
    }
    return true;
  }
  /// Lets what is owed leave (a Reply after reject, a FIN after destroy): turns until nothing happens for a moment.
  void settle();
  /// Ends the capture and the log, and writes the last metrics. Errors: environment (the disk is full...).
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
  TcpHost* tcp_ = nullptr;    // the same, if it is one
  RoceHost* roce_ = nullptr;  // the same, if it is one
  Device* device_ = nullptr;
  std::map<Device*, PdHandle> pds_;
};

}  // namespace parley::tools
