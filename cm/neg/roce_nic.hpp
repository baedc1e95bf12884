// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parley's RoCE engine for negotiated queue pairs and for management datagrams: the device of nic/roce over the packet interface,
// without a connection manager. An address is bound while a queue pair uses it.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "nic/roce/addresses.hpp"
#include "parley/neg_qp.hpp"

namespace parley::neg {

class RoceNic final : public PacketMachine {
 public:
  /// The output that the caller polls itself; the rest is discarded.
  enum class PolledOutput : std::uint8_t {
    nothing,
    mads,             ///< of QP1
    mads_and_events,  ///< and Device::poll_async_event()
  };
  explicit RoceNic(std::unique_ptr<nic::roce::RoceDevice> device, PolledOutput polled = PolledOutput::nothing)
      : device_(std::move(device)), addresses_(*device_), polled_(polled) {
    device_->set_groups(nullptr);  // no driver joins groups
  }

  nic::roce::RoceDevice& device() { return *device_; }
  nic::roce::Addresses& addresses() { return addresses_; }
  /// Requests an address from the driver, like PacketCommand; the driver's next turn answers.
  BindId bind(const Address& local, const Address& peer);
  /// None: no answer yet.
  std::optional<Result<Address>> answer(BindId id) const;
  void release(BindId id);
  /// The driver should take a turn.
  bool has_work() const { return !commands_.empty() || device_->has_transmit(); }

  // PacketMachine
  void handle_bound(Instant now, BindId id, const Address& local) override;
  void handle_bind_failed(Instant now, BindId id, const Error& why, const Address& local) override;
  void handle_packet(Instant now, const PacketPath& from, ConstBytes packet) override;
  PacketPlacement place_of(const PacketPath& from, std::size_t size, ConstBytes packets) override {
    return addresses_.place_of(from, size, packets);
  }
  void handle_placed(Instant now, const PacketPath& from, std::size_t size, ConstBytes packets) override;
  void handle_unreachable(Instant, const PacketPath&, std::error_code) override {}  // the requester's timer reports it
  void handle_deadline(Instant now) override;
  bool poll_command(PacketCommand& out) override;
  std::size_t poll_packet(Instant now, PacketPath& to, MutBytes out) override;
  PacketRun poll_packets(Instant now, std::size_t most, PacketPath& to, MutBytes out) override;
  Instant next_deadline() const override { return device_->next_deadline(); }

 private:
  void forget_events();
  std::unique_ptr<nic::roce::RoceDevice> device_;
  nic::roce::Addresses addresses_;
  std::deque<PacketCommand> commands_;                      // at most two per queue pair
  std::map<BindId, std::optional<Result<Address>>> binds_;  // one per queue pair
  BindId last_ = 0;
  PolledOutput polled_;
};

/// Drives a RoceNic for its queue pairs while one of their calls runs.
struct RoceDriving {
  /// A turn of the driver, which waits at most `wait` for something to happen.
  std::function<void(Duration wait)> turn;
  std::function<Instant()> now;
};

/// The device's queue pairs may have any path MTU of 256 to 4096 octets; the configuration must match the network.
nic::roce::DeviceOptions negotiated_device(std::uint64_t seed, std::uint64_t address_base);
/// Drivers "roce": `gid` of the configuration is this side's address; without it, the address that reaches `toward`. The drivers and
/// their queue pairs keep `nic` alive.
QpDrivers roce_qp_drivers(std::shared_ptr<RoceNic> nic, RoceDriving driving, std::uint64_t seed);

}  // namespace parley::neg
