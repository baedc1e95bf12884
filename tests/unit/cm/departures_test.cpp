// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Each known departure of wire/ib/quirks.cpp: what a peer sees of who plays it, and of who does not.
#include "tests/unit/cm/departures_cm.hpp"
#include "tests/unit/cm/departures_data.hpp"

namespace parley::departures_test {
namespace {

namespace agent = cm::ibcm::departures;
namespace device = nic::roce::test::departures;
namespace host = packet_net::departures;
using wire::ib::Departure;
using wire::ib::DepartureSet;

struct Row {
  std::string (*look)(DepartureSet play);
  std::string_view without, with;
};

/// A departure that has no row does not compile.
std::vector<Row> rows_of(Departure what) {
  using enum Departure;
  switch (what) {
    case forgets_in_timewait: return {{agent::late_req, "REJ 10", "REP"}};
    case leaves_rep_to_timer: return {{agent::req_again, "REP", "nothing"}};
    case drops_unknown_rep: return {{agent::rep_for_nobody, "REJ 6", "nothing"}};
    case drops_class_version: return {{agent::other_class_version, "REJ 31", "nothing"}};
    case rejects_service_type: return {{agent::reliable_datagram, "REJ 9", "REJ 28"}};
    case takes_path_mtu:
      return {{agent::path_mtu, "REJ 26, REJ 26", "REP, nothing"}, {host::path_mtu, "REJ, REJ", "REP, REP"}};
    case drops_when_full: return {{host::full_backlog, "MRA", "nothing"}};
    case gives_up_in_silence: return {{agent::giving_up, "1 of the REQ, 1 of the REP", "0 of the REQ, 0 of the REP"}};
    case forgets_rejected: return {{agent::rejected_req_again, "the same, the same", "another, another"}};
    case counts_milliseconds: return {{agent::wait_for_answer, "6442 ms", "6144 ms"}};
    case drops_lap: return {{agent::lap_for_nobody, "APR", "nothing"}};
    case takes_any_source: return {{agent::dreq_from_elsewhere, "nothing", "DREP"}};
    case takes_short_mad: return {{device::short_mad, "dropped", "taken"}};
    case looks_read_up_again: return {{device::read_again, "data 100, then data 100", "data 100, then NAK 100"}};
    case takes_short_first: return {{device::short_first, "NAK 100", "ACK 100"}};
    case retries_for_ever: return {{device::retries, "8 sendings", "for ever"}};
    case slow_rnr_timer: return {{host::not_ready, "RNR NAK, 0.64 ms", "RNR NAK, 655.36 ms"}};
    case acks_one_by_one: return {{device::acks, "1 of 20", "20 of 20"}};
    case sets_reserved_bit: return {{device::congestion_octets, "request 00, answer 00", "request 10, answer 00"}};
  }
  return {};
}

class Departures : public testing::TestWithParam<Departure> {};

TEST_P(Departures, ShowsItselfToAPeer) {
  for (const Row& row : rows_of(GetParam())) {
    EXPECT_EQ(row.look({}), row.without);
    EXPECT_EQ(row.look({GetParam()}), row.with);
  }
}

// The table of facts has those of the enumeration, and all of them are above.
TEST(DeparturesTable, HasThemAll) {
  constexpr unsigned most = 32;  // in a DepartureSet
  std::size_t known = 0;
  for (unsigned value = 0; value < most; ++value) known += rows_of(static_cast<Departure>(value)).empty() ? 0 : 1;
  EXPECT_EQ(known, wire::ib::all_departures().size());
  for (const wire::ib::DepartureFacts& facts : wire::ib::all_departures())
    EXPECT_EQ(&wire::ib::facts_of(facts.what), &facts) << facts.name;
}

std::vector<Departure> all_of_them() {
  std::vector<Departure> out;
  for (const wire::ib::DepartureFacts& facts : wire::ib::all_departures()) out.push_back(facts.what);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Each, Departures, testing::ValuesIn(all_of_them()), [](const auto& info) {
  std::string out(wire::ib::facts_of(info.param).name);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
});

}  // namespace
}  // namespace parley::departures_test
