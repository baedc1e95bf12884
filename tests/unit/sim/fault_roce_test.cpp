// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Faults on RoCEv2 frames: what each action does to their octets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <set>

#include "roce_kit.hpp"
#include "sim/fault/fault_text.hpp"

namespace parley::sim::test::fault_roce_test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using wire::ib::Operation;
using wire::ib::Service;

constexpr MessageField last_field = MessageField::status;

FaultRule only(FaultAction action, MessageKind kind, std::uint32_t nth = 1) {
  FaultRule r = rule(action, kind);
  r.match.nth = nth;
  r.match.times = 1;
  return r;
}

// ---- rules --------------------------------------------------------------------------------------------------------

TEST(SimFaultRoce, AMessageIsSelectedByItsOrdinal) {
  const RoceSender s;
  const Bytes req = s.cm(wire::ib::CmReq{}), rep = s.cm(wire::ib::CmRep{});
  Faults link({only(FaultAction::drop, MessageKind::cm_rep, 2)});
  EXPECT_FALSE(link.dropped(req));
  EXPECT_FALSE(link.dropped(rep));
  EXPECT_FALSE(link.dropped(req));
  EXPECT_TRUE(link.dropped(rep));
  EXPECT_EQ(link.decision.note, "dropped by rule 1 (drop the 2nd cm_rep)");
  EXPECT_FALSE(link.dropped(rep));
}

TEST(SimFaultRoce, APacketIsSelectedByItsPsn) {
  FaultRule r = only(FaultAction::drop, MessageKind::roce_ack);
  r.match.psn = 0xFFFFFF;
  const RoceSender s{.ipv6 = true};
  Faults link({r});
  EXPECT_FALSE(link.dropped(s.ack(0xFFFFFE)));
  EXPECT_FALSE(link.dropped(s.send(0xFFFFFF))) << "no ACK";
  EXPECT_FALSE(link.dropped(s.ack(0xFFFFFF, 0x60))) << "a NAK";
  EXPECT_TRUE(link.dropped(s.ack(0xFFFFFF)));
  EXPECT_EQ(link.decision.note, "dropped by rule 1 (drop the 1st roce_ack with PSN 16777215)");
  EXPECT_FALSE(link.dropped(s.ack(0xFFFFFF))) << "the second of them";

  FaultRule any = rule(FaultAction::drop);
  any.match.psn = 0;
  Faults all({any});
  EXPECT_TRUE(all.dropped(s.send(0)));
  EXPECT_FALSE(all.dropped(s.send(1)));
  EXPECT_FALSE(all.dropped(Sender{}.syn())) << "a frame without a PSN";
}

TEST(SimFaultRoce, ARuleOfAStreamBesideItChangesNothing) {
  FaultRule r = only(FaultAction::drop, MessageKind::roce_send);
  r.match.psn = 7;
  Faults link({only(FaultAction::drop, MessageKind::fpdu), r});
  EXPECT_FALSE(link.dropped(Sender{}.syn()));
  EXPECT_FALSE(link.dropped(RoceSender{}.send(6)));
  EXPECT_TRUE(link.dropped(RoceSender{}.send(7)));
}

TEST(SimFaultRoce, FramesAreDoubledDelayedAndCutAsOthersAre) {
  FaultRule twice = only(FaultAction::duplicate, MessageKind::cm_dreq);
  FaultRule late = only(FaultAction::delay, MessageKind::cm_rtu);
  late.delay = 3ms;
  late.reorder = true;
  FaultRule cut = only(FaultAction::truncate, MessageKind::roce_send);
  cut.octets = 60;
  Faults link({twice, late, cut});
  const RoceSender s;
  const Bytes dreq = s.cm(wire::ib::CmDreq{}), rtu = s.cm(wire::ib::CmRtu{});
  link.pass(dreq);
  EXPECT_EQ(link.octets(), dreq);
  EXPECT_EQ(link.decision.copies, 1u);
  link.pass(rtu);
  EXPECT_EQ(link.octets(), rtu);
  EXPECT_EQ(link.decision.extra, 3ms);
  EXPECT_TRUE(link.decision.overtakable);
  link.pass(s.send(1));
  EXPECT_EQ(link.octets().size(), 60u);
  EXPECT_TRUE(link.frame->altered);
}

