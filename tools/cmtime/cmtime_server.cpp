// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The server of `parley cmtime`: accepts every connection and lets the client end it.
#include <optional>
#include <set>
#include <string>

#include <fmt/format.h>

#include "base/text.hpp"
#include "tools/cmtime/cmtime.hpp"
#include "tools/command.hpp"
#include "tools/report.hpp"

namespace parley::tools {

namespace {

/// A client starts all its connections at once.
constexpr std::uint32_t pending_at_once = 16384;

class CmtimeServer {
 public:
  CmtimeServer(const CmtimeArgs& args, Session& session, Context& context)
      : args_(args), session_(session), context_(context) {}
  int run(const Address& local);

 private:
  bool over() const { return args_.count > 0 && ended_ >= args_.count; }
  void handle(const cm::Event& event);
  void end(cm::Id id);

  const CmtimeArgs& args_;
  Session& session_;
  Context& context_;
  cm::Id listener_;
  std::set<std::uint64_t> accepted_;  // bounded by the host's ids
  std::uint64_t ended_ = 0, served_ = 0, broken_ = 0;
  std::string last_;
  std::optional<cm::Failure> listen_failure_;
};

void CmtimeServer::end(cm::Id id) {
  if (accepted_.erase(id.number()) == 0) return;
  id.destroy();
  ++ended_;
}

void CmtimeServer::handle(const cm::Event& event) {
  if (const auto* listening = std::get_if<cm::Listening>(&event)) {
    const std::string local = listening->local.to_string();
    context_.out.text("listening on " + local);
    context_.out.object({{"event", "listening"}, {"local", local}, {"port", listening->local.port}});
  } else if (const auto* request = std::get_if<cm::ConnectRequest>(&event)) {
    cm::Id id = request->id;
    accepted_.insert(id.number());
    if (const auto done = id.accept(); !done) {
      ++broken_;
      last_ = fmt::format("cannot accept: {}", message_of(done.error()));
      (void)id.reject();
      end(request->id);
    }
  } else if (const auto* down = std::get_if<cm::Disconnected>(&event)) {
    if (down->graceful) {
      ++served_;
    } else {
      ++broken_;
      last_ = end_text(*down, "the client");
    }
    end(down->id);
  } else if (const auto* failed = std::get_if<cm::ConnectFailed>(&event)) {
    if (failed->id == listener_) {
      listen_failure_ = failed->why;
      return;
    }
    // Without an RTR, a client that only connects and disconnects never sends an FPDU (RFC 5044 §7.1.2 rule 4).
    if (accepted_.contains(failed->id.number()) && failed->why.code == make_error_code(Errc::peer_closed) &&
        failed->why.step == mpa::step::wait_first_fpdu) {
      ++served_;
    } else {
      ++broken_;
      last_ = failed->why.to_string("the client");
    }
    end(failed->id);
  }
}

int CmtimeServer::run(const Address& local) {
  cm::ListenOptions options;
  // No keepalive: Linux retransmits a lost DREQ every 6.1 s and answers nothing meanwhile, so that two losses in a row
  // would look like a dead peer.
  options.keepalive = Duration{};
  options.pending_max = pending_at_once;
  const auto listener = session_.cm().listen(local, options);
  if (!listener)
    return context_.out.error(Exit::usage,
                              fmt::format("cannot listen with these options: {}", message_of(listener.error())));
  listener_ = *listener;
  while (!over() && !Session::stopped() && !listen_failure_) {
    session_.turn();
    while (auto event = session_.cm().poll_event()) handle(*event);
  }
  if (listen_failure_)
    return context_.out.error(exit_for(*listen_failure_), listen_failure_text(*listen_failure_, local));
  listener_.destroy();
  session_.settle();
  context_.out.text(fmt::format("{} served", counted(served_, "connection")));
  context_.out.object({{"event", "summary"},
                       {"command", "cmtime"},
                       {"role", "server"},
                       {"provider", args_.session.provider},
                       {"connection_count", served_},
                       {"broken", broken_}});
  if (broken_ > 0)
    return context_.out.error(Exit::failed,
                              fmt::format("{} broke; the last: {}", counted(broken_, "connection"), last_));
  return code(Exit::ok);
}

}  // namespace

int run_cmtime_server(const CmtimeArgs& args, const Address& local, Session& session, Context& context) {
  return CmtimeServer(args, session, context).run(local);
}

}  // namespace parley::tools
