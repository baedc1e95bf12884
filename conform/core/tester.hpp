// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The interface of a conformance case to the implementation under test: connections to (or from) it, functions to send
// and receive, what is known about the program above it, and a record of the exchange.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conform/core/case.hpp"
#include "tester/frame_reader.hpp"
#include "tester/frames.hpp"
#include "tester/scripted_peer.hpp"

namespace parley::conform {

using tester::Received;
using tester::Task;
using namespace std::chrono_literals;

/// The program above the implementation, if the tester has to play its counterpart.
enum class Ulp : std::uint8_t { unknown, rping };

struct Settings {
  Iut iut = Iut::responder;
  Address target{};            ///< responder: where it listens
  Duration connect = 5s;       ///< for a TCP connection, retries included
  Duration reply = 5s;         ///< for an answer
  Duration quiet = 700ms;      ///< how long a peer must be silent where no answer is expected
  Duration timer = 65s;        ///< for the peer's own timers; the longest known is 60 s
  Duration patience = 30s;     ///< initiator: for its next connection
  Duration pause = 200ms;      ///< between two cases
  Duration first_fpdu = 50ms;  ///< from the Reply to the tester's first FPDU: some peers lose an immediate one
  Ulp ulp = Ulp::unknown;
  std::optional<std::uint32_t> recv_size;   ///< octets of the first receive posted
  std::optional<std::uint32_t> recv_count;  ///< receives posted
  bool speaks_first = false;                ///< responder: its program sends as soon as it is allowed to
  unsigned refused_max = 3;                 ///< after so many refused connections in a row the rest is not run
  unsigned foreign_max = 3;                 ///< after so many cases without MPA from the peer the rest is not run
};

/// One event on a connection, sent or received.
struct Exchange {
  Instant at{};
  unsigned connection = 1;  ///< number within the case
  bool by_tester = false;
  std::string words;
  Bytes octets;
};

/// One connection of a case.
class Conn {
 public:
  Conn(Tester& tester, tester::TcpStream& stream, unsigned number);

  void send(std::string words, ConstBytes octets);
  void send_startup(const tester::StartupOctets& frame);
  void send_fpdu(ConstBytes ulpdu, const tester::FpduFaults& faults = {});
  void send_fin();
  Task<Received> receive_startup(Duration patience);
  Task<Received> receive_fpdu(Duration patience);
  Task<Received> receive_anything(Duration patience);
  /// The next Terminate or end; other FPDUs before it are skipped.
  Task<Received> receive_terminate(Duration patience);
  /// Sets the format of FPDUs, after both startup frames were exchanged.
  void full_operation(bool crc, bool markers_out, bool markers_in);

  tester::TcpStream& stream() { return stream_; }
  const tester::TcpStream& stream() const { return stream_; }
  bool crc() const { return crc_; }
  bool markers_out() const { return markers_out_; }
  bool markers_in() const { return markers_in_; }
  tester::FpduWriter& out() { return out_; }
  std::uint32_t next_send() { return send_msn_++; }
  std::uint32_t next_read() { return read_msn_++; }
  unsigned reads_asked() const { return read_msn_ - 1; }

  Received request, reply;  ///< the tester's own frame of the two is not filled in
  Received first;           ///< set-up with an initiator: its first FPDU
  unsigned ird = 0;         ///< outstanding Reads that the peer accepts; 0: not negotiated
  unsigned passed_over = 0;

 private:
  friend class Tester;
  void note(bool by_tester, std::string words, ConstBytes octets);
  void note(const Received& received);

  Tester& tester_;
  tester::TcpStream& stream_;
  unsigned number_;
  tester::FrameReader reader_;
  tester::FpduWriter out_{true, false};
  bool crc_ = true, markers_out_ = false, markers_in_ = false;
  std::uint32_t send_msn_ = 1, read_msn_ = 1;
};

/// The kind of connection that a case needs.
struct SetUp {
  bool crc = true;
  bool markers = false;   ///< the peer must insert markers
  std::uint16_t ord = 8;  ///< outstanding Reads that the tester asks for
  bool enhanced = true;   ///< under revision 2, if the peer supports it
};

class Tester {
 public:
  static constexpr std::size_t exchanges_max = 512;  ///< kept per case
  static constexpr std::size_t octets_max = 2048;    ///< kept per exchange

