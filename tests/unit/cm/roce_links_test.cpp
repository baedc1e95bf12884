// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A host on two links whose other ends have the same link-local address, as it has itself: each address is another one on each link
// (RFC 4007 §4, §6).
#include <gtest/gtest.h>

#include "cm/ibcm/events.hpp"
#include "nic/roce/device.hpp"
#include "tests/unit/cm/packet_net.hpp"
#include "tests/unit/printing.hpp"

namespace parley::roce_links_test {
namespace {

using packet_net::Host;
using packet_net::Net;
using namespace std::chrono_literals;

constexpr std::uint16_t port = 7174;
constexpr std::uint32_t first = 2, second = 3;  // the links as the host in the middle numbers them
constexpr std::uint32_t other = 7;              // as the others number theirs

Address at(std::string_view text, std::uint32_t scope = 0, std::uint16_t its_port = 0) {
  Address out = *Address::parse(text);
  out.scope_id = scope;
  out.port = its_port;
  return out;
}
Bytes bytes(std::string_view text) { return {text.begin(), text.end()}; }
std::string text_of(const Bytes& data) { return {data.begin(), std::find(data.begin(), data.end(), std::uint8_t{0})}; }

/// A host in the middle with one neighbour on each link, whose connections of one kind are all accepted.
struct TwoLinks {
  explicit TwoLinks(std::string_view own = "fe80::a", QpType type = QpType::rc) : type(type) {
    join(left, own, "fe80::1", first);
    join(right, own, "fe80::1", second);
    for (Host* host : {&middle, &left, &right}) {
      verbs.push_back(std::make_unique<Verbs>(host->cm.device()));
      host->on_request = [this, host, &memory = *verbs.back()](cm::ConnectRequest& request) {
        accept(*host, memory, request);
      };
    }
  }
  void join(Host& host, std::string_view own, std::string_view its, std::uint32_t link) {
    net.join({.hosts = {&middle, &host}, .at = {at(own), at(its)}, .numbers = {link, other}});
  }
  void accept(Host& host, Verbs& memory, cm::ConnectRequest& request) {
    accepted.push_back(request.id);
    ASSERT_TRUE(request.id.create_qp(qp(memory)));
    EXPECT_TRUE(memory.recv(*request.id.qp(), 0, 4096));
    const Bytes answer = bytes(&host == &middle ? "middle" : &host == &left ? "left" : "right");
    EXPECT_TRUE(request.id.accept({.private_data = answer}));
  }
  QpInit qp(const Verbs& memory) const {
    QpInit out = memory.qp();
    out.type = type;
    return out;
  }
  void listen(Host& host, const Address& where) {
    cm::ListenOptions options;
    options.transport = ib::Options{.qp_type = type};
    const std::size_t before = host.all<cm::Listening>().size();
    listeners.push_back(*host.cm.listen(where, options));
    EXPECT_TRUE(net.run_until([&] { return host.all<cm::Listening>().size() > before; }));
  }
  cm::Id connect(Host& host, Verbs& memory, const Address& peer, std::optional<Address> local = {}) {
    cm::ConnectOptions options;
    options.transport = ib::Options{.qp_type = type};
    options.qp = qp(memory);
    options.local = local;
    return *host.cm.connect(peer, options);
  }
  Verbs& of_middle() { return *verbs[0]; }
  Verbs& of_left() { return *verbs[1]; }
  Verbs& of_right() { return *verbs[2]; }
  bool up(Host& host, std::size_t count) {
    return net.run_until([&] { return host.all<cm::Established>().size() >= count; }, 1ms);  // nothing is sent twice
  }

