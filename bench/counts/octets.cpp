// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <memory>
#include <stdexcept>
#include <utility>

#include "bench/capture_mix.hpp"
#include "bench/capture_roce.hpp"
#include "bench/counts/paths.hpp"
#include "bench/memory_net.hpp"
#include "capture/analyzer.hpp"
#include "mad/loopback.hpp"
#include "mpa/deframer.hpp"
#include "mpa/framer.hpp"
#include "xrc/registry.hpp"

namespace parley::bench {
namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

/// An MPA connection, set up, closed and destroyed by the connection manager, both ends.
PathRun handshake() {
  auto host = std::make_shared<MemoryHost>();
  return [host](std::uint64_t times) {
    host->connections({.rtr = mpa::Rtr::send}, times);
    return times;
  };
}

/// An FPDU with 1440 octets of payload, framed and deframed, with its CRC.
PathRun fpdu() {
  struct State {
    Bytes header = Bytes(18), payload = Bytes(1440, 0x5A), wire = Bytes(2048);
    mpa::Framer framer{{}};
    mpa::Deframer deframer{{}};
  };
  auto state = std::make_shared<State>();
  return [state](std::uint64_t times) {
    for (std::uint64_t i = 0; i < times; ++i) {
      const std::size_t size = state->framer.frame(state->header, state->payload, state->wire);
      state->deframer.feed(ConstBytes(state->wire).first(size));
      mpa::FpduView view;
      require(state->deframer.next(view) == mpa::DeframeStatus::fpdu, "an FPDU was not deframed");
    }
    return times;
  };
}

/// The packets of a capture, judged one by one.
class Judged {
 public:
  void add(Instant at, ConstBytes octets) { packets_.emplace_back(at, Bytes(octets.begin(), octets.end())); }
  std::uint64_t judge(std::uint64_t times) {
    std::uint64_t done = 0;
    for (; done < times && next_ < packets_.size(); ++done, ++next_) {
      const auto& [at, octets] = packets_[next_];
      wire::CapturedPacket packet;
      packet.frame = next_ + 1;
      packet.at = at;
      packet.link_type = 1;  // Ethernet
      packet.original_length = static_cast<std::uint32_t>(octets.size());
      packet.octets = octets;
      analyzer_.push(packet);
    }
    require(done == times, "the capture has too few packets");
    return done;
  }

 private:
  std::vector<std::pair<Instant, Bytes>> packets_;
  std::size_t next_ = 0;
  capture::Analyzer analyzer_;
};

constexpr std::uint64_t captured = 2000;

PathRun captured_iwarp() {
  auto judged = std::make_shared<Judged>();
  CaptureMix(Mix::small, 2 * captured, [&](Instant at, ConstBytes octets) { judged->add(at, octets); }).run();
  return [judged](std::uint64_t times) { return judged->judge(times); };
}
PathRun captured_roce() {
  auto judged = std::make_shared<Judged>();
  CaptureRoce(64, 2 * captured, [&](Instant at, ConstBytes octets) { judged->add(at, octets); }).run();
  return [judged](std::uint64_t times) { return judged->judge(times); };
}

/// A request and its response of a port of management datagrams.
PathRun mad_request() {
  struct State {
    mad::Loopback transport{wire::mad::NodeInfo().set(wire::mad::NodeInfo::num_ports, 36)};
    mad::Port port{transport.facts(), transport.local(), {}};
  };
  auto state = std::make_shared<State>();
  return [state](std::uint64_t times) {
    const auto sum = mad::run(
        state->port, state->transport, mad::ask_in_turn(state->port, 1, times), [] { return Instant{}; },
        [](mad::Transport&, Instant) {});
    require(sum && *sum == 36 * times, "a response is missing");
    return times;
  };
}

/// A registration with a TGT queue pair, and its end.
PathRun xrc_registration() {
  struct State {
    xrc::Registry registry = *xrc::Registry::create(Instant{});
    xrc::MemberId creator, other;
    xrc::TgtId tgt{};
  };
  auto state = std::make_shared<State>();
  const xrc::DomainKey key{.device = 1, .st_dev = 8, .st_ino = 100};
  state->creator = *state->registry.open({}, {.key = key, .process = {.pid = 1}});
  state->other = *state->registry.open({}, {.key = key, .process = {.pid = 2}});
  state->tgt = state->registry.create({}, state->creator, {})->id;
  return [state](std::uint64_t times) {
    for (std::uint64_t i = 0; i < times; ++i)
      require(state->registry.enlist({}, state->other, state->tgt) &&
                  state->registry.unregister({}, state->other, state->tgt),
              "a registration was refused");
    return times;
  };
}

}  // namespace

std::vector<Path> octet_paths() {
  return {{"handshake_iwarp", 256, handshake},
          {"fpdu_1440", 1000, fpdu},
          {"captured_packet_iwarp", captured, captured_iwarp},
          {"captured_packet_roce", captured, captured_roce},
          {"mad_request", 1000, mad_request},
          {"xrc_registration", 1000, xrc_registration}};
}

}  // namespace parley::bench
