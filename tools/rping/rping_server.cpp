// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The server of `parley rping`: any number of concurrent clients on one thread.
//
// State of a client | input          | next    | what happens
// ------------------|----------------|---------|----------------------------------------------
// source            | 16 octets      | reading | RDMA Read of the source
// reading           | Read completed | sink    | data compared (-V), printed (-v); go-ahead sent
// sink              | 16 octets      | source  | RDMA Write, then go-ahead
// any               | anything else  | over    | fault; the client is disconnected
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/text.hpp"
#include "tools/rping/rping.hpp"

namespace parley::tools {

namespace {

enum class Expects { source, reading, sink };

struct ClientOf {
  cm::Id id;
  std::unique_ptr<RpingLink> link;  ///< outlives the id's queue pair
  std::string peer;
  std::string missing;  ///< rping_depth_text
  Expects expects = Expects::source;
  std::uint32_t pings = 0;
  std::uint32_t octets = 0;  ///< of the current ping
  bool up = false;
  bool send_rtr_due = false;
  std::optional<std::string> fault;
  Instant message_by = never;
};

class Server {
 public:
  Server(const RpingArgs& args, Bytes private_data, Session& session, Context& context)
      : args_(args),
        data_(std::move(private_data)),
        session_(session),
        context_(context),
        report_(context.out, !context.out.json && !args.debug) {}

  int run(const Address& local);

 private:
  void handle(const cm::Event& event);
  void request(const cm::ConnectRequest& event);
  void disconnected(const cm::Disconnected& event);
  void serve(ClientOf& client);
  void advertised(ClientOf& client, const RpingLink::Done& done);
  void read(ClientOf& client);
  void wait_for_message(ClientOf& client);
  void fault(ClientOf& client, std::string text);
  void end(std::uint64_t number);
  void tend();
  Instant next_deadline() const;
  void close_all();
  void print_turned_away(const std::optional<cm::TurnedAway>& news);
  void debug(const ClientOf& client, const std::string& text);
  int summary();

