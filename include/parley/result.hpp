// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One error type for the library: std::error_code of category "parley", carried by tl::expected.
#pragma once
#include <string>
#include <system_error>
#include <tl/expected.hpp>

namespace parley {

// X(name, text). The text is a sentence that needs no context.
#define PARLEY_ERRC(X)                                                         \
  X(invalid_argument, "an argument is out of its documented range")            \
  X(wrong_state, "the operation is not allowed in this state")                 \
  X(no_space, "a bounded queue or buffer is full")                             \
  X(truncated, "the input ends before the field does")                         \
  X(malformed, "the octets do not form what the protocol prescribes")          \
  X(bad_key, "the MPA startup frame has a wrong key")                          \
  X(bad_revision, "the MPA revision cannot interoperate")                      \
  X(bad_private_data, "the private data length is not allowed")                \
  X(extra_octets, "octets arrived where the protocol allows none")             \
  X(rejected, "the peer rejected the connection")                              \
  X(timed_out, "the deadline passed")                                          \
  X(peer_closed, "the peer closed the connection")                             \
  X(peer_reset, "the peer reset the connection")                               \
  X(refused, "nobody listens at that address")                                 \
  X(unreachable, "the peer cannot be reached")                                 \
  X(no_matching_rtr, "no RTR option is common to both sides")                  \
  X(insufficient_ird, "the IRD and ORD of the two sides cannot be reconciled") \
  X(crc_mismatch, "the CRC does not match")                                    \
  X(marker_mismatch, "a marker does not agree with ULPDU_Length")              \
  X(terminated, "the stream was terminated")                                   \
  X(address_in_use, "the address is in use")                                   \
  X(bad_address, "the address cannot be parsed or resolved")                   \
  X(not_permitted, "the system does not permit the operation")                 \
  X(protection, "the memory access is not allowed")                            \
  X(unreadable, "the file cannot be read or is not what it claims to be")      \
  X(unsupported, "not supported by this provider or peer")                     \
  X(cancelled, "the operation was cancelled")                                  \
  X(io, "the operating system reported an input/output error")

enum class Errc {
  ok = 0,
#define PARLEY_X(name, text) name,
  PARLEY_ERRC(PARLEY_X)
#undef PARLEY_X
};

/// The category "parley". One object per process; it holds no state.
const std::error_category& error_category() noexcept;
inline std::error_code make_error_code(Errc e) noexcept { return {static_cast<int>(e), error_category()}; }

template <class T>
using Result = tl::expected<T, std::error_code>;

/// `return fail(Errc::timed_out);` from a function that returns a Result.
inline tl::unexpected<std::error_code> fail(Errc e) { return tl::unexpected(make_error_code(e)); }

}  // namespace parley

template <>
struct std::is_error_code_enum<parley::Errc> : std::true_type {};
