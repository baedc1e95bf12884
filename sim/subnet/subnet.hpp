// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A simulated InfiniBand subnet as its clients see it: programs that send and receive MADs at ports of its nodes.
// Agents of subnet and performance management answer in the subnet. MADs for a subnet manager, or of other classes, go
// to the client at the destination port. A machine in the sense of base/machine.hpp.
#pragma once
#include <bitset>
#include <map>
#include <utility>

#include "sim/subnet/check.hpp"
#include "sim/subnet/fault.hpp"
#include "sim/subnet/route.hpp"
#include "wire/mad/rpc.hpp"

namespace parley::sim::subnet {

using ClientId = std::uint16_t;
inline constexpr std::size_t clients_max = 4096;
inline constexpr std::uint32_t status_undeliverable = 110;

/// A MAD and the fields of its packet that are modelled. Towards the client, addresses are those of its sender.
struct Packet {
  std::uint16_t dlid = PARLEY_MAD_PERMISSIVE_LID;
  std::uint16_t slid = 0;  ///< 0: the port's base LID
  std::uint32_t dqp = 0, sqp = 0;
  std::uint32_t status = 0;  ///< status_undeliverable: the client's own request, which will get no answer
  wire::mad::Datagram mad{};
};

struct Delivery {
  ClientId to = 0;
  Packet packet;
};

struct ClientOptions {
  std::string node;  ///< its name or description, "NAME/2" for a port; empty: the first channel adapter
  bool is_sm = false;
  std::uint32_t qp = 0;     ///< greater than 1: receives only requests to this QP
  bool own_timers = false;  ///< wants no Packets with status_undeliverable
};

struct SubnetOptions {
  std::uint64_t seed = 1;
  Ratio loss{0, 1};
  Duration delay{};
  Duration trap_interval = std::chrono::seconds(1);  ///< between repetitions of a trap without TrapRepress
  unsigned trap_repeats = 5;
};

struct Statistics {
  std::uint64_t sent = 0;           ///< by clients
  std::uint64_t answered = 0;       ///< by agents
  std::uint64_t forwarded = 0;      ///< from client to client
  std::uint64_t refused = 0;        ///< answered with an error status
  std::uint64_t undeliverable = 0;  ///< no route, link down, or no receiver
  std::uint64_t malformed = 0;
  std::uint64_t lost = 0, delayed = 0, duplicated = 0, busy = 0;  ///< due to faults
  std::uint64_t traps = 0, repressed = 0;
  std::uint64_t m_key_violations = 0;
  std::uint64_t overflows = 0;  ///< lost because too many MADs were in flight
};

class Subnet {
 public:
  static constexpr std::size_t delayed_max = 65536, outbox_max = 65536, traps_max = 65536, open_max = 4096;

  Subnet(Plan plan, const SubnetOptions& options, Instant now);

  State& state() { return state_; }
  const State& state() const { return state_; }
  const Statistics& statistics() const { return statistics_; }
  const std::vector<FaultRule>& rules() const { return faults_.rules(); }
  /// Faults that were executed at once; equal texts are one entry, with one hit per command. The first fault_rules_max
  /// of them.
  const std::vector<FaultRule>& commands() const { return commands_; }

  /// Errors: no such node, another subnet manager at its port, too many clients.
  Said<ClientId> attach(Instant now, const ClientOptions& options);
  void detach(Instant now, ClientId client);
  void set_is_sm(Instant now, ClientId client, bool is_sm);
  /// Requests of this class to its port go to this client.
  void set_receives(ClientId client, std::uint8_t mgmt_class);
  void set_own_timers(ClientId client, bool own);
  bool is_attached(ClientId client) const { return client < clients_.size() && clients_[client].attached; }
  /// For an attached client.
  std::uint32_t port_of(ClientId client) const { return clients_[client].port; }

  void handle_send(Instant now, ClientId from, const Packet& packet);
  bool poll_transmit(Delivery& out);
  Instant next_deadline() const;
  void handle_deadline(Instant now);

