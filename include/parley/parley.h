/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Parley for C programs: connections, memory and queue pairs, in libparley.so.1. docs/c.md is the tour; each function has
 * a page of its own in section 3 of the manual.
 *
 * Results. Every function that can fail returns an int: 0 or a count, or -PARLEY_E_... below 0. parley_strerror() has the
 * code in words, parley_last_error() the whole sentence about the last failed call of this thread. No function throws,
 * aborts or blocks, except those that say so.
 *
 * Threads. A context and all that belongs to it is used by one thread at a time; contexts of one world share a thread.
 * Different contexts need nothing of each other. parley_wake() alone may be called by any thread and in signal handlers.
 * No thread is started, and no function is called back.
 *
 * Handles. A handle that is stale, foreign or null is refused with PARLEY_E_BAD_HANDLE; it is never read through.
 *
 * Versions. Every structure that is passed begins with `size`, which the _INIT macros set and each call checks: what a
 * program does not know of is 0, and that is always the default; of what the library fills, no octet beyond `size` is
 * touched. Of elements of arrays the call is told the size (parley_poll_cq); parley_sge alone has none, and never changes.
 *
 * Processes. A context belongs to the process that opened it: in a child of fork(2) its handle is refused, and so are those
 * of worlds. The child has copies of its descriptors until exec or exit, which keep the streams open: close the context
 * before, or exec soon. */
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
/* A listener or a connection, as rdma_cm_id; belongs to a context. 0: none. */
typedef uint64_t parley_id;
/* A completion queue; belongs to a context. 0: the context's own, which always exists. */
typedef uint32_t parley_cq;
/* A shared receive queue; belongs to a context. 0: none. */
typedef uint32_t parley_srq;

/* ---- results ---------------------------------------------------------------------------------------------------- */

enum parley_error {
  PARLEY_E_INVALID_ARGUMENT = 1, /* an argument is out of its documented range */
  PARLEY_E_BAD_HANDLE = 2,       /* null, stale or of another context */
  PARLEY_E_WRONG_STATE = 3,      /* not now */
  PARLEY_E_NO_SPACE = 4,         /* a bounded queue or buffer is full */
  PARLEY_E_NO_MEMORY = 5,
  PARLEY_E_UNSUPPORTED = 6, /* by this provider, or by the peer */
  PARLEY_E_NOT_PERMITTED = 7,
  PARLEY_E_IO = 8, /* the operating system says so */
  PARLEY_E_BAD_ADDRESS = 9,
  PARLEY_E_ADDRESS_IN_USE = 10,
  PARLEY_E_REFUSED = 11, /* nobody listens there */
  PARLEY_E_UNREACHABLE = 12,
  PARLEY_E_TIMED_OUT = 13,
  PARLEY_E_REJECTED = 14, /* by the peer's program */
  PARLEY_E_PEER_CLOSED = 15,
  PARLEY_E_PEER_RESET = 16,
  PARLEY_E_PROTOCOL = 17,        /* the peer broke a rule of the protocol: parley_event's rule and received */
  PARLEY_E_TERMINATED = 18,      /* an RDMAP Terminate ended the connection */
  PARLEY_E_PROTECTION = 19,      /* a key or an access right */
  PARLEY_E_NO_COMMON_TERMS = 20, /* RTR, IRD or ORD of the two sides cannot be reconciled */
  PARLEY_E_CANCELLED = 21,
  /* of parley/xrc.h */
  PARLEY_E_XRC_NOT_FOUND = 64,        /* there has never been such a TGT queue pair */
  PARLEY_E_XRC_GONE = 65,             /* it has ended, or is about to */
  PARLEY_E_XRC_OTHER_DOMAIN = 66,     /* it belongs to another domain */
  PARLEY_E_XRC_NOT_REGISTERED = 67,   /* and the call is for those who are */
  PARLEY_E_XRC_WRONG_TYPE = 68,       /* the number is that of no TGT queue pair */
  PARLEY_E_XRC_STATE = 69,            /* not in this state */
  PARLEY_E_XRC_CONFLICT = 70,         /* it is there with other attributes */
  PARLEY_E_XRC_BUSY = 71,             /* in use, or about to be made */
  PARLEY_E_XRC_NOT_MEMBER = 72,       /* closed, or a forked child */
  PARLEY_E_XRC_STALE_EPOCH = 73,      /* of an earlier broker */
  PARLEY_E_XRC_UNKNOWN_DOMAIN = 74,   /* no process has it open */
  PARLEY_E_XRC_DOMAIN_EXISTS = 75,    /* a process has it open */
  PARLEY_E_XRC_BAD_DESCRIPTOR = 76,   /* of no file */
  PARLEY_E_XRC_TOO_MANY_MEMBERS = 77, /* in the domain */
  PARLEY_E_XRC_WRONG_PROCESS = 78,    /* its process ID was used again */
  PARLEY_E_XRC_NO_BROKER = 79,        /* and none was started */
  /* of parley/mad.h */
  PARLEY_E_MAD_STATUS = 96,     /* the answer says that it is an error: parley_mad_reply's mad_status */
  PARLEY_E_MAD_NO_RECORDS = 97, /* subnet administration has nothing to that question */
  PARLEY_E_MAD_CUT = 98,        /* of a table one datagram came */
  PARLEY_E_INTERNAL = 255       /* a fault of Parley's own */
};

