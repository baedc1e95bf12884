// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/run/run_watch.hpp"

#include "wire/ib/roce.hpp"
#include "wire/packet.hpp"

namespace parley::sim {
namespace {

Address address_of(const Gid& gid) {
  if (is_v4_gid(gid)) return Address::v4(gid[12], gid[13], gid[14], gid[15], 0);
  Address out = Address::any(Address::Family::v6, 0);
  out.octets = gid;
  return out;
}

}  // namespace

RunWatch::RunWatch(const World& world, Workload& workload, check::WireCheck& wire, check::Convergence& convergence,
                   check::Congestion* congestion, Tap* next)
    : world_(world), workload_(workload), wire_(wire), convergence_(convergence), congestion_(congestion), next_(next) {
  for (LinkId link = 0; link < world.link_count(); ++link)
    for (std::uint8_t end = 0; end < 2; ++end) {
      const NodeId node = world.link_end(link, end).node;
      host_of_.push_back(world.is_switch(node) ? nullptr : &world.node_name(node));
    }
}

void RunWatch::on_frame(const TapFrame& frame) {
  if (next_ != nullptr) next_->on_frame(frame);
  // A host discards frames that are not for it, and frames that a fault damaged. The former is not a fault, and the latter
  // was seen before.
  const bool thrown_away = !frame.outbound && frame.drop == DropReason::discarded;
  if (!thrown_away && !frame.note.empty()) touched(frame);  // a dropped frame has a note too
  const std::string* host = host_of_[frame.link * 2 + frame.end];
  if (workload_.groups().used) workload_.groups().history.frame(frame, host, host_of_[frame.link * 2 + 1 - frame.end]);
  if (host == nullptr) return;
  wire_.frame(*host, frame);
  if (congestion_ != nullptr) congestion_->frame(*host, frame);
}

void RunWatch::touched(const TapFrame& frame) {
  convergence_.fault_seen(frame.at);
  workload_.fault_seen(frame.at);
  if (frame.drop == DropReason::queue_full)
    ++queue_drops_;
  else if (frame.drop != DropReason::too_big)  // counted with all dropped frames
    ++faults_;
  if (frame.drop == DropReason::host_down || frame.drop == DropReason::ring_full) ++lost_at_hosts_;
  const auto view = wire::parse_packet(static_cast<std::uint16_t>(wire::LinkType::ethernet), frame.octets,
                                       static_cast<std::uint32_t>(frame.octets.size()));
  if (view.cargo == wire::PacketCargo::rocev2)
    if (const auto roce = wire::ib::RoceHeader::parse(view.ethertype, view.network))
      return touched_roce(address_of(roce->header.source), address_of(roce->header.destination), frame.changes_stream);
  if (view.kind != wire::PacketKind::tcp) {  // ARP and ND serve every connection
    if (frame.drop == DropReason::none) workload_.mislead();
    return workload_.touch_host({});
  }
  workload_.touch_stream(view.tcp.source, view.tcp.destination, frame.changes_stream);
  if (frame.changes_stream) wire_.corrupted(view.tcp.source, view.tcp.destination);
}

void RunWatch::touched_roce(const Address& a, const Address& b, bool forged) {
  workload_.touch_hosts(a, b, forged);
  if (forged) wire_.forged(a, b);
}

void RunWatch::on_note(Instant at, NodeId host, NoteKind kind, std::string_view text) {
  if (next_ != nullptr) next_->on_note(at, host, kind, text);
  if (kind == NoteKind::restless) return;  // no fault excuses a host in a busy loop
  convergence_.fault_seen(at);
  workload_.fault_seen(at);
  ++faults_;
  if (host < world_.node_count() && !world_.is_switch(host)) {
    workload_.touch_host(world_.node_name(host));
    if (kind == NoteKind::crashed || kind == NoteKind::process_ended)
      wire_.restarted(world_.node_name(host), workload_.open_streams(world_.node_name(host)));
  }
}

}  // namespace parley::sim
