// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley udping`: common parts of client and server.
#pragma once
#include <optional>
#include <string>

#include "tools/report.hpp"
#include "tools/rping/session.hpp"

namespace parley::tools {

struct UdpingArgs {
  std::string server;  ///< -s: the server's address; empty: run as the server
  std::string bind;    ///< -b
  std::string group;   ///< -m: run as a receiver or a sender of this multicast group
  bool send = false;   ///< --send: be a sender
  std::uint16_t port = 7174;
  std::uint32_t connections = 1;
  std::uint32_t messages = 10;  ///< in each direction over each connection
  std::uint32_t size = 100;     ///< octets
  bool persistent = false, reject = false;
  Duration timeout = std::chrono::seconds(10);
  bool timeout_given = false;
  SessionOptions session{.provider = "roce"};
};

int run_udping_client(const UdpingArgs& args, const Address& server, std::optional<Address> source, Session& session,
                      Context& context);
int run_udping_group(const UdpingArgs& args, const Address& group, const Address& local, Session& session,
                     Context& context);
int run_udping_server(const UdpingArgs& args, const Address& local, Session& session, Context& context);

}  // namespace parley::tools
