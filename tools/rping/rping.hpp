// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley rping`: common parts of client and server.
#pragma once
#include <string>
#include <vector>

#include "tools/report.hpp"
#include "tools/rping/rping_link.hpp"
#include "tools/rping/session.hpp"

namespace parley::tools {

struct RpingArgs {
  bool server = false, client = false;
  bool validate = false, debug = false, persistent = false;
  bool own_qp = false;  ///< -q: accepted for compatibility with rping; the program always creates the queue pair itself
  std::string address, source;
  std::uint16_t port = rping_port;
  std::uint32_t count = 0;  ///< 0: until interrupted
  std::uint32_t size = rping_size_default;
  MpaArgs mpa;
  SessionOptions session;
  Duration tcp_timeout = std::chrono::seconds(10);
  Duration timeout = std::chrono::seconds(10);
  Duration nudge_after = std::chrono::seconds(2);
  std::uint32_t retries = 3;
  bool timeout_given = false;
};

int run_rping_client(const RpingArgs& args, Bytes private_data, std::vector<Address> servers,
                     std::optional<Address> source, Session& session, Context& context);
int run_rping_server(const RpingArgs& args, Bytes private_data, const Address& local, Session& session,
                     Context& context);

}  // namespace parley::tools
