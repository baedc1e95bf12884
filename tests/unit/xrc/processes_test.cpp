// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What many processes and their broker do together, message by message, in the order that a seed draws. Rows are numbered as
// in docs/xrc.md, which says of each where else it is tested; tests/script/xrc_test.py has them with real processes.
#include "tests/unit/xrc/world.hpp"

namespace parley::xrc::processes_test {
namespace {
using namespace kit;

/// A process of another user, which says to the broker whatever the test wants.
struct Impostor {
  Impostor(World& world, std::uint32_t user, const FileFacts& file) : w(world), number(1'000'000 + user) {
    EXPECT_TRUE(w.server->connected(number, {.pid = user, .uid = user}));
    say({.ask = RequestType::hello, .reason = protocol_version, .other = protocol_version});
    const auto flags = static_cast<std::uint16_t>(Request::create | (file.st_ino != 0 ? Request::shared : 0));
    EXPECT_EQ(say({.ask = RequestType::open, .flags = flags, .value = 1}, file).refusal, Refusal::none);
  }
  Answer say(Request request, const std::optional<FileFacts>& file = {}) {
    request.number = ++asked;
    w.server->handle_message(w.now, number, emit(request), file);
    Answer out;
    while (const auto octets = w.server->poll_transmit(w.now, number)) {
      const auto message = parse(*octets);
      if (const auto* answer = message ? std::get_if<Answer>(&*message) : nullptr) out = *answer;
    }
    return out;
  }
  std::string declare(TgtId id, std::uint64_t proof) {
    return std::string(
        to_string(say({.ask = RequestType::restore, .state = State::rtr, .tgt = id, .value = proof}).refusal));
  }

