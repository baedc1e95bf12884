// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley listen`: sets up connections as the responder.
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "tools/command.hpp"
#include "tools/ops/config.hpp"
#include "tools/report.hpp"
#include "tools/rping/session.hpp"
#include "tools/rping/traffic.hpp"
#include "tools/trace_sink.hpp"

namespace parley::tools {

namespace {

struct ListenArgs {
  std::string endpoint = "0.0.0.0";
  std::uint16_t port = default_port;
  MpaArgs mpa;
  SessionOptions session;
  TrafficOptions traffic;
  std::uint64_t count = 0;
  std::uint32_t concurrency = 1024;
  int backlog = cm::ListenOptions{}.backlog;
  bool reject = false;
  bool quiet = false;
  Duration decide_after{};
  Duration hold = never_hold;
  Duration timeout{};
  static constexpr Duration never_hold = Duration::max();
};

/// One accepted connection.
struct AcceptedConnection {
  cm::Id id;
  std::string peer;
  std::unique_ptr<Traffic> traffic;  ///< outlives the id's queue pair
  Instant decide_at = never;         ///< the decision on the Request is delayed until then
  Instant close_at = never;
  bool leaving = false;  ///< rejected: forgotten after the driver's next turn, which sends the Reply
};

class Listener {
 public:
  Listener(const ListenArgs& args, Bytes private_data, Session& session, Context& context)
      : args_(args),
        data_(std::move(private_data)),
        session_(session),
        context_(context),
        report_(context.out, args.quiet) {}

  int run(const Address& local);

 private:
  bool over() const { return args_.count > 0 && ended_ >= args_.count; }
  void handle(const cm::Event& event);
  void decide(AcceptedConnection& served);
  Or<QpInit> target(Device& device);
  void accept(AcceptedConnection& served);
  void give_up(AcceptedConnection& served, std::string why);
  void end(std::uint64_t number);
  void tend();
  Instant next_deadline() const;
  void close_all();
  int summary(bool timed_out);

