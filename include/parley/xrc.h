/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* XRC domains for C programs, in libparley.so.1: which processes of a node use which TGT queue pair, and when one ends.
 * docs/xrc.md has the rules. parley/xrc_ofed.h and parley/xrc_verbs.h offer the same under the names of OFED's and
 * upstream's verbs.
 *
 * The rules of parley.h apply: results below 0 are -PARLEY_E_..., parley_last_error() returns the message, handles are looked
 * up, structures begin with `size`. The differences are:
 *
 * Waiting. Each call waits for the broker's answer, at most `patience_ms`. It waits as long too while a broker that died is
 * replaced. parley_xrc_poll_event() and parley_xrc_fd() do not wait.
 *
 * Threads. Any thread may make calls to a domain; concurrent calls wait for each other.
 *
 * Processes. In a child of fork(2) every call is refused with PARLEY_E_XRC_NOT_MEMBER; the parent stays a member. exec ends a
 * membership, and so does the end of the process from any cause. */
#ifndef PARLEY_XRC_H
#define PARLEY_XRC_H

#include "parley/parley.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A membership of an XRC domain. A process may have several, even of one domain; each is counted separately. */
typedef struct parley_xrcd parley_xrcd;

/* Values of parley_xrc_opts, flags */
#define PARLEY_XRC_NO_START 1 /* start no broker if none answers */

struct parley_xrc_opts {
  uint32_t size;
  uint32_t flags;     /* PARLEY_XRC_NO_START */
  const char* broker; /* path of its socket; null: $PARLEY_XRCD, the machine's, or the user's (docs/xrc.md); if only
                           $PARLEY_XRC_SEGMENT is set: no broker, but the registry in shared memory of that file */
  const char*
      program; /* the broker's program, to be started; null: $PARLEY_XRCD_PROGRAM, or `parley`. A program with more rights
                           than its user (setuid) ignores the environment, and starts a broker only by its full path */
  uint64_t device;      /* the NIC, for example its node GUID: the same file is another domain on another device */
  uint32_t patience_ms; /* longest wait of a call; 0: 5 s */
  uint32_t reserved;    /* must be 0 */
};
#define PARLEY_XRC_OPTS_INIT \
  { sizeof(struct parley_xrc_opts), 0, NULL, NULL, 0, 0, 0 }

/** Opens an XRC domain, like ibv_open_xrcd().
 *
 * All processes that open the same file, by any path, share the domain; -1 is a private domain. `fd` may be closed
 * afterwards. `oflags` are those of fcntl.h: O_CREAT (create the domain if no process has it open) and O_EXCL (refuse a
 * domain that a process has open). `opts` may be null.
 *
 * Errors: PARLEY_E_INVALID_ARGUMENT, PARLEY_E_XRC_BAD_DESCRIPTOR, PARLEY_E_XRC_UNKNOWN_DOMAIN (without O_CREAT),
 * PARLEY_E_XRC_DOMAIN_EXISTS (with O_EXCL), PARLEY_E_NOT_PERMITTED (the file belongs to another user, and only that user may
 * write to it), PARLEY_E_XRC_TOO_MANY_MEMBERS, PARLEY_E_XRC_NO_BROKER, PARLEY_E_TIMED_OUT, PARLEY_E_NO_SPACE (1024 are open
 * in this process, or no descriptor or thread is left), PARLEY_E_NO_MEMORY (also: the user's share of the broker is used
 * up). */
PARLEY_API int parley_xrc_open(parley_xrcd** out, int fd, int oflags, const struct parley_xrc_opts* opts);

/** Ends a membership.
 *
 * With `force` not 0 it first removes all registrations. After an error the membership remains, except with `force`, which
 * always ends it.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_XRC_BUSY (TGT queue pairs are registered, or shared receive queues exist),
 * PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_close(parley_xrcd* domain, int force);

/* ---- TGT queue pairs ------------------------------------------------------------------------------------------------
 * Identified by number and generation: numbers are reused, generations are not. Generation 0 selects the current queue pair
 * with that number, as OFED's calls do. */

enum parley_xrc_state {
  PARLEY_XRC_CREATING = 0, /* reserved by its creator, hidden from others */
  PARLEY_XRC_RESET = 1,
  PARLEY_XRC_INIT = 2,
  PARLEY_XRC_RTR = 3,
  PARLEY_XRC_RTS = 4,
  PARLEY_XRC_ERROR = 5,  /* failed: registrants are notified, and must unregister */
  PARLEY_XRC_DRAIN = 6,  /* its peer is gone: no new registrations */
  PARLEY_XRC_LINGER = 7, /* no registrations left; kept for some time */
  PARLEY_XRC_GONE = 8
};

/* The INI queue pair at the other end. Its 16 octets never change. */
struct parley_xrc_peer {
  uint64_t ca_guid;
  uint32_t qpn;      /* 24 bits */
  uint32_t reserved; /* must be 0 */
};

