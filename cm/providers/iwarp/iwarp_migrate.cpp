// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Moves a request from one Manager to another. Its state is its Setup, its stream, and the stream's addresses and EMSS.
#include <utility>

#include "cm/failure_text.hpp"
#include "cm/providers/iwarp/iwarp_impl.hpp"

namespace parley::cm::iwarp {
namespace {

struct DetachedSetup final : DetachedRequestBody {
  std::unique_ptr<Setup> setup;
  std::unique_ptr<LooseStream> stream;
  Address local{}, peer{};
  std::uint16_t emss = 0;
};

}  // namespace

Result<std::unique_ptr<DetachedRequestBody>> Iwarp::detach(EndpointId endpoint) {
  Connection* c = known(endpoint);
  if (auto may = check_detach(c != nullptr, c != nullptr && c->phase == Phase::deciding, c != nullptr && c->qp); !may)
    return tl::unexpected(may.error());
  if (mover_ == nullptr)
    return fail(Errc::unsupported, "the streams of this driver stay with it; accept() or reject() the request here");
  auto moving = std::make_unique<DetachedSetup>();
  moving->stream = mover_->detach(c->stream);
  if (!moving->stream) return fail(Errc::wrong_state, "the driver has this request's stream no more: poll its end");
  moving->local = c->local;
  moving->peer = c->peer;
  moving->emss = c->emss;
  moving->setup = std::move(c->setup);
  moving->setup->startup->set_trace(nullptr);
  if (c->trace) trace_moved(*c);
  free_slot(c->slot);
  return moving;
}

Result<void> Iwarp::adopt(EndpointId endpoint, std::unique_ptr<DetachedRequestBody>& body,
                          const ConnectRequest& request) {
  auto* moving = dynamic_cast<DetachedSetup*>(body.get());
  if (moving == nullptr)
    return fail(Errc::unsupported, "the request is not of the provider iwarp; adopt() it at a Manager of its own kind");
  if (mover_ == nullptr)
    return fail(Errc::unsupported, "this driver takes no streams of others; adopt() the request at a TcpHost");
  auto made = std::make_unique<Connection>();
  Connection& c = *made;
  Slot& slot = slot_for(endpoint);
  auto stream = mover_->attach(moving->stream);
  if (!stream) return tl::unexpected(stream.error());
  c.id = endpoint;
  c.slot = EndpointTable::slot(endpoint);
  c.role = mpa::Role::responder;
  c.phase = Phase::startup;
  c.wire = Wire::up;
  c.stream = *stream;
  c.local = moving->local;
  c.peer = moving->peer;
  c.emss = moving->emss;
  const Pending::Answer answer = core_->pending.admit(endpoint, c.peer);
  if (answer.evicted != 0) give_way(answer.evicted, now_, ReachedLimit::pending_max);
  if (!answer.admitted) {
    moving->stream = mover_->detach(*stream);
    return fail(Errc::no_space,
                "{a} adopted requests are pending, which is ManagerOptions::pending_max; decide some first",
                core_->pending.limit_of(Pending::adopted));
  }
  core_->pending.our_turn(endpoint);
  c.setup = std::move(moving->setup);
  accepted_.emplace(c.stream, c.slot);
  slot.connection = std::move(made);
  begin_trace(c);
  trace::record(c.trace.get(), trace::Admitted{});
  c.setup->startup->set_trace(c.trace.get());
  enter(c, Phase::deciding);
  trace::record(c.trace.get(), trace::Requested{request.private_data.size()});
  refresh_deadline(c);
  return {};
}

}  // namespace parley::cm::iwarp
