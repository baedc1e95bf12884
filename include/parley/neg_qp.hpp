// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The variants that Parley brings along, and the seam behind which the queue pairs are that they negotiate.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "parley/neg.hpp"

namespace parley::neg {

/// One queue pair (of XRC one of each end) while it is negotiated. Calls come in this order, each once but take_test().
/// Errors, all: of Layer::plugin.
class QpDriver {
 public:
  virtual ~QpDriver() = default;
  /// Makes the queue pair, takes it to INIT, and posts a receive for the test message.
  virtual Outcome<QpAttributes> open() = 0;
  /// Mtu, ird and ord of the pair are agreed.
  virtual Outcome<void> to_rtr(const QpPair& pair) = 0;
  virtual Outcome<void> to_rts(const QpPair& pair) = 0;
  /// False: send_test() and take_test() are not called.
  virtual bool can_test() const { return false; }
  virtual Outcome<void> send_test(ConstBytes message) {
    (void)message;
    return {};
  }
  /// The peer's test message; none: it has not come yet. May wait for it, but not for long: a session has many rounds.
  virtual Outcome<std::optional<Bytes>> take_test() { return std::nullopt; }
};

/// Where queue pairs come from, besides values that are typed in (the driver "manual", which is always there).
struct QpDrivers {
  std::string name{};                   ///< "verbs"; empty: none
  std::vector<Parameter> parameters{};  ///< of its own, for the configuration of a variant
  std::function<Outcome<std::unique_ptr<QpDriver>>(Transport transport, const Config& config)> make{};
};

/// verbs-rc, verbs-uc, verbs-ud, verbs-xrc, manual, pingpong and perftest, of the plug-in "parley".
std::unique_ptr<Plugin> make_builtin_plugin(QpDrivers drivers = {});

}  // namespace parley::neg
