// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every state of a request against everything that may come then, as a table that a reviewer reads: tests/states/mad_transactor.txt.
#include <gtest/gtest.h>

#include "tests/unit/mad/mad_kit.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::mad {
namespace states_test {
namespace {

using namespace wire::mad;

constexpr std::uint16_t target = 7, sa_lid = 2, elsewhere = 9;

struct Bench {
  Instant now{};
  Transactor transactor{TransportFacts{}, [] {
                          PortOptions options{.seed = 3, .busy_retries = 2, .redirects_max = 1};
                          options.window = options.destination_window = {.start = 1, .most = 1};
                          return options;
                        }()};
  Transactor::Id id = 0, other = Transactor::none;
  Bytes request;  // the last one that was sent
  std::string sent;
  bool done = false;

  Bench() {
    LocalPort local;
    local.lid = 1;
    local.sm_lid = sa_lid;
    transactor.set_local(local);
  }
  void open(MgmtClass mgmt_class, Method method, std::uint16_t attribute, std::size_t body = 64) {
    Path path = Path::by_lid(mgmt_class == MgmtClass::subn_adm ? sa_lid : target);
    path.retries = 1;
    id = transactor.open({.mgmt_class = mgmt_class, .method = method, .attribute = attribute}, path, Bytes(body));
    request = Bytes(256);  // of one that is not sent: an ID that nobody has
    request[0] = 1;
    request[1] = static_cast<std::uint8_t>(mgmt_class);
    request[3] = static_cast<std::uint8_t>(method);
  }
  void send() {
    while (const Packet* packet = transactor.poll_packet()) {
      const ConstBytes mad = packet->mad;
      const bool rmpp = mad[1] == 3 && (mad[26] & 1) != 0;
      constexpr std::string_view types[] = {"", "DATA", "ACK", "STOP", "ABORT"};
      sent += sent.empty() ? "" : ", ";
      if (rmpp)
        sent += std::string(types[mad[25]]) + " " + std::to_string(mad[31]);
      else
        sent += "request to LID " + std::to_string(packet->to.lid);
      request.assign(mad.begin(), mad.end());
      transactor.packet_sent(now);
    }
  }
  void take(const Address& from, ConstBytes mad) { transactor.handle_packet(now, from, mad); }
  Address peer() const {
    Address from = Path::by_lid(request[1] == 3 ? sa_lid : target).address;
    return from;
  }
};

struct State {
  const char* name;
  std::function<void(Bench&)> reach;
};

ClassPortInfo redirection(std::uint16_t lid) {
  ClassPortInfo info;
  return info.set(ClassPortInfo::redirect_lid, lid)
      .set(ClassPortInfo::redirect_gid, lid == 0 ? Gid{1} : Gid{})
      .set(ClassPortInfo::redirect_qp, 1)
      .set(ClassPortInfo::redirect_q_key, general_qkey);
}

void begin(Bench& b) {
  b.open(MgmtClass::perf, Method::get, PortCounters::attribute);
  b.transactor.submit(b.id);
  b.send();
}
void begin_table(Bench& b) {
  b.open(MgmtClass::subn_adm, Method::get_table, NodeRecord::attribute, 108);
  b.transactor.submit(b.id);
  b.send();
}

/// A segment of the answer, or word about the request's.
Datagram segment(const Bench& b, std::uint8_t type, std::uint8_t number, std::uint8_t flags, std::uint8_t status = 0,
                 std::uint8_t data2 = 0) {
  Datagram out = answer_to(b.request, {});
  out[24] = 1;
  out[25] = type;
  out[26] = static_cast<std::uint8_t>(0xF8 | flags);
  out[27] = status;
  out[31] = number;
  out[35] = data2;
  write_bits(out, 44 * 8, 16, 14);
  return out;
}

const std::vector<State>& states() {
  static const std::vector<State> all = {
      {"opened", [](Bench& b) { b.open(MgmtClass::perf, Method::get, PortCounters::attribute); }},
      {"behind another",
       [](Bench& b) {
         begin(b);
         b.other = b.id;
         b.open(MgmtClass::perf, Method::get, PortCounters::attribute);
         b.transactor.submit(b.id);
         b.send();
       }},
      {"sent", begin},
      {"sent twice",
       [](Bench& b) {
         begin(b);
         b.transactor.handle_deadline(b.now += 1s);
         b.send();
       }},
      {"backing off",
       [](Bench& b) {
         begin(b);
         b.take(b.peer(), answer_to(b.request, {}, 1));
       }},
      {"redirected",
       [](Bench& b) {
         begin(b);
         b.take(b.peer(), answer_to(b.request, redirection(elsewhere).octets(), 2));
         b.send();
       }},
      {"resolving",
       [](Bench& b) {
         begin(b);
         b.take(b.peer(), answer_to(b.request, redirection(0).octets(), 2));
         b.send();
       }},
      {"table asked for", begin_table},
      {"first segment here",
       [](Bench& b) {
         begin_table(b);
         b.take(b.peer(), segment(b, 1, 1, 3));
       }},
      {"paths asked for",
       [](Bench& b) {
         b.open(MgmtClass::subn_adm, Method::get_multi, MultiPathRecord::attribute, 300);
         b.transactor.submit(b.id);
         b.send();
       }},
      {"done",
       [](Bench& b) {
         begin(b);
         b.take(b.peer(), answer_to(b.request, {}));
       }},
  };
  return all;
}

struct Event {
  const char* name;
  std::function<void(Bench&)> happen;
};

void from_elsewhere(Bench& b, Address from, Datagram mad = {}) {
  if (mad == Datagram{}) mad = answer_to(b.request, {});
  b.take(from, mad);
}

const std::vector<Event>& events() {
  static const std::vector<Event> all = {
      {"answer", [](Bench& b) { b.take(b.peer(), answer_to(b.request, {})); }},
      {"answer from LID 9", [](Bench& b) { from_elsewhere(b, Path::by_lid(elsewhere).address); }},
      {"answer of QP 5",
       [](Bench& b) {
         Address from = b.peer();
         from.qpn = 5;
         from_elsewhere(b, from);
       }},
      {"answer of another ID",
       [](Bench& b) {
         Datagram mad = answer_to(b.request, {});
         mad[15] ^= 0x80;
         b.take(b.peer(), mad);
       }},
      {"answer of another method",
       [](Bench& b) {
         Datagram mad = answer_to(b.request, {});
         mad[3] = 0x95;
         b.take(b.peer(), mad);
       }},
      {"answer of 100 octets", [](Bench& b) { b.take(b.peer(), ConstBytes(answer_to(b.request, {})).first(100)); }},
      {"20 octets", [](Bench& b) { b.take(b.peer(), ConstBytes(answer_to(b.request, {})).first(20)); }},
      {"a request", [](Bench& b) { b.take(b.peer(), b.request); }},
      {"status: invalid", [](Bench& b) { b.take(b.peer(), answer_to(b.request, {}, 0x1C)); }},
      {"status: class's", [](Bench& b) { b.take(b.peer(), answer_to(b.request, {}, 0x300)); }},
      {"status: busy", [](Bench& b) { b.take(b.peer(), answer_to(b.request, {}, 1)); }},
      {"redirection to LID 9",
       [](Bench& b) { b.take(b.peer(), answer_to(b.request, redirection(elsewhere).octets(), 2)); }},
      {"redirection to a GID", [](Bench& b) { b.take(b.peer(), answer_to(b.request, redirection(0).octets(), 2)); }},
      {"cut table",
       [](Bench& b) {
         Datagram mad = segment(b, 0, 0, 1);
         mad[24] = 0;
         b.take(b.peer(), mad);
       }},
      {"segment 1", [](Bench& b) { b.take(b.peer(), segment(b, 1, 1, 3)); }},
      {"segment 2, the last", [](Bench& b) { b.take(b.peer(), segment(b, 1, 2, 5, 0, 44)); }},
      {"ACK of segment 1", [](Bench& b) { b.take(b.peer(), segment(b, 2, 1, 1, 0, 5)); }},
      {"ACK of segment 2", [](Bench& b) { b.take(b.peer(), segment(b, 2, 2, 1, 0, 5)); }},
      {"ABORT", [](Bench& b) { b.take(b.peer(), segment(b, 4, 0, 1, 118)); }},
      {"it comes back", [](Bench& b) { b.transactor.handle_refused(b.now, b.request); }},
      {"it is dropped",
       [](Bench& b) {
         b.transactor.handle_lost(b.now, b.request);
         b.transactor.handle_deadline(b.now);
       }},
      {"time passes", [](Bench& b) { b.transactor.handle_deadline(b.now = b.transactor.next_deadline()); }},
      {"cancel", [](Bench& b) { b.transactor.cancel(b.id, Fault::cancelled); }},
      {"the other one ends",
       [](Bench& b) {
         if (b.other != Transactor::none) b.transactor.cancel(b.other, Fault::cancelled);
       }},
  };
  return all;
}

std::string what_counted(const Counters& before, const Counters& after) {
  std::string out;
  const auto add = [&out](std::string_view name, std::uint64_t was, std::uint64_t is) {
    if (was != is) out += (out.empty() ? "" : ", ") + std::string(name);
  };
  add("answered", before.answered, after.answered);
  add("resent", before.resent, after.resent);
  add("timed out", before.timeouts, after.timeouts);
  add("busy", before.busy, after.busy);
  add("redirected", before.redirected, after.redirected);
  add("refused", before.refused, after.refused);
  add("lost", before.lost, after.lost);
  add("unexpected", before.unexpected, after.unexpected);
  add("mismatched", before.mismatched, after.mismatched);
  add("malformed", before.malformed, after.malformed);
  add("unasked", before.unasked, after.unasked);
  return out;
}

std::string row(const State& state, const Event& event) {
  Bench b;
  state.reach(b);
  const bool was_done = b.transactor.poll_done() != Transactor::none;
  b.sent.clear();
  const Counters before = b.transactor.counters();
  if (b.now == Instant{} && event.name == std::string("time passes") && b.transactor.next_deadline() == never)
    return "waits for nothing";
  event.happen(b);
  b.send();
  std::string out;
  for (Transactor::Id id; (id = b.transactor.poll_done()) != Transactor::none;)
    if (id == b.id) out = b.transactor.ok(id) ? "answered" : std::string(text_of(b.transactor.error(id).fault()));
  if (out.empty()) out = was_done ? "is done" : "goes on";
  if (!b.sent.empty()) out += "; sends " + b.sent;
  const std::string counted = what_counted(before, b.transactor.counters());
  if (!counted.empty()) out += " [" + counted + "]";
  return out;
}

TEST(TransactorStates, AreAsReviewed) {
  std::string out =
      "# A request (perf, GetTable or GetMulti; one retry, two more tries for BUSY, one redirection, windows of 1) in "
      "each state, and what\n"
      "# follows from what comes then. What is counted stands in brackets.\n"
      "# Written by the test TransactorStates with PARLEY_REWRITE=1; read every line that changes.\n";
  for (const State& state : states()) {
    out += "\n" + std::string(state.name) + "\n";
    for (const Event& event : events()) out += "  " + pad(event.name, 26) + row(state, event) + "\n";
  }
  expect_as_reviewed("mad_transactor.txt", out);
}

}  // namespace
}  // namespace states_test
}  // namespace parley::mad
