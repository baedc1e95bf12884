// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley connect`: sets up connections as the initiator, one or several at a time.
#include <algorithm>
#include <map>
#include <memory>
#include <vector>

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

struct ConnectArgs {
  std::string endpoint;
  std::uint16_t port = default_port;
  std::string local;
  std::vector<std::string> backups;
  cm::Retry retry;
  MpaArgs mpa;
  SessionOptions session;
  TrafficOptions traffic;
  std::uint64_t count = 1;
  std::uint64_t concurrency = 1;
  bool quiet = false;
  bool time_wait = false;
  Duration hold{};
  Duration tcp_timeout = std::chrono::seconds(10);
  Duration connect_timeout{};
  Duration timeout = std::chrono::seconds(60);
};

/// One connection from connect() to its end.
struct Attempt {
  cm::Id id;
  std::unique_ptr<Traffic> traffic;  ///< outlives the id's queue pair
  bool up = false;
  bool closing = false;
  Instant close_at = never;
  Instant down_at = never;  ///< --time-wait: when it ended gracefully, while its time-wait runs
  Instant give_up_at = never;
};

class Connector {
 public:
  Connector(const ConnectArgs& args, Bytes private_data, std::vector<Address> peers, std::optional<Address> local,
            Session& session, Context& context)
      : args_(args),
        data_(std::move(private_data)),
        peers_(std::move(peers)),
        local_(local),
        session_(session),
        context_(context),
        report_(context.out, args.quiet) {}

  int run();

 private:
  bool start();
  void handle(const cm::Event& event);
  void established(const cm::Established& up);
  void lost(Attempt& attempt, const cm::Failure& why, const std::string& words);
  void end(std::uint64_t number);
  void tend();
  Instant next_deadline() const;
  void stop();
  void report_error(Exit exit, std::string text);
  int summary();

  const ConnectArgs& args_;
  Bytes data_;
  std::vector<Address> peers_;  ///< tried in this order
  std::optional<Address> local_;
  Session& session_;
  Context& context_;
  Reporter report_;
  PdHandle pd_ = 0;
  std::map<std::uint64_t, Attempt> attempts_;  ///< at most `concurrency`
  std::uint64_t begun_ = 0, good_ = 0, bad_ = 0, received_ = 0, sent_ = 0;
  std::vector<Duration> times_;  ///< set-up times, for the summary
  std::optional<CommandError> first_fault_;
};

void Connector::report_error(Exit exit, std::string text) {
  ++bad_;
  if (!first_fault_) first_fault_ = CommandError{exit, std::move(text)};
}

bool Connector::start() {
  Attempt attempt;
  auto options = options_for<cm::ConnectOptions>(args_.session, args_.mpa);
  options.private_data = data_;
  options.local = local_;
  options.transport_timeout = args_.tcp_timeout;
  options.timeout = args_.connect_timeout;
  options.retry = args_.retry;
  options.backups.assign(peers_.begin() + 1, peers_.end());
  if (args_.traffic.any()) {
    auto traffic = Traffic::create(session_.device(), pd_, args_.traffic);
    if (!traffic) {
      report_error(traffic.error().exit, traffic.error().text);
      return false;
    }
    attempt.traffic = std::move(*traffic);
    options.qp = attempt.traffic->init();
    options.qp->type = qp_type_of(args_.session, false);
  }
  const auto id = session_.cm().connect(peers_.front(), options);
  if (!id) {
    report_error(Exit::usage, fmt::format("cannot connect to {} with these options: {}", peers_.front().to_string(),
                                          message_of(id.error())));
    return false;
  }
  attempt.id = *id;
  if (attempt.traffic) {
    if (const auto posted = attempt.traffic->attach(*attempt.id.qp()); !posted)
      report_error(posted.error().exit, posted.error().text);
  }
  if (args_.timeout != Duration{0}) attempt.give_up_at = session_.now() + args_.timeout;
  report_.started(attempt.id, peers_.front());
  attempts_[attempt.id.number()] = std::move(attempt);
  return true;
}

void Connector::established(const cm::Established& up) {
  const auto at = attempts_.find(up.id.number());
  if (at == attempts_.end()) return;
  Attempt& attempt = at->second;
  attempt.up = true;
  attempt.close_at = session_.now() + args_.hold;
  times_.push_back(up.steps.established);
  if (attempt.traffic) attempt.traffic->established(false);
  // Without an RTR only the first message releases the responder (RFC 5044 §7.1.2 rule 4). If there is no message to
  // send, an empty RDMA Write does it: it causes no completion at the peer.
  if (up.mpa() != nullptr && up.mpa()->rtr == mpa::Rtr::none && args_.traffic.sends == 0)
    (void)attempt.id.qp()->post_send({.opcode = SendWr::Opcode::rdma_write, .signaled = false, .rkey = 1});
}