struct parley_xrc_tgt {
  uint32_t size;
  uint32_t qpn; /* 24 bits */
  uint64_t generation;
  uint32_t state;    /* enum parley_xrc_state */
  uint32_t has_peer; /* 0: ignore `peer` */
  struct parley_xrc_peer peer;
  uint32_t why;    /* for ERROR and DRAIN: enum parley_xrc_event_kind */
  uint32_t reason; /* for `why`, from its reporter */
  uint64_t events; /* sequence number of its last event */
  uint64_t age_ns; /* only from parley_xrc_query(); else 0 */
};
#define PARLEY_XRC_TGT_INIT \
  { sizeof(struct parley_xrc_tgt), 0, 0, 0, 0, {0, 0, 0}, 0, 0, 0, 0 }

/** Creates a TGT queue pair, or registers with the existing one for the peer.
 *
 * The caller is registered either way. With a null `peer` it is always a new one. If several processes call this for one
 * peer at the same time, one of them creates it. Returns 1 if it already existed, 0 if not. Set `out->size` first, as
 * PARLEY_XRC_TGT_INIT does.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_XRC_BUSY (another member has not finished creating it),
 * PARLEY_E_NO_MEMORY, PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_create(parley_xrcd* domain, const struct parley_xrc_peer* peer, struct parley_xrc_tgt* out);

/** Creates a TGT queue pair that other members cannot use before parley_xrc_publish().
 *
 * Create the device's queue pair in between. Other members that request the same peer's wait. If the caller dies, nothing
 * remains of it; parley_xrc_unregister() abandons it. Returns as parley_xrc_create().
 *
 * Errors: as parley_xrc_create(). */
PARLEY_API int parley_xrc_reserve(parley_xrcd* domain, const struct parley_xrc_peer* peer, struct parley_xrc_tgt* out);

/** Publishes a reserved TGT queue pair.
 *
 * `device_qpn` is the device's number if the broker lets devices assign numbers. Otherwise it is 0, and the number from
 * parley_xrc_reserve() stays.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT (another number, or none), PARLEY_E_XRC_STATE (already published),
 * PARLEY_E_XRC_CONFLICT (the number belongs to another queue pair), PARLEY_E_XRC_BUSY (the number is in quarantine),
 * PARLEY_E_XRC_NOT_FOUND, PARLEY_E_XRC_GONE, PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_publish(parley_xrcd* domain, uint32_t qpn, uint64_t generation, uint32_t device_qpn,
                                  struct parley_xrc_tgt* out);

/** Registers with a TGT queue pair, which then exists at least until parley_xrc_unregister().
 *
 * Returns 1 if the caller was already registered, which changes nothing, and 0 if not. `out` may be null.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_XRC_GONE, PARLEY_E_XRC_NOT_FOUND,
 * PARLEY_E_XRC_OTHER_DOMAIN, PARLEY_E_XRC_WRONG_TYPE (a number from parley_xrc_note_other()), PARLEY_E_XRC_STATE (it has
 * failed), PARLEY_E_XRC_BUSY, PARLEY_E_NO_MEMORY, PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_register(parley_xrcd* domain, uint32_t qpn, uint64_t generation, struct parley_xrc_tgt* out);

/** Ends a registration; the TGT queue pair ends with its last registration.
 *
 * After it returns, the caller receives no more events of that queue pair. Returns how many events were discarded.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_XRC_NOT_REGISTERED, PARLEY_E_XRC_GONE (it had already ended: harmless),
 * PARLEY_E_XRC_NOT_FOUND, PARLEY_E_XRC_OTHER_DOMAIN, PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_unregister(parley_xrcd* domain, uint32_t qpn, uint64_t generation);

/** Records that a TGT queue pair was moved to a state: INIT, RTR, RTS, ERROR or RESET.
 *
 * `digest` is any function of the attributes of the transition. Returns 1 if the queue pair was already in that state with
 * the same digest, 0 if not.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_XRC_CONFLICT (another process moved it there with other
 * attributes), PARLEY_E_XRC_STATE, PARLEY_E_XRC_BUSY (RESET, while others are registered), PARLEY_E_XRC_NOT_REGISTERED,
 * PARLEY_E_XRC_GONE, PARLEY_E_XRC_NOT_FOUND, PARLEY_E_XRC_OTHER_DOMAIN, PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_modify(parley_xrcd* domain, uint32_t qpn, uint64_t generation, uint32_t state,
                                 uint64_t digest);

/** Reports the attributes of a TGT queue pair of the domain, with or without a registration.
 *
 * Set `out->size` first, as PARLEY_XRC_TGT_INIT does.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_XRC_GONE, PARLEY_E_XRC_NOT_FOUND,
 * PARLEY_E_XRC_OTHER_DOMAIN, PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_query(parley_xrcd* domain, uint32_t qpn, uint64_t generation, struct parley_xrc_tgt* out);

/* ---- events ---------------------------------------------------------------------------------------------------- */

