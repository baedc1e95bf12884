// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/asio/packet_loop.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "drivers/asio/descriptor.hpp"
#include "drivers/asio/packet_set.hpp"

namespace parley::asio_driver {

struct PacketLoop::Body {
  Body(PacketMachine& m, const RoceHostOptions& options, PacketSockets* sockets)
      : machine(m), packets(m, options, epoll.fd, wake.fd, sockets) {}

  PacketMachine& machine;
  Descriptor epoll{::epoll_create1(EPOLL_CLOEXEC)};
  Descriptor wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  PacketSet packets;
};

PacketLoop::PacketLoop(std::unique_ptr<Body> body) : body_(std::move(body)) {}
PacketLoop::~PacketLoop() = default;

Result<std::unique_ptr<PacketLoop>> PacketLoop::open(PacketMachine& machine, const RoceHostOptions& options,
                                                     PacketSockets* sockets) {
  auto body = std::make_unique<Body>(machine, options, sockets);
  if (body->epoll.fd < 0 || body->wake.fd < 0)
    return fail(Errc::no_space, "no file descriptor is available; raise the limit of open files (ulimit -n)");
  return std::unique_ptr<PacketLoop>(new PacketLoop(std::move(body)));
}

int PacketLoop::fd() const { return body_->epoll.fd; }
bool PacketLoop::blocked() const { return body_->packets.blocked(); }

bool PacketLoop::turn() { return body_->packets.turn(clock_now()); }

bool PacketLoop::run_once(Duration wait) {
  if (turn()) return true;
  if (wait <= Duration{}) return false;
  const Instant deadline = body_->machine.next_deadline();
  if (deadline != never) wait = std::min(wait, std::max(deadline - clock_now(), Duration{}));
  body_->packets.sleep(wait);
  return turn();
}

void PacketLoop::close_sockets() noexcept { body_->packets.close_sockets(); }
PacketGroups& PacketLoop::groups() { return body_->packets; }
void PacketLoop::set_tap(PacketTap tap) { body_->packets.set_tap(std::move(tap)); }
RoceCounters PacketLoop::counters() const { return body_->packets.counters(); }

}  // namespace parley::asio_driver