/** The code of a failed call in words: "the peer reset the connection".
 *
 * `rc` may have either sign. The text has static lifetime; it is never null. */
PARLEY_API const char* parley_strerror(int rc);

/** The sentence about the last call of this thread that failed.
 *
 * It names the argument and its range: "ird is 20000; it is 0 to 16382, or 16383". Never null; empty if none has failed. The
 * text stays as it is until the next call of this thread that fails, however often it is asked for, or until the thread
 * ends. */
PARLEY_API const char* parley_last_error(void);

/** The errno that says most nearly the same: EINVAL, EBUSY, ...
 *
 * For programs that were written for calls which return one. `rc` may have either sign; 0 for 0, EIO for a number that is no
 * code. */
PARLEY_API int parley_errno(int rc);

/** The version of the library that runs, "0.1.0".
 *
 * The text has static lifetime. */
PARLEY_API const char* parley_version(void);

/* ---- contexts --------------------------------------------------------------------------------------------------- */

struct parley_world_opts {
  uint32_t size;
  uint32_t loss_ppm; /* frames lost of a million, in each direction of each link; at most 1000000 */
  uint64_t seed;     /* the same seed and the same calls give the same run */
  uint64_t delay_ns; /* of each link, and there are two between any two hosts; 0: 1000 */
  uint64_t rate_bps; /* of each link; 0: 100 Gb/s */
  uint32_t mtu;      /* octets of an IP packet, 576 to 9000; 0: 1500 */
  uint32_t reserved; /* 0 */
};
#define PARLEY_WORLD_OPTS_INIT \
  { sizeof(struct parley_world_opts), 0, 0, 0, 0, 0, 0 }

/** Makes a simulated network: hosts around one switch, in virtual time.
 *
 * parley_open() with provider "sim" adds a host. No socket, clock or thread is involved. `opts` may be null.
 *
 * Errors: PARLEY_E_INVALID_ARGUMENT, PARLEY_E_NO_SPACE (1024 worlds are open), PARLEY_E_NO_MEMORY. */
PARLEY_API int parley_world_open(parley_world** out, const struct parley_world_opts* opts);

/** Closes a simulated network.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_WRONG_STATE (contexts of it are open). */
PARLEY_API int parley_world_close(parley_world* world);

