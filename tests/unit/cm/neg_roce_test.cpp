// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Negotiated queue pairs of Parley's own RoCE engine, two of them in virtual time: the exchange over the in-memory network, the
// packets over a wire that loses what a test says.
#include <fmt/format.h>

#include <set>

#include "base/gid.hpp"
#include "cm/neg/roce_nic.hpp"
#include "cm/neg/variants/device_qp.hpp"
#include "tests/unit/cm/neg_net.hpp"
#include "wire/ib/packet.hpp"

namespace parley::neg {
namespace roce_nic_test {
namespace {

using namespace kit;

const Address server_address = Address::v4(192, 0, 2, 2, 4800);

/// An engine, and what a driver would do for it.
struct Engine {
  explicit Engine(std::uint64_t seed)
      : nic(std::make_shared<RoceNic>(*nic::roce::make_device(negotiated_device(seed, 0)))) {}
  std::shared_ptr<RoceNic> nic;
  std::set<BindId> bound;
  Address asked{};  // for the last one
  std::optional<Error> bind_error;
  bool answers = true;
};

/// A client and a server with Parley's own variants, each with queue pairs of its engine.
struct Wired {
  Wired() {
    for (Framework* f : {&client_framework, &server_framework}) {
      Engine& engine = f == &client_framework ? client_engine : server_engine;
      const RoceDriving driving{.turn = [this](Duration wait) { turn(wait); }, .now = [this] { return net.now; }};
      EXPECT_TRUE(f->add(make_builtin_plugin(roce_qp_drivers(engine.nic, driving, 7))));
    }
    net.add(client, Address::v4(192, 0, 2, 1, 0));
    net.add(server, Address::v4(192, 0, 2, 2, 0));
  }

  /// Whatever either engine has goes over the wire; if that is nothing, time passes.
  void turn(Duration wait) {
    if (move() || wait <= Duration{}) return;
    const Instant next = std::min(client_engine.nic->next_deadline(), server_engine.nic->next_deadline());
    net.now = std::max(net.now, std::min(net.now + wait, next));
    move();
  }
  bool move() {
    bool any = false;
    for (bool again = true; again; any = any || again) {
      again = move_from(client_engine, server_engine, Address::v4(192, 0, 2, 1, 0));
      again = move_from(server_engine, client_engine, Address::v4(192, 0, 2, 2, 0)) || again;
    }
    return any;
  }
  bool move_from(Engine& from, Engine& to, const Address& own) {
    bool any = false;
    from.nic->handle_deadline(net.now);
    for (PacketCommand command; from.nic->poll_command(command); any = true) {
      if (command.kind == PacketCommand::Kind::bind) from.asked = command.local;
      if (command.kind == PacketCommand::Kind::release)
        from.bound.erase(command.id);
      else if (from.bind_error)
        from.nic->handle_bind_failed(net.now, command.id, *from.bind_error, command.local);
      else if (from.answers && from.bound.insert(command.id).second)
        from.nic->handle_bound(net.now, command.id, command.local.is_any() ? own : command.local);
    }
    std::array<std::uint8_t, PacketMachine::packet_max + PARLEY_IB_ICRC_LEN> out{};
    PacketPath path;
    while (const std::size_t size = from.nic->poll_packet(net.now, path, out)) {
      any = true;
      EXPECT_FALSE(from.bound.empty()) << "a packet leaves from an address that is not bound";
      ConstBytes whole = ConstBytes(out).first(size + PARLEY_IB_ICRC_LEN);
      longest = std::max(longest, size);
      if (loses && loses(++carried, wire::ib::Packet::parse(whole))) continue;
      to.nic->handle_packet(net.now, {.local = path.peer, .peer = path.local}, whole);
    }
    return any;
  }

  void run(const std::string& variant, const Config& client_config = {}, const Config& server_config = {}) {
    const auto listening =
        server.listen(server_address, {{.plugin = "parley", .variant = variant, .config = server_config}});
    ASSERT_TRUE(listening) << listening.error().to_string();
    const auto id = client.dial(
        net.now,
        {.request = {.plugin = "parley", .variant = variant}, .config = client_config, .server = server_address});
    ASSERT_TRUE(id) << id.error().to_string();
    net.settle();
    while (auto event = client.poll_event())
      if (auto* over = std::get_if<Peers::Ended>(&*event)) mine = std::move(*over);
    while (auto event = server.poll_event())
      if (auto* over = std::get_if<Peers::Ended>(&*event)) theirs = std::move(*over);
  }
  std::string end() const { return mine.failure ? mine.failure->to_string() : "completed"; }
  std::string their_end() const { return theirs.failure ? theirs.failure->to_string() : "completed"; }

