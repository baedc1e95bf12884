// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Known departures of real MPA peers, as data. One table has two uses: Options.peer_quirk tolerates such a peer;
// Options.play_quirk makes this side behave like it, so that tests need no hardware of the peer.
// Code never checks an entry's name: it reads the fields.
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "parley/mpa.hpp"

namespace parley::mpa {

/// When a peer whose revision 2 Request got no Reply tries again with revision 1 (RFC 6581 §10 allows both).
enum class Fallback : std::uint8_t { rst_or_fin, rst, never };

struct Quirk {
  std::string_view name;
  std::string_view summary;   ///< one sentence for users
  std::string_view evidence;  ///< where it was seen

  // Startup frames, any revision.
  bool echoes_reserved =
      false;              ///< copies the Request's reserved bits into the Reply, so S on revision 1 proves nothing
  bool echoes_r = false;  ///< copies the Request's R bit into an accepting Reply
  bool crc_off = false;   ///< sends C=0 in its Request by default
  bool refuses_markers = false;   ///< rejects a Request with M, and cannot insert markers
  bool whole_frame_only = false;  ///< resets unless a startup frame arrives whole in one TCP segment
  std::uint16_t private_data_max = PARLEY_MPA_PD_MAX;  ///< longest PD_Length it accepts, enhanced data included
  std::uint8_t private_revision = 0;                   ///< sends and accepts this revision only; 0: the standard ones
  std::uint8_t private_extension = 0;  ///< octets between header and private data, not counted in PD_Length

  // RFC 6581.
  bool enhanced_by_revision = false;    ///< expects enhanced data whenever the revision is 2, with or without S
  bool rejects_short_enhanced = false;  ///< answers S=1 with PD_Length 0..3 by R=1 and PD_Length 0 instead of closing
  bool needs_peer_to_peer = false;      ///< resets on A=0, and on A=1 without C or D
  bool omits_a = false;                 ///< its Reply has A=0 although it agrees to the peer-to-peer model
  bool ignores_reply_a = false;         ///< initiator: accepts C or D of a Reply with A=0
  RtrSet rtr_offer{};                   ///< initiator: the kinds it offers; empty: as in the options
  Rtr own_rtr = Rtr::none;              ///< the one RTR kind it is configured for
  bool own_rtr_only = false;  ///< responder: answers own_rtr if C or D is offered; initiator: reads C before D from the
                              ///< Reply and requires that it is own_rtr
  bool prefers_write = false;         ///< responder: C, unless D is offered without C; initiator: C before D
  bool answers_every_common = false;  ///< responder: names every common kind, not one
  bool rtr_on_v1 = false;             ///< sends or expects own_rtr under revision 1 without negotiation
  std::uint16_t depth_cap = 0;        ///< caps its answer to the peer's IRD and ORD, with 0x3FFF as a number; 0: no cap
  bool no_ird_raise = false;          ///< agrees to a Read RTR with IRD 0
  Fallback fallback = Fallback::rst_or_fin;

  // After the Reply.
  bool no_fence = false;                   ///< responder: may send FPDUs before it received one
  bool terminate_nibbles_swapped = false;  ///< Terminate control octets in host bit-field order
  std::uint8_t terminate_llp_etype = 0;    ///< error type it sends with layer LLP
  bool rtr_stag_zero = false;              ///< its Write and Read RTRs carry STag 0
  bool refuses_stag_zero = false;          ///< terminates on tagged STag 0 even at length zero
  Duration first_fpdu_delay{};  ///< wait this long after its Reply before the first FPDU, or it may be left unread

  /// The octets that private_data_max leaves to the ULP: enhanced data is in the same field (RFC 6581 §6).
  std::size_t ulp_room(bool enhanced) const { return private_data_max - (enhanced ? PARLEY_MPA_ENH_LEN : 0U); }
};

/// The entry with that name; for an empty name, a peer without departures. Errors: invalid_argument.
Result<const Quirk*> find_quirk(std::string_view name);
/// All named entries, in a stable order.
std::span<const Quirk> all_quirks();

}  // namespace parley::mpa
