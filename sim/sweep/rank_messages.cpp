// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/sweep/rank_messages.hpp"

#include "sim/sweep/packing.hpp"
#include "sim/sweep/report_record.hpp"
#include "sim/sweep/shard.hpp"
#include "sim/sweep/sweep.hpp"

namespace parley::sim::ranks {
namespace {

constexpr std::uint64_t magic = 0x7061726C65793031;  ///< "parley01": in Hello, so that other programs are noticed
constexpr std::size_t name_max = 4096;

void pack(Packer& out, const Chunk& chunk) {
  out.number(chunk.first);
  out.number(chunk.count);
}
Chunk unpack_chunk(Unpacker& in) {
  Chunk chunk;
  chunk.first = in.number();
  chunk.count = in.number(rank_chunk_max);
  return chunk;
}
bool possible(const Chunk& chunk) { return chunk.count > 0 && chunk.first <= ~(chunk.count - 1); }

void pack(Packer& out, const Hello& m) {
  out.number(magic);
  out.text(std::string_view(m.build).substr(0, name_max));
  out.text(std::string_view(m.host).substr(0, name_max));
  out.number(m.jobs);
}
void pack(Packer& out, const Work& m) {
  out.octets(m.sweep);
  out.number(m.shard_number);
  out.number(m.shard_count);
}
void pack(Packer& out, const Assignment& m) { pack(out, m.chunk); }
void pack(Packer& out, const Results& m) {
  pack(out, m.chunk);
  out.time(m.took);
  for (const Bytes& record : m.records) out.octets(record);
}
void pack(Packer&, const Alive&) {}
void pack(Packer& out, const Failure& m) { out.text(std::string_view(m.text).substr(0, name_max)); }
void pack(Packer& out, const Done& m) { out.flag(m.together); }

std::optional<RankMessage> unpack_results(Unpacker& in) {
  Results m;
  m.chunk = unpack_chunk(in);
  m.took = in.time();
  for (std::uint64_t i = 0; i < m.chunk.count && in.ok(); ++i) {
    const ConstBytes record = in.octets(report_record_max);
    m.records.emplace_back(record.begin(), record.end());
  }
  return possible(m.chunk) ? std::optional<RankMessage>(std::move(m)) : std::nullopt;
}

std::optional<RankMessage> unpack(Unpacker& in, std::uint64_t kind) {
  switch (kind) {
    case 0: {
      if (in.number() != magic) return std::nullopt;
      Hello m;
      m.build = in.line(name_max);
      m.host = in.line(name_max);
      m.jobs = static_cast<std::uint32_t>(in.number(rank_jobs_max));
      return m.jobs > 0 ? std::optional<RankMessage>(std::move(m)) : std::nullopt;
    }
    case 1: {
      Work m;
      const ConstBytes sweep = in.octets(sweep_octets_max);
      m.sweep.assign(sweep.begin(), sweep.end());
      m.shard_number = in.number(shards_max);
      m.shard_count = in.number(shards_max);
      return m.shard_number > 0 && m.shard_number <= m.shard_count ? std::optional<RankMessage>(std::move(m))
                                                                   : std::nullopt;
    }
    case 2: {
      const Chunk chunk = unpack_chunk(in);
      return possible(chunk) ? std::optional<RankMessage>(Assignment{chunk}) : std::nullopt;
    }
    case 3: return unpack_results(in);
    case 4: return Alive{};
    case 5: return Failure{in.text(name_max)};
    default: return Done{in.flag()};
  }
}

}  // namespace

Bytes encode_message(const RankMessage& message) {
  Packer out;
  out.number(message.index());
  std::visit([&out](const auto& m) { pack(out, m); }, message);
  return out.take();
}

std::optional<RankMessage> decode_message(ConstBytes octets) {
  if (octets.size() > rank_message_max) return std::nullopt;
  Unpacker in(octets);
  const std::uint64_t kind = in.number(std::variant_size_v<RankMessage> - 1);
  if (!in.ok()) return std::nullopt;
  auto message = unpack(in, kind);
  return in.at_end() ? std::move(message) : std::nullopt;
}

}  // namespace parley::sim::ranks
