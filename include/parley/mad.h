/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* InfiniBand's management datagrams for C programs, in libparley.so.1: requests by name or by number, to any port of the
 * subnet and to subnet administration, blocking or polled; and answers to the requests of others. docs/mad.md is an introduction; parley/wire/mad.h has the
 * structures and their members.
 *
 * The rules of parley.h apply: results below 0 are -PARLEY_E_..., parley_last_error() returns the message, handles are looked
 * up, structures begin with `size`, one thread at a time may use a port, and its handle is refused in a child of fork(2).
 * The differences are:
 *
 * Waiting. parley_mad_open() and parley_mad_call() wait; parley_mad_close() waits until a simulator has acknowledged it. The
 * other functions do not wait.
 *
 * Threads. The library starts none. The only exception is "umad" under ibsim's preloaded library, whose descriptors only a
 * separate thread can wait for.
 *
 * Bounds. A request ends after its time limit and its retries. At most PARLEY_MAD_REQUESTS_MAX requests of a port are open,
 * including those whose replies have not been taken.
 *
 * Incoming requests, traps and reports are dropped, unless parley_mad_serve() has registered for them. */
#ifndef PARLEY_MAD_H
#define PARLEY_MAD_H

#include "parley/parley.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A port of the subnet, through which requests are sent. */
typedef struct parley_mad parley_mad;

#define PARLEY_MAD_REQUESTS_MAX 16384
#define PARLEY_MAD_NO_RETRIES 0xFFFFFFFFu

struct parley_mad_opts {
  uint32_t size;
  uint32_t window;     /* requests in flight at once, at most 1024; 0: 16 */
  uint32_t timeout_ms; /* for the answer to the first try; doubled for each retry; 0: 1 s */
  uint32_t retries;    /* retransmissions of a request, at most 255; 0: 3; or PARLEY_MAD_NO_RETRIES */
  uint64_t m_key;      /* for subnet management requests */
  uint64_t sm_key;     /* for requests to subnet administration */
  uint64_t table_max;  /* largest answer in octets of data; a longer one is PARLEY_MAD_FAULT_NO_SPACE; 0: 64 MiB */
};
#define PARLEY_MAD_OPTS_INIT \
  { sizeof(struct parley_mad_opts), 0, 0, 0, 0, 0, 0 }

/** Opens a port.
 *
 * `where` selects it:
 * "ibsim:NAME/NODE" is a node of a subnet that ibsim or `parley fabric` simulates. NAME or /NODE may be omitted; the
 * defaults are $IBSIM_SOCKNAME or "sim", and $SIM_HOST or the first node.
 * "umad:DEVICE/PORT" is a device of this machine. Either part may be omitted: the first active one.
 * "roce:ADDRESS" is QP1 of Parley's RoCE engine at an address of this machine, over UDP port 4791; with the suffix "/qp" it
 * is a UD queue pair there.
 * "verbs:DEVICE/GID" is a UD queue pair of a RoCE device, at the GID with that index. Either part may be omitted: the best
 * GID.
 * Null: a simulated port if these variables are set, else a device. This call blocks, for a simulator some seconds at most.
 * `opts` may be null.
 *
 * Errors: PARLEY_E_INVALID_ARGUMENT, PARLEY_E_UNREACHABLE (no such simulator, node, device, port or address, no permission,
 * or built without libibumad or libibverbs: the message says which), PARLEY_E_NO_SPACE (256 are open), PARLEY_E_NO_MEMORY. */
PARLEY_API int parley_mad_open(parley_mad** out, const char* where, const struct parley_mad_opts* opts);

/** Closes a port. Requests in flight end, and their answers are discarded.
 *
 * Errors: PARLEY_E_BAD_HANDLE. */
PARLEY_API int parley_mad_close(parley_mad* port);

