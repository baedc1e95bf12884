// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Structures that have grown since a program was compiled, and programs that are newer than the library.
#include "capi/options.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>

namespace parley::capi {
namespace {

/// As a structure of version 1.0 that version 1.1 has added to.
struct Grown {
  std::uint32_t size;
  std::uint32_t known;
  std::uint64_t added;
};
constexpr std::uint32_t old_size = 8;

}  // namespace

template <>
inline constexpr std::size_t first_size<Grown> = old_size;

namespace {

/// Memory in which what lies behind a structure can be seen.
struct Room {
  alignas(Grown) std::array<unsigned char, 64> octets;
  explicit Room(std::uint32_t size, std::uint32_t known = 7) {
    octets.fill(0xEE);
    std::memcpy(octets.data(), &size, sizeof size);
    std::memcpy(octets.data() + 4, &known, sizeof known);
  }
  Grown* as() { return reinterpret_cast<Grown*>(octets.data()); }
  std::size_t untouched_from() const {
    std::size_t end = octets.size();
    while (end > 0 && octets[end - 1] == 0xEE) --end;
    return end;
  }
};

TEST(CStructures, AnOldProgramsOptionsAreReadAsFarAsTheyGo) {
  Room room(old_size);
  Grown read{.size = sizeof(Grown), .known = 0, .added = 42};
  ASSERT_EQ(read_options(room.as(), read), 0) << parley_last_error();
  EXPECT_EQ(read.known, 7U);
  EXPECT_EQ(read.added, 42U) << "what the program does not know of keeps its default";
}

TEST(CStructures, AnOldProgramsAttributesAreFilledAsFarAsTheyGo) {
  Room room(old_size);
  ASSERT_EQ(write_attributes(room.as(), Grown{.size = sizeof(Grown), .known = 1, .added = ~0ULL}), 0);
  EXPECT_EQ(room.as()->size, old_size);
  EXPECT_EQ(room.as()->known, 1U);
  EXPECT_EQ(room.untouched_from(), old_size);
}

TEST(CStructures, ANewProgramsAttributesAreZeroedBeyondWhatIsKnown) {
  Room room(sizeof(Grown) + 16);
  ASSERT_EQ(write_attributes(room.as(), Grown{.size = sizeof(Grown), .known = 1, .added = 2}), 0);
  EXPECT_EQ(room.as()->added, 2U);
  EXPECT_EQ(room.octets[sizeof(Grown)], 0);
  EXPECT_EQ(room.untouched_from(), sizeof(Grown) + 16);
}

TEST(CStructures, ASizeThatNoVersionHadIsRefused) {
  for (const std::uint32_t size : {0U, 4U, old_size - 1, 4097U, ~0U}) {
    Room room(size);
    Grown read{};
    EXPECT_EQ(read_options(room.as(), read), -PARLEY_E_INVALID_ARGUMENT) << size;
    EXPECT_EQ(write_attributes(room.as(), Grown{}), -PARLEY_E_INVALID_ARGUMENT) << size;
    EXPECT_EQ(room.untouched_from(), old_size) << size;
  }
}

// Every structure that the library fills, in the hands of a program that has set no size, or one that is too small.
TEST(CStructures, NothingIsFilledWithoutASize) {
  parley_ctx* ctx = nullptr;
  ASSERT_EQ(parley_open(&ctx, nullptr), 0);
  parley_id id = 0;
  ASSERT_EQ(parley_listen(ctx, "127.0.0.1:0", nullptr, &id), 0);
  char memory[16];
  const auto refused = [](int rc) {
    EXPECT_EQ(rc, -PARLEY_E_INVALID_ARGUMENT);
    EXPECT_NE(std::string(parley_last_error()).find("size is "), std::string::npos) << parley_last_error();
  };
  parley_attr attr{};
  refused(parley_query(ctx, &attr));
  parley_id_attr id_attr{};
  refused(parley_query_id(ctx, id, &id_attr));
  parley_mr mr = PARLEY_MR_INIT, unset{};
  ASSERT_EQ(parley_reg_mr(ctx, memory, sizeof memory, PARLEY_ACCESS_LOCAL_WRITE, &mr), 0);
  const std::uint32_t place = mr.lkey >> 8;  // of the index that an STag has (RFC 5040 §4.1)
  ASSERT_EQ(parley_dereg_mr(ctx, mr.lkey), 0);
  refused(parley_reg_mr(ctx, memory, sizeof memory, PARLEY_ACCESS_LOCAL_WRITE, &unset));
  ASSERT_EQ(parley_reg_mr(ctx, memory, sizeof memory, PARLEY_ACCESS_LOCAL_WRITE, &mr), 0);
  EXPECT_EQ(mr.lkey >> 8, place) << "what was refused is not registered";
  parley_wc wc{};
  refused(parley_poll_cq(ctx, 0, &wc, 1, sizeof wc - 1));
  refused(parley_poll_cq(ctx, 0, &wc, 1, SIZE_MAX));
  ASSERT_EQ(parley_wait(ctx, 20'000), 1);
  parley_event event{};
  refused(parley_next_event(ctx, &event));
  event.size = sizeof event;
  EXPECT_EQ(parley_next_event(ctx, &event), 1) << "it is still there";
  EXPECT_EQ(event.type, PARLEY_EVENT_LISTENING);
  EXPECT_EQ(parley_close(ctx), 0);
}

}  // namespace
}  // namespace parley::capi