/// Ends a connection that failed or ended unexpectedly.
void Connector::lost(Attempt& attempt, const cm::Failure& why, const std::string& text) {
  end(attempt.id.number());
  report_error(exit_for(why), text);
}

void Connector::handle(const cm::Event& event) {
  // Compose the text first: the reporter forgets the peer when the connection is over.
  std::string text;
  if (const auto* rejected = std::get_if<cm::Rejected>(&event))
    text = fmt::format("rejected by {}: {}", report_.peer(rejected->id), private_data_text(rejected->private_data));
  if (const auto* failed = std::get_if<cm::ConnectFailed>(&event))
    text = failed->why.to_string(report_.peer(failed->id));
  if (const auto* down = std::get_if<cm::Disconnected>(&event))
    text = down->graceful ? report_.peer(down->id) + " disconnected before the end"
                          : end_text(*down, report_.peer(down->id));
  report_.event(event);
  const auto attempt_of = [this](cm::Id id) {
    const auto at = attempts_.find(id.number());
    return at == attempts_.end() ? nullptr : &at->second;
  };
  if (const auto* retrying = std::get_if<cm::Retrying>(&event)) {
    // --timeout applies to each attempt.
    Attempt* attempt = attempt_of(retrying->id);
    if (attempt != nullptr && args_.timeout != Duration{0})
      attempt->give_up_at = session_.now() + retrying->wait + args_.timeout;
  } else if (const auto* up = std::get_if<cm::Established>(&event)) {
    established(*up);
  } else if (const auto* rejected = std::get_if<cm::Rejected>(&event)) {
    if (Attempt* attempt = attempt_of(rejected->id)) lost(*attempt, rejected->why, text);
  } else if (const auto* failed = std::get_if<cm::ConnectFailed>(&event)) {
    if (Attempt* attempt = attempt_of(failed->id)) lost(*attempt, failed->why, text);
  } else if (const auto* down = std::get_if<cm::Disconnected>(&event)) {
    Attempt* attempt = attempt_of(down->id);
    if (attempt == nullptr) return;
    if (attempt->traffic) attempt->traffic->poll();
    const bool finished = !attempt->traffic || attempt->traffic->done();
    if (!down->graceful || !finished || (!attempt->closing && args_.hold != Duration{0})) {
      lost(*attempt, down->why, text);
    } else if (args_.time_wait) {
      attempt->closing = true;
      attempt->down_at = session_.now();
    } else {
      ++good_;
      end(down->id.number());
    }
  } else if (const auto* exit = std::get_if<cm::TimewaitExit>(&event)) {
    const Attempt* attempt = attempt_of(exit->id);
    if (attempt == nullptr) return;
    if (!args_.quiet)
      context_.out.text(fmt::format("time-wait over, {} behind the disconnect",
                                    measured_duration_text(session_.now() - attempt->down_at)));
    ++good_;
    end(exit->id.number());
  }
}

/// Forgets a connection. Its queue pair is destroyed before the completion queue that it uses.
void Connector::end(std::uint64_t number) {
  const auto at = attempts_.find(number);
  if (at == attempts_.end()) return;
  if (at->second.traffic) {
    received_ += at->second.traffic->received();
    sent_ += at->second.traffic->sent();
  }
  at->second.id.destroy();
  attempts_.erase(at);
}

/// Handles messages, ends and timeouts that are due, and starts new connections up to `concurrency`.
void Connector::tend() {
  const Instant now = session_.now();
  std::vector<std::pair<std::uint64_t, std::string>> over;
  for (auto& [number, attempt] : attempts_) {
    if (attempt.traffic) attempt.traffic->poll();
    const bool finished = !attempt.traffic || attempt.traffic->done();
    const std::string peer = report_.peer(attempt.id);
    if (attempt.traffic && attempt.traffic->fault() && attempt.id.qp() != nullptr &&
        attempt.id.qp()->state() == QpState::rts) {
      over.emplace_back(number, fmt::format("traffic with {}: {}", peer, *attempt.traffic->fault()));
    } else if (attempt.up && !attempt.closing && finished && attempt.close_at <= now) {
      attempt.closing = true;
      (void)attempt.id.disconnect();
    } else if (attempt.give_up_at <= now) {
      over.emplace_back(
          number, attempt.up && !finished
                      ? fmt::format("{}: {} messages sent and {} received within {}", peer, attempt.traffic->sent(),
                                    attempt.traffic->received(), duration_text(args_.timeout))
                  : attempt.down_at != never
                      ? fmt::format("{}: no end of its time-wait within {}; iWARP devices report none", peer,
                                    duration_text(args_.timeout))
                      : fmt::format("{}: not over within {}", peer, duration_text(args_.timeout)));
    }
  }
  for (const auto& [number, text] : over) {
    end(number);
    report_error(Exit::failed, text);
  }
  while (begun_ < args_.count && attempts_.size() < args_.concurrency) {
    ++begun_;
    if (!start()) break;
  }
}

