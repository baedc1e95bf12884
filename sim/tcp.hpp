// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One end of a TCP connection, as a machine: segments, octets and a time in; segments, octets and a deadline out.
// Modelled (RFC 9293 unless said): the handshake with MSS, window scale, SACK-permitted and timestamps (RFC 7323,
// RFC 2018), cumulative and delayed ACK, reassembly, sliding window with zero-window probes, RTO with back-off and
// Karn's rule (RFC 6298), fast retransmit and recovery by NewReno (RFC 6582) with slow start from 10 segments (RFC
// 6928), PAWS, FIN in every order, RST with the window check of RFC 5961 §3.2, TIME-WAIT. Not modelled: selective
// retransmission, ECN, urgent data, fast open, path-MTU discovery, window-scale shrinking, silly-window avoidance by
// Nagle (TCP_NODELAY is always on), congestion-control fidelity of any kind.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/stream_port.hpp"
#include "parley/sim.hpp"
#include "wire/tcp.hpp"

namespace parley::sim {

enum class TcpState : std::uint8_t {
  closed,
  syn_sent,
  syn_received,
  established,
  fin_wait_1,
  fin_wait_2,
  close_wait,
  closing,
  last_ack,
  time_wait,
};
std::string_view to_string(TcpState state);

/// A segment to be sent. The payload lies in the send buffer: valid until the next call that is not const.
struct TcpOutput {
  wire::TcpHeader header;               ///< ports left 0: the host knows them
  std::array<ConstBytes, 2> payload{};  ///< in order; the buffer is a ring, so up to two pieces
};

/// What the owner has to be told, in order; drained with poll_event.
enum class TcpEvent : std::uint8_t {
  none,
  connected,
  fin,      ///< the peer's FIN, after all its octets
  reset,    ///< the peer's RST
  refused,  ///< RST in answer to our SYN
  timeout,  ///< retries are used up
  closed,   ///< the end needs no memory any more (both FINs acknowledged and TIME-WAIT over, or aborted)
};

class Tcp {
 public:
  /// `mss`: the largest payload the path takes (MTU - 40 or - 60), before options.
  Tcp(const TcpOptions& options, std::uint16_t mss, std::uint32_t iss);
  ~Tcp();
  Tcp(Tcp&&) noexcept;

  void connect(Instant now);
  /// Passive open by a SYN.
  void accept(Instant now, const wire::TcpHeader& syn);
  /// Returns the octets that are now next in order and lie in `payload`; the owner takes them at once (they count as
  /// consumed unless paused), then asks poll_received for more that had waited in the reassembly buffer.
  ConstBytes handle_segment(Instant now, const wire::TcpHeader& header, ConstBytes payload);
  ConstBytes poll_received();
  /// Takes as much as there is room for.
  std::size_t write(Instant now, ConstBytes octets);
  std::size_t room() const;
  void shutdown(Instant now);  ///< FIN after what is queued
  void abort(Instant now);     ///< RST at once
  void pause();                ///< the owner reads no more: the window closes when the buffer is full
  void resume(Instant now);

  bool poll_segment(Instant now, TcpOutput& out);
  TcpEvent poll_event();
  Instant next_deadline() const;
  void handle_deadline(Instant now);

  TcpState state() const;
  std::uint16_t emss() const;  ///< octets of payload per segment, options taken off
  std::uint64_t retransmits() const;
  std::size_t send_queue() const, reassembly() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace parley::sim
