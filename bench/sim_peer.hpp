// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The work that sim_bench gives to Parley's simulator and to ns-3: the same topology (two hosts, one link), the same
// traffic, counted in the same way. Every run is a separate child process.
#pragma once
#include <cstdint>
#include <functional>

#include "bench/harness.hpp"

namespace parley::bench {

/// The link of every comparison, and the parameters of TCP.
inline constexpr std::uint64_t sim_rate_bps = 10'000'000'000;
inline constexpr std::int64_t sim_delay_ns = 10'000;
inline constexpr std::uint32_t sim_segment = 1448;      ///< octets of payload; 1500 with headers and timestamps
inline constexpr std::uint32_t sim_buffer = 128 << 10;  ///< of TCP, each way: the best value for ns-3
inline constexpr std::uint32_t sim_datagram = 1040;     ///< of UDP: a RoCE packet with 1024 octets of payload
inline constexpr std::uint32_t sim_message = 36;        ///< octets of request and reply: MPA with 16 of private data

struct BulkWork {
  std::int64_t virtual_us = 0;  ///< how long one end sends without a pause
};

struct ConnectionWork {
  std::uint32_t count = 0;    ///< connections in total
  std::uint32_t at_once = 1;  ///< connections in set-up at the same time
  std::uint32_t alive = 0;    ///< how many stay open; beyond it, the oldest one closes (only Parley)
};

/// The result of a run. `packets` are those that began to cross the link, both ways.
struct SimSample {
  double packets = 0, connections = 0, octets = 0, events = 0;
  double cpu_s = 0, virtual_s = 0;
  double memory_mb = 0;  ///< the process's maximum
};

/// Runs `work` in a child process; a sample of zeros if it failed (stderr has the reason).
SimSample in_child(const std::function<SimSample()>& work);
double cpu_now();

// ---- Parley ------------------------------------------------------------------------------------------------------

/// One TCP connection, from one host's plain program to the other's.
SimSample parley_sim_tcp(const BulkWork& work);
/// The same through cm and the software RNIC: RDMA Writes (or Sends) of 64 KiB with CRC, placed and checked.
SimSample parley_sim_iwarp(const BulkWork& work, bool sends);
/// RoCEv2 through cm and the software HCA: the same in packets of 1024 octets, with ICRC.
SimSample parley_sim_roce(const BulkWork& work, bool sends);
/// TCP connections: handshake, request, reply, close.
SimSample parley_sim_connections(const ConnectionWork& work);
/// MPA connections through cm and the software RNIC: TCP handshake, MPA Request and Reply, established, close.
SimSample parley_sim_mpa(const ConnectionWork& work);

}  // namespace parley::bench
