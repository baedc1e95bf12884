// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A packet that went over a socket of RoCEv2 as the Ethernet frame that it was, for files of captures. MAC addresses, and what the
// system does not tell of the IP header, are made up; so its ICRC is right.
#pragma once
#include "parley/bytes.hpp"
#include "parley/roce_host.hpp"

namespace parley::asio_driver {

Bytes frame_of(const PacketTapRecord& record);

}  // namespace parley::asio_driver
