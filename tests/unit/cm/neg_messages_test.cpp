// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the variants of queue pairs write, and what they read of messages of which one octet, item or character is another,
// beside tests/states/cm_neg_messages.txt. "as written": what was read gives the same octets when it is written again.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/text.hpp"
#include "cm/neg/variants/perftest.hpp"
#include "cm/neg/variants/pingpong.hpp"
#include "cm/neg/variants/verbs.hpp"
#include "parley/neg_qp.hpp"
#include "tests/unit/reviewed.hpp"
#include "tests/unit/runs.hpp"

namespace parley::neg {
namespace {

constexpr Transport every_transport[] = {Transport::rc, Transport::uc, Transport::ud, Transport::xrc};

QpAttributes full_attributes() {
  QpAttributes a{.qpn = 0x10203, .psn = 0xABCDEF, .lid = 0x1122, .mtu = 2048, .ird = 3, .ord = 4};
  for (std::size_t i = 0; i < a.gid.size(); ++i) a.gid[i] = static_cast<std::uint8_t>(0xA0 + i);
  a.qkey = 0x11111111;
  a.srqn = 0x222222;
  a.ini_qpn = 0x333333;
  a.rkey = 0x44444444;
  a.vaddr = 0x5555'5555'0000;
  a.length = 0x6666;
  return a;
}

std::string attributes_text(const QpAttributes& a) {
  return fmt::format(
      "qpn {:x} psn {:x} lid {:x} gid {} mtu {} ird {} ord {} "
      "qkey {:x} srqn {:x} ini {:x} rkey {:x} vaddr {:x} length {:x}",
      a.qpn, a.psn, a.lid, hex_digits(a.gid), a.mtu, a.ird, a.ord, a.qkey, a.srqn, a.ini_qpn, a.rkey, a.vaddr,
      a.length);
}

std::string failure_text(const Failure& why) { return why.text; }

/// Whether what was read of `in` is `in` when it is written again (`written`); else the words of `now` that `usual` does not
/// have; of a refusal its words outside of quotes.
std::string differences_of(const std::string& usual, const std::string& now, ConstBytes in, const Bytes& written) {
  if (now == usual) return "as usual";
  if (!written.empty() && std::equal(in.begin(), in.end(), written.begin(), written.end())) return "as written";
  std::vector<std::string> words{""}, before{""};
  const auto cut = [](const std::string& text, std::vector<std::string>& into) {
    for (const char c : text) {
      if (c != ' ' && c != '\n')
        into.back() += c;
      else if (!into.back().empty())
        into.emplace_back();
    }
  };
  cut(now, words);
  cut(usual, before);
  if (written.empty()) {
    const std::size_t quoted = now.rfind('\'');
    return "refused: " + now.substr(quoted == now.npos ? now.find_first_not_of(' ') : quoted + 2);
  }
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (i >= before.size() || words[i] != before[i])
      out += (out.empty() ? "" : " ") + (i > 0 ? words[i - 1] + " " : "") + words[i];
  return out;
}

std::string info_read(Transport transport, ConstBytes in) {
  const auto read = read_qp_info(transport, in);
  if (!read) return failure_text(read.error());
  return attributes_text(read->attributes) + fmt::format(" tests {}", read->tests);
}
Bytes info_again(Transport transport, ConstBytes in) {
  const auto read = read_qp_info(transport, in);
  return read ? write_qp_info(transport, read->attributes, read->tests) : Bytes{};
}

std::string address_read(ConstBytes in) {
  const auto read = read_pingpong_address(in);
  return read ? attributes_text(*read) : failure_text(read.error());
}

/// The items of a message, each with its head.
std::vector<Bytes> items_of(const Bytes& info) {
  std::vector<Bytes> out;
  for (std::size_t at = 4; at < info.size();) {
    const std::size_t size = 4 + std::size_t{info[at + 2]} * 256 + info[at + 3];
    out.emplace_back(info.begin() + static_cast<std::ptrdiff_t>(at),
                     info.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
  }
  return out;
}

Bytes without_item(const Bytes& info, std::size_t left_out, bool doubled = false) {
  Bytes out(info.begin(), info.begin() + 4);
  const std::vector<Bytes> items = items_of(info);
  for (std::size_t i = 0; i < items.size(); ++i)
    for (int n = i != left_out ? 1 : doubled ? 2 : 0; n > 0; --n)
      out.insert(out.end(), items[i].begin(), items[i].end());
  return out;
}

std::string text_of_infos() {
  std::string out;
  for (const Transport transport : every_transport) {
    const Bytes full = write_qp_info(transport, full_attributes(), true);
    out += fmt::format("\n{}: {}\n  {}\n", to_string(transport), hex_digits(full), info_read(transport, full));
    QpAttributes least;
    out += fmt::format("  least: {}\n", hex_digits(write_qp_info(transport, least, false)));
    least.rkey = 1;
    out += fmt::format("  an R_Key of 1: {}\n", hex_digits(write_qp_info(transport, least, false)));
    least.rkey = 0;
    least.length = 1;
    out += fmt::format("  one octet of memory: {}\n", hex_digits(write_qp_info(transport, least, false)));
    const std::string usual = info_read(transport, full);
    Runs runs;
    const auto look = [&](const std::string& name, ConstBytes in) {
      runs.add(name, differences_of(usual, info_read(transport, in), in, info_again(transport, in)));
    };
    for (std::size_t i = 0; i < items_of(full).size(); ++i) {
      const std::string item = hex_digits(ConstBytes(items_of(full)[i]).first(2));
      look("without " + item, without_item(full, i));
      look("twice " + item, without_item(full, i, true));
    }
    for (std::size_t size = 0; size < full.size(); ++size)
      look(fmt::format("{} octets", size), ConstBytes(full).first(size));
    for (std::size_t i = 0; i < full.size(); ++i)
      for (const auto by : {std::uint8_t{0x01}, std::uint8_t{0x80}}) {
        Bytes altered = full;
        altered[i] ^= by;
        look(fmt::format("{}^{:02x}", i, by), altered);
      }
    out += runs.text();
  }
  return out;
}

std::string text_of_addresses() {
  const Bytes good = write_pingpong_address(full_attributes());
  std::string out = fmt::format("\npingpong: {}\n  {}\n", hex_digits(good), address_read(good));
  // Digits of both cases are read; small ones are written.
  const auto small = [](Bytes in) {
    for (std::uint8_t& c : in)
      if (c >= 'A' && c <= 'F') c = static_cast<std::uint8_t>(c + ('a' - 'A'));
    return in;
  };
  const auto said = [&](const std::string& usual, const Bytes& in) {
    const auto read = read_pingpong_address(in);
    return differences_of(usual, address_read(in), small(in), read ? write_pingpong_address(*read) : Bytes{});
  };
  const std::string usual = address_read(good);
  Runs runs;
  for (std::size_t size = 0; size <= good.size() + 1; ++size) {
    Bytes part = good;
    part.resize(size);
    runs.add(fmt::format("{} octets", size), said(usual, part));
  }
  for (std::size_t i = 0; i < good.size(); ++i)
    for (const char c : std::string_view("09afAF:/@G`g")) {
      Bytes altered = good;
      altered[i] = static_cast<std::uint8_t>(c);
      runs.add(fmt::format("octet {} is {}", i, c), said(usual, altered));
    }
  return out + runs.text();
}

/// A peer that begins otherwise is refused at the first wrong character.
std::string text_of_startups() {
  Framework framework;
  EXPECT_TRUE(framework.add(make_builtin_plugin()));
  const auto variant = framework.make("parley", "pingpong", Role::responder, {{"qpn", "1"}, {"psn", "2"}});
  if (!variant) return failure_text(variant.error());
  const Bytes good = write_pingpong_address(full_attributes());
  std::string out = "\npingpong, begun\n";
  Runs runs;
  const auto look = [&](const std::string& name, Stage stage, ConstBytes begun) {
    const auto length = (*variant)->message_length(stage, begun);
    runs.add(name, !length   ? failure_text(length.error())
                   : *length ? std::to_string(**length)
                             : std::string("no message"));
  };
  for (std::size_t size = 0; size <= 6; ++size)
    look(fmt::format("{} octets", size), Stage::info, ConstBytes(good).first(size));
  for (std::size_t i = 0; i < 6; ++i)
    for (unsigned value = 0; value < 256; ++value) {
      Bytes begun(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(i));
      begun.push_back(static_cast<std::uint8_t>(value));
      const auto length = (*variant)->message_length(Stage::info, begun);
      runs.add(fmt::format("octet {} is {:02x}", i, value), length ? "goes on" : "is refused");
    }
  look("in ready", Stage::ready, Bytes{0x78});
  return out + runs.text();
}

std::string text_of_keys() {
  std::string out;
  for (const bool gid : {false, true})
    for (const bool validation : {false, true}) {
      const PerftestFormat format{.gid = gid, .validation = validation};
      const Bytes good = write_perftest_keys(full_attributes(), format);
      const auto told = [&](ConstBytes in) {
        const auto read = read_perftest_keys(in, format);
        return read ? attributes_text(*read) : failure_text(read.error());
      };
      const auto said = [&](const std::string& usual, const Bytes& in) {
        const auto read = read_perftest_keys(in, format);
        return differences_of(usual, told(in), in, read ? write_perftest_keys(*read, format) : Bytes{});
      };
      out += fmt::format("\nperftest: {}\n  {}\n", hex_digits(good), told(good));
      const std::string usual = told(good);
      Runs runs;
      for (const std::size_t size : {std::size_t{0}, good.size() - 2, good.size() - 1, good.size(), good.size() + 1}) {
        Bytes part = good;
        part.resize(size);
        runs.add(fmt::format("{} octets", size), said(usual, part));
      }
      for (std::size_t i = 0; i < good.size(); ++i)
        for (const char c : std::string_view("7:G")) {
          Bytes altered = good;
          altered[i] = static_cast<std::uint8_t>(c);
          runs.add(fmt::format("octet {} is {}", i, c), said(usual, altered));
        }
      out += runs.text();
    }
  return out;
}

TEST(NegMessages, AreWrittenAndReadAsReviewed) {
  expect_as_reviewed("cm_neg_messages.txt",
                     "# Messages of the variants, and what is read where one of their octets is another.\n" +
                         text_of_infos() + text_of_addresses() + text_of_startups() + text_of_keys());
}

}  // namespace
}  // namespace parley::neg
