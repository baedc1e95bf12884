// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// QueuePair::modify on the queue pairs of connections: what the connection makes of it.
#include "test_pair.hpp"

namespace parley::testing_net {
namespace {

TEST(CmModify, ErrEndsAnOpenConnectionAndSaysWho) {
  Pair p;
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.rtr = mpa::Rtr::read});
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  EXPECT_EQ(p.ca.qp()->state(), QpState::rts);
  ASSERT_TRUE(p.va.recv(*p.ca.qp(), 0, 100));
  ASSERT_TRUE(p.ca.qp()->modify({.state = QpState::err}));
  EXPECT_EQ(p.ca.qp()->state(), QpState::err);
  ASSERT_TRUE(p.net.run_until(
      [&] { return p.a.last<cm::Disconnected>() != nullptr && p.b.last<cm::Disconnected>() != nullptr; }));
  EXPECT_FALSE(p.a.last<cm::Disconnected>()->graceful);
  expect_text(p.a.last<cm::Disconnected>()->why, cm::step::data, Errc::cancelled, "moved its queue pair to ERR");
  expect_text(p.b.last<cm::Disconnected>()->why, cm::step::data, Errc::peer_reset, "192.0.2.1");
  (void)p.va.poll();
  EXPECT_TRUE(p.va.saw(WcOpcode::recv, WcStatus::wr_flush_err));
}

TEST(CmModify, ErrWhileClosingCutsTheCloseShort) {
  Pair p({}, {.linger = 60s});
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.rtr = mpa::Rtr::read});
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  p.net.partitioned = true;
  ASSERT_TRUE(p.ca.disconnect());
  ASSERT_FALSE(p.net.run_until([&] { return p.a.last<cm::Disconnected>() != nullptr; }, 1s));
  ASSERT_TRUE(p.ca.qp()->modify({.state = QpState::err}));
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Disconnected>() != nullptr; }, 1s));
  EXPECT_EQ(p.a.last<cm::Disconnected>()->why.code, Errc::cancelled);
}

TEST(CmModify, ErrBeforeTheReplyFailsTheSetUp) {
  Pair p;
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.rtr = mpa::Rtr::read});
  EXPECT_EQ(p.ca.qp()->state(), QpState::init);
  ASSERT_TRUE(p.ca.qp()->modify({.state = QpState::err}));
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::ConnectFailed>() != nullptr; }));
  EXPECT_NE(p.a.last<cm::ConnectFailed>()->why.to_string().find("the queue pair is in ERR"), std::string::npos);
}

// MPA of revision 1 agrees on no depths: each side has its own.
TEST(CmModify, QueryTellsTheOwnDepthsUnderRevision1) {
  Pair p;
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.revision = 1, .rtr = mpa::Rtr::frame}, {}, 5, 3);
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  EXPECT_EQ(p.ca.qp()->query().max_dest_rd_atomic, 5);
  EXPECT_EQ(p.ca.qp()->query().max_rd_atomic, 3);
  EXPECT_EQ(p.cb.qp()->query().max_dest_rd_atomic, 32);
  EXPECT_EQ(p.cb.qp()->query().max_rd_atomic, 32);
}

// IBA 1.x §10.3.1: the queue waits in SQD and goes on; the connection notices nothing.
TEST(CmModify, SqdHoldsWhatIsPosted) {
  Pair p;
  const Address to = p.listen();
  p.accept_all();
  p.connect(to, {.rtr = mpa::Rtr::read});
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  ASSERT_TRUE(p.ca.qp()->modify({.state = QpState::sqd}));
  ASSERT_TRUE(p.va.send(*p.ca.qp(), 0, 100));
  EXPECT_FALSE(p.net.run_until([&] { return p.vb.saw(WcOpcode::recv); }, 1s));
  ASSERT_TRUE(p.ca.qp()->modify({.state = QpState::rts}));
  EXPECT_TRUE(p.net.run_until([&] { return p.vb.saw(WcOpcode::recv); }));
  p.exchange();
  // disconnect() does what is posted, in SQD too.
  ASSERT_TRUE(p.ca.qp()->modify({.state = QpState::sqd}));
  p.vb.done.clear();
  ASSERT_TRUE(p.va.send(*p.ca.qp(), 0, 100));
  ASSERT_TRUE(p.ca.disconnect());
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Disconnected>() != nullptr; }));
  EXPECT_TRUE(p.a.last<cm::Disconnected>()->graceful);
  EXPECT_TRUE(p.vb.saw(WcOpcode::recv));
}

}  // namespace
}  // namespace parley::testing_net
