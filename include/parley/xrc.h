/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* XRC domains for C programs, in libparley.so.1: which processes of a node use which TGT queue pair, and when one ends.
 * docs/xrc.md has the rules. parley/xrc_ofed.h and parley/xrc_verbs.h have the same under the names of OFED's and upstream's
 * verbs.
 *
 * What holds for parley.h holds here: results below 0 are -PARLEY_E_..., parley_last_error() has the sentence, handles are
 * looked up, structures begin with `size`. Different are:
 *
 * Waiting. The broker answers each call, and the call waits for that, `patience_ms` at most; so long too when a broker that
 * died is replaced. parley_xrc_poll_event() and parley_xrc_fd() do not wait.
 *
 * Threads. Calls of one domain may come from any threads: they wait for each other.
 *
 * Processes. In a child of fork(2) every call is refused with PARLEY_E_XRC_NOT_MEMBER; the parent stays a member. exec ends a
 * membership, and so does the end of the process by whatever cause. */
#ifndef PARLEY_XRC_H
#define PARLEY_XRC_H

#include "parley/parley.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A membership of an XRC domain. A process may have several, of one domain too: each counts for itself. */
typedef struct parley_xrcd parley_xrcd;

/* parley_xrc_opts, flags */
#define PARLEY_XRC_NO_START 1 /* start no broker when none answers */

struct parley_xrc_opts {
  uint32_t size;
  uint32_t flags;     /* PARLEY_XRC_NO_START */
  const char* broker; /* path of its socket; null: $PARLEY_XRCD, the machine's, or the user's (docs/xrc.md); if only
                           $PARLEY_XRC_SEGMENT is set: no broker, but the registry in shared memory of that file */
  const char*
      program; /* that is one, to be started; null: $PARLEY_XRCD_PROGRAM, or `parley`. A program with more rights than
                           its user (setuid) looks at no variable, and starts one only by its whole path */
  uint64_t device;      /* which NIC, a node GUID for one: the same file is another domain on another device */
  uint32_t patience_ms; /* longest wait of a call; 0: 5 s */
  uint32_t reserved;    /* 0 */
};
#define PARLEY_XRC_OPTS_INIT \
  { sizeof(struct parley_xrc_opts), 0, NULL, NULL, 0, 0, 0 }

/** Opens an XRC domain, as ibv_open_xrcd().
 *
 * Who opens the same file, by whatever name, is in the same domain; `fd` may be closed afterwards, and -1 is a private
 * domain. `oflags` are O_CREAT (a domain that no process has open is made) and O_EXCL (one that a process has open is refused),
 * as in fcntl.h. `opts` may be null.
 *
 * Errors: PARLEY_E_INVALID_ARGUMENT, PARLEY_E_XRC_BAD_DESCRIPTOR, PARLEY_E_XRC_UNKNOWN_DOMAIN (without O_CREAT),
 * PARLEY_E_XRC_DOMAIN_EXISTS (with O_EXCL), PARLEY_E_NOT_PERMITTED (the file belongs to another user, and only that one may
 * write to it), PARLEY_E_XRC_TOO_MANY_MEMBERS, PARLEY_E_XRC_NO_BROKER, PARLEY_E_TIMED_OUT, PARLEY_E_NO_SPACE (1024 are open
 * in this process, or it has no descriptor or thread left), PARLEY_E_NO_MEMORY (also: the user has its share of the broker). */
PARLEY_API int parley_xrc_open(parley_xrcd** out, int fd, int oflags, const struct parley_xrc_opts* opts);

/** Ends a membership.
 *
 * With `force` not 0 it unregisters from everything first. After a refusal it stays, except that with `force` it always ends.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_XRC_BUSY (TGT queue pairs are registered, or shared receive queues there),
 * PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_close(parley_xrcd* domain, int force);

/* ---- TGT queue pairs ------------------------------------------------------------------------------------------------
 * Named by number and generation: numbers are used again, generations never. Generation 0 means whichever has the number
 * now, as OFED's calls do. */

enum parley_xrc_state {
  PARLEY_XRC_CREATING = 0, /* reserved by its creator, known to nobody else */
  PARLEY_XRC_RESET = 1,
  PARLEY_XRC_INIT = 2,
  PARLEY_XRC_RTR = 3,
  PARLEY_XRC_RTS = 4,
  PARLEY_XRC_ERROR = 5,  /* failed: registrants are told, and unregister */
  PARLEY_XRC_DRAIN = 6,  /* its peer is gone: nobody may register */
  PARLEY_XRC_LINGER = 7, /* nobody is registered, and it is kept for a while */
  PARLEY_XRC_GONE = 8
};

/* The INI queue pair at the other end. Its 16 octets never change. */
struct parley_xrc_peer {
  uint64_t ca_guid;
  uint32_t qpn;      /* 24 bits */
  uint32_t reserved; /* 0 */
};