struct parley_opts {
  uint32_t size;
  uint32_t ids_max;     /* listeners and connections alive at once; 0: what the provider has use for */
  const char* provider; /* "iwarp": TCP sockets; "roce": RoCEv2 on UDP sockets; "rdmacm": the machine's RDMA devices;
                           "sim": a host of `world`; null: PARLEY_PROVIDER in the environment, else "iwarp" */
  parley_world* world;  /* for "sim" */
  const char* host;     /* for "sim": its name in captures and reports; null: host1, host2, ... */
  uint64_t seed;        /* of the random part of waits between attempts; 0: the provider's choice */
};
#define PARLEY_OPTS_INIT \
  { sizeof(struct parley_opts), 0, NULL, NULL, NULL, 0 }

/** Opens a context.
 *
 * `opts` may be null. All hosts of a world are opened before the first call of parley_progress() or parley_wait() on any of
 * them.
 *
 * Errors: PARLEY_E_INVALID_ARGUMENT (an unknown provider: the sentence lists those that there are), PARLEY_E_BAD_HANDLE (the
 * world), PARLEY_E_NO_SPACE (4096 contexts are open, or descriptors have run out), PARLEY_E_UNREACHABLE (no RDMA device), PARLEY_E_NOT_PERMITTED,
 * PARLEY_E_UNSUPPORTED (built without librdmacm), PARLEY_E_NO_MEMORY. */
PARLEY_API int parley_open(parley_ctx** out, const struct parley_opts* opts);

/** Closes a context, and everything that belongs to it.
 *
 * Connections that stand are reset, so that no peer takes it for a graceful end: parley_disconnect() is that, up to its
 * PARLEY_EVENT_DISCONNECTED. A process that ends without this call leaves the ends of its connections to the system: over
 * "iwarp" they are reset as well, over "roce" the peer finds out by its next keepalive. Does not block.
 *
 * Errors: PARLEY_E_BAD_HANDLE. */
PARLEY_API int parley_close(parley_ctx* ctx);

struct parley_attr {
  uint32_t size;
  char provider[16];
  char transport[16];                                /* "iWARP", "RoCE" */
  uint32_t private_data_request, private_data_reply; /* octets that each message holds by default */
  uint32_t max_cqe;                                  /* completions that a queue can hold */
  uint32_t max_qp_wr;                                /* requests of a queue pair, each way */
  uint32_t max_srq_wr;
  uint32_t max_sge;       /* pieces of a request */
  uint32_t max_rd_atomic; /* IRD and ORD */
};
#define PARLEY_ATTR_INIT \
  { sizeof(struct parley_attr), {0}, {0}, 0, 0, 0, 0, 0, 0, 0 }

/** What the context's provider and device can do.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT. */
PARLEY_API int parley_query(parley_ctx* ctx, struct parley_attr* out);

/** One descriptor for the caller's own loop: poll(2), epoll(7), select(2).
 *
 * It is readable when parley_progress() has something to do, timers and calls that were just made included, so no time limit is
 * needed. It is the context's: wait on it, and do nothing else with it. Of a simulated host it is always readable, since
 * virtual time passes only in parley_progress().
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_NO_SPACE (of descriptors). */
PARLEY_API int parley_fd(parley_ctx* ctx);

/** Does what there is to do now, and does not wait.
 *
 * Returns 1 if anything was done or events wait to be taken, 0 if not. Afterwards take the events and poll the completion queues: both fill here and in
 * parley_wait() only. In a world a call lets at most 100 us pass on the whole network, and ends early when a host has
 * something to see.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_NO_SPACE (the world has had more steps than it can count). */
PARLEY_API int parley_progress(parley_ctx* ctx);

/** As parley_progress(), but waits until something was done.
 *
 * `timeout_ms` is the longest wait, -1 for no limit; virtual time in a world. Returns 0 when the time is over, and in a world
 * when nothing is left to happen. This call blocks.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_NO_SPACE. */
PARLEY_API int parley_wait(parley_ctx* ctx, int timeout_ms);

/** Makes parley_fd() readable and a parley_wait() return, from any thread.
 *
 * If nobody waits, the next parley_wait() does not. The context must not be closed meanwhile.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_UNSUPPORTED (in a world). */
