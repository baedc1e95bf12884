// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/neg/variants/player.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/text.hpp"
#include "cm/neg/guarded.hpp"

namespace parley::neg {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t page = 4096;                // perftest's programs use whole pages of each other's memory
constexpr std::size_t completions_at_once = 256;  // then other sessions have their turn
constexpr std::size_t ping_pong_receives = 64;    // of each queue pair; the peer has one message under way
constexpr unsigned idle_turns = 50;               // looks without a pause
constexpr Duration pause = 500us;                 // between looks after these
constexpr Duration patience = 5s;                 // for the next message
constexpr Duration patience_for_lost = 1s;        // UD, UC: for the rest of a stream
constexpr Duration stay = 100ms;                  // the peer's last packets are still answered
constexpr std::uint32_t ud_ping_pong_size = 2048;

std::uint8_t pattern(std::size_t at, std::uint64_t round) {
  // The programs' own check (-c) finds 0 at the beginning of each page.
  return at % page == 0 ? 0 : static_cast<std::uint8_t>(at * 31 + round);
}

std::string_view word_of(WcOpcode opcode) {
  switch (opcode) {
    case WcOpcode::send: return "send";
    case WcOpcode::rdma_write: return "write";
    case WcOpcode::rdma_read: return "read";
    default: return "receive";
  }
}

}  // namespace

struct Player::Program {
  std::string_view test;
  Kind kind;
  bool one_at_a_time;
  std::uint32_t size;
  std::uint64_t iterations;
};

const Player::Program* Player::program_of(std::string_view test) {
  static constexpr Program programs[] = {
      {"pingpong", Kind::ping_pong, true, 4096, 1000}, {"send_lat", Kind::ping_pong, true, 2, 1000},
      {"send_bw", Kind::stream, false, 65536, 1000},   {"write_bw", Kind::write, false, 65536, 5000},
      {"read_bw", Kind::read, false, 65536, 1000},     {"read_lat", Kind::read, true, 2, 1000},
  };
  const auto* at =
      std::find_if(std::begin(programs), std::end(programs), [&](const Program& p) { return p.test == test; });
  return at == std::end(programs) ? nullptr : at;
}

bool Player::knows(std::string_view test) { return program_of(test) != nullptr; }

Player::Player(PlayOptions options) : options_(std::move(options)) {
  const Program* program = program_of(options_.test);
  if (program == nullptr) return;
  kind_ = program->kind;
  one_at_a_time_ = program->one_at_a_time;
  own_size_ = options_.size == 0;
  if (own_size_)
    options_.size = is_pingpong() && options_.transport == Transport::ud ? ud_ping_pong_size : program->size;
  if (options_.iterations == 0) options_.iterations = program->iterations;
}

// Octets of one area. The memory has one area for the peer and one for this side; ping-pong has one for both.
std::size_t Player::area() const {
  const std::size_t octets = options_.size + grh_len;
  return kind_ == Kind::ping_pong ? octets : (octets + page - 1) / page * page;
}
std::size_t Player::memory() const { return kind_ == Kind::ping_pong ? area() : 2 * area(); }

bool Player::sends() const { return kind_ == Kind::ping_pong || options_.role == Role::initiator; }
bool Player::receives() const {
  return kind_ == Kind::ping_pong || (kind_ == Kind::stream && options_.role == Role::responder);
}
bool Player::lossy() const { return options_.transport == Transport::ud || options_.transport == Transport::uc; }

// A side that neither sends nor receives is done at once.
bool Player::done() const {
  return lossy_end_ ||
         ((!sends() || sent_ >= options_.iterations) && (!receives() || received_ >= options_.iterations));
}

Outcome<void> Player::post_receive(DataPath& path) { return path.post_receive(0, grh() + options_.size); }

std::string_view Player::peer_access() const {
  const bool lends = options_.role == Role::responder;
  return lends && kind_ == Kind::write ? "write" : lends && kind_ == Kind::read ? "read" : "none";
}

