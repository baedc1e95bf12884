// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A management datagram as the packet of an InfiniBand link that carries it (IBA §7.7, §8.3, §9.2): for captures.
#pragma once
#include "mad/packet.hpp"
#include "parley/time.hpp"

namespace parley::mad {

/// `out`: it went to `other`; else it came from there. The P_Key, SL and GRH are those of `other`; sequence numbers are 0; the ICRC and
/// the VCRC are right.
Bytes frame_of(const LocalPort& local, const Address& other, ConstBytes mad, bool out);
/// Such a packet as an ERF record of type InfiniBand (wire::link_type_erf), which Wireshark reads. `at` is since 1970-01-01.
Bytes erf_record(Instant at, ConstBytes frame);

}  // namespace parley::mad