PARLEY_API int parley_wake(parley_ctx* ctx);

/** The context's time in nanoseconds since an arbitrary origin; virtual in a world.
 *
 * It never goes back. 0: the handle is bad. */
PARLEY_API uint64_t parley_now_ns(parley_ctx* ctx);

/* ---- addresses -------------------------------------------------------------------------------------------------- */

/* "[ipv6%interface]:port" and its end. */
#define PARLEY_ADDRSTRLEN 64

/** Turns a name or a number into addresses as the other functions take them: "192.0.2.1:7471", "[fe80::1%3]:7471".
 *
 * Writes at most `n`, returns how many. Asks the system's resolver: this call blocks.
 *
 * Errors: PARLEY_E_INVALID_ARGUMENT, PARLEY_E_BAD_ADDRESS. */
PARLEY_API int parley_resolve(const char* host, uint16_t port, char (*out)[PARLEY_ADDRSTRLEN], int n);

/** The address by which peers reach a simulated host, with port 0; `family` is 4 or 6.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_UNSUPPORTED (of other providers: a machine has several
 * addresses, and its user knows which one is meant). */
PARLEY_API int parley_host_address(parley_ctx* ctx, int family, char out[PARLEY_ADDRSTRLEN]);

/* ---- connections ------------------------------------------------------------------------------------------------ */

/* The queue pair of a connection. */
struct parley_qp_init {
  uint32_t size;
  parley_cq send_cq, recv_cq; /* 0: the context's own */
  parley_srq srq;             /* instead of a receive queue of its own */
  uint32_t max_send_wr;       /* requests posted and not complete; 0: 64 */
  uint32_t max_recv_wr;       /* as max_send_wr; unused with srq */
};
#define PARLEY_QP_INIT \
  { sizeof(struct parley_qp_init), 0, 0, 0, 0, 0 }

/* The ready-to-receive indication of MPA: how the initiator speaks first (RFC 6581 §4.2, OFA 2007-10 Rtr §1). */
enum parley_rtr {
  PARLEY_RTR_DEFAULT = 0, /* a zero-length Read, so that the responder may send first */
  PARLEY_RTR_NONE,        /* client/server: the initiator's first message releases the responder */
  PARLEY_RTR_FRAME,       /* the Rtr frame of 2007; revision 1 only */
  PARLEY_RTR_SEND,
  PARLEY_RTR_WRITE,
  PARLEY_RTR_READ
};

/* IRD or ORD that is not negotiated (RFC 6581 §9.1). */
#define PARLEY_DEPTH_NOT_NEGOTIATED 0x3FFF
/* IRD and ORD are 32 where nothing is said; this says 0. */
#define PARLEY_DEPTH_NONE 0xFFFF

/* keepalive_ms, dead_after_ms: never. 0 is the default there. */
#define PARLEY_NEVER 0xFFFFFFFFu

struct parley_listen_opts {
  uint32_t size;
  uint16_t ird, ord;    /* of connections whose parley_accept() says nothing else; 0: 32 */
  uint32_t backlog;     /* connections that the system may hold until they are looked at; 0: 4096 */
  uint32_t pending_max; /* connections that wait for a decision; 0: 1024 */
  void* user;           /* comes with each event of the listener */
  /* Of its connections, set-up included; as in parley_connect_opts. */
  uint32_t keepalive_ms, dead_after_ms;
};
#define PARLEY_LISTEN_OPTS_INIT \
  { sizeof(struct parley_listen_opts), 0, 0, 0, 0, NULL, 0, 0 }

/** Listens for connections at a local address; port 0 lets the system choose.
 *
 * Answered by PARLEY_EVENT_LISTENING, which has the address with its port, or by PARLEY_EVENT_CONNECT_FAILED. In a world the
 * address "any" is the host's own. `opts` may be null.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_BAD_ADDRESS, PARLEY_E_NO_SPACE. */
