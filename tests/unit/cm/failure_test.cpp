// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Connections that fail: each way has an event, and the event says stage, peer, what was received, which rule and what
// to try. Raw peers say the wrong things, say nothing, or vanish.
#include "parley/wire/mpa.h"
#include "tests/unit/cm/test_pair.hpp"
#include "wire/mpa.hpp"
#include "wire/rdmap.hpp"

namespace parley::failure_test {
namespace {

using namespace testing_net;
using testing_net::Host;
constexpr std::string_view raw_peer = "192.0.2.9:7471";

Bytes frame(wire::MpaKey key, std::uint8_t flags, std::uint8_t revision, ConstBytes private_data = {}) {
  return *wire::MpaFrame{.key = key, .flags = flags, .revision = revision, .private_data = private_data}.emit();
}

/// A host that connects to a raw peer in the test's hand.
struct AgainstRaw {
  explicit AgainstRaw(const mpa::Options& mpa, const cm::IwarpProviderOptions& provider = {}, std::uint16_t ird = 32)
      : a(net.add_host(1, provider)), peer(net.add_raw(9)), id(*a.cm.connect(peer, {.transport = mpa, .ird = ird})) {}
  /// The raw peer has the whole Request.
  End* requested(std::size_t connection = 0) {
    const bool there = net.run_until([&] {
      return net.raw_accepted.size() > connection && net.raw_accepted[connection]->in.size() >= PARLEY_MPA_HEADER_LEN;
    });
    EXPECT_TRUE(there);
    return there ? net.raw_accepted[connection] : nullptr;
  }
  const cm::ConnectFailed* failed() {
    (void)net.run_until([&] { return a.last<cm::ConnectFailed>() != nullptr; });
    return a.last<cm::ConnectFailed>();
  }
  Net net;
  Host& a;
  Address peer;
  cm::Id id;
};

/// A raw peer that connects to a host.
struct RawAgainst {
  explicit RawAgainst(const cm::ListenOptions& options = {}) : b(net.add_host(2)) {
    listener = *b.cm.listen(Address::any(Address::Family::v4, 7471), options);
    net.settle();
    raw = &net.raw_connect(b.last<cm::Listening>()->local);
    net.settle();
  }
  const cm::ConnectFailed* failed() {
    (void)net.run_until([&] { return b.last<cm::ConnectFailed>() != nullptr; });
    return b.last<cm::ConnectFailed>();
  }
  Net net;
  Host& b;
  cm::Id listener;
  End* raw = nullptr;
};

TEST(CmFailure, NobodyListens) {
  Net net;
  Host& a = net.add_host(1);
  const auto id = a.cm.connect(Address::v4(192, 0, 2, 77, 7471));
  ASSERT_TRUE(id);
  ASSERT_TRUE(net.run_until([&] { return a.last<cm::ConnectFailed>() != nullptr; }));
  expect_text(a.last<cm::ConnectFailed>()->why, mpa::step::tcp_connect, Errc::refused, "192.0.2.77:7471");
  EXPECT_EQ(id->peer_address()->to_string(), "192.0.2.77:7471") << "the id still knows its peer";
}

TEST(CmFailure, NoLocalPortIsFree) {
  Net net;
  net.refusal = std::errc::address_not_available;  // as connect(2) says it
  Host& a = net.add_host(1);
  const Address peer = Address::v4(192, 0, 2, 77, 7471);
  ASSERT_TRUE(a.cm.connect(peer));
  ASSERT_TRUE(net.run_until([&] { return a.last<cm::ConnectFailed>() != nullptr; }));
  expect_text(a.last<cm::ConnectFailed>()->why, mpa::step::tcp_connect, Errc::address_in_use,
              "no local port is free towards 192.0.2.77:7471");
  Host& b = net.add_host(2);
  ASSERT_TRUE(b.cm.connect(peer, {.local = Address::v4(198, 51, 100, 1, 0)}));
  ASSERT_TRUE(net.run_until([&] { return b.last<cm::ConnectFailed>() != nullptr; }));
  expect_text(b.last<cm::ConnectFailed>()->why, mpa::step::tcp_connect, Errc::bad_address, "192.0.2.77:7471: ");
}

TEST(CmFailure, NobodyAnswers) {
  Net net;
  Host& a = net.add_host(1);
  net.black_hole(Address::v4(192, 0, 2, 77, 7471));
  const Instant start = net.now;
  ASSERT_TRUE(a.cm.connect(Address::v4(192, 0, 2, 77, 7471), {.transport_timeout = 3s}));
  ASSERT_TRUE(net.run_until([&] { return a.last<cm::ConnectFailed>() != nullptr; }));
  EXPECT_EQ(net.now - start, 3s);
  expect_text(a.last<cm::ConnectFailed>()->why, mpa::step::tcp_connect, Errc::timed_out, "192.0.2.77:7471");
  EXPECT_NE(a.last<cm::ConnectFailed>()->why.to_string().find("nothing for 3 s"), std::string::npos);
}

TEST(CmFailure, PortInUse) {
  Net net;
  Host& b = net.add_host(2);
  ASSERT_TRUE(b.cm.listen(Address::any(Address::Family::v4, 7471)));
  ASSERT_TRUE(b.cm.listen(Address::any(Address::Family::v4, 7471)));
  ASSERT_TRUE(net.run_until([&] { return b.last<cm::ConnectFailed>() != nullptr; }));
  const cm::Failure& why = b.last<cm::ConnectFailed>()->why;
  EXPECT_EQ(why.code, make_error_code(Errc::address_in_use));
  EXPECT_NE(why.to_string().find("cannot listen on 0.0.0.0:7471"), std::string::npos) << why.to_string();
  EXPECT_FALSE(why.advice.empty());
}

// RFC 5044 §7.1.2 rule 10
TEST(Conformance, Row19_NoRequestTimesOut) {
  RawAgainst t({.transport = mpa::Options{.timeouts = {.request = 2s}}});
  const Instant start = t.net.now;
  ASSERT_NE(t.failed(), nullptr);
  EXPECT_TRUE(t.failed()->responder);
  EXPECT_LE(t.net.now - start, 2s);
  expect_text(t.failed()->why, mpa::step::wait_request, Errc::timed_out, "192.0.2.250:50000");
  EXPECT_FALSE(t.failed()->why.rule.empty());
  t.net.run_for(1s);
  EXPECT_TRUE(t.raw->closed_by_peer());
  t.net.run_for(60s);
  EXPECT_EQ(t.b.provider->endpoint_count(), 1U) << "a connection its user never knew leaves nothing behind";
}

// RFC 5044 §7.1.2 rule 10
TEST(Conformance, Row20_NoReplyTimesOut) {
  AgainstRaw t({.timeouts = {.reply = 4s}});
  ASSERT_NE(t.requested(), nullptr);
  ASSERT_NE(t.failed(), nullptr);
  expect_text(t.failed()->why, mpa::step::wait_reply, Errc::timed_out, raw_peer);
  EXPECT_FALSE(t.failed()->why.rule.empty());
  t.net.run_for(1s);
  EXPECT_TRUE(t.net.raw_accepted[0]->closed_by_peer());
}

// RFC 5044 §7.1.2 rule 3
TEST(Conformance, Row21_RejectWithData) {
  AgainstRaw t({.revision = 1});
  End* raw = t.requested();
  ASSERT_NE(raw, nullptr);
  raw->send(frame(wire::MpaKey::rep, PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_R, 1, text("full house")));
  ASSERT_TRUE(t.net.run_until([&] { return t.a.last<cm::Rejected>() != nullptr; }));
  EXPECT_EQ(t.a.last<cm::Rejected>()->private_data, text("full house"));
  expect_text(t.a.last<cm::Rejected>()->why, mpa::step::wait_reply, Errc::rejected, raw_peer);
  EXPECT_TRUE(t.net.run_until([&] { return raw->closed_by_peer(); })) << "TCP is closed";
}

TEST(Conformance, Row11_InitiatorMeetsInitiator) {
  AgainstRaw t({});
  End* raw = t.requested();
  ASSERT_NE(raw, nullptr);
  raw->send(frame(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1));
  ASSERT_NE(t.failed(), nullptr);
  expect_text(t.failed()->why, mpa::step::wait_reply, Errc::bad_key, raw_peer);
  EXPECT_FALSE(t.failed()->why.rule.empty());
}

TEST(CmFailure, PeerVanishesAtEachStageOfTheRequest) {
  for (std::size_t sent = 0; sent < PARLEY_MPA_HEADER_LEN; sent += 5) {
    for (const bool reset : {true, false}) {
      SCOPED_TRACE(std::to_string(sent) + (reset ? " octets, then RST" : " octets, then FIN"));
      RawAgainst t;
      t.raw->send(ConstBytes(frame(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1)).first(sent));
      reset ? t.raw->rst() : t.raw->fin();
      ASSERT_NE(t.failed(), nullptr);
      expect_text(t.failed()->why, mpa::step::wait_request, reset ? Errc::peer_reset : Errc::peer_closed,
                  "192.0.2.250:50000");
      t.net.run_for(60s);
      EXPECT_EQ(t.b.provider->endpoint_count(), 1U);
    }
  }
}

TEST(CmFailure, PeerVanishesWhileTheUserDecides) {
  for (const bool reset : {true, false}) {
    RawAgainst t;
    t.raw->send(frame(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1));
    ASSERT_TRUE(t.net.run_until([&] { return t.b.last<cm::ConnectRequest>() != nullptr; }));
    reset ? t.raw->rst() : t.raw->fin();
    ASSERT_NE(t.failed(), nullptr);
    EXPECT_EQ(t.failed()->id, t.b.last<cm::ConnectRequest>()->id);
    expect_text(t.failed()->why, mpa::step::ulp_decision, reset ? Errc::peer_reset : Errc::peer_closed,
                "192.0.2.250:50000");
    EXPECT_EQ(t.b.last<cm::ConnectRequest>()->id.accept().error(), make_error_code(Errc::wrong_state));
  }
}

TEST(CmFailure, PeerVanishesBeforeItsFirstFpdu) {
  for (const bool reset : {true, false}) {
    RawAgainst t;
    t.b.on_request = [](cm::ConnectRequest& request) { ASSERT_TRUE(request.id.accept()); };
    t.raw->send(frame(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1));
    ASSERT_TRUE(t.net.run_until([&] { return t.raw->in.size() == PARLEY_MPA_HEADER_LEN; }));
    reset ? t.raw->rst() : t.raw->fin();
    ASSERT_NE(t.failed(), nullptr);
    expect_text(t.failed()->why, mpa::step::wait_first_fpdu, reset ? Errc::peer_reset : Errc::peer_closed,
                "192.0.2.250:50000");
    EXPECT_EQ(t.b.last<cm::Established>(), nullptr) << "nothing is established alone";
  }
}

// RFC 5040 §5.4, RFC 6581 §8: the initiator cannot live with the Reply and says so by a Terminate.
TEST(CmFailure, InitiatorsTerminateIsReportedByTheResponder) {
  RawAgainst t;
  t.b.on_request = [](cm::ConnectRequest& request) { ASSERT_TRUE(request.id.accept()); };
  t.raw->send(*wire::MpaFrame{.key = wire::MpaKey::req,
                              .flags = PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S,
                              .revision = 2,
                              .enhanced = wire::MpaEnhanced{.a = true, .d = true, .ird = 1, .ord = 1}}
                   .emit());
  ASSERT_TRUE(t.net.run_until([&] { return t.raw->in.size() > PARLEY_MPA_HEADER_LEN; }));
  // RFC 5040 §4.8: layer LLP, code 7, no matching RTR; the octets stand in the reference of the RFC's example.
  const Bytes terminate{0x00, 0x16, 0x41, 0x47, 0, 0, 0,    0,    0, 0, 0,    2,    0,    0,
                        0,    1,    0,    0,    0, 0, 0x20, 0x07, 0, 0, 0x1B, 0xD2, 0xBA, 0xBE};
  t.raw->send(terminate);
  ASSERT_NE(t.failed(), nullptr);
  expect_text(t.failed()->why, mpa::step::wait_rtr, Errc::terminated, "192.0.2.250:50000");
  EXPECT_TRUE(t.net.run_until([&] { return t.raw->fin_in; }));
}

TEST(CmFailure, InsufficientIrdSendsTerminateThenFin) {
  AgainstRaw t({.rtr = mpa::Rtr::read, .ird_max = 1}, {}, 1);
  End* raw = t.requested();
  ASSERT_NE(raw, nullptr);
  const std::size_t before = raw->in.size();
  EXPECT_EQ(before, 24U);
  raw->send(*wire::MpaFrame{.key = wire::MpaKey::rep,
                            .flags = PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S,
                            .revision = 2,
                            .enhanced = wire::MpaEnhanced{.a = true, .d = true, .ird = 8, .ord = 200}}
                 .emit());
  ASSERT_NE(t.failed(), nullptr);
  expect_text(t.failed()->why, mpa::step::send_rtr, Errc::insufficient_ird, raw_peer);
  ASSERT_TRUE(t.net.run_until([&] { return raw->fin_in; }));
  const Bytes expected{0x00, 0x16, 0x41, 0x47, 0, 0, 0,    0,    0, 0, 0,    2,    0,    0,
                       0,    1,    0,    0,    0, 0, 0x20, 0x06, 0, 0, 0x65, 0x40, 0xFB, 0x1B};
  EXPECT_EQ(Bytes(raw->in.begin() + static_cast<std::ptrdiff_t>(before), raw->in.end()), expected);
}

// RFC 6581 §10: a peer that knows revision 1 only closes, by RST or FIN; the initiator comes back with revision 1.
TEST(Conformance, Row47_RetriesWithRevision1) {
  for (const bool reset : {true, false}) {
    AgainstRaw t({});
    End* raw = t.requested();
    ASSERT_NE(raw, nullptr);
    EXPECT_EQ(raw->in[PARLEY_MPA_REV_OFF], 2);
    reset ? raw->rst() : raw->fin();
    raw = t.requested(1);
    ASSERT_NE(raw, nullptr);
    EXPECT_EQ(raw->in[PARLEY_MPA_REV_OFF], 1);
    EXPECT_EQ(raw->in[PARLEY_MPA_FLAGS_OFF], PARLEY_MPA_FLAG_C);
    ASSERT_NE(t.a.last<cm::Retrying>(), nullptr);
    expect_text(t.a.last<cm::Retrying>()->why, mpa::step::wait_reply, reset ? Errc::peer_reset : Errc::peer_closed,
                raw_peer);
    raw->send(frame(wire::MpaKey::rep, PARLEY_MPA_FLAG_C, 1));
    EXPECT_TRUE(t.net.run_until([&] { return t.a.last<cm::Established>() != nullptr; }));
    EXPECT_EQ(t.a.last<cm::Established>()->mpa()->revision, 1);
  }
}

TEST(CmFailure, RetriesWithRevision1OnlyOnceAndOnlyIfAllowed) {
  AgainstRaw twice({});
  ASSERT_NE(twice.requested(), nullptr);
  twice.net.raw_accepted[0]->rst();
  ASSERT_NE(twice.requested(1), nullptr);
  twice.net.raw_accepted[1]->rst();
  ASSERT_NE(twice.failed(), nullptr);
  EXPECT_EQ(twice.net.raw_accepted.size(), 2U);
  AgainstRaw never_again({.fall_back_to_v1 = false});
  ASSERT_NE(never_again.requested(), nullptr);
  never_again.net.raw_accepted[0]->rst();
  ASSERT_NE(never_again.failed(), nullptr);
  expect_text(never_again.failed()->why, mpa::step::wait_reply, Errc::peer_reset, raw_peer);
}

// RFC 6581 §10: revision 1 announces no RTR. What the responder's ULP sees must not depend on the revision.
TEST(CmFailure, AFallBackToRevision1SendsTheUlpNoMessageOfItsOwn) {
  Pair p;
  const Address to = p.listen({.transport = mpa::Options{.revision = 1}});  // resets the Request of revision 2
  p.accept_all();
  p.connect(to, {.rtr = mpa::Rtr::send});
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  EXPECT_EQ(p.a.last<cm::Established>()->mpa()->revision, 1);
  EXPECT_FALSE(p.vb.saw(WcOpcode::recv));
  p.exchange();
}

// OFA 2007-10 Rtr §2: Linux siw echoes S and takes the Rtr frame for an FPDU; the connection is made again without S.
TEST(Conformance, Row66_EchoingPeer) {
  const Bytes siw_terminate{0x00, 0x16, 0x41, 0x47, 0, 0, 0,    0,    0, 0, 0,    2,    0,    0,
                            0,    1,    0,    0,    0, 0, 0x20, 0x05, 0, 0, 0x16, 0x80, 0xD1, 0xF5};
  for (const std::string_view answer : {"terminate", "rst"}) {
    SCOPED_TRACE(answer);
    AgainstRaw t({.revision = 1, .rtr = mpa::Rtr::frame, .rtr_fallback = mpa::Rtr::read});
    End* raw = t.requested();
    ASSERT_NE(raw, nullptr);
    EXPECT_EQ(raw->in[PARLEY_MPA_FLAGS_OFF], PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S);
    raw->send(frame(wire::MpaKey::rep, PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S, 1));
    ASSERT_TRUE(t.net.run_until([&] { return raw->in.size() == 2 * PARLEY_MPA_HEADER_LEN; }));
    if (answer == "terminate") raw->send(siw_terminate);
    answer == "rst" ? raw->rst() : raw->fin();
    raw = t.requested(1);
    ASSERT_NE(raw, nullptr);
    EXPECT_EQ(raw->in[PARLEY_MPA_FLAGS_OFF], PARLEY_MPA_FLAG_C) << "no S this time";
    ASSERT_NE(t.a.last<cm::Retrying>(), nullptr);
    EXPECT_EQ(t.a.last<cm::Established>(), nullptr) << "nothing was reported too early";
    expect_text(t.a.last<cm::Retrying>()->why, mpa::step::send_rtr, Errc::unsupported, raw_peer);
    EXPECT_EQ(t.a.last<cm::Retrying>()->why.rule, "OFA 2007-10 Rtr §2");
    raw->send(frame(wire::MpaKey::rep, PARLEY_MPA_FLAG_C, 1));
    ASSERT_TRUE(t.net.run_until([&] { return t.a.last<cm::Established>() != nullptr; }));
    EXPECT_EQ(t.a.last<cm::Established>()->mpa()->rtr, mpa::Rtr::read);
    // What was learnt is kept: the next connection does not try S again.
    t.a.events.clear();
    ASSERT_TRUE(t.a.cm.connect(t.peer, {.transport = mpa::Options{.revision = 1, .rtr = mpa::Rtr::frame}}));
    raw = t.requested(2);
    ASSERT_NE(raw, nullptr);
    EXPECT_EQ(raw->in[PARLEY_MPA_FLAGS_OFF], PARLEY_MPA_FLAG_C);
    EXPECT_NE(t.a.last<cm::Retrying>(), nullptr) << "and the user is told";
  }
}

// RFC 5044 §7.2: whoever has nothing to say may close its half at once; an echoing peer says Terminate first.
TEST(CmFailure, FinRightAfterTheRtrFrameIsAHalfCloseAndNoEcho) {
  AgainstRaw t({.revision = 1, .rtr = mpa::Rtr::frame});
  End* raw = t.requested();
  ASSERT_NE(raw, nullptr);
  raw->send(frame(wire::MpaKey::rep, PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S, 1));
  ASSERT_TRUE(t.net.run_until([&] { return raw->in.size() == 2 * PARLEY_MPA_HEADER_LEN; }));
  raw->fin();
  ASSERT_TRUE(t.net.run_until([&] { return t.a.last<cm::Disconnected>() != nullptr; }));
  EXPECT_TRUE(t.a.last<cm::Disconnected>()->graceful) << t.a.last<cm::Disconnected>()->why.to_string();
  ASSERT_NE(t.a.last<cm::Established>(), nullptr);
  EXPECT_EQ(t.a.last<cm::Established>()->mpa()->rtr, mpa::Rtr::frame);
  EXPECT_EQ(t.a.last<cm::Retrying>(), nullptr);
  EXPECT_EQ(t.net.raw_accepted.size(), 1U) << "no second connection behind the user's back";
  // The FIN proved nothing: the next connection offers S again, and watches again.
  ASSERT_TRUE(t.a.cm.connect(t.peer, {.transport = mpa::Options{.revision = 1, .rtr = mpa::Rtr::frame}}));
  raw = t.requested(1);
  ASSERT_NE(raw, nullptr);
  EXPECT_EQ(raw->in[PARLEY_MPA_FLAGS_OFF], PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S);
}

TEST(CmFailure, HonestPeersAreWatchedOnce) {
  Pair p;
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.revision = 1, .rtr = mpa::Rtr::frame});
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Established>() != nullptr; }));
  EXPECT_GE(p.a.last<cm::Established>()->steps.established, 20ms);
  p.ca.destroy();
  p.a.events.clear();
  p.connect(to, {.revision = 1, .rtr = mpa::Rtr::frame});
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Established>() != nullptr; }));
  EXPECT_LT(p.a.last<cm::Established>()->steps.established, 1ms);
}

