/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* InfiniBand's management datagrams for C programs, in libparley.so.1: requests by name or by number, to any port of the subnet and
 * to subnet administration, blocking or polled. docs/mad.md is the tour; parley/wire/mad.h has the structures and their members.
 *
 * What holds for parley.h holds here: results below 0 are -PARLEY_E_..., parley_last_error() has the sentence, handles are
 * looked up, structures begin with `size`, a port is used by one thread at a time, and in a child of fork(2) its handle is refused.
 * Different are:
 *
 * Waiting. parley_mad_open() and parley_mad_call() wait; parley_mad_close() waits for a simulator's goodbye. The others do not.
 *
 * Threads. None is started, except by "umad" under ibsim's preloaded library, whose descriptors nobody else could wait for.
 *
 * Bounds. A request ends after its time limit and its retries; at most PARLEY_MAD_REQUESTS_MAX of a port are open, answers that
 * were not taken included.
 *
 * Requests, traps and reports that come to the port are not taken: this is the side that asks. */
#ifndef PARLEY_MAD_H
#define PARLEY_MAD_H

#include "parley/parley.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A port of the subnet that requests leave by. */
typedef struct parley_mad parley_mad;

#define PARLEY_MAD_REQUESTS_MAX 16384
#define PARLEY_MAD_NO_RETRIES 0xFFFFFFFFu

struct parley_mad_opts {
  uint32_t size;
  uint32_t window;     /* requests under way at a time, at most 1024; 0: 16 */
  uint32_t timeout_ms; /* for the answer to the first try, each further one waits twice as long; 0: 1 s */
  uint32_t retries;    /* times that a request is sent again, at most 255; 0: 3; or PARLEY_MAD_NO_RETRIES */
  uint64_t m_key;      /* of requests of subnet management */
  uint64_t sm_key;     /* of requests to subnet administration */
  uint64_t table_max;  /* octets of data in one answer; a longer one is PARLEY_MAD_FAULT_NO_SPACE; 0: 64 MiB */
};
#define PARLEY_MAD_OPTS_INIT \
  { sizeof(struct parley_mad_opts), 0, 0, 0, 0, 0, 0 }

/** Opens a port.
 *
 * `where` is "ibsim:NAME/NODE", a node of a subnet that ibsim or `parley fabric` simulates (NAME or /NODE may be left out:
 * $IBSIM_SOCKNAME or "sim", $SIM_HOST or the first one), or "umad:DEVICE/PORT", a device of this machine (either may be left out: the
 * first one that is active), "roce:ADDRESS", QP1 of Parley's RoCE engine at an address of this machine over UDP port 4791, or with
 * "/qp" behind it a UD queue pair there, or "verbs:DEVICE/GID", a UD queue pair of a RoCE device at the GID of that index (either may be
 * left out: the best GID). Null: a simulated one if these variables are set, else a device. This call blocks, a simulator's
 * patience of some seconds at most. `opts` may be null.
 *
 * Errors: PARLEY_E_INVALID_ARGUMENT, PARLEY_E_UNREACHABLE (no such simulator, node, device, port or address, no permission, or
 * built without libibumad or libibverbs: the sentence says which), PARLEY_E_NO_SPACE (256 are open), PARLEY_E_NO_MEMORY. */
PARLEY_API int parley_mad_open(parley_mad** out, const char* where, const struct parley_mad_opts* opts);

/** Closes a port; requests under way end, and their answers are not told.
 *
 * Errors: PARLEY_E_BAD_HANDLE. */
PARLEY_API int parley_mad_close(parley_mad* port);

struct parley_mad_attr {
  uint32_t size;
  uint32_t port;     /* its number on the node */
  uint16_t lid;      /* 0: it has none yet */
  uint16_t sm_lid;   /* of the subnet manager, and of subnet administration; 0: none is known */
  uint8_t sm_sl;     /* service level of the way there */
  uint8_t lmc;       /* it has 2^lmc LIDs */
  uint16_t rmpp;     /* not 0: what is below does RMPP; else Parley does it */
  uint32_t requests; /* open ones, answers that were not taken included */
  uint32_t reserved; /* 0 */
  uint64_t node_guid;
  uint64_t port_guid;
  uint8_t gid[16]; /* GID 0 */
};
#define PARLEY_MAD_ATTR_INIT                                            \
  {                                                                     \
    sizeof(struct parley_mad_attr), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, { 0 } \
  }

/** What is known of the port itself.
 *
 * `out->size` is to be set, as PARLEY_MAD_ATTR_INIT does.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT. */
PARLEY_API int parley_mad_query(parley_mad* port, struct parley_mad_attr* out);

/* ---- requests --------------------------------------------------------------------------------------------------- */

