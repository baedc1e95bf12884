// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/fabric/tell.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "tools/fabric/server.hpp"

namespace parley::tools {

int tell_fabric(const std::string& name, const std::string& text, Output& out) {
  ibsim::Control control{};
  if (text.size() >= control.data.size())
    return out.error(Exit::usage, fmt::format("--tell: at most {} octets", control.data.size() - 1));
  control.magic = ibsim::magic;
  control.type = static_cast<std::uint32_t>(ibsim::ControlType::command);
  control.length = static_cast<std::uint32_t>(text.size());
  std::copy(text.begin(), text.end(), control.data.begin());
  const asio_driver::Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto [own, own_length] = ibsim_address(fmt::format("{}:tell{}", name, ::getpid()));
  const auto [server, server_length] = ibsim_address(name + ":ctl");
  if (socket.fd < 0 || ::bind(socket.fd, reinterpret_cast<const sockaddr*>(&own), own_length) != 0 ||
      ::connect(socket.fd, reinterpret_cast<const sockaddr*>(&server), server_length) != 0 ||
      ::send(socket.fd, &control, sizeof(control), MSG_NOSIGNAL) != sizeof(control))
    return out.error(Exit::environment,
                     fmt::format("nobody serves a subnet as '{}': {}", printable(name, false), std::strerror(errno)));
  pollfd ready{.fd = socket.fd, .events = POLLIN};
  constexpr int wait_ms = 60'000;  // routes of a large subnet take their time
  if (::poll(&ready, 1, wait_ms) != 1 || ::recv(socket.fd, &control, sizeof(control), 0) != sizeof(control))
    return out.error(Exit::environment, fmt::format("'{}' does not answer", printable(name, false)));
  const auto* const begin = reinterpret_cast<const char*>(control.data.data());
  const std::string answer = printable(std::string(begin, strnlen(begin, control.data.size())), false);
  if (control.type == static_cast<std::uint32_t>(ibsim::ControlType::error)) return out.error(Exit::failed, answer);
  out.text(answer);
  out.object({{"event", "told"}, {"text", answer}});
  return code(Exit::ok);
}

}  // namespace parley::tools