// What siw forgets when an FPDU follows its Reply too soon is avoided by waiting.
TEST(CmFailure, FirstFpduWaitsForPeersThatLoseIt) {
  Pair p;
  const Address to = p.listen();
  p.accept_all();
  Instant first_fpdu = never;
  std::size_t writes = 0;
  p.net.spy = [&](End& from, ConstBytes) {
    if (from.host == &p.a && ++writes == 2) first_fpdu = p.net.now;
  };
  p.connect(to, {.rtr = mpa::Rtr::read, .peer_quirk = "siw"});
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  EXPECT_GE(first_fpdu - Instant(1s), 10ms);
}

// OFA 2007-10 Rtr §2, RFC 6581 §9.2
TEST(Conformance, Row43_RtrMissing) {
  RawAgainst t({.transport = mpa::Options{.timeouts = {.rtr = 3s}}});
  t.b.on_request = [](cm::ConnectRequest& request) { ASSERT_TRUE(request.id.accept()); };
  t.raw->send(*wire::MpaFrame{.key = wire::MpaKey::req,
                              .flags = PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S,
                              .revision = 2,
                              .enhanced = wire::MpaEnhanced{.a = true, .d = true, .ird = 1, .ord = 1}}
                   .emit());
  ASSERT_NE(t.failed(), nullptr);
  expect_text(t.failed()->why, mpa::step::wait_rtr, Errc::timed_out, "192.0.2.250:50000");
  EXPECT_EQ(t.b.last<cm::Established>(), nullptr);
  t.net.run_for(10s);
  EXPECT_TRUE(t.raw->closed_by_peer());
}

