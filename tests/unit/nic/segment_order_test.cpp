// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Segments of one message out of MO or TO order. RFC 5041 §5.3 asks a Data Source for increasing order as SHOULD, so a
// Data Sink takes any; the segment with the L bit still comes last and closes the message (§4.1, a MUST).
#include <algorithm>
#include <numeric>

#include "test_pair.hpp"

namespace parley::nic::iwarp::test {
namespace {

const std::string no_octets;

std::string send_segment(bool last, std::uint32_t msn, std::uint32_t mo, const std::string& payload) {
  return std::string(last ? "41" : "01") + "43" + Solo::hex32(0) + Solo::hex32(0) + Solo::hex32(msn) + Solo::hex32(mo) +
         payload;
}
std::string response_segment(bool last, const std::string& stag, const std::string& to, const std::string& payload) {
  return std::string(last ? "c1" : "81") + "42" + stag + to + payload;
}
/// Layer, type and code of a Terminate's octets; empty: it is none.
std::string code_of(const std::string& answer) {
  return answer.substr(0, 8).ends_with("4147") ? answer.substr(40, 4) : std::string();
}
std::string memory(const Buffer& buffer, std::size_t at, std::size_t n) {
  return hex(ConstBytes(buffer.memory).subspan(at, n));
}

TEST(Conformance, Row92_SendSegmentsInAnyOrderArePlacedWhereTheyBelong) {
  for (const bool with_srq : {false, true}) {
    Side side(with_srq);
    Buffer buffer(*side.device, side.pd, 64);
    // Two pieces, so that a segment also falls across them.
    const std::array<Sge, 2> pieces{buffer.sge(32, 5), buffer.sge(0, 11)};
    ASSERT_TRUE(with_srq ? side.srq->post_recv({.wr_id = 7, .sges = pieces})
                         : side.qp->post_recv({.wr_id = 7, .sges = pieces}));
    ASSERT_TRUE(side.qp->attach(attach_options(mpa::Role::responder)));
    mpa::Framer framer({.crc = true, .markers = false, .emss = 65000});
    const auto feed = [&](const std::string& ulpdu) {
      const Bytes octets = unhex(ulpdu);
      Bytes fpdu(framer.wire_size(octets.size()));
      framer.frame(octets, {}, fpdu);
      side.qp->handle_bytes(fpdu);
    };
    feed(send_segment(false, 1, 8, "08090a"));
    feed(send_segment(false, 1, 3, "0304050607"));
    feed(send_segment(false, 1, 0, "000102"));
    EXPECT_TRUE(side.recvs().empty());  // nothing is delivered before the last segment
    feed(send_segment(true, 1, 11, "0b0c"));
    const auto done = side.recvs();
    ASSERT_EQ(done.size(), 1U);
    EXPECT_EQ(done[0].wr_id, 7U);
    EXPECT_EQ(done[0].status, WcStatus::success);
    EXPECT_EQ(done[0].byte_len, 13U);
    EXPECT_EQ(memory(buffer, 32, 5), "0001020304");
    EXPECT_EQ(memory(buffer, 0, 8), "05060708090a0b0c");
    EXPECT_EQ(side.qp->state(), QpState::rts);
  }
}

TEST(NicSegmentOrder, AMessageThatTheLastSegmentLeavesWithAHoleTerminatesWith1204) {
  Solo hole, beyond, again, inside, far;
  for (Solo* solo : {&hole, &beyond, &again, &inside, &far}) ASSERT_TRUE(solo->side.recv(1, {solo->buffer.sge(0, 16)}));
  EXPECT_EQ(hole.feed(send_segment(false, 1, 0, "00")), no_octets);
  EXPECT_EQ(code_of(hole.feed(send_segment(true, 1, 2, "02"))), "1204");
  // RFC 5041 §4.1: the last segment has the highest MO.
  EXPECT_EQ(beyond.feed(send_segment(false, 1, 4, "04")), no_octets);
  EXPECT_EQ(code_of(beyond.feed(send_segment(true, 1, 0, "00010203"))), "1204");
  EXPECT_EQ(again.feed(send_segment(false, 1, 2, "0203")), no_octets);
  EXPECT_EQ(code_of(again.feed(send_segment(false, 1, 1, "0102"))), "1204");
  EXPECT_EQ(inside.feed(send_segment(false, 1, 0, "00010203")), no_octets);
  EXPECT_EQ(code_of(inside.feed(send_segment(false, 1, 1, "01"))), "1204");
  EXPECT_EQ(code_of(far.feed(send_segment(false, 1, 17, ""))), "1204");
  for (Solo* solo : {&hole, &beyond, &again, &inside, &far}) {
    const auto done = solo->side.recvs();
    ASSERT_EQ(done.size(), 1U);
    EXPECT_EQ(done[0].status, WcStatus::wr_flush_err);
  }
}

TEST(NicSegmentOrder, ASegmentBehindTheReceiveTerminatesWith1205InAnyOrder) {
  Solo solo;
  ASSERT_TRUE(solo.side.recv(1, {solo.buffer.sge(0, 16)}));
  EXPECT_EQ(code_of(solo.feed(send_segment(false, 1, 14, "0e0f10"))), "1205");
  Solo at_the_end;
  ASSERT_TRUE(at_the_end.side.recv(1, {at_the_end.buffer.sge(0, 16)}));
  EXPECT_EQ(at_the_end.feed(send_segment(false, 1, 14, "0e0f")), no_octets);
  EXPECT_EQ(code_of(at_the_end.feed(send_segment(false, 1, 16, "10"))), "1205");
}

TEST(NicSegmentOrder, AMessageWithAHoleHoldsOffTheNext) {
  Solo next, immediate, other, fin;
  for (Solo* solo : {&next, &immediate, &other, &fin}) {
    ASSERT_TRUE(solo->side.recv(1, {solo->buffer.sge(0, 16)}));
    ASSERT_TRUE(solo->side.recv(2, {solo->buffer.sge(16, 16)}));
    EXPECT_EQ(solo->feed(send_segment(false, 1, 4, "04")), no_octets);
  }
  EXPECT_EQ(code_of(next.feed(send_segment(true, 2, 0, "00"))), "1203");
  EXPECT_EQ(code_of(immediate.feed("4148 00000000 00000000 00000001 00000000 0102030405060708")), "0206");
  EXPECT_EQ(immediate.side.events.back().failure.rule, "RFC 5041 §4.3");
  EXPECT_EQ(code_of(other.feed("4145 00000000 00000000 00000001 00000005 05")), "0206");
  fin.side.qp->handle_end(false);
  EXPECT_TRUE(fin.side.saw(QpEvent::Kind::failed));
  EXPECT_EQ(fin.side.recvs().size(), 2U);
}

TEST(NicSegmentOrder, ASegmentAfterTheLastOneTerminatesWith1203) {
  Solo solo;
  ASSERT_TRUE(solo.side.recv(1, {solo.buffer.sge(0, 16)}));
  ASSERT_TRUE(solo.side.recv(2, {solo.buffer.sge(0, 16)}));
  EXPECT_EQ(solo.feed(send_segment(true, 1, 0, "0001")), no_octets);
  EXPECT_EQ(code_of(solo.feed(send_segment(false, 1, 2, "02"))), "1203");
}

/// A Solo whose own Read of 16 octets is out.
struct Reader16 : Solo {
  Reader16() : Solo({}, mpa::Role::initiator) {
    const Sge sink = buffer.sge(8, 16);
    EXPECT_TRUE(side.qp->post_send(
        {.wr_id = 1, .opcode = SendWr::Opcode::rdma_read, .sges = {&sink, 1}, .remote_addr = 0, .rkey = 0x4711}));
    EXPECT_EQ(hex(side.transmit_all()).size(), 2 * 52U);
  }
  std::string respond(bool last, std::uint64_t at, const std::string& payload) {
    return feed(response_segment(last, stag(), to(8 + at), payload));
  }
};

TEST(Conformance, Row94_ReadResponseSegmentsInAnyOrder) {
  Reader16 solo;
  EXPECT_EQ(solo.respond(false, 12, "0c0d"), no_octets);
  EXPECT_EQ(solo.respond(false, 4, "0405060708090a0b"), no_octets);
  EXPECT_EQ(solo.respond(false, 0, "00010203"), no_octets);
  EXPECT_TRUE(solo.side.sends().empty());
  EXPECT_EQ(solo.respond(true, 14, "0e0f"), no_octets);
  const auto done = solo.side.sends();
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, WcStatus::success);
  EXPECT_EQ(done[0].byte_len, 16U);
  EXPECT_EQ(memory(solo.buffer, 8, 16), "000102030405060708090a0b0c0d0e0f");
}

TEST(NicSegmentOrder, AReadResponseIsHeldToItsSinkInAnyOrder) {
  Reader16 hole, again, before, behind;
  EXPECT_EQ(hole.respond(false, 0, "0001"), no_octets);
  EXPECT_EQ(code_of(hole.respond(true, 3, "030405060708090a0b0c0d0e0f")), "0207");
  EXPECT_EQ(again.respond(false, 4, "0405"), no_octets);
  EXPECT_EQ(code_of(again.respond(false, 5, "0506")), "1101");
  EXPECT_EQ(code_of(before.respond(false, static_cast<std::uint64_t>(-1), "00")), "1101");
  EXPECT_EQ(code_of(behind.respond(false, 15, "0f10")), "1101");
  for (Reader16* solo : {&hole, &again, &before, &behind})
    EXPECT_EQ(solo->side.sends().at(0).status, WcStatus::bad_resp_err);
}

TEST(NicSegmentOrder, TheNextReadBeginsWithNothingPlaced) {
  Reader16 solo;
  EXPECT_EQ(solo.respond(false, 8, "08090a0b0c0d0e"), no_octets);
  EXPECT_EQ(solo.respond(false, 0, "0001020304050607"), no_octets);
  EXPECT_EQ(solo.respond(true, 15, "0f"), no_octets);
  const Sge sink = solo.buffer.sge(8, 16);
  ASSERT_TRUE(solo.side.qp->post_send({.wr_id = 2, .opcode = SendWr::Opcode::rdma_read, .sges = {&sink, 1}}));
  (void)solo.side.transmit_all();
  EXPECT_EQ(solo.respond(false, 0, "1011121314151617"), no_octets);
  EXPECT_EQ(solo.side.sends().size(), 1U);
  EXPECT_EQ(solo.respond(true, 8, "18191a1b1c1d1e1f"), no_octets);
  EXPECT_EQ(solo.side.sends().size(), 1U);
  EXPECT_EQ(memory(solo.buffer, 8, 16), "101112131415161718191a1b1c1d1e1f");
}

TEST(NicSegmentOrder, TooManyRunsEndTheStreamWith1000) {
  constexpr std::uint32_t runs = 4096;  // nic/iwarp/placed.hpp
  Side side;
  Buffer buffer(*side.device, side.pd, 4 * runs);
  ASSERT_TRUE(side.recv(1, {buffer.all()}));
  ASSERT_TRUE(side.qp->attach(attach_options(mpa::Role::responder)));
  mpa::Framer framer({.crc = true, .markers = false, .emss = 65000});
  const auto feed = [&](std::uint32_t mo) {
    const Bytes octets = unhex(send_segment(false, 1, mo, "aa"));
    Bytes fpdu(framer.wire_size(octets.size()));
    framer.frame(octets, {}, fpdu);
    side.qp->handle_bytes(fpdu);
    return hex(side.transmit_all());
  };
  for (std::uint32_t i = 1; i <= runs; ++i) ASSERT_EQ(feed(2 * i), no_octets);
  EXPECT_EQ(feed(2 * 1000 + 1), no_octets);  // joins two runs, which makes room for one
  EXPECT_EQ(feed(2 * runs + 2), no_octets);
  EXPECT_EQ(feed(2 * runs + 4), Solo::terminate("10000000"));
  side.drain_events();
  EXPECT_EQ(side.events.back().failure.rule, "RFC 5041 §7.2");
  EXPECT_EQ(side.events.back().failure.received, "more than 4096 runs of octets of one message");
  EXPECT_EQ(side.qp->rdmap_state(), RdmapState::terminate);
}

// ---- seeded chance against a model that keeps one flag per octet

struct Piece {
  std::uint32_t at, length;
  bool last;
};

/// A message cut anywhere, in any order but for the last segment; now and then with a fault.
std::vector<Piece> draw_pieces(std::mt19937_64& rng, std::uint32_t size) {
  std::vector<Piece> out;
  for (std::uint32_t at = 0; at < size;) {
    const auto length = static_cast<std::uint32_t>(1 + rng() % std::min<std::uint32_t>(size - at, 40));
    out.push_back({at, length, false});
    at += length;
  }
  if (out.empty() || rng() % 8 == 0) out.push_back({size, 0, false});
  if (rng() % 4 != 0) std::shuffle(out.begin(), out.end() - 1, rng);
  out.back().last = true;
  switch (rng() % 12) {
    case 0: out.erase(out.begin() + static_cast<std::ptrdiff_t>(rng() % out.size())); break;
    case 1: out[rng() % out.size()].length += 1; break;
    case 2: out[rng() % out.size()].at += static_cast<std::uint32_t>(rng() % 600); break;
    case 3: out.insert(out.begin(), out[rng() % out.size()]); break;
    case 4: out.insert(out.begin(), Piece{static_cast<std::uint32_t>(rng() % (size + 1)), 0, false}); break;
    case 5: std::swap(out.back(), out[rng() % out.size()]); break;
    default: break;
  }
  return out;
}

struct Model {
  explicit Model(std::uint32_t room) : octets(room) {}
  /// The Terminate that a segment is due; empty: it is taken.
  std::string judge(const Piece& p, bool untagged) {
    const auto room = static_cast<std::uint32_t>(octets.size());
    const std::string misplaced = untagged ? "1204" : "1101";
    if (untagged && p.at > room) return misplaced;
    if (p.length > 0 && (p.at > room || p.length > room - p.at)) return untagged ? "1205" : "1101";
    for (std::uint32_t i = 0; i < p.length; ++i) {
      if (octets[p.at + i]) return misplaced;
      octets[p.at + i] = true;
    }
    if (!p.last) return {};
    const auto have = static_cast<std::uint32_t>(std::accumulate(octets.begin(), octets.end(), 0));
    const std::uint32_t end = untagged ? p.at + p.length : room;
    const bool whole = have == end && std::all_of(octets.begin(), octets.begin() + end, [](bool b) { return b; });
    return whole ? std::string() : untagged ? "1204" : "0207";
  }
  std::vector<bool> octets;
};

std::string octets_of(std::uint64_t seed, const Piece& p) {
  std::string out;
  for (std::uint32_t i = 0; i < p.length; ++i)
    out += hex(std::array{static_cast<std::uint8_t>((p.at + i) * 37 + seed)});
  return out;
}

TEST(NicSegmentOrder, RandomSendsArriveWholeOnceOrEndInTheTerminateDue) {
  unsigned delivered = 0, terminated = 0;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 rng(seed);
    std::uint32_t msn = rng() % 4 == 0 ? 0xFFFFFFFE : 1;
    Solo solo([=](AttachOptions& o) { o.first_msn = msn; });
    for (unsigned message = 0; message < 4; ++message, ++msn) {
      const auto room = static_cast<std::uint32_t>(rng() % 257);
      ASSERT_TRUE(solo.side.recv(message, {solo.buffer.sge(0, room)}));
      Model model(room);
      std::string due;
      bool whole = false;
      for (const Piece& p : draw_pieces(rng, static_cast<std::uint32_t>(rng() % (room + 1)))) {
        if (rng() % 8 == 0) {  // a Write between two segments changes nothing
          ASSERT_EQ(solo.feed("c140 00000000 0000000000000000"), no_octets);
        }
        due = model.judge(p, true);
        ASSERT_EQ(code_of(solo.feed(send_segment(p.last, msn, p.at, octets_of(seed, p)))), due);
        whole = due.empty() && p.last;
        if (whole || !due.empty()) break;
      }
      const auto done = solo.side.recvs();
      ASSERT_EQ(done.size(), whole || !due.empty() ? 1U : 0U);
      if (!due.empty()) ++terminated;
      if (!whole) break;
      ++delivered;
      ASSERT_EQ(done[0].status, WcStatus::success);
      EXPECT_EQ(memory(solo.buffer, 0, done[0].byte_len), octets_of(seed, {0, done[0].byte_len, true}));
    }
  }
  EXPECT_GT(delivered, 1000U);
  EXPECT_GT(terminated, 300U);
}

