// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What frames on one way of a link mean: follows the TCP connections that pass (a one-sided view: only this way, so
// that each way of a link can be judged alone), knows where MPA startup frames and FPDUs begin, with markers. Bounded
// memory.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "parley/sim.hpp"

namespace parley::sim {

/// A message, or its beginning, inside a frame.
struct Part {
  Meaning meaning = Meaning::any;  ///< mpa_request, mpa_reply, mpa_rtr, fpdu, terminate
  std::uint32_t fpdu = 0;          ///< number of the FPDU in its direction, from 1
  std::uint32_t offset = 0;        ///< of its first octet in the Ethernet frame
  std::uint32_t size = 0;          ///< octets of it in this frame
  std::uint32_t whole = 0;         ///< octets of the whole message on the wire (with pad, CRC and markers)
};

struct FrameMeaning {
  Meaning kind = Meaning::any;   ///< the lowest layer: arp_request ... tcp_data
  std::uint32_t connection = 0;  ///< n-th connection seen on this way, from 1; 0: none
  bool repeated = false;         ///< only octets that were seen before
  std::uint32_t payload_offset = 0, payload_size = 0;
  std::vector<Part> parts;
  bool has(Meaning meaning, std::uint32_t fpdu = 0) const;
};

class MeaningTracker {
 public:
  static constexpr std::size_t connections_max = 65536;  ///< the oldest is forgotten
  MeaningTracker();
  ~MeaningTracker();
  /// Frames in the order in which they pass. The peer's markers requirement is not visible on this way: whether FPDUs
  /// carry markers is found by looking (a marker pointing at the startup frame's end).
  FrameMeaning look(ConstBytes frame);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace parley::sim