TEST(SimFaultRoce, AHostCrashesAtAMessage) {
  FaultRule r = only(FaultAction::crash, MessageKind::cm_rep);
  r.host = 1;
  r.delay = 5us;
  Faults link({r});
  link.pass(RoceSender{}.cm(wire::ib::CmReq{}));
  EXPECT_THAT(link.decision.hosts, IsEmpty());
  link.pass(RoceSender{}.cm(wire::ib::CmRep{}));
  ASSERT_EQ(link.decision.hosts.size(), 1u);
  EXPECT_EQ(link.decision.hosts[0]->to_string(), "crash node 1 5 us after the 1st cm_rep");
}

TEST(SimFaultRoce, FlippedBitsBreakTheIcrc) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Faults link({rule(FaultAction::corrupt, MessageKind::roce_send)}, seed);
    const Bytes frame = RoceSender{}.send(1);
    link.pass(frame);
    const Bytes after = link.octets();
    ASSERT_NE(after, frame);
    // Ethernet's addresses and the fields that the ICRC leaves out are not covered.
    const auto read = read_roce(after);
    std::size_t at = 0;
    while (after[at] == frame[at]) ++at;
    const bool covered = at >= 42 && at != 46;
    if (!covered || !read) continue;
    EXPECT_FALSE(read->sealed) << at;
  }
}

// ---- one connection -----------------------------------------------------------------------------------------------

/// The two ends of RoCE connections, and what they send: each end numbers its own IDs and queue pairs.
struct TwoEnds {
  bool ipv6 = false;
  RoceSender a() const { return {.ipv6 = ipv6}; }
  RoceSender b() const { return {.ipv6 = ipv6, .reverse = true}; }
  /// Of the n-th connection, asked for by `from`: communication IDs n and 100 + n, queue pairs 0x20 + n and 0x40 + n.
  static Bytes req(const RoceSender& from, std::uint32_t n, std::uint64_t transaction = 9) {
    wire::ib::CmReq m;
    m.local_comm_id = n;
    m.local_qpn = 0x20 + n;
    return from.cm(m, transaction);
  }
  static Bytes rep(const RoceSender& from, std::uint32_t n) {
    wire::ib::CmRep m;
    m.local_comm_id = 100 + n;
    m.remote_comm_id = n;
    m.local_qpn = 0x40 + n;
    return from.cm(m);
  }
  static Bytes rtu(const RoceSender& from, std::uint32_t n) {
    wire::ib::CmRtu m;
    m.local_comm_id = n;
    m.remote_comm_id = 100 + n;
    return from.cm(m);
  }
  static Bytes send(const RoceSender& from, std::uint32_t qpn) {
    return from.packet(Service::rc, Operation::send_only, 1, 0, Bytes(9, 's'), qpn);
  }
};

/// Says of each frame whether a rule of either direction hit it.
class BothWays {
 public:
  explicit BothWays(const std::vector<FaultRule>& rules) : there_(rules), back_(rules, 2) { back_.follow(there_); }
  bool there(const Bytes& frame) { return there_.dropped(frame); }
  bool back(const Bytes& frame) { return back_.dropped(frame); }

 private:
  Faults there_, back_;
};

TEST(SimFaultRoce, ARuleMeansOneConnection) {
  for (const bool ipv6 : {false, true}) {
    const TwoEnds ends{ipv6};
    const RoceSender a = ends.a(), b = ends.b();
    FaultRule packets = rule(FaultAction::drop, MessageKind::roce_send),
              rep = rule(FaultAction::drop, MessageKind::cm_rep);
    packets.match.connection = rep.match.connection = 2;
    rep.match.times = 1;
    BothWays link({packets, rep});
    for (const std::uint32_t n : {1u, 2u, 3u}) EXPECT_FALSE(link.there(ends.req(a, n)));
    EXPECT_FALSE(link.there(ends.req(a, 2))) << "again: the same connection";
    EXPECT_FALSE(link.back(ends.rep(b, 1)));
    EXPECT_TRUE(link.back(ends.rep(b, 2)));
    EXPECT_FALSE(link.back(ends.rep(b, 2))) << "only the first";
    EXPECT_FALSE(link.back(ends.rep(b, 3)));
    for (const std::uint32_t n : {1u, 2u, 3u}) {
      EXPECT_FALSE(link.there(ends.rtu(a, n)));
      EXPECT_EQ(link.there(ends.send(a, 0x40 + n)), n == 2) << n;
      EXPECT_EQ(link.back(ends.send(b, 0x20 + n)), n == 2) << n;
      EXPECT_FALSE(link.there(ends.send(a, 0x20 + n))) << "a queue pair of the sender itself";
    }
  }
}

