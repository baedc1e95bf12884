// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every phase of a connection in the RoCE provider against every input from the wire, the clock and the user, as a table that is
// reviewed in tests/states/cm_roce.txt. With PARLEY_REWRITE=1 in the environment the file is written anew.
#include <gtest/gtest.h>

#include <array>

#include "base/gid.hpp"
#include "cm/providers/roce/roce.hpp"
#include "tests/unit/reviewed.hpp"
#include "wire/ib/cm.hpp"
#include "wire/ib/cma.hpp"
#include "wire/ib/packet.hpp"

namespace parley::roce_states_test {
namespace {

using namespace std::chrono_literals;
using wire::ib::CmBody;

const Address here = Address::v4(192, 0, 2, 1, 0), peer = Address::v4(192, 0, 2, 2, 0);
constexpr std::uint32_t peer_id = 0x77, peer_qpn = 0x99;

/// A provider without a driver, one connection of it, and a peer that says what a case wants.
struct Case {
  Case() : provider(cm::make_roce_provider({.ca_guid = 1, .seed = 1})), cm(*provider) {}

  void turn() {
    provider->handle_deadline(now);
    drain();
  }
  void drain() {
    PacketCommand command;
    while (provider->poll_command(command)) {
      const bool bind = command.kind == PacketCommand::Kind::bind;
      commands += (commands.empty() ? "" : " ") + std::string(bind ? "bind" : "release");
      if (bind) bind_id = command.id;
    }
    std::array<std::uint8_t, PacketMachine::packet_max + 4> out;
    PacketPath path;
    while (const std::size_t size = provider->poll_packet(now, path, out)) note(ConstBytes(out).first(size));
  }
  void note(ConstBytes packet) {
    Bytes whole(packet.begin(), packet.end());
    whole.resize(packet.size() + 4);
    const auto parsed = wire::ib::Packet::parse(whole);
    std::string name = wire::ib::opcode_text(parsed->bth.opcode);
    if (const auto message = wire::ib::CmMessage::parse(parsed->payload)) {
      name = wire::ib::to_string(message->type());
      std::visit(
          [&](const auto& body) {
            if constexpr (requires { body.local_comm_id; })
              if (body.local_comm_id != 0) own_id = body.local_comm_id;
            if constexpr (requires { body.request_id; })
              if (initiator) own_id = body.request_id;
            if constexpr (requires { body.local_qpn; }) own_qpn = body.local_qpn;
            if constexpr (requires { body.starting_psn; }) own_psn = body.starting_psn;
          },
          message->body);
    }
    sent += (sent.empty() ? "" : " ") + name;
  }
  void connect() {
    id = *cm.connect(Address::v4(192, 0, 2, 2, 7174),
                     {.transport = ib::Options{.qp_type = type}, .retry = {.rounds = rounds, .first = 1s}});
    initiator = true;
  }
  void bound() {
    provider->handle_bound(now, bind_id, here);
    drain();
  }
  void requesting() {
    connect();
    turn();
    bound();
  }
  void deciding() {
    (void)*cm.listen(Address::v4(192, 0, 2, 1, 7174), {.transport = ib::Options{.qp_type = type}});
    turn();
    bound();
    hear(type == QpType::ud ? service_request() : request());
    while (auto e = cm.poll_event())
      if (auto* asked = std::get_if<cm::ConnectRequest>(&*e)) id = asked->id;
  }
  void accepting() {  // UD: open
    deciding();
    EXPECT_TRUE(id.accept());
    turn();
  }
  void open() {
    accepting();
    hear(wire::ib::CmRtu{.local_comm_id = peer_id, .remote_comm_id = own_id});
  }
  static CmBody request() {
    wire::ib::CmReq req;
    req.local_comm_id = peer_id;
    req.service_id = wire::ib::service_id_of(wire::ib::PortSpace::tcp, 7174);
    req.local_ca_guid = 2;
    req.local_qpn = peer_qpn;
    req.responder_resources = req.initiator_depth = 4;
    req.remote_cm_response_timeout = req.local_cm_response_timeout = 20;
    req.starting_psn = 0x1000;
    req.retry_count = req.rnr_retry_count = 7;
    req.path_mtu = 3;
    req.max_cm_retries = 15;
    req.primary.local_lid = req.primary.remote_lid = 0xFFFF;
    req.primary.local_gid = gid_of(peer);
    req.primary.remote_gid = gid_of(here);
    req.primary.local_ack_timeout = 16;
    Bytes header(PARLEY_CMA_HEADER_LEN);
    Address from = peer;
    from.port = 40000;
    wire::ib::CmaHeader{.source = from, .destination = here}.emit(header);
    std::copy(header.begin(), header.end(), req.private_data.begin());
    return req;
  }
  static CmBody service_request() {
    wire::ib::CmSidrReq req;
    req.request_id = peer_id;
    req.service_id = wire::ib::service_id_of(wire::ib::PortSpace::udp, 7174);
    Address from = peer;
    from.port = 40000;
    wire::ib::CmaHeader{.source = from, .destination = here}.emit(req.private_data);
    return req;
  }
  CmBody service_reply(wire::ib::SidrStatus status) const {
    wire::ib::CmSidrRep rep;
    rep.request_id = own_id;
    rep.status = status;
    rep.qpn = peer_qpn;
    rep.q_key = 0x01234567;
    return rep;
  }
  CmBody reply() const {
    wire::ib::CmRep rep;
    rep.local_comm_id = peer_id;
    rep.remote_comm_id = own_id;
    rep.local_qpn = peer_qpn;
    rep.starting_psn = 0x1000;
    rep.responder_resources = rep.initiator_depth = 4;
    rep.rnr_retry_count = 7;
    rep.local_ca_guid = 2;
    return rep;
  }
  CmBody rejection(wire::ib::CmReject reason) const {
    return wire::ib::CmRej{.local_comm_id = initiator ? 0 : peer_id,
                           .remote_comm_id = own_id,
                           .about = initiator ? wire::ib::CmSubject::req : wire::ib::CmSubject::rep,
                           .reason = reason};
  }
  void hear(const CmBody& body) {
    Bytes mad(PARLEY_IB_MAD_LEN);
    wire::ib::CmMessage{.transaction_id = 5, .body = body}.emit(mad);
    wire::ib::Packet packet;
    packet.bth.opcode = wire::ib::opcode_of(wire::ib::Service::ud, wire::ib::Operation::send_only);
    packet.bth.dest_qpn = PARLEY_IB_GSI_QPN;
    packet.deth = {.q_key = PARLEY_IB_GSI_Q_KEY, .source_qpn = PARLEY_IB_GSI_QPN};
    packet.payload = mad;
    hear(packet);
  }
  void hear_data() {
    wire::ib::Packet packet;
    packet.bth.opcode = wire::ib::opcode_of(wire::ib::Service::rc, wire::ib::Operation::write_only);
    packet.bth.dest_qpn = own_qpn;
    packet.bth.psn = own_psn;
    packet.bth.ack_req = true;
    hear(packet);
  }
  void hear(const wire::ib::Packet& packet) {
    Bytes octets(packet.size());
    packet.emit(octets);
    provider->handle_packet(now, {.local = here, .peer = peer}, octets);
    drain();
  }
  void note(const Result<void>& outcome) { result = outcome ? "ok" : "refused"; }

