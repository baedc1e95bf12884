// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What becomes of each field of a frame (docs/captures.md): every header is written field by field, beside what the
// anonymized capture has in its place.
#include <gtest/gtest.h>

#include "tests/unit/capture/anonymize_fields.hpp"

namespace parley::capture {
namespace {

using namespace test::fields;
using test::anonymize;
using test::to_pcap;

Bytes rewritten(const Bytes& frame, std::uint16_t link_type, FrameCounts* counts = nullptr,
                std::uint32_t original_length = 0) {
  const auto done = anonymize(to_pcap({{frame, {}, original_length}}, link_type));
  Bytes out;
  (void)wire::read_capture(done.file, [&](const auto& p) { out.assign(p.octets.begin(), p.octets.end()); });
  if (counts != nullptr) *counts = done.frames;
  return out;
}

/// Whole, the frame becomes just this; cut at any length, none of its octets becomes anything but that or 0.
FrameCounts expect_becomes(const FramePart& f, const std::string& what, std::uint16_t link_type = 1) {
  FrameCounts counts;
  EXPECT_EQ(rewritten(f.before, link_type, &counts), f.after) << what;
  for (std::size_t n = 0; n < f.before.size(); ++n) {
    const Bytes cut = rewritten(Bytes(f.before.begin(), f.before.begin() + static_cast<std::ptrdiff_t>(n)), link_type,
                                nullptr, static_cast<std::uint32_t>(f.before.size()));
    EXPECT_EQ(cut.size(), n) << what;
    for (std::size_t i = 0; i < cut.size(); ++i)
      EXPECT_TRUE(cut[i] == 0 || cut[i] == f.after[i]) << what << ", octet " << i << " of " << n;
  }
  return counts;
}

TEST(AnonymizeFrame, RenamesAddressesPortsAndVlansAndKeepsTheOtherFieldsOfUdp) {
  const std::vector<std::uint16_t> all{0x2064, 0xF001, 0x0FFF, 0xE000};
  for (std::size_t tags = 0; tags <= all.size(); ++tags) {
    const std::vector<std::uint16_t> some(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(tags));
    const FrameCounts n = expect_becomes(ethernet(0x0800, ip4({}, udp()), some), std::to_string(tags) + " tags");
    EXPECT_EQ(n.packets, 1u);
    EXPECT_EQ(n.udp, 1u);
    EXPECT_EQ(n.addresses, 4u);
    EXPECT_EQ(n.ports, 2u);
    EXPECT_EQ(n.checksums_right, 2u);
    EXPECT_EQ(n.tcp + n.icmp + n.arp + n.other + n.checksums_wrong + n.options_dropped, 0u);
  }
}

TEST(AnonymizeFrame, ZeroesWhatIsBehindMoreVlanTagsThanAreFollowed) {
  FramePart f = ethernet(0x8100, {}, {1, 2, 3, 4});
  f.zero(ip4({}, udp()).before);
  EXPECT_EQ(expect_becomes(f, "five tags").other, 1u);
}

TEST(AnonymizeFrame, ZeroesTrailersAndTheOptionsOfIpv4) {
  const FrameCounts n = expect_becomes(
      ethernet(0x0800, ip4({.options = {7, 7, 4, 1, 2, 3, 4, 0}}, udp())).zero(Bytes(6, 0x77)), "record route");
  EXPECT_EQ(n.options_dropped, 1u);
}

TEST(AnonymizeFrame, TheChecksumOfAFragmentBecomesZeroAndALaterFragmentHasOnlyItsIpHeader) {
  for (const auto& [protocol, transport] : std::initializer_list<std::pair<std::uint8_t, FramePart>>{
           {17, udp()}, {6, tcp()}, {1, FramePart().keep({8, 0}).keep16(0).zero({1, 2, 3, 4})}}) {
    FramePart first = transport;
    std::fill_n(first.before.begin() + static_cast<std::ptrdiff_t>(*checksum_at(protocol)), 2, std::uint8_t{0x5A});
    expect_becomes(ethernet(0x0800, ip4({.protocol = protocol, .fragment = 0x2000}, first)), "first fragment");
    const FramePart later = FramePart().zero(transport.before);
    const FrameCounts n = expect_becomes(ethernet(0x0800, ip4({.protocol = protocol, .fragment = 0x2001}, later)), "");
    expect_becomes(ethernet(0x0800, ip4({.protocol = protocol, .fragment = 1}, later)), "last fragment");
    EXPECT_EQ(n.tcp + n.udp + n.icmp + n.other + n.ports, 0u);
    EXPECT_EQ(n.checksums_right, 1u) << "the IP header's";
  }
}

TEST(AnonymizeFrame, AUdpChecksumThatIsNoneStaysNone) {
  EXPECT_EQ(expect_becomes(ethernet(0x0800, ip4({.sums = false}, udp())), "").checksums_right, 1u);
}

TEST(AnonymizeFrame, AUdpChecksumThatIsAllOnesAsZeroMeansNoneGetsTheRightOne) {  // RFC 768
  FramePart payload = udp();
  Bytes pseudo = FramePart().v4(ip_a).v4(ip_b).keep({0, 17}).keep16(payload.before.size()).before;
  // Two octets of payload make the sum what it has to be.
  payload.before[10] = payload.before[11] = 0;
  const ConstBytes pieces[] = {pseudo, payload.before};
  const std::uint16_t sum = wire::internet_checksum(pieces);
  payload.before[10] = static_cast<std::uint8_t>(sum >> 8), payload.before[11] = static_cast<std::uint8_t>(sum);
  payload.before[6] = payload.before[7] = 0xFF;
  const FramePart whole = ethernet(0x0800, ip4({.sums = false}, payload));
  FrameCounts counts;
  const Bytes now = rewritten(whole.before, 1, &counts);
  EXPECT_EQ(counts.checksums_right, 2u);
  const ConstBytes addresses = ConstBytes(now).subspan(26, 8), datagram = ConstBytes(now).subspan(34);
  const Bytes rest{0, 17, 0, static_cast<std::uint8_t>(datagram.size())};
  const ConstBytes after[] = {addresses, rest, datagram};
  EXPECT_EQ(wire::internet_checksum(after), 0u);
  EXPECT_NE(now[40] << 8 | now[41], 0);
}

TEST(AnonymizeFrame, RocesPortStaysAndItsUdpChecksumIsRight) {
  const FramePart empty = FramePart().port(40000).keep16(PARLEY_ROCE_UDP_PORT).keep16(8).zero({0, 0});
  EXPECT_EQ(expect_becomes(ethernet(0x0800, ip4({}, empty)), "no payload").checksums_right, 2u);
}

TEST(AnonymizeFrame, AnIpChecksumLeftToTheNicStaysZero) {
  FramePart f = ethernet(0x0800, ip4({}, udp()));
  for (Bytes* each : {&f.before, &f.after}) (*each)[24] = (*each)[25] = 0;
  const FrameCounts n = expect_becomes(f, "");
  EXPECT_EQ(n.checksums_right, 1u);
  EXPECT_EQ(n.checksums_wrong, 1u);
}

TEST(AnonymizeFrame, AnIpv6PacketLeftToTheNicForSegmentationIsAsLongAsItsFrame) {
  FramePart f = ethernet(0x86DD, ip6({}, udp()));
  for (Bytes* each : {&f.before, &f.after}) (*each)[18] = (*each)[19] = 0;  // its length
  const FrameCounts n = expect_becomes(f, "no length");
  EXPECT_EQ(n.udp, 1u);
  EXPECT_EQ(n.checksums_right, 1u);
}

TEST(AnonymizeFrame, RefusesHeadersThatAreNone) {
  for (const std::uint8_t first : Bytes{0x44, 0x35, 0x65, 0x05}) {
    FramePart f;
    f.mac(mac_b).mac(mac_a).keep16(0x0800);
    Bytes ip = ip4({}, udp()).before;
    ip[0] = first;
    expect_becomes(f.zero(ip), "version and length " + std::to_string(first));
  }
  FramePart f;
  f.mac(mac_b).mac(mac_a).keep16(0x86DD);
  Bytes ip = ip6({}, udp()).before;
  ip[0] = 0x5A;
  expect_becomes(f.zero(ip), "IPv6 with version 5");
}

TEST(AnonymizeFrame, OtherProtocolsBecomeZeroBehindTheirIpHeader) {
  const FramePart sctp = FramePart().zero(Bytes(24, 0x77));
  EXPECT_EQ(expect_becomes(ethernet(0x0800, ip4({.protocol = 132}, sctp)), "IPv4").other, 1u);
  EXPECT_EQ(expect_becomes(ethernet(0x86DD, ip6({.protocol = 132}, sctp)), "IPv6").other, 1u);
  EXPECT_EQ(expect_becomes(ethernet(0x88CC, sctp), "LLDP").other, 1u);
}

FramePart nops(const Bytes& was) { return FramePart().put(was, Bytes(was.size(), 1)); }

struct OptionCase {
  const char* what;
  FramePart octets;
  unsigned dropped = 0;
};

std::vector<OptionCase> tcp_option_cases() {
  const auto kept = [](Bytes octets) { return FramePart().keep(octets); };
  std::vector<OptionCase> cases{
      {"none", {}},
      {"a SYN's", kept({2, 4, 5, 0xB4, 1, 3, 3, 7, 4, 2, 1, 1})},
      {"timestamps", FramePart().keep({1, 1}) += timestamps(0x01020304, 0xA0B0C0D0)},
      {"timestamps without an echo", FramePart().keep({1, 1}) += timestamps(77, 0)},
      {"end of the list", kept({4, 2, 0}).zero({9, 9, 9, 9, 9})},
      {"only NOPs", kept({1, 1, 1, 1})},
      {"unknown", kept({1, 1}) += nops({253, 6, 9, 9, 9, 9}), 1},
      {"two unknown", (kept({4, 2}) += nops({28, 4, 9, 9})) += nops({30, 2}), 2},
      {"MSS of another length", nops({2, 3, 9}) += kept({1}), 1},
      {"window scale of another length", nops({3, 4, 9, 9}), 1},
      {"SACK permitted of another length", nops({4, 3, 9}) += kept({1}), 1},
      {"timestamps of another length", nops({8, 8, 9, 9, 9, 9, 9, 9}), 1},
      {"empty SACK", nops({5, 2}) += kept({1, 1}), 1},
      {"SACK of no whole blocks", nops({5, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), 1},
      {"length 0", kept({4, 2}).zero({2, 0}), 1},
      {"length 1", kept({4, 2}).zero({253, 1}), 1},
      {"length beyond the header", kept({1, 1}).zero({2, 4}), 1},
      {"unknown beyond the header", kept({4, 2}).zero({253, 9}), 1},
      {"no room for a length", kept({1, 1, 1}).zero({2}), 1},
      {"unknown without room for a length", kept({1, 1, 1}).zero({253}), 1},
  };
  for (std::uint8_t blocks = 1; blocks <= 4; ++blocks) {
    Bytes sack{1, 1, 5, static_cast<std::uint8_t>(2 + 8 * blocks)};
    for (unsigned i = 0; i < 8u * blocks; ++i) sack.push_back(static_cast<std::uint8_t>(0x81 + i));
    cases.push_back({"SACK", kept(sack)});
  }
  return cases;
}

TEST(AnonymizeFrame, KeepsTheKnownTcpOptionsMovesClocksAndMakesOthersNops) {
  for (const OptionCase& c : tcp_option_cases()) {
    const FrameCounts n = expect_becomes(ethernet(0x0800, ip4({.protocol = 6}, tcp(c.octets))), c.what);
    EXPECT_EQ(n.tcp, 1u) << c.what;
    EXPECT_EQ(n.ports, 2u) << c.what;
    EXPECT_EQ(n.checksums_right, 2u) << c.what;
    EXPECT_EQ(n.options_dropped, c.dropped) << c.what;
  }
}

TEST(AnonymizeFrame, KeepsAnUrgentPointerOnlyWithTheFlag) {
  for (unsigned flags = 0; flags < 256; ++flags)
    expect_becomes(ethernet(0x0800, ip4({.protocol = 6}, tcp({}, static_cast<std::uint8_t>(flags)))),
                   "flags " + std::to_string(flags));
}

TEST(AnonymizeFrame, OfAnOptionCutByTheSnapLengthAKnownOneKeepsItsHeadAndAnotherNothing) {
  const struct {
    Bytes option;
    bool known;
  } cases[] = {
      {{2, 4, 5, 0xB4}, true}, {{5, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1}, true}, {{253, 8, 1, 2, 3, 4, 5, 6}, false}};
  for (const auto& c : cases) {
    const FramePart f = ethernet(0x0800, ip4({.protocol = 6}, tcp(FramePart().keep(c.option))));
    for (std::size_t n = 14 + 40 + 2; n < 14u + 40 + c.option[1]; ++n) {
      const Bytes cut = rewritten(Bytes(f.before.begin(), f.before.begin() + static_cast<std::ptrdiff_t>(n)), 1,
                                  nullptr, static_cast<std::uint32_t>(f.before.size()));
      Bytes want(n - 54);
      if (c.known) want[0] = c.option[0], want[1] = c.option[1];
      EXPECT_EQ(Bytes(cut.begin() + 54, cut.end()), want) << int{c.option[0]} << " cut at " << n;
    }
  }
}

TEST(AnonymizeFrame, ATcpHeaderOfImpossibleLengthHasNoOptionsAndNoPayload) {
  for (const std::uint8_t offset : Bytes{0x40, 0xF0}) {
    FramePart f = ethernet(0x0800, ip4({.protocol = 6, .sums = false}, tcp({}, 0x18, 8)));
    f.before[14 + 20 + 12] = f.after[14 + 20 + 12] = offset;
    EXPECT_EQ(expect_becomes(f, "offset " + std::to_string(offset)).tcp, 1u);
  }
}

TEST(AnonymizeFrame, KeepsTypeAndCodeOfIcmp) {
  const FramePart echo = FramePart().keep({8, 3}).keep16(0).zero({1, 2, 3, 4, 5, 6, 7, 8});
  const FrameCounts n = expect_becomes(ethernet(0x0800, ip4({.protocol = 1}, echo)), "ICMP");
  EXPECT_EQ(n.icmp, 1u);
  EXPECT_EQ(n.checksums_right, 2u);
  for (const std::uint8_t type : Bytes{1, 128, 133, 134, 137}) {
    const FramePart other = FramePart().keep({type, 4}).keep16(0).zero(Bytes(28, 0x66));
    EXPECT_EQ(expect_becomes(ethernet(0x86DD, ip6({.protocol = 58}, other)), std::to_string(type)).icmp, 1u);
  }
}

TEST(AnonymizeFrame, NeighbourDiscoveryKeepsItsFlagsAndNamesTargetAndLinkAddress) {
  for (const std::uint8_t type : Bytes{135, 136})
    for (const std::uint8_t option : Bytes{1, 2, 3, 14}) {
      FramePart f = FramePart().keep({type, 0}).keep16(0).keep({0xE0, 0, 0, 0}).v6(ip6_b);
      f.keep({option, 1});
      option <= 2 ? f.mac(mac_a) : f.zero({1, 2, 3, 4, 5, 6});
      f.keep({1, 2}).zero(Bytes(14, 0x55));  // longer than a link-layer address
      f.keep({2, 1}).mac(mac_b);
      f.keep({7, 0}).zero(Bytes(6, 0x44));  // a length of 0 ends the list
      const FrameCounts n = expect_becomes(ethernet(0x86DD, ip6({.protocol = 58}, f)), std::to_string(option));
      EXPECT_EQ(n.icmp, 1u);
      EXPECT_EQ(n.addresses, 4u + 1 + 1 + (option <= 2 ? 1 : 0));
      EXPECT_EQ(n.checksums_right, 1u);
    }
}

TEST(AnonymizeFrame, Ipv6FlowLabelsGetOtherNamesAndNoneStaysNone) {
  for (const std::uint32_t label : {0u, 1u, 0xFFFFFu})
    for (const bool is_tcp : {false, true})
      expect_becomes(ethernet(0x86DD, ip6({.protocol = static_cast<std::uint8_t>(is_tcp ? 6 : 17), .label = label},
                                          is_tcp ? tcp() : udp())),
                     "label " + std::to_string(label));
}

TEST(AnonymizeFrame, WalksTheExtensionHeadersOfIpv6AndZeroesWhatIsInThem) {
  for (const std::uint8_t kind : Bytes{0, 43, 51, 60, 135}) {
    const FrameCounts n =
        expect_becomes(ethernet(0x86DD, ip6({.first = kind, .extensions = extension(kind, 17)}, udp())),
                       "extension " + std::to_string(kind));
    EXPECT_EQ(n.udp, 1u);
    EXPECT_EQ(n.options_dropped, 1u);
    EXPECT_EQ(n.checksums_right, 1u);
  }
  FramePart many;
  for (int i = 0; i < 16; ++i) many += extension(60, i < 15 ? 60 : 6);
  const FrameCounts n =
      expect_becomes(ethernet(0x86DD, ip6({.protocol = 6, .first = 60, .extensions = many}, tcp())), "16");
  EXPECT_EQ(n.tcp, 1u);
  EXPECT_EQ(n.options_dropped, 16u);
}

TEST(AnonymizeFrame, AFragmentOfIpv6KeepsItsHeaderAndLosesItsChecksum) {
  const auto fragment = [](std::uint16_t where) {
    return FramePart().keep({17, 0}).keep16(where).keep({0xCA, 0xFE, 0xBA, 0xBE});
  };
  FramePart first = udp();
  first.before[6] = first.before[7] = 0x5A;
  const auto counts =
      expect_becomes(ethernet(0x86DD, ip6({.first = 44, .extensions = fragment(1), .sums = false}, first)), "first");
  EXPECT_EQ(counts.udp, 1u);
  EXPECT_EQ(counts.options_dropped, 0u);
  EXPECT_EQ(counts.checksums_right + counts.checksums_wrong, 0u);
  for (const std::uint16_t where : Numbers{8, 9})
    EXPECT_EQ(expect_becomes(ethernet(0x86DD, ip6({.first = 44, .extensions = fragment(where), .sums = false},
                                                  FramePart().zero(udp().before))),
                             "later")
                  .udp,
              0u);
  EXPECT_EQ(expect_becomes(ethernet(0x86DD, ip6({.first = 44, .extensions = fragment(0)}, udp())), "the only one")
                .checksums_right,
            1u);
}

struct Arp {
  const char* what;
  std::uint16_t hardware, protocol;
  std::uint8_t hardware_length, protocol_length;
  bool understood;
};

TEST(AnonymizeFrame, NamesTheAddressesOfArpAndZeroesThoseOfOtherNetworks) {
  const Arp cases[] = {{"Ethernet and IPv4", 1, 0x0800, 6, 4, true},
                       {"other hardware", 6, 0x0800, 6, 4, false},
                       {"other protocol", 1, 0x86DD, 6, 4, false},
                       {"other length of hardware addresses", 1, 0x0800, 8, 4, false},
                       {"other length of protocol addresses", 1, 0x0800, 6, 16, false}};
  for (const Arp& c : cases) {
    FramePart f = FramePart().keep16(c.hardware).keep16(c.protocol).keep({c.hardware_length, c.protocol_length, 0, 2});
    const FramePart addresses = FramePart().mac(mac_a).v4(ip_a).mac(mac_b).v4(ip_b);
    c.understood ? f += addresses : f.zero(addresses.before);
    const FrameCounts n = expect_becomes(ethernet(0x0806, f.zero(Bytes(18, 0x77))), c.what);
    EXPECT_EQ(n.arp, 1u);
    EXPECT_EQ(n.addresses, c.understood ? 6u : 2u) << c.what;
  }
}

TEST(AnonymizeFrame, RewritesEveryLinkHeader) {
  const FramePart v4 = ip4({}, udp()), v6 = ip6({}, udp());
  for (const bool six : {false, true}) {
    const FramePart& ip = six ? v6 : v4;
    const std::uint16_t type = six ? 0x86DD : 0x0800;
    FramePart cooked = FramePart().keep({0, 4, 0, 1, 0, 6}).mac(mac_a).zero({7, 7}).keep16(type);
    expect_becomes(cooked += ip, "SLL", 113);
    FramePart loopback = FramePart().keep({0, 0, 3, 4, 0, 8}).zero({1, 2, 3, 4, 5, 6, 7, 8}).keep16(type);
    expect_becomes(loopback += ip, "SLL with an address of another length", 113);
    FramePart cooked2 = FramePart().keep16(type).zero({7, 7}).keep({0, 0, 0, 3, 0, 1, 4, 6}).mac(mac_b).zero({7, 7});
    expect_becomes(cooked2 += ip, "SLL2", 276);
    FramePart other2 = FramePart().keep16(type).zero({7, 7}).keep({0, 0, 0, 3, 0, 1, 4, 0}).zero(Bytes(8, 7));
    expect_becomes(other2 += ip, "SLL2 without an address", 276);
    FramePart tagged = FramePart().keep({0, 4, 0, 1, 0, 6}).mac(mac_a).zero({7, 7}).keep16(0x8100);
    expect_becomes(tagged.number16(0x6064, 0x6000 | names().vlan(100)).keep16(type) += ip, "SLL with a tag", 113);
    for (const std::uint16_t link : Numbers{12, 14, 101, 228, 229})
      if (link < 228 || six == (link == 229)) expect_becomes(ip, "raw " + std::to_string(link), link);
    for (const std::uint16_t link : Numbers{0, 108})
      for (const std::uint8_t family : six ? Bytes{10, 24, 28, 30} : Bytes{2}) {
        for (const Bytes& number : {Bytes{0, 0, 0, family}, Bytes{family, 0, 0, 0}})
          expect_becomes(FramePart().keep(number) += ip, "loopback " + std::to_string(family), link);
      }
  }
}

TEST(AnonymizeFrame, ZeroesFramesOfAnotherFamilyOrVersion) {
  const Bytes ip = ip4({}, udp()).before;
  for (const std::uint16_t link : Numbers{0, 108}) {
    EXPECT_EQ(expect_becomes(FramePart().keep({7, 0, 0, 0}).zero(ip), "family 7", link).other, 1u);
    EXPECT_EQ(expect_becomes(FramePart().zero({0, 1, 0, 2}).zero(ip), "no family", link).other, 1u);
  }
  Bytes five = ip;
  five[0] = 0x55;
  for (const std::uint16_t link : Numbers{12, 14, 101})
    EXPECT_EQ(expect_becomes(FramePart().zero(five), "", link).other, 1u);
}

}  // namespace
}  // namespace parley::capture
