/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One direction of a TCP connection put back in order (RFC 9293 §3.4, §3.10.7.4), on the first pass only. Octets are
 * handed on once, in sequence; the first copy of an octet wins; what the capture lacks is handed on as a hole.
 * Wireshark's own reordering is a preference that is off by default, and TCP then hands on no segment that it calls
 * out of order or a retransmission, so that the order must be made here. */
#ifndef PARLEY_STREAM_H
#define PARLEY_STREAM_H

#include "parley_compat.h"

/* Bounds: of what waits behind a hole, in each direction. */
#define PARLEY_HELD_OCTETS_MAX (2u << 20)
#define PARLEY_HELD_SEGMENTS_MAX 2048u
/* A hole that the receiver has acknowledged is the capture's, not TCP's. It is given up after so many further packets,
 * which leaves room for captures whose packets are slightly out of order. */
#define PARLEY_HOLE_PATIENCE 16u
/* A sequence number that far ahead belongs to nobody. */
#define PARLEY_ABSURD_DISTANCE (1 << 28)

typedef struct parley_tcp_segment {
  guint32 frame;
  guint32 seq;      /* raw */
  guint32 length;   /* on the wire */
  guint32 captured; /* of these, in the capture */
  const guint8* data;
  guint32 ack; /* raw; with has_ack */
  gboolean has_ack;
  gboolean start; /* it begins a TCP segment: the end of a trimmed one does not */
  gboolean again; /* octets before it in its segment had come: its acknowledgment may be theirs */
  gboolean held;  /* its octets came in an earlier frame than the one that is being dissected */
} parley_tcp_segment;

typedef struct parley_held parley_held;

typedef struct parley_stream {
  gboolean synced;
  guint32 next_seq;
  guint64 position; /* octets handed on so far, holes included */
  guint64 acked;    /* position up to which the other side acknowledged */
  guint32 waited;
  parley_held *first, *last; /* by position */
  guint32 held_segments;
  guint64 held_octets;
} parley_stream;

typedef struct parley_stream_sink {
  void (*octets)(void* context, const parley_tcp_segment* part);
  /* `cut`: by the capture's snap length. */
  void (*hole)(void* context, guint32 octets, gboolean cut, const parley_tcp_segment* shown_by);
  void* context;
} parley_stream_sink;

typedef enum {
  PARLEY_SEGMENT_EMPTY,
  PARLEY_SEGMENT_IN_ORDER,
  PARLEY_SEGMENT_AHEAD,
  PARLEY_SEGMENT_REPEATED,
  PARLEY_SEGMENT_KEEP_ALIVE,
  PARLEY_SEGMENT_ABSURD
} parley_tcp_class;

/* The next octet of this direction has this sequence number. */
void parley_stream_sync(parley_stream* stream, guint32 seq);
/* The same, and so many octets stand before it that the capture lacks. */
void parley_stream_sync_behind(parley_stream* stream, guint32 seq, guint32 before);
parley_tcp_class parley_stream_add(parley_stream* stream, const parley_tcp_segment* segment,
                                   const parley_stream_sink* sink);
/* The other side acknowledged; call for each packet of the connection that has an acknowledgment. */
void parley_stream_acked(parley_stream* stream, guint32 ack, const parley_tcp_segment* by,
                         const parley_stream_sink* sink);
/* The next octet is one so many octets back, which may lie before the first that was known of. */
void parley_stream_rewind(parley_stream* stream, guint32 back);
/* What the other side acknowledged and the capture lacks will not be waited for. */
void parley_stream_skip_acked(parley_stream* stream);
/* Position of a sequence number, 0 if it lies before the first octet. */
guint64 parley_stream_position_of(const parley_stream* stream, guint32 seq);
guint32 parley_stream_seq_of(const parley_stream* stream, guint64 position);

#endif
