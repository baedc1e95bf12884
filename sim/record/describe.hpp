// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Frames as text: a readable summary of an Ethernet frame with ARP (RFC 826), neighbour discovery (RFC 4861) or TCP
// (RFC 9293), of the MPA messages in TCP, and of RoCE packets and CM messages. Frames are passed in the order of
// sending, as sent; texts are requested afterwards, because a message may end in a later frame than it began.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "parley/address.hpp"
#include "sim/fault/roce_connections.hpp"
#include "sim/record/describe_stream.hpp"

namespace parley::sim {

struct FrameHeaders;

class Describer {
 public:
  static constexpr std::size_t head_max = 128;          ///< enough for the headers of every frame of a simulated host
  static constexpr std::size_t messages_max = 1 << 16;  ///< CM messages remembered; later retransmissions are not
                                                        ///< recognised

  /// State kept for a frame until its text is requested.
  struct Seen {
    static constexpr std::uint32_t no_stream = ~0u;
    Bytes head;  ///< the frame's first octets, at most head_max; for a CM message all of them
    std::uint32_t size = 0;
    std::optional<Address> from, to;           ///< `to` is empty for broadcasts. Ports are 0
    std::uint16_t from_port = 0, to_port = 0;  ///< TCP only
    bool repeated = false;                     ///< the sender sent all of it before
    std::uint32_t stream = no_stream, opposite = no_stream;
    std::uint64_t begin = 0, end = 0;   ///< position of its payload in the stream
    std::uint64_t acked = 0;            ///< octets of the opposite stream
    std::uint32_t roce_connection = 0;  ///< numbered from 1 in the order of REQs; 0: none
  };
  struct RowText {
    std::string layer, text, detail;  ///< as in draw::LadderRow
    Fields fields;
  };

  Seen look(ConstBytes frame, Instant at);
  RowText row_text(const Seen& seen) const;
  /// Null if there is none, or it was forgotten.
  const RoceConnections::Ends* roce_ends(std::uint32_t connection) const { return roce_.ends(connection); }

 private:
  struct Key {
    Address from, to;
    auto operator<=>(const Key&) const = default;
  };
  std::uint32_t stream_of(const Key& key, bool fresh);
  bool roce_again(const FrameHeaders& headers);
  void look_tcp(ConstBytes segment, const Address& source, const Address& destination, Instant at, Seen& out);

  using Flow = std::tuple<Address, Address, std::uint32_t>;  // the last element: the destination's queue pair
  std::map<Flow, std::uint32_t> next_psn_;                   // for requests
  std::set<std::uint64_t> messages_;                         // CM messages as digests; at most messages_max
  std::map<Key, std::uint32_t> live_;                        // the newest stream of each direction
  std::vector<std::unique_ptr<DescribedStream>> streams_;
  RoceConnections roce_;
};

}  // namespace parley::sim
