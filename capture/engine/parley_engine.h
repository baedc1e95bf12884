/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* The judgement of `parley pcap check` for programs in C that read captures themselves and show what they read: packets go in one by
 * one, in file order, and connections, links between messages and findings come out. Plain C11. No function throws, and none keeps a
 * pointer into the packet. What it returns lives until parley_engine_close(). One engine is used by one thread at a time.
 *
 * Bounds: connections that are followed at one time and what is remembered of each are those of capture/analyzer.hpp; of connections
 * PARLEY_ENGINE_CONNECTIONS_MAX are handed out, and PARLEY_ENGINE_FINDINGS_MAX octets of findings kept. */
#ifndef PARLEY_ENGINE_H
#define PARLEY_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define PARLEY_ENGINE_NOEXCEPT noexcept
extern "C" {
#else
#define PARLEY_ENGINE_NOEXCEPT
#endif

enum {
  PARLEY_ENGINE_CONNECTIONS_MAX = 1 << 18,
  PARLEY_ENGINE_FINDINGS_MAX = 64 << 20,
  PARLEY_ENGINE_CM_KINDS = 11, /* REQ to APR, in the order of their attributes */
};

typedef struct parley_engine parley_engine;

typedef struct parley_engine_options {
  bool no_icrc; /* RoCE: the ICRC is not looked at */
} parley_engine_options;

/* NULL: there is no memory for it. */
parley_engine* parley_engine_open(const parley_engine_options* options) PARLEY_ENGINE_NOEXCEPT;
/* NULL is allowed. */
void parley_engine_close(parley_engine* engine) PARLEY_ENGINE_NOEXCEPT;

typedef enum {
  PARLEY_ENGINE_OK,
  /* It ran out of memory, now or before: what was handed out stays, and nothing is added. */
  PARLEY_ENGINE_NO_MEMORY,
} parley_engine_status;

/* ------------------------------------------------------------------ findings */

typedef enum { PARLEY_ENGINE_NOTE, PARLEY_ENGINE_WARNING, PARLEY_ENGINE_ERROR } parley_engine_severity;

typedef struct parley_engine_finding {
  const struct parley_engine_finding* next; /* of the same frame, in the order in which they were found */
  uint64_t frame;                           /* where it is */
  uint64_t found;                           /* the packet that proved it; UINT64_MAX: the end of the capture */
  parley_engine_severity severity;
  const char* rule;   /* id of parley/wire/rules.h, "ib.tver"; NULL: a known departure */
  const char* quirk;  /* "takes-path-mtu"; NULL: none. The first of a connection alone has a text. */
  const char* clause; /* "IBA §9.2" */
  const char* text;   /* a sentence that names who did it; NULL: as above */
} parley_engine_finding;

/* NULL: none. A frame may get findings later on, by what follows it. */
const parley_engine_finding* parley_engine_findings(const parley_engine* engine, uint64_t frame) PARLEY_ENGINE_NOEXCEPT;
/* The packet before this call was the last one: what only the end shows is found. What is pushed afterwards is not looked at. */
parley_engine_status parley_engine_finish(parley_engine* engine) PARLEY_ENGINE_NOEXCEPT;

/* ------------------------------------------------------------------ RoCE and InfiniBand */

typedef enum {
  PARLEY_ENGINE_LINK, /* InfiniBand's own: LRH, or LRH and GRH */
  PARLEY_ENGINE_ROCE_V1,
  PARLEY_ENGINE_ROCE_V2_IPV4,
  PARLEY_ENGINE_ROCE_V2_IPV6,
} parley_engine_carriage;

/* A packet of InfiniBand's transport in the octets of a frame. Offsets are those in `octets`. */
typedef struct parley_engine_packet {
  uint64_t frame;
  int64_t at; /* nanoseconds; only differences count */
  const uint8_t* octets;
  size_t captured; /* so many octets are there */
  size_t below;    /* where the ICRC begins to count: LRH without GRH, GRH, IP header */
  size_t bth, end; /* `end`: behind the ICRC, on the wire; at most 65,535 behind `bth` */
  bool plain;      /* no options or extension headers stand between: there is an ICRC to be made */
  parley_engine_carriage carriage;
  uint8_t source[16], destination[16]; /* GIDs; IPv4 as ::ffff:a.b.c.d */
  uint16_t source_port;                /* of RoCEv2 */
} parley_engine_packet;

/* False: octets of it are missing. `out`: the value that the field holds, read least significant octet first. */
bool parley_engine_icrc(const parley_engine_packet* packet, uint32_t* out) PARLEY_ENGINE_NOEXCEPT;

/* The messages of one kind that one side sent. */
typedef struct parley_engine_sent {
  uint64_t frame, copies; /* the first of them, 0: none was seen; how many are the same as it */
  uint64_t answer;        /* the first answer; 0: none was seen */
  uint64_t digest;
  int64_t at;
} parley_engine_sent;

/* Of MPA connections without what they agreed on. */
typedef enum {
  PARLEY_ENGINE_OPEN, /* it is not over yet */
  PARLEY_ENGINE_ESTABLISHED,
  PARLEY_ENGINE_REJECTED,
  PARLEY_ENGINE_FAILED,
  PARLEY_ENGINE_INCOMPLETE,
  PARLEY_ENGINE_NOT_CAPTURED,
} parley_engine_outcome;

/* A REQ or SIDR_REQ and all that belongs to it, or data of queue pairs that no message of the CM named. It changes as packets come.
 * By side where there are two: 0 the initiator, 1 the responder. */
typedef struct parley_engine_connection {
  uint32_t number; /* of those with messages of the CM, from 1; 0: it has none */
  uint8_t service; /* PARLEY_IB_SERVICE_* */
  bool service_known, sidr;
  char service_name[24]; /* "tcp:7174"; empty: not known */
  uint8_t address[2][16];
  uint32_t qpn[2]; /* 0: not known */
  uint64_t first_frame, last_frame;
  uint64_t packets[2], octets[2]; /* of data; payload */
  uint64_t errors, warnings;
  uint64_t naks, rnr_naks;
  parley_engine_outcome outcome;
  const char* verdict; /* "passed", "partial" or "failed", known at the end; "": not yet */
  const char* reason;  /* why it is no other; "" */
  parley_engine_sent sent[2][PARLEY_ENGINE_CM_KINDS];
} parley_engine_connection;

/* What is made of one packet. */
typedef struct parley_engine_place {
  const parley_engine_connection* connection; /* NULL: of none, or of one beyond those that are handed out */
  uint8_t from;                               /* 0 the initiator, 1 the responder */
  bool named;                                 /* the name of the connection's service is known by now */
  bool icrc_known;                            /* all octets are there: `icrc` is due, as of parley_engine_icrc() */
  uint32_t icrc;
  /* Of a message of the CM: */
  bool message;
  uint64_t first, copy; /* one sent again: the frame of the first, and which it is, from 2; else 0 and 1 */
  uint64_t request;     /* the frame of what it answers; 0: nothing, or not in the capture */
  int64_t request_at;
  const parley_engine_finding* const* late; /* findings in frames before this one that it proved */
  size_t late_count;                        /* good until the next packet */
} parley_engine_place;

parley_engine_status parley_engine_roce(parley_engine* engine, const parley_engine_packet* packet,
                                        parley_engine_place* out) PARLEY_ENGINE_NOEXCEPT;

/* In the order in which they were first seen. */
size_t parley_engine_connections(const parley_engine* engine) PARLEY_ENGINE_NOEXCEPT;
const parley_engine_connection* parley_engine_connection_at(const parley_engine* engine,
                                                            size_t index) PARLEY_ENGINE_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
