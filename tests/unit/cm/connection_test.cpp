// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Connections that work: every form end to end, with data, private data and a graceful end.
#include "tests/unit/cm/test_pair.hpp"

namespace parley::connection_test {
namespace {

using namespace testing_net;
using testing_net::Host;

struct Form {
  std::string name;
  mpa::Options initiator;
  mpa::Options responder;
  mpa::Rtr rtr;
};

std::vector<Form> forms() {
  using mpa::Rtr;
  std::vector<Form> out;
  for (const Rtr rtr : {Rtr::none, Rtr::send, Rtr::write, Rtr::read}) {
    const std::string name{mpa::to_string(rtr)};
    out.push_back({"v2_" + name, {.rtr = rtr}, {}, rtr});
    out.push_back({"v2_markers_" + name, {.markers = true, .rtr = rtr}, {.markers = true}, rtr});
    out.push_back({"v1_by_configuration_" + name, {.revision = 1, .rtr = rtr}, {.rtr_expected = rtr}, rtr});
    if (rtr != Rtr::none) out.push_back({"v1_by_s_" + name, {.revision = 1, .rtr = rtr, .rtr_by_s = true}, {}, rtr});
  }
  out.push_back({"v1_frame", {.revision = 1, .rtr = Rtr::frame}, {}, Rtr::frame});
  out.push_back(
      {"v1_frame_hex", {.revision = 1, .rtr = Rtr::frame, .rtr_spelling = mpa::RtrSpelling::hex}, {}, Rtr::frame});
  out.push_back({"v1_frame_refused", {.revision = 1, .rtr = Rtr::frame}, {.accept_rtr_frame = false}, Rtr::none});
  out.push_back({"v1_frame_refused_read",
                 {.revision = 1, .rtr = Rtr::frame, .rtr_fallback = Rtr::read},
                 {.accept_rtr_frame = false},
                 Rtr::read});
  out.push_back({"v2_no_crc", {.crc = false}, {.crc = false}, Rtr::none});
  return out;
}

class EveryForm : public ::testing::TestWithParam<Form> {};

// RFC 5044 §7.1, RFC 6581 §9, OFA 2007-10 Rtr §2
TEST_P(EveryForm, ConnectsCarriesDataAndEndsGracefully) {
  const Form& form = GetParam();
  Pair p;
  const Address to = p.listen({.transport = form.responder});
  p.accept_all(4, text("yes"));
  p.connect(to, form.initiator, text("please"));
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Established>() != nullptr; }));
  const auto* request = p.b.last<cm::ConnectRequest>();
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->private_data, text("please"));
  EXPECT_EQ(p.a.last<cm::Established>()->private_data, text("yes"));
  EXPECT_EQ(p.a.last<cm::Established>()->mpa()->rtr, form.rtr);
  if (form.rtr == mpa::Rtr::none) {
    // RFC 5044 §7.1.2 rule 4: only the initiator's first message establishes the responder.
    p.net.run_for(1s);
    EXPECT_EQ(p.b.last<cm::Established>(), nullptr);
  }
  p.exchange();
  ASSERT_TRUE(p.established());
  ASSERT_TRUE(p.ca.disconnect());
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Disconnected>() && p.b.last<cm::Disconnected>(); }));
  EXPECT_TRUE(p.a.last<cm::Disconnected>()->graceful) << p.a.last<cm::Disconnected>()->why.to_string();
  EXPECT_TRUE(p.b.last<cm::Disconnected>()->graceful) << p.b.last<cm::Disconnected>()->why.to_string();
}

INSTANTIATE_TEST_SUITE_P(Cm, EveryForm, ::testing::ValuesIn(forms()),
                         [](const auto& param) { return param.param.name; });

