// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What every subcommand with sockets needs: a TcpHost, an end by SIGINT or SIGTERM, and a capture of what went over.
#pragma once
#include <memory>
#include <string>

#include "parley/tcp_host.hpp"
#include "tools/options.hpp"

namespace parley::tools {

class CaptureWriter;
class TraceSink;

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
  std::string pcapng;    ///< file for the capture; empty: none
  unsigned verbose = 0;  ///< -v: see tools/trace_sink.hpp
};
void add_session_options(Command sub, SessionOptions& options);

class Session {
 public:
  /// Errors: environment (no sockets, file cannot be created).
  /// `name`: whose lines those of -v are, if not only one side is traced.
  static Or<std::unique_ptr<Session>> open(const SessionOptions& options, Output& out, std::string name = {});
  ~Session();

  TcpHost& host() { return *host_; }
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
  /// Ends the capture. Errors: environment (the disk is full...).
  Or<void> finish();

  const TraceSink* trace() const { return trace_.get(); }  ///< null without -v

 private:
  Session();
  StopSignals signals_;
  std::unique_ptr<CaptureWriter> capture_;
  std::unique_ptr<TraceSink> trace_;
  std::unique_ptr<TcpHost> host_;
};

}  // namespace parley::tools
