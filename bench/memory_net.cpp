// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "bench/memory_net.hpp"

#include <array>
#include <stdexcept>

#include "mpa/startup.hpp"

namespace parley::bench {
namespace {

constexpr std::array<std::uint8_t, 16> private_data{'p', 'a', 'r', 'l', 'e', 'y'};
constexpr std::uint16_t port = 7471;
const Address local = Address::v4(192, 0, 2, 1, port), peer = Address::v4(192, 0, 2, 2, 40000);

[[noreturn]] void broken(const char* what) { throw std::runtime_error(what); }

}  // namespace

MemoryHost::MemoryHost() : provider_(cm::make_iwarp_provider({})), manager_(*provider_) {
  if (!manager_.listen(local)) broken("listen");
  while (listener_ == 0) turn();
}

void MemoryHost::carry_out(const StreamCommand& command) {
  using Kind = StreamCommand::Kind;
  switch (command.kind) {
    case Kind::listen:
      listener_ = command.id;
      deliveries_.push_back({What::listening, command.id});
      return;
    case Kind::open: {
      const StreamId accepted = serial_ += 2;
      other_[command.id] = accepted;
      other_[accepted] = command.id;
      deliveries_.push_back({What::accepted, accepted});
      deliveries_.push_back({What::connected, command.id});
      return;
    }
    case Kind::shutdown: deliveries_.push_back({What::fin, other_[command.id]}); return;
    case Kind::finish:
      deliveries_.push_back({What::fin, other_[command.id]});
      other_.erase(command.id);
      return provider_->handle_end(now_, command.id, StreamEnd::delivered);
    case Kind::close:
      deliveries_.push_back({What::fin, other_[command.id]});
      other_.erase(command.id);
      return;
    case Kind::reset:
      deliveries_.push_back({What::rst, other_[command.id]});
      other_.erase(command.id);
      return;
    case Kind::pause:
    case Kind::resume: return;
  }
}

void MemoryHost::write(StreamId stream) {
  std::array<ConstBytes, 8> pieces;
  const std::size_t n = provider_->gather(stream, pieces);
  Delivery out{What::bytes, other_[stream]};
  for (std::size_t i = 0; i < n; ++i) out.octets.insert(out.octets.end(), pieces[i].begin(), pieces[i].end());
  provider_->sent(now_, stream, out.octets.size());
  if (!out.octets.empty()) deliveries_.push_back(std::move(out));
}

void MemoryHost::deliver(Delivery& d) {
  const auto to = other_.find(d.to);
  if (d.what != What::listening && to == other_.end()) return;
  switch (d.what) {
    case What::listening: return provider_->handle_listening(now_, d.to, local);
    case What::accepted:
      if (!provider_->handle_accepted(now_, listener_, d.to, {.local = local, .peer = peer})) broken("refused");
      return;
    case What::connected: return provider_->handle_connected(now_, d.to, {.local = peer, .peer = local});
    case What::bytes: return provider_->handle_bytes(now_, d.to, d.octets);
    case What::fin: return provider_->handle_end(now_, d.to, StreamEnd::fin);
    case What::rst: return provider_->handle_end(now_, d.to, StreamEnd::rst);
  }
}

void MemoryHost::turn() {
  now_ += std::chrono::microseconds(1);
  provider_->handle_deadline(now_);
  pump(*provider_, *this);
  std::swap(deliveries_, delivering_);
  for (Delivery& d : delivering_) {
    deliver(d);
    pump(*provider_, *this);
  }
  delivering_.clear();
  events();
}

void MemoryHost::events() {
  while (auto event = manager_.poll_event()) {
    if (auto* request = std::get_if<cm::ConnectRequest>(&*event)) {
      if (!request->id.accept({.private_data = private_data})) broken("accept");
    } else if (auto* up = std::get_if<cm::Established>(&*event)) {
      // Only the initiator's local address is the one that connects.
      const bool initiator = *up->id.local_address() == peer;
      ++(initiator ? initiators_up_ : responders_up_);
      if (initiator && !up->id.disconnect()) broken("disconnect");
    } else if (auto* down = std::get_if<cm::Disconnected>(&*event)) {
      if (!down->graceful) broken("a connection was lost");
      down->id.destroy();
      ++ended_;
    } else if (std::holds_alternative<cm::ConnectFailed>(*event) || std::holds_alternative<cm::Rejected>(*event)) {
      broken("a set-up failed");
    }
  }
}

void MemoryHost::connections(const mpa::Options& options, std::uint64_t count) {
  initiators_up_ = responders_up_ = ended_ = 0;
  for (std::uint64_t i = 0; i < count; ++i)
    if (!manager_.connect(local, {.transport = options, .private_data = private_data})) broken("connect");
  while (ended_ < 2 * count) turn();
  if (initiators_up_ != count || responders_up_ != count) broken("not every end was established");
}

Sample MemoryHost::connections_for(const mpa::Options& options, double seconds) {
  constexpr std::uint64_t at_once = 64;
  const Stopwatch watch;
  std::uint64_t made = 0;
  for (; watch.wall_s() < seconds; made += at_once) connections(options, at_once);
  return watch.stop(static_cast<double>(made));
}

Sample bare_startups(const mpa::Options& options, double seconds) {
  constexpr int batch = 64;
  const Instant now{};
  mpa::StartupOptions own;
  static_cast<mpa::Options&>(own) = options;
  const Stopwatch watch;
  double made = 0;
  while (watch.wall_s() < seconds) {
    for (int i = 0; i < batch; ++i) {
      auto a = mpa::Startup::create(mpa::Role::initiator, own, private_data, now);
      auto b = mpa::Startup::create(mpa::Role::responder, own, {}, now);
      if (!a || !b) broken("startup");
      (void)b->handle_bytes(now, a->poll_transmit());
      while (auto event = b->poll_event())
        if (event->kind == mpa::StartupEvent::Kind::request && !b->accept(now, own, private_data)) broken("accept");
      (void)a->handle_bytes(now, b->poll_transmit());
      bool up = false;
      while (auto event = a->poll_event()) up = up || event->kind == mpa::StartupEvent::Kind::established;
      while (b->poll_event()) continue;
      b->handle_first_fpdu(now, options.rtr);
      while (b->poll_event()) continue;
      if (!up || b->state() != mpa::StartupState::open) broken("startup");
    }
    made += batch;
  }
  return watch.stop(made);
}

}  // namespace parley::bench
