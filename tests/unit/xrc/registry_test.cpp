// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What members of a domain may count on: who keeps a TGT queue pair alive, who is told what, and how names stay unambiguous.
#include <algorithm>

#include "tests/unit/xrc/registry_kit.hpp"

namespace parley::xrc::registry_test {
namespace {
using namespace kit;

TEST(XrcRegistry, OutlivesItsCreator) {
  for (const bool killed : {false, true}) {
    Bench b;
    const MemberId p1 = b.join(1), p2 = b.join(2);
    const TgtId id = b.receiver(p1);
    EXPECT_EQ(b.enlist(p2, id), "ok");
    ASSERT_TRUE(b.registry.add_srq(p2, 7));
    if (killed)
      b.registry.dead(b.now, p1);
    else {
      EXPECT_EQ(refusal_of(b.registry.close(b.now, p1, true)), "ok");
    }
    EXPECT_EQ(b.state(id), "rtr");
    EXPECT_EQ(*b.registry.route(id, 7), Route::delivered);
    EXPECT_TRUE(b.ended().empty());
    EXPECT_EQ(b.unregister(p2, id), "ok");
    EXPECT_EQ(b.ended(), std::vector{id});
  }
}

TEST(XrcRegistry, EndsWithACreatorWhomNobodyHadFollowed) {
  Bench b;
  const MemberId p1 = b.join(1), p2 = b.join(2);
  const TgtId id = b.make(p1);
  b.registry.dead(b.now, p1);
  EXPECT_EQ(b.ended(), std::vector{id});
  EXPECT_EQ(b.registry.resting_count(), 1U);
  EXPECT_EQ(b.enlist(p2, id), "gone");
}

TEST(XrcRegistry, EndsAfterTheLastDeathInEveryOrder) {
  std::array<std::size_t, 3> order{0, 1, 2};
  do {
    Bench b;
    b.join(9);
    const std::array members{b.join(1), b.join(2), b.join(3)};
    const TgtId id = b.receiver(members[0]);
    EXPECT_EQ(b.enlist(members[1], id), "ok");
    EXPECT_EQ(b.enlist(members[2], id), "ok");
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(b.registrants(id), 3 - i);
      EXPECT_TRUE(b.ended().empty());
      b.registry.dead(b.now, members[order[i]]);
    }
    EXPECT_EQ(b.ended(), std::vector{id});
    EXPECT_EQ(b.registry.counters().died, 3U);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(XrcRegistry, CountsAMemberOnce) {
  Bench b;
  const MemberId p1 = b.join(1), p2 = b.join(2);
  const TgtId id = b.make(p1);
  EXPECT_FALSE(b.registry.enlist(b.now, p2, id)->already);
  EXPECT_TRUE(b.registry.enlist(b.now, p2, id)->already);
  EXPECT_EQ(b.unregister(p2, id), "ok");
  EXPECT_EQ(b.unregister(p2, id), "not_registered");
  EXPECT_EQ(b.registrants(id), 1U);
  EXPECT_EQ(b.unregister(b.join(3), id), "not_registered");
  EXPECT_EQ(b.registrants(id), 1U);
}

TEST(XrcRegistry, TellsTheReasonsWhyNothingHasTheNumber) {
  Bench b;
  const MemberId p1 = b.join(1), p2 = b.join(2), elsewhere = b.join(3, other);
  const TgtId id = b.make(p1);
  ASSERT_TRUE(b.registry.note_other(p1, 0x42));
  EXPECT_EQ(b.enlist(p2, {0x900000, 0}), "not_found");
  EXPECT_EQ(b.enlist(p2, {id.qpn, id.generation + 9}), "not_found");
  EXPECT_EQ(b.enlist(elsewhere, id), "other_domain");
  EXPECT_EQ(b.enlist(elsewhere, {id.qpn, 0}), "other_domain");
  EXPECT_EQ(b.enlist(p2, {0x42, 0}), "wrong_type");
  EXPECT_EQ(b.unregister(p1, id), "ok");
  EXPECT_EQ(b.enlist(p2, id), "gone");
  EXPECT_EQ(b.enlist(p2, {id.qpn, 0}), "gone");
  EXPECT_EQ(b.enlist(elsewhere, id), "other_domain");
  EXPECT_EQ(b.registry.counters().stale_refused, 2U);
}

TEST(XrcRegistry, LateNamesNeverMeanALaterQueuePair) {
  Bench b({.quarantine = 5s, .qpn_first = 100, .qpn_last = 100});
  const MemberId p1 = b.join(1), p2 = b.join(2);
  const TgtId old = b.make(p1);
  EXPECT_EQ(b.unregister(p1, old), "ok");
  EXPECT_EQ(refusal_of(b.registry.create(b.now, p1, {})), "no_memory");  // its only number rests
  EXPECT_EQ(b.enlist(p2, {100, 0}), "gone");
  b.wait(5s);
  const TgtId reused = b.make(p1);
  EXPECT_EQ(reused.qpn, old.qpn);
  EXPECT_EQ(b.enlist(p2, old), "gone");
  EXPECT_EQ(b.unregister(p1, old), "gone");
  EXPECT_EQ(b.registrants(reused), 1U);
  EXPECT_EQ(b.enlist(p2, {100, 0}), "ok");
  EXPECT_EQ(b.registrants(reused), 2U);
}

TEST(XrcRegistry, NumbersAreUsedAgainInTurn) {
  Bench b({.quarantine = 0s, .qpn_first = 100, .qpn_last = 102});
  const MemberId p1 = b.join(1);
  std::vector<std::uint32_t> numbers;
  for (int i = 0; i < 6; ++i) {
    const TgtId id = b.make(p1);
    numbers.push_back(id.qpn);
    EXPECT_EQ(b.unregister(p1, id), "ok");
  }
  EXPECT_EQ(numbers, (std::vector<std::uint32_t>{100, 101, 102, 100, 101, 102}));
}

TEST(XrcRegistry, ADeviceMayChooseTheNumbers) {
  Bench b({.quarantine = 5s, .assigns_numbers = false});
  const MemberId p1 = b.join(1), p2 = b.join(2);
  EXPECT_EQ(refusal_of(b.registry.create(b.now, p1, {})), "invalid");
  const auto made = b.registry.create(b.now, p1, {.qpn = 50});
  ASSERT_TRUE(made);
  EXPECT_EQ(refusal_of(b.registry.create(b.now, p2, {.qpn = 50})), "conflict");
  EXPECT_EQ(b.unregister(p1, made->id), "ok");
  EXPECT_EQ(refusal_of(b.registry.create(b.now, p2, {.qpn = 50})), "busy");
  b.wait(5s);
  EXPECT_EQ(refusal_of(b.registry.create(b.now, p2, {.qpn = 50})), "ok");
}

TEST(XrcRegistry, WhatIsBeingMadeIsItsCreatorsAlone) {
  Bench b({.assigns_numbers = false});
  const MemberId p1 = b.join(1), p2 = b.join(2);
  const auto reserved = b.registry.create(b.now, p1, {.peer = peer, .reserve = true});
  ASSERT_TRUE(reserved);
  EXPECT_EQ(refusal_of(b.registry.create(b.now, p2, {.peer = peer, .qpn = 5})), "busy");
  EXPECT_EQ(refusal_of(b.registry.publish(b.now, p2, reserved->id, 5)), "not_registered");
  EXPECT_EQ(refusal_of(b.registry.publish(b.now, p1, reserved->id)), "invalid");
  const auto published = b.registry.publish(b.now, p1, reserved->id, 5);
  ASSERT_TRUE(published);
  EXPECT_EQ(*published, (TgtId{5, reserved->id.generation}));
  EXPECT_TRUE(b.registry.create(b.now, p2, {.peer = peer, .qpn = 6})->existing);

  const auto doomed = b.registry.create(b.now, p1, {.reserve = true});
  ASSERT_TRUE(doomed);
  b.registry.dead(b.now, p1);
  EXPECT_EQ(b.registry.counters().rolled_back, 1U);
  EXPECT_EQ(b.registry.tgt_count(), 1U);
}

TEST(XrcRegistry, EveryRegistrantHearsOnceOfAFailure) {
  Bench b;
  std::vector<MemberId> members;
  for (std::uint32_t pid = 1; pid <= 5; ++pid) members.push_back(b.join(pid));
  const TgtId id = b.receiver(members[0]);
  for (const MemberId m : members) EXPECT_EQ(b.enlist(m, id), "ok");
  EXPECT_EQ(refusal_of(b.registry.report(b.now, id, EventKind::fatal, 9)), "ok");
  EXPECT_EQ(refusal_of(b.registry.report(b.now, id, EventKind::access_error, 0)), "ok");
  for (const MemberId m : members) {
    EXPECT_EQ(b.events(m), (std::vector{Event{id, EventKind::fatal, 9, 1}}));
    EXPECT_EQ(b.unregister(m, id), "ok");
  }
  EXPECT_EQ(b.ended(), std::vector{id});
}

TEST(XrcRegistry, NothingComesAfterUnregisterReturns) {
  Bench b;
  const MemberId p1 = b.join(1), p2 = b.join(2);
  const TgtId id = b.receiver(p1), second = b.receiver(p1);
  EXPECT_EQ(b.enlist(p2, id), "ok");
  EXPECT_EQ(b.enlist(p2, second), "ok");
  b.report(id, EventKind::established);
  b.report(second, EventKind::established);
  b.report(id, EventKind::fatal);
  EXPECT_EQ(*b.registry.unregister(b.now, p2, id), 2U);
  EXPECT_EQ(b.events(p2), (std::vector{Event{second, EventKind::established, 0, 1}}));
  EXPECT_EQ(b.event_names(p1), "established established fatal");
}

TEST(XrcRegistry, LatecomersHearOfAFailureFirstOrAreRefused) {
  for (const bool may : {false, true}) {
    Bench b({.join_failed = may});
    const MemberId p1 = b.join(1), p2 = b.join(2);
    const TgtId id = b.receiver(p1);
    b.report(id, EventKind::request_error);
    EXPECT_EQ(b.enlist(p2, id), may ? "ok" : "state");
    if (may) {
      EXPECT_EQ(b.events(p2), (std::vector{Event{id, EventKind::request_error, 0, 1, 0, true}}));
    }
    b.report(id, EventKind::peer_gone);
    EXPECT_EQ(b.enlist(b.join(3), id), "gone");
  }
}

TEST(XrcRegistry, AMemberThatTakesNothingDelaysNobody) {
  Bench b({.events_max = 2});
  const MemberId slow = b.join(1), quick = b.join(2);
  std::vector<TgtId> ids;
  for (int i = 0; i < 5; ++i) {
    ids.push_back(b.receiver(slow));
    EXPECT_EQ(b.enlist(quick, ids.back()), "ok");
    b.report(ids.back(), EventKind::fatal);
    EXPECT_EQ(b.event_names(quick), "fatal");
  }
  EXPECT_EQ(b.event_names(slow), "fatal fatal events_lost");
  EXPECT_EQ(b.registry.counters().events_lost, 3U);
  EXPECT_EQ(b.registry.query(b.now, slow, ids[4])->state, State::error);
  EXPECT_EQ(b.event_names(slow), "");
}

TEST(XrcRegistry, RepeatedEventsAreOneThatSaysSo) {
  Bench b;
  const MemberId p1 = b.join(1);
  const TgtId id = b.receiver(p1);
  for (int i = 0; i < 3; ++i) b.report(id, EventKind::established);
  EXPECT_EQ(b.events(p1), (std::vector{Event{id, EventKind::established, 0, 3, 2}}));
}

TEST(XrcRegistry, ADeadPeersQueuePairEndsAlthoughSomebodyHoldsIt) {
  Bench b({.grace = 10s});
  const MemberId good = b.join(1), deaf = b.join(2);
  const TgtId id = b.receiver(good);
  EXPECT_EQ(b.enlist(deaf, id), "ok");
  b.report(id, EventKind::peer_gone);
  EXPECT_EQ(b.event_names(good), "peer_gone");
  EXPECT_EQ(b.unregister(good, id), "ok");
  b.wait(9s);
  EXPECT_EQ(b.state(id), "drain");
  b.wait(1s);
  EXPECT_EQ(b.ended(), std::vector{id});
  EXPECT_EQ(b.registry.counters().reaped, 1U);
  EXPECT_EQ(b.unregister(deaf, id), "gone");
  EXPECT_EQ(b.event_names(deaf), "");  // it was told while it could have heard
  EXPECT_EQ(refusal_of(b.registry.close(b.now, deaf, false)), "ok");
}

TEST(XrcRegistry, AFailureThatNobodyAttendsToDrains) {
  Bench b({.grace = 10s, .error_grace = 60s});
  const MemberId p1 = b.join(1);
  const TgtId id = b.receiver(p1);
  b.report(id, EventKind::fatal);
  b.wait(60s);
  EXPECT_EQ(b.state(id), "drain");
  EXPECT_EQ(b.event_names(p1), "fatal unattended");
  b.wait(10s);
  EXPECT_EQ(b.state(id), "gone");
}

TEST(XrcRegistry, TwoThatMeetTheSamePeerShareOneQueuePair) {
  Bench b;
  const MemberId p1 = b.join(1), p2 = b.join(2), elsewhere = b.join(3, other);
  const auto first = b.registry.create(b.now, p1, {.peer = peer}),
             second = b.registry.create(b.now, p2, {.peer = peer});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->id, second->id);
  EXPECT_TRUE(second->existing);
  EXPECT_EQ(b.registrants(first->id), 2U);
  EXPECT_FALSE(b.registry.create(b.now, elsewhere, {.peer = peer})->existing);
}

TEST(XrcRegistry, APeerThatBeganAnewGetsANewQueuePair) {
  Bench b;
  const MemberId p1 = b.join(1);
  const TgtId old = b.receiver(p1, peer);
  const auto found = b.registry.find(p1, peer);
  ASSERT_TRUE(found);
  EXPECT_EQ(b.report(*found, EventKind::peer_reused), "ok");
  EXPECT_EQ(refusal_of(b.registry.find(p1, peer)), "not_found");
  const TgtId fresh = b.receiver(p1, peer);
  EXPECT_NE(fresh, old);
  EXPECT_EQ(b.state(old), "drain");
  EXPECT_EQ(b.unregister(p1, old), "ok");
  EXPECT_EQ(*b.registry.find(p1, peer), fresh);
}

TEST(XrcRegistry, TwoThatSetItUpAgreeOrOneIsRefused) {
  Bench b;
  const MemberId p1 = b.join(1), p2 = b.join(2);
  const TgtId id = b.make(p1);
  EXPECT_EQ(b.enlist(p2, id), "ok");
  EXPECT_FALSE(*b.registry.modify(b.now, p1, id, State::init, 7));
  EXPECT_TRUE(*b.registry.modify(b.now, p2, id, State::init, 7));
  EXPECT_FALSE(*b.registry.modify(b.now, p2, id, State::rtr, 8));
  EXPECT_TRUE(*b.registry.modify(b.now, p1, id, State::init, 7));  // it was slower
  EXPECT_EQ(refusal_of(b.registry.modify(b.now, p1, id, State::rtr, 9)), "conflict");
  EXPECT_EQ(b.state(id), "rtr");
}

TEST(XrcRegistry, ADomainInUseIsLeftOnlyByForce) {
  Bench b;
  const MemberId p1 = b.join(1), p2 = b.join(2);
  const TgtId id = b.make(p1);
  EXPECT_EQ(b.enlist(p2, id), "ok");
  EXPECT_EQ(refusal_of(b.registry.close(b.now, p1, false)), "busy");
  EXPECT_EQ(b.registrants(id), 2U);
  EXPECT_EQ(refusal_of(b.registry.close(b.now, p1, true)), "ok");
  EXPECT_EQ(b.enlist(p1, id), "not_member");
  EXPECT_EQ(b.registrants(id), 1U);
}

TEST(XrcRegistry, DomainsAreKnownByDeviceAndInode) {
  Bench b;
  const MemberId p1 = b.join(1);
  const TgtId id = b.make(p1);
  EXPECT_EQ(b.enlist(b.join(2), id), "ok");
  const OpenParameters known{.key = shared, .create = true, .exclusive = true}, unknown{.key = other, .create = false};
  EXPECT_EQ(refusal_of(b.registry.open(b.now, known)), "domain_exists");
  EXPECT_EQ(refusal_of(b.registry.open(b.now, unknown)), "unknown_domain");
  DomainKey same_file = shared;
  same_file.device = 2;
  EXPECT_EQ(b.enlist(b.join(3, same_file), id), "other_domain");
  const auto alone = b.registry.open(b.now, {}), too = b.registry.open(b.now, {});
  ASSERT_TRUE(alone && too);
  EXPECT_EQ(b.enlist(*too, b.make(*alone)), "other_domain");
}

TEST(XrcRegistry, LingersForThoseWhoKnowItsName) {
  Bench b({.linger = 2s});
  const MemberId p1 = b.join(1), p2 = b.join(2);
  const TgtId id = b.receiver(p1);
  EXPECT_EQ(b.unregister(p1, id), "ok");
  EXPECT_EQ(b.state(id), "linger");
  EXPECT_EQ(b.enlist(p2, {id.qpn, 0}), "gone");
  EXPECT_EQ(b.enlist(p2, id), "ok");
  EXPECT_EQ(b.state(id), "rtr");
  EXPECT_EQ(b.unregister(p2, id), "ok");
  b.wait(2s);
  EXPECT_EQ(b.ended(), std::vector{id});
  EXPECT_EQ(b.registry.lingering_count(), 0U);
}

TEST(XrcRegistry, WhatLingersGivesWayUnderPressure) {
  Bench b({.linger = 1h, .tgts_max = 2});
  const MemberId p1 = b.join(1);
  const TgtId first = b.receiver(p1), second = b.receiver(p1);
  EXPECT_EQ(refusal_of(b.registry.create(b.now, p1, {})), "no_memory");
  EXPECT_EQ(b.unregister(p1, first), "ok");
  b.make(p1);
  EXPECT_EQ(b.ended(), std::vector{first});
  EXPECT_EQ(b.state(second), "rtr");
}

TEST(XrcRegistry, ADeadMemberIsNotCalledToItsEvents) {
  Bench b;
  const MemberId p1 = b.join(1), p2 = b.join(2);
  const TgtId id = b.receiver(p1);
  EXPECT_EQ(b.enlist(p2, id), "ok");
  EXPECT_EQ(b.report(id, EventKind::fatal), "ok");
  b.registry.dead(b.now, p1);
  EXPECT_EQ(b.registry.poll_waiting(), p2);
  EXPECT_FALSE(b.registry.poll_waiting());
  EXPECT_EQ(b.event_names(p2), "fatal");
}

TEST(XrcRegistry, QueuesGoWithTheirOwnersAndQueuePairsStay) {
  Bench b;
  const MemberId p1 = b.join(1), p2 = b.join(2), elsewhere = b.join(3, other);
  const TgtId id = b.make(p1);
  ASSERT_TRUE(b.registry.add_srq(p1, 1) && b.registry.add_srq(p2, 2) && b.registry.add_srq(elsewhere, 3));
  EXPECT_EQ(refusal_of(b.registry.add_srq(p2, 1)), "conflict");
  EXPECT_EQ(refusal_of(b.registry.add_srq(p1, 1)), "ok");  // asked again
  EXPECT_EQ(refusal_of(b.registry.close(b.now, p2, false)), "busy");
  EXPECT_EQ(*b.registry.route(id, 1), Route::not_ready);
  ASSERT_TRUE(b.registry.modify(b.now, p1, id, State::init, 1) && b.registry.modify(b.now, p1, id, State::rtr, 1));
  EXPECT_EQ(*b.registry.route(id, 1), Route::delivered);
  EXPECT_EQ(*b.registry.route(id, 3), Route::srq_of_other_domain);
  EXPECT_EQ(*b.registry.route(id, 4), Route::no_such_srq);
  b.registry.dead(b.now, p2);
  EXPECT_EQ(*b.registry.route(id, 2), Route::no_such_srq);
  ASSERT_TRUE(b.registry.remove_srq(p1, 1));
  EXPECT_EQ(*b.registry.route(id, 1), Route::no_such_srq);
  EXPECT_EQ(refusal_of(b.registry.remove_srq(p1, 1)), "not_found");
  EXPECT_EQ(b.state(id), "rtr");
}

TEST(XrcRegistry, MembersHearOfTheirDevice) {
  Bench b;
  const MemberId p1 = b.join(1), idle = b.join(2);
  const MemberId far = b.join(3, {.device = 2, .st_dev = 8, .st_ino = 100});
  const TgtId id = b.receiver(p1);
  b.registry.report_device(b.now, 1, EventKind::device_failed, 3);
  EXPECT_EQ(b.events(idle), (std::vector{Event{{}, EventKind::device_failed, 3}}));
  EXPECT_EQ(b.event_names(p1), "device_failed");
  b.registry.report_device(b.now, 1, EventKind::device_removed, 0);
  EXPECT_EQ(b.event_names(p1), "device_removed device_removed");
  EXPECT_EQ(b.state(id), "drain");
  EXPECT_EQ(b.event_names(far), "");
}

TEST(XrcRegistry, AUserReportsTheDeviceToItsOwnDomains) {
  Bench b;
  const auto join = [&](std::uint32_t uid, std::uint64_t file) {
    return *b.registry.open(
        b.now, {.key = DomainKey{.device = 1, .st_dev = 8, .st_ino = file}, .process = {.pid = 1, .uid = uid}});
  };
  const MemberId own = join(7, 1), own_other = join(7, 2), others = join(8, 3), guest = join(7, 3), root = join(0, 4);
  const TgtId id = b.receiver(others);
  b.registry.report_device(b.now, own, EventKind::device_failed, 1);
  b.registry.report_device(b.now, own, EventKind::device_removed, 0);
  for (const MemberId member : {own, own_other}) EXPECT_EQ(b.event_names(member), "device_failed device_removed");
  for (const MemberId member : {others, root}) EXPECT_EQ(b.event_names(member), "");
  EXPECT_EQ(b.state(id), "rtr");
  b.registry.report_device(b.now, guest, EventKind::device_failed, 1);
  EXPECT_EQ(b.event_names(others), "device_failed") << "another user's domain that it has open";
  b.registry.report_device(b.now, root, EventKind::device_removed, 0);
  EXPECT_EQ(b.event_names(others), "device_removed device_removed");
  EXPECT_EQ(b.state(id), "drain");
}

TEST(XrcRegistry, TheDeathOfTheDevicesCarrierDrainsTheDomain) {
  Bench b;
  const MemberId carrier = *b.registry.open(b.now, {.key = shared, .carrier = true}), p1 = b.join(1), idle = b.join(2);
  const MemberId far = b.join(3, other);
  const TgtId id = b.receiver(p1), its = b.receiver(carrier), elsewhere = b.receiver(far);
  ASSERT_TRUE(b.registry.create(b.now, p1, {.reserve = true}));
  EXPECT_EQ(b.enlist(p1, its), "ok");
  b.registry.dead(b.now, carrier);
  EXPECT_EQ(b.event_names(p1), "device_removed device_removed device_removed");
  EXPECT_EQ(b.event_names(idle), "device_removed");
  EXPECT_EQ(b.event_names(far), "");
  EXPECT_EQ(b.state(id), "drain");
  EXPECT_EQ(b.state(its), "drain");
  EXPECT_EQ(b.state(elsewhere), "rtr");
  EXPECT_EQ(b.registrants(its), 1U);
}

TEST(XrcRegistry, ACarrierThatClosesTheDomainEndsNothing) {
  Bench b;
  const MemberId carrier = *b.registry.open(b.now, {.key = shared, .carrier = true}), p1 = b.join(1);
  const TgtId id = b.receiver(p1);
  EXPECT_EQ(refusal_of(b.registry.close(b.now, carrier, true)), "ok");
  EXPECT_EQ(b.state(id), "rtr");
  EXPECT_EQ(b.event_names(p1), "");
}

TEST(XrcRegistry, StaysWithinItsBounds) {
  Bench b({.domains_max = 2,
           .members_max = 4,
           .members_per_domain = 2,
           .tgts_max = 3,
           .registrations_max = 3,
           .srqs_max = 1});
  const MemberId p1 = b.join(1), p2 = b.join(2);
  EXPECT_EQ(refusal_of(b.registry.open(b.now, {.key = shared})), "too_many_members");
  b.join(3, other);
  EXPECT_EQ(refusal_of(b.registry.open(b.now, {})), "no_memory");  // domains
  b.join(4, other);
  EXPECT_EQ(refusal_of(b.registry.open(b.now, {.key = other})), "no_memory");  // members
  const TgtId id = b.make(p1);
  b.make(p1);
  EXPECT_EQ(b.enlist(p2, id), "ok");
  EXPECT_EQ(refusal_of(b.registry.create(b.now, p1, {})), "no_memory");  // registrations
  EXPECT_EQ(refusal_of(b.registry.add_srq(p1, 1)), "ok");
  EXPECT_EQ(refusal_of(b.registry.add_srq(p1, 2)), "no_memory");
  EXPECT_EQ(b.registrants(id), 2U);  // others are undisturbed
}

TEST(XrcRegistry, OneUserLeavesRoomForOthersAndAllForRoot) {
  Bench b({.domains_max = 8, .tgts_max = 8, .registrations_max = 16, .srqs_max = 8, .user_share = 50, .admin_uid = 9});
  const auto join = [&b](std::uint32_t uid) {
    return b.registry.open(b.now, {.key = DomainKey{1, 8, 1000 + uid}, .process = {.pid = uid, .uid = uid}}).value();
  };
  const MemberId greedy = join(7), other_user = join(8), admin = join(9), root = join(0);
  std::vector<TgtId> made;
  for (int i = 0; i < 4; ++i) made.push_back(b.make(greedy));
  EXPECT_EQ(refusal_of(b.registry.create(b.now, greedy, {})), "share_of_tgts");
  for (int i = 0; i < 3; ++i) b.make(other_user);
  EXPECT_EQ(refusal_of(b.registry.create(b.now, other_user, {})), "share_of_tgts");  // the last eighth is root's
  b.make(root);
  EXPECT_EQ(refusal_of(b.registry.create(b.now, root, {})), "no_memory");
  EXPECT_EQ(b.unregister(greedy, made[0]), "ok");
  b.ended();
  b.make(admin);
  for (std::uint32_t n = 1; n <= 4; ++n) {
    EXPECT_EQ(refusal_of(b.registry.add_srq(greedy, n)), "ok");
    EXPECT_EQ(refusal_of(b.registry.note_other(greedy, n)), "ok");
  }
  EXPECT_EQ(refusal_of(b.registry.add_srq(greedy, 5)), "share_of_srqs");
  EXPECT_EQ(refusal_of(b.registry.note_other(greedy, 5)), "share_of_queue_pairs");
  EXPECT_EQ(refusal_of(b.registry.add_srq(admin, 5)), "ok");
  EXPECT_EQ(refusal_of(b.registry.remove_srq(greedy, 1)), "ok");
  EXPECT_EQ(refusal_of(b.registry.add_srq(greedy, 1)), "ok");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(b.registry.open(b.now, {.process = {.pid = 7, .uid = 7}}));
  EXPECT_EQ(refusal_of(b.registry.open(b.now, {.process = {.pid = 7, .uid = 7}})), "share_of_domains");
  b.registry.dead(b.now, greedy);
  const MemberId again = join(7);
  for (int i = 0; i < 3; ++i) b.make(again);
}

TEST(XrcRegistry, RegistrationsHaveAShareToo) {
  Bench b({.registrations_max = 8, .user_share = 25});
  const auto member = [&b](std::uint32_t uid) {
    return b.registry.open(b.now, {.key = shared, .process = {.pid = uid, .uid = uid}}).value();
  };
  const MemberId maker = member(0), user = member(7);
  const std::vector<TgtId> ids{b.make(maker), b.make(maker), b.make(maker)};
  EXPECT_EQ(b.enlist(user, ids[0]), "ok");
  EXPECT_EQ(b.enlist(user, ids[1]), "ok");
  EXPECT_EQ(b.enlist(user, ids[2]), "share_of_registrations");
  EXPECT_EQ(b.unregister(user, ids[0]), "ok");
  EXPECT_EQ(b.enlist(user, ids[2]), "ok");
  EXPECT_EQ(refusal_of(b.registry.create(b.now, user, {})), "share_of_registrations");
}

TEST(XrcRegistry, WaitsForWhoeverEndsTheRealOnes) {
  Bench b({.tgts_max = 2});
  const MemberId p1 = b.join(1);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(b.unregister(p1, b.make(p1)), "ok");
  EXPECT_EQ(refusal_of(b.registry.create(b.now, p1, {})), "no_memory");
  EXPECT_EQ(b.ended().size(), 2U);
  EXPECT_EQ(refusal_of(b.registry.create(b.now, p1, {})), "ok");
}

TEST(XrcRegistry, OptionsOutOfRangeAreRefused) {
  for (const RegistryOptions& o :
       {RegistryOptions{.epoch = 0}, RegistryOptions{.grace = -1s}, RegistryOptions{.qpn_first = 1},
        RegistryOptions{.qpn_first = 5, .qpn_last = 4}, RegistryOptions{.qpn_last = 0x1000000},
        RegistryOptions{.qpn_next = 1}, RegistryOptions{.tgts_max = 0}})
    EXPECT_EQ(refusal_of(Registry::create(t0, o)), "invalid");
}

}  // namespace
}  // namespace parley::xrc::registry_test
