// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/rping/session.hpp"

#include <csignal>

#include <algorithm>

#include <fmt/format.h>

#include "drivers/open_files.hpp"
#include "parley/rdma_host.hpp"
#include "tools/pcap/capture.hpp"
#include "tools/report.hpp"
#include "tools/trace_sink.hpp"

namespace parley::tools {

namespace {

/// The signal handler writes the first one: these are the only global variables in tools/.
volatile std::sig_atomic_t stop_requested = 0;
unsigned stop_scopes = 0;

extern "C" void parley_request_stop(int) { stop_requested = 1; }

void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal, &action, nullptr);
}

}  // namespace

StopSignals::StopSignals() {
  if (stop_scopes++ > 0) return;
  stop_requested = 0;
  // SA_RESETHAND: a second signal terminates the process even if the graceful end hangs.
  for (const int signal : {SIGINT, SIGTERM}) handle(signal, parley_request_stop, static_cast<int>(SA_RESETHAND));
}

StopSignals::~StopSignals() {
  if (--stop_scopes > 0) return;
  for (const int signal : {SIGINT, SIGTERM}) handle(signal, SIG_DFL, 0);
}

bool StopSignals::requested() { return stop_requested != 0; }

Session::Session() = default;
Session::~Session() = default;

/// Opens the sinks: -v, the log, metrics and trace points.
Or<void> Session::open_sinks(const SessionOptions& options, Output& out, std::string name) {
  if (const auto level = trace_level(options.verbose)) {
    trace_ = std::make_unique<TraceSink>(out, *level, std::move(name));
    watch_.add(*trace_);
  }
  return watch_.open(options.log, options.metrics, out);
}

namespace {

cm::RoceWhenFull when_full_of(const std::string& word) {
  if (word == "retry-after") return cm::RoceWhenFull::retry_after;
  if (word == "refuse") return cm::RoceWhenFull::refuse;
  return word == "drop" ? cm::RoceWhenFull::drop : cm::RoceWhenFull::mra;
}

ops::PacketCounts packets_of(const RoceHost& host) {
  ops::PacketCounts counts = packet_counts(host.counters(), host.dropped());
  for (const RoceMessages& of : host.messages()) counts.messages.push_back({of.type, of.received, of.sent, of.resent});
  for (const RoceRejects& of : host.rejects()) counts.rejects.push_back({of.reason, of.received, of.sent});
  return counts;
}

}  // namespace

Or<void> Session::open_host(const SessionOptions& options) {
  trace::Sink* sink = watch_.sink();
  if (options.provider == "iwarp") {
    TcpHostOptions tcp;
    tcp.iwarp.trace = sink;
    if (options.linger > Duration{}) tcp.iwarp.linger = options.linger;
    auto host = TcpHost::open(tcp);
    if (!host) return command_error(Exit::environment, "cannot open sockets: " + message_of(host.error()));
    tcp_ = host->get();
    host_ = std::move(*host);
    return {};
  }
  if (options.provider == "roce") {
    RoceHostOptions roce;
    roce.roce.trace = sink;
    roce.roce.play_quirk = options.play_quirk;
    roce.roce.spec_timers = options.timers == "spec";
    roce.roce.when_full = when_full_of(options.when_full);
    roce.roce.retry_after = options.retry_after;
    roce.roce.offer_retry_after = options.offer_retry_after;
    if (options.linger > Duration{}) roce.roce.linger = options.linger;
    auto host = RoceHost::open(roce);
    if (!host) return command_error(Exit::environment, "cannot open sockets: " + message_of(host.error()));
    roce_ = host->get();
    watch_.count_packets([host = roce_] { return packets_of(*host); });
    host_ = std::move(*host);
    return {};
  }
  RdmaHostOptions rdma;
  rdma.trace = sink;
  if (options.linger > Duration{}) rdma.linger = options.linger;
  auto host = RdmaHost::open(rdma);
  if (!host)
    return command_error(Exit::environment, "cannot use " + options.provider + ": " + message_of(host.error()));
  host_ = std::move(*host);
  return {};
}

Or<std::unique_ptr<Session>> Session::open(const SessionOptions& options, Output& out, std::string name) {
  raise_open_files();
  std::unique_ptr<Session> session(new Session());
  if (auto opened = session->open_sinks(options, out, std::move(name)); !opened) return tl::unexpected(opened.error());
  if (auto opened = session->open_host(options); !opened) return tl::unexpected(opened.error());
  if (auto chosen = session->choose(options.device); !chosen) return tl::unexpected(chosen.error());
  if (!options.pcapng.empty()) {
    auto capture = CaptureWriter::create(options.pcapng);
    if (!capture) return tl::unexpected(capture.error());
    session->capture_ = std::move(*capture);
    session->set_tap(true);
    if (session->trace_ && session->tcp_ != nullptr)
      session->trace_->also = [writer = session->capture_.get()](const trace::Record& record) {
        writer->comment(record);
      };
  }
  return session;
}

void Session::set_tap(bool on) {
  CaptureWriter* writer = capture_.get();
  if (tcp_ != nullptr) tcp_->set_tap(on ? [writer](const TapRecord& r) { writer->add(r); } : Tap());
  if (roce_ != nullptr) roce_->set_tap(on ? [writer](const PacketTapRecord& r) { writer->add(r); } : PacketTap());
}

Or<void> Session::choose(const std::string& name) {
  std::string names;
  for (Device* device : cm().devices()) {
    const std::string found = device->query().name;
    names += (names.empty() ? "" : ", ") + found;
    if (device_ == nullptr && (name.empty() || name == found)) device_ = device;
  }
  if (device_ != nullptr) return {};
  return command_error(Exit::environment, fmt::format("there is no device {}; there are: {}", name, names));
}

Or<PdHandle> Session::pd(Device& device) {
  const auto [at, added] = pds_.try_emplace(&device);
  if (!added) return at->second;
  const auto pd = device.alloc_pd();
  if (!pd) return command_error(Exit::environment, "cannot create a protection domain: " + message_of(pd.error()));
  return at->second = *pd;
}

bool Session::turn(Instant deadline) {
  constexpr Duration longest = std::chrono::milliseconds(100);
  const Duration left = deadline - now();
  const Duration wait = deadline == never || left > longest ? longest : std::max(left, Duration{0});
  if (!watch_.has_metrics()) return host_->run_once(wait);
  watch_.turn(host_->fd(), std::min(now() + wait, host_->next_deadline()));
  return host_->run_once(Duration{});
}

void Session::settle() {
  const Instant end = now() + std::chrono::milliseconds(500);
  while (now() < end && host_->run_once(std::chrono::milliseconds(20))) {
  }
}

Or<void> Session::finish() {
  Or<void> ended;
  if (capture_) {
    set_tap(false);
    if (trace_) trace_->also = {};
    ended = capture_->finish();
    capture_.reset();
  }
  if (auto watched = watch_.finish(); !watched && ended) ended = std::move(watched);
  return ended;
}

}  // namespace parley::tools