Instant Connector::next_deadline() const {
  Instant next = never;
  for (const auto& [number, attempt] : attempts_) {
    next = std::min(next, attempt.give_up_at);
    if (attempt.up && !attempt.closing && attempt.close_at > session_.now()) next = std::min(next, attempt.close_at);
  }
  return next;
}

/// After a signal: disconnects gracefully within one second, then by force.
void Connector::stop() {
  for (auto at = attempts_.begin(); at != attempts_.end();) {
    Attempt& attempt = (at++)->second;
    attempt.closing = true;
    if (!attempt.up || !attempt.id.disconnect()) end(attempt.id.number());
  }
  const Instant deadline = session_.now() + std::chrono::seconds(1);
  while (!attempts_.empty() && session_.now() < deadline) {
    session_.turn(deadline);
    while (auto event = session_.cm().poll_event()) handle(*event);
  }
  while (!attempts_.empty()) end(attempts_.begin()->first);
}

int Connector::run() {
  const auto pd = session_.pd(session_.device());
  if (!pd) return context_.out.error(pd.error().exit, pd.error().text);
  pd_ = *pd;
  report_.report_failures(args_.count > 1);
  tend();
  while (!attempts_.empty() && !Session::stopped()) {
    session_.turn(next_deadline());
    while (auto event = session_.cm().poll_event()) handle(*event);
    tend();
  }
  if (Session::stopped()) stop();
  session_.settle();
  return summary();
}

int Connector::summary() {
  const auto captured = session_.finish();
  Json object{{"event", "summary"}, {"command", "connect"}, {"count", args_.count}, {"good", good_}};
  object.update(report_.tally_json());
  object["messages"] = {{"received", received_}, {"sent", sent_}};
  std::string text = fmt::format("{} of {} connections were set up and ended well", good_, args_.count);
  if (!times_.empty()) {
    std::sort(times_.begin(), times_.end());
    const Duration median = times_[times_.size() / 2];
    text += times_.size() == 1
                ? "; set-up took " + measured_duration_text(median)
                : fmt::format("; set-up took {} to {}, median {}", measured_duration_text(times_.front()),
                              measured_duration_text(times_.back()), measured_duration_text(median));
    object["setup_us"] = {{"min", in_microseconds(times_.front())},
                          {"median", in_microseconds(median)},
                          {"max", in_microseconds(times_.back())}};
  }
  if (args_.count > 1 || !first_fault_) context_.out.text(text);
  context_.out.object(object);
  if (!captured) return context_.out.error(captured.error().exit, captured.error().text);
  if (first_fault_) {
    const std::string more = bad_ > 1 ? fmt::format(" (and {} more)", bad_ - 1) : "";
    return context_.out.error(first_fault_->exit, first_fault_->text + more);
  }
  if (good_ < args_.count) return context_.out.error(Exit::failed, "interrupted");
  return code(Exit::ok);
}

/// All addresses of the endpoint and of its backups, in the order in which they are tried.
Or<std::vector<Address>> all_addresses(const Endpoint& endpoint, const ConnectArgs& args,
                                       const std::optional<Address>& local) {
  if (args.backups.size() > cm::backups_max)
    return command_error(Exit::usage,
                         fmt::format("--backup {} times; at most {}", args.backups.size(), cm::backups_max));
  const std::size_t of_each = (1 + cm::backups_max) / (1 + args.backups.size());  // more addresses are ignored
  auto all = resolve(endpoint);
  if (!all) return all;
  all->resize(std::min(all->size(), of_each));
  for (const std::string& text : args.backups) {
    const auto backup = parse_endpoint(text, endpoint.port);
    if (!backup) return tl::unexpected(backup.error());
    const auto addresses = resolve(*backup);
    if (!addresses) return addresses;
    all->insert(all->end(), addresses->begin(),
                addresses->begin() + static_cast<std::ptrdiff_t>(std::min(addresses->size(), of_each)));
  }
  // A name may have addresses of both families. If none is of the source's family, the first one stays for the error
  // message.
  const auto wrong = [&](const Address& a) { return local && a.family != local->family; };
  if (std::all_of(all->begin(), all->end(), wrong))
    all->resize(1);
  else
    all->erase(std::remove_if(all->begin(), all->end(), wrong), all->end());
  return all;
}

