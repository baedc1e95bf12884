// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Writes what passed the sockets to a pcapng file. Each record of a TCP tap becomes Ethernet frames: the octets, their
// order, FIN and RST are real; sequence numbers, segmentation and acknowledgements are made up. RoCEv2 packets are
// written as they were; their MAC addresses, and the IP header fields that the system does not report, are made up.
#pragma once
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parley/roce_host.hpp"
#include "parley/tcp_host.hpp"
#include "parley/trace.hpp"
#include "tools/options.hpp"
#include "wire/pcapng.hpp"

namespace parley::tools {

class CaptureWriter {
 public:
  /// Creates the file, or opens a FIFO, whose reader receives each frame at once. Errors: environment.
  static Or<std::unique_ptr<CaptureWriter>> create(const std::string& path);
  void add(const TapRecord& record);
  void add(const PacketTapRecord& record);
  /// Adds a comment with the number of the connection. The comment on a sent message goes on the frame that carries the
  /// message. Any other comment goes on the frame that caused the event, or else on the connection's next frame. For a
  /// FIFO, frames are not held back, so that every comment goes on the next frame.
  void comment(const trace::Record& record);
  /// Flushes and closes. Errors: environment.
  Or<void> finish();

 private:
  /// One direction of a connection.
  struct Half {
    Address from;
    std::uint32_t next_seq = 0;
    bool fin = false;
  };
  struct Flow {
    Half out, in;
    std::uint64_t connection = 0;  ///< the number in the trace; 0 while unknown
  };
  struct QueuedPacket {
    Address local, peer;
    Instant at{};
    Bytes octets;
    bool out = false;
    bool causes = false;  ///< sent by the peer, or the made-up ACK directly after the peer's FIN
    std::vector<std::string> comments;
  };
  struct FileCloser {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  static constexpr std::size_t segment_max = 32768;  ///< octets per made-up segment; loopback has segments of this size
  static constexpr std::size_t remarks_max = 64;     ///< waiting comments of one connection; more are dropped
  static constexpr std::size_t waiting_max = 4096;   ///< connections with waiting comments; the first are dropped
  static constexpr std::size_t buffer_max = 1 << 20;  ///< octets buffered before a write

  CaptureWriter(std::string path, std::FILE* file);
  void set_clock(Instant at);
  void open_flow(const TapRecord& record, bool accepted);
  void data(Flow& flow, bool out, Instant at, ConstBytes octets);
  void frame(Flow& flow, bool out, Instant at, std::uint8_t flags, ConstBytes payload = {});
  void end_half(Flow& flow, bool out, Instant at);
  void write_held();
  void flush();

  std::string path_;
  std::unique_ptr<std::FILE, FileCloser> file_;
  Bytes buffer_;
  wire::PcapngWriter writer_;
  std::uint32_t interface_ = 0;
  std::map<std::pair<Address, Address>, Flow> flows_;  ///< live connections, bounded by the host's streams
  std::uint32_t flows_seen_ = 0;
  bool commented_ = false;  ///< after the first comment, each frame is held back until the next frame
  std::optional<QueuedPacket> held_;
  std::map<std::uint64_t, std::vector<std::string>> remarks_;  ///< waiting comments by connection
  Duration to_epoch_{};                                        ///< from the host's clock to the Unix epoch
  bool clock_known_ = false;
  bool at_once_ = false;  ///< a pipe: its reader waits for each frame
  bool failed_ = false;
};

}  // namespace parley::tools
