// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Datagrams to multicast groups, as plain data: who sent which, what arrived over the link of each host and when, and
// what its queue pairs delivered. Judged from the wire. While a queue pair is a member, it delivers each datagram that
// arrives at its host exactly once; it never delivers one that arrived before it joined or after it left. A datagram is
// missing on a link only if a fault or a full queue dropped it.
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
  std::uint32_t first = 0;              ///< number of its first datagram among the messages of the send
  std::vector<Instant> posted{};        ///< by PSN
  std::vector<Instant> left{};          ///< by PSN: when it was put on the host's link; never: not yet
  Instant touched_at = Instant::min();  ///< when its host last crashed, paused or restarted
};

/// A queue pair that is a member for some time, or one that never joins and must receive nothing.
struct GroupReceiver {
  struct Membership {
    Instant from{}, to = never;
  };
  std::string label, host;
  Address group{};
  std::vector<Membership> stays{};
  Instant touched_at = Instant::min();
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> heard{};  ///< how often: by send and its message
  std::uint64_t octets = 0;
};

class GroupHistory {
 public:
  std::vector<GroupSource> sources;
  std::vector<GroupReceiver> receivers;
  bool forged = false;  ///< a fault forged some datagrams, which their receivers may have accepted

  /// `gid` is one of the host's.
  void add_host(const Gid& gid, const std::string& host) { host_of_[gid] = host; }
  /// The queue pair of a source.
  void name_source(const std::string& host, std::uint32_t qpn, std::uint32_t source) { by_qpn_[{host, qpn}] = source; }
  /// A frame at an end of a link. `here` and `there`: the hosts at this end and at the other; null: a switch.
  void frame(const TapFrame& frame, const std::string* here, const std::string* there);
  /// A crash or pause, and its end; an empty name means every host.
  void touch(const std::string& host, Instant at);
  /// Why nothing can be judged yet: a datagram that may still arrive; empty: none. Cheap if called repeatedly.
  std::string waits_for();
  /// A datagram was posted, or a queue pair joined or left, since waits_for() began.
  void changed() { waiting_known_ = false; }
  /// After all posted datagrams have arrived or are lost.
  void judge(Instant now, Judge& judge) const;

 private:
  struct DatagramAtHost {
    std::uint32_t source = 0, psn = 0;
    std::string host;  ///< empty: every host
    auto operator<=>(const DatagramAtHost&) const = default;
  };
  struct Arrival {
    Instant at{};
    std::uint32_t copies = 0;
  };
  /// Relation of a datagram to a queue pair of its group.
  struct DatagramState {
    bool excused = false;  ///< a fault may have lost it
    bool came = false;     ///< arrived at the ear's host
    Instant at{};          ///< when it arrived
    std::uint32_t heard = 0, copies = 0;
    bool member = false, never_member = true;  ///< when it arrived; both false: it joined or left at that moment
    bool member_since_it_left = false;         ///< a member from the send on, and for ever
  };
  DatagramState standing(const GroupReceiver& receiver, std::uint32_t source, std::uint32_t psn) const;
  bool may_come(const GroupReceiver& receiver, std::uint32_t source, std::uint32_t psn) const;
  void judge_one(const GroupReceiver& receiver, std::uint32_t source, std::uint32_t psn, Instant now,
                 Judge& judge) const;
  std::string name_of(const GroupSource& source, std::uint32_t psn) const;
  const std::uint32_t* find_source(const Gid& gid, std::uint32_t qpn) const;

  std::map<Gid, std::string> host_of_;
  std::map<DatagramAtHost, Arrival> arrivals_;
  std::set<DatagramAtHost>
      touched_;  // datagrams that a fault dropped, duplicated, delayed or damaged on the way to that host
  std::vector<std::pair<std::uint32_t, DatagramAtHost>> waiting_;  // by ear: those that may still arrive
  bool waiting_known_ = false;
  std::map<std::pair<std::string, std::uint32_t>, std::uint32_t> by_qpn_;  // the newest wins
};

}  // namespace parley::sim::check
