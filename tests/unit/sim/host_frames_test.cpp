// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which frames a host takes, and the reason it gives for each that it throws away.
#include <map>

#include "base/gid.hpp"
#include "base/rng.hpp"
#include "host_kit.hpp"
#include "wire/ib/roce.hpp"

namespace parley::sim::testing_hosts {
namespace {

/// Frames of host a to host b, whole and right until a test changes them.
class SimHostFrames : public ::testing::Test {
 protected:
  Bytes tcp(LocalKind kind, std::size_t payload = 0) {
    wire::TcpHeader header;
    header.source_port = 1000;
    header.destination_port = 7471;
    header.flags = wire::tcp_flag::ack;
    const Bytes octets = pattern(payload);
    const ConstBytes pieces[] = {octets};
    return to_b(write_segment(pool_, a_, kind, b_.of(kind).octets, header, pieces, 1));
  }
  Bytes arp() {
    return to_b(write_arp(pool_, b_.mac,
                          {.reply = false,
                           .sender_mac = a_.mac,
                           .sender_ip = {10, 0, 0, 1},
                           .target_mac = {},
                           .target_ip = {10, 0, 0, 2}}));
  }
  Bytes neighbour() {
    const wire::Ip6 to = wire::solicited_node(b_.v6.octets);
    return to_b(write_neighbour(pool_, a_.mac, wire::group_mac(to), a_.v6.octets, to,
                                {.target = b_.v6.octets, .link_address = a_.mac}));
  }
  /// Sets octets behind the Ethernet header.
  static Bytes with(Bytes frame, std::size_t at, std::initializer_list<std::uint8_t> octets) {
    std::copy(octets.begin(), octets.end(), frame.begin() + 14 + static_cast<std::ptrdiff_t>(at));
    return frame;
  }
  /// The same, and the checksum of the IPv4 header right again.
  static Bytes with_sum(Bytes frame, std::size_t at, std::initializer_list<std::uint8_t> octets) {
    frame = with(std::move(frame), at, octets);
    frame[24] = frame[25] = 0;
    const std::size_t size =
        std::min(std::size_t{frame[14]} % 16 * 4, frame.size() - 14);  // it may say that it is longer
    const ConstBytes header[] = {ConstBytes(frame).subspan(14, size)};
    const std::uint16_t sum = wire::internet_checksum(header);
    frame[24] = static_cast<std::uint8_t>(sum >> 8), frame[25] = static_cast<std::uint8_t>(sum);
    return frame;
  }
  static Bytes cut(Bytes frame, std::size_t size) {
    frame.resize(size);
    return frame;
  }
  /// From a to b, one of few flows, now and then with something wrong; written with what is kept of the flow as without it.
  Bytes roce_frame(Rng& rng, RoceFlows& kept) {
    const bool v4 = rng.below(4) != 0;
    wire::ib::RoceHeader header;
    header.source = gid_of(v4 ? a_.v4 : a_.v6);
    header.destination = gid_of(v4 ? b_.v4 : b_.v6);
    header.source_port = static_cast<std::uint16_t>(0xC000 + rng.below(3));
    header.traffic_class = static_cast<std::uint8_t>(rng.below(4) == 0 ? 3 : 2);
    header.hop_limit = static_cast<std::uint8_t>(rng.below(6) == 0 ? 63 : 64);
    const std::size_t sizes[] = {12, 16, 1036, 1036, 1036, 1052, 276};
    Bytes packet(sizes[rng.below(7)]);
    for (std::uint8_t& octet : packet) octet = static_cast<std::uint8_t>(rng.below(256));
    packet[4] = rng.below(8) == 0 ? 0x80 : 0;
    const auto id = static_cast<std::uint16_t>(v4 ? rng.below(65536) : 0);
    const ConstBytes front = ConstBytes(packet).first(12 + rng.below(packet.size() - 11));
    RoceFlows none;
    Bytes frame = to_b(write_roce(pool_, a_.mac, kept.of(header), id, front, ConstBytes(packet).subspan(front.size())));
    EXPECT_EQ(frame, to_b(write_roce(pool_, a_.mac, none.of(header), id, packet)));
    switch (rng.below(12)) {
      case 0: frame[14 + rng.below(frame.size() - 14)] ^= static_cast<std::uint8_t>(1U << rng.below(8)); break;
      case 1:
        return v4 ? with_sum(std::move(frame), rng.below(10), {static_cast<std::uint8_t>(rng.below(256))}) : frame;
      case 2: return v4 ? with_sum(std::move(frame), 6, {0}) : frame;  // may be fragmented: another ICRC
      case 3:
        frame[frame.size() - 1 - rng.below(4)] ^= 1;
        frame[14 + (v4 ? 26 : 46)] = frame[14 + (v4 ? 27 : 47)] = 0;
        break;
      default: break;
    }
    return frame;
  }
  std::string said(const Bytes& frame, bool ipv6 = true) {
    FrameIn in;
    const char* why = read_frame(frame, b_, ipv6, flows_, in);
    return why == nullptr ? "" : why;
  }

