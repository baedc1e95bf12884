/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Parley for C programs: connections, memory and queue pairs, in libparley.so.1. docs/c.md is an introduction; each
 * function has a manual page in section 3.
 *
 * Results. Every function that can fail returns an int: 0 or a count on success, -PARLEY_E_... (below 0) on failure.
 * parley_strerror() describes the code; parley_last_error() returns the full message of this thread's last failed call.
 * No function throws or aborts. No function blocks, except those whose description says so.
 *
 * Threads. Only one thread at a time may use a context and the objects that belong to it. The contexts of one world count
 * as one context here. Different contexts need no locking between them. The exception is parley_wake(): any thread and any
 * signal handler may call it. The library starts no threads and makes no callbacks.
 *
 * Handles. A stale, foreign or null handle is refused with PARLEY_E_BAD_HANDLE; the library never dereferences it.
 *
 * Versions. Every structure that a program passes begins with `size`; the _INIT macros set it and each call checks it. The
 * library treats members beyond the program's `size` as 0, which is always the default, and writes no byte beyond `size`.
 * For arrays, the call takes the size of an element (parley_poll_cq). parley_sge has no size, and never changes.
 *
 * Processes. A context belongs to the process that opened it. In a child of fork(2) the handles of contexts and worlds are
 * refused. The child's copies of the descriptors keep the streams open until it calls exec or exits: close the context
 * before fork(2), or call exec soon after it. */
#ifndef PARLEY_PARLEY_H
#define PARLEY_PARLEY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PARLEY_API __attribute__((visibility("default")))
#else
#define PARLEY_API
#endif

/* A NIC with its connection manager. */
typedef struct parley_ctx parley_ctx;
/* A simulated network. */
typedef struct parley_world parley_world;
/* A listener or a connection, like rdma_cm_id; belongs to a context. 0: none. */
typedef uint64_t parley_id;
/* A completion queue; belongs to a context. 0: the context's default queue, which always exists. */
typedef uint32_t parley_cq;
/* A shared receive queue; belongs to a context. 0: none. */
typedef uint32_t parley_srq;

/* ---- results ---------------------------------------------------------------------------------------------------- */

enum parley_error {
  PARLEY_E_INVALID_ARGUMENT = 1, /* an argument is out of its documented range */
  PARLEY_E_BAD_HANDLE = 2,       /* null, stale, or from another context */
  PARLEY_E_WRONG_STATE = 3,      /* the call is not allowed in the object's current state */
  PARLEY_E_NO_SPACE = 4,         /* a bounded queue or buffer is full */
  PARLEY_E_NO_MEMORY = 5,
  PARLEY_E_UNSUPPORTED = 6, /* by this provider or by the peer */
  PARLEY_E_NOT_PERMITTED = 7,
  PARLEY_E_IO = 8, /* the operating system reported an error */
  PARLEY_E_BAD_ADDRESS = 9,
  PARLEY_E_ADDRESS_IN_USE = 10,
  PARLEY_E_REFUSED = 11, /* no listener at that address */
  PARLEY_E_UNREACHABLE = 12,
  PARLEY_E_TIMED_OUT = 13,
  PARLEY_E_REJECTED = 14, /* by the peer's application */
  PARLEY_E_PEER_CLOSED = 15,
  PARLEY_E_PEER_RESET = 16,
  PARLEY_E_PROTOCOL = 17,        /* the peer broke a protocol rule: see parley_event's rule and received */
  PARLEY_E_TERMINATED = 18,      /* an RDMAP Terminate ended the connection */
  PARLEY_E_PROTECTION = 19,      /* a key or an access right does not allow the access */
  PARLEY_E_NO_COMMON_TERMS = 20, /* RTR, IRD or ORD of the two sides cannot be reconciled */
  PARLEY_E_CANCELLED = 21,
  /* from parley/xrc.h */
  PARLEY_E_XRC_NOT_FOUND = 64,        /* no TGT queue pair has ever had this number */
  PARLEY_E_XRC_GONE = 65,             /* the TGT queue pair has ended or is ending */
  PARLEY_E_XRC_OTHER_DOMAIN = 66,     /* the TGT queue pair belongs to another domain */
  PARLEY_E_XRC_NOT_REGISTERED = 67,   /* the caller is not registered with the TGT queue pair */
  PARLEY_E_XRC_WRONG_TYPE = 68,       /* the number belongs to a queue pair that is not a TGT queue pair */
  PARLEY_E_XRC_STATE = 69,            /* not allowed in the TGT queue pair's state */
  PARLEY_E_XRC_CONFLICT = 70,         /* the TGT queue pair is in that state with other attributes */
  PARLEY_E_XRC_BUSY = 71,             /* in use, or being created: retry, or release it first */
  PARLEY_E_XRC_NOT_MEMBER = 72,       /* the domain was closed, or this process is a forked child */
  PARLEY_E_XRC_STALE_EPOCH = 73,      /* the membership is from an earlier broker: open the domain again */
  PARLEY_E_XRC_UNKNOWN_DOMAIN = 74,   /* no process has the domain open */
  PARLEY_E_XRC_DOMAIN_EXISTS = 75,    /* the domain is already open, and a new one was requested */
  PARLEY_E_XRC_BAD_DESCRIPTOR = 76,   /* the descriptor does not refer to a file */
  PARLEY_E_XRC_TOO_MANY_MEMBERS = 77, /* the domain has as many members as it may have */
  PARLEY_E_XRC_WRONG_PROCESS = 78,    /* the process ID has been reused by another process */
  PARLEY_E_XRC_NO_BROKER = 79,        /* no broker answers, and none was started */
  /* from parley/mad.h */
  PARLEY_E_MAD_STATUS = 96,     /* the response has an error status: see parley_mad_reply's mad_status */
  PARLEY_E_MAD_NO_RECORDS = 97, /* subnet administration has no matching records */
  PARLEY_E_MAD_CUT = 98,        /* the table is incomplete: only one datagram of it arrived */
  PARLEY_E_INTERNAL = 255       /* a bug in Parley */
};

