// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/check/wire.hpp"

#include <fmt/format.h>

namespace parley::sim::check {
namespace {

Address plain(Address address) {
  address.scope_id = 0;
  return address;
}

/// The ports that the workload knows: those of the Request, if it was captured.
std::pair<Address, Address> stream_of(const capture::ConnectionReport& report) {
  Address initiator = report.initiator, responder = report.responder;
  if (report.ib) {
    initiator.port = report.ib->source_port;
    responder.port = static_cast<std::uint16_t>(report.ib->service_id.value_or(0));
  }
  return WireCheck::name(initiator, responder);
}

}  // namespace

std::pair<Address, Address> WireCheck::name(const Address& a, const Address& b) {
  const Address x = plain(a), y = plain(b);
  return x < y ? std::pair{x, y} : std::pair{y, x};
}

void WireCheck::frame(const std::string& host, const TapFrame& frame) {
  if (!frame.outbound && frame.drop != DropReason::none) return;  // discarded: its contents were not processed
  Capture& capture = captures_[host];
  wire::CapturedPacket packet;
  packet.frame = ++capture.frames;
  packet.at = frame.at;
  packet.link_type = static_cast<std::uint16_t>(wire::LinkType::ethernet);
  packet.original_length = static_cast<std::uint32_t>(frame.octets.size());
  packet.octets = frame.octets;
  capture.analyzer.push(packet);
}

void WireCheck::corrupted(const Address& a, const Address& b) { corrupted_.insert(name(a, b)); }

void WireCheck::forged(const Address& a, const Address& b) { forged_.insert(hosts(a, b)); }

std::pair<Address, Address> WireCheck::hosts(Address a, Address b) {
  a.port = b.port = 0;
  return name(a, b);
}

bool WireCheck::is_one_of(const std::set<Address>& ends, const Address& end) {
  Address any_port = plain(end);
  any_port.port = 0;
  return ends.contains(plain(end)) || ends.contains(any_port);
}

void WireCheck::judge_connection(const std::string& host, std::size_t life, const capture::ConnectionReport& report,
                                 const Labels& labels, std::set<std::string>& said, Judge& judge) const {
  const auto stream = stream_of(report);
  if (corrupted_.contains(stream)) return;
  if (report.ib && life > 0 && torn_.contains({host, stream})) return;
  if (report.ib && forged_.contains(hosts(report.initiator, report.responder))) return;
  const auto label = labels.find(stream);
  const std::string connection = label != labels.end()
                                     ? label->second
                                     : fmt::format("{} > {}", report.end_text(capture::Side::initiator),
                                                   report.end_text(capture::Side::responder));
  for (const capture::Finding& finding : report.findings) {
    if (finding.severity != capture::Severity::error) continue;
    if (finding.side != capture::Side::responder && is_one_of(options_.quirky, report.initiator)) continue;
    if (finding.side != capture::Side::initiator && is_one_of(options_.quirky, report.responder)) continue;
    const bool fence = finding.broken == capture::Rule::mpa_fence;
    if (fence && !options_.fence) continue;
    if (finding.broken == capture::Rule::mpa_rtr_frame_omitted && is_one_of(options_.announce_by_s, report.initiator))
      continue;
    // Two hosts see the same fault; report it once.
    if (!said.insert(fmt::format("{} {} {}", connection, report.first_at.time_since_epoch().count() / 1'000'000'000,
                                 finding.text))
             .second)
      continue;
    judge.add(fence ? "fence" : "wire", report.last_at, connection,
              fmt::format("{} (frame {} of {}'s capture)", finding.text, finding.frame, host), finding.rule);
  }
}

void WireCheck::restarted(const std::string& host, const std::vector<std::pair<Address, Address>>& open) {
  for (const auto& [a, b] : open) torn_.insert({host, name(a, b)});
  const auto at = captures_.find(host);
  finished_[host].push_back(at == captures_.end() ? capture::FileReport{} : at->second.analyzer.finish());
  captures_.erase(host);
}

void WireCheck::finish(const Labels& labels, Judge& judge) {
  std::set<std::string> said;
  for (auto& [host, capture] : captures_) finished_[host].push_back(capture.analyzer.finish());
  for (const auto& [host, lives] : finished_)
    for (std::size_t life = 0; life < lives.size(); ++life)
      for (const capture::ConnectionReport& connection : lives[life].connections)
        judge_connection(host, life, connection, labels, said, judge);
}

}  // namespace parley::sim::check
