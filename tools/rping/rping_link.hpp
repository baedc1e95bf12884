// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Common parts of rping's client and server: the 16-octet advertisement, the data pattern, and the buffers of one
// connection.
//
//   client                                   server
//   Send advertisement of its source   ->    RDMA Read of the source
//                                      <-    Send, 16 octets with arbitrary contents: "go ahead"
//   Send advertisement of its sink     ->    RDMA Write into the sink
//                                      <-    Send, 16 octets: "done"
//   ... and so on; the client ends by disconnecting.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>

#include "parley/cm.hpp"
#include "parley/verbs.hpp"
#include "tools/options.hpp"

namespace parley::tools {

inline constexpr std::uint16_t rping_port = 7174;
inline constexpr std::uint32_t rping_size_default = 64;  ///< rping's buffer size without -S, at both ends
inline constexpr std::uint32_t rping_size_max = 64 << 10;

/// The memory of one end: be64 address, be32 STag, be32 length in octets.
struct RpingInfo {
  static constexpr std::size_t wire_size = 16;
  std::uint64_t to = 0;
  std::uint32_t stag = 0;
  std::uint32_t size = 0;

  void emit(MutBytes out) const;
  static RpingInfo parse(ConstBytes in);
};

/// The data of ping number `ping`: "rdma-ping-<n>: ", then letters whose start advances by one with each ping, and a
/// zero octet at the end.
void rping_fill(MutBytes out, std::uint32_t ping);
/// The first octet that differs from rping_fill's; none if there is no difference.
std::optional<std::size_t> rping_difference(ConstBytes data, std::uint32_t ping);
/// The data as rping prints it: up to the first zero octet.
std::string rping_text(ConstBytes data);

/// What missing IRD and ORD negotiation means for rping; empty if they were negotiated.
std::string rping_depth_text(const mpa::Parameters& parameters);

/// Buffers, completion queue and posted work of one connection.
class RpingLink {
 public:
  enum class WorkKind : std::uint8_t { received, sent, read, written, nudged };
  struct Done {
    WorkKind what = WorkKind::received;
    std::uint32_t octets = 0;
    RpingInfo info{};  ///< received, when octets is 16
  };

  /// `size` octets of source and of sink. Errors: environment.
  static Or<std::unique_ptr<RpingLink>> create(Device& device, PdHandle pd, std::uint32_t size);
  ~RpingLink();

  QpInit init() const;
  void attach(QueuePair& qp);

  MutBytes source() { return MutBytes(memory_).subspan(0, size_); }
  MutBytes sink() { return MutBytes(memory_).subspan(size_, size_); }
  RpingInfo advertise_source() const { return {source_region_.addr, source_region_.rkey, size_}; }
  RpingInfo advertise_sink() const { return {sink_region_.addr, sink_region_.rkey, size_}; }

  void send(const RpingInfo& info);
  void read_to_sink(const RpingInfo& from);
  void write_from_sink(const RpingInfo& to, std::uint32_t length);
  /// Sends a zero-length RDMA Write: an FPDU that releases the responder and has no other effect.
  void nudge();

  /// The next completion. There are none after a fault.
  std::optional<Done> poll();
  const std::optional<std::string>& fault() const { return fault_; }
  /// How a connection ended, with the status of the first request that failed, which the failure itself does not
  /// contain. Call it when poll() returns nothing more.
  std::string end_text(const cm::Disconnected& end, const std::string& peer) const;

 private:
  static constexpr std::uint32_t receive_slots = 4;  // rping uses one at a time; the others are for unexpected messages
  static constexpr std::uint32_t receive_octets = 64;  // longer than an advertisement, to detect wrong lengths
  static constexpr std::uint32_t send_slots = 8;
  static constexpr std::uint32_t send_wrs = 16;

  RpingLink(Device& device, PdHandle pd, std::uint32_t size);
  std::size_t control() const { return std::size_t{size_} * 2; }
  std::size_t receive_at(std::uint64_t slot) const { return control() + slot * receive_octets; }
  std::size_t send_at(std::uint64_t slot) const {
    return control() + receive_slots * receive_octets + slot * RpingInfo::wire_size;
  }
  parley::Result<void> register_all();
  void post_receive(std::uint64_t slot);
  void post(SendWr& wr, std::string_view what);
  void report_error(std::string text);

  Device& device_;
  PdHandle pd_;
  std::uint32_t size_;
  Bytes memory_;  ///< source, sink, receive slots, send slots
  MemoryRegion source_region_{}, sink_region_{}, receive_region_{}, send_region_{};  ///< separate regions, as in rping
  std::unique_ptr<CompletionQueue> cq_;
  QueuePair* qp_ = nullptr;
  std::uint64_t sends_ = 0;
  std::optional<std::string> fault_;
  std::optional<WorkCompletion> failed_;  ///< the first failed completion that was not a flush
};

}  // namespace parley::tools