/** Describes a code: "the peer reset the connection".
 *
 * `rc` may have either sign. Never null. The text has static lifetime. */
PARLEY_API const char* parley_strerror(int rc);

/** The message of the last call that failed in this thread.
 *
 * It names the argument and its range: "ird is 20000; it is 0 to 16382, or 16383". Never null; empty if no call has failed.
 * The text stays valid until the next call of this thread fails or the thread ends, however often this function is
 * called. */
PARLEY_API const char* parley_last_error(void);

/** The errno that is closest to a code: EINVAL, EBUSY, ...
 *
 * For programs whose interfaces return errno values. `rc` may have either sign. Returns 0 for 0, and EIO for a number that
 * is not a code. */
PARLEY_API int parley_errno(int rc);

/** The version of the library in use: "0.1.0".
 *
 * The text has static lifetime. */
PARLEY_API const char* parley_version(void);

/* ---- contexts --------------------------------------------------------------------------------------------------- */

struct parley_world_opts {
  uint32_t size;
  uint32_t loss_ppm; /* lost frames per million, in each direction of each link; at most 1000000 */
  uint64_t seed;     /* the same seed and the same calls produce the same run */
  uint64_t delay_ns; /* one-way delay of each link (two links between any two hosts), at most 10^12; 0: 1000 */
  uint64_t rate_bps; /* bits per second of each link; 0: 100 Gb/s */
  uint32_t mtu;      /* size of an IP packet in bytes, 576 to 9000; 0: 1500 */
  uint32_t reserved; /* must be 0 */
};
#define PARLEY_WORLD_OPTS_INIT \
  { sizeof(struct parley_world_opts), 0, 0, 0, 0, 0, 0 }

/** Creates a simulated network: hosts around one switch, in virtual time.
 *
 * parley_open() with provider "sim" adds a host. The network uses no socket, clock or thread. `opts` may be null.
 *
 * Errors: PARLEY_E_INVALID_ARGUMENT, PARLEY_E_NO_SPACE (1024 worlds are open), PARLEY_E_NO_MEMORY. */
PARLEY_API int parley_world_open(parley_world** out, const struct parley_world_opts* opts);

/** Closes a simulated network.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_WRONG_STATE (contexts of the world are still open). */
PARLEY_API int parley_world_close(parley_world* world);

struct parley_opts {
  uint32_t size;
  uint32_t ids_max;     /* listeners and connections alive at once, at most 16777216; 0: the provider's default */
  const char* provider; /* "iwarp": TCP sockets; "roce": RoCEv2 on UDP sockets; "rdmacm": the machine's RDMA devices;
                           "sim": a host of `world`; null: PARLEY_PROVIDER in the environment, else "iwarp" */
  parley_world* world;  /* for "sim": required; for other providers: null */
  const char* host;     /* for "sim": its name in captures and reports; null: host1, host2, ... */
  uint64_t seed;        /* for the random part of the waits between attempts; 0: the provider chooses */
};
#define PARLEY_OPTS_INIT \
  { sizeof(struct parley_opts), 0, NULL, NULL, NULL, 0 }

/** Opens a context.
 *
 * `opts` may be null. Open all hosts of a world before the first call of parley_progress() or parley_wait() on any of
 * them.
 *
 * Errors: PARLEY_E_INVALID_ARGUMENT (unknown provider: the message lists the known ones), PARLEY_E_BAD_HANDLE (the world),
 * PARLEY_E_NO_SPACE (4096 contexts are open, or no descriptors are left), PARLEY_E_UNREACHABLE (no RDMA device),
 * PARLEY_E_NOT_PERMITTED, PARLEY_E_UNSUPPORTED (librdmacm is not there), PARLEY_E_NO_MEMORY. */
