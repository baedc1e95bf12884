// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every interleaving, to a depth, of what three processes can do with two TGT queue pairs, on the real registry: beside it
// runs a model, which is sets and lists, and after each step both must be alike in all that can be seen. States that the
// model has seen before are not walked again. PARLEY_XRC_WALK=<depth> walks deeper: ./dev stress does.
#include <algorithm>
#include <cstdlib>
#include <unordered_set>

#include "tests/unit/xrc/registry_kit.hpp"

namespace parley::xrc::walk_test {
namespace {
using namespace kit;

constexpr std::size_t processes = 3, tgts_max = 2;

struct Told {
  std::uint64_t generation;
  EventKind kind;
  std::uint32_t merged = 0;
  bool operator==(const Told&) const = default;
};
struct ModelTgt {
  TgtId id{};
  std::size_t peer = 0;
  std::array<bool, processes> registered{};
  State state = State::rtr;
  Instant deadline = never;
  bool named = true;  // create() for its peer finds it
  bool empty() const {
    return std::none_of(registered.begin(), registered.end(), [](bool r) { return r; });
  }
};
struct Model {
  std::array<bool, processes> member{};
  std::array<std::vector<Told>, processes> told{};
  std::vector<ModelTgt> tgts{};  // in the order of their generations
  std::vector<TgtId> ended{};    // since the last step
  std::vector<Instant> rests{};  // of numbers
  std::optional<TgtId> last_ended{};
  // Processes and peers are alike: the next one comes in only after the one before it.
  std::size_t processes_met = 0, peers_met = 0;
};
struct Node {
  Registry registry;
  Model model{};
  std::array<MemberId, processes> members{};
  Instant now = t0;
  std::string way{};
};

class Walk {
 public:
  explicit Walk(const RegistryOptions& options) : options_(options) {}

  std::size_t run(std::size_t depth) {
    std::vector<Node> level;
    level.push_back({.registry = *Registry::create(t0, options_)});
    std::size_t steps = 0;
    for (std::size_t d = 0; d < depth && !failed_; ++d) {
      std::vector<Node> next;
      for (const Node& node : level) steps += expand(node, next, d + 1 == depth);
      level = std::move(next);
    }
    return steps;
  }
  bool failed() const { return failed_; }

 private:
  using Step = std::function<bool(Node&)>;  // false: it makes no sense here

  std::size_t expand(const Node& from, std::vector<Node>& next, bool last) {
    std::size_t taken = 0;
    for (const auto& [name, step] : steps_) {
      if (failed_) return taken;
      Node to = from;
      if (!step(to)) continue;
      ++taken;
      to.way += " " + name;
      compare(to);
      if (seen_.insert(print(to)).second && !last) next.push_back(std::move(to));
    }
    return taken;
  }

  void expect(bool good, const Node& node, const std::string& what) {
    if (good || failed_) return;
    failed_ = true;
    ADD_FAILURE() << what << ", after:" << node.way;
  }

  // ---- the model ----

  void end(Node& n, std::size_t i) const {
    const TgtId id = n.model.tgts[i].id;
    n.model.ended.push_back(id);
    n.model.last_ended = id;
    n.model.rests.push_back(n.now + options_.quarantine);
    n.model.tgts.erase(n.model.tgts.begin() + static_cast<std::ptrdiff_t>(i));
  }
  static std::size_t forget(Node& n, std::size_t p, std::uint64_t generation) {
    return std::erase_if(n.model.told[p], [generation](const Told& t) { return t.generation == generation; });
  }
  void leave(Node& n, std::size_t p, std::size_t i) const {
    ModelTgt& t = n.model.tgts[i];
    forget(n, p, t.id.generation);
    t.registered[p] = false;
    if (!t.empty()) return;
    if (t.state != State::rtr || options_.linger == Duration{}) return end(n, i);
    t.state = State::linger;
    t.deadline = n.now + options_.linger;
  }
  void go(Node& n, std::size_t p) const {
    for (std::size_t i = n.model.tgts.size(); i-- > 0;)
      if (n.model.tgts[i].registered[p]) leave(n, p, i);
    n.model.told[p].clear();
    n.model.member[p] = false;
    if (std::none_of(n.model.member.begin(), n.model.member.end(), [](bool m) { return m; }))
      while (!n.model.tgts.empty()) end(n, 0);
  }
  static void tell(Node& n, const ModelTgt& t, EventKind kind) {
    for (std::size_t p = 0; p < processes; ++p) {
      if (!t.registered[p]) continue;
      Told event{t.id.generation, kind};
      auto& told = n.model.told[p];
      const auto same = std::find_if(told.begin(), told.end(),
                                     [&](const Told& e) { return e.generation == event.generation && e.kind == kind; });
      if (same != told.end()) {
        event.merged = same->merged + 1;
        told.erase(same);
      }
      told.push_back(event);
    }
  }
  void enter(Node& n, ModelTgt& t, State state, EventKind kind) const {
    t.state = state;
    t.named = false;
    t.deadline = n.now + (state == State::drain ? options_.grace : options_.error_grace);
    tell(n, t, kind);
  }

