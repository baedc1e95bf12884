// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The registry in shared memory against the one that the broker has: the same is done to both, by chance, and both must
// say the same and look alike; also when memory fails in between, and when whoever does it is killed between two stores.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/rng.hpp"
#include "tests/unit/xrc/registry_kit.hpp"
#include "xrc/shared_registry.hpp"

namespace parley::xrc::arena_test {
namespace {
using namespace kit;

/// A block that forked children share.
class Block {
 public:
  explicit Block(const RegistryOptions& options = {}) {
    whole_ =
        ::mmap(nullptr, 2 * Arena::block, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const auto at = reinterpret_cast<std::uintptr_t>(whole_);
    begin_ = reinterpret_cast<void*>((at + Arena::block - 1) & ~(Arena::block - 1));
    EXPECT_TRUE(make_registry(begin_, t0, options));
  }
  ~Block() { ::munmap(whole_, 2 * Arena::block); }
  Block(const Block&) = delete;
  Arena& arena() { return Arena::of(begin_); }

 private:
  void* whole_ = nullptr;
  void* begin_ = nullptr;
};

std::string text_of(const Event& e) {
  return fmt::format("{} {} {} #{} +{}{}", to_string(e.tgt), to_string(e.kind), e.reason, e.sequence, e.merged,
                     e.sticky ? " sticky" : "");
}
std::string text_of(const TgtView& t) {
  std::string out = fmt::format("  {} {} {} {} age {} events {}", to_string(t.id), to_string(t.state), to_string(t.why),
                                t.reason, t.age.count(), t.events);
  if (t.peer) out += fmt::format(" peer {}", t.peer->qpn);
  for (const std::uint64_t digest : t.attributes) out += fmt::format(" {:x}", digest);
  for (const std::uint64_t member : t.registrants) out += fmt::format(" m{}", member);
  return out + "\n";
}
template <class Registry>
std::string picture_of(Instant now, const Registry& registry) {
  std::string out;
  for (const DomainView& d : registry.domains(now)) {
    out += fmt::format("domain {} {}\n", d.number, d.key ? d.key->st_ino : 0);
    for (const MemberView& m : d.members)
      out += fmt::format("  m{} pid {} {} registrations {} srqs {} events {}{}\n", m.number, m.process.pid,
                         m.process.command, m.registrations, m.srqs, m.events_waiting, m.events_lost ? " lost" : "");
    for (const TgtView& t : d.tgts) out += text_of(t);
  }
  const Counters& c = registry.counters();
#define PARLEY_X(name, text) out += fmt::format("{} ", c.name);
  PARLEY_XRC_COUNTERS(PARLEY_X)
#undef PARLEY_X
  return out + fmt::format("\n{} {} {} {} {} next {}", registry.tgt_count(), registry.resting_count(),
                           registry.srq_count(), registry.lingering_count(), registry.qpn_next(),
                           registry.next_deadline().time_since_epoch().count());
}
template <class Registry>
std::string ended_of(Registry& registry) {
  std::set<TgtId> ended;  // those that end together do so in no order
  while (const auto id = registry.poll_ended()) ended.insert(*id);
  std::string out;
  for (const TgtId& id : ended) out += " " + to_string(id);
  return out;
}

/// What may be done, with its numbers drawn beforehand, so that it can be done again.
struct Step {
  int what = 0;
  std::size_t member = 0, tgt = 0;
  std::uint32_t number = 0;
  std::uint64_t digest = 0;
  bool flag = false;
};

/// Members and names as the walk knows them: those of both registries are equal, or the walk has failed.
struct Known {
  std::vector<MemberId> members{};
  std::vector<TgtId> tgts{};
};

template <class Registry>
std::string speak(Registry& r, Instant now, const Step& s, Known& known) {
  const MemberId m = known.members.empty() ? MemberId{} : known.members[s.member % known.members.size()];
  const TgtId t = known.tgts.empty() ? TgtId{0x800000, 0} : known.tgts[s.tgt % known.tgts.size()];
  const TgtId named = s.flag ? t : TgtId{t.qpn, 0};
  switch (s.what) {
    case 0: {
      const auto made = r.open(now, {.key = s.flag ? std::optional(s.number % 2 == 0 ? shared : other) : std::nullopt,
                                     .device = 1,
                                     .carrier = s.number % 5 == 0,
                                     .process = {.pid = s.number, .command = "fifteen octets!"}});
      if (made) known.members.push_back(*made);
      return refusal_of(made);
    }
    case 1: return refusal_of(r.close(now, m, s.flag));
    case 2: return r.dead(now, m), "dead";
    case 3: {
      const auto made = r.create(
          now, m, {.peer = s.flag ? std::optional(Peer{7, s.number % 4}) : std::nullopt, .reserve = s.digest == 0});
      if (made && !made->existing) known.tgts.push_back(made->id);
      return made ? to_string(made->id) + std::string(to_string(made->state)) + (made->existing ? "!" : "")
                  : refusal_of(made);
    }
    case 4: return refusal_of(r.publish(now, m, t));
    case 5:
    case 6: {
      const auto joined = r.enlist(now, m, named);
      return joined ? to_string(joined->id) + std::string(to_string(joined->state)) + (joined->already ? "!" : "")
                    : refusal_of(joined);
    }
    case 7: {
      const auto purged = r.unregister(now, m, named);
      return purged ? fmt::format("purged {}", *purged) : refusal_of(purged);
    }
    case 8:
    case 9: return refusal_of(r.modify(now, m, t, static_cast<State>(1 + s.number % 5), s.digest));
    case 10: return refusal_of(r.report(now, t, static_cast<EventKind>(s.number % 12), s.number));
    case 11:
      return r.report_device(now, s.number % 3, s.flag ? EventKind::device_removed : EventKind::device_failed, 1),
             "said";
    case 12: return refusal_of(s.flag ? r.add_srq(m, s.number % 8) : r.remove_srq(m, s.number % 8));
    case 13: return refusal_of(r.note_other(m, s.number % 8 + (s.flag ? 0x800000 : 0)));
    case 14: {
      const auto e = r.poll_event(m);
      return e ? text_of(*e) : "nothing";
    }
    case 15: {
      const auto found = r.find(m, Peer{7, s.number % 4});
      return found ? to_string(*found) : refusal_of(found);
    }
    case 16: return r.handle_deadline(now), "time";
    default: {
      const auto route = r.route(t, s.number % 8);
      return route ? fmt::format("route {}", static_cast<int>(*route)) : refusal_of(route);
    }
  }
}
Step draw(Rng& rng) {
  return {.what = static_cast<int>(rng.below(18)),
          .member = rng.below(64),
          .tgt = rng.below(64),
          .number = static_cast<std::uint32_t>(rng.below(1000)),
          .digest = rng.below(3),
          .flag = rng.below(4) != 0};
}

class Twins {
 public:
  explicit Twins(std::uint64_t seed, const RegistryOptions& options)
      : rng_(seed), heap_(*Registry::create(t0, options)), block_(options) {}