PARLEY_API int parley_open(parley_ctx** out, const struct parley_opts* opts);

/** Closes a context and everything that belongs to it.
 *
 * Open connections are reset, so that no peer mistakes this for a graceful close. For a graceful close, call
 * parley_disconnect() and wait for PARLEY_EVENT_DISCONNECTED first. If a process ends without this call, the system ends
 * its connections: over "iwarp" it resets them as well; over "roce" the peer notices at its next keepalive. Does not block.
 *
 * Errors: PARLEY_E_BAD_HANDLE. */
PARLEY_API int parley_close(parley_ctx* ctx);

struct parley_attr {
  uint32_t size;
  char provider[16];
  char transport[16];                                /* "iWARP", "RoCE" */
  uint32_t private_data_request, private_data_reply; /* default capacity of each message, in bytes */
  uint32_t max_cqe;                                  /* completions in one completion queue */
  uint32_t max_qp_wr;                                /* work requests of a queue pair, per direction */
  uint32_t max_srq_wr;
  uint32_t max_sge;       /* scatter/gather elements of a work request */
  uint32_t max_rd_atomic; /* largest IRD and ORD */
};
#define PARLEY_ATTR_INIT \
  { sizeof(struct parley_attr), {0}, {0}, 0, 0, 0, 0, 0, 0, 0 }

/** Reports the capabilities of the context's provider and device.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT. */
PARLEY_API int parley_query(parley_ctx* ctx, struct parley_attr* out);

/** A descriptor for the program's event loop: poll(2), epoll(7), select(2).
 *
 * It is readable when parley_progress() has work to do. This includes timers and calls just made, so the loop needs no
 * timeout. The descriptor belongs to the context: only wait on it. For a simulated host it is always readable, because
 * virtual time advances only in parley_progress() and parley_wait().
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_NO_SPACE (no descriptors are left). */
PARLEY_API int parley_fd(parley_ctx* ctx);

/** Does the work that is ready now, without waiting.
 *
 * Returns 1 if it did any work or events are pending, 0 if not. Take the events and poll the completion queues afterwards:
 * both are filled only here and in parley_wait(). In a world, one call advances the whole network by at most 100 us of
 * virtual time, and returns earlier when any host has an event or a completion.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_NO_SPACE (the world has used up its step counter). */
PARLEY_API int parley_progress(parley_ctx* ctx);

/** Like parley_progress(), but waits until there is work to do.
 *
 * `timeout_ms` is the longest wait in milliseconds, -1 for no limit; in a world it is virtual time. Returns 0 at the
 * timeout, and in a world also when no simulated event remains. This call blocks.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT (`timeout_ms` is below -1), PARLEY_E_NO_SPACE. */
PARLEY_API int parley_wait(parley_ctx* ctx, int timeout_ms);

/** Makes parley_fd() readable and a blocked parley_wait() return, from any thread.
 *
 * If no thread is waiting, the next parley_wait() returns at once. The context must stay open during the call.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_UNSUPPORTED (in a world). */
PARLEY_API int parley_wake(parley_ctx* ctx);

/** The context's time in nanoseconds since an arbitrary origin; virtual in a world.
 *
 * It is monotonic. Returns 0 for a bad handle. */
PARLEY_API uint64_t parley_now_ns(parley_ctx* ctx);

/* ---- addresses -------------------------------------------------------------------------------------------------- */

/* Bytes of the longest "[ipv6%interface]:port", including the terminating zero. */
#define PARLEY_ADDRSTRLEN 64

/** Resolves a host name or numeric address to addresses for the other functions: "192.0.2.1:7471", "[fe80::1%3]:7471".
 *
 * Writes at most `n` addresses and returns how many it wrote. It uses the system's resolver: this call blocks.
 *
 * Errors: PARLEY_E_INVALID_ARGUMENT, PARLEY_E_BAD_ADDRESS. */
PARLEY_API int parley_resolve(const char* host, uint16_t port, char (*out)[PARLEY_ADDRSTRLEN], int n);

/** The address at which peers reach a simulated host, with port 0; `family` is 4 or 6.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_UNSUPPORTED (other providers: a machine has several
 * addresses, and the program must choose one). */
PARLEY_API int parley_host_address(parley_ctx* ctx, int family, char out[PARLEY_ADDRSTRLEN]);

/* ---- connections ------------------------------------------------------------------------------------------------ */

/* The queue pair of a connection. */
struct parley_qp_init {
  uint32_t size;
  parley_cq send_cq, recv_cq; /* 0: the context's default queue */
  parley_srq srq;             /* used instead of a receive queue of the queue pair; 0: none */
  uint32_t max_send_wr;       /* work requests posted and not completed; 0: 64 */
  uint32_t max_recv_wr;       /* like max_send_wr; ignored with srq */
};
#define PARLEY_QP_INIT \
  { sizeof(struct parley_qp_init), 0, 0, 0, 0, 0 }

