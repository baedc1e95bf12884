// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Reconstructs the Ethernet frame of a packet that was sent or received on a RoCEv2 socket, for capture files. MAC
// addresses, and fields of the IP header that the system does not report, are made up; the ICRC is therefore always
// right.
#pragma once
#include "parley/bytes.hpp"
#include "parley/roce_host.hpp"

namespace parley::asio_driver {

Bytes frame_of(const PacketTapRecord& record);

}  // namespace parley::asio_driver