TEST(SimFaultRoce, ConnectionsOfBothDirectionsAreCountedTogether) {
  const TwoEnds ends;
  FaultRule second = rule(FaultAction::drop, MessageKind::cm_message);
  second.match.connection = 2;
  BothWays link({second});
  EXPECT_FALSE(link.there(ends.req(ends.a(), 1)));
  EXPECT_TRUE(link.back(ends.req(ends.b(), 1))) << "the same ID, of the other host";
  EXPECT_FALSE(link.there(ends.rtu(ends.a(), 1)));
  EXPECT_TRUE(link.there(ends.rep(ends.a(), 1)));
  EXPECT_FALSE(link.there(ends.req(ends.a(), 1, 10))) << "another transaction: the third";
  EXPECT_FALSE(link.back(ends.rep(ends.b(), 1)));
}

TEST(SimFaultRoce, WhatIsOfNoConnectionMeetsNoRuleOfOne) {
  const RoceSender s;
  FaultRule any = rule(FaultAction::drop, MessageKind::roce_packet);
  any.match.connection = 1;
  Faults link({any});
  for (const Bytes& frame :
       {s.send(1), s.ack(2), s.cm(wire::ib::CmSidrReq{}), s.cm(wire::ib::CmDreq{}), Sender{}.syn()})
    EXPECT_FALSE(link.dropped(frame));
  EXPECT_TRUE(link.dropped(TwoEnds::req(s, 1)));
  FaultRule of_tcp = rule(FaultAction::drop);
  of_tcp.match.connection = 1;
  Faults stream({of_tcp});
  EXPECT_FALSE(stream.dropped(TwoEnds::req(s, 1))) << "without a message of RoCE it is TCP's";
  EXPECT_TRUE(stream.dropped(Sender{}.syn()));
}

TEST(SimFaultRoce, ADamagedReqBeginsNoConnection) {
  FaultRule first = rule(FaultAction::drop, MessageKind::cm_req);
  first.match.connection = 1;
  Faults link({first});
  Bytes bent = TwoEnds::req(RoceSender{}, 1);
  bent[200] ^= 1;
  EXPECT_EQ(link.pass_altered(bent).drop, DropReason::none);
  EXPECT_TRUE(link.dropped(TwoEnds::req(RoceSender{}, 2)));
}

TEST(SimFaultRoce, TheOldestConnectionsAreForgotten) {
  RoceConnections all;
  const auto look = [&all](const Bytes& frame) { return all.look(frame, lay_out(frame)); };
  for (std::uint32_t n = 1; n <= RoceConnections::connections_max + 2; ++n)
    ASSERT_EQ(look(TwoEnds::req(RoceSender{}, n)), n);
  EXPECT_EQ(all.ends(2), nullptr);
  ASSERT_NE(all.ends(3), nullptr);
  EXPECT_EQ(all.ends(3)->text(), "communication ID 0x00000003, queue pair 0x000023");
  EXPECT_EQ(look(TwoEnds::rep(RoceSender{.reverse = true}, 2)), 0u);
  EXPECT_EQ(look(TwoEnds::rep(RoceSender{.reverse = true}, 3)), 3u);
  EXPECT_EQ(all.ends(3)->text(), "communication IDs 0x00000003, 0x00000067, queue pairs 0x000023, 0x000043");
}

// ---- corrupt_roce -------------------------------------------------------------------------------------------------

