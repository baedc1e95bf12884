// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every header that is understood, with each of its octets altered in turn: what becomes of each octet of the frame, and
// what is counted (tests/states/capture_anonymized_octets.txt). "=" are octets that stay, "0" those that become 0, "x"
// those that get another value. Cut off anywhere, a frame keeps no octet that it does not keep whole.
#include <gtest/gtest.h>

#include "tests/unit/capture/anonymize_fields.hpp"
#include "tests/unit/capture/runs.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::capture {
namespace {

namespace f = test::fields;

struct WholeFrame {
  std::string name;
  std::uint16_t link_type;
  Bytes octets;
};

/// A frame of each kind, without payload that matters.
std::vector<WholeFrame> frames_of_each_kind() {
  const auto options = f::FramePart().keep({2, 4, 5, 0xB4, 1, 3, 3, 7, 253, 4, 9, 9});
  auto clock = f::FramePart().keep({1, 1});
  clock += f::timestamps(0x01020304, 0xA0B0C0D0);
  const auto sack = f::FramePart().keep({1, 1, 5, 10, 1, 2, 3, 4, 5, 6, 7, 8});
  const auto arp = f::FramePart().keep({0, 1, 8, 0, 6, 4, 0, 2}).mac(f::mac_a).v4(f::ip_a).mac(f::mac_b).v4(f::ip_b);
  const auto neighbour =
      f::FramePart().keep({135, 0}).keep16(0).keep({0xE0, 0, 0, 0}).v6(f::ip6_b).keep({1, 1}).mac(f::mac_a);
  const auto echo = f::FramePart().keep({8, 3}).keep16(0).zero({1, 2, 3, 4});
  const auto fragment = f::FramePart().keep({17, 0, 0, 0, 0xCA, 0xFE, 0xBA, 0xBE});
  f::FramePart two = f::extension(0, 51);
  two += f::extension(51, 17);
  const auto ip4 = [](std::uint8_t protocol, const f::FramePart& payload) {
    return f::ip4({.protocol = protocol}, payload);
  };
  const auto on_ethernet = [](const f::FramePart& ip, bool six = false) {
    return f::ethernet(six ? 0x86DD : 0x0800, ip).before;
  };
  f::FramePart cooked = f::FramePart().keep({0, 4, 0, 1, 0, 6}).mac(f::mac_a).zero({7, 7}).keep16(0x0800);
  f::FramePart cooked2 =
      f::FramePart().keep16(0x0800).zero({7, 7}).keep({0, 0, 0, 3, 0, 1, 4, 6}).mac(f::mac_b).zero({7, 7});
  return {{"TCP, a SYN's options", 1, on_ethernet(ip4(6, f::tcp(options, 0x02, 0)))},
          {"TCP, timestamps", 1, on_ethernet(ip4(6, f::tcp(clock)))},
          {"TCP, SACK, urgent", 1, on_ethernet(ip4(6, f::tcp(sack, 0x38)))},
          {"UDP, two tags, a trailer", 1,
           f::ethernet(0x0800, ip4(17, f::udp()), {0x2064, 0xF001}).zero(Bytes(3, 7)).before},
          {"UDP, IPv4 options", 1, on_ethernet(f::ip4({.options = {7, 3, 4, 0}}, f::udp()))},
          {"ICMP", 1, on_ethernet(ip4(1, echo))},
          {"ARP", 1, f::ethernet(0x0806, arp).before},
          {"neighbour solicitation", 1, on_ethernet(f::ip6({.protocol = 58}, neighbour), true)},
          {"UDP on IPv6, a flow label", 1, on_ethernet(f::ip6({.label = 0x12345}, f::udp()), true)},
          {"IPv6, two extensions", 1, on_ethernet(f::ip6({.first = 0, .extensions = two}, f::udp()), true)},
          {"IPv6, routing", 1, on_ethernet(f::ip6({.first = 43, .extensions = f::extension(43, 17)}, f::udp()), true)},
          {"IPv6, a fragment", 1, on_ethernet(f::ip6({.first = 44, .extensions = fragment}, f::udp()), true)},
          {"SLL", 113, (cooked += ip4(17, f::udp())).before},
          {"SLL2", 276, (cooked2 += ip4(17, f::udp())).before},
          {"loopback", 0, (f::FramePart().keep({2, 0, 0, 0}) += ip4(17, f::udp())).before},
          {"raw", 101, ip4(17, f::udp()).before}};
}

std::string kinds_of_octets(ConstBytes was, ConstBytes is) {
  std::string out;
  for (std::size_t i = 0; i < was.size() && i < is.size(); ++i) {
    if (i % 4 == 0 && i > 0) out += ' ';
    out += was[i] == is[i] ? '=' : is[i] == 0 ? '0' : 'x';
  }
  return out;
}

std::string kinds_of_octets(const WholeFrame& w) {
  std::string out;
  (void)wire::read_capture(test::anonymize(test::to_pcap({{w.octets, {}, 0}}, w.link_type)).file,
                           [&](const wire::CapturedPacket& p) { out = kinds_of_octets(w.octets, p.octets); });
  return out;
}

struct Became {
  std::string kinds, counts;
};
Became becomes(const WholeFrame& w, std::uint32_t original_length = 0) {
  const auto done = test::anonymize(test::to_pcap({{w.octets, {}, original_length}}, w.link_type));
  Became out{done.refusal, {}};
  (void)wire::read_capture(done.file,
                           [&](const wire::CapturedPacket& p) { out.kinds += kinds_of_octets(w.octets, p.octets); });
  const FrameCounts& n = done.frames;
  for (const auto& [times, what] : {std::pair(n.tcp, "TCP"),
                                    {n.udp, "UDP"},
                                    {n.icmp, "ICMP"},
                                    {n.arp, "ARP"},
                                    {n.other, "other"},
                                    {n.addresses, "addresses"},
                                    {n.ports, "ports"},
                                    {n.options_dropped, "options"},
                                    {n.checksums_right, "checksums right"},
                                    {n.checksums_wrong, "wrong"}})
    if (times > 0) out.counts += fmt::format("{}{} {}", out.counts.empty() ? "" : ", ", times, what);
  return out;
}

/// Of the octets that are left none is kept that the whole frame does not keep.
void expect_no_more_kept(const std::string& cut, const std::string& whole, const Bytes& was, const std::string& what) {
  ASSERT_LE(cut.size(), whole.size()) << what;
  for (std::size_t i = 0; i < cut.size(); ++i) {
    const bool zeroed = cut[i] == '0' || was[i - i / 5] == 0;
    EXPECT_TRUE(cut[i] == whole[i] || zeroed) << what << ", octet " << i - i / 5 << ": " << cut;
  }
}

TEST(AnonymizeOctets, OfEveryHeaderEachAlteredOrCutOff) {
  std::string out;
  for (const WholeFrame& w : frames_of_each_kind()) {
    const Became usual = becomes(w);
    out += fmt::format("== {} ==\n{} | {}\n", w.name, usual.kinds, usual.counts);
    Runs runs(usual.kinds + "\n" + usual.counts, false);
    Runs cuts;
    const std::string kinds = kinds_of_octets(w);
    for (std::size_t at = 0; at < w.octets.size(); ++at) {
      if (kinds[at + at / 4] == 'x') continue;  // a name: another one has another name
      for (const unsigned bits : {0x01u, 0x04u, 0x10u, 0xFFu}) {
        WholeFrame altered = w;
        altered.octets[at] ^= static_cast<std::uint8_t>(bits);
        const Became now = becomes(altered);
        runs.add(fmt::format("{}^{:02x}", at, bits), now.kinds + "\n" + now.counts);
      }
    }
    const auto size = static_cast<std::uint32_t>(w.octets.size());
    for (std::size_t n = 1; n < size; ++n) {
      WholeFrame cut = w;
      cut.octets.resize(n);
      const Became now = becomes(cut, size);
      expect_no_more_kept(now.kinds, usual.kinds, w.octets, fmt::format("{} cut to {}", w.name, n));
      cuts.add(std::to_string(n), now.counts);
    }
    out += runs.text() + "cut to\n" + cuts.text();
  }
  expect_as_reviewed("capture_anonymized_octets.txt", out);
}

}  // namespace
}  // namespace parley::capture
