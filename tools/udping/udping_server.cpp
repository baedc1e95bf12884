// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The server of `parley udping`: assigns a queue pair to each client, waits for its datagrams and returns the same
// number.
//
// A client | input                     | next   | what happens
// ---------|---------------------------|--------|-----------------------------------------------------------------
// (none)   | SIDR_REQ                  | asked  | queue pair with its receives, accept(); or reject()
// asked    | Established               | served | without messages
// asked    | all its datagrams         | served | as many are sent to the queue pair that they name
// asked    | --timeout                 | over   | fault
// served   | all sends complete        | over   | counted
#include <map>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "tools/udping/udping.hpp"
#include "tools/udping/udping_link.hpp"

namespace parley::tools {

namespace {

class UdpingServer {
 public:
  UdpingServer(const UdpingArgs& args, Session& session, Context& context)
      : args_(args), session_(session), context_(context), report_(context.out, !context.out.json) {}

  int run(const Address& local);

 private:
  struct One {
    std::unique_ptr<UdpingLink> link;  // outlives the id's queue pair
    cm::Id id;
    std::string peer;
    bool replied = false;
    Instant answer_by = never;
  };
  /// A rejected extra client does not end the server.
  bool over() const {
    return !args_.persistent && served_ + faulty_ + (args_.reject ? refused_ : 0) >= args_.connections;
  }
  void handle(const cm::Event& event);
  void on(const cm::ConnectRequest& request);
  void on(const cm::Established& up);
  void refuse(cm::Id id);
  void move_data();
  bool move_data(One& one);
  Instant patience() const;
  Instant next_deadline() const;
  void fault(const std::string& text) {
    ++faulty_;
    last_fault_ = text;
    if (args_.persistent) context_.out.note("parley udping: " + text);
  }
  int summary();

