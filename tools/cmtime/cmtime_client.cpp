// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The client of `parley cmtime`: sets up all connections, then disconnects all, then destroys all, as cmtime does.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "tools/cmtime/cmtime.hpp"
#include "tools/cmtime/step_table.hpp"
#include "tools/command.hpp"
#include "tools/report.hpp"

namespace parley::tools {

namespace {

class CmtimeClient {
 public:
  CmtimeClient(const CmtimeArgs& args, const Address& server, std::optional<Address> source, CmtimeHost& host,
               Context& context)
      : args_(args),
        server_(server),
        source_(source),
        host_(host),
        context_(context),
        count_(args.count == 0 ? count_default : args.count),
        at_once_(args.concurrency == 0 ? count_ : args.concurrency) {}

  int run();

 private:
  static constexpr std::uint32_t count_default = 100;
  struct Timed {
    cm::Id id;
    Instant begin{};      // of the set-up, later of the disconnect
    Instant created{};    // when resolve() returned
    Instant connected{};  // when connect() was called
    bool up = false;
  };

  bool nic() const { return args_.session.provider == "rdmacm"; }
  void start_more();
  void handle(const cm::Event& event);
  void on(const cm::Established& e);
  void end(cm::Id id);
  bool turn_until(std::uint32_t& counter, std::uint32_t goal, Instant deadline);
  void fault(Exit exit, std::string text) {
    if (!fault_) fault_ = {exit, std::move(text)};
  }
  int summary();

  const CmtimeArgs& args_;
  const Address server_;
  const std::optional<Address> source_;
  CmtimeHost& host_;
  Context& context_;
  const std::uint32_t count_, at_once_;
  std::map<std::uint64_t, Timed> timed_;  // at most count_
  std::uint32_t begun_ = 0, up_ = 0, down_ = 0;
  bool disconnecting_ = false;
  StepTable table_;
  std::optional<CommandError> fault_;
};

void CmtimeClient::start_more() {
  while (!fault_ && begun_ < count_ && begun_ - up_ < at_once_) {
    Timed timed{.begin = host_.now()};
    const auto id = host_.cm().resolve(server_, {.local = source_});
    timed.created = host_.now();
    if (!id) return fault(Exit::usage, fmt::format("cannot connect so: {}", message_of(id.error())));
    timed.id = *id;
    if (!nic()) table_.add(CmStep::create_id, timed.begin, timed.created);
    timed_.emplace(id->number(), timed);
    ++begun_;
  }
}

void CmtimeClient::on(const cm::Established& e) {
  Timed& timed = timed_.at(e.id.number());
  const Instant now = host_.now();
  timed.up = true;
  ++up_;
  table_.add(CmStep::full_connect, timed.begin, now);
  if (!e.nic) return table_.add(CmStep::connect, timed.connected, now);
  const auto add = [this](CmStep step, const cm::NicSteps::Span& span) { table_.add(step, span.begin, span.end); };
  add(CmStep::create_id, e.nic->create_id);
  add(CmStep::resolve_addr, e.nic->resolve_addr);
  add(CmStep::resolve_route, e.nic->resolve_route);
  if (e.nic->create_qp) add(CmStep::create_qp, *e.nic->create_qp);
  add(CmStep::connect, e.nic->connect);
}

/// Counts a connection that failed or ended. It is destroyed with the others.
void CmtimeClient::end(cm::Id id) {
  const auto at = timed_.find(id.number());
  if (at == timed_.end()) return;
  if (disconnecting_ && at->second.up) table_.add(CmStep::disconnect, at->second.begin, host_.now());
  ++down_;
}

void CmtimeClient::handle(const cm::Event& event) {
  if (const auto* up = std::get_if<cm::Established>(&event)) return on(*up);
  if (const auto* way = std::get_if<cm::Resolved>(&event)) {
    cm::Id id = way->id;
    timed_.at(id.number()).connected = host_.now();
    if (const auto connecting = id.connect(); !connecting) fault(Exit::usage, message_of(connecting.error()));
  } else if (const auto* failed = std::get_if<cm::ConnectFailed>(&event)) {
    fault(exit_for(failed->why), failed->why.to_string(server_.to_string()));
    end(failed->id);
  } else if (const auto* rejected = std::get_if<cm::Rejected>(&event)) {
    fault(exit_for(rejected->why), rejected->why.to_string(server_.to_string()));
    end(rejected->id);
  } else if (const auto* down = std::get_if<cm::Disconnected>(&event)) {
    if (!disconnecting_)
      fault(Exit::failed, fmt::format("{} disconnected before all were there", server_.to_string()));
    else if (!down->graceful)
      fault(Exit::failed, end_text(*down, server_.to_string()));
    end(down->id);
  }
}

bool CmtimeClient::turn_until(std::uint32_t& counter, std::uint32_t goal, Instant deadline) {
  while (counter < goal && !fault_) {
    if (host_.stopped()) {
      fault(Exit::failed, "interrupted");
    } else if (host_.now() >= deadline) {
      fault(Exit::failed, fmt::format("{} of {} within {}", counter, goal, duration_text(args_.timeout)));
    } else {
      host_.turn(deadline);
      while (auto event = host_.cm().poll_event()) handle(*event);
      start_more();
    }
  }
  return !fault_;
}

int CmtimeClient::run() {
  const Instant deadline = args_.timeout == Duration{0} ? never : host_.now() + args_.timeout;
  start_more();
  if (turn_until(up_, count_, deadline)) {
    disconnecting_ = true;
    for (auto& [number, timed] : timed_) {
      timed.begin = host_.now();
      if (const auto closing = timed.id.disconnect(); !closing) fault(Exit::failed, message_of(closing.error()));
    }
    turn_until(down_, count_, deadline);
  }
  for (auto& [number, timed] : timed_) {
    const Instant begin = host_.now();
    timed.id.destroy();
    if (!fault_) table_.add(CmStep::destroy, begin, host_.now());
  }
  host_.settle();
  return summary();
}

int CmtimeClient::summary() {
  const std::string& provider = args_.session.provider;
  if (!fault_)
    context_.out.text(fmt::format("{} connections, provider {}\n{}", count_, provider, table_.text(provider)));
  Json object{{"event", "summary"},      {"command", "cmtime"}, {"role", "client"},    {"provider", provider},
              {"connection_count", up_}, {"count", count_},     {"at_once", at_once_}, {"steps", table_.json()}};
  context_.out.object(object);
  if (fault_) return context_.out.error(fault_->exit, fault_->text);
  return code(Exit::ok);
}

}  // namespace

int run_cmtime_client(const CmtimeArgs& args, const Address& server, std::optional<Address> source, CmtimeHost& host,
                      Context& context) {
  return CmtimeClient(args, server, source, host, context).run();
}

}  // namespace parley::tools
