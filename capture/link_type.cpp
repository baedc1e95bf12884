// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/link_type.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace parley::capture {
namespace {

using Name = std::pair<std::uint16_t, std::string_view>;
// Common link types, by number.
constexpr std::array<Name, 32> names{Name{0, "loopback, NULL"},
                                     Name{1, "Ethernet"},
                                     Name{6, "Token Ring"},
                                     Name{9, "PPP"},
                                     Name{10, "FDDI"},
                                     Name{50, "PPP in HDLC"},
                                     Name{51, "PPPoE"},
                                     Name{101, "raw IP"},
                                     Name{104, "Cisco HDLC"},
                                     Name{105, "IEEE 802.11"},
                                     Name{107, "Frame Relay"},
                                     Name{108, "loopback, LOOP"},
                                     Name{113, "Linux cooked"},
                                     Name{119, "IEEE 802.11 with Prism header"},
                                     Name{127, "IEEE 802.11 with radiotap"},
                                     Name{138, "IP over FireWire"},
                                     Name{147, "reserved for users, DLT_USER0"},
                                     Name{187, "Bluetooth HCI"},
                                     Name{189, "USB, Linux"},
                                     Name{192, "PPI"},
                                     Name{195, "IEEE 802.15.4"},
                                     Name{197, "ERF"},
                                     Name{201, "Bluetooth HCI with direction"},
                                     Name{220, "USB, Linux, padded"},
                                     Name{227, "CAN"},
                                     Name{228, "raw IPv4"},
                                     Name{229, "raw IPv6"},
                                     Name{239, "NFLOG"},
                                     Name{247, "InfiniBand"},
                                     Name{249, "USB, Windows"},
                                     Name{253, "netlink"},
                                     Name{276, "Linux cooked 2"}};

}  // namespace

std::string link_type_text(std::uint16_t link_type) {
  const auto it = std::find_if(names.begin(), names.end(), [&](const Name& n) { return n.first == link_type; });
  return it == names.end() ? fmt::format("{}", link_type) : fmt::format("{} ({})", link_type, it->second);
}

std::string link_type_refusal(std::uint16_t link_type) {
  return fmt::format("link type {} is not decoded; Ethernet, Linux cooked, loopback and raw IP are",
                     link_type_text(link_type));
}

}  // namespace parley::capture
