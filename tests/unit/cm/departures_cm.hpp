// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the peer of an Agent that plays a departure hears from it.
#pragma once
#include "tests/unit/cm/ibcm_kit.hpp"

namespace parley::cm::ibcm::departures {
using namespace kit;

/// Node 1 asks as the specification has it, node 2 plays.
struct Played : Pair {
  explicit Played(DepartureSet play) : Pair({}, {.play = play}) {}

  /// What node 2 says to that, at once: "REP", "REJ 10", ...
  std::string answer(const MadFrom& way, ConstBytes octets) {
    const std::size_t before = net.log.size();
    passive.agent.handle_mad(net.now, way, octets);
    net.settle();
    return said_by(2, before);
  }
  std::string answer(const Flight& flight) { return answer(flight.way, flight.octets); }
  std::string answer(const Flight& like, const CmMessage& message) {
    Flight flight = like;
    message.emit(flight.octets);
    return answer(flight);
  }
  std::string said_by(std::uint8_t node, std::size_t from) const {
    std::string out;
    for (std::size_t i = from; i < net.log.size(); ++i) {
      if (net.log[i].from != node) continue;
      const CmMessage message = net.log[i].message();
      if (!out.empty()) out += ' ';
      out += to_string(message.type());
      if (const auto* rej = std::get_if<CmRej>(&message.body)) out += fmt::format(" {}", static_cast<int>(rej->reason));
    }
    return out.empty() ? "nothing" : out;
  }
  /// The first REQ, which node 2 has not seen.
  Flight lost_req() {
    net.fate = [](const Flight&, std::size_t) { return Fate{.copies = 0}; };
    a = connect();
    return net.log.at(0);
  }
  std::string answer_to_req(const std::function<void(CmReq&)>& change) {
    const Flight flight = lost_req();
    CmMessage message = flight.message();
    change(std::get<CmReq>(message.body));
    return answer(flight, message);
  }
};

/// Of a connection that is over.
inline std::string late_req(DepartureSet play) {
  Played t(play);
  t.establish();
  EXPECT_TRUE(t.active.agent.disconnect(t.net.now, t.a));
  t.net.run_for(1ms);
  return t.answer(t.net.log.at(0));
}

/// While its REP is out.
inline std::string req_again(DepartureSet play) {
  Played t(play);
  const Flight req = t.lost_req();
  EXPECT_EQ(t.answer(req), "REP");
  return t.answer(req);
}

inline std::string rep_for_nobody(DepartureSet play) {
  Played t(play);
  return t.answer(t.lost_req(), {.transaction_id = 5, .body = CmRep{.local_comm_id = 7, .remote_comm_id = 8}});
}

inline std::string other_class_version(DepartureSet play) {
  Played t(play);
  Flight req = t.lost_req();
  req.octets[2] = 3;
  return t.answer(req);
}

inline std::string reliable_datagram(DepartureSet play) {
  return Played(play).answer_to_req([](CmReq& m) { m.service = CmService::rd; });
}

inline std::string path_mtu(DepartureSet play) {
  const auto answer = [&](std::uint8_t code) {
    return Played(play).answer_to_req([code](CmReq& m) { m.path_mtu = code; });
  };
  return fmt::format("{}, {}", answer(0), answer(7));
}

/// Of a REQ, and of a REP.
inline std::string giving_up(DepartureSet play) {
  Played listens(play);
  (void)listens.answer(listens.lost_req());
  listens.net.run_for(1h);
  Pair asks({.play = play});
  asks.net.fate = [](const Flight&, std::size_t) { return Fate{.copies = 0}; };
  (void)asks.connect();
  asks.net.run_for(1h);
  const auto rejections = [](const Net& net, std::string_view by) {
    const auto all = net.log_of(CmMessageType::rej);
    return std::count_if(all.begin(), all.end(), [by](const std::string& one) { return one.starts_with(by); });
  };
  return fmt::format("{} of the REQ, {} of the REP", rejections(asks.net, "1>"), rejections(listens.net, "2>"));
}

/// A program that says no, and one that leaves.
inline std::string rejected_req_again(DepartureSet play) {
  std::string out;
  for (const bool leaves : {false, true}) {
    Played t(play);
    t.passive.accepts = false;
    t.passive.on_event = [&](Instant now, const Event& event) {
      const auto* asked = std::get_if<RequestReceived>(&event);
      if (asked == nullptr) return;
      if (leaves)
        t.passive.agent.destroy(now, asked->id);
      else
        EXPECT_TRUE(t.passive.agent.reject(now, asked->id, {}));
    };
    const Flight req = t.lost_req();
    const auto id = [&] {
      EXPECT_EQ(t.answer(req), "REJ 28");
      return std::get<CmRej>(t.net.log.back().message().body).local_comm_id;
    };
    const std::uint32_t first = id();
    out += fmt::format("{}{}", out.empty() ? "" : ", ", id() == first ? "the same" : "another");
  }
  return out;
}

/// Until a REQ is sent again: its response timeout (20) and its ACK timeout (19).
inline std::string wait_for_answer(DepartureSet play) {
  Pair t({.play = play});
  t.net.fate = [](const Flight&, std::size_t) { return Fate{.copies = 0}; };
  (void)t.connect();
  EXPECT_TRUE(t.net.run_until([&] { return t.net.sent(CmMessageType::req) == 2; }));
  const auto waited = t.net.now - t0;
  return fmt::format("{} ms", std::chrono::duration_cast<std::chrono::milliseconds>(waited).count());
}

inline std::string lap_for_nobody(DepartureSet play) {
  Played t(play);
  return t.answer(t.lost_req(), {.transaction_id = 5, .body = CmLap{.local_comm_id = 7, .remote_comm_id = 8}});
}

inline std::string dreq_from_elsewhere(DepartureSet play) {
  Played t(play);
  t.establish();
  const auto ids = *t.active.agent.ids(t.a);
  Flight flight = t.net.log.at(0);
  const CmDreq dreq{.local_comm_id = ids.local_comm_id, .remote_comm_id = ids.remote_comm_id, .remote_qpn = 0x11};
  flight.way.source = gid(9);
  return t.answer(flight, {.transaction_id = 5, .body = dreq});
}

}  // namespace parley::cm::ibcm::departures
