// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Hosts with their software HCA: RoCEv2 over UDP, with right headers, checksums and ICRC, and what happens without a peer.
#include <set>

#include "host_kit.hpp"
#include "parley/ib.hpp"
#include "wire/ib/packet.hpp"
#include "wire/ib/roce.hpp"

namespace parley::sim::testing_hosts {
namespace {

/// Two hosts with Apps that speak verbs: b accepts whatever comes, a connects.
struct HcaPair {
  explicit HcaPair(Address::Family ip = Address::Family::v4) : family(ip) {
    HostOptions options;
    options.engine = NicEngine::roce;
    cable.add(options);
    cable.add(options);
    a().start = [this](Host& host) { va = std::make_unique<Verbs>(host.device()); };
    b().start = [this](Host& host) {
      vb = std::make_unique<Verbs>(host.device());
      if (listens) listener = *host.cm().listen(Address::any(family, 7471));
    };
    a().crash = [this](Host&) { va.reset(), ca = {}; };
    b().crash = [this](Host&) { vb.reset(), cb = {}; };
    b().request = [this](cm::ConnectRequest& asked) {
      cb = asked.id;
      auto qp = cb.create_qp(vb->qp());
      if (!qp) return;
      for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(vb->recv(**qp, 4096 * i, 4096));
      EXPECT_TRUE(cb.accept());
    };
  }
  TestApp& a() { return *cable.apps[0]; }
  TestApp& b() { return *cable.apps[1]; }
  Host& ha() { return *cable.hosts[0]; }
  Host& hb() { return *cable.hosts[1]; }
  void connect() { ca = *ha().cm().connect(with_port(hb().address(family, 0), 7471), {.qp = va->qp()}); }
  bool established() { return a().last<cm::Established>() != nullptr && b().last<cm::Established>() != nullptr; }
  bool failed() { return a().last<cm::ConnectFailed>() != nullptr; }
  std::size_t sent(wire::PacketCargo cargo) const {
    return cable.count([cargo](const Cable::Seen& s) { return s.packet().cargo == cargo; });
  }

