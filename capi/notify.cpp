// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What queues report by themselves: a completion for which a program requested an event, and a shared receive queue that runs low.
#include "capi/context.hpp"
#include "capi/options.hpp"

namespace parley::capi {

int Context::req_notify(parley_cq cq, bool solicited_only) {
  CompletionQueue* queue = this->cq(cq);
  if (queue == nullptr) return no_cq(cq);
  const auto armed = queue->req_notify(solicited_only ? Notify::solicited : Notify::next_comp);
  return armed ? 0 : fail(armed.error());
}

int Context::next_cq_event(parley_cq& out) {
  const CompletionQueue* queue = channel_->poll_event();
  if (queue == nullptr) {
    if (!manager().has_events()) may_be_drained();
    return 0;
  }
  const auto found = cq_numbers_.find(queue);
  out = found != cq_numbers_.end() ? found->second : 0;
  return 1;
}

void Context::may_be_drained() {
  if (channel_->waiting() == 0) backend_->drained();
}

int Context::arm_srq(parley_srq srq, std::uint32_t limit) {
  SharedReceiveQueue* queue = this->srq(srq);
  if (queue == nullptr) return no_srq(srq);
  srq_numbers_.emplace(queue, srq);
  const auto armed = queue->modify({.srq_limit = limit});
  if (!armed) return fail(armed.error());
  backend_->called();  // the event may be there already
  return 0;
}

/// Returns 1 if a limit was reached, 0 or a code after fail(). Events of queue pairs are not for C programs.
int Context::next_srq_event(parley_event& out) {
  if (const int rc = check_size<parley_event>(out.size); rc != 0) return rc;  // before the event is taken
  while (const auto event = device().poll_async_event()) {
    const auto* reached = std::get_if<SrqLimitReached>(&*event);
    if (reached == nullptr) continue;
    parley_event filled = PARLEY_EVENT_INIT;
    filled.type = PARLEY_EVENT_SRQ_LIMIT_REACHED;
    filled.srq = srq_numbers_.at(reached->srq);
    filled.reason = filled.rule = filled.received = filled.advice = "";
    write_attributes(&out, filled);
    return 1;
  }
  return 0;
}

}  // namespace parley::capi

using namespace parley::capi;

extern "C" int parley_req_notify_cq(parley_ctx* ctx, parley_cq cq, int solicited_only) {
  return with_context(ctx, [&](Context& c) { return c.req_notify(cq, solicited_only != 0); });
}

extern "C" int parley_next_cq_event(parley_ctx* ctx, parley_cq* out) {
  return with_context(ctx, [&](Context& c) {
    return out != nullptr ? c.next_cq_event(*out) : fail(PARLEY_E_INVALID_ARGUMENT, "out is null");
  });
}

extern "C" int parley_modify_srq(parley_ctx* ctx, parley_srq srq, uint32_t limit) {
  return with_context(ctx, [&](Context& c) { return c.arm_srq(srq, limit); });
}