TEST(CmFailure, PendingConnectionsAreBounded) {
  Net net;
  Host& b = net.add_host(2);
  ASSERT_TRUE(b.cm.listen(Address::any(Address::Family::v4, 7471), {.pending_max = 8}));
  net.settle();
  const Address to = b.last<cm::Listening>()->local;
  std::vector<End*> peers;
  for (int i = 0; i < 20; ++i) peers.push_back(&net.raw_connect(to));
  net.settle();
  EXPECT_EQ(std::count_if(peers.begin(), peers.end(), [](End* e) { return e->rst_in; }), 12);
  EXPECT_EQ(b.provider->endpoint_count(), 9U);
  net.run_for(60s);  // the silent ones time out, and make room
  EXPECT_EQ(b.provider->endpoint_count(), 1U);
  End& late = net.raw_connect(to);
  net.settle();
  EXPECT_FALSE(late.rst_in);
}

// RFC 5044 §7.1.2 rule 4: without an RTR nothing obliges an accepted client to speak.
TEST(CmFailure, SilentClassicClientsThatWereAcceptedLeaveRoom) {
  Net net;
  Host& b = net.add_host(2);
  b.on_request = [](cm::ConnectRequest& request) { ASSERT_TRUE(request.id.accept()); };
  ASSERT_TRUE(b.cm.listen(Address::any(Address::Family::v4, 7471), {.pending_max = 1}));
  net.settle();
  const Address to = b.last<cm::Listening>()->local;
  for (int i = 0; i < 5; ++i) {
    End& peer = net.raw_connect(to);
    net.settle();
    ASSERT_FALSE(peer.rst_in) << i;
    peer.send(frame(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1));
    net.run_for(1s);
    EXPECT_FALSE(peer.rst_in) << i;
  }
  EXPECT_EQ(b.all<cm::ConnectRequest>().size(), 5U);
  EXPECT_EQ(b.provider->endpoint_count(), 6U);
}

