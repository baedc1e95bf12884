// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// ibsim (a simulated InfiniBand fabric in a process of its own) as a transport: its datagram sockets are spoken directly,
// without the library that it has to be preloaded. One attachment for each object; ibsim has ten.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "drivers/asio/descriptor.hpp"
#include "mad/transport.hpp"
#include "parley/time.hpp"
#include "wire/mad/rpc.hpp"

namespace parley::mad_driver {

struct IbsimOptions {
  std::string name = "sim";  ///< of the simulator's sockets, at most 80 octets: its $IBSIM_SOCKNAME
  std::string node;          ///< to be attached to, at most 31 octets; empty: the simulator's first
  bool is_sm = false;        ///< gets requests of the classes that no agent of the simulator answers; one for each node
  Duration patience = std::chrono::seconds(2);  ///< with an answer to what is asked on opening
};

/// Why the simulator cannot be used, as one line.
template <class T>
using OrText = tl::expected<T, std::string>;

class Ibsim final : public mad::Transport {
 public:
  static OrText<std::unique_ptr<Ibsim>> open(const IbsimOptions& options);
  /// Says good-bye, so that its place is free again.
  ~Ibsim() override;

  const mad::TransportFacts& facts() const override { return facts_; }
  const mad::LocalPort& local() const override { return local_; }
  Result<bool> send(const mad::Address& to, ConstBytes mad) override;
  Result<std::optional<Received>> receive() override;
  /// Never: ibsim does not say that a LID changed.
  bool poll_changed() override { return false; }
  int fd() const override { return data_.fd; }
  bool wants_to_send() const override { return wants_to_send_; }
  /// The node that it is attached to.
  const std::string& node() const { return node_; }

 private:
  static constexpr std::size_t packet_size = 288, control_size = 80, batch = 16;
  using Control = std::array<std::uint8_t, control_size>;

  Ibsim(const IbsimOptions& options, int control, int data);
  OrText<void> bind_both();
  OrText<void> attach();
  OrText<Control> ask(std::uint32_t type, ConstBytes data);
  OrText<wire::mad::Datagram> ask_self(const wire::mad::Datagram& smp);
  OrText<void> read_local();
  Received received(std::size_t index) const;

  IbsimOptions options_;
  asio_driver::Descriptor control_, data_;
  std::uint32_t id_ = 0;  // the simulator's number for us
  bool attached_ = false;
  std::string node_;
  mad::LocalPort local_;
  mad::TransportFacts facts_{.whole_tid = false, .window_max = 256};
  bool wants_to_send_ = false;
  std::array<std::array<std::uint8_t, packet_size>, batch> in_;
  std::size_t in_count_ = 0, in_next_ = 0;  // of `in_`: how many came, which one is next
  bool in_whole_ = false;                   // the last batch was not full: nothing more was there
};

}  // namespace parley::mad_driver
