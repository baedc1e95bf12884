// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The DDP and RDMAP engine between a user who posts anything and a peer who sends anything (RFC 5040, 5041, 7306):
// memory outside the registered region stays as it was, every work request completes at most once, everything it sends
// is FPDUs that a deframer takes, and it always comes to rest.
#include <array>
#include <vector>

#include "mpa/framer.hpp"
#include "nic/iwarp/stream_qp.hpp"
#include "tests/fuzz/draw.hpp"
#include "wire/rdmap.hpp"

namespace parley::fuzz {
namespace {

using namespace nic::iwarp;

constexpr std::size_t region_size = 4096;
constexpr std::size_t guard_size = 512;
constexpr std::uint8_t guard_octet = 0xC7;

class Harness {
 public:
  explicit Harness(Draw& draw) : draw_(draw), memory_(region_size + 2 * guard_size, guard_octet) {
    const std::uint8_t flags = draw.u8();
    device_ = make_device();
    const PdHandle pd = *device_->alloc_pd();
    const Access access =
        (flags & 1) != 0 ? Access::local_write | Access::remote_read
                         : Access::local_write | Access::remote_write | Access::remote_read | Access::remote_atomic;
    region_ = *device_->reg_mr(pd, MutBytes(memory_).subspan(guard_size, region_size), access);
    send_cq_ = *device_->create_cq(64);
    channel_ = *device_->create_comp_channel();
    recv_cq_ = *device_->create_cq({.capacity = 64, .channel = channel_.get()});
    if ((flags & 2) != 0) srq_ = *device_->create_srq(pd, 16);
    qp_ = *device_->create_stream_qp({.pd = pd,
                                      .send_cq = send_cq_.get(),
                                      .recv_cq = recv_cq_.get(),
                                      .srq = srq_.get(),
                                      .max_send_wr = 16,
                                      .max_recv_wr = 16});
    AttachOptions attach;
    attach.role = (flags & 4) != 0 ? mpa::Role::initiator : mpa::Role::responder;
    attach.parameters.crc = (flags & 8) != 0;
    attach.parameters.rx_markers = (flags & 16) != 0;
    attach.parameters.tx_markers = (flags & 32) != 0;
    attach.fenced = attach.role == mpa::Role::responder && (flags & 64) != 0;
    attach.send_rtr = attach.role == mpa::Role::initiator ? static_cast<mpa::Rtr>(draw.below(5)) : mpa::Rtr::none;
    if (attach.send_rtr == mpa::Rtr::frame) attach.send_rtr = mpa::Rtr::none;
    attach.rtr_stag_zero = (flags & 128) != 0;
    attach.parameters.ird = draw.u8() % 9;
    attach.parameters.ord = draw.u8() % 9;
    attach.emss = static_cast<std::uint16_t>(256 + draw.u8() * 8);
    peer_.emplace(mpa::FramerOptions{.crc = attach.parameters.crc, .markers = attach.parameters.rx_markers});
    // Payload goes out from where it lies. Here peer and user write into it meanwhile, so its CRC proves nothing.
    witness_.emplace(mpa::FramerOptions{.crc = false, .markers = attach.parameters.tx_markers});
    PARLEY_ASSERT(qp_->attach(attach).has_value());
  }

  void step() {
    switch (draw_.below(12)) {
      case 0: segment(); break;
      case 1: ulpdu(draw_.bytes(1 + std::size_t{draw_.u8()})); break;
      case 2: qp_->handle_bytes(draw_.bytes(1 + std::size_t{draw_.u8()})); break;
      case 3:
      case 4: post_send(); break;
      case 5: post_recv(); break;
      case 6: transmit(1 + draw_.below(6), draw_.u8()); break;
      case 7: qp_->release_fence(); break;
      case 8: end(); break;
      case 9: qp_->send_terminate(draw_.u8() & 3, draw_.u8() & 15, draw_.u8()); break;
      case 10: poll(); break;
      default: segment();
    }
    while (qp_->poll_event()) {
    }
    while (device_->poll_dirty() != nullptr) {
    }
    PARLEY_ASSERT(channel_->waiting() <= 1);
    if (CompletionQueue* told = channel_->poll_event(); told != nullptr) PARLEY_ASSERT(told == recv_cq_.get());
  }