// A peer that agreed on an RTR owes it, and stands in the room of those in set-up until it comes; where that is full,
// it gives way like any other half-open one, and the user hears why.
TEST(CmFailure, AcceptedPeersThatOweAnRtrGiveWay) {
  Net net;
  Host& b = net.add_host(2);
  b.on_request = [](cm::ConnectRequest& request) { ASSERT_TRUE(request.id.accept()); };
  ASSERT_TRUE(b.cm.listen(Address::any(Address::Family::v4, 7471), {.pending_max = 1}));
  net.settle();
  const Address to = b.last<cm::Listening>()->local;
  End& owing = net.raw_connect(to);
  net.settle();
  owing.send(frame(wire::MpaKey::req, PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S, 1));
  net.run_for(1s);
  EXPECT_FALSE(owing.rst_in);
  End& newcomer = net.raw_connect(to);
  net.settle();
  EXPECT_TRUE(owing.rst_in);
  EXPECT_FALSE(newcomer.rst_in);
  ASSERT_NE(b.last<cm::ConnectFailed>(), nullptr);
  const cm::Failure& why = b.last<cm::ConnectFailed>()->why;
  expect_text(why, mpa::step::wait_rtr, Errc::no_space, "192.0.2.250:50000");
  EXPECT_NE(why.to_string().find("pending_max is 1"), std::string::npos) << why.to_string();
  EXPECT_EQ(b.last<cm::TurnedAway>(), nullptr) << "the user knows it by its id";
}

