// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The exchange of perftest (ib_write_bw and similar) in versions from 5.33 on: text over TCP; with -R the same in messages over
// an RDMA connection.
//
// stage | each side sends, the client first, the server in answer
// ------+-----------------------------------------------------------------------------------------------------------------
// info  | version, 16 octets; page and cache line size, 4 octets each; path MTU as a digit, 2 octets; keys for each
//       | queue pair (write_lat, read_lat: those of the first one twice); then RTR and RTS
// ready | keys again, as barriers: for each queue pair and once more; send_bw, send_lat: once more before them
// done  | write_bw, read_bw: keys and a report of 5 numbers; all tests: keys as a barrier
//
// Keys are text: LID, number of outstanding reads, queue pair number, PSN, R_Key, virtual address; with
// --data_validation a second address; with a GID its octets; and the number of the shared receive queue. So there are
// four formats.
//
// With -R (a driver that connects) keys are a structure of 56 octets. Info ends with keys of zeros, as a barrier. Then
// the queue pair is connected. Ready starts with such keys again, followed by the keys of info.
#pragma once
#include <utility>

#include "cm/neg/variants/lockstep.hpp"
#include "cm/neg/variants/player.hpp"

namespace parley::neg {

struct PerftestFormat {
  bool gid = true;
  bool validation = false;  ///< --data_validation: a second address
  bool binary = false;      ///< -R: everything in a structure, without a second address
  std::size_t length() const { return binary ? 56 : 59 + (gid ? 49U : 0U) + (validation ? 17U : 0U); }
};
Bytes write_perftest_keys(const QpAttributes& a, PerftestFormat format);
/// Errors: invalid_peer_data.
Outcome<QpAttributes> read_perftest_keys(ConstBytes in, PerftestFormat format);

struct PerftestOptions {
  std::string test = "write_bw";
  std::string version = "6.29";
  std::uint32_t page = 4096, cache_line = 64;
  bool validation = false, done_stage = false;
};
/// Values of "test".
std::vector<std::string> perftest_tests();

class PerftestVariant final : public Lockstep {
 public:
  /// `player` runs the test between the stages ready and done; none: no data is transferred.
  PerftestVariant(Role role, QpSet set, PerftestOptions options, std::optional<Player> player = {})
      : Lockstep(role),
        set_(std::move(set)),
        player_(std::move(player)),
        options_(std::move(options)),
        format_{
            .gid = set_.local(0).has_gid(), .validation = options_.validation, .binary = set_.driver(0).connects()} {}
  std::vector<QpPair> agreed() const override { return set_.agreed(); }
  bool has_done_stage() const override { return options_.done_stage; }
  Outcome<std::optional<Work>> work(Stage stage, Instant now) override;
  bool peer_works(Stage stage) const override { return stage == Stage::done && player_ && player_->peer_works(); }

 protected:
  std::vector<Step> steps(Stage stage) override;

 private:
  bool connects() const { return format_.binary; }
  std::vector<Step> info();
  void add_keys(std::vector<Step>& out, std::size_t first);
  Step blank();
  Outcome<std::optional<Work>> connect();
  std::vector<Step> report() const;
  Step number(std::uint32_t own);
  Step keys(std::size_t i);
  Step barrier(std::size_t i);
  Outcome<void> parse_keys(std::size_t i, ConstBytes in);
  QpSet set_;
  std::optional<Player> player_;
  PerftestOptions options_;
  PerftestFormat format_;
  std::uint32_t peer_mtu_ = 0;
};

}  // namespace parley::neg
