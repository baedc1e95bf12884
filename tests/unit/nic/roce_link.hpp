// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Two RoCE devices joined by a link in virtual time, which drops, repeats, delays and marks packets as a test or a seed says.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "nic/roce/device.hpp"
#include "wire/ib/packet.hpp"

namespace parley::nic::roce::test {

using namespace std::chrono_literals;
using wire::ib::Nak;
using wire::ib::Operation;

inline Gid gid_v4(std::uint8_t last) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, last}; }

inline constexpr Access all_rights =
    Access::local_write | Access::remote_read | Access::remote_write | Access::remote_atomic;

struct Buffer {
  Bytes memory;
  MemoryRegion region;

  Buffer(Device& device, PdHandle pd, std::size_t size, Access access = all_rights) : memory(size) {
    region = device.reg_mr(pd, memory, access).value();
  }
  Buffer(const Buffer&) = delete;
  Sge sge(std::size_t offset, std::size_t length) const {
    return {region.addr + offset, static_cast<std::uint32_t>(length), region.lkey};
  }
  Sge all() const { return sge(0, memory.size()); }
  void fill(std::uint64_t seed) {
    Rng rng(seed);
    for (std::size_t at = 0; at < memory.size(); at += sizeof(std::uint64_t)) {
      const std::uint64_t word = rng.next();
      std::memcpy(memory.data() + at, &word, std::min(sizeof word, memory.size() - at));
    }
  }
};

/// One host: a device, and a queue pair with what it needs.
struct Side {
  std::unique_ptr<RoceDevice> device;
  PdHandle pd = device->alloc_pd().value();
  std::unique_ptr<CompletionQueue> send_cq = device->create_cq(4096).value();
  std::unique_ptr<CompletionQueue> recv_cq = device->create_cq(4096).value();
  std::unique_ptr<SharedReceiveQueue> srq;
  std::unique_ptr<RoceQp> qp;

  static DeviceOptions options(std::uint8_t last) {
    DeviceOptions out;
    out.gids = {gid_v4(last)};
    out.port_mtu = Mtu::octets_4096;
    out.seed = last;
    out.address_base = 0x100000;
    return out;
  }
  explicit Side(const DeviceOptions& options) : device(make_device(options).value()) {}

  QpInit init(QpType type, std::uint32_t depth = 128) const {
    return {.type = type,
            .pd = pd,
            .send_cq = send_cq.get(),
            .recv_cq = recv_cq.get(),
            .srq = srq.get(),
            .max_send_wr = depth,
            .max_recv_wr = depth};
  }
  void make(QpType type, std::uint32_t depth = 128) { qp = device->create_roce_qp(init(type, depth)).value(); }

  Result<void> recv(std::uint64_t id, std::vector<Sge> sges) { return qp->post_recv({.wr_id = id, .sges = sges}); }
  Result<void> send(std::uint64_t id, std::vector<Sge> sges) { return qp->post_send({.wr_id = id, .sges = sges}); }
  static std::vector<WorkCompletion> poll(CompletionQueue& cq) {
    std::vector<WorkCompletion> out;
    WorkCompletion one;
    while (cq.poll({&one, 1}) == 1) out.push_back(one);
    return out;
  }
  std::vector<WorkCompletion> sends() { return poll(*send_cq); }
  std::vector<WorkCompletion> recvs() { return poll(*recv_cq); }
  std::vector<QueuePairEvent::Kind> notices() {
    std::vector<QueuePairEvent::Kind> out;
    while (const auto notice = device->poll_notice()) out.push_back(std::get<QueuePairEvent::Kind>(notice->what));
    return out;
  }
};

struct Terms {
  QpType type = QpType::rc;
  Mtu mtu = Mtu::octets_256;
  std::uint32_t psn_a = 100, psn_b = 0xFFFFF0;  // of what each sends; one wraps soon
  std::uint8_t timeout = 8;                     // about a millisecond
  std::uint8_t retry = 7, rnr_retry = 7, rnr_timer = 1;
  std::uint16_t depth = 4;
  Access access = Access::remote_read | Access::remote_write | Access::remote_atomic;
};

