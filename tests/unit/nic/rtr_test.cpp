// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Ready-to-receive indications: their octets, what they use up, and the fence they lift (RFC 6581 §9.2, RFC 5044
// §7.1.2).
#include "test_pair.hpp"

namespace parley::nic::iwarp::test {
namespace {

std::string rtr_octets(mpa::Rtr rtr, bool stag_zero = false) {
  Side side;
  AttachOptions options = attach_options(mpa::Role::initiator);
  options.send_rtr = rtr;
  options.rtr_stag_zero = stag_zero;
  EXPECT_TRUE(side.qp->attach(options).has_value());
  return hex(side.transmit_all());
}

TEST(NicRtr, TheFormsHaveTheOctetsOfLinuxSiw) {
  EXPECT_EQ(rtr_octets(mpa::Rtr::none), "");
  EXPECT_EQ(rtr_octets(mpa::Rtr::frame), "");  // a startup frame, not an FPDU
  EXPECT_EQ(rtr_octets(mpa::Rtr::write), "000ec140000000010000000000000000ebd34c5f");
  EXPECT_EQ(rtr_octets(mpa::Rtr::send),
            "00124143000000000000000000000001000000005"
            "87be8c4");
  EXPECT_EQ(rtr_octets(mpa::Rtr::read),
            "002e4141000000000000000100000001000000000000000000000000000000000000000000000001"
            "0000000000000000ba10e3c9");
}

TEST(NicRtr, StagZeroOnRequest) {
  EXPECT_EQ(rtr_octets(mpa::Rtr::write, true), "000ec140000000000000000000000000a30572ab");
}

class RtrForms : public testing::TestWithParam<std::tuple<mpa::Rtr, bool>> {
 protected:
  void connect(bool posted = true) {
    const auto [rtr, stag_zero] = GetParam();
    p.connect([rtr = rtr, zero = stag_zero](AttachOptions& a, AttachOptions& b) {
      a.parameters.rtr = b.parameters.rtr = a.send_rtr = rtr;
      a.rtr_stag_zero = zero;
      b.fenced = true;
    });
    if (posted) {
      ASSERT_TRUE(p.b.recv(1, {to_b.all()}).has_value());
    }
  }
  Pair p;
  Buffer from_a{*p.a.device, p.a.pd, 8}, to_a{*p.a.device, p.a.pd, 8};
  Buffer from_b{*p.b.device, p.b.pd, 8}, to_b{*p.b.device, p.b.pd, 8};
};

TEST_P(RtrForms, ReleaseTheResponderAndLeaveNoCompletion) {
  connect();
  p.run();
  ASSERT_EQ(p.b.events.size(), 1U);
  EXPECT_EQ(p.b.events[0].kind, QpEvent::Kind::first_fpdu);
  EXPECT_EQ(p.b.events[0].form, std::get<0>(GetParam()));
  p.b.qp->release_fence();
  p.run();
  EXPECT_TRUE(p.a.qp->drained());
  EXPECT_TRUE(p.a.sends().empty());
  EXPECT_TRUE(p.b.recvs().empty());
  // What follows works both ways, the MSN after a Send being 2.
  ASSERT_TRUE(p.a.recv(2, {to_a.all()}).has_value());
  ASSERT_TRUE(p.a.send(3, {from_a.all()}).has_value());
  ASSERT_TRUE(p.b.send(4, {from_b.all()}).has_value());
  p.run();
  EXPECT_EQ(p.b.recvs().at(0).wr_id, 1U);
  EXPECT_EQ(p.a.recvs().at(0).wr_id, 2U);
}

TEST_P(RtrForms, NeedNoPostedReceiveWhenAgreed) {
  connect(false);
  p.run();
  EXPECT_EQ(p.b.qp->state(), QpState::rts);
  EXPECT_TRUE(p.b.saw(QpEvent::Kind::first_fpdu));
}

// RFC 5044 §7.1.2 rule 4.
TEST_P(RtrForms, NothingLeavesTheResponderWhileFenced) {
  connect();
  ASSERT_TRUE(p.a.recv(2, {to_a.all()}).has_value());
  ASSERT_TRUE(p.b.send(4, {from_b.all()}).has_value());
  EXPECT_FALSE(p.b.qp->has_transmit());
  p.run();
  EXPECT_TRUE(p.a.recvs().empty());
  p.b.qp->release_fence();
  EXPECT_EQ(p.b.device->poll_dirty(), p.b.qp.get());
  p.run();
  EXPECT_EQ(p.a.recvs().size(), 1U);
}

TEST(NicRtr, ReleasingTheFenceWakesTheTransportOnlyForWhatWaits) {
  for (const bool waits : {false, true}) {
    Pair p;
    p.connect([](AttachOptions&, AttachOptions& b) { b.fenced = true; });
    if (waits) {
      ASSERT_TRUE(p.b.send(4, {}).has_value());
    }
    while (p.b.device->poll_dirty() != nullptr) {
    }
    p.b.qp->release_fence();
    EXPECT_EQ(p.b.device->poll_dirty(), waits ? p.b.qp.get() : nullptr);
  }
}

TEST_P(RtrForms, GoFirstWhateverWasPostedBefore) {
  ASSERT_TRUE(p.a.send(3, {from_a.all()}).has_value());
  connect();
  p.run();
  EXPECT_EQ(p.b.events.at(0).form, std::get<0>(GetParam()));
  EXPECT_EQ(p.b.recvs().size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Conformance, RtrForms,
                         testing::Combine(testing::Values(mpa::Rtr::send, mpa::Rtr::write, mpa::Rtr::read),
                                          testing::Bool()),
                         [](const auto& form) {
                           return testing::PrintToString(std::get<0>(form.param)) +
                                  (std::get<1>(form.param) ? "_at_stag_0" : "");
                         });

// RFC 6581 §9.2: a Send that was not agreed is a message like any other.
TEST(NicRtr, AnUnagreedZeroLengthSendUsesAReceive) {
  Solo with, without;
  ASSERT_TRUE(with.side.recv(5, {with.buffer.all()}).has_value());
  EXPECT_EQ(with.feed("4143 00000000 00000000 00000001 00000000"), "");
  const auto received = with.side.recvs();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].byte_len, 0U);
  EXPECT_EQ(with.side.events.at(0).form, mpa::Rtr::send);
  EXPECT_NE(without.feed("4143 00000000 00000000 00000001 00000000"), "");
  EXPECT_EQ(without.side.qp->terminate()->code, 2);
}

TEST(NicRtr, OnlyTheVeryFirstSendIsConsumedBelowTheUlp) {
  Solo solo([](AttachOptions& o) { o.parameters.rtr = mpa::Rtr::send; });
  ASSERT_TRUE(solo.side.recv(5, {solo.buffer.all()}).has_value());
  EXPECT_EQ(solo.feed("4143 00000000 00000000 00000001 00000000"), "");
  EXPECT_TRUE(solo.side.recvs().empty());
  EXPECT_EQ(solo.feed("4143 00000000 00000000 00000002 00000000"), "");
  EXPECT_EQ(solo.side.recvs().size(), 1U);
}

TEST(NicRtr, AUlpMessageIsReportedAsNoForm) {
  Solo solo;
  ASSERT_TRUE(solo.side.recv(5, {solo.buffer.all()}).has_value());
  solo.feed("4143 00000000 00000000 00000001 00000000 aa");
  ASSERT_EQ(solo.side.events.size(), 1U);
  EXPECT_EQ(solo.side.events[0].form, mpa::Rtr::none);
  EXPECT_EQ(solo.side.recvs().size(), 1U);
}

// The Read as RTR holds the only place of ORD until it is answered.
TEST(NicRtr, TheReadFormCountsAgainstOrd) {
  Side side;
  Buffer sink(*side.device, side.pd, 8);
  AttachOptions options = attach_options(mpa::Role::initiator, 1);
  options.send_rtr = mpa::Rtr::read;
  ASSERT_TRUE(side.qp->attach(options).has_value());
  const Sge all = sink.all();
  ASSERT_TRUE(side.qp->post_send({.opcode = SendWr::Opcode::rdma_read, .sges = {&all, 1}}).has_value());
  EXPECT_EQ(side.transmit_all().size(), 52U);
  side.qp->handle_bytes(unhex("000ec142 00000000 0000000000000000 6975d6ca"));
  EXPECT_EQ(side.transmit_all().size(), 52U);
  EXPECT_TRUE(side.sends().empty());
}

TEST(NicRtr, TheReadFormWorksAtDepthZero) {
  Pair p;
  p.connect([](AttachOptions& a, AttachOptions& b) {
    a.parameters.ord = b.parameters.ird = 0;
    a.parameters.rtr = b.parameters.rtr = a.send_rtr = mpa::Rtr::read;
  });
  p.run();
  EXPECT_EQ(p.b.events.at(0).form, mpa::Rtr::read);
  EXPECT_EQ(p.a.qp->state(), QpState::rts);
}

}  // namespace
}  // namespace parley::nic::iwarp::test
