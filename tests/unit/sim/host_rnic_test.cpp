// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Hosts with their software RNIC: what an App sees of connections, crashes, pauses and time.
#include "host_kit.hpp"

namespace parley::sim::testing_hosts {
namespace {

/// Two hosts with Apps that speak verbs: b accepts whatever comes, a connects.
struct RnicPair {
  explicit RnicPair(const HostOptions& options = {}, std::uint64_t seed = 1) : cable(seed) {
    cable.add(options);
    cable.add(options);
    a().start = [this](Host& host) { va = std::make_unique<Verbs>(host.device()); };
    b().start = [this](Host& host) {
      vb = std::make_unique<Verbs>(host.device());
      listener = *host.cm().listen(Address::any(Address::Family::v4, 7471), {.transport = listen_mpa});
    };
    // RFC of a crash: whatever hangs on the device goes first.
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
  void connect(const mpa::Options& mpa) {
    ca = *ha().cm().connect(with_port(hb().address(Address::Family::v4, 0), 7471), {.transport = mpa, .qp = va->qp()});
  }
  bool established() { return a().last<cm::Established>() != nullptr && b().last<cm::Established>() != nullptr; }

  mpa::Options listen_mpa;
  Cable cable;
  std::unique_ptr<Verbs> va, vb;
  cm::Id listener, ca, cb;
};

struct Form {
  const char* name;
  std::uint8_t revision;
  mpa::Rtr rtr;
  bool markers;
};
// An RTR that was not agreed by the protocol, a zero-length Send, is a message of its own.
bool received(Verbs& verbs) {
  verbs.poll();
  return !verbs.done.empty() && verbs.done.back().byte_len == 3000;
}
class EveryRtrForm : public testing::TestWithParam<Form> {};

TEST_P(EveryRtrForm, ConnectsAndMovesDataBothWays) {
  const Form& form = GetParam();
  RnicPair p;
  p.listen_mpa.markers = form.markers;
  p.cable.start();
  mpa::Options mpa;
  mpa.revision = form.revision;
  mpa.rtr = form.rtr;
  mpa.rtr_by_s = form.revision == 1 && form.rtr != mpa::Rtr::none;
  p.connect(mpa);
  // Without an RTR the initiator has to speak first (RFC 5044 §7.1.2 rule 4).
  ASSERT_TRUE(p.va->recv(*p.ca.qp(), 0, 3000));
  ASSERT_TRUE(p.va->send(*p.ca.qp(), 32768, 3000));
  const Bytes said = pattern(3000);
  std::copy(said.begin(), said.end(), p.va->memory.begin() + 32768);
  ASSERT_TRUE(p.cable.run_until([&] { return p.established() && received(*p.vb); }));
  EXPECT_EQ(p.a().last<cm::Established>()->mpa()->rtr, form.rtr);
  const auto at = static_cast<std::ptrdiff_t>(p.vb->done.back().wr_id);
  EXPECT_EQ(Bytes(p.vb->memory.begin() + at, p.vb->memory.begin() + at + 3000), said);
  ASSERT_TRUE(p.vb->send(*p.cb.qp(), static_cast<std::size_t>(at), 3000));
  p.hb().set_timer(p.cable.engine.now(), 0);
  ASSERT_TRUE(p.cable.run_until([&] { return p.va->count(WcOpcode::recv) == 1; }));
  EXPECT_EQ(Bytes(p.va->memory.begin(), p.va->memory.begin() + 3000), said);
  EXPECT_TRUE(p.cable.discards.empty());
  ASSERT_TRUE(p.ca.disconnect());
  p.ha().set_timer(p.cable.engine.now(), 0);
  ASSERT_TRUE(p.cable.run_until([&] { return p.a().last<cm::Disconnected>() && p.b().last<cm::Disconnected>(); }));
  EXPECT_TRUE(p.a().last<cm::Disconnected>()->graceful) << p.a().last<cm::Disconnected>()->why.to_string("b");
  EXPECT_TRUE(p.b().last<cm::Disconnected>()->graceful);
  p.cable.run_for(120s);
  EXPECT_EQ(p.ha().counters().streams, 0U);
  EXPECT_EQ(p.cable.engine.next(), never) << "nothing is left to happen";
}

INSTANTIATE_TEST_SUITE_P(
    SimHostRnic, EveryRtrForm,
    testing::Values(Form{"rev1", 1, mpa::Rtr::none, false}, Form{"rev1_frame", 1, mpa::Rtr::frame, false},
                    Form{"rev1_send", 1, mpa::Rtr::send, false}, Form{"rev1_read_markers", 1, mpa::Rtr::read, true},
                    Form{"rev2", 2, mpa::Rtr::none, false}, Form{"rev2_send", 2, mpa::Rtr::send, false},
                    Form{"rev2_write", 2, mpa::Rtr::write, true}, Form{"rev2_read", 2, mpa::Rtr::read, false}),
    [](const auto& form) { return form.param.name; });

TEST(SimHostRnic, RefusalAndUnreachableAreToldInWords) {
  RnicPair p;
  p.cable.start();
  for (const auto& [address, errc] : {std::pair{with_port(p.hb().address(Address::Family::v4, 0), 9), Errc::refused},
                                      std::pair{Address::v4(10, 0, 0, 77, 7471), Errc::unreachable},
                                      std::pair{Address::v4(192, 0, 2, 1, 7471), Errc::unreachable}}) {
    p.a().events.clear();
    (void)*p.ha().cm().connect(address);
    ASSERT_TRUE(p.cable.run_until([&] { return p.a().last<cm::ConnectFailed>() != nullptr; }));
    EXPECT_EQ(p.a().last<cm::ConnectFailed>()->why.code, make_error_code(errc));
  }
}

TEST(SimHostRnic, ACrashOfOneEndEndsTheOther) {
  for (const bool comes_back : {false, true}) {
    HostOptions options;
    options.tcp.retries = 5;
    RnicPair p(options);
    p.cable.start();
    mpa::Options mpa;
    mpa.rtr = mpa::Rtr::read;
    p.connect(mpa);
    ASSERT_TRUE(p.cable.run_until([&] { return p.established(); }));
    p.hb().crash();
    EXPECT_EQ(p.b().crashes, 1);
    if (comes_back) p.hb().restart();
    EXPECT_EQ(p.b().starts, comes_back ? 2 : 1);
    ASSERT_TRUE(p.va->send(*p.ca.qp(), 0, 100));
    p.ha().set_timer(p.cable.engine.now(), 0);
    ASSERT_TRUE(p.cable.run_until([&] { return p.a().last<cm::Disconnected>() != nullptr; }));
    const auto& why = p.a().last<cm::Disconnected>()->why;
    EXPECT_EQ(why.code, make_error_code(comes_back ? Errc::peer_reset : Errc::timed_out)) << why.to_string("b");
    p.ca.destroy();
    if (!comes_back) continue;
    p.a().events.clear();
    p.connect(mpa);
    EXPECT_TRUE(p.cable.run_until([&] { return p.established(); })) << "the new incarnation listens";
    EXPECT_EQ(p.hb().incarnation(), 2U);
  }
}

TEST(SimHostRnic, ACrashAtAnyMomentIsSafeAndTheWorldGoesOn) {
  for (int steps = 0; steps < 80; ++steps) {
    RnicPair p;
    p.cable.start();
    mpa::Options mpa;
    mpa.rtr = mpa::Rtr::send;
    p.connect(mpa);
    for (int i = 0; i < steps; ++i) (void)p.cable.engine.step(never);
    Host& victim = steps % 2 == 0 ? p.ha() : p.hb();
    victim.crash();
    p.cable.run_for(steps % 3 == 0 ? Duration(0) : Duration(3s));
    victim.restart();
    p.a().events.clear();
    p.b().events.clear();
    if (p.ca) p.ca.destroy();
    p.connect(mpa);
    ASSERT_TRUE(p.cable.run_until([&] { return p.established(); })) << "crash after " << steps << " steps";
  }
}

TEST(SimHostRnic, TimersOfAnIncarnationDieWithIt) {
  Cable cable;
  Host& host = cable.add();
  cable.start();
  host.set_timer(Instant(5s), 1);
  host.set_timer(Instant(1s), 2);
  cable.run_for(2s);
  host.restart();
  host.set_timer(Instant(6s), 3);
  cable.run_for(10s);
  const std::vector<std::pair<Instant, std::uint64_t>> expected{{Instant(1s), 2}, {Instant(6s), 3}};
  EXPECT_EQ(cable.apps[0]->timers, expected);
}

TEST(SimHostRnic, TimersOfAPausedHostComeWhenItGoesOn) {
  Cable cable;
  Host& host = cable.add();
  cable.start();
  host.set_timer(Instant(1s), 7);
  host.set_timer(Instant(9s), 8);
  host.pause();
  EXPECT_TRUE(host.paused());
  cable.run_for(4s);
  EXPECT_TRUE(cable.apps[0]->timers.empty());
  host.resume();
  const std::vector<std::pair<Instant, std::uint64_t>> late{{Instant(4s), 7}};
  EXPECT_EQ(cable.apps[0]->timers, late);
  cable.run_for(10s);
  EXPECT_EQ(cable.apps[0]->timers.size(), 2U);
}

TEST(SimHostRnic, TheSetUpDeadlineOfAPausedPeerIsKept) {
  RnicPair p;
  p.cable.start();
  p.hb().pause();
  mpa::Options mpa;
  mpa.timeouts.reply = 2s;
  p.connect(mpa);
  ASSERT_TRUE(p.cable.run_until([&] { return p.a().last<cm::ConnectFailed>() != nullptr; }));
  EXPECT_EQ(p.a().last<cm::ConnectFailed>()->why.code, make_error_code(Errc::unreachable)) << "nobody answers ARP";
  p.hb().resume();
  p.ca.destroy();
  p.a().events.clear();
  p.connect(mpa);
  EXPECT_TRUE(p.cable.run_until([&] { return p.a().last<cm::Established>() != nullptr; }));
}

struct NoteTap : Tap {
  void on_frame(const TapFrame&) override {}
  void on_note(Instant, NodeId, NoteKind, std::string_view text) override { notes.emplace_back(text); }
  std::vector<std::string> notes;
};

TEST(SimHostRnic, AnAppThatNeverRestsIsReportedAndDoesNotHoldUpTime) {
  RnicPair p;
  NoteTap tap;
  p.cable.engine.tap = &tap;
  p.cable.start();
  p.a().turn = [&](Host& host) { (void)*host.cm().connect(with_port(p.ha().address(Address::Family::v4, 0), 1)); };
  p.a().events.clear();
  (void)*p.ha().cm().connect(with_port(p.ha().address(Address::Family::v4, 0), 1));
  p.cable.run_for(10ms);
  EXPECT_GE(p.a().turns, 1000);
  ASSERT_FALSE(tap.notes.empty());
  EXPECT_NE(tap.notes[0].find("does not come to rest"), std::string::npos) << tap.notes[0];
  EXPECT_LE(tap.notes.size(), 12U);
  p.cable.engine.tap = nullptr;
}

TEST(SimHostRnic, LivesAreToldToTheTap) {
  Cable cable;
  NoteTap tap;
  Host& host = cable.add();
  cable.engine.tap = &tap;
  cable.start();
  host.pause();
  host.resume();
  host.crash();
  host.restart();
  const std::vector<std::string> expected{"host a paused", "host a goes on", "host a crashed", "host a started again"};
  EXPECT_EQ(tap.notes, expected);
}

TEST(SimHostRnic, WhatGoesOverTheWireDoesNotDependOnWhereMemoryLies) {
  const auto stag_and_offset = [](std::size_t ballast) {
    const Bytes other(ballast);
    RnicPair p;
    p.cable.start();
    return std::pair{p.va->mr.rkey, p.va->mr.addr};
  };
  EXPECT_EQ(stag_and_offset(1), stag_and_offset(1'000'003));
  EXPECT_EQ(stag_and_offset(1).second, 0x1000'0000U);
}

}  // namespace
}  // namespace parley::sim::testing_hosts
