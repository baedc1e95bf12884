// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How one thing that came is told from the one that was recorded: each pair in a table for a reviewer, in tests/states.
#include <fmt/format.h>

#include "kit.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::replay::test {
namespace {

using capture::test::fpdu;
using capture::test::segment;
using capture::test::startup;
using wire::MpaKey;
using wire::RdmapOpcode;

struct Variant {
  std::string name;
  Item item;
};
struct Family {
  std::string name;
  std::vector<Variant> variants;  // the first against each of the others
};

Item item_of_stream(ConstBytes stream, bool fpdus, bool crc = true) {
  StepReader reader;
  const Bytes frame = startup(MpaKey::req, PARLEY_MPA_FLAG_C, 1);
  if (fpdus) {
    reader.octets(frame, {}, true);
    reader.agreed(crc ? capture::Known::yes : capture::Known::no, capture::Known::no, false);
  }
  reader.octets(stream, {7, Instant(1s), 0}, !fpdus);
  reader.finish({}, true);
  Assembler assembler;
  std::size_t n = 0;
  for (const Step& s : reader.steps()) assembler.add(s, n++);
  assembler.finish();
  EXPECT_EQ(assembler.items().size(), fpdus ? 2U : 1U);
  return assembler.items().back();
}

Family startups() {
  Family out{"startup frames", {}};
  const wire::MpaEnhanced e{.a = true, .b = true, .c = false, .d = false, .ird = 4, .ord = 5};
  const auto add = [&](std::string name, MpaKey key, unsigned flags, unsigned revision,
                       std::optional<wire::MpaEnhanced> enhanced, const Bytes& pd) {
    out.variants.push_back({std::move(name), item_of_stream(startup(key, static_cast<std::uint8_t>(flags),
                                                                    static_cast<std::uint8_t>(revision), enhanced, pd),
                                                            false)});
  };
  const unsigned s = PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S;
  const Bytes pd{1, 2, 3};
  add("as recorded", MpaKey::rep, s, 2, e, pd);
  add("M", MpaKey::rep, s | PARLEY_MPA_FLAG_M, 2, e, pd);
  add("no C", MpaKey::rep, PARLEY_MPA_FLAG_S, 2, e, pd);
  add("R", MpaKey::rep, s | PARLEY_MPA_FLAG_R, 2, e, pd);
  add("no S", MpaKey::rep, PARLEY_MPA_FLAG_C, 2, {}, pd);
  add("a reserved bit", MpaKey::rep, s | 1, 2, e, pd);
  add("revision 1", MpaKey::rep, PARLEY_MPA_FLAG_C, 1, {}, pd);
  for (const char* bit : {"A", "B", "C", "D", "IRD", "ORD", "IRD as ORD"}) {
    wire::MpaEnhanced other = e;
    const std::string name = bit;
    if (name == "A") other.a = false;
    if (name == "B") other.b = false;
    if (name == "C") other.c = true;
    if (name == "D") other.d = true;
    if (name == "IRD") other.ird = 3;
    if (name == "ORD") other.ord = 6;
    if (name == "IRD as ORD") std::swap(other.ird, other.ord);
    add(name, MpaKey::rep, s, 2, other, pd);
  }
  add("longer private data", MpaKey::rep, s, 2, e, {1, 2, 3, 4});
  add("other private data", MpaKey::rep, s, 2, e, {1, 9, 3});
  add("a Request", MpaKey::req, s, 2, e, pd);
  out.variants.push_back({"FPDU", item_of_stream(fpdu(capture::test::send_segment(1, 4)), true)});
  return out;
}

Family untagged() {
  Family out{"untagged messages", {}};
  wire::DdpHeader h;
  h.msn = 3;
  const Bytes data{1, 2, 3, 4, 5, 6, 7, 8};
  const auto add = [&](std::string name, const wire::DdpHeader& header, const Bytes& payload) {
    out.variants.push_back({std::move(name), item_of_stream(fpdu(segment(header, payload)), true)});
  };
  const auto with = [&](auto change) {
    wire::DdpHeader other = h;
    change(other);
    return other;
  };
  add("as recorded", h, data);
  add("MSN 4", with([](auto& x) { x.msn = 4; }), data);
  add("MO 4", with([](auto& x) { x.mo = 4; }), data);
  add("QN 5", with([](auto& x) { x.qn = 5; }), data);
  add("DDP version 0", with([](auto& x) { x.ddp_version = 0; }), data);
  add("RDMAP version 0", with([](auto& x) { x.rdmap_version = 0; }), data);
  add("solicited event", with([](auto& x) { x.opcode = RdmapOpcode::send_se; }), data);
  add("no last segment", with([](auto& x) { x.last = false; }), data);
  add("first octet", h, {9, 2, 3, 4, 5, 6, 7, 8});
  add("last octet", h, {1, 2, 3, 4, 5, 6, 7, 9});
  add("shorter", h, {1, 2, 3, 4, 5, 6, 7});
  add("longer", h, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  add("tagged", with([](auto& x) { x.tagged = true, x.stag = 1; }), data);
  Bytes pad = fpdu(segment(h, Bytes(7, 1)));
  pad[pad.size() - 5] = 1;
  const std::uint32_t sum = mpa::crc32c(ConstBytes(pad).first(pad.size() - 4));
  for (std::size_t i = 0; i < 4; ++i) pad[pad.size() - 4 + i] = static_cast<std::uint8_t>(sum >> (8 * i));
  out.variants.push_back({"a pad octet of 1", item_of_stream(pad, true)});
  Bytes crc = fpdu(segment(h, data));
  crc.back() ^= 1;
  out.variants.push_back({"a wrong CRC", item_of_stream(crc, true)});
  out.variants.push_back({"octets", item_of_stream(Bytes(30, 0xFF), true)});
  return out;
}

Family invalidating() {
  Family out{"Sends with Invalidate", {}};
  for (const auto& [name, opcode, stag] :
       {std::tuple("as recorded", RdmapOpcode::send_inv, 5U), std::tuple("another STag", RdmapOpcode::send_inv, 6U),
        std::tuple("solicited", RdmapOpcode::send_se_inv, 5U), std::tuple("without", RdmapOpcode::send, 5U)}) {
    wire::DdpHeader h;
    h.msn = 1;
    h.opcode = opcode;
    h.stag = stag;
    out.variants.push_back({name, item_of_stream(fpdu(segment(h, Bytes(4, 1))), true)});
  }
  return out;
}

Family tagged_messages() {
  Family out{"tagged messages", {}};
  const auto add = [&](std::string name, RdmapOpcode opcode, std::uint32_t stag, std::uint64_t to, std::size_t size) {
    out.variants.push_back(
        {std::move(name), item_of_stream(fpdu(capture::test::tagged(opcode, stag, to, size)), true)});
  };
  add("as recorded", RdmapOpcode::rdma_write, 5, 0x1000, 20);
  add("another STag", RdmapOpcode::rdma_write, 6, 0x1000, 20);
  add("another TO", RdmapOpcode::rdma_write, 5, 0x1001, 20);
  add("shorter", RdmapOpcode::rdma_write, 5, 0x1000, 19);
  add("empty", RdmapOpcode::rdma_write, 5, 0x1000, 0);
  add("a Read Response", RdmapOpcode::read_response, 5, 0x1000, 20);
  return out;
}

Family empty_writes() {
  Family out{"empty Writes", {}};
  for (const std::uint32_t stag : {5U, 6U})
    out.variants.push_back({stag == 5 ? "as recorded" : "another STag",
                            item_of_stream(fpdu(capture::test::tagged(RdmapOpcode::rdma_write, stag, stag, 0)), true)});
  out.variants.push_back(
      {"a Read Response", item_of_stream(fpdu(capture::test::tagged(RdmapOpcode::read_response, 5, 5, 0)), true)});
  return out;
}

Family reads(std::uint32_t size) {
  Family out{fmt::format("Reads of {} octets", size), {}};
  const auto add = [&](std::string name, const wire::ReadRequest& q) {
    out.variants.push_back({std::move(name), item_of_stream(fpdu(capture::test::read_request(1, q)), true)});
  };
  add("as recorded", {1, 2, size, 4, 5});
  add("another sink", {9, 9, size, 4, 5});
  add("another length", {1, 2, size + 1, 4, 5});
  add("another source STag", {1, 2, size, 9, 5});
  add("another source TO", {1, 2, size, 4, 9});
  Bytes cut = capture::test::read_request(1, {1, 2, size, 4, 5});
  cut.resize(cut.size() - 1);
  out.variants.push_back({"an octet shorter", item_of_stream(fpdu(cut), true)});
  return out;
}

Family atomic(bool response) {
  Family out{response ? "Atomic Responses" : "Atomic Requests", {}};
  const auto add = [&](std::string name, std::uint32_t id, std::uint32_t stag, std::uint64_t to, std::uint64_t value) {
    wire::DdpHeader h;
    h.opcode = response ? RdmapOpcode::atomic_response : RdmapOpcode::atomic_request;
    h.qn = response ? 3 : 1;
    h.msn = 1;
    Bytes body(response ? PARLEY_RDMAP_ATOMIC_RESPONSE_LEN : PARLEY_RDMAP_ATOMIC_REQUEST_LEN);
    if (response)
      wire::AtomicResponse{id, value}.emit(body);
    else
      wire::AtomicRequest{.aop = 0, .request_id = id, .stag = stag, .to = to, .add_swap = value}.emit(body);
    out.variants.push_back({std::move(name), item_of_stream(fpdu(segment(h, body)), true)});
  };
  add("as recorded", 1, 2, 3, 4);
  add("another identifier", 9, 2, 3, 4);
  add("another value", 1, 2, 3, 9);
  if (!response) add("another STag", 1, 9, 3, 4);
  if (!response) add("another TO", 1, 2, 9, 4);
  return out;
}

Family terminates() {
  Family out{"Terminates", {}};
  const auto add = [&](std::string name, const Bytes& body) {
    wire::DdpHeader h;
    h.opcode = RdmapOpcode::terminate;
    h.qn = 2;
    h.msn = 1;
    out.variants.push_back({std::move(name), item_of_stream(fpdu(segment(h, body)), true)});
  };
  add("as recorded", {0x12, 0x03, 0, 0});
  add("another layer", {0x02, 0x03, 0, 0});
  add("another type", {0x11, 0x03, 0, 0});
  add("another code", {0x12, 0x04, 0, 0});
  add("siw's order", {0x21, 0x03, 0x03, 0, 0, 18, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0});
  add("with a header", {0x12, 0x03, 0xC0, 0, 0, 18, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0});
  add("too short", {0x12, 0x03, 0});
  add("no such code", {0x5F, 0x77, 0, 0});
  return out;
}

std::string pair_text(const Item& recorded, const Item& live) {
  const auto found = compare(recorded, live, {});
  if (!found) return "same";
  std::string out = fmt::format("{} [{}]", found->what, found->rule);
  std::string ignorable;
  for (const std::string_view name : compared_names()) {
    Ignored ignored;
    ignored.set(static_cast<std::size_t>(*find_compared(name)));
    std::vector<Mismatch> told;
    if (compare(recorded, live, {}, 0, {ignored, &told})) continue;
    ignorable += fmt::format(" {}", name);
    EXPECT_FALSE(told.empty()) << "what is ignored is told";
    EXPECT_FALSE(compare(recorded, live, {}, 0, {ignored, nullptr}));
  }
  return ignorable.empty() ? out : out + " (same without:" + ignorable + ")";
}

TEST(ReplayCompare, EachDifferenceIsToldWithItsRuleAndWhatWouldIgnoreIt) {
  std::string out;
  for (const Family& f : {startups(), untagged(), invalidating(), tagged_messages(), empty_writes(), reads(16),
                          reads(0), atomic(false), atomic(true), terminates()}) {
    out += f.name + "\n";
    const Variant& base = f.variants.front();
    out += fmt::format("  {}: {}\n", base.name, describe(base.item));
    for (std::size_t i = 1; i < f.variants.size(); ++i) {
      const Variant& v = f.variants[i];
      out += fmt::format("  {}: {}\n    live: {}\n    recorded: {}\n", v.name, describe(v.item),
                         pair_text(base.item, v.item), pair_text(v.item, base.item));
    }
    EXPECT_FALSE(compare(base.item, base.item, {}));
  }
  expect_as_reviewed("replay_compare.txt", out);
}

TEST(ReplayCompare, FieldsAreFoundByNameInAnyCase) {
  for (std::size_t i = 0; i < compared_names().size(); ++i) {
    std::string upper(compared_names()[i]), lower = upper;
    for (char& c : upper) c = static_cast<char>(std::toupper(c));
    for (char& c : lower) c = static_cast<char>(std::tolower(c));
    EXPECT_EQ(find_compared(upper), static_cast<Compared>(i)) << upper;
    EXPECT_EQ(find_compared(lower), static_cast<Compared>(i)) << lower;
  }
  for (const char* none : {"", "X", "revisio", "revisionn", "[", "@", "pd-length"}) EXPECT_FALSE(find_compared(none));
}

TEST(ReplayCompare, NamesOfMemoryAndUnknownOctetsAreNotCompared) {
  const auto item = [](const Bytes& payload) {
    wire::DdpHeader h;
    h.msn = 1;
    return item_of_stream(fpdu(segment(h, payload)), true);
  };
  const Bytes zeros(24, 0);
  Field stag, to;
  stag.offset = 4;
  to.offset = 8;
  to.is_to = true;
  const std::array<Field, 2> both{to, stag};  // in any order
  for (std::size_t at = 0; at < zeros.size(); ++at) {
    Bytes other = zeros;
    other[at] = 1;
    const auto differs = [&](std::span<const Field> masks) {
      return compare(item(zeros), item(other), masks).has_value();
    };
    EXPECT_TRUE(differs({})) << at;
    EXPECT_EQ(differs(std::span(&stag, 1)), at < 4 || at >= 8) << at;
    EXPECT_EQ(differs(both), at < 4 || at >= 16) << at;
    Item holey = item(zeros);
    holey.unknown = {{2, 5}, {20, 24}};
    const bool known = at < 2 || (at >= 5 && at < 20);
    EXPECT_EQ(compare(holey, item(other), {}).has_value(), known) << at;
    EXPECT_EQ(compare(holey, item(other), both).has_value(), known && (at < 4 || at >= 16)) << at;
  }
}

TEST(ReplayCompare, MessagesThatWereNotSentAreNotCounted) {
  const auto item = [](std::uint32_t msn) { return item_of_stream(fpdu(capture::test::send_segment(msn, 0)), true); };
  EXPECT_FALSE(compare(item(5), item(3), {}, 2));
  EXPECT_EQ(compare(item(5), item(5), {}, 2)->what, "MSN 5, recorded was 5");
}

TEST(ReplayItems, OctetsAreShownAsFarAsTheyAreKnown) {
  const Bytes octets{0x4D, 0x50, 0x41, 0x00};
  EXPECT_EQ(hex(octets, 4, 4), "4d 50 41 00");
  EXPECT_EQ(hex(octets, 2, 4), "4d 50 ?? ??");
  EXPECT_EQ(hex(octets, 4, 3), "4d 50 41 .. (4 octets)");
  EXPECT_EQ(hex(octets, 0, 10), "?? ?? ?? ??");
  EXPECT_EQ(hex({}, 0, 10), "");
}

}  // namespace
}  // namespace parley::replay::test
