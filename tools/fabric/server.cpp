// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/fabric/server.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "base/text.hpp"
#include "drivers/ibsim/socket.hpp"

namespace parley::tools {

namespace {

using ibsim::Control;
using ibsim::ControlType;
using ibsim::Data;
using sim::subnet::ClientId;

constexpr int batch = 64;  // datagrams read from one client before the next client's turn
/// How long the server polls for the next request before it sleeps, and how many polls it may skip in a row.
constexpr Duration look_for = std::chrono::microseconds(50);
constexpr unsigned looks_left_out_max = 1023;
constexpr unsigned alone_for = 16;  // turns in which one datagram is read from a client that had only one pending
enum class Watched : std::uint32_t { control, client, process };

std::uint64_t key_of(Watched what, std::size_t id) { return static_cast<std::uint64_t>(what) << 32 | id; }

bool watch(int epoll, int operation, int fd, Watched what, std::size_t id, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key_of(what, id);
  return ::epoll_ctl(epoll, operation, fd, &event) == 0;
}

/// `credentials`: each received datagram has its sender's credentials.
int bound_socket(const std::string& name, bool credentials) {
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd >= 0 && credentials) ibsim::ask_for_sender(fd);
  if (fd >= 0 && ibsim::bind_to(fd, name)) return fd;
  const int wrong = errno;
  if (fd >= 0) ::close(fd);
  errno = wrong;
  return -1;
}

std::uint32_t big32(const std::array<std::uint8_t, 4>& octets) {
  return static_cast<std::uint32_t>(read_bits(octets, 0, 32));
}
std::uint16_t big16(const std::array<std::uint8_t, 4>& octets) {
  return static_cast<std::uint16_t>(read_bits(octets, 0, 16));
}

sim::subnet::Packet packet_of(const Data& data) {
  return {.dlid = big16(data.dlid),
          .slid = big16(data.slid),
          .dqp = big32(data.dqp),
          .sqp = big32(data.sqp),
          .mad = data.mad};
}

static_assert(ibsim::status_undeliverable == sim::subnet::status_undeliverable);
Data data_of(const sim::subnet::Packet& packet) {
  Data out{};
  write_bits(out.dlid, 0, 16, packet.dlid);
  write_bits(out.slid, 0, 16, packet.slid);
  write_bits(out.dqp, 0, 32, packet.dqp);
  write_bits(out.sqp, 0, 32, packet.sqp);
  write_bits(out.status, 0, 32, packet.status);
  out.mad = packet.mad;
  return out;
}

}  // namespace

Or<std::unique_ptr<FabricServer>> FabricServer::open(sim::subnet::Subnet& subnet, const std::string& name,
                                                     Output& out) {
  if (name.empty() || name.size() > 64) return command_error(Exit::usage, "--name: 1 to 64 octets");
  const int control = bound_socket(ibsim::control_name(name), true);
  if (control < 0)
    return command_error(
        Exit::environment,
        errno == EADDRINUSE
            ? fmt::format("another simulator serves '{}'; choose another name with --name or IBSIM_SOCKNAME",
                          printable(name, false))
            : fmt::format("no socket: {}", std::strerror(errno)));
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  std::unique_ptr<FabricServer> server(new FabricServer(subnet, name, out, epoll, control));
  if (epoll < 0 || !watch(epoll, EPOLL_CTL_ADD, control, Watched::control, 0, EPOLLIN))
    return command_error(Exit::environment, fmt::format("no epoll: {}", std::strerror(errno)));
  return server;
}

FabricServer::FabricServer(sim::subnet::Subnet& subnet, std::string name, Output& out, int epoll, int control)
    : subnet_(subnet), name_(std::move(name)), out_(out), epoll_(epoll), control_(control) {}
FabricServer::~FabricServer() = default;

/// A client that has received its answer often sends the next request within microseconds. Polling for it is faster
/// than sleeping and waking up, unless client and server share a processor. After each poll that finds nothing, the
/// server skips twice as many polls.
int FabricServer::wait_for(Duration wait) {
  const auto look = [&](Duration time) {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(time).count();
    return ::epoll_wait(epoll_.fd, events_.data(), static_cast<int>(events_.size()), static_cast<int>(ms));
  };
  const bool soon = std::exchange(has_read_, false) && wait > Duration::zero();
  if (!soon) return look(wait);
  if (looks_left_out_ > 0) {
    --looks_left_out_;
    return look(wait);
  }
  const Instant end = now() + std::min(look_for, wait);
  int ready = 0;
  while (ready == 0 && now() < end) ready = look(Duration::zero());
  if (ready != 0 && now() < end) {
    looks_in_vain_ -= (looks_in_vain_ + 7) / 8;
    return ready;
  }
  // If it arrived late, the client needed this processor to send it.
  looks_in_vain_ = std::min(2 * looks_in_vain_ + 1, looks_left_out_max);
  looks_left_out_ = looks_in_vain_;
  return ready != 0 ? ready : look(wait);
}

