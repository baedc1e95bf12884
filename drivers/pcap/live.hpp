// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Packets from a network interface through libpcap. One thread; only read() waits.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "parley/bytes.hpp"
#include "parley/time.hpp"

namespace parley::pcap_driver {

/// Why capturing is impossible, as one line.
struct LiveError {
  bool usage = false;  ///< the filter is invalid; otherwise the system refused
  std::string text;
};
template <class T>
using OrLive = tl::expected<T, LiveError>;

struct Interface {
  std::string name, description;
  bool up = false, loopback = false;
};
/// Interfaces that this user may see, in libpcap's order.
OrLive<std::vector<Interface>> list_interfaces();

struct LiveOptions {
  std::string interface;                 ///< "any": all of them
  std::string filter;                    ///< pcap-filter(7); empty: every packet
  std::size_t buffer_octets = 16 << 20;  ///< kernel buffer in which packets wait for read()
  bool promiscuous = true;
  static constexpr int snap_length = 262144;  // libpcap's own default; longer than any segment of segmentation offload
  static constexpr std::size_t buffer_octets_min = 1 << 20, buffer_octets_max = 1 << 30;
};

struct LivePacket {
  Instant at{};  ///< since 1970-01-01
  std::uint32_t original_length = 0;
  ConstBytes octets;  ///< valid until the callback returns
};

/// Since the capture began. Dropped packets arrived, may have passed the filter, and were never delivered to read().
struct LiveDrops {
  std::uint64_t kernel = 0;     ///< read() was called too rarely for the buffer
  std::uint64_t interface = 0;  ///< by the interface or its driver, if it counts them
  std::uint64_t all() const { return kernel + interface; }
};

class LiveCapture {
 public:
  static OrLive<std::unique_ptr<LiveCapture>> open(const LiveOptions& options);
  ~LiveCapture();
  LiveCapture(const LiveCapture&) = delete;
  LiveCapture& operator=(const LiveCapture&) = delete;

  /// The number used in capture files.
  std::uint16_t link_type() const { return link_type_; }
  /// libpcap's warning when it opened the interface; empty: none.
  const std::string& warning() const { return warning_; }
  /// Waits at most this long for packets, or until a signal arrives, and passes those that are available, at most
  /// batch_max. Returns how many. Errors: the interface is gone or down.
  OrLive<std::size_t> read(Duration wait, const std::function<void(const LivePacket&)>& on_packet);
  LiveDrops drops();

  static constexpr int batch_max = 8192;

 private:
  struct Handle;
  explicit LiveCapture(std::unique_ptr<Handle> handle);
  std::unique_ptr<Handle> handle_;
  std::uint16_t link_type_ = 0;
  std::string warning_;
  LiveDrops drops_;
};

}  // namespace parley::pcap_driver
