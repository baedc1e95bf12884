// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley mad`: the family, and management datagrams that are given as hexadecimal digits.
#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "tools/hex.hpp"
#include "tools/mad/mad.hpp"
#include "wire/mad/decode.hpp"

namespace parley::tools {

namespace {

constexpr std::size_t octets_max = 16 << 20;  // of one datagram: a table put together from segments

struct DecodeOptions {
  std::vector<std::string> words;
  std::string form = "dump";
};

/// A sentence if it is none.
std::string show(ConstBytes mad, std::size_t number, const DecodeOptions& options, Output& out) {
  const auto decoded = wire::mad::decode(mad);
  if (!decoded) return fmt::format("a management datagram has 24 octets or more, and {} are given", mad.size());
  std::string text = options.form == "dotted" ? dotted(*decoded, mad) : dump(*decoded, mad);
  text.pop_back();  // out.text ends the line
  out.text((number > 1 ? "\n" : "") + text);
  Json object = {{"number", number}};
  object.update(json_of(*decoded, mad));
  out.object(object);
  return {};
}

int decode_lines(const DecodeOptions& options, Output& out) {
  std::size_t number = 0, line_number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string::npos || line[line.find_first_not_of(" \t")] == '#') continue;
    Bytes mad;
    std::string wrong = take_hex(line, mad, octets_max);
    if (wrong.empty()) wrong = show(mad, ++number, options, out);
    if (!wrong.empty()) return out.error(Exit::environment, fmt::format("line {}: {}", line_number, wrong));
  }
  if (number == 0) return out.error(Exit::environment, "standard input holds no datagram");
  return code(Exit::ok);
}

int run_decode(const DecodeOptions& options, Output& out) {
  if (options.words.empty() || options.words.front() == "-") return decode_lines(options, out);
  Bytes mad;
  for (const std::string& word : options.words)
    if (const std::string wrong = take_hex(word, mad, octets_max); !wrong.empty()) return out.error(Exit::usage, wrong);
  if (const std::string wrong = show(mad, 1, options, out); !wrong.empty()) return out.error(Exit::usage, wrong);
  return code(Exit::ok);
}

void register_decode(Command mad, Context& context) {
  auto options = std::make_shared<DecodeOptions>();
  Command sub = mad.subcommand("decode", "Show a management datagram member by member");
  sub.option("octets", options->words,
             "Its octets as hexadecimal digits; without them, or as '-', one datagram in each line of standard input")
      .type("HEX");
  sub.option("--form", options->form, "dump: octets beside the members. dotted: NAME=VALUE in lines")
      .one_of({"dump", "dotted"})
      .shows_default();
  add_json_flag(sub, context);
  sub.footer(
      "Examples:\n"
      "  parley mad decode 0101010100000000 0000000000000007 0011000000000000\n"
      "  parley mad decode --json < datagrams.txt");
  sub.run([options, &context] { return run_decode(*options, context.out); });
}

}  // namespace

void register_mad(Command app, Context& context) {
  Command mad = app.subcommand("mad", "Read and send InfiniBand's management datagrams");
  mad.requires_subcommand();
  register_decode(mad, context);
  register_mad_query(mad, context);
  register_mad_sa(mad, context);
  register_mad_discover(mad, context);
  register_mad_check(mad, context);
  register_mad_top(mad, context);
  register_mad_ping(mad, context);
}

}  // namespace parley::tools
