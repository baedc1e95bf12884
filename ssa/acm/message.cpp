// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/acm/message.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/bytes_io.hpp"

namespace parley::ssa::acm {

namespace {

constexpr std::endian length_order(Operation operation) {
  return operation == Operation::resolve ? std::endian::native : std::endian::big;
}

/// An answer to ep_query may be longer than a request.
constexpr std::size_t length_max(bool is_answer) { return is_answer ? 0xFFFF : request_octets_max; }

std::uint8_t* grow(Bytes& out, std::size_t octets) {
  out.resize(out.size() + octets);
  return out.data() + out.size() - octets;
}

}  // namespace

Result<Header> parse_header(ConstBytes in) {
  PARLEY_ASSERT(in.size() >= header_octets);
  if (in[0] != version) return fail(Errc::malformed, "the version is {a}; it must be {b}", in[0], version);
  Header out;
  out.is_answer = (in[1] & answer_bit) != 0;
  const std::uint8_t number = in[1] & static_cast<std::uint8_t>(~answer_bit);
  if (number < static_cast<std::uint8_t>(Operation::resolve) || number > static_cast<std::uint8_t>(Operation::ep_query))
    return fail(Errc::malformed, "the operation is {a}; it must be 1 to {b}", in[1],
                static_cast<std::int64_t>(Operation::ep_query));
  out.operation = static_cast<Operation>(number);
  out.status = static_cast<Status>(in[2]);
  std::copy_n(in.begin() + 3, out.data.size(), out.data.begin());
  out.length = load<std::uint16_t>(in.data() + 6, length_order(out.operation));
  if (out.length < header_octets || out.length > length_max(out.is_answer))
    return fail(Errc::malformed, "the length is {a}; it must be 16 to {b}", out.length,
                static_cast<std::int64_t>(length_max(out.is_answer)));
  std::copy_n(in.begin() + 8, out.transaction.size(), out.transaction.begin());
  return out;
}

Record parse_record(ConstBytes in) {
  PARLEY_ASSERT(in.size() >= record_octets);
  Record out{
      load<std::uint32_t>(in.data(), std::endian::native), load<std::uint16_t>(in.data() + 4, std::endian::native), {}};
  std::copy_n(in.begin() + 8, info_octets, out.info.begin());
  return out;
}

void append(Bytes& out, const Header& header) {
  std::uint8_t* const at = grow(out, header_octets);
  at[0] = version;
  at[1] = static_cast<std::uint8_t>(static_cast<std::uint8_t>(header.operation) | (header.is_answer ? answer_bit : 0));
  at[2] = static_cast<std::uint8_t>(header.status);
  std::copy(header.data.begin(), header.data.end(), at + 3);
  store(at + 6, header.length, length_order(header.operation));
  std::copy(header.transaction.begin(), header.transaction.end(), at + 8);
}

void append(Bytes& out, const Record& record) {
  std::uint8_t* const at = grow(out, record_octets);
  store(at, record.flags, std::endian::native);
  store(at + 4, record.type, std::endian::native);
  std::copy(record.info.begin(), record.info.end(), at + 8);
}

}  // namespace parley::ssa::acm
