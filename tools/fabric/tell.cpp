// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/fabric/tell.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "drivers/asio/descriptor.hpp"
#include "drivers/ibsim/socket.hpp"

namespace parley::tools {

int tell_fabric(const std::string& name, const std::string& text, Output& out) {
  ibsim::Control control{.magic = ibsim::magic, .type = ibsim::ControlType::command};
  if (text.size() >= control.data.size())
    return out.error(Exit::usage, fmt::format("--tell: at most {} octets", control.data.size() - 1));
  control.length = static_cast<std::uint32_t>(text.size());
  std::copy(text.begin(), text.end(), control.data.begin());
  const asio_driver::Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  constexpr Duration patience = std::chrono::seconds(60);  // checking the routes of a large subnet takes long
  if (socket.fd < 0 || !ibsim::bind_to(socket.fd, fmt::format("{}:tell{}", name, ::getpid())) ||
      !ibsim::connect_to(socket.fd, ibsim::control_name(name)) || !ibsim::exchange(socket.fd, control, patience))
    return out.error(Exit::environment,
                     errno == ETIMEDOUT || errno == EBADMSG
                         ? fmt::format("'{}' does not answer", printable(name, false))
                         : fmt::format("no server for subnet '{}': {}", printable(name, false), std::strerror(errno)));
  const std::string answer = printable(ibsim::text_in(control.data), false);
  if (control.type == ibsim::ControlType::error) return out.error(Exit::failed, answer);
  out.text(answer);
  out.object({{"event", "told"}, {"text", answer}});
  return code(Exit::ok);
}

}  // namespace parley::tools
