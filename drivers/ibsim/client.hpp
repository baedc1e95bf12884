// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// An attachment to a node of the subnet served by ibsim or a server with its protocol.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "drivers/asio/descriptor.hpp"
#include "drivers/ibsim/protocol.hpp"
#include "parley/time.hpp"

namespace parley::ibsim {

struct ClientOptions {
  std::string name = usual_name;  ///< name of the server's sockets, at most 80 octets: its $IBSIM_SOCKNAME
  std::string node;               ///< at most 31 octets; empty: the server's first
  bool is_sm =
      false;  ///< gets requests of the classes that no agent of the server answers; ibsim allows one such client per
              ///< node
  Duration patience = std::chrono::seconds(2);  ///< limit for each answer
  Duration server_wait{};                       ///< wait for a server that has not started yet
};

/// From IBSIM_SOCKNAME and SIM_HOST.
ClientOptions environment_options();

class Client {
 public:
  template <class T>
  using OrText = tl::expected<T, std::string>;

  /// Errors: why the server cannot be used, as one line.
  static OrText<std::unique_ptr<Client>> open(const ClientOptions& options);
  /// Detaches, so that the place is free again.
  ~Client();

  /// Errors: refused, or no answer, as one line.
  OrText<ControlData> ask(ControlType type, const ControlData& data = {}) const {
    return ask(type, data, options_.patience);
  }
  OrText<ControlData> ask(ControlType type, const ControlData& data, Duration patience) const;
  /// Does not wait. False: see errno.
  bool send(const Data& data) const;
  bool receive(Data& data) const;
  int fd() const { return data_.fd; }
  /// A pidfd of the server, readable once it has ended; -1 if it is in another PID namespace.
  int server() const { return server_ ? server_->fd : -1; }
  /// The address of the server's sockets.
  const std::string& name() const { return options_.name; }
  /// The number that the server assigned to it.
  std::uint32_t id() const { return id_; }
  /// The node that it is attached to.
  const std::string& node() const { return node_; }

 private:
  Client(const ClientOptions& options, int control, int data);
  OrText<std::uint32_t> bind_both();
  OrText<void> attach(std::uint32_t own_id);
  tl::unexpected<std::string> failed() const;

  ClientOptions options_;
  asio_driver::Descriptor control_, data_;
  std::optional<asio_driver::Descriptor> server_;
  bool attached_ = false;
  std::uint32_t id_ = 0;
  std::string node_;
};

}  // namespace parley::ibsim