  const Address::Family family;
  bool listens = true;
  Cable cable;
  std::unique_ptr<Verbs> va, vb;
  cm::Id listener, ca, cb;
};

class SimHca : public testing::TestWithParam<Address::Family> {};

TEST_P(SimHca, MovesDataInFramesWhoseChecksumsAndIcrcAreRight) {
  HcaPair p(GetParam());
  p.cable.start();
  p.connect();
  ASSERT_TRUE(p.cable.run_until([&] { return p.established(); }));
  ASSERT_TRUE(p.va->send(*p.ca.qp(), 32768, 3000));
  EXPECT_TRUE(p.cable.run_until([&] {
    p.vb->poll();
    return !p.vb->done.empty();
  }));
  EXPECT_EQ(p.vb->done.back().byte_len, 3000U);
  std::size_t packets = 0;
  std::set<std::uint16_t> identifications;
  for (const Cable::Seen& seen : p.cable.seen) {
    const wire::PacketView view = seen.packet();
    if (view.cargo != wire::PacketCargo::rocev2) continue;
    const auto roce = wire::ib::RoceHeader::parse(view.ethertype, view.network);
    ASSERT_TRUE(roce);
    EXPECT_TRUE(wire::ib::is_sealed(roce->header, roce->packet));
    EXPECT_GE(roce->header.source_port, 0xC000) << "of a flow";
    EXPECT_TRUE(roce->header.dont_fragment);
    // RFC 768: the sum over pseudo header and datagram, checksum included, is all ones.
    const bool v4 = GetParam() == Address::Family::v4;
    const ConstBytes datagram = view.network.subspan(v4 ? 20 : 40);
    const std::uint8_t rest[] = {static_cast<std::uint8_t>(datagram.size() >> 8),
                                 static_cast<std::uint8_t>(datagram.size()), 0, 17};
    const ConstBytes pieces[] = {v4 ? view.network.subspan(12, 8) : view.network.subspan(8, 32), rest, datagram};
    EXPECT_EQ(wire::internet_checksum(pieces), 0);
    EXPECT_NE(roce->header.udp_checksum, 0);
    ++packets;
    identifications.insert(roce->header.identification);
  }
  EXPECT_GE(packets, 7U) << "REQ, REP, RTU, three of the Send, ACK";
  EXPECT_EQ(identifications.size() > 1, GetParam() == Address::Family::v4) << "IPv4 counts them";
  EXPECT_TRUE(p.cable.discards.empty());
}
INSTANTIATE_TEST_SUITE_P(Ip, SimHca, testing::Values(Address::Family::v4, Address::Family::v6),
                         [](const auto& test) { return test.param == Address::Family::v4 ? "V4" : "V6"; });

TEST_P(SimHca, LearnsAtOnceThatNobodyHasThePort) {
  HcaPair p(GetParam());
  p.listens = false;
  p.cable.start();
  p.connect();
  ASSERT_TRUE(p.cable.run_until([&] { return p.failed(); }, 10ms));
  const auto& why = p.a().last<cm::ConnectFailed>()->why;
  EXPECT_EQ(why.code, make_error_code(Errc::refused));
  EXPECT_EQ(why.received, "ICMP: nothing receives UDP port 4791 there");
  EXPECT_TRUE(p.cable.discards.empty());
  EXPECT_EQ(p.sent(wire::PacketCargo::rocev2), 2U) << "the REQ, and a REJ of who waits no longer";
}

TEST(SimHost, AnswersRoceToAHostOfIwarpByPortUnreachable) {
  Cable cable;
  HostOptions roce;
  roce.engine = NicEngine::roce;
  cable.add(roce);
  cable.add();
  cable.start();
  (void)cable.hosts[0]->cm().connect(with_port(cable.hosts[1]->address(), 7471), {});
  EXPECT_TRUE(cable.run_until([&] { return cable.apps[0]->last<cm::ConnectFailed>() != nullptr; }, 10ms));
}

TEST(SimHost, TellsTheHcaThatAPeerCannotBeFound) {
  HcaPair p;
  p.cable.passes = [](const Cable::Seen& s) { return s.from != 1; };
  p.cable.start();
  p.connect();
  ASSERT_TRUE(p.cable.run_until([&] { return p.failed(); }, 5s));
  EXPECT_EQ(p.a().last<cm::ConnectFailed>()->why.code, make_error_code(Errc::unreachable));
  EXPECT_EQ(p.cable.engine.now().time_since_epoch(), 3s) << "three requests, a second each";
}

TEST(SimHost, ThrowsAwayPacketsWhoseIcrcIsWrong) {
  HcaPair p;
  int spoilt = 0;
  // One octet more and another less, at places of one parity: UDP's sum stays what it was.
  p.cable.spoil = [&](Frame& frame) {
    const MutBytes octets = frame.octets();
    if (octets.size() < 300 || spoilt > 0) return;
    std::size_t at = 100;
    while (octets[at] == 0xFF || octets[at + 2] == 0) ++at;
    ++octets[at];
    --octets[at + 2];
    ++spoilt;
  };
  p.cable.start();
  p.connect();
  ASSERT_TRUE(p.cable.run_until([&] { return p.established(); }));
  EXPECT_EQ(spoilt, 1);
  EXPECT_EQ(p.cable.discards, std::vector<std::string>{"bad ICRC"});
  EXPECT_EQ(p.hb().counters().discarded, 1U);
}

TEST(SimHost, ComesBackFromACrashWithAnHcaThatKnowsNothing) {
  HcaPair p;
  p.cable.start();
  p.connect();
  ASSERT_TRUE(p.cable.run_until([&] { return p.established(); }));
  p.hb().crash();
  EXPECT_EQ(p.hb().endpoint_count(), 0U);
  p.hb().restart();
  p.connect();
  p.a().events.clear();
  p.b().events.clear();
  EXPECT_TRUE(p.cable.run_until([&] { return p.established(); }));
  EXPECT_EQ(p.hb().incarnation(), 2U);
}

TEST(SimHost, MakesNoMorePacketsThanItsLinkTakes) {
  World world(1);
  HostOptions options;
  options.engine = NicEngine::roce;
  Host& a = **world.add_host("a", options);
  Host& b = **world.add_host("b", options);
  ASSERT_TRUE(world.add_link(0, 1, {.rate_bps = 1'000'000'000, .queue_octets = 64 << 10}));
  TestApp from, to;
  std::unique_ptr<Verbs> va, vb;
  std::vector<cm::Id> ids;
  from.start = [&](Host& host) {
    va = std::make_unique<Verbs>(host.device());
    for (int i = 0; i < 4; ++i) ids.push_back(*host.cm().connect(with_port(b.address(), 7471), {.qp = va->qp()}));
  };
  to.start = [&](Host& host) {
    vb = std::make_unique<Verbs>(host.device());
    ids.push_back(*host.cm().listen(Address::any(Address::Family::v4, 7471)));
  };
  to.request = [&](cm::ConnectRequest& asked) {
    ids.push_back(asked.id);
    auto qp = asked.id.create_qp(vb->qp());
    ASSERT_TRUE(qp);
    EXPECT_TRUE(vb->recv(**qp, 0, 32768));
    EXPECT_TRUE(asked.id.accept());
  };
  a.set_app(&from);
  b.set_app(&to);
  const auto all_up = [&] {
    return std::count_if(from.events.begin(), from.events.end(),
                         [](const auto& e) { return std::holds_alternative<cm::Established>(e); }) == 4;
  };
  ASSERT_TRUE(world.run_until(all_up, 1s));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(va->send(*ids[static_cast<std::size_t>(i)].qp(), 0, 32768));
  (void)a.cm();
  EXPECT_TRUE(world.run_until(
      [&] {
        vb->poll();
        return vb->done.size() == 4;
      },
      100ms));
  EXPECT_EQ(world.counters().dropped, 0U) << "128 KiB and headers through a queue of 64 KiB";
  ids.clear();
}

}  // namespace
}  // namespace parley::sim::testing_hosts
