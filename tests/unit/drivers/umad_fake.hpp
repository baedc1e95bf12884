// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A libibumad of devices that a test describes: its functions take the place of the library's in the whole test program. Only
// umad_test.cpp includes it. Without a description there are no devices.
#pragma once
#include <arpa/inet.h>
#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/umad.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parley/bytes.hpp"

namespace parley::mad_driver::umad_test {
namespace {

constexpr std::size_t header = sizeof(ib_user_mad_t);

struct FakePort {
  std::string device;
  int number;
  unsigned state = 4;  // active
  std::string link_layer = "InfiniBand";
};
struct Registered {
  int mgmt_class, version, rmpp;
  std::uint32_t oui;
  std::vector<int> methods;
  bool operator==(const Registered&) const = default;
};
struct Sent {
  int agent, length, timeout_ms, retries;
  ib_mad_addr_t to;
  Bytes mad;
};

/// The system's devices. Each test begins with none.
struct Fake {
  bool works = true, readable = true, port_readable = true;
  std::vector<FakePort> ports;
  int open_errno = 0, register_errno = 0, send_errno = 0, fd = 9;
  unsigned lid = 0x40, lmc = 0, pkey_count = 3;
  std::string opened;
  int held = 0;  // what the library has allocated
  std::atomic<int> closed = 0;
  std::vector<Registered> registered;
  std::vector<Sent> sent;
  std::mutex mutex;           // of `arrived`, which a thread of the transport may take from
  std::deque<Bytes> arrived;  // with their headers
  bool polled = false;
  std::atomic<int> polls = 0;
  int receive_errno = 0, receives = 0, too_long = 0;
};
Fake* fake = nullptr;
std::array<std::uint16_t, 3> pkeys{0x7FFF, 0x8001, 0x0002};

void fill(umad_port_t& out, const FakePort& from) {
  std::snprintf(out.ca_name, sizeof out.ca_name, "%s", from.device.c_str());
  std::snprintf(out.link_layer, sizeof out.link_layer, "%s", from.link_layer.c_str());
  out.portnum = from.number;
  out.state = from.state;
  out.base_lid = fake->lid;
  out.sm_lid = 7;
  out.sm_sl = 3;
  out.lmc = fake->lmc;
  out.gid_prefix = htobe64(0xFE80000000000000);
  out.port_guid = htobe64(0x0002C90300001000 + static_cast<std::uint64_t>(from.number));
  out.pkeys_size = fake->pkey_count;
  out.pkeys = pkeys.data();
}
int registers(int mgmt_class, int version, int rmpp, std::uint32_t oui, const long* mask) {
  if (fake->register_errno != 0) return errno = fake->register_errno, -EPERM;
  std::vector<int> methods;
  for (int bit = 0; bit < 128; ++bit)
    if ((mask[bit / 64] >> bit % 64 & 1) != 0) methods.push_back(bit);
  fake->registered.push_back({mgmt_class, version, rmpp, oui, methods});
  return static_cast<int>(fake->registered.size()) - 1;
}
ib_user_mad_t* user(void* umad) { return static_cast<ib_user_mad_t*>(umad); }

}  // namespace

// A function of C is the same in any namespace: these take the place of the library's.
extern "C" {
int umad_init() { return fake == nullptr || fake->works ? 0 : -1; }
int umad_get_cas_names(char names[][UMAD_CA_NAME_LEN], int max) {
  std::vector<std::string> all;
  if (fake != nullptr)
    for (const FakePort& port : fake->ports)
      if (std::find(all.begin(), all.end(), port.device) == all.end()) all.push_back(port.device);
  for (std::size_t i = 0; i < all.size(); ++i) std::snprintf(names[i], UMAD_CA_NAME_LEN, "%s", all[i].c_str());
  EXPECT_GE(max, static_cast<int>(all.size()));
  return static_cast<int>(all.size());
}
int umad_get_ca(const char* name, umad_ca_t* ca) {
  EXPECT_NE(*name, 0);
  *ca = {};
  if (!fake->readable) {
    static umad_port_t left{};  // of a device that went while it was read
    return ca->ports[1] = &left, -1;
  }
  ++fake->held;
  ca->node_guid = htobe64(0x0002C90300000FFF);
  for (const FakePort& port : fake->ports)
    if (port.device == name) fill(*(ca->ports[port.number] = new umad_port_t{}), port);
  return 0;
}
int umad_release_ca(umad_ca_t* ca) {
  for (umad_port_t* port : ca->ports) delete port;
  return --fake->held, 0;
}
int umad_get_port(const char* device, int number, umad_port_t* out) {
  for (const FakePort& port : fake->ports)
    if (fake->port_readable && port.device == device && port.number == number) return fill(*out, port), ++fake->held, 0;
  return -1;
}
int umad_release_port(umad_port_t*) { return --fake->held, 0; }
int umad_open_port(const char* device, int number) {
  if (fake->open_errno < 0) return fake->open_errno;  // with no errno
  if (fake->open_errno > 0) return errno = fake->open_errno, -EIO;
  fake->opened = device + ("/" + std::to_string(number));
  return 0;
}
int umad_close_port(int) {
  const int before = fake->polls;
  ++fake->closed;
  // Time for a thread that would still read: it finds the port closed.
  for (int i = 0; fake->fd >= 1024 && i < 1000 && fake->polls == before; ++i) std::this_thread::yield();
  return 0;
}
int umad_get_fd(int) { return fake->fd; }
size_t umad_size() { return header; }
void* umad_get_mad(void* umad) { return user(umad)->data; }
int umad_status(void* umad) { return static_cast<int>(user(umad)->status); }
ib_mad_addr_t* umad_get_mad_addr(void* umad) { return &user(umad)->addr; }
int umad_set_addr(void* umad, int lid, int qpn, int sl, int qkey) {
  ib_mad_addr_t& to = user(umad)->addr;
  to.lid = htons(static_cast<std::uint16_t>(lid));
  to.qpn = htonl(static_cast<std::uint32_t>(qpn));
  to.qkey = htonl(static_cast<std::uint32_t>(qkey));
  to.sl = static_cast<std::uint8_t>(sl);
  return 0;
}
int umad_set_pkey(void* umad, int index) { return user(umad)->addr.pkey_index = static_cast<std::uint16_t>(index), 0; }
int umad_get_pkey(void* umad) { return user(umad)->addr.pkey_index; }
int umad_register(int, int mgmt_class, int version, std::uint8_t rmpp, long mask[16 / sizeof(long)]) {
  return registers(mgmt_class, version, rmpp, 0, mask);
}
int umad_register_oui(int, int mgmt_class, std::uint8_t rmpp, std::uint8_t oui[3], long mask[16 / sizeof(long)]) {
  return registers(mgmt_class, 1, rmpp, static_cast<std::uint32_t>(oui[0] << 16 | oui[1] << 8 | oui[2]), mask);
}
int umad_send(int, int agent, void* umad, int length, int timeout_ms, int retries) {
  if (fake->send_errno != 0) return errno = fake->send_errno, -EIO;
  fake->sent.push_back(
      {agent, length, timeout_ms, retries, user(umad)->addr, Bytes(user(umad)->data, user(umad)->data + length)});
  return 0;
}
int umad_recv(int, void* umad, int* length, int timeout_ms) {
  EXPECT_EQ(timeout_ms, 0);
  const std::lock_guard lock(fake->mutex);
  EXPECT_EQ(fake->closed, 0);
  ++fake->receives;
  if (fake->receive_errno == ENOSPC) *length = fake->too_long == 0 ? 0 : *length + fake->too_long;
  if (fake->receive_errno != 0) return -fake->receive_errno;
  if (fake->arrived.empty() || (fake->fd >= 1024 && !fake->polled)) return -EAGAIN;
  const Bytes& next = fake->arrived.front();
  const int room = std::exchange(*length, static_cast<int>(next.size() - header));
  std::memcpy(umad, next.data(), header + static_cast<std::size_t>(std::min(room, *length)));
  if (room < *length) return -ENOSPC;
  fake->arrived.pop_front();
  return 0;
}
int umad_poll(int port, int timeout_ms) {
  EXPECT_EQ((std::array{port, timeout_ms}), (std::array{0, 100}));
  const std::lock_guard lock(fake->mutex);
  EXPECT_EQ(fake->closed, 0);
  ++fake->polls;
  fake->polled = !fake->arrived.empty();
  return fake->polled ? 0 : -ETIMEDOUT;
}
}

}  // namespace parley::mad_driver::umad_test
