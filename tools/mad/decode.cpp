// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley mad decode`: management datagrams given as hexadecimal digits, or read from a capture.
#include "tools/mad/decode.hpp"

#include <filesystem>
#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "tools/hex.hpp"
#include "tools/mad/mad.hpp"

namespace parley::tools {

namespace {

constexpr std::size_t octets_max = 16 << 20;  // of one datagram: a table reassembled from segments

int decode_lines(const DecodeOptions& options, Output& out) {
  std::size_t number = 0, line_number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string::npos || line[line.find_first_not_of(" \t")] == '#') continue;
    Bytes mad;
    std::string wrong = parse_hex_into(line, mad, octets_max);
    if (wrong.empty()) wrong = show_mad(mad, ++number, options.form, {}, out);
    if (!wrong.empty()) return out.error(Exit::environment, fmt::format("line {}: {}", line_number, wrong));
  }
  if (number == 0) return out.error(Exit::environment, "no datagram on standard input");
  return code(Exit::ok);
}

/// Advice if `word`, which is not hexadecimal, names a file.
std::string advice_for(const std::string& word) {
  std::error_code error;
  return std::filesystem::is_regular_file(word, error) ? "; a capture is read with --read " + word : std::string();
}

int run_decode(const DecodeOptions& options, Output& out) {
  if (!options.capture.empty()) return decode_capture(options, out);
  if (options.words.empty() || options.words.front() == "-") return decode_lines(options, out);
  Bytes mad;
  for (const std::string& word : options.words)
    if (const std::string wrong = parse_hex_into(word, mad, octets_max); !wrong.empty())
      return out.error(Exit::usage, wrong + advice_for(word));
  if (const std::string wrong = show_mad(mad, 1, options.form, {}, out); !wrong.empty())
    return out.error(Exit::usage, wrong);
  return code(Exit::ok);
}

}  // namespace

std::string show_mad(ConstBytes mad, std::uint64_t number, const std::string& form, const FoundAt& where, Output& out) {
  const auto decoded = wire::mad::decode(mad);
  if (!decoded) return fmt::format("a management datagram has at least 24 octets, not {}", mad.size());
  if (out.json) {
    Json object = {{"number", number}};
    object.update(where.keys);
    put_json(*decoded, mad, std::move(object), out);
    return {};
  }
  std::string text = form == "dotted" ? where.members + dotted(*decoded, mad) : where.heading + dump(*decoded, mad);
  text.pop_back();  // out.text ends the line
  out.text((number > 1 ? "\n" : "") + text);
  return {};
}

void put_json(const wire::mad::Decoded& decoded, ConstBytes mad, Json first, Output& out) {
  if (!out.json) return;
  wire::mad::JsonEnds ends = json_ends(decoded, mad);
  first.update(std::move(ends.head));
  const auto record = [&](std::size_t i) { return json_of(*decoded.bodies[i].layout, decoded.bodies[i].view); };
  out.object(first, "records", decoded.bodies.size(), record, ends.tail);
}

void register_mad_decode(Command mad, Context& context) {
  auto options = std::make_shared<DecodeOptions>();
  Command sub =
      mad.subcommand("decode", "Show management datagrams member by member, from a capture or from hexadecimal digits");
  Option octets = sub.option("octets", options->words,
                             "A datagram's octets as hexadecimal digits; if missing or '-': one datagram per line of "
                             "standard input")
                      .type("HEX");
  sub.option("-r,--read", options->capture,
             "Decode a pcap or pcapng capture of InfiniBand, RoCEv1 or RoCEv2 instead; - is standard input")
      .type("FILE")
      .excludes(octets);
  sub.option("--form", options->form, "dump: members with their octets. dotted: lines NAME=VALUE")
      .one_of({"dump", "dotted"})
      .shows_default();
  add_json_flag(sub, context);
  sub.footer(
      "Exit code of --read: 0 every datagram was read, 1 one is damaged, a frame cannot be read, or there is none,\n"
      "2 usage, 3 the file cannot be read to its end (the part before that is printed).\n\n"
      "Examples:\n"
      "  parley mad decode 0101010100000000 0000000000000007 0011000000000000\n"
      "  parley mad decode --json < datagrams.txt\n"
      "  parley mad decode --read fabric.pcap\n"
      "  tcpdump -i eth0 -w - udp port 4791 | parley mad decode --read - --json");
  sub.run([options, &context] { return run_decode(*options, context.out); });
}

}  // namespace parley::tools