PARLEY_API int parley_listen(parley_ctx* ctx, const char* local, const struct parley_listen_opts* opts, parley_id* out);

struct parley_connect_opts {
  uint32_t size;
  uint16_t ird, ord;               /* inbound Reads that this side holds, outbound ones that it wants; 0: 32 */
  const void* private_data;        /* read during the call */
  uint32_t private_data_len;       /* at most parley_attr's private_data_request */
  uint32_t timeout_ms;             /* longest wait for the transport, for each address; 0: 10 s */
  uint32_t reply_timeout_ms;       /* longest wait for the peer's answer; 0: 30 s */
  uint32_t retry_rounds;           /* how often all addresses are tried; 0: once; at most 100 */
  uint32_t retry_first_ms;         /* wait before the second round, doubled for each later one; 0: 100 ms */
  uint32_t retry_cap_ms;           /* longest wait; 0: 10 s */
  const char* local;               /* source address; null: the system chooses */
  const char* const* backups;      /* addresses to try when the first fails for a reason that may pass */
  uint32_t backup_count;           /* at most 16 */
  uint8_t mpa_revision;            /* 1 or 2; 0: 2, and 1 for a peer that does not know 2 */
  uint8_t mpa_rtr;                 /* enum parley_rtr */
  uint16_t reserved;               /* 0 */
  const struct parley_qp_init* qp; /* null: PARLEY_QP_INIT */
  void* user;                      /* comes with each event of the connection */
  uint32_t total_timeout_ms;       /* longest time until ESTABLISHED, over all addresses, rounds and waits; 0: none */
  uint32_t reserved2;              /* 0 */
  /* How a peer is noticed that went without a word: after keepalive_ms of silence it is asked whether it is there, and one that
   * answers nothing for dead_after_ms is dead: PARLEY_EVENT_DISCONNECTED with PARLEY_E_TIMED_OUT. 0: 5 s and 12 s (in a world: never);
   * PARLEY_NEVER: never. keepalive_ms is the smaller one. docs/cm.md, How connections end. */
  uint32_t keepalive_ms, dead_after_ms;
};
#define PARLEY_CONNECT_OPTS_INIT \
  { sizeof(struct parley_connect_opts), 0, 0, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, 0, 0, NULL, NULL, 0, 0, 0, 0 }

/** Connects to a peer.
 *
 * Answered by PARLEY_EVENT_ESTABLISHED, PARLEY_EVENT_REJECTED or PARLEY_EVENT_CONNECT_FAILED; PARLEY_EVENT_RETRYING may come
 * before. Receives may be posted at once. `opts` may be null.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_BAD_ADDRESS, PARLEY_E_NO_SPACE. */
PARLEY_API int parley_connect(parley_ctx* ctx, const char* peer, const struct parley_connect_opts* opts,
                              parley_id* out);

struct parley_accept_opts {
  uint32_t size;
  uint16_t ird, ord;               /* 0: the listener's */
  const void* private_data;        /* read during the call */
  uint32_t private_data_len;       /* at most parley_attr's private_data_reply */
  uint32_t reserved;               /* 0 */
  const struct parley_qp_init* qp; /* used if parley_create_qp() was not called before; null: PARLEY_QP_INIT */
  void* user;                      /* comes with each further event of the connection */
};
#define PARLEY_ACCEPT_OPTS_INIT \
  { sizeof(struct parley_accept_opts), 0, 0, NULL, 0, 0, NULL, NULL }

/** Accepts the connection of a PARLEY_EVENT_CONNECT_REQUEST.
 *
 * Answered by PARLEY_EVENT_ESTABLISHED or PARLEY_EVENT_CONNECT_FAILED. `opts` may be null.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_WRONG_STATE, PARLEY_E_NO_SPACE. */
PARLEY_API int parley_accept(parley_ctx* ctx, parley_id id, const struct parley_accept_opts* opts);

