// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Options and outcome of an MPA connection set-up.
// RFC 5044 (MPA), RFC 6581 (enhanced set-up), OFA 2007-10 Rtr (the Rtr proposal of October 2007).
#pragma once
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "parley/bytes.hpp"
#include "parley/failure.hpp"
#include "parley/result.hpp"
#include "parley/time.hpp"
#include "parley/wire/mpa.h"

namespace parley::mpa {

using namespace std::chrono_literals;

enum class Role : std::uint8_t { initiator, responder };

/// Capacity for private data of a startup frame of the revision, in octets: 512 (RFC 5044 §7.1.1). Revision 2 uses four of
/// them for IRD and ORD (RFC 6581 §6). A peer with a quirk may accept less.
constexpr std::uint16_t private_data_room(std::uint8_t revision) {
  return revision < 2 ? PARLEY_MPA_PD_MAX : PARLEY_MPA_ENH_PD_MAX;
}

/// The ready-to-receive indication: the initiator's first message.
enum class Rtr : std::uint8_t {
  none,   ///< classic: the initiator's first ULP message releases the responder (RFC 5044 §7.1.2 rule 4)
  frame,  ///< the 20-octet Rtr startup frame (OFA 2007-10 Rtr §1); revision 1 only
  send,   ///< zero-length Send FPDU
  write,  ///< zero-length RDMA Write FPDU
  read,   ///< zero-length RDMA Read Request FPDU
};
std::string_view to_string(Rtr rtr);
/// "none", "frame", "send", "write", "read". Errors: Errc::invalid_argument.
Result<Rtr> parse_rtr(std::string_view text);

/// A set of FPDU forms of the RTR: the flags B, C and D of RFC 6581 §6.
struct RtrSet {
  bool send = false;
  bool write = false;
  bool read = false;
  bool operator==(const RtrSet&) const = default;
  bool empty() const { return !send && !write && !read; }
  bool has(Rtr rtr) const {
    return (rtr == Rtr::send && send) || (rtr == Rtr::write && write) || (rtr == Rtr::read && read);
  }
  static RtrSet of(Rtr rtr) { return {rtr == Rtr::send, rtr == Rtr::write, rtr == Rtr::read}; }
};

/// The two spellings of the Rtr key: the proposal's text ("Rtr") contradicts its octets ("RtR").
enum class RtrSpelling : std::uint8_t { text, hex };

/// Value of IRD or ORD in cm::ConnectOptions and similar: not negotiated, the ULP handles it (RFC 6581 §9.1).
inline constexpr std::uint16_t depth_not_negotiated = 0x3FFF;
inline constexpr std::uint16_t depth_max = 0x3FFE;  ///< the largest depth that MPA can express

struct Timeouts {
  Duration request = 5s;  ///< responder: from TCP established to a complete Request (RFC 5044 §7.1.2 rule 10)
  Duration reply = 30s;   ///< initiator: from sending the Request to a complete Reply; includes the peer ULP's decision
  Duration rtr = 10s;     ///< responder: from sending the Reply to the agreed RTR
  Duration first_fpdu =
      0s;  ///< responder without RTR: from sending the Reply to the first FPDU; 0: no limit, the ULP decides
};

/// Set-up options of this side. The defaults suit a client/server application with any Linux stack as peer.
struct Options {
  std::uint8_t revision = 2;    ///< initiator: the revision to send; responder: the highest revision accepted (1 or 2)
  bool fall_back_to_v1 = true;  ///< initiator: retry with revision 1 on RST or FIN (RFC 6581 §10)
  bool crc = true;              ///< C flag (RFC 5044 §4.4: the default MUST be on)
  bool markers = false;         ///< M flag: this side requires markers in what it receives (RFC 5044 §4.3)

  /// Initiator: the RTR to use. none = client/server (A=0 under revision 2).
  Rtr rtr = Rtr::none;
  /// Initiator, revision 2: all kinds that it can send. `rtr` is always offered too, and preferred.
  RtrSet rtr_offer{};
  /// Initiator, revision 1: announce `rtr` with the S flag (always done for frame). false: both sides are configured for it.
  bool rtr_by_s = false;
  /// Initiator, revision 1: the RTR to use if the Reply does not confirm S.
  Rtr rtr_fallback = Rtr::none;
  /// The spelling to send; both are accepted.
  RtrSpelling rtr_spelling = RtrSpelling::text;

