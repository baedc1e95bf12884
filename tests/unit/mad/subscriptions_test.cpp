// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Who subscribes to which events, which notices are whose, and the Reports that follow (IBA §13.4.8.3, §13.4.11).
#include <gtest/gtest.h>

#include "base/rng.hpp"
#include "tests/unit/mad/administrate.hpp"
#include "tests/unit/mad/two_ports.hpp"

namespace parley::mad {
namespace subscriptions_test {
namespace {

using namespace wire::mad;

constexpr NodeType all_producers = static_cast<NodeType>(0xFFFFFF);
constexpr Gid issuer_gid{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9};

InformInfo everything() {
  return InformInfo()
      .set(InformInfo::lid_range_begin, 0xFFFF)
      .set(InformInfo::is_generic, 1)
      .set(InformInfo::subscribe, 1)
      .set(InformInfo::type, 0xFFFF)
      .set(InformInfo::trap_number, 0xFFFF)
      .set(InformInfo::resp_time_value, 16)
      .set(InformInfo::producer_type, all_producers);
}
Notice notice_of(std::uint16_t trap, std::uint16_t lid = 20) {
  return Notice()
      .set(Notice::is_generic, true)
      .set(Notice::notice_type, NoticeType::informational)
      .set(Notice::node_type, NodeType::switch_)
      .set(Notice::trap_number, trap)
      .set(Notice::issuer_lid, lid);
}

Datagram set_of(const InformInfo& info) {
  return request<MgmtClass::subn_adm, Method::set>(info, {.transaction_id = 3});
}
Address at(std::uint16_t lid, std::uint32_t qpn = 1) {
  Address out = Path::by_lid(lid).address;
  out.qpn = qpn;
  return out;
}
std::uint16_t status_of(ConstBytes mad) { return static_cast<std::uint16_t>(read_bits(mad, 32, 16)); }
InformInfo info_in(ConstBytes mad) { return *InformInfo::parse(mad.subspan(rmpp::header_octets)); }

/// Sets it, and gives the status of the answer.
std::uint16_t set(Subscriptions& list, const Address& from, const InformInfo& info) {
  const Bytes reply = list.answer(from, {}, set_of(info));
  EXPECT_EQ(reply.size(), 256U);
  EXPECT_EQ(reply[3], 0x81);
  InformInfo copy = info;
  if (status_of(reply) != 0) copy.set(InformInfo::subscribe, 0);
  EXPECT_EQ(info_in(reply), copy);
  return status_of(reply);
}

// IBA §13.4.8.3.
TEST(MadSubscriptions, AreOfNoticesByWhoWhereAndWhat) {
  const auto wanted = [](auto change) {
    InformInfo info = everything();
    change(info);
    return is_wanted(info, notice_of(128), issuer_gid);
  };
  const auto lids = [&](std::uint16_t begin, std::uint16_t end, const Gid& gid = {}) {
    return wanted([&](InformInfo& info) {
      info.set(InformInfo::lid_range_begin, begin).set(InformInfo::lid_range_end, end).set(InformInfo::gid, gid);
    });
  };
  EXPECT_TRUE(wanted([](InformInfo&) {}));
  EXPECT_TRUE(lids(20, 0)) << "no range: one LID";
  EXPECT_FALSE(lids(19, 0));
  EXPECT_TRUE(lids(19, 20));
  EXPECT_TRUE(lids(20, 20));
  EXPECT_FALSE(lids(21, 30));
  EXPECT_FALSE(lids(10, 19));
  EXPECT_TRUE(lids(21, 30, issuer_gid)) << "a GID goes before the range";
  EXPECT_FALSE(lids(20, 20, Gid{1}));
  EXPECT_TRUE(wanted([](InformInfo& info) { info.set(InformInfo::type, 4); }));
  EXPECT_FALSE(wanted([](InformInfo& info) { info.set(InformInfo::type, 1); }));
  EXPECT_TRUE(wanted([](InformInfo& info) { info.set(InformInfo::trap_number, 128); }));
  EXPECT_FALSE(wanted([](InformInfo& info) { info.set(InformInfo::trap_number, 129); }));
  EXPECT_FALSE(wanted([](InformInfo& info) { info.set(InformInfo::is_generic, 0); })) << "vendors' notices alone";
  EXPECT_TRUE(wanted([](InformInfo& info) { info.set(InformInfo::producer_type, NodeType::switch_); }));
  EXPECT_FALSE(wanted([](InformInfo& info) { info.set(InformInfo::producer_type, NodeType::router); }));
}

/// What asks for a drawn notice, each member by itself or by all, wants it; with one member planted that is another, it does not.
TEST(MadSubscriptions, MissNothingAndGetNothingElse) {
  Rng rng(4);
  for (int i = 0; i < 5000; ++i) {
    const auto lid = static_cast<std::uint16_t>(1 + rng.below(0xBFFF)),
               trap = static_cast<std::uint16_t>(rng.below(0xFFF0));
    const auto type = static_cast<std::uint16_t>(rng.below(5));
    const auto producer = static_cast<std::uint32_t>(1 + rng.below(0xFFFFF0));
    const bool generic = rng.below(2) == 0, by_gid = rng.below(2) == 0;
    const Notice notice = Notice()
                              .set(Notice::is_generic, generic)
                              .set(Notice::notice_type, static_cast<NoticeType>(type))
                              .set(Notice::node_type, static_cast<NodeType>(producer))
                              .set(Notice::trap_number, trap)
                              .set(Notice::issuer_lid, lid);
    InformInfo info = everything();
    info.set(InformInfo::is_generic, generic ? 1 : 0);
    if (by_gid) info.set(InformInfo::gid, issuer_gid);
    if (rng.below(2) == 0)
      info.set(InformInfo::lid_range_begin, static_cast<std::uint16_t>(lid - rng.below(lid)))
          .set(InformInfo::lid_range_end, static_cast<std::uint16_t>(lid + rng.below(0xC000U - lid)));
    if (rng.below(2) == 0) info.set(InformInfo::type, type);
    if (rng.below(2) == 0) info.set(InformInfo::trap_number, trap);
    if (rng.below(2) == 0) info.set(InformInfo::producer_type, static_cast<NodeType>(producer));
    ASSERT_TRUE(is_wanted(info, notice, issuer_gid)) << i;
    switch (rng.below(6)) {
      case 0: info.set(InformInfo::is_generic, generic ? 0 : 1); break;
      case 1: info.set(InformInfo::type, static_cast<std::uint16_t>(type + 1)); break;
      case 2: info.set(InformInfo::trap_number, static_cast<std::uint16_t>(trap + 1)); break;
      case 3: info.set(InformInfo::producer_type, static_cast<NodeType>(producer - 1)); break;
      case 4: info.set(InformInfo::gid, Gid{0xFE, 0x80, 1}); break;
      default: info.set(InformInfo::gid, {}).set(InformInfo::lid_range_begin, static_cast<std::uint16_t>(lid + 1));
    }
    EXPECT_FALSE(is_wanted(info, notice, issuer_gid)) << i;
  }
}

TEST(MadSubscriptions, BeginAndEndAsAsked) {
  Subscriptions list;
  EXPECT_EQ(set(list, at(1), everything()), 0);
  EXPECT_EQ(set(list, at(1), everything()), 0) << "once more is no other";
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(set(list, at(1), everything().set(InformInfo::resp_time_value, 9)), 0);
  ASSERT_EQ(list.size(), 1U) << "only the time";
  EXPECT_EQ(list.all()[0].info.get(InformInfo::resp_time_value), 9);
  EXPECT_EQ(set(list, at(1, 17), everything()), 0) << "another queue pair";
  EXPECT_EQ(set(list, at(2), everything()), 0) << "another port";
  EXPECT_EQ(set(list, at(1), everything().set(InformInfo::trap_number, 64)), 0) << "other traps";
  EXPECT_EQ(list.size(), 4U);
  EXPECT_EQ(list.all()[1].info.get(InformInfo::qpn), 17U);

  const InformInfo end = everything().set(InformInfo::subscribe, 0);
  EXPECT_EQ(set(list, at(3), end), 0x0200) << "a port without one";
  EXPECT_EQ(set(list, at(1), InformInfo(end).set(InformInfo::qpn, 18)), 0x0200);
  EXPECT_EQ(set(list, at(1), InformInfo(end).set(InformInfo::qpn, 17)), 0) << "it names the queue pair";
  EXPECT_EQ(set(list, at(2), end), 0) << "without one it is his own";
  EXPECT_EQ(set(list, at(2), end), 0x0200);
  EXPECT_EQ(list.size(), 2U);
  EXPECT_EQ(list.counters().subscribed, 4U);
  EXPECT_EQ(list.counters().unsubscribed, 2U);
  EXPECT_EQ(list.counters().refused, 3U);
}

TEST(MadSubscriptions, RefuseWhatMakesNoSense) {
  Subscriptions list;
  const auto lids = [](std::uint16_t begin, std::uint16_t end) {
    return everything().set(InformInfo::lid_range_begin, begin).set(InformInfo::lid_range_end, end);
  };
  EXPECT_EQ(set(list, at(1), everything().set(InformInfo::subscribe, 2)), 0x0200);
  EXPECT_EQ(set(list, at(1), everything().set(InformInfo::is_generic, 2)), 0x0200);
  EXPECT_EQ(set(list, at(1), lids(0, 0)), 0x0200);
  EXPECT_EQ(set(list, at(1), lids(0xC000, 0)), 0x0200) << "multicast";
  EXPECT_EQ(set(list, at(1), lids(9, 8)), 0x0200);
  EXPECT_EQ(set(list, at(1), lids(9, 0xC000)), 0x0200);
  EXPECT_EQ(set(list, at(1), lids(0, 0).set(InformInfo::gid, issuer_gid)), 0) << "a GID goes before the range";
  EXPECT_EQ(list.size(), 1U);
  const auto silent = [&](const Datagram& mad) { return list.answer(at(1), {}, mad).empty(); };
  EXPECT_TRUE(silent(request<MgmtClass::subn_adm, Method::get>(NodeRecord{})));
  EXPECT_TRUE(silent(request<MgmtClass::subn, Method::get>(NodeInfo{})));
  EXPECT_TRUE(silent({}));
  EXPECT_TRUE(list.answer(at(1), {}, ConstBytes(set_of(everything())).first(60)).empty());
}

TEST(MadSubscriptions, AreBoundedInAllAndForEachPort) {
  Subscriptions list({.most = 10, .most_of_port = 4});
  const auto traps = [](std::uint16_t trap) { return everything().set(InformInfo::trap_number, trap); };
  for (std::uint16_t trap = 0; trap < 4; ++trap) EXPECT_EQ(set(list, at(1), traps(trap)), 0);
  EXPECT_EQ(set(list, at(1), traps(4)), 0x0100);
  EXPECT_EQ(set(list, at(1), traps(3)), 0) << "which is there";
  for (std::uint16_t lid = 2; lid < 8; ++lid) EXPECT_EQ(set(list, at(lid), traps(0)), 0);
  EXPECT_EQ(set(list, at(8), traps(0)), 0x0100);
  EXPECT_EQ(set(list, at(1), traps(1).set(InformInfo::subscribe, 0)), 0);
  EXPECT_EQ(set(list, at(1), traps(9)), 0);
  EXPECT_EQ(list.all().back().enumeration, 1) << "that of the one which ended";
}

// IBA §15.2.5.12.
TEST(MadSubscriptions, AreListedAsRecords) {
  Subscriptions list;
  for (std::uint8_t port = 1; port <= 3; ++port)
    for (const std::uint16_t trap : std::array<std::uint16_t, 2>{64, 128})
      list.answer(at(port), Gid{port}, set_of(everything().set(InformInfo::trap_number, trap)));
  const auto table = [&](const Query<InformInfoRecord>& query) {
    const Datagram mad =
        request<MgmtClass::subn_adm, Method::get_table>(query.record(), {.component_mask = query.component_mask()});
    return *records_in<InformInfoRecord>(list.answer(at(9), {}, mad));
  };
  EXPECT_EQ(table({}).size(), 6U);
  const auto second = table(Query<InformInfoRecord>().set(InformInfoRecord::subscriber_gid, Gid{2}));
  ASSERT_EQ(second.size(), 2U);
  EXPECT_EQ(second[0].get(InformInfoRecord::enumeration), 0);
  EXPECT_EQ(second[1].get(InformInfoRecord::enumeration), 1);
  EXPECT_EQ(second[1].get(InformInfoRecord::inform_info).get(InformInfo::trap_number), 128);
  const auto of_trap = Query<InformInfoRecord>().set(InformInfoRecord::inform_info, InformInfo::trap_number, 64);
  EXPECT_EQ(table(of_trap).size(), 3U);
  EXPECT_TRUE(table(Query<InformInfoRecord>().set(InformInfoRecord::subscriber_gid, Gid{4})).empty());

  const auto get = [&](Query<InformInfoRecord> query) {
    return list.answer(
        at(9), {},
        request<MgmtClass::subn_adm, Method::get>(query.record(), {.component_mask = query.component_mask()}));
  };
  const Bytes one = get(
      Query<InformInfoRecord>().set(InformInfoRecord::subscriber_gid, Gid{3}).set(InformInfoRecord::enumeration, 1));
  EXPECT_EQ(status_of(one), 0);
  EXPECT_EQ(InformInfoRecord::parse(ConstBytes(one).subspan(56))->get(InformInfoRecord::subscriber_gid), Gid{3});
  EXPECT_EQ(status_of(get(of_trap)), 0x0400) << "too many";
  EXPECT_EQ(status_of(get(Query<InformInfoRecord>().set(InformInfoRecord::enumeration, 7))), 0x0300) << "none";
}

/// The server keeps subscriptions, represses traps and tells those who want them.
struct Told : TwoPorts {
  Subscriptions list{{.retries = 2}};
  std::vector<ReportedNotice> reports;  // that came to the client
  bool answers = true;

