// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The way from a preloaded program to who serves the subnet.
#pragma once
#include <memory>
#include <optional>

#include "drivers/asio/descriptor.hpp"
#include "drivers/umad_preload/ibsim_protocol.hpp"
#include "parley/time.hpp"

namespace parley::umad {

class Link {
 public:
  /// Waits up to 10 s for a server. Null: there is none, or it refused; standard error says why.
  static std::unique_ptr<Link> open();
  /// Says goodbye.
  ~Link();

  /// Asks and waits for the answer, 60 s at most. False: it was refused, or none came.
  bool control(ibsim::ControlType type, std::array<std::uint8_t, ibsim::control_data>& data) const;
  /// False: it does not go now.
  bool send(const ibsim::Data& data) const;
  bool receive(ibsim::Data& data) const;
  int fd() const { return data_.fd; }
  std::uint16_t client() const { return client_; }

 private:
  Link(int control, int data) : control_(control), data_(data) {}
  bool connect(const std::string& name);
  bool receive_control(ibsim::Control& message, Duration wait) const;

  asio_driver::Descriptor control_, data_;
  std::uint16_t client_ = 0;
};

}  // namespace parley::umad
