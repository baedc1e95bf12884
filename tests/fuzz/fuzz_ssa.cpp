// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A database from a parent that sends any octets: whole messages with right CRCs and numbers whose payload is drawn, cut anywhere. The loader
// ends with an error or with a snapshot whose records can all be read, and the snapshot that it changes stays as it was.
#include "base/bytes_io.hpp"
#include "mpa/crc32c.hpp"
#include "ssa/loader.hpp"
#include "ssa/message.hpp"
#include "ssa/writer.hpp"
#include "tests/fuzz/draw.hpp"

namespace parley::fuzz {
namespace {

using namespace ssa;

/// A small database in two versions: the second changes records and variable parts of the first.
struct Versions {
  SnapshotPtr first, second;
  Versions() {
    DatabaseWriter writer = *DatabaseWriter::create({{{"LINK", 12, no_variable_part}, {"PORT", 20, 4}}}, 7);
    for (std::uint8_t i = 0; i < 70; ++i) {
      PARLEY_ASSERT(writer.insert(0, Bytes(12, i)).has_value());
      PARLEY_ASSERT(writer.insert(1, Bytes(20, i), Bytes(i, i)).has_value());
    }
    first = writer.commit();
    PARLEY_ASSERT(writer.update(1, 65, Bytes(20, 1), Bytes(9, 1)).has_value());
    PARLEY_ASSERT(writer.erase(0, 3).has_value());
    second = writer.commit();
  }
};

std::size_t read_all(const Snapshot& snapshot) {
  std::size_t octets = 0;
  for (std::size_t t = 0; t < snapshot.tables().size(); ++t)
    snapshot.each(t, [&](RecordId id, ConstBytes record) {
      PARLEY_ASSERT(snapshot.record(t, id).data() == record.data());
      for (const std::uint8_t octet : snapshot.variable(t, id)) octets += octet == 0 ? 1 : 2;
    });
  return octets;
}

/// A right header, length, number and CRC.
void seal(Bytes& message, std::uint32_t number) {
  message.resize(std::max(message.size(), stream_header_octets + stream_crc_octets));
  store(message.data() + 24, static_cast<std::uint32_t>(message.size()), std::endian::big);
  store(message.data() + 28, number, std::endian::big);
  const ConstBytes body = ConstBytes(message).first(message.size() - stream_crc_octets);
  store(message.data() + body.size(), mpa::crc32c(body), std::endian::big);
}

void run(ConstBytes in) {
  static const Versions versions;
  static const std::size_t before = read_all(*versions.first);
  (void)parse_message(in);
  Draw draw(in);
  StreamSource source =
      draw.bit() ? StreamSource(versions.second) : StreamSource(versions.second, versions.first->epoch());
  Loader loader(versions.first, {.octets_max = 1 << 20});
  Result<bool> fed = false;
  Bytes message;
  for (std::uint32_t number = 0; fed && source.next(message); ++number) {
    for (unsigned changes = draw.u8() % 4; changes > 0; --changes) {
      const std::size_t at = draw.u16() % message.size();
      message[at] = draw.u8();
    }
    if (draw.u8() == 1) message.resize(draw.u16() % message.size());
    seal(message, number);
    fed = loader.feed(message);
  }
  if (fed && *fed) (void)read_all(*loader.take());
  Loader raw(versions.first);
  const auto any = raw.feed(draw.rest());
  PARLEY_ASSERT(!any || !*any);
  PARLEY_ASSERT(read_all(*versions.first) == before);
}

}  // namespace
}  // namespace parley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parley::fuzz::run({data, size});
  return 0;
}