void FabricServer::turn(Duration wait) {
  const Instant next = subnet_.next_deadline();
  if (next != never) {
    const Instant begin = now();
    wait = next <= begin ? Duration::zero() : std::min(next - begin, wait);
  }
  const int ready = wait_for(wait);
  if (next != never && next <= now()) subnet_.handle_deadline(now());
  for (int i = 0; i < ready; ++i) {
    const epoll_event& event = events_[static_cast<std::size_t>(i)];
    const auto what = static_cast<Watched>(event.data.u64 >> 32);
    const auto id = static_cast<ClientId>(event.data.u64 & 0xFFFF);
    const std::uint32_t kind = event.events;
    if (what == Watched::control) {
      read_control();
    } else if (Client* const client = find(id); client != nullptr) {
      if (what == Watched::process) {
        end(id, true);
        continue;
      }
      if ((kind & EPOLLOUT) != 0) flush(id);  // may end the client
      if ((kind & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0 && find(id) != nullptr) read_client(id);
    }
  }
  drain();
}

/// Each datagram is answered before the next one is read, so that the client can read answers and send requests
/// meanwhile. From a client that waits for each answer, one datagram is read at a time, which saves a recv() that finds
/// nothing.
void FabricServer::read_client(ClientId id) {
  const Instant at = now();
  const bool alone = clients_[id]->alone > 0;
  if (alone) --clients_[id]->alone;
  const int most = alone ? 1 : batch;
  int got = 0;
  for (; got < most && find(id) != nullptr; ++got) {
    const ssize_t length = ::recv(clients_[id]->socket.fd, &buffer_, sizeof(buffer_), MSG_DONTWAIT | MSG_TRUNC);
    if (length < 0) {
      if (errno == ECONNRESET || errno == ECONNREFUSED || errno == ENOTCONN) end(id, true);
      break;
    }
    if (length != sizeof(buffer_)) {
      ++statistics_.unreadable;
      continue;
    }
    ++statistics_.received;
    subnet_.handle_send(at, id, packet_of(buffer_));
    drain();
  }
  has_read_ = has_read_ || got > 0;
  if (Client* const client = find(id); client != nullptr && !alone && got == 1) client->alone = alone_for;
}

/// Sends what the subnet has for its clients, or queues it.
void FabricServer::drain() {
  sim::subnet::Delivery delivery;
  while (subnet_.poll_transmit(delivery)) {
    Client* const client = find(delivery.to);
    if (client == nullptr) continue;
    if (client->waiting.size() - client->sent >= queue_max) {
      ++statistics_.dropped;
      if (client->dropped++ == 0)
        out_.note(fmt::format("client {} at {} does not read: {} datagrams are queued, further ones are dropped",
                              delivery.to, client->node, queue_max));
      continue;
    }
    client->waiting.push_back(data_of(delivery.packet));
    if (!client->full) flush(delivery.to);
  }
}

void FabricServer::flush(ClientId id) {
  Client& client = *clients_[id];
  while (client.sent < client.waiting.size()) {
    if (::send(client.socket.fd, &client.waiting[client.sent], sizeof(Data), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
      ++statistics_.sent;
      ++client.sent;
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != ENOBUFS) return end(id, true);
    if (client.sent >= queue_max / 4) {
      client.waiting.erase(client.waiting.begin(), client.waiting.begin() + static_cast<std::ptrdiff_t>(client.sent));
      client.sent = 0;
    }
    if (!client.full) watch(epoll_.fd, EPOLL_CTL_MOD, client.socket.fd, Watched::client, id, EPOLLIN | EPOLLOUT);
    client.full = true;
    return;
  }
  client.waiting.clear();
  client.sent = 0;
  if (client.full) watch(epoll_.fd, EPOLL_CTL_MOD, client.socket.fd, Watched::client, id, EPOLLIN);
  client.full = false;
}

void FabricServer::end(ClientId id, bool died) {
  if (died) ++statistics_.died;
  const Client& client = *clients_[id];
  out_.text(fmt::format("client {} at {} {}{}", id, client.node, died ? "is gone" : "left",
                        client.dropped == 0 ? "" : fmt::format(", {} dropped", counted(client.dropped, "datagram"))));
  out_.object({{"event", "client"},
               {"client", id},
               {"node", client.node},
               {"pid", client.pid},
               {"state", died ? "gone" : "left"},
               {"dropped", client.dropped}});
  clients_[id].reset();
  subnet_.detach(now(), id);
}

void FabricServer::read_control() {
  for (int i = 0; i < batch; ++i) {
    Control control{};
    Sender sender;
    iovec part{&control, sizeof(control)};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> extra{};
    msghdr message{};
    message.msg_name = &sender.address;
    message.msg_namelen = sizeof(sender.address);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = extra.data();
    message.msg_controllen = extra.size();
    const ssize_t got = ::recvmsg(control_.fd, &message, MSG_DONTWAIT);
    if (got < 0) return;
    sender.length = message.msg_namelen;
    sender.pid = ibsim::sender_in(message);
    if (got != sizeof(control) || control.magic != ibsim::magic) {
      ++statistics_.unreadable;
      continue;
    }
    answer_control(control, sender);
    drain();
  }
}

void FabricServer::answer_control(Control& control, const Sender& sender) {
  const ControlType type = control.type;
  bool good = false;
  if (type == ControlType::connect) {
    good = connect(control, sender);
  } else if (type == ControlType::command) {
    good = command(control);
  } else if (const Client* const client = find(control.client); client != nullptr && client->pid == sender.pid) {
    const auto id = static_cast<ClientId>(control.client);
    good = true;
    if (type == ControlType::disconnect)
      end(id, false);
    else
      good = type == ControlType::receive ? receive(control, id) : tell(control, id, type);
  }
  if (!good) control.type = ControlType::error;
  ::sendto(control_.fd, &control, sizeof(control), MSG_DONTWAIT | MSG_NOSIGNAL,
           reinterpret_cast<const sockaddr*>(&sender.address), sender.length);
}

bool FabricServer::connect(Control& control, const Sender& sender) {
  auto asked = ibsim::message_in<ibsim::Connect>(control.data);
  const std::string node(ibsim::text_in(asked.node));
  // An earlier client of this name has ended, or could not be distinguished from this one.
  for (std::size_t id = 0; id < clients_.size(); ++id)
    if (clients_[id] != nullptr && clients_[id]->id == asked.id) end(static_cast<ClientId>(id), true);
  const auto refuse = [&](const std::string& why) {
    ++statistics_.refused;
    out_.note(fmt::format("process {} refused: {}", asked.id, why));
    return false;
  };
  const auto id = subnet_.attach(now(), {.node = node, .is_sm = asked.is_sm != 0, .qp = asked.qp});
  if (!id) return refuse(id.error());
  const int process =
      sender.pid == 0 ? -1 : static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(sender.pid), 0U));
  const int fd = bound_socket(ibsim::server_data_name(name_, *id), false);
  auto client = std::make_unique<Client>(fd, process);
  if (fd < 0 || !ibsim::connect_to(fd, ibsim::client_data_name(name_, asked.id)) ||
      !watch(epoll_.fd, EPOLL_CTL_ADD, fd, Watched::client, *id, EPOLLIN)) {
    const std::string why = std::strerror(errno);
    subnet_.detach(now(), *id);
    return refuse(why);
  }
  if (process >= 0) watch(epoll_.fd, EPOLL_CTL_ADD, process, Watched::process, *id, EPOLLIN);
  const sim::subnet::Node& at = subnet_.state().node_of(subnet_.state().port(subnet_.port_of(*id)));
  client->id = asked.id;
  client->pid = sender.pid;
  client->node = printable(at.plan->name, false);
  if (clients_.size() <= *id) clients_.resize(*id + 1U);
  clients_[*id] = std::move(client);
  ++statistics_.clients;
  const auto now_there =
      clients_.size() - static_cast<std::size_t>(std::count(clients_.begin(), clients_.end(), nullptr));
  statistics_.clients_most = std::max<std::uint64_t>(statistics_.clients_most, now_there);
  out_.text(fmt::format("client {} at {}, process {}", *id, clients_[*id]->node, sender.pid));
  out_.object({{"event", "client"},
               {"client", *id},
               {"node", clients_[*id]->node},
               {"pid", sender.pid},
               {"state", "connected"}});
  asked.id = *id;
  asked.node = {};
  std::copy_n(at.plan->name.begin(), std::min(at.plan->name.size(), asked.node.size() - 1), asked.node.begin());
  control.data = ibsim::data_with(asked);
  return true;
}

bool FabricServer::receive(Control& control, ClientId client) {
  auto asked = ibsim::message_in<ibsim::Receive>(control.data);
  subnet_.set_own_timers(client, asked.own_timers != 0);
  for (std::size_t n = 0; n < 256; ++n)
    if ((asked.classes[n / 8] >> n % 8 & 1) != 0) subnet_.set_receives(client, static_cast<std::uint8_t>(n));
  asked.known = 1;
  control.data = ibsim::data_with(asked);
  return true;
}

}  // namespace parley::tools
