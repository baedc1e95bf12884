// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every state of the InfiniBand CM with every message, command and the deadline, as a table that a reviewer reads:
// tests/states/ibcm.txt. A change of behaviour is a change of that file. PARLEY_REWRITE=1 writes it anew.
#include <set>

#include "base/bytes_io.hpp"
#include "base/text.hpp"
#include "tests/unit/cm/ibcm_kit.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::cm::ibcm::states_test {
namespace {
using namespace kit;

constexpr std::uint32_t peer_id = 0x2222, peer_qpn = 0x200, own_qpn = 0x100;
constexpr std::uint64_t peer_tid = 0x77;

/// One Agent, whose peer is a script.
struct Bench {
  Bench()
      : agent(*Agent::create({.ca_guid = guid(1), .seed = 1, .timers = {.retries = 1}, .outstanding_per_peer = 1})) {
    EXPECT_TRUE(agent.listen(service, {}));
  }
  void say(CmBody body, std::uint64_t tid = peer_tid) {
    std::array<std::uint8_t, PARLEY_IB_MAD_LEN> octets{};
    CmMessage{.transaction_id = tid, .body = std::move(body)}.emit(octets);
    agent.handle_mad(now, {.source = gid(2), .destination = gid(1)}, octets);
  }
  std::uint32_t own_id() const { return agent.ids(id) ? agent.ids(id)->local_comm_id : gone_id; }
  void learn() {
    while (auto event = agent.poll_event()) {
      if (const auto* asked = std::get_if<RequestReceived>(&*event)) id = asked->id;
      if (const auto* sidr = std::get_if<SidrRequested>(&*event)) id = sidr->id;
    }
    MadTo to;
    Bytes out(PARLEY_IB_MAD_LEN);
    while (agent.poll_transmit(to, out)) last_tid = CmMessage::parse(out)->transaction_id;
    gone_id = own_id();
  }

