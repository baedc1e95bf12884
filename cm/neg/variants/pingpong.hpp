// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The exchange of libibverbs' example programs: ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong (one queue pair) and
// ibv_srq_pingpong (the number of its -q, by default 16).
//
// The client sends an address of 52 octets for each queue pair. The server answers with its own when its queue pairs are in RTS, and
// the client ends with "done". ibv_srq_pingpong sends 256 addresses, of which only the first ones are used. An address is LID, queue
// pair number, PSN and GID, in hexadecimal digits separated by colons, and a NUL.
#pragma once
#include <utility>

#include "cm/neg/variants/lockstep.hpp"
#include "cm/neg/variants/player.hpp"

namespace parley::neg {

inline constexpr std::size_t pingpong_address_len = 52, srq_pingpong_addresses = 256;
Bytes write_pingpong_address(const QpAttributes& a);
/// Errors: invalid_peer_data.
Outcome<QpAttributes> read_pingpong_address(ConstBytes in);

class PingpongVariant final : public Lockstep {
 public:
  /// `player` runs the test after the exchange; none: nothing follows. `srq`: like ibv_srq_pingpong.
  PingpongVariant(Role role, Transport transport, QpSet set, std::optional<Player> player = {}, bool srq = false)
      : Lockstep(role),
        transport_(transport),
        set_(std::move(set)),
        player_(std::move(player)),
        addresses_(srq ? srq_pingpong_addresses : set_.size()) {}
  std::vector<QpPair> agreed() const override { return set_.agreed(); }
  Outcome<std::optional<Work>> work(Stage stage, Instant now) override;
  Outcome<std::optional<std::size_t>> message_length(Stage stage, ConstBytes begun) override;

 protected:
  std::vector<Step> steps(Stage stage) override;

 private:
  Outcome<void> take(ConstBytes in);
  Transport transport_;
  QpSet set_;
  std::optional<Player> player_;
  std::size_t addresses_;  // sent by each side
};

}  // namespace parley::neg
