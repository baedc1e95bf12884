// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every RoCE frame that Linux's rxe sent, and every InfiniBand packet of a capture of hardware, is read and written again to the same
// octets; the invariant CRC of each is right.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <map>

#include "base/bytes_io.hpp"
#include "base/rng.hpp"
#include "wire/ib/cm.hpp"
#include "wire/ib/packet.hpp"
#include "wire/ib/roce.hpp"
#include "wire/ib/sealer.hpp"
#include "wire/pcap.hpp"

namespace parley::wire::ib::captures_test {
namespace {

struct Tally {
  std::size_t frames = 0, ipv6 = 0;
  std::map<std::string, std::size_t> opcodes, messages;
};

void each_frame(const std::string& name, const std::function<void(const CapturedPacket&)>& take) {
  std::ifstream in(PARLEY_SOURCE_DIR "/tests/captures/roce/" + name + ".pcap", std::ios::binary);
  const Bytes file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  ASSERT_FALSE(file.empty()) << name;
  PcapReader reader;
  ConstBytes window = file;
  CapturedPacket packet;
  std::size_t consumed = 0;
  while (reader.next(window, packet, consumed) == CaptureStatus::packet) {
    take(packet);
    window = window.subspan(consumed);
  }
  EXPECT_TRUE(window.empty()) << name << ": " << reader.error().to_string();
}

void expect_same_message(const Packet& packet, Tally& tally) {
  if (service_of(packet.bth.opcode) != Service::ud || packet.bth.dest_qpn != PARLEY_IB_GSI_QPN) return;
  const auto message = CmMessage::parse(packet.payload);
  if (!message) return;  // of another class
  Bytes again(PARLEY_IB_MAD_LEN, 0xEE);
  message->emit(again);
  EXPECT_EQ(again, Bytes(packet.payload.begin(), packet.payload.end()));
  ++tally.messages[std::string(to_string(message->type()))];
}

void expect_same_packet(ConstBytes octets, Tally& tally) {
  const auto packet = Packet::parse(octets);
  ASSERT_TRUE(packet) << packet.error().message();
  ASSERT_TRUE(rule_of(packet->bth.opcode).assigned) << +packet->bth.opcode;
  Bytes again(octets.size(), 0xEE);
  ASSERT_EQ(packet->size(), octets.size());
  EXPECT_EQ(packet->emit(again), octets.size());
  EXPECT_EQ(again, Bytes(octets.begin(), octets.end()));
  ++tally.opcodes[opcode_text(packet->bth.opcode)];
  expect_same_message(*packet, tally);
}

void expect_same_frame(ConstBytes frame, Tally& tally) {
  Reader r(frame);
  r.skip(12);
  const std::uint16_t type = r.be16();
  const auto roce = RoceHeader::parse(type, r.rest());
  if (!roce) return;
  ++tally.frames;
  if (!roce->header.is_ipv4()) ++tally.ipv6;
  Bytes headers(roce->header.size(), 0xEE);
  roce->header.emit(headers, roce->packet.size());
  EXPECT_EQ(headers, Bytes(roce->network.begin(), roce->network.end()));
  expect_same_packet(roce->packet, tally);
  const auto crc = icrc(roce->network, roce->packet.first(roce->packet.size() - PARLEY_IB_ICRC_LEN));
  ASSERT_TRUE(crc);
  EXPECT_EQ(*crc, Packet::parse(roce->packet)->icrc);
}

// What a UDP socket does not tell of an IPv4 header.
RoceHeader as_a_socket_sees_it(RoceHeader header) {
  header.identification = 0;
  header.dont_fragment = true;
  header.hop_limit = 1;
  return header;
}

// Each octet altered alone: the exact check finds all of it, the other lets one in 32,768 through.
void expect_altered_found(const RoceHeader& header, Bytes octets, Rng& rng, std::size_t& altered, std::size_t& passed) {
  IcrcSealer sealer(as_a_socket_sees_it(header));
  for (std::size_t at = 0; at < octets.size(); ++at) {
    if (at == 4) continue;  // FECN and BECN change on the way
    const auto bits = static_cast<std::uint8_t>(rng.below(255) + 1);
    octets[at] ^= bits;
    EXPECT_FALSE(is_sealed(header, octets)) << at;
    if (sealer.identification_of(0, octets)) ++passed;
    ++altered;
    octets[at] ^= bits;
  }
}

TEST(WireIbCaptures, TheIcrcIsCheckedWithoutTheIpv4Identification) {
  std::size_t frames = 0, altered = 0, passed = 0;
  Rng rng(1);
  for (const char* name : {"rxe61_cm", "rxe61_data"})
    each_frame(name, [&](const CapturedPacket& packet) {
      SCOPED_TRACE(fmt::format("{}, frame {}", name, packet.frame));
      Reader r(packet.octets);
      r.skip(12);
      const std::uint16_t type = r.be16();
      const auto roce = RoceHeader::parse(type, r.rest());
      if (!roce) return;
      EXPECT_TRUE(is_sealed(roce->header, roce->packet));
      const RoceHeader seen = as_a_socket_sees_it(roce->header);
      IcrcSealer sealer(seen);
      for (const std::uint16_t likely : {std::uint16_t{0}, roce->header.identification, std::uint16_t{0xABCD}})
        EXPECT_EQ(sealer.identification_of(likely, roce->packet), roce->header.identification) << likely;
      if (roce->header.is_ipv4()) {
        EXPECT_EQ(identification_of(seen, roce->packet), roce->header.identification);
      }
      RoceHeader elsewhere = as_a_socket_sees_it(roce->header);
      elsewhere.source[15] ^= 1;
      EXPECT_FALSE(IcrcSealer(elsewhere).identification_of(0, roce->packet));
      EXPECT_FALSE(sealer.identification_of(0, roce->packet.first(15)));
      Bytes octets(roce->packet.begin(), roce->packet.end());
      seal(elsewhere, octets);
      EXPECT_TRUE(is_sealed(elsewhere, octets));
      seal(roce->header, octets);
      EXPECT_EQ(octets, Bytes(roce->packet.begin(), roce->packet.end()));
      if (++frames % 4 == 0) expect_altered_found(roce->header, octets, rng, altered, passed);
    });
  EXPECT_GT(altered, 10000u);
  EXPECT_LT(passed, altered / 4096);
}

std::string words(const std::map<std::string, std::size_t>& counts) {
  std::string out;
  for (const auto& [name, n] : counts) out += fmt::format("{} {}\n", n, name);
  return out;
}

TEST(WireIbCaptures, EveryFrameOfRxeIsWrittenAsItWasRead) {
  Tally tally;
  for (const char* name : {"rxe61_cm", "rxe61_data", "rxe61_errors_loss", "rxe61_mra_mcast_ll",
                           "rxe61_sidr_stale_abort", "rxe61_unreachable"})
    each_frame(name, [&](const CapturedPacket& packet) {
      SCOPED_TRACE(fmt::format("{}, frame {}", name, packet.frame));
      expect_same_frame(packet.octets, tally);
    });
  EXPECT_EQ(tally.frames, 1734u);
  EXPECT_EQ(tally.ipv6, 39u);
  // As tshark counts them.
  EXPECT_EQ(words(tally.messages), "30 DREP\n36 DREQ\n1 MRA\n8 REJ\n27 REP\n51 REQ\n26 RTU\n2 SIDR_REP\n2 SIDR_REQ\n");
  EXPECT_EQ(words(tally.opcodes),
            "10 RC ATOMIC Acknowledge\n490 RC Acknowledge\n5 RC CmpSwap\n5 RC FetchAdd\n12 RC RDMA READ Request\n"
            "5 RC RDMA READ Response First\n5 RC RDMA READ Response Last\n6 RC RDMA READ Response Only\n"
            "5 RC RDMA WRITE First\n5 RC RDMA WRITE Last\n7 RC RDMA WRITE Only\n13 RC RDMA WRITE Only with Immediate\n"
            "109 RC SEND First\n131 RC SEND Last\n486 RC SEND Middle\n221 RC SEND Only\n6 UC SEND First\n"
            "6 UC SEND Last\n6 UC SEND Middle\n194 UD SEND Only\n7 UD SEND Only with Immediate\n");
}

// The link type ERF: 16 octets of its own, an LRH, a GRH if the low bits of the LRH's second octet are 3, and a VCRC of two octets at
// the end. The ICRC is over the LRH of packets without a GRH, and over the GRH of the others.
TEST(WireIbCaptures, EveryPacketOfHardwareIsWrittenAsItWasRead) {
  Tally tally;
  each_frame("ib_2008_mthca_erf", [&](const CapturedPacket& packet) {
    SCOPED_TRACE(packet.frame);
    const bool grh = (packet.octets[17] & 3) == 3;
    const std::size_t before = 16 + 8 + (grh ? PARLEY_ROCE_GRH_LEN : 0);
    ++tally.frames;
    tally.ipv6 += grh;
    const ConstBytes octets = packet.octets.subspan(before, packet.octets.size() - before - 2);
    expect_same_packet(octets, tally);
    const ConstBytes network = grh ? packet.octets.subspan(24, PARLEY_ROCE_GRH_LEN) : packet.octets.subspan(16, 8);
    EXPECT_EQ(*icrc(network, octets.first(octets.size() - PARLEY_IB_ICRC_LEN)), Packet::parse(octets)->icrc);
  });
  EXPECT_EQ(tally.frames, 43u);
  EXPECT_EQ(tally.ipv6, 6u);
  EXPECT_EQ(words(tally.messages), "3 REP\n3 REQ\n3 RTU\n");
}

/// A header that a UDP socket may have: over IPv4 or IPv6, with any identification.
RoceHeader any_header(Rng& rng) {
  RoceHeader header;
  for (Gid* gid : {&header.source, &header.destination})
    for (std::uint8_t& octet : *gid) octet = static_cast<std::uint8_t>(rng.below(256));
  if (rng.below(3) != 0)
    for (Gid* gid : {&header.source, &header.destination}) {
      std::fill_n(gid->begin(), 10, std::uint8_t{0});
      std::fill_n(gid->begin() + 10, 2, std::uint8_t{0xFF});
    }
  header.source_port = static_cast<std::uint16_t>(rng.below(65536));
  return header;
}

// Lengths come once and again, in any order, with and without FECN and BECN: what is kept of one never serves another.
TEST(WireIbSealer, MakesAndChecksTheSameIcrcsAsTheWholeHeader) {
  Rng rng(2);
  std::size_t over_v4 = 0;
  for (int flow = 0; flow < 40; ++flow) {
    RoceHeader header = any_header(rng);
    over_v4 += header.is_ipv4();
    IcrcSealer sender(header), receiver(header);
    for (int i = 0; i < 60; ++i) {
      const std::size_t sizes[] = {16, 20, 80, 1040, 1040, 1056, 17, 16 + rng.below(5000)};
      Bytes packet(sizes[rng.below(8)]);
      for (std::uint8_t& octet : packet) octet = static_cast<std::uint8_t>(rng.below(256));
      packet[4] = rng.below(4) != 0 ? 0 : static_cast<std::uint8_t>(rng.below(256));
      header.identification = static_cast<std::uint16_t>(rng.below(2) != 0 ? i : rng.below(65536));
      header.dont_fragment = true;
      sender.seal(header.identification, packet);
      EXPECT_TRUE(is_sealed(header, packet)) << packet.size();
      EXPECT_TRUE(receiver.is_sealed(header.identification, packet)) << packet.size();
      packet[5 + rng.below(packet.size() - 5)] ^= 0x20;
      EXPECT_FALSE(receiver.is_sealed(header.identification, packet)) << packet.size();
      header.dont_fragment = !header.is_ipv4() || rng.below(4) != 0;
      seal(header, packet);
      const std::uint16_t due = header.is_ipv4() ? header.identification : std::uint16_t{0};
      EXPECT_EQ(receiver.identification_of(static_cast<std::uint16_t>(i), packet), due) << packet.size();
      packet[8 + rng.below(8)] ^= 0x11;
      if (!header.is_ipv4()) {
        EXPECT_EQ(receiver.identification_of(due, packet), std::nullopt);
      }
    }
  }
  EXPECT_GT(over_v4, 10u);
  EXPECT_LT(over_v4, 40u);
}

// Packets of few lengths that begin in few ways, as those of messages do: what is kept of the last one never serves another.
TEST(WireIbSealer, KeepsWhatAMessagesPacketsBeginWith) {
  Rng rng(4);
  for (int flow = 0; flow < 40; ++flow) {
    RoceHeader header = any_header(rng);
    IcrcSealer sealer(header);
    for (int i = 0; i < 100; ++i) {
      // 80 and 336 have one place in the table.
      const std::size_t sizes[] = {80, 336, 1040};
      Bytes packet(sizes[rng.below(3)]);
      for (std::uint8_t& octet : packet) octet = static_cast<std::uint8_t>(rng.below(256));
      std::fill_n(packet.begin(), 8, std::uint8_t{0});
      if (rng.below(3) == 0) packet[rng.below(8)] = 0x80;
      header.identification = static_cast<std::uint16_t>(rng.below(65536));
      seal(header, packet);
      const ConstBytes covered = ConstBytes(packet).first(packet.size() - PARLEY_IB_ICRC_LEN);
      const std::size_t cut = PARLEY_IB_BTH_LEN + rng.below(covered.size() - PARLEY_IB_BTH_LEN + 1);
      Bytes made(PARLEY_IB_ICRC_LEN);
      Writer(made).le32(sealer.icrc(header.identification, covered.first(cut), covered.subspan(cut)));
      EXPECT_TRUE(std::equal(made.begin(), made.end(), packet.end() - PARLEY_IB_ICRC_LEN)) << packet.size();
    }
  }
}

// Packets behind one another, as the system cuts and joins them: the same octets as one by one, and what is wrong is found in its place.
TEST(WireIbSealer, SealsAndChecksManyAsOneByOne) {
  Rng rng(3);
  for (int round = 0; round < 300; ++round) {
    RoceHeader header = any_header(rng);
    IcrcSealer sender(header), receiver(header);
    const std::size_t count = 1 + rng.below(20), payload = 4 * rng.below(300), before = 12 + 4 * rng.below(5);
    const std::size_t size = before + payload + 4;
    const auto first = static_cast<std::uint16_t>(rng.below(2) != 0 ? 0 : 65530);
    Bytes packets(count * size), from(count * payload);
    for (std::uint8_t& octet : packets) octet = static_cast<std::uint8_t>(rng.below(256));
    for (std::uint8_t& octet : from) octet = static_cast<std::uint8_t>(rng.below(256));
    for (std::size_t i = 0; i < count; ++i) packets[i * size + 4] = packets[4];
    Bytes wanted = packets;
    for (std::size_t i = 0; i < count; ++i) {
      const MutBytes packet = MutBytes(wanted).subspan(i * size, size);
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(i * payload), payload,
                  packet.begin() + static_cast<std::ptrdiff_t>(before));
      header.identification = static_cast<std::uint16_t>(first + i);
      seal(header, packet);
    }
    sender.seal_all(first, size, packets, from);
    ASSERT_TRUE(packets == wanted) << "round " << round;
    Bytes placed(from.size());
    ASSERT_EQ(receiver.count_sealed(first, size, packets, placed), count);
    ASSERT_TRUE(placed == from);
    std::fill(placed.begin(), placed.end(), std::uint8_t{0});
    const std::size_t at = rng.below(packets.size());
    packets[at] ^= static_cast<std::uint8_t>(1U << rng.below(8));
    const bool not_covered = at % size == 4;  // FECN and BECN
    EXPECT_EQ(receiver.count_sealed(first, size, packets),
              not_covered && at == 4 ? std::min<std::size_t>(count, 1) : at / size)
        << "round " << round;
    if (!header.is_ipv4()) continue;
    EXPECT_EQ(receiver.count_sealed(static_cast<std::uint16_t>(first + 1), size, wanted), 0U);
  }
}

}  // namespace
}  // namespace parley::wire::ib::captures_test
