// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A place at a node of the subnet that ibsim, or who speaks its protocol, serves.
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
  std::string name = usual_name;  ///< of the server's sockets, at most 80 octets: its $IBSIM_SOCKNAME
  std::string node;               ///< at most 31 octets; empty: the server's first
  bool is_sm =
      false;  ///< gets requests of the classes that no agent of the server answers; ibsim has one for each node
  Duration patience = std::chrono::seconds(2);  ///< with each answer
  Duration server_wait{};                       ///< for a server that does not run yet
};

/// As IBSIM_SOCKNAME and SIM_HOST say.
ClientOptions environment_options();

class Client {
 public:
  template <class T>
  using OrText = tl::expected<T, std::string>;

  /// Errors: why the server cannot be used, as one line.
  static OrText<std::unique_ptr<Client>> open(const ClientOptions& options);
  /// Says good-bye, so that its place is free again.
  ~Client();

  /// Errors: it was refused, or none came, as one line.
  OrText<ControlData> ask(ControlType type, const ControlData& data = {}) const {
    return ask(type, data, options_.patience);
  }
  OrText<ControlData> ask(ControlType type, const ControlData& data, Duration patience) const;
  /// Without waiting. False: errno says why.
  bool send(const Data& data) const;
  bool receive(Data& data) const;
  int fd() const { return data_.fd; }
  /// A pidfd of the server, readable once that has ended; -1 if it is in another PID namespace.
  int server() const { return server_ ? server_->fd : -1; }
  /// Of the server's sockets.
  const std::string& name() const { return options_.name; }
  /// The server's number for it.
  std::uint32_t id() const { return id_; }
  /// The node that it is at.
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