  Net net;
  Engine client_engine{11}, server_engine{22};
  std::function<bool(std::size_t nth, const Result<wire::ib::Packet>&)> loses;
  std::size_t carried = 0, longest = 0;
  Framework client_framework, server_framework;
  Peers client{client_framework, {}}, server{server_framework, {}};
  Peers::Ended mine, theirs;
};

bool carries(const Result<wire::ib::Packet>& packet, std::string_view text) {
  return packet && wire::ib::opcode_text(packet->bth.opcode).find(text) != std::string::npos;
}

TEST(NegRoce, EachTransportIsTakenToRtsAndAMessagePassesBothWays) {
  for (const char* variant : {"verbs-rc", "verbs-uc", "verbs-ud", "verbs-xrc"})
    for (const bool v6 : {false, true}) {
      SCOPED_TRACE(variant);
      Wired w;
      const Config own = v6 ? Config{{"gid", "2001:db8::1"}} : Config{};
      w.run(variant, own, v6 ? Config{{"gid", "2001:db8::2"}} : Config{});
      ASSERT_EQ(w.end(), "completed");
      ASSERT_EQ(w.their_end(), "completed");
      const auto mine = w.mine.variant->agreed(), theirs = w.theirs.variant->agreed();
      EXPECT_TRUE(mine.at(0).tested && theirs.at(0).tested);
      EXPECT_EQ(gid_text(mine[0].local.gid), v6 ? "2001:db8::1" : "::ffff:192.0.2.1");
      EXPECT_EQ(mine[0].where, v6 ? "UDP port 4791 of 2001:db8::1" : "UDP port 4791 of ::ffff:192.0.2.1");
      EXPECT_EQ(theirs[0].peer.psn, mine[0].local.psn);
      EXPECT_NE(mine[0].local.psn, 0U);
      const std::uint32_t apart = (mine[0].local.psn - mine[0].local.qpn) & 0xFFFFFF;
      EXPECT_TRUE(apart > 16 && apart < 0xFFFFF0) << "the PSN does not follow from the QPN";
      w.mine = {}, w.theirs = {};
      w.move();
      EXPECT_TRUE(w.client_engine.bound.empty() && w.server_engine.bound.empty())
          << "addresses go with the queue pairs";
    }
}

TEST(NegRoce, ProgramsTestsMoveTheirData) {
  struct Row {
    std::string variant;
    Config config;
    std::uint64_t mine, theirs;  // messages
  };
  const auto row = [](std::string test, std::string transport, std::string size, std::uint64_t mine,
                      std::uint64_t theirs) {
    return Row{"perftest",
               {{"test", std::move(test)},
                {"transport", std::move(transport)},
                {"size", std::move(size)},
                {"iterations", "30"}},
               mine,
               theirs};
  };
  const auto pingpong = [](std::string transport, std::string size) {
    return Row{
        "pingpong",
        {{"transport", std::move(transport)}, {"size", std::move(size)}, {"iterations", "30"}, {"check", "true"}},
        60,
        60};
  };
  for (const Row& r :
       {row("send_bw", "rc", "9000", 30, 30), row("write_bw", "rc", "9000", 30, 0), row("read_bw", "rc", "9000", 30, 0),
        row("send_lat", "rc", "64", 60, 60), row("read_lat", "rc", "64", 30, 0), row("write_bw", "uc", "3000", 30, 0),
        row("send_bw", "ud", "1024", 30, 30), pingpong("rc", "4096"), pingpong("uc", "5000"), pingpong("ud", "900"),
        Row{"pingpong", {{"srq", "true"}, {"qps", "16"}, {"iterations", "100"}, {"size", "600"}}, 200, 200}}) {
    SCOPED_TRACE(testing::PrintToString(r.config));
    Wired w;
    w.run(r.variant, r.config, r.config);
    ASSERT_EQ(w.end(), "completed");
    ASSERT_EQ(w.their_end(), "completed");
    const Played mine = *w.mine.agreed.at(0).played, theirs = *w.theirs.agreed.at(0).played;
    EXPECT_GE(mine.messages, r.mine);
    EXPECT_GE(theirs.messages, r.theirs);
    EXPECT_EQ(theirs.messages == 0, r.theirs == 0);
    EXPECT_EQ(mine.checked, r.config.contains("check"));
    EXPECT_LE(w.longest, 1024U + 32) << "the path MTU is the programs'";
  }
}

TEST(NegRoce, WhatIsLostIsSentAgain) {
  for (const char* variant : {"verbs-rc", "verbs-xrc"}) {
    SCOPED_TRACE(variant);
    Wired w;
    w.loses = [](std::size_t nth, const auto&) { return nth % 3 == 1; };
    w.run(variant);
    EXPECT_EQ(w.end(), "completed");
    EXPECT_EQ(w.their_end(), "completed");
  }
  // UC and UD repeat nothing: the driver does.
  for (const auto& [variant, lost] :
       {std::pair{"verbs-uc", std::size_t{1}}, {"verbs-uc", 2}, {"verbs-uc", 3}, {"verbs-ud", 3}}) {
    SCOPED_TRACE(fmt::format("{}, of the first two those with the bits of {}", variant, lost));
    Wired w;
    w.loses = [lost = lost](std::size_t nth, const auto&) { return nth <= 2 && (lost >> (nth - 1) & 1) != 0; };
    w.run(variant);
    ASSERT_EQ(w.end(), "completed");
    EXPECT_TRUE(w.mine.agreed.at(0).tested);
  }
  Wired streams;
  streams.loses = [](std::size_t nth, const auto&) { return nth % 7 == 3; };
  const Config config{{"test", "read_bw"}, {"size", "9000"}, {"iterations", "40"}};
  streams.run("perftest", config, config);
  EXPECT_EQ(streams.end(), "completed");
  EXPECT_EQ(streams.mine.agreed.at(0).played->messages, 40U);
}

// IBA Annex A14: each side's sending end names the other's shared receive queue.
TEST(NegRoce, XrcGoesFromItsSendingEndToTheReceivingOnesQueue) {
  Wired w;
  std::set<std::uint32_t> to, srqs;
  w.loses = [&](std::size_t, const auto& packet) {
    if (!carries(packet, "XRC SEND")) return false;
    to.insert(packet->bth.dest_qpn);
    srqs.insert(packet->xrceth.srqn);
    return false;
  };
  w.run("verbs-xrc", {{"length", "64"}});
  ASSERT_EQ(w.end(), "completed");
  const QpPair mine = w.mine.variant->agreed().at(0), theirs = w.theirs.variant->agreed().at(0);
  EXPECT_EQ(to, (std::set{mine.local.qpn, theirs.local.qpn}));
  EXPECT_EQ(srqs, (std::set{mine.local.srqn, theirs.local.srqn}));
  EXPECT_EQ(theirs.peer.ini_qpn, mine.local.ini_qpn);
  EXPECT_NE(mine.local.ini_qpn, mine.local.qpn);
  EXPECT_NE(theirs.peer.rkey, 0U) << "memory is told of as of RC";
}

TEST(NegRoce, APeerThatHearsNothingIsTold) {
  Wired w;
  w.loses = [](std::size_t, const auto& packet) { return carries(packet, "SEND"); };
  w.run("verbs-rc");
  ASSERT_TRUE(w.mine.failure && w.theirs.failure);
  const auto& own = w.mine.failure->by_peer ? w.theirs.failure : w.mine.failure;
  EXPECT_EQ(own->problem, Problem::vendor_library_error);
  EXPECT_NE(own->text.find("the test message did not arrive: "), std::string::npos) << own->text;
  Wired uc;
  uc.loses = [](std::size_t, const auto& packet) { return carries(packet, "SEND"); };
  uc.run("verbs-uc");
  ASSERT_TRUE(uc.mine.failure);
  EXPECT_NE(uc.mine.failure->text.find("the peer's test message has not come; 48 looks"), std::string::npos);
}

TEST(NegRoce, AnAddressOfAnotherFamilyLeadsNowhere) {
  Wired w;
  w.run("verbs-rc", {{"gid", "2001:db8::1"}});
  ASSERT_TRUE(w.mine.failure && w.theirs.failure);
  EXPECT_TRUE(w.mine.failure->by_peer);
  EXPECT_EQ(w.theirs.failure->problem, Problem::invalid_peer_data);
  EXPECT_EQ(w.theirs.failure->text,
            "the path to 2001:db8::1: this side has ::ffff:192.0.2.2, and one of the two is an IPv4 address");
}

std::string refusal_of(Engine& engine, Transport transport, Config config) {
  Wired w;
  const auto turn = [&](Duration) { w.move_from(engine, w.server_engine, Address::v4(192, 0, 2, 9, 0)); };
  config.try_emplace("mtu", "1024");
  const auto made =
      roce_qp_drivers(engine.nic, {.turn = turn, .now = [] { return Instant{}; }}, 1).make(transport, config);
  if (!made) return made.error().to_string();
  const auto opened = (*made)->open();
  return opened ? "made" : opened.error().to_string();
}

TEST(NegRoce, WhatCannotBeIsRefused) {
  Engine engine{3};
  EXPECT_EQ(refusal_of(engine, Transport::rc, {{"gid", "192.0.2.9"}}), "made");
  EXPECT_EQ(refusal_of(engine, Transport::rc, {{"length", "1073741825"}}),
            "the configuration is wrong: 'length': more than 1073741824 octets");
  EXPECT_EQ(refusal_of(engine, Transport::rc, {{"toward", "nowhere"}}),
            "the configuration is wrong: 'toward': 'nowhere' cannot be; write the peer's IPv4 or IPv6 address");
  EXPECT_EQ(
      refusal_of(engine, Transport::rc, {{"gid", "no GID"}}),
      "the configuration is wrong: 'gid': 'no GID' cannot be; write an IPv6 or IPv4 address, without scope and port");
  EXPECT_FALSE(engine.nic->answer(1)) << "what was not used is released";
  engine.bind_error = Error(Errc::address_in_use, "another process has the port");
  EXPECT_EQ(refusal_of(engine, Transport::rc, {{"gid", "192.0.2.9"}}),
            "the vendor's library failed: ::ffff:192.0.2.9: another process has the port");
  engine.bind_error = std::nullopt;
  engine.answers = false;
  EXPECT_EQ(refusal_of(engine, Transport::rc, {}), "the vendor's library failed: the engine's sockets do not answer");
}

// RFC 4007 §6: a link-local address means something on one interface alone, which is the one towards the peer.
TEST(NegRoce, ALinkLocalGidIsThatOfTheInterfaceTowardsThePeer) {
  Engine engine{5};
  const auto scope_of = [&](const Config& config) {
    engine.asked = Address::any(Address::Family::v4, 1);
    EXPECT_EQ(refusal_of(engine, Transport::rc, config), "made");
    return engine.asked.scope_id;
  };
  EXPECT_EQ(scope_of({{"gid", "fe80::1"}, {"toward", "fe80::2%5"}}), 5U);
  EXPECT_EQ(scope_of({{"gid", "fe80::1"}}), 0U);
  EXPECT_EQ(scope_of({{"gid", "2001:db8::1"}, {"toward", "fe80::2%5"}}), 0U);
}

TEST(NegRoce, ItsParametersAreThoseOfTheManual) {
  const QpDrivers drivers =
      roce_qp_drivers(Engine{4}.nic, {.turn = [](Duration) {}, .now = [] { return Instant{}; }}, 1);
  EXPECT_EQ(drivers.name, "roce");
  std::string all;
  for (const Parameter& p : drivers.parameters) all += p.name + ": " + p.help + "\n";
  EXPECT_EQ(all,
            "toward: roce: the IP address to choose the GID for; otherwise the peer's\n"
            "psn: first packet sequence number; of roce 0: a random one\n"
            "qkey: Q_Key, of UD; of roce 0: 0x11111111\n"
            "length: length of memory; roce: so much is registered and advertised to the peer\n");
}

}  // namespace
}  // namespace roce_nic_test
}  // namespace parley::neg