inline QpAttr init_attr(const Terms& setup) {
  QpAttr attr{.state = QpState::init, .pkey_index = 0, .port_num = 1};
  if (setup.type == QpType::ud)
    attr.qkey = 0x11111111;
  else
    attr.access = setup.access;
  return attr;
}
inline QpAttr rtr_attr(const Terms& setup, std::uint32_t peer_qpn, const Gid& peer, std::uint32_t peer_psn) {
  QpAttr attr{.state = QpState::rtr};
  if (setup.type == QpType::ud) return attr;
  attr.ah = AhAttr{.grh = GlobalRoute{.dgid = peer}};
  attr.path_mtu = setup.mtu;
  attr.dest_qp_num = peer_qpn;
  attr.rq_psn = peer_psn;
  if (setup.type == QpType::rc || setup.type == QpType::xrc_tgt) {
    attr.max_dest_rd_atomic = setup.depth;
    attr.min_rnr_timer = setup.rnr_timer;
  }
  return attr;
}
inline QpAttr rts_attr(const Terms& setup, std::uint32_t psn) {
  QpAttr attr{.state = QpState::rts, .sq_psn = psn};
  if (setup.type == QpType::uc || setup.type == QpType::ud) return attr;
  attr.timeout = setup.timeout;
  if (setup.type == QpType::xrc_tgt) return attr;
  attr.retry_cnt = setup.retry;
  attr.rnr_retry = setup.rnr_retry;
  attr.max_rd_atomic = setup.depth;
  return attr;
}

/// A packet under way.
struct Frame {
  Instant at{};
  bool to_b = true;
  PacketTo to;
  Bytes octets;  // BTH to ICRC, which is 0
  std::uint8_t opcode() const { return octets[0]; }
  Operation operation() const { return wire::ib::operation_of(octets[0]); }
  wire::ib::Packet parsed() const { return wire::ib::Packet::parse(octets).value(); }
};

struct Faults {
  Ratio drop{0, 1}, repeat{0, 1}, delay{0, 1}, mark{0, 1};
};

struct World {
  Side a, b;
  Instant now{};
  Duration latency = 5us;
  Faults faults;
  Rng rng{1};
  /// Sees each packet that is sent, by its number from 0; false drops it.
  std::function<bool(std::size_t, Frame&)> filter;
  std::size_t sent = 0;
  std::size_t most = 1;  // packets that are taken from a device at once

  explicit World(DeviceOptions for_a = Side::options(1), DeviceOptions for_b = Side::options(2)) : a(for_a), b(for_b) {}

  void connect(const Terms& setup = {}) {
    if (!a.qp) a.make(setup.type);
    if (!b.qp) b.make(setup.type);
    up(a, b, setup, setup.psn_a, setup.psn_b);
    up(b, a, setup, setup.psn_b, setup.psn_a);
  }
  static void up(Side& x, Side& y, const Terms& setup, std::uint32_t own_psn, std::uint32_t peer_psn) {
    ASSERT_TRUE(x.qp->modify(init_attr(setup)));
    const auto rtr = x.qp->modify(rtr_attr(setup, y.qp->qp_num(), y.device->gid(0), peer_psn));
    ASSERT_TRUE(rtr) << rtr.error().message();
    const auto rts = x.qp->modify(rts_attr(setup, own_psn));
    ASSERT_TRUE(rts) << rts.error().message();
  }

