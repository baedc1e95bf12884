// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The client of `parley rping`.
//
// State      | input                         | next      | what happens
// -----------|-------------------------------|-----------|----------------------------------------------------------
// connecting | Established                   | go_ahead  | source filled and advertised
// connecting | refused, unreachable          | connecting| the server's next address, if there is one
// connecting | Rejected, ConnectFailed       | over      | fault
// go_ahead   | 16 octets                     | done      | sink advertised
// go_ahead   | first message, nudge_after    | go_ahead  | zero-length RDMA Write
// go_ahead   | first message, timeout        | connecting| peer fault noted; a new connection, while retries are left
// done       | 16 octets                     | go_ahead  | sink compared; the next ping, or closing after the last
// any        | timeout, wrong size, mismatch | over      | fault
// closing    | Disconnected                  | over      | summary
#include <algorithm>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "tools/rping/rping.hpp"

namespace parley::tools {

namespace {

class Client {
 public:
  Client(const RpingArgs& args, Bytes private_data, std::vector<Address> servers, std::optional<Address> source,
         Session& session, Context& context)
      : args_(args),
        data_(std::move(private_data)),
        servers_(std::move(servers)),
        source_(source),
        session_(session),
        context_(context),
        report_(context.out, !context.out.json && !args.debug) {}

  int run();

 private:
  enum class State { connecting, go_ahead, done, closing, over };

  void connect();
  void handle(const cm::Event& event);
  void lost(const cm::Failure& why, const std::string& text);
  void answered(const RpingLink::Done& done);
  void start_ping();
  void finish_ping();
  void drive();
  void check_time();
  void disconnect();
  void forget();
  void fault(Exit exit, std::string text);
  void debug(const std::string& text);
  Instant next_deadline() const { return std::min(answer_by_, nudge_at_); }
  std::string server() const { return server_.to_string(); }
  Json summary_json() const;
  int summary();

