// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A node's connection to one parent, or to its backup: hook-up with retries, then heartbeats. It neither makes nor reads
// datagrams: handle_deadline() and handle_answer() return what the node has to do.
//
//   stage     what                   deadline            then
//   none      no parent              never
//   waiting   the hook-up is delayed                     sends Set(SsaHookup)                             -> hooking
//   hooking   Set(SsaHookup) sent    heartbeat/8         sends it again; after 8 times: lost              -> none
//   up        connected              7/8..1 heartbeat    sends Get(SsaHookup), again after heartbeat/4;
//                                                        2 1/2 heartbeats after the last answer: lost     -> none
//
// A backup's heartbeats have four times the interval.
#pragma once
#include "base/rng.hpp"
#include "parley/time.hpp"
#include "ssa/epoch.hpp"
#include "ssa/node/output.hpp"

namespace parley::ssa {

class Uplink {
 public:
  enum class Stage : std::uint8_t { none, waiting, hooking, up };
  enum class Step : std::uint8_t {
    nothing,
    hook,       ///< send Set(SsaHookup)
    heartbeat,  ///< send Get(SsaHookup)
    connected,  ///< the stage is up now
    lost,       ///< the parent does not answer or refuses; the uplink is cleared
  };

  /// `heartbeat`: until the parent's answer has its own. The hook-up is sent at `at`.
  void assign(const wire::mad::SsaEndpoint& endpoint, bool is_backup, Duration heartbeat, Instant at);
  /// The delayed hook-up is sent at `at`. Only in the stage waiting.
  void hook_at(Instant at) { deadline_ = at; }
  /// The backup becomes the parent, and hooks up again as such, at once.
  void promote(Instant now);
  void clear() { *this = Uplink{}; }

  Step handle_deadline(Instant now, Rng& rng);
  /// The answer to this side's request. `heartbeat`: that of the answer; of a refusal with not_ready, the time to wait.
  Step handle_answer(Instant now, AnswerStatus status, Duration heartbeat, Rng& rng);

  Stage stage() const { return stage_; }
  Instant next_deadline() const { return deadline_; }
  bool is_up() const { return stage_ == Stage::up; }
  bool exists() const { return stage_ != Stage::none; }
  bool is_backup() const { return is_backup_; }
  const wire::mad::SsaEndpoint& endpoint() const { return endpoint_; }
  Gid gid() const { return endpoint_.get(wire::mad::SsaEndpoint::gid); }
  /// That of the request without an answer; 0: there is none.
  std::uint32_t transaction_id() const { return transaction_; }

  Epoch epoch;  ///< that of this parent's database, as it has named it last

 private:
  Step lose() { return clear(), Step::lost; }
  Step send(Instant now, Rng& rng, Step step, Duration wait);
  Duration interval() const { return is_backup_ ? 4 * heartbeat_ : heartbeat_; }

  wire::mad::SsaEndpoint endpoint_;
  Stage stage_ = Stage::none;
  bool is_backup_ = false;
  unsigned tries_ = 0, refusals_ = 0;
  std::uint32_t transaction_ = 0;
  Duration heartbeat_{};
  Instant heard_{}, deadline_ = never;
};

}  // namespace parley::ssa
