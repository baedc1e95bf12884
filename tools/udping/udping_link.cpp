// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/udping/udping_link.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/text.hpp"
#include "parley/wire/ib.h"
#include "tools/rping/rping_link.hpp"

namespace parley::tools {

namespace {

constexpr std::uint32_t network_header = PARLEY_ROCE_GRH_LEN;  // before the data of each datagram (IBA §11.4)
constexpr std::uint64_t receive_id = 1, send_id = 2;

}  // namespace

UdpingLink::UdpingLink(Device& device, PdHandle pd, std::uint32_t messages, std::uint32_t size)
    : device_(device), pd_(pd), messages_(messages), size_(size), memory_(network_header + 2 * std::size_t{size}) {}

UdpingLink::~UdpingLink() {
  if (region_.lkey != 0) (void)device_.dereg_mr(region_.lkey);
}

Or<std::unique_ptr<UdpingLink>> UdpingLink::create(Device& device, PdHandle pd, std::uint32_t messages,
                                                   std::uint32_t size) {
  std::unique_ptr<UdpingLink> link(new UdpingLink(device, pd, messages, size));
  auto region = device.reg_mr(pd, link->memory_, Access::local_write);
  if (!region) return command_error(Exit::environment, "cannot register memory: " + message_of(region.error()));
  link->region_ = *region;
  auto cq = device.create_cq(2 * std::max<std::size_t>(messages, 1));
  if (!cq) return command_error(Exit::environment, "cannot create a completion queue: " + message_of(cq.error()));
  link->cq_ = std::move(*cq);
  rping_fill(MutBytes(link->memory_).subspan(network_header + size), 0);
  return link;
}

QpInit UdpingLink::init() const {
  const std::uint32_t depth = std::max(messages_, 1U);
  QpInit init{.pd = pd_, .send_cq = cq_.get(), .recv_cq = cq_.get(), .max_send_wr = depth, .max_recv_wr = depth};
  init.type = QpType::ud;
  return init;
}

Sge UdpingLink::at(std::size_t offset, std::size_t length) const {
  return {.addr = region_.addr + offset, .length = static_cast<std::uint32_t>(length), .lkey = region_.lkey};
}

void UdpingLink::post_receives() {
  for (std::uint32_t i = 0; i < messages_ && !fault_; ++i) post_receive();
}

void UdpingLink::post_receive() {
  const Sge sge = at(0, network_header + size_);
  if (const auto posted = qp_->post_recv({.wr_id = receive_id, .sges = {&sge, 1}}); !posted)
    fail("cannot post a receive: " + message_of(posted.error()));
}

void UdpingLink::aim(const AhAttr& way, std::uint32_t qpn, std::uint32_t qkey) {
  auto ah = device_.create_ah(pd_, way);
  if (!ah) return fail("cannot create an address handle: " + message_of(ah.error()));
  ah_ = std::move(*ah);
  qkey_ = qkey;
  if (qpn_ == 0) qpn_ = qpn;
}

void UdpingLink::send_all() {
  const Sge sge = at(network_header + size_, size_);
  for (std::uint32_t i = 0; i < messages_ && !fault_; ++i) {
    const auto posted = qp_->post_send({.wr_id = send_id,
                                        .opcode = SendWr::Opcode::send_with_imm,
                                        .sges = {&sge, 1},
                                        .imm_data = qp_->qp_num(),
                                        .ah = ah_.get(),
                                        .remote_qp_num = qpn_,
                                        .remote_qkey = qkey_});
    if (!posted) fail("cannot post a send: " + message_of(posted.error()));
  }
}

void UdpingLink::on_receive(const WorkCompletion& done) {
  if (std::string why = stray(done); !why.empty()) {
    ++strays_;
    last_stray_ = std::move(why);
    return post_receive();
  }
  qpn_ = done.src_qp;
  ++received_;
}

/// Why the datagram is not a message of this exchange; empty if it is one. Any host that knows the Q_Key can send to a
/// UD queue pair.
std::string UdpingLink::stray(const WorkCompletion& done) const {
  const std::uint32_t octets = done.byte_len - std::min(done.byte_len, network_header);
  if (octets != size_)
    return fmt::format("queue pair {:#08x} sent {} octets, not {}: give both sides the same -S", done.src_qp, octets,
                       size_);
  if (!done.with_imm || (done.imm_data & PARLEY_IB_QPN_MAX) != done.src_qp)
    return fmt::format(
        "a datagram of queue pair {:#08x} without its number as immediate data: not a message of udaddy or mckey",
        done.src_qp);
  if (aimed() && qpn_ != 0 && done.src_qp != qpn_)
    return fmt::format("queue pair {:#08x} is not the peer's, which is {:#08x}", done.src_qp, qpn_);
  return {};
}

std::string UdpingLink::strays_text() const {
  if (strays_ == 0) return {};
  return fmt::format("; {} {} dropped, the last because {}", counted(strays_, "other datagram"),
                     strays_ == 1 ? "was" : "were", last_stray_);
}

bool UdpingLink::poll() {
  std::array<WorkCompletion, 32> done;
  bool any = false;
  while (const std::size_t n = cq_->poll(done)) {
    any = true;
    for (std::size_t i = 0; i < n; ++i) {
      if (done[i].status == WcStatus::wr_flush_err) continue;
      if (done[i].status != WcStatus::success)
        fail(fmt::format("a {} failed: {}", done[i].wr_id == send_id ? "send" : "receive", to_string(done[i].status)));
      else if (done[i].wr_id == send_id)
        ++sent_;
      else
        on_receive(done[i]);
    }
  }
  return any;
}

}  // namespace parley::tools