TEST(NicSegmentOrder, RandomReadResponsesArriveWholeOnceOrEndInTheTerminateDue) {
  unsigned delivered = 0, terminated = 0;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 rng(seed);
    Solo solo({}, mpa::Role::initiator);
    for (unsigned message = 0; message < 4; ++message) {
      const auto size = static_cast<std::uint32_t>(1 + rng() % 200);
      const Sge sink = solo.buffer.sge(rng() % 56, size);
      ASSERT_TRUE(solo.side.qp->post_send({.opcode = SendWr::Opcode::rdma_read, .sges = {&sink, 1}}));
      (void)solo.side.transmit_all();
      Model model(size);
      std::string due;
      bool whole = false;
      for (const Piece& p : draw_pieces(rng, size)) {
        due = model.judge(p, false);
        const std::string to = solo.to(sink.addr - solo.buffer.region.addr + p.at);
        ASSERT_EQ(code_of(solo.feed(response_segment(p.last, solo.stag(), to, octets_of(seed, p)))), due);
        whole = due.empty() && p.last;
        if (whole || !due.empty()) break;
      }
      const auto done = solo.side.sends();
      ASSERT_EQ(done.size(), whole || !due.empty() ? 1U : 0U);
      if (!due.empty()) ++terminated;
      if (!whole) break;
      ++delivered;
      ASSERT_EQ(done[0].status, WcStatus::success);
      EXPECT_EQ(memory(solo.buffer, sink.addr - solo.buffer.region.addr, size), octets_of(seed, {0, size, true}));
    }
  }
  EXPECT_GT(delivered, 1000U);
  EXPECT_GT(terminated, 300U);
}

}  // namespace
}  // namespace parley::nic::iwarp::test