  // ---- what may be done ----

  bool open(Node& n, std::size_t p) {
    if (n.model.member[p] || p > n.model.processes_met) return false;
    n.model.processes_met = std::max(n.model.processes_met, p + 1);
    const auto member = n.registry.open(n.now, {.key = shared});
    expect(member.has_value(), n, "open was refused");
    n.members[p] = member.value_or(MemberId{});
    n.model.member[p] = true;
    return true;
  }
  bool close(Node& n, std::size_t p, bool force) {
    if (!n.model.member[p]) return false;
    const bool busy = std::any_of(n.model.tgts.begin(), n.model.tgts.end(), [p](auto& t) { return t.registered[p]; });
    const std::string got = refusal_of(n.registry.close(n.now, n.members[p], force));
    expect(got == (busy && !force ? "busy" : "ok"), n, "close says " + got);
    if (force || !busy) go(n, p);
    return true;
  }
  bool die(Node& n, std::size_t p) {
    if (!n.model.member[p]) return false;
    n.registry.dead(n.now, n.members[p]);
    go(n, p);
    return true;
  }
  bool create(Node& n, std::size_t p, std::size_t q) {
    if (!n.model.member[p] || q > n.model.peers_met) return false;
    n.model.peers_met = std::max(n.model.peers_met, q + 1);
    auto& tgts = n.model.tgts;
    const auto named = std::find_if(tgts.begin(), tgts.end(), [q](auto& t) { return t.peer == q && t.named; });
    if (named == tgts.end() && tgts.size() == tgts_max) return false;
    const auto made = n.registry.create(n.now, n.members[p], {.peer = Peer{1, static_cast<std::uint32_t>(q)}});
    if (!made) return expect(false, n, "create says " + refusal_of(made)), true;
    expect(made->existing == (named != tgts.end()), n, "there are two for one peer, or none was made");
    if (named != tgts.end()) {
      expect(made->id == named->id, n, "create found another one");
      named->registered[p] = true;
      named->state = State::rtr;  // from linger
      named->deadline = never;
      return true;
    }
    for (const State to : {State::init, State::rtr})
      expect(n.registry.modify(n.now, n.members[p], made->id, to, 1).has_value(), n, "modify was refused");
    tgts.push_back({.id = made->id, .peer = q});
    tgts.back().registered[p] = true;
    return true;
  }
  bool enlist(Node& n, std::size_t p, std::size_t i) {
    if (!n.model.member[p] || i >= n.model.tgts.size()) return false;
    ModelTgt& t = n.model.tgts[i];
    const bool already = t.registered[p];
    const std::string due = already                   ? "ok"
                            : t.state == State::drain ? "gone"
                            : t.state == State::error ? "state"
                                                      : "ok";
    const auto got = n.registry.enlist(n.now, n.members[p], t.id);
    expect(refusal_of(got) == due && (!got || got->already == already), n, "register says " + refusal_of(got));
    if (!got || already) return true;
    t.registered[p] = true;
    t.state = State::rtr;
    t.deadline = never;
    return true;
  }
  bool unregister(Node& n, std::size_t p, std::size_t i) {
    if (!n.model.member[p] || i >= n.model.tgts.size()) return false;
    const ModelTgt t = n.model.tgts[i];
    const auto got = n.registry.unregister(n.now, n.members[p], t.id);
    expect(refusal_of(got) == (t.registered[p] ? "ok" : "not_registered"), n, "unregister says " + refusal_of(got));
    if (!t.registered[p]) return true;
    expect(got && *got == forget(n, p, t.id.generation), n, "another number of events was thrown away");
    leave(n, p, i);
    return true;
  }
  bool use_ended(Node& n, std::size_t p, bool leave_it) {
    if (!n.model.member[p] || !n.model.last_ended) return false;
    const TgtId id = *n.model.last_ended;
    const std::string got = leave_it ? refusal_of(n.registry.unregister(n.now, n.members[p], id))
                                     : refusal_of(n.registry.enlist(n.now, n.members[p], id));
    expect(got == "gone", n, "what has ended says " + got);
    if (leave_it) forget(n, p, id.generation);
    return true;
  }
  bool take(Node& n, std::size_t p) {
    if (n.model.told[p].empty()) return false;
    std::vector<Told> got;
    while (const auto event = n.registry.poll_event(n.members[p]))
      got.push_back({event->tgt.generation, event->kind, event->merged});
    // E7: of one queue pair in their order; among several there is none.
    const auto older = [](const Told& x, const Told& y) { return x.generation < y.generation; };
    std::stable_sort(got.begin(), got.end(), older);
    std::stable_sort(n.model.told[p].begin(), n.model.told[p].end(), older);
    expect(got == n.model.told[p], n, "other events came");
    n.model.told[p].clear();
    return true;
  }
  bool report(Node& n, std::size_t i, EventKind kind) {
    if (i >= n.model.tgts.size()) return false;
    ModelTgt& t = n.model.tgts[i];
    const auto to = leads_to(kind);
    const std::string due = t.state == State::linger && !to ? "state" : "ok";
    const std::string got = refusal_of(n.registry.report(n.now, t.id, kind, 0));
    expect(got == due, n, "report says " + got);
    if (t.state == State::linger) {
      if (to) end(n, i);
    } else if (t.state == State::rtr || (t.state == State::error && to == State::drain)) {
      if (to)
        enter(n, t, *to, kind);
      else
        tell(n, t, kind);
    }
    return true;
  }
  bool pass(Node& n) {
    Instant due = never;
    for (const ModelTgt& t : n.model.tgts) due = std::min(due, t.deadline);
    for (const Instant rest : n.model.rests) due = std::min(due, rest);
    if (due == never) return false;
    n.now = due;
    n.registry.handle_deadline(due);
    for (std::size_t i = n.model.tgts.size(); i-- > 0;) {
      ModelTgt& t = n.model.tgts[i];
      if (t.deadline > due) continue;
      if (t.state == State::error)
        enter(n, t, State::drain, EventKind::unattended);
      else
        end(n, i);
    }
    std::erase(n.model.rests, due);
    return true;
  }