  const RpingArgs& args_;
  Bytes data_;
  std::vector<Address> servers_;  ///< tried in this order
  Address server_{};              ///< the current or the last one
  std::optional<Address> source_;
  Session& session_;
  Context& context_;
  Reporter report_;
  State state_ = State::connecting;
  cm::Id id_;
  std::unique_ptr<RpingLink> link_;  ///< outlives the id's queue pair
  std::string missing_;              ///< rping_depth_text
  std::uint32_t pings_ = 0, retried_ = 0;
  bool nudged_ = false, stopping_ = false;
  Instant answer_by_ = never, nudge_at_ = never, ping_at_{};
  Duration fastest_ = Duration::max(), slowest_{}, total_{};
  std::vector<std::string> peer_faults_;  ///< at most one per connection
  std::optional<CommandError> fault_;
};

void Client::debug(const std::string& text) {
  if (args_.debug) context_.out.note("client: " + text);
}

void Client::fault(Exit exit, std::string text) {
  if (!fault_) fault_ = CommandError{exit, std::move(text)};
  state_ = State::over;
}

/// Destroys the queue pair before the completion queue that it uses.
void Client::forget() {
  id_.destroy();
  link_.reset();
  answer_by_ = nudge_at_ = never;
}

void Client::connect() {
  state_ = State::connecting;
  const auto pd = session_.pd(session_.device());
  if (!pd) return fault(pd.error().exit, pd.error().text);
  auto link = RpingLink::create(session_.device(), *pd, args_.size);
  if (!link) return fault(link.error().exit, link.error().text);
  link_ = std::move(*link);
  auto options = options_for<cm::ConnectOptions>(args_.session, args_.mpa);
  options.private_data = data_;
  options.local = source_;
  options.transport_timeout = args_.tcp_timeout;
  options.qp = link_->init();
  server_ = servers_.front();
  for (std::size_t i = 1; i < servers_.size(); ++i)
    if (!source_ || servers_[i].family == source_->family) options.backups.push_back(servers_[i]);
  options.backups.resize(std::min(options.backups.size(), cm::backups_max));
  const auto id = session_.cm().connect(server_, options);
  if (!id)
    return fault(Exit::usage,
                 fmt::format("cannot connect to {} with these options: {}", server(), message_of(id.error())));
  id_ = *id;
  report_.started(id_, server_);
  link_->attach(*id_.qp());
  debug("connecting to " + server());
}

void Client::start_ping() {
  rping_fill(link_->source(), pings_);
  std::fill(link_->sink().begin(), link_->sink().end(), std::uint8_t{0});
  ping_at_ = session_.now();
  answer_by_ = args_.timeout == Duration{0} ? never : ping_at_ + args_.timeout;
  if (pings_ == 0 && args_.nudge_after > Duration{0}) nudge_at_ = ping_at_ + args_.nudge_after;
  link_->send(link_->advertise_source());
  debug(fmt::format("ping {}: source advertised", pings_));
  state_ = State::go_ahead;
}

void Client::answered(const RpingLink::Done& done) {
  if (done.octets != RpingInfo::wire_size)
    return fault(Exit::failed, fmt::format("the server sent a message of {} octets where rping has {}", done.octets,
                                           RpingInfo::wire_size));
  if (nudged_ && pings_ == 0 && state_ == State::go_ahead)
    peer_faults_.push_back(
        fmt::format("the server answered the first message only after more data had followed it ({} later): a lost "
                    "wake-up, as of Linux siw between its Reply and its first receive",
                    measured_duration_text(session_.now() - ping_at_)));
  nudge_at_ = never;
  if (state_ == State::go_ahead) {
    link_->send(link_->advertise_sink());
    debug(fmt::format("ping {}: sink advertised", pings_));
    answer_by_ = args_.timeout == Duration{0} ? never : session_.now() + args_.timeout;
    state_ = State::done;
  } else if (state_ == State::done) {
    finish_ping();
  } else {
    fault(Exit::failed, "the server sent a message that nothing asked for");
  }
}

void Client::finish_ping() {
  const Duration took = session_.now() - ping_at_;
  if (args_.validate) {
    if (const auto at = rping_difference(link_->sink(), pings_))
      return fault(Exit::failed, fmt::format("ping {}: data mismatch at octet {} of {}", pings_, *at, args_.size));
  }
  fastest_ = std::min(fastest_, took);
  slowest_ = std::max(slowest_, took);
  total_ += took;
  if (args_.session.verbose > 0) {
    context_.out.text("ping data: " + rping_text(link_->sink()));
    context_.out.object({{"event", "ping"},
                         {"ping", pings_},
                         {"size", args_.size},
                         {"validated", args_.validate},
                         {"round_trip_us", in_microseconds(took)}});
  }
  ++pings_;
  if (stopping_ || (args_.count != 0 && pings_ >= args_.count)) return disconnect();
  start_ping();
}

void Client::disconnect() {
  debug("disconnecting");
  state_ = State::closing;
  answer_by_ = session_.now() + std::chrono::seconds(5);
  if (!id_ || !id_.disconnect()) state_ = State::over;
}

void Client::lost(const cm::Failure& why, const std::string& text) {
  forget();
  fault(exit_for(why), text);
}

void Client::handle(const cm::Event& event) {
  report_.event(event);
  if (const auto* up = std::get_if<cm::Established>(&event)) {
    if (up->mpa() != nullptr) missing_ = rping_depth_text(*up->mpa());
    if (!missing_.empty()) context_.out.note("note: " + missing_);
    nudged_ = false;
    start_ping();
  } else if (const auto* retrying = std::get_if<cm::Retrying>(&event)) {
    server_ = retrying->peer;
    if (retrying->peer != retrying->failed)
      context_.out.note(fmt::format("{}; trying {}", retrying->why.to_string(retrying->failed.to_string()), server()));
  } else if (const auto* rejected = std::get_if<cm::Rejected>(&event)) {
    lost(rejected->why, fmt::format("rejected by {}: {}", server(), private_data_text(rejected->private_data)));
  } else if (const auto* failed = std::get_if<cm::ConnectFailed>(&event)) {
    lost(failed->why, failed->why.to_string(server()));
  } else if (const auto* down = std::get_if<cm::Disconnected>(&event)) {
    while (const auto done = link_ ? link_->poll() : std::nullopt)
      if (done->what == RpingLink::WorkKind::received) answered(*done);
    if (state_ == State::closing) {
      state_ = State::over;
      if (!down->graceful) context_.out.note("note: " + down->why.to_string(server()));
      return forget();
    }
    if (state_ == State::over) return forget();
    std::string text = down->graceful ? fmt::format("{} disconnected before it answered ping {}", server(), pings_)
                       : link_        ? link_->end_text(*down, server())
                                      : end_text(*down, server());
    if (pings_ == 0 && !missing_.empty()) text += "; the set-up and the Send worked, but " + missing_;
    lost(down->why, text);
  }
}

void Client::drive() {
  while (link_ && (state_ == State::go_ahead || state_ == State::done)) {
    const auto done = link_->poll();
    if (!done) break;
    if (done->what == RpingLink::WorkKind::received) answered(*done);
  }
  // For a broken connection, the Disconnected event says more than the failed completions, so that it is awaited.
  if (link_ && link_->fault() && id_.qp() != nullptr && id_.qp()->state() == QpState::rts && state_ != State::closing)
    fault(Exit::failed, *link_->fault());
  check_time();
}

void Client::check_time() {
  const Instant now = session_.now();
  if (nudge_at_ <= now && state_ == State::go_ahead) {
    nudge_at_ = never;
    nudged_ = true;
    debug("no answer yet: zero-length RDMA Write");
    link_->nudge();
  }
  if (answer_by_ > now) return;
  answer_by_ = never;
  if (stopping_ && state_ != State::closing) return disconnect();
  if (state_ == State::closing) {
    context_.out.note("note: " + server() + " did not close its half of the connection");
    state_ = State::over;
    return;
  }
  const std::string silence =
      fmt::format("{} did not answer {} message within {}", server(),
                  pings_ == 0 && state_ == State::go_ahead ? "the first" : "the last", duration_text(args_.timeout));
  if (pings_ > 0 || state_ != State::go_ahead || retried_ >= args_.retries)
    return fault(Exit::failed, silence + (retried_ > 0 ? fmt::format(", on {} connections", retried_ + 1) : ""));
  ++retried_;
  peer_faults_.push_back(silence);
  context_.out.note(fmt::format("peer fault: {}; connecting again ({} of {})", silence, retried_, args_.retries));
  forget();
  connect();
}

int Client::run() {
  connect();
  while (state_ != State::over) {
    if (Session::stopped() && !stopping_) {
      stopping_ = true;
      if (state_ == State::connecting) break;
      // Finish the current ping first, so that the server sees a graceful end.
      if (state_ != State::closing) answer_by_ = session_.now() + std::chrono::seconds(1);
    }
    session_.turn(next_deadline());
    while (auto event = session_.cm().poll_event()) handle(*event);
    drive();
  }
  forget();
  session_.settle();
  return summary();
}

Json Client::summary_json() const {
  Json object{{"event", "summary"},
              {"command", "rping"},
              {"role", "client"},
              {"pings", pings_},
              {"size", args_.size},
              {"validated", args_.validate},
              {"connection_count", retried_ + 1}};
  object.update(report_.tally_json());
  if (pings_ > 0) {
    object["round_trip_us"] = {{"min", in_microseconds(fastest_)},
                               {"mean", in_microseconds(total_ / pings_)},
                               {"max", in_microseconds(slowest_)}};
  }
  object["peer_faults"] = peer_faults_;
  return object;
}

int Client::summary() {
  const auto captured = session_.finish();
  for (const std::string& text : peer_faults_) context_.out.note("peer fault: " + text);
  if (pings_ > 0)
    context_.out.text(fmt::format("{} of {}, {}; round trip {} to {}, mean {}", counted(pings_, "ping"),
                                  counted(args_.size, "octet"), args_.validate ? "data verified" : "data not verified",
                                  measured_duration_text(fastest_), measured_duration_text(slowest_),
                                  measured_duration_text(total_ / pings_)));
  context_.out.object(summary_json());
  if (!captured) return context_.out.error(captured.error().exit, captured.error().text);
  if (fault_) return context_.out.error(fault_->exit, fault_->text);
  if (pings_ < args_.count)
    return context_.out.error(Exit::failed, fmt::format("interrupted after {} of {} pings", pings_, args_.count));
  return code(Exit::ok);
}

}  // namespace

int run_rping_client(const RpingArgs& args, Bytes private_data, std::vector<Address> servers,
                     std::optional<Address> source, Session& session, Context& context) {
  return Client(args, std::move(private_data), std::move(servers), source, session, context).run();
}

}  // namespace parley::tools
