// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A registry that comes after another: members declare what they had, and nothing that lives is lost.
#include "tests/unit/xrc/registry_kit.hpp"

namespace parley::xrc::restore_test {
namespace {
using namespace kit;

RegistryOptions second_epoch() { return {.epoch = 2, .recovery = 3s}; }
constexpr TgtId old{0x800005, (1ULL << 32) + 5};
DeclaredRegistration declared(State state = State::rtr) {
  return {.id = old, .state = state, .peer = peer, .attributes = {1, 2}, .events = 4};
}

TEST(XrcRestore, WhatTwoDeclareIsOne) {
  Bench b(second_epoch());
  const MemberId p1 = b.join(1), p2 = b.join(2), p3 = b.join(3);
  EXPECT_EQ(refusal_of(b.registry.restore(b.now, p1, declared(State::init))), "ok");
  EXPECT_EQ(refusal_of(b.registry.restore(b.now, p2, declared(State::rts))), "ok");
  EXPECT_TRUE(b.registry.restore(b.now, p2, declared())->already);
  EXPECT_EQ(b.state(old), "rts");
  EXPECT_EQ(b.registrants(old), 2U);
  EXPECT_EQ(b.registry.create(b.now, p3, {.peer = peer})->id, old);
  EXPECT_EQ(refusal_of(b.registry.modify(b.now, p3, old, State::rtr, 9)), "conflict");
  b.report(old, EventKind::established);
  EXPECT_EQ(b.events(p1), (std::vector{Event{old, EventKind::established, 0, 5}}));
}

TEST(XrcRestore, FailuresThatOnlySomeHadHeardOfReachAll) {
  for (const bool first : {false, true}) {
    Bench b(second_epoch());
    const MemberId knows = b.join(1), missed = b.join(2);
    DeclaredRegistration failed = declared(State::drain);
    failed.why = EventKind::peer_gone;
    failed.reason = 6;
    ++failed.events;
    if (first) {
      EXPECT_EQ(refusal_of(b.registry.restore(b.now, knows, failed)), "ok");
    }
    EXPECT_EQ(refusal_of(b.registry.restore(b.now, missed, declared())), "ok");
    if (!first) {
      EXPECT_EQ(refusal_of(b.registry.restore(b.now, knows, failed)), "ok");
    }
    const auto heard = b.events(missed);
    ASSERT_EQ(heard.size(), 1U);
    EXPECT_EQ(heard[0].kind, EventKind::peer_gone);
    EXPECT_EQ(heard[0].reason, 6U);
    EXPECT_EQ(b.event_names(knows), "");
    EXPECT_EQ(b.state(old), "drain");
    b.wait(b.registry.options().grace);
    EXPECT_EQ(b.state(old), "gone");
  }
}

TEST(XrcRestore, NothingIsJudgedGoneBeforeAllCouldSpeak) {
  Bench b(second_epoch());
  const MemberId p1 = b.join(1);
  EXPECT_EQ(b.enlist(p1, old), "busy");
  EXPECT_EQ(refusal_of(b.registry.create(b.now, p1, {.peer = peer})), "busy");
  EXPECT_EQ(refusal_of(b.registry.open(b.now, {.key = other, .create = false})), "busy");
  EXPECT_EQ(refusal_of(b.registry.create(b.now, p1, {})), "ok");
  b.now += 3s;
  EXPECT_EQ(b.enlist(p1, old), "gone");
  EXPECT_EQ(refusal_of(b.registry.create(b.now, p1, {.peer = peer})), "ok");
  EXPECT_EQ(refusal_of(b.registry.restore(b.now, p1, declared())), "gone");
}

TEST(XrcRestore, WhoLetsGoEarlyTakesNothingFromWhoSpeaksLater) {
  for (const bool dies : {false, true}) {  // and the domain with it
    Bench b(second_epoch());
    const MemberId early = b.join(1);
    EXPECT_EQ(refusal_of(b.registry.restore(b.now, early, declared(State::rts))), "ok");
    if (dies)
      b.registry.dead(b.now, early);
    else
      EXPECT_EQ(b.unregister(early, old), "ok");
    b.wait(2999ms);
    const MemberId late = b.join(2);
    EXPECT_EQ(refusal_of(b.registry.restore(b.now, late, declared(State::init))), "ok");
    EXPECT_EQ(b.state(old), dies ? "init" : "rts");
    b.wait(1h);
    EXPECT_EQ(b.registrants(old), 1U);
    EXPECT_EQ(b.ended(), std::vector<TgtId>{});
    EXPECT_EQ(b.event_names(late), "");
    EXPECT_EQ(b.unregister(late, old), "ok");
    EXPECT_EQ(b.ended(), std::vector{old});
  }
}

TEST(XrcRestore, WhatNobodyElseDeclaresEndsWithTheRecovery) {
  for (const Duration linger : {Duration{}, Duration(1s)}) {
    RegistryOptions options = second_epoch();
    options.linger = linger;
    Bench b(options);
    const MemberId early = b.join(1), other = b.join(2);
    EXPECT_EQ(refusal_of(b.registry.restore(b.now, early, declared())), "ok");
    EXPECT_EQ(b.unregister(early, old), "ok");
    for (const MemberId member : {early, other}) {
      EXPECT_EQ(b.enlist(member, old), "busy");
      EXPECT_EQ(b.unregister(member, old), "busy");
      EXPECT_EQ(refusal_of(b.registry.query(b.now, member, old)), "busy");
      EXPECT_EQ(refusal_of(b.registry.create(b.now, member, {.peer = peer})), "busy");
    }
    EXPECT_EQ(b.report(old, EventKind::fatal), "ok");  // it delays nothing
    EXPECT_EQ(b.registry.next_deadline(), t0 + 3s);
    b.wait(3s);
    EXPECT_EQ(b.ended(), std::vector{old});
    EXPECT_EQ(b.enlist(other, old), "gone");
    EXPECT_EQ(b.registry.counters().reaped, 0U);
    EXPECT_EQ(b.registry.tgt_count(), 0U);
  }
}

TEST(XrcRestore, WhoSpeaksLaterHearsWhatTheOneThatLetGoKnew) {
  RegistryOptions options = second_epoch();
  options.error_grace = 5s;
  Bench b(options);
  const MemberId early = b.join(1), late = b.join(2);
  DeclaredRegistration failed = declared(State::error);
  failed.why = EventKind::fatal;
  EXPECT_EQ(refusal_of(b.registry.restore(b.now, early, failed)), "ok");
  EXPECT_EQ(b.unregister(early, old), "ok");
  b.wait(1s);
  EXPECT_EQ(refusal_of(b.registry.restore(b.now, late, declared())), "ok");
  EXPECT_EQ(b.event_names(late), "fatal");
  b.wait(4999ms);
  EXPECT_EQ(b.state(old), "error");
  b.wait(1ms);
  EXPECT_EQ(b.event_names(late), "unattended");
  EXPECT_EQ(b.state(old), "drain");
}

TEST(XrcRestore, MembersOfTheEarlierEpochAreToldSo) {
  Bench b(second_epoch());
  EXPECT_EQ(b.enlist({1, 1}, old), "stale_epoch");
  EXPECT_EQ(b.unregister({1, 1}, old), "stale_epoch");
  EXPECT_EQ(refusal_of(b.registry.close(b.now, {1, 1}, true)), "stale_epoch");
  EXPECT_EQ(b.enlist({2, 1}, old), "not_member");
}

TEST(XrcRestore, WrongDeclarationsAreRefused) {
  Bench b(second_epoch());
  const MemberId p1 = b.join(1), p2 = b.join(2), elsewhere = b.join(3, other);
  const auto restore = [&b](MemberId m, DeclaredRegistration d) { return refusal_of(b.registry.restore(b.now, m, d)); };
  DeclaredRegistration d = declared();
  d.id.generation = (2ULL << 32) + 7;
  EXPECT_EQ(restore(p1, d), "invalid");
  d = declared();
  d.id.qpn = 0;
  EXPECT_EQ(restore(p1, d), "invalid");
  for (const State s : {State::creating, State::linger, State::gone}) EXPECT_EQ(restore(p1, declared(s)), "invalid");
  EXPECT_EQ(restore(p1, declared()), "ok");
  EXPECT_EQ(restore(elsewhere, declared()), "other_domain");
  d = declared();
  d.attributes = {1, 99};
  EXPECT_EQ(restore(p2, d), "conflict");
  d = declared();
  --d.id.generation;
  EXPECT_EQ(restore(p2, d), "gone");  // the number was used again since
  EXPECT_EQ(b.registrants(old), 1U);
}

TEST(XrcRestore, OfOneNumberTheLatestQueuePairLives) {
  Bench b(second_epoch());
  const MemberId stale = b.join(1), current = b.join(2, other);
  EXPECT_EQ(refusal_of(b.registry.restore(b.now, stale, declared())), "ok");
  DeclaredRegistration later = declared();
  ++later.id.generation;
  EXPECT_EQ(refusal_of(b.registry.restore(b.now, current, later)), "ok");
  EXPECT_EQ(b.registrants(later.id), 1U);
  EXPECT_EQ(b.event_names(stale), "killed");
  EXPECT_EQ(b.state(old), "gone");
}

TEST(XrcRestore, WhoHeardLessThanOthersIsToldThatEventsWereLost) {
  const auto heard = [](std::uint64_t events) {
    DeclaredRegistration d = declared();
    d.events = events;
    return d;
  };
  for (const bool first : {false, true}) {
    Bench b(second_epoch());
    const MemberId knows = b.join(1), missed = b.join(2);
    for (const bool turn : {first, !first})
      EXPECT_EQ(refusal_of(b.registry.restore(b.now, turn ? missed : knows, heard(turn ? 4 : 5))), "ok");
    EXPECT_EQ(b.event_names(missed), "events_lost");
    EXPECT_EQ(b.event_names(knows), "");
  }
  // What the new registry tells before all have declared is missed by the rest.
  Bench b(second_epoch());
  const MemberId early = b.join(1), late = b.join(2), last = b.join(3);
  EXPECT_EQ(refusal_of(b.registry.restore(b.now, early, heard(4))), "ok");
  b.report(old, EventKind::established);
  EXPECT_EQ(b.event_names(early), "established");
  EXPECT_EQ(refusal_of(b.registry.restore(b.now, late, heard(7))), "ok");
  EXPECT_EQ(refusal_of(b.registry.restore(b.now, last, heard(7))), "ok");
  for (const MemberId member : {early, late, last}) EXPECT_EQ(b.event_names(member), "events_lost");
  b.report(old, EventKind::established);
  for (const MemberId member : {early, late, last}) {
    const auto events = b.events(member);
    ASSERT_EQ(events.size(), 1U);
    EXPECT_GT(events[0].sequence, 7U);
  }
}

TEST(XrcRestore, AMemberThatWasCutOffIsToldWhatItMissed) {
  Bench b;
  const MemberId stays = b.join(1), cut = b.join(2);
  const TgtId id = b.receiver(stays);
  EXPECT_EQ(b.enlist(cut, id), "ok");
  b.registry.dead(b.now, cut);
  b.report(id, EventKind::established);
  const MemberId again = b.join(2);
  EXPECT_EQ(refusal_of(b.registry.restore(b.now, again, {.id = id, .state = State::rtr})), "ok");
  EXPECT_EQ(b.event_names(again), "events_lost");
}

TEST(XrcRestore, WhatIsDeclaredCountsAgainstTheUsersShare) {
  RegistryOptions options = second_epoch();
  options.user_share = 25;
  options.tgts_max = 4;
  Bench b(options);
  const auto member = b.registry.open(b.now, {.key = shared, .process = {.pid = 1, .uid = 7}});
  ASSERT_TRUE(member);
  EXPECT_EQ(refusal_of(b.registry.restore(b.now, *member, declared())), "ok");
  DeclaredRegistration second = declared();
  second.id = {5, second.id.generation + 1};
  EXPECT_EQ(refusal_of(b.registry.restore(b.now, *member, second)), "share_of_tgts");
}

MemberId carrier_of(Bench& b) { return *b.registry.open(b.now, {.key = shared, .carrier = true, .carriers = 1}); }
/// One that an earlier registry informed of a carrier.
MemberId who_knows(Bench& b) { return *b.registry.open(b.now, {.key = shared, .carriers = 1}); }

TEST(XrcRestore, ACarrierThatDoesNotReturnHasDied) {
  for (const bool returns : {false, true}) {
    Bench b(second_epoch());
    const MemberId knows = who_knows(b), newcomer = b.join(2), far = b.join(3, other);
    EXPECT_EQ(refusal_of(b.registry.restore(b.now, knows, declared())), "ok");
    const TgtId elsewhere = b.receiver(far);
    if (returns) carrier_of(b);
    EXPECT_EQ(b.registry.carriers(newcomer), 1U);
    EXPECT_EQ(b.registry.carriers(far), 0U);
    b.wait(2999ms);
    EXPECT_EQ(b.event_names(knows), "");
    b.wait(1ms);
    EXPECT_EQ(b.event_names(knows), returns ? "" : "device_removed device_removed");
    EXPECT_EQ(b.event_names(newcomer), "") << "the device was gone before it came";
    EXPECT_EQ(b.state(old), returns ? "rtr" : "drain");
    EXPECT_EQ(b.state(elsewhere), "rtr");
    EXPECT_EQ(b.registry.carriers(knows), returns ? 1U : 0U);
  }
}

TEST(XrcRestore, ACarrierThatReturnsAndLeavesIsNotMissedLater) {
  for (const bool dies : {false, true}) {
    Bench b(second_epoch());
    const MemberId knows = who_knows(b), carrier = carrier_of(b);
    EXPECT_EQ(refusal_of(b.registry.restore(b.now, knows, declared())), "ok");
    if (dies)
      b.registry.dead(b.now, carrier);
    else
      EXPECT_EQ(refusal_of(b.registry.close(b.now, carrier, true)), "ok");
    EXPECT_EQ(b.event_names(knows), dies ? "device_removed device_removed" : "");
    b.wait(3s);
    EXPECT_EQ(b.event_names(knows), "");
    EXPECT_EQ(b.registry.carriers(knows), 0U);
  }
}

TEST(XrcRestore, AMemberThatStoodStillIsToldThatTheCarrierIsGone) {
  for (const bool returned : {false, true}) {
    Bench b(second_epoch());
    const MemberId other_one = b.join(1);
    if (returned) carrier_of(b);
    b.wait(3s);
    EXPECT_EQ(b.event_names(who_knows(b)), returned ? "" : "device_removed");
    EXPECT_EQ(b.event_names(other_one), "");
  }
}

TEST(XrcRestore, ANewCarrierIsNotTheOneThatReturns) {
  Bench b(second_epoch());
  const MemberId knows = who_knows(b);
  EXPECT_EQ(refusal_of(b.registry.restore(b.now, knows, declared())), "ok");
  const MemberId fresh = *b.registry.open(b.now, {.key = shared, .carrier = true});
  EXPECT_EQ(b.registry.carriers(knows), 2U) << "one that may return, and the new one";
  b.wait(3s);
  EXPECT_EQ(b.event_names(knows), "device_removed device_removed");
  EXPECT_EQ(b.event_names(fresh), "");
  EXPECT_EQ(b.registry.carriers(knows), 1U);
  EXPECT_EQ(b.event_names(who_knows(b)), "device_removed") << "also to a member that declares itself later";
}

TEST(XrcRestore, ACarrierThatLeftInOrderIsNotMissedByALaterDeclaration) {
  for (const Duration late : {Duration(1s), Duration(4s)}) {
    Bench b(second_epoch());
    const MemberId knows = who_knows(b), carrier = carrier_of(b);
    EXPECT_EQ(refusal_of(b.registry.close(b.now, carrier, true)), "ok");
    b.wait(late);
    const MemberId slow = who_knows(b);
    EXPECT_EQ(b.registry.carriers(slow), 0U);
    b.wait(3s);
    EXPECT_EQ(b.event_names(slow), "");
    EXPECT_EQ(b.event_names(knows), "");
  }
}

TEST(XrcRestore, ACarrierThatWasTheOnlyMemberAndLeftInOrderIsNotMissed) {
  Bench b(second_epoch());
  EXPECT_EQ(refusal_of(b.registry.close(b.now, carrier_of(b), true)), "ok");
  EXPECT_TRUE(b.registry.domains(b.now).empty());
  const MemberId slow = who_knows(b);
  b.wait(3s);
  EXPECT_EQ(b.event_names(slow), "");
  b.registry.dead(b.now, slow);
  const MemberId far = *b.registry.open(b.now, {.key = other, .carriers = 1});
  EXPECT_EQ(b.event_names(far), "device_removed") << "of another domain";
}

TEST(XrcRestore, CarriersThatLeftInOrderAreRememberedWithinTheUsersShare) {
  RegistryOptions options = second_epoch();
  options.user_share = 50;
  options.domains_max = 8;
  Bench b(options);
  // Whether a later declaration misses a carrier that returned and left in order.
  const auto is_missed = [&b](std::uint32_t uid, std::uint64_t file) {
    const MemberId slow =
        *b.registry.open(b.now, {.key = DomainKey{1, uid, file}, .carriers = 1, .process = {.pid = 1, .uid = uid}});
    const bool missed = b.event_names(slow) == "device_removed";
    b.registry.dead(b.now, slow);
    return missed;
  };
  const auto come_and_leave = [&b](std::uint32_t uid, std::uint64_t file, std::uint32_t epoch = 0) {
    const MemberId carrier = *b.registry.open(b.now, {.key = DomainKey{1, uid, file},
                                                      .carrier = true,
                                                      .carriers = 1,
                                                      .carriers_epoch = epoch,
                                                      .process = {.pid = 1, .uid = uid}});
    EXPECT_EQ(refusal_of(b.registry.close(b.now, carrier, true)), "ok");
  };
  for (std::uint64_t file = 1; file <= 10; ++file) come_and_leave(7, file);
  for (std::uint64_t file = 1; file <= 10; ++file) come_and_leave(9, file, options.epoch);
  come_and_leave(8, 1);
  b.wait(3s);
  EXPECT_FALSE(is_missed(8, 1)) << "although another user has filled its share";
  EXPECT_FALSE(is_missed(7, 4));
  EXPECT_TRUE(is_missed(7, 5)) << "beyond its share";
  EXPECT_TRUE(is_missed(9, 1)) << "a carrier of this epoch has not returned";
}

TEST(XrcRestore, AMemberThatConnectsAgainInTheRecoveryStillAwaitsTheCarrier) {
  for (const bool returns : {false, true}) {
    Bench b(second_epoch());
    b.join(1);
    b.registry.dead(b.now, who_knows(b));
    const MemberId again =
        *b.registry.open(b.now, {.key = shared, .carriers = 1, .carriers_epoch = b.registry.options().epoch});
    EXPECT_EQ(b.registry.carriers(again), 1U);
    EXPECT_EQ(b.event_names(again), "");
    if (returns) carrier_of(b);
    b.wait(3s);
    EXPECT_EQ(b.event_names(again), returns ? "" : "device_removed");
    EXPECT_EQ(b.registry.carriers(again), returns ? 1U : 0U);
  }
}

TEST(XrcRestore, ACarrierThatDiedIsMissedByALaterDeclarationAlone) {
  for (const Duration late : {Duration(1s), Duration(4s)}) {
    Bench b(second_epoch());
    const MemberId knows = who_knows(b), carrier = carrier_of(b);
    b.registry.dead(b.now, carrier);
    EXPECT_EQ(b.event_names(knows), "device_removed");
    b.wait(late);
    const MemberId slow = who_knows(b);
    b.wait(3s);
    EXPECT_EQ(b.event_names(slow), "device_removed");
    EXPECT_EQ(b.event_names(knows), "");
  }
}

TEST(XrcRestore, OutsideOfARecoveryItIsRegistering) {
  Bench b;
  const MemberId p1 = b.join(1), p2 = b.join(2);
  const TgtId id = b.receiver(p1);
  EXPECT_EQ(refusal_of(b.registry.restore(b.now, p2, {.id = id, .state = State::rts})), "ok");
  EXPECT_EQ(b.state(id), "rtr");
  b.report(id, EventKind::peer_gone);
  EXPECT_EQ(refusal_of(b.registry.restore(b.now, b.join(3), {.id = id, .state = State::rtr})), "gone");
}

}  // namespace
}  // namespace parley::xrc::restore_test