  // ---- what must be alike ----

  void compare(Node& n) {
    std::vector<TgtId> ended;
    while (const auto id = n.registry.poll_ended()) ended.push_back(*id);
    std::sort(ended.begin(), ended.end());
    std::sort(n.model.ended.begin(), n.model.ended.end());
    expect(ended == n.model.ended, n, "others have ended, or one twice");
    n.model.ended.clear();
    const auto domains = n.registry.domains(n.now);
    const auto members = static_cast<std::size_t>(std::count(n.model.member.begin(), n.model.member.end(), true));
    expect(domains.size() == (members > 0 ? 1 : 0), n, "the domain lives without members, or not with them");
    expect(n.registry.tgt_count() == n.model.tgts.size(), n, "another number of queue pairs lives");
    Instant due = never;
    for (const Instant rest : n.model.rests) due = std::min(due, rest);
    for (const ModelTgt& t : n.model.tgts) due = std::min(due, t.deadline);
    expect(n.registry.next_deadline() == due, n, "another deadline");
    if (domains.empty()) return;
    expect(domains[0].members.size() == members, n, "others are members");
    for (std::size_t i = 0; i < n.model.tgts.size() && i < domains[0].tgts.size(); ++i) {
      const ModelTgt& t = n.model.tgts[i];
      const TgtView& v = domains[0].tgts[i];
      std::vector<std::uint64_t> registrants;
      for (std::size_t p = 0; p < processes; ++p)
        if (t.registered[p]) registrants.push_back(n.members[p].number);
      std::sort(registrants.begin(), registrants.end());
      expect(v.id == t.id && v.state == t.state, n, "another state: " + std::string(to_string(v.state)));
      expect(v.registrants == registrants, n, "others are registered");
      expect(t.empty() == (v.state == State::linger), n, "it lives without registrants");
    }
    for (const MemberView& m : domains[0].members)
      for (std::size_t p = 0; p < processes; ++p)
        if (n.model.member[p] && n.members[p].number == m.number)
          expect(m.events_waiting == n.model.told[p].size(), n, "another number of events waits");
  }