/* MPA's ready-to-receive indication: the initiator's first message (RFC 6581 §4.2, OFA 2007-10 Rtr §1). */
enum parley_rtr {
  PARLEY_RTR_DEFAULT = 0, /* a zero-length Read; the responder may send first */
  PARLEY_RTR_NONE,        /* client/server: the initiator's first message releases the responder */
  PARLEY_RTR_FRAME,       /* the Rtr frame of 2007; revision 1 only */
  PARLEY_RTR_SEND,
  PARLEY_RTR_WRITE,
  PARLEY_RTR_READ
};

/* Value of IRD or ORD if it is not negotiated (RFC 6581 §9.1). */
#define PARLEY_DEPTH_NOT_NEGOTIATED 0x3FFF
/* Requests an IRD or ORD of 0, because 0 itself selects the default of 32. */
#define PARLEY_DEPTH_NONE 0xFFFF

/* For keepalive_ms and dead_after_ms: never. There, 0 selects the default. */
#define PARLEY_NEVER 0xFFFFFFFFu

struct parley_listen_opts {
  uint32_t size;
  uint16_t ird, ord;    /* default for the listener's connections; parley_accept() may override it; 0: 32 */
  uint32_t backlog;     /* connections that the system may queue before they are accepted; 0: 4096 */
  uint32_t pending_max; /* connections waiting for a decision; 0: 1024 */
  void* user;           /* reported with each event of the listener */
  /* For the listener's connections, including their set-up; as in parley_connect_opts. */
  uint32_t keepalive_ms, dead_after_ms;
};
#define PARLEY_LISTEN_OPTS_INIT \
  { sizeof(struct parley_listen_opts), 0, 0, 0, 0, NULL, 0, 0 }

/** Listens for connections at a local address; port 0 lets the system choose.
 *
 * Completes with PARLEY_EVENT_LISTENING, which has the address with its port, or with PARLEY_EVENT_CONNECT_FAILED. In a
 * world the wildcard address is the host's own address. `opts` may be null.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_BAD_ADDRESS, PARLEY_E_NO_SPACE. */
PARLEY_API int parley_listen(parley_ctx* ctx, const char* local, const struct parley_listen_opts* opts, parley_id* out);

struct parley_connect_opts {
  uint32_t size;
  uint16_t ird, ord;               /* inbound Reads that this side can hold, outbound Reads that it requests; 0: 32 */
  const void* private_data;        /* copied during the call */
  uint32_t private_data_len;       /* bytes; at most parley_attr's private_data_request */
  uint32_t timeout_ms;             /* longest wait for the transport, per address; 0: 10 s */
  uint32_t reply_timeout_ms;       /* longest wait for the peer's reply; 0: 30 s */
  uint32_t retry_rounds;           /* how often to try all addresses, at most 100; 0: once */
  uint32_t retry_first_ms;         /* wait before the second round, doubled for each later one; 0: 100 ms */
  uint32_t retry_cap_ms;           /* longest wait between rounds; 0: 10 s */
  const char* local;               /* source address; null: the system chooses */
  const char* const* backups;      /* addresses to try if the previous one fails for a temporary reason */
  uint32_t backup_count;           /* at most 16 */
  uint8_t mpa_revision;            /* 1 or 2; 0: 2, with fallback to 1 for a peer that does not support 2 */
  uint8_t mpa_rtr;                 /* enum parley_rtr */
  uint16_t reserved;               /* must be 0 */
  const struct parley_qp_init* qp; /* null: PARLEY_QP_INIT */
  void* user;                      /* reported with each event of the connection */
  uint32_t total_timeout_ms; /* longest time until ESTABLISHED, over all addresses, rounds and waits; 0: no limit */
  uint32_t reserved2;        /* must be 0 */
  /* Detection of a dead peer. After keepalive_ms of silence, this side sends a keepalive. A peer that answers nothing for
   * dead_after_ms is dead: PARLEY_EVENT_DISCONNECTED with PARLEY_E_TIMED_OUT. 0: 5 s and 12 s (in a world: never);
   * PARLEY_NEVER: never. keepalive_ms must be less than dead_after_ms. docs/cm.md, How connections end. */
  uint32_t keepalive_ms, dead_after_ms;
};
#define PARLEY_CONNECT_OPTS_INIT \
  { sizeof(struct parley_connect_opts), 0, 0, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, 0, 0, NULL, NULL, 0, 0, 0, 0 }

/** Connects to a peer.
 *
 * Completes with PARLEY_EVENT_ESTABLISHED, PARLEY_EVENT_REJECTED or PARLEY_EVENT_CONNECT_FAILED; PARLEY_EVENT_RETRYING may
 * come first. Receives may be posted at once. `opts` may be null.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_BAD_ADDRESS, PARLEY_E_NO_SPACE. */