  Agent agent;
  ConnectionId id = 0;
  Instant now = t0 + 1s;
  std::uint32_t gone_id = 0;
  std::uint64_t last_tid = 0;
};

CmReq req() {
  CmReq m{.local_comm_id = peer_id,
          .service_id = service,
          .local_ca_guid = guid(2),
          .local_qpn = peer_qpn,
          .starting_psn = 9,
          .local_cm_response_timeout = 20,
          .path_mtu = 3,
          .max_cm_retries = 1};
  m.primary = Path::roce(gid(2), gid(1)).primary;
  return m;
}
CmRep rep(const Bench& b) {
  return {.local_comm_id = peer_id, .remote_comm_id = b.own_id(), .local_qpn = peer_qpn, .local_ca_guid = guid(2)};
}
CmRej rej(const Bench& b, CmSubject about, CmReject reason) {
  CmRej m{.local_comm_id = peer_id, .remote_comm_id = b.own_id(), .about = about, .reason = reason};
  if (reason == CmReject::timeout) {
    m.info_length = 8;
    Writer(m.info).be64(guid(2));
  }
  return m;
}

struct Input {
  std::string name;
  std::function<std::string(Bench&)> apply;  // the refusal of a command
};

Input message(std::string name, std::function<CmBody(const Bench&)> make) {
  return {std::move(name), [make](Bench& b) { return b.say(make(b)), std::string(); }};
}
Input command(std::string name, std::function<Result<void>(Bench&)> call) {
  return {std::move(name), [call](Bench& b) {
            const auto r = call(b);
            return r ? std::string() : "refused: " + r.error().message();
          }};
}

std::vector<Input> messages() {
  return {
      message("REQ, as before", [](const Bench&) { return req(); }),
      message("REQ, other ID",
              [](const Bench&) {
                CmReq m = req();
                m.local_comm_id = 0x3333;
                return m;
              }),
      message("REP", [](const Bench& b) { return rep(b); }),
      message("REP, other ID",
              [](const Bench& b) {
                CmRep m = rep(b);
                m.local_comm_id = 0x3333;
                return m;
              }),
      message("RTU", [](const Bench& b) { return CmRtu{.local_comm_id = peer_id, .remote_comm_id = b.own_id()}; }),
      message("MRA of REQ",
              [](const Bench& b) {
                return CmMra{.local_comm_id = peer_id, .remote_comm_id = b.own_id(), .service_timeout = 20};
              }),
      message(
          "MRA of REP",
          [](const Bench& b) {
            return CmMra{
                .local_comm_id = peer_id, .remote_comm_id = b.own_id(), .about = CmSubject::rep, .service_timeout = 20};
          }),
      message("MRA of LAP",
              [](const Bench& b) {
                return CmMra{.local_comm_id = peer_id,
                             .remote_comm_id = b.own_id(),
                             .about = CmSubject::other,
                             .service_timeout = 20};
              }),
      message("REJ 28 of REQ", [](const Bench& b) { return rej(b, CmSubject::req, CmReject::consumer); }),
      message("REJ 10 of REQ", [](const Bench& b) { return rej(b, CmSubject::req, CmReject::stale_connection); }),
      message("REJ 28 of REP", [](const Bench& b) { return rej(b, CmSubject::rep, CmReject::consumer); }),
      message("REJ 28 of other", [](const Bench& b) { return rej(b, CmSubject::other, CmReject::consumer); }),
      message("REJ 4 with its GUID", [](const Bench& b) { return rej(b, CmSubject::req, CmReject::timeout); }),
      message("DREQ",
              [](const Bench& b) {
                const auto ids = b.agent.ids(b.id);
                return CmDreq{.local_comm_id = peer_id,
                              .remote_comm_id = b.own_id(),
                              .remote_qpn = ids ? ids->local_qpn : own_qpn};
              }),
      message("DREQ, other QPN",
              [](const Bench& b) {
                return CmDreq{.local_comm_id = peer_id, .remote_comm_id = b.own_id(), .remote_qpn = 0x999};
              }),
      message("DREP", [](const Bench& b) { return CmDrep{.local_comm_id = peer_id, .remote_comm_id = b.own_id()}; }),
      {"LAP",
       [](Bench& b) {
         b.say(CmLap{.local_comm_id = peer_id, .remote_comm_id = b.own_id(), .remote_qpn = own_qpn}, 0x1A9);
         return std::string();
       }},
      {"LAP, another",
       [](Bench& b) {
         b.say(CmLap{.local_comm_id = peer_id, .remote_comm_id = b.own_id(), .remote_qpn = own_qpn}, 0x1AA);
         return std::string();
       }},
      {"APR",
       [](Bench& b) {
         b.say(CmApr{.local_comm_id = peer_id, .remote_comm_id = b.own_id(), .status = ApStatus::accepted}, b.last_tid);
         return std::string();
       }},
      message("SIDR_REQ", [](const Bench&) { return CmSidrReq{.request_id = peer_id, .service_id = service}; }),
      message("SIDR_REP", [](const Bench& b) { return CmSidrRep{.request_id = b.own_id(), .qpn = peer_qpn}; })};
}

std::vector<Input> commands() {
  return {
      {"deadline",
       [](Bench& b) {
         if (b.agent.next_deadline() != never) b.now = b.agent.next_deadline();
         return b.agent.handle_deadline(b.now), std::string();
       }},
      {"all deadlines",
       [](Bench& b) {
         while (b.agent.next_deadline() != never) {
           b.now = b.agent.next_deadline();
           b.agent.handle_deadline(b.now);
         }
         return std::string();
       }},
      command("accept", [](Bench& b) { return b.agent.accept(b.now, b.id, {.qpn = own_qpn}); }),
      command("ready", [](Bench& b) { return b.agent.ready(b.now, b.id, {}); }),
      command("reject", [](Bench& b) { return b.agent.reject(b.now, b.id, {}); }),
      command("send_mra", [](Bench& b) { return b.agent.send_mra(b.now, b.id, 22); }),
      command("communication_established", [](Bench& b) { return b.agent.communication_established(b.now, b.id); }),
      command("disconnect", [](Bench& b) { return b.agent.disconnect(b.now, b.id); }),
      command("load_alternate", [](Bench& b) { return b.agent.load_alternate(b.now, b.id, {}); }),
      command("answer_alternate", [](Bench& b) { return b.agent.answer_alternate(b.now, b.id, {}); }),
      command("sidr_reply", [](Bench& b) { return b.agent.sidr_reply(b.now, b.id, {.qpn = own_qpn}); }),
      {"destroy", [](Bench& b) { return b.agent.destroy(b.now, b.id), std::string(); }},
  };
}

std::vector<Input> inputs() {
  std::vector<Input> all = messages();
  for (Input& input : commands()) all.push_back(std::move(input));
  return all;
}

/// Inputs by name that lead from a fresh Agent to a state; "connect" and "sidr_request" besides.
struct Origin {
  std::string name;
  std::vector<std::string> way;
};

std::vector<Origin> origins() {
  return {
      {"queued", {"window full", "connect"}},
      {"req_sent", {"connect"}},
      {"mra_req_rcvd", {"connect", "MRA of REQ"}},
      {"rep_rcvd", {"connect", "REP"}},
      {"mra_rep_sent", {"connect", "REP", "send_mra"}},
      {"established, active", {"connect", "REP", "ready"}},
      {"established, LAP sent", {"connect", "REP", "ready", "load_alternate"}},
      {"established, LAP sent, MRA received", {"connect", "REP", "ready", "load_alternate", "MRA of LAP"}},
      {"dreq_sent, active", {"connect", "REP", "ready", "disconnect"}},
      {"dreq_rcvd, active", {"connect", "REP", "ready", "DREQ"}},
      {"timewait, active", {"connect", "REP", "ready", "disconnect", "DREP"}},
      {"timewait, REQ rejected as stale", {"connect", "REJ 10 of REQ"}},
      {"closed, REQ rejected", {"connect", "REJ 28 of REQ"}},
      {"closed, REP rejected", {"connect", "REP", "reject"}},
      {"req_rcvd", {"REQ, as before"}},
      {"mra_req_sent", {"REQ, as before", "send_mra"}},
      {"rep_sent", {"REQ, as before", "accept"}},
      {"mra_rep_rcvd", {"REQ, as before", "accept", "MRA of REP"}},
      {"established, passive", {"REQ, as before", "accept", "RTU"}},
      {"established, LAP received", {"REQ, as before", "accept", "RTU", "LAP"}},
      {"established, LAP received, MRA sent", {"REQ, as before", "accept", "RTU", "LAP", "send_mra"}},
      {"established, LAP answered", {"REQ, as before", "accept", "RTU", "LAP", "answer_alternate"}},
      {"dreq_sent, passive", {"REQ, as before", "accept", "RTU", "disconnect"}},
      {"dreq_rcvd, passive", {"REQ, as before", "accept", "RTU", "DREQ"}},
      {"timewait, passive", {"REQ, as before", "accept", "RTU", "DREQ", "disconnect"}},
      {"closed, REQ taken back", {"REQ, as before", "REJ 4 with its GUID"}},
      {"closed, REQ rejected by us", {"REQ, as before", "reject"}},
      {"sidr_req_sent", {"sidr_request"}},
      {"sidr_req_rcvd", {"SIDR_REQ"}},
      {"closed, SIDR_REQ answered", {"SIDR_REQ", "sidr_reply"}},
  };
}

std::unique_ptr<Bench> reach(const Origin& origin) {
  auto bench = std::make_unique<Bench>();
  Bench& b = *bench;
  const auto all = inputs();
  for (const std::string& name : origin.way) {
    if (name == "window full") {
      EXPECT_TRUE(b.agent.connect(b.now, request(1, 2)));
    } else if (name == "connect") {
      b.id = *b.agent.connect(b.now, request(1, 2, own_qpn));
    } else if (name == "sidr_request") {
      b.id = *b.agent.sidr_request(b.now, {.service_id = service, .path = Path::roce(gid(1), gid(2))});
    } else {
      for (const Input& input : all) {
        if (input.name != name) continue;
        EXPECT_EQ(input.apply(b), "") << origin.name << ": " << name;
      }
    }
    b.learn();
  }
  return bench;
}

std::string sent_text(const CmMessage& m) {
  std::string out = fmt::format("send {}", to_string(m.type()));
  if (const auto* r = std::get_if<CmRej>(&m.body))
    out += fmt::format(" {} of {}", static_cast<unsigned>(r->reason),
                       r->about == CmSubject::other ? std::string_view("other") : to_string(r->about));
  if (const auto* r = std::get_if<CmMra>(&m.body))
    out += fmt::format(" {} of {}", r->service_timeout,
                       r->about == CmSubject::other ? std::string_view("LAP") : to_string(r->about));
  if (const auto* r = std::get_if<CmSidrRep>(&m.body)) out += fmt::format(" {}", static_cast<unsigned>(r->status));
  if (const auto* r = std::get_if<CmApr>(&m.body)) out += fmt::format(" {}", static_cast<unsigned>(r->status));
  return out;
}

struct EventText {
  std::string failed(std::string_view name, const Failure& why, bool timewait = false) const {
    return fmt::format("{}{}{}", name, why.code ? ": " + why.code.message() : std::string(),
                       timewait ? ", TimewaitExit follows" : "");
  }
  std::string operator()(const RequestReceived&) const { return "RequestReceived"; }
  std::string operator()(const ReplyReceived&) const { return "ReplyReceived"; }
  std::string operator()(const Ready& e) const { return e.by_data ? "Ready by data" : "Ready"; }
  std::string operator()(const Rejected& e) const { return failed("Rejected", e.why, e.timewait); }
  std::string operator()(const Failed& e) const { return failed("Failed", e.why, e.timewait); }
  std::string operator()(const DisconnectRequested&) const { return "DisconnectRequested"; }
  std::string operator()(const Disconnected& e) const {
    return failed(e.graceful ? "Disconnected, graceful" : "Disconnected", e.why);
  }
  std::string operator()(const TimewaitExit&) const { return "TimewaitExit"; }
  std::string operator()(const Waiting&) const { return "Waiting"; }
  std::string operator()(const AlternateRequested&) const { return "AlternateRequested"; }
  std::string operator()(const AlternateAnswered& e) const { return failed("AlternateAnswered", e.why); }
  std::string operator()(const SidrRequested&) const { return "SidrRequested"; }
  std::string operator()(const SidrReplied& e) const { return failed("SidrReplied", e.why); }
  std::string operator()(const TurnedAway&) const { return "TurnedAway"; }
};

std::string state_text(const Bench& b) {
  const auto state = b.agent.state(b.id);
  if (!state) return "gone";
  std::string out(to_string(*state));
  if (const auto lap = b.agent.alternate_state(b.id); *lap != AlternateState::idle)
    out += "/" + std::string(to_string(*lap));
  return out;
}

std::string outcome(Bench& b, const Input& input) {
  const std::string before = state_text(b);
  const Instant deadline = b.agent.next_deadline();
  std::string line;
  const auto add = [&line](const std::string& text) {
    if (!text.empty()) line += (line.empty() ? "" : "; ") + text;
  };
  add(input.apply(b));
  MadTo to;
  Bytes out(PARLEY_IB_MAD_LEN);
  while (b.agent.poll_transmit(to, out)) add(sent_text(*CmMessage::parse(out)));
  while (const auto event = b.agent.poll_event()) add(std::visit(EventText{}, *event));
  if (const Instant now = b.agent.next_deadline(); now != deadline)
    add(now == never ? std::string("no deadline") : "deadline in " + brief_duration_text(now - b.now));
  const std::string after = state_text(b);
  return pad(before == after ? "" : "-> " + after, 29) + line;
}

std::string table() {
  std::string out =
      "# Every state of the InfiniBand CM with every input: next state; what comes out. \"-\" is nothing at all.\n"
      "# Max CM Retries is 1. \"all deadlines\": each as it comes, until there is none.\n"
      "# Written by the test IbcmStates with PARLEY_REWRITE=1; read every line that changes.\n";
  for (const Origin& origin : origins()) {
    out += "\n" + origin.name + "\n";
    for (const Input& input : inputs()) {
      std::string line = outcome(*reach(origin), input);
      while (!line.empty() && line.back() == ' ') line.pop_back();
      out += fmt::format("  {:<26} {}\n", input.name, line.empty() ? "-" : line);
    }
  }
  return out;
}

TEST(IbcmStates, EveryStateWithEveryInputIsAsReviewed) { expect_as_reviewed("ibcm.txt", table()); }

TEST(IbcmStates, EveryStateIsInTheTable) {
  std::set<std::string> met;
  for (const Origin& origin : origins()) {
    const std::string state(to_string(reach(origin)->agent.state(reach(origin)->id).value_or(State::closed)));
    EXPECT_EQ(origin.name.rfind(state, 0), 0U) << origin.name << " is in " << state;
    met.insert(state);
  }
#define PARLEY_X(name, text)        \
  EXPECT_TRUE(met.contains(#name)); \
  EXPECT_FALSE(text_of(State::name).empty());
  PARLEY_IBCM_STATES(PARLEY_X)
#undef PARLEY_X
}

}  // namespace
}  // namespace parley::cm::ibcm::states_test
