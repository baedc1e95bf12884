// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every phase of a connection in the iWARP provider against every input from the stream, the clock and the user, as a
// table that is reviewed in tests/states/cm_iwarp.txt. With PARLEY_REWRITE=1 in the environment the file is written anew.
#include <gtest/gtest.h>

#include <array>

#include "cm/providers/iwarp/iwarp.hpp"
#include "mpa/framer.hpp"
#include "parley/wire/mpa.h"
#include "tests/unit/reviewed.hpp"
#include "wire/mpa.hpp"

namespace parley {
namespace {

using namespace std::chrono_literals;

Bytes startup(wire::MpaKey key, std::uint8_t flags = PARLEY_MPA_FLAG_C, std::uint8_t revision = 1) {
  return *wire::MpaFrame{.key = key, .flags = flags, .revision = revision}.emit();
}

/// A provider without a driver, and one connection of it.
struct Case {
  Case() : provider(cm::make_iwarp_provider({.echo_watch = 20ms})), cm(*provider) {}

  void turn() { provider->handle_deadline(now); }
  void connect(const mpa::Options& mpa = {.revision = 1, .fall_back_to_v1 = false}) {
    id = *cm.connect(Address::v4(192, 0, 2, 2, 7471), {.transport = mpa, .retry = {.rounds = rounds, .first = 1s}});
    initiator = true;
  }
  void opened() {
    turn();
    take_commands();
  }
  void connected() {
    provider->handle_connected(now, stream, {.local = Address::v4(192, 0, 2, 1, 40000), .peer = {}});
    write();
  }
  void requested() {
    (void)*cm.listen(Address::v4(192, 0, 2, 1, 7471));
    opened();
    const StreamId listener = std::exchange(stream, 2);
    provider->handle_listening(now, listener, Address::v4(192, 0, 2, 1, 7471));
    EXPECT_TRUE(provider->handle_accepted(
        now, listener, stream, {.local = Address::v4(192, 0, 2, 1, 7471), .peer = Address::v4(192, 0, 2, 2, 50000)}));
  }
  void deciding() {
    requested();
    feed(startup(wire::MpaKey::req));
    while (auto e = cm.poll_event())
      if (auto* request = std::get_if<cm::ConnectRequest>(&*e)) id = request->id;
  }
  void accepted() {
    deciding();
    EXPECT_TRUE(id.accept());
    turn();
    write();
  }
  void open() {
    accepted();
    feed(write_fpdu());
  }
  void feed(const Bytes& octets) { provider->handle_bytes(now, stream, octets); }
  Bytes write_fpdu() {  // a zero-length RDMA Write
    const Bytes ulpdu{0xC1, 0x40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0};
    Bytes out(framer.wire_size(ulpdu.size()));
    framer.frame(ulpdu, {}, out);
    return out;
  }

  void take_commands() {
    static constexpr std::array names{"open", "listen", "shutdown", "finish", "close", "reset", "pause", "resume"};
    StreamCommand command;
    while (provider->poll_command(command)) {
      commands += (commands.empty() ? "" : " ") + std::string(names[static_cast<std::size_t>(command.kind)]);
      if (command.kind == StreamCommand::Kind::open || command.kind == StreamCommand::Kind::listen) stream = command.id;
    }
  }
  void write() {
    while (const StreamId ready = provider->poll_ready()) {
      std::array<ConstBytes, 8> pieces;
      std::size_t octets = 0;
      for (std::size_t i = 0, n = provider->gather(ready, pieces); i < n; ++i) {
        octets += pieces[i].size();
        sent += (sent.empty() ? "" : " ") + name_of(pieces[i]);
      }
      provider->sent(now, ready, octets);
    }
  }
  static std::string name_of(ConstBytes octets) {
    if (octets.size() < PARLEY_MPA_HEADER_LEN || octets[0] != 'M') return "FPDU";
    if (octets[9] == 'q') return "Request";
    return (octets[PARLEY_MPA_FLAGS_OFF] & PARLEY_MPA_FLAG_R) != 0 ? "rejection" : "Reply";
  }
  void note(const Result<void>& outcome) { result = outcome ? "ok" : "refused"; }

