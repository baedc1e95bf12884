// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What ibsim and its clients say to each other, octet by octet: datagrams between abstract Unix sockets. Numbers of control
// messages are in the machine's order. Types beyond `p_keys` are ours; ibsim does nothing by them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace parley::ibsim {

/// IBSIM_SOCKNAME's default.
inline constexpr const char* usual_name = "sim";

// The sockets of the server `name`. A client has two, by a number that it chooses; to the one of the server's that is for it
// leads the number that it is given.
inline std::string control_name(const std::string& name) { return name + ":ctl"; }
inline std::string client_control_name(const std::string& name, std::uint32_t id) {
  return control_name(name) + std::to_string(id);
}
inline std::string client_data_name(const std::string& name, std::uint32_t id) {
  return name + ":in" + std::to_string(id);
}
inline std::string server_data_name(const std::string& name, std::uint32_t client) {
  return name + ":out" + std::to_string(client);
}

inline constexpr std::uint32_t magic = 0xDEADBEEF;
inline constexpr std::size_t control_data = 64;
using ControlData = std::array<std::uint8_t, control_data>;

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
  std::uint32_t magic, client;
  ControlType type;
  std::uint32_t length;
  ControlData data;
};
static_assert(sizeof(Control) == 80);

struct Connect {
  std::uint32_t id;  ///< in: whose ":in<id>" the client's socket is; out: the client's number
  std::uint32_t qp, is_sm;
  std::array<char, 32> node;  ///< with a zero at its end
};
struct Vendor {
  std::uint32_t vendor, device, revision, pad;
  std::uint64_t firmware;
};
/// What a client wants that does more than ibsim's do.
struct Receive {
  std::uint32_t own_timers;              ///< 1: no datagram with a status is wanted
  std::array<std::uint8_t, 32> classes;  ///< bit n % 8 of octet n / 8: requests of class n are for it
  std::uint32_t known;                   ///< 1 in the answer: it will be so. ibsim answers with what it was asked.
};
static_assert(sizeof(Connect) == 44 && sizeof(Vendor) == 24 && sizeof(Receive) == 40);

/// The message that control data begin with, and data that begin with a message. The rest is zero.
template <class Message>
Message message_in(const ControlData& data) {
  static_assert(std::is_trivially_copyable_v<Message> && sizeof(Message) <= control_data);
  Message out;
  std::memcpy(&out, data.data(), sizeof(out));
  return out;
}
template <class Message>
ControlData data_with(const Message& message) {
  static_assert(std::is_trivially_copyable_v<Message> && sizeof(Message) <= control_data);
  ControlData out{};
  std::memcpy(out.data(), &message, sizeof(message));
  return out;
}

/// Of a field: up to its zero.
inline std::string_view text_in(const std::array<char, 32>& field) {
  return {field.data(), ::strnlen(field.data(), field.size())};
}
inline std::string_view text_in(const ControlData& data) {
  const auto* const begin = reinterpret_cast<const char*>(data.data());
  return {begin, ::strnlen(begin, data.size())};
}

/// A MAD. LIDs stand in the first two octets of their fields, big-endian like the rest.
struct Data {
  std::array<std::uint8_t, 4> dlid, slid, dqp, sqp, status, pad;
  std::array<std::uint8_t, 8> length{0, 0, 0, 0, 0, 0, 1, 0};  ///< of the MAD
  std::array<std::uint8_t, 256> mad;
};
static_assert(sizeof(Data) == 288);

/// A Data's status: dropped, or no way there. It is the client's own, come back.
inline constexpr std::uint32_t status_undeliverable = 110;

}  // namespace parley::ibsim
