// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Moves a request from one host of the process to another: its rdma_cm_id changes the event channel, and the kernel
// moves its pending events with it. In between it has a separate channel.
#include <cerrno>
#include <utility>

#include "cm/failure_text.hpp"
#include "drivers/rdmacm/provider.hpp"
#include "drivers/verbs/convert.hpp"

namespace parley::rdmacm {
namespace {

struct DetachedId final : cm::DetachedRequestBody {
  DetachedId() = default;
  ~DetachedId() override {
    if (cm != nullptr) rdma_destroy_id(cm);
    if (channel != nullptr) rdma_destroy_event_channel(channel);
  }
  DetachedId(const DetachedId&) = delete;
  DetachedId& operator=(const DetachedId&) = delete;

  rdma_event_channel* channel = nullptr;
  rdma_cm_id* cm = nullptr;
  QpType type = QpType::rc;
  Address local{}, peer{};
  cm::Depths depths{}, offered{};
  std::uint8_t retry_count = 7, rnr_retry_count = 7;
  Duration reply_timeout{}, keepalive{}, dead_after{};
  Instant start{};
};

}  // namespace

// rdma_migrate_id waits until every event of the id is acknowledged; here each one is acknowledged when it is taken.
Result<std::unique_ptr<cm::DetachedRequestBody>> Rdmacm::detach(EndpointId endpoint) {
  Connection* c = find(endpoint);
  if (auto may = cm::check_detach(c != nullptr, c != nullptr && c->phase == Phase::deciding, c != nullptr && c->qp);
      !may)
    return tl::unexpected(may.error());
  auto moving = std::make_unique<DetachedId>();
  moving->channel = rdma_create_event_channel();
  if (moving->channel == nullptr) return verbs::refused(errno, "rdma_create_event_channel: errno {a}");
  if (rdma_migrate_id(c->cm, moving->channel) != 0) return verbs::refused(errno, "rdma_migrate_id: errno {a}");
  moving->cm = std::exchange(c->cm, nullptr);
  moving->cm->context = nullptr;
  moving->type = c->type;
  moving->local = c->local;
  moving->peer = c->peer;
  moving->depths = c->depths;
  moving->offered = c->offered;
  moving->retry_count = c->retry_count;
  moving->rnr_retry_count = c->rnr_retry_count;
  moving->reply_timeout = c->reply_timeout;
  moving->keepalive = c->keepalive;
  moving->dead_after = c->dead_after;
  moving->start = c->start;
  trace_moved(*c);
  free_slot(endpoint);
  return moving;
}

Result<void> Rdmacm::adopt(EndpointId endpoint, std::unique_ptr<cm::DetachedRequestBody>& body,
                           const cm::ConnectRequest& request) {
  auto* moving = dynamic_cast<DetachedId*>(body.get());
  if (moving == nullptr)
    return fail(Errc::unsupported,
                "the request is not of the provider rdmacm; adopt() it at a Manager of its own kind");
  const auto device = device_for(moving->cm->verbs);
  if (!device) return tl::unexpected(device.error());
  auto made = std::make_unique<Connection>();
  Connection& c = *made;
  Slot& slot = slot_for(endpoint);
  const cm::Pending::Answer answer = core_->pending.admit(endpoint, moving->peer);
  if (answer.evicted != 0) give_way(answer.evicted, clock_now());
  if (!answer.admitted)
    return fail(Errc::no_space,
                "{a} adopted requests are pending, which is ManagerOptions::pending_max; decide some first",
                core_->pending.limit_of(cm::Pending::adopted));
  // From here on the kernel reports to this host, including events from in between.
  void* const before = std::exchange(moving->cm->context, reinterpret_cast<void*>(endpoint));
  if (rdma_migrate_id(moving->cm, channel_) != 0) {
    moving->cm->context = before;
    return verbs::refused(errno, "rdma_migrate_id: errno {a}");
  }
  core_->pending.our_turn(endpoint);
  c.id = endpoint;
  c.phase = Phase::deciding;
  c.initiator = false;
  c.cm = std::exchange(moving->cm, nullptr);
  c.device = *device;
  c.type = moving->type;
  c.local = moving->local;
  c.peer = moving->peer;
  c.depths = moving->depths;
  c.offered = moving->offered;
  c.retry_count = moving->retry_count;
  c.rnr_retry_count = moving->rnr_retry_count;
  c.reply_timeout = moving->reply_timeout;
  c.keepalive = moving->keepalive;
  c.dead_after = moving->dead_after;
  c.start = moving->start;
  slot.connection = std::move(made);
  begin_trace(c);
  record(c, trace::Requested{request.private_data.size()});
  return {};
}

}  // namespace parley::rdmacm