bool Player::peer_works() const {
  return options_.role == Role::responder && (kind_ == Kind::write || kind_ == Kind::read);
}

// Limits the default size of a datagram to the path MTU, as perftest does. ibv_ud_pingpong refuses instead.
void Player::fit(std::uint32_t mtu) {
  if (own_size_ && options_.transport == Transport::ud && !is_pingpong()) options_.size = std::min(options_.size, mtu);
}

Outcome<void> Player::prepare(QpSet& set) {
  lines_.resize(set.size());
  fit(set.local(0).mtu);
  for (std::size_t i = 0; i < set.size(); ++i) {
    DataPath* path = set.driver(i).path();
    if (path == nullptr || path->memory().size() < memory())
      return failed(Problem::configuration_error, "the driver's queue pairs cannot play a test", "set play=false");
    if (options_.transport == Transport::ud && options_.size > set.local(i).mtu)
      return failed(
          Problem::configuration_error,
          fmt::format("'size': {}; a datagram has at most the path MTU's {} octets", options_.size, set.local(i).mtu),
          "choose a smaller size on both sides, or a larger mtu");
    if (receives()) {
      const std::size_t most = kind_ == Kind::ping_pong ? ping_pong_receives : options_.iterations;
      for (std::size_t n = std::min(path->receive_depth(), most); n > 0; --n)
        if (auto posted = post_receive(*path); !posted) return posted;
      lines_[i].awaiting = true;
    }
  }
  return {};
}

Outcome<void> Player::send(DataPath& path, Line& line) {
  const bool echoes = kind_ == Kind::ping_pong;
  const std::size_t at = echoes ? grh() : area();
  if (echoes && options_.role == Role::initiator && options_.check) {
    const MutBytes message = path.memory().subspan(at, options_.size);
    for (std::size_t i = 0; i < message.size(); ++i) message[i] = pattern(i, sent_);
  }
  const auto opcode = kind_ == Kind::write  ? SendWr::Opcode::rdma_write
                      : kind_ == Kind::read ? SendWr::Opcode::rdma_read
                                            : SendWr::Opcode::send;
  if (auto posted = path.post(opcode, at, options_.size); !posted) return posted;
  ++posted_;
  ++line.open;
  line.sending = line.awaiting = true;
  return {};
}

// Sends what may be sent now: the first ping-pong message, or requests up to the send depth.
Outcome<void> Player::fill(QpSet& set) {
  if (options_.role != Role::initiator) return {};
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    Line& line = lines_[i];
    DataPath& path = *set.driver(i).path();
    if (kind_ == Kind::ping_pong) {
      if (!begun_)
        if (auto sent = send(path, line); !sent) return sent;
      continue;
    }
    const std::size_t most = one_at_a_time_ ? 1 : path.send_depth();
    while (line.open < most && posted_ < options_.iterations)
      if (auto sent = send(path, line); !sent) return sent;
  }
  return {};
}

// Verifies a message. The client expects what it has sent. The server expects what the programs' option -c expects: 0
// at the start of each page.
Outcome<void> Player::look_at(DataPath& path) {
  const ConstBytes message = path.memory().subspan(grh(), options_.size);
  const bool client = options_.role == Role::initiator;
  for (std::size_t i = 0; i < message.size(); i += client ? 1 : page) {
    const std::uint8_t due = client ? pattern(i, received_ - 1) : std::uint8_t{0};
    if (message[i] != due)
      return failed(Problem::invalid_peer_data,
                    fmt::format("{}: octet {} of message {} is {:#04x}; {:#04x} is expected", options_.test, i,
                                received_, message[i], due),
                    "the peer's server returns what comes; its client needs -c for this check");
  }
  return {};
}

