// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The management datagram in a captured packet of an InfiniBand link, RoCEv1 or RoCEv2.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/gid.hpp"
#include "capture/read/ib/link_packet.hpp"
#include "capture/read/roce/roce_packet.hpp"

namespace parley::capture {

struct CapturedMad {
  /// LIDs for an InfiniBand link. GIDs for RoCE (IPv4 addresses as ::ffff:a.b.c.d) and for a packet with a GRH.
  struct End {
    std::optional<std::uint16_t> lid;
    std::optional<Gid> gid;
    std::uint32_t qpn = 0;
  };
  std::uint64_t frame = 0;
  Instant at{};
  End source, destination;
  ConstBytes octets;   ///< the captured octets; the view is valid until the next call of read()
  std::string damage;  ///< what is wrong with the packet or missing from it, in words; empty: nothing
};

/// "LID 5 QP 1", "LID 5 GID fe80::1 QP 1", "GID ::ffff:192.0.2.1 QP 1".
std::string end_text(const CapturedMad::End& end);

class MadReader {
 public:
  enum class Status : std::uint8_t {
    mad,
    none,         ///< not a management datagram
    unreadable,   ///< InfiniBand or RoCE, but its content cannot be determined; see why()
    unsupported,  ///< link type not decoded
  };
  /// A management datagram is a UD SEND Only to or from QP 0 or 1. So is a UD SEND Only with the Q_Key of QP 1, the
  /// length of a MAD and the base version of a MAD (IBA §13.4.1, §13.4.2).
  Status read(const wire::CapturedPacket& captured, CapturedMad& out);
  /// "frame 12, octet 42: ...", "frame 12: ...".
  const std::string& why() const { return why_; }

 private:
  Status take(TransportReader::Status status, const std::string& why, const wire::CapturedPacket& captured,
              const TransportPacket& packet, CapturedMad& out);

  RoceReader roce_;
  LinkReader link_;
  RocePacket roce_packet_;
  LinkPacket link_packet_;
  std::string why_;
};

}  // namespace parley::capture
