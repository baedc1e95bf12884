// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RoCE and iWARP in tunnels, and packets that a capture numbers.
#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/capture/roce_kit.hpp"

namespace parley::capture::tunnel_test {
namespace {

using test::Frames;
using test::RoceTalk;

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes out;
  for (const Bytes& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}
Bytes be16(std::size_t n) { return {static_cast<std::uint8_t>(n >> 8), static_cast<std::uint8_t>(n)}; }

Bytes ethernet(std::uint16_t type, const Bytes& payload) {
  return joined({{2, 0, 0, 0, 9, 1, 2, 0, 0, 0, 9, 2}, be16(type), payload});
}
Bytes ipv4(std::uint8_t protocol, const Bytes& payload) {
  const Bytes head = joined(
      {{0x45, 0}, be16(20 + payload.size()), {0, 1, 0x40, 0, 64, protocol, 0, 0}, {198, 51, 100, 1, 198, 51, 100, 2}});
  return ethernet(0x0800, joined({head, payload, {0, 0, 0, 0}}));  // and what pads a short frame
}
Bytes ipv6(std::uint8_t next, const Bytes& payload) {
  Bytes addresses(32, 0);
  addresses[0] = addresses[16] = 0x20;
  addresses[15] = 1;
  return ethernet(0x86DD, joined({{0x60, 0, 0, 0}, be16(payload.size()), {next, 64}, addresses, payload}));
}
Bytes udp(std::uint16_t port, const Bytes& payload) {
  return joined({be16(50000), be16(port), be16(8 + payload.size()), {0, 0}, payload});
}
Bytes gre(std::uint16_t flags, std::uint16_t type, const Bytes& payload) {
  Bytes options;
  for (const std::uint16_t flag : {std::uint16_t{0x8000}, std::uint16_t{0x2000}, std::uint16_t{0x1000}})
    if ((flags & flag) != 0) options = joined({options, {0, 0, 0, 7}});
  return joined({be16(flags), be16(type), options, payload});
}
Bytes without_ethernet(const Bytes& frame) { return {frame.begin() + 14, frame.end()}; }

struct Tunnel {
  std::string name;
  std::function<Bytes(const Bytes&)> wrap;
};
void PrintTo(const Tunnel& t, std::ostream* out) { *out << t.name; }

class CaptureTunnels : public testing::TestWithParam<Tunnel> {};

Frames wrapped(const std::function<Bytes(const Bytes&)>& wrap) {
  RoceTalk t;
  t.set_up();
  t.data(0, wire::ib::Operation::send_only, RoceTalk::psns[0]);
  t.ack(1, RoceTalk::psns[0], 1);
  t.close();
  for (test::Frame& f : t.frames) f.octets = wrap(f.octets);
  return t.frames;
}

TEST_P(CaptureTunnels, AreOpened) {
  const FileReport r = test::analyse(wrapped(GetParam().wrap));
  ASSERT_EQ(r.connections.size(), 1u);
  EXPECT_EQ(r.connections[0].judgement.standing, Standing::passed) << test::words(r);
  EXPECT_EQ(r.connections[0].outcome, Outcome::established);
  EXPECT_EQ(r.connections[0].from_initiator.messages, 1u);
}

const Bytes vxlan_head{8, 0, 0, 0, 0, 0, 42, 0};
const Bytes geneve_head{2, 0, 0x65, 0x58, 0, 0, 42, 0, 1, 2, 3, 1, 9, 9, 9, 9};
const Bytes label{0, 1, 0x01, 64}, other_label{0, 2, 0x00, 64};

INSTANTIATE_TEST_SUITE_P(
    Of, CaptureTunnels,
    testing::Values(Tunnel{"vxlan",
                           [](const Bytes& f) {
                             return ipv4(17, udp(4789, joined({vxlan_head, f})));
                           }},
                    Tunnel{"vxlan_of_linux",
                           [](const Bytes& f) {
                             return ipv4(17, udp(8472, joined({vxlan_head, f})));
                           }},
                    Tunnel{"vxlan_over_ipv6",
                           [](const Bytes& f) {
                             return ipv6(17, udp(4789, joined({vxlan_head, f})));
                           }},
                    Tunnel{"vxlan_over_ipv6_of_no_length",  // as a host captures what its adapter will divide
                           [](const Bytes& f) {
                             Bytes out = ipv6(17, udp(4789, joined({vxlan_head, f})));
                             out[18] = out[19] = 0;
                             return out;
                           }},
                    Tunnel{"geneve",
                           [](const Bytes& f) {
                             return ipv4(17, udp(6081, joined({geneve_head, f})));
                           }},
                    Tunnel{"gre_bridged", [](const Bytes& f) { return ipv4(47, gre(0, 0x6558, f)); }},
                    Tunnel{"gre_with_options",
                           [](const Bytes& f) { return ipv4(47, gre(0xB000, 0x0800, without_ethernet(f))); }},
                    Tunnel{"erspan_1", [](const Bytes& f) { return ipv4(47, gre(0, 0x88BE, f)); }},
                    Tunnel{"erspan_2",
                           [](const Bytes& f) {
                             return ipv4(47, gre(0x1000, 0x88BE, joined({Bytes(8, 0x10), f})));
                           }},
                    Tunnel{"erspan_3",
                           [](const Bytes& f) {
                             return ipv4(47, gre(0x1000, 0x22EB, joined({Bytes(12, 0x20), f})));
                           }},
                    Tunnel{"erspan_3_with_subheader",
                           [](const Bytes& f) {
                             Bytes head(20, 0);
                             head[11] = 1;
                             return ipv4(47, gre(0x1000, 0x22EB, joined({head, f})));
                           }},
                    Tunnel{"ip_in_ip", [](const Bytes& f) { return ipv4(4, without_ethernet(f)); }},
                    Tunnel{"mpls",
                           [](const Bytes& f) {
                             return ethernet(0x8847, joined({other_label, label, without_ethernet(f)}));
                           }},
                    Tunnel{"mpls_pseudowire",
                           [](const Bytes& f) {
                             return ethernet(0x8847, joined({label, {0, 0, 0, 0}, f}));
                           }},
                    Tunnel{"mpls_over_udp",
                           [](const Bytes& f) {
                             return ipv4(17, udp(6635, joined({label, without_ethernet(f)})));
                           }},
                    Tunnel{"vxlan_in_gre",
                           [](const Bytes& f) {
                             return ipv4(47, gre(0, 0x6558, ipv4(17, udp(4789, joined({vxlan_head, f})))));
                           }}),
    [](const auto& which) { return which.param.name; });

TEST(CaptureTunnelsOtherwise, NothingIsTakenForOneThatIsNone) {
  const auto vxlan = [](const Bytes& f) { return ipv4(17, udp(4789, joined({vxlan_head, f}))); };
  const auto no_network = [](const Bytes& f) { return ipv4(17, udp(4789, joined({Bytes(8, 0), f}))); };
  const auto routed = [](const Bytes& f) { return ipv4(47, gre(0x4000, 0x6558, f)); };
  const auto deep = [&](const Bytes& f) { return vxlan(vxlan(vxlan(vxlan(vxlan(f))))); };
  for (const std::function<Bytes(const Bytes&)>& wrap :
       {std::function<Bytes(const Bytes&)>(no_network), std::function<Bytes(const Bytes&)>(routed),
        std::function<Bytes(const Bytes&)>(deep)})
    EXPECT_EQ(test::analyse(wrapped(wrap)).connections.size(), 0u);
}

// Whatever the octets are, and wherever the capture cuts them.
TEST(CaptureTunnelsOtherwise, CutOnesAreNoConnections) {
  const auto vxlan = [](const Bytes& f) { return ipv4(17, udp(4789, joined({vxlan_head, f}))); };
  for (std::size_t keep = 0; keep < 120; ++keep) {
    Frames frames = wrapped(vxlan);
    for (test::Frame& f : frames) f.octets.resize(std::min(f.octets.size(), keep));
    EXPECT_EQ(test::analyse(frames).count(Severity::error), 0u) << keep;
  }
}

FileReport numbered(const Frames& frames, const std::function<void(wire::CapturedPacket&)>& number) {
  Analyzer analyzer;
  std::uint64_t n = 0;
  for (const test::Frame& f : frames) {
    wire::CapturedPacket p;
    p.frame = ++n;
    p.at = f.at;
    p.link_type = 1;
    p.octets = f.octets;
    p.original_length = static_cast<std::uint32_t>(f.octets.size());
    number(p);
    analyzer.push(p);
  }
  return analyzer.finish();
}

TEST(CapturePacketIds, OneOfAllPacketsMeansNothing) {
  const FileReport r = numbered(wrapped([](const Bytes& f) { return f; }), [](auto& p) { p.packet_id = 7; });
  EXPECT_EQ(r.copies, 0u);
  ASSERT_EQ(r.connections.size(), 1u);
  EXPECT_EQ(r.connections[0].judgement.standing, Standing::passed) << test::words(r);
}

TEST(CapturePacketIds, OneOfTwoInterfacesIsOnePacket) {
  Frames twice;
  for (const test::Frame& f : wrapped([](const Bytes& o) { return o; })) twice.insert(twice.end(), {f, f});
  const FileReport r = numbered(twice, [](auto& p) {
    p.packet_id = (p.frame + 1) / 2;
    p.interface = p.frame % 2 != 0 ? 0 : 1;
  });
  EXPECT_EQ(r.copies, twice.size() / 2);
  ASSERT_EQ(r.connections.size(), 1u);
  EXPECT_EQ(r.connections[0].from_initiator.retransmissions, 0u);
}

}  // namespace
}  // namespace parley::capture::tunnel_test
