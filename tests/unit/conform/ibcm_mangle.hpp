// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What stands between the tester and a peer, and makes a broken one of it.
#pragma once
#include "ibcm_kit.hpp"

namespace parley::conform::ibcm::kit {

struct Seen {
  wire::ib::Packet packet;
  Bytes whole;
  std::optional<CmMessage> message;
  std::uint32_t id = 0;  ///< where a message of the CM has its sender's, whatever else is in it
  std::uint64_t transaction_id = 0;
  bool cm() const { return packet.bth.dest_qpn == PARLEY_IB_GSI_QPN; }
};
inline Seen look(const Bytes& octets) {
  Seen seen;
  seen.whole = octets;
  seen.whole.resize(octets.size() + PARLEY_IB_ICRC_LEN);
  const auto packet = wire::ib::Packet::parse(seen.whole);
  if (!packet) return seen;
  seen.packet = *packet;
  // As far as there is anything, whatever the BTH says of it.
  const ConstBytes mad = packet->payload;
  if (const auto header = wire::ib::MadHeader::parse(mad)) {
    seen.transaction_id = header->transaction_id;
    Reader r(mad.subspan(PARLEY_IB_MAD_HEADER_LEN));
    seen.id = r.be32();
  }
  if (seen.cm())
    if (auto message = CmMessage::parse(seen.packet.payload)) seen.message = std::move(*message);
  return seen;
}

/// The message `octets` carry, changed.
template <class M>
bool change(Bytes& octets, const std::function<void(M&, CmMessage&)>& how) {
  Seen seen = look(octets);
  if (!seen.message || std::get_if<M>(&seen.message->body) == nullptr) return true;
  how(std::get<M>(seen.message->body), *seen.message);
  seen.message->emit(MutBytes(octets).last(PARLEY_IB_MAD_LEN));
  return true;
}
template <class M>
Stage::Mangle changes(std::function<void(M&, CmMessage&)> how) {
  return [how](Stage&, const PacketPath&, Bytes& octets) { return change<M>(octets, how); };
}
template <class M>
bool carries(const Bytes& octets) {
  const Seen seen = look(octets);
  return seen.message && std::get_if<M>(&seen.message->body) != nullptr;
}

template <class M>
Stage::Mangle drops() {
  return [](Stage&, const PacketPath&, Bytes& octets) { return !carries<M>(octets); };
}
/// The packet of `seen`, changed.
inline void put_back(Seen& seen, Bytes& octets) {
  seen.packet.emit(seen.whole);
  octets.assign(seen.whole.begin(), seen.whole.end() - PARLEY_IB_ICRC_LEN);
}

struct Broken {
  std::string name;
  Stage::Mangle in, out;
};

}  // namespace parley::conform::ibcm::kit
