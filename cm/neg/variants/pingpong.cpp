// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/neg/variants/pingpong.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "cm/neg/variants/hex_fields.hpp"

namespace parley::neg {
namespace {

constexpr std::string_view done_word("done\0", 5);

Bytes octets_of(std::string_view text) { return {text.begin(), text.end()}; }

tl::unexpected<Failure> not_pingpong(std::string text) {
  return tl::unexpected(
      Failure{.problem = Problem::invalid_peer_data,
              .text = std::move(text),
              .advice = "see whether the peer is one of ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong "
                        "and ibv_srq_pingpong (which needs 'srq'), and 'qps' is its number of queue pairs"});
}

}  // namespace

Bytes write_pingpong_address(const QpAttributes& a) {
  std::string text = fmt::format("{:04x}:{:06x}:{:06x}:", a.lid, a.qpn, a.psn);
  for (const std::uint8_t octet : a.gid) text += fmt::format("{:02x}", octet);
  text += '\0';
  return octets_of(text);
}

Outcome<QpAttributes> read_pingpong_address(ConstBytes in) {
  const std::string text(in.begin(), in.end());
  HexFields fields(text);
  QpAttributes out;
  out.lid = static_cast<std::uint16_t>(fields.next(4));
  out.qpn = static_cast<std::uint32_t>(fields.next(6));
  out.psn = static_cast<std::uint32_t>(fields.next(6));
  for (std::uint8_t& octet : out.gid) octet = static_cast<std::uint8_t>(fields.next(2, true));
  if (!fields.ok() || in.size() != pingpong_address_len)
    return not_pingpong(fmt::format("'{}' is not an address of a queue pair", readable_text(in, pingpong_address_len)));
  return out;
}

// Detects a peer with another protocol by its first octets, without waiting for a whole address.
Outcome<std::optional<std::size_t>> PingpongVariant::message_length(Stage stage, ConstBytes begun) {
  constexpr std::size_t lid = 4;  // digits before the first colon
  if (stage == Stage::info)
    for (std::size_t i = 0; i < std::min(begun.size(), lid + 1); ++i) {
      const bool digit = (begun[i] >= '0' && begun[i] <= '9') || (begun[i] >= 'a' && begun[i] <= 'f') ||
                         (begun[i] >= 'A' && begun[i] <= 'F');
      if (i < lid ? !digit : begun[i] != ':')
        return not_pingpong(
            fmt::format("'{}' is not an address of a queue pair", readable_text(begun, pingpong_address_len)));
    }
  return Lockstep::message_length(stage, begun);
}

std::vector<Lockstep::Step> PingpongVariant::steps(Stage stage) {
  if (stage == Stage::info)
    return {{.length = pingpong_address_len * addresses_,
             .say =
                 [this] {
                   Bytes all;
                   for (std::size_t i = 0; i < addresses_; ++i) {
                     const Bytes one = write_pingpong_address(i < set_.size() ? set_.local(i) : QpAttributes{});
                     all.insert(all.end(), one.begin(), one.end());
                   }
                   return all;
                 },
             .take = [this](ConstBytes in) { return take(in); }}};
  if (stage == Stage::ready)
    return {{.length = done_word.size(),
             .say = [] { return octets_of(done_word); },
             .take = [](ConstBytes in) -> Outcome<void> {
               if (std::equal(in.begin(), in.end(), done_word.begin(), done_word.end())) return {};
               return not_pingpong(fmt::format("'{}' where \"done\" is expected", readable_text(in, done_word.size())));
             },
             .answered = false}};
  return {};
}

// The programs close the TCP connection before their test, so the test follows the last stage.
Outcome<std::optional<Work>> PingpongVariant::work(Stage stage, Instant now) {
  if (!player_ || stage != Stage::ready) return std::nullopt;
  auto left = player_->work(set_, now);
  if (left && !*left) set_.set_played(player_->result());
  return left;
}

// The answer means that this side can receive, so its queue pairs are moved to RTS first.
Outcome<void> PingpongVariant::take(ConstBytes in) {
  for (std::size_t i = 0; i < set_.size(); ++i) {
    auto peer = read_pingpong_address(in.subspan(i * pingpong_address_len, pingpong_address_len));
    if (!peer) return tl::unexpected(peer.error());
    peer->mtu = set_.local(i).mtu;
    if (transport_ == Transport::ud) peer->qkey = qkey_of_programs;
    if (auto taken = set_.set_peer(i, *peer); !taken) return taken;
  }
  if (auto moved = set_.to_rtr(); !moved) return moved;
  return set_.to_rts();
}

}  // namespace parley::neg