  /// Everything that is to be sent now goes onto the link.
  void transmit() {
    collect(*a.device, true);
    collect(*b.device, false);
  }
  /// Until nothing is under way and nothing is due before `until`.
  void run(Duration for_at_most = 20s) {
    const Instant until = now + for_at_most;
    for (std::size_t turns = 0; turns < 2'000'000; ++turns) {
      transmit();
      const Instant arrival = link_.empty() ? never : link_.begin()->first.first;
      const Instant next = std::min({arrival, a.device->next_deadline(), b.device->next_deadline()});
      if (next > until) return;
      now = std::max(now, next);
      if (arrival <= now) deliver();
      if (a.device->next_deadline() <= now) a.device->handle_deadline(now);
      if (b.device->next_deadline() <= now) b.device->handle_deadline(now);
    }
    FAIL() << "it goes on for ever";
  }
  /// Hands a packet to a side as if the other had sent it.
  void inject(bool to_b, const wire::ib::Packet& packet) {
    Bytes octets(packet.size());
    packet.emit(octets);
    Side& to = to_b ? b : a;
    to.device->handle_packet(now, {.source = (to_b ? a : b).device->gid(0), .destination = to.device->gid(0)}, octets);
  }

 private:
  void collect(RoceDevice& device, bool to_b) {
    room_.resize(most * packet_max);
    const MutBytes buffer = room_;
    PacketTo to;
    while (most > 1) {
      const PacketRun run = device.poll_run(now, most, to, buffer);
      if (run.count == 0) return;
      ASSERT_LE(run.count, most);
      ASSERT_EQ(run.size, to.size);
      const std::size_t share = run.payload.size() / run.count;
      for (std::size_t i = 0; i < run.count; ++i) {
        const MutBytes packet = MutBytes(buffer).subspan(i * (run.size + PARLEY_IB_ICRC_LEN), run.size);
        const ConstBytes payload = run.payload.subspan(i * share, share);
        std::copy(payload.begin(), payload.end(), packet.end() - static_cast<std::ptrdiff_t>(share));
        put_on_link(to_b, to, packet);
      }
    }
    while (device.poll_transmit(now, to, buffer)) {
      ASSERT_LE(to.size + PARLEY_IB_ICRC_LEN, buffer.size());
      put_on_link(to_b, to, ConstBytes(buffer).first(to.size));
    }
  }
  void put_on_link(bool to_b, const PacketTo& to, ConstBytes packet) {
    Frame frame{.at = now + latency, .to_b = to_b, .to = to};
    frame.octets.assign(packet.begin(), packet.end());
    frame.octets.resize(packet.size() + PARLEY_IB_ICRC_LEN);
    if (filter && !filter(sent++, frame)) return;
    if (rng.chance(faults.drop)) return;
    if (rng.chance(faults.mark)) frame.to.traffic_class |= 3;
    if (rng.chance(faults.delay)) frame.at += Duration(rng.below(40'000));
    if (rng.chance(faults.repeat)) put(frame, Duration(rng.below(40'000)));
    put(frame, {});
  }
  void put(Frame frame, Duration later) {
    frame.at += later;
    link_.emplace(std::pair(frame.at, order_++), std::move(frame));
  }
  void deliver() {
    const Frame frame = std::move(link_.begin()->second);
    link_.erase(link_.begin());
    RoceDevice& device = *(frame.to_b ? b : a).device;
    device.handle_packet(now,
                         {.source = frame.to.source,
                          .destination = frame.to.destination,
                          .traffic_class = frame.to.traffic_class,
                          .hop_limit = frame.to.hop_limit,
                          .flow_label = frame.to.flow_label},
                         frame.octets);
  }

  std::map<std::pair<Instant, std::uint64_t>, Frame> link_;
  std::uint64_t order_ = 0;
  Bytes room_;  // for the packets that a device gives
};

inline std::string statuses(const std::vector<WorkCompletion>& done) {
  std::string out;
  for (const WorkCompletion& wc : done)
    out += (out.empty() ? "" : ", ") + std::to_string(wc.wr_id) + " " + std::string(to_string(wc.status));
  return out.empty() ? "-" : out;
}

}  // namespace parley::nic::roce::test