// RFC 6581 §6: what the peer can take at once bounds what this side may ask for, and the other way round.
TEST(Cm, AConnectRequestNamesWhoAsksForWhatAndWhatWouldMeetIt) {
  struct Case {
    mpa::Options options;
    std::uint16_t ird, ord;
    std::uint16_t needed_ird, needed_ord;
  };
  const mpa::Options enhanced{}, revision_1{.revision = 1};
  for (const Case& c : {Case{enhanced, 5, 9, 9, 5}, Case{enhanced, 9, 5, 5, 9}, Case{enhanced, 32, 1, 1, 32},
                        Case{revision_1, 5, 9, 0, 0}}) {
    Pair p;
    const Address to = p.listen();
    p.accept_all();
    p.connect(to, c.options, text("please"), c.ird, c.ord);
    ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Established>() != nullptr; }));
    ASSERT_EQ(p.b.all<cm::ConnectRequest>().size(), 1u);
    const cm::ConnectRequest& request = *p.b.last<cm::ConnectRequest>();
    EXPECT_EQ(request.listener, p.listener);
    EXPECT_EQ(request.id, p.cb);
    EXPECT_EQ(request.peer.octets[3], 1);
    EXPECT_EQ(request.private_data, text("please"));
    ASSERT_NE(request.mpa(), nullptr);
    EXPECT_EQ(request.mpa()->revision, c.options.revision);
    EXPECT_EQ(request.mpa()->peer_ird, c.needed_ord);
    EXPECT_EQ(request.mpa()->peer_ord, c.needed_ird);
    EXPECT_EQ(request.ird, c.needed_ird);
    EXPECT_EQ(request.ord, c.needed_ord);
  }
}

// OFA 2007-10 Rtr §2: S on both sides promises an RTR; where its form is a Send, that is no message of the ULP's.
TEST(Cm, TheUlpDoesNotSeeASendThatIsTheRtrAnnouncedByS) {
  for (const mpa::Rtr expected : {mpa::Rtr::none, mpa::Rtr::send, mpa::Rtr::write}) {
    Pair p;
    const Address to = p.listen({.transport = mpa::Options{.rtr_expected = expected}});
    p.accept_all();
    p.connect(to, {.revision = 1, .rtr = mpa::Rtr::send, .rtr_by_s = true});
    ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
    EXPECT_FALSE(p.vb.saw(WcOpcode::recv));
    p.exchange();
    const auto received = [](const auto& wc) { return wc.opcode == WcOpcode::recv && wc.status == WcStatus::success; };
    EXPECT_EQ(std::count_if(p.vb.done.begin(), p.vb.done.end(), received), 1);
  }
}

/// Three connections whose responders share four receives, set up with an RTR that is a Send; how many receives are left.
std::size_t left_of_shared_receives(Pair& p, const mpa::Options& initiator) {
  auto srq = *p.vb.device.create_srq(p.vb.pd, 4);
  const Sge sge = p.vb.at(0, 64);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(srq->post_recv({.wr_id = i, .sges = {&sge, 1}}));
  std::vector<cm::Id> responders;
  p.b.on_request = [&](cm::ConnectRequest& request) {
    QpInit init = p.vb.qp();
    init.srq = srq.get();
    ASSERT_TRUE(request.id.create_qp(init));
    ASSERT_TRUE(request.id.accept({}));
    responders.push_back(request.id);
  };
  const Address to = p.listen();
  std::vector<cm::Id> initiators;
  for (int i = 0; i < 3; ++i) {
    p.connect(to, initiator);
    initiators.push_back(p.ca);
  }
  EXPECT_TRUE(p.net.run_until(
      [&] { return p.a.all<cm::Established>().size() == 3 && p.b.all<cm::Established>().size() == 3; }));
  const std::size_t left = srq->available();
  EXPECT_EQ(p.vb.count(WcOpcode::recv), 4 - left);
  EXPECT_TRUE(p.va.poll().empty());  // an RTR is no work request of the initiator's
  for (const auto* ids : {&initiators, &responders})
    for (cm::Id id : *ids) id.destroy();
  p.ca = {};
  p.b.on_request = {};
  return left;
}

// RFC 6581 §9.2: a Send as RTR would take a receive that another connection needs.
TEST(Cm, AnAgreedSendAsRtrTakesNothingFromASharedReceiveQueue) {
  for (const mpa::Options& initiator :
       {mpa::Options{.rtr = mpa::Rtr::send}, mpa::Options{.revision = 1, .rtr = mpa::Rtr::send, .rtr_by_s = true}}) {
    Pair p;
    EXPECT_EQ(left_of_shared_receives(p, initiator), 4U);
  }
}

