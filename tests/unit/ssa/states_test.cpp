// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every state of a node of the tree, and of a member as the master sees it, with every message, command and deadline, as
// tables that a reviewer reads: tests/states/ssa_node.txt and ssa_master.txt. PARLEY_REWRITE=1 writes them again.
#include "tests/unit/reviewed.hpp"
#include "tests/unit/ssa/node_kit.hpp"

namespace parley::ssa {
namespace states_test {
namespace {

using namespace kit;

// ---- the node

using NodeStage = NodeBench;

struct NodeOrigin {
  std::string name;
  std::function<void(NodeStage&)> reach;
};
void to_orphan(NodeStage& s) {
  s.node.start(s.now, at(master_lid));
  s.until(Method::set, master_lid);
  s.receive(master_lid, s.hello_answer(s.hello));
}
void to_parent(NodeStage& s, bool with_backup) {
  to_orphan(s);
  s.assign(2, parent_lid, with_backup ? backup_lid : 0);
}
std::vector<NodeOrigin> node_origins() {
  return {{"idle", [](NodeStage&) {}},
          {"joining, before the hello", [](NodeStage& s) { s.node.start(s.now, at(master_lid)); }},
          {"joining, the hello is sent",
           [](NodeStage& s) { s.node.start(s.now, at(master_lid)), s.until(Method::set, master_lid); }},
          {"orphan", to_orphan},
          {"have_parent", [](NodeStage& s) { to_parent(s, false); }},
          {"connecting", [](NodeStage& s) { to_parent(s, false), s.until(Method::set, parent_lid); }},
          {"connecting, with a backup to go to",
           [](NodeStage& s) { to_parent(s, true), s.until(Method::set, parent_lid); }},
          {"connected", [](NodeStage& s) { s.connect(false); }},
          {"connected, heartbeat sent", [](NodeStage& s) { s.connect(false), s.until(Method::get, parent_lid); }},
          {"connected, with backup", [](NodeStage& s) { s.connect(true); }}};
}

struct NodeInput {
  std::string name;
  std::function<void(NodeStage&)> apply;
};
std::vector<NodeInput> commands() {
  return {{"start", [](NodeStage& s) { s.node.start(s.now, at(master_lid)); }},
          {"port down", [](NodeStage& s) { s.node.handle_port_down(s.now); }},
          {"another master", [](NodeStage& s) { s.node.handle_master(s.now, at(third_lid)); }},
          {"another master; 5 s",
           [](NodeStage& s) {
             s.node.handle_master(s.now, at(third_lid));
             const Instant end = s.now + 5s;
             while (s.node.next_deadline() <= end) s.to_deadline();
           }},
          {"leave", [](NodeStage& s) { s.node.leave(s.now); }},
          {"new database",
           [](NodeStage& s) {
             s.node.handle_database(s.now, {1, 6});
           }},
          {"parent's connection ends", [](NodeStage& s) { s.node.handle_parent_lost(s.now, gid_of(parent_lid)); }},
          {"backup's connection ends", [](NodeStage& s) { s.node.handle_parent_lost(s.now, gid_of(backup_lid)); }},
          {"a stranger's ends", [](NodeStage& s) { s.node.handle_parent_lost(s.now, gid_of(stranger_lid)); }},
          {"deadline", [](NodeStage& s) {
             if (s.node.next_deadline() != never) s.to_deadline();
           }}};
}
std::vector<NodeInput> master_messages() {
  return {
      {"answer to the hello", [](NodeStage& s) { s.receive(master_lid, s.hello_answer(s.hello)); }},
      {"the same, refused",
       [](NodeStage& s) { s.receive(master_lid, s.hello_answer(s.hello, 1, AnswerStatus::denied)); }},
      {"the same, from a stranger", [](NodeStage& s) { s.receive(stranger_lid, s.hello_answer(s.hello)); }},
      {"assigned: the parent", [](NodeStage& s) { s.assign(9, parent_lid, 0); }},
      {"assigned: parent and backup", [](NodeStage& s) { s.assign(9, parent_lid, backup_lid); }},
      {"assigned: the backup", [](NodeStage& s) { s.assign(9, backup_lid, 0); }},
      {"assigned: backup, parent", [](NodeStage& s) { s.assign(9, backup_lid, parent_lid); }},
      {"assigned: a third", [](NodeStage& s) { s.assign(9, third_lid, 0); }},
      {"assigned: itself", [](NodeStage& s) { s.assign(9, own_lid, 0); }},
      {"assigned: by a stranger",
       [](NodeStage& s) { s.receive(stranger_lid, request_of<Method::set>(s.assignment(9, third_lid, 0))); }},
      {"assigned: with an old ticket", [](NodeStage& s) { s.assign(0, third_lid, 0); }},
      {"assigned: with an old epoch",
       [](NodeStage& s) {
         s.master_epoch = {1, 1}, s.assign(9, third_lid, 0);
       }},
      {"assigned: of a new incarnation",
       [](NodeStage& s) {
         s.master_epoch = {2, 1}, s.assign(1, third_lid, 0);
       }},
      {"assigned: with a wrong key",
       [](NodeStage& s) { s.receive(master_lid, request_of<Method::set>(s.assignment(9, third_lid, 0), 77, 1)); }},
      {"asked for its parents",
       [](NodeStage& s) { s.receive(master_lid, request_of<Method::get>(s.assignment(0, parent_lid, 0))); }},
      {"20 octets", [](NodeStage& s) { s.node.handle_message(s.now, at(master_lid), Bytes(20)); }},
  };
}
std::vector<NodeInput> parent_messages() {
  const auto answered = [](AnswerStatus status) {
    return [status](NodeStage& s) { s.receive(parent_lid, s.hookup_answer(s.hookup, parent_lid, status)); };
  };
  return {
      {"hook-up answered", answered(AnswerStatus::ok)},
      {"hook-up: not_ready", answered(AnswerStatus::not_ready)},
      {"hook-up: full", answered(AnswerStatus::full)},
      {"hook-up: denied", answered(AnswerStatus::denied)},
      {"hook-up: unknown_node", answered(AnswerStatus::unknown_node)},
      {"hook-up answered by a stranger",
       [](NodeStage& s) { s.receive(stranger_lid, s.hookup_answer(s.hookup, stranger_lid)); }},
      {"hook-up answered again",
       [](NodeStage& s) {
         for (int i = 0; i < 2; ++i) s.receive(parent_lid, s.hookup_answer(s.hookup, parent_lid));
       }},
      {"epoch of the parent",
       [](NodeStage& s) {
         s.parent_epoch = {1, 8};
         s.receive(parent_lid, request_of<Method::send>(s.hookup_of(parent_lid)));
       }},
      {"epoch that is old",
       [](NodeStage& s) {
         s.parent_epoch = {1, 2};
         s.receive(parent_lid, request_of<Method::send>(s.hookup_of(parent_lid)));
       }},
      {"epoch of a new incarnation",
       [](NodeStage& s) {
         s.parent_epoch = {2, 1};
         s.receive(parent_lid, request_of<Method::send>(s.hookup_of(parent_lid)));
       }},
      {"epoch from a stranger",
       [](NodeStage& s) {
         s.parent_epoch = {1, 8};
         s.receive(stranger_lid, request_of<Method::send>(s.hookup_of(stranger_lid)));
       }},
      {"silence for 3 heartbeats",
       [](NodeStage& s) {
         const Instant end = s.now + 6s;
         while (s.node.next_deadline() <= end) s.to_deadline();
         s.now = end;
       }},
  };
}
std::vector<NodeInput> child_messages() {
  return {
      {"child hooks up", [](NodeStage& s) { s.receive(child_lid, request_of<Method::set>(s.hookup_of(child_lid))); }},
      {"parent hooks up",
       [](NodeStage& s) { s.receive(parent_lid, request_of<Method::set>(s.hookup_of(parent_lid))); }},
      {"heartbeat of an unknown child",
       [](NodeStage& s) { s.receive(child_lid, request_of<Method::get>(s.hookup_of(child_lid))); }},
      {"child hooks up, heartbeat",
       [](NodeStage& s) {
         s.receive(child_lid, request_of<Method::set>(s.hookup_of(child_lid)));
         s.receive(child_lid, request_of<Method::get>(s.hookup_of(child_lid)));
       }},
      {"child hooks up, leaves",
       [](NodeStage& s) {
         s.receive(child_lid, request_of<Method::set>(s.hookup_of(child_lid)));
         s.receive(child_lid, request_of<Method::delete_>(s.hookup_of(child_lid)));
       }},
      {"child hooks up, elsewhere again",
       [](NodeStage& s) {
         s.receive(child_lid, request_of<Method::set>(s.hookup_of(child_lid)));
         s.receive(stranger_lid, request_of<Method::set>(s.hookup_of(child_lid)));
       }},
      {"a hello", [](NodeStage& s) {
         s.receive(child_lid,
                   request_of<Method::set>(
                       SsaHello{}.set(SsaHello::port_gid, gid_of(child_lid)).set(SsaHello::roles, roles::consumer)));
       }}};
}

/// "[malformed, refused]": the counters that have changed.
template <class Rows, class Counters>
std::string counted(const Rows& rows, const Counters& before, const Counters& now) {
  std::vector<std::string> out;
  for (const auto& [name, counter] : rows)
    if (before.*counter != now.*counter) out.push_back(name);
  return out.empty() ? "" : fmt::format("[{}]", fmt::join(out, ", "));
}

std::string counted(const NodeCounters& before, const NodeCounters& now) {
  using C = NodeCounters;
  constexpr std::pair<const char*, std::uint64_t C::*> rows[] = {
      {"malformed", &C::malformed},       {"wrong_key", &C::wrong_key},
      {"wrong_master", &C::wrong_master}, {"wrong_parent", &C::wrong_parent},
      {"wrong_child", &C::wrong_child},   {"wrong_node", &C::wrong_node},
      {"replayed", &C::replayed},         {"unexpected", &C::unexpected},
      {"refused", &C::refused},           {"children_refused", &C::children_refused}};
  return counted(rows, before, now);
}

std::string state_of(const Node& node) { return name_of(node.state()) + (node.has_backup() ? ", with backup" : ""); }

std::string row_of(const NodeOrigin& origin, const NodeInput& input) {
  NodeStage s;
  origin.reach(s);
  (void)s.drain();
  (void)s.events();
  const NodeCounters before = s.node.counters();
  const std::string state = state_of(s.node);
  input.apply(s);
  std::vector<std::string> out;
  std::map<std::string, int> sent;
  std::vector<std::string> order;
  for (const Transmit& t : s.drain())
    if (const std::string w = words(t, peer_name(t.to.lid)); ++sent[w] == 1) order.push_back(w);
  for (const std::string& w : order) out.push_back(sent[w] > 1 ? fmt::format("{} ({} times)", w, sent[w]) : w);
  for (const NodeEvent& event : s.events())
    out.push_back(fmt::format("event {} of {}", name_of(event.kind), peer_name(lid_of(event.gid))));
  if (const std::string c = counted(before, s.node.counters()); !c.empty()) out.push_back(c);
  const std::string to = state_of(s.node) == state ? "" : "-> " + state_of(s.node);
  std::string line = "  " + pad(input.name, 33) + pad(to, 28) + joined(out);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

TEST(SsaStates, OfANodeAreAsReviewed) {
  std::string out =
      "# Every state of a node of the tree (an access node) with every command, message and deadline: the next state; "
      "what\n"
      "# is sent; events; in brackets what is counted as refused. Assignments have a new ticket if nothing else is "
      "said.\n"
      "# Written by the test SsaStates with PARLEY_REWRITE=1; read every line that changes.\n";
  for (const NodeOrigin& origin : node_origins()) {
    out += "\n" + origin.name + "\n";
    for (const auto& inputs : {commands(), master_messages(), parent_messages(), child_messages()})
      for (const NodeInput& input : inputs) out += row_of(origin, input);
  }
  expect_as_reviewed("ssa_node.txt", out);
}

// ---- the master

/// A master with one distribution and three access nodes, and a consumer that the rows are about.
struct MasterStage {
  static constexpr std::uint16_t member_lid = own_lid;

  MasterStage() : master(options()) {
    master.start(now);
    join(distribution_lid, roles::distribution, master_lid);
    for (const std::uint16_t lid : {parent_lid, backup_lid, third_lid}) join(lid, roles::access, distribution_lid);
  }
  static MasterOptions options() {
    MasterOptions o;
    o.key = tree_key;
    o.root = gid_of(master_lid);
    o.root_endpoint = endpoint_of(master_lid);
    o.epoch = {5, 3};
    o.has_p_key = [](const Gid&, std::uint16_t p_key) { return p_key == 0xFFFF; };
    return o;
  }

  /// What is sent, without requests to others than the member: these answer as they should.
  std::vector<Transmit> drain() {
    std::vector<Transmit> out = std::exchange(kept, {});
    while (auto sent = master.poll_transmit()) {
      const bool is_request = (sent->mad[3] & 0x80) == 0;
      if (is_request && sent->to.lid != member_lid && sent->to.lid != stranger_lid)
        obey(*sent);
      else
        out.push_back(std::move(*sent));
    }
    return out;
  }
  void obey(const Transmit& request) {
    const std::uint16_t lid = request.to.lid;
    SsaParent body = body_of<SsaParent>(request.mad);
    const bool is_probe = request.mad[3] == static_cast<std::uint8_t>(Method::get);
    if (is_probe) body.set(SsaParent::parent, endpoint_of(lid == distribution_lid ? master_lid : distribution_lid));
    body.set(SsaParent::node_flags, static_cast<std::uint8_t>(flags::has_parent | flags::has_backup));
    receive(lid, answer_to(request.mad, body));
  }
  void receive(std::uint16_t from, const Datagram& mad) { master.handle_message(now, at(from), mad); }
  void to_deadline() {
    now = std::max(now, master.next_deadline());
    master.handle_deadline(now);
    kept = drain();
  }
  SsaHello hello(std::uint16_t lid = member_lid, std::uint8_t node_roles = roles::consumer) const {
    return SsaHello{}
        .set(SsaHello::epoch, wire_of({5, 3}))
        .set(SsaHello::port_gid, gid_of(lid))
        .set(SsaHello::roles, node_roles)
        .set(SsaHello::p_key_count, 1)
        .set_at(SsaHello::p_key, 0, 0xFFFF);
  }
  void greet(const SsaHello& body, std::uint16_t from = member_lid) { receive(from, request_of<Method::set>(body)); }
  SsaParent parents(std::uint16_t parent, std::uint16_t backup, bool connected) const {
    return SsaParent{}
        .set(SsaParent::port_gid, gid_of(member_lid))
        .set(SsaParent::roles, roles::consumer)
        .set(SsaParent::node_flags, connected ? static_cast<std::uint8_t>(flags::has_parent) : std::uint8_t{0})
        .set(SsaParent::parent, endpoint_of(parent))
        .set(SsaParent::backup, endpoint_of(backup));
  }
  void answer(const SsaParent& body, AnswerStatus status = AnswerStatus::ok, std::uint16_t from = member_lid) {
    SsaParent with_key = body;
    receive(from, answer_to(asked, with_key.set(SsaParent::ssa_key, tree_key), status));
  }
  /// Lets time pass up to the next request to this member; it is `asked` then.
  void until_asked(Method method) {
    for (int i = 0; i < 200; ++i) {
      for (const Transmit& sent : drain())
        if (sent.to.lid == member_lid && sent.mad[3] == static_cast<std::uint8_t>(method)) {
          asked = sent.mad;
          return;
        }
      to_deadline();
    }
    ADD_FAILURE() << name_of(method) << " was not sent";
  }
  void join(std::uint16_t lid, std::uint8_t node_roles, std::uint16_t parent) {
    greet(hello(lid, node_roles).set(SsaHello::node_flags, flags::has_parent).set(SsaHello::parent_gid, gid_of(parent)),
          lid);
    (void)drain();
  }
  /// Asked, assigned to `parent_lid` with `backup_lid`, and confirmed.
  void to_asked() {
    greet(hello());
    until_asked(Method::set);
  }
  void to_assigned() {
    to_asked();
    answer(parents(parent_lid, backup_lid, false));
  }
  void to_probed() {
    to_assigned();
    until_asked(Method::get);
  }
  void to_confirmed() {
    to_probed();
    answer(parents(parent_lid, backup_lid, true));
  }
  void report(std::uint16_t parent, std::uint16_t from) {
    receive(from, request_of<Method::report>(
                      SsaChildLost{}
                          .set(SsaChildLost::port_gid, gid_of(parent))
                          .set(SsaChildLost::child_count, 1)
                          .set_at(SsaChildLost::child, 0, SsaChild{}.set(SsaChild::gid, gid_of(member_lid)))));
  }
  void leave(std::uint16_t lid, std::uint64_t ticket, std::uint16_t from) {
    receive(from,
            request_of<Method::delete_>(SsaLeave{}.set(SsaLeave::port_gid, gid_of(lid)).set(SsaLeave::ticket, ticket)));
  }

  Instant now{};
  Datagram asked = request_of<Method::set>(parents(parent_lid, backup_lid, false));
  std::vector<Transmit> kept;
  Master master;
};

struct MasterRow {
  std::string name;
  std::function<void(MasterStage&)> apply;
};
std::vector<MasterRow> master_origins() {
  return {
      {"unknown", [](MasterStage&) {}},
      {"waiting: in line until the tree has settled", [](MasterStage& s) { s.greet(s.hello()); }},
      {"waiting: for the parent that it names",
       [](MasterStage& s) {
         s.greet(
             s.hello().set(SsaHello::node_flags, flags::has_parent).set(SsaHello::parent_gid, gid_of(stranger_lid)));
       }},
      {"asked: Set(SsaParent)", [](MasterStage& s) { s.to_asked(); }},
      {"assigned", [](MasterStage& s) { s.to_assigned(); }},
      {"asked: Get(SsaParent)", [](MasterStage& s) { s.to_probed(); }},
      {"confirmed", [](MasterStage& s) { s.to_confirmed(); }}};
}
std::vector<MasterRow> hellos() {
  const auto with_parent = [](std::uint16_t lid, unsigned more = 0) {
    return [lid, more](MasterStage& s) {
      s.greet(s.hello()
                  .set(SsaHello::node_flags, static_cast<std::uint8_t>(flags::has_parent | more))
                  .set(SsaHello::parent_gid, gid_of(lid)));
    };
  };
  return {
      {"hello", [](MasterStage& s) { s.greet(s.hello()); }},
      {"hello, has the parent", with_parent(parent_lid)},
      {"hello, has parent and backup", with_parent(parent_lid, flags::has_backup)},
      {"hello, has the backup as parent", with_parent(backup_lid)},
      {"hello, has an unknown parent", with_parent(stranger_lid)},
      {"hello, has lost the parent",
       [](MasterStage& s) {
         s.greet(
             s.hello().set(SsaHello::node_flags, flags::parent_lost).set(SsaHello::bad_parent_gid, gid_of(parent_lid)));
       }},
      {"hello with a wrong key", [](MasterStage& s) { s.receive(own_lid, request_of<Method::set>(s.hello(), 77, 1)); }},
      {"hello, foreign P_Key", [](MasterStage& s) { s.greet(s.hello().set_at(SsaHello::p_key, 0, 0x8001)); }},
      {"hello, epoch of the future",
       [](MasterStage& s) {
         s.greet(s.hello().set(SsaHello::epoch, wire_of({5, 9})));
       }},
      {"hello, epoch of a later master",
       [](MasterStage& s) {
         s.greet(s.hello().set(SsaHello::epoch, wire_of({6, 1})));
       }},
      {"hello for another tree", [](MasterStage& s) { s.greet(s.hello().set(SsaHello::tree, "other")); }},
      {"hello, now an access node", [](MasterStage& s) { s.greet(s.hello(own_lid, roles::access)); }},
      {"the unknown parent's hello",
       [](MasterStage& s) { s.greet(s.hello(stranger_lid, roles::access), stranger_lid); }}};
}
std::vector<MasterRow> answers() {
  return {{"answer", [](MasterStage& s) { s.answer(s.parents(parent_lid, backup_lid, false)); }},
          {"answer: connected", [](MasterStage& s) { s.answer(s.parents(parent_lid, backup_lid, true)); }},
          {"answer: connected to the backup", [](MasterStage& s) { s.answer(s.parents(backup_lid, 0, true)); }},
          {"answer: connected to a third", [](MasterStage& s) { s.answer(s.parents(third_lid, 0, true)); }},
          {"answer: denied", [](MasterStage& s) { s.answer(s.parents(parent_lid, 0, false), AnswerStatus::denied); }},
          {"answer from a stranger",
           [](MasterStage& s) { s.answer(s.parents(parent_lid, 0, true), AnswerStatus::ok, stranger_lid); }},
          {"the same answer again",
           [](MasterStage& s) {
             for (int i = 0; i < 2; ++i) s.answer(s.parents(parent_lid, backup_lid, true));
           }},
          {"no answer for 20 s",
           [](MasterStage& s) {
             const Instant end = s.now + 20s;
             while (s.master.next_deadline() <= end) s.to_deadline();
             s.now = end;
           }},
          {"parent reports it lost", [](MasterStage& s) { s.report(parent_lid, parent_lid); }},
          {"backup reports it lost", [](MasterStage& s) { s.report(backup_lid, backup_lid); }},
          {"a third reports it lost", [](MasterStage& s) { s.report(third_lid, third_lid); }},
          {"a stranger reports as the parent", [](MasterStage& s) { s.report(parent_lid, stranger_lid); }},
          {"it leaves", [](MasterStage& s) { s.leave(own_lid, 1000, own_lid); }},
          {"it leaves, old ticket", [](MasterStage& s) { s.leave(own_lid, 0, own_lid); }},
          {"a stranger says that it leaves", [](MasterStage& s) { s.leave(own_lid, 1000, stranger_lid); }},
          {"the parent leaves", [](MasterStage& s) { s.leave(parent_lid, 1000, parent_lid); }},
          {"the backup leaves", [](MasterStage& s) { s.leave(backup_lid, 1000, backup_lid); }},
          {"a hook-up", [](MasterStage& s) {
             s.receive(own_lid, request_of<Method::set>(SsaHookup{}.set(SsaHookup::endpoint, endpoint_of(own_lid))));
           }}};
}

std::string counted(const MasterCounters& before, const MasterCounters& now) {
  using C = MasterCounters;
  constexpr std::pair<const char*, std::uint64_t C::*> rows[] = {
      {"malformed", &C::malformed},         {"wrong_key", &C::wrong_key},           {"unexpected", &C::unexpected},
      {"future_epochs", &C::future_epochs}, {"wrong_node", &C::wrong_node},         {"denied", &C::denied},
      {"newer_masters", &C::newer_masters}, {"foreign_p_keys", &C::foreign_p_keys}, {"full", &C::full}};
  return counted(rows, before, now);
}

/// "assigned: parent, backup".
std::string place_of(MasterStage& s) {
  const auto stage = s.master.stage_of(gid_of(own_lid));
  if (!stage) return "unknown";
  const auto [parent, backup] = s.master.parents_of(gid_of(own_lid));
  std::string out = name_of(*stage);
  if (parent != Gid{}) out += ": " + peer_name(lid_of(parent));
  if (backup != Gid{}) out += ", " + peer_name(lid_of(backup));
  return out;
}

std::string row_of(const MasterRow& origin, const MasterRow& input) {
  MasterStage s;
  origin.apply(s);
  (void)s.drain();
  while (s.master.poll_event()) {
  }
  const MasterCounters before = s.master.counters();
  const std::string place = place_of(s);
  input.apply(s);
  std::vector<std::string> out;
  std::map<std::string, int> sent;
  std::vector<std::string> order;
  for (const Transmit& t : s.drain())
    if (const std::string w = words(t, t.to.lid == own_lid ? "member" : peer_name(t.to.lid)); ++sent[w] == 1)
      order.push_back(w);
  for (const std::string& w : order) out.push_back(sent[w] > 1 ? fmt::format("{} ({} times)", w, sent[w]) : w);
  while (const auto event = s.master.poll_event())
    out.push_back(fmt::format("event {} of {}", name_of(event->kind),
                              event->gid == gid_of(own_lid) ? "member" : peer_name(lid_of(event->gid))));
  if (const std::string c = counted(before, s.master.counters()); !c.empty()) out.push_back(c);
  const std::string to = place_of(s) == place ? "" : "-> " + place_of(s);
  std::string line = "  " + pad(input.name, 35) + pad(to, 32) + joined(out);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

TEST(SsaStates, OfAMemberAreAsReviewed) {
  std::string out =
      "# Every stage of a member (a consumer; the access nodes parent, backup and third are there) with every message "
      "and\n"
      "# silence: the next stage with parent and backup; what the master sends; events; in brackets what is counted as "
      "refused.\n"
      "# Written by the test SsaStates with PARLEY_REWRITE=1; read every line that changes.\n";
  for (const MasterRow& origin : master_origins()) {
    out += "\n" + origin.name + "\n";
    for (const auto& inputs : {hellos(), answers()})
      for (const MasterRow& input : inputs) out += row_of(origin, input);
  }
  expect_as_reviewed("ssa_master.txt", out);
}

}  // namespace
}  // namespace states_test
}  // namespace parley::ssa