/// A frame of the kind that has the most fields.
Bytes frame_with(const RoceSender& s, MessageKind kind, MessageField field) {
  using O = Operation;
  const Bytes payload(13, 'p');
  if (kind.layer == Layer::cm) {
    for (const wire::ib::CmBody& body : one_of_each_message()) {
      const Bytes frame = s.cm(body);
      const FrameLayout layout = lay_out(frame);
      if (layout.kinds.has(kind) && find_packet_field(frame, layout, field).size != 0) return frame;
    }
    return {};
  }
  wire::ib::Packet cnp;
  cnp.bth.opcode = PARLEY_IB_OPCODE_CNP;
  cnp.payload = payload;
  const Bytes frames[] = {s.packet(Service::rc, O::send_only_inv, 1, 0, payload),
                          s.packet(Service::rc, O::write_only, 1, 0, payload),
                          s.packet(Service::ud, O::send_only, 1, 0, payload),
                          s.packet(Service::rc, O::read_request),
                          s.packet(Service::rc, O::fetch_add),
                          s.packet(Service::rc, O::atomic_acknowledge, 1),
                          s.packet(Service::rc, O::read_response_only, 1, 0, payload),
                          s.ack(1),
                          s.ack(1, 0x60),
                          s.ack(1, 0x61),
                          s.ack(1, 0x62),
                          s.ack(1, 0x63),
                          s.ack(1, 0x20),
                          s.frame(cnp)};
  for (const Bytes& frame : frames) {
    const FrameLayout layout = lay_out(frame);
    if (layout.kinds.has(kind) && find_packet_field(frame, layout, field).size != 0) return frame;
  }
  return {};
}

/// Where two frames differ, without the ICRC and the UDP checksum.
std::vector<std::size_t> differences(const Bytes& a, const Bytes& b, bool ipv6) {
  std::vector<std::size_t> out;
  const std::size_t udp = ipv6 ? 54 : 34;
  for (std::size_t i = 0; i < a.size() - 4; ++i)
    if (a[i] != b[i] && i != udp + 6 && i != udp + 7) out.push_back(i);
  return out;
}

TEST(SimFaultRoce, EachFieldOfEachKindIsDamagedUnderARightIcrc) {
  std::set<MessageField> damaged;
  for (const LayerTable* layer : {&roce_layer, &cm_layer})
    for (const KindRow& row : layer->kinds)
      for (int f = 0; f <= static_cast<int>(last_field); ++f) {
        const auto field = static_cast<MessageField>(f);
        FaultRule r = rule(FaultAction::corrupt_roce, row.kind);
        r.field = field;
        ASSERT_EQ(check_rule(r).has_value(), row.packet_fields.has(field)) << row.word << ' ' << to_string(field);
        if (!row.packet_fields.has(field)) continue;
        for (const bool ipv6 : {false, true}) {
          const RoceSender s{.ipv6 = ipv6, .udp_sum = true};
          const Bytes before = frame_with(s, row.kind, field);
          ASSERT_FALSE(before.empty()) << "no " << row.word << " has " << to_string(field);
          Faults link({r}, static_cast<std::uint64_t>(f) + 7);
          link.pass(before);
          const Bytes after = link.octets();
          ASSERT_EQ(after.size(), before.size());
          EXPECT_TRUE(link.frame->altered);
          EXPECT_EQ(RoceSender::udp_checksum(after), 0) << row.word << ' ' << to_string(field);
          const auto changed = differences(before, after, ipv6);
          const auto found = wire::ib::RoceHeader::parse(ipv6 ? 0x86DD : 0x0800, ConstBytes(after).subspan(14));
          ASSERT_TRUE(found);
          const bool sealed = wire::ib::is_sealed(found->header, found->packet);
          EXPECT_EQ(sealed, field != MessageField::crc) << row.word << ' ' << to_string(field);
          EXPECT_EQ(link.decision.changes_stream, sealed);
          EXPECT_EQ(changed.size(), field == MessageField::crc ? 0u : 1u);
          damaged.insert(field);
        }
      }
  for (int f = static_cast<int>(MessageField::opcode); f <= static_cast<int>(last_field); ++f)
    EXPECT_TRUE(damaged.contains(static_cast<MessageField>(f))) << to_string(static_cast<MessageField>(f));
}

/// What wire/ib reads in the frame after the rule.
RoceFrame set(MessageKind kind, MessageField field, std::uint64_t value, const Bytes& before) {
  FaultRule r = rule(FaultAction::corrupt_roce, kind);
  r.field = field;
  r.value = value;
  Faults link({r});
  static Bytes after;
  link.pass(before);
  after = link.octets();
  const auto read = read_roce(after);
  EXPECT_TRUE(read && read->sealed) << to_string(kind) << ' ' << to_string(field);
  EXPECT_THAT(link.decision.note, HasSubstr(fmt::format("{} set to {} by rule 1", to_string(field), value)));
  return read ? *read : RoceFrame{};
}