// docs/mpa-rtr.md: nothing tells it from a message of the application.
TEST(Cm, ASendAsRtrThatNothingAnnouncedTakesAReceiveForEachConnection) {
  Pair p;
  EXPECT_EQ(left_of_shared_receives(p, {.revision = 1, .rtr = mpa::Rtr::send}), 1U);
}

// After an Rtr frame nothing is promised any more: the first FPDU is the ULP's, and may be a Send of no length.
TEST(Cm, TheUlpSeesASendOfNoLengthAfterTheRtrFrame) {
  Pair p;
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.revision = 1, .rtr = mpa::Rtr::frame});
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  ASSERT_TRUE(p.va.send(*p.ca.qp(), 0, 0));
  EXPECT_TRUE(p.net.run_until([&] { return p.vb.saw(WcOpcode::recv); }));
}

TEST(Cm, SurvivesEverySegmentationAndNarrowWindows) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Pair p({.segment = 1 + seed * 3, .seed = seed, .window = 1 + seed * 50});
    const Form form = forms()[seed % forms().size()];
    const Address to = p.listen({.transport = form.responder});
    p.accept_all();
    p.connect(to, form.initiator);
    ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Established>() != nullptr; })) << form.name;
    p.exchange();
    ASSERT_TRUE(p.established()) << form.name;
  }
}

TEST(Cm, TellsWhenEachStepWasDone) {
  Pair p({.delay = 1ms});
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.rtr = mpa::Rtr::read});
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  const cm::Steps& initiator = p.a.last<cm::Established>()->steps;
  EXPECT_EQ(initiator.transport, 2ms);
  EXPECT_EQ(initiator.request, 2ms);
  EXPECT_EQ(initiator.reply, 4ms);
  EXPECT_EQ(initiator.established, 4ms);
  const cm::Steps& responder = p.b.last<cm::Established>()->steps;
  EXPECT_EQ(responder.request, 2ms);
  EXPECT_EQ(responder.decision, 2ms);
  EXPECT_EQ(responder.reply, 2ms);
  EXPECT_EQ(responder.established, 4ms);
}

TEST(Cm, SendsWhatWasPostedBeforeTheConnectionWasUp) {
  Pair p;
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {});
  p.va.memory[40000] = 42;
  ASSERT_TRUE(p.va.send(*p.ca.qp(), 40000, 1));
  ASSERT_TRUE(p.net.run_until([&] { return p.vb.saw(WcOpcode::recv); }));
  EXPECT_EQ(p.vb.memory[0], 42);
}

// RFC 5044 §7.2
TEST(Cm, DisconnectSendsWhatIsPostedFirst) {
  Pair p({.window = 700});
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.rtr = mpa::Rtr::read});
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  p.vb.done.clear();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(p.va.send(*p.ca.qp(), 32768, 4096));
  ASSERT_TRUE(p.ca.disconnect());
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Disconnected>() && p.b.last<cm::Disconnected>(); }));
  (void)p.vb.poll();
  EXPECT_EQ(std::count_if(p.vb.done.begin(), p.vb.done.end(),
                          [](const auto& wc) { return wc.status == WcStatus::success && wc.byte_len == 4096; }),
            4);
  EXPECT_TRUE(p.a.last<cm::Disconnected>()->graceful);
}

TEST(Cm, BothSidesMayDisconnectAtOnce) {
  Pair p;
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.rtr = mpa::Rtr::write});
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  ASSERT_TRUE(p.ca.disconnect());
  ASSERT_TRUE(p.cb.disconnect());
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Disconnected>() && p.b.last<cm::Disconnected>(); }));
  EXPECT_TRUE(p.a.last<cm::Disconnected>()->graceful);
  EXPECT_TRUE(p.b.last<cm::Disconnected>()->graceful);
}

