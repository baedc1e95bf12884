// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A RoCEv2 peer that follows a script, packet by packet: ScriptedPeer's counterpart above base/packet_port.hpp. It
// binds one address and sends the given octets, from the BTH to the pad, unchecked.
#pragma once
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "base/packet_port.hpp"
#include "tester/task.hpp"

namespace parley::tester {

/// A packet as received: from the BTH to the ICRC, which was correct.
struct ReceivedPacket {
  Instant at{};
  Address from{}, to{};  ///< `to`: an address of this host
  Bytes octets;
};

class PacketPeer final : public PacketMachine {
 public:
  static constexpr std::size_t received_max = 1024;  ///< packets not taken; more are dropped
  static constexpr std::size_t unsent_max = 1024;    ///< packets not sent; more are dropped

  PacketPeer() = default;
  PacketPeer(const PacketPeer&) = delete;
  PacketPeer& operator=(const PacketPeer&) = delete;

  /// Runs the script to its first wait. One script at a time.
  void start(Instant now, Task<void> script);
  bool done() const { return script_.done(); }
  /// Destroys the script at the point where it waits.
  void stop();

  // ---- for scripts ----
  Instant now() const { return now_; }
  /// A wait of a script. True: the condition holds; false: `patience` ended first.
  class Wait {
   public:
    Wait(PacketPeer& peer, std::function<bool()> ready, Duration patience)
        : peer_(peer), ready_(std::move(ready)), patience_(patience) {}
    bool await_ready() { return ready_(); }
    void await_suspend(std::coroutine_handle<> who) { peer_.suspend(*this, who); }
    bool await_resume() { return ready_(); }

   private:
    friend class PacketPeer;
    PacketPeer& peer_;
    std::function<bool()> ready_;
    Duration patience_;
  };
  Wait until(std::function<bool()> ready, Duration patience) { return Wait(*this, std::move(ready), patience); }
  Wait sleep(Duration time) {
    return until([] { return false; }, time);
  }
  /// Binds and returns the local address from which `to` is reached. nullopt: why() has the reason.
  Task<std::optional<Address>> bind(Address to, Duration patience);
  /// Binds a local address, or any() of its family for all of them. nullopt: why() has the reason.
  Task<std::optional<Address>> bind_at(Address local, Duration patience);
  /// `packet`: from the BTH to the pad.
  void send(const PacketPath& path, ConstBytes packet);
  bool has_packet() const { return !received_.empty(); }
  /// Requires has_packet().
  ReceivedPacket take();
  const std::string& why() const { return why_; }
  /// The system's last error for the path to the peer since the previous call; empty: none.
  std::string take_unreachable() { return std::exchange(unreachable_, {}); }

  // ---- PacketMachine ----
  void handle_bound(Instant now, BindId id, const Address& local) override;
  void handle_bind_failed(Instant now, BindId id, const Error& why, const Address& local) override;
  void handle_packet(Instant now, const PacketPath& from, ConstBytes packet) override;
  void handle_unreachable(Instant now, const PacketPath& path, std::error_code why) override;
  void handle_deadline(Instant now) override { advance(now); }
  bool poll_command(PacketCommand& out) override;
  std::size_t poll_packet(Instant now, PacketPath& to, MutBytes out) override;
  Instant next_deadline() const override { return wait_ ? wait_->deadline : never; }

 private:
  struct Suspended {
    Wait* wait = nullptr;
    std::coroutine_handle<> who;
    Instant deadline = never;
  };
  struct Unsent {
    PacketPath path;
    Bytes octets;
  };
  Task<std::optional<Address>> bind(PacketCommand command, Duration patience);
  void suspend(Wait& wait, std::coroutine_handle<> who);
  void advance(Instant now);

  Instant now_{};
  Task<void> script_;
  std::optional<Suspended> wait_;
  std::deque<ReceivedPacket> received_;  // at most received_max
  std::deque<Unsent> unsent_;            // at most unsent_max
  std::deque<PacketCommand> commands_;   // one for each bind()
  BindId serial_ = 0;
  std::optional<Address> local_;
  bool bind_failed_ = false;
  std::string why_, unreachable_;
};

}  // namespace parley::tester