  World& w;
  ConnectionNumber number;
  std::uint64_t asked = 0;
};

TEST(XrcProcesses, Row01And02_ACreatorMayLeaveOrBeKilled) {
  for (const bool killed : {false, true})
    play([killed](World& w) {
      Node &p1 = w.process(1), &p2 = w.process(2);
      const TgtId id = w.receiver(p1);
      EXPECT_EQ(w.enlist(p2, id), "none");
      EXPECT_EQ(w.said(p2, {.ask = RequestType::add_srq, .other = 9}), "none");
      if (killed)
        w.kill(p1);
      else
        w.call(p1, {.ask = RequestType::close, .flags = Request::force});
      w.settle();
      EXPECT_EQ(w.state(id), "rtr");
      EXPECT_EQ(w.call(p2, {.ask = RequestType::route, .tgt = id, .other = 9}).value, std::uint64_t(Route::delivered));
      EXPECT_EQ(w.unregister(p2, id), "none");
      EXPECT_TRUE(w.has_ended(id));
    });
}

TEST(XrcProcesses, Row03_NothingStaysOfACreatorThatDiesAlone) {
  play([](World& w) {
    Node &p1 = w.process(1), &p2 = w.process(2);
    const TgtId id = w.make(p1);
    w.kill(p1);
    w.settle();
    EXPECT_TRUE(w.has_ended(id));
    EXPECT_EQ(w.server->registry().resting_count(), 1U);
    EXPECT_EQ(w.enlist(p2, id), "gone");
  });
}

TEST(XrcProcesses, Row04_TheLastDeathEndsItInEveryOrder) {
  std::array<std::size_t, 3> order{0, 1, 2};
  do {
    play([&order](World& w) {
      const std::array nodes{&w.process(1), &w.process(2), &w.process(3)};
      const TgtId id = w.receiver(*nodes[0]);
      for (std::size_t i = 1; i < 3; ++i) EXPECT_EQ(w.enlist(*nodes[i], id), "none");
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(w.registrants(id), 3 - i);
        w.kill(*nodes[order[i]]);
        w.settle();
      }
      EXPECT_TRUE(w.has_ended(id));
      EXPECT_EQ(w.server->registry().tgt_count(), 0U);
    });
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(XrcProcesses, Row05To09_CountsAndRefusals) {
  play([](World& w) {
    Node &p1 = w.process(1), &p2 = w.process(2), &p3 = w.process(3);
    Node& elsewhere = w.process(4, {.st_dev = 8, .st_ino = 200});
    const TgtId id = w.make(p1);
    EXPECT_EQ(w.call(p2, {.ask = RequestType::enlist, .tgt = id}).flags & Answer::already, 0);
    EXPECT_EQ(w.call(p2, {.ask = RequestType::enlist, .tgt = id}).flags & Answer::already, Answer::already);
    EXPECT_EQ(w.unregister(p2, id), "none");
    EXPECT_EQ(w.unregister(p2, id), "not_registered");
    EXPECT_EQ(w.unregister(p3, id), "not_registered");
    EXPECT_EQ(w.registrants(id), 1U);
    EXPECT_EQ(w.said(p1, {.ask = RequestType::note_other, .other = 0x42}), "none");
    EXPECT_EQ(w.enlist(p2, {0x800777, 0}), "not_found");
    EXPECT_EQ(w.enlist(elsewhere, {id.qpn, 0}), "other_domain");
    EXPECT_EQ(w.enlist(p2, {0x42, 0}), "wrong_type");
    EXPECT_EQ(w.unregister(p1, id), "none");
    EXPECT_EQ(w.enlist(p2, id), "gone");
    EXPECT_EQ(w.enlist(p2, {id.qpn, 0}), "gone");
  });
}

TEST(XrcProcesses, Row10_ANumberThatIsUsedAgain) {
  play(
      [](World& w) {
        Node &p1 = w.process(1), &p2 = w.process(2);
        const TgtId old = w.make(p1);
        EXPECT_EQ(w.unregister(p1, old), "none");
        EXPECT_EQ(w.enlist(p2, {old.qpn, 0}), "gone");
        w.wait(5s);
        const TgtId later = w.make(p1);
        EXPECT_EQ(later.qpn, old.qpn);
        EXPECT_EQ(w.enlist(p2, old), "gone");
        EXPECT_EQ(w.registrants(later), 1U);
      },
      {.quarantine = 5s, .qpn_first = 50, .qpn_last = 50});
}

/// Processes that come to one queue pair and leave it; how often it ended under them.
std::uint64_t storm(World& w, std::uint32_t processes, int times) {
  std::vector<Node*> nodes;
  for (std::uint32_t pid = 1; pid <= processes; ++pid) nodes.push_back(&w.process(pid));
  TgtId id = w.make(*nodes[0]);
  std::uint64_t ends = 0;
  for (int i = 0; i < times; ++i) {
    Node& n = *nodes[w.rng().below(nodes.size())];
    w.post(n, {.ask = w.rng().below(3) == 0 ? RequestType::enlist : RequestType::unregister, .tgt = id});
    for (int steps = 0; steps < 20; ++steps) w.step();
    if (i % 20 == 0) w.settle();
    if (w.has_ended(id)) {
      w.settle();
      ++ends;
      EXPECT_EQ(w.enlist(*nodes[1], id), "gone");
      id = w.make(*nodes[0]);
    }
    for (Node* node : nodes) node->answers.clear();
  }
  for (Node* n : nodes) w.kill(*n);
  w.settle();
  EXPECT_EQ(w.server->registry().tgt_count(), 0U);
  EXPECT_EQ(w.server->registry().counters().created, w.server->registry().counters().destroyed);
  return ends;
}

TEST(XrcProcesses, Row11_AStormOfRegistrations) {
  World w(11);
  storm(w, 64, 1000);
}

TEST(XrcProcesses, Row12_TheLastToLeaveAgainstTheNextToCome) {
  World w(12);
  EXPECT_GT(storm(w, 3, 10000), 500U);
}

TEST(XrcProcesses, Row13_NothingPilesUpWhenProcessesAreKilledAtRandom) {
  World w(13, {.quarantine = 10s});
  std::uint32_t pid = 0;
  std::vector<Node*> nodes;
  for (int i = 0; i < 8; ++i) nodes.push_back(&w.process(++pid));
  std::vector<TgtId> ids;
  for (int i = 0; i < 1000; ++i) {
    Node*& n = nodes[w.rng().below(nodes.size())];
    if (w.rng().below(20) == 0) {
      w.kill(*n);
      n = &w.process(++pid);
    } else if (ids.empty() || w.rng().below(3) != 0) {
      ids.push_back(w.make(*n));
      w.call(*n, {.ask = RequestType::add_srq, .other = static_cast<std::uint32_t>(1000 + i)});
    } else {
      const TgtId id = ids[w.rng().below(ids.size())];
      w.call(*n, {.ask = w.rng().below(2) == 0 ? RequestType::enlist : RequestType::unregister, .tgt = id});
    }
    n->answers.clear();
  }
  for (Node* n : nodes) w.kill(*n);
  w.settle();
  EXPECT_GT(w.ended_count(), 400U);
  EXPECT_EQ(w.server->registry().tgt_count(), 0U);
  EXPECT_EQ(w.server->registry().srq_count(), 0U);
  EXPECT_GT(w.server->registry().resting_count(), 0U);
  w.wait(10s);
  EXPECT_EQ(w.server->registry().resting_count(), 0U);
  EXPECT_EQ(w.server->connection_count(), 0U);
}

TEST(XrcProcesses, Row14_PeersComeAndGoInADomainThatStays) {
  World w(14, {.resting_max = 100});
  Node& p1 = w.process(1);
  for (std::uint32_t i = 0; i < 2000; ++i) {
    const TgtId id = w.make(p1, Peer{i, 7});
    EXPECT_EQ(w.report(p1, id, EventKind::peer_gone), "none");
    EXPECT_EQ(w.unregister(p1, id), "none");
    EXPECT_EQ(w.server->registry().tgt_count(), 0U);
    p1.answers.clear();
    p1.events.clear();
  }
  EXPECT_EQ(w.ended_count(), 2000U);
  EXPECT_EQ(w.server->registry().resting_count(), 100U);
}

TEST(XrcProcesses, Row15And16_EachRegistrantHearsOnceAndNotAfterItLeft) {
  play([](World& w) {
    std::vector<Node*> nodes;
    for (std::uint32_t pid = 1; pid <= 5; ++pid) nodes.push_back(&w.process(pid));
    const TgtId id = w.receiver(*nodes[0]);
    for (Node* n : nodes) EXPECT_EQ(w.enlist(*n, id), "none");
    const std::uint64_t leaving = w.post(*nodes[4], {.ask = RequestType::unregister, .tgt = id});
    EXPECT_EQ(w.report(*nodes[0], id, EventKind::fatal), "none");
    w.await(*nodes[4], leaving);
    const std::size_t heard = nodes[4]->events.size();
    EXPECT_LE(heard, 1U);
    w.settle();
    EXPECT_EQ(nodes[4]->events.size(), heard);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(World::names(*nodes[i]), "fatal");
      EXPECT_EQ(w.unregister(*nodes[i], id), "none");
    }
    EXPECT_TRUE(w.has_ended(id));
  });
}

TEST(XrcProcesses, Row17_LatecomersLearnThatItHadFailed) {
  for (const bool may : {false, true})
    play(
        [may](World& w) {
          Node &p1 = w.process(1), &p2 = w.process(2);
          const TgtId id = w.receiver(p1);
          EXPECT_EQ(w.report(p1, id, EventKind::access_error), "none");
          EXPECT_EQ(w.enlist(p2, id), may ? "none" : "state");
          w.settle();
          EXPECT_EQ(World::names(p2), may ? "access_error" : "");
        },
        {.join_failed = may});
}

TEST(XrcProcesses, Row18_AMemberThatStandsStillDelaysNobody) {
  play(
      [](World& w) {
        Node &quick = w.process(1), &slow = w.process(2);
        std::vector<TgtId> ids;
        for (int i = 0; i < 12; ++i) {
          ids.push_back(w.receiver(quick));
          EXPECT_EQ(w.enlist(slow, ids.back()), "none");
        }
        w.settle();
        slow.stopped = true;
        for (const TgtId id : ids) EXPECT_EQ(w.report(quick, id, EventKind::fatal), "none");
        w.settle();
        EXPECT_EQ(quick.events.size(), ids.size());
        EXPECT_TRUE(slow.events.empty());
        slow.stopped = false;
        w.settle();
        EXPECT_EQ(slow.events.back().kind, EventKind::events_lost);
        EXPECT_EQ(slow.events.size(), channel_max + 3 + 1);
        EXPECT_EQ(w.call(slow, {.ask = RequestType::query, .tgt = ids[11]}).state, State::error);
      },
      {.events_max = 3});
}

TEST(XrcProcesses, Row19And20_APeersDeathEndsItDespiteADeafRegistrant) {
  play([](World& w) {
    Node &good = w.process(1), &deaf = w.process(2);
    const TgtId id = w.receiver(good, peer);
    EXPECT_EQ(w.enlist(deaf, id), "none");
    EXPECT_EQ(w.report(good, id, EventKind::peer_gone), "none");
    w.settle();
    EXPECT_EQ(World::names(good), "peer_gone");
    EXPECT_EQ(World::names(deaf), "peer_gone");
    EXPECT_EQ(w.unregister(good, id), "none");
    w.wait(10s);
    EXPECT_TRUE(w.has_ended(id));
    EXPECT_EQ(w.unregister(deaf, id), "gone");
    EXPECT_EQ(w.said(deaf, {.ask = RequestType::close}), "none");
  });
}

TEST(XrcProcesses, Row21And22_TwoThatSetUpTheSameAtOnce) {
  play([](World& w) {
    Node &p1 = w.process(1), &p2 = w.process(2);
    const Request create{.ask = RequestType::create, .flags = Request::has_peer, .peer = peer};
    const std::uint64_t a = w.post(p1, create), b = w.post(p2, create);
    const TgtId id = w.await(p1, a).tgt;
    EXPECT_EQ(w.await(p2, b).tgt, id);
    EXPECT_EQ(w.registrants(id), 2U);
    const auto to = [&](Node& n, State s, std::uint64_t digest) {
      return w.post(n, {.ask = RequestType::modify, .state = s, .tgt = id, .value = digest});
    };
    std::uint64_t one = to(p1, State::init, 5), two = to(p2, State::init, 5);
    EXPECT_EQ(w.await(p1, one).refusal, Refusal::none);
    EXPECT_EQ(w.await(p2, two).refusal, Refusal::none);
    one = to(p1, State::rtr, 5), two = to(p2, State::rtr, 6);
    const bool first = w.await(p1, one).refusal == Refusal::none, second = w.await(p2, two).refusal == Refusal::none;
    EXPECT_NE(first, second);
    EXPECT_EQ((first ? w.await(p2, two) : w.await(p1, one)).refusal, Refusal::conflict);
  });
}

TEST(XrcProcesses, Row21_AReservedOneIsWaitedFor) {
  play([](World& w) {
    Node &p1 = w.process(1), &p2 = w.process(2);
    const TgtId id =
        w.call(p1, {.ask = RequestType::create, .flags = Request::has_peer | Request::reserve, .peer = peer}).tgt;
    const std::uint64_t waiting = w.post(p2, {.ask = RequestType::create, .flags = Request::has_peer, .peer = peer});
    for (int i = 0; i < 300; ++i) w.step();
    EXPECT_FALSE(p2.answers.contains(waiting));
    if (w.rng().below(2) == 0) {
      EXPECT_EQ(w.said(p1, {.ask = RequestType::publish, .tgt = id}), "none");
      EXPECT_EQ(w.await(p2, waiting).tgt, id);
    } else {  // Row 28: it dies between the two
      w.kill(p1);
      EXPECT_NE(w.await(p2, waiting).tgt, id);
      EXPECT_TRUE(w.has_ended(id));
    }
  });
}

TEST(XrcProcesses, Row23_ClosingADomainInUse) {
  play([](World& w) {
    Node& p1 = w.process(1);
    const TgtId id = w.make(p1);
    EXPECT_EQ(w.said(p1, {.ask = RequestType::close}), "busy");
    EXPECT_EQ(w.said(p1, {.ask = RequestType::close, .flags = Request::force}), "none");
    EXPECT_TRUE(w.has_ended(id));
    EXPECT_EQ(refusal_of(p1.client.ask(w.now, {.ask = RequestType::enlist, .tgt = id})), "not_member");
  });
}

TEST(XrcProcesses, Row24_DomainsByFile) {
  play([](World& w) {
    Node &p1 = w.process(1), &link = w.process(2), &anew = w.process(3, {.st_dev = 8, .st_ino = 101});
    const TgtId id = w.make(p1);
    EXPECT_EQ(w.enlist(link, id), "none");
    EXPECT_EQ(w.enlist(anew, id), "other_domain");
    Node &only = w.process(4, {.st_dev = 8, .st_ino = 100}, true), &absent = w.process(5, {.st_ino = 9}, false, false);
    Node &nothing = w.process(6, {}), &foreign = w.process(7, {.st_ino = 3, .uid = 1}),
         &lent = w.process(8, {.st_ino = 3, .uid = 1, .shared = true});
    w.settle();
    EXPECT_EQ(only.client.refusal(), Refusal::domain_exists);
    EXPECT_EQ(absent.client.refusal(), Refusal::unknown_domain);
    EXPECT_EQ(foreign.client.refusal(), Refusal::not_permitted);
    EXPECT_EQ(w.enlist(nothing, id), "other_domain");  // a private one
    EXPECT_EQ(lent.client.phase(), Client::Phase::up);
    EXPECT_EQ(w.registrants(id), 2U);
  });
}

// A child that has its parent's socket does not keep it alive, and has no part in its membership with a socket of its own.
TEST(XrcProcesses, Row25_AForkedChildIsAnotherProcess) {
  play([](World& w) {
    Node& parent = w.process(1);
    const TgtId id = w.receiver(parent);
    Impostor child(w, 1000, {});
    EXPECT_EQ(child.say({.ask = RequestType::close}).refusal, Refusal::none);
    for (const RequestType ask :
         {RequestType::query, RequestType::unregister, RequestType::modify, RequestType::report})
      EXPECT_EQ(child.say({.ask = ask, .state = State::rts, .kind = EventKind::fatal, .tgt = id}).refusal,
                Refusal::not_member);
    EXPECT_EQ(w.registrants(id), 1U);
    w.kill(parent);
    w.settle();
    EXPECT_TRUE(w.has_ended(id));
    EXPECT_EQ(w.server->connection_count(), 1U);
  });
}

// The socket closes on exec. What the program is now connects as the same process, and has nothing.
TEST(XrcProcesses, Row26_ExecIsDeath) {
  play([](World& w) {
    Node &before = w.process(1), &other_one = w.process(2);
    const TgtId alone = w.receiver(before), both = w.receiver(before);
    EXPECT_EQ(w.enlist(other_one, both), "none");
    w.kill(before);
    Node& after = w.process(1);
    w.settle();
    EXPECT_TRUE(w.has_ended(alone));
    EXPECT_EQ(w.registrants(both), 1U);
    EXPECT_EQ(w.enlist(after, alone), "gone");
    EXPECT_EQ(w.unregister(after, both), "not_registered");
    EXPECT_EQ(w.enlist(after, both), "none");
  });
}

// OFED's calls have the number alone, upstream's the name: it is one queue pair, with one registration of each.
TEST(XrcProcesses, Row36_ByNumberAndByName) {
  play([](World& w) {
    Node &ofed = w.process(1), &upstream = w.process(2);
    const TgtId id = w.receiver(upstream);
    const Answer joined = w.call(ofed, {.ask = RequestType::enlist, .tgt = {id.qpn, 0}});
    EXPECT_EQ(joined.tgt, id);
    EXPECT_EQ(w.said(ofed, {.ask = RequestType::modify, .state = State::rts, .tgt = {id.qpn, 0}, .value = 3}), "none");
    EXPECT_EQ(w.modify(upstream, id, State::rts, 3), "none");
    EXPECT_EQ(w.unregister(upstream, id), "none");
    EXPECT_EQ(w.state(id), "rts");
    EXPECT_EQ(w.unregister(ofed, {id.qpn, 0}), "none");
    EXPECT_TRUE(w.has_ended(id));
  });
}

TEST(XrcProcesses, Row27_AProcessThatStoodStillFindsOutWhatHasGone) {
  play([](World& w) {
    Node &p1 = w.process(1), &sleeper = w.process(2);
    const TgtId gone = w.receiver(p1), kept = w.receiver(p1);
    EXPECT_EQ(w.enlist(sleeper, gone), "none");
    EXPECT_EQ(w.enlist(sleeper, kept), "none");
    w.settle();
    sleeper.stopped = true;
    EXPECT_EQ(w.report(p1, gone, EventKind::peer_gone), "none");
    w.wait(10s);
    EXPECT_TRUE(w.has_ended(gone));
    EXPECT_EQ(w.modify(p1, kept, State::rts, 3), "none");
    sleeper.stopped = false;
    w.settle();
    EXPECT_EQ(World::names(sleeper), "peer_gone");
    EXPECT_EQ(w.unregister(sleeper, gone), "gone");
    EXPECT_EQ(w.unregister(sleeper, kept), "none");
  });
}

TEST(XrcProcesses, Row29_AProcessWhosePidWasUsedAgain) {
  World w(29);
  ASSERT_TRUE(w.server->connected(900, {.pid = 5, .uid = 1000, .start = 50}));
  w.server->handle_message(
      w.now, 900, emit(Request{.ask = RequestType::hello, .number = 1, .reason = 1, .other = 1, .value = 49}), {});
  const auto answer = parse(*w.server->poll_transmit(w.now, 900));
  EXPECT_EQ(std::get<Answer>(*answer).refusal, Refusal::wrong_process);
  EXPECT_TRUE(w.server->is_over(900));
}

TEST(XrcProcesses, Row35_APeerThatBeganAnew) {
  play([](World& w) {
    Node &p1 = w.process(1), &p2 = w.process(2);
    const TgtId old = w.receiver(p1, peer);
    EXPECT_EQ(w.enlist(p2, old), "none");
    EXPECT_EQ(w.report(p2, old, EventKind::peer_reused), "none");
    const TgtId fresh = w.make(p2, peer);
    EXPECT_NE(fresh, old);
    w.settle();
    EXPECT_EQ(World::names(p1), "peer_reused");
    EXPECT_EQ(w.unregister(p1, old), "none");
    EXPECT_EQ(w.unregister(p2, old), "none");
    EXPECT_TRUE(w.has_ended(old));
    EXPECT_TRUE(w.is_alive(fresh));
  });
}

TEST(XrcProcesses, Row37_AHundredProcessesOfTwoNodes) {
  // Each process of a node sends by one INI queue pair to the other node, where all 50 share the TGT queue pair of it: so a
  // node has 50 of them and not 50 * 50.
  World w(37);
  std::vector<Node*> nodes;
  for (std::uint32_t pid = 1; pid <= 50; ++pid) nodes.push_back(&w.process(pid));
  for (std::uint32_t sender = 0; sender < 50; ++sender) {
    std::vector<std::uint64_t> asked;
    for (Node* n : nodes)
      asked.push_back(
          w.post(*n, {.ask = RequestType::create, .flags = Request::has_peer, .peer = {.ca_guid = 2, .qpn = sender}}));
    for (std::size_t i = 0; i < nodes.size(); ++i) EXPECT_EQ(w.await(*nodes[i], asked[i]).refusal, Refusal::none);
    for (Node* n : nodes) n->answers.clear();
  }
  EXPECT_EQ(w.server->registry().tgt_count(), 50U);
  EXPECT_EQ(w.server->registry().counters().created, 50U);
  EXPECT_EQ(w.server->registry().counters().registered, 50U * 50U);
}

TEST(XrcProcesses, OnlyThoseWhoMaySayWhatHasHappened) {
  play([](World& w) {
    Node &p1 = w.process(1), &stranger = w.process(2);
    const TgtId id = w.receiver(p1);
    EXPECT_EQ(w.report(stranger, id, EventKind::fatal), "not_registered");
    EXPECT_EQ(w.said(stranger, {.ask = RequestType::route, .tgt = id, .other = 1}), "not_registered");
    EXPECT_EQ(w.report(p1, id, EventKind::killed), "not_permitted");
    EXPECT_EQ(w.said(p1, {.ask = RequestType::kill, .tgt = id}), "not_permitted");
    EXPECT_EQ(w.said(p1, {.ask = RequestType::report_device, .kind = EventKind::fatal}), "invalid");
    EXPECT_EQ(w.state(id), "rtr");
    EXPECT_EQ(w.said(stranger, {.ask = RequestType::report_device, .kind = EventKind::device_removed}), "none");
    w.settle();
    EXPECT_EQ(World::names(p1), "device_removed device_removed");
    EXPECT_EQ(w.state(id), "drain");
  });
}

TEST(XrcProcesses, Row30_OneUserLeavesRoomForOthers) {
  Server server(*Registry::create(t0, {.user_share = 25, .admin_uid = 9}), {.connections_max = 8});
  EXPECT_TRUE(server.connected(1, {.uid = 7}) && server.connected(2, {.uid = 7}));
  EXPECT_EQ(refusal_of(server.connected(3, {.uid = 7})), "share_of_connections");
  for (ConnectionNumber n = 4; n < 9; ++n)
    EXPECT_TRUE(server.connected(n, {.uid = static_cast<std::uint32_t>(20 + n / 2)}));
  EXPECT_EQ(refusal_of(server.connected(9, {.uid = 30})), "share_of_connections");  // the last one is root's
  EXPECT_TRUE(server.connected(10, {.uid = 9}));
  EXPECT_EQ(refusal_of(server.connected(11, {.uid = 0})), "no_memory");
}

TEST(XrcProcesses, AListIsWholeHoweverSlowlyItIsTaken) {
  World w(5);
  Node &p1 = w.process(1), &looks = w.process(2);
  const TgtId id = w.receiver(p1, peer);
  EXPECT_EQ(w.enlist(looks, id), "none");
  const std::uint64_t list = w.post(looks, {.ask = RequestType::list});
  w.await(looks, list);
  std::string items;
  std::uint64_t created = 0;
  while (const auto item = looks.client.poll_item()) {
    items += " dmtrc"[static_cast<int>(item->what)];
    if (item->what == Item::What::tgt) {
      EXPECT_EQ((TgtId{item->small[0], item->large[1]}), id);
    }
    if (item->what == Item::What::counter && item->small[0] == 0) created = item->large[0];
  }
  EXPECT_EQ(items.substr(0, 6), "dmmtrr");
  EXPECT_EQ(items.substr(6), std::string(13, 'c'));
  EXPECT_EQ(created, 1U);
}

// ---- the broker dies ---------------------------------------------------------------------------------------------

TEST(XrcBroker, ItsDeathLosesNothingThatLives) {
  play(
      [](World& w) {
        Node &p1 = w.process(1), &p2 = w.process(2), &p3 = w.process(3);
        w.wait(2s);
        const TgtId shared_one = w.receiver(p1, peer), own = w.receiver(p2), doomed = w.receiver(p3);
        EXPECT_EQ(w.enlist(p2, shared_one), "none");
        EXPECT_EQ(w.modify(p1, shared_one, State::rts, 3), "none");
        w.settle();
        w.crash_broker();
        w.kill(p3);
        w.kill(p1);
        for (int i = 0; i < 50; ++i) w.step();
        w.start_broker();
        w.settle();
        w.wait(2s);
        EXPECT_EQ(w.state(shared_one), "rts");  // p2 was told what p1 did
        EXPECT_EQ(w.state(own), "rtr");
        EXPECT_FALSE(w.is_alive(doomed));
        EXPECT_EQ(w.server->registry().tgt_count(), 2U);
        EXPECT_EQ(w.call(p2, {.ask = RequestType::find, .peer = peer}).tgt, shared_one);
        const TgtId later = w.make(p2);
        EXPECT_NE(later.qpn, doomed.qpn);
        EXPECT_GT(later.generation, own.generation);
        EXPECT_EQ(w.enlist(p2, doomed), "gone");
        EXPECT_EQ(w.unregister(p2, doomed), "gone");
        EXPECT_TRUE(p2.events.empty());
      },
      lasting());
}

// Whoever knows a name, which `parley xrc ls` tells everybody, may say that it was registered. A proof that is good in one
// domain says nothing in another.
TEST(XrcBroker, OnlyThoseWhoWereRegisteredMayDeclare) {
  World w(1, lasting(), {.key = {1, 2}});
  Node& owner = w.process(1);
  w.wait(2s);
  const TgtId id = w.receiver(owner);
  w.settle();
  const FileFacts file{.st_dev = 8, .st_ino = 100, .uid = 1000, .shared = true},
      other{.st_dev = 8, .st_ino = 7, .uid = 66, .shared = true};
  const Answer joined = Impostor(w, 65, file).say({.ask = RequestType::enlist, .tgt = id});
  EXPECT_EQ(joined.refusal, Refusal::none);
  w.crash_broker();
  owner.stopped = true;
  w.start_broker();
  for (const std::uint64_t proof : {std::uint64_t{0}, joined.value}) {
    EXPECT_EQ(Impostor(w, 66, {}).declare(id, proof), "not_permitted");
    EXPECT_EQ(Impostor(w, 67, other).declare(id, proof), "not_permitted");
    w.server->disconnected(w.now, 1'000'066);
    w.server->disconnected(w.now, 1'000'067);
  }
  EXPECT_EQ(Impostor(w, 68, file).declare(id, 0), "not_permitted");
  owner.stopped = false;
  w.settle();
  EXPECT_EQ(w.registrants(id), 1U);
  EXPECT_TRUE(owner.events.empty());
  EXPECT_EQ(Impostor(w, 65, file).declare(id, joined.value), "none");
}

TEST(XrcBroker, ANumberThatWasClaimedMeanwhileIsItsOwners) {
  RegistryOptions options = lasting();
  options.assigns_numbers = false;
  for (const RequestType claim : {RequestType::create, RequestType::note_other}) {
    World w(1, options);
    Node& owner = w.process(1);
    w.wait(2s);
    const TgtId id = w.call(owner, {.ask = RequestType::create, .tgt = {77, 0}}).tgt;
    w.crash_broker();
    owner.stopped = true;
    w.start_broker();
    Impostor thief(w, 66, {});
    const TgtId claimed = thief.say({.ask = claim, .tgt = {77, 0}, .other = 77}).tgt;
    if (claim == RequestType::create) {
      EXPECT_EQ(thief.say({.ask = RequestType::unregister, .tgt = claimed}).refusal, Refusal::none);  // it rests
      EXPECT_EQ(w.server->registry().resting_count(), 1U);
    }
    owner.stopped = false;
    w.settle();
    EXPECT_EQ(w.registrants(id), 1U);
    EXPECT_TRUE(owner.events.empty());
    EXPECT_EQ(w.said(owner, {.ask = RequestType::query, .tgt = {77, 0}}), "none");
  }
}

// The one that reported has its own event, and so its declaration tells the next broker what the others have missed.
TEST(XrcBroker, WhatItHadAcknowledgedIsToldOrSaidToBeLost) {
  play(
      [](World& w) {
        Node &reports = w.process(1), &deaf = w.process(2), &late = w.process(3);
        w.wait(2s);
        const TgtId id = w.receiver(reports);
        EXPECT_EQ(w.enlist(deaf, id), "none");
        EXPECT_EQ(w.enlist(late, id), "none");
        w.settle();
        deaf.stopped = true;
        EXPECT_EQ(w.report(reports, id, EventKind::established), "none");
        while (World::names(late).empty()) w.step();
        w.crash_broker();
        late.stopped = true;
        deaf.stopped = false;
        deaf.down.clear();
        w.start_broker();
        w.settle();
        EXPECT_EQ(World::names(deaf), "events_lost");
        EXPECT_EQ(w.report(reports, id, EventKind::established), "none");
        late.stopped = false;
        w.settle();
        EXPECT_EQ(World::names(deaf), "events_lost established");
        EXPECT_EQ(World::names(late), "established events_lost");
        EXPECT_EQ(World::names(reports), "established established");
      },
      lasting());
}

TEST(XrcBroker, WhatWasAskedWhenItDiedIsAnswered) {
  play(
      [](World& w) {
        Node &p1 = w.process(1), &p2 = w.process(2);
        w.wait(2s);
        const TgtId id = w.receiver(p1);
        const std::uint64_t join = w.post(p2, {.ask = RequestType::enlist, .tgt = id});
        const std::uint64_t create = w.post(p1, {.ask = RequestType::create, .flags = Request::has_peer, .peer = peer});
        const std::uint64_t modify =
            w.post(p1, {.ask = RequestType::modify, .state = State::rts, .tgt = id, .value = 3});
        for (std::uint64_t steps = w.rng().below(40); steps > 0; --steps) w.step();
        w.crash_broker();
        w.start_broker();
        EXPECT_EQ(w.await(p2, join).refusal, Refusal::none);
        EXPECT_EQ(w.await(p1, create).refusal, Refusal::none);
        EXPECT_EQ(w.await(p1, modify).refusal, Refusal::none);
        w.settle();
        w.wait(2s);
        EXPECT_EQ(w.registrants(id), 2U);
        EXPECT_EQ(w.server->registry().tgt_count(), 2U);
        EXPECT_EQ(p1.client.registration_count(), 2U);
      },
      lasting());
}

// What is in use is closed by force alone; and who is cut off while it closes by force has closed.
TEST(XrcBroker, AClosingThatItDidNotAnswerKeepsWhatIsInUse) {
  play(
      [](World& w) {
        Node &p1 = w.process(1), &p2 = w.process(2);
        w.wait(2s);
        const TgtId kept = w.make(p1), left = w.make(p2);
        const std::uint64_t plain = w.post(p1, {.ask = RequestType::close});
        const std::uint64_t forced = w.post(p2, {.ask = RequestType::close, .flags = Request::force});
        w.crash_broker();
        w.start_broker();
        EXPECT_EQ(w.await(p1, plain).refusal, Refusal::busy);
        EXPECT_EQ(w.await(p2, forced).refusal, Refusal::none);
        w.settle();
        EXPECT_TRUE(w.is_alive(kept));
        EXPECT_FALSE(w.is_alive(left));
      },
      lasting());
}

TEST(XrcBroker, NobodyIsAnsweredBeforeAllCouldSpeak) {
  play(
      [](World& w) {
        Node &p1 = w.process(1), &p2 = w.process(2);
        w.wait(2s);
        const TgtId ended = w.make(p1);
        EXPECT_EQ(w.unregister(p1, ended), "none");
        w.crash_broker();
        w.start_broker();
        for (const RequestType ask : {RequestType::unregister, RequestType::query, RequestType::enlist,
                                      RequestType::report, RequestType::route})
          EXPECT_EQ(w.said(p2, {.ask = ask, .kind = EventKind::fatal, .tgt = ended}), "gone") << to_string(ask);
      },
      lasting());
}

TEST(XrcBroker, ManyDeathsAtAnyTimeConverge) {
  play(
      [](World& w) {
        std::vector<Node*> nodes;
        for (std::uint32_t pid = 1; pid <= 5; ++pid) nodes.push_back(&w.process(pid));
        w.wait(2s);
        std::vector<TgtId> ids;
        for (int round = 0; round < 30; ++round) {
          Node& n = *nodes[w.rng().below(nodes.size())];
          if (ids.empty() || w.rng().below(3) == 0)
            ids.push_back(w.make(n));
          else
            w.post(n, {.ask = w.rng().below(3) == 0 ? RequestType::unregister : RequestType::enlist,
                       .tgt = ids[w.rng().below(ids.size())]});
          for (std::uint64_t steps = w.rng().below(60); steps > 0; --steps) w.step();
          if (w.rng().below(6) != 0) continue;
          w.crash_broker();
          w.start_broker();
        }
        w.settle();
        w.wait(2s);
        std::size_t here = 0, there = 0;
        for (Node* n : nodes) here += n->client.registration_count();
        for (const DomainView& d : w.server->registry().domains(w.now))
          for (const TgtView& t : d.tgts) there += t.registrants.size();
        EXPECT_EQ(here, there);
        for (Node* n : nodes) w.kill(*n);
        w.settle();
        EXPECT_EQ(w.server->registry().tgt_count(), 0U);
      },
      lasting());
}

TEST(XrcBroker, AProcessThatStoodStillThroughItAllIsToldWhatEnded) {
  play(
      [](World& w) {
        Node& sleeper = w.process(1);
        w.wait(2s);
        const TgtId id = w.receiver(sleeper);
        w.settle();
        sleeper.stopped = true;
        w.crash_broker();
        w.start_broker();
        w.wait(3s);
        sleeper.stopped = false;
        w.settle();
        EXPECT_EQ(World::names(sleeper), "ended");
        EXPECT_EQ(w.unregister(sleeper, id), "gone");
        EXPECT_EQ(sleeper.client.registration_count(), 0U);
      },
      lasting());
}

}  // namespace
}  // namespace parley::xrc::processes_test