struct parley_mad_attr {
  uint32_t size;
  uint32_t port;     /* its port number on the node */
  uint16_t lid;      /* 0: it has none yet */
  uint16_t sm_lid;   /* LID of the subnet manager, and of subnet administration; 0: unknown */
  uint8_t sm_sl;     /* service level of the path to it */
  uint8_t lmc;       /* the port has 2^lmc LIDs */
  uint16_t rmpp;     /* not 0: the device or simulator does RMPP; 0: Parley does it */
  uint32_t requests; /* open requests, including those whose replies have not been taken */
  uint32_t reserved; /* must be 0 */
  uint64_t node_guid;
  uint64_t port_guid;
  uint8_t gid[16]; /* GID 0 */
};
#define PARLEY_MAD_ATTR_INIT                                            \
  {                                                                     \
    sizeof(struct parley_mad_attr), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, { 0 } \
  }

/** Reports the attributes of the port.
 *
 * Set `out->size` first, as PARLEY_MAD_ATTR_INIT does.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT. */
PARLEY_API int parley_mad_query(parley_mad* port, struct parley_mad_attr* out);

/* ---- requests --------------------------------------------------------------------------------------------------- */

/* All members are copied during the call. */
struct parley_mad_request {
  uint32_t size;
  uint32_t modifier; /* attribute modifier */
  const char*
      method; /* "SubnGet", "SubnAdmGetTable", "PerformanceGet", ...; null: mgmt_class, method_number and attribute_number */
  const char* attribute;  /* "NodeInfo", "PathRecord", ...: an attribute of the method */
  const char* path;       /* "5", "0,1,3", "fe80::2:c903:0:1491", "0002:c903:0000:1491", "IBPath(DLID=5,SL=2)", ...:
                              docs/mad.md, Paths; null: the port's subnet administration */
  const char* const* set; /* `set_count` texts "member=value" for the body and the component mask: "slid=1",
                              "node_info.num_ports=36", "service_data8[3]=1", also "modifier=1" and "key=1" */
  uint32_t set_count;
  uint32_t body_length; /* octets of `body`: the attribute's size (parley_mad_size()); by numbers: at most what fits */
  const void* body;     /* the attribute's octets, before `set`; null: zeros */
  uint64_t component_mask; /* for subnet administration; `set` adds its bits */
  uint64_t key;            /* B_Key or CC_Key */
  uint32_t mgmt_class;     /* by numbers: 0x01 (also for a directed route), 0x03, ... 0x4F */
  uint16_t method_number;  /* 1 to 0x7F */
  uint16_t attribute_number;
  uint32_t oui;           /* 24 bits, for a vendor class that has one */
  uint32_t timeout_ms;    /* 0: the port's setting */
  uint32_t retries;       /* 0: the port's setting; or PARLEY_MAD_NO_RETRIES */
  uint32_t reserved;      /* must be 0 */
  void* user;             /* returned in the reply */
  uint32_t class_version; /* by numbers: 0: the class's; for applications (0x10 to 0x2F), which have their own, 1 */
  uint32_t reserved2;     /* must be 0 */
};
#define PARLEY_MAD_REQUEST_INIT \
  { sizeof(struct parley_mad_request), 0, NULL, NULL, NULL, NULL, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0 }

/* Why there is no answer, or no usable one. */
enum parley_mad_fault {
  PARLEY_MAD_FAULT_NONE = 0,
  PARLEY_MAD_FAULT_TIMEOUT = 1, /* no answer */
  PARLEY_MAD_FAULT_BUSY = 2,    /* the responder stayed busy */
  PARLEY_MAD_FAULT_STATUS = 3,  /* mad_status is an error */
  PARLEY_MAD_FAULT_CLASS_STATUS =
      4, /* the upper octet of mad_status is an error; subnet administration: 3 is "no records" */
  PARLEY_MAD_FAULT_MALFORMED = 5, /* the answer does not match the request */
  PARLEY_MAD_FAULT_CUT =
      6, /* only one datagram of a table arrived: the layer below does no RMPP. Its records are available */
  PARLEY_MAD_FAULT_RMPP = 7,     /* a segmented transfer (RMPP) was aborted */
  PARLEY_MAD_FAULT_REFUSED = 8,  /* it could not be sent */
  PARLEY_MAD_FAULT_REDIRECT = 9, /* redirected to a target that cannot be used */
  PARLEY_MAD_FAULT_REDIRECT_LOOP = 10,
  PARLEY_MAD_FAULT_CANCELLED = 11, /* by parley_mad_cancel(), or because the simulator or device is gone */
  PARLEY_MAD_FAULT_DEADLINE = 12,
  PARLEY_MAD_FAULT_NO_SPACE = 13,
  PARLEY_MAD_FAULT_INVALID = 14 /* not a valid request */
};