  /// Responder: supports the Rtr frame of 2007 (answers a Request with S on revision 1 with S).
  bool accept_rtr_frame = true;
  /// Responder: kinds that it accepts under revision 2 (B, C, D of the Reply); at least one (RFC 6581 §9.2).
  RtrSet rtr_accept{.send = true, .write = true, .read = true};
  /// Responder, revision 1: the configured RTR that it waits for without an announcement (as cxgb4 does).
  Rtr rtr_expected = Rtr::none;

  std::uint16_t ird_max = 128;           ///< limit to which ird may be raised to match the peer's ORD
  std::uint16_t private_data_max = 512;  ///< longest private data accepted from a peer, 0..512

  Timeouts timeouts{};
  /// Name of a known peer implementation (mpa/quirks) whose deviations are tolerated. Empty: none.
  std::string peer_quirk{};
  /// Name of a quirk that this side itself plays; for tests. Empty: follow the RFCs.
  std::string play_quirk{};
};

/// The reason of one decision. The text is formatted only on request, so that a connection whose reasons are never read has
/// no cost.
struct Reason {
  /// Both `text` and `word` have static lifetime. Placeholders: {a} to {c} numbers, {r} the RTR's name, {x} and {y}
  /// sets of kinds, {w} the word.
  std::string_view text;
  std::string_view word{};
  std::uint16_t a = 0, b = 0, c = 0;
  Rtr rtr = Rtr::none;
  RtrSet x{}, y{};
  std::string to_string() const;
};

/// A list of sentences, each formatted when it is read.
class Reasons {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::string;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = std::string;
    explicit Iterator(const Reason* at) : at_(at) {}
    std::string operator*() const { return at_->to_string(); }
    Iterator& operator++() { return ++at_, *this; }
    bool operator==(const Iterator&) const = default;

   private:
    const Reason* at_;
  };
  Iterator begin() const { return Iterator(list_.data()); }
  Iterator end() const { return Iterator(list_.data() + list_.size()); }
  std::size_t size() const { return list_.size(); }
  bool empty() const { return list_.empty(); }
  std::string operator[](std::size_t i) const { return list_[i].to_string(); }
  std::vector<std::string> texts() const { return {begin(), end()}; }
  void add(const Reason& reason) {
    if (list_.empty()) list_.reserve(4);  // enough for most connections
    list_.push_back(reason);
  }

 private:
  std::vector<Reason> list_;
};

/// What both sides agreed, and why. Valid from ConnectRequest on (the peer's half), complete from Established on.
struct Parameters {
  std::uint8_t revision = 1;
  bool crc = true;
  bool tx_markers = false;  ///< this side inserts markers
  bool rx_markers = false;  ///< this side expects markers
  Rtr rtr = Rtr::none;
  bool peer_to_peer = false;  ///< A flag agreed (RFC 6581 §9.2)
  bool announced = false;     ///< responder, revision 1: S on both sides promises an RTR (OFA 2007-10 Rtr §2)
  std::uint16_t ird = 0;      ///< this side's, after negotiation
  std::uint16_t ord = 0;
  bool depths_negotiated = false;  ///< false: revision 1, S=0 or 0x3FFF; the ULP must agree on IRD and ORD itself
  std::uint16_t peer_ird = 0;      ///< as in the peer's frame; 0 if the frame had none
  std::uint16_t peer_ord = 0;
  std::uint8_t peer_flags = 0;  ///< octet 16 of the peer's frame, as received
  RtrSet offered{};             ///< kinds in the Request
  RtrSet answered{};            ///< kinds in the Reply
  Reasons reasons;              ///< one sentence per decision, with its RFC section; at most 16
};

/// The steps of an MPA set-up, for cm::Failure.
namespace step {
using cm::Stage;
using cm::Step;
inline constexpr Step tcp_connect{Stage::transport, "tcp_connect", "open the TCP connection", "to"};
inline constexpr Step send_request{Stage::request, "send_request", "send the MPA Request", "to"};
inline constexpr Step wait_request{Stage::request, "wait_request", "wait for the MPA Request", "from"};
inline constexpr Step ulp_decision{Stage::decision, "ulp_decision", "decide on the MPA Request", "from"};
inline constexpr Step wait_reply{Stage::reply, "wait_reply", "wait for the MPA Reply", "from"};
inline constexpr Step send_rtr{Stage::ready, "send_rtr", "send the RTR", "to"};
inline constexpr Step wait_rtr{Stage::ready, "wait_rtr", "wait for the RTR", "from"};
inline constexpr Step wait_first_fpdu{Stage::ready, "wait_first_fpdu", "wait for the first FPDU", "from"};
}  // namespace step

}  // namespace parley::mpa
