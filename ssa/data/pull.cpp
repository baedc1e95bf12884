// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/data/pull.hpp"

#include <algorithm>

#include "base/bits.hpp"
#include "mpa/crc32c.hpp"
#include "parley/wire/ib.h"
#include "wire/mad/common.hpp"

namespace parley::ssa {

namespace {

using wire::mad::MadHeader;
using wire::mad::Method;
using wire::mad::MgmtClass;

constexpr std::size_t length_bit = 192, epoch_bit = 256, key_bit = 320, gid_octet = 48;

Bytes message(Method method, std::uint16_t attribute, std::uint16_t status, Epoch epoch, std::size_t size) {
  MadHeader header;
  header.set(MadHeader::base_version, PARLEY_IB_MAD_BASE_VERSION)
      .set(MadHeader::mgmt_class, MgmtClass::ssa)
      .set(MadHeader::class_version, std::uint8_t{1})
      .set(MadHeader::method, method)
      .set(MadHeader::status, status)
      .set(MadHeader::attribute_id, attribute);
  Bytes out(header.octets().begin(), header.octets().end());
  out.resize(size);
  write_bits(out, length_bit, 32, size);
  write_bits(out, epoch_bit, 64, epoch.number());
  return out;
}

void seal(Bytes& message) {
  const std::size_t end = message.size() - stream_crc_octets;
  write_bits(message, 8 * end, 32, mpa::crc32c(ConstBytes(message).first(end)));
}

}  // namespace

Bytes emit(const Pull& pull) {
  Bytes out = message(Method::get_table, pull_attribute, 0, pull.epoch, pull_octets);
  write_bits(out, key_bit, 64, pull.key);
  std::copy(pull.child.begin(), pull.child.end(), out.begin() + gid_octet);
  seal(out);
  return out;
}

Result<Pull> parse_pull(ConstBytes octets) {
  if (octets.size() != pull_octets)
    return fail(Errc::malformed, "a pull has {a} octets, not {b}", pull_octets,
                static_cast<std::int64_t>(octets.size()));
  Pull out;
  out.epoch = Epoch::of(read_bits(octets, epoch_bit, 64));
  out.key = read_bits(octets, key_bit, 64);
  std::copy_n(octets.begin() + gid_octet, out.child.size(), out.child.begin());
  if (read_bits(octets, 8 * (pull_octets - stream_crc_octets), 32) !=
      mpa::crc32c(octets.first(pull_octets - stream_crc_octets)))
    return fail(Errc::crc_mismatch, "the CRC of a pull is wrong");
  Bytes expected = emit(out);
  if (!std::equal(expected.begin(), expected.end(), octets.begin()))
    return fail(Errc::malformed, "the header of a pull is not that of GetTable, attribute {a}", pull_attribute);
  return out;
}

Bytes emit_refusal(AnswerStatus status, Epoch epoch) {
  Bytes out =
      message(Method::get_table_resp, refusal_attribute, static_cast<std::uint16_t>(status), epoch, refusal_octets);
  seal(out);
  return out;
}

std::optional<std::uint16_t> refusal_in(ConstBytes octets) {
  const auto header = MadHeader::parse(octets);
  if (!header || header->get(MadHeader::attribute_id) != refusal_attribute) return std::nullopt;
  return static_cast<std::uint16_t>(header->get(MadHeader::status));
}

std::string_view status_text(std::uint16_t status) {
  switch (status) {
#define PARLEY_X(name, number, text) \
  case number: return text;
    PARLEY_SSA_STATUSES(PARLEY_X)
#undef PARLEY_X
    default: return "a status that is not defined";
  }
}

}  // namespace parley::ssa
