// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A port in virtual time whose other side is a function of the test: what is sent to it, and when it answers what.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <stdexcept>

#include "mad/pump.hpp"
#include "wire/mad/gs.hpp"
#include "wire/mad/pm.hpp"
#include "wire/mad/smp.hpp"

namespace parley::mad {

using namespace std::chrono_literals;

/// The answer to `request`: its headers, the method of the response, `body` where the class has it.
inline Datagram answer_to(ConstBytes request, ConstBytes body, std::uint16_t status = 0) {
  Datagram out{};
  std::copy_n(request.begin(), std::min(request.size(), out.size()), out.begin());
  const std::uint8_t method = request[3];
  out[3] = method == 0x02 ? 0x81 : static_cast<std::uint8_t>(method | 0x80);
  if (request[1] == 0x81) status |= 0x8000;
  if (request[1] == 0x03) std::fill_n(out.begin() + 24, 12, std::uint8_t{0});  // RMPP's part
  write_bits(out, 32, 16, status);
  const std::size_t data = wire::mad::facts_of_class(request[1])->data;
  std::copy_n(body.begin(), std::min(body.size(), out.size() - data), out.begin() + static_cast<std::ptrdiff_t>(data));
  return out;
}

/// The answer to `request` with records of any table, each from a multiple of 8 octets, made apart from table_reply().
template <class A>
Bytes table_of(ConstBytes request, const std::vector<A>& records) {
  constexpr std::size_t step = (A::size + 7) / 8 * 8;
  const Datagram head = answer_to(request, {});
  Bytes out(head.begin(), head.begin() + rmpp::header_octets);
  out[24] = out[25] = out[26] = 1;
  write_bits(out, 44 * 8, 16, step / 8);
  for (const A& record : records) {
    out.insert(out.end(), record.octets().begin(), record.octets().end());
    out.resize(out.size() + step - A::size);
  }
  return out;
}

/// What was sent, and how the other side answers.
class MemoryTransport : public Transport {
 public:
  using Peer = std::function<void(MemoryTransport&, const Address& to, ConstBytes mad)>;

  MemoryTransport() {
    local_.lid = 1;
    local_.sm_lid = 2;
    local_.gid = Gid{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  }
  const TransportFacts& facts() const override { return facts_; }
  const LocalPort& local() const override { return local_; }
  Result<bool> send(const Address& to, ConstBytes mad) override {
    if (blocked) return false;
    ++sent;
    log.emplace_back(to, Bytes(mad.begin(), mad.end()));
    if (peer) peer(*this, to, mad);
    return true;
  }
  Result<std::optional<Received>> receive() override {
    if (coming_.empty() || coming_.begin()->first > now) return std::optional<Received>();
    held_ = std::move(coming_.extract(coming_.begin()).mapped());
    return std::optional(Received{held_.from, held_.mad, held_.refused, held_.lost});
  }
  bool poll_changed() override { return std::exchange(changed, false); }
  int fd() const override { return -1; }
  bool wants_to_send() const override { return blocked; }

  /// `mad` arrives after `delay`.
  void deliver(const Address& from, ConstBytes mad, Duration delay = 1us, bool refused = false) {
    coming_.emplace(now + delay, Coming{from, Bytes(mad.begin(), mad.end()), refused, false});
  }
  /// `mad` comes back: it was dropped on its way.
  void drop(const Address& to, ConstBytes mad) {
    coming_.emplace(now + 1us, Coming{to, Bytes(mad.begin(), mad.end()), false, true});
  }
  Instant next() const { return coming_.empty() ? never : coming_.begin()->first; }

  TransportFacts facts_;
  LocalPort local_;
  Peer peer;
  Instant now{};
  bool blocked = false, changed = false;
  std::size_t sent = 0;
  std::vector<std::pair<Address, Bytes>> log;

 private:
  struct Coming {
    Address from;
    Bytes mad;
    bool refused, lost;
  };
  std::multimap<Instant, Coming> coming_;
  Coming held_;
};

/// Waits for nothing that will ever come.
struct Hang : std::runtime_error {
  Hang() : std::runtime_error("nothing is to come, and the task has not ended") {}
};

/// Runs `awaitable` in the transport's time.
template <class A>
detail::Awaited<A> run_in(Port& port, MemoryTransport& transport, A awaitable) {
  const auto wait = [](Transport& t, Instant deadline) {
    auto& memory = static_cast<MemoryTransport&>(t);
    const Instant next = std::min(deadline, memory.next());
    if (next == never) throw Hang();
    memory.now = std::max(memory.now, next);
  };
  auto out = run(
      port, transport, std::move(awaitable), [&transport] { return transport.now; }, wait);
  if constexpr (std::is_void_v<detail::Awaited<A>>)
    return;
  else
    return std::move(*out);
}

/// A port over memory, made when it is first used, so that a test may change options and transport before.
struct PortTest : testing::Test {
  MemoryTransport transport;
  PortOptions options;
  std::optional<Port> made;

  Port& port() {
    if (!made) made.emplace(transport.facts(), transport.local(), options);
    return *made;
  }
  template <class A>
  auto go(A awaitable) {
    return run_in(port(), transport, std::move(awaitable));
  }
};

}  // namespace parley::mad
