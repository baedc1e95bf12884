// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <gtest/gtest.h>

#include <string_view>

#include "mpa/crc32c.hpp"
#include "tests/unit/mpa/fpdu_reference.hpp"

namespace parley::mpa {
namespace {

using namespace std::string_view_literals;

constexpr CrcPath all_paths[] = {CrcPath::automatic, CrcPath::isal, CrcPath::sse42, CrcPath::portable,
                                 CrcPath::vpclmul};

class CrcOnPath : public testing::TestWithParam<CrcPath> {
 protected:
  static std::uint32_t crc(ConstBytes in) { return crc32c_final(crc32c_extend_by(GetParam(), crc32c_init, in)); }
};

std::string path_name(const testing::TestParamInfo<CrcPath>& info) {
  static constexpr const char* names[] = {"automatic", "isal", "sse42", "portable", "vpclmul"};
  return names[static_cast<std::size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Every, CrcOnPath, testing::ValuesIn(all_paths), path_name);

Bytes octets_of(std::string_view text) { return {text.begin(), text.end()}; }

// RFC 5044 §4.4: the CRC of iSCSI, so the examples of RFC 3720 §B.4 hold.
TEST_P(CrcOnPath, GivesThePublishedValues) {
  Bytes up(32), down(32);
  for (std::size_t i = 0; i < 32; ++i) {
    up[i] = static_cast<std::uint8_t>(i);
    down[i] = static_cast<std::uint8_t>(31 - i);
  }
  EXPECT_EQ(crc(octets_of("123456789")), 0xE3069283U);
  EXPECT_EQ(crc(Bytes(32, 0x00)), 0x8A9136AAU);
  EXPECT_EQ(crc(Bytes(32, 0xFF)), 0x62A8AB43U);
  EXPECT_EQ(crc(up), 0x46DD794EU);
  EXPECT_EQ(crc(down), 0x113FDB5CU);
  EXPECT_EQ(crc({}), 0U);
}

TEST_P(CrcOnPath, AgreesWithTheBitwiseDefinitionForEveryLength) {
  const Bytes data = reference::octets(1500, 44);
  for (std::size_t size = 0; size <= data.size(); ++size) {
    const auto in = ConstBytes(data).first(size);
    ASSERT_EQ(crc(in), reference::crc_bitwise(in)) << size << " octets";
  }
}

TEST_P(CrcOnPath, DoesNotDependOnAlignment) {
  const Bytes data = reference::octets(1500 + 64, 4);
  for (std::size_t shift = 0; shift < 64; ++shift)
    for (std::size_t size = 0; size <= 1500; size += shift % 8 == 0 ? 1 : 7) {
      const auto in = ConstBytes(data).subspan(shift, size);
      ASSERT_EQ(crc(in), crc32c_final(crc32c_extend_by(CrcPath::portable, crc32c_init, in))) << size << " at " << shift;
    }
}

TEST_P(CrcOnPath, ExtendsAcrossEveryCut) {
  const Bytes data = reference::octets(700, 5);
  const std::uint32_t whole = reference::crc_bitwise(data);
  for (std::size_t cut = 0; cut <= data.size(); ++cut) {
    const std::uint32_t head = crc32c_extend_by(GetParam(), crc32c_init, ConstBytes(data).first(cut));
    ASSERT_EQ(crc32c_final(crc32c_extend_by(GetParam(), head, ConstBytes(data).subspan(cut))), whole)
        << "cut at " << cut;
  }
}

TEST_P(CrcOnPath, TakesLongInputs) {
  for (const std::size_t size : {3071U, 3072U, 3073U, 65288U, 1048583U}) {
    const Bytes data = reference::octets(size, size);
    EXPECT_EQ(crc(data), crc32c_final(crc32c_extend_by(CrcPath::portable, crc32c_init, data))) << size;
  }
}

TEST(Crc, PathIsAvailableWhereThisProgramWasBuiltForIt) {
  EXPECT_TRUE(crc_path_available(CrcPath::automatic));
  EXPECT_TRUE(crc_path_available(CrcPath::portable));
#if defined(__x86_64__)
  EXPECT_EQ(crc_path_available(CrcPath::sse42), __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"));
#else
  EXPECT_FALSE(crc_path_available(CrcPath::sse42));
#endif
}

TEST_P(CrcOnPath, CopyingExtendsOverWhatItWritesAndTouchesNothingElse) {
  const Bytes data = reference::octets(7000 + 64, 6);
  // Every length of a small FPDU, then some of long ones.
  for (std::size_t size = 0; size <= 7000; size += size < 1500 ? 1 : 97) {
    const std::size_t from = size % 61, to = size % 67;
    Bytes out(size + 67 + 64, 0xA5);
    const auto in = ConstBytes(data).subspan(from, size);
    ASSERT_EQ(crc32c_final(crc32c_copy_by(GetParam(), crc32c_init, out.data() + to, in)), reference::crc_bitwise(in))
        << size;
    Bytes expected(out.size(), 0xA5);
    std::copy(in.begin(), in.end(), expected.begin() + static_cast<std::ptrdiff_t>(to));
    ASSERT_EQ(out, expected) << size;
  }
}

TEST(Crc, ExtendsOverThePadOfAnFpdu) {
  for (std::size_t count = 0; count <= 3; ++count)
    for (const std::uint32_t state : {0U, 1U, 0x80000000U, 0x12345678U, crc32c_init})
      EXPECT_EQ(crc32c_zeros(state, count), crc32c_extend_by(CrcPath::portable, state, Bytes(count))) << count;
}

// The value is the same by any kernel; what is chosen decides how fast it comes.
TEST(Crc, AutomaticTakesTheFastestKernelThatIsThere) {
  for (const bool isal : {false, true})
    for (const bool sse42 : {false, true}) {
      const CrcChoice wide = crc_choice(true, isal, sse42);  // a CPU with VPCLMULQDQ has SSE4.2
      EXPECT_EQ(wide.name, "vpclmul+sse42");
      EXPECT_EQ(wide.long_input, CrcPath::vpclmul);
      EXPECT_EQ(wide.short_input, CrcPath::sse42);
      EXPECT_EQ(wide.long_from, 96U);
      EXPECT_TRUE(wide.copies);
      EXPECT_EQ(wide.copy_from, 96U);
    }
  const CrcChoice both = crc_choice(false, true, true);
  EXPECT_EQ(both.name, "isal+sse42");
  EXPECT_EQ(both.short_input, CrcPath::sse42);
  EXPECT_EQ(both.long_input, CrcPath::isal);
  EXPECT_EQ(both.long_from, 256U);
  EXPECT_TRUE(both.copies);
  EXPECT_EQ(both.copy_from, 384U);
  const CrcChoice narrow = crc_choice(false, false, true);
  EXPECT_EQ(narrow.name, "sse42");
  EXPECT_EQ(narrow.short_input, CrcPath::sse42);
  EXPECT_EQ(narrow.long_input, CrcPath::sse42);
  EXPECT_TRUE(narrow.copies);
  EXPECT_EQ(narrow.copy_from, 384U);
  for (const bool isal : {false, true}) {
    const CrcChoice plain = crc_choice(false, isal, false);
    EXPECT_EQ(plain.name, isal ? "isal" : "portable");
    EXPECT_EQ(plain.short_input, isal ? CrcPath::isal : CrcPath::portable);
    EXPECT_EQ(plain.long_input, isal ? CrcPath::isal : CrcPath::portable);
    EXPECT_FALSE(plain.copies);
  }
}

TEST(Crc, AutomaticNamesWhatItUses) {
  const bool isal = crc_path_available(CrcPath::isal), sse42 = crc_path_available(CrcPath::sse42);
  const auto narrow = isal ? (sse42 ? "isal+sse42"sv : "isal"sv) : (sse42 ? "sse42"sv : "portable"sv);
  EXPECT_EQ(crc_path_name(), crc_path_available(CrcPath::vpclmul) ? "vpclmul+sse42"sv : narrow);
}

}  // namespace
}  // namespace parley::mpa