  const RpingArgs& args_;
  Bytes data_;
  Session& session_;
  Context& context_;
  Reporter report_;
  TurnedAwayNews turned_away_;
  cm::Id listener_;
  std::map<std::uint64_t, ClientOf> clients_;  ///< bounded by the host's streams
  std::uint64_t served_ = 0, faulty_ = 0, pings_ = 0;
  Instant client_by_ = never;  ///< the first client's time limit
  std::optional<std::string> last_fault_;
  std::optional<cm::Failure> listen_failure_;
};

void Server::debug(const ClientOf& client, const std::string& text) {
  if (args_.debug) context_.out.note(fmt::format("server: {}: {}", client.peer, text));
}

int Server::run(const Address& local) {
  auto options = options_for<cm::ListenOptions>(args_.session, args_.mpa);
  const auto listener = session_.cm().listen(local, options);
  if (!listener)
    return context_.out.error(Exit::usage, "cannot listen with these options: " + message_of(listener.error()));
  listener_ = *listener;
  const bool limited = args_.timeout_given && args_.timeout > Duration{0};
  if (limited && !args_.persistent) client_by_ = session_.now() + args_.timeout;
  while (!Session::stopped() && !listen_failure_ && (args_.persistent || served_ == 0)) {
    if (client_by_ <= session_.now()) {
      last_fault_ = fmt::format("no client connected within {}", duration_text(args_.timeout));
      break;
    }
    session_.turn(next_deadline());
    while (auto event = session_.cm().poll_event()) handle(*event);
    tend();
  }
  if (listen_failure_)
    return context_.out.error(exit_for(*listen_failure_), listen_failure_text(*listen_failure_, local));
  listener_.destroy();
  close_all();
  print_turned_away(turned_away_.finish());
  return summary();
}

void Server::request(const cm::ConnectRequest& event) {
  ClientOf client;
  client.id = event.id;
  client.peer = event.peer.to_string();
  const auto refuse = [&](const std::string& why) {
    last_fault_ = why;
    ++faulty_;
    context_.out.note("error: " + why);
    client.id.destroy();
  };
  // Without -P the server serves one client. Others are rejected, because they would wait forever.
  if (!args_.persistent && !clients_.empty()) {
    (void)client.id.reject();
    context_.out.note(fmt::format("note: {} rejected: one client at a time without -P", client.peer));
    return;
  }
  Device& device = *event.id.device();
  const auto pd = session_.pd(device);
  if (!pd) return refuse(pd.error().text);
  auto link = RpingLink::create(device, *pd, std::max(args_.size, rping_size_max));
  if (!link) return refuse(link.error().text);
  client.link = std::move(*link);
  const auto qp = client.id.create_qp(client.link->init());
  if (!qp) return refuse("cannot create a queue pair: " + message_of(qp.error()));
  client.link->attach(**qp);
  cm::AcceptOptions options;
  options.private_data = data_;
  if (const auto accepted = client.id.accept(options); !accepted)
    return refuse("cannot accept: " + message_of(accepted.error()));
  client_by_ = never;
  clients_[event.id.number()] = std::move(client);
}

void Server::handle(const cm::Event& event) {
  if (const auto* failed = std::get_if<cm::ConnectFailed>(&event); failed != nullptr && failed->id == listener_) {
    listen_failure_ = failed->why;
    return;
  }
  if (const auto* turned = std::get_if<cm::TurnedAway>(&event)) return turned_away_.add(*turned);
  if (const auto* failed = std::get_if<cm::ConnectFailed>(&event))
    context_.out.note("note: " + failed->why.to_string(report_.peer(failed->id)));
  report_.event(event);
  if (const auto* arrived = std::get_if<cm::ConnectRequest>(&event)) {
    request(*arrived);
  } else if (const auto* up = std::get_if<cm::Established>(&event)) {
    const auto at = clients_.find(up->id.number());
    if (at == clients_.end()) return;
    ClientOf& client = at->second;
    client.up = true;
    if (up->mpa() != nullptr) {
      client.send_rtr_due = send_rtr_takes_receive(*up->mpa(), args_.mpa.mpa);
      client.missing = rping_depth_text(*up->mpa());
    }
    if (!client.missing.empty()) context_.out.note(fmt::format("note: {}: {}", client.peer, client.missing));
    wait_for_message(client);
  } else if (const auto* failed = std::get_if<cm::ConnectFailed>(&event)) {
    ++faulty_;
    // A failure before the Request does not belong to a client.
    if (const auto at = clients_.find(failed->id.number()); at != clients_.end())
      last_fault_ = failed->why.to_string(at->second.peer);
    end(failed->id.number());
  } else if (const auto* down = std::get_if<cm::Disconnected>(&event)) {
    disconnected(*down);
  }
}

void Server::print_turned_away(const std::optional<cm::TurnedAway>& news) {
  if (!news) return;
  context_.out.note("note: " + turned_away_text(*news));
  report_.event(*news);
}

void Server::disconnected(const cm::Disconnected& event) {
  const auto at = clients_.find(event.id.number());
  if (at == clients_.end()) return;
  ClientOf& client = at->second;
  const bool between_pings = client.expects == Expects::source;
  if (!client.fault && !(event.graceful && between_pings)) {
    while (client.link->poll()) {  // completions that arrived too late to be answered
    }
    std::string text = event.graceful
                           ? fmt::format("{} disconnected in the middle of ping {}", client.peer, client.pings)
                           : client.link->end_text(event, client.peer);
    if (client.pings == 0 && !client.missing.empty())
      text += "; the set-up and the client's Send worked, but " + client.missing;
    fault(client, text);
  }
  if (!client.fault) debug(client, fmt::format("disconnected after {} pings", client.pings));
  ++served_;
  end(event.id.number());
}

void Server::fault(ClientOf& client, std::string text) {
  if (client.fault) return;
  ++faulty_;
  if (args_.persistent) context_.out.note("error: " + text);
  client.fault = text;
  last_fault_ = std::move(text);
}

void Server::wait_for_message(ClientOf& client) {
  client.message_by = args_.timeout_given && args_.timeout > Duration{0} ? session_.now() + args_.timeout : never;
}

void Server::advertised(ClientOf& client, const RpingLink::Done& done) {
  if (client.send_rtr_due && done.octets == 0) {
    client.send_rtr_due = false;
    return;
  }
  if (done.octets != RpingInfo::wire_size)
    return fault(client, fmt::format("{} sent a message of {} octets where rping has {}", client.peer, done.octets,
                                     RpingInfo::wire_size));
  wait_for_message(client);
  const std::uint32_t room = std::max(args_.size, rping_size_max);
  if (client.expects == Expects::source) {
    if (done.info.size > room)
      return fault(client,
                   fmt::format("{} asks for pings of {} octets; the maximum is {}", client.peer, done.info.size, room));
    client.octets = done.info.size;
    client.expects = Expects::reading;
    debug(client, fmt::format("source: STag 0x{:x}, offset 0x{:x}, {} octets; RDMA Read", done.info.stag, done.info.to,
                              done.info.size));
    client.link->read_to_sink(done.info);
  } else if (client.expects == Expects::sink) {
    const std::uint32_t length = std::min(client.octets, done.info.size);
    debug(client, fmt::format("sink: STag 0x{:x}, offset 0x{:x}, {} octets; RDMA Write", done.info.stag, done.info.to,
                              done.info.size));
    client.expects = Expects::source;
    ++client.pings;
    ++pings_;
    // RFC 5040 §5.5: a Send is delivered only after the Writes before it are placed.
    client.link->write_from_sink(done.info, length);
    client.link->send({});
  } else {
    fault(client, fmt::format("{} sent an advertisement while its source was still being read", client.peer));
  }
}

void Server::read(ClientOf& client) {
  const ConstBytes data = client.link->sink().first(client.octets);
  if (args_.validate) {
    if (const auto at = rping_difference(data, client.pings))
      return fault(client, fmt::format("{}: ping {}: data mismatch at octet {} of {}", client.peer, client.pings, *at,
                                       client.octets));
  }
  if (args_.session.verbose > 0) {
    context_.out.text("server ping data: " + rping_text(data));
    context_.out.object({{"event", "ping"},
                         {"id", report_.number(client.id)},
                         {"ping", client.pings},
                         {"size", client.octets},
                         {"validated", args_.validate}});
  }
  client.expects = Expects::sink;
  client.link->send({});
}

void Server::serve(ClientOf& client) {
  while (!client.fault) {
    const auto done = client.link->poll();
    if (!done) break;
    if (done->what == RpingLink::WorkKind::received) advertised(client, *done);
    if (done->what == RpingLink::WorkKind::read) read(client);
  }
  // For a broken connection, the Disconnected event says more than the failed completions, so that it is awaited.
  const QueuePair* qp = client.id.qp();
  if (client.link->fault() && qp != nullptr && qp->state() == QpState::rts)
    fault(client, client.peer + ": " + *client.link->fault());
  if (client.message_by <= session_.now())
    fault(client, fmt::format("{}: no message within {}", client.peer, duration_text(args_.timeout)));
}

void Server::end(std::uint64_t number) {
  const auto at = clients_.find(number);
  if (at == clients_.end()) return;
  at->second.id.destroy();
  clients_.erase(at);
}

void Server::tend() {
  print_turned_away(turned_away_.poll(session_.now()));
  std::vector<std::uint64_t> over;
  for (auto& [number, client] : clients_) {
    serve(client);
    if (client.fault) over.push_back(number);
  }
  for (const std::uint64_t number : over) {
    ++served_;
    end(number);
  }
}

Instant Server::next_deadline() const {
  Instant next = std::min(client_by_, turned_away_.next());
  for (const auto& [number, client] : clients_) next = std::min(next, client.message_by);
  return next;
}

/// At the end: disconnects gracefully within one second, then by force.
void Server::close_all() {
  for (auto at = clients_.begin(); at != clients_.end();) {
    ClientOf& client = (at++)->second;
    client.expects = Expects::source;  // an interrupted ping is not a fault
    if (!client.id.disconnect()) end(client.id.number());
  }
  const Instant deadline = session_.now() + std::chrono::seconds(1);
  while (!clients_.empty() && session_.now() < deadline) {
    session_.turn(deadline);
    while (auto event = session_.cm().poll_event()) handle(*event);
  }
  while (!clients_.empty()) end(clients_.begin()->first);
  session_.settle();
}

int Server::summary() {
  const auto captured = session_.finish();
  context_.out.text(fmt::format("{} served, {}", counted(served_, "client"), counted(pings_, "ping")));
  Json object{{"event", "summary"}, {"command", "rping"}, {"role", "server"},           {"clients", served_},
              {"pings", pings_},    {"faulty", faulty_},  {"validated", args_.validate}};
  object.update(report_.tally_json());
  context_.out.object(object);
  if (!captured) return context_.out.error(captured.error().exit, captured.error().text);
  if (last_fault_) return context_.out.error(Exit::failed, *last_fault_);
  return code(Exit::ok);
}

}  // namespace

int run_rping_server(const RpingArgs& args, Bytes private_data, const Address& local, Session& session,
                     Context& context) {
  return Server(args, std::move(private_data), session, context).run(local);
}

}  // namespace parley::tools
