// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/asio/port_sockets.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "parley/wire/ib.h"

namespace parley::asio_driver {

namespace {

constexpr std::size_t word_digits = 8;

/// "0100007F": each 32 bits of the address in the processor's order.
std::optional<Address> address_in(std::string_view digits, Address::Family family) {
  const std::size_t words = family == Address::Family::v4 ? 1 : 4;
  if (digits.size() != words * word_digits) return std::nullopt;
  Address out = Address::any(family, 0);
  for (std::size_t i = 0; i < words; ++i) {
    const char* const begin = digits.data() + i * word_digits;
    std::uint32_t word = 0;
    if (std::from_chars(begin, begin + word_digits, word, 16).ptr != begin + word_digits) return std::nullopt;
    std::memcpy(out.octets.data() + i * sizeof word, &word, sizeof word);
  }
  return out;
}

void read(const char* name, Address::Family family, std::vector<PortSocket>& out) {
  std::ifstream file(name);
  const std::string port = fmt::format(":{:04X}", PARLEY_ROCE_UDP_PORT);
  for (std::string line, slot, local, skip; std::getline(file, line);) {
    std::istringstream words(line);
    PortSocket found;
    words >> slot >> local >> skip >> skip >> skip >> skip >> skip >> found.user >> skip >> found.inode;
    if (!words || !local.ends_with(port)) continue;
    const auto address = address_in(std::string_view(local).substr(0, local.size() - port.size()), family);
    if (!address) continue;
    found.local = *address;
    out.push_back(found);
  }
}

}  // namespace

std::vector<PortSocket> roce_port_sockets() {
  std::vector<PortSocket> out;
  read("/proc/net/udp", Address::Family::v4, out);
  read("/proc/net/udp6", Address::Family::v6, out);
  return out;
}

}  // namespace parley::asio_driver
