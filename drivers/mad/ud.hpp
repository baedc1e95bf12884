// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A UD queue pair of any RoCE parley::Device (Parley's own, or a NIC through libibverbs) as a transport: management
// datagrams of QP1's classes to the peer's queue pair or its QP1, as IBA §13.5.1 permits after a redirection. mad::Port
// implements RMPP.
//
// The Device is driven elsewhere: its host sends and receives its packets.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "mad/transport.hpp"
#include "parley/verbs.hpp"

namespace parley::mad_driver {

struct UdOptions {
  mad::LocalPort local;                    ///< its GID: roce_port()
  std::uint8_t gid_index = 0;              ///< index of that GID in the port's table
  std::uint8_t port = 1;                   ///< of the device
  std::uint32_t qkey = mad::general_qkey;  ///< that of QP1, so that QP1 and such queue pairs accept each other's
                                           ///< datagrams
  std::uint32_t depth = 256;               ///< datagrams in flight, per direction; 2 to 4096
  /// Called before the first datagram to a port: whether there is a path. None: there is a path to every port.
  std::function<Result<void>(const AhAttr& to)> reach = {};
};

class UdTransport final : public mad::Transport {
 public:
  /// `device` must outlive this. Errors: those of the device; invalid_argument for options.
  static Result<std::unique_ptr<UdTransport>> open(Device& device, const UdOptions& options);
  ~UdTransport() override;
  UdTransport(const UdTransport&) = delete;
  UdTransport& operator=(const UdTransport&) = delete;

  const mad::TransportFacts& facts() const override { return facts_; }
  const mad::LocalPort& local() const override { return options_.local; }
  /// A datagram without a path is returned (Received::refused). Errors: invalid_argument, without a destination GID and
  /// for any size but 256 octets; those of the device.
  Result<bool> send(const mad::Address& to, ConstBytes mad) override;
  Result<std::optional<Received>> receive() override;
  bool poll_changed() override { return false; }
  int fd() const override { return -1; }
  bool wants_to_send() const override { return false; }

  /// Its number for peers, with UdOptions::qkey.
  std::uint32_t qp_num() const { return qp_->qp_num(); }

 private:
  static constexpr std::size_t handles_max = 1024, refused_max = 64;
  using Way = std::tuple<Gid, std::uint32_t, std::uint8_t, std::uint8_t, std::uint8_t>;  // identifies a handle

  UdTransport(Device& device, const UdOptions& options);
  Result<void> set_up();
  Result<void> post_receive(std::uint32_t slot);
  Result<void> reap_sends();
  Result<AddressHandle*> handle_to(const mad::Address& to);
  MutBytes slot(std::uint32_t index);

  Device& device_;
  UdOptions options_;
  mad::TransportFacts facts_;
  PdHandle pd_ = 0;
  Bytes memory_;  // slots of received datagrams, then of sent ones
  MemoryRegion region_;
  std::unique_ptr<CompletionQueue> send_cq_, recv_cq_;
  std::unique_ptr<QueuePair> qp_;
  std::vector<std::uint32_t> free_;                        // free send slots
  std::map<Way, std::unique_ptr<AddressHandle>> handles_;  // at most handles_max
  std::deque<std::pair<mad::Address, Bytes>> refused_;     // at most refused_max; the first is the last result of
                                                           // receive()
  bool gave_refused_ = false;
  std::optional<std::uint32_t> held_;  // the slot of the last result of receive()
};

}  // namespace parley::mad_driver
