// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/check/groups.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/check/delivery.hpp"
#include "wire/ib/packet.hpp"
#include "wire/ib/roce.hpp"
#include "wire/packet.hpp"

namespace parley::sim::check {
namespace {

constexpr std::string_view group_rule = "IBA §10.5";

/// The RoCE packet to a multicast group in an Ethernet frame.
std::optional<wire::ib::RoceHeader::Parsed> to_group(ConstBytes octets) {
  if (octets.empty() || (octets.front() & 1) == 0) return std::nullopt;  // the MAC address of one station
  const auto view = wire::parse_packet(static_cast<std::uint16_t>(wire::LinkType::ethernet), octets,
                                       static_cast<std::uint32_t>(octets.size()));
  if (view.cargo != wire::PacketCargo::rocev2) return std::nullopt;
  const auto roce = wire::ib::RoceHeader::parse(view.ethertype, view.network);
  if (!roce || !is_multicast(roce->header.destination)) return std::nullopt;
  return *roce;
}

}  // namespace

const std::uint32_t* GroupHistory::find_source(const Gid& gid, std::uint32_t qpn) const {
  const auto host = host_of_.find(gid);
  if (host == host_of_.end()) return nullptr;
  const auto at = by_qpn_.find({host->second, qpn});
  return at == by_qpn_.end() ? nullptr : &at->second;
}

void GroupHistory::frame(const TapFrame& frame, const std::string* here, const std::string* there) {
  const auto roce = to_group(frame.octets);
  if (!roce) return;
  forged = forged || frame.changes_stream;
  const auto packet = wire::ib::Packet::parse(roce->packet);
  if (!packet || wire::ib::service_of(packet->bth.opcode) != wire::ib::Service::ud) return;
  const std::uint32_t* number = find_source(roce->header.source, packet->deth.source_qpn);
  if (number == nullptr || packet->bth.psn >= sources[*number].posted.size()) return;
  GroupSource& source = sources[*number];
  const std::uint32_t psn = packet->bth.psn;
  if (frame.outbound) {
    if (here != nullptr && *here == source.host && source.left[psn] == never) source.left[psn] = frame.at;
    if (!frame.note.empty()) touched_.insert({*number, psn, there == nullptr ? std::string() : *there});
    return;
  }
  // A packet sent in an earlier life of its sender has a PSN that is reused in this one.
  if (here == nullptr || frame.drop != DropReason::none || source.left[psn] == never) return;
  Arrival& arrival = arrivals_[{*number, psn, *here}];
  if (arrival.copies++ == 0) arrival.at = frame.at;
}

void GroupHistory::touch(const std::string& host, Instant at) {
  for (GroupSource& source : sources)
    if (host.empty() || source.host == host) source.touched_at = at;
  for (GroupReceiver& receiver : receivers)
    if (host.empty() || receiver.host == host) receiver.touched_at = at;
}

GroupHistory::DatagramState GroupHistory::standing(const GroupReceiver& receiver, std::uint32_t number,
                                                   std::uint32_t psn) const {
  const GroupSource& source = sources[number];
  DatagramState out;
  const auto heard = receiver.heard.find({source.send, source.first + psn});
  out.heard = heard == receiver.heard.end() ? 0 : heard->second;
  out.excused = forged || receiver.touched_at >= source.posted[psn] || source.touched_at >= source.posted[psn] ||
                touched_.contains({number, psn, {}}) || touched_.contains({number, psn, receiver.host});
  const auto arrival = arrivals_.find({number, psn, receiver.host});
  if (arrival != arrivals_.end()) {
    out.came = true;
    out.at = arrival->second.at;
    out.copies = arrival->second.copies;
  } else if (receiver.host == source.host && source.left[psn] != never) {  // the host's own copy crosses no link
    out.came = true;
    out.at = source.left[psn];
    out.copies = 1;
  }
  for (const GroupReceiver::Membership& stay : receiver.stays) {
    if (out.came && stay.from <= out.at && out.at <= stay.to) {
      out.never_member = false;
      out.member = out.member || (stay.from < out.at && out.at < stay.to);
    }
    out.member_since_it_left = out.member_since_it_left || (stay.from <= source.left[psn] && stay.to == never);
  }
  return out;
}

bool GroupHistory::may_come(const GroupReceiver& receiver, std::uint32_t number, std::uint32_t psn) const {
  const DatagramState s = standing(receiver, number, psn);
  if (s.heard != 0 || s.excused) return false;
  return s.came ? s.member : sources[number].left[psn] == never || s.member_since_it_left;
}

std::string GroupHistory::name_of(const GroupSource& source, std::uint32_t psn) const {
  return fmt::format("datagram {} from {} to {} (send {})", source.first + psn + 1, source.host,
                     group_text(source.group), source.send + 1);
}

std::string GroupHistory::waits_for() {
  if (!waiting_known_) {
    waiting_known_ = true;
    waiting_.clear();
    for (std::uint32_t e = 0; e < receivers.size(); ++e)
      for (std::uint32_t s = 0; s < sources.size(); ++s)
        for (std::uint32_t psn = 0; sources[s].group == receivers[e].group && psn < sources[s].posted.size(); ++psn)
          if (may_come(receivers[e], s, psn)) waiting_.push_back({e, {s, psn, {}}});
  }
  while (!waiting_.empty()) {
    const auto& [receiver, place] = waiting_.back();
    if (may_come(receivers[receiver], place.source, place.psn))
      return fmt::format("{} waits for {}", receivers[receiver].label, name_of(sources[place.source], place.psn));
    waiting_.pop_back();
  }
  return {};
}

void GroupHistory::judge_one(const GroupReceiver& receiver, std::uint32_t number, std::uint32_t psn, Instant now,
                             Judge& judge) const {
  if (forged) return;
  const GroupSource& source = sources[number];
  const DatagramState s = standing(receiver, number, psn);
  const auto report = [&](std::string_view what) {
    judge.add(delivery_checker, s.came ? s.at : now, receiver.label, fmt::format("{} {}", name_of(source, psn), what),
              group_rule);
  };
  // A packet that reached a paused host is processed when the host resumes; the host may have joined by then.
  const bool then = s.copies <= 1 && receiver.touched_at < s.at;
  if (s.heard > 0 && s.came && s.never_member && then)
    return report("was delivered, and this was no member when it came");
  if (s.heard > 0 && !s.came && !s.excused) return report("was delivered, and no host of a member was given it");
  if (s.heard > 1 && s.heard > s.copies && !s.excused)
    return report(fmt::format("was delivered {} times, and came {}", s.heard,
                              s.copies == 1 ? std::string("once") : fmt::format("{} times", s.copies)));
  if (s.heard > 0 || s.excused) return;
  if (s.came && s.member) return report("came to this member's host and was not delivered");
  if (!s.came && source.left[psn] != never && s.member_since_it_left)
    report("did not come to this member's host, and no fault has lost it");
}

void GroupHistory::judge(Instant now, Judge& judge) const {
  for (const GroupSource& source : sources)
    for (std::uint32_t psn = 0; psn < source.posted.size(); ++psn)
      if (source.left[psn] == never && source.touched_at < source.posted[psn])
        judge.add(delivery_checker, now, {}, fmt::format("{} was posted and never left", name_of(source, psn)),
                  group_rule);
  for (const GroupReceiver& receiver : receivers)
    for (std::uint32_t s = 0; s < sources.size(); ++s)
      for (std::uint32_t psn = 0; sources[s].group == receiver.group && psn < sources[s].posted.size(); ++psn)
        judge_one(receiver, s, psn, now, judge);
}

}  // namespace parley::sim::check
