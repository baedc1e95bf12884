// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The TCP connections and listeners of one host, and the lookup for a segment: a connection has four numbers (RFC 9293
// §3.3.2), a listener a port and an address. Towards the machine, a StreamId identifies either.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/rng.hpp"
#include "sim/host/host_frames.hpp"
#include "sim/host/neighbour.hpp"
#include "sim/host/stack_index.hpp"
#include "sim/tcp/tcp.hpp"

namespace parley::sim {

struct ConnectionKey {
  std::array<std::uint8_t, 16> peer{};
  std::uint16_t local_port = 0, peer_port = 0;
  std::uint16_t port = 0;  ///< the host's port, i.e. the link
  LocalKind kind = LocalKind::v4;
  bool operator==(const ConnectionKey&) const = default;
};

/// The machine's view of a connection.
enum class ConnectionPhase : std::uint8_t {
  free,
  opening,    ///< requested by the machine, SYN sent
  half_open,  ///< SYN received; the machine does not know it yet
  up,
  forgotten,  ///< closed by the machine; octets and FINs are still exchanged
};

struct TcpConnection {
  std::optional<Tcp> tcp;
  ConnectionKey key;
  StreamId stream = 0;    ///< 0: none (half open)
  StreamId listener = 0;  ///< half open: its listener
  NeighbourRef neighbour;
  Instant armed = never;  ///< the host's next check, at the latest
  std::uint32_t generation = 0;
  ConnectionPhase phase = ConnectionPhase::free;
  bool blocked = false;    ///< the send buffer was full
  bool held = false;       ///< the process is stopped: received octets wait in the receive buffer
  bool finishing = false;  ///< StreamCommand::finish: its last octets await their acknowledgement
  bool dirty = false;      ///< in the host's list of connections to flush
  bool time_wait = false;  ///< in the table's list of connections that may be evicted
};

struct ConnectionRef {
  std::uint32_t slot = SlotIndex::none;
  std::uint32_t generation = 0;
};

struct Listener {
  StreamId id = 0;
  Address local;  ///< with the port; any() for its whole family
  int backlog = 0;
  int half_open = 0;                   ///< at most backlog
  Duration keepalive{}, dead_after{};  ///< for its connections
};

class Stack {
 public:
  static constexpr std::size_t connections_max = 131072;                           // includes TIME-WAIT
  static constexpr std::uint16_t ephemeral_first = 32768, ephemeral_last = 60999;  // the same range as Linux
  static constexpr std::uint32_t ephemeral_ports = ephemeral_last - ephemeral_first + 1;

  explicit Stack(Rng& rng);

  TcpConnection& at(std::uint32_t slot) { return connections_[slot]; }
  const TcpConnection& at(std::uint32_t slot) const { return connections_[slot]; }
  TcpConnection* get(ConnectionRef ref) {
    TcpConnection& c = connections_[ref.slot];
    return c.generation == ref.generation ? &c : nullptr;
  }
  ConnectionRef ref(std::uint32_t slot) const { return {slot, connections_[slot].generation}; }

  std::uint32_t find(const ConnectionKey& key) const;
  std::uint32_t find_stream(StreamId stream) const;
  /// A free slot with that key, its phase still free; none if the table is full. A TIME-WAIT is evicted if necessary.
  std::uint32_t add(const ConnectionKey& key);
  /// From now on `stream` identifies the connection.
  void name(std::uint32_t slot, StreamId stream);
  void unname(std::uint32_t slot);
  void remove(std::uint32_t slot);
  /// It entered TIME-WAIT; the oldest of those are evicted first.
  void note_time_wait(std::uint32_t slot);
  /// A local port that makes the key unique; 0 if all are taken.
  std::uint16_t pick_port(ConnectionKey key);

  /// Errors: address_in_use. Port 0 is filled in.
  std::optional<std::errc> listen(StreamId id, Address& local, int backlog);
  bool unlisten(StreamId id);
  std::vector<StreamId> listeners() const;
  Listener* find_listener(const Address& local);
  Listener* find_listener(StreamId id);
  bool listens_on(Address::Family family, std::uint16_t port) const;

  std::size_t size() const { return keys_.size(); }
  std::size_t slots() const { return connections_.size(); }

 private:
  static std::uint32_t hash_of(const ConnectionKey& key);
  static std::uint32_t hash_of(StreamId stream) { return static_cast<std::uint32_t>(mix_bits(stream)); }
  bool make_room();
  static bool same_destination(const ConnectionKey& a, const ConnectionKey& b) {
    return a.peer == b.peer && a.peer_port == b.peer_port && a.port == b.port && a.kind == b.kind;
  }

  std::deque<TcpConnection> connections_;  // stable addresses
  std::vector<std::uint32_t> free_;
  SlotIndex keys_, streams_;
  std::deque<ConnectionRef> time_waits_;                      // oldest first; some no longer exist
  std::map<std::uint16_t, std::vector<Listener>> listeners_;  // by port
  std::map<StreamId, std::uint16_t> listener_ports_;
  std::uint64_t port_secret_ = 0;
  std::array<std::uint16_t, 256> port_steps_{};  // position in each port sequence; destinations share them by hash
  // Destinations for which the last search found no free port, so that the search is not repeated before a port is
  // free. As many as there are port ranges in connections_max: four.
  std::vector<ConnectionKey> exhausted_;
};

}  // namespace parley::sim