Outcome<void> Player::on_completion(DataPath& path, Line& line, const WorkCompletion& done) {
  const bool receive = done.opcode == WcOpcode::recv;
  if (done.status != WcStatus::success)
    return failed(
        Problem::vendor_library_error,
        fmt::format("{}: a {} failed: {}; {}", options_.test, word_of(done.opcode), to_string(done.status), so_far()),
        "see whether the peer has ended, and whether size and number of messages (-s, -n) are the same there");
  if (receive && done.byte_len != grh() + options_.size)
    return failed(
        Problem::invalid_peer_data,
        fmt::format("{}: message {} has {}; {} are expected", options_.test, received_ + 1,
                    counted(done.byte_len - std::min<std::uint64_t>(grh(), done.byte_len), "octet"), options_.size),
        "give both sides the same size (-s)");
  if (receive) {
    ++received_;
    if (options_.check && kind_ == Kind::ping_pong && lines_.size() == 1)
      if (auto fine = look_at(path); !fine) return fine;
    line.awaiting = false;
    if (auto posted = post_receive(path); !posted) return posted;
  } else {
    ++sent_;
    --line.open;
    line.sending = false;
  }
  if (kind_ == Kind::ping_pong && !line.sending && !line.awaiting && sent_ < options_.iterations)
    return send(path, line);
  return {};
}

/// True: something completed.
Outcome<bool> Player::poll(QpSet& set) {
  bool any = false;
  std::array<WorkCompletion, 16> some;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    DataPath& path = *set.driver(i).path();
    for (std::size_t taken = 0; taken < completions_at_once;) {
      const std::size_t n = path.poll(some);
      for (std::size_t k = 0; k < n; ++k)
        if (auto fine = on_completion(path, lines_[i], some[k]); !fine) return tl::unexpected(fine.error());
      any = any || n != 0;
      taken += n;
      if (n < some.size()) break;
    }
  }
  return any;
}

std::string Player::so_far() const {
  return fmt::format("{} of {} sent, {} received", sent_, options_.iterations, received_);
}

tl::unexpected<Failure> Player::stuck(Duration since) const {
  return failed(Problem::vendor_library_error,
                fmt::format("{}: nothing has come for {}; {}", options_.test, limit_text(since), so_far()),
                fmt::format("see whether the peer has ended, and whether size and number of messages (-s, -n) are the "
                            "same there{}",
                            lossy() ? fmt::format("; {} repeats nothing that is lost", to_string(options_.transport))
                                    : std::string()));
}

Outcome<std::optional<Work>> Player::work(QpSet& set, Instant now) {
  if (leave_at_) {
    if (now >= *leave_at_) return std::nullopt;
    return Work{.again = *leave_at_ - now};
  }
  if (!begun_) {
    first_ = last_ = now;
    fit(set.agreed().front().mtu);
  }
  if (auto filled = fill(set); !filled) return tl::unexpected(filled.error());
  begun_ = true;
  const auto any = poll(set);
  if (!any) return tl::unexpected(any.error());
  if (*any) {
    last_ = now;
    moved_ever_ = true;
    idle_ = 0;
  }
  if (lossy() && kind_ == Kind::stream && moved_ever_ && now - last_ > patience_for_lost) lossy_end_ = true;
  if (done()) {
    if (kind_ != Kind::ping_pong) return std::nullopt;
    leave_at_ = now + stay;
    return Work{.again = stay, .moved = true};
  }
  if (now - last_ > patience) return stuck(patience);
  return Work{.again = *any || ++idle_ < idle_turns ? Duration{} : pause, .moved = *any};
}

Played Player::result() const {
  Played out{.test = options_.test, .messages = sent_ + received_, .took = last_ - first_};
  out.octets = out.messages * options_.size;
  if (kind_ == Kind::stream && receives() && received_ < options_.iterations)
    out.lost = options_.iterations - received_;
  out.checked = options_.check && kind_ == Kind::ping_pong && lines_.size() == 1;
  return out;
}

}  // namespace parley::neg
