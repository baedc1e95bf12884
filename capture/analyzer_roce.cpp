// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The Analyzer on RoCE packets.
#include "capture/analyzer.hpp"
#include "capture/rules/roce/roce_connections.hpp"

namespace parley::capture {

Analyzer::Analyzer(const AnalyzerOptions& options)
    : options_(options),
      roce_(std::make_unique<RoceConnections>(static_cast<RoceHost&>(*this), options.no_icrc, options.roce_watch)) {}
Analyzer::~Analyzer() = default;

void Analyzer::finish_roce() {
  roce_->finish();
  report_.not_followed += roce_->not_followed();
}

void Analyzer::end_silent_roce(Instant now) { roce_->end_silent(now, options_.idle); }

template <std::uint64_t OtherPackets::*Counter>
void Analyzer::read_roce(const wire::PacketView& packet, const wire::CapturedPacket& captured) {
  ++(report_.other.*Counter);
  roce_->dropped_before = dropped_before_;
  roce_->packet(packet, captured);
}
template void Analyzer::read_roce<&OtherPackets::rocev1>(const wire::PacketView&, const wire::CapturedPacket&);
template void Analyzer::read_roce<&OtherPackets::rocev2>(const wire::PacketView&, const wire::CapturedPacket&);

EventLimits Analyzer::roce_begins(std::uint64_t frame) {
  const EventLimits events{detail_of(frame), options_.events_max};
  if (events.detail != EventDetail::none) ++drawn_;
  return events;
}

void Analyzer::roce_ended(RoceConnection& connection) {
  ConnectionReport r = connection.finish();
  r.dropped = report_.dropped - connection.dropped_before;
  if (options_.roce_watch != nullptr) options_.roce_watch->ended(connection, r);
  list(std::move(r));
}

void Analyzer::roce_note(std::string text) { note(std::move(text)); }

}  // namespace parley::capture
