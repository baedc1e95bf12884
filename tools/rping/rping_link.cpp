// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/rping/rping_link.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/bytes_io.hpp"
#include "tools/report.hpp"

namespace parley::tools {

namespace {

constexpr std::uint8_t first_letter = 'A', last_letter = 'z';
constexpr std::uint32_t letters = last_letter - first_letter + 1;

/// The wr_id of the zero-length Write of nudge().
constexpr std::uint64_t nudge_id = ~std::uint64_t{0};

}  // namespace

void RpingInfo::emit(MutBytes out) const {
  Writer w(out);
  w.be64(to);
  w.be32(stag);
  w.be32(size);
}

RpingInfo RpingInfo::parse(ConstBytes in) {
  Reader r(in);
  RpingInfo info;
  info.to = r.be64();
  info.stag = r.be32();
  info.size = r.be32();
  return info;
}

void rping_fill(MutBytes out, std::uint32_t ping) {
  if (out.empty()) return;
  const std::string head = fmt::format("rdma-ping-{}: ", ping);
  std::uint32_t letter = ping % letters;
  std::size_t at = 0;
  for (std::uint8_t& octet : out) {
    if (at < head.size()) {
      octet = static_cast<std::uint8_t>(head[at]);
    } else {
      octet = static_cast<std::uint8_t>(first_letter + letter);
      letter = (letter + 1) % letters;
    }
    ++at;
  }
  out.back() = 0;
}

std::optional<std::size_t> rping_difference(ConstBytes data, std::uint32_t ping) {
  Bytes expected(data.size());
  rping_fill(expected, ping);
  const auto at = std::mismatch(data.begin(), data.end(), expected.begin()).first;
  if (at == data.end()) return std::nullopt;
  return static_cast<std::size_t>(at - data.begin());
}

std::string rping_text(ConstBytes data) {
  return std::string(data.begin(), std::find(data.begin(), data.end(), std::uint8_t{0}));
}

std::string rping_depth_text(const mpa::Parameters& parameters) {
  if (parameters.depths_negotiated) return {};
  // RFC 5044 has no field for IRD and ORD. RFC 6581 §9.1 introduced them; the value 0x3FFF leaves them to the ULP.
  return fmt::format(
      "IRD and ORD were not negotiated ({}), so the other end may hold them at 0 and refuse rping's RDMA "
      "Read, as Linux siw does under revision 1; use revision 2 at both ends",
      parameters.revision < 2 ? fmt::format("MPA revision {} has no field for them", parameters.revision)
                              : "the peer left them to the ULP");
}

RpingLink::RpingLink(Device& device, PdHandle pd, std::uint32_t size) : device_(device), pd_(pd), size_(size) {
  memory_.resize(send_at(send_slots));
}

Or<std::unique_ptr<RpingLink>> RpingLink::create(Device& device, PdHandle pd, std::uint32_t size) {
  std::unique_ptr<RpingLink> link(new RpingLink(device, pd, size));
  auto cq = device.create_cq(send_wrs + receive_slots);
  if (!cq)
    return tools::command_error(Exit::environment, "cannot create a completion queue: " + message_of(cq.error()));
  link->cq_ = std::move(*cq);
  if (const auto registered = link->register_all(); !registered)
    return tools::command_error(Exit::environment, "cannot register memory: " + message_of(registered.error()));
  return link;
}

// Each region has the access rights that its use requires. On iWARP the peer writes to the sink of a Read
// (RFC 5040 §4.4).
parley::Result<void> RpingLink::register_all() {
  const std::size_t receives = control(), sends = send_at(0);
  const struct {
    MemoryRegion& region;
    std::size_t begin, end;
    Access access;
  } buffers[] = {{source_region_, 0, size_, Access::remote_read},
                 {sink_region_, size_, receives, Access::local_write | Access::remote_write},
                 {receive_region_, receives, sends, Access::local_write},
                 {send_region_, sends, memory_.size(), Access::none}};
  for (const auto& b : buffers) {
    const auto made = device_.reg_mr(pd_, MutBytes(memory_).subspan(b.begin, b.end - b.begin), b.access);
    if (!made) return tl::unexpected(made.error());
    b.region = *made;
  }
  return {};
}

RpingLink::~RpingLink() {
  for (const MemoryRegion& region : {source_region_, sink_region_, receive_region_, send_region_})
    if (region.lkey != 0) (void)device_.dereg_mr(region.lkey);
}

QpInit RpingLink::init() const {
  QpInit init;
  init.pd = pd_;
  init.send_cq = cq_.get();
  init.recv_cq = cq_.get();
  init.max_send_wr = send_wrs;
  init.max_recv_wr = receive_slots;
  return init;
}

void RpingLink::report_error(std::string text) {
  if (!fault_) fault_ = std::move(text);
}

void RpingLink::attach(QueuePair& qp) {
  qp_ = &qp;
  for (std::uint64_t slot = 0; slot < receive_slots; ++slot) post_receive(slot);
}

void RpingLink::post_receive(std::uint64_t slot) {
  const std::array sges{Sge{receive_region_.addr + receive_at(slot) - control(), receive_octets, receive_region_.lkey}};
  if (const auto posted = qp_->post_recv({slot, sges}); !posted && accepts_work(*qp_))
    report_error("cannot post a receive: " + message_of(posted.error()));
}

void RpingLink::post(SendWr& wr, std::string_view what) {
  if (const auto posted = qp_->post_send(wr); !posted)
    report_error(fmt::format("cannot post the {}: {}", what, message_of(posted.error())));
}

void RpingLink::send(const RpingInfo& info) {
  const std::uint64_t slot = sends_++ % send_slots;
  info.emit(MutBytes(memory_).subspan(send_at(slot), RpingInfo::wire_size));
  const std::array sges{Sge{send_region_.addr + send_at(slot) - send_at(0), RpingInfo::wire_size, send_region_.lkey}};
  SendWr wr;
  wr.sges = sges;
  post(wr, "Send");
}

void RpingLink::read_to_sink(const RpingInfo& from) {
  const std::array sges{Sge{sink_region_.addr, from.size, sink_region_.lkey}};
  SendWr wr;
  wr.opcode = SendWr::Opcode::rdma_read;
  wr.sges = sges;
  wr.rkey = from.stag;
  wr.remote_addr = from.to;
  post(wr, "RDMA Read");
}

void RpingLink::write_from_sink(const RpingInfo& to, std::uint32_t length) {
  const std::array sges{Sge{sink_region_.addr, length, sink_region_.lkey}};
  SendWr wr;
  wr.opcode = SendWr::Opcode::rdma_write;
  wr.sges = sges;
  wr.rkey = to.stag;
  wr.remote_addr = to.to;
  post(wr, "RDMA Write");
}

void RpingLink::nudge() {
  SendWr wr;
  wr.wr_id = nudge_id;
  wr.opcode = SendWr::Opcode::rdma_write;
  wr.rkey = 1;  // not checked at length zero; some hardware rejects 0 anyway
  post(wr, "zero-length RDMA Write");
}

std::optional<RpingLink::Done> RpingLink::poll() {
  std::array<WorkCompletion, 1> one;
  while (!fault_ && cq_->poll(one) == 1) {
    const WorkCompletion& wc = one.front();
    if (wc.status == WcStatus::wr_flush_err) continue;
    if (wc.status != WcStatus::success) {
      failed_ = wc;
      report_error(fmt::format("{} ended with: {}", to_string(wc.opcode), to_string(wc.status)));
      break;
    }
    switch (wc.opcode) {
      case WcOpcode::send: return Done{WorkKind::sent, 0, {}};
      case WcOpcode::rdma_read: return Done{WorkKind::read, wc.byte_len, {}};
      case WcOpcode::rdma_write: return Done{wc.wr_id == nudge_id ? WorkKind::nudged : WorkKind::written, 0, {}};
      case WcOpcode::recv: {
        Done done{WorkKind::received, wc.byte_len, {}};
        if (wc.byte_len == RpingInfo::wire_size)
          done.info = RpingInfo::parse(ConstBytes(memory_).subspan(receive_at(wc.wr_id), RpingInfo::wire_size));
        post_receive(wc.wr_id);
        return done;
      }
      default: report_error(fmt::format("unexpected completion: {}", to_string(wc.opcode)));
    }
  }
  return std::nullopt;
}

std::string RpingLink::end_text(const cm::Disconnected& end, const std::string& peer) const {
  // A Terminate says more than the completion status.
  const bool unexplained = end.why.code == make_error_code(Errc::terminated) && end.terminate() == nullptr;
  if (!failed_ || !unexplained) return tools::end_text(end, peer);
  cm::Disconnected told = end;
  if (!told.why.received.empty()) told.why.received += ": ";
  told.why.received += fmt::format("{}: {}", to_string(failed_->opcode), to_string(failed_->status));
  told.why.advice = "docs/verbs.md explains the status";
  return tools::end_text(told, peer);
}

}  // namespace parley::tools
