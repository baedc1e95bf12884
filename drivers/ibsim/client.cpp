// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/ibsim/client.hpp"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "drivers/clock.hpp"
#include "drivers/ibsim/socket.hpp"
#include "drivers/secure_env.hpp"

namespace parley::ibsim {

namespace {

std::string system_text(int number) { return std::generic_category().message(number); }
int new_socket() { return ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

}  // namespace

ClientOptions environment_options() {
  const auto setting = [](const char* name) {
    const char* const value = secure_env(name);
    return std::string(value == nullptr ? "" : value);
  };
  ClientOptions out{.node = setting("SIM_HOST")};
  if (std::string name = setting("IBSIM_SOCKNAME"); !name.empty()) out.name = std::move(name);
  return out;
}

Client::Client(const ClientOptions& options, int control, int data)
    : options_(options), control_(control), data_(data) {}

Client::OrText<std::unique_ptr<Client>> Client::open(const ClientOptions& options) {
  constexpr std::size_t name_max = 80, node_max = sizeof(Connect::node) - 1;
  if (options.name.empty() || options.name.size() > name_max)
    return tl::unexpected(
        fmt::format("the name of ibsim's sockets must have 1 to {} octets, not {}", name_max, options.name.size()));
  if (options.node.size() > node_max)
    return tl::unexpected(
        fmt::format("the name of a node of ibsim has at most {} octets: '{}'", node_max, options.node));
  std::unique_ptr<Client> out(new Client(options, new_socket(), new_socket()));
  if (out->control_.fd < 0 || out->data_.fd < 0) return tl::unexpected("no socket: " + system_text(errno));
  const auto own_id = out->bind_both();
  if (!own_id) return tl::unexpected(own_id.error());
  if (const auto attached = out->attach(*own_id); !attached) return tl::unexpected(attached.error());
  return out;
}

/// The server identifies a client by a number that it treats as a process ID. A process may have several attachments.
Client::OrText<std::uint32_t> Client::bind_both() {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  for (std::uint32_t i = 0; i < 64; ++i) {
    const std::uint32_t id = pid + (i << 24);
    const bool bound = bind_to(control_.fd, client_control_name(options_.name, id));
    if (!bound && errno == EADDRINUSE) continue;
    if (bound && bind_to(data_.fd, client_data_name(options_.name, id))) return id;
    return tl::unexpected("cannot bind a socket for ibsim: " + system_text(errno));
  }
  return tl::unexpected(std::string("this process already has 64 attachments to ibsim"));
}

Client::OrText<void> Client::attach(std::uint32_t own_id) {
  const Instant end = clock_now() + options_.server_wait;
  while (!connect_to(control_.fd, control_name(options_.name))) {
    if (errno != ECONNREFUSED) return failed();
    if (clock_now() >= end)
      return tl::unexpected(fmt::format("ibsim '{}': no ibsim runs with that socket name", options_.name));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  Connect who{.id = own_id, .is_sm = options_.is_sm ? 1U : 0U};
  options_.node.copy(who.node.data(), who.node.size() - 1);
  Control message{.magic = magic, .type = ControlType::connect, .length = control_data, .data = data_with(who)};
  ask_for_sender(control_.fd);
  std::uint32_t pid = 0;
  if (!exchange_with_sender(control_.fd, message, options_.patience, pid)) return failed();
  if (pid != 0) server_.emplace(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0U)));
  if (message.type == ControlType::error)
    return tl::unexpected(
        fmt::format("ibsim '{}' does not attach us to {}: it has no such node, no place for another client{}",
                    options_.name, options_.node.empty() ? "its first node" : "node '" + options_.node + "'",
                    options_.is_sm ? ", or a subnet manager there" : ""));
  attached_ = true;
  who = message_in<Connect>(message.data);
  id_ = who.id;
  node_ = text_in(who.node);
  if (!connect_to(data_.fd, server_data_name(options_.name, id_))) return failed();
  return {};
}

Client::~Client() {
  if (attached_) static_cast<void>(ask(ControlType::disconnect));
}

/// Translates the errno of an exchange.
tl::unexpected<std::string> Client::failed() const {
  if (errno == ETIMEDOUT)
    return tl::unexpected(
        fmt::format("ibsim '{}' does not answer within {} ms", options_.name,
                    std::chrono::duration_cast<std::chrono::milliseconds>(options_.patience).count()));
  if (errno == EBADMSG) return tl::unexpected(fmt::format("ibsim '{}' sent an invalid answer", options_.name));
  return tl::unexpected(fmt::format("ibsim '{}': {}", options_.name, system_text(errno)));
}

Client::OrText<ControlData> Client::ask(ControlType type, const ControlData& data, Duration patience) const {
  Control message{.magic = magic, .client = id_, .type = type, .length = control_data, .data = data};
  if (!exchange(control_.fd, message, patience, server())) return failed();
  if (message.type == ControlType::error)
    return tl::unexpected(fmt::format("ibsim '{}' refused the request", options_.name));
  return message.data;
}

bool Client::send(const Data& data) const {
  return ::send(data_.fd, &data, sizeof(data), MSG_NOSIGNAL) == sizeof(data);
}

bool Client::receive(Data& data) const { return ::recv(data_.fd, &data, sizeof(data), 0) == sizeof(data); }

}  // namespace parley::ibsim
