// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Reads a live peer's octets from a TcpStream, one unit at a time: a startup frame, an FPDU, FIN, RST, or silence for
// the given time. TCP's segmentation does not matter.
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
    startup,  ///< a whole startup frame, with any fields
    fpdu,     ///< with a correct CRC, if CRC is on
    bad,      ///< octets that are neither; `why` has the reason; no octets after them are read
    fin,
    rst,
    transport_timeout,
    silence,  ///< nothing in time, or not enough: `octets` holds the part that arrived
  };
  Kind kind = Kind::silence;
  Instant at{};
  Bytes octets;  ///< startup: the frame; fpdu: the ULPDU; bad, silence: what arrived
  std::string why;
  // startup
  wire::MpaKey key = wire::MpaKey::unknown;
  std::uint8_t flags = 0, revision = 0;
  std::uint16_t pd_length = 0;
  std::optional<wire::MpaEnhanced> enhanced;  ///< S under revision 2 and at least four octets
  Bytes private_data;                         ///< without the enhanced data
  // fpdu
  std::optional<wire::DdpHeader> ddp;  ///< nullopt: the ULPDU is shorter than its header

  bool is(wire::MpaKey k) const { return kind == Kind::startup && key == k; }
  bool closed() const { return kind == Kind::fin || kind == Kind::rst; }
  bool is(wire::RdmapOpcode opcode) const { return kind == Kind::fpdu && ddp && ddp->opcode == opcode; }
  /// The RDMAP Terminate, in the RFC's or siw's order of nibbles (Terminate::nibbles_swapped). Its spans are views into
  /// `octets`.
  std::optional<wire::Terminate> terminate() const;
  ConstBytes payload() const;  ///< fpdu: after its DDP header
  /// One line for people: "MPA Reply rev=2 flags=50 ird=8 ord=8 pd=4", "Terminate ... (layer 2, type 0, code 0x02)",
  /// "FIN", "silence".
  std::string text() const;
};
std::string_view to_string(Received::Kind kind);

class FrameReader {
 public:
  FrameReader(ScriptedPeer& peer, TcpStream& tcp) : peer_(peer), tcp_(tcp) {}

  /// The next unit must be a startup frame.
  Task<Received> startup(Duration patience);
  /// Sets the format of FPDUs; the stream holds FPDUs from here on.
  void fpdus(bool crc, bool markers);
  /// The next FPDU, or the end of the stream, or silence.
  Task<Received> fpdu(Duration patience);
  /// The next event of any kind: FIN, RST, octets (as `bad`) or silence.
  Task<Received> anything(Duration patience);

 private:
  Received ending(Received::Kind otherwise) const;
  bool next_fpdu(Received& received);

  ScriptedPeer& peer_;
  TcpStream& tcp_;
  std::optional<mpa::Deframer> deframer_;
  Bytes fed_;  // the deframer's current input; at most TcpStream::unread_max
};

}  // namespace parley::tester
