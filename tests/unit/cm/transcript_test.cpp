// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a user of the connection manager sees, as transcripts that a reviewer reads: tests/scripts/cm/*.txt. A block is
// commands, "----", and what came of them; tests/scripts/README.md lists the commands. With PARLEY_REWRITE=1 in the
// environment the second halves are written anew.
#include <gtest/gtest.h>

#include <deque>

#include <fmt/format.h>

#include "base/text.hpp"
#include "parley/trace.hpp"
#include "parley/wire/mpa.h"
#include "tests/unit/cm/test_net.hpp"
#include "tests/unit/transcripts.hpp"
#include "wire/mpa.hpp"

namespace parley::transcript_test {
namespace {

using namespace testing_net;
using testing_net::Host;
using transcripts::Command;
using transcripts::parse_time;

/// Seconds with microseconds.
std::string time_text(Duration d) { return fmt::format("{}.{:06}", d / 1s, d % 1s / 1us); }

std::string private_data_of(ConstBytes data) {
  return data.empty() ? "" : " \"" + std::string(data.begin(), data.end()) + '"';
}

struct Script {
  Script() = default;
  ~Script() {
    for (auto& [name, id] : ids) id.destroy();
    for (auto& [name, id] : listeners) id.destroy();
  }
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  /// What a host's connections do: the lines of -vv.
  struct Told final : trace::Sink {
    Told(Script& to, std::string host_name) : script(to), host(std::move(host_name)) { up_to = trace::Level::trace; }
    void record(const trace::Record& record) override { script.say(host + " > " + trace::to_text(record)); }
    Script& script;
    std::string host;
  };
  void say(const std::string& line) { log += time_text(net.now - start) + "  " + line + '\n'; }
  void answer(const Result<void>& result) {
    if (!result) log += "refused: " + result.error().message() + '\n';
  }

  std::string id_name(const std::string& host, cm::Id id) {
    for (const auto& [name, known] : ids)
      if (known == id && name.substr(0, host.size()) == host) return name;
    const std::string name = host + std::to_string(++counts[host]);
    ids[name] = id;
    return name;
  }

  void tell(const std::string& host, const cm::Event& event) {
    const auto line = [&](const std::string& text) { say(host + " ! " + text); };
    const auto name = [&](cm::Id id) { return id_name(host, id); };
    if (const auto* e = std::get_if<cm::Listening>(&event)) line("listening on " + e->local.to_string());
    if (const auto* e = std::get_if<cm::ConnectRequest>(&event))
      line("connect_request " + name(e->id) + " from " + e->peer.to_string() + private_data_of(e->private_data));
    if (const auto* e = std::get_if<cm::Established>(&event))
      line("established " + name(e->id) + ": revision " + std::to_string(e->mpa()->revision) + ", RTR " +
           std::string(mpa::to_string(e->mpa()->rtr)) + ", IRD " + std::to_string(e->ird) + ", ORD " +
           std::to_string(e->ord) + private_data_of(e->private_data));
    if (const auto* e = std::get_if<cm::Rejected>(&event))
      line("rejected " + name(e->id) + private_data_of(e->private_data));
    if (const auto* e = std::get_if<cm::ConnectFailed>(&event)) {
      const bool listener = listeners.contains(host) && listeners.at(host) == e->id;
      const std::string tried =
          e->attempts > 1 ? fmt::format(" ({} attempts in {})", e->attempts, measured_duration_text(e->elapsed)) : "";
      line("connect_failed " + (listener ? "listener" : name(e->id)) + ": " + e->why.to_string() + tried);
    }
    if (const auto* e = std::get_if<cm::Retrying>(&event))
      line("retrying " + name(e->id) + " at " + e->peer.to_string() + (e->wait > Duration{} ? ", after a wait" : "") +
           ": " + e->why.to_string());
    if (const auto* e = std::get_if<cm::Disconnected>(&event))
      line("disconnected " + name(e->id) + (e->graceful ? ", gracefully" : ": " + e->why.to_string()));
    if (const auto* e = std::get_if<cm::TurnedAway>(&event))
      line("turned_away: " + std::to_string(e->gave_way) + " gave way, " + std::to_string(e->refused) +
           " refused: " + e->why.to_string());
  }

  /// Steps of virtual time, so that each event is told when it comes.
  void run(Duration limit) {
    const Instant end = net.now + limit;
    tell_all();
    while (net.now < end && net.run_until([this] { return told_ != any_events(); }, end - net.now)) tell_all();
    tell_all();
  }
  std::size_t any_events() const {
    std::size_t n = 0;
    for (const auto& [name, host] : hosts) n += host->events.size();
    return n;
  }
  void tell_all() {
    for (const auto& [name, host] : hosts)
      for (std::size_t& next = next_event[name]; next < host->events.size(); ++next) tell(name, host->events[next]);
    told_ = any_events();
  }

  Address address_of(const std::string& name) const {
    if (raws.contains(name)) return raws.at(name);
    if (!hosts.contains(name)) return Address::v4(192, 0, 2, 99, 7471);  // nobody there
    Address at = hosts.at(name)->ip;
    at.port = 7471;
    return at;
  }
  mpa::Options mpa_options(const Command& c) const {
    mpa::Options o;
    o.revision = static_cast<std::uint8_t>(c.number("rev", 2));
    if (c.has("rtr")) o.rtr = *mpa::parse_rtr(c.text("rtr"));
    if (c.has("reply_timeout")) o.timeouts.reply = parse_time(c.text("reply_timeout"));
    if (c.has("quirk")) o.play_quirk = c.text("quirk");
    return o;
  }
  Bytes data(const Command& c) const {
    const std::string text = c.text("pd");
    return {text.begin(), text.end()};
  }

