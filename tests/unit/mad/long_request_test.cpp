// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Requests that come in segments at the side that answers (IBA §13.6.3.3): put together, answered, bounded, and refused where they
// break RMPP's rules.
#include <gtest/gtest.h>

#include "base/rng.hpp"
#include "mad/serve.hpp"
#include "tests/unit/mad/two_ports.hpp"

namespace parley::mad {
namespace long_request_test {
namespace {

using namespace wire::mad;
namespace flags = rmpp_flags;

constexpr std::size_t head = rmpp::header_octets, fixed = 24;  // of a MultiPathRecord: octets in front of the GIDs

std::vector<Gid> gids_of(std::size_t count) {
  std::vector<Gid> out(count);
  for (std::size_t i = 0; i < count; ++i) write_bits(out[i], 0, 64, i * 0x9E3779B97F4A7C15);
  return out;
}
Bytes octets_of(const std::vector<Gid>& gids) {
  Bytes out;
  for (const Gid& gid : gids) out.insert(out.end(), gid.begin(), gid.end());
  return out;
}

/// Answers each GetMulti with `paths`, or with `status`, by one datagram.
struct Multi : TwoPorts {
  std::vector<Bytes> asked;
  std::vector<PathRecord> paths;
  std::uint16_t status = 0;
  std::vector<Gid> gids;

  explicit Multi(const PortOptions& options = {}) : TwoPorts(options) {}