int run_connect(ConnectArgs& args, Context& context) {
  const auto refuse = [&context](const CommandError& c) { return context.out.error(c.exit, c.text); };
  const auto endpoint = parse_endpoint(args.endpoint, args.port);
  if (!endpoint) return refuse(endpoint.error());
  auto data = settle(args.mpa);
  if (!data) return refuse(data.error());
  if (const auto fits = check_provider(args.session, args.mpa); !fits) return refuse(fits.error());
  if (const auto fits = check_when_full(args.session, false); !fits) return refuse(fits.error());
  args.session.play_quirk = played_over_roce(args.mpa);
  if (args.time_wait && args.session.provider == "iwarp")
    return refuse(
        {Exit::usage,
         "--time-wait is for --provider rdmacm and roce: TCP has its own TIME_WAIT, which it does not report"});
  if (args.traffic.echoed && args.traffic.sends == 0)
    return refuse({Exit::usage, "--echoed compares what --send sent: say --send N too"});
  if (const auto sane = check(args.traffic); !sane) return refuse(sane.error());
  if (const auto fits = check_qp_type(args.session, args.traffic); !fits) return refuse(fits.error());
  std::optional<Address> local;
  if (!args.local.empty()) {
    const auto from = parse_address(args.local, 0);
    if (!from) return refuse(from.error());
    local = *from;
  }
  auto peers = all_addresses(*endpoint, args, local);
  if (!peers) return refuse(peers.error());
  auto session = Session::open(args.session, context.out);
  if (!session) return refuse(session.error());
  return Connector(args, std::move(*data), std::move(*peers), local, **session, context).run();
}

}  // namespace

void register_connect(Command app, Context& context) {
  auto args = std::make_shared<ConnectArgs>();
  Command sub = app.subcommand("connect", "Set up connections and disconnect them");
  sub.option("-a,--address,endpoint", args->endpoint, "HOST, HOST:PORT or [ADDRESS%SCOPE]:PORT to connect to")
      .required();
  sub.option("-p,--port", args->port, "Port, if ENDPOINT has none").shows_default();
  sub.option("--local", args->local, "Source address, with a port if wanted").type("ADDRESS");
  sub.option("--backup", args->backups, "HOST or HOST:PORT to try when ENDPOINT fails; may be repeated")
      .type("HOST")
      .repeatable();
  sub.option("--rounds", args->retry.rounds, "How often all addresses are tried")
      .range(1U, cm::retry_rounds_max)
      .shows_default();
  add_duration(sub, "--back-off", args->retry.first, "Wait before the second round; doubled for each later one");
  add_duration(sub, "--back-off-max", args->retry.cap, "Longest such wait");
  sub.option("-n,--count", args->count, "Connections to set up, in all").shows_default();
  sub.option("--concurrency", args->concurrency, "Connections at once").range(1, 60000).shows_default();
  add_duration(sub, "--hold", args->hold, "Stay connected this long");
  sub.flag("--time-wait", args->time_wait, "RoCE: keep each connection until its time-wait is over, and say so");
  sub.flag("--echoed", args->traffic.echoed, "With --send: the peer returns each message (parley listen --echo)");
  add_traffic_options(sub, args->traffic);
  add_mpa_options(sub, args->mpa);
  add_initiator_options(sub, args->mpa);
  add_duration(sub, "--connect-timeout", args->connect_timeout,
               "Longest time until a connection is up, over all addresses and rounds (0: no limit)");
  add_duration(sub, "--tcp-timeout", args->tcp_timeout, "Longest wait for the TCP connection");
  add_duration(sub, "--timeout", args->timeout, "Longest life of one attempt (0: no limit)");
  add_trace_option(sub, args->session.verbose);
  add_session_options(sub, args->session);
  add_liveness_options(sub, args->session);
  add_provider_options(sub, args->session);
  add_qp_type_option(sub, args->session);
  add_offer_option(sub, args->session);
  sub.flag("--quiet", args->quiet, "Print the summary only");
  add_json_flag(sub, context);
  add_settings(sub, context);
  sub.footer(
      "Examples:\n"
      "  parley connect 192.0.2.1                          revision 2, as a client of a server\n"
      "  parley connect [fe80::1%eth0]:7175 --rtr read     peer-to-peer, with a zero-length RDMA Read first\n"
      "  parley connect host --rtr frame                   revision 1 with the Rtr frame of 2007\n"
      "  parley connect host --send 10 --echoed --size 4096\n"
      "  parley connect host --count 10000 --concurrency 100 --quiet --json");
  sub.run([args, sub, &context] {
    args->mpa.given = sub.given();
    return run_connect(*args, context);
  });
}

}  // namespace parley::tools