/* The pointers are valid until the port's next parley_mad_call(), parley_mad_poll() or parley_mad_close(). */
struct parley_mad_reply {
  uint32_t size;
  int32_t status;         /* 0, or -PARLEY_E_...: why there is no answer */
  uint64_t id;            /* from parley_mad_post(); 0 for parley_mad_call() */
  void* user;             /* the request's */
  const uint8_t* records; /* the attribute, or the first record of a table; null: none */
  const char* structure;  /* type of each record, for parley_mad_get(): "PortInfo"; null: unknown */
  uint32_t count;         /* number of records: 1, or a table's */
  uint32_t stride;        /* octets between the starts of two records, at least the size of the structure */
  const uint8_t* mad;     /* the whole answer: 256 octets, or a table's headers and records; null: none arrived */
  uint32_t mad_length;
  uint32_t fault;          /* enum parley_mad_fault */
  uint32_t mad_status;     /* the answer's 16 bits, without a directed route's D bit */
  uint32_t tries;          /* transmissions, if there is no answer */
  const char* status_text; /* describes mad_status: "no records"; empty if it is 0 */
  const char* path; /* the path without an answer: "IBPath(DLID=5)"; empty if there is an answer, or nothing was sent */
  const char* error; /* "SubnGet(NodeInfo) to LID 5: no answer in 4 tries"; empty if there is an answer */
};
#define PARLEY_MAD_REPLY_INIT \
  { sizeof(struct parley_mad_reply), 0, 0, NULL, NULL, NULL, 0, 0, NULL, 0, 0, 0, 0, NULL, NULL, NULL }

/** Sends a request and waits for its answer.
 *
 * Posted requests continue meanwhile; take their replies with parley_mad_poll(). `reply` may be null. Otherwise set its
 * `size` first, as PARLEY_MAD_REPLY_INIT does; it is also filled if the call fails after the request was accepted. Returns 0,
 * or reply->status. This call blocks.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT (the request or the reply: the message lists the known names),
 * PARLEY_E_TIMED_OUT, PARLEY_E_MAD_STATUS, PARLEY_E_MAD_NO_RECORDS, PARLEY_E_MAD_CUT, PARLEY_E_PROTOCOL (malformed, or RMPP
 * was aborted), PARLEY_E_UNREACHABLE (refused, or an unusable redirection), PARLEY_E_PEER_CLOSED (the simulator is gone),
 * PARLEY_E_IO (the device is gone), PARLEY_E_WRONG_STATE (no subnet administration is known), PARLEY_E_NO_SPACE,
 * PARLEY_E_NO_MEMORY. */
PARLEY_API int parley_mad_call(parley_mad* port, const struct parley_mad_request* request,
                               struct parley_mad_reply* reply);

/** Posts a request; parley_mad_poll() returns its reply.
 *
 * parley_mad_progress() sends requests in the order in which they were posted, as soon as the window has room. `id` may be
 * null.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_WRONG_STATE (no subnet administration is known),
 * PARLEY_E_PEER_CLOSED, PARLEY_E_IO, PARLEY_E_NO_SPACE (PARLEY_MAD_REQUESTS_MAX are open), PARLEY_E_NO_MEMORY. */
PARLEY_API int parley_mad_post(parley_mad* port, const struct parley_mad_request* request, uint64_t* id);

/** A descriptor for the program's event loop: poll(2), epoll(7), select(2).
 *
 * It is readable when parley_mad_progress() has work to do. This includes timers and requests just posted, so the loop needs
 * no timeout. The descriptor belongs to the port: only wait on it.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_NO_SPACE (no descriptors are left). */
PARLEY_API int parley_mad_fd(parley_mad* port);

/** Sends, receives and checks timers, without waiting.
 *
 * Returns 1 if it did any work or replies are pending, 0 if not. Take the replies afterwards.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_PEER_CLOSED (the simulator is gone), PARLEY_E_IO (the device is gone),
 * PARLEY_E_NO_MEMORY. After PEER_CLOSED and IO all open requests have ended; close the port. */