  const UdpingArgs& args_;
  Session& session_;
  Context& context_;
  Reporter report_;
  cm::Id listener_;
  std::map<std::uint64_t, One> all_;  // bounded by the listener's pending_max and the host's ids
  std::uint64_t asked_ = 0, served_ = 0, faulty_ = 0, refused_ = 0, received_ = 0, sent_ = 0;
  std::optional<std::string> last_fault_;
  std::optional<cm::Failure> listen_failure_;
};

Instant UdpingServer::patience() const {
  return args_.timeout_given && args_.timeout > Duration{0} ? session_.now() + args_.timeout : never;
}

void UdpingServer::refuse(cm::Id id) {
  ++refused_;
  const std::uint64_t number = report_.number(id);
  (void)id.reject();
  id.destroy();
  context_.out.object({{"event", "reject_sent"}, {"id", number}, {"private_data", json_octets({})}});
}

void UdpingServer::on(const cm::ConnectRequest& request) {
  cm::Id id = request.id;
  if (args_.reject) return refuse(id);
  if (!args_.persistent && asked_ >= args_.connections) return refuse(id);  // as udaddy does
  Device& device = *id.device();
  const auto pd = session_.pd(device);
  auto link = pd ? UdpingLink::create(device, *pd, args_.messages, args_.size) : tl::unexpected(pd.error());
  Result<QueuePair*> qp = parley::fail(Errc::no_space);
  if (link) qp = id.create_qp((*link)->init());
  if (!qp) {
    fault(link ? "cannot create a queue pair: " + message_of(qp.error()) : link.error().text);
    (void)id.reject();
    id.destroy();
    return;
  }
  ++asked_;
  (*link)->attach(**qp);
  (*link)->post_receives();
  if (const auto accepted = id.accept(); !accepted) fault("cannot accept: " + message_of(accepted.error()));
  all_[id.number()] = {std::move(*link), id, request.peer.to_string(), false, patience()};
}

void UdpingServer::on(const cm::Established& up) {
  const auto at = all_.find(up.id.number());
  const auto* way = std::get_if<ib::Parameters>(&up.parameters);
  if (at == all_.end() || way == nullptr || !way->ah) return;
  // The client does not send its Q_Key. It is that of its service, the same as on this side.
  at->second.link->aim(*way->ah, 0, at->second.id.qp()->query().qkey.value_or(0));
}

void UdpingServer::handle(const cm::Event& event) {
  if (const auto* failed = std::get_if<cm::ConnectFailed>(&event); failed != nullptr && failed->id == listener_) {
    listen_failure_ = failed->why;
    return;
  }
  report_.event(event);
  if (const auto* request = std::get_if<cm::ConnectRequest>(&event)) return on(*request);
  if (const auto* up = std::get_if<cm::Established>(&event)) return on(*up);
  const auto gone = [&](cm::Id id, const cm::Failure& why) {
    const auto at = all_.find(id.number());
    if (at == all_.end()) return;
    fault(why.to_string(at->second.peer));
    at->second.id.destroy();
    all_.erase(at);
  };
  if (const auto* failed = std::get_if<cm::ConnectFailed>(&event)) gone(failed->id, failed->why);
  if (const auto* down = std::get_if<cm::Disconnected>(&event)) gone(down->id, down->why);
}

/// Returns whether this client is finished.
bool UdpingServer::move_data(One& one) {
  UdpingLink& link = *one.link;
  const std::uint64_t strays = link.strays();
  const std::uint32_t messages = link.received() + link.sent();
  (void)link.poll();
  if (link.received() + link.sent() != messages) one.answer_by = patience();
  if (strays == 0 && link.strays() != 0)
    context_.out.note(fmt::format("note: {}: {}", one.peer, link.strays_text().substr(2)));
  if (link.aimed() && link.received_all() && !std::exchange(one.replied, true)) link.send_all();
  if (link.fault()) {
    fault(fmt::format("{}: {}", one.peer, *link.fault()));
    return true;
  }
  if (one.replied && link.sent_all()) {
    ++served_;
    return true;
  }
  if (session_.now() < one.answer_by) return false;
  fault(
      fmt::format("{} of {} messages came from {}, and none for {}: datagrams may be lost, and nothing repeats them{}",
                  link.received(), args_.messages, one.peer, duration_text(args_.timeout), link.strays_text()));
  return true;
}

void UdpingServer::move_data() {
  for (auto at = all_.begin(); at != all_.end();) {
    One& one = at->second;
    if (!move_data(one)) {
      ++at;
      continue;
    }
    received_ += one.link->received();
    sent_ += one.link->sent();
    report_.forget(one.id);
    one.id.destroy();
    at = all_.erase(at);
  }
}

Instant UdpingServer::next_deadline() const {
  Instant next = never;
  for (const auto& [number, one] : all_) next = std::min(next, one.answer_by);
  return next;
}

int UdpingServer::run(const Address& local) {
  cm::ListenOptions options;
  options.transport = ib::Options{.qp_type = QpType::ud};
  const auto listener = session_.cm().listen(local, options);
  if (!listener)
    return context_.out.error(Exit::usage,
                              fmt::format("cannot listen with these options: {}", message_of(listener.error())));
  listener_ = *listener;
  while (!over() && !Session::stopped() && !listen_failure_) {
    session_.turn(next_deadline());
    while (auto event = session_.cm().poll_event()) handle(*event);
    move_data();
  }
  if (listen_failure_)
    return context_.out.error(exit_for(*listen_failure_), listen_failure_text(*listen_failure_, local));
  session_.settle();  // send the last datagrams, and repeat a SIDR_REP that was lost
  for (auto& [number, one] : all_) one.id.destroy();
  all_.clear();
  listener_.destroy();
  session_.settle();
  return summary();
}

int UdpingServer::summary() {
  const auto captured = session_.finish();
  std::string text = fmt::format("{} served, {} of {} octets received, {} sent", counted(served_, "client"),
                                 counted(received_, "message"), args_.size, sent_);
  if (refused_ > 0) text += fmt::format("; {} rejected", refused_);
  context_.out.text(text);
  Json object{{"event", "summary"},  {"command", "udping"},
              {"role", "server"},    {"size", args_.size},
              {"clients", served_},  {"faulty", faulty_},
              {"refused", refused_}, {"messages", {{"received", received_}, {"sent", sent_}}}};
  object.update(report_.tally_json());
  context_.out.object(object);
  if (!captured) return context_.out.error(captured.error().exit, captured.error().text);
  if (last_fault_) return context_.out.error(Exit::failed, *last_fault_);
  return code(Exit::ok);
}

}  // namespace

int run_udping_server(const UdpingArgs& args, const Address& local, Session& session, Context& context) {
  return UdpingServer(args, session, context).run(local);
}

}  // namespace parley::tools
