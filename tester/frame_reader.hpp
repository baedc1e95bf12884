// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a live peer sends, taken off a TcpStream one meaningful unit at a time: a startup frame, an FPDU, FIN, RST, or
// nothing within the time given. How TCP cut it up does not matter.
#pragma once
#include <optional>
#include <string>

#include "mpa/deframer.hpp"
#include "tester/scripted_peer.hpp"
#include "wire/mpa.hpp"
#include "wire/rdmap.hpp"

namespace parley::tester {

struct Received {
  enum class Kind : std::uint8_t {
    startup,  ///< a whole startup frame, whatever its fields say
    fpdu,     ///< with a good CRC if one is due
    bad,      ///< octets that are neither; `why` says why not; nothing after them is taken
    fin,
    rst,
    transport_timeout,
    silence,  ///< nothing in time, or not enough: `octets` holds the part that came
  };
  Kind kind = Kind::silence;
  Instant at{};
  Bytes octets;  ///< startup: the frame; fpdu: the ULPDU; bad, silence: whatever came
  std::string why;
  // startup
  wire::MpaKey key = wire::MpaKey::unknown;
  std::uint8_t flags = 0, revision = 0;
  std::uint16_t pd_length = 0;
  std::optional<wire::MpaEnhanced> enhanced;  ///< S under revision 2 and at least four octets
  Bytes private_data;                         ///< without the enhanced data
  // fpdu
  std::optional<wire::DdpHeader> ddp;  ///< none: shorter than its header

  bool is(wire::MpaKey k) const { return kind == Kind::startup && key == k; }
  bool closed() const { return kind == Kind::fin || kind == Kind::rst; }
  bool is(wire::RdmapOpcode opcode) const { return kind == Kind::fpdu && ddp && ddp->opcode == opcode; }
  /// An RDMAP Terminate, its spans viewing `octets`; either order of siw's nibbles (Terminate::nibbles_swapped).
  std::optional<wire::Terminate> terminate() const;
  ConstBytes payload() const;  ///< fpdu: after its DDP header
  /// One line for people: "MPA Reply rev=2 flags=50 ird=8 ord=8 pd=4", "Terminate ... (layer 2, type 0, code 0x02)",
  /// "FIN", "silence".
  std::string words() const;
};
std::string_view to_string(Received::Kind kind);

class FrameReader {
 public:
  FrameReader(ScriptedPeer& peer, TcpStream& tcp) : peer_(peer), tcp_(tcp) {}

  /// The next unit must be a startup frame.
  Task<Received> startup(Duration patience);
  /// From here on the stream holds FPDUs.
  void fpdus(bool crc, bool markers);
  /// The next FPDU, or how the stream ended.
  Task<Received> fpdu(Duration patience);
  /// Whichever of FIN, RST, octets (as `bad`) or silence comes next.
  Task<Received> anything(Duration patience);

 private:
  Received ending(Received::Kind otherwise) const;
  bool next_fpdu(Received& received);

  ScriptedPeer& peer_;
  TcpStream& tcp_;
  std::optional<mpa::Deframer> deframer_;
  Bytes fed_;  // what the deframer has borrowed; at most TcpStream::unread_max
};

}  // namespace parley::tester
