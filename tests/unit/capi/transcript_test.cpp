// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a C program sees, as transcripts that a reviewer reads: tests/scripts/capi/*.txt, over a simulated network.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <regex>
#include <string>

#include "parley/parley.h"
#include "tests/unit/transcripts.hpp"

namespace parley::transcript_test {
namespace {

using transcripts::Command;
using transcripts::parse_time;

constexpr const char* stages[] = {"resolve", "route", "transport", "request", "decision",
                                  "reply",   "ready", "data",      "closing"};
constexpr const char* rtrs[] = {"open", "none", "frame", "send", "write", "read"};
constexpr const char* states[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

/// One context with what it has made.
struct Side {
  parley_ctx* ctx = nullptr;
  std::map<std::string, parley_id> ids;
  std::vector<char> memory = std::vector<char>(256);
  parley_mr mr = PARLEY_MR_INIT;
  parley_srq srq = 0;
  parley_cq cq = 0;
  int count = 0;
};

struct Script {
  Script() = default;
  ~Script() {
    for (auto& [name, side] : sides) parley_close(side.ctx);
    parley_world_close(world);
  }
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  void say(const std::string& line) { log += line + '\n'; }
  /// Results below 0 in words; others as they are, if they say anything.
  int answer(int rc) {
    // A number that a context gave out also tells which of the process's contexts it was.
    static const std::regex number(R"((completion queue|lkey) \d+)");
    if (rc < 0)
      say(fmt::format("= {}: {}; {}", rc, parley_strerror(rc),
                      std::regex_replace(parley_last_error(), number, "$1 N")));
    if (rc > 0) say(fmt::format("= {}", rc));
    return rc;
  }

  void open(const Command& c) {
    if (world == nullptr) {
      parley_world_opts o = PARLEY_WORLD_OPTS_INIT;
      o.loss_ppm = c.number("loss_ppm", 0);
      answer(parley_world_open(&world, &o));
    }
    const std::string host = c.word(1), provider = c.has("provider") ? c.text("provider") : "sim";
    parley_opts o = PARLEY_OPTS_INIT;
    o.provider = provider.c_str();
    o.host = host.c_str();
    o.world = c.has("world") ? nullptr : world;
    o.ids_max = c.number("ids_max", 0);
    Side side;
    if (answer(parley_open(&side.ctx, &o)) < 0) return;
    parley_reg_mr(side.ctx, side.memory.data(), side.memory.size(),
                  PARLEY_ACCESS_LOCAL_WRITE | PARLEY_ACCESS_REMOTE_READ | PARLEY_ACCESS_REMOTE_WRITE, &side.mr);
    sides.emplace(host, std::move(side));
  }

  std::string address(const std::string& name, std::uint32_t port) {
    if (!sides.contains(name)) return name;
    char text[PARLEY_ADDRSTRLEN];
    parley_host_address(sides.at(name).ctx, 4, text);
    const std::string all = text;
    return all.substr(0, all.find(':')) + ':' + std::to_string(port);
  }

  std::string name_of(Side& side, const std::string& host, parley_id id) {
    for (const auto& [name, known] : side.ids)
      if (known == id) return name;
    const std::string name = host + std::to_string(++side.count);
    side.ids[name] = id;
    return name;
  }

  static std::string terms(const parley_event& e) {
    return fmt::format(", IRD {}, ORD {}, MPA revision {}, RTR {}, CRC {}", e.ird, e.ord, e.mpa_revision,
                       rtrs[e.mpa_rtr], e.mpa_crc ? "on" : "off");
  }
  void tell(Side& side, const std::string& host, const parley_event& e) {
    std::string line = fmt::format("{} {} {}", host, parley_event_name(e.type), name_of(side, host, e.id));
    if (e.listener != 0) line += " of " + name_of(side, host, e.listener);
    if (e.local[0] != '\0') line += fmt::format(" at {}", e.local);
    if (e.peer[0] != '\0') line += fmt::format(" peer {}", e.peer);
    if (e.private_data_len != 0)
      line += fmt::format(" \"{}\"", std::string_view(static_cast<const char*>(e.private_data), e.private_data_len));
    if (e.mpa_revision != 0) line += terms(e);
    if (e.user != nullptr) line += fmt::format(", user \"{}\"", static_cast<const char*>(e.user));
    if (e.turned_away != 0) line += fmt::format(", {} turned away", e.turned_away);
    if (e.wait_ns != 0) line += ", after a wait";
    say(line);
    if (e.status != 0)
      say(fmt::format("    status \"{}\", stage {}: {}", parley_strerror(e.status), stages[e.stage], e.reason));
    if (*e.rule != '\0' || *e.received != '\0')
      say(fmt::format("    rule \"{}\", received \"{}\", advice \"{}\"", e.rule, e.received, e.advice));
  }
  void tell_all() {
    for (auto& [host, side] : sides) {
      parley_event e = PARLEY_EVENT_INIT;
      while (parley_next_event(side.ctx, &e) == 1) tell(side, host, e);
    }
  }
  void run(Duration limit) {
    const std::uint64_t end = parley_now_ns(sides.begin()->second.ctx) + static_cast<std::uint64_t>(limit.count());
    tell_all();
    while (parley_now_ns(sides.begin()->second.ctx) < end) {
      for (auto& [host, side] : sides) parley_progress(side.ctx);
      tell_all();
    }
  }

  void connect(Side& side, const std::string& host, const Command& c) {
    const std::string pd = c.text("pd"), user = c.text("user");
    parley_connect_opts o = PARLEY_CONNECT_OPTS_INIT;
    if (c.has("size")) o.size = c.number("size", 0);
    o.private_data = pd.data();
    o.private_data_len = c.number("pd_len", static_cast<std::uint32_t>(pd.size()));
    o.ird = static_cast<std::uint16_t>(c.number("ird", 0));
    o.ord = static_cast<std::uint16_t>(c.number("ord", 0));
    o.mpa_revision = static_cast<std::uint8_t>(c.number("rev", 0));
    o.mpa_rtr = static_cast<std::uint8_t>(c.number("rtr", 0));
    o.retry_rounds = c.number("rounds", 0);
    o.timeout_ms = c.number("timeout_ms", 0);
    const std::string backup = address(c.text("backup"), 7471);
    const char* const backups[] = {backup.c_str()};
    o.backups = backups;
    o.backup_count = c.has("backup") ? c.number("backups", 1) : 0;
    o.user =
        c.has("user") ? const_cast<char*>(users.emplace_back(std::make_unique<std::string>(user))->c_str()) : nullptr;
    parley_qp_init qp = PARLEY_QP_INIT;
    qp.srq = c.has("srq") ? side.srq : 0;
    qp.recv_cq = c.has("cq") ? side.cq : 0;
    o.qp = &qp;
    parley_id id = 0;
    if (answer(parley_connect(side.ctx, address(c.word(2), c.number("port", 7471)).c_str(), &o, &id)) == 0)
      say("= " + name_of(side, host, id));
  }

  static parley_sge piece(const Side& side, const Command& c) {
    return {side.mr.addr + c.number("at", 0), c.number("len", 8), side.mr.lkey + c.number("lkey", 0)};
  }
  void post(Side& side, parley_id id, const Command& c) {
    const std::string verb = c.word(1), text = c.text("text");
    std::copy(text.begin(), text.end(), side.memory.begin() + c.number("at", 0));
    std::array<parley_sge, 8> sges;  // scripts say num_sge=5
    sges.fill(piece(side, c));
    if (c.has("text")) sges[0].length = static_cast<std::uint32_t>(text.size());
    if (verb == "recv" || verb == "srq_recv") {
      parley_recv_wr wr = PARLEY_RECV_WR_INIT;
      if (c.has("size")) wr.size = c.number("size", 0);
      wr.wr_id = c.number("wr", 0);
      wr.sges = sges.data();
      wr.num_sge = c.number("num_sge", 1);
      answer(verb == "recv" ? parley_post_recv(side.ctx, id, &wr) : parley_post_srq_recv(side.ctx, side.srq, &wr));
      return;
    }
    const std::map<std::string, std::uint32_t> opcodes{{"send", PARLEY_SEND},
                                                       {"write", PARLEY_RDMA_WRITE},
                                                       {"read", PARLEY_RDMA_READ},
                                                       {"send_imm", PARLEY_SEND_WITH_IMM},
                                                       {"nonsense", 77}};
    parley_send_wr wr = PARLEY_SEND_WR_INIT;
    if (c.has("size")) wr.size = c.number("size", 0);
    wr.wr_id = c.number("wr", 0);
    wr.opcode = opcodes.at(verb);
    wr.flags = c.number("flags", 0);
    wr.sges = sges.data();
    wr.num_sge = c.number("num_sge", 1);
    if (c.has("to")) {
      wr.remote_addr = sides.at(c.text("to")).mr.addr + c.number("there", 0);
      wr.rkey = sides.at(c.text("to")).mr.rkey + c.number("rkey", 0);
    }
    answer(parley_post_send(side.ctx, id, &wr));
  }
  void poll(Side& side, const std::string& host, const Command& c) {
    parley_wc done[8];
    const int n = answer(parley_poll_cq(side.ctx, c.has("cq") ? side.cq : 0, done, 8, sizeof done[0]));
    for (int i = 0; i < n; ++i) {
      const parley_wc& wc = done[i];
      const bool got = wc.opcode == PARLEY_WC_RECV && wc.status == 0;
      say(fmt::format("{} wr {}: {}, opcode {}{}", host, wc.wr_id, parley_wc_status_str(wc.status), wc.opcode,
                      got ? fmt::format(", {} octets", wc.byte_len) : ""));
    }
  }

  void command(const std::string& line) {
    const Command c(line);
    const std::string host = c.word(0), verb = c.word(1);
    if (host == "open") return open(c);
    if (host == "run") return run(verb.empty() ? Duration(std::chrono::milliseconds(1)) : parse_time(verb));
    if (!sides.contains(host)) return say("there is no '" + host + "'");
    Side& side = sides.at(host);
    const parley_id id = side.ids.contains(c.word(2)) ? side.ids.at(c.word(2)) : c.number("id", 0);
    side_command(side, host, verb, id, c);
  }
  void side_command(Side& side, const std::string& host, const std::string& verb, parley_id id, const Command& c) {
    const std::string pd = c.text("pd");
    if (verb == "listen") {
      parley_listen_opts o = PARLEY_LISTEN_OPTS_INIT;
      o.pending_max = c.number("pending_max", 0);
      parley_id made = 0;
      const std::string at = c.has("at") ? c.text("at") : "0.0.0.0:" + std::to_string(c.number("port", 7471));
      if (answer(parley_listen(side.ctx, at.c_str(), &o, &made)) == 0) say("= " + name_of(side, host, made));
    } else if (verb == "connect") {
      connect(side, host, c);
    } else if (verb == "accept") {
      parley_accept_opts o = PARLEY_ACCEPT_OPTS_INIT;
      o.private_data = pd.data();
      o.private_data_len = static_cast<std::uint32_t>(pd.size());
      o.ord = static_cast<std::uint16_t>(c.number("ord", 0));
      answer(parley_accept(side.ctx, id, &o));
    } else if (verb == "reject") {
      answer(parley_reject(side.ctx, id, pd.data(), static_cast<std::uint32_t>(pd.size())));
    } else if (verb == "disconnect") {
      answer(parley_disconnect(side.ctx, id));
    } else if (verb == "destroy") {
      answer(parley_destroy(side.ctx, id));
    } else if (verb == "create_qp") {
      answer(parley_create_qp(side.ctx, id, nullptr));
    } else if (verb == "create_cq") {
      answer(parley_create_cq(side.ctx, c.number("capacity", 16), &side.cq));
    } else if (verb == "destroy_cq") {
      answer(parley_destroy_cq(side.ctx, side.cq));
    } else if (verb == "create_srq") {
      answer(parley_create_srq(side.ctx, c.number("capacity", 16), &side.srq));
    } else if (verb == "destroy_srq") {
      answer(parley_destroy_srq(side.ctx, side.srq));
    } else if (verb == "dereg_mr") {
      answer(parley_dereg_mr(side.ctx, side.mr.lkey));
    } else if (verb == "query") {
      parley_id_attr attr = PARLEY_ID_ATTR_INIT;
      if (answer(parley_query_id(side.ctx, id, &attr)) == 0)
        say(fmt::format("= local {} peer {} {}", attr.local, attr.peer, attr.has_qp ? states[attr.qp_state] : "no QP"));
    } else if (verb == "poll") {
      poll(side, host, c);
    } else if (verb == "memory") {
      say(fmt::format("= \"{}\"", std::string_view(side.memory.data() + c.number("at", 0), c.number("len", 8))));
    } else {
      post(side, id, c);
    }
  }

  parley_world* world = nullptr;
  std::map<std::string, Side> sides;
  std::vector<std::unique_ptr<std::string>> users;
  std::string log;
};

TEST(CTranscripts, AreAsReviewed) { EXPECT_GE(transcripts::compare<Script>("tests/scripts/capi"), 5U); }

}  // namespace
}  // namespace parley::transcript_test
