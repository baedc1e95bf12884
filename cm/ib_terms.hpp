// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a connection over InfiniBand's connection manager means to users, whoever speaks it: Parley (providers/roce) or the
// kernel (drivers/rdmacm).
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cm/provider.hpp"
#include "parley/ib.hpp"
#include "wire/ib/cm.hpp"

namespace parley::cm {

/// Private data of the IP port spaces: a REQ has 92 octets, of which 36 are the IP header (IBA Annex A11).
inline constexpr Limits ib_private_data{.request = 56, .reply = 196, .reject = 148};
/// The same of UD: a SIDR_REQ has 216 octets, a SIDR_REP 136 (IBA §12.11).
inline constexpr Limits ib_datagram_private_data{.request = 180, .reply = 136, .reject = 136};
inline const Limits& ib_limits(QpType type) { return type == QpType::ud ? ib_datagram_private_data : ib_private_data; }

/// The options for InfiniBand, or what is wrong with them. `not_mpa` is the sentence where they are MPA's. `wrong`: the type that only
/// the other side of an XRC connection has (IBA §A14).
Result<ib::Options> ib_options(const TransportOptions& options, std::string_view not_mpa,
                               std::optional<QpType> wrong = {});
/// Whether a queue pair of type `init` is the one for a connection of type `type`. Errors: unsupported, invalid_argument.
Result<void> check_qp_type(QpType init, QpType type);

/// Reasons of the peer's connection manager that may be others next time are not `rejected`.
Errc errc_of(wire::ib::CmReject reason);
/// "a REJ: no queue pair available (1)"
std::string reject_sentence(wire::ib::CmReject reason);
/// What its receiver may do about it.
std::string reject_advice(wire::ib::CmReject reason);

/// Why a service of UD was not granted, for any answer but `valid`. By the program: `rejected`.
Failure sidr_failure(wire::ib::SidrStatus status);

/// The queues of a queue pair that nobody asked for.
class OwnQueues {
 public:
  /// What a queue pair with them is made from. Nothing is left behind if it fails.
  Result<QpInit> make(Device& device);
  /// The same again, where they are.
  QpInit init() const;
  /// Nothing is left in them of the queue pair that had them, which is gone: they are for another.
  void clear();
  /// `device` is that which they are of; nothing happens where there are none.
  void drop(Device& device);
  explicit operator bool() const { return cq_ != nullptr; }

 private:
  static constexpr std::uint32_t depth = 2;
  std::unique_ptr<CompletionQueue> cq_;
  PdHandle pd_ = 0;
};

}  // namespace parley::cm