PARLEY_API int parley_connect(parley_ctx* ctx, const char* peer, const struct parley_connect_opts* opts,
                              parley_id* out);

struct parley_accept_opts {
  uint32_t size;
  uint16_t ird, ord;               /* 0: the listener's */
  const void* private_data;        /* copied during the call */
  uint32_t private_data_len;       /* bytes; at most parley_attr's private_data_reply */
  uint32_t reserved;               /* must be 0 */
  const struct parley_qp_init* qp; /* used if parley_create_qp() was not called before; null: PARLEY_QP_INIT */
  void* user;                      /* reported with each later event of the connection */
};
#define PARLEY_ACCEPT_OPTS_INIT \
  { sizeof(struct parley_accept_opts), 0, 0, NULL, 0, 0, NULL, NULL }

/** Accepts the connection of a PARLEY_EVENT_CONNECT_REQUEST.
 *
 * Completes with PARLEY_EVENT_ESTABLISHED or PARLEY_EVENT_CONNECT_FAILED. `opts` may be null.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_WRONG_STATE, PARLEY_E_NO_SPACE. */
PARLEY_API int parley_accept(parley_ctx* ctx, parley_id id, const struct parley_accept_opts* opts);

/** Rejects the connection of a PARLEY_EVENT_CONNECT_REQUEST, with private data for the peer.
 *
 * Call parley_destroy() on the id afterwards. `data` may be null if `len`, its length in bytes, is 0.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_WRONG_STATE. */
PARLEY_API int parley_reject(parley_ctx* ctx, parley_id id, const void* data, uint32_t len);

/** Closes a connection gracefully: sends all posted requests, then ends the stream.
 *
 * Completes with PARLEY_EVENT_DISCONNECTED.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_WRONG_STATE. */
PARLEY_API int parley_disconnect(parley_ctx* ctx, parley_id id);

/** Releases a listener or a connection at once, with its queue pair.
 *
 * An open connection is reset, even if posted requests are outstanding. A listener's requests that wait for
 * parley_accept() are reset too. No later event has this id, and its number is not reused.
 *
 * Errors: PARLEY_E_BAD_HANDLE. */
PARLEY_API int parley_destroy(parley_ctx* ctx, parley_id id);

/** Creates the queue pair of a connection that waits for parley_accept(), so that receives can be posted before it.
 *
 * `init` may be null.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_WRONG_STATE, PARLEY_E_NO_SPACE. */
PARLEY_API int parley_create_qp(parley_ctx* ctx, parley_id id, const struct parley_qp_init* init);

/* ibv_qp_state. */
enum parley_qp_state {
  PARLEY_QPS_RESET,
  PARLEY_QPS_INIT,
  PARLEY_QPS_RTR,
  PARLEY_QPS_RTS,
  PARLEY_QPS_SQD,
  PARLEY_QPS_SQE,
  PARLEY_QPS_ERR
};

struct parley_id_attr {
  uint32_t size;
  uint32_t has_qp;                                        /* 0: there is no queue pair; ignore the next two */
  uint32_t qp_num;                                        /* as in parley_wc */
  uint32_t qp_state;                                      /* enum parley_qp_state */
  char local[PARLEY_ADDRSTRLEN], peer[PARLEY_ADDRSTRLEN]; /* empty: not known, or none */
  void* user;
};
#define PARLEY_ID_ATTR_INIT \
  { sizeof(struct parley_id_attr), 0, 0, 0, {0}, {0}, NULL }

/** Reports the attributes of a listener or a connection.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT. */
PARLEY_API int parley_query_id(parley_ctx* ctx, parley_id id, struct parley_id_attr* out);

/* ---- events ----------------------------------------------------------------------------------------------------- */

enum parley_event_type {
  PARLEY_EVENT_LISTENING = 1,
  PARLEY_EVENT_CONNECT_REQUEST, /* answer with parley_accept(), parley_reject() or parley_destroy() */
  PARLEY_EVENT_ESTABLISHED,
  PARLEY_EVENT_REJECTED,
  PARLEY_EVENT_CONNECT_FAILED, /* on either side; also if a listener cannot listen: `id` is then the listener's. If an
                                  incoming connection never sent a request (a port scan, for example), no event has
                                  reported `id` before, `user` is null, and there is nothing to destroy. */
  PARLEY_EVENT_RETRYING,
  PARLEY_EVENT_DISCONNECTED, /* status 0: graceful, all data was delivered */
  PARLEY_EVENT_TURNED_AWAY,  /* the listener had no room for `turned_away` peers since the last such event */
  PARLEY_EVENT_ADDRESS_CHANGED, /* rdmacm: an address under a connection changed; informational, the connection stays open */
  PARLEY_EVENT_DEVICE_REMOVED, /* rdmacm: the connection's device is being removed; a separate event reports the connection's end */
  PARLEY_EVENT_SRQ_LIMIT_REACHED /* fewer receives than parley_modify_srq()'s limit are posted to `srq`; `id` is 0 */
};

