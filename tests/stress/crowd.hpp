// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Connections by the thousand between a host and itself, and between it and peers that vanish, stall, reject, flood and
// talk nonsense: drawn from a seed, counted one by one, and each held to the one outcome that its kind may have.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.hpp"
#include "parley/tcp_host.hpp"
#include "tests/stress/raw_peers.hpp"

namespace parley::stress {

/// What becomes of one connection. Those up to `abandoned` begin with connect().
enum class Kind : std::uint8_t {
  good,       ///< both up; disconnected by the initiator
  dropped,    ///< both up; the initiator destroys it
  rejected,   ///< the responder's program says no
  backup,     ///< nobody at the first address, a listener at the second
  refused,    ///< nobody at any address, in two rounds
  stalled,    ///< the peer never answers; the Reply's time limit is short
  reset,      ///< the peer answers with RST
  nonsense,   ///< the peer answers with garbage
  flooded,    ///< the peer answers, and then sends garbage without end
  abandoned,  ///< destroyed before there is an outcome
  raw         ///< a raw peer connects to the host
};
inline constexpr std::size_t kind_count = 11;
std::string_view to_string(Kind kind);

enum class Outcome : std::uint8_t { none, established, rejected, failed };

class Crowd {
 public:
  /// `total` connections in all, `at_once` at the same time.
  Crowd(std::uint32_t total, std::uint32_t at_once, std::uint64_t seed);
  ~Crowd();

  /// Until all are over, and nothing is left at the host but its listeners; or until `limit` has passed.
  void run(Duration limit);
  /// Another crowd of the same size at the same host.
  void again(std::uint64_t seed);

  TcpHost& host() { return *host_; }
  /// What went wrong, at most a hundred sentences; empty: nothing.
  const std::vector<std::string>& wrong() const { return wrong_; }
  std::uint64_t begun(Kind kind) const { return begun_[static_cast<std::size_t>(kind)]; }
  std::uint64_t accepted() const { return accepted_; }
  std::size_t endpoints() const;

 private:
  struct Initiator {
    Kind kind = Kind::good;
    cm::Id id;
    Outcome outcome = Outcome::none;
    std::uint32_t outcomes = 0, ends = 0;
    bool graceful = false;
    Instant destroy_at = never;
  };
  struct Responder {
    cm::Id id;
    bool established = false;
    std::uint32_t ends = 0;
    Instant destroy_at = never;
  };

  void listen();
  void start_more();
  void start(Kind kind);
  void poll();
  void on(const cm::ConnectRequest& e);
  void on(const cm::Established& e);
  void outcome(cm::Id id, Outcome outcome, const cm::Failure* why);
  void end(cm::Id id, bool graceful);
  void tend();
  void judge(const Initiator& i);
  void judge(const Responder& r);
  bool over() const;
  void complain(std::string text);
  Address server(std::uint16_t port) {
    return Address::v4(127, 0, 0, static_cast<std::uint8_t>(1 + turn_++ % 200), port);
  }

  std::uint32_t total_, at_once_;
  Rng rng_;
  std::unique_ptr<TcpHost> host_;
  std::unique_ptr<RawPeers> raw_;
  cm::Id patient_, impatient_;  // listeners: for those that behave, and with short time limits for raw peers
  std::uint16_t patient_port_ = 0, impatient_port_ = 0;
  std::map<std::uint64_t, Initiator> initiators_;  // by id
  std::map<std::uint64_t, Responder> responders_;
  std::array<std::uint64_t, kind_count> begun_{};
  std::uint64_t accepted_ = 0;
  std::uint32_t started_ = 0, turn_ = 0;
  std::vector<std::string> wrong_;
};

}  // namespace parley::stress
