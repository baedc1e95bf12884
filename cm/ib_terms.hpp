// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Options, limits and failures of connections over InfiniBand's connection manager. Shared by both implementations:
// Parley's (providers/roce) and the kernel's (drivers/rdmacm).
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cm/provider.hpp"
#include "parley/ib.hpp"
#include "wire/ib/cm.hpp"

namespace parley::cm {

/// Private data of the IP port spaces in octets: a REQ has 92, of which 36 are the IP header (IBA Annex A11).
inline constexpr Limits ib_private_data{.request = 56, .reply = 196, .reject = 148};
/// The same for UD: a SIDR_REQ has 216 octets, a SIDR_REP 136 (IBA §12.11).
inline constexpr Limits ib_datagram_private_data{.request = 180, .reply = 136, .reject = 136};
inline const Limits& ib_limits(QpType type) { return type == QpType::ud ? ib_datagram_private_data : ib_private_data; }

/// The options for InfiniBand, or an error. `not_mpa` is the message if the options are MPA's. `wrong` is the type that only the
/// other side of an XRC connection may have (IBA §A14).
Result<ib::Options> ib_options(const TransportOptions& options, std::string_view not_mpa,
                               std::optional<QpType> wrong = {});
/// Whether a queue pair of type `init` fits a connection of type `type`. Errors: unsupported, invalid_argument.
Result<void> check_qp_type(QpType init, QpType type);

/// The code for a REJ. Reasons that may be temporary have a code other than `rejected`.
Errc errc_of(wire::ib::CmReject reason);
/// "a REJ: no queue pair available (1)"
std::string reject_sentence(wire::ib::CmReject reason);
/// A suggestion for the receiver of the REJ.
std::string reject_advice(wire::ib::CmReject reason);

/// Why a UD service was refused, for any status except `valid`. If the program refused it: `rejected`.
Failure sidr_failure(wire::ib::SidrStatus status);

/// The queues of a queue pair for which the user gave none.
class OwnQueues {
 public:
  /// Creates the queues and returns the QpInit that uses them. Leaves nothing behind if it fails.
  Result<QpInit> make(Device& device);
  /// The same QpInit again; the queues must exist.
  QpInit init() const;
  /// Removes the completions of a queue pair that is gone, so that another one can use the queues.
  void clear();
  /// `device` must be the device they were created on. No-op if there are none.
  void drop(Device& device);
  explicit operator bool() const { return cq_ != nullptr; }

 private:
  static constexpr std::uint32_t depth = 2;
  std::unique_ptr<CompletionQueue> cq_;
  PdHandle pd_ = 0;
};

}  // namespace parley::cm
