// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The RoCE device between a user who posts and modifies anything and a network that delivers anything (IBA vol. 1 §9):
// memory outside the registered region stays as it was, every request completes at most once, everything sent is a packet
// with an opcode that there is, and the device comes to rest.
#include <array>
#include <vector>

#include "nic/roce/device.hpp"
#include "tests/fuzz/draw.hpp"
#include "wire/ib/packet.hpp"

namespace parley::fuzz {
namespace {

using namespace nic::roce;
using wire::ib::Packet;
using wire::ib::Service;

constexpr std::size_t region_size = 4096, guard_size = 512;
constexpr std::uint8_t guard_octet = 0xC7;
constexpr std::uint32_t first_psn = 0xFFFFFE;

constexpr Gid gid(std::uint8_t last) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, last}; }

constexpr Access remote = Access::remote_write | Access::remote_read | Access::remote_atomic;

class Harness {
 public:
  explicit Harness(Draw& draw) : draw_(draw), memory_(region_size + 2 * guard_size, guard_octet) {
    DeviceOptions options;
    options.gids = {gid(1)};
    options.window = 1 + draw.u8();
    options.ack_every = 1 + draw.u8() % 80;
    device_ = *make_device(options);
    pd_ = *device_->alloc_pd();
    const std::uint8_t flags = draw.u8();
    region_ = *device_->reg_mr(pd_, MutBytes(memory_).subspan(guard_size, region_size),
                               Access::mw_bind | ((flags & 1) != 0 ? Access::local_write | Access::remote_read
                                                                   : Access::local_write | remote));
    const MemoryWindow window = *device_->alloc_mw(pd_, (flags & 4) != 0 ? MwType::type_1 : MwType::type_2);
    bind_ = {.window = window.handle, .rkey = window.rkey, .lkey = region_.lkey, .access = remote};
    cq_ = *device_->create_cq(64);
    domain_ = *device_->open_xrcd();
    xrc_srq_ = *device_->create_srq({.pd = pd_, .capacity = 8, .xrcd = domain_.get(), .cq = cq_.get()});
    if ((flags & 2) != 0) srq_ = *device_->create_srq(pd_, 8);
    ah_ = *device_->create_ah(pd_, {.grh = GlobalRoute{.dgid = gid(2)}});
    for (const QpType type : {QpType::rc, QpType::uc, QpType::ud, QpType::xrc_ini, QpType::xrc_tgt}) {
      const QpInit init{.type = type,
                        .pd = pd_,
                        .send_cq = cq_.get(),
                        .recv_cq = cq_.get(),
                        .srq = type == QpType::xrc_ini ? nullptr : srq_.get(),
                        .max_send_wr = 8,
                        .max_recv_wr = 8};
      qps_.push_back(type == QpType::xrc_tgt ? *device_->create_roce_qp({.type = type, .xrcd = domain_.get()})
                                             : *device_->create_roce_qp(init));
      for (int steps = draw.u8() % 8 == 0 ? draw.u8() % 4 : 3; steps > 0; --steps) up(*qps_.back());
    }
  }

  void step() {
    switch (draw_.below(12)) {
      case 0:
      case 1:
      case 2:
      case 3: packet(); break;
      case 4: deliver(draw_.bytes(draw_.u8())); break;
      case 5:
      case 6: post_send(); break;
      case 7: post_recv(); break;
      case 8: transmit(draw_.u8()); break;
      case 9:
        now_ += Duration(std::int64_t{draw_.u16()} * 1000);
        device_->handle_deadline(now_);
        break;
      case 10: modify(); break;
      default: poll();
    }
  }

