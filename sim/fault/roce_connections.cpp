// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/fault/roce_connections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/bytes_io.hpp"
#include "base/gid_hash.hpp"
#include "capture/rules/ibcm/cm_exchange.hpp"
#include "wire/ib/cma.hpp"
#include "wire/ib/packet.hpp"

namespace parley::sim {
namespace {

enum class NumberOf : std::uint8_t { communication_id, queue_pair };

/// A number that `owner` chose for its communication with `peer`.
struct ChosenNumber {
  Gid owner{}, peer{};
  std::uint32_t number = 0;
  NumberOf kind{};
  bool operator==(const ChosenNumber&) const = default;
};

struct NumberHash {
  std::size_t operator()(const ChosenNumber& k) const {
    const std::uint64_t number = std::uint64_t{k.number} << 1 | static_cast<std::uint64_t>(k.kind);
    return static_cast<std::size_t>(mix_gid(mix_gid(number, k.owner), k.peer));
  }
};

struct Connection {
  RoceConnections::Ends ends;
  std::uint64_t transaction = 0;  // transaction ID of its REQ
  std::vector<ChosenNumber> keys;
};

Gid gid_at(ConstBytes frame, std::uint32_t at, bool ipv6) {
  Reader r(frame.subspan(at));
  if (!ipv6) {
    const ConstBytes a = r.bytes(4);
    return gid_of(Address::v4(a[0], a[1], a[2], a[3], 0));
  }
  Gid out{};
  const ConstBytes octets = r.bytes(out.size());
  std::copy(octets.begin(), octets.end(), out.begin());
  return out;
}

RoceConnections::Ends ends_of(const wire::ib::CmReq& req, const Gid& from, const Gid& to) {
  RoceConnections::Ends out;
  out.initiator = address_of_gid(from);
  out.responder = address_of_gid(to);
  out.initiator_id = req.local_comm_id;
  out.initiator_qpn = req.local_qpn;
  const auto service = wire::ib::cma_service_of(req.service_id);
  const auto header = wire::ib::CmaHeader::parse(req.private_data);
  if (!service || !header) return out;
  out.initiator.port = header->source.port;
  out.responder.port = service->port;
  return out;
}

}  // namespace

std::string RoceConnections::Ends::text() const {
  std::string out = fmt::format("communication ID{} {:#010x}", responder_id != 0 ? "s" : "", initiator_id);
  if (responder_id != 0) out += fmt::format(", {:#010x}", responder_id);
  out += fmt::format(", queue pair{} {:#08x}", responder_qpn != 0 ? "s" : "", initiator_qpn);
  if (responder_qpn != 0) out += fmt::format(", {:#08x}", responder_qpn);
  return out;
}

struct RoceConnections::Impl {
  Connection* of(std::uint32_t number) {
    if (number == 0 || number > count || count - number >= connections_max) return nullptr;
    return &slots[(number - 1) % connections_max];
  }
  std::uint32_t find(const ChosenNumber& key) const {
    const auto at = numbers.find(key);
    return at == numbers.end() ? 0 : at->second;
  }
  void name(std::uint32_t number, const ChosenNumber& key) {
    if (key.number == 0) return;
    const auto [at, added] = numbers.try_emplace(key, number);
    if (!added && at->second == number) return;
    at->second = number;
    of(number)->keys.push_back(key);
  }
  std::uint32_t request(const wire::ib::CmMessage& message, const wire::ib::CmReq& req, const Gid& from, const Gid& to,
                        bool learn);
  std::uint32_t message(ConstBytes mad, const Gid& from, const Gid& to, bool learn);

  std::uint32_t count = 0;        // connections seen so far
  std::vector<Connection> slots;  // connection n is in slot (n - 1) % connections_max
  std::unordered_map<ChosenNumber, std::uint32_t, NumberHash> numbers;  // keys of the connections in slots; looked up,
                                                                        // never iterated
};

RoceConnections::RoceConnections() : impl_(std::make_unique<Impl>()) {}
RoceConnections::~RoceConnections() = default;

std::uint32_t RoceConnections::Impl::request(const wire::ib::CmMessage& message, const wire::ib::CmReq& req,
                                             const Gid& from, const Gid& to, bool learn) {
  const ChosenNumber id{from, to, req.local_comm_id, NumberOf::communication_id};
  const std::uint32_t known = find(id);
  // A retransmitted REQ has the transaction ID of the first one; a different one requests another connection.
  if (known != 0 && of(known)->transaction == message.transaction_id) return known;
  if (!learn) return 0;
  const std::size_t slot = count % connections_max;
  if (slot == slots.size()) slots.emplace_back();
  Connection& c = slots[slot];
  for (const ChosenNumber& key : c.keys)
    if (const auto at = numbers.find(key); at != numbers.end() && at->second + connections_max == count + 1)
      numbers.erase(at);
  ++count;
  c = {.ends = ends_of(req, from, to), .transaction = message.transaction_id, .keys = {}};
  name(count, id);
  name(count, {from, to, req.local_qpn, NumberOf::queue_pair});
  return count;
}

std::uint32_t RoceConnections::Impl::message(ConstBytes mad, const Gid& from, const Gid& to, bool learn) {
  const auto message = wire::ib::CmMessage::parse(mad);
  if (!message) return 0;
  if (const auto* req = std::get_if<wire::ib::CmReq>(&message->body)) return request(*message, *req, from, to, learn);
  using wire::ib::CmMessageType;
  if (message->type() == CmMessageType::sidr_req || message->type() == CmMessageType::sidr_rep) return 0;
  const capture::CmIds ids = capture::ids_of(*message);
  std::uint32_t number = find({to, from, ids.remote, NumberOf::communication_id});
  if (number == 0) number = find({from, to, ids.local, NumberOf::communication_id});
  const auto* rep = std::get_if<wire::ib::CmRep>(&message->body);
  Connection* c = of(number);
  if (rep == nullptr || c == nullptr || !learn) return number;
  c->ends.responder_id = rep->local_comm_id;
  c->ends.responder_qpn = rep->qpn();
  name(number, {from, to, rep->local_comm_id, NumberOf::communication_id});
  name(number, {from, to, rep->qpn(), NumberOf::queue_pair});
  return number;
}

std::uint32_t RoceConnections::look(ConstBytes frame, const FrameLayout& layout, bool learn) {
  if (!layout.roce) return 0;
  const std::uint32_t source = layout.ip + (layout.ipv6 ? 8 : 12);  // RFC 8200 §3, RFC 791 §3.1
  const Gid from = gid_at(frame, source, layout.ipv6);
  const Gid to = gid_at(frame, source + (layout.ipv6 ? 16 : 4), layout.ipv6);
  const auto packet = wire::ib::Packet::parse(frame.subspan(layout.payload, layout.payload_size));
  if (!packet) return 0;
  if (packet->bth.dest_qpn == PARLEY_IB_GSI_QPN) return impl_->message(packet->payload, from, to, learn);
  return impl_->find({to, from, packet->bth.dest_qpn, NumberOf::queue_pair});
}

const RoceConnections::Ends* RoceConnections::ends(std::uint32_t connection) const {
  const Connection* c = impl_->of(connection);
  return c != nullptr ? &c->ends : nullptr;
}

}  // namespace parley::sim
