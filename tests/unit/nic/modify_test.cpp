// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// modify() and query() of an iWARP queue pair. Every state against every state that can be asked for is a table that is
// reviewed in tests/states/nic_qp_modify.txt.
#include "test_pair.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::nic::iwarp::test {
namespace {

std::string sentence(const Result<void>& result) { return result ? "ok" : result.error().sentence(); }

struct State {
  const char* name;
  void (*enter)(Side&);
};
void connect(Side& side) { ASSERT_TRUE(side.qp->attach(attach_options(mpa::Role::responder))); }
const State states[] = {
    {"RESET", [](Side& s) { ASSERT_TRUE(s.qp->modify({.state = QpState::reset})); }},
    {"INIT", [](Side&) {}},
    {"RTS", connect},
    {"SQD",
     [](Side& s) {
       connect(s);
       ASSERT_TRUE(s.qp->modify({.state = QpState::sqd}));
     }},
    {"FIN seen",
     [](Side& s) {
       connect(s);
       s.qp->handle_end(false);
     }},
    {"closing",
     [](Side& s) {
       connect(s);
       s.qp->begin_close();
     }},
    {"terminate",
     [](Side& s) {
       connect(s);
       s.qp->send_terminate(2, 0, 5);
     }},
    {"error",
     [](Side& s) {
       connect(s);
       s.qp->flush();
     }},
    {"ERR, never connected", [](Side& s) { ASSERT_TRUE(s.qp->modify({.state = QpState::err})); }},
};

std::string outcome(const Result<void>& result) {
  if (result) return "ok";
  EXPECT_FALSE(result.error().sentence().empty());
  return result.error() == Errc::unsupported   ? "unsupported"
         : result.error() == Errc::wrong_state ? "wrong_state"
                                               : "?";
}
std::string ended(const std::vector<WorkCompletion>& done) {
  for (const WorkCompletion& completion : done) EXPECT_EQ(completion.status, WcStatus::wr_flush_err);
  return done.empty() ? "-" : "flushed";
}

std::string row(const State& state, QpState to) {
  Side side;
  Buffer buffer(*side.device, side.pd, 64);
  EXPECT_TRUE(side.recv(1, {buffer.all()}));
  EXPECT_TRUE(side.send(2, {buffer.sge(0, 8)}));
  state.enter(side);
  (void)side.sends(), (void)side.recvs();
  side.drain_events();
  side.events.clear();
  const std::string result = outcome(side.qp->modify({.state = to}));
  side.drain_events();
  std::string told = side.events.empty() ? "-" : "failed";
  for (const QpEvent& event : side.events) EXPECT_EQ(event.kind, QpEvent::Kind::failed);
  const std::string next(to_string(side.qp->state()));
  const std::string sent = ended(side.sends()), received = ended(side.recvs());
  const std::string octets = hex(side.transmit_all());
  return pad(state.name, 22) + pad(std::string(to_string(to)), 7) + pad(result, 13) + pad(next, 7) + pad(told, 8) +
         pad(sent, 9) + pad(received, 10) +
         (octets.empty()                ? "-"
          : octets.substr(6, 2) == "43" ? "Send"
                                        : "Terminate") +
         "\n";
}

TEST(NicModify, TableIsAsReviewed) {
  std::string table = pad("state", 22) + pad("to", 7) + pad("result", 13) + pad("next", 7) + pad("told", 8) +
                      pad("sends", 9) + pad("receives", 10) + "then sent\n";
  for (const State& state : states)
    for (const QpState to :
         {QpState::reset, QpState::init, QpState::rtr, QpState::rts, QpState::sqd, QpState::sqe, QpState::err})
      table += row(state, to);
  expect_as_reviewed("nic_qp_modify.txt", table);
}

// IBA 1.x §10.3.1.
TEST(NicModify, ResetDropsWhatWasPostedAndTakesNothing) {
  Side side;
  Buffer buffer(*side.device, side.pd, 64);
  ASSERT_TRUE(side.recv(1, {buffer.all()}));
  ASSERT_TRUE(side.send(2, {buffer.all()}));
  ASSERT_TRUE(side.qp->modify({.state = QpState::reset}));
  EXPECT_TRUE(side.sends().empty());
  EXPECT_TRUE(side.recvs().empty());
  EXPECT_TRUE(side.device->dereg_mr(buffer.region.lkey)) << "nothing is posted that needs it";
  EXPECT_EQ(sentence(side.send(3, {})), "the queue pair is in RESET; it takes requests from INIT on");
  EXPECT_EQ(sentence(side.recv(3, {})), "the queue pair is in RESET; it takes requests from INIT on");
  EXPECT_EQ(sentence(side.qp->post_immediate({})), "the queue pair is in RESET; it takes requests from INIT on");
  ASSERT_TRUE(side.qp->modify({.state = QpState::init, .access = Access::none}));
  EXPECT_EQ(side.qp->query().access, Access::none);
  EXPECT_TRUE(side.send(4, {}));
  // A connection takes it as it is, out of RESET too.
  ASSERT_TRUE(side.qp->modify({.state = QpState::reset}));
  connect(side);
  EXPECT_EQ(side.qp->state(), QpState::rts);
  EXPECT_TRUE(side.recv(5, {}));
}

// IBA 1.x §10.3.1: in SQD requests are taken and not begun; one that is under way is finished.
TEST(NicModify, SqdHoldsTheSendQueueAtAMessageBoundary) {
  Pair p;
  Buffer from(*p.a.device, p.a.pd, 4000), to(*p.b.device, p.b.pd, 4000);
  p.connect();
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(p.b.recv(i, {to.all()}));
  ASSERT_TRUE(p.a.send(1, {from.all()}));
  p.a.list_max = 2;
  p.write = pieces_of(1000);
  p.step();  // the first octets of a message of three segments
  ASSERT_TRUE(p.a.qp->modify({.state = QpState::sqd}));
  EXPECT_TRUE(p.a.qp->query().sq_draining);
  ASSERT_TRUE(p.a.send(2, {from.sge(0, 8)}));
  p.run();
  EXPECT_EQ(p.b.recvs().size(), 1U);
  EXPECT_EQ(p.a.sends().size(), 1U);
  EXPECT_EQ(p.a.qp->state(), QpState::sqd);
  EXPECT_FALSE(p.a.qp->query().sq_draining);
  // The other half goes on: what the peer sends arrives.
  ASSERT_TRUE(p.a.recv(7, {from.all()}));
  ASSERT_TRUE(p.b.send(8, {to.sge(0, 4)}));
  p.run();
  EXPECT_EQ(p.a.recvs().size(), 1U);
  while (p.a.device->poll_dirty() != nullptr) {
  }
  ASSERT_TRUE(p.a.qp->modify({.state = QpState::rts, .cur_state = QpState::sqd}));
  EXPECT_EQ(p.a.device->poll_dirty(), p.a.qp.get()) << "its provider is told that there is something to send";
  p.run();
  EXPECT_EQ(p.b.recvs().size(), 1U);
  EXPECT_EQ(p.a.sends().size(), 1U);
}

TEST(NicModify, AnEndOfTheConnectionEndsSqd) {
  for (const bool ours : {true, false}) {
    Side side;
    Buffer buffer(*side.device, side.pd, 8);
    connect(side);
    ASSERT_TRUE(side.qp->modify({.state = QpState::sqd}));
    ASSERT_TRUE(side.send(1, {buffer.all()}));
    EXPECT_FALSE(side.qp->has_transmit());
    if (ours)
      side.qp->begin_close();
    else
      side.qp->handle_end(false);
    side.transmit_all();
    EXPECT_EQ(side.sends().size(), 1U) << ours;
    EXPECT_TRUE(side.qp->drained());
  }
}

// Our half ends once everything posted is sent; in SQD that would be never.
TEST(NicModify, SqdIsRefusedOnceThePeerHasClosedItsHalf) {
  Side side;
  Buffer buffer(*side.device, side.pd, 8);
  connect(side);
  side.qp->handle_end(false);
  ASSERT_TRUE(side.send(1, {buffer.all()}));
  EXPECT_EQ(sentence(side.qp->modify({.state = QpState::sqd})),
            "QpAttr::state: the peer has closed its half, and what is posted goes out; there is no SQD any more");
  EXPECT_EQ(side.qp->state(), QpState::rts);
  side.transmit_all();
  EXPECT_TRUE(side.qp->drained());
}

// IBA 1.x §10.3.1: any state -> RESET -> INIT. A connection uses up an iWARP queue pair; without one it is as new.
TEST(NicModify, ErrWithoutAConnectionGoesBackToReset) {
  Pair p;
  Buffer from(*p.a.device, p.a.pd, 8), to(*p.b.device, p.b.pd, 8);
  ASSERT_TRUE(p.a.send(1, {from.all()}));
  ASSERT_TRUE(p.a.qp->modify({.state = QpState::err}));
  EXPECT_EQ(p.a.sends().size(), 1U);
  EXPECT_EQ(sentence(p.a.send(2, {})), "the queue pair is in ERR; it takes requests again from INIT on, after RESET");
  ASSERT_TRUE(p.a.qp->modify({.state = QpState::reset}));
  EXPECT_EQ(p.a.qp->state(), QpState::reset);
  ASSERT_TRUE(p.a.qp->modify({.state = QpState::init}));
  ASSERT_TRUE(p.b.recv(3, {to.all()}));
  ASSERT_TRUE(p.a.send(4, {from.all()}));
  p.connect();
  p.run();
  EXPECT_EQ(p.a.sends().size(), 1U);
  EXPECT_EQ(p.b.recvs().size(), 1U);
}

TEST(NicModify, ErrAfterAConnectionIsTheEnd) {
  const auto end = [](Side& side) {
    const std::string posted = sentence(side.send(1, {}));
    EXPECT_EQ(sentence(side.qp->modify({.state = QpState::reset})),
              "QpAttr::state: a queue pair that had a connection is not used again; create another one");
    return posted;
  };
  Side side;
  connect(side);
  side.qp->begin_close();
  EXPECT_EQ(end(side), "the connection of this queue pair is closing; nothing more can be posted");
  side.qp->flush();
  EXPECT_EQ(end(side), "the connection of this queue pair is over; nothing more can be posted");
}

TEST(NicModify, ResetGivesTheRightsBack) {
  const Access all = Access::remote_write | Access::remote_read | Access::remote_atomic;
  Side side;
  ASSERT_TRUE(side.qp->modify({.access = Access::none}));
  ASSERT_TRUE(side.qp->modify({.state = QpState::reset}));
  EXPECT_EQ(side.qp->query().access, all);
  ASSERT_TRUE(side.qp->modify({.access = Access::none}));
  EXPECT_EQ(side.qp->query().access, Access::none);
  ASSERT_TRUE(side.qp->modify({.state = QpState::reset})) << "again";
  EXPECT_EQ(side.qp->query().access, all);
  ASSERT_TRUE(side.qp->modify({.state = QpState::reset, .access = Access::remote_read}));
  EXPECT_EQ(side.qp->query().access, Access::remote_read) << "what goes along with RESET holds after it";
}

TEST(NicModify, ErrFlushesAndTellsTheConnection) {
  Side side;
  Buffer buffer(*side.device, side.pd, 8);
  connect(side);
  ASSERT_TRUE(side.send(1, {buffer.all()}));
  ASSERT_TRUE(side.recv(2, {buffer.all()}));
  while (side.device->poll_dirty()) {
  }
  ASSERT_TRUE(side.qp->modify({.state = QpState::err}));
  EXPECT_EQ(side.device->poll_dirty(), side.qp.get()) << "the provider hears of it";
  EXPECT_TRUE(side.qp->has_event());
  ASSERT_TRUE(side.saw(QpEvent::Kind::failed));
  EXPECT_FALSE(side.qp->has_event());
  EXPECT_EQ(side.events.at(0).failure.code, Errc::cancelled);
  EXPECT_EQ(side.sends().at(0).status, WcStatus::wr_flush_err);
  EXPECT_EQ(side.recvs().at(0).status, WcStatus::wr_flush_err);
  EXPECT_TRUE(side.transmit_all().empty());
  EXPECT_EQ(sentence(side.qp->attach(attach_options(mpa::Role::initiator))), "the queue pair is in ERR");
}

// A peer needs the right in the queue pair and in the region: RFC 5040 §7.2, access violation.
TEST(NicModify, RightsOfTheQueuePairHoldForThePeer) {
  const auto answer = [](Access access, const std::string& ulpdu) {
    Solo solo;
    EXPECT_TRUE(solo.side.qp->modify({.access = access}));
    std::string full = ulpdu;
    const std::string out = solo.feed(full.replace(full.find("@"), 1, solo.stag() + solo.to()));
    return out.empty() ? std::string("-") : out.substr(4 + 36, 4);  // layer, error type and code of a Terminate
  };
  const std::string write = "c140 @ aabb";
  EXPECT_EQ(answer(Access::remote_read | Access::remote_atomic, write), "0102");
  EXPECT_EQ(answer(Access::remote_write, write), "-");
  const std::string read = "4141 00000000 00000001 00000001 00000000 00000011 0000000000000000 00000004 @";
  EXPECT_EQ(answer(Access::remote_write | Access::remote_atomic, read), "0102");
  const std::string atomic =
      "414a 00000000 00000001 00000001 00000000 00000000 00000001 @ 0000000000000001" + std::string(48, '0');
  EXPECT_EQ(answer(Access::remote_write | Access::remote_read, atomic), "0102");
}

TEST(NicModify, WhatIwarpLacksIsRefusedByName) {
  Side side;
  const auto refused = [&side](const QpAttr& attr, std::string_view words) {
    const auto result = side.qp->modify(attr);
    ASSERT_FALSE(result) << words;
    EXPECT_EQ(result.error(), Errc::unsupported);
    EXPECT_NE(result.error().sentence().find(words), std::string::npos) << result.error().sentence();
  };
  refused({.state = QpState::rtr}, "the connection manager takes it to RTS once MPA set-up is done");
  refused({.state = QpState::rts}, "the connection manager takes it to RTS once MPA set-up is done");
  refused({.en_sqd_async_notify = true}, "QpAttr::en_sqd_async_notify");
  refused({.pkey_index = 0}, "QpAttr::pkey_index cannot be set: iWARP has no partitions");
  refused({.port_num = 1}, "QpAttr::port_num");
  refused({.qkey = 1}, "QpAttr::qkey");
  refused({.ah = AhAttr{}}, "QpAttr::ah");
  refused({.path_mtu = Mtu::octets_1024}, "QpAttr::path_mtu");
  refused({.timeout = 14}, "QpAttr::timeout");
  refused({.retry_cnt = 7}, "QpAttr::retry_cnt");
  refused({.rnr_retry = 7}, "QpAttr::rnr_retry");
  refused({.rq_psn = 0}, "QpAttr::rq_psn");
  refused({.max_rd_atomic = 1}, "cm::ConnectOptions::ord");
  refused({.alt_path = AltPath{}}, "QpAttr::alt_path");
  refused({.min_rnr_timer = 1}, "QpAttr::min_rnr_timer");
  refused({.sq_psn = 0}, "QpAttr::sq_psn");
  refused({.max_dest_rd_atomic = 1}, "cm::ConnectOptions::ird");
  refused({.path_mig_state = MigState::migrated}, "QpAttr::path_mig_state");
  refused({.dest_qp_num = 1}, "QpAttr::dest_qp_num");
  EXPECT_EQ(side.qp->modify({.cur_state = QpState::rts}).error(), Errc::wrong_state);
  // A call that fails changes nothing.
  refused({.state = QpState::reset, .qkey = 1}, "QpAttr::qkey");
  EXPECT_EQ(side.qp->state(), QpState::init);
}

TEST(NicModify, QueryTellsWhatIwarpHas) {
  Side side;
  QpAttr attr = side.qp->query();
  EXPECT_EQ(attr.state, QpState::init);
  EXPECT_EQ(attr.access, Access::remote_write | Access::remote_read | Access::remote_atomic);
  EXPECT_FALSE(attr.max_rd_atomic || attr.max_dest_rd_atomic) << "not agreed yet";
  AttachOptions options = attach_options(mpa::Role::initiator);
  options.parameters.ord = 3;
  options.parameters.ird = 5;
  ASSERT_TRUE(side.qp->attach(options));
  attr = side.qp->query();
  EXPECT_EQ(attr.state, QpState::rts);
  EXPECT_EQ(attr.max_rd_atomic, 3);
  EXPECT_EQ(attr.max_dest_rd_atomic, 5);
  EXPECT_FALSE(attr.sq_draining || attr.pkey_index || attr.qkey || attr.ah);
}

// RFC 6581 §9.1: 0x3FFF leaves a depth to the ULP; it is no depth that a device has.
TEST(NicModify, QueryHasNoDepthAboveTheDevicesLimits) {
  Side side;
  AttachOptions options = attach_options(mpa::Role::initiator, mpa::depth_not_negotiated);
  ASSERT_TRUE(side.qp->attach(options));
  EXPECT_EQ(side.qp->query().max_rd_atomic, side.device->query().max_qp_init_rd_atom);
  EXPECT_EQ(side.qp->query().max_dest_rd_atomic, side.device->query().max_qp_rd_atom);
}

}  // namespace
}  // namespace parley::nic::iwarp::test