  /// A state by what matters for what may come: generations by their order, deadlines by how far they are.
  std::string print(const Node& n) const {
    std::string out;
    const auto short_name = [&n](std::uint64_t generation) {
      for (std::size_t i = 0; i < n.model.tgts.size(); ++i)
        if (n.model.tgts[i].id.generation == generation) return static_cast<char>('a' + i);
      return n.model.last_ended && n.model.last_ended->generation == generation ? 'z' : 'y';
    };
    for (std::size_t p = 0; p < processes; ++p) {
      out += n.model.member[p] ? 'm' : '-';
      for (const Told& t : n.model.told[p]) out += {short_name(t.generation), static_cast<char>('A' + int(t.kind))};
    }
    const auto near = [&n](Instant at) { return at == never ? '~' : static_cast<char>('0' + (at - n.now) / 1s); };
    for (const ModelTgt& t : n.model.tgts) {
      out += {'|', static_cast<char>('0' + t.peer), static_cast<char>('A' + int(t.state)), t.named ? 'n' : '-',
              near(t.deadline)};
      for (const bool r : t.registered) out += r ? 'r' : '-';
    }
    out += {n.model.last_ended ? '!' : '.', static_cast<char>('0' + n.model.processes_met),
            static_cast<char>('0' + n.model.peers_met)};
    for (const Instant rest : n.model.rests) out += near(rest);
    return out;
  }

  static constexpr const char* digits = "123";
  void add(const std::string& name, Step step) { steps_.emplace_back(name, std::move(step)); }

 public:
  Walk& all_steps() {
    for (std::size_t p = 0; p < processes; ++p) {
      const std::string who = std::string("P") + digits[p] + ".";
      add(who + "open", [this, p](Node& n) { return open(n, p); });
      add(who + "close", [this, p](Node& n) { return close(n, p, false); });
      add(who + "force", [this, p](Node& n) { return close(n, p, true); });
      add(who + "die", [this, p](Node& n) { return die(n, p); });
      add(who + "take", [this, p](Node& n) { return take(n, p); });
      add(who + "register_ended", [this, p](Node& n) { return use_ended(n, p, false); });
      add(who + "unregister_ended", [this, p](Node& n) { return use_ended(n, p, true); });
      for (std::size_t i = 0; i < tgts_max; ++i) {
        const std::string which(1, static_cast<char>('a' + i));
        add(who + "create_" + which, [this, p, i](Node& n) { return create(n, p, i); });
        add(who + "register_" + which, [this, p, i](Node& n) { return enlist(n, p, i); });
        add(who + "unregister_" + which, [this, p, i](Node& n) { return unregister(n, p, i); });
      }
    }
    for (std::size_t i = 0; i < tgts_max; ++i)
      for (const EventKind kind : {EventKind::established, EventKind::fatal, EventKind::peer_gone})
        add(std::string(to_string(kind)) + "_" + static_cast<char>('a' + i),
            [this, i, kind](Node& n) { return report(n, i, kind); });
    add("time", [this](Node& n) { return pass(n); });
    return *this;
  }

 private:
  RegistryOptions options_;
  std::vector<std::pair<std::string, Step>> steps_;
  std::unordered_set<std::string> seen_;
  bool failed_ = false;
};

std::size_t depth() {
  const char* given = std::getenv("PARLEY_XRC_WALK");
  return given ? static_cast<std::size_t>(std::atoi(given)) : 7;
}

RegistryOptions quick(Duration linger) { return {.linger = linger, .grace = 2s, .error_grace = 3s, .quarantine = 4s}; }

TEST(XrcWalk, EveryInterleavingKeepsWhatIsUsedAndNothingElse) {
  Walk walk(quick({}));
  const std::size_t steps = walk.all_steps().run(depth());
  RecordProperty("steps", static_cast<int>(steps));
  EXPECT_FALSE(walk.failed());
  EXPECT_GT(steps, 100U);
}

TEST(XrcWalk, EveryInterleavingWithALingerKeepsItsBound) {
  Walk walk(quick(1s));
  const std::size_t steps = walk.all_steps().run(depth());
  RecordProperty("steps", static_cast<int>(steps));
  EXPECT_FALSE(walk.failed());
  EXPECT_GT(steps, 100U);
}

}  // namespace
}  // namespace parley::xrc::walk_test
