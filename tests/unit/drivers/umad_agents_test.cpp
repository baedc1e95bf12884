// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a program behind `parley fabric run` gets from its umad files, as from Linux's: agents, transaction IDs, time limits, and RMPP
// that the kernel does.
#include "drivers/umad_preload/agents.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "base/bits.hpp"
#include "tests/unit/printing.hpp"

namespace parley::umad::umad_agents_test {
namespace {

using namespace std::chrono_literals;
using mad::rmpp::Outcome;

constexpr std::uint8_t subn = 0x01, adm = 0x03, performance = 0x04, vendor = 0x4F, directed = 0x81;  // classes
constexpr std::uint8_t get = 0x01, get_table = 0x12, trap_repress = 0x07, response = 0x80;
constexpr Instant start = Instant{} + 1s;

Bytes mad_of(std::uint8_t mgmt_class, std::uint8_t method, std::uint64_t tid = 1, std::size_t octets = 256) {
  Bytes out(octets);
  out[0] = 1;
  out[1] = mgmt_class;
  out[2] = mgmt_class == adm ? 2 : 1;
  out[3] = method;
  write_bits(out, 64, 64, tid);
  for (std::size_t i = 64; i < octets; ++i) out[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  return out;
}
std::uint64_t tid_of(ConstBytes mad) { return read_bits(mad, 64, 64); }

Header header_of(std::uint32_t agent, std::uint32_t timeout_ms = 0, std::uint32_t retries = 0) {
  Header out{};
  out.agent = agent;
  out.timeout_ms = timeout_ms;
  out.retries = retries;
  out.lid = {0, 9};
  out.qpn = {0, 0, 0, 1};
  return out;
}

Registration of_class(std::uint8_t mgmt_class, std::initializer_list<unsigned> methods = {}, std::uint8_t rmpp = 0) {
  Registration out{.qpn = 1, .mgmt_class = mgmt_class, .class_version = 1, .rmpp_version = rmpp};
  if (mgmt_class == adm) out.class_version = 2;
  for (const unsigned method : methods) out.methods.at(method / 32) |= 1U << method % 32;
  return out;
}

/// As the node at LID 5 says it.
ibsim::Data from_peer(ConstBytes mad) {
  ibsim::Data out{};
  out.slid = {0, 5, 0, 0};
  out.sqp = {0, 0, 2, 1};
  out.dqp = {0, 0, 0, 1};
  std::copy_n(mad.begin(), 256, out.mad.begin());
  return out;
}
ibsim::Data answer_to(const ibsim::Data& request) {
  ibsim::Data out = from_peer(request.mad);
  out.mad[3] |= response;
  return out;
}

class UmadAgents : public testing::Test {
 protected:
  UmadAgents() { agents.set_client(7); }
  std::vector<ibsim::Data> sent() {
    std::vector<ibsim::Data> out;
    for (ibsim::Data one{}; agents.poll_transmit(one);) out.push_back(one);
    return out;
  }
  /// The only one that was sent.
  ibsim::Data one_sent() {
    const auto all = sent();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? ibsim::Data{} : all.front();
  }
  std::optional<Received> read(File& from) {
    if (from.queue.empty()) return std::nullopt;
    Received out = from.queue.front();
    from.queue.pop_front();
    return out;
  }
  Agents agents;
  File file, other;
};

TEST_F(UmadAgents, IdsAreAFilesOwnAndUsedAgain) {
  EXPECT_EQ(agents.add(file, of_class(adm)), 0U);
  EXPECT_EQ(agents.add(file, of_class(performance)), 1U);
  EXPECT_EQ(agents.add(other, of_class(adm)), 0U);
  EXPECT_TRUE(agents.remove(file, 0));
  EXPECT_FALSE(agents.remove(file, 0));
  EXPECT_FALSE(agents.remove(file, 2));
  EXPECT_FALSE(agents.remove(file, File::agents_max));
  EXPECT_EQ(agents.add(file, of_class(adm)), 0U);
  for (std::uint32_t id = 2; id < File::agents_max; ++id) EXPECT_EQ(agents.add(file, of_class(adm)), id);
  EXPECT_FALSE(agents.add(file, of_class(adm))) << "a file has 32 agents at most";
  agents.close(file);
  EXPECT_EQ(agents.write(start, file, header_of(31), mad_of(adm, get)), EINVAL);
  EXPECT_EQ(agents.write(start, other, header_of(0), mad_of(adm, get)), 0) << "the other file's is still there";
}

TEST_F(UmadAgents, ARequestGetsTheKernelsHalfOfItsTransactionId) {
  ASSERT_TRUE(agents.add(other, of_class(adm)) && agents.add(file, of_class(performance)));
  constexpr std::uint64_t tid = 0x1122334455667788, whole = 0x0007000155667788;
  EXPECT_EQ(agents.write(start, file, header_of(0), mad_of(performance, get, tid)), 0);
  const auto request = one_sent();
  EXPECT_EQ(tid_of(request.mad), whole) << "client 7, the second agent, and the program's lower half";
  EXPECT_EQ(Bytes(request.mad.begin() + 16, request.mad.end()), [&] {
    const Bytes m = mad_of(performance, get, tid);
    return Bytes(m.begin() + 16, m.end());
  }());
  for (const std::uint8_t method : {std::uint8_t{get | response}, trap_repress}) {
    EXPECT_EQ(agents.write(start, file, header_of(0), mad_of(performance, method, tid)), 0);
    EXPECT_EQ(tid_of(one_sent().mad), tid) << "an answer has the one of who asked";
  }
}

TEST_F(UmadAgents, WhereToIsWhatTheProgramSays) {
  ASSERT_TRUE(agents.add(file, of_class(adm)));
  EXPECT_EQ(agents.write(start, file, header_of(0), mad_of(adm, get)), 0);
  const auto by_lid = one_sent();
  EXPECT_EQ(by_lid.dlid, (std::array<std::uint8_t, 4>{0, 9, 0, 0}));
  EXPECT_EQ(by_lid.slid, (std::array<std::uint8_t, 4>{}));
  EXPECT_EQ(by_lid.dqp, (std::array<std::uint8_t, 4>{0, 0, 0, 1}));
  EXPECT_EQ(by_lid.sqp, (std::array<std::uint8_t, 4>{0, 0, 0, 1}));
  Header permissive = header_of(0);
  permissive.lid = {0xFF, 0xFF};
  permissive.qpn = {};
  for (const std::uint8_t smp : {subn, directed}) {
    EXPECT_EQ(agents.write(start, file, permissive, mad_of(smp, get)), 0);
    const auto data = one_sent();
    EXPECT_EQ(data.dlid, (std::array<std::uint8_t, 4>{0xFF, 0xFF, 0, 0}));
    EXPECT_EQ(data.slid, (std::array<std::uint8_t, 4>{0xFF, 0xFF, 0, 0}));
    EXPECT_EQ(data.dqp, (std::array<std::uint8_t, 4>{}));
    EXPECT_EQ(data.sqp, (std::array<std::uint8_t, 4>{})) << "QP0";
  }
  permissive.lid = {0xFF, 0xFE};
  EXPECT_EQ(agents.write(start, file, permissive, mad_of(subn, get)), 0);
  EXPECT_EQ(one_sent().slid, (std::array<std::uint8_t, 4>{}));
}

TEST_F(UmadAgents, WhatIsNoMadIsRefused) {
  ASSERT_TRUE(agents.add(file, of_class(performance)));
  const auto write = [&](std::uint32_t agent, std::size_t octets) {
    return agents.write(start, file, header_of(agent), mad_of(performance, get, 1, octets));
  };
  EXPECT_EQ(write(1, 256), EINVAL) << "no such agent";
  EXPECT_EQ(write(File::agents_max, 256), EINVAL);
  EXPECT_EQ(write(0, 23), EINVAL);
  EXPECT_EQ(write(0, 257), EINVAL) << "longer than a MAD, without RMPP";
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(write(0, 24), 0);
  const auto padded = one_sent();
  EXPECT_TRUE(std::all_of(padded.mad.begin() + 24, padded.mad.end(), [](std::uint8_t octet) { return octet == 0; }));
  EXPECT_EQ(write(0, 256), 0);
}

TEST_F(UmadAgents, AnAnswerReachesWhoAskedOnce) {
  ASSERT_TRUE(agents.add(other, of_class(adm)) && agents.add(file, of_class(adm)) && agents.add(file, of_class(adm)));
  EXPECT_EQ(agents.write(start, file, header_of(1, 100), mad_of(adm, get, 0x42)), 0);
  const auto answer = answer_to(one_sent());
  agents.handle(start + 1ms, answer);
  agents.handle(start + 1ms, answer);
  const auto got = read(file);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->header.agent, 1U);
  EXPECT_EQ(got->header.status, 0U);
  EXPECT_EQ(got->header.length, 64U + 256U);
  EXPECT_EQ(got->header.lid, (std::array<std::uint8_t, 2>{0, 5}));
  EXPECT_EQ(got->header.qpn, (std::array<std::uint8_t, 4>{0, 0, 2, 1}));
  EXPECT_EQ(got->mad, Bytes(answer.mad.begin(), answer.mad.end()));
  EXPECT_FALSE(read(file)) << "a second one was not asked for";
  EXPECT_FALSE(read(other));
  EXPECT_EQ(agents.next_deadline(), never);
}

TEST_F(UmadAgents, WhatNobodyAskedForIsDropped) {
  ASSERT_TRUE(agents.add(file, of_class(adm)) && agents.add(file, of_class(adm)));
  EXPECT_EQ(agents.write(start, file, header_of(0), mad_of(adm, get)), 0);
  agents.handle(start, answer_to(one_sent()));  // the program does not wait: no time limit
  EXPECT_EQ(agents.write(start, file, header_of(0, 100), mad_of(adm, get)), 0);
  auto answer = answer_to(one_sent());
  auto undelivered = answer;
  undelivered.status = {0, 0, 0, 110};
  agents.handle(start, undelivered);  // its own, come back
  auto foreign = answer;
  write_bits(foreign.mad, 64, 32, std::uint32_t{7} << 16 | 2);  // an agent that is not there
  agents.handle(start, foreign);
  foreign = answer;
  foreign.mad[1] = performance;
  agents.handle(start, foreign);
  EXPECT_FALSE(read(file));
  agents.handle(start, answer);
  EXPECT_TRUE(read(file));
  EXPECT_EQ(agents.write(start, file, header_of(1, 100), mad_of(adm, get)), 0);
  answer = answer_to(one_sent());
  EXPECT_TRUE(agents.remove(file, 1));
  agents.handle(start, answer);
  EXPECT_FALSE(read(file));
  EXPECT_EQ(agents.next_deadline(), never) << "the request went with its agent";
}

TEST_F(UmadAgents, OneTransactionAtATime) {
  ASSERT_TRUE(agents.add(file, of_class(adm)));
  EXPECT_EQ(agents.write(start, file, header_of(0, 100), mad_of(adm, get, 1)), 0);
  const auto first = one_sent();
  EXPECT_EQ(agents.write(start, file, header_of(0, 100), mad_of(adm, get, 1)), EINVAL);
  EXPECT_EQ(agents.write(start, file, header_of(0, 100), mad_of(performance, get, 1)), 0) << "of another class";
  EXPECT_EQ(agents.write(start, file, header_of(0, 100), mad_of(adm, get, 2)), 0);
  agents.handle(start, answer_to(first));
  EXPECT_EQ(agents.write(start, file, header_of(0, 100), mad_of(adm, get, 1)), 0);
}

TEST_F(UmadAgents, ARequestIsRepeatedAndGivenUp) {
  ASSERT_TRUE(agents.add(other, of_class(adm)) && agents.add(file, of_class(adm)) && agents.add(file, of_class(adm)));
  const Bytes request = mad_of(adm, get, 0x42);
  EXPECT_EQ(agents.write(start, file, header_of(1, 100, 2), request), 0);
  const auto first = one_sent();
  for (const auto tried : {100ms, 200ms}) {
    EXPECT_EQ(agents.next_deadline(), start + tried);
    agents.handle_deadline(start + tried - 1ms);
    EXPECT_TRUE(sent().empty());
    agents.handle_deadline(start + tried);
    const auto again = one_sent();
    EXPECT_EQ(again.mad, first.mad);
    EXPECT_EQ(again.dlid, first.dlid);
  }
  EXPECT_FALSE(read(file));
  agents.handle_deadline(start + 300ms);
  EXPECT_TRUE(sent().empty());
  const auto told = read(file);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->header.status, static_cast<std::uint32_t>(ETIMEDOUT));
  EXPECT_EQ(told->header.agent, 1U);
  EXPECT_EQ(told->header.length, 64U + 24U);
  EXPECT_EQ(told->header.timeout_ms, 100U);
  EXPECT_EQ(told->mad, Bytes(first.mad.begin(), first.mad.begin() + 24));
  EXPECT_EQ(agents.next_deadline(), never);
  agents.handle(start + 301ms, answer_to(first));
  EXPECT_FALSE(read(file)) << "too late";
}

TEST_F(UmadAgents, ARequestOfAPeerReachesWhoRegisteredForIt) {
  ASSERT_TRUE(agents.add(file, of_class(performance, {1, 2, 64})));
  ASSERT_TRUE(agents.add(other, of_class(vendor, {1})));
  const auto reaches = [&](File& whose, std::uint8_t mgmt_class, std::uint8_t method, std::uint8_t version,
                           std::uint32_t oui = 0) {
    Bytes mad = mad_of(mgmt_class, method);
    mad[2] = version;
    write_bits(mad, 37 * 8, 24, oui);
    agents.handle(start, from_peer(mad));
    return read(whose).has_value();
  };
  EXPECT_TRUE(reaches(file, performance, 1, 1));
  EXPECT_TRUE(reaches(file, performance, 2, 1));
  EXPECT_TRUE(reaches(file, performance, 64, 1));
  EXPECT_FALSE(reaches(file, performance, 3, 1)) << "another method";
  EXPECT_FALSE(reaches(file, performance, 33, 1)) << "its bit of another word";
  EXPECT_FALSE(reaches(file, performance, 1, 2)) << "another version";
  EXPECT_FALSE(reaches(file, subn, 1, 1)) << "another class";
  EXPECT_TRUE(reaches(other, vendor, 1, 1));
  EXPECT_FALSE(reaches(other, vendor, 1, 1, 0x001405)) << "another OUI";
  agents.close(other);
  Registration mellanox = of_class(vendor, {1});
  mellanox.oui = 0x0002C9;
  ASSERT_TRUE(agents.add(other, mellanox));
  EXPECT_TRUE(reaches(other, vendor, 1, 1, 0x0002C9));
  EXPECT_FALSE(reaches(other, vendor, 1, 1));
  agents.close(file);
  EXPECT_FALSE(reaches(file, performance, 1, 1)) << "its file is closed";
}

TEST_F(UmadAgents, AFileThatNobodyReadsIsBounded) {
  ASSERT_TRUE(agents.add(file, of_class(performance, {1})));
  const auto request = from_peer(mad_of(performance, get));
  for (std::size_t i = 0; i < File::queue_max + 2; ++i) agents.handle(start, request);
  EXPECT_EQ(file.queue.size(), File::queue_max);
  EXPECT_EQ(file.dropped, 2U);
}

TEST_F(UmadAgents, RequestsThatWaitAreBounded) {
  ASSERT_TRUE(agents.add(file, of_class(performance)));
  for (std::uint32_t i = 0; i < Agents::requests_max; ++i)
    ASSERT_EQ(agents.write(start, file, header_of(0, 100), mad_of(performance, get, i)), 0);
  EXPECT_EQ(agents.write(start, file, header_of(0, 100), mad_of(performance, get, Agents::requests_max)), ENOMEM);
  EXPECT_EQ(agents.write(start, file, header_of(0), mad_of(performance, get, Agents::requests_max)), 0);
  EXPECT_EQ(sent().size(), Agents::outgoing_max) << "and what the server does not take is lost, as on a wire";
}

/// A message with `data` octets behind the headers of subnet administration.
Bytes table_of(std::size_t data, std::uint64_t tid, std::uint8_t method = get_table | response) {
  Bytes out = mad_of(adm, method, tid, mad::rmpp::header_octets + data);
  out[24] = 1;
  out[26] = 1;  // RMPP's version; it is active
  return out;
}
Bytes data_of(ConstBytes message) { return {message.begin() + mad::rmpp::header_octets, message.end()}; }

TEST_F(UmadAgents, ALongAnswerGoesInSegments) {
  ASSERT_TRUE(agents.add(file, of_class(adm, {}, 1)));
  const Bytes table = table_of(5000, 0x42);
  EXPECT_EQ(agents.write(start, file, header_of(0), table), 0);
  EXPECT_EQ(agents.write(start, file, header_of(0), table), ENOMEM) << "the same message is under way";
  EXPECT_LT(agents.next_deadline(), never);
  mad::rmpp::Receiver peer;
  std::size_t segments = 0;
  for (auto turn = sent(); !turn.empty(); turn = sent()) {
    for (const ibsim::Data& data : turn) {
      ++segments;
      EXPECT_EQ(data.dlid, (std::array<std::uint8_t, 4>{0, 9, 0, 0}));
      peer.handle(start, data.mad);
    }
    for (wire::mad::Datagram ack; peer.poll_transmit(ack);) agents.handle(start, from_peer(ack));
  }
  EXPECT_EQ(segments, 25U) << "of 200 octets each";
  EXPECT_EQ(peer.outcome(), Outcome::done);
  EXPECT_EQ(data_of(peer.message()), data_of(table));
  EXPECT_EQ(agents.next_deadline(), never);
  EXPECT_FALSE(read(file));
}

TEST_F(UmadAgents, ARequestInSegmentsHasItsTimeFromTheLastAcknowledgement) {
  constexpr std::uint8_t get_multi = 0x14;
  ASSERT_TRUE(agents.add(file, of_class(adm, {}, 1)));
  for (const bool whole : {false, true}) {
    EXPECT_EQ(agents.write(start, file, header_of(0, 100), table_of(5000, 0x42, get_multi)), 0);
    mad::rmpp::Receiver peer;
    for (auto turn = sent(); !turn.empty(); turn = sent()) {
      for (const ibsim::Data& data : turn) peer.handle(start, data.mad);
      for (wire::mad::Datagram ack; peer.poll_transmit(ack);) agents.handle(start + 60ms, from_peer(ack));
      if (!whole) break;
    }
    const auto limit = whole ? 160ms : 100ms;
    agents.handle_deadline(start + limit - 1ms);
    EXPECT_FALSE(read(file));
    agents.handle_deadline(start + limit);
    const auto told = read(file);
    ASSERT_TRUE(told);
    EXPECT_EQ(told->header.status, static_cast<std::uint32_t>(ETIMEDOUT));
    agents.close(file);
    ASSERT_TRUE(agents.add(file, of_class(adm, {}, 1)));
    sent();
  }
}

TEST_F(UmadAgents, ASegmentThatIsLostIsSentAgain) {
  ASSERT_TRUE(agents.add(file, of_class(adm, {}, 1)));
  EXPECT_EQ(agents.write(start, file, header_of(0), table_of(100, 0x42)), 0);
  const auto first = one_sent();
  const Instant due = agents.next_deadline();
  agents.handle_deadline(due - 1ms);
  EXPECT_TRUE(sent().empty());
  agents.handle_deadline(due);
  EXPECT_EQ(one_sent().mad, first.mad);
  EXPECT_TRUE(agents.remove(file, 0));
  EXPECT_EQ(agents.next_deadline(), never);
}

TEST_F(UmadAgents, SegmentsComeTogetherAsOneMessage) {
  ASSERT_TRUE(agents.add(file, of_class(adm, {}, 1)));
  EXPECT_EQ(agents.write(start, file, header_of(0, 100), mad_of(adm, get_table, 0x42)), 0);
  const Bytes table = table_of(5000, tid_of(one_sent().mad));
  auto peer = std::move(*mad::rmpp::Sender::create(table));
  peer.start(start);
  Instant now = start;
  for (bool more = true; more;) {
    now += 90ms;
    more = false;
    for (wire::mad::Datagram segment; peer.poll_transmit(segment); more = true) agents.handle(now, from_peer(segment));
    agents.handle_deadline(now + 50ms);  // what comes holds off the time limit
    for (const ibsim::Data& ack : sent()) {
      EXPECT_EQ(ack.dlid, (std::array<std::uint8_t, 4>{0, 5, 0, 0})) << "back to where it comes from";
      EXPECT_EQ(ack.dqp, (std::array<std::uint8_t, 4>{0, 0, 2, 1}));
      EXPECT_EQ(ack.sqp, (std::array<std::uint8_t, 4>{0, 0, 0, 1}));
      peer.handle(now, ack.mad);
    }
  }
  EXPECT_EQ(peer.outcome(), Outcome::done);
  const auto got = read(file);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->header.status, 0U);
  EXPECT_EQ(got->header.length, 64U + table.size());
  EXPECT_EQ(data_of(got->mad), data_of(table));
  EXPECT_FALSE(read(file));
  agents.handle_deadline(now + 1h);
  EXPECT_EQ(agents.next_deadline(), never) << "the request has its answer, and what came is forgotten";
  EXPECT_FALSE(read(file));
}

