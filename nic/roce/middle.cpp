// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Handling of such packets by queue pairs and their halves. Each condition corresponds to one of the general path;
// comments name the function that has it there.
#include "nic/roce/middle.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/bytes_io.hpp"
#include "nic/roce/qp.hpp"

namespace parley::nic::roce {

using wire::ib::Bth;
using wire::ib::Operation;

namespace {

constexpr std::size_t ack_req_at = 8;  // in the BTH, before the PSN

/// As many of `count` as there is room for. Usually all fit, and a division is slow.
constexpr std::size_t fit(std::size_t count, std::size_t each, std::size_t room) {
  return count * each <= room ? count : room / each;
}

/// The last word of a BTH.
std::uint32_t last_word(const std::uint8_t* bth) { return load<std::uint32_t>(bth + ack_req_at, std::endian::big); }

/// The packets at the beginning of `packets` that directly follow the first.
MiddlePackets in_a_row(const Bth& first, std::size_t size, ConstBytes packets) {
  MiddlePackets out{.operation = wire::ib::operation_of(first.opcode),
                    .psn = first.psn,
                    .count = 1,
                    .size = size,
                    .packets = packets};
  const std::uint8_t* next = packets.data();
  bool asked = first.ack_req;
  for (std::size_t end = 2 * size; end <= packets.size() && !asked; end += size, ++out.count) {
    next += size;
    const std::uint32_t last = last_word(next);
    if ((last & psn_mask) != ((first.psn + out.count) & psn_mask) || std::memcmp(next, packets.data(), ack_req_at) != 0)
      break;
    asked = last >> 31 != 0;
  }
  return out;
}

/// Writes the BTH of each packet: that of the first with consecutive PSNs.
void write_headers(const Bth& first, const PacketRun& run, MutBytes out) {
  first.emit(out);
  std::uint8_t* at = out.data();
  for (std::uint32_t psn = first.psn + 1; psn != first.psn + run.count; ++psn) {
    at += run.size + PARLEY_IB_ICRC_LEN;
    std::memcpy(at, out.data(), ack_req_at);
    store(at + ack_req_at, psn & psn_mask, std::endian::big);
  }
}

/// The contiguous memory from `offset` on.
MutBytes piece_from(std::span<const MutBytes> memory, std::size_t offset) {
  for (const MutBytes piece : memory) {
    if (offset < piece.size()) return piece.subspan(offset);
    offset -= piece.size();
  }
  return {};
}

/// Copies as many payloads as `place` has room for.
void place_all(const MiddlePackets& middles, MutBytes place) {
  const ConstBytes first = middles.payload(0);
  const std::uint8_t* from = first.data();
  for (std::size_t at = 0; at != place.size(); at += first.size(), from += middles.size)
    std::memcpy(place.data() + at, from, first.size());
}

/// Copies the first `count`, from `offset` on, over more than one piece.
void place_each(const MiddlePackets& middles, std::size_t count, std::span<const MutBytes> memory, std::size_t offset) {
  const std::size_t each = middles.payload(0).size();
  for (std::size_t i = 0; i < count; ++i) place(memory, offset + i * each, middles.payload(i));
}

}  // namespace

// Qp::handle_packet: no congestion to report, and established earlier.
bool Qp::accepts_middles(const PacketFrom& from, const Bth& bth, std::size_t size) const {
  return qp_.type == QpType::rc && qp_.state == QpState::rts && bth.tver == 0 && bth.pad_count == 0 &&
         bth.p_key == PARLEY_IB_P_KEY_DEFAULT && (from.traffic_class & 3) != 3 && comes_from_peer(from) &&
         size == PARLEY_IB_BTH_LEN + qp_.mtu + PARLEY_IB_ICRC_LEN;
}

std::size_t Qp::handle_middles(Instant now, const PacketFrom& from, const Bth& bth, std::size_t size,
                               ConstBytes packets, bool placed) {
  if (!accepts_middles(from, bth, size)) return 0;
  const MiddlePackets middles = in_a_row(bth, size, packets);
  const bool response = middles.operation == Operation::read_response_middle;
  const std::size_t taken =
      response ? requester_.handle_middles(now, middles, placed) : responder_.handle_middles(middles, placed);
  if (taken == 0) return 0;
  heard_at_ = now;
  qp_.counters.packets_received += taken;
  if (response || middles.asks_for_ack(taken - 1)) settle();  // the window has moved, or there is an answer
  return taken;
}

PacketPlacement Qp::place_of(const PacketFrom& from, const Bth& bth, std::size_t size, ConstBytes packets) {
  if (!accepts_middles(from, bth, size)) return {};
  const MiddlePackets middles = in_a_row(bth, size, packets);
  PacketPlacement out;
  out.count = middles.operation == Operation::read_response_middle ? requester_.fitting(middles, out.memory)
                                                                   : responder_.fitting(middles, out.memory);
  return out.memory.empty() ? PacketPlacement{} : out;
}

// Responder::handle_request and execute_send or execute_write: the expected packets of the message that is arriving, as
// far as there is room.
std::size_t Responder::fitting(const MiddlePackets& middles, MutBytes& place) {
  const bool write = middles.operation == Operation::write_middle;
  if (middles.psn != wire_psn(expected_) || replies_.full() ||
      arriving_.message != (write ? Message::write : Message::send))
    return 0;
  // In a Write, some octets must be left for the last packet.
  const std::uint32_t room = (write ? arriving_.length : receive().memory.length) - arriving_.got;
  const auto count = static_cast<std::uint32_t>(fit(middles.count, qp_.mtu, write && room != 0 ? room - 1 : room));
  if (count == 0) return 0;
  const std::uint32_t octets = count * qp_.mtu;
  if (!write) {
    const MutBytes piece = piece_from(receive().memory.view(), arriving_.got);
    if (piece.size() >= octets) place = piece.first(octets);
    return count;
  }
  MrRange range;
  if (!grants(Access::remote_write) ||
      qp_.tables().regions.check_remote(arriving_.rkey, arriving_.va + arriving_.got, octets, receiver_.pd, qp_.number,
                                        Access::remote_write, range) != MrFault::none)
    return 0;
  place = range.memory;
  return count;
}

std::size_t Responder::handle_middles(const MiddlePackets& middles, bool placed) {
  MutBytes place;
  const std::size_t count = fitting(middles, place);
  if (count == 0) return 0;
  if (place.empty())
    place_each(middles, count, receive().memory.view(), arriving_.got);
  else if (!placed)
    place_all(middles, place);
  nak_sent_ = false;
  arriving_.got += static_cast<std::uint32_t>(count) * qp_.mtu;
  expected_ += count - 1;
  executed(middles.asks_for_ack(count - 1), {});
  return count;
}

// Requester::handle_response and handle_read_response: the next parts of the oldest request, which is a Read whose
// first part has arrived and whose last part has not.
std::size_t Requester::fitting(const MiddlePackets& middles, MutBytes& place) {
  if (middles.psn != wire_psn(una_) || una_ >= sent_end_) return 0;
  const SendWqe& read = sends_.front();
  if (read.kind != SendWqe::Kind::read || read.arrived == 0 || read.first + read.arrived != una_) return 0;
  const auto count = static_cast<std::size_t>(std::min<Psn>(middles.count, std::min(read.end - 1, sent_end_) - una_));
  const MutBytes piece = piece_from(read.memory.view(), std::size_t{read.arrived} * qp_.mtu);
  if (piece.size() >= count * qp_.mtu) place = piece.first(count * qp_.mtu);
  return count;
}

std::size_t Requester::handle_middles(Instant now, const MiddlePackets& middles, bool placed) {
  MutBytes place;
  const std::size_t count = fitting(middles, place);
  if (count == 0) return 0;
  SendWqe& read = sends_.front();
  if (place.empty())
    place_each(middles, count, read.memory.view(), std::size_t{read.arrived} * qp_.mtu);
  else if (!placed)
    place_all(middles, place);
  read.arrived += static_cast<std::uint32_t>(count);
  una_ += count;
  progress(now);
  return count;
}

// Requester::write.
PacketRun Requester::write_middles(SendWqe& wqe, std::size_t most, MutBytes out) {
  if (at_packet_ == 0 || wqe.fetches() || qp_.type != QpType::rc) return {};
  const Psn psn = wqe.first + at_packet_;
  const ConstBytes payload = piece_from(wqe.memory.view(), std::size_t{at_packet_} * qp_.mtu);
  const Psn may = std::min<Psn>({most, wqe.end - 1 - psn, una_ + qp_.nic->options.window - psn});
  const auto count = static_cast<std::uint32_t>(fit(may, qp_.mtu, payload.size()));
  if (count == 0) return {};
  const PacketRun run{.size = PARLEY_IB_BTH_LEN + qp_.mtu, .count = count, .payload = payload.first(count * qp_.mtu)};
  const Bth& bth = qp_.packet(operation(wqe, false, false), psn).bth;
  write_headers(bth, run, out);
  // Requester::asks_for_ack: the next packet that asks is every n-th, or the one that closes the window.
  const std::uint32_t every = qp_.nic->options.ack_every;
  const auto closes = static_cast<std::uint32_t>(una_ + qp_.nic->options.window - 1 - psn);
  std::uint32_t next = 0;
  for (std::uint32_t from = 0; from < count; from = next + 1) {
    next = std::min(from + (every - since_ack_req_ - 1), closes);
    since_ack_req_ = next < count ? 0 : since_ack_req_ + (count - from);
    if (next < count) out[next * (run.size + PARLEY_IB_ICRC_LEN) + ack_req_at] = PARLEY_IB_BTH_ACK_REQ;
  }
  return run;
}

// Responder::send_read, which handles a region that is gone.
PacketRun Responder::write_middles(Reply& reply, std::size_t most, MutBytes out) {
  if (!reply.begun || reply.length == 0 || qp_.type != QpType::rc) return {};
  const auto count = static_cast<std::uint32_t>(fit(std::min<std::size_t>(most, psn_half), qp_.mtu, reply.length - 1));
  MrRange range;
  if (count == 0 || qp_.tables().regions.check_remote(reply.rkey, reply.va, count * qp_.mtu, reply.pd, qp_.number,
                                                      Access::remote_read, range) != MrFault::none)
    return {};
  const Bth& bth = qp_.packet(Operation::read_response_middle, reply.psn).bth;
  const PacketRun run{.size = PARLEY_IB_BTH_LEN + qp_.mtu, .count = count, .payload = range.memory};
  write_headers(bth, run, out);
  reply.psn += count;
  reply.va += count * qp_.mtu;
  reply.length -= count * qp_.mtu;
  return run;
}

}  // namespace parley::nic::roce