  std::uint32_t rounds = 1;
  Instant now{1s};
  StreamId stream = 0;
  std::unique_ptr<cm::IwarpProvider> provider;
  cm::Manager cm;
  mpa::Framer framer{{.crc = true, .markers = false, .emss = 1460}};
  cm::Id id;
  bool initiator = false;
  std::string commands, sent, result = "-";
};

/// Streams that lead nowhere.
struct Nowhere final : StreamMover {
  std::unique_ptr<LooseStream> detach(StreamId) override { return std::make_unique<LooseStream>(); }
  Result<StreamId> attach(std::unique_ptr<LooseStream>&) override { return fail(Errc::unsupported); }
};

struct Phase {
  const char* name;
  void (*enter)(Case&);
};
const Phase phases[] = {
    {"noted", [](Case& c) { c.connect(); }},
    {"opening", [](Case& c) { c.connect(), c.opened(); }},
    {"waiting",
     [](Case& c) {
       c.rounds = 2;
       c.connect(), c.opened();
       c.provider->handle_connect_failed(c.now, c.stream, make_error_code(Errc::refused));
     }},
    {"startup, initiator", [](Case& c) { c.connect(), c.opened(), c.connected(); }},
    {"holding",
     [](Case& c) {
       c.connect({.revision = 1, .rtr = mpa::Rtr::frame});
       c.opened(), c.connected();
       c.feed(startup(wire::MpaKey::rep, PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S));
     }},
    {"startup, responder", [](Case& c) { c.requested(); }},
    {"deciding", [](Case& c) { c.deciding(); }},
    {"decided, accepted", [](Case& c) { c.deciding(), (void)c.id.accept(); }},
    {"decided, rejected", [](Case& c) { c.deciding(), (void)c.id.reject(); }},
    {"startup, accepted", [](Case& c) { c.accepted(); }},
    {"open", [](Case& c) { c.open(); }},
    {"open, peer's FIN", [](Case& c) { c.open(), c.provider->handle_end(c.now, c.stream, StreamEnd::fin); }},
    {"closing", [](Case& c) { c.open(), (void)c.id.disconnect(), c.turn(); }},
    {"finishing",
     [](Case& c) {
       c.open(), (void)c.id.disconnect(), c.turn();
       c.provider->handle_end(c.now, c.stream, StreamEnd::fin);
     }},
    {"over", [](Case& c) { c.open(), c.provider->handle_end(c.now, c.stream, StreamEnd::rst); }},
};

struct Input {
  const char* name;
  void (*apply)(Case&);
};
const Input inputs[] = {
    {"connected", [](Case& c) { c.connected(); }},
    {"refused", [](Case& c) { c.provider->handle_connect_failed(c.now, c.stream, make_error_code(Errc::refused)); }},
    {"startup frame", [](Case& c) { c.feed(startup(c.initiator ? wire::MpaKey::rep : wire::MpaKey::req)); }},
    {"wrong octets", [](Case& c) { c.feed(Bytes(64, 'x')); }},
    {"FPDU", [](Case& c) { c.feed(c.write_fpdu()); }},
    {"FIN", [](Case& c) { c.provider->handle_end(c.now, c.stream, StreamEnd::fin); }},
    {"RST", [](Case& c) { c.provider->handle_end(c.now, c.stream, StreamEnd::rst); }},
    {"last ACK", [](Case& c) { c.provider->handle_end(c.now, c.stream, StreamEnd::delivered); }},
    {"driver's turn", [](Case& c) { c.turn(); }},
    {"deadline",
     [](Case& c) {
       if (const Instant at = c.provider->next_deadline(); at != never) c.now = std::max(c.now, at);
       c.turn();
     }},
    {"accept", [](Case& c) { c.note(c.id.accept()), c.turn(); }},
    {"reject", [](Case& c) { c.note(c.id.reject()), c.turn(); }},
    {"disconnect", [](Case& c) { c.note(c.id.disconnect()), c.turn(); }},
    {"detach",
     [](Case& c) {
       Nowhere mover;
       c.provider->set_mover(&mover);
       cm::ConnectRequest request;
       request.id = c.id;
       c.note(c.cm.detach(std::move(request)).map([](const cm::DetachedRequest&) {})), c.turn();
     }},
    {"destroy", [](Case& c) { c.id.destroy(), c.turn(); }},
};

std::string name_of(const cm::Event& event) {
  static constexpr std::array names{"listening", "connect_request", "established",  "rejected",
                                    "failed",    "retrying",        "disconnected", "turned_away"};
  std::string name = names[event.index()];
  if (const auto* failed = std::get_if<cm::ConnectFailed>(&event))
    name += "(" + std::string(failed->why.step.name) + ")";
  if (const auto* ended = std::get_if<cm::Disconnected>(&event)) name += ended->graceful ? "(graceful)" : "";
  return name;
}

/// One row: what the call returned, the events, the commands to the stream, what was sent, and whether a deadline runs.
std::string row(const Phase& phase, const Input& input) {
  Case c;
  phase.enter(c);
  while (c.cm.poll_event()) {
  }
  c.take_commands();
  c.write();
  c.commands.clear(), c.sent.clear();
  input.apply(c);
  c.write();
  c.take_commands();
  std::string told;
  while (auto event = c.cm.poll_event()) told += (told.empty() ? "" : " ") + name_of(*event);
  const auto or_none = [](const std::string& text) { return text.empty() ? std::string("-") : text; };
  return pad(phase.name, 20) + pad(input.name, 15) + pad(c.result, 9) + pad(or_none(told), 30) +
         pad(or_none(c.commands), 15) + pad(or_none(c.sent), 11) +
         (c.provider->next_deadline() == never ? "-" : "runs") + "\n";
}

TEST(CmIwarpStates, TableIsAsReviewed) {
  std::string table = pad("phase", 20) + pad("input", 15) + pad("result", 9) + pad("told", 30) + pad("commands", 15) +
                      pad("sent", 11) + "deadline\n";
  for (const Phase& phase : phases)
    for (const Input& input : inputs) table += row(phase, input);
  expect_as_reviewed("cm_iwarp.txt", table);
}

}  // namespace
}  // namespace parley
