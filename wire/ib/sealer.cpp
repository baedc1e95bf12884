// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/ib/sealer.hpp"

#include <array>

#include "base/bytes_io.hpp"
#include "wire/ib/crc32.hpp"
#include "wire/ib/icrc_head.hpp"

namespace parley::wire::ib {
namespace {

using Table = std::array<std::uint32_t, 256>;
/// What each of the two octets of an identification does to the CRC of the IPv4 and UDP headers.
constexpr Table make_effects(std::size_t octet) {
  Table out{};
  for (std::uint32_t value = 0; value < out.size(); ++value)
    out[value] =
        crc32_effect(static_cast<std::uint8_t>(value), IcrcHead::ipv4_and_udp - ipv4_identification_at - octet - 1);
  return out;
}
constexpr Table high_effect = make_effects(0), low_effect = make_effects(1);

constexpr std::uint32_t effect_of(std::uint16_t identification) {
  return high_effect[identification >> 8] ^ low_effect[identification & 0xFF];
}

constexpr std::uint16_t swapped(std::uint32_t value) { return static_cast<std::uint16_t>(value << 8 | value >> 8); }

}  // namespace

void Sealer::begin(Share& share, ConstBytes packet) {
  share = Share{.size = packet.size(), .congested = packet[bth_congestion_at]};
  header_.identification = 0;
  std::array<std::uint8_t, IcrcHead::ipv6_and_udp> network;
  const MutBytes octets = MutBytes(network).first(header_.size());
  header_.emit(octets, packet.size());
  share.head = crc32(0, IcrcHead(octets).octets());
}

// A length that comes for the first time may be the only one of its kind: what it has in common with others is worked out when the
// second one comes.
std::uint32_t Sealer::icrc_of(std::uint16_t identification, ConstBytes packet) {
  const std::size_t size = packet.size();
  Share& share = shares_[(size >> 2 ^ size >> 4) % shares_.size()];
  const bool again = share.size == size && share.congested == packet[bth_congestion_at];
  if (!again) begin(share, packet);
  const std::uint32_t head = v4_ ? share.head ^ effect_of(identification) : share.head;
  const ConstBytes covered = packet.first(size - icrc_size);
  if (!again) return crc32(crc32(head, ones_for_congestion(covered)), covered.subspan(PARLEY_IB_BTH_LEN));
  if (!share.complete) {
    // The CRC is linear: of what the ones add, and what follows it.
    const std::uint32_t added = crc32_effect(share.congested ^ 0xFF, 0);
    share.congestion = crc32_shift(added, covered.size() - bth_congestion_at - 1);
    share.complete = true;
  }
  return crc32(head, covered) ^ share.congestion;
}

void Sealer::seal(std::uint16_t identification, MutBytes packet) {
  Writer(packet.last(icrc_size)).le32(icrc_of(identification, packet));
}

bool Sealer::is_sealed(std::uint16_t identification, ConstBytes packet) {
  return packet.size() >= sealed_min && icrc_of(identification, packet) == Reader(packet.last(icrc_size)).le32();
}

std::optional<std::uint16_t> Sealer::identification_of(std::uint16_t likely, ConstBytes packet) {
  if (packet.size() < sealed_min) return std::nullopt;
  const std::uint32_t difference = icrc_of(likely, packet) ^ Reader(packet.last(icrc_size)).le32();
  if (difference == 0) return v4_ ? likely : std::uint16_t{0};
  if (!v4_) return std::nullopt;
  // Another identification differs in two octets, and "don't fragment" in a bit of the third: so does the cause, in this order.
  constexpr std::uint32_t dont_fragment = 0x40U << 16;
  const std::size_t behind = IcrcHead::ipv4_and_udp - ipv4_identification_at + packet.size() - icrc_size;
  const std::uint32_t cause = crc32_cause(difference, behind);
  if ((cause & ~(dont_fragment | 0xFFFF)) != 0) return std::nullopt;
  return static_cast<std::uint16_t>(likely ^ swapped(cause & 0xFFFF));
}

}  // namespace parley::wire::ib
