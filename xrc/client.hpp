// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A member's side of the broker's protocol, without its socket. It remembers its registrations. When a broker dies, it
// declares them to the next broker and repeats unanswered requests. A machine in the sense of base/machine.hpp.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "xrc/message.hpp"

namespace parley::xrc {

struct ClientOptions {
  Process process{};
  bool member = true;   ///< false: it only lists and kills
  bool shared = false;  ///< the domain of a file, which the driver sends with `open`; otherwise a private one
  bool create = true, exclusive = false;  ///< first open only; later, creating it again is allowed
  bool carrier = false;                   ///< OpenParameters::carrier
  std::uint64_t device = 0;
  Duration patience = std::chrono::seconds(5);     ///< limit for an answer, over all brokers
  Duration retry = std::chrono::milliseconds(20);  ///< between attempts after a `busy` that may pass (may_pass())
  std::uint32_t requests_max = 64;                 ///< unanswered
  std::uint32_t events_max = 1024;                 ///< not taken by the user; beyond it, events_lost
};

/// Whether a refusal `busy` of the request may be temporary: another member is creating the queue pair, or may declare
/// it.
bool may_pass(const Request& request);

class Client {
 public:
  enum class Phase : std::uint8_t { down, greeting, opening, restoring, up, refused };

  explicit Client(const ClientOptions& options) : options_(options) {}

  // ---- its connection
  void connected(Instant now);
  void disconnected();
  void handle_message(Instant now, ConstBytes octets);
  struct Outgoing {
    Bytes octets;
    bool with_file = false;  ///< the domain's file goes with it
  };
  std::optional<Outgoing> poll_transmit();

  // ---- its user
  /// Returns the number that the answer will have. Errors: no_memory; the broker's refusal of this member.
  Result<std::uint64_t> ask(Instant now, Request request);
  /// The caller cannot wait for the answer, because memory ran out. The request's effect is reverted where possible.
  void abandon(std::uint64_t number) noexcept;
  /// Whether the broker still has abandoned requests.
  bool has_abandoned() const;
  std::optional<Answer> poll_answer();
  std::optional<Event> poll_event();
  bool has_events() const { return lost_ || !events_.empty(); }
  /// The items of lists.
  std::optional<Item> poll_item();

  Instant next_deadline() const;
  /// Requests that are not answered in time end with timed_out.
  void handle_deadline(Instant now);

  Phase phase() const { return phase_; }
  /// Why the phase is `refused`.
  Refusal refusal() const { return refusal_; }
  std::uint32_t epoch() const { return epoch_; }
  std::size_t registration_count() const { return registrations_.size(); }

 private:
  struct Pending {
    Request request{};
    Instant deadline = never, again = never;
    bool sent = false;
    bool abandoned = false;  // no caller waits for its answer
  };
  /// What the client would declare to a new broker.
  struct Registration {
    TgtId id{};
    State state = State::reset;
    std::optional<Peer> peer{};
    AttributeDigests attributes{};
    EventKind why = EventKind::none;
    std::uint32_t reason = 0;
    std::uint64_t events = 0;
    std::uint64_t proof = 0;  // the broker's proof that this member is registered with the queue pair
    bool told = true;         // the event of `why` has arrived
  };

  void on(Instant now, const Answer& answer);
  void on(const Event& event);
  void greeted(const Answer& answer);
  void opened(const Answer& answer);
  void restored(const Answer& answer);
  void settled(const Pending& pending, const Answer& answer);
  void apply(const Request& asked, const Answer& answer);
  void too_late(const Answer& answer);
  void undo(const Request& asked, const Answer& answer);
  void remember(const Answer& answer);
  void forget(TgtId id);
  void release();
  std::map<std::uint64_t, Registration>::iterator registration_of(TgtId id);
  void refuse(Refusal refusal);
  void declare();
  void queue_event(Event event) noexcept;
  bool try_again(const Pending& pending, const Answer& answer, Instant now) const;
  void send(Request request);

  ClientOptions options_;
  Phase phase_ = Phase::down;
  Refusal refusal_ = Refusal::none;
  std::uint32_t epoch_ = 0;
  std::uint64_t last_number_ = 0;
  bool was_member_ = false;
  std::uint32_t carriers_ = 0;                           // R11: of the domain, as a broker last reported
  std::uint32_t carriers_epoch_ = 0;                     // of that broker
  std::map<std::uint64_t, Pending> pending_;             // by number; requests_max
  std::map<std::uint64_t, Registration> registrations_;  // by generation; bounded by the broker
  std::set<std::uint32_t> srqs_, others_;                // likewise
  std::map<std::uint64_t, std::uint64_t> restoring_;     // number to generation; 0 for srqs_ and others_
  std::deque<Request> out_;                              // requests_max, and the declarations for a new broker
  std::deque<Answer> answers_;                           // requests_max
  std::deque<Event> events_;                             // events_max
  std::deque<Item> items_;                               // those of one list
  bool lost_ = false;
};

std::string_view to_string(Client::Phase phase);

}  // namespace parley::xrc
