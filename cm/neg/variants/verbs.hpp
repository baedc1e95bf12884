// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parley's own variants: verbs-rc, verbs-uc, verbs-ud, verbs-xrc and manual. One queue pair on each side, whose attributes are
// items, so that later versions can add some.
//
// stage | who        | sends                           | does
// ------+------------+---------------------------------+---------------------------------------------------------------
// info  | both       | the attributes                  | receives the peer's: RTR
// ready | initiator  | ready                           | RTS
//       | responder  | ready                           | RTS; sends its test message
//       | both       | seen, or waiting and asks again | the initiator sends its test message before its first check
// done  | both       | nothing                         |
//
// If one side cannot test, ready is one round.
#pragma once
#include <utility>

#include "cm/neg/variants/qp_set.hpp"
#include "wire/neg.hpp"

namespace parley::neg {

/// The message of the stage info. `tests`: this side can send and receive a test message.
Bytes write_qp_info(Transport transport, const QpAttributes& a, bool tests);
struct QpInfo {
  QpAttributes attributes;
  bool tests = false;
};
/// Errors: invalid_peer_data.
Outcome<QpInfo> read_qp_info(Transport transport, ConstBytes in);

class VerbsVariant final : public Variant {
 public:
  VerbsVariant(Role role, Transport transport, QpSet set, bool done_stage)
      : role_(role), transport_(transport), set_(std::move(set)), done_stage_(done_stage) {}

  Outcome<Turn> exchange(Stage stage, std::optional<ConstBytes> peer) override;
  bool has_done_stage() const override { return done_stage_; }
  std::vector<QpPair> agreed() const override { return set_.agreed(); }

 private:
  Outcome<Turn> info(std::optional<ConstBytes> peer);
  Outcome<Turn> ready(std::optional<ConstBytes> peer);
  Outcome<Turn> look();
  Outcome<std::optional<Bytes>> receive_test();
  Outcome<void> send_test();

  Role role_;
  Transport transport_;
  QpSet set_;
  bool done_stage_;
  bool expects_ = false, tests_ = false, rts_ = false, seen_ = false, peer_seen_ = false;
  int looks_ = 0;
  std::uint64_t strangers_ = 0;  // datagrams of other senders
};

}  // namespace parley::neg
