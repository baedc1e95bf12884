// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/umad_preload/link.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "drivers/clock.hpp"

namespace parley::umad {

namespace {

struct Place {
  sockaddr_un address{};
  socklen_t length = 0;
};
Place place_of(const std::string& name) {
  Place out;
  out.address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof(out.address.sun_path) - 2);
  std::memcpy(out.address.sun_path + 1, name.data(), length);
  out.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length + 2);
  return out;
}

bool bind_to(int fd, const std::string& name) {
  const Place place = place_of(name);
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&place.address), place.length) == 0;
}
bool connect_to(int fd, const std::string& name) {
  const Place place = place_of(name);
  return ::connect(fd, reinterpret_cast<const sockaddr*>(&place.address), place.length) == 0;
}

const char* setting(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == 0 ? otherwise : value;
}

}  // namespace

std::unique_ptr<Link> Link::open() {
  const std::string name = setting("IBSIM_SOCKNAME", ibsim::usual_name);
  std::unique_ptr<Link> link(new Link(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0),
                                      ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
  if (link->connect(name)) return link;
  std::fprintf(stderr, "libparley_umad: nobody serves a subnet as '%s', or not at node '%s': %s\n", name.c_str(),
               setting("SIM_HOST", "(the first)"), std::strerror(errno));
  return nullptr;
}

bool Link::connect(const std::string& name) {
  const std::string id = std::to_string(::getpid());
  if (control_.fd < 0 || data_.fd < 0 || !bind_to(control_.fd, name + ":ctl" + id) ||
      !bind_to(data_.fd, name + ":in" + id))
    return false;
  constexpr int tries = 100;
  for (int i = 0; !connect_to(control_.fd, name + ":ctl"); ++i) {
    if (errno != ECONNREFUSED || i == tries) return false;
    const timespec pause{0, 100'000'000};
    ::nanosleep(&pause, nullptr);
  }
  ibsim::Connect asked{};
  asked.id = static_cast<std::uint32_t>(::getpid());
  std::strncpy(asked.node.data(), setting("SIM_HOST", ""), asked.node.size() - 1);
  std::array<std::uint8_t, ibsim::control_data> data{};
  std::memcpy(data.data(), &asked, sizeof(asked));
  if (!control(ibsim::ControlType::connect, data)) return false;
  std::memcpy(&asked, data.data(), sizeof(asked));
  client_ = static_cast<std::uint16_t>(asked.id);
  return connect_to(data_.fd, name + ":out" + std::to_string(client_));
}

Link::~Link() {
  std::array<std::uint8_t, ibsim::control_data> data{};
  control(ibsim::ControlType::disconnect, data);
}

bool Link::control(ibsim::ControlType type, std::array<std::uint8_t, ibsim::control_data>& data) const {
  const auto asked = static_cast<std::uint32_t>(type), refused = static_cast<std::uint32_t>(ibsim::ControlType::error);
  ibsim::Control message{};
  while (receive_control(message, Duration::zero())) {
  }  // answers that came too late for whoever asked
  message = {ibsim::magic, client_, asked, static_cast<std::uint32_t>(data.size()), data};
  ssize_t sent = 0;
  do sent = ::send(control_.fd, &message, sizeof(message), MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent != sizeof(message)) return false;
  const Instant end = clock_now() + std::chrono::seconds(60);
  do
    if (!receive_control(message, std::max(end - clock_now(), Duration::zero()))) return false;
  while (message.type != asked && message.type != refused);
  data = message.data;
  return message.type == asked;
}

/// False: nothing has come within `wait`, or no control datagram.
bool Link::receive_control(ibsim::Control& message, Duration wait) const {
  const Instant end = clock_now() + wait;
  pollfd ready{.fd = control_.fd, .events = POLLIN};
  int found = 0;
  do {
    const Duration left = std::max(end - clock_now(), Duration::zero());
    found = ::poll(&ready, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  } while (found < 0 && errno == EINTR);
  if (found == 0) errno = ETIMEDOUT;
  return found == 1 && ::recv(control_.fd, &message, sizeof(message), MSG_DONTWAIT) == sizeof(message);
}

bool Link::send(const ibsim::Data& data) const {
  return ::send(data_.fd, &data, sizeof(data), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(data);
}

bool Link::receive(ibsim::Data& data) const {
  return ::recv(data_.fd, &data, sizeof(data), MSG_DONTWAIT) == sizeof(data);
}

}  // namespace parley::umad
