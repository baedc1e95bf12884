// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Mirror: how it acts. replay_mirror_plan.cpp makes the plan from the recording.
#include "tools/replay/replay_mirror.hpp"

#include <fmt/format.h>

#include <optional>

#include "base/bytes_io.hpp"
#include "cm/providers/iwarp/mpa_options.hpp"

namespace parley::tools {

using capture::Side;
using replay::Item;
using wire::RdmapOpcode;

namespace {

/// Returns false if the request cannot be parsed or verbs have no such operation. RFC 7306 §5.1: every Atomic carries
/// masks.
bool make_atomic(ConstBytes payload, SendWr& wr) {
  const auto a = wire::AtomicRequest::parse(payload);
  if (!a || (a->aop != PARLEY_RDMAP_ATOMIC_FETCH_ADD && a->aop != PARLEY_RDMAP_ATOMIC_CMP_SWAP)) return false;
  const bool add = a->aop == PARLEY_RDMAP_ATOMIC_FETCH_ADD;
  wr.opcode = add ? SendWr::Opcode::masked_atomic_fetch_and_add : SendWr::Opcode::masked_atomic_cmp_and_swp;
  wr.rkey = a->stag;
  wr.remote_addr = a->to;
  wr.compare_add = add ? a->add_swap : a->compare;
  wr.compare_add_mask = add ? a->add_swap_mask : a->compare_mask;
  wr.swap = a->add_swap;
  wr.swap_mask = a->add_swap_mask;
  return true;
}

}  // namespace

Mirror::Mirror(const replay::Recording& recording, Side side, const std::string& quirk, replay::Player& player)
    : recording_(recording),
      side_(side),
      quirk_(quirk),
      player_(player),
      names_(replay::find_names(mine(), theirs())) {}

void Mirror::on_start(sim::Host& host) {
  register_memory(host.device());
  for (const Region& r : regions_) {
    if (r.advertised) continue;
    player_.set_live_stag(r.recorded, r.mr.rkey);
    player_.set_live_to(r.recorded, r.begin, r.mr.addr);
  }
  fill(first_reads_);
  const mpa::StartupOptions options = mpa_options();
  if (peer_) {
    const Item* request = mine().startup();
    Bytes data;
    if (request != nullptr)
      data = with_names(static_cast<std::size_t>(request - mine().items.data()), request->startup->private_data);
    auto id = host.cm().connect(*peer_,
                                cm::with_mpa<cm::ConnectOptions>(options, {.private_data = data, .qp = queue_pair()}));
    if (!id) {
      events_.push_back(fmt::format("Parley cannot request this connection: {}", id.error().message()));
      return player_.fail(events_.back());
    }
    id_ = *id;
    post_receives();
  } else if (auto id =
                 host.cm().listen(Address::any(Address::Family::v4, port_), cm::with_mpa<cm::ListenOptions>(options))) {
    listener_ = *id;
  }
}

void Mirror::answer(const cm::ConnectRequest& request) {
  if (!adopt(request)) return;
  const Item* reply = mine().startup();
  Bytes data;
  if (reply != nullptr)
    data = with_names(static_cast<std::size_t>(reply - mine().items.data()), reply->startup->private_data);
  if (reply != nullptr && reply->startup->r()) {
    (void)id_.reject(data);
    return;
  }
  (void)id_.create_qp(queue_pair());
  post_receives();
  if (const auto done = id_.accept(cm::with_mpa<cm::AcceptOptions>(mpa_options(), {.private_data = data})); !done)
    events_.push_back(fmt::format("Parley cannot accept so: {}", done.error().message()));
  else
    posting_ = true;  // the stack decides when it may send (RFC 5044 §7.1.2 rule 4)
}

void Mirror::event(sim::Host& host, cm::Event event) {
  if (const auto* asked = std::get_if<cm::ConnectRequest>(&event)) return answer(*asked);
  if (const auto* is = std::get_if<cm::Established>(&event); is != nullptr && is_mine(is->id)) {
    up_ = posting_ = true;
    progress_at_ = host.now();
    events_.emplace_back("established");
  }
  note_end(event);
}

void Mirror::completed(sim::Host& host, const WorkCompletion& wc) {
  if (wc.opcode == WcOpcode::recv || wc.opcode == WcOpcode::iwarp_recv_immediate) {
    ++sends_seen_;
    post_receive(wc.wr_id);
  } else if (wc.opcode == WcOpcode::rdma_read || wc.opcode == WcOpcode::fetch_add || wc.opcode == WcOpcode::comp_swap) {
    ++answers_seen_;
  } else {
    return;
  }
  progress_at_ = host.now();
}

bool Mirror::act() {
  const Act& what = acts_[next_act_];
  const Item& item = mine().items[what.item];
  fill(what.reads);
  const bool end = item.kind == Item::Kind::fin || item.kind == Item::Kind::rst;
  if (end && !up_) return false;
  if (item.kind == Item::Kind::fin) {
    (void)id_.disconnect();
    return true;
  }
  if (item.kind == Item::Kind::rst) {
    id_.destroy();
    id_ = {};
    over_ = true;
    return true;
  }
  return post(item, what);
}

// Counts the answer as received, because later acts would wait for it forever.
bool Mirror::not_posted(const Item& item) {
  if (item.is(RdmapOpcode::read_request) || item.is(RdmapOpcode::atomic_request)) ++answers_seen_;
  return true;
}

bool Mirror::post(const Item& item, const Act& what) {
  QueuePair* qp = id_ ? id_.qp() : nullptr;
  if (qp == nullptr) return false;
  SendWr wr;
  wr.wr_id = what.item;
  std::optional<parley::iwarp::ImmediateWr> immediate;
  Bytes payload = with_names(what.item, item.payload);
  std::size_t length = payload.size();
  switch (item.header.opcode) {
    case RdmapOpcode::send_inv:
    case RdmapOpcode::send_se_inv:
      wr.invalidate_rkey = item.header.stag;
      if (wr.invalidate_rkey != 0) wr.opcode = SendWr::Opcode::send_with_inv;  // verbs cannot name STag 0
      [[fallthrough]];
    case RdmapOpcode::send:
    case RdmapOpcode::send_se: wr.solicited = item.is(RdmapOpcode::send_se) || item.is(RdmapOpcode::send_se_inv); break;
    case RdmapOpcode::rdma_write:
      wr.opcode = SendWr::Opcode::rdma_write;
      wr.rkey = item.header.stag;
      wr.remote_addr = item.header.to;
      break;
    case RdmapOpcode::read_request: {
      const auto q = wire::ReadRequest::parse(item.payload);
      if (!q) return not_posted(item);  // verbs have no shorter request (RFC 5040 §4.4)
      wr.opcode = SendWr::Opcode::rdma_read;
      wr.rkey = q->source_stag;
      wr.remote_addr = q->source_to;
      length = q->size;
      payload.clear();
      break;
    }
    case RdmapOpcode::atomic_request:
      if (!make_atomic(item.payload, wr)) return not_posted(item);
      length = sizeof(std::uint64_t);
      payload.clear();
      break;
    case RdmapOpcode::immediate:
    case RdmapOpcode::immediate_se:
      if (length != PARLEY_RDMAP_IMMEDIATE_LEN) return true;  // RFC 7306 §6.1; verbs have no other length
      immediate = {.wr_id = what.item, .data = Reader(payload).be64(), .solicited = item.is(RdmapOpcode::immediate_se)};
      length = 0;
      payload.clear();
      break;
    default: return true;  // verbs cannot post it
  }
  const std::optional<Sge> sge = place(payload, length);
  if (!sge) return not_posted(item);
  if (length > 0) wr.sges = {&*sge, 1};
  const auto posted = immediate ? parley::iwarp::queue_pair(qp)->post_immediate(*immediate) : qp->post_send(wr);
  if (!posted) {
    if (posted.error() == make_error_code(Errc::no_space)) return false;  // a completion frees a slot
    events_.push_back(fmt::format("Parley cannot post the {}: {}", replay::describe(item), posted.error().message()));
    return not_posted(item);
  }
  arena_used_ += length;
  return true;
}

}  // namespace parley::tools