// RFC 5044 §7.1.2 rule 3, RFC 6581 §9.1: the rejection carries private data and the peer's depths.
TEST(Cm, RejectsWithPrivateData) {
  for (const std::uint8_t revision : {std::uint8_t{1}, std::uint8_t{2}}) {
    Pair p;
    const Address to = p.listen();
    const Bytes reason = text("not today");
    p.b.on_request = [&](cm::ConnectRequest& request) {
      ASSERT_TRUE(request.id.reject(reason));
      request.id.destroy();  // the Reply must leave all the same
    };
    p.connect(to, {.revision = revision});
    ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Rejected>() != nullptr; }));
    const auto* rejected = p.a.last<cm::Rejected>();
    EXPECT_EQ(rejected->private_data, reason);
    expect_text(rejected->why, mpa::step::wait_reply, Errc::rejected, "192.0.2.2:7471");
    p.net.run_for(20s);
    EXPECT_EQ(p.b.provider->endpoint_count(), 1U) << "only the listener is left";
    EXPECT_EQ(p.a.events.size(), 1U);
  }
}

TEST(Cm, TakesFullPrivateDataBothWays) {
  for (const std::size_t size : {std::size_t{508}, std::size_t{512}}) {
    Pair p;
    const Address to = p.listen();
    const Bytes data(size, 0x5A);
    p.accept_all(1, data);
    p.connect(to, {.revision = static_cast<std::uint8_t>(size == 512 ? 1 : 2)}, data);
    ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Established>() != nullptr; }));
    EXPECT_EQ(p.b.last<cm::ConnectRequest>()->private_data, data);
    EXPECT_EQ(p.a.last<cm::Established>()->private_data, data);
  }
}

TEST(Cm, RefusesWrongArgumentsAtOnce) {
  Pair p;
  const Address to = p.listen();
  const Bytes long_data(513, 0);
  EXPECT_EQ(p.a.cm.connect(to, {.private_data = long_data}).error(), make_error_code(Errc::bad_private_data));
  EXPECT_EQ(p.a.cm.connect(to, {.private_data = ConstBytes(long_data).first(509)}).error(),
            make_error_code(Errc::bad_private_data));  // RFC 6581 §6: four octets are the enhanced data's
  EXPECT_FALSE(p.a.cm.connect(to, {.transport = mpa::Options{.revision = 7}}));
  EXPECT_FALSE(p.a.cm.connect(to, {.transport = mpa::Options{.peer_quirk = "no such peer"}}));
  EXPECT_FALSE(p.a.cm.connect(Address::v4(192, 0, 2, 2, 0)));
  EXPECT_FALSE(p.b.cm.listen(to, {.backlog = 0}));
  EXPECT_EQ(p.a.provider->endpoint_count(), 0U);
  p.b.on_request = [&](cm::ConnectRequest& request) {
    EXPECT_EQ(request.id.accept({.private_data = long_data}).error(), make_error_code(Errc::bad_private_data));
    EXPECT_EQ(request.id.reject(long_data).error(), make_error_code(Errc::bad_private_data));
    EXPECT_TRUE(request.id.accept());
    EXPECT_EQ(request.id.accept().error(), make_error_code(Errc::wrong_state));
  };
  p.connect(to, {});
  EXPECT_TRUE(p.net.run_until([&] { return p.a.last<cm::Established>() != nullptr; }));
}

TEST(Cm, StaleIdsAreWrongState) {
  Pair p;
  const Address to = p.listen();
  p.connect(to, {});
  cm::Id stale = p.ca;
  p.ca.destroy();
  EXPECT_FALSE(p.ca) << "destroy() empties the handle";
  EXPECT_EQ(stale.disconnect().error(), make_error_code(Errc::wrong_state));
  EXPECT_EQ(stale.accept().error(), make_error_code(Errc::wrong_state));
  EXPECT_EQ(stale.reject().error(), make_error_code(Errc::wrong_state));
  EXPECT_EQ(stale.peer_address().error(), make_error_code(Errc::wrong_state));
  EXPECT_EQ(stale.local_address().error(), make_error_code(Errc::wrong_state));
  EXPECT_EQ(stale.create_qp(p.va.qp()).error(), make_error_code(Errc::wrong_state));
  EXPECT_EQ(stale.qp(), nullptr);
  stale.destroy();
  p.connect(to, {});  // the slot is used again, the number is not
  EXPECT_NE(p.ca, stale);
  EXPECT_EQ(cm::Id().disconnect().error(), make_error_code(Errc::wrong_state));
}