  Task<> serve(Port& on) {
    while (const auto request = co_await on.next_request()) {
      asked.push_back(request->mad);
      const auto parsed = parse_request(request->mad);
      EXPECT_TRUE(parsed && parsed->method == Method::get_multi && parsed->attribute == MultiPathRecord::attribute);
      Bytes records;
      for (const PathRecord& path : paths) records.insert(records.end(), path.octets().begin(), path.octets().end());
      const Bytes table = table_reply(request->mad, records, PathRecord::size);
      const auto error = error_reply(request->mad, status);
      EXPECT_TRUE(on.post(request->from, status == 0 ? ConstBytes(table) : ConstBytes(*error)));
    }
  }
  auto ask(std::size_t count) {
    gids = gids_of(count);
    Query<MultiPathRecord> query;
    query.set(MultiPathRecord::sgid_count, static_cast<std::uint8_t>(count));
    return go_while(serve(*server), client->sa_get_multi(Path::by_lid(server_lid), query, gids));
  }
  /// What the server has to say.
  std::vector<Bytes> said() {
    std::vector<Bytes> out;
    while (const Packet* packet = server->poll_packet()) {
      out.emplace_back(packet->mad.begin(), packet->mad.end());
      server->packet_sent(far.now);
    }
    return out;
  }
  std::vector<Bytes> hear(const Datagram& mad, const Address& from = Path::by_lid(1).address) {
    server->handle_packet(far.now, from, mad);
    return said();
  }
};

/// A segment of a GetMulti, as its sender makes it.
struct SegmentOptions {
  std::uint8_t flags = flags::active | flags::first;
  std::uint32_t data2 = 0;
  std::uint64_t tid = 7;
  RmppType type = RmppType::data;
  std::uint8_t status = 0, version = 1;
};
Datagram segment(std::uint32_t number, const SegmentOptions& options = {}) {
  Datagram out = request<MgmtClass::subn_adm, Method::get_multi>(MultiPathRecord{}, {.transaction_id = options.tid});
  RmppHeader header = *RmppHeader::parse(out);
  header.set(RmppHeader::rmpp_version, options.version)
      .set(RmppHeader::rmpp_type, options.type)
      .set(RmppHeader::rmpp_flags, options.flags)
      .set(RmppHeader::rmpp_status, static_cast<RmppStatus>(options.status))
      .set(RmppHeader::data1, number)
      .set(RmppHeader::data2, options.data2)
      .emit(out);
  out[200] = static_cast<std::uint8_t>(number);
  return out;
}
constexpr std::uint8_t only = flags::active | flags::first | flags::last, last = flags::active | flags::last,
                       middle = flags::active;

/// "ABORT 119" of one datagram; "" of none.
std::string word_of(const std::vector<Bytes>& said) {
  if (said.size() != 1) return said.empty() ? "" : std::to_string(said.size()) + " datagrams";
  const RmppHeader header = *RmppHeader::parse(said[0]);
  EXPECT_EQ(said[0][3], 0x94) << "the method of the answer";
  constexpr std::string_view types[] = {"?", "DATA", "ACK", "STOP", "ABORT"};
  const RmppType type = header.get(RmppHeader::rmpp_type);
  const std::uint64_t number = type == RmppType::ack ? header.get(RmppHeader::data1)
                                                     : static_cast<std::uint64_t>(header.get(RmppHeader::rmpp_status));
  return std::string(types[static_cast<std::size_t>(type) % 5]) + " " + std::to_string(number);
}

// 11 GIDs are 200 octets with what is in front of them: the last of one segment.
TEST_F(Multi, GivesARequestInSegmentsAsOne) {
  for (const std::size_t count : {0, 1, 10, 11, 12, 23, 24, 200, 4000}) {
    asked.clear();
    paths.assign(count / 2, PathRecord().set(PathRecord::dlid, static_cast<std::uint16_t>(count + 1)));
    const auto got = ask(count);
    ASSERT_TRUE(got) << got.error().dump();
    EXPECT_EQ(*got, paths);
    ASSERT_EQ(asked.size(), 1U) << count;
    ASSERT_EQ(asked[0].size(), head + fixed + 16 * count);
    EXPECT_EQ(Bytes(asked[0].begin() + head + fixed, asked[0].end()), octets_of(gids));
  }
  EXPECT_EQ(client->counters().resent, 0U);
  EXPECT_EQ(server->counters().unexpected + server->counters().unasked + server->counters().unfinished, 0U);
  near.now += 11s;  // the ACK of the last segment is told for 10 s
  settle();
  EXPECT_EQ(server->next_deadline(), never);
}

TEST_F(Multi, SaysThatTheOtherSideTakesNoRequestSoLong) {
  const auto got = ask(5000);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().fault(), Fault::rmpp) << got.error().dump();
  EXPECT_TRUE(asked.empty());
}

struct MultiBelow : PortTest {};

TEST_F(MultiBelow, GoesWholeWhereTheTransportDoesRmpp) {
  transport.facts_.rmpp = true;
  transport.peer = [](MemoryTransport& t, const Address& to, ConstBytes mad) {
    t.deliver(to, table_of<PathRecord>(mad, {PathRecord().set(PathRecord::dlid, 9)}));
  };
  const std::vector<Gid> gids = gids_of(40);
  const auto got = go(port().sa_get_multi(Path::by_lid(server_lid), Query<MultiPathRecord>(), gids));
  ASSERT_TRUE(got) << got.error().dump();
  ASSERT_EQ(got->size(), 1U);
  EXPECT_EQ(got->front().get(PathRecord::dlid), 9);
  ASSERT_EQ(transport.log.size(), 1U);
  EXPECT_EQ(transport.log[0].second.size(), head + fixed + 16 * gids.size());
}

TEST_F(Multi, AnswersItWithAStatus) {
  status = 0x0600;
  for (const std::size_t count : {1, 300}) {
    const auto got = ask(count);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().fault(), Fault::class_status) << got.error().dump();
    EXPECT_EQ(got.error().status(), status);
    EXPECT_EQ(got.error().tries(), 1U);
    EXPECT_EQ(RmppHeader::parse(far.log.back().second)->get(RmppHeader::rmpp_flags), 0) << "one datagram, without RMPP";
  }
}

// The ACKs say that each segment came, so a request is given once, whatever is lost of it.
TEST_F(Multi, PutsItTogetherThroughLossDoublesAndDisorder) {
  Rng rng(11);
  const auto badly = [&](MemoryTransport& there, MemoryTransport& here, const Address& to, ConstBytes mad) {
    if (rng.below(20) == 0) return;
    const int copies = rng.below(20) == 0 ? 2 : 1;
    for (int i = 0; i < copies; ++i) carry(there, here, to, mad, Duration(10us) * (1 + rng.below(20)));
  };
  near.peer = [&](MemoryTransport&, const Address& to, ConstBytes mad) { badly(far, near, to, mad); };
  far.peer = [&](MemoryTransport&, const Address& to, ConstBytes mad) { badly(near, far, to, mad); };
  std::size_t good = 0;
  for (int i = 0; i < 100; ++i) {
    asked.clear();
    const std::size_t count = 1 + rng.below(700);
    paths.assign(rng.below(60), PathRecord().set(PathRecord::dlid, static_cast<std::uint16_t>(i + 1)));
    const auto got = ask(count);
    for (const Bytes& each : asked) {
      ASSERT_EQ(each.size(), head + fixed + 16 * count);
      EXPECT_EQ(Bytes(each.begin() + head + fixed, each.end()), octets_of(gids));
    }
    EXPECT_FALSE(asked.empty());
    if (got) {
      EXPECT_EQ(*got, paths);
    }
    good += got ? 1 : 0;
  }
  EXPECT_GE(good, 95U) << "a loss is made good";
  for (Instant next; (next = settle()) != never;) near.now = next;
  EXPECT_EQ(client->transactor().open_count(), 0U);
}

struct Lie {
  const char* what;
  std::vector<Datagram> segments;
  const char* answer;  // to the last of them
};

// IBA §13.6.2.1, §13.6.2.
TEST_F(Multi, RefusesWhatBreaksTheRulesWithItsStatus) {
  const SegmentOptions first{.data2 = 450 + 60}, unsaid{};
  const auto data = [](std::uint8_t flags, std::uint32_t data2 = 0) {
    return SegmentOptions{.flags = flags, .data2 = data2};
  };
  const std::vector<Lie> lies = {
      {"version 2", {segment(1, {.version = 2})}, "ABORT 125"},
      {"version 2, later", {segment(1, first), segment(2, {.flags = middle, .version = 2})}, "ABORT 125"},
      {"type 5", {segment(1, {.type = static_cast<RmppType>(5)})}, "ABORT 121"},
      {"type 0, later",
       {segment(1, first), segment(2, {.flags = middle, .type = static_cast<RmppType>(0)})},
       "ABORT 121"},
      {"a status", {segment(1, {.status = 1})}, "ABORT 124"},
      {"segment 0", {segment(0)}, "ABORT 120"},
      {"segment 1 is not the first", {segment(1, data(middle))}, "ABORT 120"},
      {"segment 2 is the first", {segment(2)}, "ABORT 120"},
      {"segment 2 is the first, later", {segment(1, first), segment(2)}, "ABORT 120"},
      {"segment 0, later", {segment(1, first), segment(0, data(middle))}, "ABORT 120"},
      {"one that is longer than a segment", {segment(1, data(only, 221))}, "ABORT 119"},
      {"one that is shorter than its header", {segment(1, data(only, 19))}, "ABORT 119"},
      {"the last is longer than a segment", {segment(1, unsaid), segment(2, data(last, 221))}, "ABORT 119"},
      {"shorter than was said", {segment(1, first), segment(2, data(last, 70))}, "ABORT 119"},
      {"the last has other octets",
       {segment(1, first), segment(2, data(middle)), segment(3, data(last, 71))},
       "ABORT 119"},
      {"longer than was said", {segment(1, first), segment(2, data(middle)), segment(3, data(middle))}, "ABORT 119"},
      {"the first alone is longer than was said", {segment(1, {.data2 = 200})}, "ABORT 119"},
      {"64 KiB and more were said", {segment(1, {.data2 = (64 << 10) + 328 * 20 + 1})}, "STOP 1"},
  };
  for (const Lie& lie : lies) {
    std::vector<Bytes> answer;
    for (const Datagram& each : lie.segments) answer = hear(each);
    EXPECT_EQ(word_of(answer), lie.answer) << lie.what;
    EXPECT_EQ(server->next_deadline(), never) << lie.what << ": nothing of it is left";
    EXPECT_FALSE(server->transactor().has_request()) << lie.what;
  }
  EXPECT_EQ(server->counters().unfinished, lies.size());
  // The same without a lie is a request.
  hear(segment(1, first));
  hear(segment(2, data(middle)));
  EXPECT_EQ(word_of(hear(segment(3, data(last, 70)))), "ACK 3");
  EXPECT_TRUE(server->transactor().has_request());
}

TEST_F(Multi, PassesOverWhatIsOfNoRequest) {
  EXPECT_EQ(word_of(hear(segment(2, {.flags = middle}))), "") << "the end of one that is over";
  EXPECT_EQ(word_of(hear(segment(1, {.type = RmppType::abort, .status = 118}))), "");
  EXPECT_EQ(word_of(hear(segment(0, {.type = RmppType::ack, .version = 3}))), "") << "nothing answers an ACK";
  EXPECT_EQ(server->counters().unexpected, 3U);
  EXPECT_EQ(server->next_deadline(), never);
}

TEST_F(Multi, ForgetsOneThatItsSenderGivesUp) {
  EXPECT_EQ(word_of(hear(segment(1))), "ACK 1");
  EXPECT_EQ(word_of(hear(segment(0, {.flags = middle, .type = RmppType::abort, .status = 126}))), "");
  EXPECT_EQ(server->next_deadline(), never);
  EXPECT_EQ(server->counters().unfinished, 1U);
  EXPECT_EQ(word_of(hear(segment(2, {.flags = last, .data2 = 30}))), "");
  EXPECT_FALSE(server->transactor().has_request());
}

TEST_F(Multi, BoundsHowManyComeAtATime) {
  for (std::uint64_t tid = 1; tid <= 64; ++tid) EXPECT_EQ(word_of(hear(segment(1, {.tid = tid}))), "ACK 1");
  EXPECT_EQ(word_of(hear(segment(1, {.tid = 65}))), "STOP 1");
  EXPECT_EQ(word_of(hear(segment(1, {.flags = only, .data2 = 44, .tid = 66}))), "ACK 1") << "all of one needs no place";
  EXPECT_TRUE(server->transactor().has_request());
  far.now += 20s;
  EXPECT_EQ(word_of(hear(segment(2, {.flags = last, .data2 = 44, .tid = 64}))), "ACK 2") << "those under way go on";
  far.now += 20s;  // IBA §13.6.3.2: the total time
  server->handle_deadline(far.now);
  const auto told = said();
  EXPECT_EQ(told.size(), 63U);
  for (const Bytes& each : told) EXPECT_EQ(word_of({each}), "ABORT 118");
  EXPECT_EQ(server->counters().unfinished, 64U);
  EXPECT_EQ(server->next_deadline(), never);
  EXPECT_EQ(word_of(hear(segment(1, {.tid = 67}))), "ACK 1");
}

TEST_F(Multi, BoundsHowLongOneMayBe) {
  hear(segment(1));  // says nothing of its length
  std::string answer;
  std::uint32_t number = 1;
  while (answer.rfind("STOP", 0) != 0 && number < 1000) {
    const std::string word = word_of(hear(segment(++number, {.flags = middle})));
    if (!word.empty()) answer = word;
  }
  EXPECT_EQ(answer, "STOP 1");
  EXPECT_EQ(number, 328U) << "the first that would be beyond 64 KiB";
  EXPECT_EQ(server->next_deadline(), never);
}

TEST_F(Multi, BoundsWhatNobodyTakes) {
  for (std::uint64_t tid = 1; tid <= 256; ++tid) hear(segment(1, {.flags = only, .data2 = 44, .tid = tid}));
  EXPECT_EQ(word_of(hear(segment(1, {.flags = only, .data2 = 44, .tid = 300}))), "") << "it is sent again";
  EXPECT_EQ(server->counters().unasked, 1U);
}

TEST_F(Multi, TellsTheEndOfThoseThatEndedLastForTenSeconds) {
  std::size_t given = 0;
  auto take = [&](Port& port) -> Task<> {
    while (co_await port.next_request()) ++given;
  };
  auto serving = server->start(take(*server));
  const auto ask_whole = [&](std::uint64_t tid) {
    const std::string word = word_of(hear(segment(1, {.flags = only, .data2 = 44, .tid = tid})));
    server->run(far.now);
    return word;
  };
  for (std::uint64_t tid = 1; tid <= 400; ++tid) EXPECT_EQ(ask_whole(tid), "ACK 1");
  EXPECT_EQ(given, 400U);
  for (std::uint64_t tid = 400 - 255; tid <= 400; ++tid) EXPECT_EQ(ask_whole(tid), "ACK 1");
  EXPECT_EQ(given, 400U) << "they came twice";
  server->handle_deadline(far.now += 10s);
  EXPECT_TRUE(said().empty());
  EXPECT_EQ(server->next_deadline(), never);
}

// Two programs of one port may use the same lower half: Linux gives them the upper one.
TEST_F(Multi, TellsAskersOfOnePortApart) {
  const std::uint64_t one = 7, other = one | std::uint64_t{1} << 32;
  Address queue_pair = Path::by_lid(1).address;
  queue_pair.qpn = 17;
  EXPECT_EQ(word_of(hear(segment(1, {.tid = one}))), "ACK 1");
  EXPECT_EQ(word_of(hear(segment(1, {.tid = other}))), "ACK 1");
  EXPECT_EQ(word_of(hear(segment(1, {.tid = one}), queue_pair)), "ACK 1");
  EXPECT_EQ(word_of(hear(segment(2, {.flags = last, .data2 = 44, .tid = other}))), "ACK 2");
  EXPECT_EQ(word_of(hear(segment(2, {.flags = last, .data2 = 45, .tid = one}))), "ACK 2");
  auto serving = server->start(serve(*server));
  paths.resize(50);
  server->run(far.now);
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_EQ(asked[0].size(), head + 200 + 24);
  EXPECT_EQ(asked[1].size(), head + 200 + 25);
  EXPECT_EQ(said().size(), 2U) << "the first segment of each one's answer";
}

// IBA §13.6.3.3: the ACK of segment 0 gives the turn and the window.
TEST_F(Multi, BeginsTheAnswerWithTheWindowThatCameWithTheTurn) {
  hear(segment(1, {.flags = only, .data2 = 44}));
  EXPECT_EQ(word_of(hear(segment(0, {.data2 = 9, .type = RmppType::ack}))), "");
  EXPECT_EQ(server->counters().unexpected, 0U);
  paths.resize(200);
  auto serving = server->start(serve(*server));
  server->run(far.now);
  EXPECT_EQ(said().size(), 9U);
  // Of the answer: a window that is smaller than what it acknowledges.
  EXPECT_EQ(
      RmppHeader::parse(hear(segment(8, {.data2 = 3, .type = RmppType::ack})).at(0))->get(RmppHeader::rmpp_status),
      RmppStatus::window_too_small);
}

TEST_F(Multi, TakesNoneWhereNobodyServes) {
  Port deaf(far.facts(), far.local());
  deaf.handle_packet({}, Path::by_lid(1).address, segment(1));
  EXPECT_EQ(deaf.poll_packet(), nullptr);
  EXPECT_EQ(deaf.counters().unasked, 1U);
  EXPECT_EQ(deaf.next_deadline(), never);
}

// What has the flag and nothing else of RMPP went over a simulator that cuts it: one datagram.
TEST_F(Multi, GivesOneThatWasCutAsItIs) {
  EXPECT_TRUE(hear(segment(0, {.flags = flags::active, .type = static_cast<RmppType>(0), .version = 0})).empty());
  EXPECT_TRUE(server->transactor().has_request());
}

/// Any segments at any time: nothing is given that did not come whole, and nothing is left.
TEST_F(Multi, TakesAnySegments) {
  Rng rng(5);
  std::size_t given = 0;
  auto take = [&](Port& port) -> Task<> {
    while (const auto request = co_await port.next_request()) {
      ++given;
      EXPECT_LE(request->mad.size(), head + 200 * 7);
      EXPECT_TRUE(parse_request(request->mad));
    }
  };
  auto serving = server->start(take(*server));
  for (int i = 0; i < 20000; ++i) {
    const auto number = static_cast<std::uint32_t>(rng.below(7));
    SegmentOptions options{.flags = static_cast<std::uint8_t>(flags::active | (number == 1 ? flags::first : 0)),
                           .tid = rng.below(100)};
    if (rng.below(3) == 0) options.flags |= flags::last;
    if ((options.flags & flags::last) != 0) options.data2 = static_cast<std::uint32_t>(20 + rng.below(201));
    if (rng.below(10) == 0) options.data2 = static_cast<std::uint32_t>(rng.below(1400));
    if (rng.below(20) == 0) options.type = static_cast<RmppType>(rng.below(6));
    if (rng.below(50) == 0) options.version = static_cast<std::uint8_t>(1 + rng.below(3));
    if (rng.below(50) == 0) options.status = static_cast<std::uint8_t>(rng.below(256));
    EXPECT_LE(hear(segment(number, options)).size(), 1U);
    server->run(far.now);
    if (rng.below(100) == 0) {
      server->handle_deadline(far.now += Duration(1s) * rng.below(10));
      said();
    }
  }
  EXPECT_GT(given, 100U);
  for (Instant next; (next = server->next_deadline()) != never; said()) server->handle_deadline(far.now = next);
}

}  // namespace
}  // namespace long_request_test
}  // namespace parley::mad