  Told() { client->serve(); }
  Task<> serve(Port& on) {
    return administrate(on, list, [this](std::uint16_t lid) { return lid == 20 ? issuer_gid : near.local().gid; });
  }
  /// Until `count` Reports came.
  Task<> hear(std::size_t count) {
    while (reports.size() < count) {
      const auto request = co_await client->next_request();
      if (!request) co_return;
      EXPECT_EQ(request->mad[3], 0x06);
      const auto came = parse_report(request->mad);
      EXPECT_TRUE(came);
      const auto is_it = [&](const ReportedNotice& each) { return each.notice == came->notice; };
      if (std::none_of(reports.begin(), reports.end(), is_it)) reports.push_back(*came);
      if (answers) {
        EXPECT_TRUE(client->post(request->from, *reply_to(request->mad, came->notice.octets())));
      }
    }
  }
  Task<Reply<InformInfo>> subscribe(InformInfo info) {
    co_return co_await client->sa_set<InformInfo>(Path::by_lid(server_lid), info);
  }
  Task<> trap(std::uint16_t number, std::uint16_t lid = 20) {
    const auto reply =
        co_await client->rpc<MgmtClass::subn, Method::trap>(Path::by_lid(server_lid), notice_of(number, lid));
    EXPECT_TRUE(reply);
  }
  Task<> subscribe_and_hear(InformInfo info, std::vector<std::uint16_t> numbers, std::size_t count) {
    const Reply<InformInfo> subscribed = co_await subscribe(info);
    EXPECT_TRUE(subscribed) << subscribed.error().dump();
    for (const std::uint16_t number : numbers) {
      co_await trap(number);
      if (count > 0)
        co_await hear(std::min(count, reports.size() + (is_wanted(info, notice_of(number), issuer_gid) ? 1 : 0)));
    }
  }
};

TEST_F(Told, ReportsWhatTheySubscribedToUntilTheyEndIt) {
  const InformInfo info = everything().set(InformInfo::trap_number, 128);
  go_while(serve(*server), subscribe_and_hear(info, {64, 128, 129}, 1));
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].notice, notice_of(128));
  EXPECT_EQ(reports[0].issuer, issuer_gid);
  settle();
  EXPECT_EQ(list.counters().answered, 1U);
  EXPECT_EQ(list.all().at(0).reports, 0U);
  EXPECT_TRUE(go_while(serve(*server), subscribe(InformInfo(info).set(InformInfo::subscribe, 0))));
  go_while(serve(*server), trap(128));
  EXPECT_EQ(list.counters().reported, 1U);
  EXPECT_FALSE(client->transactor().has_request());
}

TEST_F(Told, ReportsAgainWhatIsLost) {
  Rng rng(8);
  const auto lossy = [&](MemoryTransport& there, MemoryTransport& here, const Address& to, ConstBytes mad) {
    if (rng.below(5) != 0) carry(there, here, to, mad);
  };
  list = Subscriptions({.retries = 20});
  go_while(serve(*server), subscribe(everything()));
  near.peer = [&](MemoryTransport&, const Address& to, ConstBytes mad) { lossy(far, near, to, mad); };
  far.peer = [&](MemoryTransport&, const Address& to, ConstBytes mad) { lossy(near, far, to, mad); };
  auto serving = server->start(serve(*server));
  auto hearing = client->start(hear(50));
  for (std::uint16_t i = 0; i < 50; ++i) {
    server->handle_packet(far.now, at(20), request<MgmtClass::subn, Method::trap>(notice_of(i)));
    for (Instant next; reports.size() <= i && (next = settle()) != never;) near.now = std::max(near.now, next);
    ASSERT_EQ(reports.size(), i + 1U);
    EXPECT_EQ(reports.back().notice, notice_of(i));
  }
  EXPECT_EQ(list.size(), 1U);
  EXPECT_GT(server->counters().resent, 0U);
}

TEST_F(Told, DropsWhoNeverAnswers) {
  answers = false;
  go_while(serve(*server), subscribe(everything()));
  const auto after = [&](std::uint16_t number) {
    auto telling = server->start(report(*server, list, notice_of(number), issuer_gid));
    for (Instant next; !telling.done() && (next = settle()) != never;) near.now = std::max(near.now, next);
    return telling.take();
  };
  auto hearing = client->start(hear(99));
  EXPECT_EQ(after(1) + after(2), 0U);
  answers = true;
  EXPECT_EQ(after(3), 1U) << "it is there again";
  answers = false;
  EXPECT_EQ(after(4) + after(5), 0U);
  const std::uint32_t id = list.all().at(0).id;
  ASSERT_TRUE(list.begin_report(id));
  list.end_report(id, Fault::cancelled);
  EXPECT_EQ(list.all()[0].unanswered, 2U) << "what ended here says nothing";
  EXPECT_EQ(list.size(), 1U);
  EXPECT_EQ(after(6), 0U);
  EXPECT_EQ(list.size(), 0U);
  EXPECT_EQ(list.counters().unanswered, 5U);
  EXPECT_EQ(list.counters().dropped, 1U);
  EXPECT_EQ(server->counters().resent, 5U * 2) << "each with its retries";
  EXPECT_EQ(after(7), 0U);
  EXPECT_EQ(list.counters().reported, 7U) << "nobody is left to be told";
}

TEST_F(Told, BoundsWhatIsUnderWayToOne) {
  set(list, at(1), everything());
  set(list, at(7), everything());  // nobody is there
  Scope telling(server->executor(), {.on_error = OnError::keep});
  for (std::uint16_t i = 0; i < 20; ++i) telling.spawn(report(*server, list, notice_of(i), issuer_gid));
  settle();
  EXPECT_EQ(list.all()[0].reports, 16U);
  EXPECT_EQ(list.all()[1].reports, 16U);
  EXPECT_EQ(list.counters().missed, 2U * 4);
  EXPECT_EQ(server->transactor().open_count(), 32U);
  telling.cancel();
  settle();
  EXPECT_EQ(telling.children(), 0U);
  EXPECT_EQ(list.all()[0].reports, 0U);
  EXPECT_EQ(list.all()[1].unanswered, 0U) << "what ended here is not held against it";
  EXPECT_EQ(server->transactor().open_count(), 0U);
}

TEST(MadSubscriptions, ReportToWhereTheyWereAskedFor) {
  Subscriptions list({.response_time_max = 18});
  Address from = at(5, 33);
  from.sl = 3;
  from.pkey = 0x8001;
  from.grh = Grh{.gid = Gid{7}, .hop_limit = 2};
  set(list, from, everything().set(InformInfo::resp_time_value, 31));
  const auto path = list.begin_report(list.all().at(0).id);
  ASSERT_TRUE(path);
  from.grh->hop_limit = 255;
  EXPECT_EQ(path->address, from);
  EXPECT_EQ(path->response_time, 18) << "of hours that were asked for";
  EXPECT_FALSE(path->timeout);
  EXPECT_FALSE(list.begin_report(99));
}

TEST(MadSubscriptions, TakeAnyOctets) {
  Rng rng(6);
  Subscriptions list({.most = 50});
  std::size_t answered = 0;
  for (int i = 0; i < 3000; ++i) {
    Datagram mad = set_of(everything());
    if (rng.below(3) == 0) mad = request<MgmtClass::subn_adm, Method::get_table>(InformInfoRecord{});
    for (std::size_t left = rng.below(6); left > 0; --left) {
      const std::size_t place = rng.below(2) == 0 ? rng.below(24) : 36 + rng.below(80);
      mad[place] = static_cast<std::uint8_t>(rng.next());
    }
    const std::size_t size = rng.below(4) == 0 ? rng.below(257) : mad.size();
    const Bytes reply = list.answer(at(static_cast<std::uint16_t>(1 + rng.below(9))), {}, ConstBytes(mad).first(size));
    EXPECT_TRUE(reply.empty() || (reply[3] & 0x80) != 0);
    answered += reply.empty() ? 0 : 1;
  }
  EXPECT_GT(answered, 1000U);
  EXPECT_EQ(list.size(), 50U);
}

TEST(MadSubscriptions, ReportsThatAreCutAreNone) {
  EXPECT_FALSE(parse_report(Bytes(56 + 79)));
  EXPECT_TRUE(parse_report(Bytes(56 + 80)));
}

}  // namespace
}  // namespace subscriptions_test
}  // namespace parley::mad
