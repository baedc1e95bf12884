// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Frames and capture files with each octet altered, and cut at each length: what is read then
// (tests/states/wire_octets_*.txt).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/bytes_io.hpp"
#include "base/text.hpp"
#include "tests/unit/reviewed.hpp"
#include "tests/unit/runs.hpp"
#include "wire/packet.hpp"
#include "wire/pcap.hpp"
#include "wire/pcapng.hpp"

namespace parley::wire {
namespace {

constexpr auto ethernet = static_cast<std::uint16_t>(LinkType::ethernet);

/// Where the fields of a frame stand, by their octets in the frame as it was made.
struct Places {
  std::size_t source = 0, destination = 0, tcp = 0;
  bool v6 = false;
};
Places places_of(const Bytes& frame) {
  const auto place = [&frame](const Bytes& of) {
    return static_cast<std::size_t>(std::search(frame.begin(), frame.end(), of.begin(), of.end()) - frame.begin());
  };
  const Bytes v4{192, 0, 2, 1, 192, 0, 2, 2}, ports{0x9C, 0x40, 0x1D, 0x2F};
  Places at{.source = place(v4), .tcp = place(ports), .v6 = place(v4) == frame.size()};
  if (at.v6) at.source = place({0x20, 0x01, 0x0D, 0xB8});
  at.destination = at.source + (at.v6 ? 16 : 4);
  return at;
}

/// Whether what was read of the frame is what stands at those places.
bool as_it_stands(const TcpSegmentView& t, const Bytes& frame, const Places& at) {
  const auto number = [&frame](std::size_t from, std::size_t octets) {
    std::uint64_t out = 0;
    for (std::size_t i = from; i < from + octets; ++i) out = out << 8 | (i < frame.size() ? frame[i] : 0u);
    return out;
  };
  const auto is_at = [&](const Address& a, std::size_t address, std::size_t port) {
    return (a.family == Address::Family::v6) == at.v6 && a.port == number(port, 2) &&
           std::equal(a.octets.begin(), a.octets.begin() + (at.v6 ? 16 : 4),
                      frame.begin() + static_cast<std::ptrdiff_t>(address));
  };
  return is_at(t.source, at.source, at.tcp) && is_at(t.destination, at.destination, at.tcp + 2) &&
         t.seq == number(at.tcp + 4, 4) && t.ack == number(at.tcp + 8, 4) && t.flags == number(at.tcp + 13, 1) &&
         t.window == number(at.tcp + 14, 2);
}

/// Kind and cargo; of TCP whether its header was read as it stands (else what was read), its options, how much there is.
std::string seen(const PacketView& p, const Bytes& frame, const Places& at) {
  constexpr std::string_view kinds[] = {"TCP", "other", "fragment", "cut", "malformed", "unsupported"};
  constexpr std::string_view cargo[] = {"", ", TCP", ", UDP", ", RoCEv2", ", RoCEv1"};
  std::string out = fmt::format("{}{}{}", kinds[static_cast<std::size_t>(p.kind)],
                                cargo[static_cast<std::size_t>(p.cargo)], p.first_fragment ? ", first fragment" : "");
  if (p.kind != PacketKind::tcp) return out;
  const TcpSegmentView& t = p.tcp;
  out += as_it_stands(t, frame, at)
             ? ", as it stands"
             : fmt::format(", {} to {}, seq {:x} ack {:x} flags {:02x} window {}", t.source.to_string(),
                           t.destination.to_string(), t.seq, t.ack, t.flags, t.window);
  return out + fmt::format(", MSS {}{}, {} of {} octets: {}", t.mss, t.timestamps ? ", timestamps" : "",
                           t.payload.size(), t.length, hex_text(t.payload));
}

struct NamedFrame {
  std::string name;
  std::uint16_t link_type;
  Bytes octets;
};
Bytes emitted(bool v6, std::vector<std::uint16_t> vlans = {}) {
  Address a = Address::v4(192, 0, 2, 1, 40000), b = Address::v4(192, 0, 2, 2, 7471);
  if (v6) {
    a.family = b.family = Address::Family::v6;
    a.octets = b.octets = {0x20, 0x01, 0x0D, 0xB8};
    a.octets[15] = 1, b.octets[15] = 2;
  }
  const Bytes payload{0x61, 0x62, 0x63};
  TcpFrame f;
  f.source = a, f.destination = b;
  f.seq = 0x01020304, f.ack = 0x05060708, f.flags = 0x12, f.mss = 1460;
  f.payload = payload, f.vlans = vlans;
  return emit_tcp_frame(f).value_or(Bytes{});
}
/// The IP packet of it behind another link header.
Bytes behind(const Bytes& head, bool v6) {
  const Bytes frame = emitted(v6);
  Bytes out = head;
  out.insert(out.end(), frame.begin() + 14, frame.end());
  return out;
}
/// IPv6 with extension headers in front of TCP: hop-by-hop, routing, fragment, authentication.
Bytes extended() {
  Bytes f = emitted(true);
  f[14 + 6] = 0;
  const Bytes headers{43, 0, 1, 4, 0, 0, 0, 0, 44, 0, 4, 0, 0, 0, 0, 0, 51, 0,
                      0,  1, 0, 0, 0, 9, 6, 1, 0,  0, 0, 0, 0, 1, 0, 0, 0,  2};
  f.insert(f.begin() + 54, headers.begin(), headers.end());
  f[14 + 5] = static_cast<std::uint8_t>(f[14 + 5] + headers.size());
  return f;
}
/// IPv4 and TCP with options: NOP, timestamps, an unknown one, MSS, end.
Bytes with_options() {
  Bytes f = emitted(false);
  const Bytes tcp_options{1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 99, 3, 7, 2, 4, 5, 6, 0, 2};
  f.erase(f.begin() + 54, f.begin() + 58);
  f.insert(f.begin() + 54, tcp_options.begin(), tcp_options.end());
  f[46] = 0xA0;
  const Bytes ip_options{1, 1, 1, 0};
  f.insert(f.begin() + 34, ip_options.begin(), ip_options.end());
  f[14] = 0x46;
  f[17] = static_cast<std::uint8_t>(f.size() - 14);
  return f;
}
Bytes udp(std::uint16_t port) {
  Bytes f = emitted(false);
  f[23] = 17;
  f[36] = static_cast<std::uint8_t>(port >> 8), f[37] = static_cast<std::uint8_t>(port);
  return f;
}
std::vector<NamedFrame> frames() {
  const auto type = [](LinkType t) { return static_cast<std::uint16_t>(t); };
  std::vector<NamedFrame> out{{"IPv4", ethernet, emitted(false)},
                              {"IPv6", ethernet, emitted(true)},
                              {"two VLAN tags", ethernet, emitted(false, {5, 6})},
                              {"IPv6 with extension headers", ethernet, extended()},
                              {"options", ethernet, with_options()},
                              {"UDP", ethernet, udp(53)},
                              {"RoCEv2", ethernet, udp(4791)},
                              {"raw IPv4", type(LinkType::raw), behind({}, false)},
                              {"raw IPv6", type(LinkType::raw_bsd), behind({}, true)},
                              {"link type IPv4", type(LinkType::ipv4), behind({}, false)},
                              {"link type IPv6", type(LinkType::ipv6), behind({}, true)},
                              {"loopback, this order", type(LinkType::null), behind({2, 0, 0, 0}, false)},
                              {"loopback, the other order", type(LinkType::loop), behind({0, 0, 0, 30}, true)}};
  Bytes sll{0, 0, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0},
      sll2{0x86, 0xDD, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0};
  out.push_back({"Linux cooked", type(LinkType::linux_sll), behind(sll, false)});
  out.push_back({"Linux cooked 2", type(LinkType::linux_sll2), behind(sll2, true)});
  Bytes ib = emitted(false);
  ib[12] = 0x89, ib[13] = 0x15;
  out.push_back({"RoCEv1", ethernet, ib});
  return out;
}

TEST(WireOctets, OfFramesEachAltered) {
  std::string out;
  for (const NamedFrame& f : frames()) {
    const Places places = places_of(f.octets);
    const auto parsed = [&](const Bytes& octets) {
      return seen(parse_packet(f.link_type, octets, static_cast<std::uint32_t>(f.octets.size())), octets, places);
    };
    const std::string usual = parsed(f.octets);
    out += "== " + f.name + " ==\n" + usual + "\n";
    Runs runs(usual, false);
    const bool whole = f.name.starts_with("IP") || f.name == "options" || f.name == "two VLAN tags";
    for (std::size_t at = 0; at < (whole ? f.octets.size() - 3 : std::size_t{24}); ++at)
      for (const std::uint8_t bits : {std::uint8_t{0x01}, std::uint8_t{0xE0}}) {
        Bytes other = f.octets;
        other[at] ^= bits;
        runs.add(fmt::format("{}^{:02x}", at, bits), parsed(other));
      }
    out += runs.text();
  }
  expect_as_reviewed("wire_octets_frames.txt", out);
}

TEST(WireOctets, OfFramesEachLength) {
  std::string out;
  for (const NamedFrame& f : frames()) {
    const Places places = places_of(f.octets);
    const auto parsed = [&](const Bytes& octets, std::size_t original) {
      return seen(parse_packet(f.link_type, octets, static_cast<std::uint32_t>(original)), octets, places);
    };
    Runs runs(parsed(f.octets, f.octets.size()));
    for (std::size_t n = 0; n < f.octets.size() + 4; ++n) {
      Bytes other = f.octets;
      other.resize(n);
      runs.add(fmt::format("captured {}", n), parsed(other, std::max(n, f.octets.size())));
    }
    for (std::size_t n = 0; n < f.octets.size(); ++n) {
      Bytes other = f.octets;
      other.resize(n);
      runs.add(fmt::format("of length {}", n), parsed(other, n));
    }
    out += "== " + f.name + " ==\n" + runs.text();
  }
  for (const std::uint16_t type : {std::uint16_t{2}, std::uint16_t{13}, std::uint16_t{1000}})
    out += fmt::format("link type {}: {}\n", type, seen(parse_packet(type, emitted(false), 60), {}, {}));
  expect_as_reviewed("wire_octets_lengths.txt", out);
}

/// RFC 1071: the sum of 16-bit words, with the carries.
std::uint32_t sum_of(ConstBytes octets, std::uint32_t sum = 0) {
  for (std::size_t i = 0; i < octets.size(); ++i) sum += i % 2 == 0 ? octets[i] * 256u : octets[i];
  while (sum > 0xFFFF) sum = (sum & 0xFFFF) + (sum >> 16);
  return sum;
}

// What is written is read again, with checksums that fit (RFC 1071).
TEST(WireOctets, OfWrittenFrames) {
  for (const bool v6 : {false, true})
    for (const std::size_t payload : {0u, 1u, 2u, 9u})
      for (const std::uint16_t mss : {std::uint16_t{0}, std::uint16_t{1460}})
        for (const std::vector<std::uint16_t>& vlans :
             {std::vector<std::uint16_t>{}, std::vector<std::uint16_t>{7}, std::vector<std::uint16_t>{7, 8}}) {
          TcpFrame f;
          f.source = Address::v4(192, 0, 2, 1, 1), f.destination = Address::v4(192, 0, 2, 2, 2);
          if (v6) f.source.family = f.destination.family = Address::Family::v6;
          const Bytes octets(payload, 0xFF);
          f.seq = 0xFFFFFFFF, f.flags = 0x18, f.mss = mss, f.payload = octets, f.vlans = vlans;
          const Bytes frame = emit_tcp_frame(f).value_or(Bytes{});
          const std::size_t ip = 14 + 4 * vlans.size(), tcp = ip + (v6 ? 40 : 20);
          const std::size_t segment = (mss > 0 ? 24 : 20) + payload;
          ASSERT_EQ(frame.size(), tcp + segment);
          const PacketView p = parse_packet(ethernet, frame, static_cast<std::uint32_t>(frame.size()));
          ASSERT_EQ(p.kind, PacketKind::tcp);
          EXPECT_EQ(p.tcp.source, f.source);
          EXPECT_EQ(p.tcp.destination, f.destination);
          EXPECT_EQ(std::tuple(p.tcp.seq, p.tcp.ack, p.tcp.flags, p.tcp.mss, p.tcp.window),
                    std::tuple(f.seq, f.ack, f.flags, mss, 65535));
          EXPECT_EQ(Bytes(p.tcp.payload.begin(), p.tcp.payload.end()), octets);
          for (std::size_t i = 0; i < vlans.size(); ++i) {  // IEEE 802.1Q: the outer of two is a service tag
            EXPECT_EQ(frame[12 + 4 * i], i + 1 < vlans.size() ? 0x88 : 0x81);
            EXPECT_EQ(frame[15 + 4 * i], vlans[i]);
          }
          const ConstBytes all(frame);
          if (!v6) {
            EXPECT_EQ(sum_of(all.subspan(ip, 20)), 0xFFFFu);
          }
          const std::uint32_t pseudo = sum_of(all.subspan(ip + (v6 ? 8 : 12), v6 ? 32 : 8), 6);
          EXPECT_EQ(sum_of(all.subspan(tcp), pseudo + static_cast<std::uint32_t>(segment)), 0xFFFFu);
          // A locally administered address of each end, made from the IP address.
          EXPECT_EQ(hex_digits(all.first(12)), v6 ? "020000000000020000000000" : "0200c00002020200c0000201");
        }
}

std::string read(ConstBytes file) {
  std::string out;
  const auto error = read_capture(file, [&](const CapturedPacket& p) {
    out += fmt::format("    {} at {} on {}, link type {}, {} of {}{}\n", p.frame, p.at.time_since_epoch().count(),
                       p.interface, p.link_type, p.octets.size(), p.original_length,
                       p.packet_id ? fmt::format(", id {:x}", *p.packet_id) : "");
  });
  return out + (error ? "    " + error->to_string() + "\n" : "");
}
Bytes pcapng() {
  Bytes out;
  PcapngWriter w(out, {.application = "x", .comment = "y"});
  const std::uint32_t one = w.add_interface("a", 1), two = w.add_interface("b", 101, "about", 1000);
  const Bytes octets{1, 2, 3, 4, 5};
  w.packet(one, Instant{} + std::chrono::nanoseconds(1'000'000'007), octets, PacketRemarks{.packet_id = 77});
  w.packet(two, Instant{} + std::chrono::nanoseconds(2'000'000'009), octets, "said", PacketDirection::inbound, 9);
  return out;
}
Bytes pcap() {
  Bytes out;
  PcapWriter w(out, 1);
  w.packet(Instant{} + std::chrono::nanoseconds(1'000'000'007), Bytes{1, 2, 3}, 0);
  w.packet(Instant{} + std::chrono::nanoseconds(2'000'000'009), Bytes{1, 2, 3, 4}, 9);
  return out;
}

TEST(WireOctets, OfCaptureFiles) {
  std::string out;
  for (const bool ng : {false, true}) {
    const Bytes file = ng ? pcapng() : pcap();
    const std::string usual = read(file);
    out += fmt::format("== {} ==\n{}", ng ? "pcapng" : "pcap", usual);
    Runs runs(usual, false);
    for (std::size_t at = 0; at < file.size(); ++at)
      for (const std::uint8_t bits : {std::uint8_t{0x01}, std::uint8_t{0x80}}) {
        Bytes other = file;
        other[at] ^= bits;
        runs.add(fmt::format("{}^{:02x}", at, bits), read(other));
      }
    for (std::size_t n = 0; n < file.size(); ++n)
      runs.add(fmt::format("cut at {}", n), read(ConstBytes(file).first(n)));
    out += runs.text();
  }
  expect_as_reviewed("wire_octets_files.txt", out);
}

}  // namespace
}  // namespace parley::wire
