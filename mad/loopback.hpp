// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Measures the cost of a port alone: a transport that answers every request with the same attribute in its next turn,
// and allocates nothing after its construction; and tasks that keep it busy.
#pragma once
#include "mad/pump.hpp"
#include "wire/mad/smp.hpp"

namespace parley::mad {

class Loopback : public Transport {
 public:
  explicit Loopback(const wire::mad::NodeInfo& info, std::size_t depth = 1024) : ring_(depth), info_(info) {
    local_.lid = 1;
  }
  const TransportFacts& facts() const override { return facts_; }
  const LocalPort& local() const override { return local_; }
  Result<bool> send(const Address& to, ConstBytes mad) override {
    if (tail_ - head_ == ring_.size()) return false;
    Answer& answer = ring_[tail_++ % ring_.size()];
    answer.from = to;
    std::copy(mad.begin(), mad.end(), answer.mad.begin());
    answer.mad[3] = 0x81;
    if (answer.mad[1] == 0x81) answer.mad[4] |= 0x80;
    std::copy(info_.octets().begin(), info_.octets().end(), answer.mad.begin() + 64);
    return true;
  }
  Result<std::optional<Received>> receive() override {
    if (head_ == tail_) return std::optional<Received>();
    const Answer& answer = ring_[head_++ % ring_.size()];
    return std::optional(Received{answer.from, answer.mad});
  }
  bool poll_changed() override { return false; }
  int fd() const override { return -1; }
  bool wants_to_send() const override { return false; }

 private:
  struct Answer {
    Address from;
    Datagram mad;
  };
  TransportFacts facts_;
  LocalPort local_;
  std::vector<Answer> ring_;
  std::size_t head_ = 0, tail_ = 0;
  wire::mad::NodeInfo info_;
};

/// Sends `count` requests, one after the other. Returns the sum of the numbers of ports in the answers.
inline Task<std::uint64_t> ask_in_turn(Port& port, std::uint16_t lid, std::size_t count) {
  std::uint64_t sum = 0;
  const Path path = Path::by_lid(lid);
  for (std::size_t i = 0; i < count; ++i) {
    const Reply<wire::mad::NodeInfo> info = co_await port.subn_get<wire::mad::NodeInfo>(path);
    if (info) sum += info->get(wire::mad::NodeInfo::num_ports);
  }
  co_return sum;
}
inline Task<Reply<std::uint64_t>> ask_once(Port& port, std::uint16_t lid) {
  const Reply<wire::mad::NodeInfo> info = co_await port.subn_get<wire::mad::NodeInfo>(Path::by_lid(lid));
  if (!info) co_return tl::unexpected(info.error());
  co_return info->get(wire::mad::NodeInfo::num_ports);
}
/// A task for each request, `width` at a time.
inline Task<Reply<void>> ask_by_children(Port& port, std::size_t count, std::size_t width) {
  Scope scope(port.executor(), {.limit = width});
  for (std::size_t i = 0; i < count && co_await scope.room(); ++i)
    scope.spawn(ask_once(port, static_cast<std::uint16_t>(1 + i % 64)));
  co_return co_await scope.join();
}

}  // namespace parley::mad
