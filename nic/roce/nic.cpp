// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "nic/roce/nic.hpp"

#include <algorithm>

#include "base/gid.hpp"
#include "base/rng.hpp"
#include "base/same_octets.hpp"
#include "nic/roce/qp.hpp"

namespace parley::nic::roce {
namespace {

constexpr std::uint32_t silent_bit = 1;  // in EventReceiver::waiting_notices; no QueuePairEvent::Kind is 0

constexpr std::uint32_t bit_of(QueuePairEvent::Kind kind) { return 1U << static_cast<unsigned>(kind); }

}  // namespace

Nic::Nic(const DeviceOptions& given) : options(given), port_mtu(octets_of(given.port_mtu)), tables(new Tables) {
  tables->regions.set_offset_base(options.address_base);
  Rng rng(options.seed);
  const auto start = [&rng](Numbers& numbers, std::uint32_t wanted) {
    numbers.next = wanted != 0 ? wanted : static_cast<std::uint32_t>(rng.between(numbers.least, numbers.most));
  };
  qpns = Numbers::with_prefix(options.qpn_prefix);
  start(qpns, options.first_qpn);
  start(srqns, options.first_srqn);
}

const Gid& Nic::gid(std::uint8_t index) const {
  static constexpr Gid none{};
  return index < options.gids.size() ? options.gids[index] : none;
}

std::optional<std::uint8_t> Nic::find_gid(const Gid& wanted) const {
  const auto at = std::find_if(options.gids.begin(), options.gids.end(),
                               [&wanted](const Gid& gid) { return same_octets(gid, wanted); });
  if (at == options.gids.end() || same_octets(wanted, Gid{})) return std::nullopt;
  return static_cast<std::uint8_t>(at - options.gids.begin());
}

std::optional<std::uint8_t> Nic::find_gid(const Gid& wanted, std::optional<std::uint8_t> at) const {
  if (!at) return find_gid(wanted);
  return same_octets(gid(*at), wanted) && !same_octets(wanted, Gid{}) ? at : std::nullopt;
}

Result<Path> Nic::path_of(const AhAttr& attr) const {
  if (attr.port_num != 1)
    return fail(Errc::invalid_argument, "AhAttr::port_num is {a}; the device has port 1", attr.port_num);
  if (!attr.grh) return fail(Errc::invalid_argument, "AhAttr::grh is not set; RoCE addresses are GIDs (IBA §A16)");
  const GlobalRoute& grh = *attr.grh;
  if (gid(grh.sgid_index) == Gid{})
    return fail(Errc::invalid_argument, "GlobalRoute::sgid_index: the port has no GID {a}", grh.sgid_index);
  if (grh.flow_label > 0xFFFFF)
    return fail(Errc::invalid_argument, "GlobalRoute::flow_label is {a}; it has 20 bits", grh.flow_label);
  if (grh.dgid == Gid{}) return fail(Errc::invalid_argument, "GlobalRoute::dgid is not set");
  if (is_v4_gid(grh.dgid) != is_v4_gid(gid(grh.sgid_index)))
    return fail(Errc::invalid_argument, "GlobalRoute: one GID is an IPv4 address, and the other is none");
  return Path{.source = gid(grh.sgid_index),
              .destination = grh.dgid,
              .sgid_index = grh.sgid_index,
              .traffic_class = grh.traffic_class,
              .hop_limit = grh.hop_limit,
              .flow_label = grh.flow_label};
}

// Allocates all memory first, so that a failure leaves nothing behind.
void Nic::add(Qp& qp) {
  if (free_slots.empty() && slots.size() == slots.capacity()) slots.reserve(std::max<std::size_t>(4, 2 * slots.size()));
  free_slots.reserve(slots.capacity());
  by_number.insert(qp.qp_num(), &qp);
  if (free_slots.empty()) {
    qp.slot = static_cast<std::uint32_t>(slots.size());
    slots.push_back(&qp);
    return;
  }
  qp.slot = free_slots.back();
  free_slots.pop_back();
  slots[qp.slot] = &qp;
}

Qp* Nic::find_qp(std::uint32_t number) {
  if (found != nullptr && found->qp_num() == number) return found;
  Qp* const* at = by_number.find(number);
  return found = at == nullptr ? nullptr : *at;
}

void Nic::remove(Qp& qp) {
  if (found == &qp) found = nullptr;
  unlink_dirty(qp);
  timers.set(qp.slot, never);
  by_number.erase(qp.qp_num());
  slots[qp.slot] = nullptr;
  free_slots.push_back(qp.slot);
  forget(qp);
}

void Nic::forget(EventReceiver& receiver) {
  std::erase_if(notices, [&](const QpNotice& notice) { return notice.qp == &receiver; });
  std::erase_if(events, [&](const QpNotice& notice) { return notice.qp == &receiver; });
}

void Nic::mark_dirty(Qp& qp) {
  if (qp.dirty) return;
  qp.dirty = true;
  qp.dirty_previous = last_dirty;
  qp.dirty_next = nullptr;
  (last_dirty != nullptr ? last_dirty->dirty_next : first_dirty) = &qp;
  last_dirty = &qp;
}

void Nic::unlink_dirty(Qp& qp) {
  if (!qp.dirty) return;
  qp.dirty = false;
  (qp.dirty_previous != nullptr ? qp.dirty_previous->dirty_next : first_dirty) = qp.dirty_next;
  (qp.dirty_next != nullptr ? qp.dirty_next->dirty_previous : last_dirty) = qp.dirty_previous;
}

// A deadline that moves later is not updated: waking early costs less than moving it for every ACK.
void Nic::wake(Qp& qp, Instant at) {
  if (at >= qp.wakes) return;
  qp.wakes = at;
  timers.set(qp.slot, at);
}

Result<void> Nic::join(const Gid& group) const {
  if (!asks_to_join) return {};
  if (joins == nullptr)
    return fail(Errc::unsupported, "this host joins no multicast groups, so that nothing would arrive");
  return joins->join(address_of_gid(group));
}

void Nic::leave(const Gid& group) const noexcept {
  if (joins != nullptr) joins->leave(address_of_gid(group));
}

void Nic::notify(Qp& qp, QueuePairEvent::Kind kind) {
  if (qp.type() != QpType::xrc_tgt) return queue_event(qp, kind);
  for (EventReceiver* handle : qp.handles) queue_event(*handle, kind);
}

void Nic::queue_event(EventReceiver& receiver, QueuePairEvent::Kind kind) {
  const std::uint32_t bit = bit_of(kind);
  if ((receiver.waiting_notices & bit) == 0) notices.push_back({.what = kind, .qp = &receiver});
  receiver.waiting_notices |= bit;
  // A connection manager reports by its own events that a connection is established or has failed.
  const bool managers = kind == QueuePairEvent::Kind::comm_est || kind == QueuePairEvent::Kind::qp_fatal;
  if (receiver.owner != 0 && managers) return;
  if ((receiver.waiting_events & bit) == 0) events.push_back({.what = kind, .qp = &receiver});
  receiver.waiting_events |= bit;
}

void Nic::warn(Qp& qp) {
  if (qp.owner == 0 || (qp.waiting_notices & silent_bit) != 0) return;
  notices.push_back({.what = PeerSilent{}, .qp = &qp});
  qp.waiting_notices |= silent_bit;
}

std::optional<QpNotice> Nic::take(std::deque<QpNotice>& list, std::uint32_t EventReceiver::*waiting) {
  if (list.empty()) return std::nullopt;
  const QpNotice notice = list.front();
  list.pop_front();
  const auto* kind = std::get_if<QueuePairEvent::Kind>(&notice.what);
  static_cast<EventReceiver*>(notice.qp)->*waiting &= ~(kind != nullptr ? bit_of(*kind) : silent_bit);
  return notice;
}

}  // namespace parley::nic::roce