TEST(Cm, ListenerGoneMeansRefused) {
  Pair p;
  const Address to = p.listen();
  p.listener.destroy();
  p.connect(to, {});
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::ConnectFailed>() != nullptr; }));
  expect_text(p.a.last<cm::ConnectFailed>()->why, mpa::step::tcp_connect, Errc::refused, "192.0.2.2:7471");
}

// The id may be destroyed whenever the user likes: at each step of virtual time, on either side. The other side then
// gets an end, and nobody leaks.
TEST(Cm, DestroyAtAnyMoment) {
  int tried = 0;
  for (const bool destroy_initiator : {true, false}) {
    for (int step = 0; step < 80; ++step) {
      SCOPED_TRACE((destroy_initiator ? "initiator at " : "responder at ") + std::to_string(step) + " us");
      Pair p({.delay = 7us});
      const Address to = p.listen();
      p.accept_all();
      p.connect(to, {.rtr = mpa::Rtr::read});
      p.net.run_for(std::chrono::microseconds(step));
      if (p.established()) (void)p.ca.disconnect();
      p.net.run_for(3us);
      cm::Id& victim = destroy_initiator ? p.ca : p.cb;
      const std::size_t before = destroy_initiator ? p.a.events.size() : p.b.events.size();
      if (!victim) continue;
      victim.destroy();
      ++tried;
      p.net.run_for(60s);
      EXPECT_EQ(destroy_initiator ? p.a.events.size() : p.b.events.size(), before) << "no more events for it";
      cm::Id& other = destroy_initiator ? p.cb : p.ca;
      Host& host = destroy_initiator ? p.b : p.a;
      if (other) {
        EXPECT_TRUE(host.last<cm::Disconnected>() || host.last<cm::ConnectFailed>()) << "the other side is told";
      }
      other.destroy();
      p.net.run_for(60s);
      EXPECT_EQ(p.a.provider->endpoint_count(), 0U);
      EXPECT_EQ(p.b.provider->endpoint_count(), 1U);
    }
  }
  EXPECT_GT(tried, 120);
}

TEST(CmConnection, DepthsAreNegotiatedAndAcceptMayLowerThem) {
  Pair p;
  const Address to = p.listen({.ird = 20, .ord = 20});
  p.b.on_request = [](cm::ConnectRequest& request) { ASSERT_TRUE(request.id.accept({.ird = 4, .ord = 6})); };
  const mpa::Options strict{.rtr = mpa::Rtr::write, .ird_max = 0};
  p.connect(to, strict, {}, 10, 3);
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  EXPECT_EQ(p.a.last<cm::Established>()->ird, 10);
  EXPECT_EQ(p.a.last<cm::Established>()->ord, 3);
  EXPECT_EQ(p.b.last<cm::Established>()->ird, 4);
  EXPECT_EQ(p.b.last<cm::Established>()->ord, 6);
}

TEST(CmConnection, AcceptsOwnOptionsAreChecked) {
  Pair p;
  const Address to = p.listen();
  p.b.on_request = [](cm::ConnectRequest& request) {
    EXPECT_EQ(request.id.accept({.ird = 20000}).error().sentence(),
              "ird is 20000; must be 0 to 16382, or mpa::depth_not_negotiated");
    EXPECT_TRUE(request.id.accept({.transport = mpa::Options{.crc = false}}));
  };
  p.connect(to, {.crc = false});
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Established>() != nullptr; }));
  EXPECT_FALSE(p.a.last<cm::Established>()->mpa()->crc);
  EXPECT_EQ(p.a.last<cm::Established>()->ird, 32) << "the listener's";
}

}  // namespace
}  // namespace parley::connection_test
