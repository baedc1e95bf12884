// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Moves sockets from one set to another. Octets that were read already belong to the machine, so the moved socket has
// only the octets that the system still buffers.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "drivers/asio/socket_end.hpp"
#include "drivers/asio/stream_set.hpp"

namespace parley::asio_driver {
namespace {

struct LooseSocket final : LooseStream {
  LooseSocket() = default;
  ~LooseSocket() override {
    if (fd < 0) return;
    reset_when_closed(fd, true);
    ::close(fd);
  }
  LooseSocket(const LooseSocket&) = delete;
  LooseSocket& operator=(const LooseSocket&) = delete;

  int fd = -1;
  std::uint8_t writes = 0;
  bool unanswered = false;
  Duration keepalive{};
  Address local{}, peer{};
};

}  // namespace

std::unique_ptr<LooseStream> StreamSet::detach(StreamId id) {
  const auto at = by_id_.find(id);
  if (at == by_id_.end()) return nullptr;
  const std::uint32_t slot = at->second;
  Socket& socket = sockets_[slot];
  if (socket.kind != Kind::stream || socket.fin_in || socket.fin_out) return nullptr;
  auto loose = std::make_unique<LooseSocket>();
  loose->writes = socket.writes;
  loose->unanswered = socket.unanswered;
  loose->keepalive = socket.keepalive;
  loose->local = socket.local;
  loose->peer = socket.peer;
  // Now, and not in the next turn: by then the number may belong to another socket, or to none.
  if (socket.watched != 0) (void)::epoll_ctl(epoll_, EPOLL_CTL_DEL, socket.fd, nullptr);
  loose->fd = std::exchange(socket.fd, -1);
  forget(slot);
  if (!parked_.empty()) rearm_at_ = now_;
  return loose;
}

Result<StreamId> StreamSet::attach(std::unique_ptr<LooseStream>& stream) {
  auto* loose = dynamic_cast<LooseSocket*>(stream.get());
  if (loose == nullptr)
    return fail(Errc::unsupported,
                "the request's stream is not a socket; adopt() it at a Manager of its own kind of host");
  if (streams_ >= options_.streams_max)
    return fail(Errc::no_space,
                "{a} TCP connections are open, which is TcpHostOptions::streams_max; end some, or raise it",
                static_cast<std::int64_t>(options_.streams_max));
  const StreamId id = serial_ += 2;
  const std::uint32_t slot = add(loose->fd, Kind::stream, id);
  loose->fd = -1;
  Socket& socket = sockets_[slot];
  socket.writes = loose->writes;
  socket.unanswered = loose->unanswered;
  socket.keepalive = loose->keepalive;
  pace_.watch(now_, slot, in_whole_seconds(socket.keepalive));
  socket.local = loose->local;
  socket.peer = loose->peer;
  stream.reset();
  watch(slot);  // octets received meanwhile are reported at once: the set is level-triggered
  return id;
}

}  // namespace parley::asio_driver