  /// Adds a rule of fault.hpp; one that waits for no MAD and no time is executed at once. Errors: not understood, too
  /// many rules.
  Said<void> add_fault(Instant now, std::string_view text);

 private:
  struct Client {
    bool attached = false, is_sm = false, own_timers = false;
    std::uint32_t port = nowhere, qp = 0;
    std::uint64_t number = 0;  ///< running number of the client
    std::bitset<256> receives;
  };
  struct Open {  ///< a request that a client must still answer
    ClientId from;
    Packet asked;
  };
  struct Trap {
    std::uint32_t node;
    wire::mad::Datagram mad;
    Instant next;
    unsigned left;
  };
  struct Request {  ///< a MAD in flight
    Instant now;
    ClientId from;
    Packet packet;
    bool directed, response;
    std::uint8_t method;
    EgressPorts trail;
    std::uint32_t at = nowhere;                       ///< its ingress port at the current node
    std::uint32_t entered = nowhere, left = nowhere;  ///< start and end of the directed part of its route
    Duration delay{};
  };

  std::uint32_t carry(Request& request);
  std::uint32_t carry_directed(Request& request);
  void arrive(Request& request);
  void hand_over(Request& request, bool busy);
  bool enter_vl15(Request& request);
  bool is_for_agent(const Request& request) const;
  void answer_by_agent(Request& request, bool busy);
  std::uint16_t ask_agent(const Request& request, bool key_fits, MutBytes mad);
  bool way_back(Request& request);
  void forward(Request& request);
  void repress(const Request& request);
  bool expects_bounce(const Request& request) const;
  void bounce(Request& request);
  void remember(ClientId receiver, std::uint64_t tid, Open open);
  void close(Instant now, ClientId receiver);
  void deliver(Instant now, ClientId to, const Packet& packet, Duration delay);
  void apply(Instant now, FaultRule& rule);
  void obey(Instant now, FaultRule command);
  void reset(Instant now, std::uint32_t node);
  void note_m_key_violation(const Request& request);

  const Client* find_receiver(std::uint32_t port, const Request& request) const;
  ClientId id_of(const Client& client) const { return static_cast<ClientId>(&client - clients_.data()); }
  void show_is_sm(Instant now, std::uint32_t port);

  void send_changes(Instant now);
  void send_trap_128(Instant now, std::uint32_t node);
  void send_trap_144(Instant now, std::uint32_t port);
  void send_trap_256(const Request& request);
  void send_port_trap(Instant now, std::uint16_t number, std::uint32_t port);
  void send_trap(Instant now, std::uint32_t port, wire::mad::Datagram mad);
  void deliver_trap(Instant now, const Trap& trap);

  SubnetOptions options_;
  State state_;
  Faults faults_;
  std::vector<FaultRule> commands_;                          // at most fault_rules_max
  std::vector<Client> clients_;                              // at most clients_max
  std::vector<Delivery> outbox_;                             // at most outbox_max
  std::multimap<Instant, Delivery> delayed_;                 // at most delayed_max
  std::map<std::pair<ClientId, std::uint64_t>, Open> open_;  // by receiver and transaction ID; at most open_max
  std::map<std::uint64_t, Trap> traps_;                      // by transaction ID; at most traps_max
  std::multimap<Instant, std::size_t> timed_;                // rules with a time
  std::map<std::uint32_t, Instant> leases_;                  // M_Key leases, by end port
  std::map<std::uint32_t, Instant> quiet_;                   // end port: no other trap 256 until then
  std::map<std::uint32_t, Instant> occupied_;                // until when an SMP occupies the node (vl15); by node
  Statistics statistics_;
  Instant started_;
  std::size_t taken_ = 0;  // read position in outbox_
  std::uint64_t clients_seen_ = 0, transaction_ = 1;
};

}  // namespace parley::sim::subnet