TEST_F(UmadAgents, SegmentsThatNobodyWaitsForAreDropped) {
  auto peer = std::move(*mad::rmpp::Sender::create(table_of(500, std::uint64_t{7} << 48)));
  peer.start(start);
  wire::mad::Datagram segment;
  ASSERT_TRUE(peer.poll_transmit(segment));
  agents.handle(start, from_peer(segment));
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(agents.next_deadline(), never);
}

TEST_F(UmadAgents, AProgramThatDoesRmppItselfGetsSegmentsAsTheyAre) {
  ASSERT_TRUE(agents.add(file, of_class(adm)));
  EXPECT_EQ(agents.write(start, file, header_of(0, 100), mad_of(adm, get_table, 0x42)), 0);
  const Bytes table = table_of(500, tid_of(one_sent().mad));
  auto peer = std::move(*mad::rmpp::Sender::create(table));
  peer.start(start);
  wire::mad::Datagram segment;
  ASSERT_TRUE(peer.poll_transmit(segment));
  for (int i = 0; i < 2; ++i) {
    agents.handle(start, from_peer(segment));
    const auto got = read(file);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->mad, Bytes(segment.begin(), segment.end()));
  }
  EXPECT_TRUE(sent().empty()) << "its ACK is the program's";
  EXPECT_EQ(agents.write(start, file, header_of(0), Bytes(segment.begin(), segment.end())), 0);
  EXPECT_EQ(one_sent().mad, segment) << "nor is anything changed of what it sends";
  EXPECT_EQ(agents.write(start, file, header_of(0), table), EINVAL) << "which are segments, no message";
}

}  // namespace
}  // namespace parley::umad::umad_agents_test