struct parley_xrc_tgt {
  uint32_t size;
  uint32_t qpn; /* 24 bits */
  uint64_t generation;
  uint32_t state;    /* enum parley_xrc_state */
  uint32_t has_peer; /* 0: `peer` says nothing */
  struct parley_xrc_peer peer;
  uint32_t why;    /* of ERROR and DRAIN: enum parley_xrc_event_kind */
  uint32_t reason; /* of whoever reported that */
  uint64_t events; /* sequence number of its last event */
  uint64_t age_ns; /* parley_xrc_query() alone; else 0 */
};
#define PARLEY_XRC_TGT_INIT \
  { sizeof(struct parley_xrc_tgt), 0, 0, 0, 0, {0, 0, 0}, 0, 0, 0, 0 }

/** Makes a TGT queue pair, or registers with the one that is there for the peer.
 *
 * The caller is registered. `peer` may be null: then it is always a new one. Of several processes that call this for one peer at
 * once, one makes it. Returns 1 if it was there already, 0 if not. `out->size` is to be set, as PARLEY_XRC_TGT_INIT does.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_XRC_BUSY (another member does not get done with making it),
 * PARLEY_E_NO_MEMORY, PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_create(parley_xrcd* domain, const struct parley_xrc_peer* peer, struct parley_xrc_tgt* out);

/** Makes a TGT queue pair that nobody else gets at before parley_xrc_publish().
 *
 * It is the time to make the real one. Others that want the same peer's wait. If the caller dies, nothing is left of it;
 * parley_xrc_unregister() gives it up. Returns as parley_xrc_create().
 *
 * Errors: as parley_xrc_create(). */
PARLEY_API int parley_xrc_reserve(parley_xrcd* domain, const struct parley_xrc_peer* peer, struct parley_xrc_tgt* out);

/** Makes what was reserved known.
 *
 * `device_qpn` is its number where the broker leaves numbers to devices, and otherwise 0: then it has one since it was reserved.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT (another number, or none), PARLEY_E_XRC_STATE (it is known already),
 * PARLEY_E_XRC_CONFLICT (the number is another queue pair's), PARLEY_E_XRC_BUSY (the number rests), PARLEY_E_XRC_NOT_FOUND,
 * PARLEY_E_XRC_GONE, PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_publish(parley_xrcd* domain, uint32_t qpn, uint64_t generation, uint32_t device_qpn,
                                  struct parley_xrc_tgt* out);

/** Registers with a TGT queue pair, which then lives at least until parley_xrc_unregister().
 *
 * Returns 1 if the caller was registered already, which adds nothing, and 0 if not. `out` may be null.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_XRC_GONE, PARLEY_E_XRC_NOT_FOUND,
 * PARLEY_E_XRC_OTHER_DOMAIN, PARLEY_E_XRC_WRONG_TYPE (a number that parley_xrc_note_other() named), PARLEY_E_XRC_STATE (it has
 * failed), PARLEY_E_XRC_BUSY, PARLEY_E_NO_MEMORY, PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_register(parley_xrcd* domain, uint32_t qpn, uint64_t generation, struct parley_xrc_tgt* out);

/** Ends a registration; with the last one the TGT queue pair ends.
 *
 * When it returns, no event of that queue pair comes any more. Returns how many were thrown away.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_XRC_NOT_REGISTERED, PARLEY_E_XRC_GONE (it had ended: no harm), PARLEY_E_XRC_NOT_FOUND,
 * PARLEY_E_XRC_OTHER_DOMAIN, PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_unregister(parley_xrcd* domain, uint32_t qpn, uint64_t generation);

/** Records that a TGT queue pair was taken to a state: INIT, RTR, RTS, ERROR or RESET.
 *
 * `digest` stands for the attributes that it was given on the way, and is any function of them. Returns 1 if it was there
 * already with the same digest, 0 if not.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_XRC_CONFLICT (another process took it there with other
 * attributes), PARLEY_E_XRC_STATE, PARLEY_E_XRC_BUSY (RESET, and others are registered), PARLEY_E_XRC_NOT_REGISTERED,
 * PARLEY_E_XRC_GONE, PARLEY_E_XRC_NOT_FOUND, PARLEY_E_XRC_OTHER_DOMAIN, PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_modify(parley_xrcd* domain, uint32_t qpn, uint64_t generation, uint32_t state,
                                 uint64_t digest);

/** What is known of a TGT queue pair of the domain, registered with or not.
 *
 * `out->size` is to be set, as PARLEY_XRC_TGT_INIT does.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_XRC_GONE, PARLEY_E_XRC_NOT_FOUND, PARLEY_E_XRC_OTHER_DOMAIN,
 * PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_query(parley_xrcd* domain, uint32_t qpn, uint64_t generation, struct parley_xrc_tgt* out);

/* ---- events ---------------------------------------------------------------------------------------------------- */

