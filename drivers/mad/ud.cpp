// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/mad/ud.hpp"

#include <algorithm>

#include "nic/common/ud_steps.hpp"
#include "parley/wire/ib.h"
#include "wire/ib/roce.hpp"

namespace parley::mad_driver {

namespace {

constexpr std::size_t network_octets = PARLEY_ROCE_GRH_LEN;  // before each received datagram (IBA §11.4)
constexpr std::size_t slot_octets = network_octets + PARLEY_IB_MAD_LEN;

mad::Grh sender_in(ConstBytes network) {
  const auto header = wire::ib::header_of_datagram(network);
  return {.gid = header.source, .traffic_class = header.traffic_class, .flow_label = header.flow_label};
}

bool leads_nowhere(const Error& why) { return why.code() == Errc::timed_out || why.code() == Errc::unreachable; }

}  // namespace

UdTransport::UdTransport(Device& device, const UdOptions& options)
    : device_(device), options_(options), facts_{.smp = false, .lids = false, .window_max = options.depth / 2} {}

UdTransport::~UdTransport() {
  qp_.reset();
  send_cq_.reset();
  recv_cq_.reset();
  handles_.clear();
  if (region_.lkey != 0) static_cast<void>(device_.dereg_mr(region_.lkey));
  if (pd_ != 0) static_cast<void>(device_.dealloc_pd(pd_));
}

Result<std::unique_ptr<UdTransport>> UdTransport::open(Device& device, const UdOptions& options) {
  if (options.depth < 2 || options.depth > 4096)
    return fail(Errc::invalid_argument, "UdOptions::depth is {a}; it must be 2 to 4096", options.depth);
  std::unique_ptr<UdTransport> out(new UdTransport(device, options));
  if (const auto made = out->set_up(); !made) return tl::unexpected(made.error());
  return out;
}

Result<void> UdTransport::set_up() {
  const auto pd = device_.alloc_pd();
  if (!pd) return tl::unexpected(pd.error());
  pd_ = *pd;
  memory_.resize(std::size_t{2} * options_.depth * slot_octets);
  const auto region = device_.reg_mr(pd_, memory_, Access::local_write);
  if (!region) return tl::unexpected(region.error());
  region_ = *region;
  auto send_cq = device_.create_cq(options_.depth), recv_cq = device_.create_cq(options_.depth);
  if (!send_cq || !recv_cq) return tl::unexpected(send_cq ? recv_cq.error() : send_cq.error());
  send_cq_ = std::move(*send_cq);
  recv_cq_ = std::move(*recv_cq);
  auto qp = device_.create_qp({.type = QpType::ud,
                               .pd = pd_,
                               .send_cq = send_cq_.get(),
                               .recv_cq = recv_cq_.get(),
                               .max_send_wr = options_.depth,
                               .max_recv_wr = options_.depth});
  if (!qp) return tl::unexpected(qp.error());
  qp_ = std::move(*qp);
  if (const auto moved = nic::move_to_rts(*qp_, options_.qkey, options_.port); !moved) return moved;
  for (std::uint32_t i = 0; i < options_.depth; ++i) {
    if (const auto posted = post_receive(i); !posted) return posted;
    free_.push_back(options_.depth + i);
  }
  return {};
}

MutBytes UdTransport::slot(std::uint32_t index) { return MutBytes(memory_).subspan(index * slot_octets, slot_octets); }

Result<void> UdTransport::post_receive(std::uint32_t index) {
  const Sge piece{region_.addr + index * slot_octets, static_cast<std::uint32_t>(slot_octets), region_.lkey};
  return qp_->post_recv({.wr_id = index, .sges = {&piece, 1}});
}

/// Reclaims the slots of datagrams that were sent.
Result<void> UdTransport::reap_sends() {
  WorkCompletion done;
  while (send_cq_->poll({&done, 1}) == 1) {
    if (done.status != WcStatus::success)
      return fail(Errc::io, "sending on the queue pair failed: completion status {a}",
                  static_cast<std::int64_t>(done.status));
    free_.push_back(static_cast<std::uint32_t>(done.wr_id));
  }
  return {};
}

Result<AddressHandle*> UdTransport::handle_to(const mad::Address& to) {
  const mad::Grh& grh = *to.grh;
  const AhAttr attr{.grh = GlobalRoute{.dgid = grh.gid,
                                       .flow_label = grh.flow_label,
                                       .sgid_index = options_.gid_index,
                                       .hop_limit = grh.hop_limit,
                                       .traffic_class = grh.traffic_class},
                    .sl = to.sl,
                    .port_num = options_.port};
  const Way way{grh.gid, grh.flow_label, grh.hop_limit, grh.traffic_class, to.sl};
  if (const auto known = handles_.find(way); known != handles_.end()) return known->second.get();
  if (handles_.size() >= handles_max) {
    if (free_.size() < options_.depth) return nullptr;  // one of them may be in use
    handles_.clear();
  }
  if (options_.reach)
    if (const auto reached = options_.reach(attr); !reached) return tl::unexpected(reached.error());
  auto made = device_.create_ah(pd_, attr);
  if (!made) return tl::unexpected(made.error());
  return handles_.emplace(way, std::move(*made)).first->second.get();
}

Result<bool> UdTransport::send(const mad::Address& to, ConstBytes mad) {
  if (mad.size() != PARLEY_IB_MAD_LEN)
    return fail(Errc::invalid_argument, "a queue pair carries management datagrams of 256 octets, not {a}",
                static_cast<std::int64_t>(mad.size()));
  if (!to.grh) return fail(Errc::invalid_argument, "on RoCE, a management datagram needs a destination GID");
  if (const auto taken = reap_sends(); !taken) return tl::unexpected(taken.error());
  if (free_.empty()) return false;
  const auto handle = handle_to(to);
  if (!handle && leads_nowhere(handle.error())) {
    if (refused_.size() < refused_max) refused_.emplace_back(to, Bytes(mad.begin(), mad.end()));  // else it is lost
    return true;
  }
  if (!handle) return tl::unexpected(handle.error());
  if (*handle == nullptr) return false;
  const std::uint32_t index = free_.back();
  std::copy(mad.begin(), mad.end(), slot(index).begin());
  const Sge piece{region_.addr + index * slot_octets, static_cast<std::uint32_t>(mad.size()), region_.lkey};
  const auto posted = qp_->post_send(
      {.wr_id = index, .sges = {&piece, 1}, .ah = *handle, .remote_qp_num = to.qpn, .remote_qkey = to.qkey});
  if (!posted && posted.error().code() == Errc::no_space) return false;
  if (!posted) return tl::unexpected(posted.error());
  free_.pop_back();
  return true;
}

Result<std::optional<mad::Transport::Received>> UdTransport::receive() {
  if (held_) {
    if (const auto posted = post_receive(*held_); !posted) return tl::unexpected(posted.error());
    held_.reset();
  }
  if (std::exchange(gave_refused_, false)) refused_.pop_front();
  if (!refused_.empty()) {
    gave_refused_ = true;
    return std::optional(Received{refused_.front().first, refused_.front().second, true});
  }
  if (const auto taken = reap_sends(); !taken) return tl::unexpected(taken.error());
  WorkCompletion done;
  if (recv_cq_->poll({&done, 1}) == 0) return std::optional<Received>();
  if (done.status != WcStatus::success)
    return fail(Errc::io, "receiving on the queue pair failed: completion status {a}",
                static_cast<std::int64_t>(done.status));
  held_ = static_cast<std::uint32_t>(done.wr_id);
  const ConstBytes octets = slot(*held_);
  Received out;
  out.mad = octets.subspan(network_octets, std::max<std::size_t>(done.byte_len, network_octets) - network_octets);
  out.from.lid = 0;
  out.from.qpn = done.src_qp;
  out.from.qkey = options_.qkey;
  // IBA §A16, §A17: always present on RoCE, although Linux's rxe does not set the flag in the completion.
  out.from.grh = sender_in(octets.first(network_octets));
  return std::optional(out);
}

}  // namespace parley::mad_driver
