// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// ibsim (a simulated InfiniBand fabric in a separate process) as a transport. It speaks the protocol of ibsim's
// datagram sockets directly, without ibsim's preloaded library. One attachment per object; ibsim allows ten.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "drivers/ibsim/client.hpp"
#include "drivers/mad/recheck.hpp"
#include "mad/transport.hpp"
#include "wire/mad/rpc.hpp"

namespace parley::mad_driver {

using IbsimOptions = ibsim::ClientOptions;
/// Why serve() has no effect there, whether over its sockets or its preloaded library.
inline constexpr std::string_view ibsim_serves_nobody = "ibsim brings no requests to a program; `parley fabric` does";

/// Why the simulator cannot be used, as one line.
template <class T>
using OrText = tl::expected<T, std::string>;
inline std::string text_of(const Error& why) {
  return why.sentence().empty() ? why.message() : std::string(why.sentence());
}

class Ibsim final : public mad::Transport {
 public:
  static OrText<std::unique_ptr<Ibsim>> open(const IbsimOptions& options);

  const mad::TransportFacts& facts() const override { return facts_; }
  const mad::LocalPort& local() const override { return local_; }
  Result<bool> send(const mad::Address& to, ConstBytes mad) override;
  Result<std::optional<Received>> receive() override;
  /// `parley fabric` delivers them by class; ibsim delivers none.
  Result<void> serve(const mad::ServedClass& what) override;
  /// Its port is queried once a second: ibsim does not report changes.
  bool poll_changed() override;
  int fd() const override { return client_->fd(); }
  bool wants_to_send() const override { return wants_to_send_; }
  /// The node that it is attached to.
  const std::string& node() const { return client_->node(); }

 private:
  static constexpr std::size_t batch = 16;

  Ibsim(const IbsimOptions& options, std::unique_ptr<ibsim::Client> client);
  OrText<wire::mad::Datagram> ask_self(const wire::mad::Datagram& smp);
  OrText<void> read_local();
  static void read_port_info(const ibsim::ControlData& port_info, mad::LocalPort& into);
  Received received(std::size_t index) const;

  IbsimOptions options_;
  std::unique_ptr<ibsim::Client> client_;
  mad::LocalPort local_;
  mad::TransportFacts facts_{.whole_tid = false, .window_max = 256};
  bool wants_to_send_ = false;
  Recheck recheck_;
  ibsim::Receive wanted_{.own_timers = 1};
  std::array<ibsim::Data, batch> in_;
  std::size_t in_count_ = 0, in_next_ = 0;  // for `in_`: how many were received, and the next one
  bool in_whole_ = false;                   // the last batch was not full: no more datagrams were waiting
};

}  // namespace parley::mad_driver