enum parley_xrc_event_kind {
  PARLEY_XRC_EVENT_NONE = 0,
  PARLEY_XRC_EVENT_ESTABLISHED = 1,    /* the first packet has come */
  PARLEY_XRC_EVENT_FATAL = 2,          /* to ERROR, and so do the next two */
  PARLEY_XRC_EVENT_REQUEST_ERROR = 3,  /* the peer sent a request that is not valid */
  PARLEY_XRC_EVENT_ACCESS_ERROR = 4,   /* the peer asked for memory that it may not have */
  PARLEY_XRC_EVENT_PEER_GONE = 5,      /* to DRAIN, and so do the next four: unregister */
  PARLEY_XRC_EVENT_PEER_REUSED = 6,    /* the peer uses the number of its queue pair for another one */
  PARLEY_XRC_EVENT_DEVICE_REMOVED = 7, /* the device is being removed */
  PARLEY_XRC_EVENT_KILLED = 8,         /* by an administrator */
  PARLEY_XRC_EVENT_UNATTENDED = 9,     /* it had failed, and nobody put it right in time */
  PARLEY_XRC_EVENT_DEVICE_FAILED = 10, /* of the device */
  PARLEY_XRC_EVENT_ENDED = 11,         /* it has ended while the member was away from its broker */
  PARLEY_XRC_EVENT_EVENTS_LOST = 12    /* the member's queue was full: query what you use */
};

struct parley_xrc_event {
  uint32_t size;
  uint32_t kind;   /* enum parley_xrc_event_kind */
  uint32_t qpn;    /* of the TGT queue pair; 0 with generation 0: of the device, or of the member's queue */
  uint32_t reason; /* of whoever reported it: a CM reject reason, a vendor's error */
  uint64_t generation;
  uint64_t sequence; /* of the TGT queue pair's events, from 1 */
  uint32_t merged;   /* earlier ones of this kind that were not taken and are told by this one */
  uint32_t sticky;   /* not 0: it happened before the member registered */
};
#define PARLEY_XRC_EVENT_INIT \
  { sizeof(struct parley_xrc_event), 0, 0, 0, 0, 0, 0, 0 }

/** One descriptor for the caller's own loop: poll(2), epoll(7), select(2).
 *
 * It is readable when parley_xrc_poll_event() has something to do, a new broker to look for included, so no time limit is
 * needed. It stays the same over all brokers and is the domain's: wait on it, in any thread, and do nothing else with it.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_NO_SPACE (of descriptors). */
PARLEY_API int parley_xrc_fd(parley_xrcd* domain);

/** Takes the next event, and does not wait.
 *
 * Returns 1, or 0 when there is none. PARLEY_XRC_EVENT_EVENTS_LOST stands for those that found a full queue: ask for the state
 * of what you use. `out->size` is to be set, as PARLEY_XRC_EVENT_INIT does.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_XRC_..., what a new broker refuses the
 * member for; the domain is to be closed then. */
PARLEY_API int parley_xrc_poll_event(parley_xrcd* domain, struct parley_xrc_event* out);

/** Reports what this process's device or connection manager says of a TGT queue pair. All who are registered hear of it.
 *
 * `kind` is of enum parley_xrc_event_kind, 1 to DEVICE_REMOVED. `generation` is not 0 here.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_NOT_PERMITTED (KILLED), PARLEY_E_XRC_NOT_REGISTERED,
 * PARLEY_E_XRC_STATE, PARLEY_E_XRC_GONE, PARLEY_E_XRC_NOT_FOUND, PARLEY_E_XRC_OTHER_DOMAIN, PARLEY_E_XRC_NOT_MEMBER,
 * PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_report(parley_xrcd* domain, uint32_t qpn, uint64_t generation, uint32_t kind,
                                 uint32_t reason);

/** The name of an event's kind: "peer_gone".
 *
 * The text has static lifetime; "unknown" for a number that is none. */
PARLEY_API const char* parley_xrc_event_name(uint32_t kind);

/** The name of a state: "rtr".
 *
 * The text has static lifetime; "unknown" for a number that is none. */
PARLEY_API const char* parley_xrc_state_name(uint32_t state);

/* ---- numbers of other things ------------------------------------------------------------------------------------- */

/** Notes a shared receive queue of this process, so that parley_xrc_close() keeps watch over it.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_XRC_CONFLICT (another member has the number),
 * PARLEY_E_NO_MEMORY, PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_add_srq(parley_xrcd* domain, uint32_t srqn);

/** Forgets a shared receive queue of this process.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_XRC_NOT_FOUND, PARLEY_E_XRC_NOT_MEMBER, PARLEY_E_TIMED_OUT. */
PARLEY_API int parley_xrc_remove_srq(parley_xrcd* domain, uint32_t srqn);

/** Notes the number of a queue pair of another type, so that who takes it for a TGT queue pair's is told so.
 *
 * Errors: as parley_xrc_add_srq(). */
PARLEY_API int parley_xrc_note_other(parley_xrcd* domain, uint32_t qpn);

#ifdef __cplusplus
}
#endif

#endif
