// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the peer of a device, or of a whole provider, that plays a departure sees of it.
#pragma once
#include "tests/unit/cm/packet_net.hpp"
#include "tests/unit/nic/roce_solo.hpp"
#include "wire/ib/quirks.hpp"

namespace parley::nic::roce::test::departures {
using wire::ib::DepartureSet;
using wire::ib::Packet;

/// Queue pair b plays; the test is its peer.
struct Played : Solo {
  explicit Played(DepartureSet play) : Solo({.psn_a = 100, .psn_b = 0x200}, play) {}
  void put(const Packet& packet) { inject(true, packet); }
};

inline std::string short_mad(DepartureSet play) {
  Played t(play);
  Packet packet;
  packet.bth.opcode = wire::ib::opcode_of(wire::ib::Service::ud, Operation::send_only);
  packet.bth.dest_qpn = packet.deth.source_qpn = PARLEY_IB_GSI_QPN;
  packet.deth.q_key = PARLEY_IB_GSI_Q_KEY;
  packet.payload = ConstBytes(t.filling).first(200);
  t.put(packet);
  MadIn mad;
  return t.b.device->poll_mad(mad) ? "taken" : "dropped";
}

/// Of no octets, under a key that is none.
inline std::string read_again(DepartureSet play) {
  Played t(play);
  Packet read = t.packet(Operation::read_request, 100);
  read.reth.r_key ^= 0x100;
  t.put(read);
  const std::string first = t.sends();
  t.put(read);
  return fmt::format("{}, then {}", first, t.sends());
}

inline std::string short_first(DepartureSet play) {
  Played t(play);
  EXPECT_TRUE(t.b.recv(1, {t.memory.all()}));
  t.put(t.packet(Operation::send_first, 100, 200));
  return t.sends();
}

/// In 20 s without an answer, each of which is due in a millisecond or so.
inline std::string retries(DepartureSet play) {
  DeviceOptions plays = Side::options(1);
  plays.play = play;
  World t(plays);
  t.connect({.retry = 7});
  Buffer memory(*t.a.device, t.a.pd, 64);
  t.filter = [](std::size_t, const Frame&) { return false; };
  EXPECT_TRUE(t.a.send(1, {memory.all()}));
  t.run(20s);
  return t.sent > 100 ? "for ever" : fmt::format("{} sendings", t.sent);
}

/// More requests than the queue of answers holds by the depth.
inline std::string acks(DepartureSet play) {
  Played t(play);
  for (std::uint32_t psn = 100; psn < 120; ++psn) t.put(t.packet(Operation::write_only, psn, 4));
  const std::string all = t.sends();
  return fmt::format("{} of 20", std::count(all.begin(), all.end(), ',') + 1);
}

/// The octet of the BTH with FECN and BECN, of a request and of an answer.
inline std::string congestion_octets(DepartureSet play) {
  Played t(play);
  const auto next = [&t] {
    constexpr std::size_t at = 4;
    std::array<std::uint8_t, packet_max> buffer{};
    PacketTo to;
    return t.b.device->poll_transmit(t.now, to, buffer) ? fmt::format("{:02x}", buffer[at]) : std::string("none");
  };
  EXPECT_TRUE(t.b.send(1, {t.memory.all()}));
  const std::string request = next();
  t.put(t.packet(Operation::write_only, 100, 4));
  return fmt::format("request {}, answer {}", request, next());
}

}  // namespace parley::nic::roce::test::departures

namespace parley::packet_net::departures {
using wire::ib::DepartureSet;

/// Host 1 listens and plays all that rxe does, or nothing; host 2 connects to it.
struct Played {
  Played(DepartureSet play, Mtu mtu, std::uint32_t pending_max)
      : listens(net.add_host(1, options(play, mtu))),
        asks(net.add_host(2, options({}, Mtu::octets_1024))),
        mine(listens.cm.device()),
        theirs(asks.cm.device()) {
    cm::ListenOptions few;
    few.pending_max = pending_max;
    listener = *listens.cm.listen(service, few);
    net.run_for(1ms);
  }
  static cm::RoceProviderOptions options(DepartureSet play, Mtu mtu) {
    cm::RoceProviderOptions out;
    out.mtu = mtu;
    if (!play.empty()) out.play_quirk = "rxe";
    return out;
  }
  void accept_without_receives() {
    listens.on_request = [this](cm::ConnectRequest& request) {
      accepted = request.id;
      EXPECT_TRUE(accepted.create_qp(mine.qp()) && accepted.accept());
    };
  }
  void connect() {
    cm::ConnectOptions with;
    with.qp = theirs.qp();
    connected = *asks.cm.connect(service, with);
  }
  std::size_t sent(std::string_view name) const {
    return static_cast<std::size_t>(std::count(net.sent.begin(), net.sent.end(), name));
  }

  const Address service = Address::v4(192, 0, 2, 1, 7174);
  Net net;
  Host &listens, &asks;
  Verbs mine, theirs;
  cm::Id listener, accepted, connected;
};

/// To a REQ with none, and to one with more than the port has.
inline std::string path_mtu(DepartureSet play) {
  std::string out;
  for (const std::uint8_t code : {std::uint8_t{0}, std::uint8_t{5}}) {
    Played t(play, Mtu::octets_1024, 8);
    t.accept_without_receives();
    t.net.change = [code](MutBytes packet) {
      constexpr std::size_t at = PARLEY_IB_MAD_HEADER_LEN + 50;
      if (name_of(packet) == "REQ") packet.last(PARLEY_IB_MAD_LEN)[at] = static_cast<std::uint8_t>(code << 4);
    };
    t.connect();
    t.net.run_for(1s);
    out += fmt::format("{}{}", out.empty() ? "" : ", ",
                       t.sent("REJ") > 0   ? "REJ"
                       : t.sent("REP") > 0 ? "REP"
                                           : "nothing");
  }
  return out;
}

/// A listener whose program decides nothing.
inline std::string full_backlog(DepartureSet play) {
  Played t(play, Mtu::octets_1024, 2);
  std::vector<cm::Id> those;
  for (int i = 0; i < 8; ++i) those.push_back(*t.asks.cm.connect(t.service));
  t.net.run_for(20ms);
  return t.sent("MRA") > 0 ? "MRA" : "nothing";
}

/// A Send that finds no receive.
inline std::string not_ready(DepartureSet play) {
  Played t(play, Mtu::octets_1024, 8);
  t.accept_without_receives();
  std::string out = "none";
  t.net.change = [&](MutBytes packet) {
    Bytes whole(packet.begin(), packet.end());
    whole.resize(packet.size() + PARLEY_IB_ICRC_LEN);
    const auto parsed = wire::ib::Packet::parse(whole);
    if (!parsed || wire::ib::operation_of(parsed->bth.opcode) != wire::ib::Operation::acknowledge) return;
    if (parsed->bth.dest_qpn != PARLEY_IB_GSI_QPN) out = wire::ib::syndrome_text(parsed->aeth.syndrome);
  };
  t.connect();
  t.net.run_for(100ms);
  EXPECT_TRUE(t.connected.qp() != nullptr && t.theirs.send(*t.connected.qp(), 0, 16));
  t.net.run_for(1ms);
  return out;
}

}  // namespace parley::packet_net::departures