enum parley_xrc_event_kind {
  PARLEY_XRC_EVENT_NONE = 0,
  PARLEY_XRC_EVENT_ESTABLISHED = 1,    /* the first packet arrived */
  PARLEY_XRC_EVENT_FATAL = 2,          /* moves to ERROR, like the next two */
  PARLEY_XRC_EVENT_REQUEST_ERROR = 3,  /* the peer sent an invalid request */
  PARLEY_XRC_EVENT_ACCESS_ERROR = 4,   /* the peer requested an access that is not allowed */
  PARLEY_XRC_EVENT_PEER_GONE = 5,      /* moves to DRAIN, like the next four: unregister */
  PARLEY_XRC_EVENT_PEER_REUSED = 6,    /* the peer uses its queue pair number for another one */
  PARLEY_XRC_EVENT_DEVICE_REMOVED = 7, /* the device is being removed */
  PARLEY_XRC_EVENT_KILLED = 8,         /* by an administrator */
  PARLEY_XRC_EVENT_UNATTENDED = 9,     /* it had failed, and no process recovered it in time */
  PARLEY_XRC_EVENT_DEVICE_FAILED = 10, /* an event of the device */
  PARLEY_XRC_EVENT_ENDED = 11,         /* it ended while the member had no connection to its broker */
  PARLEY_XRC_EVENT_EVENTS_LOST = 12    /* the member's event queue was full: query the queue pairs in use */
};

struct parley_xrc_event {
  uint32_t size;
  uint32_t kind;   /* enum parley_xrc_event_kind */
  uint32_t qpn;    /* the TGT queue pair; 0 with generation 0: an event of the device, or of the member's queue */
  uint32_t reason; /* from its reporter: a CM reject reason, a vendor's error */
  uint64_t generation;
  uint64_t sequence; /* number among the TGT queue pair's events, from 1 */
  uint32_t merged;   /* earlier events of this kind that were not taken and are merged into this one */
  uint32_t sticky;   /* not 0: it happened before the member registered */
};
#define PARLEY_XRC_EVENT_INIT \
  { sizeof(struct parley_xrc_event), 0, 0, 0, 0, 0, 0, 0 }

/** A descriptor for the program's event loop: poll(2), epoll(7), select(2).
 *
 * It is readable when parley_xrc_poll_event() has work to do. This includes the search for a new broker, so the loop needs no
 * timeout. It stays the same when the broker changes, and belongs to the domain: only wait on it, in any thread.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_NO_SPACE (no descriptors are left). */
PARLEY_API int parley_xrc_fd(parley_xrcd* domain);

/** Takes the next event, without waiting.
 *
 * Returns 1, or 0 if no event is pending. PARLEY_XRC_EVENT_EVENTS_LOST replaces events that found the queue full: query the
 * state of the queue pairs in use. Set `out->size` first, as PARLEY_XRC_EVENT_INIT does.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_XRC_... (a new broker refused the
 * member; close the domain then). */
PARLEY_API int parley_xrc_poll_event(parley_xrcd* domain, struct parley_xrc_event* out);

/** Reports an event of this process's device or connection manager for a TGT queue pair. All registrants receive it.
 *
 * `kind` is of enum parley_xrc_event_kind, 1 to DEVICE_REMOVED. `generation` must not be 0 here.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_NOT_PERMITTED (KILLED), PARLEY_E_XRC_NOT_REGISTERED,
 * PARLEY_E_XRC_STATE, PARLEY_E_XRC_GONE, PARLEY_E_XRC_NOT_FOUND, PARLEY_E_XRC_OTHER_DOMAIN, PARLEY_E_XRC_NOT_MEMBER,
 * PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_report(parley_xrcd* domain, uint32_t qpn, uint64_t generation, uint32_t kind,
                                 uint32_t reason);

/** The name of an event kind: "peer_gone".
 *
 * The text has static lifetime; "unknown" for any other number. */
PARLEY_API const char* parley_xrc_event_name(uint32_t kind);

/** The name of a state: "rtr".
 *
 * The text has static lifetime; "unknown" for any other number. */
PARLEY_API const char* parley_xrc_state_name(uint32_t state);

/* ---- numbers of other objects ------------------------------------------------------------------------------------ */

/** Records a shared receive queue of this process, so that parley_xrc_close() refuses to close while it exists.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_XRC_CONFLICT (another member has the number),
 * PARLEY_E_NO_MEMORY, PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_add_srq(parley_xrcd* domain, uint32_t srqn);

/** Removes the record of a shared receive queue of this process.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_XRC_NOT_FOUND, PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_remove_srq(parley_xrcd* domain, uint32_t srqn);

/** Records the number of a queue pair of another type: calls that take it for a TGT queue pair then fail with
 * PARLEY_E_XRC_WRONG_TYPE.
 *
 * Errors: as parley_xrc_add_srq(). */
PARLEY_API int parley_xrc_note_other(parley_xrcd* domain, uint32_t qpn);

#ifdef __cplusplus
}
#endif

#endif