  enum class Trouble { none, memory, death };
  void walk(int steps, Trouble trouble) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      const Step step = draw(rng_);
      if (rng_.below(6) == 0) now_ += Duration(std::chrono::milliseconds(rng_.below(4000)));
      if (trouble == Trouble::memory) fail_once(step);
      if (trouble == Trouble::death) die_once(step);
      both(step);
    }
  }
  int troubles() const { return troubles_; }

 private:
  void both(const Step& step) {
    Known other = known_;
    const std::string heap = speak(heap_, now_, step, known_);
    const auto shared =
        transact(block_.arena(), Arena::Kind::grows, [&](SharedRegistry& r) { return speak(r, now_, step, other); });
    ASSERT_EQ(shared.value_or("no memory"), heap) << "step " << step.what;
    ASSERT_EQ(picture_of(now_, registry_in(block_.arena())), picture_of(now_, heap_)) << "step " << step.what;
    ASSERT_EQ(ended_of_shared(), ended_of(heap_)) << "step " << step.what;
    trim();
  }
  std::string ended_of_shared() {
    return *transact(block_.arena(), Arena::Kind::lets_go, [&](SharedRegistry& r) { return ended_of(r); });
  }
  /// Names of long ago are drawn seldom enough.
  void trim() {
    if (known_.members.size() > 12) known_.members.erase(known_.members.begin());
    if (known_.tgts.size() > 16) known_.tgts.erase(known_.tgts.begin());
  }
  /// A member leaves bit by bit, and so does what is due: that much is done, and the rest when it is done again.
  static bool is_whole(const Step& step) { return step.what != 1 && step.what != 2 && step.what != 16; }
  void unchanged(const std::string& before) {
    ASSERT_EQ(picture_of(now_, registry_in(block_.arena())), before) << "something of it is left";
    ++troubles_;
  }
  /// The n-th allocation fails, for every n that there is.
  void fail_once(const Step& step) {
    if (!is_whole(step)) return;
    const std::string before = picture_of(now_, registry_in(block_.arena()));
    for (std::uint32_t n = 1;; ++n) {
      Known scratch = known_;
      block_.arena().fail_at(n);
      bool none_left = false;
      const auto said = transact(block_.arena(), Arena::Kind::grows, [&](SharedRegistry& r) {
        (void)speak(r, now_, step, scratch);
        none_left = block_.arena().until_failure() != 0;
        throw Exhausted{};  // it is not to be done yet
      });
      ASSERT_EQ(refusal_of(said), "no_memory");
      if (none_left) return;
      ASSERT_NO_FATAL_FAILURE(unchanged(before));
    }
  }
  /// Somebody else begins it and is killed.
  void die_once(const Step& step) {
    const std::string before = picture_of(now_, registry_in(block_.arena()));
    const auto n = static_cast<std::uint32_t>(1 + rng_.below(40));
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(SIGILL, [](int) { ::kill(::getpid(), SIGKILL); });
      std::signal(SIGTRAP, [](int) { ::kill(::getpid(), SIGKILL); });
      block_.arena().die_before(n);
      (void)transact(block_.arena(), Arena::Kind::grows, [&](SharedRegistry& r) {
        (void)speak(r, now_, step, known_);
        ::kill(::getpid(), SIGKILL);  // all done, and nothing confirmed
      });
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    block_.arena().undo();
    if (!is_whole(step)) return;
    ASSERT_NO_FATAL_FAILURE(unchanged(before));
  }