TEST(SimFaultRoce, AFieldOfThePacketIsSet) {
  using F = MessageField;
  using K = MessageKind;
  const RoceSender s;
  const Bytes write = s.packet(Service::rc, Operation::write_only, 1, 0, Bytes(5)), ack = s.ack(1),
              atomic = s.packet(Service::xrc, Operation::cmp_swap),
              datagram = s.packet(Service::ud, Operation::send_only),
              inv = s.packet(Service::xrc, Operation::send_only_inv);
  EXPECT_EQ(set(K::roce_write, F::opcode, 0x04, write).packet.bth.opcode, 0x04);
  EXPECT_EQ(set(K::roce_write, F::p_key, 0x1234, write).packet.bth.p_key, 0x1234);
  EXPECT_EQ(set(K::roce_write, F::qpn, 0x123456, write).packet.bth.dest_qpn, 0x123456u);
  EXPECT_EQ(set(K::roce_write, F::psn, 0xABCDEF, write).packet.bth.psn, 0xABCDEFu);
  EXPECT_EQ(set(K::roce_write, F::address, ~0ULL, write).packet.reth.va, ~0ULL);
  EXPECT_EQ(set(K::roce_write, F::r_key, 0x12345678, write).packet.reth.r_key, 0x12345678u);
  EXPECT_EQ(set(K::roce_write, F::length, 0x87654321, write).packet.reth.dma_length, 0x87654321u);
  EXPECT_EQ(set(K::roce_atomic, F::address, 77, atomic).packet.atomic.va, 77u);
  EXPECT_EQ(set(K::roce_atomic, F::r_key, 78, atomic).packet.atomic.r_key, 78u);
  EXPECT_EQ(set(K::roce_send, F::r_key, 79, inv).packet.invalidate, 79u);
  EXPECT_EQ(set(K::roce_datagram, F::q_key, 80, datagram).packet.deth.q_key, 80u);
  EXPECT_EQ(set(K::roce_ack, F::syndrome, 0x62, ack).packet.aeth.syndrome, 0x62);
  EXPECT_EQ(set(K::roce_ack, F::msn, 0x010203, ack).packet.aeth.msn, 0x010203u);
}

TEST(SimFaultRoce, AFieldOfAMessageOfTheCmIsSet) {
  using namespace wire::ib;
  using F = MessageField;
  using K = MessageKind;
  const auto after = [](K kind, CmBody body, F field, std::uint64_t value) {
    return *set(kind, field, value, RoceSender{.ipv6 = true}.cm(std::move(body))).message;
  };
  const auto body = [&after]<class M>(K kind, M m, F field, std::uint64_t value) {
    return std::get<M>(after(kind, CmBody{m}, field, value).body);
  };
  EXPECT_EQ(after(K::cm_rtu, CmRtu{}, F::transaction, 0x0102030405060708).transaction_id, 0x0102030405060708u);
  EXPECT_EQ(after(K::cm_rtu, CmRtu{}, F::attribute, 0x16).type(), CmMessageType::drep);
  EXPECT_EQ(body(K::cm_req, CmReq{}, F::local_id, 1).local_comm_id, 1u);
  EXPECT_EQ(body(K::cm_sidr_req, CmSidrReq{}, F::local_id, 2).request_id, 2u);
  EXPECT_EQ(body(K::cm_rep, CmRep{}, F::remote_id, 3).remote_comm_id, 3u);
  EXPECT_EQ(body(K::cm_apr, CmApr{}, F::remote_id, 4).remote_comm_id, 4u);
  EXPECT_EQ(body(K::cm_req, CmReq{}, F::service_id, 0x01061C06).service_id, 0x01061C06u);
  EXPECT_EQ(body(K::cm_sidr_req, CmSidrReq{}, F::service_id, 5).service_id, 5u);
  EXPECT_EQ(body(K::cm_sidr_rep, CmSidrRep{}, F::service_id, 6).service_id, 6u);
  EXPECT_EQ(body(K::cm_req, CmReq{}, F::queue_pair, 7).local_qpn, 7u);
  EXPECT_EQ(body(K::cm_rep, CmRep{}, F::queue_pair, 8).local_qpn, 8u);
  EXPECT_EQ(body(K::cm_dreq, CmDreq{}, F::queue_pair, 9).remote_qpn, 9u);
  EXPECT_EQ(body(K::cm_lap, CmLap{}, F::queue_pair, 10).remote_qpn, 10u);
  EXPECT_EQ(body(K::cm_sidr_rep, CmSidrRep{}, F::queue_pair, 11).qpn, 11u);
  EXPECT_EQ(body(K::cm_req, CmReq{}, F::starting_psn, 0xFFFFFF).starting_psn, 0xFFFFFFu);
  EXPECT_EQ(body(K::cm_rep, CmRep{}, F::starting_psn, 12).starting_psn, 12u);
  EXPECT_EQ(body(K::cm_rej, CmRej{}, F::reason, 28).reason, CmReject::consumer);
  EXPECT_EQ(body(K::cm_apr, CmApr{}, F::status, 3).status, ApStatus::rejected);
  EXPECT_EQ(body(K::cm_sidr_rep, CmSidrRep{}, F::status, 1).status, SidrStatus::unsupported_service_id);
}