// A connection that failed no longer counts once its user has read so, although he may keep the id.
TEST(CmFailure, FailedConnectionsMakeRoom) {
  RawAgainst t({.pending_max = 1});
  t.raw->send(frame(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1));
  ASSERT_TRUE(t.net.run_until([&] { return t.b.last<cm::ConnectRequest>() != nullptr; }));
  const Address to = t.b.last<cm::Listening>()->local;
  End& early = t.net.raw_connect(to);
  t.net.settle();
  EXPECT_TRUE(early.rst_in);
  t.raw->rst();
  ASSERT_NE(t.failed(), nullptr);
  End& late = t.net.raw_connect(to);
  t.net.settle();
  EXPECT_FALSE(late.rst_in);
}

// The peer of a connection that failed before its request was reported can be asked while the event is handled.
TEST(CmFailure, UnknownPeersHaveAnAddressUntilTheNextPoll) {
  RawAgainst t;
  t.b.poll_events = false;
  t.raw->fin();
  t.net.settle();
  const std::optional<cm::Event> event = t.b.cm.poll_event();
  ASSERT_TRUE(event.has_value());
  const auto& failed = std::get<cm::ConnectFailed>(*event);
  EXPECT_TRUE(failed.responder);
  EXPECT_EQ(failed.id.peer_address()->to_string(), "192.0.2.250:50000");
  EXPECT_FALSE(t.b.cm.poll_event().has_value());
  EXPECT_EQ(failed.id.peer_address().error(), make_error_code(Errc::wrong_state));
}