/* How far the set-up had progressed. */
enum parley_stage {
  PARLEY_STAGE_RESOLVE,
  PARLEY_STAGE_ROUTE,
  PARLEY_STAGE_TRANSPORT,
  PARLEY_STAGE_REQUEST,
  PARLEY_STAGE_DECISION,
  PARLEY_STAGE_REPLY,
  PARLEY_STAGE_READY,
  PARLEY_STAGE_DATA,
  PARLEY_STAGE_CLOSING
};

/* Pointers are valid until the context's next parley_next_event() or parley_close(); texts are never null. */
struct parley_event {
  uint32_t size;
  uint32_t type;  /* enum parley_event_type */
  int32_t status; /* 0, or -PARLEY_E_...: the cause of the failure */
  uint32_t stage; /* enum parley_stage, where it failed */
  parley_id id;
  parley_id listener;                                     /* CONNECT_REQUEST: the listener that received it */
  void* user;                                             /* the id's; CONNECT_REQUEST: the listener's */
  char local[PARLEY_ADDRSTRLEN], peer[PARLEY_ADDRSTRLEN]; /* empty: unknown */
  const void* private_data;                               /* the peer's; null if there is none */
  uint32_t private_data_len;
  uint16_t ird, ord; /* ESTABLISHED: this side's; CONNECT_REQUEST: what parley_accept() must satisfy */
  /* MPA parameters: agreed, or offered by the peer. */
  uint8_t mpa_revision; /* 0: another transport, or unknown */
  uint8_t mpa_rtr;      /* enum parley_rtr; PARLEY_RTR_DEFAULT: not agreed yet */
  uint8_t mpa_crc, mpa_markers;
  uint32_t turned_away;
  const char* reason;   /* the full message: "wait for the MPA Reply from 192.0.2.1:7471: ..." */
  const char* rule;     /* the broken rule: "RFC 5044 §7.1.1" */
  const char* received; /* what the peer sent or did */
  const char* advice;   /* a suggestion */
  uint64_t wait_ns;     /* RETRYING: until the next attempt */
  /* ESTABLISHED: when each step completed, in ns since parley_connect(), or since the incoming transport was accepted. */
  uint64_t transport_ns, request_ns, decision_ns, reply_ns, established_ns;
  uint64_t elapsed_ns; /* CONNECT_FAILED: ns since parley_connect(), or since the incoming transport was accepted */
  uint32_t attempts;   /* CONNECT_FAILED: attempts started or scheduled, over all addresses */
  uint32_t reserved;   /* 0 */
  parley_srq srq;      /* SRQ_LIMIT_REACHED */
  uint32_t reserved2;  /* 0 */
};
#define PARLEY_EVENT_INIT                                                                                             \
  {                                                                                                                   \
    sizeof(struct parley_event), 0, 0, 0, 0, 0, NULL, {0}, {0}, NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, \
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                                                               \
  }

/** Takes the next event.
 *
 * Returns 1, or 0 if no event is pending. Set `out->size` first, as PARLEY_EVENT_INIT does; the call overwrites everything
 * else.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_NO_MEMORY (the event stays queued). */
PARLEY_API int parley_next_event(parley_ctx* ctx, struct parley_event* out);

/** The name of an event type: "connect_request".
 *
 * The text has static lifetime; "unknown" for any other number. */
PARLEY_API const char* parley_event_name(uint32_t type);

/* ---- memory and work -------------------------------------------------------------------------------------------- */

/* ibv_access_flags. */
#define PARLEY_ACCESS_LOCAL_WRITE 1
#define PARLEY_ACCESS_REMOTE_WRITE 2
#define PARLEY_ACCESS_REMOTE_READ 4
#define PARLEY_ACCESS_REMOTE_ATOMIC 8

/* A registered memory region. This side uses lkey and the peer uses rkey; both address bytes in [addr, addr + length). The
 * two keys may differ. An lkey is valid in its context only. */
struct parley_mr {
  uint32_t size;
  uint32_t lkey, rkey;
  uint32_t reserved;
  uint64_t addr, length;
};
#define PARLEY_MR_INIT \
  { sizeof(struct parley_mr), 0, 0, 0, 0, 0 }

