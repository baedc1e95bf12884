// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Why a connection failed or ended, in terms that every transport shares.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

namespace parley::cm {

/// How far a connection had progressed, in terms that every transport shares.
enum class Stage : std::uint8_t {
  resolve,    ///< the peer's name, and the device that reaches it
  route,      ///< the path to the peer
  transport,  ///< the layer below the set-up: iWARP's TCP connection
  request,    ///< the Request (MPA Request, CM REQ) sent or awaited
  decision,   ///< the responder's ULP decides
  reply,      ///< the Reply (MPA Reply, CM REP or REJ) awaited
  ready,      ///< the ready-to-receive (RTR of iWARP, CM RTU) sent or awaited
  data,
  closing,
};
/// The name of the enumerator: "resolve", "route", ... Stable, for programs.
std::string_view to_string(Stage stage);

/// A step of one transport's set-up: a stage in that transport's terms. All texts have static lifetime.
struct Step {
  Stage stage = Stage::data;
  std::string_view name = "data";           ///< stable, for programs: "wait_reply"
  std::string_view text = "transfer data";  ///< for people: "wait for the MPA Reply"
  std::string_view preposition = "with";    ///< joins `text` and the peer's name: "from"
  bool operator==(const Step&) const = default;
};

/// Steps that all transports share.
namespace step {
inline constexpr Step resolve{Stage::resolve, "resolve", "resolve the name", "of"};
inline constexpr Step data{};
inline constexpr Step closing{Stage::closing, "closing", "close the connection", "with"};
}  // namespace step

/// Why something failed. Every failure event carries one.
struct Failure {
  Step step{};  ///< what this side was doing
  std::error_code code{};
  std::string rule{};        ///< "RFC 5044 §7.1.1"; empty if no rule was broken
  std::string received{};    ///< what the peer sent or did: "PD_Length 600", "FIN", "nothing for 5 s"
  std::string advice{};      ///< a suggestion
  std::uint64_t offset = 0;  ///< octet of the peer's stream where the failure was detected
  Stage stage() const { return step.stage; }
  /// "wait for the MPA Reply from 192.0.2.1:7471: peer reset the connection [RFC 6581 §10]; try revision 1"
  std::string to_string(std::string_view peer = {}) const;
};

}  // namespace parley::cm
