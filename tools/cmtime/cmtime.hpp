// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley cmtime`: common parts of client and server.
#pragma once
#include <optional>
#include <string>

#include "tools/rping/session.hpp"

namespace parley::tools {

struct CmtimeArgs {
  std::string server;  ///< -s: the server's address; empty: run as the server
  std::string bind;    ///< -b
  std::uint16_t port = 7471;
  std::uint32_t count = 0;        ///< 0: 100 for a client; unlimited for a server
  std::uint32_t concurrency = 0;  ///< 0: all
  Duration timeout = std::chrono::seconds(60);
  SessionOptions session;
};

/// The driver of connections and its clock.
class CmtimeHost {
 public:
  virtual ~CmtimeHost() = default;
  virtual cm::Manager& cm() = 0;
  virtual Instant now() const = 0;
  /// Waits at most until `deadline`.
  virtual void turn(Instant deadline) = 0;
  virtual void settle() = 0;
  virtual bool stopped() const = 0;
};

int run_cmtime_client(const CmtimeArgs& args, const Address& server, std::optional<Address> source, CmtimeHost& host,
                      Context& context);
int run_cmtime_server(const CmtimeArgs& args, const Address& local, Session& session, Context& context);
/// Both sides in a simulated network.
int run_cmtime_sim(const CmtimeArgs& args, Context& context);

}  // namespace parley::tools
