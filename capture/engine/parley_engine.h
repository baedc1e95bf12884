/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* The checks of `parley pcap check` for C programs that read and display captures themselves. The program pushes
 * packets one by one, in file order. The engine reports connections, links between messages, and findings. Plain C11.
 * No function throws, and none keeps a pointer into the packet. Returned objects are valid until
 * parley_engine_close(). Only one thread at a time may use an engine.
 *
 * Bounds: capture/analyzer.hpp limits the connections followed at one time and the state of each. The engine reports at
 * most PARLEY_ENGINE_CONNECTIONS_MAX connections and keeps PARLEY_ENGINE_FINDINGS_MAX octets of findings. */
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
  bool no_icrc; /* RoCE: do not check the ICRC */
} parley_engine_options;

/* NULL: out of memory. */
parley_engine* parley_engine_open(const parley_engine_options* options) PARLEY_ENGINE_NOEXCEPT;
/* NULL is allowed. */
void parley_engine_close(parley_engine* engine) PARLEY_ENGINE_NOEXCEPT;

typedef enum {
  PARLEY_ENGINE_OK,
  /* The engine ran out of memory, in this call or an earlier one. Returned objects stay valid; nothing is added. */
  PARLEY_ENGINE_NO_MEMORY,
} parley_engine_status;

/* ------------------------------------------------------------------ findings */

typedef enum { PARLEY_ENGINE_NOTE, PARLEY_ENGINE_WARNING, PARLEY_ENGINE_ERROR } parley_engine_severity;

typedef struct parley_engine_finding {
  const struct parley_engine_finding* next; /* next finding of the same frame, in the order of discovery; NULL: none */
  uint64_t frame;                           /* the frame that the finding is about */
  uint64_t found;                           /* the frame that proved it; UINT64_MAX: the end of the capture */
  parley_engine_severity severity;
  const char* rule;   /* id of parley/wire/rules.h, "ib.tver"; NULL: a known departure */
  const char* quirk;  /* "takes-path-mtu"; NULL: none. Only the first one of a connection has a text. */
  const char* clause; /* "IBA §9.2" */
  const char* text;   /* a sentence that names the side; NULL: see `quirk` */
} parley_engine_finding;

/* The first finding of a frame; NULL: none. Later packets may add findings to the frame. */
const parley_engine_finding* parley_engine_findings(const parley_engine* engine, uint64_t frame) PARLEY_ENGINE_NOEXCEPT;
/* Ends the capture: adds the findings that only its end shows. Packets pushed afterwards are ignored. */
parley_engine_status parley_engine_finish(parley_engine* engine) PARLEY_ENGINE_NOEXCEPT;

/* ------------------------------------------------------------------ RoCE and InfiniBand */

typedef enum {
  PARLEY_ENGINE_LINK, /* InfiniBand's own: LRH, or LRH and GRH */
  PARLEY_ENGINE_ROCE_V1,
  PARLEY_ENGINE_ROCE_V2_IPV4,
  PARLEY_ENGINE_ROCE_V2_IPV6,
} parley_engine_carriage;

/* A packet of InfiniBand's transport in the octets of a frame. `below`, `bth` and `end` are offsets in `octets`. */
typedef struct parley_engine_packet {
  uint64_t frame;
  int64_t at; /* nanoseconds; only differences count */
  const uint8_t* octets;
  size_t captured; /* size of `octets` */
  size_t below;    /* first octet that the ICRC covers: the LRH if there is no GRH, else the GRH or the IP header */
  size_t bth, end; /* `end`: behind the ICRC, by the length on the wire; at most bth + 65,535 */
  bool plain;      /* no IP options or extension headers: the ICRC can be computed */
  parley_engine_carriage carriage;
  uint8_t source[16], destination[16]; /* GIDs; IPv4 as ::ffff:a.b.c.d */
  uint16_t source_port;                /* of RoCEv2 */
} parley_engine_packet;

/* Computes the ICRC. `out`: the value that the field must hold, read least significant octet first. False: the packet
 * is not `plain`, or octets of it are missing. */
bool parley_engine_icrc(const parley_engine_packet* packet, uint32_t* out) PARLEY_ENGINE_NOEXCEPT;

/* The messages of one kind that one side sent. */
typedef struct parley_engine_sent {
  uint64_t frame, copies; /* frame of the first one, 0: none was seen; number of those identical to it, with itself */
  uint64_t answer;        /* frame of the first answer; 0: none was seen */
  uint64_t digest;
  int64_t at;
} parley_engine_sent;

typedef enum {
  PARLEY_ENGINE_OPEN, /* not over yet */
  PARLEY_ENGINE_ESTABLISHED,
  PARLEY_ENGINE_REJECTED,
  PARLEY_ENGINE_FAILED,
  PARLEY_ENGINE_INCOMPLETE,
  PARLEY_ENGINE_NOT_CAPTURED,
} parley_engine_outcome;

/* A REQ or SIDR_REQ and all packets that belong to it, or data of queue pairs that no CM message named. It changes with
 * each packet. Arrays of two are indexed by side: 0 the initiator, 1 the responder. */
typedef struct parley_engine_connection {
  uint32_t number; /* counts the connections with CM messages, from 1; 0: it has no CM message */
  uint8_t service; /* PARLEY_IB_SERVICE_* */
  bool service_known, sidr;
  char service_name[24]; /* "tcp:7174"; empty: not known */
  uint8_t address[2][16];
  uint32_t qpn[2]; /* 0: not known */
  uint64_t first_frame, last_frame;
  uint64_t packets[2], octets[2]; /* data packets, and octets of their payload */
  uint64_t errors, warnings;
  uint64_t naks, rnr_naks;
  parley_engine_outcome outcome;
  const char* verdict; /* "passed", "partial" or "failed" once the connection has ended; "": not yet */
  const char* reason;  /* why it is not "passed"; "" */
  parley_engine_sent sent[2][PARLEY_ENGINE_CM_KINDS];
} parley_engine_connection;

/* The interpretation of one packet. */
typedef struct parley_engine_place {
  const parley_engine_connection* connection; /* NULL: none, or beyond PARLEY_ENGINE_CONNECTIONS_MAX */
  uint8_t from;                               /* 0 the initiator, 1 the responder */
  bool named;                                 /* the connection's service_name is known */
  bool icrc_known;                            /* `icrc` is the expected value, as from parley_engine_icrc() */
  uint32_t icrc;
  /* Only for a CM message: */
  bool message;
  uint64_t first, copy; /* a retransmission: frame of the first copy, and number of this one, from 2; else 0 and 1 */
  uint64_t request;     /* frame of the request that it answers; 0: none, or not in the capture */
  int64_t request_at;
  const parley_engine_finding* const* late; /* findings in other frames that this packet proved */
  size_t late_count;                        /* `late` is valid until the next packet */
} parley_engine_place;

parley_engine_status parley_engine_roce(parley_engine* engine, const parley_engine_packet* packet,
                                        parley_engine_place* out) PARLEY_ENGINE_NOEXCEPT;

/* The number of connections. Index 0 is the one that was seen first. */
size_t parley_engine_connections(const parley_engine* engine) PARLEY_ENGINE_NOEXCEPT;
const parley_engine_connection* parley_engine_connection_at(const parley_engine* engine,
                                                            size_t index) PARLEY_ENGINE_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
