// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The client of `parley udping`: resolves the service -c times, then sends all datagrams, then waits for the same
// number of replies.
#include <map>

#include <fmt/format.h>

#include "base/text.hpp"
#include "tools/udping/udping.hpp"
#include "tools/udping/udping_link.hpp"

namespace parley::tools {

namespace {

class UdpingClient {
 public:
  UdpingClient(const UdpingArgs& args, const Address& server, std::optional<Address> source, Session& session,
               Context& context)
      : args_(args),
        server_(server),
        source_(source),
        session_(session),
        context_(context),
        report_(context.out, !context.out.json) {}

  int run();

 private:
  struct One {
    std::unique_ptr<UdpingLink> link;  // outlives the id's queue pair
    cm::Id id;
  };
  void ask();
  void handle(const cm::Event& event);
  void on(const cm::Established& up);
  void move_data();
  bool over() const;
  std::uint64_t received() const;
  void fault(Exit exit, std::string text) {
    if (!fault_) fault_ = CommandError{exit, std::move(text)};
  }
  std::string late() const;
  int summary();

  const UdpingArgs& args_;
  const Address server_;
  const std::optional<Address> source_;
  Session& session_;
  Context& context_;
  Reporter report_;
  std::map<std::uint64_t, One> all_;  // at most args_.connections
  std::uint32_t up_ = 0;
  Instant progress_at_{}, begin_{};
  Duration setup_{}, exchange_{};
  std::optional<CommandError> fault_;
};

void UdpingClient::ask() {
  Device& device = session_.device();
  const auto pd = session_.pd(device);
  if (!pd) return fault(pd.error().exit, pd.error().text);
  for (std::uint32_t i = 0; i < args_.connections && !fault_; ++i) {
    auto link = UdpingLink::create(device, *pd, args_.messages, args_.size);
    if (!link) return fault(link.error().exit, link.error().text);
    cm::ConnectOptions options;
    options.transport = ib::Options{.reply_timeout = args_.timeout, .qp_type = QpType::ud};
    options.local = source_;
    options.qp = (*link)->init();
    const auto id = session_.cm().connect(server_, options);
    if (!id)
      return fault(Exit::usage,
                   fmt::format("cannot query {} with these options: {}", server_.to_string(), message_of(id.error())));
    report_.started(*id, server_);
    (*link)->attach(*id->qp());
    (*link)->post_receives();
    all_[id->number()] = {std::move(*link), *id};
  }
}

void UdpingClient::on(const cm::Established& up) {
  const auto* way = std::get_if<ib::Parameters>(&up.parameters);
  if (way == nullptr || !way->ah) return;
  UdpingLink& link = *all_.at(up.id.number()).link;
  link.aim(*way->ah, way->remote_qp_num, way->remote_qkey);
  if (++up_ < args_.connections) return;
  setup_ = session_.now() - begin_;
  for (auto& [number, one] : all_) one.link->send_all();
}

void UdpingClient::handle(const cm::Event& event) {
  report_.event(event);
  progress_at_ = session_.now();
  if (const auto* up = std::get_if<cm::Established>(&event)) return on(*up);
  const std::string server = server_.to_string();
  if (const auto* rejected = std::get_if<cm::Rejected>(&event))
    fault(exit_for(rejected->why), rejected->why.to_string(server));
  else if (const auto* failed = std::get_if<cm::ConnectFailed>(&event))
    fault(exit_for(failed->why), failed->why.to_string(server));
  else if (const auto* down = std::get_if<cm::Disconnected>(&event))
    fault(Exit::failed, end_text(*down, server));
}

void UdpingClient::move_data() {
  for (auto& [number, one] : all_) {
    if (one.link->poll()) progress_at_ = session_.now();
    if (one.link->fault()) fault(Exit::failed, *one.link->fault());
  }
}

bool UdpingClient::over() const {
  if (up_ < args_.connections) return false;
  for (const auto& [number, one] : all_)
    if (!one.link->received_all() || !one.link->sent_all()) return false;
  return true;
}

std::uint64_t UdpingClient::received() const {
  std::uint64_t sum = 0;
  for (const auto& [number, one] : all_) sum += one.link->received();
  return sum;
}

std::string UdpingClient::late() const {
  if (up_ < args_.connections)
    return fmt::format("{} of {} queue pairs within {}", up_, args_.connections, duration_text(args_.timeout));
  std::string strays;
  for (const auto& [number, one] : all_)
    if (strays.empty()) strays = one.link->strays_text();
  return fmt::format(
      "{} of {} messages came, and none for {}: datagrams may be lost, and nothing repeats them; give both "
      "sides the same -c and -C{}",
      received(), std::uint64_t{args_.connections} * args_.messages, duration_text(args_.timeout), strays);
}

int UdpingClient::run() {
  begin_ = progress_at_ = session_.now();
  ask();
  while (!fault_ && !over()) {
    const Instant deadline = args_.timeout == Duration{0} ? never : progress_at_ + args_.timeout;
    session_.turn(deadline);
    while (auto event = session_.cm().poll_event()) handle(*event);
    move_data();
    if (Session::stopped())
      fault(Exit::failed, "interrupted");
    else if (session_.now() >= deadline && !over())
      fault(Exit::failed, late());
  }
  exchange_ = session_.now() - begin_ - setup_;
  return summary();
}

int UdpingClient::summary() {
  std::uint64_t sent = 0;
  for (const auto& [number, one] : all_) {
    sent += one.link->sent();
    if (!fault_ && one.link->strays() != 0) context_.out.note("note: " + one.link->strays_text().substr(2));
  }
  const std::uint64_t came = received();
  for (auto& [number, one] : all_) one.id.destroy();
  all_.clear();
  session_.settle();
  const auto captured = session_.finish();
  if (!fault_)
    context_.out.text(fmt::format("{} resolved in {}; {} of {} octets sent, {} received in {}",
                                  counted(up_, "queue pair"), measured_duration_text(setup_), counted(sent, "message"),
                                  args_.size, came, measured_duration_text(exchange_)));
  Json object{{"event", "summary"},
              {"command", "udping"},
              {"role", "client"},
              {"size", args_.size},
              {"messages", {{"received", came}, {"sent", sent}}}};
  object.update(report_.tally_json());
  context_.out.object(object);
  if (!captured) return context_.out.error(captured.error().exit, captured.error().text);
  if (fault_) return context_.out.error(fault_->exit, fault_->text);
  return code(Exit::ok);
}

}  // namespace

int run_udping_client(const UdpingArgs& args, const Address& server, std::optional<Address> source, Session& session,
                      Context& context) {
  return UdpingClient(args, server, source, session, context).run();
}

}  // namespace parley::tools
