// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Why a request failed, as data: the request, the reply, the path, and what the callers were doing.
//
//   const Reply<NodeInfo> info = co_await port.subn_get<NodeInfo>(path);
//   if (!info) co_return tl::unexpected(std::move(info.error()).about("looking at the switch behind port 3"));
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "mad/path.hpp"
#include "wire/mad/rpc.hpp"

namespace parley::mad {

using wire::mad::Datagram;

// X(name, text).
#define PARLEY_MAD_FAULTS(X)                                                   \
  X(timeout, "no answer")                                                      \
  X(busy, "the destination stayed busy")                                       \
  X(status, "the answer's status is an error")                                 \
  X(class_status, "the answer's class-specific status is an error")            \
  X(malformed, "the answer does not match the request")                        \
  X(cut, "the answer was longer than one datagram, and the rest was not sent") \
  X(rmpp, "the RMPP transfer of the request or answer was aborted")            \
  X(refused, "the datagram could not be sent")                                 \
  X(redirect, "the redirection cannot be followed")                            \
  X(redirect_loop, "redirected too often")                                     \
  X(cancelled, "cancelled")                                                    \
  X(deadline, "the task's deadline passed")                                    \
  X(no_space, "no space")                                                      \
  X(invalid, "the request is invalid")

enum class Fault : std::uint8_t {
#define PARLEY_X(name, text) name,
  PARLEY_MAD_FAULTS(PARLEY_X)
#undef PARLEY_X
};
/// The reason of no_space for a request.
inline constexpr std::string_view too_many_open = "too many requests are open";
/// Its text: "no answer".
std::string_view text_of(Fault fault);
/// Its name: "timeout".
std::string_view word_of(Fault fault);

class MadError {
 public:
  /// `why`: details in addition to the fault's text, or empty.
  explicit MadError(Fault fault, std::string why = {});
  MadError(const MadError& other);
  MadError(MadError&&) noexcept = default;
  MadError& operator=(const MadError& other);
  MadError& operator=(MadError&&) noexcept = default;
  ~MadError() = default;

  Fault fault() const { return data_->fault; }
  /// The 16 bits of the answer's status, without the D bit of a directed route; 0 if there is no answer.
  std::uint16_t status() const { return data_->status; }
  /// The upper octet of the status; for subnet administration one of PARLEY_MAD_SA_STATUSES.
  std::uint8_t class_status() const { return static_cast<std::uint8_t>(data_->status >> 8 & 0x7F); }
  bool is_no_records() const;  ///< subnet administration has no record that matches the query
  ConstBytes request() const { return data_->request; }
  ConstBytes reply() const { return data_->reply; }  ///< empty: no answer
  const Path& path() const { return data_->path; }
  unsigned tries() const { return data_->tries; }                             ///< times that the request was sent
  const std::vector<std::string>& context() const { return data_->context; }  ///< the innermost caller's first

  /// Adds a line about what the caller was doing; for `return tl::unexpected(std::move(error).about("..."))`.
  MadError& about(std::string line) &;
  MadError&& about(std::string line) &&;

  /// One line: "SubnGet(NodeInfo) to LID 5: no answer in 4 tries".
  std::string message() const;
  enum class Detail : std::uint8_t { lines, path, packets };
  /// The outermost context first, then "+ " and each further one, then message(). `path` adds the path; `packets` also
  /// adds both datagrams, field by field.
  std::string dump(Detail detail = Detail::lines) const;

 private:
  friend class Transactor;
  struct Data {
    Fault fault;
    std::uint16_t status = 0;
    unsigned tries = 0;
    std::string why;
    Bytes request, reply;
    Path path;
    std::vector<std::string> context;
  };
  std::unique_ptr<Data> data_;  // null only when moved from
};

/// The result of an RPC.
template <class T>
using Reply = tl::expected<T, MadError>;

/// An answer as it was received.
struct RawReply {
  Bytes mad;     ///< 256 octets; for several segments, the headers of the first and all of the data
  Address from;  ///< the responder
};

}  // namespace parley::mad