 private:
  Bytes to_b(const FramePtr& frame) {
    Bytes out(frame->octets().begin(), frame->octets().end());
    if (out[0] != 0x33) std::copy(b_.mac.begin(), b_.mac.end(), out.begin());
    return out;
  }
  FramePool pool_;
  RoceFlows flows_;

 protected:
  RoceFlows came_;
  std::map<std::uint64_t, int> ways_;
  const PortAddresses a_ = make_addresses(0, 0, 0), b_ = make_addresses(1, 0, 0);
};

TEST_F(SimHostFrames, TakesWhatIsForItAndWhole) {
  for (const LocalKind kind : {LocalKind::v4, LocalKind::v6, LocalKind::link_local})
    for (const std::size_t payload : {0U, 1U, 2U, 1400U}) EXPECT_EQ(said(tcp(kind, payload)), "");
  EXPECT_EQ(said(arp()), "");
  EXPECT_EQ(said(neighbour()), "");
  Bytes padded = tcp(LocalKind::v4);
  padded.resize(60);
  EXPECT_EQ(said(padded), "") << "Ethernet pads short frames";
  Bytes broadcast = arp();
  std::fill_n(broadcast.begin(), 6, std::uint8_t{0xFF});
  EXPECT_EQ(said(broadcast), "");
}

// What a host keeps of a flow never shows: with it and without it, a frame is written and read alike.
TEST_F(SimHostFrames, ReadsRoceTheSameWhateverCameBefore) {
  Rng rng(7);
  RoceFlows kept;
  std::size_t taken = 0;
  for (int i = 0; i < 4000; ++i) {
    const Bytes frame = roce_frame(rng, kept);
    RoceFlows none;
    FrameIn with_it, anew;
    const char* const why = read_frame(frame, b_, true, came_, with_it);
    const char* const why_anew = read_frame(frame, b_, true, none, anew);
    ASSERT_STREQ(why == nullptr ? "" : why, why_anew == nullptr ? "" : why_anew) << i;
    if (why != nullptr) continue;
    ++taken;
    EXPECT_EQ(with_it.kind, FrameIn::Kind::roce);
    EXPECT_EQ(with_it.source, anew.source);
    EXPECT_EQ(with_it.local, anew.local);
    EXPECT_EQ(with_it.payload.data(), anew.payload.data());
    EXPECT_EQ(with_it.payload.size(), anew.payload.size());
    EXPECT_EQ(with_it.network.size(), anew.network.size());
    for (const auto& [x, y] : {std::pair<int, int>{with_it.path.source_port, anew.path.source_port},
                               {with_it.path.traffic_class, anew.path.traffic_class},
                               {with_it.path.hop_limit, anew.path.hop_limit},
                               {with_it.path.ip_id, anew.path.ip_id}})
      EXPECT_EQ(x, y) << i;
    const auto seen =
        ways_.emplace(with_it.way, anew.path.source_port << 16 | anew.path.traffic_class << 8 | anew.path.hop_limit);
    EXPECT_EQ(seen.first->second, anew.path.source_port << 16 | anew.path.traffic_class << 8 | anew.path.hop_limit);
  }
  EXPECT_GT(taken, 2000U);
  EXPECT_LT(taken, 3900U);
}

TEST_F(SimHostFrames, SaysWhatIsWrongWithTheEthernetHeader) {
  EXPECT_EQ(said(cut(tcp(LocalKind::v4), 13)), "Ethernet header is cut");
  EXPECT_EQ(said({}), "Ethernet header is cut");
  Bytes other = tcp(LocalKind::v4);
  other[5] ^= 1;
  EXPECT_EQ(said(other), "not for our MAC address");
  Bytes nearly = arp();
  std::fill_n(nearly.begin(), 5, std::uint8_t{0xFF});
  EXPECT_EQ(said(nearly), "not for our MAC address");
  Bytes group = neighbour();
  group[5] ^= 1;
  EXPECT_EQ(said(group), "not for our MAC address");
  Bytes type = tcp(LocalKind::v4);
  type[13] = 1;
  EXPECT_EQ(said(type), "unknown EtherType");
  EXPECT_EQ(said(tcp(LocalKind::v6), false), "IPv6 is off");
  EXPECT_EQ(said(neighbour(), false), "IPv6 is off");
  EXPECT_EQ(said(cut(arp(), 41)), "malformed ARP packet");
  EXPECT_EQ(said(with(arp(), 7, {3})), "malformed ARP packet");
}

TEST_F(SimHostFrames, SaysWhatIsWrongWithTheIpv4Header) {
  const Bytes good = tcp(LocalKind::v4, 4);
  EXPECT_EQ(said(cut(good, 33)), "IPv4 header is cut");
  EXPECT_EQ(said(with(good, 0, {0x55})), "malformed IPv4 header");
  EXPECT_EQ(said(with(good, 0, {0x44})), "malformed IPv4 header");
  EXPECT_EQ(said(cut(good, 57)), "IPv4 length does not fit the frame");
  EXPECT_EQ(said(with_sum(good, 2, {0, 19})), "IPv4 length does not fit the frame");
  EXPECT_EQ(said(with_sum(good, 2, {0, 45})), "IPv4 length does not fit the frame");
  EXPECT_EQ(said(cut(with_sum(good, 2, {0, 20}), 34)), "TCP header is cut") << "a header alone is whole";
  EXPECT_EQ(said(with(good, 10, {1})), "bad IPv4 header checksum");
  EXPECT_EQ(said(with_sum(good, 19, {3})), "not for our IPv4 address");
  EXPECT_EQ(said(with_sum(good, 16, {11})), "not for our IPv4 address");
  EXPECT_EQ(said(with_sum(good, 6, {0x20, 0})), "IPv4 fragment");
  EXPECT_EQ(said(with_sum(good, 6, {0, 1})), "IPv4 fragment");
  EXPECT_EQ(said(with_sum(good, 6, {0, 0})), "") << "may be fragmented, and is not";
  EXPECT_EQ(said(with_sum(good, 9, {132})), "IPv4 protocol is not TCP, UDP or ICMP");
}

TEST_F(SimHostFrames, SaysWhatIsWrongWithTheIpv6Header) {
  const Bytes good = tcp(LocalKind::v6, 4);
  EXPECT_EQ(said(cut(good, 53)), "IPv6 header is cut");
  EXPECT_EQ(said(cut(with(good, 4, {0, 0}), 54)), "TCP header is cut") << "a header alone is whole";
  EXPECT_EQ(said(with(good, 0, {0x50})), "malformed IPv6 header");
  EXPECT_EQ(said(with(good, 4, {0, 25})), "IPv6 length does not fit the frame");
  EXPECT_EQ(said(cut(good, good.size() - 1)), "IPv6 length does not fit the frame");
  EXPECT_EQ(said(with(good, 39, {3})), "not for our IPv6 address");
  EXPECT_EQ(said(with(good, 6, {132})), "IPv6 next header is not TCP, UDP or ICMPv6");
  Bytes group = good;
  std::copy(wire::all_nodes.begin(), wire::all_nodes.end(), group.begin() + 14 + 24);
  EXPECT_EQ(said(group), "TCP to a group");
}

TEST_F(SimHostFrames, SaysWhatIsWrongWithTheSegmentOrTheNeighbourMessage) {
  for (const LocalKind kind : {LocalKind::v4, LocalKind::v6}) {
    const std::size_t ip = ip_size(kind);
    EXPECT_EQ(said(with(tcp(kind, 4), ip + 21, {99})), "bad TCP checksum");
    EXPECT_EQ(said(with(tcp(kind), ip + 16, {1, 2})), "bad TCP checksum");
    // The data offset says 4 words; the checksum makes up for it in the window.
    Bytes frame = tcp(kind);
    frame[14 + ip + 12] = 0x40;
    frame[14 + ip + 14] = static_cast<std::uint8_t>(frame[14 + ip + 14] + 0x10);
    EXPECT_EQ(said(frame), "malformed TCP header");
  }
  EXPECT_EQ(said(with(neighbour(), 43, {9})), "bad ICMPv6 checksum");
  EXPECT_EQ(said(with(neighbour(), 7, {254})), "malformed neighbour message") << "it came from elsewhere";
}

// ---- what hosts learn of their neighbours ---------------------------------------------------------------------------

/// a knows b under its MAC address; the address under which it then sends to b, once a frame claims another.
struct Claim {
  PlainTcp a, b;
  Cable cable;
  static constexpr wire::Mac other{2, 0, 0, 0, 0, 77};

