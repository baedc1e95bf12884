// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The library's error type: a code of category "parley" and, if one argument or limit is the cause, a sentence about it.
// tl::expected carries it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <tl/expected.hpp>
#include <type_traits>

namespace parley {

// X(name, text). The text is a complete sentence.
#define PARLEY_ERRC(X)                                                                      \
  X(invalid_argument, "an argument is out of its documented range")                         \
  X(wrong_state, "the operation is not allowed in this state")                              \
  X(no_space, "a bounded queue or buffer is full")                                          \
  X(truncated, "the input ends before the field does")                                      \
  X(malformed, "the octets do not form what the protocol prescribes")                       \
  X(bad_key, "the MPA startup frame has a wrong key")                                       \
  X(bad_revision, "the MPA revision cannot interoperate")                                   \
  X(bad_private_data, "the private data length is not allowed")                             \
  X(extra_octets, "octets arrived where the protocol allows none")                          \
  X(rejected, "the peer rejected the connection")                                           \
  X(timed_out, "the deadline passed")                                                       \
  X(peer_closed, "the peer closed the connection")                                          \
  X(peer_reset, "the peer reset the connection")                                            \
  X(refused, "there is no listener at that address")                                        \
  X(unreachable, "the peer cannot be reached")                                              \
  X(no_matching_rtr, "no RTR option is common to both sides")                               \
  X(insufficient_ird, "the IRD and ORD of the two sides cannot be reconciled")              \
  X(crc_mismatch, "the CRC does not match")                                                 \
  X(marker_mismatch, "a marker does not agree with ULPDU_Length")                           \
  X(terminated, "the stream was terminated")                                                \
  X(address_in_use, "the address is in use")                                                \
  X(bad_address, "the address cannot be parsed or resolved, or is not one of this machine") \
  X(not_permitted, "the system does not permit the operation")                              \
  X(protection, "the memory access is not allowed")                                         \
  X(unreadable, "the file cannot be read or is not what it claims to be")                   \
  X(unsupported, "not supported by this provider or peer")                                  \
  X(cancelled, "the operation was cancelled")                                               \
  X(io, "the operating system reported an input/output error")

enum class Errc {
  ok = 0,
#define PARLEY_X(name, text) name,
  PARLEY_ERRC(PARLEY_X)
#undef PARLEY_X
};

}  // namespace parley

template <>
struct std::is_error_code_enum<parley::Errc> : std::true_type {};

namespace parley {

/// The category "parley": one stateless object per process.
const std::error_category& error_category() noexcept;
inline std::error_code make_error_code(Errc e) noexcept { return {static_cast<int>(e), error_category()}; }

/// The error of a failed call. It compares and converts like its code. The sentence is formatted only on request: creating,
/// copying and returning an Error allocates no memory.
class Error {
 public:
  Error(std::error_code code) : code_(code) {}        // NOLINT(google-explicit-constructor): a code is an Error
  Error(Errc code) : Error(make_error_code(code)) {}  // NOLINT(google-explicit-constructor)
  /// `sentence` has static lifetime, names the argument and its valid range, and has {a} and {b} as places for numbers.
  Error(Errc code, std::string_view sentence, std::int64_t a = 0, std::int64_t b = 0)
      : code_(make_error_code(code)), sentence_(sentence), a_(a), b_(b) {}

  const std::error_code& code() const { return code_; }
  operator const std::error_code&() const { return code_; }  // NOLINT(google-explicit-constructor)
  explicit operator bool() const { return static_cast<bool>(code_); }
  /// "ListenOptions::backlog is 0; must be at least 1"; empty if the code alone describes the error.
  std::string sentence() const;
  /// The code's text and the sentence: "an argument is out of its documented range: ListenOptions::backlog is 0; ...".
  std::string message() const;

  friend bool operator==(const Error& x, const Error& y) { return x.code_ == y.code_; }
  friend bool operator==(const Error& x, const std::error_code& y) { return x.code_ == y; }
  friend bool operator==(const Error& x, Errc y) { return x.code_ == make_error_code(y); }

 private:
  std::error_code code_;
  std::string_view sentence_;
  std::int64_t a_ = 0, b_ = 0;
};

template <class T>
using Result = tl::expected<T, Error>;

/// `return fail(Errc::timed_out);` from a function that returns a Result.
inline tl::unexpected<Error> fail(Errc code) { return tl::unexpected(Error(code)); }
inline tl::unexpected<Error> fail(Errc code, std::string_view sentence, std::int64_t a = 0, std::int64_t b = 0) {
  return tl::unexpected(Error(code, sentence, a, b));
}

}  // namespace parley
