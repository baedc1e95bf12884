// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The Agent's tables, and the dispatch of MADs and events.
#include "cm/ibcm/body.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/bytes_io.hpp"
#include "base/same_octets.hpp"
#include "cm/ibcm/busy.hpp"
#include "wire/ib/mad.hpp"

namespace parley::cm::ibcm {
using namespace wire::ib;

Agent::Body::Body(const AgentOptions& options)
    : options_(options),
      rng_(options.seed),
      operand_(static_cast<std::uint32_t>(rng_.next())),
      incarnation_(static_cast<std::uint32_t>(rng_.next())),
      ids_(options.connections_max),
      local_(CountedHash{}),
      by_peer_id_(SeededHash{options.seed}),
      by_peer_qpn_(SeededHash{options.seed}),
      window_(options.outstanding_max, options.outstanding_per_peer, options.waiting_max) {}

MadTo reply_to(const MadFrom& from) {
  return {.source = from.destination,
          .destination = from.source,
          .sgid_index = from.sgid_index,
          .destination_qpn = from.source_qpn,
          .p_key = from.p_key};
}

MadTo way_of(const Path& path) {
  return {.source = path.primary.local_gid,
          .destination = path.primary.remote_gid,
          .sgid_index = path.sgid_index,
          .p_key = path.p_key,
          .flow_label = path.primary.flow_label,
          .traffic_class = path.primary.traffic_class,
          .hop_limit = path.primary.hop_limit};
}

const Connection* Agent::Body::find(ConnectionId id) const {
  const std::size_t slot = EndpointTable::slot(id);
  if (id == 0 || slot >= connections_.size() || connections_[slot] == nullptr) return nullptr;
  const Connection* c = connections_[slot].get();
  return c->id == id ? c : nullptr;
}

Connection* Agent::Body::get(ConnectionId id) { return const_cast<Connection*>(find(id)); }

Connection* Agent::Body::by_local(std::uint32_t local_id) { return found_in(local_, local_id); }

// The same link-local GID names a different peer on each link (RFC 4007 §4).
bool Agent::Body::same_peer(const MadTo& a, const MadTo& b) {
  return same_octets(a.destination, b.destination) &&
         (a.sgid_index == b.sgid_index || !is_link_local_gid(a.destination));
}

bool Agent::Body::from_peer(const Connection& c, const MadFrom& from) {
  if (!options_.check_source_gid || plays(Departure::takes_any_source) || same_peer(c.to, reply_to(from))) return true;
  ++counters.foreign;
  return false;
}

Connection* Agent::Body::by_both(const MadFrom& from, std::uint32_t local_id, std::uint32_t remote_id) {
  Connection* c = by_local(local_id);
  if (c == nullptr || !c->peer_known || c->remote_id != remote_id) {
    ++counters.unknown;
    return nullptr;
  }
  return from_peer(*c, from) ? c : nullptr;
}

// IDs come from a counter, so that an ID is reused only after all others. 0 is not used: it means that there is no ID.
std::uint32_t Agent::Body::next_local_id() {
  constexpr std::uint32_t below_prefix = 0xFFFFFF;
  while (true) {
    std::uint32_t id = ++counter_ ^ operand_;
    if (options_.id_prefix != 0) id = std::uint32_t{options_.id_prefix} << 24 | (id & below_prefix);
    if (id != 0 && !local_.contains(id)) return id;
  }
}

Result<Connection*> Agent::Body::make(bool active) {
  const ConnectionId id = ids_.issue();
  if (id == 0)
    return fail(Errc::no_space, "AgentOptions::connections_max is {a}, and that many are alive",
                options_.connections_max);
  const std::size_t slot = EndpointTable::slot(id);
  if (slot >= connections_.size()) connections_.resize(slot + 1);
  connections_[slot] = make_from(spare_connections_);
  Connection& c = *connections_[slot];
  c.id = id;
  c.active = active;
  c.local_id = next_local_id();
  local_.insert(c.local_id, id);
  return &c;
}

void Agent::Body::know_peer(Connection& c, std::uint64_t guid, std::uint32_t comm_id, std::uint32_t qpn) {
  c.peer_known = true;
  c.remote_guid = guid;
  c.remote_id = comm_id;
  c.remote_qpn = qpn;
  c.by_id = by_peer_id_.insert({guid, comm_id}, c.id);
  c.by_qpn = by_peer_qpn_.insert({guid, qpn}, c.id);
}

void Agent::Body::forget_qpn(Connection& c) {
  if (std::exchange(c.by_qpn, false)) by_peer_qpn_.erase({c.remote_guid, c.remote_qpn});
}

void Agent::Body::forget_peer(Connection& c) {
  forget_qpn(c);
  if (std::exchange(c.by_id, false)) by_peer_id_.erase({c.remote_guid, c.remote_id});
  if (std::exchange(c.by_sidr, false)) sidr_.erase(sidr_key(c.to, c.remote_id));
}

void Agent::Body::release(Connection& c) {
  PARLEY_ASSERT(!c.is_remembered && !c.in_window && !c.ticket);
  forget_peer(c);
  drop(c.unanswered);
  drop(c.answer);
  local_.erase(c.local_id);
  const std::size_t slot = EndpointTable::slot(c.id);
  deadlines_.set(static_cast<std::uint32_t>(slot), never);
  ids_.release(c.id);
  spare_connections_.keep(std::move(connections_[slot]));
}

RejectCounts& Counters::rejects_of(const CmRej& rej) {
  if (rej.reason == CmReject::consumer && busy::retry_after_of(rej.private_data)) return retry_after;
  const auto code = static_cast<std::size_t>(rej.reason);
  return rejects[code < rejects.size() ? code : 0];
}

void Agent::Body::handle_mad(Instant now, const MadFrom& from, ConstBytes mad) {
  ++counters.received;
  const auto message = CmMessage::parse(mad);
  if (!message) return judge_other(from, mad);
  ++counters.messages.of(message->type()).received;
  if (const auto* rej = std::get_if<CmRej>(&message->body)) ++counters.rejects_of(*rej).received;
  std::visit([&](const auto& body) { on_message(now, from, *message, body); }, message->body);
  begin_next(now);
}

// IBA §12.6.7.2 reason 31: a request of another class version is rejected with the version that this side supports. The
// requester's communication ID is at the same offset in all versions.
void Agent::Body::judge_other(const MadFrom& from, ConstBytes mad) {
  ++counters.malformed;
  if (plays(Departure::drops_class_version)) return;
  const auto header = MadHeader::parse(mad);
  if (!header || mad.size() < PARLEY_IB_MAD_LEN || header->mgmt_class != PARLEY_IB_CLASS_CM ||
      header->base_version != PARLEY_IB_MAD_BASE_VERSION || header->method != PARLEY_IB_MAD_METHOD_SEND ||
      header->class_version == PARLEY_IB_CLASS_CM_VERSION)
    return;
  Reader r(mad.subspan(PARLEY_IB_MAD_HEADER_LEN));
  const std::uint32_t id = r.be32();
  if (header->attribute_id == static_cast<std::uint16_t>(CmMessageType::req)) {
    CmRej m{.remote_comm_id = id, .info_length = 1, .reason = CmReject::unsupported_class_version};
    m.info[0] = PARLEY_IB_CLASS_CM_VERSION;
    send_once(reply_to(from), header->transaction_id, m);
  } else if (header->attribute_id == static_cast<std::uint16_t>(CmMessageType::sidr_req)) {
    send_once(reply_to(from), header->transaction_id,
              CmSidrRep{.request_id = id, .status = SidrStatus::unsupported_version});
  }
}

/// False: its id was destroyed, or (TurnedAway) its listener is gone or has nothing to report.
bool Agent::Body::is_wanted(const Event& event) {
  if (const auto* turned = std::get_if<TurnedAway>(&event)) {
    const Listener* listener = listener_of(turned->service_id);
    return listener != nullptr && listener->told;
  }
  return std::visit(
      [this](const auto& e) {
        if constexpr (requires { e.id; }) {
          const Connection* c = find(e.id);
          return c != nullptr && !c->orphan;
        } else {
          return true;
        }
      },
      event);
}

bool Agent::Body::has_event() {
  for (; !events_.empty(); events_.drop())
    if (is_wanted(events_.front())) return true;
  return false;
}

std::optional<Event> Agent::Body::poll_event() {
  if (!has_event()) return std::nullopt;
  std::optional<Event> event = events_.pop();
  if (auto* turned = std::get_if<TurnedAway>(&*event)) {  // with the totals up to now
    const std::uint64_t service_id = turned->service_id;
    Listener& listener = *listener_of(service_id);
    *turned = std::exchange(listener.turned, TurnedAway{});
    turned->service_id = service_id;
    listener.told = false;
  }
  return event;
}

}  // namespace parley::cm::ibcm