  void finish() {
    for (int turn = 0; qp_->has_transmit() && transmit(8, 255); ++turn) PARLEY_ASSERT(turn < 100000);
    if (draw_.bit()) qp_->handle_end(draw_.bit());
    qp_->flush();
    poll();
    for (std::size_t i = 0; i < guard_size; ++i)
      PARLEY_ASSERT(memory_[i] == guard_octet && memory_[guard_size + region_size + i] == guard_octet);
    PARLEY_ASSERT(sent_done_ <= sent_posted_ && received_done_ <= received_posted_);
  }

 private:
  std::uint32_t stag() {
    const std::uint8_t which = draw_.u8();
    return which < 200 ? region_.rkey : which < 220 ? 0 : draw_.u32();
  }
  std::uint64_t offset() {
    const std::uint16_t v = draw_.u16();
    return v == 0xFFFF ? draw_.u64() : region_.addr + v % (region_size + 64);
  }

  /// A segment near to what a peer would send, with one thing or another wrong.
  void segment() {
    const std::uint8_t what = draw_.u8(), odd = draw_.u8();
    wire::DdpHeader h;
    h.opcode = static_cast<wire::RdmapOpcode>(what & 15);
    const auto rule = wire::rule_of(h.opcode);
    h.tagged = rule.tagged != ((odd & 0x81) == 0x81);
    h.last = (what & 16) == 0;
    if ((odd & 0x82) == 0x82) h.ddp_version = draw_.u8() & 3;
    if ((odd & 0x84) == 0x84) h.rdmap_version = draw_.u8() & 3;
    h.stag = h.tagged ? stag() : (what & 32) != 0 ? region_.lkey : 0;
    if (h.tagged) h.to = offset();
    h.qn = (odd & 0x88) == 0x88 ? draw_.u32() : rule.qn;
    std::uint32_t& msn = msn_[h.qn % msn_.size()];
    h.msn = (odd & 0x90) == 0x90 ? draw_.u32() : msn;
    h.mo = (odd & 0xA0) == 0xA0 ? draw_.u32() : mo_;
    Bytes out(h.size());
    h.emit(out);
    if (!h.tagged && h.opcode == wire::RdmapOpcode::read_request) {
      Bytes body(28);
      wire::ReadRequest{draw_.u32(), draw_.u64(), draw_.u16(), stag(), offset()}.emit(body);
      out.insert(out.end(), body.begin(), body.end());
    } else if (!h.tagged && h.opcode == wire::RdmapOpcode::atomic_request) {
      Bytes body(52);
      const std::uint8_t aop = draw_.u8() & 3;
      wire::AtomicRequest{aop, draw_.u8(), stag(), offset() & ~std::uint64_t{7}, draw_.u64(), ~0ULL, draw_.u8(), ~0ULL}
          .emit(body);
      out.insert(out.end(), body.begin(), body.end());
    }
    const ConstBytes payload = draw_.bytes(draw_.u8());
    out.insert(out.end(), payload.begin(), payload.end());
    if (!h.tagged) {
      mo_ = h.last ? 0 : mo_ + static_cast<std::uint32_t>(payload.size());
      if (h.last) ++msn;
    }
    ulpdu(out);
  }

  void ulpdu(ConstBytes in) {
    if (in.empty()) return;
    Bytes wire(peer_->wire_size(in.size()));
    PARLEY_ASSERT(peer_->frame({}, in, wire) == wire.size());
    const std::size_t cut = std::min<std::size_t>(wire.size(), draw_.u8());
    qp_->handle_bytes(ConstBytes(wire).first(cut));
    qp_->handle_bytes(ConstBytes(wire).subspan(cut));
  }

  std::vector<Sge> sges() {
    std::vector<Sge> out(draw_.u8() % 8 % (sge_max + 1));
    for (auto& s : out) {
      s.lkey = stag();
      s.addr = offset();
      s.length = draw_.u16() % 2048U;
    }
    return out;
  }