TEST(CmFailure, EndpointsAreBounded) {
  Net net;
  Host& a = net.add_host(1, {}, {.endpoints_max = 2});
  ASSERT_TRUE(a.cm.connect(Address::v4(192, 0, 2, 9, 1)));
  ASSERT_TRUE(a.cm.connect(Address::v4(192, 0, 2, 9, 1)));
  EXPECT_EQ(a.cm.connect(Address::v4(192, 0, 2, 9, 1)).error(), make_error_code(Errc::no_space));
}

TEST(CmFailure, ResetOfAnOpenConnectionIsToldAndFlushes) {
  Pair p;
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.rtr = mpa::Rtr::read});
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  ASSERT_TRUE(p.va.recv(*p.ca.qp(), 0, 100));
  p.cb.destroy();
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Disconnected>() != nullptr; }));
  EXPECT_FALSE(p.a.last<cm::Disconnected>()->graceful);
  expect_text(p.a.last<cm::Disconnected>()->why, cm::step::data, Errc::peer_reset, "192.0.2.2:7471");
  EXPECT_TRUE(p.va.saw(WcOpcode::recv, WcStatus::wr_flush_err));
}

// RFC 5044 §7.2: a peer that takes our FIN and never sends its own does not hold us for ever.
TEST(CmFailure, ClosingIsBounded) {
  Pair p({}, {.linger = 2s});
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.rtr = mpa::Rtr::read});
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  p.net.partitioned = true;
  const Instant start = p.net.now;
  ASSERT_TRUE(p.ca.disconnect());
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Disconnected>() != nullptr; }));
  EXPECT_EQ(p.net.now - start, 2s);
  EXPECT_FALSE(p.a.last<cm::Disconnected>()->graceful);
  expect_text(p.a.last<cm::Disconnected>()->why, cm::step::closing, Errc::timed_out, "192.0.2.2:7471");
}

