// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley udping -m GROUP`: a receiver or a sender of a multicast group, like mckey(1). There are no connections and no
// replies: a receiver waits for a number of datagrams from any sender, and a sender sends this number to the group and
// ends.
#include <fmt/format.h>

#include "base/gid.hpp"
#include "base/text.hpp"
#include "nic/common/ud_steps.hpp"
#include "parley/roce.hpp"
#include "parley/wire/ib.h"
#include "tools/udping/udping.hpp"
#include "tools/udping/udping_link.hpp"
#include "wire/ib/cma.hpp"

namespace parley::tools {

namespace {

class UdpingGroup {
 public:
  UdpingGroup(const UdpingArgs& args, const Address& group, const Address& local, Session& session, Context& context)
      : args_(args), group_(group), local_(local), session_(session), context_(context) {}

  int run();

 private:
  void take_address();
  void make_queue_pair();
  void begin();
  void handle(const cm::Event& event);
  void fault(Exit exit, std::string text) {
    if (!fault_) fault_ = CommandError{exit, std::move(text)};
  }
  void fault(const char* what, const Error& why) {
    fault(Exit::environment, fmt::format("{}: {}", what, message_of(why)));
  }
  bool over() const { return begun_ && (args_.send ? link_->sent_all() : link_->received_all()); }
  std::string late() const;
  int summary();

  const UdpingArgs& args_;
  const Address group_, local_;
  Session& session_;
  Context& context_;
  std::unique_ptr<UdpingLink> link_;  // outlives the queue pair
  std::unique_ptr<QueuePair> qp_;
  cm::Id listener_;  // reserves the address, so that its interface can join; requests for a service are rejected
  bool begun_ = false;
  Instant progress_at_{};
  std::optional<CommandError> fault_;
};

void UdpingGroup::take_address() {
  cm::ListenOptions options;
  options.transport = ib::Options{.qp_type = QpType::ud};
  const auto listener = session_.cm().listen(local_, options);
  if (!listener) return fault(Exit::usage, fmt::format("cannot use this address: {}", message_of(listener.error())));
  listener_ = *listener;
}

void UdpingGroup::make_queue_pair() {
  Device& device = session_.device();
  const auto pd = session_.pd(device);
  if (!pd) return fault(pd.error().exit, pd.error().text);
  auto link = UdpingLink::create(device, *pd, args_.messages, args_.size);
  if (!link) return fault(link.error().exit, link.error().text);
  link_ = std::move(*link);
  auto qp = device.create_qp(link_->init());
  if (!qp) return fault("cannot create a queue pair", qp.error());
  qp_ = std::move(*qp);
  if (const auto moved = nic::move_to_rts(*qp_, wire::ib::udp_q_key); !moved)
    return fault("cannot move the queue pair", moved.error());
  link_->attach(*qp_);
}

void UdpingGroup::begin() {
  make_queue_pair();
  if (fault_) return;
  const Gid gid = gid_of(group_);
  if (args_.send) {
    link_->aim({.grh = GlobalRoute{.dgid = gid}}, PARLEY_IB_QPN_MULTICAST, wire::ib::udp_q_key);
    link_->send_all();
  } else {
    link_->post_receives();
    if (const auto joined = roce::queue_pair(qp_.get())->attach_multicast(gid); !joined)
      return fault("cannot join the group", joined.error());
    context_.out.text(fmt::format("listening to {} at {}", args_.group, args_.bind));
    context_.out.object({{"event", "joined"}, {"group", args_.group}, {"gid", gid_text(gid)}, {"local", args_.bind}});
  }
  begun_ = true;
  progress_at_ = session_.now();
}

void UdpingGroup::handle(const cm::Event& event) {
  if (const auto* failed = std::get_if<cm::ConnectFailed>(&event); failed != nullptr && failed->id == listener_)
    return fault(exit_for(failed->why), listen_failure_text(failed->why, local_));
  if (std::holds_alternative<cm::Listening>(event)) return begin();
  if (const auto* request = std::get_if<cm::ConnectRequest>(&event)) {
    cm::Id id = request->id;
    (void)id.reject();
    id.destroy();
  }
}

std::string UdpingGroup::late() const {
  return fmt::format("{} of {} messages came, and none for {}: datagrams may be lost, and nothing repeats them{}",
                     link_ ? link_->received() : 0, args_.messages, duration_text(args_.timeout),
                     link_ ? link_->strays_text() : std::string());
}

int UdpingGroup::run() {
  const bool patient = args_.timeout == Duration{0} || (!args_.send && !args_.timeout_given);
  progress_at_ = session_.now();
  take_address();
  while (!fault_ && !over()) {
    const Instant deadline = patient ? never : progress_at_ + args_.timeout;
    session_.turn(deadline);
    while (auto event = session_.cm().poll_event()) handle(*event);
    if (link_ && link_->poll()) progress_at_ = session_.now();
    if (link_ && link_->fault()) fault(Exit::failed, *link_->fault());
    if (Session::stopped())
      fault(Exit::failed, "interrupted");
    else if (session_.now() >= deadline && !over())
      fault(Exit::failed, late());
  }
  session_.settle();  // send the last datagrams
  return summary();
}

int UdpingGroup::summary() {
  if (!fault_ && link_ && link_->strays() != 0) context_.out.note("note: " + link_->strays_text().substr(2));
  const std::uint64_t received = link_ ? link_->received() : 0, sent = link_ ? link_->sent() : 0;
  qp_.reset();
  listener_.destroy();
  session_.settle();
  const auto captured = session_.finish();
  if (!fault_)
    context_.out.text(fmt::format("{} of {} octets {} {}", counted(args_.send ? sent : received, "message"), args_.size,
                                  args_.send ? "sent to" : "received from", args_.group));
  Json object{{"event", "summary"},   {"command", "udping"}, {"role", args_.send ? "sender" : "receiver"},
              {"group", args_.group}, {"size", args_.size},  {"messages", {{"received", received}, {"sent", sent}}}};
  object.update(Reporter(context_.out).tally_json());
  context_.out.object(object);
  if (!captured) return context_.out.error(captured.error().exit, captured.error().text);
  if (fault_) return context_.out.error(fault_->exit, fault_->text);
  return code(Exit::ok);
}

}  // namespace

int run_udping_group(const UdpingArgs& args, const Address& group, const Address& local, Session& session,
                     Context& context) {
  return UdpingGroup(args, group, local, session, context).run();
}

}  // namespace parley::tools
