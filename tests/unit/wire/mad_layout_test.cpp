// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The tables of management datagrams, held against lists of offsets: no edit of a header moves a member unseen (docs/mad.md).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <sstream>

#include "wire/mad/layout.hpp"
#include "wire/mad/rpc.hpp"
#include "wire/mad/sa.hpp"

namespace parley::wire::mad::mad_layout_test {
namespace {

struct Told {
  std::string name;
  std::size_t octets = 0;
  unsigned attribute = 0;
  std::vector<std::string> members;  // "lid 16.0 16x1", in order
};

std::vector<std::string> lines_of(const std::string& name) {
  std::ifstream in(PARLEY_SOURCE_DIR "/tests/vectors/" + name);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#') out.push_back(line);
  return out;
}

std::vector<Told> documented_structures() {
  std::vector<Told> out;
  for (const std::string& line : lines_of("mad_layouts.txt")) {
    if (line.starts_with("  ")) {
      out.back().members.push_back(line.substr(2));
      continue;
    }
    Told told;
    std::string attribute;
    std::istringstream(line) >> told.name >> told.octets >> attribute;
    told.attribute = static_cast<unsigned>(std::stoul(attribute, nullptr, 16));
    out.push_back(told);
  }
  return out;
}

/// The bits of a list's member, and its name; reserved ones are "-".
struct Span {
  std::string name;
  std::size_t bit = 0, width = 0, count = 0;
};
Span span_of(const std::string& member) {
  Span span;
  std::size_t octet = 0, bit = 0;
  char dot = 0, x = 0;
  std::istringstream(member) >> span.name >> octet >> dot >> bit >> span.width >> x >> span.count;
  span.bit = octet * 8 + bit;
  return span;
}

TEST(MadLayouts, AreThoseOfTheSpecification) {
  const auto told = documented_structures();
  ASSERT_EQ(told.size(), all_layouts().size());
  std::size_t members = 0;
  for (const Told& structure : told) {
    const Layout* layout = find_layout(structure.name);
    ASSERT_NE(layout, nullptr) << structure.name;
    EXPECT_EQ(layout->octets, structure.octets) << structure.name;
    EXPECT_EQ(layout->attribute, structure.attribute) << structure.name;
    std::size_t ours = 0, theirs = 0;
    for (const Field& field : layout->fields) ours += field.reserved() ? 0 : 1;
    for (const std::string& member : structure.members) {
      const Span span = span_of(member);
      if (span.name == "-") continue;
      ++theirs;
      const Field* field = find_field(*layout, span.name);
      ASSERT_NE(field, nullptr) << structure.name << " " << member;
      EXPECT_EQ(field->bit, span.bit) << structure.name << " " << member;
      EXPECT_EQ(field->bits(), span.width * span.count) << structure.name << " " << member;
      // What has more than 64 bits and is no GID is an array of octets here.
      EXPECT_TRUE(field->kind == Kind::octets || field->count == span.count) << structure.name << " " << member;
    }
    EXPECT_EQ(ours, theirs) << structure.name << ": members beside those of the specification";
    members += theirs;
  }
  EXPECT_EQ(told.size(), 147U);
  EXPECT_GT(members, 700U);
}

/// What a record's members are called in the list of components, by bit; nested ones one level deep.
std::map<std::size_t, std::string> components(const Layout& record) {
  std::map<std::size_t, std::string> out;
  const auto note = [&out](const Components& bits, const std::string& name, const Field& field) {
    if (field.reserved()) return;
    for (std::size_t i = 0; i < bits.count; ++i)
      out[bits.first + i] = field.kind == Kind::service_data ? fmt::format("{}[{}]", name, i) : name;
  };
  for (const Field& field : record.fields) {
    if (field.nested == nullptr || field.count > 1) {
      note(components_of(record, field.bit), field.name, field);
      continue;
    }
    for (const Field& inner : field.nested->fields) {
      const std::size_t bit = inner.bit;
      note(components_of(record, field.bit, &bit), fmt::format("{}.{}", field.name, inner.name), inner);
    }
  }
  return out;
}

// IBA §15.4.4, C15-0.1.27.
TEST(MadLayouts, HaveTheComponentBitsOfTheSpecification) {
  const auto lines = lines_of("mad_component_masks.txt");
  ASSERT_EQ(lines.size(), 16U);
  for (const std::string& line : lines) {
    std::istringstream in(line);
    std::string name, token;
    in >> name;
    const Layout* record = find_layout(name);
    ASSERT_NE(record, nullptr) << name;
    std::map<std::size_t, std::string> told;
    while (in >> token) told[std::stoul(token)] = token.substr(token.find(':') + 1);
    EXPECT_EQ(components(*record), told) << name;
    for (const auto& [bit, member] : told)
      EXPECT_EQ(component_names(*record, 1ULL << bit), std::vector<std::string>{member}) << name << " " << bit;
  }
}

/// Each row of the table of RPCs has an attribute ID, and no class has two attributes with the same.
TEST(MadLayouts, GiveEachAttributeOfAClassItsOwnNumber) {
  std::map<std::pair<MgmtClass, unsigned>, std::string_view> seen;
  for (const LegalRow& row : legal_rows) {
    const Layout& layout = *all_layouts()[static_cast<std::size_t>(row.structure)];
    EXPECT_NE(layout.attribute, 0) << layout.name;
    EXPECT_NE(row.methods, 0U) << layout.name;
    const auto [at, fresh] = seen.try_emplace({row.mgmt_class, layout.attribute}, layout.name);
    EXPECT_TRUE(fresh || row.mgmt_class == MgmtClass::vendor) << layout.name << " and " << at->second;
  }
}

}  // namespace
}  // namespace parley::wire::mad::mad_layout_test