  Claim() {
    for (PlainTcp* machine : {&a, &b}) {
      cable.add().set_machine(machine);
      cable.hosts.back()->set_app(nullptr);
    }
    b.listen(Address::any(Address::Family::v6, 7471));
    cable.start();
    a.open(with_port(cable.hosts[1]->address(Address::Family::v6, 0), 7471));
    cable.hosts[0]->set_timer(cable.engine.now(), 0);
    EXPECT_TRUE(cable.run_until([&] { return a.connected == 1 && b.accepted == 1; }));
  }
  wire::Mac after(wire::NeighbourMessage message, const wire::Ip6& to) {
    message.link_address = other;
    const PortAddresses own = make_addresses(1, 0, 0);
    const FramePtr frame =
        write_neighbour(cable.engine.frames, other, to[0] == 0xFF ? wire::group_mac(to) : make_addresses(0, 0, 0).mac,
                        own.v6.octets, to, message);
    cable.inject(1, Bytes(frame->octets().begin(), frame->octets().end()));
    cable.run_for(1ms);
    cable.seen.clear();
    a.say(a.streams[0].id, pattern(10));
    cable.hosts[0]->set_timer(cable.engine.now(), 0);
    cable.run_for(1ms);
    for (const Cable::Seen& s : cable.seen) {
      wire::Mac mac{};
      std::copy_n(s.octets.begin(), 6, mac.begin());
      if (s.from == 0 && s.packet().kind == wire::PacketKind::tcp) return mac;
    }
    return {};
  }
};

// RFC 4861 §7.2.5
TEST(SimNeighbourClaims, AnAdvertIsBelievedIfItOverridesWhetherSolicitedOrNot) {
  const wire::Mac known = make_addresses(1, 0, 0).mac;
  const wire::Ip6 b = make_addresses(1, 0, 0).v6.octets, a = make_addresses(0, 0, 0).v6.octets;
  for (const bool solicited : {false, true})
    for (const bool overrides : {false, true}) {
      Claim claim;
      EXPECT_EQ(claim.after({.advert = true, .solicited = solicited, .overrides = overrides, .target = b}, a),
                overrides ? Claim::other : known)
          << solicited << overrides;
    }
}

// RFC 4861 §7.2.3
TEST(SimNeighbourClaims, WhoeverAsksIsBelieved) {
  Claim claim;
  const wire::Ip6 a = make_addresses(0, 0, 0).v6.octets;
  EXPECT_EQ(claim.after({.target = a}, wire::solicited_node(a)), Claim::other);
}

// RFC 4861 §7.2.5, §7.3.3: only the answer to a question shows that the neighbour hears us; the rest is to be probed.
TEST(SimNeighbourClaims, OnlyASolicitedAdvertConfirms) {
  const wire::Ip6 b = make_addresses(1, 0, 0).v6.octets, a = make_addresses(0, 0, 0).v6.octets;
  for (const bool solicited : {false, true}) {
    Claim claim;
    claim.cable.passes = [](const Cable::Seen& s) { return s.from == 1; };
    (void)claim.after({.advert = true, .solicited = solicited, .overrides = true, .target = b}, a);
    claim.cable.seen.clear();
    claim.cable.run_for(6s);
    EXPECT_EQ(claim.cable.count([](const Cable::Seen& s) {
      return s.from == 0 && s.type() == 0x86DD && s.octets[20] == wire::protocol_icmp6;
    }) > 0,
              !solicited);
  }
}

// ---- programs and their hosts ---------------------------------------------------------------------------------------

/// Counts its turns, and what its program's stream had sent by then.
struct TurnApp : App {
  void on_start(Host&) override {}
  void on_crash(Host&) override { ++crashes; }
  void on_turn(Host& host) override {
    ++turns;
    if (turn) turn(host);
  }
  void on_timer(Host&, std::uint64_t) override {}
  int turns = 0, crashes = 0;
  std::function<void(Host&)> turn;
};

struct AppPair {
  PlainTcp a, b;
  TurnApp app;
  Cable cable;
  AppPair() {
    for (PlainTcp* machine : {&a, &b}) {
      cable.add().set_machine(machine);
      cable.hosts.back()->set_app(nullptr);
    }
    cable.hosts[0]->set_app(&app);
    b.listen(Address::any(Address::Family::v4, 7471));
    cable.start();
    a.open(with_port(cable.hosts[1]->address(Address::Family::v4, 0), 7471));
    wake();
    EXPECT_TRUE(cable.run_until([&] { return a.connected == 1 && b.accepted == 1; }));
  }
  void wake() { cable.hosts[0]->set_timer(cable.engine.now(), 0); }
};

TEST(SimHostApp, HasATurnWheneverOctetsOfItsStreamWereTaken) {
  AppPair p;
  std::vector<std::size_t> sent;
  p.app.turn = [&](Host&) {
    if (sent.empty() || sent.back() != p.a.streams[0].sent) sent.push_back(p.a.streams[0].sent);
  };
  p.a.say(p.a.streams[0].id, pattern(1'000'000));
  p.wake();
  ASSERT_TRUE(p.cable.run_until([&] { return p.b.streams[0].in.size() == 1'000'000; }));
  ASSERT_GE(sent.size(), 4U);
  EXPECT_EQ(sent.back(), 1'000'000U);
}

TEST(SimHostApp, AShortMessageIsAskedForOnce) {
  AppPair p;
  const auto gathers_of = [&](std::size_t octets) {
    const int before = p.a.gathers;
    p.a.say(p.a.streams[0].id, pattern(octets));
    p.wake();
    p.cable.run_for(100ms);
    return p.a.gathers - before;
  };
  EXPECT_EQ(gathers_of(10), 1);
  EXPECT_EQ(gathers_of(4095), 1);
  EXPECT_EQ(gathers_of(4096), 2) << "there may be more";
}

TEST(SimHostApp, ThatCrashesItsHostIsOverFirst) {
  for (const bool restart : {false, true}) {
    AppPair p;
    bool asked = false;
    p.app.turn = [&](Host& host) {
      if (asked) return;
      asked = true;
      restart ? host.restart() : host.crash();
      EXPECT_TRUE(host.up()) << "what it uses is still there";
      EXPECT_EQ(p.app.crashes, 0);
    };
    p.a.say(p.a.streams[0].id, pattern(10));
    p.wake();
    p.cable.run_for(1ms);
    EXPECT_TRUE(asked);
    EXPECT_EQ(p.app.crashes, 1);
    EXPECT_EQ(p.cable.hosts[0]->up(), restart);
    EXPECT_EQ(p.cable.hosts[0]->incarnation(), restart ? 2U : 1U);
  }
}

}  // namespace
}  // namespace parley::sim::testing_hosts
