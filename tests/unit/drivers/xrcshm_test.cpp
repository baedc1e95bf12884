// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The registry in shared memory among processes: killed at every point of every call, storming it, stopped with its lock,
// forked, replaced by another program. Rows are those of docs/xrc.md. PARLEY_XRC_STORM=<seconds> storms for longer:
// ./dev stress does.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <set>
#include <thread>

#include "base/rng.hpp"
#include "drivers/clock.hpp"
#include "drivers/xrcshm/shared_link.hpp"
#include "tests/unit/drivers/broker_thread.hpp"
#include "tests/unit/drivers/quiet_fork.hpp"
#include "tests/unit/hang_limit.hpp"
#include "tests/unit/xrc/registry_kit.hpp"

namespace parley::xrc::xrcshm_test {
namespace {

using namespace std::chrono_literals;
using kit::refusal_of;

/// What children count, for their parent to see.
struct Tally {
  std::atomic<std::uint64_t> registered{0}, wrong{0}, started{0};
  std::atomic<std::uint32_t> go{0}, stop{0};
  TgtId qp;  // written before `go`
};

class XrcShm : public testing::Test {
 protected:
  XrcShm() {
    options_ = {.form = RegistryKind::shared, .segment = folder_.file("segment"), .patience = hang_limit};
    tally_ = new (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Tally;
  }
  ~XrcShm() override {
    for (const pid_t left : std::set(children_)) {  // of a test that failed
      ::kill(left, SIGKILL);
      end_of(left);
    }
    segment_.reset();
    ::munmap(tally_, 4096);
  }
  Segment& segment(const RegistryOptions& rules = {}) {
    if (!segment_) {
      auto made = Segment::open({.path = options_.segment, .registry = rules});
      EXPECT_TRUE(made) << refusal_of(made);
      segment_ = *made;
    }
    return *segment_;
  }
  Result<Domain> open() const { return Domain::open(folder_.file("domain"), options_); }
  template <class Work>
  auto in_registry(Work work) {
    return *segment().enter(clock_now(), Arena::Kind::lets_go, work);
  }
  std::size_t members() {
    return in_registry([](SharedRegistry& r) { return std::as_const(r).members().size(); });
  }
  std::size_t tgts() {
    return in_registry([](SharedRegistry& r) { return r.tgt_count(); });
  }
  Counters counters() {
    return in_registry([](SharedRegistry& r) { return r.counters(); });
  }
  /// A process that does that; its exit status is 0 if it returns true.
  template <class Work>
  pid_t child(Work work) {
    const pid_t pid = quiet_fork();
    if (pid != 0) return *children_.insert(pid).first;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    for (const int signal : {SIGILL, SIGTRAP}) std::signal(signal, [](int) { ::kill(::getpid(), SIGKILL); });
    ::_exit(work() ? 0 : 1);
  }
  int end_of(pid_t pid) {
    int status = -1;
    ::waitpid(pid, &status, 0);
    children_.erase(pid);
    return status;
  }
  /// By the trap of Arena::point(), which is SIGKILL's where the signal can be handled.
  static bool is_killed(int status) {
    return WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGILL || WTERMSIG(status) == SIGTRAP;
  }
  /// Of the descriptors that a process may have, it gets so many more.
  static bool leave_descriptors(rlim_t count) {
    const int next = ::dup(0);
    ::close(next);
    const rlimit limit{static_cast<rlim_t>(next) + count, static_cast<rlim_t>(next) + count};
    return next >= 0 && ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
  }
  template <class Check>
  static bool until(Check check) {
    for (const Instant end = clock_now() + hang_limit; clock_now() < end; std::this_thread::sleep_for(1ms))
      if (check()) return true;
    return false;
  }

  const BrokerThread folder_{false};
  DomainOptions options_;
  std::shared_ptr<Segment> segment_;
  Tally* tally_;
  std::set<pid_t> children_;  // that have not ended yet
};

/// The parent is a member without a thread that would be hit in its child's place.
struct Survivor {
  explicit Survivor(Segment& s) : segment(s) {
    const auto pid = static_cast<std::uint32_t>(::getpid());
    id = **segment.enter(clock_now(), Arena::Kind::grows, [&](SharedRegistry& r) {
      auto member = r.open(clock_now(), {.process = {.pid = pid, .start = start_of(pid)}});
      return member && segment.hold(member->number) ? member : Result<MemberId>(tl::unexpected(Error(Refusal::busy)));
    });
  }
  Segment& segment;
  MemberId id;
};

// Row 28: each call is killed before the first, the second, ... thing that it does to the block, until it comes through.
TEST_F(XrcShm, KilledAtEveryPointOfEveryCall) {
  struct Call {
    const char* name;
    std::function<bool(Domain&, TgtQp&)> work;
  };
  const std::vector<Call> calls{
      {"create",
       [](Domain& d, TgtQp&) {
         return d.create(Peer{1, 9}).has_value();
       }},
      {"modify", [](Domain&, TgtQp& q) { return q.modify(State::init, 1).has_value(); }},
      {"report", [](Domain&, TgtQp& q) { return q.report(EventKind::fatal).has_value(); }},
      {"release", [](Domain&, TgtQp& q) { return q.release().has_value(); }},
      {"attach", [](Domain& d, TgtQp& q) { return d.attach(q.id()).has_value(); }},
      {"add_srq", [](Domain& d, TgtQp&) { return d.add_srq(7).has_value(); }},
      {"wait_event", [](Domain& d, TgtQp&) { return d.wait_event(0s).has_value(); }},
      {"close", [](Domain& d, TgtQp&) { return d.close(true).has_value(); }},
  };
  Segment& shared = segment();
  const Survivor survivor(shared);
  std::uint64_t points = 0;
  for (const Call& call : calls) {
    bool through = false;
    for (std::uint32_t n = 1; !through && n < 1000; ++n) {
      const int status = end_of(child([&] {
        const auto own = Segment::open({.path = options_.segment});
        auto domain = open();
        auto qp = domain->create(Peer{1, 5});
        if (!qp) return false;
        std::vector<TgtQp> more;
        for (int i = 0; i < 2; ++i) more.push_back(std::move(*domain->create()));
        std::this_thread::sleep_for(1ms);  // its watcher has looked around, and sleeps
        Arena& arena = (*own)->arena();
        arena.die_before(n);
        const bool good = call.work(*domain, *qp);
        arena.die_before(0);
        ::_exit(good ? 0 : 1);  // without a word to the others
      }));
      through = WIFEXITED(status);
      ASSERT_TRUE(through ? WEXITSTATUS(status) == 0 : is_killed(status)) << status << call.name << " at " << n;
      ASSERT_EQ(refusal_of(sweep(shared, survivor.id.number)), "ok") << call.name << " at " << n;
      ASSERT_EQ(members(), 1U) << call.name << " at " << n;
      ASSERT_EQ(tgts(), 0U) << call.name << " at " << n;
      ++points;
    }
    ASSERT_TRUE(through) << call.name;
  }
  const Counters c = counters();
  EXPECT_EQ(c.created, c.destroyed);
  EXPECT_GT(points, 100U);
  RecordProperty("points", static_cast<int>(points));
}

// Row 28 again, of one who opens: nothing of it is left, and the next one comes in.
TEST_F(XrcShm, KilledWhileOpening) {
  Segment& shared = segment();
  bool through = false;
  for (std::uint32_t n = 1; !through && n < 1000; ++n) {
    const int status = end_of(child([&] {
      auto own = Segment::open({.path = options_.segment});
      (*own)->arena().die_before(n);
      const auto domain = open();
      (*own)->arena().die_before(0);
      ::_exit(domain ? 0 : 1);
      return true;
    }));
    through = WIFEXITED(status);
    ASSERT_EQ(refusal_of(sweep(shared)), "ok") << n;
    ASSERT_EQ(members(), 0U) << n;
  }
  EXPECT_TRUE(through);
  EXPECT_TRUE(open());
}

// Row 11: it is there for as long as somebody is registered, whoever else comes and goes; every registration is counted.
TEST_F(XrcShm, SixtyFourProcessesStormOne) {
  const char* const longer = std::getenv("PARLEY_XRC_STORM");
  const auto lasts = std::chrono::milliseconds(longer != nullptr ? std::atoi(longer) * 1000 : 300);
  std::vector<pid_t> storm;
  for (int i = 0; i < 64; ++i)
    storm.push_back(child([&, i] {
      while (tally_->go == 0) std::this_thread::sleep_for(1ms);  // all are forked from a process without threads
      auto mine = open();
      if (!mine) return false;
      Rng rng(static_cast<std::uint64_t>(i));
      ++tally_->started;
      while (tally_->stop == 0) {
        auto got = mine->attach(tally_->qp);
        if (!got)
          ++tally_->wrong;
        else
          ++tally_->registered;
        if (rng.below(4) == 0) std::this_thread::yield();
        if (got && !got->release()) ++tally_->wrong;
      }
      return true;
    }));
  auto domain = open();
  auto qp = domain->create();
  ASSERT_TRUE(qp) << refusal_of(qp);
  const std::uint64_t before = counters().registered;
  tally_->qp = qp->id();
  tally_->go = 1;
  ASSERT_TRUE(until([&] { return tally_->started == 64; }));
  std::this_thread::sleep_for(lasts);
  tally_->stop = 1;
  for (const pid_t pid : storm) EXPECT_EQ(end_of(pid), 0);
  EXPECT_EQ(tally_->wrong, 0U);
  EXPECT_EQ(counters().registered - before, tally_->registered);
  ASSERT_EQ(tgts(), 1U);
  EXPECT_EQ(qp->query()->state, State::reset);
  EXPECT_EQ(overview(options_)->domains.at(0).tgts.at(0).registrants.size(), 1U);
}

// Row 12: who leaves last against who comes next. Each finds it alive, or makes the next one; nobody gets one that ends.
TEST_F(XrcShm, TheLastToLeaveAgainstTheNextToCome) {
  constexpr int turns = 50000;  // of each of two
  std::vector<pid_t> pair;
  for (int i = 0; i < 2; ++i)
    pair.push_back(child([&, i] {
      auto mine = open();
      Rng rng(static_cast<std::uint64_t>(12 + i));
      TgtId last{};
      for (int turn = 0; mine && turn < turns; ++turn) {
        auto got = last.generation != 0 && rng.below(2) == 0 ? mine->attach(last) : mine->create(Peer{1, 12});
        if (!got && got.error() != make_error_code(Refusal::gone)) ++tally_->wrong;
        if (!got) last = {};
        if (rng.below(64) == 0) std::this_thread::yield();
        if (!got) continue;
        ++tally_->registered;
        if (!got->query()) ++tally_->wrong;
        last = got->id();
        if (rng.below(64) == 0) std::this_thread::yield();
        if (!got->release()) ++tally_->wrong;
      }
      return mine.has_value();
    }));
  for (const pid_t pid : pair) EXPECT_EQ(end_of(pid), 0);
  EXPECT_EQ(tally_->wrong, 0U);
  EXPECT_GT(tally_->registered, 2U * turns / 3);
  const Counters c = counters();
  EXPECT_EQ(c.created, c.destroyed);
  EXPECT_EQ(tgts(), 0U);
}

// Rows 13 and 14: many are made and ended by processes of which some are killed; nothing is left of any, nor of its number.
TEST_F(XrcShm, NothingIsLeftOfThoseThatCameAndWent) {
  segment({.grace = 50ms, .quarantine = 100ms});
  for (int round = 0; round < 3; ++round) {
    std::vector<pid_t> crowd;
    tally_->started = 0;
    for (int i = 0; i < 8; ++i)
      crowd.push_back(child([&, i] {
        auto mine = open();
        Rng rng(static_cast<std::uint64_t>(round * 8 + i));
        std::vector<TgtQp> held;
        (void)mine->add_srq(static_cast<std::uint32_t>(100 * round + i + 1));
        ++tally_->started;
        for (std::uint32_t turn = 0; turn < 1300; ++turn) {
          auto got = mine->create(rng.below(2) == 0 ? std::optional(Peer{1, turn}) : std::nullopt);
          if (got) held.push_back(std::move(*got));
          if (held.size() > 4) held.erase(held.begin() + static_cast<std::ptrdiff_t>(rng.below(held.size())));
          if (rng.below(16) == 0 && !held.empty()) (void)held.back().report(EventKind::peer_gone);
        }
        while (i < 4) ::pause();
        return true;
      }));
    ASSERT_TRUE(until([&] { return tally_->started == 8; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * round));
    for (int i = 0; i < 4; ++i) ::kill(crowd[static_cast<std::size_t>(i)], SIGKILL);
    for (const pid_t pid : crowd) end_of(pid);
  }
  EXPECT_EQ(refusal_of(sweep(segment())), "ok");
  EXPECT_EQ(members(), 0U);
  EXPECT_EQ(tgts(), 0U);
  EXPECT_EQ(in_registry([](SharedRegistry& r) { return r.srq_count(); }), 0U);
  EXPECT_TRUE(until([&] { return in_registry([](SharedRegistry& r) { return r.resting_count(); }) == 0; }));
  const Counters c = counters();
  EXPECT_EQ(c.created, c.destroyed);
  EXPECT_GT(c.created, 10000U);
}

// Nobody asks: the members behind hear of a death themselves, and of one who came after them.
TEST_F(XrcShm, ADeathIsNoticedByThoseWhoDoNothing) {
  auto domain = open();
  ASSERT_TRUE(domain);
  const auto victim = [&] {
    return child([&] {
      auto mine = open();
      auto qp = mine->create();
      ++tally_->started;
      ::pause();
      return true;
    });
  };
  const pid_t one = victim(), two = victim();
  ASSERT_TRUE(until([&] { return tally_->started == 2; }));
  ::kill(one, SIGSTOP);  // it hears of nothing
  ::kill(two, SIGKILL);
  end_of(two);
  EXPECT_TRUE(until([&] { return tgts() == 1 && members() == 2; }));
  ::kill(one, SIGKILL);
  end_of(one);
  EXPECT_TRUE(until([&] { return tgts() == 0 && members() == 1; }));
}

// It has what it needs: the domain's file twice, the segment, and what ends its thread. None is left for inotify.
TEST_F(XrcShm, ADeathIsNoticedByWhoDoesNotHearOfNewcomers) {
  const pid_t deaf = child([&] {
    if (!leave_descriptors(4)) return false;
    auto mine = open();
    tally_->started = mine ? 1 : 2;
    ::pause();
    return true;
  });
  ASSERT_TRUE(until([&] { return tally_->started != 0; }));
  EXPECT_EQ(tally_->started, 1U);
  EXPECT_EQ(end_of(child([&] {
              auto mine = open();
              if (mine) ::kill(::getpid(), SIGKILL);
              return false;
            })),
            SIGKILL);
  EXPECT_TRUE(until([&] { return members() == 1; }));
  EXPECT_EQ(counters().died, 1U);
  ::kill(deaf, SIGKILL);
  end_of(deaf);
}

// Rows 25 and 26.
TEST_F(XrcShm, AChildKeepsNobodyAliveAndExecIsDeath) {
  auto domain = open();
  ASSERT_TRUE(domain);
  const pid_t parent = child([&] {
    auto mine = open();
    auto qp = mine->create();
    if (::fork() == 0) {
      ++tally_->started;
      while (tally_->stop == 0) std::this_thread::sleep_for(1ms);
      ::_exit(mine->create().error() == make_error_code(Refusal::not_member) ? 0 : 1);
    }
    while (tally_->started == 0) std::this_thread::sleep_for(1ms);
    ++tally_->started;
    ::pause();
    return true;
  });
  ASSERT_TRUE(until([&] { return tally_->started == 2; }));
  ::kill(parent, SIGKILL);
  end_of(parent);
  EXPECT_TRUE(until([&] { return tgts() == 0; }));
  tally_->stop = 1;
  const pid_t other = child([&] {
    auto mine = open();
    auto qp = mine->create();
    ::execlp("sleep", "sleep", "60", nullptr);
    return false;
  });
  EXPECT_TRUE(until([&] { return counters().created == 2; }));
  EXPECT_TRUE(until([&] { return tgts() == 0 && members() == 1; }));
  EXPECT_EQ(::kill(other, 0), 0) << "it runs still";
  ::kill(other, SIGKILL);
  end_of(other);
}

// Row 29: the number is that of a process that lives, and began at another time.
TEST_F(XrcShm, ANumberUsedAgainIsAnotherProcess) {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  const auto begun = [&](std::uint64_t start) {
    (void)in_registry([&](SharedRegistry& r) {
      const auto member = *r.open(clock_now(), {.process = {.pid = pid, .start = start}});
      return segment().hold(member.number);
    });
  };
  auto watching = Segment::open({.path = (segment(), options_.segment)});
  begun(start_of(pid));
  begun(start_of(pid) - 1);
  EXPECT_EQ(refusal_of(sweep(**watching)), "ok");
  EXPECT_EQ(members(), 1U);
  EXPECT_EQ(counters().died, 1U);
}

TEST_F(XrcShm, WhoStandsStillWithTheLockIsNotWaitedForForEver) {
  auto domain = open();
  ASSERT_TRUE(domain);
  const pid_t sleeper = child([&] {
    auto own = Segment::open({.path = options_.segment});
    (void)(*own)->enter(clock_now(), Arena::Kind::grows, [&](SharedRegistry&) {
      ++tally_->started;
      ::raise(SIGSTOP);
    });
    return true;
  });
  int status = 0;
  ::waitpid(sleeper, &status, WUNTRACED);
  DomainOptions hurried = options_;
  hurried.patience = 20ms;
  EXPECT_EQ(refusal_of(overview(hurried)), "timed_out");
  ::kill(sleeper, SIGCONT);
  EXPECT_EQ(end_of(sleeper), 0);
  EXPECT_TRUE(overview(options_));
  EXPECT_TRUE(domain->create());
}

TEST_F(XrcShm, WhoWaitsIsWokenByAnotherProcess) {
  auto domain = open();
  auto qp = domain->create();
  ASSERT_TRUE(qp);
  const pid_t other = child([&] {
    auto mine = open();
    auto its = mine->attach(qp->id());
    return its && its->report(EventKind::peer_gone, 3).has_value();
  });
  const auto event = domain->wait_event(hang_limit);
  ASSERT_TRUE(event && *event) << refusal_of(event);
  EXPECT_EQ((*event)->kind, EventKind::peer_gone);
  EXPECT_EQ((*event)->reason, 3U);
  EXPECT_EQ(end_of(other), 0);
  EXPECT_FALSE(*domain->wait_event(1ms));
}

// What a process cannot learn for want of a descriptor harms nobody else: neither the registry nor a member is given up for it.
// It is told, whichever of its descriptors is the one too many, or works and comes to its end.
TEST_F(XrcShm, ADescriptorLimitHarmsOnlyWhoHasIt) {
  auto domain = open();
  auto qp = domain->create(Peer{1, 3});
  ASSERT_TRUE(qp) << refusal_of(qp);
  const std::uint32_t epoch = segment().epoch();
  rlim_t least = 0;
  for (rlim_t left = 0; left < 24; ++left) {
    const int status = end_of(child([&] {
      ::alarm(hang_seconds);
      if (!leave_descriptors(left)) return false;
      auto mine = open();
      if (!mine) ::_exit(mine.error() == make_error_code(Refusal::stale_epoch) ? 1 : 2);
      return mine->create().has_value();
    }));
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 1) << status << " with " << left;
    if (WEXITSTATUS(status) != 0) least = left + 1;
    ASSERT_EQ(segment().epoch(), epoch) << "with " << left;
    ASSERT_TRUE(until([&] { return members() == 1; })) << "with " << left;
    ASSERT_EQ(refusal_of(qp->query()), "ok") << "with " << left;
  }
  EXPECT_GT(least, 0U);
  EXPECT_LT(least, 20U);
}

// The same of who looks for the dead: of whom it learns nothing, it concludes nothing.
TEST_F(XrcShm, WhoCannotLookAtAProcessDoesNotBuryIt) {
  auto domain = open();
  ASSERT_TRUE(domain);
  for (rlim_t left = 0; left < 3; ++left)
    EXPECT_EQ(end_of(child([&] {
                auto own = Segment::open({.path = options_.segment});
                return own && leave_descriptors(left) && sweep(**own).has_value();
              })),
              0);
  EXPECT_EQ(members(), 1U);
  EXPECT_TRUE(domain->create());
}

// Memory may be wanting in the middle of it: nothing was done, and the lock is free.
TEST_F(XrcShm, WhatIsThrownUndoesTheCallAndFreesTheLock) {
  const auto thrown = [&] {
    (void)segment().enter(clock_now(), Arena::Kind::grows, [&](SharedRegistry& r) {
      EXPECT_TRUE(r.open(clock_now(), {}));
      throw std::bad_alloc();
    });
  };
  EXPECT_THROW(thrown(), std::bad_alloc);
  const int status = end_of(child([&] {
    const auto own = Segment::open({.path = options_.segment, .patience = 100ms});
    const auto seen = own ? (*own)->enter(clock_now(), Arena::Kind::grows,
                                          [](SharedRegistry& r) { return std::as_const(r).members().size(); })
                          : Result<std::size_t>(1);
    return seen && *seen == 0;
  }));
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(open());
}

// A block that cannot be put right is given up: whoever had it open is told, and who comes next begins another epoch.
TEST_F(XrcShm, ADamagedBlockIsGivenUp) {
  auto domain = open();
  ASSERT_TRUE(domain);
  const std::uint32_t epoch = segment().epoch();
  const pid_t sleeper = child([&] {
    ::alarm(hang_seconds);
    auto mine = open();
    ++tally_->started;
    return mine->wait_event(10min).error() == make_error_code(Refusal::stale_epoch);
  });
  ASSERT_TRUE(until([&] { return tally_->started == 1; }));
  std::this_thread::sleep_for(10ms);  // it sleeps; if not yet, it is told all the same
  end_of(child([&] {
    auto own = Segment::open({.path = options_.segment});
    (void)(*own)->enter(clock_now(), Arena::Kind::grows, [&](SharedRegistry&) {
      std::memset(static_cast<void*>(&(*own)->arena()), 0xEE, 64);
      ::kill(::getpid(), SIGKILL);
    });
    return true;
  }));
  EXPECT_EQ(refusal_of(domain->create()), "stale_epoch");
  EXPECT_EQ(refusal_of(domain->wait_event(1ms)), "stale_epoch");
  EXPECT_EQ(end_of(sleeper), 0) << "who slept is told";
  auto next = open();
  ASSERT_TRUE(next) << refusal_of(next);
  EXPECT_GT(overview(options_)->epoch, epoch);
  EXPECT_TRUE(next->create());
}

// Row 10.
TEST_F(XrcShm, ANumberRestsBeforeItIsUsedAgain) {
  segment({.quarantine = 2s, .qpn_first = 0x800000, .qpn_last = 0x800000});
  auto one = open(), two = open();
  ASSERT_TRUE(one && two);
  auto qp = one->create();
  const TgtId old = qp->id();
  ASSERT_TRUE(qp->release());
  EXPECT_EQ(refusal_of(two->attach(old)), "gone");
  EXPECT_EQ(refusal_of(two->attach(old.qpn)), "gone");
  EXPECT_EQ(refusal_of(two->create()), "no_memory") << "all numbers rest";
  Result<TgtQp> again = tl::unexpected(Error(Refusal::no_memory));
  EXPECT_TRUE(until([&] { return (again = two->create()).has_value(); }));
  EXPECT_EQ(again->qpn(), old.qpn);
  EXPECT_EQ(refusal_of(one->attach(old)), "gone");
  EXPECT_EQ(one->attach(old.qpn)->id(), again->id());
}

}  // namespace
}  // namespace parley::xrc::xrcshm_test
