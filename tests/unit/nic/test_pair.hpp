// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Two queue pairs back to back through byte queues, cut as the test likes; and one queue pair against raw octets.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "mpa/crc32c.hpp"
#include "mpa/framer.hpp"
#include "nic/iwarp/stream_qp.hpp"
#include "wire/rdmap.hpp"

namespace parley::nic::iwarp::test {

/// How many octets the next read from the stream takes, given how many are there (at least 1).
using Cut = std::function<std::size_t(std::size_t)>;
inline Cut whole() {
  return [](std::size_t n) { return n; };
}
inline Cut pieces_of(std::size_t size) {
  return [size](std::size_t n) { return std::min(n, size); };
}
inline Cut random_cut(std::uint64_t seed) {
  auto rng = std::make_shared<std::mt19937_64>(seed);
  return [rng](std::size_t n) {
    const std::size_t largest = (*rng)() % 4 == 0 ? n : std::min<std::size_t>(n, 97);
    return 1 + (*rng)() % largest;
  };
}

inline std::string hex(ConstBytes in) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t octet : in) {
    out += digits[octet >> 4];
    out += digits[octet & 15];
  }
  return out;
}
/// Blanks are for the reader.
inline Bytes unhex(std::string_view text) {
  std::string digits;
  for (const char c : text)
    if (c != ' ') digits += c;
  Bytes out;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    out.push_back(static_cast<std::uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return out;
}

/// Memory and its registration.
struct Buffer {
  Bytes memory;
  MemoryRegion region;

  Buffer(Device& device, PdHandle pd, std::size_t size,
         Access access = Access::local_write | Access::remote_read | Access::remote_write | Access::remote_atomic)
      : memory(size) {
    region = device.reg_mr(pd, memory, access).value();
  }
  Buffer(const Buffer&) = delete;
  Sge sge(std::size_t offset, std::size_t length) const {
    return {region.addr + offset, static_cast<std::uint32_t>(length), region.lkey};
  }
  Sge all() const { return sge(0, memory.size()); }
  void fill(std::uint64_t seed) {
    std::mt19937_64 rng(seed);
    for (auto& octet : memory) octet = static_cast<std::uint8_t>(rng());
  }
};

/// One side: a device with one queue pair.
struct Side {
  std::unique_ptr<IwarpDevice> device;
  PdHandle pd = device->alloc_pd().value();
  std::unique_ptr<CompletionQueue> send_cq = device->create_cq(4096).value();
  std::unique_ptr<CompletionQueue> recv_cq = device->create_cq(4096).value();
  std::unique_ptr<SharedReceiveQueue> srq;
  std::unique_ptr<StreamQp> qp;
  std::vector<QpEvent> events;
  std::size_t list_max = 16;  // pieces offered to gather at once

  /// `tagged_offset_base` as of make_device().
  explicit Side(bool with_srq = false, std::uint32_t depth = 128, std::uint64_t tagged_offset_base = 0)
      : device(make_device(tagged_offset_base)) {
    if (with_srq) srq = device->create_srq(pd, 256).value();
    qp = device
             ->create_stream_qp({.pd = pd,
                                 .send_cq = send_cq.get(),
                                 .recv_cq = recv_cq.get(),
                                 .srq = srq.get(),
                                 .max_send_wr = depth,
                                 .max_recv_wr = depth})
             .value();
  }

  Result<void> recv(std::uint64_t id, std::vector<Sge> sges) { return qp->post_recv({.wr_id = id, .sges = sges}); }
  Result<void> send(std::uint64_t id, std::vector<Sge> sges) { return qp->post_send({.wr_id = id, .sges = sges}); }

  std::vector<WorkCompletion> poll(CompletionQueue& cq) {
    std::vector<WorkCompletion> out;
    WorkCompletion one;
    while (cq.poll({&one, 1}) == 1) out.push_back(one);
    return out;
  }
  std::vector<WorkCompletion> sends() { return poll(*send_cq); }
  std::vector<WorkCompletion> recvs() { return poll(*recv_cq); }

  void drain_events() {
    while (auto event = qp->poll_event()) events.push_back(*event);
  }
  bool saw(QpEvent::Kind kind) {
    drain_events();
    for (const auto& event : events)
      if (event.kind == kind) return true;
    return false;
  }

  /// One write of up to `limit` octets: gather, take, tell.
  Bytes transmit(std::size_t limit = SIZE_MAX) {
    std::vector<ConstBytes> list(list_max);
    const std::size_t n = qp->gather(list);
    Bytes out;
    for (std::size_t i = 0; i < n && out.size() < limit; ++i) {
      const std::size_t take = std::min(list[i].size(), limit - out.size());
      out.insert(out.end(), list[i].begin(), list[i].begin() + static_cast<std::ptrdiff_t>(take));
    }
    qp->sent(out.size());
    return out;
  }
  Bytes transmit_all() {
    Bytes out;
    while (true) {
      const Bytes more = transmit();
      if (more.empty()) return out;
      out.insert(out.end(), more.begin(), more.end());
    }
  }
};

inline AttachOptions attach_options(mpa::Role role, std::uint16_t depth = 8) {
  AttachOptions options;
  options.role = role;
  options.parameters.ird = options.parameters.ord = depth;
  return options;
}

/// Initiator a and responder b. Octets wait in a queue per direction.
struct Pair {
  Side a, b;
  Bytes to_a, to_b;
  Cut cut = whole();
  Cut write = whole();

  explicit Pair(bool with_srq = false) : a(with_srq), b(with_srq) {}

  void connect(std::function<void(AttachOptions&, AttachOptions&)> change = {}) {
    AttachOptions to_initiator = attach_options(mpa::Role::initiator);
    AttachOptions to_responder = attach_options(mpa::Role::responder);
    if (change) change(to_initiator, to_responder);
    ASSERT_TRUE(a.qp->attach(to_initiator).has_value());
    ASSERT_TRUE(b.qp->attach(to_responder).has_value());
  }

  /// One turn of both sides; true while something moved.
  bool step() {
    bool sent = push(a, to_b);
    sent = push(b, to_a) || sent;
    bool taken = pull(a, to_a);
    taken = pull(b, to_b) || taken;
    return sent || taken;
  }
  void run() {
    while (step()) {
    }
    a.drain_events();
    b.drain_events();
  }

 private:
  bool push(Side& from, Bytes& queue) {
    const Bytes more = from.transmit(write(1 << 20));
    queue.insert(queue.end(), more.begin(), more.end());
    return !more.empty();
  }
  bool pull(Side& to, Bytes& queue) {
    if (queue.empty()) return false;
    const std::size_t n = cut(queue.size());
    const Bytes piece(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(n));
    queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(n));
    to.qp->handle_bytes(piece);
    return true;
  }
};