/* Everything in it is copied by the call that takes it. */
struct parley_mad_request {
  uint32_t size;
  uint32_t modifier; /* attribute modifier */
  const char*
      method; /* "SubnGet", "SubnAdmGetTable", "PerformanceGet", ...; null: the three numbers say what is asked */
  const char* attribute;  /* "NodeInfo", "PathRecord", ...: what the method may ask for */
  const char* path;       /* "5", "0,1,3", "fe80::2:c903:0:1491", "0002:c903:0000:1491", "IBPath(DLID=5,SL=2)", ...:
                              docs/mad.md, Paths; null: subnet administration as the port knows it */
  const char* const* set; /* `set_count` texts "member=value", into the body and into the component mask: "slid=1",
                              "node_info.num_ports=36", "service_data8[3]=1", also "modifier=1" and "key=1" */
  uint32_t set_count;
  uint32_t
      body_length; /* octets of `body`: the attribute's, as parley_mad_size() says; by numbers: as many as there is room for */
  const void* body;        /* the attribute's octets, before `set`; null: zeros */
  uint64_t component_mask; /* of subnet administration; `set` adds bits to it */
  uint64_t key;            /* B_Key or CC_Key */
  uint32_t mgmt_class;     /* by numbers: 0x01 (also by directed route), 0x03, ... */
  uint16_t method_number;  /* 1 to 0x7F */
  uint16_t attribute_number;
  uint32_t oui;        /* 24 bits, of a vendor's class with one */
  uint32_t timeout_ms; /* 0: the port's */
  uint32_t retries;    /* 0: the port's; or PARLEY_MAD_NO_RETRIES */
  uint32_t reserved;   /* 0 */
  void* user;          /* comes back with the reply */
};
#define PARLEY_MAD_REQUEST_INIT \
  { sizeof(struct parley_mad_request), 0, NULL, NULL, NULL, NULL, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL }

/* Why there is no answer, or none to use. */
enum parley_mad_fault {
  PARLEY_MAD_FAULT_NONE = 0,
  PARLEY_MAD_FAULT_TIMEOUT = 1,      /* no answer */
  PARLEY_MAD_FAULT_BUSY = 2,         /* the other side stayed busy */
  PARLEY_MAD_FAULT_STATUS = 3,       /* mad_status is an error */
  PARLEY_MAD_FAULT_CLASS_STATUS = 4, /* its upper octet is: of subnet administration, 3 is "no records" */
  PARLEY_MAD_FAULT_MALFORMED = 5,    /* the answer is not what was asked for */
  PARLEY_MAD_FAULT_CUT = 6,      /* of a table one datagram came: what is between does no RMPP. Its records are there */
  PARLEY_MAD_FAULT_RMPP = 7,     /* a transfer in segments was given up */
  PARLEY_MAD_FAULT_REFUSED = 8,  /* it could not be sent */
  PARLEY_MAD_FAULT_REDIRECT = 9, /* redirected to where it cannot be followed */
  PARLEY_MAD_FAULT_REDIRECT_LOOP = 10,
  PARLEY_MAD_FAULT_CANCELLED = 11, /* by parley_mad_cancel(), or the simulator or device is gone */
  PARLEY_MAD_FAULT_DEADLINE = 12,
  PARLEY_MAD_FAULT_NO_SPACE = 13,
  PARLEY_MAD_FAULT_INVALID = 14 /* no request that can be sent */
};

/* The pointers are valid until the next parley_mad_call(), parley_mad_poll() or parley_mad_close() of the port. */
struct parley_mad_reply {
  uint32_t size;
  int32_t status;         /* 0, or -PARLEY_E_...: why there is no answer */
  uint64_t id;            /* what parley_mad_post() gave; 0 of a call */
  void* user;             /* the request's */
  const uint8_t* records; /* the attribute, or the first record of a table; null: none */
  const char* structure;  /* what each is, "PortInfo", as parley_mad_get() takes it; null: not known here */
  uint32_t count;         /* of records: 1, or a table's */
  uint32_t stride;        /* octets from one to the next, at least those of the structure */
  const uint8_t* mad;     /* all that came: 256 octets, or a table's headers and records; null: nothing came */
  uint32_t mad_length;
  uint32_t fault;          /* enum parley_mad_fault */
  uint32_t mad_status;     /* the answer's 16 bits, without a directed route's D bit */
  uint32_t tries;          /* times that it was sent, where there is no answer */
  const char* status_text; /* mad_status in words, "no records"; empty if it is 0 */
  const char* path;  /* by which there is no answer, "IBPath(DLID=5)"; empty if there is one, or it was not sent */
  const char* error; /* "SubnGet(NodeInfo) to LID 5: no answer in 4 tries"; empty if there is an answer */
};
#define PARLEY_MAD_REPLY_INIT \
  { sizeof(struct parley_mad_reply), 0, 0, NULL, NULL, NULL, 0, 0, NULL, 0, 0, 0, 0, NULL, NULL, NULL }

