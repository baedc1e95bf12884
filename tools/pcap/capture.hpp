// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A pcapng file of what went over the sockets. Each record of a TCP tap becomes the frames that it would have been on an
// Ethernet: the octets, their order, FIN and RST are real; sequence numbers, segmentation and acknowledgements are made
// up. Packets of RoCEv2 are as they were; their MAC addresses, and what the system does not tell of an IP header, are made up.
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
  /// Creates the file, or opens a FIFO, whose reader sees each frame at once. Errors: environment.
  static Or<std::unique_ptr<CaptureWriter>> create(const std::string& path);
  void add(const TapRecord& record);
  void add(const PacketTapRecord& record);
  /// Becomes a comment, with the number of its connection: of a message that is sent on the frame that carries it,
  /// anything else on the frame that caused it if one did, else on the connection's next. A reader of a FIFO waits for no
  /// comment: there all are on the next.
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
    std::uint64_t connection = 0;  ///< as the trace counts it; 0: not known yet
  };
  struct Held {
    Address local, peer;
    Instant at{};
    Bytes octets;
    bool out = false;
    bool causes = false;  ///< the peer sent it, or it is the made-up ACK right behind what the peer sent
    std::vector<std::string> comments;
  };
  struct FileCloser {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  static constexpr std::size_t segment_max = 32768;   ///< octets per made-up segment; loopback has such
  static constexpr std::size_t remarks_max = 64;      ///< that wait for a frame of one connection; the rest is dropped
  static constexpr std::size_t waiting_max = 4096;    ///< connections with such; the first are dropped
  static constexpr std::size_t buffer_max = 1 << 20;  ///< octets kept before they are written

  CaptureWriter(std::string path, std::FILE* file);
  void know_clock(Instant at);
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
  bool commented_ = false;  ///< from the first comment on, a frame is held back until the next
  std::optional<Held> held_;
  std::map<std::uint64_t, std::vector<std::string>> remarks_;  ///< comments that wait, by connection
  Duration to_epoch_{};                                        ///< from the host's clock to 1970
  bool clock_known_ = false;
  bool at_once_ = false;  ///< it is a pipe, with somebody at the other end who waits for each frame
  bool failed_ = false;
};

}  // namespace parley::tools