/** Rejects the connection of a PARLEY_EVENT_CONNECT_REQUEST, with private data that says why.
 *
 * The id is to be destroyed then. `data` may be null when `len` is 0.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_WRONG_STATE. */
PARLEY_API int parley_reject(parley_ctx* ctx, parley_id id, const void* data, uint32_t len);

/** Closes a connection gracefully: sends what is posted, then ends the stream.
 *
 * Answered by PARLEY_EVENT_DISCONNECTED.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_WRONG_STATE. */
PARLEY_API int parley_disconnect(parley_ctx* ctx, parley_id id);

/** Forgets a listener or a connection at once, with its queue pair.
 *
 * A connection that stands is reset, whatever has been posted; a listener's requests that wait for parley_accept() are reset
 * too. No event of the id comes afterwards, and its number is not given out again.
 *
 * Errors: PARLEY_E_BAD_HANDLE. */
PARLEY_API int parley_destroy(parley_ctx* ctx, parley_id id);

/** Makes the queue pair of a connection that waits for parley_accept(), so that receives can be posted before.
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
  uint32_t has_qp;                                        /* 0: there is no queue pair, and the next two say nothing */
  uint32_t qp_num;                                        /* as in parley_wc */
  uint32_t qp_state;                                      /* enum parley_qp_state */
  char local[PARLEY_ADDRSTRLEN], peer[PARLEY_ADDRSTRLEN]; /* empty: not known, or none */
  void* user;
};
#define PARLEY_ID_ATTR_INIT \
  { sizeof(struct parley_id_attr), 0, 0, 0, {0}, {0}, NULL }

/** What is known of a listener or a connection.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT. */
PARLEY_API int parley_query_id(parley_ctx* ctx, parley_id id, struct parley_id_attr* out);

/* ---- events ----------------------------------------------------------------------------------------------------- */

enum parley_event_type {
  PARLEY_EVENT_LISTENING = 1,
  PARLEY_EVENT_CONNECT_REQUEST, /* answer with parley_accept(), parley_reject() or parley_destroy() */
  PARLEY_EVENT_ESTABLISHED,
  PARLEY_EVENT_REJECTED,
  PARLEY_EVENT_CONNECT_FAILED, /* on either side; also of a listener that cannot listen: then `id` is the listener's. Of a
                                  connection that came in and never asked for anything, such as a scan of ports, `id` is one
                                  that was not told before, `user` is null, and there is nothing to destroy. */
  PARLEY_EVENT_RETRYING,
  PARLEY_EVENT_DISCONNECTED,    /* status 0: gracefully, all data was delivered */
  PARLEY_EVENT_TURNED_AWAY,     /* the listener had no room for `turned_away` peers since the last such event */
  PARLEY_EVENT_ADDRESS_CHANGED, /* rdmacm: an address under a connection changed; advice, not an end */
  PARLEY_EVENT_DEVICE_REMOVED   /* rdmacm: the connection's device goes; its end follows as an event of its own */
};

/* How far the set-up had come. */
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

