// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RMPP between a sender and a receiver, without and with loss, and against what breaks the rules (IBA §13.6).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "base/rng.hpp"
#include "mad/rmpp.hpp"
#include "tests/unit/mad/seed_count.hpp"
#include "wire/mad/sa.hpp"

namespace parley::mad::rmpp {
namespace {

using wire::mad::RmppHeader;
using wire::mad::RmppType;
namespace flags = wire::mad::rmpp_flags;

constexpr std::uint8_t adm = 3, vendor = 0x4F;  // classes

Bytes message_of(std::size_t data, std::uint8_t mgmt_class = adm) {
  Bytes out(header_octets_of(mgmt_class) + data);
  out[0] = 1;
  out[1] = mgmt_class;
  out[2] = mgmt_class == adm ? 2 : 1;
  out[3] = 0x92;
  for (std::size_t i = 36; i < out.size(); ++i) out[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  return out;
}

/// What is not RMPP's own: that of the first segment and of the whole message differs.
Bytes without_rmpp(Bytes message) {
  std::fill(message.begin() + 24, message.begin() + 36, std::uint8_t{0});
  return message;
}

RmppHeader header_of(const Datagram& mad) { return *RmppHeader::parse(mad); }

template <class Machine>
std::vector<Datagram> drain(Machine& machine) {
  std::vector<Datagram> out;
  for (Datagram mad; machine.poll_transmit(mad);) out.push_back(mad);
  return out;
}

Sender sender_of(std::size_t data, const Options& options = {}, std::uint8_t mgmt_class = adm) {
  Sender sender = *Sender::create(message_of(data, mgmt_class), options);
  sender.start(Instant{});
  return sender;
}

struct Passage {
  Outcome sender, receiver;
  bool same;
  std::size_t sent = 0;
};

/// Loses `loss` of 100, doubles and reorders; time passes when nothing is under way.
Passage run(std::size_t data, std::uint64_t seed, std::uint64_t loss, const Options& options,
            std::uint8_t mgmt_class = adm) {
  Rng rng(seed);
  Sender sender = sender_of(data, options, mgmt_class);
  Receiver receiver(options);
  Instant now{};
  Passage out{};
  for (int turn = 0; turn < 100000; ++turn) {
    std::deque<std::pair<bool, Datagram>> way;
    for (const Datagram& mad : drain(sender)) way.emplace_back(true, mad), ++out.sent;
    for (const Datagram& mad : drain(receiver)) way.emplace_back(false, mad);
    if (loss != 0 && way.size() > 1 && rng.below(4) == 0) std::swap(way.front(), way.back());
    for (const auto& [to_receiver, mad] : way) {
      if (rng.below(100) < loss) continue;
      for (int copies = loss != 0 && rng.below(20) == 0 ? 2 : 1; copies > 0; --copies) {
        if (to_receiver)
          receiver.handle(now, mad);
        else
          sender.handle(now, mad);
      }
    }
    if (!way.empty()) continue;
    if (sender.outcome() != Outcome::under_way || receiver.finished()) break;
    now = std::min(sender.next_deadline(), receiver.next_deadline());
    sender.handle_deadline(now);
    receiver.handle_deadline(now);
  }
  out.sender = sender.outcome();
  out.receiver = receiver.outcome();
  out.same = receiver.outcome() == Outcome::done &&
             without_rmpp(receiver.message()) == without_rmpp(message_of(data, mgmt_class));
  return out;
}

TEST(Rmpp, CarriesMessagesOfEveryLengthAroundASegment) {
  for (const std::size_t data : {0, 1, 112, 199, 200, 201, 399, 400, 401, 12800, 13000, 13001, 60000}) {
    const Passage r = run(data, 1, 0, {});
    EXPECT_EQ(r.sender, Outcome::done) << data;
    EXPECT_EQ(r.receiver, Outcome::done) << data;
    EXPECT_TRUE(r.same) << data;
    EXPECT_EQ(r.sent, std::max<std::size_t>(1, (data + 199) / 200)) << data;
  }
}

// IBA §13.6.2, §16.5.1: vendors' headers are shorter, and so their segments have more data.
TEST(Rmpp, CarriesMessagesOfVendors) {
  for (const std::size_t data : {0, 1, 215, 216, 217, 432, 433, 60000}) {
    const Passage r = run(data, 1, 0, {}, vendor);
    EXPECT_EQ(r.sender, Outcome::done) << data;
    EXPECT_TRUE(r.same) << data;
    EXPECT_EQ(r.sent, std::max<std::size_t>(1, (data + 215) / 216)) << data;
  }
  Sender sender = sender_of(217, {}, vendor);
  const auto first = drain(sender);
  ASSERT_EQ(first.size(), 1U);  // the window's
  EXPECT_EQ(header_of(first[0]).get(RmppHeader::data2), 217U + 2 * 4);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) EXPECT_TRUE(run(20000, seed, 5, {}, vendor).same) << seed;
  for (unsigned mgmt_class = 0; mgmt_class < 256; ++mgmt_class)
    EXPECT_EQ(has_rmpp(static_cast<std::uint8_t>(mgmt_class)),
              mgmt_class == 0x03 || (mgmt_class >= 0x30 && mgmt_class <= 0x4F))
        << mgmt_class;
  const auto refused = [](const Bytes& message) { return Sender::create(message).error().message(); };
  EXPECT_THAT(refused(Bytes(1)), testing::EndsWith("an RMPP message has 56 to 67108864 octets with its headers"));
  EXPECT_THAT(refused({1, vendor}), testing::EndsWith("an RMPP message has 40 to 67108864 octets with its headers"));
}

// A loss is made good; only the octets tell whether it was.
TEST(Rmpp, CarriesItsOctetsThroughLossDoublesAndDisorder) {
  for (std::uint64_t seed = 1; seed <= seed_count(); ++seed) {
    const Passage r = run(200 * 150 + seed, seed, 5, {.receive_max = std::chrono::hours(1)});
    EXPECT_EQ(r.sender, Outcome::done) << seed;
    EXPECT_EQ(r.receiver, Outcome::done) << seed;
    ASSERT_TRUE(r.same) << seed;
  }
}

// IBA §13.6.2.1: PayloadLength of the first, a middle and the last segment.
TEST(Rmpp, SaysLengthsAsTheSpecificationDoes) {
  Sender sender = sender_of(450);
  auto sent = drain(sender);
  ASSERT_EQ(sent.size(), 1U);  // a window of 1 until the first ACK
  EXPECT_EQ(header_of(sent[0]).get(RmppHeader::data2), 450U + 3 * 20);
  EXPECT_EQ(header_of(sent[0]).get(RmppHeader::rmpp_flags), flags::active | flags::first);
  Receiver receiver({.window = 8});
  receiver.handle(Instant{}, sent[0]);
  const auto ack = drain(receiver);
  ASSERT_EQ(ack.size(), 1U);
  EXPECT_EQ(ack[0][3], 0x12);  // the method of a response, the other way
  EXPECT_EQ(header_of(ack[0]).get(RmppHeader::rmpp_type), RmppType::ack);
  EXPECT_EQ(header_of(ack[0]).get(RmppHeader::data1), 1U);
  EXPECT_EQ(header_of(ack[0]).get(RmppHeader::data2), 9U);
  sender.handle(Instant{}, ack[0]);
  sent = drain(sender);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(header_of(sent[0]).get(RmppHeader::data2), 0U);
  EXPECT_EQ(header_of(sent[1]).get(RmppHeader::data2), 50U + 20);
  EXPECT_EQ(header_of(sent[1]).get(RmppHeader::rmpp_flags), flags::active | flags::last);
}

Datagram altered(Datagram mad, RmppType type, std::uint32_t data1, std::uint32_t data2, std::uint8_t status = 0) {
  header_of(mad)
      .set(RmppHeader::rmpp_type, type)
      .set(RmppHeader::data1, data1)
      .set(RmppHeader::data2, data2)
      .set(RmppHeader::rmpp_status, static_cast<RmppStatus>(status))
      .emit(mad);
  return mad;
}

/// Each break of a rule by the sender ends the receiver with its status, which is told.
TEST(Rmpp, TheReceiverRefusesWhatBreaksTheRules) {
  Sender sender = sender_of(450);
  const Datagram first = drain(sender).at(0);
  Datagram other_version = first, no_first = first;
  other_version[24] = 2;
  no_first[26] &= 0xFD;
  const std::pair<Datagram, RmppStatus> cases[] = {
      {other_version, RmppStatus::unsupported_version},
      {no_first, RmppStatus::inconsistent_first},
      {altered(first, RmppType::data, 2, 0), RmppStatus::inconsistent_first},
      {altered(first, RmppType::data, 0, 0), RmppStatus::inconsistent_first},
      {altered(no_first, RmppType::data, 0, 0), RmppStatus::inconsistent_first},
      {altered(first, RmppType::data, 1, 0, 3), RmppStatus::illegal_status},
      {altered(first, static_cast<RmppType>(9), 1, 0), RmppStatus::bad_type}};
  for (const auto& [mad, status] : cases) {
    Receiver receiver;
    receiver.handle(Instant{}, mad);
    EXPECT_EQ(receiver.failure(), (Failure{false, status}));
    const auto told = drain(receiver);
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(header_of(told[0]).get(RmppHeader::rmpp_type), RmppType::abort);
    EXPECT_EQ(header_of(told[0]).get(RmppHeader::rmpp_status), status);
    EXPECT_EQ(told[0][3], 0x12);
  }
  Datagram last = altered(first, RmppType::data, 1, 221);
  last[26] |= 4;
  Receiver receiver;
  receiver.handle(Instant{}, last);
  EXPECT_EQ(receiver.failure(), (Failure{false, RmppStatus::inconsistent_length}));
}

TEST(Rmpp, TheSenderRefusesAcksOfWhatItDidNotSend) {
  const std::tuple<std::uint32_t, std::uint32_t, RmppStatus> cases[] = {
      {1, 0, RmppStatus::window_too_small}, {2, 5, RmppStatus::segment_too_big}, {99, 99, RmppStatus::segment_too_big}};
  for (const auto& [segment, window, status] : cases) {
    Sender sender = sender_of(450);
    const Datagram first = drain(sender).at(0);
    sender.handle(Instant{}, altered(first, RmppType::ack, segment, window));
    EXPECT_EQ(sender.failure(), (Failure{false, status}));
    const auto told = drain(sender);
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(header_of(told[0]).get(RmppHeader::rmpp_status), status);
    EXPECT_EQ(told[0][3], 0x92);
  }
}

TEST(Rmpp, AnOldAckTakesNothingBack) {
  Sender sender = sender_of(200 * 20);
  const Datagram first = drain(sender).at(0);
  sender.handle(Instant{}, altered(first, RmppType::ack, 1, 9));
  EXPECT_EQ(drain(sender).size(), 8U);
  sender.handle(Instant{}, altered(first, RmppType::ack, 5, 13));
  sender.handle(Instant{}, altered(first, RmppType::ack, 1, 9));
  const auto sent = drain(sender);
  ASSERT_EQ(sent.size(), 4U);
  EXPECT_EQ(header_of(sent[0]).get(RmppHeader::data1), 10U);
  sender.handle_deadline(sender.next_deadline());
  EXPECT_EQ(header_of(drain(sender).at(0)).get(RmppHeader::data1), 6U);
}

// IBA §13.6.3.2: the window never shrinks.
TEST(Rmpp, AnAckWithASmallerWindowIsIgnored) {
  Sender sender = sender_of(200 * 20);
  const Datagram first = drain(sender).at(0);
  sender.handle(Instant{}, altered(first, RmppType::ack, 1, 9));
  EXPECT_EQ(drain(sender).size(), 8U);
  sender.handle(Instant{}, altered(first, RmppType::ack, 5, 7));
  EXPECT_EQ(drain(sender).size(), 0U);
  sender.handle_deadline(sender.next_deadline());
  const auto again = drain(sender);
  ASSERT_EQ(again.size(), 8U);
  EXPECT_EQ(header_of(again.front()).get(RmppHeader::data1), 2U);
  EXPECT_EQ(header_of(again.back()).get(RmppHeader::data1), 9U);
}

TEST(Rmpp, NothingBeyondTheWindowIsTaken) {
  Sender sender = sender_of(200 * 20);
  const Datagram first = drain(sender).at(0);
  Receiver receiver({.window = 4});
  receiver.handle(Instant{}, first);
  Datagram second = first;
  second[26] &= 0xFD;                                                 // not the first
  receiver.handle(Instant{}, altered(second, RmppType::data, 6, 0));  // its place is the second's
  EXPECT_EQ(receiver.message().size(), header_octets + 200);
  receiver.handle(Instant{}, altered(second, RmppType::data, 2, 0));
  EXPECT_EQ(receiver.message().size(), header_octets + 400);
}

TEST(Rmpp, ProgressGivesBackTheRetries) {
  Sender sender = sender_of(450, {.retries = 2});
  const Datagram first = drain(sender).at(0);
  for (int i = 0; i < 2; ++i) sender.handle_deadline(sender.next_deadline());
  for (const std::uint32_t window_last : {3U, 4U}) {  // a segment, and then nothing but a wider window
    sender.handle(Instant{}, altered(first, RmppType::ack, 1, window_last));
    for (int i = 0; i < 2; ++i) sender.handle_deadline(sender.next_deadline());
    EXPECT_EQ(sender.outcome(), Outcome::under_way);
  }
  sender.handle_deadline(sender.next_deadline());
  EXPECT_EQ(sender.outcome(), Outcome::failed);
}

TEST(Rmpp, TheSameAckAgainPutsNothingOff) {
  Sender sender = sender_of(450);
  const Datagram first = drain(sender).at(0);
  sender.handle(Instant{}, altered(first, RmppType::ack, 1, 3));
  const Instant deadline = sender.next_deadline();
  sender.handle(Instant{} + std::chrono::seconds(1), altered(first, RmppType::ack, 1, 3));
  EXPECT_EQ(sender.next_deadline(), deadline);
}

TEST(Rmpp, EitherSideHeedsTheOthersEnd) {
  Sender sender = sender_of(450);
  const Datagram first = drain(sender).at(0);
  Receiver receiver;
  receiver.handle(Instant{}, first);
  (void)drain(receiver);
  receiver.handle(Instant{}, altered(first, RmppType::abort, 0, 0, 126));
  EXPECT_EQ(receiver.failure(), (Failure{true, RmppStatus::too_many_retries}));
  EXPECT_TRUE(drain(receiver).empty());
  sender.handle(Instant{}, altered(first, RmppType::ack, 1, 3));
  sender.handle(Instant{}, altered(first, RmppType::stop, 0, 0, 1));
  EXPECT_EQ(sender.failure(), (Failure{true, RmppStatus::resources_exhausted}));
  EXPECT_TRUE(drain(sender).empty()) << "although the window is open";
}

TEST(Rmpp, NothingIsSentBeforeItsStart) {
  Sender sender = *Sender::create(message_of(450, adm));
  EXPECT_TRUE(drain(sender).empty());
  sender.start(Instant{});
  EXPECT_EQ(drain(sender).size(), 1U);
}

TEST(Rmpp, GivesUpAfterItsTimes) {
  Sender sender = sender_of(450, {.retries = 2});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(drain(sender).size(), 1U) << i;
    sender.handle_deadline(sender.next_deadline() - Duration(1));
    EXPECT_TRUE(drain(sender).empty());
    sender.handle_deadline(sender.next_deadline());
  }
  EXPECT_EQ(sender.failure(), (Failure{false, RmppStatus::too_many_retries}));
  Sender other = sender_of(450);
  Receiver receiver;
  receiver.handle(Instant{}, drain(other).at(0));
  EXPECT_EQ(receiver.next_deadline(), Instant{} + std::chrono::seconds(40));
  receiver.handle_deadline(receiver.next_deadline());
  EXPECT_EQ(receiver.failure(), (Failure{false, RmppStatus::total_time_too_long}));
  EXPECT_TRUE(receiver.finished());
}

// The ACK of the last segment may be lost: it is sent again for a while, and nothing takes the message back.
TEST(Rmpp, AWholeMessageStaysWhole) {
  Sender sender = sender_of(10);
  const Datagram only = drain(sender).at(0);
  Receiver receiver;
  receiver.handle(Instant{}, only);
  ASSERT_EQ(receiver.outcome(), Outcome::done);
  EXPECT_EQ(drain(receiver).size(), 1U);
  receiver.handle(Instant{}, only);
  EXPECT_EQ(drain(receiver).size(), 1U);
  for (const RmppType type : {RmppType::abort, RmppType::stop, static_cast<RmppType>(7)})
    receiver.handle(Instant{}, altered(only, type, 0, 0, 127));
  EXPECT_EQ(receiver.outcome(), Outcome::done);
  EXPECT_EQ(receiver.message().size(), header_octets + 10);
  receiver.handle_deadline(Instant{} + std::chrono::seconds(10));
  EXPECT_TRUE(receiver.finished());
}

// The bound is of data: headers come on top, and the last segment's padding does not count.
TEST(Rmpp, TakesAMessageOfTheMostAndNotOneOctetMore) {
  for (const std::uint8_t mgmt_class : {adm, vendor})
    for (const bool checks_length : {false, true})
      for (const std::size_t data : {1, 10, 199, 200, 201, 215, 216, 217, 400, 432, 433, 8000}) {
        SCOPED_TRACE(testing::Message() << "class " << int{mgmt_class} << ", " << data << " octets");
        const Passage most = run(data, 1, 0, {.octets_max = data, .checks_length = checks_length}, mgmt_class);
        EXPECT_EQ(most.receiver, Outcome::done);
        EXPECT_TRUE(most.same);
        const Passage more = run(data, 1, 0, {.octets_max = data - 1, .checks_length = checks_length}, mgmt_class);
        EXPECT_EQ(more.receiver, Outcome::failed);
        EXPECT_EQ(more.sender, Outcome::failed);
      }
}

TEST(Rmpp, SendsAMessageOfTheMostAndNotOneOctetMore) {
  for (const std::uint8_t mgmt_class : {adm, vendor}) {
    Bytes message = message_of(0, mgmt_class);
    const std::size_t head = message.size();
    EXPECT_TRUE(Sender::create(message));
    message.pop_back();
    EXPECT_EQ(Sender::create(message).error(), Errc::invalid_argument);
    message.resize(message_max);
    const std::size_t room = 256 - head;
    auto sender = Sender::create(message);
    ASSERT_TRUE(sender);
    EXPECT_EQ(sender->segments(), (message_max - head + room - 1) / room);
    message.push_back(0);
    EXPECT_EQ(Sender::create(std::move(message)).error(), Errc::invalid_argument);
  }
}

/// Any octets at any time: within bounds, and never a message that was not sent whole.
TEST(Rmpp, TakesAnyOctets) {
  Rng rng(9);
  for (int i = 0; i < 300; ++i) {
    Sender sender = sender_of(1000);
    Receiver receiver({.window = 4, .octets_max = 3000});
    for (int step = 0; step < 60; ++step) {
      Datagram mad{};
      for (std::uint8_t& octet : mad) octet = static_cast<std::uint8_t>(rng.next());
      mad[24] = 1;
      mad[25] = static_cast<std::uint8_t>(1 + rng.below(4));
      mad[26] |= 1;
      if (rng.below(2) == 0) mad[27] = 0;
      for (const std::size_t at : {28, 29, 30, 32, 33, 34}) mad[at] = 0;
      mad[31] %= 8;
      receiver.handle(Instant{}, mad);
      sender.handle(Instant{}, mad);
      EXPECT_LE(drain(receiver).size(), 1U);
      EXPECT_LE(drain(sender).size(), 6U);
      EXPECT_LE(receiver.message().size(), header_octets + 3000);
    }
  }
}

}  // namespace
}  // namespace parley::mad::rmpp