PARLEY_API int parley_mad_progress(parley_mad* port);

/** Takes the reply to a posted request, in the order of completion.
 *
 * Returns 1, or 0 if no reply is pending; out->status reports whether there is an answer. Set `out->size` first, as
 * PARLEY_MAD_REPLY_INIT does.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_NO_MEMORY (the reply stays queued). */
PARLEY_API int parley_mad_poll(parley_mad* port, struct parley_mad_reply* out);

/** Cancels a posted request; parley_mad_poll() still returns its reply, with PARLEY_E_CANCELLED.
 *
 * A request that is already complete is not changed.
 *
 * Errors: PARLEY_E_BAD_HANDLE (the port; a request that was never posted, or whose reply has been taken). */
PARLEY_API int parley_mad_cancel(parley_mad* port, uint64_t id);

/* ---- answers ------------------------------------------------------------------------------------------------------ */

#define PARLEY_MAD_INCOMING_MAX 256

/* Which requests of others a port receives. */
struct parley_mad_service {
  uint32_t size;
  uint32_t mgmt_class;    /* 0x10 to 0x2F: an application; 0x09 to 0x0F, 0x30 to 0x4F: a vendor; 0x03, ... */
  uint32_t class_version; /* 0: the class's; 1 for applications, which have their own */
  uint32_t oui;           /* 24 bits, for a vendor class that has one */
  uint64_t methods[2];    /* bit n % 64 of methods[n / 64]: method n, 1 to 0x7F; both 0: Get and Set */
};
#define PARLEY_MAD_SERVICE_INIT                          \
  {                                                      \
    sizeof(struct parley_mad_service), 0, 0, 0, { 0, 0 } \
  }

/** Registers for requests, traps and reports of others, which parley_mad_receive() returns from then on.
 *
 * A port can register for several classes, and again for one with other methods. On umad, each registration for a new method
 * takes one of the 32 agents of the port, and a class with an OUI has version 1. Requests that it has not registered for are
 * dropped without an answer, as by the kernel.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_NOT_PERMITTED (another program has registered; ibsim, which
 * delivers requests to no program), PARLEY_E_UNSUPPORTED (the class version), PARLEY_E_PEER_CLOSED, PARLEY_E_IO,
 * PARLEY_E_NO_SPACE (64 registrations, or no agent is left), PARLEY_E_NO_MEMORY. */
PARLEY_API int parley_mad_serve(parley_mad* port, const struct parley_mad_service* service);

/* The pointers are valid until the port's next parley_mad_receive() or parley_mad_close(), or until the request is answered. */
struct parley_mad_incoming {
  uint32_t size;
  uint32_t mgmt_class;
  uint64_t id; /* for parley_mad_respond() */
  uint32_t class_version;
  uint32_t oui; /* 0 if the class has none */
  uint16_t method;
  uint16_t attribute;
  uint32_t modifier; /* attribute modifier */
  uint64_t transaction_id;
  const uint8_t* body;   /* the attribute, and what follows it */
  const char* structure; /* the attribute's type, for parley_mad_get(); null: unknown, or the body is too short */
  const uint8_t* mad;    /* the whole datagram of 256 octets, or the message if it came in segments */
  uint32_t body_length;
  uint32_t mad_length;
  const char* path; /* to the requester, for a request to it: "IBPath(DLID=5,dqpn=1)" */
  uint32_t qpn;     /* the requester's queue pair */
  uint16_t lid;     /* its LID; 0 over RoCE */
  uint16_t pkey;    /* P_Key of the packet */
  uint8_t gid[16];  /* its GID; zeros if the packet had no GRH */
  uint32_t answers; /* 0: the method has no answer (Send); parley_mad_respond() is not needed */
  uint32_t reserved;
};
#define PARLEY_MAD_INCOMING_INIT \
  { sizeof(struct parley_mad_incoming), 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 0, 0, NULL, 0, 0, 0, {0}, 0, 0 }

