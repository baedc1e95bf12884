// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Frames as text: what a person wants to know of an Ethernet frame with ARP (RFC 826), neighbour discovery (RFC 4861)
// or TCP (RFC 9293) in it, about the MPA messages that TCP carries, and about RoCE's packets and messages of the CM. Frames are shown in the order of sending, as
// their senders sent them; texts are requested afterwards, since a message may end in a later frame than it began.
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
  static constexpr std::size_t head_max = 128;  ///< octets that hold the headers of every frame of a simulated host
  static constexpr std::size_t messages_max = 1 << 16;  ///< of the CM; later ones are not known to be sent again

  /// What is kept of a frame until its text is requested.
  struct Seen {
    static constexpr std::uint32_t no_stream = ~0u;
    Bytes head;  ///< the frame's first octets, at most head_max; of a message of the CM all
    std::uint32_t size = 0;
    std::optional<Address> from, to;           ///< no `to`: for everyone. Ports are 0
    std::uint16_t from_port = 0, to_port = 0;  ///< of TCP
    bool repeated = false;                     ///< the sender sent all of it before
    std::uint32_t stream = no_stream, opposite = no_stream;
    std::uint64_t begin = 0, end = 0;   ///< of its payload in the stream
    std::uint64_t acked = 0;            ///< octets of the opposite stream
    std::uint32_t roce_connection = 0;  ///< in the order of REQs, from 1; 0: none
  };
  struct Words {
    std::string layer, text, detail;  ///< as in draw::LadderRow
    Fields fields;
  };

  Seen look(ConstBytes frame, Instant at);
  Words words(const Seen& seen) const;
  /// Null where there is none, or it is forgotten.
  const RoceConnections::Ends* roce_ends(std::uint32_t connection) const { return roce_.ends(connection); }

 private:
  struct Key {
    Address from, to;
    auto operator<=>(const Key&) const = default;
  };
  std::uint32_t stream_of(const Key& key, bool fresh);
  bool roce_again(const FrameHeaders& headers);
  void look_tcp(ConstBytes segment, const Address& source, const Address& destination, Instant at, Seen& out);

  using Flow = std::tuple<Address, Address, std::uint32_t>;  // and the destination's queue pair
  std::map<Flow, std::uint32_t> next_psn_;                   // of requests
  std::set<std::uint64_t> messages_;                         // of the CM: digests; at most messages_max
  std::map<Key, std::uint32_t> live_;                        // the newest stream of each direction
  std::vector<std::unique_ptr<DescribedStream>> streams_;
  RoceConnections roce_;
};

}  // namespace parley::sim