  void finish() {
    transmit(100'000);
    PARLEY_ASSERT(!device_->has_transmit());
    for (int turn = 0; device_->next_deadline() != never; ++turn) {
      PARLEY_ASSERT(turn < 100'000);
      now_ = std::max(now_, device_->next_deadline());
      device_->handle_deadline(now_);
      transmit(100'000);
    }
    poll();
    for (std::size_t i = 0; i < guard_size; ++i)
      PARLEY_ASSERT(memory_[i] == guard_octet && memory_[guard_size + region_size + i] == guard_octet);
  }

 private:
  RoceQp& qp() { return *qps_[draw_.below(qps_.size())]; }

  /// To the next state, as a program takes it there.
  void up(RoceQp& qp) {
    QpAttr attr;
    const QpType type = qp.type();
    const bool reliable = type != QpType::uc && type != QpType::ud;
    switch (qp.state()) {
      case QpState::reset:
        attr = {.state = QpState::init, .pkey_index = 0, .port_num = 1};
        if (type == QpType::ud)
          attr.qkey = 7;
        else
          attr.access = Access::remote_read | Access::remote_write | Access::remote_atomic;
        break;
      case QpState::init:
        attr.state = QpState::rtr;
        if (type == QpType::ud) break;
        attr.ah = AhAttr{.grh = GlobalRoute{.dgid = gid(2)}};
        attr.path_mtu = Mtu::octets_256;
        attr.rq_psn = first_psn;
        attr.dest_qp_num = 99;
        if (type == QpType::xrc_ini || !reliable) break;
        attr.max_dest_rd_atomic = draw_.u8() % 4;
        attr.min_rnr_timer = 1;
        break;
      case QpState::rtr:
        attr = {.state = QpState::rts, .sq_psn = first_psn};
        if (!reliable) break;
        attr.timeout = 10;
        if (type == QpType::xrc_tgt) break;
        attr.retry_cnt = draw_.u8() % 8;
        attr.rnr_retry = draw_.u8() % 7;
        attr.max_rd_atomic = draw_.u8() % 4;
        break;
      default: attr.state = QpState::rts;
    }
    (void)qp.modify(attr);
  }

  /// A packet near to what a peer would send, with one thing or another wrong.
  void packet() {
    RoceQp& to = qp();
    Packet p;
    static constexpr Service services[] = {Service::rc, Service::uc, Service::ud, Service::xrc, Service::xrc};
    const std::uint8_t odd = draw_.u8();
    std::size_t at = 0;
    while (qps_[at].get() != &to) ++at;
    p.bth.opcode = static_cast<std::uint8_t>(static_cast<int>(services[at]) | (draw_.u8() & 0x1F));
    p.bth.dest_qpn = (odd & 0x40) == 0 ? to.qp_num() : draw_.u8();
    p.bth.psn = (first_psn + draw_.u8() % 16) & 0xFFFFFF;
    p.bth.ack_req = (odd & 1) != 0;
    p.bth.solicited = (odd & 2) != 0;
    p.deth = {.q_key = 7, .source_qpn = 99};
    p.xrceth.srqn = *xrc_srq_->srq_num();
    p.reth = {.va = address(), .r_key = key(), .dma_length = (odd & 4) != 0 ? draw_.u32() : draw_.u16()};
    p.atomic = {.va = address() & ~std::uint64_t{7}, .r_key = key(), .swap_add = 1, .compare = 0};
    p.aeth.syndrome = (odd & 8) != 0 ? draw_.u8() : 0x1F;
    p.invalidate = (odd & 16) != 0 ? key() : 0;
    Bytes payload(static_cast<std::size_t>(draw_.u16()) % 520, 0x55);
    if ((odd & 0x20) == 0) payload.resize(256);
    p.payload = payload;
    Bytes octets(p.size());
    p.emit(octets);
    deliver(octets);
  }
  void deliver(ConstBytes octets) {
    const std::uint8_t how = draw_.u8();
    device_->handle_packet(
        now_,
        {.source = gid(how < 250 ? 2 : 3), .destination = gid(1), .traffic_class = static_cast<std::uint8_t>(how & 3)},
        octets);
  }
  std::uint32_t key() {
    const std::uint8_t which = draw_.u8();
    return which < 170 ? region_.rkey : which < 230 ? bind_.rkey : draw_.u32();
  }
  std::uint64_t address() {
    const std::uint16_t v = draw_.u16();
    return v == 0xFFFF ? draw_.u64() : region_.addr + v % (region_size + 64);
  }
  Sge sge() {
    const std::size_t offset = draw_.u16() % region_size;
    return {region_.addr + offset, static_cast<std::uint32_t>(draw_.u16() % (region_size - offset + 1)), region_.lkey};
  }

  void post_send() {
    RoceQp& to = qp();
    Sge piece = sge();
    SendWr wr;
    wr.opcode = static_cast<SendWr::Opcode>(draw_.u8() % 10);
    if (wr.opcode == SendWr::Opcode::atomic_cmp_and_swp || wr.opcode == SendWr::Opcode::atomic_fetch_and_add)
      piece.length = 8;
    wr.sges = {&piece, 1};
    wr.signaled = draw_.bit();
    wr.fence = draw_.bit();
    wr.remote_addr = region_.addr;
    wr.rkey = region_.rkey;
    if (wr.opcode == SendWr::Opcode::send_with_inv) wr.invalidate_rkey = 1;
    if (wr.opcode == SendWr::Opcode::local_inv) wr.invalidate_rkey = bind_.rkey;
    if (wr.opcode == SendWr::Opcode::bind_mw) {
      bind_.addr = piece.addr;
      bind_.length = piece.length;
      wr.bind = &bind_;
    }
    if (to.type() == QpType::ud) {
      wr.ah = ah_.get();
      wr.remote_qp_num = draw_.u8();
      wr.remote_qkey = draw_.u32();
    }
    if (to.type() == QpType::xrc_ini) wr.remote_srq_num = draw_.u8();
    if (to.post_send(wr)) ++posted_;
  }
  void post_recv() {
    const Sge piece = sge();
    const RecvWr wr{.sges = {&piece, 1}};
    const std::uint8_t where = draw_.u8() % 4;
    const auto result = where == 0           ? xrc_srq_->post_recv(wr)
                        : where == 1 && srq_ ? srq_->post_recv(wr)
                                             : qp().post_recv(wr);
    if (result) ++posted_;
  }
  void modify() {
    RoceQp& which = qp();
    const std::uint8_t to = draw_.u8();
    if (to < 200)
      up(which);
    else
      (void)which.modify({.state = static_cast<QpState>(to % 7)});
    if (to == 255) (void)device_->set_gid(0, draw_.bit() ? gid(1) : Gid{});
    if (to == 254) (void)device_->send_mad({.source = gid(1), .destination = gid(2)});
  }

  void transmit(std::size_t most) {
    std::array<std::uint8_t, packet_max> out;
    PacketTo to;
    for (; most > 0 && device_->poll_transmit(now_, to, out); --most) {
      const auto packet = Packet::parse(ConstBytes(out).first(to.size + PARLEY_IB_ICRC_LEN));
      PARLEY_ASSERT(packet.has_value());
      PARLEY_ASSERT(wire::ib::rule_of(packet->bth.opcode).assigned);
      PARLEY_ASSERT(packet->payload.size() <= 1024 && to.size % 4 == 0);
    }
  }
  void poll() {
    std::array<WorkCompletion, 8> done;
    while (const std::size_t n = cq_->poll(done)) done_ += n;
    PARLEY_ASSERT(done_ <= posted_);
    std::size_t notices = 0;
    while (device_->poll_notice()) ++notices;
    while (device_->poll_async_event()) ++notices;
    PARLEY_ASSERT(notices <= 64);
    MadIn mad;
    while (device_->poll_mad(mad)) {
    }
  }

  Draw& draw_;
  Bytes memory_;
  std::unique_ptr<RoceDevice> device_;
  PdHandle pd_ = 0;
  MemoryRegion region_;
  MwBind bind_;
  std::unique_ptr<CompletionQueue> cq_;
  std::unique_ptr<XrcDomain> domain_;
  std::unique_ptr<SharedReceiveQueue> srq_, xrc_srq_;
  std::unique_ptr<AddressHandle> ah_;
  std::vector<std::unique_ptr<RoceQp>> qps_;
  Instant now_{};
  std::size_t posted_ = 0, done_ = 0;
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