/** Sends a request and waits for its answer.
 *
 * Others that were posted go on meanwhile; their answers wait for parley_mad_poll(). `reply` may be null; else its `size` is to be
 * set, as PARLEY_MAD_REPLY_INIT does, and it is filled also where the call fails once the request was taken. Returns 0, or what
 * reply->status has. This call blocks.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT (the request or the reply: the sentence lists the names that there are),
 * PARLEY_E_TIMED_OUT, PARLEY_E_MAD_STATUS, PARLEY_E_MAD_NO_RECORDS, PARLEY_E_MAD_CUT, PARLEY_E_PROTOCOL (malformed, or RMPP was given
 * up), PARLEY_E_UNREACHABLE (refused, or a redirection that leads nowhere), PARLEY_E_PEER_CLOSED (the simulator is gone), PARLEY_E_IO
 * (the device is gone), PARLEY_E_WRONG_STATE (no subnet administration is known), PARLEY_E_NO_SPACE, PARLEY_E_NO_MEMORY. */
PARLEY_API int parley_mad_call(parley_mad* port, const struct parley_mad_request* request,
                               struct parley_mad_reply* reply);

/** Posts a request; its answer comes from parley_mad_poll().
 *
 * It leaves in parley_mad_progress(), in the order in which requests were posted, when the window has room. `id` may be null.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_WRONG_STATE (no subnet administration is known),
 * PARLEY_E_PEER_CLOSED, PARLEY_E_IO, PARLEY_E_NO_SPACE (PARLEY_MAD_REQUESTS_MAX are open), PARLEY_E_NO_MEMORY. */
PARLEY_API int parley_mad_post(parley_mad* port, const struct parley_mad_request* request, uint64_t* id);

/** One descriptor for the caller's own loop: poll(2), epoll(7), select(2).
 *
 * It is readable when parley_mad_progress() has something to do, timers and requests that were just posted included, so no time
 * limit is needed. It is the port's: wait on it, and do nothing else with it.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_NO_SPACE (of descriptors). */
PARLEY_API int parley_mad_fd(parley_mad* port);

/** Sends, receives and looks at the clock, and does not wait.
 *
 * Returns 1 if anything was done or replies wait to be taken, 0 if not. Take the replies afterwards.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_PEER_CLOSED (the simulator is gone), PARLEY_E_IO (the device is gone), after either of which
 * every open request has ended and the port is to be closed; PARLEY_E_NO_MEMORY. */
PARLEY_API int parley_mad_progress(parley_mad* port);

/** Takes the reply to one that was posted and is done, in the order in which they were done.
 *
 * Returns 1, or 0 when there is none; out->status says whether there is an answer. `out->size` is to be set, as
 * PARLEY_MAD_REPLY_INIT does.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_NO_MEMORY (the reply stays). */
PARLEY_API int parley_mad_poll(parley_mad* port, struct parley_mad_reply* out);

/** Ends a posted request; its reply comes from parley_mad_poll() all the same, with PARLEY_E_CANCELLED.
 *
 * One that is done already stays as it is.
 *
 * Errors: PARLEY_E_BAD_HANDLE (the port, or a request that was never posted or whose reply was taken). */
PARLEY_API int parley_mad_cancel(parley_mad* port, uint64_t id);

/** The name of a fault: "timeout".
 *
 * The text has static lifetime; "unknown" for a number that is none. */
PARLEY_API const char* parley_mad_fault_name(uint32_t fault);

/* ---- members of structures --------------------------------------------------------------------------------------
 * By the names of parley/wire/mad*.h: "PortInfo" and "lid", "NodeRecord" and "node_info.num_ports", "service_data8[3]". */

/** How many octets a structure has.
 *
 * Errors: PARLEY_E_INVALID_ARGUMENT (there is none of that name). */
PARLEY_API int parley_mad_size(const char* structure);

/** Reads a member that is a number of at most 64 bits.
 *
 * `octets` are the structure's, `length` of them at least as many as it has.
 *
 * Errors: PARLEY_E_INVALID_ARGUMENT (no such structure or member, too few octets, or a GID, text or octets: parley_mad_text() has those). */
PARLEY_API int parley_mad_get(const char* structure, const void* octets, size_t length, const char* member,
                              uint64_t* out);

/** Sets a member: "lid=5", "mtu=2048", "node_guid=0x2c90300001491", "sgid=fe80::1".
 *
 * The other octets stay as they are.
 *
 * Errors: PARLEY_E_INVALID_ARGUMENT (also a value that the member cannot have). */
PARLEY_API int parley_mad_set(const char* structure, void* octets, size_t length, const char* assignment);

/** Writes a member as text: "active (4)", "fe80::1", "H00001"; with a null `member` the whole structure in lines "name=value".
 *
 * At most `size` octets, the zero at the end included, which is always there if `size` is not 0. Returns the length of the
 * whole text, as snprintf(3) does; `to` may be null if `size` is 0.
 *
 * Errors: PARLEY_E_INVALID_ARGUMENT. */
PARLEY_API int parley_mad_text(const char* structure, const void* octets, size_t length, const char* member, char* to,
                               size_t size);

#ifdef __cplusplus
}
#endif

#endif
