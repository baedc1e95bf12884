// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The protocol between ibsim and its clients, octet by octet: datagrams between abstract Unix sockets. Numbers in
// control messages have the machine's byte order. Types beyond `p_keys` are Parley's extensions; ibsim ignores them.
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

// The sockets of the server `name`. A client has two, named by a number that it chooses. The number that the server
// assigns to it leads to the server's socket for this client.
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
  command = 12,  ///< a text, and so is the answer; accepted from any client
};

struct Control {
  std::uint32_t magic, client;
  ControlType type;
  std::uint32_t length;
  ControlData data;
};
static_assert(sizeof(Control) == 80);

struct Connect {
  std::uint32_t id;  ///< in: the number in the name of the client's socket ":in<id>"; out: the number assigned to the
                     ///< client
  std::uint32_t qp, is_sm;
  std::array<char, 32> node;  ///< NUL-terminated
};
struct Vendor {
  std::uint32_t vendor, device, revision, pad;
  std::uint64_t firmware;
};
/// Requests of a client that go beyond ibsim's.
struct Receive {
  std::uint32_t own_timers;              ///< 1: do not return datagrams with a status
  std::array<std::uint8_t, 32> classes;  ///< bit n % 8 of octet n / 8: it receives requests of class n
  std::uint32_t known;                   ///< 1 in the answer: accepted. ibsim echoes the request.
};
static_assert(sizeof(Connect) == 44 && sizeof(Vendor) == 24 && sizeof(Receive) == 40);

/// The message at the beginning of control data, and control data that begin with a message. The rest is zero.
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

/// The text in a field: up to its NUL.
inline std::string_view text_in(const std::array<char, 32>& field) {
  return {field.data(), ::strnlen(field.data(), field.size())};
}
inline std::string_view text_in(const ControlData& data) {
  const auto* const begin = reinterpret_cast<const char*>(data.data());
  return {begin, ::strnlen(begin, data.size())};
}

/// A MAD. LIDs are in the first two octets of their fields, big-endian like the others.
struct Data {
  std::array<std::uint8_t, 4> dlid, slid, dqp, sqp, status, pad;
  std::array<std::uint8_t, 8> length{0, 0, 0, 0, 0, 0, 1, 0};  ///< octets of the MAD
  std::array<std::uint8_t, 256> mad;
};
static_assert(sizeof(Data) == 288);

/// A Data's status: it was dropped, or has no path. It is the client's own datagram, returned.
inline constexpr std::uint32_t status_undeliverable = 110;

}  // namespace parley::ibsim