// What was posted is the user's again when the stream has ended, however it did.
TEST(CmFailure, ClosingThatTakesTooLongFlushesWhatIsPosted) {
  Pair p({}, {.linger = 2s});
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.rtr = mpa::Rtr::read});
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  p.net.partitioned = true;
  ASSERT_TRUE(p.va.recv(*p.ca.qp(), 0, 100));
  const Sge sink = p.va.at(200, 8);
  ASSERT_TRUE(p.ca.qp()->post_send(
      {.opcode = SendWr::Opcode::rdma_read, .sges = {&sink, 1}, .remote_addr = p.vb.mr.addr, .rkey = p.vb.mr.rkey}));
  ASSERT_TRUE(p.ca.disconnect());
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Disconnected>() != nullptr; }));
  (void)p.va.poll();
  EXPECT_TRUE(p.va.saw(WcOpcode::recv, WcStatus::wr_flush_err));
  EXPECT_TRUE(p.va.saw(WcOpcode::rdma_read, WcStatus::wr_flush_err));
  EXPECT_EQ(p.ca.qp()->state(), QpState::err);
}

TEST(CmFailure, AGracefulEndLeavesTheQueuePairInError) {
  Pair p;
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.rtr = mpa::Rtr::read});
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  ASSERT_TRUE(p.va.recv(*p.ca.qp(), 0, 100));
  ASSERT_TRUE(p.ca.disconnect());
  const auto both = [&] { return p.a.last<cm::Disconnected>() && p.b.last<cm::Disconnected>(); };
  ASSERT_TRUE(p.net.run_until(both));
  EXPECT_TRUE(p.a.last<cm::Disconnected>()->graceful);
  (void)p.va.poll();
  EXPECT_TRUE(p.va.saw(WcOpcode::recv, WcStatus::wr_flush_err));
  EXPECT_EQ(p.ca.qp()->state(), QpState::err);
  EXPECT_EQ(p.cb.qp()->state(), QpState::err);
}

// RFC 5040 §5.4, §6.2.1
TEST(Conformance, Row63_TerminateThenSilence) {
  Pair p;
  const Address to = p.listen();
  p.accept_all(0);  // no receive: a's Send is an error that b must report (RFC 5041 §7.1)
  p.connect(to, {.rtr = mpa::Rtr::read});
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  ASSERT_TRUE(p.vb.send(*p.cb.qp(), 0, 8));
  ASSERT_TRUE(p.va.recv(*p.ca.qp(), 0, 8));
  ASSERT_TRUE(p.va.send(*p.ca.qp(), 0, 8));
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Disconnected>() && p.b.last<cm::Disconnected>(); }));
  const auto& a = *p.a.last<cm::Disconnected>();
  const auto& b = *p.b.last<cm::Disconnected>();
  ASSERT_TRUE(a.terminate() && b.terminate());
  EXPECT_FALSE(a.terminate()->sent);
  EXPECT_TRUE(b.terminate()->sent);
  EXPECT_EQ(a.terminate()->layer, 1);
  EXPECT_EQ(a.terminate()->etype, 2);
  EXPECT_EQ(a.terminate()->code, 2);
  EXPECT_FALSE(a.graceful || b.graceful);
  expect_text(a.why, cm::step::data, Errc::terminated, "192.0.2.2:7471");
  EXPECT_EQ(p.cb.qp()->post_send({}).error(), make_error_code(Errc::wrong_state)) << "no more messages";
}

TEST(CmFailure, TerminateIsDeliveredThoughTheIdIsDestroyedAtOnce) {
  Pair p;
  const Address to = p.listen();
  p.accept_all(0);
  p.connect(to, {.rtr = mpa::Rtr::read});
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  ASSERT_TRUE(p.va.send(*p.ca.qp(), 0, 8));
  ASSERT_TRUE(p.net.run_until([&] { return p.b.last<cm::Disconnected>() != nullptr; }));
  p.cb.destroy();
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Disconnected>() != nullptr; }));
  EXPECT_TRUE(p.a.last<cm::Disconnected>()->terminate());
  p.ca.destroy();
  p.net.run_for(60s);
  EXPECT_EQ(p.b.provider->endpoint_count(), 1U);
  EXPECT_EQ(p.a.provider->endpoint_count(), 0U);
}

// RFC 5044 §7.2
TEST(Conformance, Row64_HalfClose) {
  Pair p({}, {.half_close_grace = 1ms});
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.rtr = mpa::Rtr::read});
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  // a sends its last message and FIN together; b answers what it read, on the half that is still open.
  ASSERT_TRUE(p.va.recv(*p.ca.qp(), 0, 4096));
  ASSERT_TRUE(p.va.send(*p.ca.qp(), 32768, 100));
  ASSERT_TRUE(p.ca.disconnect());
  p.vb.done.clear();
  p.vb.memory[50000] = 99;
  ASSERT_TRUE(p.net.run_until([&] { return p.vb.saw(WcOpcode::recv); }));
  ASSERT_TRUE(p.vb.send(*p.cb.qp(), 50000, 1));
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Disconnected>() && p.b.last<cm::Disconnected>(); }));
  EXPECT_TRUE(p.va.saw(WcOpcode::recv));
  EXPECT_EQ(p.va.memory[0], 99);
  EXPECT_TRUE(p.a.last<cm::Disconnected>()->graceful);
  EXPECT_TRUE(p.b.last<cm::Disconnected>()->graceful);
}