  Tester(tester::ScriptedPeer& peer, const Settings& settings) : peer_(peer), settings_(settings) {}

  const Settings& settings() const { return settings_; }
  tester::ScriptedPeer& peer() { return peer_; }
  bool initiator() const { return settings_.iut == Iut::initiator; }

  /// A TCP connection; null: trouble() says why. `patience`: for an initiator, instead of the usual one.
  Task<Conn*> open(std::optional<Duration> patience = std::nullopt);
  /// Do not put a braced frame into the co_await expression itself: g++ 12 destroys it twice.
  /// Responder: a connection on which that Request was sent, with the answer in Conn::reply. Null: no connection.
  Task<Conn*> ask(tester::StartupOctets request);
  /// Initiator: a connection whose Request is in Conn::request. Null: trouble() says why.
  Task<Conn*> await_request();
  /// A connection in full operation, either role. Null: trouble() says why.
  Task<Conn*> set_up(SetUp wanted);
  /// Whether a plain Request (revision 1, C) is accepted: a peer whose program rejects everything breaks no rule.
  Task<bool> accepts_plain();
  /// Whether this peer has set up a connection so far: as responder it accepted a Request, as initiator it sent one.
  /// Until then nothing that it does shows whether it follows the RFCs: it may not speak MPA at all.
  bool accepted() const { return accepted_; }
  /// Responder: tries each form of set-up once, from 0 to form_count - 1, until one is accepted.
  static constexpr unsigned form_count = 3;
  Task<> ask_form(unsigned form);
  /// The peer answered with a Reply, even if only with a rejecting one.
  bool spoke_mpa() const { return spoke_mpa_; }
  /// The answer to the first ask_form(), or what an initiator sent instead of a Request, with its octets.
  const std::string& instead() const { return instead_; }
  /// The answer was neither a Reply nor the end of the connection: the peer is another kind of server, or it waits.
  bool foreign() const { return foreign_; }
  /// ask_form() could not send its Request, since the peer accepted no further connection; instead() has the symptom.
  bool gone() const { return gone_; }
  /// Why the last of these functions returned null or false.
  Observation trouble() const { return trouble_; }

  /// A Reply that accepts `request`, with the CRC and markers of `wanted` and, if needed, fitting enhanced data.
  tester::StartupOctets fitting_reply(const Received& request, const SetUp& wanted) const;
  /// After the Reply to an initiator was sent: receives its first FPDU and answers an RTR. False: trouble() says why.
  Task<bool> first_fpdu(Conn& conn);

  std::vector<Exchange>& exchanges() { return exchanges_; }
  /// Records the octets that arrived but that no case received.
  void note_rest();
  /// Sends FIN on open connections; returns whether there were any.
  bool finish();
  bool all_over() const;
  /// Forgets connections and exchanges.
  void clear();
  bool refused() const { return refused_; }
  /// The initiator closed instead of sending its first FPDU.
  bool closed_early() const { return closed_early_; }

 private:
  friend class Conn;
  enum class Form : std::uint8_t { untried, v2_client_server, v2_peer_to_peer, v1 };

  void learn(const tester::StartupOctets& request, const Received& reply);
  Task<Conn*> set_up_responder(SetUp wanted);
  Task<Conn*> set_up_initiator(SetUp wanted);
  Task<Conn*> try_form(Form form, SetUp wanted);
  void send_rtr(Conn& conn);

  tester::ScriptedPeer& peer_;
  const Settings& settings_;
  std::deque<Conn> conns_;  // at most ScriptedPeer::streams_max
  std::vector<Exchange> exchanges_;
  Observation trouble_;
  Form form_ = Form::untried;  // the form that the responder accepts
  std::optional<bool> plain_accepted_;
  bool refused_ = false;  // the last open() of a responder failed
  bool closed_early_ = false;
  bool accepted_ = false, spoke_mpa_ = false, foreign_ = false, gone_ = false;
  std::string instead_;
  std::uint8_t revision_ = 0;  // the highest of an initiator's Requests
};

/// "40/01/0000" and, if present, the enhanced data: stable text for an observed frame.
std::string frame_text(const Received& received);

}  // namespace parley::conform