  QpType type = QpType::rc;
  std::uint32_t rounds = 1;
  Instant now{1s};
  BindId bind_id = 0;
  std::unique_ptr<cm::RoceProvider> provider;
  cm::Manager cm;
  cm::Id id;
  bool initiator = false;
  std::uint32_t own_id = 0, own_qpn = 0, own_psn = 0;
  std::string commands, sent, result = "-";
};

struct Phase {
  const char* name;
  void (*enter)(Case&);
};
const Phase phases[] = {
    {"noted", [](Case& c) { c.connect(); }},
    {"binding", [](Case& c) { c.connect(), c.turn(); }},
    {"requesting", [](Case& c) { c.requesting(); }},
    {"waiting",
     [](Case& c) {
       c.rounds = 2;
       c.requesting();
       c.hear(c.rejection(wire::ib::CmReject::invalid_service_id));
     }},
    {"open, initiator", [](Case& c) { c.requesting(), c.hear(c.reply()); }},
    {"deciding", [](Case& c) { c.deciding(); }},
    {"decided, accepted", [](Case& c) { c.deciding(), (void)c.id.accept(); }},
    {"decided, rejected", [](Case& c) { c.deciding(), (void)c.id.reject(); }},
    {"accepting", [](Case& c) { c.accepting(); }},
    {"open, responder", [](Case& c) { c.open(); }},
    {"closing", [](Case& c) { c.open(), (void)c.id.disconnect(), c.turn(); }},
    {"over",
     [](Case& c) {
       c.open(), c.hear(wire::ib::CmDreq{peer_id, c.own_id, c.own_qpn});
     }},
    {"UD: requesting", [](Case& c) { c.type = QpType::ud, c.requesting(); }},
    {"UD: open, init.",
     [](Case& c) {
       c.type = QpType::ud;
       c.requesting();
       c.hear(c.service_reply(wire::ib::SidrStatus::valid));
     }},
    {"UD: deciding", [](Case& c) { c.type = QpType::ud, c.deciding(); }},
    {"UD: decided, yes", [](Case& c) { c.type = QpType::ud, c.deciding(), (void)c.id.accept(); }},
    {"UD: decided, no", [](Case& c) { c.type = QpType::ud, c.deciding(), (void)c.id.reject(); }},
    {"UD: open, resp.", [](Case& c) { c.type = QpType::ud, c.accepting(); }},
    {"UD: over", [](Case& c) { c.type = QpType::ud, c.accepting(), (void)c.id.disconnect(), c.turn(); }},
};

struct Input {
  const char* name;
  void (*apply)(Case&);
};
const Input inputs[] = {
    {"bound", [](Case& c) { c.bound(); }},
    {"not bound", [](Case& c) { c.provider->handle_bind_failed(c.now, c.bind_id, Errc::address_in_use, here); }},
    {"unreachable",
     [](Case& c) {
       c.provider->handle_unreachable(c.now, {.local = here, .peer = peer},
                                      std::make_error_code(std::errc::connection_refused));
     }},
    {"REQ", [](Case& c) { c.hear(Case::request()); }},
    {"REP", [](Case& c) { c.hear(c.reply()); }},
    {"RTU",
     [](Case& c) {
       c.hear(wire::ib::CmRtu{peer_id, c.own_id});
     }},
    {"MRA",
     [](Case& c) {
       c.hear(wire::ib::CmMra{peer_id, c.own_id, {}, 20});
     }},
    {"REJ, program", [](Case& c) { c.hear(c.rejection(wire::ib::CmReject::consumer)); }},
    {"REJ, no service", [](Case& c) { c.hear(c.rejection(wire::ib::CmReject::invalid_service_id)); }},
    {"DREQ",
     [](Case& c) {
       c.hear(wire::ib::CmDreq{peer_id, c.own_id, c.own_qpn});
     }},
    {"DREP",
     [](Case& c) {
       c.hear(wire::ib::CmDrep{peer_id, c.own_id});
     }},
    {"SIDR_REQ", [](Case& c) { c.hear(Case::service_request()); }},
    {"SIDR_REP", [](Case& c) { c.hear(c.service_reply(wire::ib::SidrStatus::valid)); }},
    {"SIDR_REP, no", [](Case& c) { c.hear(c.service_reply(wire::ib::SidrStatus::rejected)); }},
    {"SIDR_REP, none", [](Case& c) { c.hear(c.service_reply(wire::ib::SidrStatus::unsupported_service_id)); }},
    {"SIDR_REP, full", [](Case& c) { c.hear(c.service_reply(wire::ib::SidrStatus::no_qp)); }},
    {"data", [](Case& c) { c.hear_data(); }},
    {"octets", [](Case& c) { c.provider->handle_packet(c.now, {.local = here, .peer = peer}, Bytes(40, 0x64)); }},
    {"driver's turn", [](Case& c) { c.turn(); }},
    {"deadline",
     [](Case& c) {
       if (const Instant at = c.provider->next_deadline(); at != never) c.now = std::max(c.now, at);
       c.turn();
     }},
    {"a minute", [](Case& c) { c.now += 60s, c.turn(); }},
    {"accept", [](Case& c) { c.note(c.id.accept()), c.turn(); }},
    {"reject", [](Case& c) { c.note(c.id.reject()), c.turn(); }},
    {"disconnect", [](Case& c) { c.note(c.id.disconnect()), c.turn(); }},
    {"destroy", [](Case& c) { c.id.destroy(), c.turn(); }},
};

std::string name_of(const cm::Event& event) {
  static constexpr std::array names{"listening", "connect_request", "established",  "rejected",        "failed",
                                    "retrying",  "disconnected",    "turned_away",  "address_changed", "device_removed",
                                    "user",      "resolved",        "timewait_exit"};
  std::string name = names[event.index()];
  if (const auto* failed = std::get_if<cm::ConnectFailed>(&event))
    name += "(" + std::string(failed->why.step.name) + ")";
  if (const auto* ended = std::get_if<cm::Disconnected>(&event)) name += ended->graceful ? "(graceful)" : "";
  return name;
}

/// One row: what the call returned, the events, the commands to the driver, what was sent, and whether a deadline runs.
std::string row(const Phase& phase, const Input& input) {
  Case c;
  phase.enter(c);
  while (c.cm.poll_event()) {
  }
  c.drain();
  c.commands.clear(), c.sent.clear();
  input.apply(c);
  c.drain();
  std::string told;
  while (auto event = c.cm.poll_event()) told += (told.empty() ? "" : " ") + name_of(*event);
  const auto or_none = [](const std::string& text) { return text.empty() ? std::string("-") : text; };
  return pad(phase.name, 19) + pad(input.name, 17) + pad(c.result, 9) + pad(or_none(told), 40) +
         pad(or_none(c.commands), 14) + pad(or_none(c.sent), 26) +
         (c.provider->next_deadline() == never ? "-" : "runs") + "\n";
}

TEST(CmRoceStates, TableIsAsReviewed) {
  std::string table = pad("phase", 19) + pad("input", 17) + pad("result", 9) + pad("told", 40) + pad("commands", 14) +
                      pad("sent", 26) + "deadline\n";
  for (const Phase& phase : phases)
    for (const Input& input : inputs) table += row(phase, input);
  expect_as_reviewed("cm_roce.txt", table);
}

}  // namespace
}  // namespace parley::roce_states_test
