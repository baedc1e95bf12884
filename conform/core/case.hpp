// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A conformance case: a stimulus for a live iWARP peer, and the response that the RFC requires. The cases are tables,
// one per topic; each case has a coroutine of a few lines that uses a Tester.
// RFC 5044, RFC 5041, RFC 5040, RFC 6581, RFC 7306, OFA 2007-10 Rtr.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tester/task.hpp"

namespace parley::conform {

class Tester;

/// The role of the implementation under test; the tester takes the other one.
enum class Iut : std::uint8_t { responder, initiator };
enum class Level : std::uint8_t { must, should, may };
enum class Verdict : std::uint8_t {
  pass,
  fail,
  inconclusive,  ///< the peer, or the program above it, did not do what the case needs
  not_run,       ///< not selected, destructive, or not testable on a live peer
};
std::string_view to_string(Iut iut);
std::string_view to_string(Level level);      ///< "MUST"
std::string_view to_string(Verdict verdict);  ///< "not run"

/// What a case found. The text holds no times, ports, addresses or STags, so that two runs can be compared.
struct Observation {
  Verdict verdict = Verdict::inconclusive;
  std::string observed;
  bool silent = false;  ///< the verdict rests on silence alone: the runner repeats the case once
};

struct Case {
  std::string_view row;   ///< in the table of docs/conform.md: "52"; "+" and a number for cases beyond it
  std::string_view name;  ///< kebab-case, unique per Iut
  Iut iut = Iut::responder;
  std::string_view clause;  ///< "RFC 5044 §7.1.1"
  Level level = Level::must;
  bool destructive = false;  ///< has crashed a known peer
  std::string_view stimulus, expected;
  tester::Task<Observation> (*run)(Tester& tester) = nullptr;  ///< null: not testable live, `expected` says why
};

std::span<const Case> startup_cases();    ///< the Request and its answer
std::span<const Case> enhanced_cases();   ///< RFC 6581 and the Rtr frame, responder
std::span<const Case> initiator_cases();  ///< the Reply and what follows
std::span<const Case> framing_cases();    ///< FPDUs, markers, CRC
std::span<const Case> rdmap_cases();      ///< DDP and RDMAP
std::span<const Case> order_cases();      ///< segments out of order
/// All cases for that role, in the order of the table.
std::vector<const Case*> cases(Iut iut);

}  // namespace parley::conform
