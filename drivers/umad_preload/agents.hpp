// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Linux's functions between /dev/infiniband/umadN and the wire (its user_mad.c, mad.c and mad_rmpp.c): agents,
// transaction IDs, time limits and retransmission of requests, RMPP of subnet administration. Uses no socket and no
// clock.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "drivers/ibsim/protocol.hpp"
#include "mad/rmpp.hpp"

namespace parley::umad {

/// Precedes each MAD that a program writes or reads (ib_user_mad_hdr).
struct Header {
  std::uint32_t agent, status, timeout_ms, retries, length;
  std::array<std::uint8_t, 4> qpn, qkey;
  std::array<std::uint8_t, 2> lid;
  std::uint8_t sl, path_bits, grh_present, gid_index, hop_limit, traffic_class;
  std::array<std::uint8_t, 16> gid;
  std::array<std::uint8_t, 4> flow_label;
  std::uint16_t pkey_index;
  std::array<std::uint8_t, 6> reserved;
};
static_assert(sizeof(Header) == 64);

struct Registration {
  std::uint8_t qpn = 0, mgmt_class = 0, class_version = 0, rmpp_version = 0;
  std::array<std::uint32_t, 4> methods{};  ///< bit n % 32 of word n / 32; none: it only sends
  std::uint32_t oui = 0;
};

/// A message for a program to read.
struct Received {
  Header header{};
  Bytes mad;
};

/// One open file of umadN.
struct File {
  static constexpr std::size_t agents_max = 32, queue_max = 65536;
  std::array<std::optional<std::uint16_t>, agents_max> agents;  ///< by ID: index in the list of all agents
  std::deque<Received> queue;                                   // at most queue_max
  std::uint64_t dropped = 0;

  void put(Received received);  ///< drops it if the queue is full
};

class Agents {
 public:
  static constexpr std::size_t requests_max = 65536, messages_max = 4096, outgoing_max = 65536;

  void set_client(std::uint16_t client) { client_ = client; }
  /// The ID in that file; none if the file has too many.
  std::optional<std::uint32_t> add(File& file, const Registration& registration);
  bool remove(File& file, std::uint32_t id);
  void close(File& file);

  /// Sends a message that the program writes: 0, or an errno.
  int write(Instant now, File& file, const Header& header, ConstBytes mad);
  void handle(Instant now, const ibsim::Data& data);
  bool poll_transmit(ibsim::Data& out);
  Instant next_deadline() const;
  void handle_deadline(Instant now);

 private:
  struct Agent {
    File* file = nullptr;  ///< null: unused
    std::uint32_t id = 0;
    Registration of;
  };
  struct Request {
    std::uint16_t agent;
    Header header;
    Bytes mad;
    Instant deadline;
    std::uint32_t left;  ///< remaining retransmissions
  };
  using Key = std::pair<std::uint64_t, std::uint8_t>;  ///< transaction ID and class
  struct Sending {
    std::uint16_t agent;
    Header header;
    mad::rmpp::Sender sender;
    bool expects = false;  ///< an answer is expected
  };
  struct Receiving {
    ibsim::Data first;
    mad::rmpp::Receiver receiver;
    bool delivered = false;
  };

  void transmit(const Header& to, ConstBytes mad);
  void transmit_to(const ibsim::Data& to, const wire::mad::Datagram& mad);
  bool handle_rmpp(Instant now, const ibsim::Data& data);
  void pump(Instant now);
  void deliver(const ibsim::Data& data, ConstBytes mad);
  void deliver_to(std::uint16_t agent, const ibsim::Data& data, ConstBytes mad);
  void give_up(const Request& request);
  std::optional<std::uint16_t> find_agent(ConstBytes mad) const;

  std::uint16_t client_ = 0;
  std::vector<Agent> agents_;
  std::map<Key, Request> requests_;     // at most requests_max
  std::map<Key, Sending> sending_;      // at most messages_max
  std::map<Key, Receiving> receiving_;  // at most messages_max
  std::deque<ibsim::Data> outgoing_;    // at most outgoing_max
};

}  // namespace parley::umad