/// One queue pair whose peer is the test: octets in, octets out.
struct Solo {
  Side side;
  mpa::Framer framer{{.crc = true, .markers = false, .emss = 65000}};
  Buffer buffer{*side.device, side.pd, 256};

  explicit Solo(std::function<void(AttachOptions&)> change = {}, mpa::Role role = mpa::Role::responder,
                std::uint64_t tagged_offset_base = 0)
      : side(false, 128, tagged_offset_base) {
    AttachOptions options = attach_options(role);
    if (change) change(options);
    EXPECT_TRUE(side.qp->attach(options).has_value());
  }
  Bytes fpdu(ConstBytes ulpdu) {
    Bytes out(framer.wire_size(ulpdu.size()));
    framer.frame(ulpdu, {}, out);
    return out;
  }
  /// Feeds one ULPDU in hex; what the queue pair answers, as hex.
  std::string feed(std::string_view ulpdu) {
    side.qp->handle_bytes(fpdu(unhex(ulpdu)));
    side.drain_events();
    return hex(side.transmit_all());
  }
  /// The FPDU of a Terminate: its ULPDU in hex, framed as it should be.
  static std::string terminate(std::string_view body) {
    mpa::Framer framer({.crc = true, .markers = false, .emss = 65000});
    const Bytes ulpdu = unhex("4147 00000000 00000002 00000001 00000000" + std::string(body));
    Bytes out(framer.wire_size(ulpdu.size()));
    framer.frame(ulpdu, {}, out);
    return hex(out);
  }
  std::string stag() const { return hex32(buffer.region.rkey); }
  std::string to(std::uint64_t offset = 0) const {
    const std::uint64_t at = buffer.region.addr + offset;
    return hex32(static_cast<std::uint32_t>(at >> 32)) + hex32(static_cast<std::uint32_t>(at));
  }
  static std::string hex32(std::uint32_t v) {
    return hex(std::array<std::uint8_t, 4>{static_cast<std::uint8_t>(v >> 24), static_cast<std::uint8_t>(v >> 16),
                                           static_cast<std::uint8_t>(v >> 8), static_cast<std::uint8_t>(v)});
  }
};

}  // namespace parley::nic::iwarp::test
