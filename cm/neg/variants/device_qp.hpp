// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A negotiated queue pair of a Device (of XRC one of each end), taken from INIT to RTS by hand: what the drivers "verbs" (devices of the machine) and
// "roce" (Parley's own engine) have in common.
#pragma once
#include <utility>

#include "parley/address.hpp"
#include "parley/neg_qp.hpp"
#include "parley/verbs.hpp"

namespace parley::neg {

/// Where such a queue pair lives, and how time passes there.
class QpGround {
 public:
  virtual ~QpGround() = default;
  virtual Device& device() = 0;
  /// Once. It lives until drop_qp(), and until then its queues do.
  virtual Result<QueuePair*> make_qp(const QpInit& init) {
    auto made = device().create_qp(init);
    if (!made) return tl::unexpected(made.error());
    qp_ = std::move(*made);
    return qp_.get();
  }
  virtual void drop_qp() { qp_.reset(); }
  /// A connection manager takes it through its states.
  virtual bool connects() const { return false; }
  /// Before the device is told of the peer. Errors: of Layer::plugin.
  virtual Outcome<void> reach(const AhAttr& peer) = 0;
  /// What has completed comes to where it is polled; waits for more, at most so long.
  virtual void work(Duration wait) = 0;
  virtual Instant now() const = 0;

 private:
  std::unique_ptr<QueuePair> qp_;
};

struct DeviceQpOptions {
  Transport transport = Transport::rc;
  std::uint8_t port = 1;
  std::uint8_t gid_index = 0;
  std::string where{};       ///< device, port and GID, in words
  QpAttributes own{};        ///< LID, GID and the port's MTU; the rest is the configuration's
  std::uint32_t random = 0;  ///< the first PSN where the configuration has 0
};

/// `config` has what device_parameters() describes. Errors: resource_exhaustion; configuration_error (more memory than
/// there may be).
Outcome<std::unique_ptr<QpDriver>> make_device_qp(std::unique_ptr<QpGround> ground, const DeviceQpOptions& options,
                                                  const Config& config);
/// Before anything is looked for. Errors: configuration_error.
Outcome<void> check_device_qp(const Config& config);
/// "toward", "psn", "qkey" and "length", with the driver's name.
std::vector<Parameter> device_parameters(std::string_view driver);
/// The configuration's "toward"; none: it has no such. Errors: configuration_error.
Outcome<std::optional<Address>> toward_of(const Config& config);

tl::unexpected<Failure> device_failed(std::string_view what, const Error& why, std::string advice = {});

}  // namespace parley::neg
