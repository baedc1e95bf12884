// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A fleet of clients, a few servers and a flood in the simulator's time: fail-over, back-off and admission at once, each
// promise of docs/cm.md checked on every event.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "base/stream_port.hpp"
#include "parley/sim.hpp"
#include "parley/trace.hpp"

namespace parley::stress {

struct ServerPlan {
  bool listens = true;
  std::uint32_t pending_max = 1024;
  Duration decide_max{};  ///< a Request waits up to that long for the decision
  Ratio rejects{0, 1};
  Duration crash_at{};    ///< 0: never
  Duration back_after{};  ///< 0: never
};

struct FleetPlan {
  std::uint32_t clients = 1, connects = 1;  ///< hosts, and connections of each
  std::vector<ServerPlan> servers;          ///< all but the first are backups, in this order
  cm::Retry retry;
  Duration timeout{};  ///< of a whole connect; 0: none
  Ratio loss{0, 1};
  std::uint32_t flood = 0;  ///< connections to the first server that say nothing; one that is reset comes back
  /// Anything, with everything that can go wrong.
  static FleetPlan draw(Rng& rng);
  std::string to_string() const;
};

/// What the clients of all hosts saw.
struct Tally {
  std::uint32_t established = 0, rejected = 0, failed = 0, retries = 0;
};

class Fleet {
 public:
  Fleet(const FleetPlan& plan, std::uint64_t seed);
  ~Fleet();
  /// Until every connect has its outcome and every connection its end.
  void run(Duration limit);

  const std::vector<std::string>& wrong() const { return wrong_; }
  const Tally& tally() const { return tally_; }
  /// When each client began its n-th attempt (from 0), of all clients.
  const std::vector<std::vector<Instant>>& attempts() const { return attempts_; }
  /// The most that were pending at a server at one time.
  std::size_t pending_peak(std::size_t server) const;

 private:
  class Client;
  class Server;
  class Mute;
  friend class Client;
  friend class Server;

  void complain(std::string text);
  void attempted(std::size_t n, Instant at);
  bool over() const;

  FleetPlan plan_;
  sim::World world_;
  std::vector<Address> addresses_;  // of the servers
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::unique_ptr<Mute> mute_;
  std::vector<sim::Host*> server_hosts_;
  Tally tally_;
  std::vector<std::vector<Instant>> attempts_;
  std::vector<std::string> wrong_;
};

}  // namespace parley::stress