  QpType type;
  Net net;
  Host& middle = net.add_host(1);
  Host& left = net.add_host(2);
  Host& right = net.add_host(3);
  std::vector<std::unique_ptr<Verbs>> verbs;
  std::vector<cm::Id> listeners, accepted;
};

TEST(RoceLinks, AConnectionLeavesByTheInterfaceThatThePeersAddressNames) {
  TwoLinks w;
  w.listen(w.left, at("fe80::1", other, port));
  w.listen(w.right, at("fe80::1", other, port));
  const cm::Id to_left = w.connect(w.middle, w.of_middle(), at("fe80::1", first, port));
  const cm::Id to_right = w.connect(w.middle, w.of_middle(), at("fe80::1", second, port));
  ASSERT_TRUE(w.up(w.middle, 2));
  for (const cm::Established* up : w.middle.all<cm::Established>()) {
    const bool is_left = up->id.peer_address()->scope_id == first;
    EXPECT_EQ(text_of(up->private_data), is_left ? "left" : "right");
    EXPECT_EQ(up->id.local_address()->scope_id, is_left ? first : second);
    EXPECT_EQ(std::get<ib::Parameters>(up->parameters).sgid_index, is_left ? 0 : 1);
    EXPECT_EQ(std::get<ib::Parameters>(up->parameters).port_num, 1);
  }
  // Both at once, in turn.
  std::fill_n(w.of_middle().memory.begin(), 3000, std::uint8_t{0x11});
  std::fill_n(w.of_middle().memory.begin() + 3000, 3000, std::uint8_t{0x22});
  ASSERT_TRUE(w.of_middle().send(*to_left.qp(), 0, 3000));
  ASSERT_TRUE(w.of_middle().send(*to_right.qp(), 3000, 3000));
  ASSERT_TRUE(w.net.run_until([&] { return w.of_middle().count(WcOpcode::send) == 2; }));
  EXPECT_EQ(w.of_left().memory[2999], 0x11);
  EXPECT_EQ(w.of_right().memory[2999], 0x22);
  EXPECT_EQ(w.left.provider->cm_counters().resent + w.middle.provider->cm_counters().resent, 0u);
}

TEST(RoceLinks, AnswersGoOutOnTheLinkThatTheRequestCameBy) {
  for (const QpType type : {QpType::rc, QpType::ud}) {
    SCOPED_TRACE(static_cast<int>(type));
    TwoLinks w("fe80::a", type);
    w.listen(w.middle, at("::", 0, port));
    (void)w.connect(w.left, w.of_left(), at("fe80::a", other, port));
    (void)w.connect(w.right, w.of_right(), at("fe80::a", other, port));
    ASSERT_TRUE(w.up(w.left, 1));
    ASSERT_TRUE(w.up(w.right, 1));
    ASSERT_EQ(w.accepted.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(w.accepted[i].peer_address()->scope_id, i == 0 ? first : second);
      EXPECT_EQ(w.accepted[i].local_address()->scope_id, i == 0 ? first : second);
    }
    EXPECT_EQ(w.left.provider->cm_counters().resent + w.right.provider->cm_counters().resent, 0u);
  }
}

// Their programs were started alike, so that all their numbers are the same.
TEST(RoceLinks, TheSameRequestForAServiceFromEachLinkIsTwoRequests) {
  TwoLinks w("fe80::a", QpType::ud);
  w.listen(w.middle, at("::", 0, port));
  Host& left = w.net.add_host(9);
  Host& right = w.net.add_host(9);
  w.join(left, "fe80::a", "fe80::2", first);
  w.join(right, "fe80::a", "fe80::2", second);
  Verbs of_left{left.cm.device()}, of_right{right.cm.device()};
  (void)w.connect(left, of_left, at("fe80::a", other, port));
  (void)w.connect(right, of_right, at("fe80::a", other, port));
  ASSERT_TRUE(w.up(left, 1));
  ASSERT_TRUE(w.up(right, 1));
  EXPECT_EQ(w.accepted.size(), 2u);
}

TEST(RoceLinks, EachLinkHasAListenerOfItsOwn) {
  TwoLinks w;
  w.listen(w.middle, at("fe80::a", first, port));
  w.listen(w.middle, at("fe80::a", second, port));
  (void)w.connect(w.right, w.of_right(), at("fe80::a", other, port));
  ASSERT_TRUE(w.up(w.middle, 1));
  EXPECT_EQ(w.middle.last<cm::ConnectRequest>()->listener.local_address()->scope_id, second);
  EXPECT_EQ(w.middle.last<cm::Established>()->id.peer_address()->scope_id, second);
}

TEST(RoceLinks, AGlobalAddressOfTheHostReachesLinkLocalPeersOnEachLink) {
  TwoLinks w("2001:db8::a");
  w.listen(w.left, at("fe80::1", other, port));
  w.listen(w.right, at("fe80::1", other, port));
  w.listen(w.middle, at("2001:db8::a", 0, port));
  (void)w.connect(w.middle, w.of_middle(), at("fe80::1", first, port));
  (void)w.connect(w.middle, w.of_middle(), at("fe80::1", second, port));
  ASSERT_TRUE(w.up(w.middle, 2));
  (void)w.connect(w.left, w.of_left(), at("2001:db8::a", 0, port));
  (void)w.connect(w.right, w.of_right(), at("2001:db8::a", 0, port));
  ASSERT_TRUE(w.up(w.middle, 4));
  for (const cm::Established* up : w.middle.all<cm::Established>()) EXPECT_EQ(up->id.local_address()->scope_id, 0u);
}

TEST(RoceLinks, WhatComesByTheOtherLinkIsAnotherPeers) {
  TwoLinks w;
  w.listen(w.left, at("fe80::1", other, port));
  const cm::Id to_left = w.connect(w.middle, w.of_middle(), at("fe80::1", first, port));
  ASSERT_TRUE(w.up(w.left, 1));
  ASSERT_TRUE(w.of_middle().recv(*to_left.qp(), 0, 4096));
  w.net.stray = [](PacketPath& came) {
    if (came.local.scope_id == first) came.local.scope_id = came.peer.scope_id = second;
  };
  const std::uint64_t dropped = w.middle.provider->device_counters().dropped_address;
  ASSERT_TRUE(w.of_left().send(*w.accepted.front().qp(), 0, 100));
  w.net.run_for(1ms);
  EXPECT_GT(w.middle.provider->device_counters().dropped_address, dropped);
  EXPECT_FALSE(w.of_middle().saw(WcOpcode::recv));
  w.net.stray = nullptr;
  ASSERT_TRUE(w.net.run_until([&] { return w.of_middle().saw(WcOpcode::recv); })) << "the sender sends it again";
  w.net.stray = [](PacketPath& came) {
    if (came.local.scope_id == first) came.local.scope_id = came.peer.scope_id = second;
  };
  ASSERT_TRUE(w.accepted.front().disconnect());
  w.net.run_for(100ms);
  EXPECT_EQ(w.middle.last<cm::Disconnected>(), nullptr) << "its DREQ came from nobody that is known";
  EXPECT_GT(w.middle.provider->cm_counters().foreign, 0u);
}

TEST(RoceLinks, TheSourceAddressMayNameTheLinkAndMustNotNameAnother) {
  TwoLinks w;
  w.listen(w.right, at("fe80::1", other, port));
  const cm::Id named = w.connect(w.middle, w.of_middle(), at("fe80::1", 0, port), at("fe80::a", second));
  ASSERT_TRUE(w.up(w.middle, 1));
  EXPECT_EQ(named.peer_address()->scope_id, second);
  (void)w.connect(w.middle, w.of_middle(), at("fe80::1", first, port), at("fe80::a", second, 40000));
  ASSERT_TRUE(w.net.run_until([&] { return w.middle.last<cm::ConnectFailed>() != nullptr; }));
  const auto& why = w.middle.last<cm::ConnectFailed>()->why;
  EXPECT_EQ(why.code, make_error_code(Errc::bad_address));
  EXPECT_EQ(why.received, "[fe80::1%2]:7174 is not on the link of [fe80::a%3]:40000");
}

}  // namespace
}  // namespace parley::roce_links_test
