// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Messages octet by octet, and what a member says to a broker that is a script.
#include "base/bytes_io.hpp"
#include "tests/unit/xrc/registry_kit.hpp"
#include "xrc/client.hpp"

namespace parley::xrc::protocol_test {
namespace {
using namespace kit;

Bytes counting(Bytes octets) {
  for (std::size_t i = 16; i < octets.size(); ++i) octets[i] = static_cast<std::uint8_t>(i);
  return octets;
}

/// All octets behind the head are fields or 0: what is read is written again.
TEST(XrcMessage, EveryOctetIsReadAndWritten) {
  Bytes request = counting(emit(Request{.ask = RequestType::modify, .number = 77}));
  ASSERT_EQ(request.size(), 112U);
  request[18] = 3, request[19] = 2;
  Bytes answer = counting(emit(Answer{.number = 77, .about = RequestType::query}));
  ASSERT_EQ(answer.size(), 96U);
  answer[16] = 4, answer[17] = 9, answer[20] = 3, answer[21] = 2, answer[22] = answer[23] = 0;
  Bytes event = counting(emit(Event{.kind = EventKind::fatal}));
  ASSERT_EQ(event.size(), 48U);
  event[16] = 2, event[17] = 1, event[18] = event[19] = 0;
  Bytes item = counting(emit(Item{.number = 77}));
  ASSERT_EQ(item.size(), 88U);
  item[16] = 3, item[17] = 3, item[18] = 2;
  for (const Bytes& octets : {request, answer, event, item}) {
    const auto message = parse(octets);
    ASSERT_TRUE(message) << refusal_of(message);
    EXPECT_EQ(emit(*message), octets);
    EXPECT_EQ(number_of(octets), octets == event ? 0U : 77U);
  }
}

TEST(XrcMessage, TheHeadIsAsTheDocsHaveIt) {
  const Bytes octets = emit(Request{.ask = RequestType::enlist, .number = 5, .tgt = {0x800001, (9ULL << 32) + 1}});
  EXPECT_EQ(Bytes(octets.begin(), octets.begin() + 16),
            (Bytes{'P', 'X', 'R', 'C', 1, 6, 0, 112, 0, 0, 0, 0, 0, 0, 0, 5}));
  EXPECT_EQ(Bytes(octets.begin() + 24, octets.begin() + 28), (Bytes{0, 0x80, 0, 1}));
  EXPECT_EQ(Bytes(octets.begin() + 32, octets.begin() + 40), (Bytes{0, 0, 0, 9, 0, 0, 0, 1}));
}

TEST(XrcMessage, WhatIsNoMessageIsRefused) {
  for (const Bytes& good : {emit(Request{.ask = RequestType::enlist}), emit(Answer{}),
                            emit(Event{.kind = EventKind::fatal}), emit(Item{})}) {
    for (std::size_t size = 0; size < good.size(); ++size)
      EXPECT_EQ(refusal_of(parse(ConstBytes(good).first(size))), "bad_message") << size;
    Bytes longer = good;
    longer.push_back(0);
    EXPECT_EQ(refusal_of(parse(longer)), "bad_message");
    for (const std::size_t at : {0U, 3U, 6U, 7U}) {
      Bytes wrong = good;
      wrong[at] ^= 0x40;
      EXPECT_EQ(refusal_of(parse(wrong)), "bad_message") << at;
    }
    Bytes later = good;
    later[4] = 2;
    EXPECT_EQ(refusal_of(parse(later)), "bad_version");
  }
  Bytes hello = emit(Request{.ask = RequestType::hello, .other = 2});
  hello[4] = 9;
  EXPECT_TRUE(parse(hello));
  const std::pair<Bytes, std::vector<std::size_t>> enumerators[] = {
      {emit(Request{.ask = RequestType::modify}), {18, 19}},
      {emit(Answer{}), {16, 17, 20, 21}},
      {emit(Event{.kind = EventKind::fatal}), {16}},
      {emit(Item{}), {16, 17, 18}}};
  for (const auto& [good, places] : enumerators)
    for (const std::size_t at : places) {
      Bytes wrong = good;
      wrong[at] = 200;
      EXPECT_EQ(refusal_of(parse(wrong)), "bad_message") << good.size() << " octets, at " << at;
    }
}

/// A member whose broker says what the test wants.
struct Script {
  Script() : client({.shared = true, .patience = 1s}) { join(); }
  void join() {
    client.connected(now);
    answer({.about = RequestType::hello, .value = 1, .epoch = 4});
    answer({.about = RequestType::open, .value = 1, .epoch = 4});
  }
  /// To what the member has sent last.
  void answer(Answer a) {
    a.number = sent().number;
    client.handle_message(now, emit(a));
  }
  Request sent() {
    const auto out = client.poll_transmit();
    return out ? std::get<Request>(*parse(out->octets)) : Request{.ask = RequestType::list};
  }
  /// A request and what the broker answers. The user has its answer.
  Answer call(const Request& request, Answer a) {
    EXPECT_TRUE(client.ask(now, request));
    a.about = request.ask;
    answer(a);
    return client.poll_answer().value_or(Answer{.refusal = Refusal::timed_out});
  }
  void enlist(TgtId tgt) { call({.ask = RequestType::enlist, .tgt = tgt}, {.state = State::rtr, .tgt = tgt}); }
  /// The request is sent, its caller gives it up, and its answer arrives.
  void give_up(const Request& request, Answer a) {
    const auto number = client.ask(now, request);
    ASSERT_TRUE(number);
    a.number = sent().number;
    a.about = request.ask;
    client.abandon(*number);
    EXPECT_TRUE(client.has_abandoned());
    EXPECT_EQ(client.next_deadline(), never);
    client.handle_deadline(now + 1h);
    EXPECT_FALSE(client.poll_answer());
    client.handle_message(now, emit(a));
    EXPECT_FALSE(client.has_abandoned());
    EXPECT_FALSE(client.poll_answer());
  }
  /// What it declares to the next broker.
  std::vector<Request> declared() {
    client.disconnected();
    join();
    std::vector<Request> out;
    while (const auto next = client.poll_transmit()) out.push_back(std::get<Request>(*parse(next->octets)));
    return out;
  }

