// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A database that is changed at random, and a model of what is in it.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "base/rng.hpp"
#include "ssa/loader.hpp"
#include "ssa/writer.hpp"

namespace parley::ssa {

inline constexpr std::size_t links = 0, ports = 1;  // tables

/// One table of 12 octets a record, and one of 20 of which 8 refer to a variable part.
inline Schema two_tables() { return {{{"LINK", 12, no_variable_part}, {"PORT", 20, 4}}}; }

struct Model {
  struct Row {
    Bytes record, variable;
    bool operator==(const Row&) const = default;
  };
  std::map<std::pair<std::size_t, RecordId>, Row> rows;

  bool operator==(const Model&) const = default;
};

/// What a reader sees, without the references.
inline Model seen(const Snapshot& snapshot) {
  Model out;
  for (std::size_t t = 0; t < snapshot.tables().size(); ++t) {
    const TableDef& def = snapshot.schema().tables[t];
    snapshot.each(t, [&](RecordId id, ConstBytes record) {
      Bytes octets(record.begin(), record.end());
      if (def.has_variable_part()) std::fill_n(octets.begin() + def.ref_at, 8, std::uint8_t{0});
      const ConstBytes variable = snapshot.variable(t, id);
      out.rows[{t, id}] = {octets, Bytes(variable.begin(), variable.end())};
    });
  }
  return out;
}

/// A DatabaseWriter under random changes.
struct Drawn {
  explicit Drawn(std::uint64_t seed, std::uint32_t incarnation = 7)
      : rng(seed), writer(*DatabaseWriter::create(two_tables(), incarnation)) {}

  Rng rng;
  DatabaseWriter writer;
  Model model;

  Bytes octets(std::size_t size) {
    Bytes out(size);
    for (std::uint8_t& octet : out) octet = static_cast<std::uint8_t>(rng.next());
    return out;
  }
  Model::Row row(std::size_t table) {
    Model::Row out{octets(table == links ? 12 : 20), {}};
    if (table == links) return out;
    std::fill_n(out.record.begin() + 4, 8, std::uint8_t{0});
    out.variable = octets(rng.below(20) == 0 ? segment_octets - rng.below(3) : rng.below(200));
    return out;
  }
  void change() {
    const std::size_t table = rng.below(2);
    const auto at = model.rows.empty()
                        ? model.rows.end()
                        : std::next(model.rows.begin(), static_cast<std::ptrdiff_t>(rng.below(model.rows.size())));
    if (at == model.rows.end() || rng.below(2) == 0) {
      const Model::Row fresh = row(table);
      const auto id = writer.insert(table, fresh.record, fresh.variable);
      ASSERT_TRUE(id) << id.error().message();
      ASSERT_TRUE(model.rows.try_emplace({table, *id}, fresh).second) << "an id of two records";
    } else if (rng.below(2) == 0) {
      at->second = row(at->first.first);
      ASSERT_TRUE(writer.update(at->first.first, at->first.second, at->second.record, at->second.variable));
    } else {
      ASSERT_TRUE(writer.erase(at->first.first, at->first.second));
      model.rows.erase(at);
    }
  }
  SnapshotPtr commit(std::size_t changes) {
    for (std::size_t i = 0; i < changes; ++i) change();
    return writer.commit();
  }
};

/// The snapshot that a node gets whose parent sends `source`, cut into pieces of `piece` octets.
inline Result<SnapshotPtr> load_from(SnapshotPtr base, StreamSource source, std::size_t piece = 1000) {
  const Bytes stream = whole_stream(std::move(source));
  Loader loader(std::move(base));
  for (std::size_t at = 0; at < stream.size(); at += piece) {
    const auto fed = loader.feed(ConstBytes(stream).subspan(at, std::min(piece, stream.size() - at)));
    if (!fed) return tl::unexpected(fed.error());
    EXPECT_EQ(*fed, at + piece >= stream.size());
  }
  return loader.take();
}

}  // namespace parley::ssa