/* Pointers are valid until the next parley_next_event() or parley_close() of the context; texts are never null. */
struct parley_event {
  uint32_t size;
  uint32_t type;  /* enum parley_event_type */
  int32_t status; /* 0, or -PARLEY_E_...: why it failed */
  uint32_t stage; /* enum parley_stage, of what failed */
  parley_id id;
  parley_id listener;                                     /* CONNECT_REQUEST: whose */
  void* user;                                             /* of the id; CONNECT_REQUEST: of the listener */
  char local[PARLEY_ADDRSTRLEN], peer[PARLEY_ADDRSTRLEN]; /* empty: not known */
  const void* private_data;                               /* the peer's; null if there is none */
  uint32_t private_data_len;
  uint16_t ird, ord; /* ESTABLISHED: this side's; CONNECT_REQUEST: what parley_accept() would have to meet */
  /* MPA's terms: what was agreed, or what the peer offers. */
  uint8_t mpa_revision; /* 0: another transport, or not known */
  uint8_t mpa_rtr;      /* enum parley_rtr; PARLEY_RTR_DEFAULT: not agreed yet */
  uint8_t mpa_crc, mpa_markers;
  uint32_t turned_away;
  const char* reason;   /* the whole sentence: "wait for the MPA Reply from 192.0.2.1:7471: ..." */
  const char* rule;     /* the rule that was broken: "RFC 5044 §7.1.1" */
  const char* received; /* what the peer sent or did */
  const char* advice;   /* what to try */
  uint64_t wait_ns;     /* RETRYING: until the next attempt */
  /* ESTABLISHED: when each step was done, in nanoseconds since parley_connect() or since the transport came in. */
  uint64_t transport_ns, request_ns, decision_ns, reply_ns, established_ns;
  uint64_t elapsed_ns; /* CONNECT_FAILED: since parley_connect(), or since the transport came in */
  uint32_t attempts;   /* CONNECT_FAILED: begun or due, at all addresses */
  uint32_t reserved;   /* 0 */
};
#define PARLEY_EVENT_INIT                                                                                             \
  {                                                                                                                   \
    sizeof(struct parley_event), 0, 0, 0, 0, 0, NULL, {0}, {0}, NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, \
        0, 0, 0, 0, 0, 0, 0, 0, 0                                                                                     \
  }

/** Takes the next event.
 *
 * Returns 1, or 0 when there is none. `out->size` is to be set, as PARLEY_EVENT_INIT does; all else is overwritten.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_NO_MEMORY (the event stays). */
PARLEY_API int parley_next_event(parley_ctx* ctx, struct parley_event* out);

/** The name of an event's type: "connect_request".
 *
 * The text has static lifetime; "unknown" for a number that is none. */
PARLEY_API const char* parley_event_name(uint32_t type);

/* ---- memory and work -------------------------------------------------------------------------------------------- */

/* ibv_access_flags. */
#define PARLEY_ACCESS_LOCAL_WRITE 1
#define PARLEY_ACCESS_REMOTE_WRITE 2
#define PARLEY_ACCESS_REMOTE_READ 4
#define PARLEY_ACCESS_REMOTE_ATOMIC 8

/* A registered region. This side names octets of it by lkey, a peer by rkey, and both by [addr, addr + length). The two keys
 * may differ, and an lkey is good for its context alone. */
struct parley_mr {
  uint32_t size;
  uint32_t lkey, rkey;
  uint32_t reserved;
  uint64_t addr, length;
};
#define PARLEY_MR_INIT \
  { sizeof(struct parley_mr), 0, 0, 0, 0, 0 }

/** Registers memory, which must stay mapped, with these rights, until parley_dereg_mr() or parley_close().
 *
 * Unlike a kernel's NIC, which pins pages, Parley's own engines ("iwarp", "roce") copy in the program's address space. Memory
 * that is unmapped, or loses its rights (munmap, mprotect, a file that is truncated), while it is registered ends the program with
 * SIGSEGV or SIGBUS when work or a peer touches it: take away the registration first, as verbs ask for too.
 *
 * All regions of a context are in one protection domain. `access` is of PARLEY_ACCESS_... `out->size` is to be set, as
 * PARLEY_MR_INIT does.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_NO_SPACE, PARLEY_E_PROTECTION (not all of the memory is
 * mapped, or it may not be read, or not be written as `access` asks for). */
PARLEY_API int parley_reg_mr(parley_ctx* ctx, void* memory, size_t length, uint32_t access, struct parley_mr* out);

/** Ends a registration.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT (no such region), PARLEY_E_WRONG_STATE (posted work uses it). */
PARLEY_API int parley_dereg_mr(parley_ctx* ctx, uint32_t lkey);

/** Makes a completion queue for `capacity` completions and posted requests together.
 *
 * It cannot overrun: a request for which there is no room is refused when it is posted.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_NO_SPACE (65536 queues). */
