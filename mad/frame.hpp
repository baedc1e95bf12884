// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// For captures: the InfiniBand packet that carries a management datagram (IBA §7.7, §8.3, §9.2).
#pragma once
#include "mad/packet.hpp"
#include "parley/time.hpp"

namespace parley::mad {

/// `out`: sent to `other`; otherwise received from it. P_Key, SL and GRH are those of `other`. Sequence numbers are 0.
/// ICRC and VCRC are valid.
Bytes frame_of(const LocalPort& local, const Address& other, ConstBytes mad, bool out);
/// Such a packet as an ERF record of type InfiniBand (wire::link_type_erf), which Wireshark reads. `at`: since
/// 1970-01-01.
Bytes erf_record(Instant at, ConstBytes frame);

}  // namespace parley::mad