TEST(SimFaultRoce, PrivateDataOfEachMessageIsWhereItsReceiverLooks) {
  for (const wire::ib::CmBody& body : one_of_each_message()) {
    const Bytes before = RoceSender{}.cm(body);
    const FrameField found = find_packet_field(before, lay_out(before), MessageField::private_data);
    const std::size_t size = std::visit([](const auto& m) { return m.private_data.size(); }, body);
    EXPECT_EQ(found.size, size) << roce_kinds(before);
    EXPECT_EQ(found.at + found.size, before.size() - 4) << roce_kinds(before) << ": it ends the MAD";
  }
}

TEST(SimFaultRoce, AWrongIcrcStaysWrong) {
  FaultRule r = rule(FaultAction::corrupt_roce, MessageKind::roce_send);
  r.field = MessageField::psn;
  Faults link({r});
  Bytes frame = RoceSender{}.send(1);
  frame.back() ^= 1;
  link.pass(frame);
  EXPECT_FALSE(read_roce(link.octets())->sealed);
}

TEST(SimFaultRoce, APacketWithoutTheFieldPassesAsItIs) {
  FaultRule r = rule(FaultAction::corrupt_roce, MessageKind::roce_packet);
  r.field = MessageField::r_key;
  Faults link({r});
  const Bytes ack = RoceSender{}.ack(1);
  link.pass(ack);
  EXPECT_EQ(link.octets(), ack);
  EXPECT_EQ(link.decision.note, "no r_key to corrupt by rule 1 (corrupt the r_key of every roce_packet)");
  EXPECT_FALSE(link.frame->altered);
  EXPECT_FALSE(link.decision.changes_stream);
}

TEST(SimFaultRoce, TakesAnyOctets) {
  std::vector<FaultRule> rules;
  for (int f = 0; f <= static_cast<int>(last_field); ++f)
    for (const MessageKind kind : {MessageKind::roce_packet, MessageKind::cm_message}) {
      FaultRule r = rule(FaultAction::corrupt_roce, kind);
      r.field = static_cast<MessageField>(f);
      r.chance = {1, 3};
      if (check_rule(r)) rules.push_back(r);
    }
  Faults link(rules, 3);
  Rng rng(4);
  std::vector<Bytes> frames{RoceSender{}.send(1), RoceSender{.ipv6 = true, .udp_sum = true}.ack(2)};
  for (const wire::ib::CmBody& body : one_of_each_message()) frames.push_back(RoceSender{}.cm(body));
  for (int i = 0; i < 20000; ++i) {
    Bytes frame = frames[rng.below(frames.size())];
    for (std::uint64_t n = rng.below(4); n > 0; --n)
      frame[rng.below(std::min<std::size_t>(frame.size(), 90))] = static_cast<std::uint8_t>(rng.next());
    if (rng.chance({1, 5})) frame.resize(rng.below(frame.size() + 1));
    link.pass(frame);
    EXPECT_EQ(link.octets().size(), frame.size());
  }
}

}  // namespace
}  // namespace parley::sim::test::fault_roce_test
