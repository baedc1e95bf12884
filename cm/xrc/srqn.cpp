// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/xrc/srqn.hpp"

#include "base/bytes_io.hpp"

namespace parley::xrc {
namespace {

constexpr std::uint32_t magic = 0x58535251;  // "XSRQ"
constexpr std::uint8_t version = 1, question = 1, answer = 2;
constexpr std::size_t length = 12;
constexpr std::uint32_t number_max = 0xFFFFFF;

Bytes message(std::uint8_t kind, std::uint32_t value) {
  Bytes out(length);
  Writer w(out);
  w.be32(magic);
  w.u8(version);
  w.u8(kind);
  w.be16(0);
  w.be32(value);
  return out;
}

std::optional<std::uint32_t> parse(ConstBytes octets, std::uint8_t kind) {
  if (octets.size() < length) return std::nullopt;
  Reader r(octets);
  if (r.be32() != magic || r.u8() != version || r.u8() != kind || r.be16() != 0) return std::nullopt;
  return r.be32();
}

}  // namespace

Bytes srqn_question(std::uint32_t which) { return message(question, which); }
Bytes srqn_answer(std::uint32_t srqn) { return message(answer, srqn); }
std::optional<std::uint32_t> parse_srqn_question(ConstBytes private_data) { return parse(private_data, question); }
std::optional<std::uint32_t> parse_srqn_answer(ConstBytes private_data) {
  const auto number = parse(private_data, answer);
  return number && *number != 0 && *number <= number_max ? number : std::nullopt;
}

}  // namespace parley::xrc