// RFC 5044 §7.1.2 rule 4
TEST(Conformance, Row22_ResponderMustWait) {
  RawAgainst t;
  Verbs vb(t.b.cm.device());
  cm::Id id;
  t.b.on_request = [&](cm::ConnectRequest& request) {
    id = request.id;
    ASSERT_TRUE(id.create_qp(vb.qp()));
    ASSERT_TRUE(id.accept());
    ASSERT_TRUE(vb.send(*id.qp(), 0, 100));
  };
  t.raw->send(frame(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1));
  t.net.run_for(5s);
  EXPECT_EQ(t.raw->in.size(), PARLEY_MPA_HEADER_LEN) << "the Reply and nothing else";
  const Bytes send_rtr{0x00, 0x12, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0x58, 0x7B, 0xE8, 0xC4};
  ASSERT_TRUE(vb.recv(*id.qp(), 0, 16));
  t.raw->send(send_rtr);
  t.net.run_for(1s);
  EXPECT_GT(t.raw->in.size(), PARLEY_MPA_HEADER_LEN + 100U);
  EXPECT_NE(t.b.last<cm::Established>(), nullptr);
  id.destroy();
}

// RFC 6581 §9.2
TEST(Conformance, Row41_RtrFirst) {
  for (const mpa::Rtr rtr : {mpa::Rtr::send, mpa::Rtr::write, mpa::Rtr::read}) {
    AgainstRaw t({.rtr = rtr});
    End* raw = t.requested();
    ASSERT_NE(raw, nullptr);
    raw->in.clear();
    raw->send(*wire::MpaFrame{.key = wire::MpaKey::rep,
                              .flags = PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S,
                              .revision = 2,
                              .enhanced = wire::MpaEnhanced{.a = true,
                                                            .b = rtr == mpa::Rtr::send,
                                                            .c = rtr == mpa::Rtr::write,
                                                            .d = rtr == mpa::Rtr::read,
                                                            .ird = 8,
                                                            .ord = 8}}
                   .emit());
    ASSERT_TRUE(t.net.run_until([&] { return t.a.last<cm::Established>() != nullptr; }));
    t.net.run_for(1ms);
    ASSERT_GE(raw->in.size(), 4U);
    const int opcode = rtr == mpa::Rtr::send ? 3 : rtr == mpa::Rtr::write ? 0 : 1;
    EXPECT_EQ(raw->in[3] & 0x0F, opcode);
  }
}

// RFC 6581 §9.2: any RTR kind, whichever was agreed, STag 0 and 1.
TEST(Conformance, Row42_AnyRtrKindAccepted) {
  const std::vector<Bytes> kinds{
      {0x00, 0x0E, 0xC1, 0x40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xEB, 0xD3, 0x4C, 0x5F},
      {0x00, 0x0E, 0xC1, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xA3, 0x05, 0x72, 0xAB},
      {0x00, 0x2E, 0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,    0,    0,    0,
       0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xBA, 0x10, 0xE3, 0xC9},
      {0x00, 0x12, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0x58, 0x7B, 0xE8, 0xC4},
  };
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    SCOPED_TRACE(i);
    RawAgainst t;
    Verbs vb(t.b.cm.device());
    cm::Id id;
    t.b.on_request = [&](cm::ConnectRequest& request) {
      id = request.id;
      ASSERT_TRUE(id.create_qp(vb.qp()));
      ASSERT_TRUE(vb.recv(*id.qp(), 0, 16));
      ASSERT_TRUE(id.accept());
    };
    t.raw->send(
        *wire::MpaFrame{.key = wire::MpaKey::req,
                        .flags = PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S,
                        .revision = 2,
                        .enhanced = wire::MpaEnhanced{.a = true, .b = true, .c = true, .d = true, .ird = 4, .ord = 4}}
             .emit());
    t.net.settle();
    const std::size_t reply = t.raw->in.size();
    t.raw->send(kinds[i]);
    ASSERT_TRUE(t.net.run_until([&] { return t.b.last<cm::Established>() != nullptr; }));
    t.net.settle();
    if (i == 2) {
      const Bytes response{0x00, 0x0E, 0xC1, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x69, 0x75, 0xD6, 0xCA};
      EXPECT_EQ(Bytes(t.raw->in.begin() + static_cast<std::ptrdiff_t>(reply), t.raw->in.end()), response);
    }
    id.destroy();
  }
}

// RFC 5044 §7.1.1: CRC is used when either side asks.
TEST(Conformance, Row07_CrcOrRule) {
  for (const bool initiator : {true, false}) {
    for (const bool responder : {true, false}) {
      Pair p;
      const Address to = p.listen({.transport = mpa::Options{.crc = responder}});
      p.accept_all();
      p.connect(to, {.crc = initiator, .rtr = mpa::Rtr::read});
      ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
      EXPECT_EQ(p.a.last<cm::Established>()->mpa()->crc, initiator || responder);
      EXPECT_EQ(p.b.last<cm::Established>()->mpa()->crc, initiator || responder);
      p.exchange();
    }
  }
}

}  // namespace
}  // namespace parley::failure_test