/** Registers memory for local and remote access, until parley_dereg_mr() or parley_close().
 *
 * The memory must stay mapped, with the same rights, while it is registered. A kernel NIC pins the pages; Parley's own
 * engines ("iwarp", "roce") copy in the program's address space. If registered memory is unmapped or loses its rights
 * (munmap, mprotect, a truncated file), the program gets SIGSEGV or SIGBUS as soon as a work request or a peer accesses it:
 * deregister it first, as verbs also require.
 *
 * All regions of a context are in one protection domain. `access` is a combination of PARLEY_ACCESS_... Set `out->size`
 * first, as PARLEY_MR_INIT does.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT (also a null `memory` and a `length` of 0), PARLEY_E_NO_SPACE,
 * PARLEY_E_PROTECTION (part of the memory is not mapped, not readable, or not writable as `access` requires). */
PARLEY_API int parley_reg_mr(parley_ctx* ctx, void* memory, size_t length, uint32_t access, struct parley_mr* out);

/** Deregisters a memory region.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT (no such region), PARLEY_E_WRONG_STATE (a posted request uses
 * it). */
PARLEY_API int parley_dereg_mr(parley_ctx* ctx, uint32_t lkey);

/** Creates a completion queue with room for `capacity` completions and posted requests in total.
 *
 * It cannot overrun: a request that would not fit is refused when it is posted.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_NO_SPACE (the context has 65536 queues). */
PARLEY_API int parley_create_cq(parley_ctx* ctx, uint32_t capacity, parley_cq* out);

/** Destroys a completion queue, with the completions in it.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_WRONG_STATE (a queue pair uses it, or it is the context's default queue). */
PARLEY_API int parley_destroy_cq(parley_ctx* ctx, parley_cq cq);

/** Requests one event for the next completion of a completion queue, as ibv_req_notify_cq.
 *
 * A program that sleeps between completions and has several queues learns from parley_next_cq_event() which to poll. Queue 0
 * may be armed too. `solicited_only`: if not 0, only a receive that the peer marked with PARLEY_SEND_SOLICITED, or a failure,
 * causes the event. Completions that are already in the queue cause none: poll once more after the request. An armed request for
 * any completion stays until its event; a later call does not change it.
 *
 * Errors: PARLEY_E_BAD_HANDLE. */
PARLEY_API int parley_req_notify_cq(parley_ctx* ctx, parley_cq cq, int solicited_only);

/** Takes the next completion queue whose request for notification caused an event.
 *
 * Returns 1 and writes the queue, or 0 if there is none. While an event waits, parley_fd() is readable and parley_wait() does not
 * wait. Request the next notification before the queue is polled, so that no completion is missed.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT. */
PARLEY_API int parley_next_cq_event(parley_ctx* ctx, parley_cq* out);

/** Creates a shared receive queue: several connections take receives from it.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_NO_SPACE (the context has 65536 queues). */
PARLEY_API int parley_create_srq(parley_ctx* ctx, uint32_t capacity, parley_srq* out);

/** Destroys a shared receive queue, with the receives in it.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_WRONG_STATE (a queue pair uses it). */
PARLEY_API int parley_destroy_srq(parley_ctx* ctx, parley_srq srq);

/** Sets the limit of a shared receive queue, as ibv_modify_srq with IBV_SRQ_LIMIT.
 *
 * PARLEY_EVENT_SRQ_LIMIT_REACHED reports once that fewer than `limit` receives are posted, also if that is so already. The limit
 * is 0 afterwards, which means that nothing is reported, as in a new queue.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT (above the queue's capacity), PARLEY_E_NO_MEMORY. */
PARLEY_API int parley_modify_srq(parley_ctx* ctx, parley_srq srq, uint32_t limit);

/* ibv_sge. Its 16 octets never change. */
struct parley_sge {
  uint64_t addr;
  uint32_t length;
  uint32_t lkey;
};

/* ibv_wr_opcode, with the same values. */
enum parley_opcode {
  PARLEY_RDMA_WRITE = 0,
  PARLEY_RDMA_WRITE_WITH_IMM = 1, /* not on iWARP */
  PARLEY_SEND = 2,
  PARLEY_SEND_WITH_IMM = 3, /* not on iWARP */
  PARLEY_RDMA_READ = 4,
  PARLEY_ATOMIC_CMP_AND_SWP = 5,
  PARLEY_ATOMIC_FETCH_AND_ADD = 6,
  PARLEY_SEND_WITH_INV = 9
};

/* ibv_send_flags. */
#define PARLEY_SEND_FENCE 1
#define PARLEY_SEND_UNSIGNALED 2 /* a completion only if the request fails */
#define PARLEY_SEND_SOLICITED 4

