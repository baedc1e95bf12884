// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A negotiated queue pair of a Device (for XRC one of each end), moved from INIT to RTS explicitly. Shared by the drivers "verbs"
// (devices of the machine) and "roce" (Parley's own engine).
#pragma once
#include <utility>

#include "parley/address.hpp"
#include "parley/neg_qp.hpp"
#include "parley/verbs.hpp"

namespace parley::neg {

/// The environment of such a queue pair: its device, and how to wait there.
class QpEnvironment {
 public:
  virtual ~QpEnvironment() = default;
  virtual Device& device() = 0;
  /// Called once. The queue pair exists until drop_qp(); its queues must exist as long.
  virtual Result<QueuePair*> make_qp(const QpInit& init) {
    auto made = device().create_qp(init);
    if (!made) return tl::unexpected(made.error());
    qp_ = std::move(*made);
    return qp_.get();
  }
  virtual void drop_qp() { qp_.reset(); }
  /// A connection manager moves it through its states.
  virtual bool connects() const { return false; }
  /// Called before the device gets the peer's address. Errors: of Layer::plugin.
  virtual Outcome<void> reach(const AhAttr& peer) = 0;
  /// Makes completions available for polling; waits for more, at most `wait`.
  virtual void work(Duration wait) = 0;
  virtual Instant now() const = 0;

 private:
  std::unique_ptr<QueuePair> qp_;
};

struct DeviceQpOptions {
  Transport transport = Transport::rc;
  std::uint8_t port = 1;
  std::uint8_t gid_index = 0;
  std::string where{};       ///< device, port and GID, as text
  QpAttributes own{};        ///< LID, GID and the port's MTU; the configuration has the rest
  std::uint32_t random = 0;  ///< the first PSN if the configuration has 0
};

/// `config` has the parameters of device_parameters(). Errors: resource_exhaustion; configuration_error (more memory than
/// allowed).
Outcome<std::unique_ptr<QpDriver>> make_device_qp(std::unique_ptr<QpEnvironment> environment,
                                                  const DeviceQpOptions& options, const Config& config);
/// Checks the configuration before any device is opened. Errors: configuration_error.
Outcome<void> check_device_qp(const Config& config);
/// "toward", "psn", "qkey" and "length", with the driver's name.
std::vector<Parameter> device_parameters(std::string_view driver);
/// The configuration's "toward"; none: not set. Errors: configuration_error.
Outcome<std::optional<Address>> toward_of(const Config& config);

tl::unexpected<Failure> device_failed(std::string_view what, const Error& why, std::string advice = {});

}  // namespace parley::neg