/** Takes the next request of another port. parley_mad_progress() receives them; parley_mad_fd() is readable while there are any.
 *
 * Returns 1, or 0 if there is none. Set `out->size` first, as PARLEY_MAD_INCOMING_INIT does. Up to PARLEY_MAD_INCOMING_MAX
 * requests can be without an answer; answer or drop each. Further ones wait; if as many wait, the next are dropped. A request
 * that its sender retransmits before the answer arrives is returned again, with another id.
 *
 * Errors: PARLEY_E_BAD_HANDLE, PARLEY_E_INVALID_ARGUMENT, PARLEY_E_NO_SPACE (PARLEY_MAD_INCOMING_MAX are unanswered),
 * PARLEY_E_PEER_CLOSED, PARLEY_E_IO, PARLEY_E_NO_MEMORY (the request stays queued). */
PARLEY_API int parley_mad_receive(parley_mad* port, struct parley_mad_incoming* out);

struct parley_mad_response {
  uint32_t size;
  uint32_t status; /* 0, or why the request is refused: IBA 13.4.7, 16 bits; busy is 1, unsupported method 8, ... */
  const void*
      body; /* the attribute's octets, or the records of a table; null: with a status the request's, else zeros */
  uint64_t
      body_length; /* more than fits into a datagram: by RMPP, for GetTable, GetTraceTable and GetMulti of a class with RMPP */
  uint32_t record_size; /* octets of each record in `body`, for a table of subnet administration */
  uint32_t reserved;    /* must be 0 */
};
#define PARLEY_MAD_RESPONSE_INIT \
  { sizeof(struct parley_mad_response), 0, NULL, 0, 0, 0 }

/** Answers a request, or drops it if `response` is null.
 *
 * The answer has the request's headers. It is sent by parley_mad_progress(). A table, and every answer to such a method of a
 * vendor class with an OUI, goes by RMPP, which retransmits lost segments.
 *
 * Errors: PARLEY_E_BAD_HANDLE (the port; no such request, or it is answered), PARLEY_E_INVALID_ARGUMENT (the body is too long;
 * the method has no answer; an error for a trap), PARLEY_E_NO_SPACE (too many answers wait to be sent: the request stays),
 * PARLEY_E_PEER_CLOSED, PARLEY_E_IO, PARLEY_E_NO_MEMORY. */
PARLEY_API int parley_mad_respond(parley_mad* port, uint64_t id, const struct parley_mad_response* response);

/** The name of a fault: "timeout".
 *
 * The text has static lifetime; "unknown" for any other number. */
PARLEY_API const char* parley_mad_fault_name(uint32_t fault);

/* ---- members of structures --------------------------------------------------------------------------------------
 * Named as in parley/wire/mad*.h: "PortInfo" and "lid", "NodeRecord" and "node_info.num_ports", "service_data8[3]". */

/** The size of a structure in octets.
 *
 * Errors: PARLEY_E_INVALID_ARGUMENT (no structure of that name). */
PARLEY_API int parley_mad_size(const char* structure);

/** Reads a member that is a number of at most 64 bits.
 *
 * `octets` points to the structure; `length` is at least its size.
 *
 * Errors: PARLEY_E_INVALID_ARGUMENT (no such structure or member, `length` is too small, or the member is a GID, text or
 * octets: use parley_mad_text() for these). */
PARLEY_API int parley_mad_get(const char* structure, const void* octets, size_t length, const char* member,
                              uint64_t* out);

/** Sets a member: "lid=5", "mtu=2048", "node_guid=0x2c90300001491", "sgid=fe80::1".
 *
 * The other members are not changed.
 *
 * Errors: PARLEY_E_INVALID_ARGUMENT (also an invalid value for the member). */
PARLEY_API int parley_mad_set(const char* structure, void* octets, size_t length, const char* assignment);

/** Writes a member as text: "active (4)", "fe80::1", "H00001"; with a null `member`, the whole structure as "name=value" lines.
 *
 * Writes at most `size` bytes, including the terminating zero, which is always written if `size` is not 0. Returns the
 * length of the whole text, like snprintf(3); `to` may be null if `size` is 0.
 *
 * Errors: PARLEY_E_INVALID_ARGUMENT. */
PARLEY_API int parley_mad_text(const char* structure, const void* octets, size_t length, const char* member, char* to,
                               size_t size);

#ifdef __cplusplus
}
#endif

#endif
