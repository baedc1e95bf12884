// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Datagrams to multicast groups, as plain data: who sent which, what came over the link of each host and when, and what the queue
// pairs there delivered. Judged from the wire: what comes to a host while one of its queue pairs is a member is delivered there
// once, what comes before it joined or after it left never is, and a datagram is missing on a link only where a fault, or a full
// queue, took it.
#pragma once
#include <compare>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/gid.hpp"
#include "sim/check/judge.hpp"

namespace parley::sim::check {

/// The queue pair of a [[send]] in one life of its host. Its first datagram has PSN 0, the next one PSN 1.
struct GroupSource {
  std::uint32_t send = 0;  ///< index in Scenario::sends
  std::string host;
  Address group{};
  std::uint32_t first = 0;              ///< which message of the send its first datagram is
  std::vector<Instant> posted{};        ///< by PSN
  std::vector<Instant> left{};          ///< by PSN: it was put on the host's link; never: not yet
  Instant touched_at = Instant::min();  ///< its host crashed, paused or came back, the last time
};

/// A queue pair that is a member for some time, or that never is and listens all the same.
struct GroupEar {
  struct Stay {
    Instant from{}, to = never;
  };
  std::string label, host;
  Address group{};
  std::vector<Stay> stays{};
  Instant touched_at = Instant::min();
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> heard{};  ///< how often: send, and its message
  std::uint64_t octets = 0;
};

class GroupHistory {
 public:
  std::vector<GroupSource> sources;
  std::vector<GroupEar> ears;
  bool forged = false;  ///< a fault made other datagrams of some, which their receivers may believe

  /// `gid` is one of the host's.
  void add_host(const Gid& gid, const std::string& host) { host_of_[gid] = host; }
  /// The queue pair of a source.
  void name_source(const std::string& host, std::uint32_t qpn, std::uint32_t source) { by_qpn_[{host, qpn}] = source; }
  /// A frame at an end of a link. `here` and `there`: the hosts at this end and at the other; null: a switch.
  void frame(const TapFrame& frame, const std::string* here, const std::string* there);
  /// Crash, pause, and their ends; an empty name is every host's.
  void touch(const std::string& host, Instant at);
  /// Why nothing is judged yet: a datagram that may still come; empty: none. Cheap when called again and again.
  std::string waits_for();
  /// Something was posted, joined or left since waits_for() began.
  void changed() { waiting_known_ = false; }
  /// After everything that was posted has come or is lost.
  void judge(Instant now, Judge& judge) const;

 private:
  struct Place {
    std::uint32_t source = 0, psn = 0;
    std::string host;  ///< empty: every host
    auto operator<=>(const Place&) const = default;
  };
  struct Arrival {
    Instant at{};
    std::uint32_t copies = 0;
  };
  /// How a datagram stands to a queue pair of its group.
  struct Standing {
    bool excused = false;  ///< a fault may have lost it
    bool came = false;     ///< to the ear's host
    Instant at{};          ///< when
    std::uint32_t heard = 0, copies = 0;
    bool member = false, never_member = true;  ///< when it came; both false: just then it joined or left
    bool member_since_it_left = false;         ///< its sender, and for ever
  };
  Standing standing(const GroupEar& ear, std::uint32_t source, std::uint32_t psn) const;
  bool may_come(const GroupEar& ear, std::uint32_t source, std::uint32_t psn) const;
  void judge_one(const GroupEar& ear, std::uint32_t source, std::uint32_t psn, Instant now, Judge& judge) const;
  std::string name_of(const GroupSource& source, std::uint32_t psn) const;
  const std::uint32_t* find_source(const Gid& gid, std::uint32_t qpn) const;

  std::map<Gid, std::string> host_of_;
  std::map<Place, Arrival> arrivals_;
  std::set<Place> touched_;  // datagrams that a fault took, doubled, held up or damaged on the way to that host
  std::vector<std::pair<std::uint32_t, Place>> waiting_;  // ear; of those that may still come
  bool waiting_known_ = false;
  std::map<std::pair<std::string, std::uint32_t>, std::uint32_t> by_qpn_;  // the newest wins
};

}  // namespace parley::sim::check
