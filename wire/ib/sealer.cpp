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
constexpr std::size_t begin_size = 8;  // of the BTH: everything before AckReq and the PSN

/// The change of the CRC over the IPv4 and UDP headers and the BTH's first 8 octets that each value of one octet of the
/// identification makes.
constexpr Table make_effects(std::size_t octet) {
  constexpr std::size_t behind = IcrcHead::ipv4_and_udp - ipv4_identification_at + begin_size;
  Table out{};
  for (std::uint32_t value = 0; value < out.size(); ++value)
    out[value] = crc32_effect(static_cast<std::uint8_t>(value), behind - octet - 1);
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

ConstBytes covered_of(ConstBytes packet) { return packet.first(packet.size() - icrc_size); }

constexpr std::uint16_t swapped(std::uint32_t value) { return static_cast<std::uint16_t>(value << 8 | value >> 8); }

}  // namespace

void IcrcSealer::begin(LengthState& share, std::size_t size, std::uint64_t begins) {
  if (share.size != size) {
    share.size = size;
    header_.identification = 0;
    std::array<std::uint8_t, IcrcHead::ipv6_and_udp> network;
    const MutBytes octets = MutBytes(network).first(header_.size());
    header_.emit(octets, size);
    share.head = crc32(0, IcrcHead(octets).octets());
  }
  share.begins = begins;
  auto octets = std::bit_cast<std::array<std::uint8_t, begin_size>>(begins);
  octets[bth_congestion_at] = 0xFF;
  share.begun = crc32(share.head, octets);
}

std::uint32_t IcrcSealer::icrc(std::uint16_t identification, ConstBytes front, ConstBytes rest) {
  const std::size_t size = front.size() + rest.size() + icrc_size;
  const auto begins = load<std::uint64_t>(front.data(), std::endian::native);
  LengthState& share = place_of(size);
  if (share.size != size || share.begins != begins) begin(share, size, begins);
  const std::uint32_t begun = v4_ ? share.begun ^ effect_of(identification) : share.begun;
  return crc32(crc32(begun, front.subspan(begin_size)), rest);
}

void IcrcSealer::seal(std::uint16_t identification, MutBytes packet) {
  put_icrc(packet, icrc(identification, covered_of(packet)));
}

// Computes the CRC before the copy: the copy then reads from the L1 cache, and neither waits for the other's stores.
void IcrcSealer::seal_all(std::uint16_t identification, std::size_t size, MutBytes packets, ConstBytes payload) {
  const std::size_t count = packets.size() / size, each = payload.size() / count, before = size - icrc_size - each;
  for (std::size_t i = 0; i < count; ++i) {
    const MutBytes packet = packets.subspan(i * size, size);
    const ConstBytes part = payload.subspan(i * each, each);
    put_icrc(packet, icrc(identification++, packet.first(before), part));
    if (each != 0) std::memcpy(packet.data() + before, part.data(), each);
  }
}

std::size_t IcrcSealer::count_sealed(std::uint16_t first, std::size_t size, ConstBytes packets, MutBytes payload) {
  if (size < sealed_min) return 0;
  const std::size_t all = packets.size() / size, each = payload.size() / all;
  std::size_t count = 0;
  for (; count < all; ++count) {
    const ConstBytes packet = packets.subspan(count * size, size);
    if (packet[bth_congestion_at] != packets[bth_congestion_at]) break;
    if (!is_sealed(static_cast<std::uint16_t>(first + count), packet)) break;
    if (each != 0) std::memcpy(payload.data() + count * each, packet.data() + size - icrc_size - each, each);
  }
  return count;
}

bool IcrcSealer::is_sealed(std::uint16_t identification, ConstBytes packet) {
  return packet.size() >= sealed_min && icrc(identification, covered_of(packet)) == get_icrc(packet);
}

std::optional<std::uint16_t> IcrcSealer::identification_of(std::uint16_t likely, ConstBytes packet) {
  if (packet.size() < sealed_min) return std::nullopt;
  const std::uint32_t difference = icrc(likely, covered_of(packet)) ^ get_icrc(packet);
  if (difference == 0) return v4_ ? likely : std::uint16_t{0};
  if (!v4_) return std::nullopt;
  // The low two octets of the cause are the identification's difference; a bit of the third is that of "don't
  // fragment".
  constexpr std::uint32_t dont_fragment = 0x40U << 16;
  const std::size_t behind = IcrcHead::ipv4_and_udp - ipv4_identification_at + packet.size() - icrc_size;
  const std::uint32_t cause = crc32_cause(difference, behind);
  if ((cause & ~(dont_fragment | 0xFFFF)) != 0) return std::nullopt;
  return static_cast<std::uint16_t>(likely ^ swapped(cause & 0xFFFF));
}

}  // namespace parley::wire::ib
