// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <gtest/gtest.h>

#include <set>

#include "fault_kit.hpp"

namespace parley::sim::test {
namespace {

/// What the tracker saw in a stream cut into segments of `size` octets.
std::vector<FrameContent> pass(MessageTracker& tracker, const Sender& sender, const Bytes& stream, std::size_t size) {
  std::vector<FrameContent> out;
  out.push_back(tracker.look(sender.syn()));
  for (std::size_t at = 0; at < stream.size(); at += size) {
    const auto piece = ConstBytes(stream).subspan(at, std::min(size, stream.size() - at));
    out.push_back(tracker.look(sender.at(at, piece)));
  }
  return out;
}

std::string all_parts(const std::vector<FrameContent>& seen) {
  std::string out;
  for (const FrameContent& m : seen) {
    const std::string parts = parts_of(m);
    if (!out.empty() && !parts.empty()) out += ", ";
    out += parts;
  }
  return out;
}

Bytes arp(std::uint8_t operation) {
  Bytes out(42);
  Writer w(out);
  w.zeros(12);
  w.be16(0x0806);
  w.be16(1);
  w.be16(0x0800);
  w.be16(0x0604);
  w.be16(operation);
  return out;
}

Bytes neighbour_discovery(std::uint8_t type) {
  Bytes out(14 + 40 + 24);
  Writer w(out);
  w.zeros(12);
  w.be16(0x86DD);
  w.be32(0x60000000);
  w.be16(24);
  w.u8(58);
  w.u8(255);
  w.zeros(32);
  w.u8(type);
  return out;
}

TEST(SimMessageKind, NamesEveryKindOfFrame) {
  MessageTracker t;
  Sender s;
  EXPECT_EQ(t.look(arp(1)).kind, MessageKind::arp_request);
  EXPECT_EQ(t.look(arp(2)).kind, MessageKind::arp_reply);
  EXPECT_EQ(t.look(arp(3)).kind, MessageKind::any);
  EXPECT_EQ(t.look(neighbour_discovery(135)).kind, MessageKind::nd_solicit);
  EXPECT_EQ(t.look(neighbour_discovery(136)).kind, MessageKind::nd_advert);
  EXPECT_EQ(t.look(s.syn()).kind, MessageKind::tcp_syn);
  EXPECT_EQ(t.look(s.at(0, {})).kind, MessageKind::tcp_ack);
  EXPECT_EQ(t.look(s.at(0, request())).kind, MessageKind::tcp_data);
  EXPECT_EQ(t.look(s.at(20, {}, wire::tcp_flag::fin)).kind, MessageKind::tcp_fin);
  EXPECT_EQ(t.look(s.at(20, {}, wire::tcp_flag::rst)).kind, MessageKind::tcp_rst);
  s.active = false;
  EXPECT_EQ(t.look(s.syn()).kind, MessageKind::tcp_syn_ack);
  const FrameContent both = t.look(s.at(0, Bytes(3), wire::tcp_flag::fin));
  EXPECT_TRUE(both.has(MessageKind::tcp_fin));
  EXPECT_TRUE(both.has(MessageKind::tcp_data));
  EXPECT_FALSE(both.has(MessageKind::tcp_ack));
  EXPECT_TRUE(both.has(MessageKind::any));
}

// What a segment counts as, by its flags and whether it carries octets; the rarest kind names it.
TEST(SimMessageKind, ASegmentIsOfEveryKindThatItsFlagsAndOctetsSay) {
  using namespace wire::tcp_flag;
  for (std::uint8_t flags = 0; flags < 64; ++flags)
    for (const bool payload : {false, true}) {
      MessageTracker t;
      const FrameContent m = t.look(Sender{}.make(1001, flags, payload ? Bytes(3, 'x') : Bytes{}));
      const bool opens = (flags & syn) != 0, acks = (flags & ack) != 0, ends = (flags & (syn | fin | rst)) != 0;
      const std::pair<MessageKind, bool> kinds[] = {
          {MessageKind::tcp_ack, acks && !payload && !ends}, {MessageKind::tcp_data, payload},
          {MessageKind::tcp_fin, (flags & fin) != 0},        {MessageKind::tcp_syn, opens && !acks},
          {MessageKind::tcp_syn_ack, opens && acks},         {MessageKind::tcp_rst, (flags & rst) != 0}};
      MessageKind name = MessageKind::any;
      for (const auto& [kind, is] : kinds) {
        EXPECT_EQ(m.has(kind), is) << to_string(kind) << " of flags " << int{flags} << (payload ? " with octets" : "");
        if (is) name = kind;
      }
      EXPECT_EQ(m.kind, name) << "flags " << int{flags};
    }
}

TEST(SimMessageKind, NumbersConnectionsByTheirSyns) {
  MessageTracker t;
  Sender first, second;
  second.port = 40001;
  EXPECT_EQ(t.look(first.at(0, Bytes(3))).connection, 0u) << "its SYN did not pass";
  EXPECT_EQ(t.look(first.syn()).connection, 1u);
  EXPECT_EQ(t.look(second.syn()).connection, 2u);
  EXPECT_EQ(t.look(first.syn()).connection, 1u) << "a retransmitted SYN";
  EXPECT_EQ(t.look(second.at(0, {})).connection, 2u);
  first.isn += 12345;
  EXPECT_EQ(t.look(first.syn()).connection, 3u) << "the same ports again";
  EXPECT_EQ(t.look(first.at(0, {})).connection, 3u);
  second.ipv6 = true;
  EXPECT_EQ(t.look(second.syn()).connection, 4u);
}

TEST(SimMessageKind, FindsMessagesHoweverTheStreamIsCut) {
  for (const bool markers : {false, true})
    for (const bool ipv6 : {false, true}) {
      const Bytes body = fpdus({empty_send(), send_segment(2, 1200), send_segment(3, 1), send_segment(4, 505),
                                tagged(wire::RdmapOpcode::rdma_write, 1, 2, 700), terminate()},
                               markers);
      const Bytes stream = request(PARLEY_MPA_FLAG_C, Bytes(37, 9)) + body;
      for (std::size_t size = 1; size <= 1400; size += size < 70 ? 1 : 61) {
        MessageTracker t;
        Sender s;
        s.ipv6 = ipv6;
        const auto seen = pass(t, s, stream, size);
        ASSERT_EQ(all_parts(seen),
                  "mpa_request, fpdu 1, mpa_rtr 1, fpdu 2, fpdu 3, fpdu 4, fpdu 5, fpdu 6, terminate 6")
            << "segments of " << size << (markers ? ", markers" : "");
        for (const FrameContent& m : seen) EXPECT_FALSE(m.repeated);
      }
    }
}

TEST(SimMessageKind, SaysWhereEachMessageLies) {
  MessageTracker t;
  Sender s;
  t.look(s.syn());
  const Bytes first = request(), second = fpdu(send_segment(1, 100)), third = fpdu(send_segment(2, 100));
  const Bytes frame = s.at(0, first + second + Bytes(third.begin(), third.begin() + 10));
  const FrameContent m = t.look(frame);
  ASSERT_EQ(parts_of(m), "mpa_request, fpdu 1, fpdu 2");
  const auto payload = static_cast<std::uint32_t>(frame.size() - first.size() - second.size() - 10);
  EXPECT_EQ(m.payload_offset, payload);
  EXPECT_EQ(m.parts[0].offset, payload);
  EXPECT_EQ(m.parts[0].size, 20u);
  EXPECT_EQ(m.parts[0].whole, 20u);
  EXPECT_EQ(m.parts[1].offset, payload + 20);
  EXPECT_EQ(m.parts[1].whole, second.size());
  EXPECT_EQ(m.parts[1].position, 20u);
  EXPECT_EQ(m.parts[2].size, 10u);
  EXPECT_EQ(m.parts[2].whole, third.size());
}

TEST(SimMessageKind, TellsRepliesByTheirKey) {
  MessageTracker t;
  Sender s;
  s.active = false;
  EXPECT_EQ(all_parts(pass(t, s, reply() + fpdus({empty_send(), terminate()}), 7)),
            "mpa_reply, fpdu 1, fpdu 2, terminate 2")
      << "the responder sends no RTR";
}

TEST(SimMessageKind, KnowsEachFormOfRtr) {
  struct Case {
    Bytes first;
    bool rtr;
  };
  const Case cases[] = {{empty_send(), true},        {empty_write(), true},
                        {empty_read(), true},        {empty_read(1), false},
                        {send_segment(1, 1), false}, {tagged(wire::RdmapOpcode::rdma_write, 1, 2, 1), false},
                        {send_segment(1, 28), false}};
  for (const Case& c : cases)
    for (const bool markers : {false, true})
      for (const std::size_t size : {1u, 3u, 1000u}) {
        MessageTracker t;
        const auto seen = pass(t, Sender{}, request() + fpdus({c.first, empty_send()}, markers), size);
        EXPECT_EQ(all_parts(seen), c.rtr ? "mpa_request, fpdu 1, mpa_rtr 1, fpdu 2" : "mpa_request, fpdu 1, fpdu 2");
      }
  for (const auto key : {wire::MpaKey::rtr, wire::MpaKey::rtr_hex})
    for (const std::size_t size : {1u, 9u, 1000u}) {
      MessageTracker t;
      const Bytes stream = request(PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S) +
                           startup(key, PARLEY_MPA_FLAG_C, 1, {}, Bytes(5)) + fpdus({empty_send()}, true);
      EXPECT_EQ(all_parts(pass(t, Sender{}, stream, size)), "mpa_request, mpa_rtr, fpdu 1, mpa_rtr 1");
    }
}

TEST(SimMessageKind, MapsARetransmissionToTheSameMessages) {
  MessageTracker t;
  Sender s;
  const Bytes stream = request() + fpdus({send_segment(1, 60), send_segment(2, 60), terminate()}, true);
  const auto seen = pass(t, s, stream, 50);
  for (std::size_t at = 0; at < stream.size(); at += 50) {
    const auto again = t.look(s.at(at, ConstBytes(stream).subspan(at, std::min<std::size_t>(50, stream.size() - at))));
    EXPECT_TRUE(again.repeated);
    EXPECT_EQ(parts_of(again), parts_of(seen[1 + at / 50])) << at;
  }
  const auto whole = t.look(s.at(0, stream));
  EXPECT_EQ(parts_of(whole), "mpa_request, fpdu 1, fpdu 2, fpdu 3, terminate 3");
  const auto longer = t.look(s.at(0, stream + fpdu(send_segment(4, 5), stream.size() - 20, true)));
  EXPECT_FALSE(longer.repeated) << "the end of it is new";
  EXPECT_EQ(parts_of(longer), "mpa_request, fpdu 1, fpdu 2, fpdu 3, terminate 3, fpdu 4");
}

TEST(SimMessageKind, WaitsForAHoleToBeFilled) {
  MessageTracker t;
  Sender s;
  std::vector<Bytes> ulpdus;
  for (std::uint32_t i = 1; i <= 20; ++i) ulpdus.push_back(send_segment(i, 37 * i % 90));
  const Bytes stream = request() + fpdus(ulpdus);
  t.look(s.syn());
  const std::size_t cut = 33;
  const auto piece = [&](std::size_t n) {
    return s.at(n * cut, ConstBytes(stream).subspan(n * cut, std::min(cut, stream.size() - n * cut)));
  };
  const std::size_t pieces = (stream.size() + cut - 1) / cut;
  t.look(piece(0));
  for (std::size_t n = pieces - 1; n > 1; --n) {
    const auto ahead = t.look(piece(n));
    EXPECT_EQ(parts_of(ahead), "");
    EXPECT_FALSE(ahead.repeated);
  }
  EXPECT_TRUE(t.look(piece(5)).repeated) << "it is still held";
  t.look(piece(1));
  EXPECT_EQ(parts_of(t.look(s.at(stream.size(), fpdu(terminate())))), "fpdu 21, terminate 21");
  EXPECT_EQ(parts_of(t.look(s.at(20, fpdus(ulpdus)))).substr(0, 14), "fpdu 1, fpdu 2");
}

TEST(SimMessageKind, FollowsSequenceNumbersAcrossTheirWrap) {
  MessageTracker t;
  Sender s;
  s.isn = 0xFFFFFFFF - 25;
  const auto seen = pass(t, s, request() + fpdus({send_segment(1, 100), send_segment(2, 100), terminate()}), 11);
  EXPECT_EQ(all_parts(seen), "mpa_request, fpdu 1, fpdu 2, fpdu 3, terminate 3");
  EXPECT_TRUE(t.look(s.at(0, request())).repeated);
}

TEST(SimMessageKind, LeavesOtherProtocolsAlone) {
  MessageTracker t;
  EXPECT_EQ(all_parts(pass(t, Sender{}, Bytes(300, 'x'), 1)), "");
  Sender other;
  other.port = 1;
  const std::string text = "MPA ID Something else that is long enough to be a frame";
  const auto seen = pass(t, other, Bytes(text.begin(), text.end()), 100);
  EXPECT_EQ(all_parts(seen), "");
  EXPECT_EQ(seen.back().connection, 2u);
}

TEST(SimMessageKind, StopsAtALengthThatIsNone) {
  MessageTracker t;
  Sender s;
  s.active = false;
  const Bytes bad{0xFF, 0xFF, 0x41, 0x43};
  EXPECT_EQ(all_parts(pass(t, s, reply() + fpdu(send_segment(1, 9)) + bad + fpdu(send_segment(2, 9)), 1000)),
            "mpa_reply, fpdu 1, fpdu 2");
}

TEST(SimMessageKind, ForgetsTheOldestConnection) {
  MessageTracker t;
  Sender s;
  t.look(s.syn());
  for (std::uint32_t i = 0; i < MessageTracker::connections_max; ++i) {
    Sender other;
    other.port = static_cast<std::uint16_t>(i);
    other.isn = i;
    if (i != s.port) t.look(other.syn());
  }
  EXPECT_EQ(t.look(s.at(0, request())).connection, 1u) << "65,536 in all are remembered";
  s.port = 1;
  s.isn = 9;
  EXPECT_EQ(t.look(s.syn()).connection, 65537u);
  s = Sender{};
  EXPECT_EQ(t.look(s.at(20, {})).connection, 0u);
  EXPECT_EQ(t.stream(1), nullptr);
}

TEST(SimMessageKind, RemembersABoundedNumberOfMessages) {
  MessageTracker t;
  Sender s;
  t.look(s.syn());
  t.look(s.at(0, request()));
  const Bytes one = fpdu(Bytes(2, 1));
  std::uint64_t at = 20;
  for (int i = 0; i < 20000; ++i, at += one.size()) t.look(s.at(at, one));
  EXPECT_EQ(parts_of(t.look(s.at(at, one))), "fpdu 20001");
  EXPECT_EQ(parts_of(t.look(s.at(0, request()))), "mpa_request") << "startup frames are remembered for good";
  EXPECT_EQ(parts_of(t.look(s.at(20, one))), "") << "FPDU 1 is forgotten";
  EXPECT_EQ(parts_of(t.look(s.at(at - 100 * one.size(), one))), "fpdu 19901");
}

TEST(SimMessageKind, HoldsABoundedNumberOfOctetsAheadOfAHole) {
  MessageTracker t;
  Sender s;
  t.look(s.syn());
  for (std::uint64_t i = 1; i < 4000; ++i) t.look(s.at(20 + i * 1400, Bytes(1400, 7)));
  EXPECT_EQ(parts_of(t.look(s.at(0, request()))), "mpa_request");
}

TEST(SimMessageKind, AStartupReaderStopsAfterTheRtr) {
  MessageTracker t(StreamDepth::startup);
  EXPECT_EQ(all_parts(pass(t, Sender{}, request() + fpdus({empty_read(), empty_send()}, true), 5)),
            "mpa_request, fpdu 1, mpa_rtr 1");
  Sender responder;
  responder.active = false;
  responder.port = 7471;
  EXPECT_EQ(all_parts(pass(t, responder, reply() + fpdus({empty_read(), empty_send()}, true), 5)), "mpa_reply");
}

TEST(SimMessageKind, TakesAnyOctets) {
  MessageTracker t;
  Rng rng(5);
  const Sender s;
  const Bytes stream = request() + fpdus({empty_read(), send_segment(1, 900), terminate()}, true);
  for (int i = 0; i < 60000; ++i) {
    const std::uint64_t at = rng.below(stream.size());
    const std::uint64_t size = rng.below(stream.size() - at);
    Bytes frame = rng.below(40) == 0 ? s.syn() : s.at(at, ConstBytes(stream).subspan(at, size));
    for (std::uint64_t n = rng.below(6); n > 0; --n) {
      const std::uint64_t where = rng.below(frame.size());
      frame[where] = static_cast<std::uint8_t>(rng.next());
    }
    frame.resize(rng.below(4) == 0 ? rng.below(frame.size() + 1) : frame.size());
    const FrameContent m = t.look(frame);
    for (const Part& p : m.parts) {
      EXPECT_GE(p.offset, m.payload_offset);
      EXPECT_LE(p.offset + p.size, frame.size());
    }
  }
}

TEST(SimMessageKind, WordsAreReadBack) {
  EXPECT_EQ(parse_message_kind(to_string(MessageKind::any)), MessageKind::any);
  for (const LayerTable* layer : layers())
    for (const KindRow& row : layer->kinds) {
      EXPECT_EQ(parse_message_kind(row.word), row.kind) << row.word;
      EXPECT_EQ(to_string(row.kind), row.word);
    }
  EXPECT_EQ(to_string(MessageKind::mpa_request), "mpa_request");
  EXPECT_EQ(parse_message_kind("mpa_requets"), std::nullopt);
}

TEST(SimMessageKind, ALayerAndItsKindNameTheSame) {
  for (const LayerTable* layer : layers())
    for (const KindRow& row : layer->kinds)
      EXPECT_EQ(parse_message_kind(std::string(layer->name) + "." + std::string(row.name)), row.kind) << row.word;
  EXPECT_EQ(parse_message_kind("mpa.fpdu"), MessageKind::fpdu);
  EXPECT_EQ(parse_message_kind("rdmap.terminate"), MessageKind::terminate);
  // Both ARP and MPA have one, and a layer yet to come may have another.
  for (const char* wrong : {"request", "rtr", "mpa.", ".request", "mpa.syn", "tcp.request", "mpa.mpa_request", "mpa"})
    EXPECT_EQ(parse_message_kind(wrong), std::nullopt) << wrong;
}

TEST(SimMessageKind, TablesAreWhereTheirNumbersSay) {
  std::set<std::string_view> words;
  for (std::size_t i = 0; i < layers().size(); ++i) {
    const LayerTable& layer = *layers()[i];
    EXPECT_EQ(static_cast<std::size_t>(layer.layer), i + 1) << layer.name;
    EXPECT_EQ(table_of(layer.layer), &layer);
    EXPECT_EQ(parse_layer(layer.name), layer.layer);
    EXPECT_EQ(layer.classify == nullptr, layer.carrier == Carrier::tcp_stream) << layer.name;
    EXPECT_LE(layer.kinds.size(), KindSet::kinds_max) << layer.name;
    for (std::size_t k = 0; k < layer.kinds.size(); ++k) {
      EXPECT_EQ(layer.kinds[k].kind, (MessageKind{layer.layer, static_cast<std::uint8_t>(k)})) << layer.kinds[k].word;
      EXPECT_TRUE(words.insert(layer.kinds[k].word).second) << layer.kinds[k].word << " names two";
    }
  }
  EXPECT_EQ(to_string(MessageKind{Layer::tcp, 31}), "unknown");
  EXPECT_EQ(to_string(MessageKind{static_cast<Layer>(200), 0}), "unknown");
  EXPECT_EQ(to_string(static_cast<Layer>(200)), "unknown");
}

}  // namespace
}  // namespace parley::sim::test