  void post_send() {
    const std::uint8_t what = draw_.u8();
    const std::uint8_t kind = what % 8 % 6;
    const auto list = sges();
    const std::uint32_t invalidate = (what & 64) != 0 ? draw_.u32() : 0;
    const std::uint32_t rkey = draw_.u32();
    const std::uint64_t addr = draw_.u64();
    const std::uint8_t compare = draw_.u8();
    if (kind == 5) {
      if (qp_->post_immediate({.wr_id = sent_posted_,
                               .data = addr,
                               .signaled = (what & 8) == 0,
                               .solicited = (what & 16) != 0,
                               .fence = (what & 32) != 0}))
        ++sent_posted_;
      return;
    }
    using enum SendWr::Opcode;
    static constexpr SendWr::Opcode opcodes[] = {send, rdma_write, rdma_read, masked_atomic_fetch_and_add,
                                                 masked_atomic_cmp_and_swp};
    SendWr wr;
    wr.wr_id = sent_posted_;
    wr.opcode = kind == 0 && invalidate != 0 ? send_with_inv : opcodes[kind];
    wr.sges = list;
    wr.signaled = (what & 8) == 0;
    wr.solicited = kind == 0 && (what & 16) != 0;
    wr.fence = (what & 32) != 0;
    wr.remote_addr = addr;
    wr.rkey = rkey;
    wr.invalidate_rkey = invalidate;
    wr.compare_add = compare;
    wr.compare_add_mask = ~0ULL;
    if (qp_->post_send(wr)) ++sent_posted_;
  }

  void post_recv() {
    const auto list = sges();
    const RecvWr wr{received_posted_, list};
    if (srq_ ? srq_->post_recv(wr) : qp_->post_recv(wr)) ++received_posted_;
  }

  /// False when there was nothing to send.
  bool transmit(std::size_t pieces_max, std::uint8_t how_much) {
    std::array<ConstBytes, 8> pieces;
    const std::size_t used = qp_->gather(std::span(pieces).first(pieces_max));
    PARLEY_ASSERT(used <= pieces_max);
    Bytes out;
    for (const ConstBytes piece : std::span(pieces).first(used)) out.insert(out.end(), piece.begin(), piece.end());
    const std::size_t n = how_much == 255 ? out.size() : out.size() * how_much / 255;
    witness_->feed(ConstBytes(out).first(n));
    mpa::FpduView view;
    mpa::DeframeStatus status;
    while ((status = witness_->next(view)) == mpa::DeframeStatus::fpdu) {
    }
    PARLEY_ASSERT(status == mpa::DeframeStatus::need_more);
    if (n != 0) qp_->sent(n);
    return !out.empty();
  }

  void end() {
    const std::uint8_t how = draw_.u8();
    if (how < 64)
      qp_->handle_end((how & 1) != 0);
    else if (how < 128)
      qp_->begin_close();
    else if (how < 192)
      (void)qp_->modify({.state = static_cast<QpState>(how & 7)});
    else if (how < 255)
      (void)recv_cq_->req_notify((how & 1) != 0 ? Notify::next_comp : Notify::solicited);
    else
      qp_->flush();
  }

  void poll() {
    std::array<WorkCompletion, 8> done;
    while (const std::size_t n = send_cq_->poll(done)) sent_done_ += n;
    while (const std::size_t n = recv_cq_->poll(done)) received_done_ += n;
    PARLEY_ASSERT(sent_done_ <= sent_posted_ && received_done_ <= received_posted_);
  }

  Draw& draw_;
  Bytes memory_;
  std::unique_ptr<IwarpDevice> device_;
  MemoryRegion region_;
  std::unique_ptr<CompletionChannel> channel_;
  std::unique_ptr<CompletionQueue> send_cq_, recv_cq_;
  std::unique_ptr<SharedReceiveQueue> srq_;
  std::unique_ptr<StreamQp> qp_;
  std::optional<mpa::Framer> peer_;
  std::optional<mpa::Deframer> witness_;
  std::array<std::uint32_t, 4> msn_ = {1, 1, 1, 1};
  std::uint32_t mo_ = 0;
  std::size_t sent_posted_ = 0, sent_done_ = 0, received_posted_ = 0, received_done_ = 0;
};

void run(ConstBytes in) {
  Draw draw(in);
  Harness harness(draw);
  for (int step = 0; step < 128 && !draw.empty(); ++step) harness.step();
  harness.finish();
}

}  // namespace
}  // namespace parley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parley::fuzz::run({data, size});
  return 0;
}