  Rng rng_;
  Registry heap_;
  Block block_;
  Instant now_ = t0;
  Known known_;
  int troubles_ = 0;
};

RegistryOptions tight() {
  return {.linger = 2s, .grace = 3s, .error_grace = 5s, .quarantine = 6s, .tgts_max = 12, .events_max = 3};
}

TEST(XrcArena, SaysAndShowsWhatTheBrokersRegistryDoes) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    RegistryOptions options = seed % 2 == 0 ? tight() : RegistryOptions{};
    if (seed % 3 == 0) options.join_failed = true;
    Twins twins(seed, options);
    twins.walk(600, Twins::Trouble::none);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(XrcArena, ARefusedAllocationLeavesNothingBehind) {
  Twins twins(30, tight());
  twins.walk(250, Twins::Trouble::memory);
  EXPECT_GT(twins.troubles(), 50);
}

TEST(XrcArena, TheJournalHoldsWhateverBefallsAtOnce) {
  Block block({.tgts_max = 4096, .registrations_max = 32768, .events_max = 8});
  Arena& arena = block.arena();
  const auto member =
      *transact(arena, Arena::Kind::grows, [](SharedRegistry& r) { return *r.open(t0, {.key = shared}); });
  for (std::uint32_t i = 0; i < 4096; ++i) {
    const auto made = transact(arena, Arena::Kind::grows, [&](SharedRegistry& r) {
      return r.create(t0, member, {.peer = Peer{1, i}});
    });
    ASSERT_EQ(refusal_of(*made), "ok") << i;
  }
  const auto removed = transact(arena, Arena::Kind::grows,
                                [](SharedRegistry& r) { r.report_device(t0, 1, EventKind::device_removed, 0); });
  EXPECT_EQ(refusal_of(removed), "ok");
  const auto left = transact(arena, Arena::Kind::lets_go, [&](SharedRegistry& r) { r.dead(t0, member); });
  EXPECT_EQ(refusal_of(left), "ok");
  EXPECT_EQ(registry_in(arena).tgt_count(), 0U);
}

/// An Arena as its octets lie in the block, which every process that has it mapped may write.
struct Head {
  std::uint32_t end, until_death, until_failure, root, root_size, changing;
  Arena::Kind kind;
  std::uint64_t transaction, free_octets, next;
  std::array<std::uint32_t, Arena::largest / Arena::unit + 1> lists;
};
static_assert(sizeof(Head) == sizeof(Arena));

// A block whose head was written over is not gone on with.
TEST(XrcArena, AHeadOutOfItsBoundsIsNotSound) {
  Block block;
  Arena& arena = block.arena();
  ASSERT_TRUE(arena.is_sound());
  Head right{};
  std::memcpy(&right, static_cast<const void*>(&arena), sizeof(right));
  ASSERT_EQ(right.free_octets, arena.free_octets());
  const auto sound = [&](void (*change)(Head&)) {
    Head head = right;
    change(head);
    std::memcpy(static_cast<void*>(&arena), &head, sizeof(head));
    const bool out = arena.is_sound();
    std::memcpy(static_cast<void*>(&arena), &right, sizeof(right));
    return out;
  };
  EXPECT_TRUE(sound([](Head& h) { h.end = Arena::journal; }));
  EXPECT_FALSE(sound([](Head& h) { h.end = Arena::journal + 1; }));
  EXPECT_FALSE(sound([](Head& h) { h.root += Arena::unit; }));
  EXPECT_TRUE(sound([](Head& h) { h.next = h.root + h.root_size; }));
  EXPECT_FALSE(sound([](Head& h) { h.next = h.root + h.root_size - 1; }));
  EXPECT_TRUE(sound([](Head& h) { h.next = Arena::block; }));
  EXPECT_FALSE(sound([](Head& h) { h.next = Arena::block + 1; }));
  EXPECT_FALSE(sound([](Head& h) { h.free_octets = Arena::block - h.root + 1; }));
  EXPECT_TRUE(sound([](Head& h) { h.lists[3] = h.root; }));
  EXPECT_FALSE(sound([](Head& h) { h.lists[3] = h.root - 1; }));
  EXPECT_FALSE(sound([](Head& h) { h.lists[64] = static_cast<std::uint32_t>(h.next); }));
}

TEST(XrcArena, WhoIsKilledInTheMiddleHasDoneNothing) {
  Twins twins(28, tight());
  twins.walk(300, Twins::Trouble::death);
  EXPECT_GT(twins.troubles(), 150);
}

}  // namespace
}  // namespace parley::xrc::arena_test