  void listen(const std::string& name, const Command& c) {
    auto id =
        hosts.at(name)->cm.listen(Address::any(Address::Family::v4, static_cast<std::uint16_t>(c.number("port", 7471))),
                                  {.transport = mpa_options(c),
                                   .ird = static_cast<std::uint16_t>(c.number("ird", 32)),
                                   .ord = static_cast<std::uint16_t>(c.number("ord", 32)),
                                   .pending_max = c.number("pending_max", 1024)});
    if (id) listeners[name] = *id;
    answer(id ? Result<void>() : tl::unexpected(id.error()));
  }
  void connect(const std::string& name, const Command& c) {
    const Bytes private_data = data(c);
    cm::ConnectOptions options{.transport = mpa_options(c),
                               .ird = static_cast<std::uint16_t>(c.number("ird", 32)),
                               .ord = static_cast<std::uint16_t>(c.number("ord", 32)),
                               .private_data = private_data,
                               .retry = {.rounds = c.number("rounds", 1)}};
    if (c.has("backup")) options.backups = {address_of(c.text("backup"))};
    if (c.has("timeout")) options.timeout = parse_time(c.text("timeout"));
    if (c.has("transport_timeout")) options.transport_timeout = parse_time(c.text("transport_timeout"));
    auto id = hosts.at(name)->cm.connect(address_of(c.word(2)), options);
    if (id) (void)id_name(name, *id);
    answer(id ? Result<void>() : tl::unexpected(id.error()));
  }

  void raw(const Command& c) {
    End& end = *net.raw_accepted.at(c.number("connection", static_cast<std::uint32_t>(net.raw_accepted.size())) - 1);
    const std::string what = c.word(1);
    const auto flags = static_cast<std::uint8_t>(PARLEY_MPA_FLAG_C | (c.has("s") ? PARLEY_MPA_FLAG_S : 0));
    if (what == "fin") end.fin();
    if (what == "rst") end.rst();
    if (what == "reply")
      end.send(*wire::MpaFrame{
          .key = wire::MpaKey::rep, .flags = flags, .revision = static_cast<std::uint8_t>(c.number("rev", 1))}
                    .emit());
    if (what == "octets") end.send(Bytes(c.number("n", 20), 'x'));
  }

  void command(const std::string& line) {
    const Command c(line);
    const std::string name = c.word(0), verb = c.word(1);
    if (name == "host") {
      hosts[verb] = &net.add_host(static_cast<std::uint8_t>(++last), {.trace = &sinks.emplace_back(*this, verb)},
                                  {.endpoints_max = c.number("endpoints_max", 0)});
    } else if (name == "raw") {
      raws[verb] = net.add_raw(static_cast<std::uint8_t>(++last));
    } else if (name == "hole") {
      raws[verb] = Address::v4(192, 0, 2, static_cast<std::uint8_t>(++last), 7471);
      net.black_hole(raws[verb]);
    } else if (name == "half_open") {
      for (std::uint32_t i = 0, n = c.number("n", 1); i < n; ++i)
        (void)net.raw_connect(address_of(verb), Address::v4(198, 51, 100, static_cast<std::uint8_t>(++strangers), 0));
    } else if (name == "run") {
      run(verb.empty() ? 1ms : parse_time(verb));
    } else if (raws.contains(name)) {
      raw(c);
    } else if (!hosts.contains(name)) {
      log += "there is no '" + name + "'\n";
    } else if (verb == "listen") {
      listen(name, c);
    } else if (verb == "connect") {
      connect(name, c);
    } else if (!ids.contains(c.word(2))) {
      log += "there is no id '" + c.word(2) + "'\n";
    } else if (verb == "accept") {
      const Bytes private_data = data(c);
      cm::AcceptOptions options{.private_data = private_data};
      if (c.has("ird")) options.ird = static_cast<std::uint16_t>(c.number("ird", 0));
      if (c.has("ord")) options.ord = static_cast<std::uint16_t>(c.number("ord", 0));
      answer(ids[c.word(2)].accept(options));
    } else if (verb == "reject") {
      answer(ids[c.word(2)].reject(data(c)));
    } else if (verb == "disconnect") {
      answer(ids[c.word(2)].disconnect());
    } else if (verb == "destroy") {
      ids[c.word(2)].destroy();
    } else {
      log += "there is no command '" + verb + "'\n";
    }
  }

  const Instant start{1s};
  std::string log;
  std::deque<Told> sinks;
  Net net;  // its hosts record to the end
  std::map<std::string, Host*> hosts;
  std::map<std::string, Address> raws;
  std::map<std::string, cm::Id> ids, listeners;
  std::map<std::string, int> counts;
  std::map<std::string, std::size_t> next_event;
  std::size_t told_ = 0;
  int last = 0, strangers = 0;
};

TEST(CmTranscripts, AreAsReviewed) { EXPECT_GE(transcripts::compare<Script>("tests/scripts/cm"), 7U); }

}  // namespace
}  // namespace parley::transcript_test
