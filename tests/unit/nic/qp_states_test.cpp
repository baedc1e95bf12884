// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every state of the queue pair against every event, as a table that is reviewed in tests/states/nic_qp.txt. With
// PARLEY_REWRITE=1 in the environment the file is written anew.
#include "test_pair.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::nic::iwarp::test::qp_states_test {
namespace {

struct Case {
  Side side;
  Buffer buffer{*side.device, side.pd, 64};
  std::string result = "-";
  mpa::Framer framer{{.crc = true, .markers = false, .emss = 1460}};

  void note(const Result<void>& outcome) {
    result = "ok";
    for (const auto& [errc, name] :
         {std::pair{Errc::wrong_state, "wrong_state"}, std::pair{Errc::no_space, "no_space"},
          std::pair{Errc::protection, "protection"}, std::pair{Errc::insufficient_ird, "insufficient_ird"}})
      if (!outcome && outcome.error() == make_error_code(errc)) result = name;
  }
  void feed(std::string_view ulpdu, bool good_crc = true) {
    const Bytes octets = unhex(ulpdu);
    Bytes fpdu(framer.wire_size(octets.size()));
    framer.frame(octets, {}, fpdu);
    if (!good_crc) fpdu.back() ^= 1;
    side.qp->handle_bytes(fpdu);
  }
};

struct State {
  const char* name;
  void (*enter)(Case&);
};
const State states[] = {
    {"idle", [](Case&) {}},
    {"rts", [](Case& c) { (void)c.side.qp->attach(attach_options(mpa::Role::responder)); }},
    {"rts, fenced",
     [](Case& c) {
       AttachOptions options = attach_options(mpa::Role::responder);
       options.fenced = true;
       (void)c.side.qp->attach(options);
     }},
    {"rts, FIN seen",
     [](Case& c) {
       (void)c.side.qp->attach(attach_options(mpa::Role::responder));
       c.side.qp->handle_end(false);
     }},
    {"closing",
     [](Case& c) {
       (void)c.side.qp->attach(attach_options(mpa::Role::responder));
       c.side.qp->begin_close();
     }},
    {"terminate",
     [](Case& c) {
       (void)c.side.qp->attach(attach_options(mpa::Role::responder));
       c.side.qp->send_terminate(2, 0, 5);
     }},
    {"error", [](Case& c) { c.side.qp->flush(); }},
};

struct Event {
  const char* name;
  void (*apply)(Case&);
};
const Event events[] = {
    {"attach", [](Case& c) { c.note(c.side.qp->attach(attach_options(mpa::Role::responder))); }},
    {"release_fence", [](Case& c) { c.side.qp->release_fence(); }},
    {"good Send", [](Case& c) { c.feed("4143 00000000 00000000 00000001 00000000 aa"); }},
    {"second Send, no receive",
     [](Case& c) {
       c.feed("4143 00000000 00000000 00000001 00000000 aa");
       c.feed("4143 00000000 00000000 00000002 00000000 aa");
     }},
    {"half a Send", [](Case& c) { c.feed("0143 00000000 00000000 00000001 00000000 aa"); }},
    {"bad CRC", [](Case& c) { c.feed("4143 00000000 00000000 00000001 00000000 aa", false); }},
    {"Terminate", [](Case& c) { c.feed("4147 00000000 00000002 00000001 00000000 00000000"); }},
    {"FIN", [](Case& c) { c.side.qp->handle_end(false); }},
    {"reset", [](Case& c) { c.side.qp->handle_end(true); }},
    {"send_terminate", [](Case& c) { c.side.qp->send_terminate(2, 0, 7); }},
    {"begin_close", [](Case& c) { c.side.qp->begin_close(); }},
    {"flush", [](Case& c) { c.side.qp->flush(); }},
    {"post_send", [](Case& c) { c.note(c.side.send(3, {c.buffer.sge(0, 4)})); }},
    {"post Read", [](Case& c) { c.note(c.side.qp->post_send({.wr_id = 3, .opcode = SendWr::Opcode::rdma_read})); }},
    {"post_recv", [](Case& c) { c.note(c.side.recv(4, {})); }},
};

std::string kind(QpEvent::Kind kind) {
  switch (kind) {
    case QpEvent::Kind::first_fpdu: return "first_fpdu";
    case QpEvent::Kind::terminate_received: return "terminate_received";
    case QpEvent::Kind::terminate_queued: return "terminate_queued";
    case QpEvent::Kind::failed: return "failed";
  }
  return "?";
}

std::string completions(const std::vector<WorkCompletion>& done) {
  std::string out;
  for (const auto& completion : done) {
    EXPECT_TRUE(completion.status == WcStatus::success || completion.status == WcStatus::wr_flush_err);
    out += (out.empty() ? "" : " ") + std::to_string(completion.wr_id) + ":" +
           (completion.status == WcStatus::success ? "done" : "flushed");
  }
  return out.empty() ? "-" : out;
}

/// One row: what is returned, the next state, events, completions of sends and receives, and the octets then sent.
std::string row(const State& state, const Event& event) {
  Case c;
  EXPECT_TRUE(c.side.recv(1, {c.buffer.all()}).has_value());
  EXPECT_TRUE(c.side.send(2, {c.buffer.sge(0, 8)}).has_value());
  state.enter(c);
  c.side.drain_events();
  c.side.events.clear();
  c.side.sends();
  c.side.recvs();
  event.apply(c);
  c.side.drain_events();
  std::string told;
  for (const auto& happened : c.side.events) told += (told.empty() ? "" : " ") + kind(happened.kind);
  const std::string next{to_string(c.side.qp->rdmap_state())};
  const std::string sent = completions(c.side.sends()), received = completions(c.side.recvs());
  const std::string octets = hex(c.side.transmit_all());
  const std::string message = octets.empty() ? "-" : octets.substr(6, 2) == "43" ? "Send" : "Terminate";
  return pad(state.name, 15) + pad(event.name, 25) + pad(c.result, 13) + pad(next, 11) +
         pad(told.empty() ? "-" : told, 29) + pad(sent, 12) + pad(received, 18) + message + "\n";
}

TEST(NicQpStates, TableIsAsReviewed) {
  std::string table = pad("state", 15) + pad("event", 25) + pad("result", 13) + pad("next", 11) + pad("told", 29) +
                      pad("sends", 12) + pad("receives", 18) + "then sent\n";
  for (const State& state : states)
    for (const Event& event : events) table += row(state, event);
  expect_as_reviewed("nic_qp.txt", table);
}

}  // namespace
}  // namespace parley::nic::iwarp::test::qp_states_test