  const ListenArgs& args_;
  Bytes data_;
  Session& session_;
  Context& context_;
  Reporter report_;
  TurnedAwayNews turned_away_;
  cm::Id listener_;
  std::map<Device*, std::unique_ptr<XrcDomain>> domains_;
  std::map<std::uint64_t, AcceptedConnection>
      served_;                          ///< bounded by the listener's pending_max and the host's streams
  std::vector<std::uint64_t> leaving_;  ///< rejected in the last round
  std::uint64_t early_ = 0, ended_ = 0, refused_ = 0, received_ = 0, sent_ = 0;
  std::optional<cm::Failure> listen_failure_;
  std::optional<std::string> fault_;
  bool closing_ = false;
  std::uint64_t broke_ = 0;
  std::string last_break_;
};

int Listener::run(const Address& local) {
  auto options = options_for<cm::ListenOptions>(args_.session, args_.mpa);
  options.backlog = args_.backlog;
  options.pending_max = args_.concurrency;
  const auto listener = session_.cm().listen(local, options);
  if (!listener)
    return context_.out.error(Exit::usage,
                              fmt::format("cannot listen with these options: {}", message_of(listener.error())));
  listener_ = *listener;
  const Instant deadline = args_.timeout == Duration{0} ? never : session_.now() + args_.timeout;
  while (!over() && !Session::stopped() && session_.now() < deadline && !listen_failure_) {
    session_.turn(std::min(deadline, next_deadline()));
    while (auto event = session_.cm().poll_event()) handle(*event);
    tend();
  }
  if (listen_failure_)
    return context_.out.error(exit_for(*listen_failure_), listen_failure_text(*listen_failure_, local));
  const bool timed_out = !over() && !Session::stopped();
  listener_.destroy();
  close_all();
  if (const auto news = turned_away_.finish()) report_.event(*news);
  return summary(timed_out);
}

void Listener::handle(const cm::Event& event) {
  if (const auto* failed = std::get_if<cm::ConnectFailed>(&event); failed != nullptr && failed->id == listener_) {
    listen_failure_ = failed->why;
    return;
  }
  if (const auto* turned = std::get_if<cm::TurnedAway>(&event)) return turned_away_.add(*turned);
  report_.event(event);
  if (const auto* request = std::get_if<cm::ConnectRequest>(&event)) {
    AcceptedConnection& served = served_[request->id.number()];
    served.id = request->id;
    served.peer = request->peer.to_string();
    served.decide_at = session_.now() + args_.decide_after;
    if (args_.decide_after == Duration{0}) decide(served);
  } else if (const auto* up = std::get_if<cm::Established>(&event)) {
    const auto at = served_.find(up->id.number());
    if (at == served_.end()) return;
    const bool takes = up->mpa() != nullptr && send_rtr_takes_receive(*up->mpa(), args_.mpa.mpa);
    if (at->second.traffic) at->second.traffic->established(takes);
    if (args_.hold != ListenArgs::never_hold) at->second.close_at = session_.now() + args_.hold;
  } else if (const auto* failed = std::get_if<cm::ConnectFailed>(&event)) {
    // A failure before the Request is reported, but it is neither counted as a connection nor a failure of this
    // command.
    if (served_.count(failed->id.number()) == 0) ++early_;
    end(failed->id.number());
  } else if (const auto* rejected = std::get_if<cm::Rejected>(&event)) {
    end(rejected->id.number());
  } else if (const auto* down = std::get_if<cm::Disconnected>(&event)) {
    // While this command is closing, an abortive disconnect by the peer is not an error.
    if (!down->graceful && !closing_) {
      ++broke_;
      last_break_ = end_text(*down, report_.peer(down->id));
    }
    end(down->id.number());
  }
}

void Listener::decide(AcceptedConnection& served) {
  served.decide_at = never;
  if (!args_.reject) return accept(served);
  if (const auto done = served.id.reject(data_); !done) {
    fault_ = fmt::format("cannot reject: {}", message_of(done.error()));
    return;
  }
  ++refused_;
  served.leaving = true;
  context_.out.text(fmt::format("[{}] rejected, with {}", report_.number(served.id), private_data_text(data_)));
  context_.out.object(
      {{"event", "reject_sent"}, {"id", report_.number(served.id)}, {"private_data", json_octets(data_)}});
}

/// Every XRC_TGT queue pair needs an XRC domain. There is one per device. Errors: environment.
Or<QpInit> Listener::target(Device& device) {
  const auto [at, added] = domains_.try_emplace(&device);
  if (added) {
    auto domain = device.open_xrcd();
    if (!domain) {
      domains_.erase(at);
      return command_error(Exit::environment, "cannot open an XRC domain: " + message_of(domain.error()));
    }
    at->second = std::move(*domain);
  }
  return QpInit{.type = QpType::xrc_tgt, .xrcd = at->second.get()};
}

void Listener::accept(AcceptedConnection& served) {
  cm::AcceptOptions options;
  options.private_data = data_;
  const QpType type = qp_type_of(args_.session, true);
  if (type == QpType::xrc_tgt) {
    const auto init = target(*served.id.device());
    if (!init) return give_up(served, init.error().text);
    options.qp = *init;
  } else if (args_.traffic.any()) {
    Device& device = *served.id.device();
    const auto pd = session_.pd(device);
    auto traffic = pd ? Traffic::create(device, *pd, args_.traffic) : tl::unexpected(pd.error());
    Result<QueuePair*> qp = fail(Errc::no_space);
    if (traffic) {
      QpInit init = (*traffic)->init();
      init.type = type;
      qp = served.id.create_qp(init);
    }
    if (!qp)
      return give_up(served, traffic ? "cannot create a queue pair: " + message_of(qp.error()) : traffic.error().text);
    served.traffic = std::move(*traffic);
    if (const auto posted = served.traffic->attach(**qp); !posted) fault_ = posted.error().text;
  }
  if (const auto accepted = served.id.accept(options); !accepted)
    fault_ = fmt::format("cannot accept: {}", message_of(accepted.error()));
}

/// Rejects a request that this side cannot serve.
void Listener::give_up(AcceptedConnection& served, std::string why) {
  fault_ = std::move(why);
  (void)served.id.reject();
  served.leaving = true;
}

/// Forgets a connection that is over. Its queue pair is destroyed before the completion queue that it uses.
void Listener::end(std::uint64_t number) {
  const auto at = served_.find(number);
  if (at == served_.end()) return;
  if (Traffic* traffic = at->second.traffic.get()) {
    traffic->poll();
    received_ += traffic->received();
    sent_ += traffic->sent();
    if (traffic->fault()) fault_ = traffic->fault();
    if (!traffic->done() && !fault_)
      fault_ = fmt::format("{} ended after {} messages received and {} sent", at->second.peer, traffic->received(),
                           traffic->sent());
  }
  report_.forget(at->second.id);
  at->second.id.destroy();
  served_.erase(at);
  ++ended_;
}

/// Handles messages, decisions and ends that are due.
void Listener::tend() {
  const Instant now = session_.now();
  if (const auto news = turned_away_.poll(now)) report_.event(*news);
  for (const std::uint64_t number : std::exchange(leaving_, {})) end(number);
  for (auto& [number, served] : served_) {
    if (served.traffic) served.traffic->poll();
    if (served.decide_at <= now) decide(served);
    if (std::exchange(served.leaving, false)) leaving_.push_back(number);
    if (served.close_at <= now && (!served.traffic || served.traffic->done())) {
      served.close_at = never;
      (void)served.id.disconnect();
    }
  }
}

Instant Listener::next_deadline() const {
  Instant next = turned_away_.next();
  if (!leaving_.empty()) return session_.now();
  for (const auto& [number, served] : served_) next = std::min({next, served.decide_at, served.close_at});
  return next;
}

/// At the end: disconnects gracefully within one second, then by force.
void Listener::close_all() {
  closing_ = true;
  for (auto at = served_.begin(); at != served_.end();) {
    AcceptedConnection& served = (at++)->second;
    if (!served.id.disconnect()) end(served.id.number());
  }
  (void)session_.run_until(
      [this] {
        while (auto event = session_.cm().poll_event()) handle(*event);
        return served_.empty();
      },
      session_.now() + std::chrono::seconds(1));
  for (auto& [number, served] : served_) served.id.destroy();
  served_.clear();
  session_.settle();
}

int Listener::summary(bool timed_out) {
  const auto captured = session_.finish();
  const Tally& tally = report_.tally();
  std::string text = fmt::format("{} requests: {} established, {} rejected, {} failed", tally.started,
                                 tally.established, refused_, tally.failed);
  if (tally.gave_way + tally.refused > 0)
    text += fmt::format("; no room (--concurrency {}): {} half-open gave way, {} refused", args_.concurrency,
                        tally.gave_way, tally.refused);
  context_.out.text(text);
  Json object{{"event", "summary"}, {"command", "listen"}};
  object.update(report_.tally_json());
  object["rejected"] = refused_;
  object["turned_away"] = {{"gave_way", tally.gave_way}, {"refused", tally.refused}};
  object["messages"] = {{"received", received_}, {"sent", sent_}};
  context_.out.object(object);
  if (!captured) return context_.out.error(captured.error().exit, captured.error().text);
  if (fault_) return context_.out.error(Exit::failed, *fault_);
  if (broke_ > 0)
    return context_.out.error(
        Exit::failed, fmt::format("{} of {} connections broke; the last: {}", broke_, tally.established, last_break_));
  if (args_.count > 0 && timed_out)
    return context_.out.error(Exit::failed, fmt::format("{} of {} connections arrived within {}", ended_, args_.count,
                                                        duration_text(args_.timeout)));
  if (tally.failed > early_)
    return context_.out.error(Exit::failed, fmt::format("{} set-ups failed", tally.failed - early_));
  return code(Exit::ok);
}

int run_listen(ListenArgs& args, Context& context) {
  const auto endpoint = parse_endpoint(args.endpoint, args.port);
  if (!endpoint) return context.out.error(endpoint.error().exit, endpoint.error().text);
  auto data = settle(args.mpa);
  if (!data) return context.out.error(data.error().exit, data.error().text);
  if (const auto fits = check_provider(args.session, args.mpa); !fits)
    return context.out.error(fits.error().exit, fits.error().text);
  if (const auto fits = check_when_full(args.session, true); !fits)
    return context.out.error(fits.error().exit, fits.error().text);
  if (const auto fits = check_answer_data(args.session, *data, args.reject); !fits)
    return context.out.error(fits.error().exit, fits.error().text);
  args.session.play_quirk = played_over_roce(args.mpa);
  if (const auto sane = check(args.traffic); !sane) return context.out.error(sane.error().exit, sane.error().text);
  if (const auto fits = check_qp_type(args.session, args.traffic); !fits)
    return context.out.error(fits.error().exit, fits.error().text);
  const auto addresses = resolve(*endpoint);
  if (!addresses) return context.out.error(addresses.error().exit, addresses.error().text);
  auto session = Session::open(args.session, context.out);
  if (!session) return context.out.error(session.error().exit, session.error().text);
  return Listener(args, std::move(*data), **session, context).run(addresses->front());
}

}  // namespace

void register_listen(Command app, Context& context) {
  auto args = std::make_shared<ListenArgs>();
  Command sub = app.subcommand("listen", "Wait for connections and accept or reject them");
  sub.option("endpoint,-a,--address", args->endpoint, "ADDRESS, ADDRESS:PORT or [ADDRESS%SCOPE]:PORT to listen on")
      .shows_default();
  sub.option("-p,--port", args->port, "Port, if ENDPOINT has none; 0: any free one, printed").shows_default();
  sub.flag("--reject", args->reject, "Reject every Request, with the private data");
  sub.option("-n,--count", args->count, "End after this many connections (0: by Ctrl-C)").shows_default();
  sub.option("--concurrency", args->concurrency,
             "Connections in set-up at once; then the oldest half-open one of the busiest address is reset for a "
             "new one")
      .range(1, 1 << 20)
      .shows_default();
  sub.option("--backlog", args->backlog, "TCP connections the system may hold for us").range(1, 65535).shows_default();
  add_duration(sub, "--decide-after", args->decide_after, "Let the peer wait before accepting or rejecting");
  add_duration(sub, "--hold", args->hold, "Disconnect this long after set-up").shows_default("the peer disconnects");
  add_duration(sub, "--timeout", args->timeout, "End after this time (0: never)");
  sub.flag("--echo", args->traffic.echo, "Return every message received");
  add_traffic_options(sub, args->traffic);
  add_mpa_options(sub, args->mpa);
  add_responder_options(sub, args->mpa);
  add_trace_option(sub, args->session.verbose);
  add_session_options(sub, args->session);
  add_liveness_options(sub, args->session);
  add_provider_options(sub, args->session);
  add_qp_type_option(sub, args->session);
  add_when_full_options(sub, args->session);
  sub.flag("--quiet", args->quiet, "Print the address and the summary only");
  add_json_flag(sub, context);
  add_settings(sub, context);
  sub.footer(
      "Examples:\n"
      "  parley listen                                   any IPv4 address, port 7175\n"
      "  parley listen [::1]:0 --count 1 --json          a free port, one connection\n"
      "  parley listen --revision 1 --private-data hello --pcapng setup.pcapng\n"
      "  parley listen --reject --private-data \"not today\"\n"
      "  parley listen --play-quirk siw                  behave like Linux siw");
  sub.run([args, sub, &context] {
    args->mpa.given = sub.given();
    return run_listen(*args, context);
  });
}

}  // namespace parley::tools
