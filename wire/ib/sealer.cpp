// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/ib/sealer.hpp"

#include <array>
#include <bit>
#include <cstring>

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

// Least significant octet first (IBA §7.8.1).
void put_icrc(MutBytes packet, std::uint32_t icrc) {
  store(packet.data() + packet.size() - icrc_size, icrc, std::endian::little);
}

std::uint32_t get_icrc(ConstBytes packet) {
  return load<std::uint32_t>(packet.data() + packet.size() - icrc_size, std::endian::little);
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

// The CRC is linear: of what the ones add, and what follows it.
void Sealer::complete(Share& share) {
  const std::uint32_t added = crc32_effect(share.congested ^ 0xFF, 0);
  share.congestion = crc32_shift(added, share.size - icrc_size - bth_congestion_at - 1);
  share.complete = true;
}

/// What it has in common with others of its length, all of it.
const Sealer::Share& Sealer::share_of(ConstBytes packet) {
  Share& share = place_of(packet.size());
  if (share.size != packet.size() || share.congested != packet[bth_congestion_at]) begin(share, packet);
  if (!share.complete) complete(share);
  return share;
}

std::uint32_t Sealer::head_of(const Share& share, std::uint16_t identification) const {
  return v4_ ? share.head ^ effect_of(identification) : share.head;
}

// A length that comes for the first time may be the only one of its kind: what it has in common with others is worked out when the
// second one comes.
std::uint32_t Sealer::icrc_of(std::uint16_t identification, ConstBytes packet) {
  const std::size_t size = packet.size();
  Share& share = place_of(size);
  const bool again = share.size == size && share.congested == packet[bth_congestion_at];
  if (!again) begin(share, packet);
  const std::uint32_t head = head_of(share, identification);
  const ConstBytes covered = packet.first(size - icrc_size);
  if (!again) return crc32(crc32(head, ones_for_congestion(covered)), covered.subspan(PARLEY_IB_BTH_LEN));
  if (!share.complete) complete(share);
  return crc32(head, covered) ^ share.congestion;
}

void Sealer::seal(std::uint16_t identification, MutBytes packet) { put_icrc(packet, icrc_of(identification, packet)); }

// First the CRC: the copy then finds the octets in the nearest cache, and neither waits for what the other writes.
void Sealer::seal_all(std::uint16_t identification, std::size_t size, MutBytes packets, ConstBytes payload) {
  const Share& share = share_of(packets.first(size));
  const std::size_t count = packets.size() / size, each = payload.size() / count, before = size - icrc_size - each;
  for (std::size_t i = 0; i < count; ++i) {
    const MutBytes packet = packets.subspan(i * size, size);
    const ConstBytes part = payload.subspan(i * each, each);
    const std::uint32_t headers = crc32(head_of(share, identification++), packet.first(before));
    put_icrc(packet, crc32(headers, part) ^ share.congestion);
    if (each != 0) std::memcpy(packet.data() + before, part.data(), each);
  }
}

std::size_t Sealer::count_sealed(std::uint16_t first, std::size_t size, ConstBytes packets, MutBytes payload) {
  if (size < sealed_min) return 0;
  const Share& share = share_of(packets.first(size));
  const std::size_t all = packets.size() / size, each = payload.size() / all;
  std::size_t count = 0;
  for (; count < all; ++count) {
    const ConstBytes packet = packets.subspan(count * size, size);
    if (packet[bth_congestion_at] != share.congested) break;
    const std::uint32_t head = head_of(share, static_cast<std::uint16_t>(first + count));
    if ((crc32(head, packet.first(size - icrc_size)) ^ share.congestion) != get_icrc(packet)) break;
    if (each != 0) std::memcpy(payload.data() + count * each, packet.data() + size - icrc_size - each, each);
  }
  return count;
}

bool Sealer::is_sealed(std::uint16_t identification, ConstBytes packet) {
  return packet.size() >= sealed_min && icrc_of(identification, packet) == get_icrc(packet);
}

std::optional<std::uint16_t> Sealer::identification_of(std::uint16_t likely, ConstBytes packet) {
  if (packet.size() < sealed_min) return std::nullopt;
  const std::uint32_t difference = icrc_of(likely, packet) ^ get_icrc(packet);
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
