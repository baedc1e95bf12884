// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// ibacm's requests as its clients write them (infiniband/acm.h), and a subnet to ask for: three hosts at a switch.
#pragma once
#include <algorithm>
#include <cstring>

#include "ssa/acm/server.hpp"
#include "tests/unit/ssa/paths_kit.hpp"

namespace parley::ssa::acm {

// The structures of infiniband/acm.h, to hold the codec against.
struct AcmHdr {
  std::uint8_t version = 1, opcode = 1, status = 0, data[3] = {};
  std::uint16_t length = 16;
  std::uint64_t tid = 0x0123456789ABCDEF;
};
struct AcmEpAddrData {
  std::uint32_t flags = 0;
  std::uint16_t type = 0, reserved = 0;
  std::uint8_t info[64] = {};
};
static_assert(sizeof(AcmHdr) == header_octets && sizeof(AcmEpAddrData) == record_octets);

template <class T>
Bytes octets_of(const T& value) {
  Bytes out(sizeof value);
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}
template <class T>
T value_of(ConstBytes octets) {
  T out;
  EXPECT_GE(octets.size(), sizeof out);
  std::memcpy(&out, octets.data(), std::min(octets.size(), sizeof out));
  return out;
}

inline Bytes resolve_request(const std::vector<AcmEpAddrData>& records) {
  AcmHdr header;
  header.length = static_cast<std::uint16_t>(header_octets + records.size() * record_octets);
  Bytes out = octets_of(header);
  for (const AcmEpAddrData& record : records) {
    const Bytes octets = octets_of(record);
    out.insert(out.end(), octets.begin(), octets.end());
  }
  return out;
}
/// `info` is cut or filled up with zeros.
inline AcmEpAddrData record(std::uint32_t flags, std::uint16_t type, ConstBytes info) {
  AcmEpAddrData out{.flags = flags, .type = type};
  std::copy_n(info.begin(), std::min(info.size(), sizeof out.info), out.info);
  return out;
}
inline AcmEpAddrData named(std::uint32_t flags, std::string_view name) {
  return record(flags, 1, {reinterpret_cast<const std::uint8_t*>(name.data()), name.size()});
}
inline AcmEpAddrData ipv4(std::uint32_t flags, std::uint8_t last) { return record(flags, 2, Bytes{192, 0, 2, last}); }
inline AcmEpAddrData path(const wire::mad::PathRecord& asked, std::uint32_t flags = 0) {
  return record(flags, 0x10, asked.octets());
}

/// LIDs: 10 of the switch, 1 to 3 of the hosts. Host 3 is a limited member, and so is host 2: they may not talk.
struct ThreeHosts {
  Net net;
  std::shared_ptr<const PathMap> map;

  ThreeHosts() {
    net.subnet = {.gid_prefix = 0xFEC0000000000001, .packet_life_time = 18};
    net.nodes.push_back(
        {.is_switch = true, .ports = 3, .lft = {{1, 1}, {2, 2}, {3, 3}, {10, 0}}, .sls = {}, .top = 10});
    net.ports[{0, 0}] = {.guid = 100, .lid = 10};
    for (unsigned host = 1; host <= 3; ++host) {
      net.nodes.push_back({.is_switch = false, .ports = 1});
      net.ports[{host, 1}] = {.guid = 200 + host, .lid = static_cast<std::uint16_t>(host)};
      if (host > 1) net.ports[{host, 1}].p_keys = {0x7FFF};
      net.ports[{0, host}] = {};
      net.link({0, host}, {host, 1});
    }
    map = *PathMap::create(*database_of(net));
  }
  Gid gid(unsigned host) const { return gid_of_port(net.subnet.gid_prefix, 200 + host); }
  /// Host 1 is local. The GUIDs of the hosts, 201 to 203, are 0xC9 to 0xCB in the GIDs.
  std::shared_ptr<Data> data() const {
    auto out = std::make_shared<Data>();
    out->map = map;
    const auto addresses = std::make_shared<Addresses>();
    EXPECT_TRUE(
        addresses->add_file("one fec0::1:0:0:0:c9\n192.0.2.1 fec0::1:0:0:0:c9\n# hosts\n"
                            "192.0.2.2\tfec0::1:0:0:0:ca # two\n2001:db8::3 fec0::1:0:0:0:cb\r\n"
                            "192.0.2.9 fec0::1:0:0:0:ff"));
    addresses->add_name("two HCA-1", gid(2));
    out->addresses = addresses;
    out->endpoints = {{77, gid(1), 1, 2, 0xFFFF, {"one", "192.0.2.1"}}, {77, gid(1), 1, 2, 0x8001, {}}};
    return out;
  }
};

}  // namespace parley::ssa::acm