/* ibv_send_wr. Set unused members to 0. */
struct parley_send_wr {
  uint32_t size;
  uint32_t opcode; /* enum parley_opcode */
  uint64_t wr_id;
  uint32_t flags; /* PARLEY_SEND_FENCE, ... */
  uint32_t num_sge;
  const struct parley_sge* sges;
  uint64_t remote_addr;
  uint32_t rkey;              /* RDMA and atomics: the peer's region */
  uint32_t imm_data;          /* ..._WITH_IMM: 32 bits, in host byte order */
  uint64_t compare_add, swap; /* atomics */
  uint32_t invalidate_rkey;   /* PARLEY_SEND_WITH_INV: the peer's region to invalidate */
  uint32_t reserved;          /* must be 0 */
};
#define PARLEY_SEND_WR_INIT \
  { sizeof(struct parley_send_wr), 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0 }

/** Posts a request to the send queue of a connection.
 *
 * The call copies the list of scatter/gather elements. The memory they refer to belongs to the queue pair until the
 * completion. Nothing is sent before the next parley_progress().
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_NO_SPACE (the send queue or the completion queue is
 * full), PARLEY_E_PROTECTION (an lkey), PARLEY_E_WRONG_STATE, PARLEY_E_UNSUPPORTED, PARLEY_E_NO_COMMON_TERMS (a Read or an
 * atomic with an ORD of 0). */
PARLEY_API int parley_post_send(parley_ctx* ctx, parley_id id, const struct parley_send_wr* wr);

/** Posts an array of `n` requests in order, until one is refused.
 *
 * `wr_size` is sizeof(struct parley_send_wr) in the program: the distance in bytes between two elements. `posted` may be null; it
 * gets the number of requests that were posted, which is the index of the refused one. Those before it stay posted.
 *
 * Errors: as parley_post_send(), of the first request that was refused. */
PARLEY_API int parley_post_send_list(parley_ctx* ctx, parley_id id, const struct parley_send_wr* wrs, int n,
                                     size_t wr_size, int* posted);

/* ibv_recv_wr. */
struct parley_recv_wr {
  uint32_t size;
  uint32_t num_sge;
  uint64_t wr_id;
  const struct parley_sge* sges;
};
#define PARLEY_RECV_WR_INIT \
  { sizeof(struct parley_recv_wr), 0, 0, NULL }

/** Posts a receive to a connection.
 *
 * Errors: as parley_post_send(). */
PARLEY_API int parley_post_recv(parley_ctx* ctx, parley_id id, const struct parley_recv_wr* wr);

/** Posts an array of receives to a connection; the arguments are those of parley_post_send_list().
 *
 * Errors: as parley_post_send(), of the first receive that was refused. */
PARLEY_API int parley_post_recv_list(parley_ctx* ctx, parley_id id, const struct parley_recv_wr* wrs, int n,
                                     size_t wr_size, int* posted);

/** Posts a receive to a shared receive queue.
 *
 * Errors: as parley_post_send(). */
PARLEY_API int parley_post_srq_recv(parley_ctx* ctx, parley_srq srq, const struct parley_recv_wr* wr);

/** Posts an array of receives to a shared receive queue; the arguments are those of parley_post_send_list().
 *
 * Errors: as parley_post_send(), of the first receive that was refused. */
PARLEY_API int parley_post_srq_recv_list(parley_ctx* ctx, parley_srq srq, const struct parley_recv_wr* wrs, int n,
                                         size_t wr_size, int* posted);

/* ibv_wc_opcode, with the same values. */
enum parley_wc_opcode {
  PARLEY_WC_SEND = 0,
  PARLEY_WC_RDMA_WRITE = 1,
  PARLEY_WC_RDMA_READ = 2,
  PARLEY_WC_COMP_SWAP = 3,
  PARLEY_WC_FETCH_ADD = 4,
  PARLEY_WC_RECV = 128,
  PARLEY_WC_RECV_RDMA_WITH_IMM = 129
};

#define PARLEY_WC_WITH_IMM 1
#define PARLEY_WC_WITH_INV 2
#define PARLEY_WC_SOLICITED 4

/* ibv_wc. After a failure only wr_id, status, opcode and qp_num are valid. */
struct parley_wc {
  uint64_t wr_id;
  uint32_t status; /* ibv_wc_status, with the same values; 0 is success */
  uint32_t opcode; /* enum parley_wc_opcode */
  uint32_t flags;  /* PARLEY_WC_WITH_IMM, ... */
  uint32_t qp_num;
  uint32_t byte_len; /* receives, Reads and atomics: bytes */
  uint32_t imm_data;
  uint32_t invalidated_rkey;
  uint32_t reserved;
};

/** Takes up to `n` completions in order; returns how many it took.
 *
 * `wc_size` is sizeof(struct parley_wc) in the program: the distance in bytes between two elements of `out`.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT. */
PARLEY_API int parley_poll_cq(parley_ctx* ctx, parley_cq cq, struct parley_wc* out, int n, size_t wc_size);

/** Describes a completion status: "success", "work request flushed".
 *
 * The text has static lifetime; "unknown status" for any other number. */
PARLEY_API const char* parley_wc_status_str(uint32_t status);

#ifdef __cplusplus
}
#endif

#endif