  Client client;
  Instant now = t0;
  const TgtId id{0x800001, (4ULL << 32) + 1}, second{0x800002, (4ULL << 32) + 2};
};

constexpr RequestType nothing = RequestType::list;  // what sent() returns where the member sends nothing

TEST(XrcClient, WhatItsUserGaveUpIsUndone) {
  Script s;
  ASSERT_TRUE(s.client.ask(s.now, {.ask = RequestType::enlist, .tgt = s.id}));
  const std::uint64_t number = s.sent().number;
  s.client.handle_deadline(s.now + 1s);
  EXPECT_EQ(s.client.poll_answer()->refusal, Refusal::timed_out);
  s.client.handle_message(
      s.now, emit(Answer{.number = number, .about = RequestType::enlist, .state = State::rtr, .tgt = s.id}));
  const Request undone = s.sent();
  EXPECT_EQ(undone.ask, RequestType::unregister);
  EXPECT_EQ(undone.tgt, s.id);
  EXPECT_EQ(s.client.registration_count(), 0U);
}

TEST(XrcClient, AnAbandonedRequestThatWasNotSentIsDropped) {
  Script s;
  const auto number = s.client.ask(s.now, {.ask = RequestType::enlist, .tgt = s.id});
  ASSERT_TRUE(number);
  s.client.abandon(*number + 1);  // no request
  EXPECT_FALSE(s.client.has_abandoned());
  s.client.abandon(*number);
  EXPECT_FALSE(s.client.has_abandoned());
  EXPECT_EQ(s.client.next_deadline(), never);
  EXPECT_EQ(s.sent().ask, nothing);
}

TEST(XrcClient, AnAbandonedRequestThatMadeTheMemberARegistrantIsUndone) {
  for (const RequestType ask : {RequestType::enlist, RequestType::create, RequestType::publish, RequestType::query})
    for (const Refusal refusal : {Refusal::none, Refusal::gone})
      for (const bool was_registered : {false, true}) {
        Script s;
        if (was_registered) s.enlist(s.id);
        s.give_up({.ask = ask, .tgt = s.id}, {.refusal = refusal, .state = State::rtr, .tgt = s.id});
        const bool joined = ask != RequestType::query && refusal == Refusal::none && !was_registered;
        const Request undone = s.sent();
        EXPECT_EQ(undone.ask, joined ? RequestType::unregister : nothing) << to_string(ask) << to_string(refusal);
        EXPECT_EQ(undone.tgt, joined ? s.id : TgtId{});
        EXPECT_EQ(s.client.registration_count(), was_registered ? 1U : 0U);
      }
}

TEST(XrcClient, AnAbandonedAddSrqIsUndoneUnlessTheSrqWasThere) {
  for (const Refusal refusal : {Refusal::none, Refusal::share_of_connections})
    for (const bool was_there : {false, true}) {
      Script s;
      if (was_there) s.call({.ask = RequestType::add_srq, .other = 9}, {});
      s.give_up({.ask = RequestType::add_srq, .other = 9}, {.refusal = refusal});
      const Request undone = s.sent();
      const bool added = refusal == Refusal::none && !was_there;
      EXPECT_EQ(undone.ask, added ? RequestType::remove_srq : nothing) << to_string(refusal) << was_there;
      EXPECT_EQ(undone.other, added ? 9U : 0U);
    }
}

/// What cannot be undone is known when the next broker asks.
TEST(XrcClient, AnAbandonedRequestThatCannotBeUndoneIsKnown) {
  for (const Refusal refusal : {Refusal::none, Refusal::gone}) {
    SCOPED_TRACE(to_string(refusal));
    const bool good = refusal == Refusal::none;
    Script removed;
    removed.call({.ask = RequestType::add_srq, .other = 9}, {});
    removed.give_up({.ask = RequestType::remove_srq, .other = 9}, {.refusal = refusal});
    EXPECT_EQ(removed.declared().size(), good ? 0U : 1U);

    Script modified;
    modified.enlist(modified.id);
    modified.give_up({.ask = RequestType::modify, .state = State::rts, .tgt = modified.id},
                     {.refusal = refusal, .state = State::rts, .tgt = modified.id});
    const auto declared = modified.declared();
    ASSERT_EQ(declared.size(), 1U);
    EXPECT_EQ(declared[0].state, good ? State::rts : State::rtr);

    Script left;
    left.enlist(left.id);
    left.give_up({.ask = RequestType::unregister, .tgt = left.id}, {.refusal = refusal, .tgt = left.id});
    EXPECT_EQ(left.client.registration_count(), good ? 0U : 1U);

    Script closed;
    closed.give_up({.ask = RequestType::close}, {.refusal = refusal});
    EXPECT_EQ(closed.client.phase(), good ? Client::Phase::refused : Client::Phase::up);
    EXPECT_EQ(closed.client.refusal(), good ? Refusal::not_member : Refusal::none);
  }
}

TEST(XrcClient, TheNextBrokerHearsNothingOfAnAbandonedRequest) {
  Script s;
  const auto number = s.client.ask(s.now, {.ask = RequestType::enlist, .tgt = s.id});
  ASSERT_TRUE(number);
  EXPECT_EQ(s.sent().ask, RequestType::enlist);
  s.client.abandon(*number);
  EXPECT_TRUE(s.declared().empty());
  EXPECT_FALSE(s.client.has_abandoned());
}

/// `busy` passes where another member is about to do something; where the member itself is in its own way, it is final.
TEST(XrcClient, ABusyThatMayPassIsAskedAgain) {
  const std::pair<Request, bool> cases[] = {{{.ask = RequestType::enlist}, true},
                                            {{.ask = RequestType::unregister}, true},
                                            {{.ask = RequestType::query}, true},
                                            {{.ask = RequestType::create}, true},
                                            {{.ask = RequestType::create, .tgt = {.qpn = 1}}, false},
                                            {{.ask = RequestType::modify, .state = State::init}, true},
                                            {{.ask = RequestType::modify, .state = State::reset}, false},
                                            {{.ask = RequestType::publish}, false},
                                            {{.ask = RequestType::close}, false},
                                            {{.ask = RequestType::list}, false}};
  for (const auto& [request, passes] : cases) {
    SCOPED_TRACE(to_string(request.ask));
    Script s;
    const auto number = s.client.ask(s.now, request);
    ASSERT_TRUE(number);
    s.answer({.refusal = Refusal::busy, .about = request.ask});
    const auto answer = s.client.poll_answer();
    EXPECT_EQ(answer.has_value(), !passes);
    if (!passes) continue;
    EXPECT_EQ(s.client.next_deadline(), s.now + 20ms);
    EXPECT_FALSE(s.client.poll_transmit());
    s.client.handle_deadline(s.now + 20ms);
    const auto again = s.client.poll_transmit();
    ASSERT_TRUE(again);
    EXPECT_EQ(number_of(again->octets), *number);
  }
}

TEST(XrcClient, ABusyIsAskedAgainOnlyWithinTheUsersPatience) {
  for (const auto& [when, again] : {std::pair(979ms, true), {980ms, false}}) {
    Script s;
    ASSERT_TRUE(s.client.ask(s.now, {.ask = RequestType::query}));
    s.now += when;
    s.answer({.refusal = Refusal::busy, .about = RequestType::query});
    const auto answer = s.client.poll_answer();
    EXPECT_EQ(answer.has_value(), !again);
    EXPECT_EQ(answer.value_or(Answer{}).refusal, again ? Refusal::none : Refusal::busy);
  }
}

TEST(XrcClient, AFailureWhoseEventTheBrokerTookWithItIsToldAllTheSame) {
  Script s;
  ASSERT_TRUE(s.client.ask(s.now, {.ask = RequestType::enlist, .tgt = s.id}));
  s.answer({.about = RequestType::enlist, .state = State::error, .why = EventKind::fatal, .reason = 6, .tgt = s.id});
  EXPECT_FALSE(s.client.poll_event());
  s.client.disconnected();
  const auto event = s.client.poll_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, EventKind::fatal);
  EXPECT_EQ(event->reason, 6U);
  EXPECT_TRUE(event->sticky);
}

TEST(XrcClient, WhatLiesHereWhenUnregisterReturnsIsThrownAway) {
  Script s;
  ASSERT_TRUE(s.client.ask(s.now, {.ask = RequestType::enlist, .tgt = s.id}));
  s.answer({.about = RequestType::enlist, .state = State::rtr, .tgt = s.id});
  ASSERT_TRUE(s.client.ask(s.now, {.ask = RequestType::unregister, .tgt = s.id}));
  const std::uint64_t number = s.sent().number;
  s.client.handle_message(s.now, emit(Event{s.id, EventKind::fatal, 0, 1}));
  s.client.handle_message(s.now,
                          emit(Answer{.number = number, .about = RequestType::unregister, .tgt = s.id, .value = 2}));
  EXPECT_FALSE(s.client.poll_event());
  ASSERT_TRUE(s.client.poll_answer());  // of enlist
  EXPECT_EQ(s.client.poll_answer()->value, 3U);
}

TEST(XrcClient, UnregisterDropsTheEventsOfItsQueuePairAlone) {
  for (const bool by_number : {false, true})
    for (const auto& [refusal, leaves] :
         {std::pair(Refusal::none, true), {Refusal::gone, true}, {Refusal::not_registered, false}}) {
      SCOPED_TRACE(to_string(refusal));
      Script s;
      s.enlist(s.id);
      s.enlist(s.second);
      for (const TgtId tgt : {s.id, s.second, s.id})
        s.client.handle_message(s.now, emit(Event{tgt, EventKind::established, 0, 1}));
      const TgtId asked = by_number ? TgtId{.qpn = s.id.qpn} : s.id;
      const Answer answer = s.call({.ask = RequestType::unregister, .tgt = asked}, {.refusal = refusal, .tgt = asked});
      EXPECT_EQ(answer.value, leaves ? 2U : 0U);
      EXPECT_EQ(s.client.registration_count(), leaves ? 1U : 2U);
      std::vector<TgtId> left;
      while (const auto event = s.client.poll_event()) left.push_back(event->tgt);
      EXPECT_EQ(left, leaves ? (std::vector{s.second}) : (std::vector{s.id, s.second, s.id}));
    }
}

TEST(XrcClient, AMemberThatHasClosedHasNothingMore) {
  for (const Refusal refusal : {Refusal::none, Refusal::busy}) {
    SCOPED_TRACE(to_string(refusal));
    const bool good = refusal == Refusal::none;
    Script s;
    s.enlist(s.id);
    s.client.handle_message(s.now, emit(Event{s.id, EventKind::established, 0, 1}));
    s.client.handle_message(s.now, emit(Event{.kind = EventKind::events_lost}));
    EXPECT_EQ(s.call({.ask = RequestType::close}, {.refusal = refusal}).refusal, refusal);
    EXPECT_EQ(s.client.registration_count(), good ? 0U : 1U);
    EXPECT_EQ(s.client.has_events(), !good);
    EXPECT_EQ(s.client.poll_event().has_value(), !good);
    EXPECT_EQ(s.client.phase(), good ? Client::Phase::refused : Client::Phase::up);
  }
}

TEST(XrcClient, DeclaresItsSrqsAndOthersQueuePairs) {
  Script s;
  s.call({.ask = RequestType::add_srq, .other = 9}, {});
  s.call({.ask = RequestType::add_srq, .other = 10}, {.refusal = Refusal::no_memory});
  s.call({.ask = RequestType::note_other, .other = 11}, {});
  s.call({.ask = RequestType::note_other, .other = 12}, {.refusal = Refusal::no_memory});
  const auto numbers = [](const std::vector<Request>& all) {
    std::vector<std::pair<RequestType, std::uint32_t>> out;
    for (const Request& r : all) out.emplace_back(r.ask, r.other);
    return out;
  };
  const std::pair queue(RequestType::add_srq, 9U), note(RequestType::note_other, 11U);
  EXPECT_EQ(numbers(s.declared()), (std::vector{queue, note}));
  // Before a broker has answered all of them, the member asks it for nothing else.
  s.client.disconnected();
  s.join();
  const std::uint64_t first = s.sent().number, last = s.sent().number;
  ASSERT_TRUE(s.client.ask(s.now, {.ask = RequestType::remove_srq, .other = 9}));
  s.client.handle_message(s.now, emit(Answer{.number = first, .about = RequestType::add_srq}));
  EXPECT_EQ(s.sent().ask, nothing);
  s.client.handle_message(s.now, emit(Answer{.number = last, .about = RequestType::note_other}));
  s.answer({.about = RequestType::remove_srq});
  EXPECT_EQ(numbers(s.declared()), (std::vector{note}));
}

TEST(XrcClient, DeclaresAllThatItHas) {
  Script s;
  ASSERT_TRUE(s.client.ask(s.now, {.ask = RequestType::enlist, .tgt = s.id}));
  s.answer({.about = RequestType::enlist,
            .flags = Answer::has_peer,
            .state = State::rtr,
            .tgt = s.id,
            .value = 4711,
            .peer = peer,
            .attributes = {7, 8, 0},
            .events = 2});
  ASSERT_TRUE(s.client.ask(s.now, {.ask = RequestType::add_srq, .other = 9}));
  s.answer({.about = RequestType::add_srq});
  s.client.disconnected();
  s.join();
  EXPECT_EQ(s.sent().ask, RequestType::add_srq);
  EXPECT_EQ(s.sent().events, 2U);  // there were two before it registered
  s.client.handle_message(s.now, emit(Event{s.id, EventKind::established, 0, 3}));
  s.client.disconnected();
  s.join();
  EXPECT_EQ(s.client.phase(), Client::Phase::restoring);
  const Request queue = s.sent(), declared = s.sent();
  EXPECT_EQ(declared.value, 4711U);
  EXPECT_EQ(queue.ask, RequestType::add_srq);
  EXPECT_EQ(queue.other, 9U);
  EXPECT_EQ(declared.ask, RequestType::restore);
  EXPECT_EQ(declared.tgt, s.id);
  EXPECT_EQ(declared.state, State::rtr);
  EXPECT_EQ(declared.peer, peer);
  EXPECT_EQ(declared.attributes, (AttributeDigests{7, 8, 0}));
  EXPECT_EQ(declared.events, 3U);
}

TEST(XrcClient, AMemberComesAgainToABrokerThatIsFull) {
  for (const Refusal full : {Refusal::share_of_connections, Refusal::no_memory}) {
    Script s;
    s.client.disconnected();
    s.client.connected(s.now);
    s.client.handle_message(s.now, emit(Answer{.refusal = full}));
    EXPECT_EQ(s.client.phase(), Client::Phase::greeting);
    s.client.disconnected();
    s.join();
    EXPECT_EQ(s.client.phase(), Client::Phase::up);
    Client newcomer({.shared = true});
    newcomer.connected(s.now);
    newcomer.handle_message(s.now, emit(Answer{.refusal = full}));
    EXPECT_EQ(newcomer.refusal(), full);
  }
}

TEST(XrcClient, ABrokerThatSpeaksNonsenseIsLeft) {
  Script s;
  s.client.handle_message(s.now, Bytes(50, 1));
  EXPECT_EQ(s.client.phase(), Client::Phase::refused);
  EXPECT_EQ(refusal_of(s.client.ask(s.now, {.ask = RequestType::query})), "bad_message");
}

TEST(XrcClient, AsksForNoMoreThanItMay) {
  Client client({.requests_max = 2});
  EXPECT_TRUE(client.ask(t0, {.ask = RequestType::query}) && client.ask(t0, {.ask = RequestType::query}));
  EXPECT_EQ(refusal_of(client.ask(t0, {.ask = RequestType::query})), "no_memory");
  client.handle_deadline(t0 + 5s);
  EXPECT_EQ(client.poll_answer()->refusal, Refusal::timed_out);
  EXPECT_EQ(refusal_of(client.ask(t0, {.ask = RequestType::query})), "ok");
}

}  // namespace
}  // namespace parley::xrc::protocol_test
