// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What ibsim and its clients say to each other, octet by octet: datagrams between abstract Unix sockets. Numbers of control
// messages are in the machine's order. Types beyond `p_keys` are ours; ibsim refuses them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace parley::ibsim {

inline constexpr std::uint32_t magic = 0xDEADBEEF;
inline constexpr std::size_t control_data = 64;

enum class ControlType : std::uint32_t {
  error = 0,
  connect,
  disconnect,
  port,
  vendor,
  gid,
  guid,
  node_info,
  port_info,
  set_is_sm,
  p_keys,
  receive = 11,  ///< Receive
  command = 12,  ///< a text; so is the answer. From anybody.
};

struct Control {
  std::uint32_t magic, client, type, length;
  std::array<std::uint8_t, control_data> data;
};
static_assert(sizeof(Control) == 80);

struct Connect {
  std::uint32_t id;  ///< in: whose ":in<id>" the client's socket is; out: the client's number
  std::uint32_t qp, is_sm;
  std::array<char, 32> node;
};
struct Vendor {
  std::uint32_t vendor, device, revision, pad;
  std::uint64_t firmware;
};
/// What a client wants that does more than ibsim's do.
struct Receive {
  std::uint32_t own_timers;              ///< 1: no datagram with a status is wanted
  std::array<std::uint8_t, 32> classes;  ///< bit n % 8 of octet n / 8: requests of class n are for it
};
static_assert(sizeof(Connect) == 44 && sizeof(Vendor) == 24 && sizeof(Receive) == 36);

/// A MAD. LIDs stand in the first two octets of their fields, big-endian like the rest.
struct Data {
  std::array<std::uint8_t, 4> dlid, slid, dqp, sqp, status, pad;
  std::array<std::uint8_t, 8> length;
  std::array<std::uint8_t, 256> mad;
};
static_assert(sizeof(Data) == 288);

/// IBSIM_SOCKNAME's default.
inline constexpr const char* usual_name = "sim";

}  // namespace parley::ibsim
