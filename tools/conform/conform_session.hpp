// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A run of `parley conform` for any protocol: sockets and their capture, the peer's program, a line per result, the
// reports and the exit code.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "tools/conform/conform_report.hpp"
#include "tools/pcap/capture.hpp"
#include "tools/progress.hpp"
#include "tools/provenance.hpp"
#include "tools/rping/session.hpp"

namespace parley::tools {

class ConformSession {
 public:
  /// `network`: the network protocol between tester and peer, for the reports.
  ConformSession(ConformArgs& args, CaseFilter only, conform::Iut iut, ConformTable table, std::string_view network,
                 Context& context)
      : args_(args),
        only_(std::move(only)),
        iut_(iut),
        table_(std::move(table)),
        network_(network),
        context_(context),
        provenance_(provenance(context.out)) {}

  /// --list: prints a line for each selected case. `live` returns whether a case is run against the peer. Returns the
  /// exit code.
  int list(const std::vector<const conform::Case*>& cases, const std::function<bool(const conform::Case&)>& live);
  /// Reads the endpoint, opens the reports and the sockets for `peer`, and prints the provenance. Errors: usage,
  /// environment.
  template <class Loop, class Peer>
  Or<std::unique_ptr<Loop>> open(Peer& peer) {
    if (const auto ready = open_reports(); !ready) return tl::unexpected(ready.error());
    auto loop = Loop::open(peer);
    if (!loop) return command_error(Exit::environment, "cannot open sockets: " + message_of(loop.error()));
    if (const auto ready = open_capture(); !ready) return tl::unexpected(ready.error());
    if (capture_) (*loop)->set_tap([writer = capture_.get()](const auto& record) { writer->add(record); });
    print_provenance(context_.out, provenance_);
    return std::move(*loop);
  }
  /// Initiator: prints the endpoint at which the peer is expected.
  void print_listening(const Address& at);
  /// Errors: usage, if --only names none of `cases`.
  Or<void> begin(const std::vector<const conform::Case*>& cases);
  conform::Selection selection() const;
  /// `silent` is called at each result. If it returns true, the result's line is omitted, because one message has
  /// already reported why no case could be run.
  conform::Hooks hooks(std::function<bool()> silent);
  /// Runs the script to its end, or until a signal interrupts it. Errors: environment, if the peer's program cannot be
  /// started.
  template <class Loop, class Peer, class Run>
  Or<void> drive(Loop& loop, Peer& peer, Run& run) {
    peer.start(loop.now(), run.script());
    while (!peer.done()) {
      loop.run_once(std::chrono::milliseconds(100));
      if (StopSignals::requested() && !peer.done()) run.interrupt();
    }
    if (!broken_.empty()) return command_error(Exit::environment, broken_);
    return {};
  }
  /// Writes the reports, then prints the failures again and the counts. `verdict` returns the exit code.
  template <class Loop, class Run>
  int finish(Loop& loop, const Run& run, const std::function<int(const conform::Tally&)>& verdict) {
    loop.set_tap({});
    const conform::Tally t = tally(run.results(), args_.strict);
    const auto written = report(run.results(), run.interrupted(), t);
    return written ? verdict(t) : context_.out.error(written.error().exit, written.error().text);
  }

 private:
  Or<void> open_reports();
  Or<void> open_capture();
  void print(const conform::Result& result, bool silent);
  Or<void> report(const std::vector<conform::Result>& results, bool interrupted, const conform::Tally& t);

  ConformArgs& args_;
  CaseFilter only_;
  conform::Iut iut_;
  ConformTable table_;
  std::string_view network_;
  Context& context_;
  draw::Provenance provenance_;
  StopSignals signals_;
  ConformOutputs outputs_;
  std::unique_ptr<CaptureWriter> capture_;
  Program program_;
  std::unique_ptr<Progress> progress_;
  std::string broken_;  // why the peer's program could not be started
  std::size_t done_ = 0, failed_ = 0;
};

}  // namespace parley::tools