PARLEY_API int parley_create_cq(parley_ctx* ctx, uint32_t capacity, parley_cq* out);

/** Destroys a completion queue, with the completions in it.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_WRONG_STATE (a queue pair uses it, or it is the context's own). */
PARLEY_API int parley_destroy_cq(parley_ctx* ctx, parley_cq cq);

/** Makes a queue of receives that several connections take from.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_NO_SPACE (65536 queues). */
PARLEY_API int parley_create_srq(parley_ctx* ctx, uint32_t capacity, parley_srq* out);

/** Destroys a shared receive queue, with the receives in it.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_WRONG_STATE (a queue pair uses it). */
PARLEY_API int parley_destroy_srq(parley_ctx* ctx, parley_srq srq);

/* ibv_sge. Its 16 octets never change. */
struct parley_sge {
  uint64_t addr;
  uint32_t length;
  uint32_t lkey;
};

/* ibv_wr_opcode, with its numbers. */
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
#define PARLEY_SEND_UNSIGNALED 2 /* only a failure leaves a completion */
#define PARLEY_SEND_SOLICITED 4

/* ibv_send_wr. Zero what is not used. */
struct parley_send_wr {
  uint32_t size;
  uint32_t opcode; /* enum parley_opcode */
  uint64_t wr_id;
  uint32_t flags; /* PARLEY_SEND_FENCE, ... */
  uint32_t num_sge;
  const struct parley_sge* sges;
  uint64_t remote_addr;
  uint32_t rkey; /* rdma and atomics: the peer's */
  uint32_t imm_data;
  uint64_t compare_add, swap; /* atomics */
  uint32_t invalidate_rkey;   /* PARLEY_SEND_WITH_INV: the peer's region that becomes invalid */
  uint32_t reserved;          /* 0 */
};
#define PARLEY_SEND_WR_INIT \
  { sizeof(struct parley_send_wr), 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0 }

/** Posts a request to the send queue of a connection.
 *
 * The list of pieces is copied; the memory is the queue pair's until the completion. Nothing is sent before the next
 * parley_progress().
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_NO_SPACE (the queue, or the completion queue),
 * PARLEY_E_PROTECTION (an lkey), PARLEY_E_WRONG_STATE, PARLEY_E_UNSUPPORTED, PARLEY_E_NO_COMMON_TERMS (a Read while ORD is
 * 0). */
PARLEY_API int parley_post_send(parley_ctx* ctx, parley_id id, const struct parley_send_wr* wr);

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

/** Posts a receive to a shared receive queue.
 *
 * Errors: as parley_post_send(). */
PARLEY_API int parley_post_srq_recv(parley_ctx* ctx, parley_srq srq, const struct parley_recv_wr* wr);

/* ibv_wc_opcode, with its numbers. */
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

/* ibv_wc. After a failure only wr_id, status, opcode and qp_num say anything. */
struct parley_wc {
  uint64_t wr_id;
  uint32_t status; /* ibv_wc_status, with its numbers; 0 is success */
  uint32_t opcode; /* enum parley_wc_opcode */
  uint32_t flags;  /* PARLEY_WC_WITH_IMM, ... */
  uint32_t qp_num;
  uint32_t byte_len; /* receives, Reads and atomics: octets */
  uint32_t imm_data;
  uint32_t invalidated_rkey;
  uint32_t reserved;
};

/** Takes up to `n` completions in order; returns how many.
 *
 * `wc_size` is sizeof(struct parley_wc) as the program was compiled: the octets from one element of `out` to the next.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT. */
PARLEY_API int parley_poll_cq(parley_ctx* ctx, parley_cq cq, struct parley_wc* out, int n, size_t wc_size);

/** A completion's status in words: "success", "work request flushed".
 *
 * The text has static lifetime; "unknown status" for a number that is none. */
PARLEY_API const char* parley_wc_status_str(uint32_t status);

#ifdef __cplusplus
}
#endif

#endif
